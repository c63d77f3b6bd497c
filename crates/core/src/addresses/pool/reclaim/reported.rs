//! The conditions about addresses that are given back.

use super::super::Pool;
use super::steps::{REPORTED_AFTER_MS, Step};
use super::{Blocked, Giving};
use crate::model::catalog::reclaim::{ReclaimAtRisk, ReclaimBlocked, ReclaimKept, Reclaiming};
use crate::model::words::enumerate;
use crate::model::{Address, Condition, ConditionType, Moment};

impl Step {
    const fn text(self) -> &'static str {
        match self {
            Self::Reading => "waits until the provider has been read",
            Self::Records => "is being withdrawn from the records",
            Self::Ttl => "waits for the TTL of its records",
            Self::Annotation | Self::Unassigning => "is being unassigned",
            Self::Purchase => "waits until a creation in the account has ended",
            Self::Checking | Self::Mark | Self::Deleting => "is being deleted",
            Self::Listed => "is deleted, and is being removed from spec.ips",
            Self::Paused => "stays as it is while the pool is paused",
        }
    }
}

impl Pool {
    /// Notes that there is no token for the account in which the address was bought.
    pub(crate) fn cannot_give_back(&mut self, ip: Address, message: String, now: Moment) {
        let giving = self.reclaim.giving.entry(ip).or_default();
        let since = giving.blocked.as_ref().map_or(now, |before| before.since);
        giving.blocked = Some(Blocked { reason: ReclaimBlocked::NoToken, message, since });
    }

    /// The conditions about addresses that are given back.
    pub(in super::super) fn reclaim_conditions(&self, now: Moment) -> Vec<Condition> {
        let giving = || self.reclaim.giving.iter().filter(|(_, giving)| giving.step.is_some());
        let mut conditions = Vec::new();
        let steps: Vec<String> =
            giving().filter_map(|(ip, giving)| Some(format!("{ip} {}", giving.step?.text()))).collect();
        let firewalls = self.gives_up_firewalls() && !self.on_server.firewalls.is_empty();
        if steps.is_empty() && firewalls {
            let message = "every address is released; the firewalls of the pool are being removed".to_owned();
            conditions.push(Condition::new(Reclaiming::InProgress, message));
        }
        if !steps.is_empty() {
            conditions.push(Condition::new(Reclaiming::InProgress, enumerate(steps.into_iter())));
        }
        let blocked = |(ip, giving): (&Address, &Giving)| {
            let blocked = giving.blocked.as_ref()?;
            let due = now >= blocked.since.plus_millis(REPORTED_AFTER_MS);
            due.then(|| (blocked.reason, format!("{ip}: {}", blocked.message)))
        };
        let blocked: Vec<_> = self.reclaim.giving.iter().filter_map(blocked).collect();
        if let Some((reason, _)) = blocked.first() {
            let what = enumerate(blocked.iter().map(|(_, text)| text.clone()));
            conditions.push(Condition::new(*reason, format!("{what}; {}", self.way_out())));
        }
        conditions.extend(self.kept_condition());
        conditions.extend(self.is_at_risk().then(|| self.risk_condition()));
        if let Some(message) = &self.reclaim.guard.call.refusal {
            let name = crate::addresses::pool::status::FINALIZER;
            let message = format!("the finalizer {name} cannot be written: {message}");
            conditions.retain(|condition| !condition.is(ConditionType::ReclaimBlocked));
            conditions.push(Condition::new(ReclaimBlocked::FinalizerDenied, message));
        }
        conditions
    }

    fn risk_condition(&self) -> Condition {
        let namespace = &self.object.name.namespace;
        let message = format!(
            "FLIPOP runs in {namespace} too: before you delete that namespace or uninstall FLIPOP, set reclaimPolicy to \
             Retain, or the pool can never be deleted"
        );
        Condition::new(ReclaimAtRisk::OwnNamespace, message)
    }

    /// How to keep an address that would be deleted.
    fn way_out(&self) -> String {
        let name = &self.object.name;
        format!(
            "to keep it: kubectl patch fipool {} -n {} --type merge -p '{{\"spec\":{{\"reclaimPolicy\":\"Retain\"}}}}'",
            name.name, name.namespace
        )
    }

    /// The condition about addresses that stay, from an earlier status. It stays while the spec gives up any address.
    pub(super) fn kept_before(&self) -> Option<&Condition> {
        let lets_go = self.deleting || !self.spec.released.is_empty();
        let mut before = self.on_server.conditions.iter().filter(|_| lets_go);
        before.find(|old| old.is(ConditionType::ReclaimKept))
    }

    fn kept_condition(&self) -> Option<Condition> {
        if self.reclaim.kept.is_empty() {
            return self.kept_before().cloned();
        }
        let kept = self.reclaim.kept.iter().map(|(ip, why)| format!("{ip} stays in the account: {why}"));
        Some(Condition::new(ReclaimKept::InUse, enumerate(kept)))
    }
}
