//! What a pool has to remember across restarts, and how that is kept true. It lives in the object's status.

use super::Pool;
use crate::addresses::account::Account;
use crate::addresses::account::belief::{Belief, Place};
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

impl Pool {
    /// Keeps the memory true: what is let go, released or gone for good.
    pub fn keep_memory(
        &mut self,
        account: &Account,
        named_elsewhere: &BTreeSet<Address>,
        others_visible: bool,
    ) {
        if self.raw.is_err() || self.spec.is_frozen() {
            // What cannot be read or followed says nothing about what was let go.
            return;
        }
        let without_memory = self.memory.is_none() && self.spec.desired.is_some();
        let mut memory = self.memory.clone().unwrap_or_else(|| {
            // Whoever made them: without our memory, the addresses of a pool that creates count as created.
            let mut memory = Memory::default();
            if self.spec.desired.is_some() {
                self.spec.ips.iter().for_each(|ip| memory.remember(*ip, true));
            }
            memory
        });
        let released = &self.spec.released;
        memory.created.retain(|created| {
            let gone = others_visible && account.belief(created.ip).is_some_and(Belief::is_gone);
            !released.contains(&created.ip) && !gone
        });
        let named = memory.created.iter_mut().filter(|created| self.spec.ips.contains(&created.ip));
        named.for_each(|created| created.written = true);
        self.memory = Some(memory);
        let effective: BTreeSet<Address> = self.effective().into_iter().collect();
        // Where our memory was lost, what the status shows may have been created and not let go.
        let let_go = |ip: &&Address| {
            !without_memory || self.spec.released.contains(ip) || self.named_first.contains(ip)
        };
        let let_go: Vec<Address> =
            self.effective_before.difference(&effective).filter(let_go).copied().collect();
        if let Some(memory) = &mut self.memory {
            memory.former.extend(let_go);
            memory.former.retain(|ip| {
                let gone = account.belief(*ip).is_some_and(Belief::is_gone);
                let standing = match account.place(*ip) {
                    Place::Unknown => true,
                    Place::Absent => !(others_visible && gone),
                    // What is on its way may come to stand on a node of ours.
                    Place::Present { machine, locked, .. } => machine.is_some() || *locked,
                };
                (standing || account.op(*ip).is_some())
                    && !effective.contains(ip)
                    && !named_elsewhere.contains(ip)
            });
        }
        // What failed for an address that was let go still says when it may be tried again.
        let former = self.former();
        self.ips.retain(|ip, _| effective.contains(ip) || former.contains(ip));
        self.effective_before = effective.difference(named_elsewhere).copied().collect();
    }
}
