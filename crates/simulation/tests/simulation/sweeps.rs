//! Every workload, disturbed once at every call and at every event.

use crate::support::{Failure, judge, play, text, with_all};
use flipop_simulation::plan::REST_MS;
use flipop_simulation::sweep::Spare;
use flipop_simulation::{Outcome, Plan, sweep, workloads};
use fnv::FnvHasher;
use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;

/// A plain run plays one plan in so many.
const SAMPLE: usize = 397;

/// A landing plays one plan of each sweep in so many. As many landings in a row play all of them.
const SHARE: u64 = 4;

/// The rest of a plan in CI. One disturbance delays the operator by less: a silent watch takes 65 s to be noticed, and
/// a reason that changed is told within a minute. The references, the seeds and all other plans rest for longer.
const SHORT_REST_MS: u64 = 150_000;

fn undisturbed(plans: Vec<Plan>) -> Vec<(Plan, Outcome)> {
    let outcomes = with_all(&plans, play);
    plans.into_iter().zip(outcomes).collect()
}

/// Plays the plans that are made from each reference. There must be at least `least` of them.
fn sweep(references: Vec<Plan>, plans_of: impl Fn(&Plan, &Outcome) -> Vec<Plan>, spare: Spare, least: usize) {
    sweep_some(1, references, plans_of, spare, least);
}

/// The same for plans that hardly differ from their neighbours: a landing plays one in `one_in` of those that it would
/// play otherwise.
fn sweep_some(
    one_in: u64,
    references: Vec<Plan>,
    plans_of: impl Fn(&Plan, &Outcome) -> Vec<Plan>,
    spare: Spare,
    least: usize,
) {
    let references = undisturbed(references);
    let plans: Vec<(&Outcome, Plan)> = references
        .iter()
        .flat_map(|(plan, outcome)| plans_of(plan, outcome).into_iter().map(move |plan| (outcome, plan)))
        .collect();
    let all = plans.len();
    assert!(all >= least, "{all} plans, not {least}");
    let (part, rest_ms) = Part::of_setting(SHARE * one_in);
    let plans: Vec<(&Outcome, Plan)> = (0..)
        .zip(plans)
        .filter(|(number, (_, plan))| part.has(*number, plan))
        .map(|(_, (reference, plan))| (reference, Plan { rest_ms, ..plan }))
        .collect();
    assert!(plans.len() >= part.least_of(all), "{} of {all} plans are too few", plans.len());
    let played = with_all(&plans, |(reference, plan)| {
        let outcome = play(plan);
        let problems = sweep::differences(reference, &outcome, spare);
        let failure = (!problems.is_empty()).then(|| Failure { plan: plan.clone(), problems });
        (failure, more(reference, &outcome))
    });
    let (failures, more): (Vec<Option<Failure>>, Vec<[usize; 4]>) = played.into_iter().unzip();
    let most = |number: usize| more.iter().filter_map(|more| more.get(number)).max().copied().unwrap_or(0);
    let text = format!(
        "at most {} assignments, {} changes of records and {} writes more, {} of them annotations\n",
        most(0),
        most(1),
        most(2),
        most(3)
    );
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    let failures: Vec<Failure> = failures.into_iter().flatten().collect();
    // A smaller plan would need an undisturbed run of its own.
    judge(plans.len(), &failures, |_, _| false);
}

/// The part of a sweep that is played.
enum Part {
    /// A few plans.
    Sample,
    /// Those of one landing, of `of` landings that play all. A hash decides, so that every part has plans of every
    /// kind.
    Landing { number: u64, of: u64 },
    /// Every plan.
    All,
}

impl Part {
    /// The part that `SIMULATION_SWEEP` names, and the rest of its plans.
    fn of_setting(of: u64) -> (Self, u64) {
        match text("SIMULATION_SWEEP").as_deref() {
            None => (Self::Sample, REST_MS),
            Some("all") => (Self::All, REST_MS),
            Some(number) => (Self::Landing { number: number.parse().unwrap(), of }, SHORT_REST_MS),
        }
    }

