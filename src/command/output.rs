//! The output of commands: tables, JSON, YAML, colors.
//!
//! Invariant: no control character from outside is printed, so no name or message can control a terminal.

use super::CommandError;
use crate::config::Order;
use crate::config::cli_args::Format;
use crate::exit::Exit;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// The gap between two columns.
const GAP: &str = "   ";

/// The time between two outputs of `--watch`.
const PERIOD: Duration = Duration::from_secs(2);

/// Clears a terminal, and moves to its first line.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// No column becomes narrower than this on a narrow terminal.
const NARROWEST: usize = 12;

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// The format.
    pub(super) format: Format,
    /// Whether to use colors and symbols.
    pub(super) coloured: bool,
    /// The columns of the terminal. `None` if the output is not for one, or everything is asked for.
    pub(super) width: Option<usize>,
}

/// How good or bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Tone {
    /// As it should be.
    Good,
    /// It deserves a look.
    Doubtful,
    /// Wrong.
    Bad,
}

impl Tone {
    /// The tone of the status of a condition `Ready`.
    pub(super) fn of_ready(status: &str) -> Self {
        match status {
            "True" => Self::Good,
            "False" => Self::Bad,
            _ => Self::Doubtful,
        }
    }
}

impl Output {
    /// The output that the flags, the environment and the terminal ask for.
    pub(super) fn of(order: &Order) -> Self {
        let common = order.word.common();
        let plain = common.is_some_and(|common| common.no_color) || order.no_color;
        let format = common.map(|common| common.output).unwrap_or_default();
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        Self {
            format,
            coloured: !plain && std::io::stdout().is_terminal(),
            width: width.filter(|_| format != Format::Wide),
        }
    }

    /// Prints the value as JSON or YAML, or the text in all other formats.
    pub(super) fn show<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<Exit, CommandError> {
        match self.format {
            Format::Table | Format::Wide => print(&text()),
            Format::Json => {
                let json = serde_json::to_string_pretty(value);
                let json = json.map_err(|error| CommandError::Format(error.to_string()))?;
                print(&format!("{json}\n"))
            }
            Format::Yaml => {
                let yaml = serde_saphyr::to_string(value);
                print(&yaml.map_err(|error| CommandError::Format(error.to_string()))?)
            }
        }
    }

    /// Shows what is read. With `watch`, does so again and again until the process ends.
    pub(super) async fn keep_showing<T: Serialize>(
        self,
        watch: bool,
        read: impl AsyncFn() -> Result<T, CommandError>,
        text: impl Fn(&T) -> String,
    ) -> Result<T, CommandError> {
        loop {
            let value = read().await?;
            if watch && self.coloured {
                print(CLEAR)?;
            }
            self.show(&value, || text(&value))?;
            if !watch {
                return Ok(value);
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Whether more columns are asked for.
    pub(super) fn is_wide(self) -> bool {
        self.format == Format::Wide
    }

    /// The text in the colour of its tone.
    pub(super) fn tinted(self, tone: Tone, text: &str) -> String {
        let colour = match tone {
            Tone::Good => "32",
            Tone::Doubtful => "33",
            Tone::Bad => "31",
        };
        self.escaped(colour, text)
    }

    /// The text in bold.
    pub(super) fn bold(self, text: &str) -> String {
        self.escaped("1", text)
    }

    fn escaped(self, code: &str, text: &str) -> String {
        if self.coloured && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// The symbol of a tone, or a word in a plain output.
    pub(super) fn mark(self, tone: Tone) -> String {
        let (symbol, word) = match tone {
            Tone::Good => ("✓", "ok"),
            Tone::Doubtful => ("!", "!"),
            Tone::Bad => ("✗", "x"),
        };
        self.tinted(tone, if self.coloured { symbol } else { word })
    }
}

/// A table whose cells have a tone.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<(String, Option<Tone>)>>,
}

impl Table {
    /// A table with these headers.
    pub(super) fn new<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![headers.into_iter().map(|text| (text.to_owned(), None)).collect()] }
    }

    /// Adds a line.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Tone>)>) {
        self.rows.push(cells.into_iter().map(|(text, tone)| (shown(&text), tone)).collect());
    }

