//! A pool's view of everything else, during its plan.

use super::Pool;
use crate::addresses::account::belief::Place;
use crate::addresses::account::{Account, Moved};
use crate::model::{Address, MachineId, Moment, ObjectRef, ReservedIp, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// A pool's view of everything else.
#[derive(Debug)]
pub struct World<'a> {
    /// Now.
    pub now: Moment,
    /// Calls that change something may start.
    pub permit: bool,
    /// The oldest pool that names an address.
    pub owners: &'a BTreeMap<Address, ObjectRef>,
    /// Where addresses were when the account was planned.
    pub sights: &'a Sights,
    /// Machines on which this pool's ports are being opened, and when assignments stop waiting for that.
    pub gates: &'a BTreeMap<MachineId, Moment>,
    /// The pool's addresses that labels name, each with the nodes that have the labels. Only healthy nodes are
    /// included.
    pub labelled: &'a BTreeMap<Address, BTreeSet<Uid>>,
    /// An unconfirmed deletion in this account has taken effect or may do so.
    pub deleting: bool,
    /// The other pools.
    pub others: &'a BTreeMap<Uid, Box<Pool>>,
    /// Those of them that make room or buy.
    pub in_the_way: &'a BTreeSet<Uid>,
}

impl<'a> World<'a> {
    /// The other pools that make room or buy.
    pub(super) fn in_the_way(&self) -> impl Iterator<Item = &'a Pool> {
        let others = self.others;
        self.in_the_way.iter().filter_map(|uid| others.get(uid)).map(Box::as_ref)
    }
}

/// Where the addresses of an account are.
#[derive(Debug, Default)]
pub struct Sights {
    /// The used addresses that are on machines, of all pools of the account.
    pub standing: BTreeMap<MachineId, (ObjectRef, Address)>,
    /// Every address of the account.
    pub seen: BTreeMap<Address, ReservedIp>,
    /// Addresses that no pool names, by machine.
    pub strays: BTreeMap<MachineId, Vec<Address>>,
    /// Every address that is on a machine.
    pub holders: BTreeMap<MachineId, Address>,
    /// Two addresses are on one machine, so one of them is in none of these.
    pub crowded: bool,
}

impl Sights {
    /// Takes in that addresses have moved, each of which a pool names. `used_by` is the pool that uses one. Returns
    /// false if everything has to be looked at again.
    pub(crate) fn follow<'a>(
        &mut self,
        account: &Account,
        moved: &Moved,
        used_by: impl Fn(Address) -> Option<&'a ObjectRef>,
    ) -> bool {
        let left = |(ip, machine): (&Address, &Option<MachineId>)| {
            self.seen.remove(ip);
            machine.as_ref().is_none_or(|machine| {
                self.standing.remove(machine);
                self.holders.remove(machine) == Some(*ip)
            })
        };
        if moved.is_empty() {
            return true;
        }
        if self.crowded || !moved.iter().all(left) {
            return false;
        }
        moved.keys().all(|ip| {
            let Some(read) = account.seen_at(*ip) else { return *account.place(*ip) == Place::Absent };
            self.seen.insert(*ip, read);
            let Some(machine) = account.place(*ip).machine() else { return true };
            if let Some(object) = used_by(*ip) {
                self.standing.insert(machine.clone(), (object.clone(), *ip));
            }
            self.holders.insert(machine.clone(), *ip).is_none()
        })
    }
}
