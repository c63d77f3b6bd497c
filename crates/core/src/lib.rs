//! The decisions of FLIPOP: pure functions and plain state. No clock, randomness, I/O or logging.
//!
//! Each layer knows those above it in this list, and no other.

pub mod model;

pub mod mechanism;

pub mod records;

pub mod firewalls;

pub mod addresses;

pub mod fleet;
