//! Addresses: the knowledge about an account, and the decision which pool puts which address on which machine.
//!
//! This module knows only one thing about records: their parts of a pool's spec and status.

pub mod account;
pub mod action;
pub mod pool;
