//! The memory of a pool across restarts, and its upkeep. The object's status holds it.

use super::Pool;
use super::spec::ReclaimPolicy;
use crate::addresses::account::Account;
use crate::addresses::account::belief::{Belief, Place};
use crate::model::{AccountId, Address, MachineId, ObjectRef, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// An address that the operator created, or that counts as created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The address.
    pub ip: Address,
    /// It has been in `spec.ips`. If somebody removes it there, it is not written again.
    pub written: bool,
}

/// A place where records held an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The account of the zone.
    pub account_id: AccountId,
    /// The zone, by the id that its provider gives it.
    pub zone: String,
    /// The fully qualified name.
    pub fqdn: String,
}

/// An address that the answer to a creation of this pool named. Only such an address is ever deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purchased {
    /// The address.
    pub ip: Address,
    /// The account in which it was bought.
    pub account_id: AccountId,
    /// The object for which it was bought. An object that was recreated under the same name has another uid.
    pub uid: Uid,
    /// The provider ID of the machine on which the pool last had it; empty for none.
    pub held_on: String,
    /// Where records have held it.
    pub names: BTreeSet<Name>,
    /// Its deletion may be requested, or was.
    pub deleting: bool,
}

/// A creation that may have happened. It is written into the status before the request is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The number of the intent. No two intents of a pool share one, so an intent on the server is never mistaken for
    /// its successor.
    pub number: u64,
    /// The account of the request. Unknown if an older operator wrote the intent.
    pub account_id: AccountId,
    /// Region slug.
    pub region: String,
    /// Every address that the account was known to have.
    pub known: BTreeSet<Address>,
    /// More than one new address was found afterwards, and only the user can say which one is ours.
    pub uncertain: Option<BTreeSet<Address>>,
}

impl Intent {
    /// True while the outcome is open. Then only the pool that resolves it may create in this account.
    pub fn is_open(&self) -> bool {
        self.uncertain.is_none()
    }
}

/// The memory of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// Created addresses, in order of creation.
    pub created: Vec<Created>,
    /// Bought addresses, in order of purchase. They may be deleted if the spec asks for that.
    pub purchased: Vec<Purchased>,
    /// Addresses that the pool held and gave up, as long as they may still be on a machine.
    pub former: BTreeSet<Address>,
    /// Addresses of unknown origin that have been on candidates, until the first creation.
    pub unknown: BTreeSet<Address>,
    /// Addresses of unknown origin that were on candidates before the first creation. `None` until that creation.
    pub orphans: Option<BTreeSet<Address>>,
    /// The creation under way, or the one that stayed uncertain.
    pub intent: Option<Intent>,
}

impl Memory {
    /// Its size in a status, in bytes, generously.
    pub fn bytes(&self) -> usize {
        let purchased = self.purchased.iter().map(|bought| 300 + bought.names.len() * 400).sum::<usize>();
        let listed = self.former.len() + self.unknown.len() + self.orphans.as_ref().map_or(0, BTreeSet::len);
        let known = self.intent.as_ref().map_or(0, |intent| intent.known.len());
        purchased + self.created.len() * 50 + (listed + known) * 20
    }

    /// Whether an address counts as created.
    pub fn has_created(&self, ip: Address) -> bool {
        self.created.iter().any(|created| created.ip == ip)
    }

    /// Remembers a created address.
    pub fn remember(&mut self, ip: Address, written: bool) {
        if !self.has_created(ip) {
            self.created.push(Created { ip, written });
        }
    }

    /// The purchase of this address.
    pub fn purchase_of(&self, ip: Address) -> Option<&Purchased> {
        self.purchased.iter().find(|purchased| purchased.ip == ip)
    }

    /// Notes an address that the answer to a creation named.
    pub(super) fn purchase(&mut self, new: Purchased) {
        self.purchased.retain(|purchased| purchased.ip != new.ip);
        self.purchased.push(new);
    }

