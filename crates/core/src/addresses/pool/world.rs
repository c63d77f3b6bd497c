//! A pool's view of the rest of the world, while it is planned.

use super::Pool;
use crate::model::facts::ReservedIp;
use crate::model::ids::{Address, ObjectRef, Uid};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// A pool's view of the rest of the world.
#[derive(Debug)]
pub struct World<'a> {
    /// Now.
    pub now: Moment,
    /// Mutating calls may start.
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
    /// Machines whose ports are being opened for this pool, and until when that is waited for.
    pub gates: &'a BTreeMap<MachineId, Moment>,
    /// The addresses that labels name, with the nodes on which these stand. Only of nodes that are well.
    pub labelled: &'a BTreeMap<Address, Uid>,
    /// A deletion in this account may take effect, or has and is not confirmed.
    pub deleting: bool,
    /// The other pools.
    pub others: &'a BTreeMap<Uid, Pool>,
}
