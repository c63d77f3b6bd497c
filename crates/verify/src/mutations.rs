//! Mutations: faults put into the operator one at a time. Some test has to notice each of them.
//!
//! A mutation is data (`crates/verify/mutations/*.yaml`). It is applied to a scratch copy under `target/`, never to the
//! files themselves. Faults of the harness never count as noticed: a test that fails without a mutation, a filter that
//! selects no test, or a mutation that does not compile or that hangs.

mod results;
mod scratch;

use crate::{Doing, Failure, Outcome, say};
use clap::Args;
use results::{Results, Row, Unchanged, Verdict};
use scratch::{Scratch, Tested};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the mutations.
const FOLDER: &str = "crates/verify/mutations";

/// See the module.
#[derive(Debug, Args)]
pub(crate) struct Mutations {
    /// Only mutations with one of these in the name of their file.
    names: Vec<String>,
    /// Also mutations whose result for exactly these sources is known.
    #[arg(long)]
    again: bool,
    /// Only lists the mutations and their known results.
    #[arg(long)]
    list: bool,
    /// Longest time for one build or one run of tests, in seconds.
    #[arg(long, default_value_t = 1_200)]
    timeout_s: u64,
}

/// A fault to apply.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    /// The resulting fault, in a sentence.
    name: String,
    /// The file, relative to the repository.
    file: String,
    /// A text that occurs in it exactly once.
    find: String,
    /// The replacement.
    replace: String,
    /// Arguments of `cargo test`. Each must fail.
    tests: Vec<String>,
}

impl Mutations {
    /// True if every selected mutation was noticed.
    pub(crate) fn run(&self) -> Outcome<bool> {
        let root = crate::run::told(Command::new("git").args(["rev-parse", "--show-toplevel"]))?;
        let root = PathBuf::from(root.trim());
        let all = load(&root)?;
        let scratch = Scratch::new(&root, self.timeout_s)?;
        let mut inputs = BTreeMap::new();
        for (id, (text, mutation)) in &all {
            inputs.insert(id.clone(), scratch.inputs(text, &mutation.tests));
        }
        let mut results = Results::load(&root)?;
        results.keep(&inputs);
        let chosen = |id: &str| self.names.is_empty() || self.names.iter().any(|name| id.contains(name));
        let selected: BTreeSet<&String> = all.keys().filter(|id| chosen(id)).collect();
        if selected.is_empty() {
            return Err(Failure::Other(format!("no mutation is called {}", self.names.join(" or "))));
        }
        if !self.list {
            let due = |id: &&&String| self.again || !results.knows(id);
            let due: Vec<&String> = selected.iter().filter(due).copied().collect();
            for id in due {
                let Some((_, mutation)) = all.get(id) else { continue };
                let hash = inputs.get(id).cloned().unwrap_or_default();
                let row = one(&scratch, &mut results, id, mutation, hash)?;
                results.note(row);
                results.save(&root, all.len())?;
            }
        }
        Ok(results.print(&selected, all.len()))
    }
}

fn load(root: &Path) -> Outcome<BTreeMap<String, (String, Mutation)>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root.join(FOLDER)).doing("read the mutations")? {
        let path = entry.doing("read the mutations")?.path();
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).doing(format!("read {id}"))?;
        let mutation =
            serde_saphyr::from_str(&text).map_err(|error| Failure::Other(format!("{id}: {error}")))?;
        all.insert(id, (text, mutation));
    }
    Ok(all)
}

/// Tests one mutation, from the unchanged sources to the verdict.
fn one(
    scratch: &Scratch,
    results: &mut Results,
    id: &str,
    mutation: &Mutation,
    inputs: String,
) -> Outcome<Row> {
    say(&format!("{id}: {}", mutation.name));
    for tests in &mutation.tests {
        let sources = scratch.inputs("", std::slice::from_ref(tests));
        if !results.knows_unchanged(tests, &sources) {
            scratch.restore()?;
            match scratch.test(tests)? {
                Tested::Passed(count) if count > 0 => {
                    results.note_unchanged(Unchanged { tests: tests.clone(), inputs: sources });
                }
                Tested::Passed(_) => return Err(Failure::Other(format!("{tests} selects no test"))),
                Tested::Failed(by) => {
                    return Err(Failure::Other(format!("fails without a mutation: {tests}: {by:?}")));
                }
                Tested::Broken(why) => return Err(Failure::Other(why)),
            }
        }
    }
    scratch.restore()?;
    scratch.apply(mutation).map_err(|failure| Failure::Other(format!("{id}: {failure}")))?;
    let mut by = BTreeSet::new();
    let mut verdict = Verdict::Caught;
    for tests in &mutation.tests {
        match scratch.test(tests)? {
            Tested::Failed(names) => by.extend(names),
            Tested::Passed(_) => verdict = verdict.max(Verdict::Survived),
            Tested::Broken(why) => {
                say(&why);
                verdict = Verdict::Invalid;
            }
        }
    }
    scratch.restore()?;
    say(&format!("  {}", verdict.word()));
    Ok(Row {
        mutation: id.to_owned(),
        name: mutation.name.clone(),
        verdict,
        by: by.into_iter().collect(),
        inputs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_finds_its_place() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (id, (_, Mutation { file, find, replace, .. })) in load(&root).unwrap() {
            let text =
                fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{id}: {file}: {error}"));
            assert_eq!(
                text.matches(find.as_str()).count(),
                1,
                "{id}: the number of times that the text to find occurs in {file}"
            );
            assert_ne!(find, replace, "{id}");
        }
    }
}
