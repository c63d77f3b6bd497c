//! Checks the rules of ARCHITECTURE.md about the shape of the code that neither the compiler nor clippy checks
//! (crates/core/tests/fleet/purity.rs checks more).
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

use crate::root;
use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of a source file: as many as a reader can keep in mind.
const MAX_LINES: usize = 500;

/// Every Rust file in a folder and below.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn no_source_file_is_longer_than_500_lines() {
    let folders = ["src", "crates", "tests"].map(|folder| root().join(folder));
    for source in folders.iter().flat_map(|folder| sources(folder)) {
        let lines = fs::read_to_string(&source).unwrap().lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines: split it by what it owns", source.display());
    }
}

#[test]
fn every_file_that_the_internals_name_is_there() {
    let page = fs::read_to_string(root().join("docs/internals/failover.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let paths: Vec<&str> = quoted.filter(|text| text.contains('/') && !text.starts_with('/')).collect();
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        assert!(root().join(path).exists(), "docs/internals/failover.md names {path}, which is not there");
    }
}

#[test]
fn the_image_is_built_with_the_toolchain_that_is_pinned() {
    let pin = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let pin = pin.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{pin}-")), "rust-toolchain.toml pins {pin}");
}

#[test]
fn the_images_build_passes_on_the_commit_that_it_is_told() {
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).unwrap();
    let lines: Vec<&str> = dockerfile.lines().collect();
    let told = lines.iter().position(|line| *line == "ARG FLIPOP_COMMIT");
    let built = lines.iter().position(|line| line.contains("cargo build"));
    assert!(told.is_some() && told < built, "src/version.rs reads FLIPOP_COMMIT while it is compiled");
}

#[test]
fn every_action_is_named_by_a_commit_with_its_version_beside_it() {
    for entry in fs::read_dir(root().join(".github/workflows")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let uses = text.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("uses: "));
        // A workflow of this repository comes from the same commit.
        for action in uses.filter(|action| !action.starts_with("./")) {
            let pinned = action.split_once('@').and_then(|(_, pin)| pin.split_once(" # v"));
            let commit = pinned.map_or("", |(commit, _)| commit);
            assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{action}");
        }
    }
}
