//! The evidence that a node is dead: checks without an answer, and with them a Lease that is not renewed, or the word
//! of the provider that the machine is off or gone.
//!
//! Owns the counts of the checks, the facts from the watch of the Leases and the times at which a provider is asked.
//! Does not decide which nodes are checked, or what follows from a verdict.
//!
//! Invariants: a node is dead only after more failures in a row than packet loss explains. Without the word of the
//! provider, the time in which its kubelet misses a renewal has also passed without any answer and without a renewal,
//! while other Leases are renewed; a node without a Lease is then not judged. The word of the provider counts only
//! while the kubelet has not reported since the first failure. Failures during which the Lease is renewed are not
//! believed until a check passes.

mod leases;
#[cfg(test)]
mod loss_tests;
mod record;
#[cfg(test)]
mod tests;
mod witness;
#[cfg(test)]
mod witness_tests;

use crate::model::{
    CheckKey, CheckOutcome, CheckTarget, Checked, LeaseFacts, MachineId, Mismatch, Moment, Observed,
};
use leases::Leases;
use record::Record;
use std::collections::{BTreeMap, BTreeSet};
pub use witness::{Silent, Witness};

/// The judgement of a checked node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known of it, or it is not judged.
    Unknown,
    /// It answers.
    Alive,
    /// A check failed, or none has passed lately.
    Deprioritized,
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
    pub doubted: bool,
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
    news: News,
    verdicts: Vec<Verdict>,
}

/// The checks that may say something else of their nodes than before.
#[derive(Debug, Default)]
struct News {
    keys: BTreeSet<CheckKey>,
    /// Each of them.
    all: bool,
}

impl Evidence {
    /// Checks exactly these nodes from now on. Only `changed` are others than before.
    pub fn follow(
        &mut self,
        changed: &BTreeSet<CheckKey>,
        targets: &BTreeMap<CheckKey, CheckTarget>,
        now: Moment,
    ) {
        for key in changed {
            let target = targets.get(key);
            let same = |record: &&mut Record| {
                target.is_some_and(|target| target.address == record.address && target.name == record.name)
            };
            if let Some(record) = self.records.get_mut(key).filter(same) {
                record.machine = target.and_then(|target| target.machine.clone());
                continue;
            }
            self.news.keys.insert(key.clone());
            if let Some(record) = self.records.remove(key) {
                let left = self.by_name.get_mut(&record.name).is_some_and(|keys| {
                    keys.remove(key);
                    !keys.is_empty()
                });
                if !left {
                    self.by_name.remove(&record.name);
                }
            }
            if let Some(target) = target {
                self.records.insert(key.clone(), Record::new(target, now));
                self.by_name.entry(target.name.clone()).or_default().insert(key.clone());
            } else {
                self.failing.remove(key);
            }
        }
    }

    /// Empties all counts when leadership begins.
    pub fn restart(&mut self) {
        *self = Self { touched: true, news: News { all: true, ..News::default() }, ..Self::default() };
    }

    /// Takes in all nodes of the cluster. A Lease of any other node counts only if it was seen to change.
    pub fn nodes_listed(&mut self, names: BTreeSet<String>) {
        self.leases.nodes(names);
    }

    /// Takes in the answer to a check.
    pub fn checked(&mut self, checked: &Checked, now: Moment) {
        let Some(record) = self.records.get_mut(&checked.key) else { return };
        let news = match &checked.outcome {
            CheckOutcome::Passed => {
                self.failing.remove(&checked.key);
                record.passed(now)
            }
            CheckOutcome::Failed => {
                record.failed(now);
                if record.failures >= checked.key.check.threshold {
                    self.failing.insert(checked.key.clone());
                }
                record.failures == 1
            }
            CheckOutcome::NoVerdict(_) => false,
        };
        if news {
            self.touched = true;
            self.news.keys.insert(checked.key.clone());
        }
    }

    /// Notes that another object asks for a check. It has yet to hear of the results.
    pub fn asked_for(&mut self, key: &CheckKey) {
        self.news.keys.insert(key.clone());
    }

