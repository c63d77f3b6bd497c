//! The operator in the simulated world: seeds, sweeps, and plans that failed once.
//!
//! A plain run plays a few of each. `SIMULATION_SEEDS=300` plays that many seeds (`SIMULATION_FIRST` is the first of
//! them). `SIMULATION_SWEEP=17` plays the plans of each sweep that fall to landing 17, and `SIMULATION_SWEEP=all` plays
//! every plan. `cargo test --profile simulation` makes all of it fast. `cargo test --workspace` leaves this suite out.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod determinism;
mod evidence;
mod grace;
mod lasting;
mod outages;
mod regressions;
mod seeds;
mod support;
mod sweeps;
mod world;
