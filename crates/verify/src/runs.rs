//! Long runs, in shards: more seeds, repetitions and minutes than CI has time for.
//!
//! A run is data (`crates/verify/runs.yaml`). The result of each shard is kept in `target/verify/runs.yaml` with the
//! command that repeats it. A shard that passed on exactly these sources is not run again.

use crate::mutants::{self, Count, Mutants};
use crate::run::{self, to_end};
use crate::{Failure, Outcome, say};
use clap::Args;
use fnv::FnvHasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The file of the runs.
const FILE: &str = "crates/verify/runs.yaml";

/// The file of the results.
const RESULTS: &str = "target/verify/runs.yaml";

/// The sources that a result is about, unless a run excludes some.
const SOURCES: [&str; 13] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "crates",
    "crds",
    "docs",
    "examples",
    "k8s",
    "monitoring",
    "src",
    "tests",
    ":!crates/verify",
    ":!docs/verification.md",
];

/// See the module.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only runs of these names.
    names: Vec<String>,
    /// Also shards that passed on exactly these sources.
    #[arg(long)]
    again: bool,
    /// Of shards that passed on exactly these sources, only mutants that were missed: new tests may notice them.
    #[arg(long, conflicts_with_all = ["again", "list"])]
    missed: bool,
    /// Only lists the runs and their known results.
    #[arg(long)]
    list: bool,
    /// Longest time for one shard, in seconds.
    #[arg(long, default_value_t = 7_200)]
    timeout_s: u64,
}

/// Something to run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    /// The claim that it shows.
    shows: String,
    /// Arguments of cargo; `{shard}` is the number of the shard, from 0.
    cargo: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default = "one")]
    shards: u32,
    /// Sources that do not affect it: folders, or `*` and the end of a name.
    #[serde(default)]
    without: Vec<String>,
    /// For a run of cargo-mutants: when it passes.
    mutants: Option<Mutants>,
    /// Output lines that contain one of these are kept.
    keep: Vec<String>,
}

fn one() -> u32 {
    1
}

/// The result of one shard.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    run: String,
    shows: String,
    shard: String,
    command: String,
    passed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mutants: Option<Count>,
    said: Vec<String>,
    date: String,
    commit: String,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Results {
    command: String,
    table: Vec<Row>,
}

impl Runs {
    /// True if every selected shard passed.
    pub(crate) fn run(&self) -> Outcome<bool> {
        let root = crate::root()?;
        let runs: Vec<Run> = crate::load(&root, FILE)?;
        let chosen = |run: &&Run| self.names.is_empty() || self.names.contains(&run.name);
        let chosen: Vec<&Run> = runs.iter().filter(chosen).collect();
        if chosen.is_empty() {
            return Err(Failure::Other(format!("no run is called {}", self.names.join(" or "))));
        }
        let (tree, commit) = tree(&root, !self.list)?;
        let mut results = load(&root)?;
        let mut good = true;
        for run in chosen {
            let now = fingerprint(&tree, &run.without);
            // An earlier result counts if the sources that affect the run were the same.
            let same = |row: &Row| {
                let then = tree_of(&root, &row.commit).map(|tree| fingerprint(&tree, &run.without));
                row.run == run.name && then.is_ok_and(|then| then == now)
            };
            for shard in 0..run.shards {
                let label = format!("{} of {}", shard.saturating_add(1), run.shards);
                let known = results.table.iter().find(|row| row.shard == label && row.passed && same(row));
                let passed = known.is_some();
                say(&format!("{} {label}: {}", run.name, if passed { "passed" } else { "due" }));
                let missed = known.filter(|_| self.missed).and_then(Row::missed);
                let due = if self.missed { missed.is_some() } else { self.again || !passed };
                if self.list || !due {
                    good &= passed;
                    continue;
                }
                let Told { passed, mutants, command, said } =
                    self.shard(&root, run, shard, missed.as_ref())?;
                good &= passed;
                // Another run may have added results meanwhile.
                results = load(&root)?;
                results.table.retain(|row| row.run != run.name || row.shard != label);
                let (run, shows) = (run.name.clone(), run.shows.clone());
                let (date, commit, shard) = (crate::today(), commit.clone(), label);
                results.table.push(Row { run, shows, shard, command, passed, mutants, said, date, commit });
                save(&root, &mut results)?;
            }
            if let Some(mutants) = &run.mutants {
                let rows = results.table.iter().filter(|row| same(row));
                good &= mutants.judge(&run.name, rows.filter_map(|row| row.mutants));
            }
        }
        Ok(good)
    }

