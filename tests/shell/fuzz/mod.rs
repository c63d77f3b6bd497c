//! Every decoder of external data, against any input: bytes, JSON, and real bodies with a defect.
//!
//! The rules: no panic. The result is either an error of bounded length without the token, or a value that means the
//! same after it is written and read again. `corpus/<decoder>/` is replayed first: `good*` has to be accepted and
//! `bad*` refused. `PROPTEST_CASES=100000 cargo test --test shell -- fuzz` searches longer.
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
