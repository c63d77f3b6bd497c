//! The places of reserved IPs, and their moves over time.
//!
//! Invariants: a droplet has at most one address, in its own region. An address and a droplet each have at most one
//! action in progress. An address stays in place until its action has completed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::actions::{Action, ActionKind, ActionOutcome, ActionPlan, ActionStatus};
use super::change::ChangeKind;
use super::faults::Refusal;
use super::world::{ReservedIp, World};

impl World {
    /// Advances the time and ends the actions that are due.
    pub(super) fn advance(&mut self, now_ms: u64) {
        while let Some((due_ms, id)) = self.due.first().copied().filter(|&(due_ms, _)| due_ms <= now_ms) {
            self.due.remove(&(due_ms, id));
            self.now_ms = self.now_ms.max(due_ms);
            self.end_action(id);
        }
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// Whether this droplet can hold another address.
    pub(super) fn check_holder(&self, id: u64, region: Option<&str>) -> Result<(), Refusal> {
        let Some(droplet) = self.droplets.get(&id) else { return Err(Refusal::NotFound) };
        if region.is_some_and(|region| region != droplet.region) {
            return Err(Refusal::WrongDatacenter);
        }
        if self.ips.now().values().any(|ip| ip.droplet == Some(id)) {
            return Err(Refusal::NodeInUse);
        }
        Ok(())
    }

    /// Whether something is pending on the address, which then reads `locked`.
    pub(super) fn ip_busy(&self, ip: &ReservedIp) -> bool {
        ip.pending.is_some() || ip.busy_until_ms > self.now_ms
    }

    /// Whether something is pending on the droplet, including actions of addresses.
    pub(super) fn droplet_busy(&self, id: u64) -> bool {
        let target_of = |action: &Action| match action.kind {
            ActionKind::Assign(target) => target == id,
            ActionKind::Unassign | ActionKind::Reserve => false,
        };
        let pending = |ip: &ReservedIp| ip.pending.and_then(|action| self.actions.get(&action));
        self.droplets.get(&id).is_some_and(|droplet| droplet.busy_until_ms > self.now_ms)
            || self.ips.now().values().filter_map(pending).any(target_of)
    }

    /// The map of addresses, for a change now.
    pub(super) fn ips_mut(&mut self) -> &mut BTreeMap<Ipv4Addr, ReservedIp> {
        self.ips.change(self.now_ms, self.knobs.list_lag_ms)
    }

    /// Reserves an address: the given one, or an invented one.
    pub(super) fn reserve_ip(&mut self, wanted: Option<Ipv4Addr>, region: &str) -> Ipv4Addr {
        let ip = wanted.unwrap_or_else(|| self.invent_ip());
        let order = self.fresh_id();
        let made = ReservedIp {
            ip,
            region: region.to_owned(),
            droplet: None,
            pending: None,
            busy_until_ms: 0,
            order,
        };
        self.ips_mut().insert(ip, made);
        let id = self.start_action(
            ip,
            ActionKind::Reserve,
            Some(ActionPlan { outcome: ActionOutcome::Completed, duration_ms: Some(0) }),
        );
        self.due.retain(|&(_, due)| due != id);
        self.end_action(id);
        self.note(ChangeKind::IpReserved(ip));
        ip
    }

    /// An address that the account never had, from a block reserved for benchmarks.
    fn invent_ip(&mut self) -> Ipv4Addr {
        loop {
            let low = u8::try_from(self.seed.below(254)).unwrap_or(0).saturating_add(1);
            let high = u8::try_from(self.seed.below(256)).unwrap_or(0);
            let ip = Ipv4Addr::new(198, 19, high, low);
            if !self.ips.now().contains_key(&ip) && !self.actions.values().any(|action| action.ip == ip) {
                return ip;
            }
        }
    }

    /// Releases an address, wherever it is.
    pub(super) fn release_ip(&mut self, ip: Ipv4Addr) -> bool {
        let Some(gone) = self.ips_mut().remove(&ip) else { return false };
        if let Some(from) = gone.droplet {
            self.note(ChangeKind::Unassigned { ip, from });
        }
        if let Some(id) = gone.pending {
            self.stop_action(id, ActionStatus::Errored);
        }
        self.note(ChangeKind::IpReleased(ip));
        true
    }

    /// Starts an action and returns its ID.
    pub(super) fn start_action(&mut self, ip: Ipv4Addr, kind: ActionKind, plan: Option<ActionPlan>) -> u64 {
        let id = self.fresh_id().saturating_add(1_000_000);
        let outcome = plan.map_or(ActionOutcome::Completed, |plan| plan.outcome);
        let duration_ms = plan.and_then(|plan| plan.duration_ms).unwrap_or(self.knobs.action_ms);
        let now_ms = self.now_ms;
        let region = self.ips.now().get(&ip).map(|ip| ip.region.clone()).unwrap_or_default();
        if let Some(address) = self.ips_mut().get_mut(&ip) {
            address.pending = Some(id);
        }
        self.actions.insert(
            id,
            Action {
                id,
                ip,
                region,
                kind,
                status: ActionStatus::InProgress,
                outcome,
                started_ms: now_ms,
                ended_ms: None,
            },
        );
        self.due.insert((now_ms.saturating_add(duration_ms), id));
        if let ActionKind::Assign(droplet) = kind {
            self.note(ChangeKind::AssignStarted { ip, droplet });
        }
        id
    }

    /// Ends an action with its planned outcome. An assignment that has become impossible fails.
    pub(super) fn end_action(&mut self, id: u64) {
        let Some(action) = self.actions.get(&id).cloned() else { return };
        if action.status != ActionStatus::InProgress {
            return;
        }
        if let Some(ip) = self.ips_mut().get_mut(&action.ip) {
            ip.pending = None;
        }
        let possible = match action.kind {
            ActionKind::Assign(droplet) => {
                let region = self.ips.now().get(&action.ip).map(|ip| ip.region.clone());
                region.is_some_and(|region| self.check_holder(droplet, Some(&region)).is_ok())
            }
            ActionKind::Unassign | ActionKind::Reserve => self.ips.now().contains_key(&action.ip),
        };
        if !possible || action.outcome == ActionOutcome::Errored {
            self.stop_action(id, ActionStatus::Errored);
            self.note(ChangeKind::ActionErrored(action.ip));
            return;
        }
        self.stop_action(id, ActionStatus::Completed);
        match action.kind {
            ActionKind::Assign(droplet) => self.place(action.ip, Some(droplet)),
            ActionKind::Unassign => self.place(action.ip, None),
            ActionKind::Reserve => {}
        }
    }

    fn stop_action(&mut self, id: u64, status: ActionStatus) {
        let now_ms = self.now_ms;
        self.due.retain(|&(_, due)| due != id);
        if let Some(action) = self.actions.get_mut(&id) {
            action.status = status;
            action.ended_ms = Some(now_ms);
        }
    }

    /// Puts an address on a droplet, or on none, at once.
    pub(super) fn place(&mut self, ip: Ipv4Addr, droplet: Option<u64>) {
        let Some(address) = self.ips_mut().get_mut(&ip) else { return };
        let from = std::mem::replace(&mut address.droplet, droplet);
        match (from, droplet) {
            (from, Some(droplet)) => self.note(ChangeKind::Assigned { ip, droplet, from }),
            (Some(from), None) => self.note(ChangeKind::Unassigned { ip, from }),
            (None, None) => {}
        }
    }
}
