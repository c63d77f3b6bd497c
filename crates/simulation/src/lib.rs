//! The test bed: the real operator in a simulated world, on a paused clock, judged at every step.
//!
//! A [`Plan`] says what happens: to nodes, pods, addresses and objects, and to calls, watches and processes. The real
//! shell runs unchanged; only its [`flipop::operator::Platform`] is simulated: the clock, randomness, the service under
//! its Kubernetes clients and the transport under its provider clients. [`run`] plays a plan and returns what the judge
//! found. The same plan gives the same transcript, byte for byte.

mod act;
mod acts;
mod acts_on_firewalls;
pub mod ailments;
mod asks;
mod bed;
mod dice;
mod diff;
mod facts;
mod firewalls;
mod frames;
pub mod furnish;
pub mod generate;
mod judge;
mod line;
mod logs;
mod machines;
mod mistakes;
mod network;
pub mod news;
mod panics;
mod patient;
mod pauses;
pub mod plan;
mod play;
mod replica;
mod scene;
mod shrink;
mod story;
pub mod sweep;
pub mod workloads;

pub use judge::{Tally, Violation};
pub use network::Sort;
pub use plan::Plan;
pub use shrink::shrink;

use news::News;
use std::io;
use tokio::runtime::{Builder, Runtime};

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The broken rules.
    pub violations: Vec<Violation>,
    /// Counts of what was done.
    pub tally: Tally,
    /// The calls that triggers can name, up to the end of the plan.
    pub busy_calls: u64,
    /// The frames that triggers can name, up to the end of the plan.
    pub busy_frames: u64,
    /// Renewals of the lease and Events, up to the end of the plan.
    pub busy_clockwork: u64,
    /// The purpose of each call that triggers can name, in order.
    pub sorts: Vec<Sort>,
    /// The times of these calls and frames.
    pub moments: Vec<u64>,
    /// The virtual time at the end.
    pub ended_ms: u64,
    /// The end state, without details that differ between equally good runs.
    pub end: Vec<String>,
    /// A fingerprint of the transcript.
    pub fingerprint: u64,
    /// The transcript, if requested.
    pub story: String,
}

/// A runtime whose clock is paused.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_time().start_paused(true).build()
}

/// Plays a plan on a runtime of its own. `story` asks for the transcript's text.
///
/// # Errors
/// If the runtime cannot be built.
pub fn run(plan: &Plan, story: bool) -> io::Result<Outcome> {
    Ok(runtime()?.block_on(play::run(plan.clone(), story, None, &mut || {})))
}

/// Plays a plan in the same way, and calls `after_step` after each of its steps.
///
/// # Errors
/// If the runtime cannot be built.
pub fn run_stepwise(plan: &Plan, after_step: &mut dyn FnMut()) -> io::Result<Outcome> {
    Ok(runtime()?.block_on(play::run(plan.clone(), false, None, after_step)))
}

/// Plays a plan in the same way. Also returns all changes in the cluster and in the accounts.
///
/// # Errors
/// If the runtime cannot be built.
pub fn watch(plan: &Plan) -> io::Result<(Outcome, Vec<News>)> {
    let mut news = Vec::new();
    let outcome = runtime()?.block_on(play::run(plan.clone(), false, Some(&mut news), &mut || {}));
    Ok((outcome, news))
}
