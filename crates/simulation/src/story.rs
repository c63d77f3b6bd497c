//! The transcript of a run: each line with its virtual time, and a fingerprint of all of them.
//!
//! Two sorts of lines are rarely read. Lines that every run has by the hundreds enter only the fingerprint. Details
//! that are slow to make enter only the text.
//!
//! Invariants: no line contains anything of the machine (its clock, its addresses, names of Events), so the same plan
//! gives the same bytes. Asking for the text changes no fingerprint.

use super::dice::Fingerprint;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The transcript. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Story(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    wanted: bool,
    text: String,
    fingerprint: Fingerprint,
    hushed: u64,
}

/// A line, with `mark` at its end.
fn line(now_ms: u64, who: &str, text: &str, mark: &str) -> String {
    let mut line = String::with_capacity(text.len() + mark.len() + 24);
    // Writing to a string cannot fail.
    let _infallible = writeln!(line, "{:>6}.{:03} {who:<6} {text}{mark}", now_ms / 1_000, now_ms % 1_000);
    line
}

impl Story {
    /// With the text, or with the fingerprint alone.
    pub(super) fn new(wanted: bool) -> Self {
        Self(Arc::new(Mutex::new(Told { wanted, ..Told::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. `who` is a replica or a part of the world.
    pub(super) fn tell(&self, now_ms: u64, who: &str, text: &str) {
        self.tell_marked(now_ms, who, text, "");
    }

    /// Adds a line. `mark`, the fingerprint of its content, is of no interest to people.
    pub(super) fn tell_marked(&self, now_ms: u64, who: &str, text: &str, mark: &str) {
        let marked = line(now_ms, who, text, mark);
        let mut told = self.lock();
        told.fingerprint.add(marked.as_bytes());
        if told.wanted {
            let shown = if mark.is_empty() { marked } else { line(now_ms, who, text, "") };
            told.text.push_str(&shown);
        }
    }

    /// Adds a line to the fingerprint only, and counts it.
    pub(super) fn hush(&self, now_ms: u64, who: &str, text: &str) {
        let line = line(now_ms, who, text, "");
        let mut told = self.lock();
        told.fingerprint.add(line.as_bytes());
        told.hushed += 1;
    }

    /// Adds details to the text, if the text is wanted.
    pub(super) fn explain(&self, now_ms: u64, who: &str, detail: impl FnOnce() -> Vec<String>) {
        if !self.lock().wanted {
            return;
        }
        for detail in detail() {
            let line = line(now_ms, who, &format!("  {detail}"), "");
            self.lock().text.push_str(&line);
        }
    }

    /// The fingerprint of all lines so far.
    pub(super) fn fingerprint(&self) -> u64 {
        self.lock().fingerprint.value()
    }

    /// The text, if it was wanted.
    pub(super) fn text(&self) -> String {
        let told = self.lock();
        let mut text = told.text.clone();
        if told.wanted && told.hushed > 0 {
            // Writing to a string cannot fail.
            let _infallible =
                writeln!(text, "{} calls about the lease went well and are not told", told.hushed);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_the_text_is_wanted_changes_no_fingerprint() {
        let told = |wanted| {
            let story = Story::new(wanted);
            story.tell(1_500, "world", "it begins");
            story.tell_marked(1_501, "r0.1", "> PUT pool", " 0a0b");
            story.hush(1_502, "r0.1", "> PUT leases");
            story.explain(1_503, "kube", || vec!["status.state = active".to_owned()]);
            (story.fingerprint(), story.text())
        };
        let ((one, text), (other, nothing)) = (told(true), told(false));
        assert_eq!((one, nothing.as_str()), (other, ""));
        assert!(text.contains("> PUT pool\n") && text.contains("state = active"), "{text}");
        assert!(text.ends_with("1 calls about the lease went well and are not told\n"), "{text}");
    }

    #[test]
    fn what_is_not_shown_is_in_the_fingerprint() {
        let told = |mark: &str| {
            let story = Story::new(false);
            story.tell_marked(0, "r0.1", "> PUT pool", mark);
            story.fingerprint()
        };
        assert_ne!(told(" 1"), told(" 2"));
    }
}
