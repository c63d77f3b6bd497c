//! The token and the term of leadership in which a request was sent to an account.

use crate::model::ids::AccountId;

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
