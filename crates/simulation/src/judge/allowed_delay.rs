//! How long everything may take to become right after the faults of a plan end.
//!
//! Each class of faults has effects that may last: a retry or list that is not due yet, or a lease that has to expire.
//! The times of all faults in a plan are added up. A plan without faults has seconds.

use super::EDITED_MS;
use super::blindness::Blindness;
use crate::plan::{Act, Fault, OUTAGE_MS, Plan, Side, Then, Weather};
use serde_json::Value;

/// Matching, an assignment (0.9 s), its annotation, the following round of DNS (2 s between rounds), and two status
/// writes.
const PLAIN_MS: u64 = 15_000;

/// A call held up by a fault is given up after 10 s, and only then reported.
const LATE_CALL_MS: u64 = 11_000;

/// Changes of addresses by others are noticed within 60 s. A second read and an assignment follow.
const BY_HAND_MS: u64 = 65_000;

/// An unreleased lease expires (15 s, noticed within two tries), and the successor reads everything.
const TAKEOVER_MS: u64 = 25_000;

/// Two lists at least 30 s apart settle a creation of unknown outcome. There is one every 50 s.
const PURCHASE_MS: u64 = 110_000;

/// A deleted address that was created is forgotten after two 404s at least 60 s apart. The first comes within 60 s.
const FORGET_MS: u64 = 130_000;

/// A list of a past state is not believed for this long.
const OLDER_MS: u64 = 60_000;

/// A refused token is retried once a minute.
const UNAUTHORISED_MS: u64 = 66_000;

/// After a pause the account is listed. The records are read, twice if some are to be deleted.
const RESUMED_MS: u64 = 35_000;

/// A node leaves firewalls after a minute. Changes by hand are seen within 50 s and again 5 s later. Two lists 30 s
/// apart settle a lost creation. A look follows each change.
const FIREWALLS_MS: u64 = 180_000;

/// Ten checks in a row, one every 10 s, end a doubt of checks. The first one may have begun just before.
const CHECKS_MS: u64 = 115_000;

/// Retries may come up to a tenth later.
const JITTER: u64 = 10;

/// Fast: in progress, transient, pending, throttled without a time.
const FAST_S: [u64; 13] = [1, 1, 5, 5, 10, 10, 10, 60, 60, 60, 60, 60, 300];

/// Slow: not found, in use, invalid, quota, permanent.
const SLOW_S: [u64; 3] = [60, 300, 600];

/// The longest wait after failures in `spans` spans that lasted `lasted_ms` together.
fn wait_ms(schedule: &[u64], lasted_ms: u64, spans: usize) -> u64 {
    let mut passed_ms: u64 = 0;
    let mut failures = spans;
    for wait_s in schedule {
        passed_ms = passed_ms.saturating_add(wait_s * 1_000);
        failures += usize::from(passed_ms <= lasted_ms);
    }
    let last = failures.min(schedule.len()).saturating_sub(1);
    let wait_ms = schedule.get(last).copied().unwrap_or_default() * 1_000;
    wait_ms + wait_ms / JITTER
}

/// The effects of a plan's faults, each with the time after the plan's end until which it may last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Outdated views of the cluster.
    blind_ms: u64,
    /// Outdated views of the account.
    account_ms: u64,
    /// Retries.
    fast: (u64, usize),
    slow: (u64, usize),
    unauthorized_ms: u64,
    /// Waits that a server asked for, locks, and slow actions.
    told_ms: u64,
    takeover_ms: u64,
    purchase_ms: u64,
    /// The waits between assignments.
    cool_off_ms: u64,
    /// The longest graces and recovery times.
    grace_ms: u64,
    /// The time for which clients may remember an address that is given back.
    forget_ms: u64,
    /// The time for firewalls, if a pool asks for some.
    firewalls_ms: u64,
    /// The time for doubts of checks, if machines or the ways to them fail.
    checks_ms: u64,
}

/// How long clients may remember an address: an hour if nobody saw the TTL of its record. The last reads take a
/// while more.
const FORGET_RECORDS_MS: u64 = 3_600_000 + 120_000;

