//! Lines on the terminal, each with the time since the beginning and with who did it. No colour is needed to read them.

use std::io::Write;

/// Writes the story.
pub(super) struct Teller {
    out: Box<dyn Write + Send>,
}

impl Teller {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out }
    }

    /// Something that happened.
    pub(super) fn line(&mut self, at_ms: u64, who: &str, text: &str) {
        self.plain(&format!("{:>8}  {who:<9} {text}", seconds(at_ms)));
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

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn seconds_have_two_decimals() {
        assert_eq!(seconds(0), "0.00 s");
        assert_eq!(seconds(61_059), "61.05 s");
    }
}
