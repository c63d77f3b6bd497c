//! The pages of docs/reference/ match the code. `UPDATE_DOCS=1 cargo test --test repository -- reference` writes them.
//!
//! A page is a module with `render`. To add one, declare the module and name it in [`PAGES`]. `sources.rs` checks the
//! other direction: whether the source contains something that no page names.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop at once")]

mod agent;
mod command_line;
mod commands;
mod conditions;
mod endpoints;
mod events;
mod fields;
mod floatingippool;
mod metrics;
mod names;
mod nodednsrecordset;
mod page;
mod sources;
mod warnings;

use crate::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Renders the text of a page.
type Render = fn() -> String;

/// The pages, by file name.
const PAGES: &[(&str, Render)] = &[
    ("agent", agent::render),
    ("command-line", command_line::render),
    ("commands", commands::render),
    ("conditions", conditions::render),
    ("events", events::render),
    ("floatingippool", floatingippool::render),
    ("metrics", metrics::render),
    ("names", names::render),
    ("nodednsrecordset", nodednsrecordset::render),
    ("warnings", warnings::render),
];

fn file(page: &str) -> PathBuf {
    root().join(format!("docs/reference/{page}.md"))
}

/// A file in the repository, by its path from the root.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The first line that differs between two texts.
fn difference(written: &str, rendered: &str) -> Option<String> {
    if written == rendered {
        return None;
    }
    let (mut file, mut code) = (written.lines(), rendered.lines());
    (1..).find_map(|number| match (file.next(), code.next()) {
        (None, None) => Some("the last line ends differently".to_owned()),
        (file, code) if file == code => None,
        (file, code) => {
            let [file, code] = [file, code].map(|line| line.unwrap_or("(the end)"));
            Some(format!("line {number}\n  the file says {file}\n  the code says {code}"))
        }
    })
}

#[test]
#[expect(clippy::disallowed_methods, reason = "asks whether to write instead of compare; no part of FLIPOP")]
fn each_page_is_what_the_code_says() {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut stale = Vec::new();
    for (page, render) in PAGES {
        let rendered = render();
        if update {
            fs::write(file(page), &rendered).unwrap();
        }
        let written = fs::read_to_string(file(page)).unwrap_or_default();
        stale.extend(difference(&written, &rendered).map(|at| format!("docs/reference/{page}.md: {at}")));
    }
    assert!(
        stale.is_empty(),
        "out of date: run UPDATE_DOCS=1 cargo test --test repository -- reference\n{}",
        stale.join("\n")
    );
}

#[test]
fn each_page_says_first_that_it_is_generated_and_then_what_it_is_for() {
    for (page, render) in PAGES {
        let text = render();
        let (comment, rest) = text.split_once("\n\n").unwrap();
        assert_eq!(comment, page::GENERATED, "{page}");
        let (title, rest) = rest.split_once("\n\n").unwrap();
        assert!(title.starts_with("# ") && !title.contains('\n'), "{page}: {title}");
        let intro = rest.split("\n\n").next().unwrap();
        assert!(!intro.starts_with(['#', '|', '-']), "{page} has no introduction");
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{page}: the end of the file");
        for line in text.lines() {
            assert_eq!(line.trim_end(), line, "{page}: white space at the end of a line");
        }
    }
}

#[test]
fn no_page_is_left_that_nothing_generates() {
    let pages: BTreeSet<PathBuf> = PAGES.iter().map(|(page, _)| file(page)).collect();
    for entry in fs::read_dir(root().join("docs/reference")).unwrap() {
        let path = entry.unwrap().path();
        let generated = fs::read_to_string(&path).unwrap().starts_with(page::GENERATED);
        assert_eq!(generated, pages.contains(&path), "{}", path.display());
    }
}

#[test]
fn the_first_line_that_differs_is_shown() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    let shown = difference("a\nb\n", "a\nc\n").unwrap();
    assert!(
        shown.starts_with("line 2\n") && shown.contains("file says b\n") && shown.ends_with("code says c")
    );
    assert!(difference("a\n", "a\nb\n").unwrap().contains("file says (the end)"));
    assert!(difference("a", "a\n").is_some());
}