    /// The lines, each after `indent`. On a terminal that is too narrow, the widest cells continue below.
    pub(super) fn text(&self, output: Output, indent: &str) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            for (column, (text, _)) in row.iter().enumerate() {
                let width = text.chars().count();
                match widths.get_mut(column) {
                    Some(known) => *known = width.max(*known),
                    None => widths.push(width),
                }
            }
        }
        let gaps = widths.len().saturating_sub(1).saturating_mul(GAP.len());
        let room = output.width.map(|width| width.saturating_sub(indent.len()).saturating_sub(gaps));
        while room.is_some_and(|room| widths.iter().sum::<usize>() > room) {
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST) else { break };
            *widest -= 1;
        }
        let mut all = String::new();
        for row in &self.rows {
            let cells: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|((text, _), width)| wrapped(text, *width)).collect();
            for line in 0..cells.iter().map(Vec::len).max().unwrap_or_default() {
                let mut shown = String::from(indent);
                for ((cell, (_, tone)), width) in cells.iter().zip(row).zip(&widths) {
                    let text = cell.get(line).map(String::as_str).unwrap_or_default();
                    let space = width.saturating_sub(text.chars().count());
                    shown.push_str(&tone.map_or_else(|| text.to_owned(), |tone| output.tinted(tone, text)));
                    let _infallible = write!(shown, "{:space$}{GAP}", "");
                }
                all.push_str(shown.trim_end());
                all.push('\n');
            }
        }
        all
    }
}

/// The text in lines of at most this width, broken between words where possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        while let Some(line) = lines.last_mut() {
            let length = line.chars().count();
            let space = usize::from(length > 0);
            if length + space + word.len() <= width {
                line.extend([' '].iter().take(space).chain(&word));
                break;
            }
            if length == 0 {
                let rest = word.split_off(width.min(word.len()));
                line.extend(std::mem::replace(&mut word, rest));
                if word.is_empty() {
                    break;
                }
            }
            lines.push(String::new());
        }
    }
    lines
}

/// The first names, and how many more there are.
pub(super) fn first_of(names: &[String], most: usize) -> String {
    let first = names.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(most);
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Text for a table: on one line, without characters that control the terminal or the order of letters, and never
/// empty.
pub(super) fn shown(text: &str) -> String {
    let order = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().filter(|c| !order(*c)).map(plain).collect();
    if text.trim().is_empty() { "-".to_owned() } else { text }
}

/// Prints to standard output. A closed pipe is no failure: its reader wants no more.
pub(super) fn print(text: &str) -> Result<Exit, CommandError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(Exit::Success),
    }
}

/// Prints a line to standard error.
pub(super) fn complain(text: &str) {
    let _unwritten = writeln!(std::io::stderr(), "flipop: {}", shown(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_text_steers_the_terminal() {
        let mut table = Table::new(["NAME", "STATE"]);
        table.row([("a\u{1b}[2J\u{202e}".to_owned(), Some(Tone::Bad)), (String::new(), None)]);
        table.row([("längster".to_owned(), None), ("x".to_owned(), None)]);
        let plain = Output { format: Format::Table, coloured: false, width: None };
        let expected = "  NAME       STATE\n  a [2J      -\n  längster   x\n";
        assert_eq!(table.text(plain, "  "), expected);
        let coloured = table.text(Output { coloured: true, ..plain }, "");
        assert!(coloured.contains("\u{1b}[31ma [2J\u{1b}[0m      -"), "{coloured:?}");
    }

    #[test]
    fn a_table_fits_the_terminal_and_loses_nothing() {
        let mut table = Table::new(["NAME", "NEXT"]);
        table.row([("edge-1".to_owned(), None), ("tried again at 10:49:42 UTC (Quota)".to_owned(), None)]);
        table.row([("edge-2".to_owned(), None), ("aVeryLongNameWithoutAnySpace".to_owned(), None)]);
        let narrow = Output { format: Format::Table, coloured: false, width: Some(25) };
        let expected = "NAME     NEXT\nedge-1   tried again at\n         10:49:42 UTC\n         (Quota)\nedge-2   aVeryLongNameWit\n         houtAnySpace\n";
        assert_eq!(table.text(narrow, ""), expected);
        assert_eq!(
            table.text(Output { width: Some(80), ..narrow }, ""),
            table.text(Output { width: None, ..narrow }, "")
        );
    }
}
