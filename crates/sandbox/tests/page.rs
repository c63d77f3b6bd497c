//! The operator's web page in a headless Chromium, over the sandbox: `tests/page/page.mjs` looks at it.
//!
//! Without Chromium, Node.js or npm the test is reported as ignored, and fails where `CI` is set. Screenshots are kept under
//! `target/page/`.
#![expect(clippy::disallowed_methods, reason = "the environment of the test, not of FLIPOP")]

use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Names under which distributions install Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let name = "the_page_shows_a_failover_and_every_state_to_everybody_and_parses_nothing_from_outside";
    let tools = Tools::find();
    let trial = match &tools {
        Ok(_) => Trial::test(name, move || tools.and_then(|tools| tools.run()).map_err(Failed::from)),
        Err(missing) if std::env::var_os("CI").is_some() => {
            let missing = missing.clone();
            Trial::test(name, move || Err(Failed::from(missing)))
        }
        Err(missing) => Trial::test(name, || Ok(())).with_kind(missing.clone()).with_ignored_flag(true),
    };
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

/// What the test needs beside Rust.
struct Tools {
    chromium: PathBuf,
    node: PathBuf,
    npm: PathBuf,
}

impl Tools {
    fn find() -> Result<Self, String> {
        let chromium = BROWSERS.iter().find_map(|name| found(name)).ok_or("needs chromium")?;
        let node = found("node").ok_or("needs node")?;
        Ok(Self { chromium, node, npm: found("npm").ok_or("needs npm")? })
    }

    fn run(&self) -> Result<(), String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let shots = root.join("target/page");
        // Beside the screenshots, so that the sources stay as they are.
        let scripts = shots.join("scripts");
        fs::create_dir_all(&scripts).map_err(|error| error.to_string())?;
        for file in ["package.json", "package-lock.json", "page.mjs"] {
            let from = root.join("tests/page").join(file);
            fs::copy(&from, scripts.join(file)).map_err(|error| format!("{}: {error}", from.display()))?;
        }
        let mut install = Command::new(&self.npm);
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&scripts);
        succeeds(&mut install)?;
        let mut look = Command::new(&self.node);
        look.arg("page.mjs").arg(env!("CARGO_BIN_EXE_sandbox")).arg(&self.chromium).arg(&shots);
        succeeds(look.current_dir(&scripts))
    }
}

fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    Err(format!("{command:?} ended with {}\n{out}{err}", output.status))
}
