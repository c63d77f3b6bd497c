//! The operator in the simulated world.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod determinism;
