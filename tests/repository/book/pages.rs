//! The documents and their code blocks: which documents there are, and what happens to each block. Links are elsewhere.
//! `tests/apiserver/book.rs` runs and applies the blocks.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};
use std::fs;
use std::path::{Path, PathBuf};

/// Documents outside `docs/`.
const OUTSIDE: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "ci/README.md",
    "crates/bench/README.md",
    "crates/simulation/README.md",
    "src/provider/README.md",
    "tests/README.md",
    "tests/corpus/README.md",
    "tests/faults.md",
];

/// The Markdown that both GitHub and mdBook understand.
pub(crate) const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// A reason with fewer words explains nothing.
const REASON_WORDS: usize = 3;

/// Languages of blocks that are only shown.
const SHOWN: [&str; 3] = ["text", "rust", "toml"];

/// A document.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// The path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its first line of code, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) fate: Fate,
}

/// The way in which a block is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Bash runs it.
    Run,
    /// The API server checks it in a dry run.
    Apply,
    /// It is applied and stays for the rest of the page.
    ApplyForGood,
    /// It says why it is not run.
    NotRun,
    /// It says why it is not applied.
    NotApplied,
    /// It contains neither commands nor objects.
    Shown,
    /// Its info string is unknown.
    Unknown,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every document.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = OUTSIDE.map(str::to_owned).to_vec();
    paths.extend(pages_of_the_book());
    let page = |path: String| {
        let text = fs::read_to_string(root().join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Page { path, text }
    };
    paths.into_iter().map(page).collect()
}

/// The paths of all Markdown files below `docs/`, in order.
fn pages_of_the_book() -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::from("docs")]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root().join(&folder)).unwrap_or_else(|error| panic!("docs: {error}"));
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// The line, from 1, that contains a byte of a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

impl Page {
    /// Its code blocks, in order.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest of Markdown is no code")]
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut within = false;
        for (event, range) in Parser::new_ext(&self.text, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let (fate, below) = match &kind {
                        CodeBlockKind::Fenced(info) => (Fate::of(info), 1),
                        CodeBlockKind::Indented => (Fate::Unknown, 0),
                    };
                    let line = line_of(&self.text, range.start) + below;
                    blocks.push(Block { line, text: String::new(), fate });
                    within = true;
                }
                Event::Text(text) if within => {
                    blocks.last_mut().into_iter().for_each(|block| block.text.push_str(&text));
                }
                _ => within = false,
            }
        }
        blocks
    }
}

impl Fate {
    /// The fate that an info string asks for.
    pub(crate) fn of(info: &str) -> Self {
        let reason = |said: &str, start: &str| {
            let reason = said.strip_prefix(start);
            reason.is_some_and(|reason| reason.split_whitespace().count() >= REASON_WORDS)
        };
        match info.split_once(' ').unwrap_or((info, "")) {
            ("sh", "") => Self::Run,
            ("yaml", "") => Self::Apply,
            ("yaml", "apply") => Self::ApplyForGood,
            ("sh", said) if reason(said, "not run: ") => Self::NotRun,
            ("yaml", said) if reason(said, "not applied: ") => Self::NotApplied,
            (language, "") if SHOWN.contains(&language) => Self::Shown,
            _ => Self::Unknown,
        }
    }
}
