//! Checks the documents against the repository and against CONTRIBUTING's rules. `tests/apiserver/book.rs` runs their
//! commands and applies their objects. `tests/alerts.rs` requires a runbook for each alert.
#![expect(clippy::panic, reason = "a test may stop at once")]

mod blocks;
mod links;
mod outline;
pub(crate) mod pages;
mod shape;
