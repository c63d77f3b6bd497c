//! The tools that the tests run, and the message if one is missing.

use flipop_envtest::assets::nothing_may_be_skipped;
use libtest_mimic::Trial;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file in the repository.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A test that needs no tool.
pub(crate) fn plain(name: &str, run: fn()) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}

/// A test that needs this program, which responds to these arguments.
pub(crate) fn needs(
    program: &'static str,
    asked: &[&str],
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> Trial {
    let test = Trial::test(name, move || {
        run();
        Ok(())
    });
    if nothing_may_be_skipped() || Command::new(program).args(asked).output().is_ok() {
        return test;
    }
    test.with_ignored_flag(true).with_kind(format!("ignored: {program} is not installed"))
}

/// A program's output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program in the root of the repository, with this text on standard input.
pub(crate) fn run(program: &str, arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    // A program that reads nothing may already have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ran { success: output.status.success(), stdout, stderr }
}