    /// `before`: the mutants that the shard missed. Only these are retried.
    fn shard(&self, root: &Path, run: &Run, shard: u32, before: Option<&Missed>) -> Outcome<Told> {
        let number = shard.to_string();
        let fill = |text: &str| text.replace("{shard}", &number);
        let mut command = Command::new("cargo");
        let set: Vec<String> =
            run.env.iter().map(|(name, value)| format!("{name}={} ", fill(value))).collect();
        let text = format!("{}cargo {}", set.concat(), fill(&run.cargo));
        command.envs(run.env.iter().map(|(name, value)| (name, fill(value))));
        let mut args: Vec<String> = fill(&run.cargo).split_whitespace().map(str::to_owned).collect();
        if let Some(before) = before {
            let mut list = Command::new("cargo");
            let all = run::told(list.current_dir(root).args(mutants::listing(&args)))?;
            let lists = run.mutants.as_ref().map(|mutants| fill(&mutants.lists)).unwrap_or_default();
            mutants::count_as_caught(&all, &before.names, &root.join(lists))?;
            args = mutants::again(&args);
            say(&format!("  {}", before.told()));
        }
        command.current_dir(root).args(args);
        say(&format!("  {text}"));
        let log = root.join("target").join(format!("verify-{}-{shard}.log", run.name));
        let ended = to_end(command, Duration::from_secs(self.timeout_s), &log)?;
        let kept = |line: &&str| run.keep.iter().any(|part| line.contains(part.as_str()));
        let mut said: Vec<String> =
            ended.output.lines().filter(kept).map(|line| line.trim().to_owned()).collect();
        let (mut passed, mut count) = (ended.succeeded(), None);
        if let Some(mutants) = &run.mutants {
            let lists = mutants::Lists::read(&root.join(fill(&mutants.lists)))?;
            // Missed mutants are a result, not a failure of the shard.
            passed = ended.status.and_then(|status| status.code()).is_some_and(mutants::is_complete);
            count = Some(match before {
                Some(before) => before.count.retried(lists.count)?,
                None => lists.count,
            });
            said.extend(before.map(Missed::told));
            said.extend(lists.missed);
        }
        say(&format!("  {}", said.join("\n  ")));
        if !passed {
            say(&format!("{}\n  failed; all of it: {}", ended.tail(), log.display()));
        }
        Ok(Told { passed, mutants: count, command: text, said })
    }
}

/// The result of running a shard.
struct Told {
    passed: bool,
    mutants: Option<Count>,
    command: String,
    said: Vec<String>,
}

/// The mutants that a shard missed.
struct Missed {
    count: Count,
    names: Vec<String>,
}

impl Missed {
    fn told(&self) -> String {
        let Count { caught, missed } = self.count;
        format!("{missed} of {} mutants, those that were missed before", caught + missed)
    }
}

impl Row {
    /// The mutants that it missed, if any. They are the last lines of `said`.
    fn missed(&self) -> Option<Missed> {
        let count = self.mutants.filter(|count| count.missed > 0)?;
        let names = self.said.iter().skip(self.said.len().checked_sub(count.missed)?).cloned().collect();
        Some(Missed { count, names })
    }
}

/// The committed tree, as `git ls-tree` prints it, and its commit.
fn tree(root: &Path, committed: bool) -> Outcome<(String, String)> {
    let mut status = Command::new("git");
    status.current_dir(root).args(["status", "--porcelain", "--"]).args(SOURCES);
    if committed && !run::told(&mut status)?.is_empty() {
        return Err(Failure::Other("commit first: results name the commit that they are about".to_owned()));
    }
    Ok((tree_of(root, "HEAD")?, crate::commit(root)?))
}

/// The tree of a commit.
fn tree_of(root: &Path, commit: &str) -> Outcome<String> {
    let mut git = Command::new("git");
    let tree = run::told(git.current_dir(root).args(["ls-tree", "-r", commit, "--"]))?;
    if tree.is_empty() { Err(Failure::Other(format!("there is no commit {commit} here"))) } else { Ok(tree) }
}

/// A fingerprint of the sources that affect a run.
fn fingerprint(tree: &str, without: &[String]) -> String {
    let mut hasher = FnvHasher::default();
    tree.lines().filter(|line| counts(line, without)).for_each(|line| line.hash(&mut hasher));
    format!("{:016x}", hasher.finish())
}

