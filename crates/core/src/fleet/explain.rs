//! Texts about why no node matches and which addresses are idle. They take many nodes into account, so they are
//! renewed only once a minute.

use super::action::Action;
use super::{Fleet, followers};
use crate::mechanism::Effects;
use crate::model::selector::Selector;
use crate::model::survey::{RENEWED_AFTER_MS, survey};
use crate::model::{Moment, WriteFailure};

/// The number of nodes in the cluster. Fetched only while an object's label selects none of them.
#[derive(Debug, Default)]
pub(super) struct Census {
    nodes: Option<u64>,
    asked: Option<Moment>,
    under_way: bool,
}

impl Census {
    /// Whether to count the nodes now. Otherwise returns when.
    fn due(&mut self, now: Moment) -> Result<(), Option<Moment>> {
        if self.under_way {
            return Err(None);
        }
        match self.asked.map(|at| at.plus_millis(RENEWED_AFTER_MS)).filter(|at| *at > now) {
            Some(at) => Err(Some(at)),
            None => Ok(()),
        }
    }
}

impl Fleet {
    /// Renews the texts that are due.
    pub(super) fn explain(&mut self, now: Moment, out: &mut Effects<Action>) {
        let (mut selects_none, mut stirred) = (false, Vec::new());
        for uid in self.in_order(&self.attention.due) {
            let Some((follower, stores @ (nodes, pods))) =
                followers::following(&mut self.pools, &mut self.record_sets, &self.watched, &uid)
            else {
                continue;
            };
            let before = out.additions();
            if follower.members().next().is_some() {
                follower.nodes_mut().no_match.forget();
            } else if let Some(criteria) = follower.criteria().cloned() {
                let none = nodes.iter().next().is_none() && criteria.node_selector != Selector::default();
                selects_none |= none;
                let counted = self.census.nodes.filter(|_| none);
                let text = || survey(&criteria, nodes, pods, counted);
                out.later(Some(follower.nodes_mut().no_match.renew(counted, now, text)));
            }
            if let Some(pool) = self.pools.get_mut(&uid)
                && let Some(account) = self.accounts.get(&pool.spec.account_id)
                && account.is_known()
            {
                out.later(pool.note_idle(account, stores, now));
            }
            if out.additions() != before {
                stirred.push(uid);
            }
        }
        for uid in &stirred {
            self.attention.stirs(uid);
        }
        if !selects_none {
            self.census.nodes = None;
            return;
        }
        match self.census.due(now) {
            Ok(()) => {
                self.census.under_way = true;
                self.census.asked = Some(now);
                out.act(Action::CountNodes);
            }
            Err(at) => out.later(at),
        }
    }

    /// Takes in the number of the cluster's nodes. Texts based on another number are renewed.
    pub(super) fn nodes_counted(&mut self, result: &Result<u64, WriteFailure>) {
        self.census.under_way = false;
        let Ok(count) = result else { return };
        self.dirty |= self.census.nodes.replace(*count) != Some(*count);
    }
}
