//! Counts of what a run did, to compare two runs of one plan.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Addresses bought.
    pub creates: usize,
    /// Addresses deleted.
    pub deletes: usize,
    /// Assignments that the provider accepted, by address.
    pub assigns: BTreeMap<Ipv4Addr, usize>,
    /// Unassignments that the provider accepted.
    pub unassigns: usize,
    /// Objects that the operator wrote, except the lease and Events.
    pub writes: usize,
    /// Those among them that annotated nodes.
    pub annotations: usize,
    /// Events that the operator wrote or counted again.
    pub events: usize,
    /// Changes of DNS records.
    pub records: usize,
    /// Changes of firewalls that the provider accepted.
    pub firewalls: usize,
    /// Calls that triggers can name.
    pub calls: u64,
    /// Frames that triggers can name.
    pub frames: u64,
    /// Moves that rest on checks, each with the evidence for it.
    pub condemned: usize,
    /// Moves off a living machine that answered no check, and that the provider called off or gone.
    pub misled: usize,
}
