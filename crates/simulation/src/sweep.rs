//! Sweeps: an undisturbed plan, disturbed once at every call or at every event that a watch shows.
//!
//! Two comparisons with the undisturbed run show whether anything was lost or done twice: the end state, and the counts
//! of purchases, moves, changed records and written objects. The judge also checks every step.

use super::plan::{Act, Fault, On, Plan, Side, Step, Then, Trigger, Weather, Which};
use super::scene::HOME;
use super::workloads::at;
use super::{Outcome, Sort, mistakes, pauses};

/// How long a process takes to restart.
const RESTART_MS: u64 = 1_000;

/// With a disturbed watch, the view may be as old as a silent watch can go unnoticed.
const STALE_MS: u64 = 130_000;

/// How long after the last step of a plan everything is read again, for lists of past state.
const REREAD_MS: u64 = 15_000;

/// How much more a disturbed run may do than the undisturbed one.
#[derive(Debug, Clone, Copy)]
pub struct Spare {
    /// Assignments, of each address and in total, and removals.
    pub assigns: usize,
    /// Changes of DNS records, and changes of firewalls.
    pub records: usize,
    /// Writes of objects.
    pub writes: usize,
    /// Those among them that annotate nodes.
    pub annotations: usize,
    /// Whether the end must be the same.
    pub same_end: bool,
}

fn disturbed(plan: &Plan, on: On, then: Then) -> Plan {
    let name = format!("{}: {then:?} at {on:?}", plan.name);
    Plan { name, triggers: vec![Trigger { on, then }], ..plan.clone() }
}

/// The same for a disturbance after which the operator may act on an old view.
fn blinded(plan: &Plan, on: On, then: Then) -> Plan {
    Plan { staleness_ms: STALE_MS, ..disturbed(plan, on, then) }
}

/// A crash at every call of an undisturbed run, including renewals of the lease and Events: before it is sent, after
/// its effect, and after its answer.
pub fn crashes(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let deaths = [
        Then::CrashBefore { restart_ms: RESTART_MS },
        Then::CrashAfterEffect { restart_ms: RESTART_MS },
        Then::CrashAfterReply { restart_ms: RESTART_MS },
    ];
    let calls = (1..=undisturbed.busy_calls)
        .flat_map(|call| deaths.iter().map(move |then| (On::Call(call), then.clone())));
    // All renewals are alike, so each gets one kind of death.
    let clockwork = (1..=undisturbed.busy_clockwork)
        .zip(deaths.iter().cycle())
        .map(|(call, then)| (On::Clockwork(call), then.clone()));
    // A successor waits for the lease to expire.
    let end_ms = plan.end_ms + 20_000;
    calls.chain(clockwork).map(|(call, then)| Plan { end_ms, ..disturbed(plan, call, then) }).collect()
}

/// The faults of a call's answer, by the purpose of the call.
fn losses(sort: Sort) -> Vec<Fault> {
    let lost = [Fault::ResetBefore, Fault::ResetAfter, Fault::HangBefore, Fault::HangAfter];
    let refuse = |status, retry_after_s| Fault::Refuse { status, retry_after_s };
    match sort {
        Sort::ProviderChange => {
            let more =
                [Fault::RefuseAfter { status: 502 }, Fault::Garble, refuse(500, None), refuse(429, Some(3))];
            lost.into_iter().chain(more).collect()
        }
        // For a lost read it does not matter whether it had arrived.
        Sort::ProviderRead => {
            vec![Fault::ResetAfter, Fault::HangBefore, Fault::Garble, refuse(500, None), refuse(429, Some(3))]
        }
        Sort::ClusterWrite => {
            let more = [
                Fault::RefuseAfter { status: 504 },
                refuse(409, None),
                refuse(500, None),
                refuse(429, Some(2)),
            ];
            lost.into_iter().chain(more).collect()
        }
        Sort::ClusterList | Sort::ClusterRead => {
            vec![Fault::ResetAfter, Fault::HangBefore, refuse(500, None), refuse(429, Some(2))]
        }
    }
}

/// A lost answer or a refusal at every call of an undisturbed run.
pub fn lost_answers(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    (1..)
        .zip(&undisturbed.sorts)
        .flat_map(|(call, sort)| losses(*sort).into_iter().map(move |fault| (call, *sort, fault)))
        .map(|(call, sort, fault)| {
            let reads = matches!(sort, Sort::ClusterList | Sort::ClusterRead);
            let disturb = if reads { blinded } else { disturbed };
            disturb(plan, On::Call(call), Then::Meet(fault))
        })
        .collect()
}

