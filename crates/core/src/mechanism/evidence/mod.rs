//! Two kinds of evidence that a node is dead: checks without an answer, and a Lease that is not renewed.
//!
//! Owns the counts of the checks and the facts from the watch of the Leases. Does not decide which nodes are
//! checked, or what follows from a verdict.
//!
//! Invariants: a node is dead only after more failures in a row than packet loss explains, and after the time in which
//! its kubelet misses a renewal has passed without any answer and without a renewal, while other Leases are renewed.
//! Failures during which the Lease is renewed are not believed until a check passes. A node without a Lease is not
//! judged.

mod leases;
#[cfg(test)]
mod loss_tests;
mod record;
#[cfg(test)]
mod tests;

use crate::model::facts::Observed;
use crate::model::moment::Moment;
use crate::model::node_check::{CheckKey, CheckOutcome, CheckTarget, Checked, LeaseFacts};
use leases::Leases;
use record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// The judgement of a checked node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known of it, or it is not judged.
    Unknown,
    /// It answers.
    Alive,
    /// A check failed, or none has passed lately.
    Behind,
    /// It is dead.
    Dead,
}

/// The state of one checked node, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedNode {
    /// Which check.
    pub key: CheckKey,
    /// Name of the node.
    pub name: String,
    /// The checked address and port.
    pub at: String,
    /// Its judgement.
    pub standing: Standing,
    /// The time since a check last passed. `None` if none ever did.
    pub last_pass_ms: Option<u64>,
    /// Failures in a row.
    pub failures: u32,
    /// The time since its Lease was last seen to change.
    pub lease_ms: Option<u64>,
    /// Its failures are not believed, since its Lease was renewed.
    pub disbelieved: bool,
}

/// A verdict that a node is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which check.
    pub key: CheckKey,
    /// Name of the node.
    pub name: String,
    /// The text for users.
    pub text: String,
    /// Milliseconds from the last answer to the verdict.
    pub took_ms: u64,
}

/// All checked nodes.
#[derive(Debug, Default)]
pub struct Evidence {
    records: BTreeMap<CheckKey, Record>,
    by_name: BTreeMap<String, BTreeSet<CheckKey>>,
    leases: Leases,
    /// Checks that have failed a full threshold in a row.
    failing: BTreeSet<CheckKey>,
    /// Those of them whose evidence would be enough if more of the other Leases went on.
    stalled: BTreeSet<CheckKey>,
    /// Something other than the counts has changed.
    touched: bool,
    verdicts: Vec<Verdict>,
}

impl Evidence {
    /// Checks exactly these nodes from now on.
    pub fn follow(&mut self, targets: &BTreeMap<CheckKey, CheckTarget>, now: Moment) {
        let same = |key: &CheckKey, record: &Record| {
            targets
                .get(key)
                .is_some_and(|target| target.address == record.address && target.name == record.name)
        };
        self.records.retain(|key, record| same(key, record));
        for (key, target) in targets {
            let new = || Record::new(target.name.clone(), target.address, now);
            self.records.entry(key.clone()).or_insert_with(new);
        }
        self.by_name.clear();
        for (key, record) in &self.records {
            self.by_name.entry(record.name.clone()).or_default().insert(key.clone());
        }
        let records = &self.records;
        self.failing.retain(|key| records.contains_key(key));
    }

    /// Empties all counts when leadership begins.
    pub fn restart(&mut self) {
        *self = Self { touched: true, ..Self::default() };
    }

    /// Forgets the Leases, because their watch has ended.
    pub fn forget_leases(&mut self) {
        self.leases.forget();
    }

    /// Takes in all nodes of the cluster. A Lease of any other node counts only if it was seen to change.
    pub fn nodes_listed(&mut self, names: BTreeSet<String>) {
        self.leases.nodes(names);
    }

    /// Takes in the answer to a check.
    pub fn checked(&mut self, checked: &Checked, now: Moment) {
        let Some(record) = self.records.get_mut(&checked.key) else { return };
        match &checked.outcome {
            CheckOutcome::Passed => {
                self.touched |= record.passed(now);
                self.failing.remove(&checked.key);
            }
            CheckOutcome::Failed => {
                record.failed(now);
                self.touched |= record.failures == 1;
                if record.failures >= checked.key.check.threshold {
                    self.failing.insert(checked.key.clone());
                }
            }
            CheckOutcome::NoVerdict(_) => {}
        }
    }

    /// Takes in a step of the watch of the Leases.
    pub fn leases(&mut self, observed: &Observed<LeaseFacts>, now: Moment) {
        for node in self.leases.observe(observed, now) {
            self.reported(&node, now);
        }
    }

    /// Notes that the kubelet of a node lives: it renewed its Lease, or reported that the node is Ready.
    pub fn reported(&mut self, node: &str, now: Moment) {
        for key in self.by_name.get(node).into_iter().flatten() {
            if let Some(record) = self.records.get_mut(key) {
                self.touched |= record.renewed(key.check, now);
            }
        }
    }

