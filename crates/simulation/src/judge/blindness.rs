//! When the operator may still act on outdated state.

use super::calm::Calm;
use crate::plan::{Act, Plan, Side, Which};
use crate::scene::{HOME, PROMPT_MS};
use flipop_cloud::Provider;

/// The spans in which the operator's view of the cluster may be outdated, according to the plan's faults.
#[derive(Debug, Clone)]
pub(crate) struct Blindness {
    staleness_ms: u64,
    /// From the beginning of a fault to the time by which the operator must have seen everything after it.
    spans: Vec<(u64, u64)>,
    /// Spans in which a round of DNS may take long.
    slow: Vec<(u64, u64)>,
    /// Spans in which the account may be unreadable, from the beginning of a fault to the first read after it.
    unread: Vec<(u64, u64)>,
    /// No fault affects processes or their way to the API server.
    undisturbed: bool,
    pub(super) calm: Calm,
}

/// How late the calls of a decided round of DNS may be.
const LATE_ROUND_MS: u64 = 60_000;

/// How long the operator may believe in an address's old place after a move by hand: two reads of the account.
const BY_HAND_MS: u64 = 150_000;

/// From the end of an account's fault to its next read. A refused token is retried once a minute.
const REREAD_MS: u64 = 70_000;

impl Blindness {
    pub(crate) fn of(plan: &Plan) -> Self {
        let staleness_ms = plan.staleness_ms;
        let weather = lasting(plan, |which| which.side != Some(Side::Cloud));
        let acts = plan.steps.iter().filter_map(|step| {
            let blind_ms = if let Act::Pause { for_ms, .. }
            | Act::Lag { for_ms, .. }
            | Act::Cut { side: Side::Kube, for_ms, .. } = step.act
            {
                Some(for_ms)
            } else {
                matches!(step.act, Act::CutWatches { .. } | Act::Compact).then_some(0)
            };
            blind_ms.map(|for_ms| (step.at_ms, step.at_ms + for_ms))
        });
        // The time at which a trigger fires is unknown in advance.
        let triggers = plan.triggers.iter().map(|_trigger| (0, u64::MAX));
        let spans = weather.chain(acts).chain(triggers);
        let spans: Vec<(u64, u64)> =
            spans.map(|(from_ms, to_ms)| (from_ms, to_ms.saturating_add(staleness_ms))).collect();
        let slow = lasting(plan, |which| which.side != Some(Side::Kube));
        let cuts = plan.steps.iter().filter_map(|step| {
            let (Act::Cut { for_ms, .. } | Act::Pause { for_ms, .. }) = step.act else { return None };
            Some((step.at_ms, step.at_ms + for_ms))
        });
        let triggers = plan.triggers.iter().map(|_trigger| (0, u64::MAX - LATE_ROUND_MS));
        let slow = slow.chain(cuts).chain(triggers);
        let slow = slow.map(|(from_ms, to_ms)| (from_ms, to_ms + LATE_ROUND_MS)).collect();
        let ends = plan.steps.iter().any(|step| matches!(step.act, Act::Crash { .. } | Act::Stop { .. }));
        let undisturbed = spans.is_empty() && !ends;
        Self { staleness_ms, spans, slow, unread: unread(plan), undisturbed, calm: Calm::of(plan) }
    }

    /// When no outdated state can matter any more, in a plan that ends at `end_ms`.
    pub(super) fn over_ms(&self, end_ms: u64) -> u64 {
        // A trigger may fire at the end.
        let last = self.spans.iter().map(|(_, to_ms)| *to_ms.min(&(end_ms + self.staleness_ms))).max();
        last.unwrap_or_default().max(end_ms)
    }

    /// Whether the view of the cluster may be outdated.
    pub(super) fn is_blind(&self, now_ms: u64) -> bool {
        self.spans.iter().any(|(from_ms, to_ms)| (*from_ms..*to_ms).contains(&now_ms))
    }

    /// The operator may still believe anything that was true since this moment.
    pub(super) fn since(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(if self.is_blind(now_ms) {
            self.staleness_ms
        } else {
            self.staleness_ms.min(PROMPT_MS)
        })
    }

    /// Whether every write of the operator arrives.
    pub(super) fn hides_nothing(&self) -> bool {
        self.undisturbed
    }

    /// As `since`, but for a change of records, which may have been decided some time ago.
    pub(super) fn since_of_records(&self, now_ms: u64) -> u64 {
        let slow = self.slow.iter().any(|(from_ms, to_ms)| (*from_ms..*to_ms).contains(&now_ms));
        self.since(now_ms).saturating_sub(if slow { LATE_ROUND_MS } else { 0 })
    }