    fn has(&self, plan_number: usize, plan: &Plan) -> bool {
        match self {
            Self::Sample => plan_number.is_multiple_of(SAMPLE),
            Self::Landing { number, of } => {
                let mut hasher = FnvHasher::default();
                (&plan.name, plan_number).hash(&mut hasher);
                hasher.finish() % of == number % of
            }
            Self::All => true,
        }
    }

    /// The least number of plans in it: half of its fair share of `all`.
    fn least_of(&self, all: usize) -> usize {
        match self {
            Self::Sample => 1,
            Self::Landing { of, .. } => all / (2 * usize::try_from(*of).unwrap()),
            Self::All => all,
        }
    }
}

/// How much more a run did than the undisturbed one: assignments, changes of records, writes of objects,
/// annotations.
fn more(reference: &Outcome, outcome: &Outcome) -> [usize; 4] {
    let done = |outcome: &Outcome| {
        [
            outcome.tally.assigns.values().sum(),
            outcome.tally.records,
            outcome.tally.writes,
            outcome.tally.annotations,
        ]
    };
    let mut more = done(outcome);
    for (more, was) in more.iter_mut().zip(done(reference)) {
        *more = more.saturating_sub(was);
    }
    more
}

/// The same plan with a second replica, and with clocks that are up to a day off.
fn watched(plan: Plan) -> Plan {
    Plan { replicas: 2, skew_s: 86_400, ..plan }
}

#[test]
fn undisturbed_workloads_break_no_invariant() {
    let plans = [
        workloads::all(),
        workloads::pauses(),
        workloads::by_hand(),
        workloads::labels(),
        workloads::firewalls(),
        workloads::given_back(),
        workloads::witnessed(),
        vec![workloads::traded()],
    ];
    for (plan, outcome) in undisturbed(plans.concat()) {
        assert_eq!(outcome.violations, [], "{}", plan.name);
        assert!(outcome.busy_calls > 10 && outcome.busy_frames > 3, "{}: {outcome:?}", plan.name);
        assert!(outcome.busy_clockwork > 10 && outcome.moments.len() > 13, "{}: {outcome:?}", plan.name);
    }
}

#[test]
fn a_crash_at_any_call_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 1, records: 1, writes: 8, annotations: 0, same_end: true };
    sweep_some(2, [workloads::all(), workloads::pauses()].concat(), sweep::crashes, spare, 1_000);
}

#[test]
fn a_lost_answer_loses_nothing_and_does_nothing_twice() {
    // A record goes and comes back if an assignment takes longer than the second look after a pause.
    let spare = Spare { assigns: 0, records: 2, writes: 8, annotations: 0, same_end: true };
    sweep_some(2, [workloads::all(), workloads::pauses()].concat(), sweep::lost_answers, spare, 1_500);
}

#[test]
fn a_disturbed_watch_at_any_event_loses_nothing_and_does_nothing_twice() {
    // Nodes that are seen in another order may get their addresses in another order.
    let spare = Spare { assigns: 1, records: 2, writes: 5, annotations: 0, same_end: true };
    sweep(workloads::all(), sweep::blindness, spare, 2_000);
}

#[test]
fn a_move_by_hand_is_made_once_whatever_happens_at_any_step_of_it() {
    let plans_of = |plan: &Plan, undisturbed: &Outcome| {
        let moves = undisturbed.tally.assigns.values().max();
        assert_eq!(moves, Some(&2), "{}: the address is assigned, and then moved", plan.name);
        let handovers = if plan.replicas > 1 { sweep::handovers(plan, undisturbed) } else { Vec::new() };
        let rereads = sweep::rereads(plan);
        let stale = rereads.iter().flat_map(|plan| sweep::stale_lists(plan, undisturbed));
        let single = [sweep::crashes(plan, undisturbed), sweep::lost_answers(plan, undisturbed), handovers];
        single.into_iter().flatten().chain(stale).collect()
    };
    // The request may be dropped. Then the status says so, and the address stays where it is.
    let spare = Spare { assigns: 1, records: 0, writes: 12, annotations: 2, same_end: true };
    sweep(workloads::by_hand(), plans_of, spare, 500);
}