/// The time for clients to forget, if a pool of the plan gives addresses back.
fn forget_ms(plan: &Plan) -> u64 {
    let gives_back =
        specs(plan).any(|spec| spec.get("reclaimPolicy").and_then(Value::as_str) == Some("Delete"));
    if gives_back { FORGET_RECORDS_MS } else { 0 }
}

impl Patience {
    /// From the faults of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut all = Self::default();
        let buyers = buyers(plan);
        for step in &plan.steps {
            all.step(step.at_ms, &step.act, plan.end_ms, buyers);
        }
        for weather in &plan.weather {
            all.weather(weather, plan.end_ms, buyers);
        }
        for trigger in &plan.triggers {
            // Its time is unknown, so it counts as if it fired at the end.
            all.trigger(&trigger.then, buyers);
        }
        if reads_names_of_the_past(plan) {
            all.told_ms = all.told_ms.max(EDITED_MS);
        }
        all.blind_ms = Blindness::of(plan).over_ms(plan.end_ms).saturating_sub(plan.end_ms);
        all.cool_off_ms = cool_off_ms(plan);
        all.grace_ms = grace_ms(plan);
        all.forget_ms = forget_ms(plan);
        let asked = specs(plan).any(|spec| spec.get("firewall").is_some());
        all.firewalls_ms = if asked { FIREWALLS_MS } else { 0 };
        all.checks_ms = if plan.machines.ailments.is_empty() { 0 } else { CHECKS_MS };
        all
    }

    /// From the end of the plan to the time by which everything must be right.
    pub(crate) fn right_ms(&self) -> u64 {
        let Self { blind_ms, account_ms, fast, slow, unauthorized_ms, told_ms, .. } = *self;
        let Self { takeover_ms, purchase_ms, cool_off_ms, grace_ms, forget_ms, .. } = *self;
        let Self { firewalls_ms, checks_ms, .. } = *self;
        let fast_ms = if fast.1 > 0 { wait_ms(&FAST_S, fast.0, fast.1) } else { 0 };
        let slow_ms = if slow.1 > 0 { wait_ms(&SLOW_S, slow.0, slow.1) } else { 0 };
        let waits = [fast_ms, slow_ms, unauthorized_ms, told_ms].into_iter().max().unwrap_or_default();
        let rest_ms =
            takeover_ms + purchase_ms + cool_off_ms + grace_ms + forget_ms + firewalls_ms + checks_ms;
        PLAIN_MS + blind_ms + account_ms + waits + rest_ms
    }

    /// From the end of the plan to the time after which no outdated state can matter.
    pub(crate) fn seen_ms(&self) -> u64 {
        // A token that regains a scope reveals what was hidden.
        LATE_CALL_MS + self.blind_ms + self.account_ms + self.unauthorized_ms
    }

    fn left(until_ms: u64, end_ms: u64) -> u64 {
        until_ms.saturating_sub(end_ms)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "after any other act nothing has to wait")]
    fn step(&mut self, at_ms: u64, act: &Act, end_ms: u64, buyers: u64) {
        let left = |for_ms: u64| Self::left(at_ms.saturating_add(for_ms), end_ms);
        match act {
            Act::MoveIp { .. }
            | Act::DestroyDroplet { .. }
            | Act::LoseDroplet { .. }
            | Act::Release { .. }
            | Act::Trade { .. } => {
                self.account_ms = self.account_ms.max(left(BY_HAND_MS));
                // An address where nobody knew of one leads to a refusal as in use.
                self.add_slow(0);
            }
            Act::DeleteIp { .. } => {
                // Counted from when a pool names it, because a pool may be recreated or lose its memory.
                self.account_ms = self.account_ms.max(FORGET_MS);
                self.purchase_ms = self.purchase_ms.max(left(FORGET_MS) * buyers);
            }
            Act::LockIp { for_ms, .. } | Act::BusyDroplet { for_ms, .. } => {
                self.told_ms = self.told_ms.max(left(*for_ms));
                // A lock is only seen in the next list.
                self.account_ms = self.account_ms.max(left(for_ms.saturating_add(BY_HAND_MS)));
                self.add_fast(*for_ms);
            }
            // The object may name addresses that the account does not have.
            Act::Create { .. } => self.account_ms = self.account_ms.max(left(FORGET_MS)),
            // A droplet that is off is refused, and its node is retried on the slow schedule.
            Act::PowerOff { .. } | Act::ShowOff { .. } => self.add_slow(0),
            Act::PauseObject { for_ms, .. } => {
                self.told_ms = self.told_ms.max(left(for_ms.saturating_add(RESUMED_MS)));
            }
            Act::EditRecord { .. } => self.told_ms = self.told_ms.max(left(EDITED_MS)),
            Act::PlaceRecord { for_ms, .. } => self.told_ms = self.told_ms.max(left(for_ms + EDITED_MS)),
            Act::RevokeToken { for_ms, .. } | Act::NarrowToken { for_ms, .. } => {
                self.unauthorized_ms = self.unauthorized_ms.max(left(for_ms + UNAUTHORISED_MS));
            }
            // Work of an earlier leader is checked against a list that is half a minute newer.
            Act::Ask { .. } => self.account_ms = self.account_ms.max(BY_HAND_MS),
            Act::ActionTime { ms } => self.told_ms = self.told_ms.max(*ms),
            // Until the end of the plan: a refused creation is retried on the slow schedule.
            Act::Quota { .. } => self.add_slow(end_ms.saturating_sub(at_ms)),
            Act::ListLag { ms } => self.account_ms = self.account_ms.max(BY_HAND_MS + ms),
            Act::Crash { restart_ms, .. } | Act::Stop { restart_ms, .. } => {
                let over_ms = restart_ms.saturating_add(TAKEOVER_MS);
                self.takeover_ms = self.takeover_ms.max(left(over_ms));
                self.purchase_ms = self.purchase_ms.max(left(over_ms + PURCHASE_MS) * buyers);
            }
            Act::Pause { for_ms, .. } | Act::Cut { for_ms, .. } => {
                self.takeover_ms = self.takeover_ms.max(left(for_ms.saturating_add(TAKEOVER_MS)));
                self.add_fast(*for_ms);
            }
            _ => {}
        }
    }

    fn weather(&mut self, weather: &Weather, end_ms: u64, buyers: u64) {
        let Weather { from_ms, to_ms, which, fault, .. } = weather;
        let lasted_ms = to_ms.saturating_sub(*from_ms);
        let left = |for_ms: u64| Self::left(to_ms.saturating_add(for_ms), end_ms);
        if which.side != Some(Side::Cloud) {
            self.takeover_ms = self.takeover_ms.max(left(TAKEOVER_MS));
        }
        if weather.is_outage() {
            self.told_ms = self.told_ms.max(left(OUTAGE_MS));
        } else {
            self.fault(fault, lasted_ms);
        }
        if let Fault::Refuse { retry_after_s: Some(wait_s), .. } = fault {
            self.told_ms = self.told_ms.max(left(wait_s * 1_000));
        }
        self.purchase_ms = self.purchase_ms.max(left(PURCHASE_MS) * buyers);
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the effects of every other trigger are in `blind_ms`"
    )]
    fn trigger(&mut self, then: &Then, buyers: u64) {
        match then {
            Then::CrashBefore { restart_ms }
            | Then::CrashAfterEffect { restart_ms }
            | Then::CrashAfterReply { restart_ms } => {
                self.takeover_ms = self.takeover_ms.max(restart_ms.saturating_add(TAKEOVER_MS));
                self.purchase_ms = self.purchase_ms.max(PURCHASE_MS * buyers);
            }
            Then::Meet(fault) => {
                self.fault(fault, 0);
                if let Fault::Refuse { retry_after_s: Some(wait_s), .. } = fault {
                    self.told_ms = self.told_ms.max(wait_s * 1_000);
                }
                self.takeover_ms = self.takeover_ms.max(TAKEOVER_MS);
                self.purchase_ms = self.purchase_ms.max(PURCHASE_MS * buyers);
            }
            // An older list is believed after a minute.
            Then::Older { for_ms, .. } => self.told_ms = self.told_ms.max(for_ms + OLDER_MS),
            _ => {}
        }
    }

    fn fault(&mut self, fault: &Fault, lasted_ms: u64) {
        match fault {
            Fault::Refuse { status: 401 | 403, .. } | Fault::RefuseAfter { status: 401 | 403 } => {
                self.unauthorized_ms = UNAUTHORISED_MS;
            }
            Fault::ActionTakes { ms } => {
                self.told_ms = self.told_ms.max(*ms);
                self.add_fast(lasted_ms.max(*ms));
            }
            Fault::Delay { .. }
            | Fault::ResetBefore
            | Fault::ResetAfter
            | Fault::HangBefore
            | Fault::HangAfter
            | Fault::RefuseAfter { .. }
            | Fault::Garble
            | Fault::Odd(_)
            | Fault::ActionFails
            | Fault::Pending
            | Fault::Refuse { status: 408 | 409 | 429 | 500.., .. } => self.add_fast(lasted_ms),
            Fault::QuotaReached | Fault::RecordExists { .. } | Fault::Refuse { .. } => {
                self.add_slow(lasted_ms);
            }
        }
    }

    fn add_fast(&mut self, lasted_ms: u64) {
        self.fast = (self.fast.0.saturating_add(lasted_ms), self.fast.1 + 1);
    }

    fn add_slow(&mut self, lasted_ms: u64) {
        self.slow = (self.slow.0.saturating_add(lasted_ms), self.slow.1 + 1);
    }
}