/// Whether a line of `git ls-tree` names a source that affects a run.
fn counts(line: &str, without: &[String]) -> bool {
    let path = line.split_once('\t').map_or("", |(_, path)| path);
    let within =
        |folder: &str| path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let excluded = |part: &String| match part.strip_prefix('*') {
        Some(end) => path.ends_with(end),
        None => within(part),
    };
    let never = |part: &str| part.strip_prefix(":!").is_some_and(within);
    SOURCES.into_iter().any(within) && !SOURCES.into_iter().any(never) && !without.iter().any(excluded)
}

fn load(root: &Path) -> Outcome<Results> {
    if root.join(RESULTS).exists() { crate::load(root, RESULTS) } else { Ok(Results::default()) }
}

fn save(root: &Path, results: &mut Results) -> Outcome<()> {
    "cargo run --package flipop-verify -- runs".clone_into(&mut results.command);
    results.table.sort_by(|a, b| (&a.run, a.shard.len(), &a.shard).cmp(&(&b.run, b.shard.len(), &b.shard)));
    crate::save(root, RESULTS, results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_run_can_be_read_and_each_run_has_a_name_of_its_own() {
        let runs: Vec<Run> = serde_saphyr::from_str(include_str!("../runs.yaml")).unwrap();
        let names: std::collections::BTreeSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names.len(), runs.len());
        assert!(runs.iter().all(|run| run.shards > 0 && !run.keep.is_empty()));
    }

    fn counts(path: &str, without: &[&str]) -> bool {
        let without: Vec<String> = without.iter().map(|part| (*part).to_owned()).collect();
        super::counts(&format!("100644 blob 0123\t{path}"), &without)
    }

    #[test]
    fn results_and_this_crate_are_no_sources() {
        assert!(counts("src/main.rs", &[]) && counts("Cargo.lock", &[]) && counts("docs/README.md", &[]));
        assert!(!counts("docs/verification.md", &[]) && !counts("crates/verify/runs.yaml", &[]));
    }

    #[test]
    fn what_came_of_a_shard_is_kept_where_nothing_was_kept_before() {
        let root = std::env::temp_dir().join(format!("flipop-results-{}", std::process::id()));
        let row = Row {
            run: "seeds".to_owned(),
            shows: "something".to_owned(),
            shard: "1 of 1".to_owned(),
            command: "true".to_owned(),
            passed: true,
            mutants: None,
            said: vec!["1 plans".to_owned()],
            date: "2026-01-01".to_owned(),
            commit: "0123456".to_owned(),
        };
        save(&root, &mut Results { command: String::new(), table: vec![row] }).unwrap();
        let kept = load(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((kept.table.len(), kept.table[0].said.as_slice()), (1, ["1 plans".to_owned()].as_slice()));
    }

    #[test]
    fn a_run_leaves_out_folders_and_ends_of_names_and_nothing_that_only_begins_alike() {
        let without = ["tests", "crates/core/tests", "*_tests.rs"];
        assert!(
            !counts("tests/apiserver/main.rs", &without)
                && !counts("crates/core/tests/fleet/main.rs", &without)
        );
        assert!(!counts("crates/core/src/model/matching_tests.rs", &without));
        assert!(
            counts("crates/simulation/tests/simulation/main.rs", &without)
                && counts("src/tests.rs", &without)
        );
        assert!(
            counts("crates/core/tests2/a.rs", &without)
                && counts("crates/core/src/model/matching.rs", &without)
        );
    }

    #[test]
    fn what_is_left_out_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let runs: Vec<Run> = serde_saphyr::from_str(include_str!("../runs.yaml")).unwrap();
        for part in runs.iter().flat_map(|run| &run.without).filter(|part| !part.starts_with('*')) {
            assert!(root.join(part).exists(), "{part}");
        }
    }

    #[test]
    fn a_fingerprint_tells_sources_apart_and_does_not_see_what_is_left_out() {
        let tree = |core: u8, tests: u8| {
            format!("100644 blob {core}\tcrates/core/src/lib.rs\n100644 blob {tests}\ttests/crds.rs\n")
        };
        let without = ["tests".to_owned()];
        assert_ne!(fingerprint(&tree(1, 1), &without), fingerprint(&tree(2, 1), &without));
        assert_eq!(fingerprint(&tree(1, 1), &without), fingerprint(&tree(1, 2), &without));
        assert_ne!(fingerprint(&tree(1, 1), &[]), fingerprint(&tree(1, 2), &[]));
    }
}
