//! Grace for both kinds of objects: which nodes lose their match now, which failures need a proof first, and the
//! Events.

use super::action::{Action, NodeReading};
use super::{Fleet, watched_nodes};
use crate::mechanism::effects::{Effects, Notice};
use crate::mechanism::suspects::{End, Ended, Suspects};
use crate::mechanism::suspicion::Clocks;
use crate::model::facts::NodeFacts;
use crate::model::grace::Grace;
use crate::model::ids::{ObjectRef, Uid};
use crate::model::matching::Criteria;
use crate::model::moment::{Context, Moment};
use crate::model::node_check::CheckKey;

/// Suspicions of nodes that served, by how they ended, since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraceCounts {
    /// The node matched again within its grace.
    pub recovered: u64,
    /// Its grace ended.
    pub expired: u64,
    /// The node got a failure without a grace.
    pub overruled: u64,
}

impl GraceCounts {
    fn add(&mut self, ended: &[Ended], grace: &Grace) {
        // Without a grace, the failed check was only waiting for its proof.
        let had_grace = |ended: &&Ended| !ended.suspicion.why().is_by_check() || grace.node_ms > 0;
        for ended in ended.iter().filter(had_grace) {
            match ended.end {
                End::Recovered => self.recovered += 1,
                End::Expired => self.expired += 1,
                End::Overruled => self.overruled += 1,
            }
        }
    }
}

impl Fleet {
    /// The present time, in this process and on the API server's clock.
    pub(super) const fn clocks(&self, now: Moment) -> Clocks {
        Clocks { now, epoch_ms: self.epoch_ms }
    }

    /// Ends each grace that is over, and lets recovered nodes count again.
    pub(super) fn settle_suspects(&mut self, now: Moment, out: &mut Effects<Action>) {
        let clocks = self.clocks(now);
        let mut counts = self.grace;
        let mut told: Vec<Notice> = Vec::new();
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid).filter(|pool| pool.is_live() && pool.matched) else {
                continue;
            };
            let Some(criteria) = pool.spec.criteria.clone() else { continue };
            let Some(account) = self.accounts.get(&pool.spec.account_id) else { continue };
            let stores = watched_nodes::of(&self.nodes, &self.pods, &criteria);
            pool.settle_suspects(account, now);
            let (recovered, later) = pool.recovered(account, stores.0, now);
            out.later(later);
            if !recovered.is_empty() {
                pool.rematch(Some(&recovered), stores, clocks);
            }
            let ended = pool.suspects.take_ended();
            counts.add(&ended, &pool.spec.grace);
            told.extend(ended.iter().filter_map(|ended| pool.tell_avoided(ended)));
            if self.permit {
                let (began, later) = pool.tell_suspicions(now);
                told.extend(began);
                out.later(later);
            }
            ask(&mut pool.suspects, (&pool.object, &criteria, &pool.spec.grace), now, out);
        }
        for uid in &self.attention.due {
            let Some(set) = self.record_sets.get_mut(uid).filter(|set| !set.deleting && set.matched) else {
                continue;
            };
            let Some(criteria) = set.spec.criteria.clone() else { continue };
            let stores = watched_nodes::of(&self.nodes, &self.pods, &criteria);
            let report = self.dns.set(uid).and_then(|known| known.report.as_ref());
            let published = report.map(|report| report.published.addresses.clone());
            set.settle_suspects(published.as_deref(), now);
            let (recovered, later) = set.recovered(published.as_deref(), stores.0, now);
            out.later(later);
            if !recovered.is_empty() {
                set.rematch(Some(&recovered), stores, clocks);
            }
            let ended = set.suspects.take_ended();
            counts.add(&ended, &set.spec.grace);
            told.extend(ended.iter().filter_map(|ended| set.tell_avoided(ended)));
            if self.permit {
                let (began, later) = set.tell_suspicions(now);
                told.extend(began);
                out.later(later);
            }
            ask(&mut set.suspects, (&set.object, &criteria, &set.spec.grace), now, out);
        }
        self.grace = counts;
        out.tell(told.into_iter().filter(|_| self.permit));
    }

    /// Takes in the answer to the read that has to show a failure before a node loses its match.
    pub(super) fn node_read(&mut self, object: &Uid, read: &NodeReading, at: Context) {
        let clocks = self.clocks(at.now);
        self.attention.touch(object);
        let (suspects, criteria, (grace, check)) = if let Some(pool) = self.pools.get_mut(object) {
            (&mut pool.suspects, &pool.spec.criteria, (pool.spec.grace, pool.spec.check))
        } else if let Some(set) = self.record_sets.get_mut(object) {
            (&mut set.suspects, &set.spec.criteria, (set.spec.grace, set.spec.check))
        } else {
            return;
        };
        // A read for other criteria proves nothing.
        let same =
            |criteria: &&Criteria| criteria.node_watch() == read.nodes && criteria.pod_watch() == read.pods;
        let is_same =
            |node: &NodeFacts| suspects.of(&node.name).is_some_and(|suspicion| suspicion.is_of(node));
        let verdict = criteria.as_ref().filter(same).and_then(|criteria| read.verdict(criteria, is_same));
        let by_check = suspects.of(&read.node).filter(|suspicion| suspicion.why().is_by_check());
        let verdict = match (verdict, by_check.zip(check)) {
            (Some(Ok(())), Some((suspicion, check))) => {
                let key = CheckKey { node: suspicion.node_uid().clone(), check };
                let seen = self.nodes.get(&read.nodes).and_then(|store| store.get(&read.node)?.heartbeat_s);
                let found = (read.lease.as_ref(), read.heartbeat_s() == seen);
                let borne_out = self.checks.evidence.bear_out(&key, found, at.now);
                borne_out.map(|verdict| verdict.map_err(|why| (why, None)))
            }
            (verdict, _) => verdict,
        };
        suspects.proved((&read.node, read.asked), verdict, &grace, clocks, at);
    }

    /// Suspicions of nodes that served, by how they ended.
    pub const fn grace_counts(&self) -> GraceCounts {
        self.grace
    }
}

/// Asks for the proofs that are due.
fn ask(
    suspects: &mut Suspects,
    (object, criteria, grace): (&ObjectRef, &Criteria, &Grace),
    now: Moment,
    out: &mut Effects<Action>,
) {
    let (asked, later) = suspects.ask(grace, now);
    out.later(later);
    for node in asked {
        let lease = suspects.of(&node).is_some_and(|suspicion| suspicion.why().is_by_check());
        out.act(Action::ReadNode {
            object: object.clone(),
            node,
            asked: now,
            nodes: criteria.node_watch(),
            pods: criteria.pod_watch(),
            lease,
        });
    }
}
