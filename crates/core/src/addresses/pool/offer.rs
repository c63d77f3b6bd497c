//! An address that can be given out, and a node that can take one. Who gets which is decided elsewhere.

use super::candidates::{Candidate, Named};
use crate::model::ids::{Address, Uid};
use crate::model::machine::MachineId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An address that can be given out.
#[derive(Debug, Clone)]
pub(super) struct Free {
    pub(super) ip: Address,
    pub(super) region: String,
    pub(super) from: Option<MachineId>,
}

/// A candidate that can take one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taker<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) candidate: &'a Candidate,
    pub(super) machine: &'a MachineId,
    /// An address that the pool disabled or gave up, and that has to be taken off first.
    pub(super) evict: Option<Address>,
}

impl<'a> Taker<'a> {
    /// The candidate as a taker, if it is on a machine. `evicted` are the addresses to take off first.
    pub(super) fn new((name, candidate): Named<'a>, evicted: &BTreeMap<Uid, Address>) -> Option<Self> {
        let evict = evicted.get(&candidate.node.uid).copied();
        Some(Self { name, candidate, machine: candidate.node.machine.as_ref()?, evict })
    }
}

impl Taker<'_> {
    /// The address that leaves its place when this taker gets `free`, and the node that it moves to, if it moves.
    pub(super) fn leaves(&self, free: &Free) -> (Address, Option<&Uid>) {
        self.evict.map_or((free.ip, Some(&self.candidate.node.uid)), |holder| (holder, None))
    }

    /// Whether the node is in the region of the address, as far as both regions are known.
    pub(super) fn suits(&self, free: &Free) -> bool {
        let region = self.candidate.node.region.as_deref();
        region.is_none_or(|region| region == free.region || free.region.is_empty())
    }
}
