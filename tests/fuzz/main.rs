//! Every decoder of what comes from outside, against anything: bytes, JSON, and real bodies with something wrong.
//!
//! What must hold: no panic; an error of bounded length without the token, or a value that means the same when it is
//! written out and read again. `corpus/<decoder>/` is replayed first: what is called `good*` has to be accepted, and
//! what is called `bad*` refused. `PROPTEST_CASES=100000 cargo test --test fuzz` looks longer.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod cloudflare;
mod corpus;
mod digitalocean;
mod headers;
mod input;
mod kubernetes;
mod lease;
mod specs;
mod texts;
mod transport;
mod watches;
