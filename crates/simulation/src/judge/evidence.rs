//! I16: no move rests on a check without the evidence for it.
//!
//! A second, naive opinion, from the checks that a process has made and the Leases on the server.

use super::validity::field;
use super::{Judge, Process};
use crate::facts::Facts;
use crate::scene::epoch;
use flipop_apiserver::Change;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A machine may count as dead only after this long without an answer, and without a renewal of its Lease: a quarter of
/// the Lease's duration and these 2 s, and never less than 4.5 s.
const fn missed_ms(duration_s: u64) -> u64 {
    let (ms, least_ms) = (duration_s * 250 + 2_000, 4_500);
    if ms < least_ms { least_ms } else { ms }
}

/// The duration of a Lease that names none, in seconds.
const LEASE_S: u64 = 40;

/// A Lease that was written this recently may be unseen: its way to the read, and from there to the move, takes time.
const UNSEEN_MS: u64 = 1_500;

/// More renewals of a Lease cannot be unseen.
const KEPT: usize = 4;

/// The least number of failures in a row that a spec can ask for.
const THRESHOLD: u64 = 3;

/// So many checks in a row fail at least before the word of a provider counts.
const MORE_THAN_LOSS: u64 = 5;

#[derive(Debug, Clone, Copy, Default)]
struct Checks {
    failures: u64,
    /// When the first of these failures was noted.
    failed_ms: u64,
    last_pass_ms: Option<u64>,
    /// When the first check began. No earlier check could have been answered.
    since_ms: u64,
}

#[derive(Debug, Clone, Default)]
struct Lease {
    missed_ms: u64,
    /// The last renewals, the latest one first.
    renewed_ms: VecDeque<u64>,
}

impl Lease {
    /// The time since the latest renewal that was written at least `unseen_ms` ago.
    fn age_ms(&self, unseen_ms: u64, now_ms: u64) -> u64 {
        let mut ages = self.renewed_ms.iter().map(|at_ms| now_ms.saturating_sub(*at_ms));
        ages.clone().find(|age_ms| *age_ms >= unseen_ms).or_else(|| ages.next_back()).unwrap_or_default()
    }
}

/// The results of checks, and the renewals of Leases.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    checks: BTreeMap<(Process, String), Checks>,
    leases: BTreeMap<String, Lease>,
    /// The same as `told`, as answered. The answer may be lost on its way.
    answered: BTreeMap<(Process, u64), (u64, bool)>,
    /// When a provider last told a process that a droplet is off (`false`) or does not exist (`true`).
    told: BTreeMap<(Process, u64), (u64, bool)>,
    /// The nodes whose machines are really dead.
    dead: BTreeSet<String>,
}

impl Evidence {
    pub(super) fn probing(&mut self, process: Process, node: &str, now_ms: u64) {
        let first = Checks { since_ms: now_ms, ..Checks::default() };
        self.checks.entry((process, node.to_owned())).or_insert(first);
    }

    pub(super) fn probed(&mut self, process: Process, node: &str, passed: bool, now_ms: u64) {
        let Some(checks) = self.checks.get_mut(&(process, node.to_owned())) else { return };
        checks.failed_ms = if checks.failures == 0 { now_ms } else { checks.failed_ms };
        checks.failures = if passed { 0 } else { checks.failures + 1 };
        checks.last_pass_ms = if passed { Some(now_ms) } else { checks.last_pass_ms };
    }

    /// Takes in a change of a node's Lease. Returns whether it was one.
    pub(super) fn hears(&mut self, kind: &str, change: &Change, now_ms: u64) -> bool {
        let of_node = kind == "leases" && change.key.namespace == "kube-node-lease";
        if of_node {
            let duration = |lease: &Value| field(lease, "/spec/leaseDurationSeconds")?.as_u64();
            let duration_s = change.after.as_ref().map(|lease| duration(lease).unwrap_or(LEASE_S));
            // The judge hears of a change some time after it.
            let renewed_ms = change.after.as_ref().and_then(|lease| written_ms(lease)).unwrap_or(now_ms);
            self.renewed(&change.key.name, duration_s, renewed_ms);
        }
        of_node
    }

