//! The facts from outside the pool that decide whether an address may be given back.
//!
//! The fleet gathers these facts, and `super::steps` draws the conclusions.

use super::super::memory::Purchased;
use crate::model::ids::{Address, Uid};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};

/// The records that hold an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// The records at some name have still to be read. The text says why they cannot be read, if they cannot.
    Unread(Option<String>),
    /// Some records hold it, and are about to be removed.
    Held,
    /// An object wants some of the records that hold it. The text says which.
    Claimed(String),
    /// No name that ever held it still holds it.
    None {
        /// The longest time for which clients may remember such a record.
        ttl_ms: u64,
        /// When the oldest of the last reads began. `None` if no record ever held it.
        read: Option<Moment>,
    },
}

/// The content of consistent lists of pools and record sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// When the lists began.
    pub begun: Moment,
    /// When the lists were answered.
    pub done: Moment,
    /// The addresses that were sought in every entry of every object.
    pub sought: BTreeSet<Address>,
    /// The objects that name an address.
    pub naming: BTreeMap<Address, Vec<(Uid, String)>>,
    /// Record sets whose status names an address.
    pub publishing: BTreeMap<Address, String>,
    /// Objects that cannot be read.
    pub unread: Vec<String>,
}

/// Facts from the rest of the state that decide the next step.
pub struct Around<'a> {
    /// Now.
    pub now: Moment,
    /// Whether calls that change something may start.
    pub permit: bool,
    /// Other objects that name addresses, as the watches show them.
    pub named_by: &'a BTreeMap<Address, String>,
    /// Finds the records that hold an address.
    pub records: &'a dyn Fn(&Purchased) -> Records,
    /// Whether an annotation names an address. `None` while that is unknown.
    pub annotated: &'a dyn Fn(Address) -> Option<bool>,
    /// The reason why annotations cannot be written, if they cannot.
    pub unwritable: Option<&'a str>,
    /// The node of this cluster on a machine.
    pub node_on: &'a dyn Fn(&MachineId) -> Option<(Uid, String)>,
    /// The last consistent lists.
    pub listed: Option<&'a Listed>,
    /// The reason why objects cannot be listed, if they cannot.
    pub unlistable: Option<&'a str>,
    /// Whether a purchase in the account is unfinished.
    pub purchasing: bool,
}
