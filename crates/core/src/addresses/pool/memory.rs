//! What a pool has to remember across restarts. It lives in the object's status.

use crate::model::ids::{AccountId, Address};
use std::collections::BTreeSet;

/// An address that the operator created, or that counts as created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The address.
    pub ip: Address,
    /// It has stood in `spec.ips` once; if it is taken out there, it is not written again.
    pub written: bool,
}

/// A creation that may have happened: written down before the request is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// No two intents of a pool have the same number, so that one on the server is never taken for its successor.
    pub number: u64,
    /// The account that is asked; unknown where an older operator wrote the intent down.
    pub account_id: AccountId,
    /// Region slug.
    pub region: String,
    /// Every address that the account was known to have.
    pub known: BTreeSet<Address>,
    /// More than one new address was found afterwards, and only the user can say which one is ours.
    pub uncertain: Option<BTreeSet<Address>>,
}

impl Intent {
    /// True while nobody may create in this account but the one who resolves this.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.uncertain.is_none()
    }
}

/// What a pool remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// Created addresses, in order of creation.
    pub created: Vec<Created>,
    /// Addresses that the pool held and let go, as long as they may still stand on a machine.
    pub former: BTreeSet<Address>,
    /// Addresses of unknown origin that have stood on candidates, until the first creation.
    pub unknown: BTreeSet<Address>,
    /// Addresses of unknown origin that stood on candidates before the first creation; `None` before that.
    pub orphans: Option<BTreeSet<Address>>,
    /// The creation under way, or the one that stayed uncertain.
    pub intent: Option<Intent>,
}

impl Memory {
    /// Whether an address counts as created.
    #[must_use]
    pub fn has_created(&self, ip: Address) -> bool {
        self.created.iter().any(|created| created.ip == ip)
    }

    /// Remembers a created address.
    pub fn remember(&mut self, ip: Address, written: bool) {
        if !self.has_created(ip) {
            self.created.push(Created { ip, written });
        }
    }

    /// Remembers an address that a creation brought. After the first one no others of unknown origin are looked for.
    pub fn bought(&mut self, ip: Address, written: bool) {
        self.remember(ip, written);
        let unknown = std::mem::take(&mut self.unknown);
        self.orphans.get_or_insert(unknown);
    }
}
