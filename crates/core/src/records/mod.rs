//! Record sets: the A records of one name, which follow what one object intends.
//!
//! A set has two sides. The object has its intended records ([`spec`], [`node_set`], [`set`]) and its last place
//! ([`former_name`]). The name and the token have the state of DNS ([`site`], [`read_trust`], [`mark`], [`diff`],
//! [`account`] and its refusals), which outlives any one object. Pools and `NodeDNSRecordSet`s differ here only in
//! their defaults, and in how soon a change is written.
//!
//! Invariants: nothing is written before all facts for the decision are known. A set is emptied only if the spec asks
//! for that and no node matches. A name has at most one change set under way.

pub mod account;
pub mod action;
pub mod diff;
pub mod dns;
pub mod former_name;
pub mod mark;
pub mod name;
pub mod node_set;
pub mod read_trust;
mod refusals;
pub mod set;
pub mod site;
pub mod spec;
pub mod status;
pub mod view;
