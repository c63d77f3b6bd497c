//! The binary as a user runs it: the script of the repository's examples, a user's own YAML, mistakes in it, and
//! `serve` with the real kubectl.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends at the first thing that it does not expect"
)]

mod commands;
mod page;
mod run;
mod serve;
mod support;
