//! With which token, and in which term of leadership, something was asked of an account.

use crate::model::ids::AccountId;

/// An account in one of its epochs. A call carries it, and the answer brings it back unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// The account.
    pub account_id: AccountId,
    number: u64,
}

impl Epoch {
    /// The first one of an account.
    #[must_use]
    pub const fn first(account_id: AccountId) -> Self {
        Self { account_id, number: 0 }
    }

    /// Another token came, or leadership began, or went on after a gap.
    pub fn end(&mut self) {
        self.number = self.number.saturating_add(1);
    }
}
