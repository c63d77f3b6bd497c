//! Which answers count: those to requests of the present token and term of leadership, and those to reads that began
//! late enough after a change.

use crate::model::ids::AccountId;
use crate::model::moment::Moment;

/// For this long after a change, a list or a read may still show the state from before it.
pub const LAG_MS: u64 = 30_000;

/// An account in one of its epochs. A call carries its epoch, and the answer returns it unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// The account.
    pub account_id: AccountId,
    number: u64,
}

impl Epoch {
    /// The first epoch of an account.
    pub const fn first(account_id: AccountId) -> Self {
        Self { account_id, number: 0 }
    }

    /// Ends the epoch: the token changed, or leadership began or resumed after a gap.
    pub fn end(&mut self) {
        self.number = self.number.saturating_add(1);
    }

    /// Whether it came before another epoch of the same account.
    pub const fn precedes(&self, other: &Self) -> bool {
        self.number < other.number
    }
}

/// Whether a read that began then shows the state after the last change. `settled` is the end of that change.
pub fn counts(begun: Moment, settled: Option<Moment>) -> bool {
    settled.is_none_or(|settled| begun >= settled.plus_millis(LAG_MS))
}

/// Whether a read that began then confirms the first one, because it began `apart_ms` later or more. Notes the first
/// one.
pub fn two_looks(first: &mut Option<Moment>, begun: Moment, apart_ms: u64) -> bool {
    begun >= first.get_or_insert(begun).plus_millis(apart_ms)
}
