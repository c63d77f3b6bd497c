//! The results of mutations, kept so that a run continues where the last one ended.

use super::Mutation;
use crate::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

/// The file of the results.
const FILE: &str = "target/verify/mutations.yaml";

/// The result of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// Tests failed as they should.
    Caught,
    /// All tests passed.
    Survived,
    /// It does not compile, or the tests hang.
    Invalid,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Survived => "SURVIVED",
            Self::Invalid => "INVALID",
        }
    }
}

/// One mutation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    /// Its id.
    pub(super) mutation: String,
    /// The resulting fault.
    pub(super) name: String,
    /// The result.
    pub(super) verdict: Verdict,
    /// The tests that failed.
    pub(super) by: Vec<String>,
    /// The sources that this result is about.
    pub(super) inputs: String,
}

/// Tests that pass without a mutation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Unchanged {
    pub(super) tests: String,
    pub(super) inputs: String,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Results {
    date: String,
    commit: String,
    command: String,
    caught: String,
    table: Vec<Row>,
    unchanged: Vec<Unchanged>,
}

impl Results {
    /// Earlier results; none if there is no file.
    pub(super) fn load(root: &Path) -> Outcome<Self> {
        if root.join(FILE).exists() { crate::load(root, FILE) } else { Ok(Self::default()) }
    }

    /// Drops results about other sources.
    pub(super) fn keep(&mut self, inputs: &BTreeMap<String, String>) {
        self.table.retain(|row| inputs.get(&row.mutation) == Some(&row.inputs));
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.table.iter().any(|row| row.mutation == id)
    }

    pub(super) fn knows_unchanged(&self, tests: &str, inputs: &str) -> bool {
        self.unchanged.iter().any(|known| known.tests == tests && known.inputs == inputs)
    }

    pub(super) fn note_unchanged(&mut self, unchanged: Unchanged) {
        self.unchanged.retain(|known| known.tests != unchanged.tests);
        self.unchanged.push(unchanged);
        self.unchanged.sort_by(|a, b| a.tests.cmp(&b.tests));
    }

    pub(super) fn note(&mut self, row: Row) {
        self.table.retain(|known| known.mutation != row.mutation);
        self.table.push(row);
        self.table.sort_by(|a, b| a.mutation.cmp(&b.mutation));
    }

    fn caught(&self) -> usize {
        self.table.iter().filter(|row| row.verdict == Verdict::Caught).count()
    }

    /// Writes the file.
    pub(super) fn save(&mut self, root: &Path, all: usize) -> Outcome<()> {
        (self.date, self.commit) = (crate::today(), crate::commit(root)?);
        "cargo run --package flipop-verify -- mutations".clone_into(&mut self.command);
        self.caught = format!("{} of {all}", self.caught());
        crate::save(root, FILE, self)
    }

    /// Prints the table. True if every selected mutation was caught.
    pub(super) fn print(&self, selected: &[&Mutation], all: usize) -> bool {
        let mut out = std::io::stdout().lock();
        let mut good = true;
        for Mutation { id, .. } in selected {
            let row = self.table.iter().find(|row| row.mutation == *id);
            let (word, by) = row.map_or(("unknown", ""), |row| {
                (row.verdict.word(), row.by.first().map_or("", String::as_str))
            });
            good &= word == Verdict::Caught.word();
            // A closed terminal is no reason to stop.
            let _ = writeln!(out, "{word:8}  {id:40}  {by}");
        }
        let _ = writeln!(out, "{} of {all} caught", self.caught());
        good
    }
}
