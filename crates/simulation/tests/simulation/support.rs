//! Shared parts of the tests: settings, work on all processors, and the report of failures.

use flipop_simulation::{Outcome, Plan, shrink};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A text from the environment.
pub(crate) fn text(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "how much is tested is the caller's decision")]
    std::env::var(name).ok()
}

/// A number from the environment, or this default.
pub(crate) fn setting(name: &str, otherwise: usize) -> usize {
    text(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// Does `work` with every item, on all processors. Returns the results in the order of the items.
pub(crate) fn with_all<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, item)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|number| Some((number, items.get(number)?)))
                {
                    let result = work(item);
                    results.lock().unwrap().push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Plays a plan.
pub(crate) fn play(plan: &Plan) -> Outcome {
    flipop_simulation::run(plan, false).unwrap()
}

/// How many failures are shrunk. Each takes hundreds of runs.
const MADE_SMALL: usize = 2;

/// A plan that failed, and how.
pub(crate) struct Failure {
    pub(crate) plan: Plan,
    pub(crate) problems: Vec<String>,
}

/// Fails if any plan failed. Says what went wrong, and where the smallest plans that still fail are.
pub(crate) fn judge(played: usize, failures: &[Failure], fails: impl Fn(&Failure, &Plan) -> bool) {
    std::io::stderr().write_all(format!("{played} plans\n").as_bytes()).unwrap();
    let mut text = String::new();
    for Failure { plan, problems } in failures {
        writeln!(text, "{}:\n  {}", plan.name, problems.join("\n  ")).unwrap();
    }
    // Printed at once, because shrinking a plan takes minutes.
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    for failure in failures.iter().take(MADE_SMALL) {
        let small = shrink(&failure.plan, |plan| fails(failure, plan));
        writeln!(text, "{}:\n  cargo sandbox replay {}", failure.plan.name, keep(&small).display()).unwrap();
    }
    assert!(failures.is_empty(), "{} of {played} plans failed:\n{text}", failures.len());
}

fn keep(plan: &Plan) -> std::path::PathBuf {
    let name: String = plan.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.yaml"));
    std::fs::write(&path, plan.to_yaml().unwrap()).unwrap();
    path
}