    /// Judges the failing nodes. Returns the latest moment at which to judge again.
    pub fn judge(&mut self, now: Moment) -> Option<Moment> {
        let mut later = None;
        let mut counted = None;
        let mut stalled = BTreeSet::new();
        for key in &self.failing {
            let Some(record) = self.records.get_mut(key) else { continue };
            if !record.has_enough(key.check) {
                continue;
            }
            let Some((missed_at, missed_ms)) = self.leases.missed_at(&record.name) else { continue };
            // Where packets are lost, TCP delays a renewal, and a few checks lost meanwhile prove nothing. So as long
            // a silence has to go with it.
            let at = missed_at.max(record.silent_since().plus_millis(missed_ms));
            if at > now {
                later = later.into_iter().chain([at]).min();
                continue;
            }
            let counts = *counted.get_or_insert_with(|| self.leases.fresh(now));
            if !self.leases.others_bear_out(&record.name, counts) {
                stalled.extend(record.dead.is_none().then(|| key.clone()));
                continue;
            }
            let took_ms = now.millis_since(record.silent_since());
            let lease_ms = self.leases.age_ms(&record.name, now).unwrap_or_default();
            let text = format!(
                "{} ({}:{}) has answered no check for {} s ({} in a row), and its Lease in kube-node-lease was not \
                 renewed for {} s",
                record.name,
                record.address,
                key.check.port,
                took_ms / 1_000,
                record.failures,
                lease_ms / 1_000,
            );
            let name = record.name.clone();
            record.die(self.leases.renewed_us(&name), now);
            self.verdicts.push(Verdict { key: key.clone(), name, text, took_ms });
            self.touched = true;
        }
        self.touched |= self.stalled != stalled;
        self.stalled = stalled;
        later
    }

    /// The verdicts since the last call.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// Whether something other than the counts has changed since the last call.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// The judgement of a node.
    pub fn standing(&self, key: &CheckKey, now: Moment) -> Standing {
        match self.records.get(key) {
            Some(record) if record.dead.is_some() => Standing::Dead,
            Some(record) if record.is_behind(now) => Standing::Behind,
            Some(record) if record.last_pass.is_some() => Standing::Alive,
            Some(_) | None => Standing::Unknown,
        }
    }

    /// Whether the node can be judged, and has shown no sign of life since its checks began.
    pub fn is_unproven(&self, key: &CheckKey, node: &str) -> bool {
        let seen = self.records.get(key).is_some_and(|record| record.seen_alive);
        !seen && self.leases.may_have(node)
    }

    /// Whether the node's checks have failed for long while its Lease was renewed.
    pub fn is_doubted(&self, key: &CheckKey) -> bool {
        self.records.get(key).is_some_and(|record| record.doubted)
    }

    /// Whether the node is not judged only because too few of the other Leases go on.
    pub fn is_stalled(&self, key: &CheckKey) -> bool {
        self.stalled.contains(key)
    }

    /// Whether a consistent read found the Lease and the heartbeat unchanged since the verdict. If not, drops the
    /// verdict. `None` while that proves nothing: the machine answers again, or other Leases stand still too. After an
    /// outage of the whole network the API server may answer before any kubelet has renewed.
    pub fn is_borne_out(
        &mut self,
        key: &CheckKey,
        (lease, same_heartbeat): (Option<&LeaseFacts>, bool),
        now: Moment,
    ) -> Option<bool> {
        let Some(record) = self.records.get_mut(key) else { return Some(false) };
        let Some(dead) = &record.dead else { return Some(false) };
        let same = dead.lease_us == lease.and_then(|lease| lease.renewed_us);
        if same && lease.is_some() && same_heartbeat {
            let others_go_on = self.leases.others_bear_out(&record.name, self.leases.fresh(now));
            return (!record.answers() && others_go_on).then_some(true);
        }
        record.contradicted();
        self.touched = true;
        Some(false)
    }

    /// When the first of the present failures was noted. The verdict rests on these failures.
    pub fn first_failure(&self, key: &CheckKey) -> Option<Moment> {
        self.records.get(key).and_then(|record| record.first_failure)
    }

    /// When the node was found dead.
    pub fn dead_since(&self, key: &CheckKey) -> Option<Moment> {
        self.records.get(key).and_then(|record| record.dead.as_ref()).map(|dead| dead.since)
    }

    /// Every checked node.
    pub fn nodes(&self, now: Moment) -> impl Iterator<Item = CheckedNode> {
        self.records.iter().map(move |(key, record)| CheckedNode {
            key: key.clone(),
            name: record.name.clone(),
            at: format!("{}:{}", record.address, key.check.port),
            standing: self.standing(key, now),
            last_pass_ms: record.last_pass.map(|at| now.millis_since(at)),
            failures: record.failures,
            lease_ms: self.leases.age_ms(&record.name, now),
            disbelieved: record.disbelieved,
        })
    }
}
