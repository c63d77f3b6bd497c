//! A pool's view of everything else, during its plan.

use super::Pool;
use crate::model::facts::ReservedIp;
use crate::model::ids::{Address, ObjectRef, Uid};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// A pool's view of everything else.
#[derive(Debug)]
pub struct World<'a> {
    /// Now.
    pub now: Moment,
    /// Calls that change something may start.
    pub permit: bool,
    /// The oldest pool that names an address.
    pub owners: &'a BTreeMap<Address, ObjectRef>,
    /// The used addresses that are on machines, of all pools of the account.
    pub standing: &'a BTreeMap<MachineId, (ObjectRef, Address)>,
    /// Every address of the account.
    pub seen: &'a BTreeMap<Address, ReservedIp>,
    /// Addresses that no pool named when the account was planned, by machine.
    pub strays: &'a BTreeMap<&'a MachineId, Vec<Address>>,
    /// Every address that is on a machine.
    pub holders: &'a BTreeMap<MachineId, Address>,
    /// Machines on which this pool's ports are being opened, and when assignments stop waiting for that.
    pub gates: &'a BTreeMap<MachineId, Moment>,
    /// The addresses that labels name, each with the node that has the labels. Only healthy nodes are included.
    pub labelled: &'a BTreeMap<Address, Uid>,
    /// An unconfirmed deletion in this account has taken effect or may do so.
    pub deleting: bool,
    /// The other pools.
    pub others: &'a BTreeMap<Uid, Pool>,
}
