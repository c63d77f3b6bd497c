//! Sweeps: an undisturbed plan, disturbed once at every call or at every event that a watch shows.
//!
//! Two comparisons with the undisturbed run tell whether anything was lost or done twice: the end state, and how often
//! addresses were bought and moved. The judge looks at every step on top of that.

use super::Outcome;
use super::plan::{Fault, On, Plan, Then, Trigger};

/// How long a process that died takes to be back.
const RESTART_MS: u64 = 1_000;

/// With a disturbed watch the world may be seen as it was for as long as a silent watch goes unnoticed.
const STALE_MS: u64 = 130_000;

fn disturbed(plan: &Plan, on: On, then: Then) -> Plan {
    let name = format!("{}: {then:?} at {on:?}", plan.name);
    Plan { name, triggers: vec![Trigger { on, then }], ..plan.clone() }
}

/// A crash at every call of an undisturbed run: before it is sent, after its effect, and after its answer.
#[must_use]
pub fn crashes(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let deaths = [
        Then::CrashBefore { restart_ms: RESTART_MS },
        Then::CrashAfterEffect { restart_ms: RESTART_MS },
        Then::CrashAfterReply { restart_ms: RESTART_MS },
    ];
    (1..=undisturbed.busy_calls)
        .flat_map(|call| deaths.iter().map(move |then| (call, then.clone())))
        .map(|(call, then)| {
            let mut plan = disturbed(plan, On::Call(call), then);
            // A successor waits for the lease to expire.
            plan.end_ms += 20_000;
            plan
        })
        .collect()
}

/// A change at a provider whose outcome is not learnt, or that is refused, at every such call of an undisturbed run.
#[must_use]
pub fn lost_answers(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let faults = [
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::HangBefore,
        Fault::HangAfter,
        Fault::RefuseAfter { status: 502 },
        Fault::Garble,
        Fault::Refuse { status: 500, retry_after_s: None },
        Fault::Refuse { status: 429, retry_after_s: Some(3) },
    ];
    undisturbed
        .tally
        .changing
        .iter()
        .flat_map(|call| faults.iter().map(move |fault| (*call, Then::Meet(fault.clone()))))
        .map(|(call, then)| disturbed(plan, On::Call(call), then))
        .collect()
}

/// A watch that hides, delays, doubles, ends, breaks off, expires or falls silent at every event of an undisturbed run.
#[must_use]
pub fn blindness(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let blinds = [
        Then::Hide { for_ms: 5_000 },
        Then::Hide { for_ms: 30_000 },
        Then::Hide { for_ms: 100_000 },
        Then::Late { ms: 500 },
        Then::Late { ms: 7_000 },
        Then::Late { ms: 40_000 },
        Then::Stall,
        Then::Tear,
        Then::End,
        Then::Expire,
        Then::Forget,
        Then::Twice,
    ];
    (1..=undisturbed.busy_frames)
        .flat_map(|frame| blinds.iter().map(move |then| (frame, then.clone())))
        .map(|(frame, then)| {
            let mut plan = disturbed(plan, On::Frame(frame), then);
            plan.staleness_ms = STALE_MS;
            plan
        })
        .collect()
}

/// In what a disturbed run differs from the undisturbed one, though it must not. `spare`: how many more assignments
/// are no loss.
#[must_use]
pub fn differences(undisturbed: &Outcome, outcome: &Outcome, spare: usize) -> Vec<String> {
    let mut all: Vec<String> =
        outcome.violations.iter().map(|found| format!("{}: {}", found.rule, found.text)).collect();
    if !all.is_empty() {
        return all;
    }
    if outcome.end != undisturbed.end {
        all.push(format!("it ends as {:?}, not as {:?}", outcome.end, undisturbed.end));
    }
    let (bought, wanted) = (outcome.tally.creates, undisturbed.tally.creates);
    if bought != wanted {
        all.push(format!("{bought} addresses were bought, not {wanted}"));
    }
    let moves = |outcome: &Outcome| outcome.tally.assigns.values().sum::<usize>();
    let (made, allowed) = (moves(outcome), moves(undisturbed) + spare);
    if made > allowed {
        all.push(format!("{made} assignments were made, not {allowed} at most"));
    }
    let (taken, allowed) = (outcome.tally.unassigns, undisturbed.tally.unassigns + spare);
    if taken > allowed {
        all.push(format!("{taken} addresses were taken off, not {allowed} at most"));
    }
    for (ip, wanted) in &undisturbed.tally.assigns {
        // Addresses that were bought are others in each run.
        let made = outcome.tally.assigns.get(ip).copied().unwrap_or_default();
        let allowed = wanted + spare;
        if made > allowed {
            all.push(format!("{ip} was assigned {made} times, not {allowed} at most"));
        }
    }
    all
}
