//! Texts about why no node matches and which addresses are idle. They take many nodes into account, so they are
//! renewed only once a minute.

use super::action::Action;
use super::{Fleet, watched_nodes};
use crate::mechanism::effects::Effects;
use crate::model::fault::WriteFailure;
use crate::model::matching::Criteria;
use crate::model::moment::Moment;
use crate::model::selector::Selector;
use crate::model::survey::{Explanation, RENEWED_AFTER_MS, survey};

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
        let (nodes, pods) = (&self.nodes, &self.pods);
        let stores = |criteria: &Criteria| watched_nodes::of(nodes, pods, criteria);
        let in_cluster = self.census.nodes;
        let (mut unlabelled, mut stirred) = (false, Vec::new());
        let mut explain = |explanation: &mut Explanation, criteria: &Criteria, out: &mut Effects<Action>| {
            let (nodes, pods) = stores(criteria);
            let selects_none = nodes.iter().next().is_none() && criteria.node_selector != Selector::default();
            unlabelled |= selects_none;
            let counted = in_cluster.filter(|_| selects_none);
            let later = explanation.renew(counted, now, || survey(criteria, nodes, pods, counted));
            out.later(Some(later));
        };
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid).filter(|pool| pool.is_live() && pool.matched) else {
                continue;
            };
            let Some(criteria) = pool.spec.criteria.clone() else { continue };
            let before = out.additions();
            if pool.candidates.is_empty() {
                explain(&mut pool.no_match, &criteria, out);
            } else {
                pool.no_match.forget();
            }
            if let Some(account) =
                self.accounts.get(&pool.spec.account_id).filter(|account| account.is_known())
            {
                let (nodes, pods) = stores(&criteria);
                out.later(pool.note_idle(account, nodes, pods, now));
            }
            if out.additions() != before {
                stirred.push(uid.clone());
            }
        }
        for uid in &self.attention.due {
            let Some(set) = self.record_sets.get_mut(uid).filter(|set| !set.deleting && set.matched) else {
                continue;
            };
            let Some(criteria) = set.spec.criteria.clone() else { continue };
            if set.has_nodes() {
                set.no_match.forget();
            } else {
                explain(&mut set.no_match, &criteria, out);
                stirred.push(uid.clone());
            }
        }
        for uid in &stirred {
            self.attention.stirs(uid);
        }
        if !unlabelled {
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