    /// Until when the operator may not know that an address was moved by hand at `at_ms`.
    pub(super) fn unnoticed_until(&self, at_ms: u64) -> u64 {
        let mut until_ms = at_ms.saturating_add(BY_HAND_MS);
        for (from_ms, to_ms) in &self.unread {
            if *from_ms <= until_ms && *to_ms > at_ms {
                until_ms = until_ms.saturating_add(to_ms - at_ms.max(*from_ms));
            }
        }
        until_ms
    }

    /// Whether the operator may still miss that an address was moved by hand at `at_ms`.
    pub(super) fn is_unnoticed(&self, at_ms: u64, now_ms: u64) -> bool {
        now_ms <= self.unnoticed_until(at_ms)
    }
}

/// The spans of the faults that are for these calls.
fn lasting(plan: &Plan, is_for: impl Fn(&Which) -> bool) -> impl Iterator<Item = (u64, u64)> {
    let weather = plan.weather.iter().filter(move |weather| is_for(&weather.which));
    weather.map(|weather| (weather.from_ms, weather.to_ms))
}

/// The spans in which the account may be unreadable, sorted by time.
fn unread(plan: &Plan) -> Vec<(u64, u64)> {
    let account = |provider: Option<Provider>| provider.is_none_or(|of| of == HOME);
    let weather = lasting(plan, |which| which.side != Some(Side::Kube) && account(which.provider));
    let acts = plan.steps.iter().filter_map(|step| {
        let (Act::RevokeToken { provider: HOME, for_ms }
        | Act::Cut { side: Side::Cloud, for_ms, .. }
        | Act::Pause { for_ms, .. }) = step.act
        else {
            return None;
        };
        Some((step.at_ms, step.at_ms + for_ms))
    });
    let spans = weather.chain(acts).map(|(from_ms, to_ms)| (from_ms, to_ms.saturating_add(REREAD_MS)));
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable();
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Fault, Step, Weather, Which};

    #[test]
    fn what_was_moved_by_hand_goes_unnoticed_for_as_long_as_the_account_cannot_be_read() {
        let mut plan = crate::generate::plan(0);
        (plan.steps, plan.weather) = (Vec::new(), Vec::new());
        let until = |plan: &Plan, at_ms| Blindness::of(plan).unnoticed_until(at_ms);
        assert_eq!(until(&plan, 400_000), 550_000);
        let revoke = |provider| Act::RevokeToken { provider, for_ms: 60_000 };
        plan.steps.push(Step { at_ms: 500_000, act: revoke(Provider::Cloudflare) });
        assert_eq!(until(&plan, 400_000), 550_000);
        plan.steps.push(Step { at_ms: 500_000, act: revoke(Provider::DigitalOcean) });
        assert_eq!((until(&plan, 349_999), until(&plan, 400_000)), (499_999, 680_000));
        // The fault began before the move, so only the rest of it counts.
        assert_eq!((until(&plan, 600_000), until(&plan, 630_000)), (780_000, 780_000));
        let seen = Blindness::of(&plan);
        assert!(seen.is_unnoticed(400_000, 680_000) && !seen.is_unnoticed(400_000, 680_001));
    }

    #[test]
    fn only_a_fault_of_the_cluster_blinds_and_only_for_its_time() {
        let mut plan = crate::generate::plan(0);
        (plan.steps, plan.weather, plan.staleness_ms) = (Vec::new(), Vec::new(), 150_000);
        let since = |plan: &Plan, now_ms| Blindness::of(plan).since(now_ms);
        assert_eq!(since(&plan, 400_000), 395_000);
        let act = Act::Lag { replica: 0, for_ms: 10_000, lists: false };
        plan.steps.push(Step { at_ms: 200_000, act });
        assert_eq!(since(&plan, 199_999), 194_999);
        assert_eq!((since(&plan, 200_000), since(&plan, 359_999)), (50_000, 209_999));
        assert_eq!(since(&plan, 360_000), 355_000);
        let weather = |side| {
            let which = Which { side: Some(side), ..Which::default() };
            Weather { from_ms: 500_000, to_ms: 510_000, which, percent: 10, fault: Fault::ResetBefore }
        };
        plan.weather.push(weather(Side::Cloud));
        assert_eq!(since(&plan, 505_000), 500_000);
        plan.weather.push(weather(Side::Kube));
        assert_eq!(since(&plan, 505_000), 355_000);
        plan.staleness_ms = 1_000;
        assert_eq!(since(&plan, 100_000), 99_000);
    }
}
