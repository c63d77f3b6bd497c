//! Markdown of a page.

use std::fmt::Write as _;

/// How each page begins.
pub(crate) const GENERATED: &str =
    "<!-- Generated from the code: UPDATE_DOCS=1 cargo test --test reference. Do not edit. -->";

/// Longest line of a paragraph.
const WIDTH: usize = 120;

/// A page in the making.
pub(crate) struct Page(String);

impl Page {
    /// With its title, and with one or two sentences that say what it is for.
    pub(crate) fn new(title: &str, intro: &str) -> Self {
        let mut page = Self(format!("{GENERATED}\n"));
        page.add(&format!("# {title}"));
        page.paragraph(intro);
        page
    }

    fn add(&mut self, block: &str) {
        let _infallible = write!(self.0, "\n{}\n", block.trim_end());
    }

    /// A heading of this level: 2 is below the title.
    pub(crate) fn heading(&mut self, level: usize, text: &str) {
        self.add(&format!("{} {text}", "#".repeat(level)));
    }

    /// Text, whose white space does not matter.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.add(&wrapped(text, ""));
    }

    /// A table; see [`code`] for texts that are no Markdown.
    pub(crate) fn table<const COLUMNS: usize>(
        &mut self,
        head: [&str; COLUMNS],
        rows: impl IntoIterator<Item = [String; COLUMNS]>,
    ) {
        let mut lines = vec![head.map(str::to_owned), [(); COLUMNS].map(|()| "---".to_owned())];
        lines.extend(rows);
        assert!(lines.len() > 2, "a table without rows");
        let lines: Vec<String> = lines.into_iter().map(|cells| row(&cells)).collect();
        self.add(&lines.join("\n"));
    }

    /// The whole text.
    pub(crate) fn end(self) -> String {
        self.0
    }
}

fn row(cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| format!(" {cell}").trim_end().to_owned());
    format!("|{} |", cells.collect::<Vec<_>>().join(" |"))
}

/// Lines of at most [`WIDTH`] characters; those after the first begin with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        if line.is_empty() || line == indent {
            line.push_str(word);
        } else if indent.len() + line.chars().count() + word.chars().count() < WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n")
}

/// Code for a cell; nothing stays nothing.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}
