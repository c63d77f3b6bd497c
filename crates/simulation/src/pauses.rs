//! Pauses of objects, for a few seconds, at every moment of an undisturbed run.
//!
//! No pause may lose anything or repeat it: work that was sent is finished, and the rest is done after the pause.

use super::mistakes::{nth, specs};
use super::plan::{Act, Plan};
use super::workloads::at;

/// How long an object stays paused: longer than an action of the provider takes.
const PAUSED_MS: u64 = 4_000;

/// A pause at every call and event of an undisturbed run, with each object in turn.
pub(super) fn at_every(plan: &Plan, moments: &[u64]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (number, moment) in moments.iter().enumerate() {
        let at_ms = moment + 1;
        let objects: Vec<(String, String)> = specs(plan, at_ms).into_keys().collect();
        let Some((kind, name)) = nth(&objects, number).cloned() else { continue };
        let mut paused = plan.clone();
        paused.name = format!("{}: {name} is paused at {at_ms} ms", plan.name);
        let act = Act::PauseObject { kind, name, text: "a pause".to_owned(), for_ms: PAUSED_MS };
        paused.steps.push(at(at_ms, act));
        paused.steps.sort_by_key(|step| step.at_ms);
        paused.end_ms = plan.end_ms.max(at_ms + PAUSED_MS);
        plans.push(paused);
    }
    plans
}
