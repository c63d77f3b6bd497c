//! The annotation that pauses an object, and how a pause is reported.
//!
//! The annotation pauses the object whatever its text. The text is a reason for people; nothing parses it.

use crate::model::catalog::shared::Paused;
use crate::model::condition::Condition;

/// The annotation, on a pool or a record set.
pub const PAUSED_ANNOTATION: &str = "flipop.digitalocean.com/paused";

/// Characters of the text that a message repeats. An Event has room for 1,000 bytes.
const MAX_TEXT_CHARS: usize = 200;

/// Why an object is paused: the text of the annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// The annotation's text on one line, cut to what a message repeats.
    pub fn new(text: &str) -> Self {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let line: String = text.chars().take(MAX_TEXT_CHARS.saturating_mul(2)).map(plain).collect();
        let line = line.trim();
        let cut: String = line.chars().take(MAX_TEXT_CHARS).collect();
        Self(if cut.len() < line.len() { format!("{cut}…") } else { cut })
    }

    /// The sentence for users.
    pub fn text(&self) -> String {
        let text = &self.0;
        match text.as_str() {
            "" => format!("paused by the annotation {PAUSED_ANNOTATION}, without a reason"),
            _ => format!("paused by the annotation {PAUSED_ANNOTATION}: {text}"),
        }
    }

    /// The condition of a paused object.
    pub(crate) fn condition(&self) -> Condition {
        Condition::new(Paused::Annotation, self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_one_line_of_bounded_length() {
        let text = |annotation: &str| Reason::new(annotation).text();
        assert_eq!(text("incident 7"), "paused by the annotation flipop.digitalocean.com/paused: incident 7");
        assert!(text("").ends_with("without a reason") && text(" \n").ends_with("without a reason"));
        assert!(text("a\nb\u{7f}c").ends_with(": a b c"));
        assert!(text("false").ends_with(": false"), "every text pauses");
        let (long, fits) = (text(&"é".repeat(100_000)), text(&"é".repeat(MAX_TEXT_CHARS)));
        assert!(long.ends_with("é…") && long.len() < 500 && !fits.ends_with('…'), "{}", long.len());
    }
}
