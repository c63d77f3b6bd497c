//! An address that can be given out, and a node that can take one. Who gets which is decided elsewhere.

use super::Candidate;
use crate::model::ids::{Address, Uid};
use crate::model::machine::MachineId;

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
    pub(super) name: &'a String,
    pub(super) candidate: &'a Candidate,
    pub(super) machine: &'a MachineId,
    /// An address of this pool, disabled or let go, that has to leave first.
    pub(super) evict: Option<Address>,
}

impl Taker<'_> {
    /// The address that leaves where it is when this taker gets that one, and the node that gets the leaving one.
    pub(super) fn leaves(&self, free: &Free) -> (Address, Option<&Uid>) {
        self.evict.map_or((free.ip, Some(&self.candidate.uid)), |holder| (holder, None))
    }

    /// An address goes only to a node of its own region, as far as both are known.
    pub(super) fn suits(&self, free: &Free) -> bool {
        let region = self.candidate.region.as_deref();
        region.is_none_or(|region| region == free.region || free.region.is_empty())
    }
}
