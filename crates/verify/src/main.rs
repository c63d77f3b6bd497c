//! Tests the tests: "no violation was found" means something only if the tests can find violations.
//!
//! This crate defines what is run and which results are kept (`target/verify/`). The tests themselves are elsewhere.
//! There is one module per subcommand. Each ends with a count, and fails unless the count is as required.

mod mutants;
mod mutations;
mod run;
mod runs;

use clap::{Parser, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// A file or a process failed.
    #[error("failed to {0}: {1}")]
    Io(String, std::io::Error),
    /// Unexpected content.
    #[error("{0}")]
    Other(String),
}

type Outcome<T> = Result<T, Failure>;

/// Names the step that failed when input or output fails.
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Outcome<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Outcome<T> {
        self.map_err(|error| Failure::Io(what.into(), error))
    }
}

/// The root of the repository.
fn root() -> Outcome<PathBuf> {
    let root = run::told(process::Command::new("git").args(["rev-parse", "--show-toplevel"]))?;
    Ok(PathBuf::from(root.trim()))
}

/// The commit that the repository is at.
fn commit(root: &Path) -> Outcome<String> {
    let mut git = process::Command::new("git");
    let commit = run::told(git.current_dir(root).args(["rev-parse", "--short", "HEAD"]))?;
    Ok(commit.trim().to_owned())
}

fn today() -> String {
    #[expect(clippy::disallowed_methods, reason = "the day on which it was run")]
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%d").to_string()
}

/// The content of a file of the repository.
fn load<T: DeserializeOwned>(root: &Path, file: &str) -> Outcome<T> {
    let text = fs::read_to_string(root.join(file)).doing(format!("read {file}"))?;
    serde_saphyr::from_str(&text).map_err(|error| Failure::Other(format!("{file}: {error}")))
}

/// Writes the content of a file of results.
fn save(root: &Path, file: &str, content: &impl Serialize) -> Outcome<()> {
    let text = serde_saphyr::to_string(content).map_err(|error| Failure::Other(error.to_string()))?;
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap_or(root)).doing(format!("write {file}"))?;
    fs::write(path, text).doing(format!("write {file}"))
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

/// Writes a line for the user.
fn say(text: &str) {
    // A closed terminal is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}
