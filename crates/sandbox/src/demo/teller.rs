//! Lines on the terminal, each with the time since the beginning, a symbol and a word for its subject. They can be read
//! without colour, and none is longer than 120 columns.

use anstyle::{AnsiColor, Style};
use std::io::Write;

/// The longest line, except for one with a longer word or with text to copy.
const COLUMNS: usize = 120;

/// Where a line's text begins: after the time, the symbol and the word.
const INDENT: usize = 22;

/// The indent of further rows of text without a time.
const PLAIN_INDENT: usize = 4;

/// The subject of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// An act or a finding of the sandbox.
    Sandbox,
    /// Something required happened.
    Done,
    /// Something is wrong.
    Wrong,
    /// Something is being waited for.
    Waits,
    /// An object is applied.
    Apply,
    /// The API server's warning.
    Warning,
    /// Nodes begin or cease to match.
    Match,
    /// A node's annotation.
    Node,
    /// An Event.
    Event,
    /// A condition of a pool.
    Pool,
    /// A condition of a record set.
    Set,
    /// An address in the account.
    Account,
    /// A DNS record.
    Record,
    /// A firewall in the account.
    Firewall,
}

impl Line {
    fn look(self) -> (char, &'static str, AnsiColor) {
        match self {
            Self::Sandbox => ('»', "sandbox", AnsiColor::Cyan),
            Self::Done => ('✓', "sandbox", AnsiColor::Green),
            Self::Wrong => ('✗', "sandbox", AnsiColor::Red),
            Self::Waits => ('…', "sandbox", AnsiColor::BrightBlack),
            Self::Apply => ('+', "apply", AnsiColor::Cyan),
            Self::Warning => ('!', "warning", AnsiColor::Yellow),
            Self::Match => ('=', "match", AnsiColor::Magenta),
            Self::Node => ('#', "node", AnsiColor::Blue),
            Self::Event => ('*', "event", AnsiColor::BrightBlack),
            Self::Pool => ('○', "pool", AnsiColor::Yellow),
            Self::Set => ('◇', "set", AnsiColor::Yellow),
            Self::Account => ('→', "account", AnsiColor::Green),
            Self::Record => ('@', "record", AnsiColor::Blue),
            Self::Firewall => ('▦', "firewall", AnsiColor::Blue),
        }
    }
}

/// Writes the story.
pub(super) struct Teller {
    out: Box<dyn Write + Send>,
    last_ms: u64,
}

impl Teller {
    /// `out` removes colours that would not be seen.
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, last_ms: 0 }
    }

    /// A line about something that happened. The time never goes back from line to line, although news from two sides
    /// is ordered only to the millisecond.
    pub(super) fn line(&mut self, at_ms: u64, line: Line, text: &str) {
        self.last_ms = self.last_ms.max(at_ms);
        let (symbol, word, colour) = line.look();
        let style = Style::new().fg_color(Some(colour.into()));
        let room = COLUMNS.saturating_sub(INDENT);
        let mut rows = wrapped(text, room, room).into_iter();
        let first = rows.next().unwrap_or_default();
        let time = seconds(self.last_ms);
        self.verbatim(&format!("{time:>8}  {style}{symbol} {word:<9}{style:#} {first}"));
        for row in rows {
            self.verbatim(&format!("{:INDENT$}{row}", ""));
        }
    }

    /// Text without a time.
    pub(super) fn plain(&mut self, text: &str) {
        let rest = COLUMNS.saturating_sub(PLAIN_INDENT);
        for (number, row) in wrapped(text, COLUMNS, rest).into_iter().enumerate() {
            let indent = if number == 0 { 0 } else { PLAIN_INDENT };
            self.verbatim(&format!("{:indent$}{row}", ""));
        }
    }

    /// Text as it is. A closed reader is no failure; the exit code gives the result.
    pub(super) fn verbatim(&mut self, text: &str) {
        let _unread = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }
}

/// Breaks the text at blanks into rows of this many columns, with another width for the first row.
fn wrapped(text: &str, first: usize, rest: usize) -> Vec<String> {
    let (mut rows, mut left, mut room) = (Vec::new(), text.trim_end(), first);
    while left.chars().count() > room {
        let blanks =
            left.match_indices(' ').filter(|(at, _)| !left.get(..*at).unwrap_or_default().trim().is_empty());
        let within = |(at, _): &(usize, &str)| left.get(..*at).unwrap_or_default().chars().count() <= room;
        let blank = blanks.clone().take_while(within).last().or_else(|| blanks.clone().next());
        let Some((row, more)) = blank.and_then(|(at, _)| left.split_at_checked(at)) else { break };
        rows.push(row.trim_end().to_owned());
        (left, room) = (more.trim_start(), rest);
    }
    rows.push(left.to_owned());
    rows
}

/// Milliseconds as seconds with two decimals.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1_000, ms % 1_000 / 10)
}

/// A time that is normally short: in milliseconds below a second.
pub(super) fn brief(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { seconds(ms) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn seconds_have_two_decimals() {
        assert_eq!(seconds(0), "0.00 s");
        assert_eq!(seconds(61_059), "61.05 s");
        assert_eq!([brief(999), brief(1_000)], ["999 ms", "1.00 s"]);
    }

    #[test]
    fn a_long_line_goes_on_below_its_text_and_its_words_stay_whole() {
        let page = Page::default();
        let mut teller = Teller::new(Box::new(page.clone()));
        let text = "word ".repeat(40);
        teller.line(1_000, Line::Done, &text);
        teller.plain(&text);
        teller.plain("");
        teller.plain("  two blanks before");
        let coloured = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let written = anstream::adapter::strip_str(&coloured).to_string();
        assert_ne!(written, coloured);
        let lines: Vec<&str> = written.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{written}");
        assert!(lines[0].starts_with("  1.00 s  ✓ sandbox   word word"), "{written}");
        assert!(lines[1].starts_with(&format!("{:INDENT$}word", "")), "{written}");
        assert_eq!(written.matches("word").count(), 80, "{written}");
        assert_eq!(lines[lines.len() - 2..], ["", "  two blanks before"]);
    }

    #[test]
    fn each_kind_of_line_has_a_symbol_of_its_own() {
        use Line::{
            Account, Apply, Done, Event, Firewall, Match, Node, Pool, Record, Sandbox, Set, Waits, Warning,
            Wrong,
        };
        let all = [
            Sandbox, Done, Wrong, Waits, Apply, Warning, Match, Node, Event, Pool, Set, Account, Record,
            Firewall,
        ];
        let mut symbols: Vec<char> = all.iter().map(|line| line.look().0).collect();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), all.len());
    }
}
