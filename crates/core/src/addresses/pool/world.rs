//! A pool's view of everything else, during its plan.

use super::Pool;
use crate::model::facts::ReservedIp;
use crate::model::ids::{Address, ObjectRef, Uid};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
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
    /// The addresses that labels name, each with the node that has the labels. Only healthy nodes are included.
    pub labelled: &'a BTreeMap<Address, BTreeSet<Uid>>,
    /// An unconfirmed deletion in this account has taken effect or may do so.
    pub deleting: bool,
    /// The other pools.
    pub others: &'a BTreeMap<Uid, Pool>,
    /// Those of them that make room or buy.
    pub in_the_way: &'a BTreeSet<Uid>,
}

impl<'a> World<'a> {
    /// The other pools that make room or buy.
    pub(super) fn in_the_way(&self) -> impl Iterator<Item = &'a Pool> {
        let others = self.others;
        self.in_the_way.iter().filter_map(|uid| others.get(uid))
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
}
