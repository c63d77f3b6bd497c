//! Reserved IPs of the simulated `DigitalOcean`: creation, release, and the actions that move them.
//!
//! Invariants: one address per droplet, in the droplet's region; one action in progress per address and per
//! droplet; an address stands where it stood until its action has completed.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::actions::{Action, ActionKind, ActionOutcome, ActionPlan, ActionStatus};
use super::change::ChangeKind;
use super::digitalocean::{Problem, REGIONS, list};
use super::render;
use super::token::Token;
use super::wire::{Op, Reply};
use super::world::{Context, ReservedIp, World};

/// Refusal while an action or another event is pending on the address.
pub(super) const IP_PENDING: &str = "The reserved IP already has a pending event.";
/// Refusal while an event is pending on the droplet.
pub(super) const DROPLET_PENDING: &str = "Droplet already has a pending event.";
/// Refusal when the droplet holds another address.
pub(super) const DROPLET_IN_USE: &str = "The Droplet already has a reserved IP.";
/// Refusal when droplet and address are in different datacenters.
pub(super) const WRONG_DATACENTER: &str = "The reserved IP and the Droplet must be in the same datacenter.";
/// Refusal when the account has as many addresses as it may have.
pub(super) const QUOTA: &str = "You have reached the limit of reserved IPs for your account.";

impl World {
    /// Answers a call about reserved IPs.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other operation belongs to another resource")]
    pub(super) fn reserved_ips(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        match call.route.op {
            Op::ListReservedIps => self.list_reserved_ips(token, call),
            Op::CreateReservedIp => self.create_reserved_ip(token, call),
            Op::GetReservedIp => {
                let ip = self.addressed(call)?;
                Ok(Reply::json(200, &json!({"reserved_ip": render::reserved_ip(self, token, ip)})))
            }
            Op::DeleteReservedIp => {
                let ip = self.addressed(call)?;
                if self.ip_busy(ip) {
                    return Err(Problem::unprocessable(IP_PENDING));
                }
                let address = ip.ip;
                self.release_ip(address);
                Ok(Reply::empty(204))
            }
            Op::ListActions => {
                let ip = self.addressed(call)?.ip;
                let actions = self.actions.values().rev().filter(|action| action.ip == ip);
                list(call, "actions", actions.map(|action| render::action(self, action)).collect())
            }
            Op::GetAction => {
                let ip = self.addressed(call)?.ip;
                let id = call.route.arg(1).parse::<u64>().map_err(|_| Problem::not_found())?;
                let action = self.actions.get(&id).filter(|action| action.ip == ip);
                let action = action.ok_or_else(Problem::not_found)?;
                Ok(Reply::json(200, &json!({"action": render::action(self, action)})))
            }
            Op::AssignIp | Op::UnassignIp => self.post_action(call),
            _ => Err(Problem::not_found()),
        }
    }

    fn addressed(&self, call: &Context<'_>) -> Result<&ReservedIp, Problem> {
        let ip: Ipv4Addr = call.route.arg(0).parse().map_err(|_| Problem::not_found())?;
        self.ips.now().get(&ip).ok_or_else(Problem::not_found)
    }

    fn list_reserved_ips(&self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let seen = self.ips.seen(call.now_ms, self.knobs.list_lag_ms);
        let mut ips: Vec<&ReservedIp> = seen.values().filter(|ip| ip.listed).collect();
        ips.sort_by_key(|ip| ip.order);
        list(call, "reserved_ips", ips.into_iter().map(|ip| render::reserved_ip(self, token, ip)).collect())
    }

    fn create_reserved_ip(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let body = call.request.object()?;
        let droplet = match body.get("droplet_id") {
            None | Some(Value::Null) => None,
            Some(value) => {
                Some(value.as_u64().ok_or_else(|| Problem::unprocessable("Droplet is not valid."))?)
            }
        };
        let region = text(&body, "region", "Region is not valid.")?;
        let region = match (region, droplet) {
            (Some(_), Some(_)) => {
                let message = "Cannot specify Droplet and region, they are mutually exclusive.";
                return Err(Problem::unprocessable(message));
            }
            (None, None) => return Err(Problem::unprocessable("Region or Droplet is required.")),
            (Some(region), None) => region,
            (None, Some(id)) => {
                let found = self.droplets.get(&id);
                found.ok_or_else(|| Problem::unprocessable("Droplet is not valid."))?.region.clone()
            }
        };
        if !REGIONS.iter().any(|(slug, _)| *slug == region) {
            return Err(Problem::unprocessable("Region is not valid."));
        }
        if let Some(id) = droplet {
            self.check_droplet(id, None)?;
        }
        if self.ips.now().len() >= self.knobs.reserved_ip_quota {
            return Err(Problem::unprocessable(QUOTA));
        }
        if self.knobs.rate_limits {
            if self.limits.creations.remaining(call.now_ms) == 0 {
                return Err(Problem::new(429, "Too many reserved IPs were created; try again in a minute."));
            }
            self.limits.creations.count(call.now_ms);
        }
        let ip = self.reserve_ip(None, &region);
        let mut links = Map::new();
        if let Some(id) = droplet {
            let action = self.start_action(ip, ActionKind::Assign(id), call.action_plan());
            let base = call.request.base.trim_end_matches('/');
            let droplet_url = format!("{base}/v2/droplets/{id}");
            let action_url = format!("{base}/v2/actions/{action}");
            links.insert("droplets".to_owned(), json!([{"id": id, "rel": "droplet", "href": droplet_url}]));
            links.insert(
                "actions".to_owned(),
                json!([{"id": action, "rel": "assign_ip", "href": action_url}]),
            );
        }
        let made = self.ips.now().get(&ip).map(|made| render::reserved_ip(self, token, made));
        Ok(Reply::json(202, &json!({"reserved_ip": made, "links": links})))
    }