/// Whether names may be read while lists lag: by a new leader, or after a failed change of them. Records that such a
/// list hides are seen at the next look.
fn reads_names_of_the_past(plan: &Plan) -> bool {
    let lags = plan.steps.iter().any(|step| matches!(step.act, Act::ListLag { ms: 1.. }));
    let ends = plan.steps.iter().any(|step| {
        matches!(step.act, Act::Crash { .. } | Act::Stop { .. } | Act::Pause { .. } | Act::Cut { .. })
    });
    lags && (ends || !plan.weather.is_empty() || !plan.triggers.is_empty())
}

/// The sum of the longest grace of each kind.
fn grace_ms(plan: &Plan) -> u64 {
    let longest_ms = |field: &str| {
        let seconds = specs(plan).filter_map(|spec| spec.get("grace")?.get(field)?.as_u64());
        seconds.max().unwrap_or_default().saturating_mul(1_000)
    };
    ["podSeconds", "nodeSeconds", "recoverySeconds"].map(longest_ms).into_iter().sum()
}

/// The specs that a plan gives to objects.
fn specs(plan: &Plan) -> impl Iterator<Item = &Value> {
    plan.steps.iter().filter_map(|step| {
        if let Act::Create { spec, .. } | Act::Edit { spec, .. } = &step.act { Some(spec) } else { None }
    })
}

