//! Documents keep to a size, and their lines to a width.

use super::pages::{Page, pages};

/// README is read first, and in one go.
const README_LINES: usize = 250;

/// The same in bytes.
const README_BYTES: usize = 12_288;

/// The words of the book. A book that grows is read less: say a fact once, and cut before you add.
const BOOK_WORDS: usize = 58_770;

/// The width that fits beside a diff.
const COLUMNS: usize = 120;

/// Paths on somebody's machine.
const HOMES: [&str; 3] = ["/home/", "/root/", "/Users/"];

/// The columns of a line. A link's target does not count, because it cannot be broken.
fn columns(line: &str) -> usize {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().chars().count();
    parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest).chars().count() + 3).sum::<usize>()
        + first
}

/// Prose lines that are too wide. Code, tables and link definitions do not count.
fn wide(page: &Page) -> Vec<usize> {
    let mut code = vec![false; page.text.lines().count() + 1];
    for block in page.blocks() {
        let lines = block.line - 1..block.line - 1 + block.text.lines().count();
        code.iter_mut().take(lines.end).skip(lines.start).for_each(|line| *line = true);
    }
    let prose = |line: &str| {
        let line = line.trim_start();
        !(line.starts_with(['|', '<']) || line.starts_with('[') && line.contains("]: "))
    };
    let lines = page.text.lines().zip(code).enumerate();
    let wide = lines.filter(|(_, (line, code))| !code && prose(line) && columns(line) > COLUMNS);
    wide.map(|(number, _)| number + 1).collect()
}

#[test]
fn readme_is_short() {
    let pages = pages();
    let readme = pages.iter().find(|page| page.path == "README.md").unwrap_or_else(|| panic!("no README.md"));
    let (lines, bytes) = (readme.text.lines().count(), readme.text.len());
    assert!(lines <= README_LINES, "README.md has {lines} lines, more than {README_LINES}");
    assert!(bytes <= README_BYTES, "README.md has {bytes} bytes, more than {README_BYTES}");
}

#[test]
fn the_book_is_short() {
    let pages = pages();
    let book = pages.iter().filter(|page| page.path.starts_with("docs/"));
    let words: usize = book.map(|page| page.text.split_whitespace().count()).sum();
    println!("words of the book: {words}");
    assert!(words <= BOOK_WORDS, "docs/ has {words} words, more than {BOOK_WORDS}");
}

#[test]
fn no_line_of_prose_is_wider_than_120_columns() {
    let pages = pages();
    let told =
        |page: &Page| wide(page).into_iter().map(|line| format!("{}:{line}", page.path)).collect::<Vec<_>>();
    let all: Vec<String> = pages.iter().flat_map(told).collect();
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn no_document_names_a_path_of_somebodys_machine() {
    for page in pages() {
        for (number, line) in page.text.lines().enumerate() {
            let home = HOMES.iter().find(|home| line.contains(**home));
            assert!(home.is_none(), "{}:{}: {line}", page.path, number + 1);
        }
    }
}

#[test]
fn code_tables_and_destinations_of_links_may_be_wider() {
    let wide_word = "x".repeat(COLUMNS + 1);
    let text = format!(
        "{}\n{wide_word}\n\n[a]({wide_word}) b\n\n| {wide_word} |\n| --- |\n\n```sh\n{wide_word}\n```\n\n[a]: {wide_word}\n",
        "ä".repeat(COLUMNS)
    );
    assert_eq!(wide(&Page { path: String::new(), text }), [2]);
    assert_eq!(columns("a [b](c.md), [d](e.md)."), "a [b](), [d]().".len());
}