#[test]
fn an_address_is_given_back_whatever_happens_at_any_step_of_it() {
    let plans_of = |plan: &Plan, undisturbed: &Outcome| {
        assert_eq!(undisturbed.tally.deletes, 1, "{}: one address goes", plan.name);
        let crashes = sweep::crashes(plan, undisturbed);
        let lost = sweep::lost_answers(plan, undisturbed);
        let rereads = sweep::rereads(plan);
        let stale = rereads.iter().flat_map(|plan| sweep::stale_lists(plan, undisturbed));
        let blind = sweep::blindness(plan, undisturbed);
        crashes.into_iter().chain(lost).chain(stale).chain(blind).collect()
    };
    // A purchase whose answer is lost brings an address that is never deleted, so the end may differ.
    let spare = Spare { assigns: 2, records: 3, writes: 60, annotations: 4, same_end: false };
    sweep_some(8, workloads::given_back(), plans_of, spare, 1_000);
}

#[test]
fn addresses_that_two_pools_exchange_are_kept_whatever_happens_at_any_step_of_it() {
    let plans_of = |plan: &Plan, undisturbed: &Outcome| {
        let done = (undisturbed.tally.creates, undisturbed.tally.deletes);
        assert_eq!(done, (2, 0), "{}: nothing is deleted", plan.name);
        let handovers = sweep::handovers(&watched(plan.clone()), undisturbed);
        let blind = sweep::blindness(plan, undisturbed);
        at_any_call(plan, undisturbed).into_iter().chain(handovers).chain(blind).collect()
    };
    // A purchase whose answer is lost brings an address that is never deleted, so the end may differ.
    let spare = Spare { assigns: 2, records: 4, writes: 60, annotations: 4, same_end: false };
    sweep_some(4, vec![workloads::traded()], plans_of, spare, 500);
}

#[test]
fn an_address_that_is_given_back_and_moved_by_hand_harms_nobody() {
    let spare = Spare { assigns: 2, records: 4, writes: 60, annotations: 4, same_end: false };
    sweep_some(4, workloads::given_back(), sweep::by_hand, spare, 300);
}

#[test]
fn another_leader_while_an_address_is_given_back_deletes_it_once() {
    let spare = Spare { assigns: 2, records: 3, writes: 60, annotations: 4, same_end: false };
    let plans_of = |plan: &Plan, undisturbed: &Outcome| {
        let handovers = sweep::handovers(plan, undisturbed);
        handovers.into_iter().chain(sweep::crashes(plan, undisturbed)).collect()
    };
    sweep_some(8, workloads::given_back().into_iter().map(watched).collect(), plans_of, spare, 300);
}

#[test]
fn a_list_that_shows_the_past_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 1, records: 1, writes: 10, annotations: 0, same_end: true };
    sweep(workloads::all().iter().flat_map(sweep::rereads).collect(), sweep::stale_lists, spare, 500);
}

#[test]
fn an_address_that_somebody_moves_or_releases_at_any_moment_costs_one_assignment_at_most() {
    // A node that was in use is tried again after a minute, and two statuses tell of that. Two more tell of an idle
    // address: once it has been idle for a while, and when it no longer is.
    let spare = Spare { assigns: 1, records: 2, writes: 15, annotations: 2, same_end: false };
    sweep(workloads::all(), sweep::by_hand, spare, 1_000);
}

#[test]
fn a_mistake_in_a_spec_at_any_moment_changes_nothing_and_its_end_counts_at_once() {
    let spare = Spare { assigns: 0, records: 0, writes: 5, annotations: 0, same_end: true };
    sweep(workloads::all(), sweep::mistakes, spare, 300);
}

#[test]
fn a_pause_at_any_moment_loses_nothing_and_does_nothing_twice() {
    // The status names the pause while it lasts, and no longer afterwards.
    let spare = Spare { assigns: 0, records: 2, writes: 8, annotations: 0, same_end: true };
    sweep(workloads::all(), sweep::pauses, spare, 300);
}

#[test]
fn another_leader_within_a_pause_at_any_call_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 0, records: 2, writes: 8, annotations: 0, same_end: true };
    sweep(workloads::pauses().into_iter().map(watched).collect(), sweep::crashes, spare, 100);
}

#[test]
fn a_crash_within_grace_at_any_call_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 1, records: 1, writes: 8, annotations: 0, same_end: true };
    sweep(workloads::grace(), sweep::crashes, spare, 250);
}

