//! The simulated API server from outside: with kube's client and watcher, over HTTP, and with the real kubectl.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod faults;
mod kubectl;
mod reading;
mod support;
mod watching;
mod writing;