    /// A node's Lease was renewed, or it is gone.
    fn renewed(&mut self, node: &str, duration_s: Option<u64>, now_ms: u64) {
        let Some(duration_s) = duration_s else {
            self.leases.remove(node);
            return;
        };
        let lease = self.leases.entry(node.to_owned()).or_default();
        lease.missed_ms = missed_ms(duration_s);
        lease.renewed_ms.push_front(now_ms);
        lease.renewed_ms.truncate(KEPT);
    }

    /// The evidence that is missing for the verdict that a node is dead. `grace_ms`: how long the node may fail
    /// after that.
    fn lacks(
        &self,
        process: Process,
        node: &str,
        (threshold, grace_ms): (u64, u64),
        now_ms: u64,
    ) -> Option<String> {
        let Some(checks) = self.checks.get(&(process, node.to_owned())) else {
            return Some("it was never checked".to_owned());
        };
        let silent_ms = now_ms.saturating_sub(checks.last_pass_ms.unwrap_or(checks.since_ms));
        let Some(lease) = self.leases.get(node) else { return Some("it has no Lease".to_owned()) };
        let unrenewed_ms = lease.age_ms(UNSEEN_MS, now_ms);
        let others = self.leases.iter().filter(|(name, _)| *name != node);
        let fresh = |lease: &Lease| lease.age_ms(0, now_ms) < lease.missed_ms + UNSEEN_MS + grace_ms;
        let (count, fresh) = (others.clone().count(), others.filter(|(_, lease)| fresh(lease)).count());
        if checks.failures < threshold {
            Some(format!("{} checks failed in a row", checks.failures))
        } else if silent_ms < lease.missed_ms + grace_ms {
            Some(format!("no check was answered for {silent_ms} ms"))
        } else if unrenewed_ms < lease.missed_ms + grace_ms {
            Some(format!("its Lease was renewed {unrenewed_ms} ms ago"))
        } else if fresh * 2 < count || count == 0 {
            Some(format!("{fresh} of {count} other Leases go on"))
        } else {
            None
        }
    }

    /// A provider answers, with its word against a droplet if there is one.
    fn answered(&mut self, about: (Process, u64), word: Option<(u64, bool)>) {
        self.answered.remove(&about);
        self.answered.extend(word.map(|word| (about, word)));
    }

    /// The answer arrives.
    fn arrived(&mut self, about: (Process, u64)) {
        self.told.extend(self.answered.remove_entry(&about));
    }

    /// Whether the word of a provider bears out the verdict that a node is dead: since the first failure it has called
    /// the droplet off or gone, and the kubelet has not reported.
    fn is_told(
        &self,
        process: Process,
        (node, droplet): (&str, u64),
        (threshold, grace_ms): (u64, u64),
        now_ms: u64,
    ) -> bool {
        let checks = self.checks.get(&(process, node.to_owned()));
        let Some((checks, (at_ms, gone))) = checks.zip(self.told.get(&(process, droplet))) else {
            return false;
        };
        let grace_ms = if *gone { 0 } else { grace_ms };
        let reported = |lease: &Lease| {
            let mut renewed = lease.renewed_ms.iter();
            renewed.any(|at_ms| *at_ms > checks.failed_ms && at_ms + UNSEEN_MS <= now_ms)
        };
        checks.failures >= threshold.max(MORE_THAN_LOSS)
            && *at_ms >= checks.failed_ms
            && now_ms >= checks.failed_ms + grace_ms
            && !self.leases.get(node).is_some_and(reported)
    }
}

/// When the kubelet wrote the Lease, on the clock of the simulation.
fn written_ms(lease: &Value) -> Option<u64> {
    let at: Timestamp = field(lease, "/spec/renewTime")?.as_str()?.parse().ok()?;
    u64::try_from(at.duration_since(epoch()).as_millis()).ok()
}

impl Judge {
    /// A process begins a check.
    pub(crate) fn probing(&mut self, now_ms: u64, process: Process, node: &str) {
        self.evidence.probing(process, node, now_ms);
    }

    /// A process has the answer to a check.
    pub(crate) fn probed(&mut self, now_ms: u64, process: Process, node: &str, passed: bool) {
        self.evidence.probed(process, node, passed, now_ms);
    }

    /// The machine of a node dies, or comes back.
    pub(crate) fn machine_is_dead(&mut self, node: &str, dead: bool) {
        if dead {
            self.evidence.dead.insert(node.to_owned());
        } else {
            self.evidence.dead.remove(node);
        }
    }

