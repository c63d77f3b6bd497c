//! The facts from outside the pool that decide whether an address may be given back.
//!
//! Owns their form. The fleet gathers them, and `super::steps` draws the conclusions.

use super::super::memory::Purchased;
use crate::model::ids::{Address, Uid};
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// What records hold an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// Those at some name have still to be read, or cannot be read: the text says why.
    Unread(Option<String>),
    /// Some do, and are about to go.
    Held,
    /// Some do that an object wants: which.
    Claimed(String),
    /// None, where it ever was.
    None {
        /// The longest time for which clients may remember one.
        ttl_ms: u64,
        /// When the oldest of the last reads was begun; `None` where no record ever held it.
        read: Option<Moment>,
    },
}

/// What consistent lists of the objects of both kinds show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// When they were begun.
    pub begun: Moment,
    /// When they were answered.
    pub done: Moment,
    /// The objects that name an address.
    pub naming: BTreeMap<Address, Vec<(Uid, String)>>,
    /// Record sets whose statuses tell of an address.
    pub publishing: BTreeMap<Address, String>,
    /// Objects that cannot be read.
    pub unread: Vec<String>,
}

/// What has to be known of the rest of the world.
pub struct Around<'a> {
    /// Now.
    pub now: Moment,
    /// Mutating calls may start.
    pub permit: bool,
    /// Other objects that name addresses, by what watches show.
    pub named_by: &'a BTreeMap<Address, String>,
    /// Which records hold an address.
    pub records: &'a dyn Fn(&Purchased) -> Records,
    /// Whether an annotation names an address; `None` while that is not known.
    pub annotated: &'a dyn Fn(Address) -> Option<bool>,
    /// Why annotations cannot be written, if they cannot.
    pub unwritable: Option<&'a str>,
    /// The node of this cluster on a machine.
    pub node_on: &'a dyn Fn(&MachineId) -> Option<(Uid, String)>,
    /// What the last consistent lists show.
    pub listed: Option<&'a Listed>,
    /// Why objects cannot be listed, if they cannot.
    pub unlistable: Option<&'a str>,
    /// A purchase in the account is not finished.
    pub purchasing: bool,
}
