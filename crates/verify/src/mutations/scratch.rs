//! The copy in which mutations are applied and tested.

use super::Mutation;
use crate::run::{self, Ended};
use crate::{Doing, Failure, Outcome};
use fnv::FnvHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Files that every test depends on.
const OF_ALL: [&str; 3] = ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml"];

/// Files that some tests depend on as well: nothing else in the repository can change their results. Other tests may
/// depend on everything except `OF_NOTHING`.
const OF_SOME: [(&str, &[&str]); 3] = [
    ("--package flipop-core", &["crates/core/"]),
    ("--package flipop --lib", &["src/", "crates/core/src/"]),
    (
        "--package flipop-simulation --test simulation",
        &[
            "src/",
            "crates/apiserver/src/",
            "crates/cloud/src/",
            "crates/core/src/",
            "crates/simulation/",
            "crds/",
            "examples/",
            "k8s/",
        ],
    ),
];

/// Files that no mutation's test depends on.
const OF_NOTHING: [&str; 4] = ["crates/verify/", "docs/", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The result of a test run.
#[derive(Debug)]
pub(super) enum Tested {
    /// This many tests, all passed.
    Passed(u64),
    /// These failed.
    Failed(BTreeSet<String>),
    /// No result: it does not compile, hangs, or died silently.
    Broken(String),
}

/// A file as it was when the run began. Later edits count in the next run.
#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    mode: Permissions,
}

/// A copy of the working tree, including uncommitted changes.
#[derive(Debug)]
pub(super) struct Scratch {
    root: PathBuf,
    copy: PathBuf,
    log: PathBuf,
    files: BTreeMap<String, Content>,
    timeout: Duration,
}

impl Scratch {
    pub(super) fn new(root: &Path, timeout_s: u64) -> Outcome<Self> {
        let mut list = Command::new("git");
        list.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
        let mut files = BTreeMap::new();
        for file in run::told(&mut list)?.lines().filter(|file| root.join(file).is_file()) {
            let bytes = fs::read(root.join(file)).doing(format!("read {file}"))?;
            let mode = fs::metadata(root.join(file)).doing(format!("read {file}"))?.permissions();
            files.insert(file.to_owned(), Content { bytes, mode });
        }
        let folder = root.join("target/verify");
        let copy = folder.join("copy");
        fs::create_dir_all(&copy).doing("make the copy")?;
        let timeout = Duration::from_secs(timeout_s);
        Ok(Self { root: root.to_owned(), copy, log: folder.join("output.txt"), files, timeout })
    }

    /// Resets the copy to the repository's state at the start of the run. Unchanged files keep their times, so little
    /// is rebuilt.
    pub(super) fn restore(&self) -> Outcome<()> {
        for stray in self.strays()? {
            fs::remove_file(&stray).doing(format!("remove {}", stray.display()))?;
        }
        for (file, Content { bytes, mode }) in &self.files {
            let to = self.copy.join(file);
            if fs::read(&to).ok().as_ref() != Some(bytes) {
                fs::create_dir_all(to.parent().unwrap_or(&self.copy)).doing(format!("copy {file}"))?;
                // The original's time would be older than the build of a mutation.
                fs::write(&to, bytes).doing(format!("copy {file}"))?;
                fs::set_permissions(&to, mode.clone()).doing(format!("copy {file}"))?;
            }
        }
        Ok(())
    }

    /// Files that tests left in the copy, and files that are no longer in the repository.
    fn strays(&self) -> Outcome<Vec<PathBuf>> {
        let (mut strays, mut folders) = (Vec::new(), vec![self.copy.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).doing("read the copy")? {
                let path = entry.doing("read the copy")?.path();
                let relative = path.strip_prefix(&self.copy).unwrap_or(&path).to_string_lossy().into_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if !self.files.contains_key(&relative) {
                    strays.push(path);
                }
            }
        }
        Ok(strays)
    }

    /// Applies a mutation.
    pub(super) fn apply(&self, mutation: &Mutation) -> Outcome<()> {
        let Mutation { file, find, replace, .. } = mutation;
        let path = self.copy.join(file);
        let text = fs::read_to_string(&path).doing(format!("read {file}"))?;
        match text.matches(find.as_str()).count() {
            1 => fs::write(&path, text.replacen(find.as_str(), replace, 1)).doing(format!("write {file}")),
            count => {
                Err(Failure::Other(format!("the text to find occurs {count} times in {file}, not once")))
            }
        }
    }

