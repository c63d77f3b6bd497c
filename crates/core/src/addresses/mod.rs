//! Addresses: the knowledge about an account, and which pool puts which address on which machine.
//!
//! Of records this module knows only their parts of a pool's spec and status.

pub mod account;
pub mod action;
pub mod pool;