#[test]
fn a_lost_answer_within_grace_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 0, records: 1, writes: 8, annotations: 0, same_end: true };
    sweep(workloads::grace(), sweep::lost_answers, spare, 300);
}

#[test]
fn a_disturbed_watch_within_grace_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 1, records: 2, writes: 5, annotations: 0, same_end: true };
    sweep(workloads::grace(), sweep::blindness, spare, 200);
}

#[test]
fn another_leader_within_grace_at_any_call_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 1, records: 1, writes: 8, annotations: 0, same_end: true };
    sweep(workloads::grace().into_iter().map(watched).collect(), sweep::crashes, spare, 250);
}

/// A crash and a lost answer at each call.
fn at_any_call(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    [sweep::crashes(plan, undisturbed), sweep::lost_answers(plan, undisturbed)].concat()
}

#[test]
fn labels_go_before_the_address_whatever_happens_at_any_call() {
    let spare = Spare { assigns: 1, records: 0, writes: 12, annotations: 4, same_end: true };
    sweep_some(3, workloads::labels(), at_any_call, spare, 500);
}

#[test]
fn labels_go_before_the_address_whatever_a_watch_or_a_list_hides() {
    let spare = Spare { assigns: 1, records: 0, writes: 12, annotations: 4, same_end: true };
    sweep_some(3, workloads::labels(), sweep::blindness, spare, 200);
    let rereads = workloads::labels().iter().flat_map(sweep::rereads).collect();
    sweep_some(3, rereads, sweep::stale_lists, spare, 50);
}

#[test]
fn labels_go_before_the_address_though_another_leads_at_any_call() {
    let spare = Spare { assigns: 1, records: 0, writes: 12, annotations: 4, same_end: true };
    sweep_some(2, workloads::labels().into_iter().map(watched).collect(), sweep::handovers, spare, 100);
}

#[test]
fn a_port_that_is_asked_for_stays_open_whatever_happens_at_any_call() {
    let spare = Spare { assigns: 1, records: 6, writes: 12, annotations: 0, same_end: true };
    sweep_some(3, workloads::firewalls(), at_any_call, spare, 500);
}

#[test]
fn a_port_that_is_asked_for_stays_open_whatever_a_watch_or_a_list_hides() {
    let spare = Spare { assigns: 1, records: 6, writes: 12, annotations: 0, same_end: true };
    sweep_some(2, workloads::firewalls(), sweep::lags, spare, 40);
    sweep_some(2, workloads::firewalls(), sweep::blindness, spare, 200);
}

#[test]
fn a_port_that_is_asked_for_stays_open_though_another_leads_at_any_call() {
    let spare = Spare { assigns: 1, records: 6, writes: 12, annotations: 0, same_end: true };
    sweep_some(2, workloads::firewalls().into_iter().map(watched).collect(), sweep::handovers, spare, 100);
}

#[test]
fn an_outage_at_any_moment_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 1, records: 0, writes: 15, annotations: 0, same_end: true };
    let plans = [workloads::all(), workloads::grace(), workloads::firewalls(), workloads::by_hand()];
    sweep_some(2, plans.concat(), sweep::outages, spare, 200);
}

#[test]
fn another_leader_within_an_outage_loses_nothing_and_does_nothing_twice() {
    let spare = Spare { assigns: 1, records: 0, writes: 15, annotations: 0, same_end: true };
    sweep_some(2, workloads::all().into_iter().map(watched).collect(), sweep::outages, spare, 200);
}

#[test]
fn a_dead_machine_loses_its_address_once_whatever_happens_at_any_step_of_it() {
    let plans_of = |plan: &Plan, undisturbed: &Outcome| {
        assert_eq!(undisturbed.tally.assigns.values().sum::<usize>(), 3, "{}: one moves", plan.name);
        let watched = watched(plan.clone());
        let handovers = sweep::handovers(&watched, undisturbed);
        let outages = [sweep::outages(plan, undisturbed), sweep::outages(&watched, undisturbed)].concat();
        at_any_call(plan, undisturbed).into_iter().chain(handovers).chain(outages).collect()
    };
    let spare = Spare { assigns: 1, records: 0, writes: 8, annotations: 0, same_end: true };
    sweep_some(4, workloads::witnessed(), plans_of, spare, 500);
}
