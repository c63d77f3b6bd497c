//! Whether a plan can leave a pool out, because nothing concerns it.

use super::IpRecord;
use super::Pool;
use super::creation::{Creation, Progress, Purchase};
use super::memory::{Memory, Purchased};
use super::placement::Whereabouts;
use crate::addresses::account::Account;
use crate::addresses::account::belief::Belief;
use crate::firewalls::spec::FirewallSpec;
use crate::model::Address;
use std::collections::BTreeSet;

impl Pool {
    /// Whether every address serves, and nothing is under way that the end of another pool's work could change. Then a
    /// plan does nothing for the pool until something happens to its object, its nodes or pods, its addresses, its
    /// machines, or its account as a whole. The plan for records decides apart whether these are at rest.
    pub(crate) fn is_at_rest(&self, account: Option<&Account>) -> bool {
        let account = account.filter(|account| account.is_known() && account.trouble().is_none());
        account.is_some_and(|account| self.is_plain() && self.is_settled() && self.all_serve(account))
    }

    /// Whether everything in the spec counts, and nothing is given back or left behind.
    fn is_plain(&self) -> bool {
        let spec = &self.spec;
        spec.problems.is_empty()
            && (spec.firewall != FirewallSpec::None || self.on_server.firewalls.is_empty())
            && !spec.has_hidden_ips()
            && spec.released.is_empty()
    }

    /// Whether nothing is left to do, to retry or to tell.
    fn is_settled(&self) -> bool {
        let kept = |memory: &Memory| {
            let Memory { created, purchased, former, unknown, orphans, intent } = memory;
            let known = created.iter().all(|created| created.written && self.on_server.remembers(created.ip));
            let none_left = former.is_empty() && unknown.is_empty() && intent.is_none();
            let used = self.used();
            let held = |bought: &Purchased| {
                let ours = bought.uid == self.object.uid && bought.account_id == self.spec.account_id;
                ours && !bought.deleting && used.contains(&bought.ip)
            };
            known && purchased.iter().all(held) && none_left && orphans.iter().all(BTreeSet::is_empty)
        };
        let failed = |record: &IpRecord| {
            record.failure.is_some() || record.error.is_some() || record.deprioritized.is_some()
        };
        self.is_live()
            && !self.unread
            && !self.pause.holds()
            && self.pause.finishing().next().is_none()
            && self.memory.as_ref().is_some_and(kept)
            && self.missing() == 0
            && self.creation.is_quiet()
            && self.moving.is_idle()
            && self.losses.are_reported()
            && self.candidates.are_settled()
            && self.nodes.is_at_rest()
            && self.node_failures.is_empty()
            && self.deprioritized.is_empty()
            && self.roomy.is_empty()
            && self.unlabelling.is_empty()
            && !self.ips.values().any(|record| failed(record))
            && self.reclaim.is_idle()
    }

    /// Whether every used address is known to be on a candidate, without doubt.
    fn all_serve(&self, account: &Account) -> bool {
        let (used, report) = (self.used(), &self.report);
        let serves = |ip: &Address| {
            let placed = report.placements.get(ip).map(|placement| (&placement.whereabouts, placement.moves));
            matches!(placed, Some((Whereabouts::Here { .. }, false)))
                && account.op(*ip).is_none()
                && account.belief(*ip).is_some_and(Belief::is_sure)
        };
        account.ops().all(|(_, op)| op.pool != self.object.uid)
            && report.claimed.is_empty()
            && report.placements.len() == used.len()
            && !used.is_empty()
            && used.iter().all(serves)
    }

    /// Whether other pools have to wait for this one: it makes room on a node, or buys an address.
    pub(crate) fn holds_up_others(&self) -> bool {
        !self.roomy.is_empty() || self.purchase() > Purchase::None
    }
}

impl Creation {
    /// Whether none is under way, and nothing stands against the next one.
    fn is_quiet(&self) -> bool {
        let Self { stage, failure, barred, crds_outdated, orphans, .. } = self;
        *stage == Progress::Idle
            && failure.is_none()
            && barred.is_none()
            && !crds_outdated
            && orphans.is_empty()
    }
}

impl Belief {
    /// Whether nothing contradicts the place, and no action of anybody is pending.
    fn is_sure(&self) -> bool {
        !self.is_doubted() && self.place().machine().is_some() && self.look_due().is_none()
    }
}
