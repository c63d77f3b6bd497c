//! The calls to providers and their answers, each with its epoch, and which answers count: those to requests of the
//! present token and term of leadership, and those to reads that began late enough after a change.

use crate::model::{AccountId, Moment, Owner};

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

    /// A call in this epoch, for an object or for the whole account.
    pub fn request<C>(&self, owner: Option<Owner>, call: C) -> Request<C> {
        Request { epoch: self.clone(), owner, call }
    }

    /// Whether it came before another epoch of the same account.
    pub const fn precedes(&self, other: &Self) -> bool {
        self.number < other.number
    }
}

/// A call to a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<C> {
    /// The account and its epoch.
    pub epoch: Epoch,
    /// The object that the call is for. `None` if it serves the whole account.
    pub owner: Option<Owner>,
    /// The call.
    pub call: C,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<R> {
    /// The account and its epoch, as in the request.
    pub epoch: Epoch,
    /// The object, as in the request.
    pub owner: Option<Owner>,
    /// When the first bytes of the call were sent.
    pub begun: Moment,
    /// The reply to the call.
    pub reply: R,
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