    /// Notes the machine on which the pool has an address.
    pub(super) fn stands(&mut self, ip: Address, on: Option<&MachineId>) {
        if let Some(purchased) = self.purchased.iter_mut().find(|purchased| purchased.ip == ip) {
            purchased.held_on = on.map(MachineId::provider_id).unwrap_or_default();
        }
    }

    /// Remembers an address that a creation returned. After the first creation, addresses of unknown origin are no
    /// longer sought.
    pub fn bought(&mut self, ip: Address, written: bool) {
        self.remember(ip, written);
        let unknown = std::mem::take(&mut self.unknown);
        self.orphans.get_or_insert(unknown);
    }
}

impl Pool {
    /// Updates the memory for addresses that are given up, released or gone for good.
    pub fn keep_memory(
        &mut self,
        account: &Account,
        owners: &BTreeMap<Address, ObjectRef>,
        others_visible: bool,
    ) {
        if !self.is_readable() || self.spec.is_frozen() {
            // A spec that cannot be read or followed gives nothing up.
            return;
        }
        let without_memory = self.memory.is_none() && self.spec.desired.is_some();
        let mut memory = self.memory.clone().unwrap_or_else(|| {
            // Without our memory, the addresses of a pool that creates count as created, whatever their origin.
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
        let kept = self.spec.reclaim == ReclaimPolicy::Delete;
        let here = &account.epoch().account_id;
        memory.purchased.retain(|purchased| {
            let gone = others_visible
                && purchased.account_id == *here
                && account.belief(purchased.ip).is_some_and(Belief::is_gone);
            // An address that was given up while the policy was not `Delete` is never deleted.
            (kept || !released.contains(&purchased.ip)) && (purchased.deleting || !gone)
        });
        let named = memory.created.iter_mut().filter(|created| self.spec.ips.contains(&created.ip));
        named.for_each(|created| created.written = true);
        self.memory = Some(memory);
        let effective: BTreeSet<Address> = self.effective().into_iter().collect();
        // If our memory was lost, addresses in the status may be created ones that were not given up.
        let let_go = |ip: &&Address| {
            !without_memory || self.spec.released.contains(ip) || self.named_first.contains(ip)
        };
        let let_go: Vec<Address> =
            self.effective_before.difference(&effective).filter(let_go).copied().collect();
        let own = &self.object.uid;
        let elsewhere = |ip: &Address| owners.get(ip).is_some_and(|owner| owner.uid != *own);
        if let Some(memory) = &mut self.memory {
            memory.former.extend(let_go);
            memory.former.retain(|ip| {
                let gone = account.belief(*ip).is_some_and(Belief::is_gone);
                let standing = match account.place(*ip) {
                    Place::Unknown => true,
                    Place::Absent => !(others_visible && gone),
                    // A pending action may bring the address to a node of ours.
                    Place::Present { machine, locked, .. } => machine.is_some() || *locked,
                };
                (standing || account.op(*ip).is_some()) && !effective.contains(ip) && !elsewhere(ip)
            });
        }
        // Failures of an address that was given up still delay its next request.
        let former = self.former();
        self.ips.retain(|ip, _| effective.contains(ip) || former.contains(ip));
        self.effective_before = effective.into_iter().filter(|ip| !elsewhere(ip)).collect();
    }

    /// The pool's addresses that may still be on a machine although they are not effective.
    pub fn former(&self) -> BTreeSet<Address> {
        self.memory.as_ref().map(|memory| memory.former.clone()).unwrap_or_default()
    }

    /// Whether an address was bought for the pool in this account.
    pub(crate) fn has_bought_in(&self, account_id: &AccountId) -> bool {
        self.purchased().any(|bought| bought.account_id == *account_id)
    }

    /// The purchases for this pool that were not given up for good.
    pub fn purchased(&self) -> impl Iterator<Item = &Purchased> {
        self.memory.iter().flat_map(|memory| &memory.purchased)
    }
}
