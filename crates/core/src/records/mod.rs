//! Record sets: the A records of one name, kept on what an object wants there.
//!
//! A set has two sides. The object has its wish ([`spec`], [`node_set`], [`set`]) and its last place ([`home`]). The name
//! and the token have the state of DNS ([`site`], [`looks`], [`mark`], [`diff`], [`account`] and its refusals), which
//! outlives any one object. Pools and `NodeDNSRecordSet`s are the same thing here, except for their defaults and their
//! rhythm.
//!
//! Invariants: nothing is written before everything is known that decides what is right; a set is never emptied but
//! where the spec says so and no node matches; one call at a time for a name.

pub mod account;
pub mod action;
pub mod claims;
pub mod diff;
pub mod dns;
pub mod home;
pub mod looks;
pub mod mark;
pub mod name;
pub mod node_set;
pub mod object;
pub mod pause;
mod refusals;
pub mod set;
pub mod site;
pub mod spec;
pub mod status;
pub mod view;
