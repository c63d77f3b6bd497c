//! The results of cargo-mutants, which breaks every line of a crate in every way that it knows.
//!
//! `mutations` holds faults that it cannot make. An unnoticed mutant may be harmless (the next list shows the same). So
//! a given share has to be noticed, and the results name the rest.

use crate::{Doing, Failure, Outcome, say};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How a run of cargo-mutants is judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutants {
    /// The folder of its lists; `{shard}` is the shard's number.
    pub(crate) lists: String,
    /// How many of a hundred mutants must be noticed.
    pub(crate) least_percent: usize,
}

/// How many mutants were noticed, by a failed test or by one that did not end, and how many were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Count {
    pub(crate) caught: usize,
    pub(crate) missed: usize,
}

/// The lists that cargo-mutants writes.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) count: Count,
    pub(crate) missed: Vec<String>,
}

impl Lists {
    pub(crate) fn read(folder: &Path) -> Outcome<Self> {
        let lines = |name: &str| -> Outcome<Vec<String>> {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).doing(format!("read {}", path.display()))?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        let missed = lines("missed.txt")?;
        let caught = lines("caught.txt")?.len() + lines("timeout.txt")?.len();
        Ok(Self { count: Count { caught, missed: missed.len() }, missed })
    }
}

/// Whether the run was complete: nothing missed, something missed, or some test did not end.
pub(crate) fn is_complete(code: i32) -> bool {
    matches!(code, 0 | 2 | 3)
}

impl Mutants {
    /// Whether enough mutants were noticed in all shards together.
    pub(crate) fn judge(&self, name: &str, counts: impl Iterator<Item = Count>) -> bool {
        let sum = |all: Count, one: Count| Count {
            caught: all.caught + one.caught,
            missed: all.missed + one.missed,
        };
        let Count { caught, missed } = counts.fold(Count { caught: 0, missed: 0 }, sum);
        let all = caught + missed;
        let percent = (caught * 100).checked_div(all).unwrap_or_default();
        say(&format!("{name}: {caught} of {all} noticed, {percent} % ({} % are needed)", self.least_percent));
        percent >= self.least_percent
    }
}

/// The cargo arguments that list all mutants, of all shards.
pub(crate) fn listing(args: &[String]) -> Vec<String> {
    let own = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let mut listing = unsharded(args.get(..own).unwrap_or_default());
    listing.push("--list".to_owned());
    listing
}

/// The cargo arguments that retry all mutants that no list calls caught.
pub(crate) fn again(args: &[String]) -> Vec<String> {
    let mut again = unsharded(args);
    let end = again.iter().position(|arg| arg == "--").unwrap_or(again.len());
    again.insert(end, "--iterate".to_owned());
    again
}

fn unsharded(args: &[String]) -> Vec<String> {
    let shard = args.iter().position(|arg| arg == "--shard").map_or(0..0, |at| at..at.saturating_add(2));
    args.iter().enumerate().filter(|(at, _)| !shard.contains(at)).map(|(_, arg)| arg.clone()).collect()
}

/// Writes a list that calls all mutants but the missed ones caught. `--re` cannot select some kinds of mutants.
pub(crate) fn count_as_caught(all: &str, missed: &[String], folder: &Path) -> Outcome<()> {
    let missed: BTreeSet<&str> = missed.iter().map(String::as_str).collect();
    let known: BTreeSet<&str> = all.lines().collect();
    if let Some(name) = missed.difference(&known).next() {
        return Err(Failure::Other(format!("cargo mutants --list does not name {name}")));
    }
    let caught: Vec<&str> = known.difference(&missed).copied().collect();
    // Lists of an earlier try would count too.
    if folder.exists() {
        fs::remove_dir_all(folder).doing(format!("remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).doing(format!("create {}", folder.display()))?;
    let path = folder.join("previously_caught.txt");
    fs::write(&path, caught.join("\n") + "\n").doing(format!("write {}", path.display()))
}

impl Count {
    /// This count after a retry of the missed mutants.
    pub(crate) fn retried(self, again: Self) -> Outcome<Self> {
        if again.caught + again.missed == self.missed {
            Ok(Self { caught: self.caught + again.caught, missed: again.missed })
        } else {
            let tried = again.caught + again.missed;
            Err(Failure::Other(format!("{tried} of {} missed mutants were tried again", self.missed)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shards_together_are_judged_and_none_is_not_enough() {
        let mutants = Mutants { lists: String::new(), least_percent: 90 };
        let judge = |counts: &[(usize, usize)]| {
            mutants
                .judge("x", counts.iter().map(|(caught, missed)| Count { caught: *caught, missed: *missed }))
        };
        assert!(judge(&[(80, 10), (10, 0)]) && judge(&[(90, 10)]));
        assert!(!judge(&[(89, 11)]) && !judge(&[(100, 0), (0, 12)]) && !judge(&[]));
    }

    #[test]
    fn lists_are_counted_and_a_test_without_end_has_noticed_something() {
        let folder = std::env::temp_dir().join(format!("flipop-mutants-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("caught.txt", "a\nb\n"), ("missed.txt", "c\n"), ("timeout.txt", "d\n")] {
            fs::write(folder.join(name), text).unwrap();
        }
        let lists = Lists::read(&folder).unwrap();
        assert_eq!((lists.count, lists.missed), (Count { caught: 3, missed: 1 }, vec!["c".to_owned()]));
        fs::remove_dir_all(&folder).unwrap();
        assert!(Lists::read(&folder).unwrap_err().to_string().contains("missed.txt"));
    }

    #[test]
    fn only_an_end_of_all_mutants_is_an_end() {
        assert!([0, 2, 3].into_iter().all(is_complete) && ![1, 4, 70, 101].into_iter().any(is_complete));
    }

    #[test]
    fn missed_mutants_are_those_that_no_list_says_were_caught() {
        let args = ["mutants", "--shard", "0/8", "--jobs", "2", "--", "--lib"].map(str::to_owned);
        assert_eq!(listing(&args), ["mutants", "--jobs", "2", "--list"]);
        assert_eq!(again(&args), ["mutants", "--jobs", "2", "--iterate", "--", "--lib"]);
        let folder = std::env::temp_dir().join(format!("flipop-missed-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("caught.txt"), "b\n").unwrap();
        count_as_caught("a\nb\nc\n", &["b".to_owned()], &folder).unwrap();
        assert!(!folder.join("caught.txt").exists());
        assert_eq!(fs::read_to_string(folder.join("previously_caught.txt")).unwrap(), "a\nc\n");
        let unknown = count_as_caught("a\n", &["b".to_owned()], &folder).unwrap_err();
        assert_eq!(unknown.to_string(), "cargo mutants --list does not name b");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_was_missed_is_counted_anew_and_all_of_it() {
        let count = |caught, missed| Count { caught, missed };
        assert_eq!(count(80, 10).retried(count(7, 3)).unwrap(), count(87, 3));
        assert!(count(80, 10).retried(count(7, 2)).unwrap_err().to_string().starts_with("9 of 10"));
    }
}
