//! Mutations: faults put into the operator one at a time. Some test has to notice each of them.
//!
//! A mutation is data (`crates/verify/mutations.yaml`). It is applied to a scratch copy under `target/`, never to the
//! files themselves. Faults of the harness never count as noticed: a test that fails without a mutation, a filter that
//! selects no test, or a mutation that does not compile or that hangs.

mod results;
mod scratch;

use crate::{Failure, Outcome, say};
use clap::Args;
use results::{Results, Row, Unchanged, Verdict};
use scratch::{Scratch, Tested};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The file of the mutations.
const FILE: &str = "crates/verify/mutations.yaml";

/// See the module.
#[derive(Debug, Args)]
pub(crate) struct Mutations {
    /// Only mutations with one of these in their id or name.
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
    /// Its name in the results.
    id: String,
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
        let root = crate::root()?;
        let all: Vec<Mutation> = crate::load(&root, FILE)?;
        let scratch = Scratch::new(&root, self.timeout_s)?;
        let inputs = all.iter().map(|mutation| (mutation.id.clone(), mutation.inputs(&scratch))).collect();
        let mut results = Results::load(&root)?;
        results.keep(&inputs);
        let has =
            |mutation: &Mutation, part: &str| mutation.id.contains(part) || mutation.name.contains(part);
        let chosen = |it: &&Mutation| self.names.is_empty() || self.names.iter().any(|part| has(it, part));
        let selected: Vec<&Mutation> = all.iter().filter(chosen).collect();
        if selected.is_empty() {
            return Err(Failure::Other(format!("no mutation is called {}", self.names.join(" or "))));
        }
        for mutation in selected.iter().filter(|_| !self.list) {
            if self.again || !results.knows(&mutation.id) {
                let row = one(&scratch, &mut results, mutation)?;
                results.note(row);
                results.save(&root, all.len())?;
            }
        }
        Ok(results.print(&selected, all.len()))
    }
}

impl Mutation {
    /// Changes with the mutation and with every source that its tests depend on.
    fn inputs(&self, scratch: &Scratch) -> String {
        scratch.inputs(&format!("{self:?}"), &self.tests)
    }
}

/// Tests one mutation, from the unchanged sources to the verdict.
fn one(scratch: &Scratch, results: &mut Results, mutation: &Mutation) -> Outcome<Row> {
    let Mutation { id, name, .. } = mutation;
    say(&format!("{id}: {name}"));
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
        mutation: id.clone(),
        name: name.clone(),
        verdict,
        by: by.into_iter().collect(),
        inputs: mutation.inputs(scratch),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_mutation_has_an_id_of_its_own_and_finds_its_place_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut ids = BTreeSet::new();
        let all: Vec<Mutation> = crate::load(&root, FILE).unwrap();
        for Mutation { id, file, find, replace, tests, .. } in all {
            let text =
                fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{id}: {file}: {error}"));
            let count = text.matches(find.as_str()).count();
            assert_eq!(count, 1, "{id}: the number of times that the text to find occurs in {file}");
            assert!(find != replace && !tests.is_empty(), "{id}");
            assert!(ids.insert(id.clone()), "{id} is there twice");
        }
    }
}
