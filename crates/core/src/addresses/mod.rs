//! Addresses: what is known of an account, and which pool puts which address on which machine.
//!
//! This module knows of records only what a pool's own spec and status say.

pub mod account;
pub mod action;
pub mod pool;
