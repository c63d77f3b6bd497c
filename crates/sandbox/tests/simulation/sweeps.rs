//! Every workload, disturbed once at every call and at every event.

use crate::support::{Failure, judge, play, setting, with_all};
use flipop_sandbox::simulation::{Outcome, Plan, sweep, workloads};

/// Of all plans a plain `cargo test` plays every so many.
const SAMPLE: usize = 97;

fn undisturbed() -> Vec<(Plan, Outcome)> {
    let plans = workloads::all();
    let outcomes = with_all(&plans, play);
    plans.into_iter().zip(outcomes).collect()
}

fn sweep(plans_of: impl Fn(&Plan, &Outcome) -> Vec<Plan>, spare: usize) {
    let every = if setting("SIMULATION_SWEEP", 0) > 0 { 1 } else { SAMPLE };
    let references = undisturbed();
    let plans: Vec<(&Outcome, Plan)> = references
        .iter()
        .flat_map(|(plan, outcome)| plans_of(plan, outcome).into_iter().map(move |plan| (outcome, plan)))
        .step_by(every)
        .collect();
    let failures = with_all(&plans, |(reference, plan)| {
        let problems = sweep::differences(reference, &play(plan), spare);
        (!problems.is_empty()).then(|| Failure { plan: plan.clone(), problems })
    });
    let failures: Vec<Failure> = failures.into_iter().flatten().collect();
    // A smaller plan would need an undisturbed run of its own.
    judge(plans.len(), &failures, |_, _| false);
}

#[test]
fn undisturbed_workloads_break_no_invariant() {
    for (plan, outcome) in undisturbed() {
        assert_eq!(outcome.violations, [], "{}", plan.name);
        assert!(outcome.busy_calls > 10 && outcome.busy_frames > 3, "{}: {outcome:?}", plan.name);
    }
}

#[test]
fn a_crash_at_any_call_loses_nothing_and_does_nothing_twice() {
    sweep(sweep::crashes, 1);
}

#[test]
fn a_lost_answer_of_a_provider_loses_nothing_and_does_nothing_twice() {
    sweep(sweep::lost_answers, 0);
}

#[test]
fn a_disturbed_watch_at_any_event_loses_nothing_and_does_nothing_twice() {
    // What is seen in another order may be served in another order.
    sweep(sweep::blindness, 1);
}
