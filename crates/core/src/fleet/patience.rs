//! Grace for both kinds of objects: which nodes lose their match now, which failures need a proof first, and the
//! Events.

use super::action::{Action, NodeReading};
use super::{Fleet, followers};
use crate::mechanism::{Clocks, Effects, End, Ended, Follower, Notice};
use crate::model::spec::Grace;
use crate::model::{CheckKey, Context, Criteria, Moment, NodeFacts, Uid};

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
        let mut notices: Vec<Notice> = Vec::new();
        for uid in self.in_order(&self.attention.due) {
            let Some((_, stores)) =
                followers::following(&mut self.pools, &mut self.record_sets, &self.watched, &uid)
            else {
                continue;
            };
            let (serving, in_place) = if let Some(pool) = self.pools.get(&uid) {
                let Some(account) = self.accounts.get(&pool.spec.account_id) else { continue };
                (pool.serving(account), pool.in_place(account, stores.0))
            } else if let Some(set) = self.record_sets.get(&uid) {
                let report = self.dns.set(&uid).and_then(|known| known.report.as_ref());
                set.serving(report.map(|report| report.published.addresses.as_slice()), stores.0)
            } else {
                continue;
            };
            let Some(follower) = followers::get(&mut self.pools, &mut self.record_sets, &uid) else {
                continue;
            };
            follower.settle_suspects(&serving, now);
            let (recovered, later) = follower.recovered(&in_place, now);
            out.later(later);
            if !recovered.is_empty() {
                follower.rematch(Some(&recovered), stores, clocks);
            }
            let ended = follower.nodes_mut().suspects.take_ended();
            self.grace.add(&ended, &follower.grace());
            notices.extend(ended.iter().filter_map(|ended| follower.tell_avoided(ended)));
            if self.permit {
                let (began, later) = follower.tell_suspicions(now);
                notices.extend(began);
                out.later(later);
            }
            ask(follower, now, out);
        }
        out.tell(notices.into_iter().filter(|_| self.permit));
    }

    /// Takes in the answer to the read that has to show a failure before a node loses its match.
    pub(super) fn node_read(&mut self, object: &Uid, read: &NodeReading, at: Context) {
        let clocks = self.clocks(at.now);
        self.attention.touch(object);
        let Some(follower) = followers::get(&mut self.pools, &mut self.record_sets, object) else { return };
        let suspects = &follower.nodes().suspects;
        // A read for other criteria proves nothing.
        let same = |criteria: &&Criteria| {
            *criteria.node_watch() == read.nodes && criteria.pod_watch() == read.pods.as_ref()
        };
        let is_same =
            |node: &NodeFacts| suspects.of(&node.name).is_some_and(|suspicion| suspicion.is_of(node));
        let verdict = follower.criteria().filter(same).and_then(|criteria| read.verdict(criteria, is_same));
        let by_check = suspects.of(&read.node).filter(|suspicion| suspicion.why().is_by_check());
        let verdict = match (verdict, by_check.zip(follower.node_check())) {
            (Some(Ok(())), Some((suspicion, check))) => {
                let key = CheckKey { node: suspicion.node_uid().clone(), check };
                let seen =
                    self.watched.nodes(&read.nodes).and_then(|store| store.get(&read.node)?.heartbeat_s);
                let found = (read.lease.as_ref(), read.heartbeat_s() == seen);
                let borne_out = self.checks.evidence.bear_out(&key, found, at.now);
                borne_out.map(|verdict| verdict.map_err(|why| (why, None)))
            }
            (verdict, _) => verdict,
        };
        let grace = follower.grace();
        follower.nodes_mut().suspects.proved((&read.node, read.asked), verdict, &grace, clocks, at);
    }

    /// Suspicions of nodes that served, by how they ended.
    pub const fn grace_counts(&self) -> GraceCounts {
        self.grace
    }
}

/// Asks for the proofs that are due.
fn ask(follower: &mut dyn Follower, now: Moment, out: &mut Effects<Action>) {
    let grace = follower.grace();
    let (asked, later) = follower.nodes_mut().suspects.ask(&grace, now);
    out.later(later);
    let Some(criteria) = follower.criteria() else { return };
    for node in asked {
        let lease =
            follower.nodes().suspects.of(&node).is_some_and(|suspicion| suspicion.why().is_by_check());
        out.act(Action::ReadNode {
            object: follower.owner().object,
            node,
            asked: now,
            nodes: criteria.node_watch().clone(),
            pods: criteria.pod_watch().cloned(),
            lease,
        });
    }
}
