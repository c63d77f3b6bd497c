//! Addresses: what is known of an account, and which pool puts which address on which machine.
//!
//! Of records it knows only what a pool's own spec and status say of them.

pub mod account;
pub mod action;
pub mod pool;
