//! The endpoints of reserved IPs at the simulated `DigitalOcean`.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::actions::ActionKind;
use super::do_answers::{Problem, list, text};
use super::faults::Refusal;
use super::render::{self, REGIONS};
use super::token::Token;
use super::wire::{Op, Reply};
use super::world::{Context, ReservedIp, World};

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
                    return Err(Problem::from(&Refusal::PendingEventOnIp));
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
        let mut ips: Vec<&ReservedIp> = seen.values().collect();
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
            return Err(Problem::from(&Refusal::Quota));
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
            return Err(Problem::from(&Refusal::PendingEventOnIp));
        }
        match kind {
            ActionKind::Assign(id) => self.check_droplet(id, Some(&ip.region))?,
            ActionKind::Unassign => match ip.droplet {
                None => return Err(Problem::unprocessable("The reserved IP is not assigned to a Droplet.")),
                Some(id) if self.droplet_busy(id) => {
                    return Err(Problem::from(&Refusal::PendingEventOnDroplet));
                }
                Some(_) => {}
            },
            ActionKind::Reserve => {}
        }
        let id = self.start_action(ip.ip, kind, call.action_plan());
        let action = self.actions.get(&id).map(|action| render::action(self, action));
        Ok(Reply::json(201, &json!({ "action": action })))
    }

    /// Whether an address can be assigned to this droplet now.
    fn check_droplet(&self, id: u64, region: Option<&str>) -> Result<(), Problem> {
        self.check_holder(id, region).map_err(|refusal| Problem::from(&refusal))?;
        if self.droplet_busy(id) { Err(Problem::from(&Refusal::PendingEventOnDroplet)) } else { Ok(()) }
    }
}
