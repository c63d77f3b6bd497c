//! The Markdown of a page.

use std::fmt::Write as _;

/// The beginning of each page.
pub(crate) const GENERATED: &str =
    "<!-- Generated from the code: UPDATE_DOCS=1 cargo test --test repository -- reference. Do not edit. -->";

/// The longest line of a paragraph.
const WIDTH: usize = 120;

/// A page under construction.
pub(crate) struct Page(String);

impl Page {
    /// Starts a page with its title and one or two sentences on its purpose.
    pub(crate) fn new(title: &str, intro: &str) -> Self {
        let mut page = Self(format!("{GENERATED}\n"));
        page.add(&format!("# {title}"));
        page.paragraph(intro);
        page
    }

    fn add(&mut self, block: &str) {
        let _infallible = write!(self.0, "\n{}\n", block.trim_end());
    }

    /// Adds a heading of this level: 2 is below the title.
    pub(crate) fn heading(&mut self, level: usize, text: &str) {
        self.add(&format!("{} {text}", "#".repeat(level)));
    }

    /// Adds text. White space does not matter.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.add(&wrapped(text, ""));
    }

    /// Adds a list of such texts.
    pub(crate) fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) {
        let items: Vec<String> =
            items.into_iter().map(|item| format!("- {}", wrapped(item.as_ref(), "  "))).collect();
        self.add(&items.join("\n"));
    }

    /// Adds a table. See [`cell`] and [`code`] for texts that are not Markdown.
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

/// Lines of at most [`WIDTH`] characters. All but the first begin with `indent`.
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

/// Plain text from the source, with code between backquotes, for a cell or a paragraph. Outside code, characters that
/// are special in Markdown and HTML are escaped.
pub(crate) fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = text.split('`').enumerate().map(|(number, part)| {
        if number % 2 == 1 {
            code(part)
        } else {
            part.replace('<', "&lt;").replace('|', "\\|").replace('*', "\\*").replace('_', "\\_")
        }
    });
    parts.collect()
}

/// Code for a cell. An empty text stays empty.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

/// Several codes for a cell.
pub(crate) fn codes<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| code(text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// A number with commas between thousands.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut told = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            told.push(',');
        }
        told.push(digit);
    }
    told
}

#[test]
fn thousands_are_told_apart() {
    let told = [0, 999, 1_000, 86_400, 2_147_483_647].map(number);
    assert_eq!(told, ["0", "999", "1,000", "86,400", "2,147,483,647"]);
}

#[test]
fn what_is_markdown_or_html_to_a_reader_is_escaped_outside_of_code() {
    assert_eq!(cell("a<b | `c|d<e`\n _f_"), "a&lt;b \\| `c\\|d<e` \\_f\\_");
}
