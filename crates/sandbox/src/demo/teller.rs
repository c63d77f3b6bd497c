//! Lines on the terminal, each with the time since the beginning and with who did it. No colour is needed to read them.

use std::io::Write;

/// Writes the story.
pub(super) struct Teller {
    out: Box<dyn Write + Send>,
    last_ms: u64,
}

impl Teller {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, last_ms: 0 }
    }

    /// Something that happened. Time never goes back from line to line: what is heard of from two sides is in order
    /// only up to milliseconds.
    pub(super) fn line(&mut self, at_ms: u64, who: &str, text: &str) {
        self.last_ms = self.last_ms.max(at_ms);
        self.plain(&format!("{:>8}  {who:<9} {text}", seconds(self.last_ms)));
    }

    /// Text without a time. Nobody reading on is no reason to fail: the exit code tells how it ended.
    pub(super) fn plain(&mut self, text: &str) {
        let _unread = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }
}

/// Milliseconds as seconds with two decimals.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1_000, ms % 1_000 / 10)
}

/// A time that is short when all is well: milliseconds up to a second.
pub(super) fn brief(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { seconds(ms) }
}

#[cfg(test)]
mod tests {
    use super::{brief, seconds};

    #[test]
    fn seconds_have_two_decimals() {
        assert_eq!(seconds(0), "0.00 s");
        assert_eq!(seconds(61_059), "61.05 s");
        assert_eq!([brief(999), brief(1_000)], ["999 ms", "1.00 s"]);
    }
}
