//! Firewalls of our own, which let the ports of pools in on the machines of their nodes.
//!
//! Owns what is known of an account's firewalls, which machines are put into ours and taken out, and what is told of
//! that. Does not know pools: of these the layer above hands in what each one wishes.
//!
//! Invariants: a machine is put into ours only while a firewall that no pool owns governs it, by a list that counts and
//! is fresh; in doubt nothing is put in and nothing is taken out; foreign firewalls are never changed; one of ours is
//! deleted only by the id that a status remembers.

pub mod account;
pub mod action;
pub mod cover;
pub mod exact;
pub mod facts;
pub mod looks;
pub mod place;
pub mod report;
pub mod set;
pub mod spec;
pub mod status;
pub mod steps;
pub mod wish;