    /// Takes in a step of the watch of the Leases.
    pub fn leases(&mut self, observed: &Observed<LeaseFacts>, now: Moment) {
        // Other nodes may have a Lease now.
        self.news.all |= matches!(observed, Observed::Reset(_));
        self.touched |= !matches!(observed, Observed::Apply(_));
        if let Observed::Delete(lease) = observed {
            self.news.keys.extend(self.by_name.get(&lease.name).into_iter().flatten().cloned());
        }
        for node in self.leases.observe(observed, now) {
            self.reported(&node, now);
        }
    }

    /// Notes that the kubelet of a node lives: it renewed its Lease, or reported that the node is Ready.
    pub fn reported(&mut self, node: &str, now: Moment) {
        for key in self.by_name.get(node).into_iter().flatten() {
            if self.records.get_mut(key).is_some_and(|record| record.renewed(key.check, now)) {
                self.touched = true;
                self.news.keys.insert(key.clone());
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
            let lease_ms = self.leases.age_ms(&record.name, now).unwrap_or_default();
            let rests_on = format!("its Lease in kube-node-lease was not renewed for {} s", lease_ms / 1_000);
            self.verdicts.push(verdict(key, record, &rests_on, now));
            record.die(Mismatch::CheckFailed, self.leases.renewed_us(&record.name), now);
            self.touched = true;
            self.news.keys.insert(key.clone());
        }
        self.touched |= self.stalled != stalled;
        self.news.keys.extend(self.stalled.symmetric_difference(&stalled).cloned());
        self.stalled = stalled;
        later
    }

    /// The machines about which the word of their provider would count.
    pub fn silent(&self) -> impl Iterator<Item = Silent> {
        // Without the Leases a report of a kubelet would go unseen.
        let failing = self.failing.iter().filter(|_| self.leases.are_listed());
        failing.filter_map(|key| {
            let record = self.records.get(key).filter(|record| record.wants_witness(key.check))?;
            Some(Silent { machine: record.machine.clone()?, since: record.silent_since() })
        })
    }

    /// Notes that reads that began at `begun` have shown these machines to the present token.
    pub fn shown(&mut self, machines: &BTreeSet<MachineId>, begun: Moment) {
        let records = self.records.values_mut();
        for record in records.filter(|record| record.machine.as_ref().is_some_and(|on| machines.contains(on)))
        {
            record.shown = record.shown.max(Some(begun));
        }
    }

    /// Forgets which machines were shown, because the token may be another one.
    pub fn forget_shown(&mut self) {
        self.records.values_mut().for_each(|record| record.shown = None);
    }

    /// A machine that answers, as a proof that the token still shows machines.
    pub fn well_beside(&self, machine: &MachineId) -> Option<MachineId> {
        let well = self.records.values().filter(|record| record.failures == 0 && record.last_pass.is_some());
        let others = well.filter_map(|record| record.machine.as_ref());
        others.filter(|on| on.kind() == machine.kind()).find(|on| *on != machine).cloned()
    }

    /// Takes in the word of the provider that a machine is off. The read was asked for at `asked`.
    pub fn is_off(&mut self, machine: &MachineId, asked: Moment, now: Moment) {
        let rests_on = format!("its provider reports that {machine} is switched off");
        self.testify(machine, (Mismatch::MachineOff, &rests_on), asked, now);
    }

    /// Takes in the word of the provider that a machine does not exist. It counts if the present token has shown this
    /// machine before, and another one since the failures began. Returns false if only the other one is missing.
    pub fn is_gone(&mut self, machine: &MachineId, asked: Moment, now: Moment) -> bool {
        let on = |record: &&Record| record.machine.as_ref() == Some(machine);
        let records = || self.records.values();
        let Some(failed) = records().filter(on).filter_map(|record| record.first_failure).max() else {
            return true;
        };
        if records().filter(on).all(|record| record.shown.is_none()) {
            return true;
        }
        let other = |record: &Record| !on(&record) && record.shown >= Some(failed);
        if !records().any(other) {
            return false;
        }
        let rests_on = format!("its provider no longer has {machine}");
        self.testify(machine, (Mismatch::MachineGone, &rests_on), asked, now);
        true
    }

    fn testify(
        &mut self,
        machine: &MachineId,
        (why, rests_on): (Mismatch, &str),
        asked: Moment,
        now: Moment,
    ) {
        for key in &self.failing {
            let Some(record) = self.records.get_mut(key) else { continue };
            let counts = record.machine.as_ref() == Some(machine)
                && record.wants_witness(key.check)
                && record.first_failure.is_some_and(|failed| failed <= asked);
            match &mut record.dead {
                _ if !counts => continue,
                None => {
                    self.verdicts.push(verdict(key, record, rests_on, now));
                    record.die(why.clone(), self.leases.renewed_us(&record.name), now);
                }
                // Only that the machine is gone says more.
                Some(dead) if why == Mismatch::MachineGone => dead.why = why.clone(),
                Some(_) => continue,
            }
            self.touched = true;
            self.news.keys.insert(key.clone());
        }
    }

    /// The verdicts since the last call.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// Whether something other than the counts has changed since the last call.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// The checks that may say something else of their nodes than at the last call. `None` if all may.
    pub fn take_news(&mut self) -> Option<BTreeSet<CheckKey>> {
        let News { keys, all } = std::mem::take(&mut self.news);
        (!all).then_some(keys)
    }

    /// The judgement of a node.
    pub fn standing(&self, key: &CheckKey, now: Moment) -> Standing {
        match self.records.get(key) {
            Some(record) if record.dead.is_some() => Standing::Dead,
            Some(record) if record.is_deprioritized(now) => Standing::Deprioritized,
            Some(record) if record.last_pass.is_some() => Standing::Alive,
            Some(_) | None => Standing::Unknown,
        }
    }

    /// Whether the node is checked, can be judged, and has shown no sign of life since its checks began.
    pub fn is_unproven(&self, key: &CheckKey, node: &str) -> bool {
        self.records.get(key).is_some_and(|record| !record.seen_alive) && self.leases.may_have(node)
    }

    /// Whether the node's checks have failed for long while its Lease was renewed.
    pub fn is_doubted(&self, key: &CheckKey) -> bool {
        self.records.get(key).is_some_and(|record| record.doubt_reported)
    }

    /// Whether the node is not judged only because too few of the other Leases go on.
    pub fn is_stalled(&self, key: &CheckKey) -> bool {
        self.stalled.contains(key)
    }

    /// Why the node is dead, once a consistent read has found the Lease and the heartbeat unchanged since the verdict.
    /// If they have changed, drops the verdict. `None` while that proves nothing: the machine answers again, or the
    /// verdict rests on the Lease and other Leases stand still too. After an outage of the whole network the API server
    /// may answer before any kubelet has renewed.
    pub fn bear_out(
        &mut self,
        key: &CheckKey,
        (lease, same_heartbeat): (Option<&LeaseFacts>, bool),
        now: Moment,
    ) -> Option<Result<(), Mismatch>> {
        let Some(record) = self.records.get_mut(key) else { return Some(Ok(())) };
        let Some(dead) = &record.dead else { return Some(Ok(())) };
        let same = dead.lease_us == lease.and_then(|lease| lease.renewed_us);
        let by_lease = dead.why == Mismatch::CheckFailed;
        if same && same_heartbeat && (lease.is_some() || !by_lease) {
            let others_go_on = !by_lease || self.leases.others_bear_out(&record.name, self.leases.fresh(now));
            return (!record.answers() && others_go_on).then(|| Err(dead.why.clone()));
        }
        record.contradicted();
        self.touched = true;
        self.news.keys.insert(key.clone());
        Some(Ok(()))
    }

    /// Why a dead node no longer matches.
    pub fn why_dead(&self, key: &CheckKey) -> Option<&Mismatch> {
        self.records.get(key).and_then(|record| record.dead.as_ref()).map(|dead| &dead.why)
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
            doubted: record.is_doubted(key.check),
        })
    }
}

/// The verdict that a node is dead, with what it rests on besides the checks.
fn verdict(key: &CheckKey, record: &Record, rests_on: &str, now: Moment) -> Verdict {
    let took_ms = now.millis_since(record.silent_since());
    let text = format!(
        "{} ({}:{}) has answered no check for {} s ({} in a row), and {rests_on}",
        record.name,
        record.address,
        key.check.port,
        took_ms / 1_000,
        record.failures,
    );
    Verdict { key: key.clone(), name: record.name.clone(), text, took_ms }
}
