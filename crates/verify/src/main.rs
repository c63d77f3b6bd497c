//! Tests the tests: "no violation was found" says something only of tests that find violations.
//!
//! Owns what is run and what is kept of it (`target/verify/`). Does not own the tests themselves. One module per
//! subcommand; each ends with a count, and fails when it is not as it should be.

mod fnv;
mod mutants;
mod mutations;
mod run;
mod runs;

use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

/// Why a run says nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// A file or a process.
    #[error("failed to {0}: {1}")]
    Io(String, std::io::Error),
    /// A text that is not what it should be.
    #[error("{0}")]
    Other(String),
}

type Outcome<T> = Result<T, Failure>;

/// Names what was tried when input or output fails.
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Outcome<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Outcome<T> {
        self.map_err(|error| Failure::Io(what.into(), error))
    }
}

/// Shows that the tests notice what they are there for.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Breaks the operator in one place at a time, in a scratch copy, and expects tests to fail.
    Mutations(mutations::Mutations),
    /// Runs more seeds, repetitions and minutes than CI does.
    Runs(runs::Runs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Mutations(mutations) => mutations.run(),
        Command::Runs(runs) => runs.run(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            say(&format!("flipop-verify: {failure}"));
            ExitCode::from(2)
        }
    }
}

/// For whoever waits.
fn say(text: &str) {
    // A terminal that is gone is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}
