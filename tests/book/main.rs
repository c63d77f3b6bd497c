//! The documents, held to what they say of the repository and to the rules that CONTRIBUTING gives them.
//! `tests/apiserver/book.rs` runs their commands and applies their objects; `tests/alerts.rs` wants a runbook of each
//! alert.
#![expect(clippy::panic, reason = "a test may stop at once")]

mod blocks;
mod links;
mod outline;
mod pages;
mod shape;
