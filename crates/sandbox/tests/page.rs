//! The operator's web page in a headless Chromium, over the sandbox: `tests/page/page.mjs` checks it.
//!
//! Without Chromium, Node.js or npm that test is reported as ignored, and fails where `CI` is set. Screenshots are kept
//! under `target/page/`. One of them is README's picture: with `UPDATE_DOCS` it is written to `docs/failover.png`.
#![expect(clippy::disallowed_methods, reason = "the environment of the test, not of FLIPOP")]

use fnv::FnvHasher;
use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// README's picture.
const PICTURE: &str = "docs/failover.png";

/// The most bytes of the picture, so that README stays quick to load.
const MAX_PICTURE: usize = 150 << 10;

/// The files that make the page.
const PAGE: [&str; 3] = ["index.html", "page.css", "page.js"];

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
    let picture =
        Trial::test("the_picture_of_readme_shows_the_page_as_it_is_now", || picture().map_err(Failed::from));
    // On an update, the other test makes a new picture and checks it at its end.
    let trials = if is_update() { vec![trial] } else { vec![trial, picture] };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fingerprint (FNV-1a) of the page's files.
fn fingerprint() -> Result<String, String> {
    let mut hasher = FnvHasher::default();
    for file in PAGE {
        hasher.write(&read(&format!("src/admin/page/{file}"))?);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    fs::read(root().join(file)).map_err(|error| format!("{file}: {error}"))
}

fn picture() -> Result<(), String> {
    let picture = read(PICTURE)?;
    if !picture.starts_with(b"\x89PNG") || picture.len() > MAX_PICTURE {
        return Err(format!("{PICTURE} is no PNG of at most {MAX_PICTURE} bytes"));
    }
    let readme = read("README.md")?;
    if !String::from_utf8_lossy(&readme).contains(&format!("]({PICTURE})")) {
        return Err(format!("README does not show {PICTURE}"));
    }
    let mark = format!("flipop-page\0{}", fingerprint()?);
    if picture.windows(mark.len()).any(|bytes| bytes == mark.as_bytes()) {
        return Ok(());
    }
    Err(format!(
        "{PICTURE} shows another state of src/admin/page: run `just picture`, and look at the result"
    ))
}

/// The tools that the test needs besides Rust.
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
        let root = root();
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
        succeeds(look.arg(fingerprint()?).current_dir(&scripts))?;
        if is_update() {
            let copied = fs::copy(shots.join("picture.png"), root.join(PICTURE));
            copied.map_err(|error| format!("{PICTURE}: {error}"))?;
            picture()?;
        }
        Ok(())
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