    fn post_action(&mut self, call: &Context<'_>) -> Result<Reply, Problem> {
        let ip = self.addressed(call)?.clone();
        let body = call.request.object()?;
        let kind = match text(&body, "type", "Type is not valid.")?.as_deref() {
            Some("assign") => {
                let id = body.get("droplet_id").and_then(Value::as_u64);
                ActionKind::Assign(id.ok_or_else(|| Problem::unprocessable("Droplet is not valid."))?)
            }
            Some("unassign") => ActionKind::Unassign,
            Some(_) => return Err(Problem::unprocessable("Type is not valid.")),
            None => return Err(Problem::unprocessable("Type is required.")),
        };
        if let ActionKind::Assign(id) = kind
            && !self.droplets.contains_key(&id)
        {
            return Err(Problem::not_found());
        }
        if self.ip_busy(&ip) {
            return Err(Problem::unprocessable(IP_PENDING));
        }
        match kind {
            ActionKind::Assign(id) => self.check_droplet(id, Some(&ip.region))?,
            ActionKind::Unassign => match ip.droplet {
                None => return Err(Problem::unprocessable("The reserved IP is not assigned to a Droplet.")),
                Some(id) if self.droplet_busy(id) => return Err(Problem::unprocessable(DROPLET_PENDING)),
                Some(_) => {}
            },
            ActionKind::Reserve => {}
        }
        let id = self.start_action(ip.ip, kind, call.action_plan());
        let action = self.actions.get(&id).map(|action| render::action(self, action));
        Ok(Reply::json(201, &json!({ "action": action })))
    }

    /// Whether the assignment of an address to this droplet may begin now.
    fn check_droplet(&self, id: u64, region: Option<&str>) -> Result<(), Problem> {
        self.check_holder(id, region)?;
        if self.droplet_busy(id) { Err(Problem::unprocessable(DROPLET_PENDING)) } else { Ok(()) }
    }

    /// Whether this droplet can hold one more address.
    fn check_holder(&self, id: u64, region: Option<&str>) -> Result<(), Problem> {
        let Some(droplet) = self.droplets.get(&id) else { return Err(Problem::not_found()) };
        if region.is_some_and(|region| region != droplet.region) {
            return Err(Problem::unprocessable(WRONG_DATACENTER));
        }
        if self.ips.now().values().any(|ip| ip.droplet == Some(id)) {
            return Err(Problem::unprocessable(DROPLET_IN_USE));
        }
        Ok(())
    }

    /// True while something is pending on the address: it reads `locked`.
    pub(super) fn ip_busy(&self, ip: &ReservedIp) -> bool {
        ip.pending.is_some() || ip.busy_until_ms > self.now_ms
    }

    /// True while something is pending on the droplet, actions of addresses included.
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
    pub(super) fn ips_mut(&mut self) -> &mut std::collections::BTreeMap<Ipv4Addr, ReservedIp> {
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
            listed: true,
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

    /// An address that the account never had, from a block that is reserved for documentation.
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

    /// Gives an address back, wherever it stands.
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

    /// Starts an action and gives its id.
    pub(super) fn start_action(&mut self, ip: Ipv4Addr, kind: ActionKind, plan: Option<ActionPlan>) -> u64 {
        let id = self.fresh_id().saturating_add(1_000_000);
        let outcome = plan.map_or(self.knobs.action_outcome, |plan| plan.outcome);
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
        if outcome != ActionOutcome::Never {
            self.due.insert((now_ms.saturating_add(duration_ms), id));
        }
        if let ActionKind::Assign(droplet) = kind {
            self.note(ChangeKind::AssignStarted { ip, droplet });
        }
        id
    }

    /// Ends an action as its outcome says; an assignment that has become impossible fails.
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

/// A field that must be text if it is there; `""` and null count as absent.
pub(super) fn text(
    body: &Map<String, Value>,
    name: &str,
    complaint: &str,
) -> Result<Option<String>, Problem> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(Problem::unprocessable(complaint)),
    }
}