    /// A provider answers a call of a process, which may be about a single droplet.
    pub(crate) fn answers_about_droplet(
        &mut self,
        now_ms: u64,
        process: Process,
        facts: &Facts,
        status: Option<u16>,
    ) {
        let Some(droplet) = facts.droplet() else { return };
        let gone = status == Some(404);
        let word = (gone || (status == Some(200) && self.cloud.is_off(droplet))).then_some((now_ms, gone));
        self.evidence.answered((process, droplet), word);
    }

    /// An answer reaches its process.
    pub(super) fn told_of_droplet(&mut self, process: Process, facts: &Facts, status: Option<u16>) {
        let droplet = facts.droplet().filter(|_| matches!(status, Some(200 | 404)));
        if let Some(droplet) = droplet {
            self.evidence.arrived((process, droplet));
        }
    }

    /// Blames a move off a node that matches by its objects. Where no check is asked for, the move breaks I1. Where
    /// neither the checks with the Lease nor the checks with the word of the provider bear it out, it breaks I16.
    pub(super) fn check_evidence(
        &mut self,
        now_ms: u64,
        process: Process,
        owners: &[String],
        taken: &str,
        old: u64,
    ) {
        let node = self.truth.nodes.values().find(|node| node.droplet == Some(old));
        let pools = owners.iter().filter_map(|pool| self.truth.pools.get(pool));
        let mut asking =
            pools.filter(|pool| field(&pool.spec, "/nodeCheck").is_some_and(|check| !check.is_null()));
        let Some((node, pool)) = node.zip(asking.next()) else {
            self.blame(now_ms, "I1", format!("{process} takes {taken} off {old}, which matches"));
            return;
        };
        let number = |pointer: &str, otherwise| {
            field(&pool.spec, pointer).and_then(Value::as_u64).unwrap_or(otherwise)
        };
        let asked =
            (number("/nodeCheck/failureThreshold", THRESHOLD), number("/grace/nodeSeconds", 0) * 1_000);
        let dead = self.evidence.dead.contains(&node.name);
        if self.evidence.is_told(process, (&node.name, old), asked, now_ms) {
            self.tally.condemned += usize::from(dead);
            self.tally.misled += usize::from(!dead);
        } else if let Some(lacks) = self.evidence.lacks(process, &node.name, asked, now_ms) {
            let text = format!("{process} takes {taken} off {}, which matches: {lacks}", node.name);
            self.blame(now_ms, "I16", text);
        } else {
            self.tally.condemned += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Process = Process { replica: 0, incarnation: 1 };

    /// Three nodes with Leases of 40 s. The first node answers, and its Lease is renewed, until the given moments.
    fn evidence(answers_until_ms: u64, renews_until_ms: u64, others_renew: bool, now_ms: u64) -> Evidence {
        let mut evidence = Evidence::default();
        for at_ms in (0..=now_ms).step_by(1_000) {
            evidence.probing(ONE, "a", at_ms);
            evidence.probed(ONE, "a", at_ms <= answers_until_ms, at_ms);
            if at_ms % 10_000 == 0 {
                if at_ms <= renews_until_ms {
                    evidence.renewed("a", Some(40), at_ms);
                }
                for other in ["b", "c"] {
                    if others_renew || at_ms == 0 {
                        evidence.renewed(other, Some(40), at_ms);
                    }
                }
            }
        }
        evidence
    }

    #[test]
    fn a_verdict_needs_silent_seconds_a_missed_renewal_and_others_that_renew() {
        let asked = (3, 0);
        let lacks = |evidence: &Evidence, now_ms| evidence.lacks(ONE, "a", asked, now_ms);
        assert_eq!(lacks(&evidence(60_000, 60_000, true, 72_000), 72_000), None);
        for (violation, says) in [
            (evidence(61_000, 60_000, true, 72_000), "no check was answered for 11000 ms"),
            (evidence(60_000, 70_000, true, 72_000), "its Lease was renewed 2000 ms ago"),
            (evidence(60_000, 60_000, false, 72_000), "0 of 2 other Leases go on"),
            (evidence(72_000, 60_000, true, 72_000), "0 checks failed in a row"),
        ] {
            assert_eq!(lacks(&violation, 72_000).as_deref(), Some(says));
        }
        let mut unseen = evidence(60_000, 60_000, true, 72_000);
        unseen.renewed("a", Some(40), 70_501);
        assert_eq!(lacks(&unseen, 72_000), None, "after the read");
        unseen.renewed("a", Some(40), 71_000);
        assert_eq!(lacks(&unseen, 72_001).as_deref(), Some("its Lease was renewed 1500 ms ago"));
        let other = Process { replica: 1, incarnation: 1 };
        let dead = evidence(60_000, 60_000, true, 72_000);
        assert_eq!(dead.lacks(other, "a", asked, 72_000).as_deref(), Some("it was never checked"));
        assert!(dead.lacks(ONE, "a", (13, 0), 72_000).is_some(), "a higher threshold");
        assert!(dead.lacks(ONE, "a", (3, 1_000), 72_000).is_some(), "a grace");
        let mut gone = dead;
        gone.renewed("a", None, 72_000);
        assert_eq!(gone.lacks(ONE, "a", asked, 72_000).as_deref(), Some("it has no Lease"));
    }

    #[test]
    fn the_shorter_the_lease_the_less_silence_is_enough() {
        for (duration_s, enough_ms) in [(1, 4_500), (10, 4_500), (20, 7_000), (40, 12_000)] {
            let mut dead = evidence(60_000, 60_000, true, 72_000);
            dead.renewed("a", Some(duration_s), 60_000);
            let lacks = |ms: u64| dead.lacks(ONE, "a", (3, 0), 60_000 + ms);
            assert!(lacks(enough_ms - 1).is_some() && lacks(enough_ms).is_none(), "{duration_s}");
        }
    }

    #[test]
    fn the_word_of_a_provider_counts_with_five_failures_and_without_a_report_of_the_kubelet() {
        const DROPLET: u64 = 7;
        let dies = |failures: u64| {
            let mut evidence = evidence(60_000, 60_000, true, 60_000);
            (1..=failures).for_each(|turn| evidence.probed(ONE, "a", false, 61_000 + turn * 100));
            evidence
        };
        let told = |evidence: &mut Evidence, at_ms, gone| {
            evidence.answered((ONE, DROPLET), Some((at_ms, gone)));
            evidence.arrived((ONE, DROPLET));
        };
        let counts =
            |evidence: &Evidence, asked, now_ms| evidence.is_told(ONE, ("a", DROPLET), asked, now_ms);
        let mut dead = dies(5);
        assert!(!counts(&dead, (3, 0), 62_000), "nobody was told");
        told(&mut dead, 61_099, false);
        assert!(!counts(&dead, (3, 0), 62_000), "before the first failure");
        told(&mut dead, 61_500, false);
        assert!(counts(&dead, (3, 0), 62_000));
        let mut lost = dies(5);
        lost.answered((ONE, DROPLET), Some((61_500, false)));
        assert!(!counts(&lost, (3, 0), 62_000), "the answer was lost");
        lost.answered((ONE, DROPLET), None);
        lost.arrived((ONE, DROPLET));
        assert!(!counts(&lost, (3, 0), 62_000), "a later answer shows the machine running");
        assert!(!counts(&dead, (6, 0), 62_000), "a higher threshold");
        assert!(!counts(&dead, (3, 901), 62_000) && counts(&dead, (3, 900), 62_000), "a grace");
        assert!(!dead.is_told(ONE, ("b", DROPLET), (3, 0), 62_000), "a node that was not checked");
        let mut four = dies(4);
        told(&mut four, 61_500, false);
        assert!(!counts(&four, (3, 0), 62_000), "four failures");
        dead.renewed("a", Some(40), 61_200);
        assert!(!counts(&dead, (3, 0), 62_700) && counts(&dead, (3, 0), 62_699), "a report, once it is seen");
        let mut gone = dies(5);
        told(&mut gone, 61_500, true);
        assert!(counts(&gone, (3, 600_000), 62_000), "a machine that is gone has no grace");
    }

    #[test]
    fn a_node_that_never_answered_is_silent_from_the_begin_of_the_first_check() {
        let mut evidence = evidence(0, 0, true, 90_000);
        let later = Process { replica: 1, incarnation: 1 };
        for began_ms in (78_000..90_000).step_by(2_000) {
            evidence.probing(later, "a", began_ms);
            evidence.probed(later, "a", false, began_ms + 1_000);
        }
        assert_eq!(evidence.lacks(later, "a", (3, 0), 90_000), None);
        let early = evidence.lacks(later, "a", (3, 0), 89_999);
        assert_eq!(early.as_deref(), Some("no check was answered for 11999 ms"));
    }
}
