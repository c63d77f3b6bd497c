//! Firewalls of our own, which open the ports of pools on the machines of their nodes.
//!
//! Owns the knowledge of an account's firewalls, the machines in ours, and the reports about them. Does not know
//! pools: the layer above hands in what each pool intends.
//!
//! Invariants: a machine enters one of ours only while a fresh list shows that a firewall governs it which no pool
//! owns. In doubt no machine enters or leaves. Foreign firewalls never change. One of ours is deleted only by the id
//! that a status remembers.

pub mod account;
pub mod action;
pub mod cover;
pub mod facts;
pub mod read_trust;
pub mod report;
pub mod set;
pub mod spec;
pub mod steps;
