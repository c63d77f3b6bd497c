//! The operator in the simulated world: seeds, sweeps, and plans that failed once.
//!
//! A plain run plays a few of each. `SIMULATION_SEEDS=600` plays that many seeds (`SIMULATION_FIRST` is the first of
//! them). `SIMULATION_SWEEP=1` plays a share of each sweep, and `SIMULATION_SWEEP=2` plays every plan. `cargo test
//! --profile simulation` makes all of it fast. `cargo test --workspace` leaves this suite out.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod determinism;
mod evidence;
mod grace;
mod lasting;
mod regressions;
mod seeds;
mod support;
mod sweeps;
mod world;
