//! The simulated providers over real connections.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; indexing JSON gives null where a key is missing"
)]

mod dns;
mod faults;
mod firewalls;
mod reserved_ips;
mod support;