/// A watch that hides, delays, doubles, ends, breaks off, expires or falls silent, at every event of an undisturbed
/// run.
pub fn blindness(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let blinds = [
        Then::Hide { for_ms: 5_000 },
        Then::Hide { for_ms: 30_000 },
        Then::Hide { for_ms: 100_000 },
        Then::Late { ms: 500 },
        Then::Late { ms: 2_000 },
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
        .map(|(frame, then)| blinded(plan, On::Frame(frame), then))
        .collect()
}

/// The same plan with everything listed once more after its last step, by the same process or by a new one.
pub fn rereads(plan: &Plan) -> [Plan; 2] {
    let at_ms = plan.end_ms + REREAD_MS;
    [
        ("everything is listed again", vec![Act::Compact, Act::CutWatches { replica: 0 }]),
        ("a new process lists everything", vec![Act::Crash { replica: 0, restart_ms: RESTART_MS }]),
    ]
    .map(|(what, acts)| {
        let mut plan = plan.clone();
        plan.name = format!("{}, then {what}", plan.name);
        plan.steps.extend(acts.into_iter().map(|act| at(at_ms, act)));
        plan.end_ms = at_ms + 2 * REREAD_MS;
        plan.staleness_ms = STALE_MS;
        plan
    })
}

/// A list of past state at every list of an undisturbed run, once or for a while, a little older or a lot. A new
/// process cannot know that a list is old. So it meets past state only once, and the following watch shows what came
/// after.
pub fn stale_lists(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let once = [(500, 0), (20_000, 0), (100_000, 0)];
    let lasting = [(5_000, 10_000), (50_000, 30_000)];
    let new = plan.steps.iter().any(|step| matches!(step.act, Act::Crash { .. }));
    let olds: Vec<(u64, u64)> = once.into_iter().chain(lasting.into_iter().filter(|_| !new)).collect();
    (1..)
        .zip(&undisturbed.sorts)
        .filter(|(_, sort)| **sort == Sort::ClusterList)
        .flat_map(|(call, _)| olds.iter().map(move |older| (call, older)))
        .map(|(call, (ms, for_ms))| blinded(plan, On::Call(call), Then::Older { ms: *ms, for_ms: *for_ms }))
        .collect()
}

/// The provider's lists lag behind for a while, from every third call or event of an undisturbed run on.
pub fn lags(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    const LAG_MS: u64 = 20_000;
    const LASTS_MS: u64 = 30_000;
    let lagging = |at_ms: &u64| {
        let lagging = with_step(plan, at(*at_ms, Act::ListLag { ms: LAG_MS }));
        with_step(&lagging, at(at_ms + LASTS_MS, Act::ListLag { ms: 0 }))
    };
    undisturbed.moments.iter().step_by(3).map(lagging).collect()
}

/// Somebody moves, unassigns or releases the first assigned address, at every call and event of an undisturbed run:
/// just before the call arrives, while it is under way, and after its answer.
pub fn by_hand(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    const AFTER_MS: [u64; 3] = [1, 15, 60];
    let Some(ip) = undisturbed.tally.assigns.keys().next().copied() else { return Vec::new() };
    let added = |step: &Step| if let Act::AddNode { node } = &step.act { Some(node.clone()) } else { None };
    let last = plan.steps.iter().rev().find_map(added);
    let acts = [Act::MoveIp { ip, node: None }, Act::MoveIp { ip, node: last }, Act::DeleteIp { ip }];
    let moments = undisturbed.moments.iter().enumerate();
    moments
        .flat_map(|(number, at_ms)| {
            let after = AFTER_MS.iter().cycle().skip(number % AFTER_MS.len());
            acts.iter().zip(after).map(move |(act, after)| at(at_ms + after, act.clone()))
        })
        .map(|step| with_step(plan, step))
        .collect()
}

/// The first replica is told to stop, or hangs until another leads, at every call and event of an undisturbed run.
pub fn handovers(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let moments = undisturbed.moments.iter();
    moments.flat_map(|at_ms| [0, 1].map(|turn| handover(plan, *at_ms, turn))).collect()
}

fn handover(plan: &Plan, at_ms: u64, turn: usize) -> Plan {
    const HANGS_MS: u64 = 20_000;
    let act = if turn.is_multiple_of(2) {
        Act::Stop { replica: 0, restart_ms: RESTART_MS }
    } else {
        Act::Pause { replica: 0, for_ms: HANGS_MS }
    };
    let mut plan = with_step(plan, at(at_ms, act));
    plan.end_ms += HANGS_MS;
    plan.staleness_ms = STALE_MS;
    plan
}

/// All accounts, those of one provider, or DNS alone are out from every third call or event of an undisturbed run on.
/// They fail in different ways, for 4 to 60 s, once or again and again. Calls that are slow may precede that, and calls
/// that are throttled may follow. With a second replica, the first one gives up its leadership in the outage.
pub fn outages(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    let moments = undisturbed.moments.iter().step_by(3).zip(0..);
    moments.map(|(from_ms, turn)| outage(plan, *from_ms, turn)).collect()
}

fn outage(plan: &Plan, from_ms: u64, turn: usize) -> Plan {
    const UP_MS: u64 = 2_000;
    let refuse = |status, retry_after_s| Fault::Refuse { status, retry_after_s };
    let fault = match turn % 3 {
        0 => refuse(503, None),
        1 => Fault::ResetBefore,
        _ => Fault::HangBefore,
    };
    let down_ms = match turn % 4 {
        0 => 4_000,
        1 => 9_000,
        2 => 25_000,
        _ => 60_000,
    };
    let (repeats, which) = match turn % 5 {
        0 => (3, Which { side: Some(Side::Cloud), ..Which::default() }),
        1 => (1, Which { provider: Some(HOME), ..Which::default() }),
        2 => (1, Which { text: Some("Record".to_owned()), ..Which::default() }),
        _ => (1, Which { side: Some(Side::Cloud), ..Which::default() }),
    };
    let span = |from_ms, to_ms, fault| Weather { from_ms, to_ms, which: which.clone(), percent: 100, fault };
    let mut weather: Vec<Weather> = (0..repeats)
        .map(|number| from_ms + number * (down_ms + UP_MS))
        .map(|from_ms| span(from_ms, from_ms + down_ms, fault.clone()))
        .collect();
    let over_ms = weather.last().map_or(from_ms, |last| last.to_ms);
    match turn % 7 {
        5 => weather.push(span(from_ms.saturating_sub(500), from_ms, Fault::Delay { ms: 8_000 })),
        6 => weather.push(span(over_ms, over_ms + UP_MS, refuse(429, Some(5)))),
        _ => {}
    }
    let mut plan = Plan { weather, end_ms: plan.end_ms.max(over_ms + UP_MS), ..plan.clone() };
    plan.name = format!("{}: {fault:?} {repeats} times for {down_ms} ms from {from_ms} ms on", plan.name);
    if plan.replicas > 1 { handover(&plan, from_ms + down_ms / 2, turn / 4) } else { plan }
}

/// An invalid spec for some seconds, at every call and event of an undisturbed run.
pub fn mistakes(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    mistakes::at_every(plan, &undisturbed.moments)
}

/// A pause of an object for some seconds, at every call and event of an undisturbed run.
pub fn pauses(plan: &Plan, undisturbed: &Outcome) -> Vec<Plan> {
    pauses::at_every(plan, &undisturbed.moments)
}

fn with_step(plan: &Plan, step: Step) -> Plan {
    let mut plan = plan.clone();
    plan.name = format!("{}: {:?} at {} ms", plan.name, step.act, step.at_ms);
    plan.end_ms = plan.end_ms.max(step.at_ms);
    let after = plan.steps.iter().position(|other| other.at_ms > step.at_ms).unwrap_or(plan.steps.len());
    plan.steps.insert(after, step);
    plan
}

/// How a disturbed run differs from the undisturbed one although it must not.
pub fn differences(undisturbed: &Outcome, outcome: &Outcome, spare: Spare) -> Vec<String> {
    let mut all: Vec<String> =
        outcome.violations.iter().map(|found| format!("{}: {}", found.rule, found.text)).collect();
    if !all.is_empty() {
        return all;
    }
    if spare.same_end && outcome.end != undisturbed.end {
        all.push(format!("it ends as {:?}, not as {:?}", outcome.end, undisturbed.end));
    }
    let (bought, wanted) = (outcome.tally.creates, undisturbed.tally.creates);
    if spare.same_end && bought != wanted {
        all.push(format!("{bought} addresses were bought, not {wanted}"));
    }
    let moves = |outcome: &Outcome| outcome.tally.assigns.values().sum::<usize>();
    let (made, allowed) = (&outcome.tally, &undisturbed.tally);
    let counts = [
        ("assignments", moves(outcome), moves(undisturbed) + spare.assigns),
        ("unassignments", made.unassigns, allowed.unassigns + spare.assigns),
        ("changes of records", made.records, allowed.records + spare.records),
        ("changes of firewalls", made.firewalls, allowed.firewalls + spare.records),
        ("writes of objects", made.writes, allowed.writes + spare.writes),
        ("annotations of nodes", made.annotations, allowed.annotations + spare.annotations),
    ];
    for (what, made, allowed) in counts {
        if made > allowed {
            all.push(format!("{made} {what}, not {allowed} at most"));
        }
    }
    for (ip, times) in &made.assigns {
        // Each run buys other addresses.
        let Some(allowed) = allowed.assigns.get(ip).map(|times| times + spare.assigns) else { continue };
        if *times > allowed {
            all.push(format!("{ip} was assigned {times} times, not {allowed} at most"));
        }
    }
    all
}
