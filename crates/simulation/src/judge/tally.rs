//! What a run did, counted: two runs of one plan are compared by it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// How much was done, for comparisons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Addresses bought.
    pub creates: usize,
    /// Assignments that the provider accepted, by address.
    pub assigns: BTreeMap<Ipv4Addr, usize>,
    /// Unassignments that the provider accepted.
    pub unassigns: usize,
    /// Objects that the operator wrote, but for the lease and Events.
    pub writes: usize,
    /// Those of them that annotated nodes.
    pub annotations: usize,
    /// Events that the operator wrote or counted once more.
    pub events: usize,
    /// Changes of DNS records.
    pub records: usize,
    /// Calls that triggers can name.
    pub calls: u64,
    /// Those of them that change something at a provider.
    pub changing: Vec<u64>,
    /// Frames that triggers can name.
    pub frames: u64,
}
