//! The source as text, for a check that types cannot make: every name in it is on some page.

use crate::root;
use std::fs;
use std::path::{Path, PathBuf};

/// A source file of the operator without comments and tests.
pub(crate) struct Source {
    /// The path from the root of the repository.
    pub(crate) path: PathBuf,
    /// The remaining text.
    pub(crate) text: String,
}

/// The operator's files: the shell and the core.
pub(crate) fn sources() -> Vec<Source> {
    let folders = ["crates/core/src", "src"].map(|folder| root().join(folder));
    let files = folders.iter().flat_map(|folder| crate::architecture::sources(folder));
    let source = |path: PathBuf| Source {
        text: shipped(&fs::read_to_string(&path).unwrap()),
        path: path.strip_prefix(root()).unwrap().to_owned(),
    };
    let sources: Vec<Source> = files.filter(|path| is_code(path)).map(source).collect();
    assert!(sources.len() > 100, "where is the source?");
    sources
}

fn is_code(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy();
    let test = name.ends_with("_tests") || path.components().any(|part| part.as_os_str() == "tests");
    !test && name != "tests" && name != "stub"
}

/// The text without comments, and without the tests, which end a file here.
fn shipped(text: &str) -> String {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The texts between quotes, as written.
pub(crate) fn literals(text: &str) -> Vec<String> {
    let text = text.replace("'\"'", "' '");
    let mut found = Vec::new();
    let mut inside: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (&mut inside, letter) {
            (Some(literal), '\\') => literal.extend([Some('\\'), letters.next()].into_iter().flatten()),
            (Some(_), '"') => found.extend(inside.take()),
            (Some(literal), letter) => literal.push(letter),
            (None, '"') => inside = Some(String::new()),
            (None, _) => {}
        }
    }
    found
}

/// Each text between quotes in the source, with its file.
pub(crate) fn all_literals() -> Vec<(PathBuf, String)> {
    let of = |source: Source| {
        let path = source.path;
        literals(&source.text).into_iter().map(move |literal| (path.clone(), literal))
    };
    sources().into_iter().flat_map(of).collect()
}

#[test]
fn literals_end_at_their_quotes() {
    let found = literals(r#"a("b", '"', "c \" d", "")"#);
    assert_eq!(found, ["b", "c \\\" d", ""]);
}
