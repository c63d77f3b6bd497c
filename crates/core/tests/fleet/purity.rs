//! Proves from the dependencies of the crate and from the names in its source that the decisions are pure.

use std::path::Path;
use std::process::Command;

/// The crates that may be part of this one. An addition is a decision about the architecture.
const ALLOWED: [&str; 6] = ["proc-macro2", "quote", "syn", "thiserror", "thiserror-impl", "unicode-ident"];

/// Names that a pure crate does not need.
const IMPURE: [&str; 14] = [
    "HashMap",
    "HashSet",
    "std::time::Instant",
    "SystemTime",
    "std::env",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::process",
    "std::thread",
    "std::io",
    "async fn",
    ").await",
    "println!",
];

#[test]
fn the_crate_depends_on_nothing_that_waits_or_talks() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "flipop-core",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"flipop-core"), "{text}");
    let foreign: Vec<&&str> =
        names.iter().filter(|name| **name != "flipop-core" && !ALLOWED.contains(name)).collect();
    assert!(foreign.is_empty(), "flipop-core depends on {foreign:?}");
}

/// The Rust files in a folder of this crate and below, each with its text without comments.
pub(crate) fn sources(folder: &str) -> Vec<(String, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.push((path.display().to_string(), code.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    found
}

#[test]
fn the_source_names_no_clock_no_hash_map_and_no_io() {
    let sources = sources("src");
    for (path, code) in &sources {
        for word in IMPURE {
            let found = code.lines().find(|line| line.contains(word));
            assert!(found.is_none(), "{path}: {word}: {found:?}");
        }
    }
    assert!(sources.len() > 10, "only {} files were looked at", sources.len());
}