    /// Builds and runs tests.
    pub(super) fn test(&self, tests: &str) -> Outcome<Tested> {
        let built = self.cargo(tests, true)?;
        if !built.succeeded() {
            return Ok(Tested::Broken(format!("does not build: {tests}\n{}", built.tail())));
        }
        let ran = self.cargo(tests, false)?;
        let failed = failed(&ran.output);
        Ok(match ran.status {
            Some(status) if status.success() => Tested::Passed(passed(&ran.output)),
            Some(_) if !failed.is_empty() => Tested::Failed(failed),
            Some(_) => Tested::Broken(format!("no test failed, yet cargo did: {tests}\n{}", ran.tail())),
            None => Tested::Broken(format!("still runs after {} s: {tests}", self.timeout.as_secs())),
        })
    }

    fn cargo(&self, tests: &str, only_build: bool) -> Outcome<Ended> {
        #[expect(clippy::disallowed_methods, reason = "cargo names itself to what it runs")]
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (options, filters) = tests.split_once(" -- ").unwrap_or((tests, ""));
        let mut command = Command::new(cargo);
        command.current_dir(&self.copy).args(["test", "--locked"]).args(options.split_whitespace());
        if only_build {
            command.arg("--no-run");
        } else {
            command.arg("--").args(filters.split_whitespace());
        }
        command.env("CARGO_TARGET_DIR", self.root.join("target/verify/target"));
        command.env("CARGO_TERM_COLOR", "never").env_remove("CARGO_MANIFEST_DIR");
        run::to_end(command, self.timeout, &self.log)
    }

    /// A hash that changes with the mutation and with every source that its tests depend on.
    pub(super) fn inputs(&self, mutation: &str, tests: &[String]) -> String {
        let mut hasher = FnvHasher::default();
        mutation.hash(&mut hasher);
        for (file, Content { bytes, .. }) in &self.files {
            if tests.iter().any(|tests| depends(tests, file)) {
                (file, bytes).hash(&mut hasher);
            }
        }
        format!("{:016x}", hasher.finish())
    }
}

/// Whether a file can change the tests' results.
fn depends(tests: &str, file: &str) -> bool {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| file.starts_with(prefix));
    let some = OF_SOME.iter().find(|(options, _)| tests.contains(options));
    starts(&OF_ALL) || some.map_or_else(|| !starts(&OF_NOTHING), |(_, parts)| starts(parts))
}

/// The tests that the output names as failed.
fn failed(output: &str) -> BTreeSet<String> {
    let name = |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned);
    output.lines().filter_map(name).collect()
}

/// The number of passed tests in the output.
fn passed(output: &str) -> u64 {
    let count = |line: &str| {
        let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
        rest.split_once(" passed")?.0.parse::<u64>().ok()
    };
    output.lines().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_read_by_name_and_passed_ones_counted() {
        let output = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\ntest result: FAILED. 1 passed; 1 \
                      failed; 0 ignored\nerror: test failed\ntest result: ok. 3 passed; 0 failed\n";
        assert_eq!(failed(output), BTreeSet::from(["a::c".to_owned()]));
        assert_eq!(passed(output), 4);
        assert_eq!((failed("error: could not compile"), passed("")), (BTreeSet::new(), 0));
    }

    #[test]
    fn a_result_is_about_the_sources_on_which_its_tests_depend() {
        let core = "--package flipop-core --test fleet -- pods::";
        let shell = "--package flipop --lib -- admin::";
        let (simulation, other) = (
            "--profile simulation --package flipop-simulation --test simulation",
            "--workspace --test apiserver",
        );
        for (file, on) in [
            ("Cargo.lock", [true, true, true, true]),
            ("crates/core/src/model/moment.rs", [true, true, true, true]),
            ("crates/core/tests/fleet/pods.rs", [true, false, false, true]),
            ("src/admin.rs", [false, true, true, true]),
            ("crates/simulation/tests/simulation/world.rs", [false, false, true, true]),
            ("tests/apiserver/main.rs", [false, false, false, true]),
            ("README.md", [false, false, false, true]),
            ("docs/README.md", [false; 4]),
        ] {
            assert_eq!([core, shell, simulation, other].map(|tests| depends(tests, file)), on, "{file}");
        }
    }
}