/// The number of pools that buy. They buy one after another, since an account has at most one open creation.
fn buyers(plan: &Plan) -> u64 {
    let names = plan.steps.iter().filter_map(|step| {
        let (Act::Create { name, spec, .. } | Act::Edit { name, spec, .. }) = &step.act else { return None };
        spec.get("desiredIPs").map(|_desired| name)
    });
    u64::try_from(names.collect::<std::collections::BTreeSet<_>>().len()).unwrap_or(u64::MAX)
}

/// All addresses of a pool may have to be assigned one by one.
fn cool_off_ms(plan: &Plan) -> u64 {
    let longest = specs(plan).filter_map(|spec| spec.get("assignmentCoolOffSeconds")?.as_f64());
    let longest_s = longest.fold(0.0, f64::max);
    let addresses = specs(plan).map(|spec| {
        let given = spec.get("ips").and_then(Value::as_array).map_or(0, Vec::len);
        let desired = spec.get("desiredIPs").and_then(Value::as_u64).unwrap_or_default();
        u64::try_from(given).unwrap_or_default().max(desired)
    });
    let addresses = addresses.max().unwrap_or_default();
    let each = std::time::Duration::from_secs_f64(longest_s.clamp(0.0, 86_400.0));
    u64::try_from(each.as_millis()).unwrap_or(u64::MAX).saturating_mul(addresses)
}
