//! What the tests share: settings, all processors, and the report of a failure.

use flipop_sandbox::simulation::{self, Outcome, Plan, shrink};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number from the environment.
pub(crate) fn setting(name: &str, otherwise: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "how much is tested is the caller's decision")]
    let value = std::env::var(name);
    value.ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// Does `work` with every item, on all processors; the results in order.
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
    simulation::run(plan, false).unwrap()
}

/// Makes a failing plan small, keeps it in a file, and says how to see it.
pub(crate) fn report(plan: &Plan, problems: &[String], fails: impl Fn(&Plan) -> bool) -> String {
    let small = shrink(plan, fails);
    let name: String = plan.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.yaml"));
    std::fs::write(&path, small.to_yaml().unwrap()).unwrap();
    format!("{}:\n  {}\n  cargo sandbox replay {}", plan.name, problems.join("\n  "), path.display())
}
