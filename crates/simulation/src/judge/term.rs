//! I2: one writer. A changing call is sent only with enough of the permit left, and by one process at a time. I10: no
//! token is in a body.

use super::{Judge, Process, ROUNDING_MS};
use crate::facts::Facts;

/// A changing call starts only while at least this much of the permit is left.
const MIN_REMAINING_MS: u64 = 3_000;

impl Judge {
    pub(super) fn check_permit(&mut self, now_ms: u64, process: Process, facts: &Facts) {
        let ends = self.known.get(&process).and_then(|known| known.permit_ends_ms).unwrap_or_default();
        if ends.saturating_add(ROUNDING_MS) < now_ms.saturating_add(MIN_REMAINING_MS) {
            let left = ends.saturating_sub(now_ms);
            self.blame(now_ms, "I2", format!("{process} starts {:?} with {left} ms of permit", facts.what));
        }
    }

    pub(super) fn check_alone(&mut self, now_ms: u64, process: Process, facts: &Facts) {
        let other = self.open.values().find(|open| open.process != process && open.facts.mutates());
        if let Some(other) = other {
            let text = format!(
                "{process} starts {:?} while {} of {} is under way",
                facts.what, other.facts.what, other.process
            );
            self.blame(now_ms, "I2", text);
        }
    }

    /// I10: no token is in a body.
    pub(super) fn check_secrets(&mut self, now_ms: u64, process: Process, facts: &Facts, body: &[u8]) {
        if self.secrets.iter().any(|secret| contains(body, secret.as_bytes())) {
            self.blame(now_ms, "I10", format!("{process} sends the token in a body: {}", facts.what));
        }
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
