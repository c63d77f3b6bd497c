//! The binary as a user runs it: the script of the repository's examples, a user's own YAML, what is wrong with it, and
//! `serve` with the real kubectl.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that finds something else than it expects ends there"
)]

mod page;
mod run;
mod serve;
mod support;
