//! The endpoints of firewalls and tags at the simulated `DigitalOcean`.
//!
//! Invariant: parts that a token may not read are left out of an answer silently. These are droplets without
//! `droplet:read`, and tags without `tag:read`.

use serde_json::{Map, Value, json};

use super::do_answers::{Problem, list, text};
use super::firewall_rules::{ids, render, rules, texts};
use super::firewalls::{Direction, Firewall, Parts, Rule};
use super::token::Token;
use super::wire::{DROPLETS, Op, Reply};
use super::world::{Context, World};

impl World {
    /// Answers a call about firewalls.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other operation belongs to another resource")]
    pub(super) fn firewall_call(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        match call.route.op {
            Op::ListFirewalls => self.list_firewalls(token, call, |_| true),
            Op::ListDropletFirewalls => {
                let id: u64 = call.route.arg(0).parse().map_err(|_| Problem::not_found())?;
                let tags = self.droplets.get(&id).ok_or_else(Problem::not_found)?.tags.clone();
                self.list_firewalls(token, call, |firewall| firewall.covers(id, &tags))
            }
            Op::CreateFirewall => {
                let body = call.request.object()?;
                let id = self.make_firewall(parts(&body)?)?;
                self.firewall_reply(202, token, &id)
            }
            Op::GetFirewall => self.firewall_reply(200, token, call.route.arg(0)),
            Op::PutFirewall => self.put_firewall(token, call),
            Op::DeleteFirewall => {
                if self.drop_firewall(call.route.arg(0)) {
                    Ok(Reply::empty(204))
                } else {
                    Err(Problem::not_found())
                }
            }
            Op::AddFirewallDroplets
            | Op::RemoveFirewallDroplets
            | Op::AddFirewallTags
            | Op::RemoveFirewallTags
            | Op::AddFirewallRules
            | Op::RemoveFirewallRules => self.alter_firewall(call),
            _ => Err(Problem::not_found()),
        }
    }

    fn list_firewalls(
        &self,
        token: &Token,
        call: &Context<'_>,
        shown: impl Fn(&Firewall) -> bool,
    ) -> Result<Reply, Problem> {
        let seen = self.firewalls.seen(call.now_ms, self.knobs.list_lag_ms);
        let mut firewalls: Vec<&Firewall> = seen.values().filter(|firewall| shown(firewall)).collect();
        firewalls.sort_by_key(|firewall| firewall.order);
        list(
            call,
            "firewalls",
            firewalls.into_iter().map(|found| self.firewall_value(token, found)).collect(),
        )
    }

    fn firewall_reply(&self, status: u16, token: &Token, id: &str) -> Result<Reply, Problem> {
        let found = self.firewalls.now().get(id).ok_or_else(Problem::not_found)?;
        Ok(Reply::json(status, &json!({"firewall": self.firewall_value(token, found)})))
    }

    fn firewall_value(&self, token: &Token, firewall: &Firewall) -> Value {
        let sees = token.allows(DROPLETS.read_scope);
        let pending: Vec<Value> = firewall
            .pending
            .iter()
            .filter(|pending| pending.until_ms > self.now_ms && sees)
            .map(|pending| {
                json!({"droplet_id": pending.droplet, "removing": pending.removing, "status": "waiting"})
            })
            .collect();
        let status = if pending.is_empty() { "succeeded" } else { "waiting" };
        let rules = |rules: &[Rule], direction| {
            rules.iter().map(|rule| render(rule, direction, token)).collect::<Vec<_>>()
        };
        json!({
            "id": firewall.id,
            "name": firewall.parts.name,
            "status": status,
            "inbound_rules": rules(&firewall.parts.inbound, Direction::Inbound),
            "outbound_rules": rules(&firewall.parts.outbound, Direction::Outbound),
            "created_at": self.timestamp(firewall.created_ms),
            "droplet_ids": if sees { firewall.parts.droplets.clone() } else { Vec::new() },
            "tags": if token.allows("tag:read") { firewall.parts.tags.clone() } else { Vec::new() },
            "pending_changes": pending,
        })
    }

    /// Resets all parts that the body leaves out. A token that may not read everything attached may not do this.
    fn put_firewall(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let id = call.route.arg(0).to_owned();
        let found = self.firewalls.now().get(&id).ok_or_else(Problem::not_found)?;
        let hidden = (!found.parts.droplets.is_empty() && !token.allows(DROPLETS.read_scope))
            || (!found.parts.tags.is_empty() && !token.allows("tag:read"));
        if hidden {
            return Err(Problem::new(403, "You must be able to read every resource of the firewall"));
        }
        let body = call.request.object()?;
        self.remake_firewall(&id, parts(&body)?)?;
        self.firewall_reply(200, token, &id)
    }

    fn alter_firewall(&mut self, call: &Context<'_>) -> Result<Reply, Problem> {
        let id = call.route.arg(0).to_owned();
        let found = self.firewalls.now().get(&id).ok_or_else(Problem::not_found)?;
        let mut parts = found.parts.clone();
        alter(&mut parts, call.route.op, &call.request.object()?)?;
        self.remake_firewall(&id, parts)?;
        Ok(Reply::empty(204))
    }

    /// Answers a call about tags.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other operation belongs to another resource")]
    pub(super) fn tag_call(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        match call.route.op {
            Op::ListTags => list(call, "tags", self.tags.iter().map(|tag| self.tag(token, tag)).collect()),
            Op::GetTag => {
                let tag = self.tags.get(call.route.arg(0)).ok_or_else(Problem::not_found)?;
                Ok(Reply::json(200, &json!({"tag": self.tag(token, tag)})))
            }
            Op::CreateTag => {
                let body = call.request.object()?;
                let name = text(&body, "name", "Name is not valid.")?.unwrap_or_default();
                let letters = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
                if name.is_empty() || name.len() > 255 || !name.chars().all(letters) {
                    return Err(Problem::new(400, "Tag name is not valid"));
                }
                self.tags.insert(name.clone());
                Ok(Reply::json(201, &json!({"tag": self.tag(token, &name)})))
            }
            Op::TagResources | Op::UntagResources => self.tag_resources(token, call),
            _ => Err(Problem::not_found()),
        }
    }

    fn tag(&self, token: &Token, name: &str) -> Value {
        let tagged = self.droplets.values().filter(|droplet| droplet.tags.iter().any(|tag| tag == name));
        let count = if token.allows(DROPLETS.read_scope) { tagged.count() } else { 0 };
        json!({"name": name, "resources": {"count": count, "droplets": {"count": count}}})
    }

    /// A token needs the right to change droplets for this, besides the right to create tags.
    fn tag_resources(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let name = call.route.arg(0).to_owned();
        if !self.tags.contains(&name) {
            return Err(Problem::not_found());
        }
        if !token.allows("droplet:update") {
            return Err(Problem::new(403, "You are missing the required permission droplet:update"));
        }
        let body = call.request.object()?;
        let resources = body.get("resources").and_then(Value::as_array).cloned().unwrap_or_default();
        for resource in resources {
            let id = resource.get("resource_id").and_then(Value::as_str).unwrap_or_default();
            let id: u64 = id.parse().map_err(|_| Problem::not_found())?;
            if resource.get("resource_type") != Some(&json!("droplet")) || !self.droplets.contains_key(&id) {
                return Err(Problem::not_found());
            }
            self.tag_droplet(id, &name, call.route.op == Op::TagResources);
        }
        Ok(Reply::empty(204))
    }
}

fn parts(body: &Map<String, Value>) -> Result<Parts, Problem> {
    Ok(Parts {
        name: text(body, "name", "name must be a string")?.unwrap_or_default(),
        inbound: rules(body, Direction::Inbound)?,
        outbound: rules(body, Direction::Outbound)?,
        droplets: ids(body, "droplet_ids")?,
        tags: texts(body, "tags")?,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other operation changes no part")]
fn alter(parts: &mut Parts, op: Op, body: &Map<String, Value>) -> Result<(), Problem> {
    match op {
        Op::AddFirewallDroplets => add(&mut parts.droplets, some(ids(body, "droplet_ids")?)?),
        Op::RemoveFirewallDroplets => remove(&mut parts.droplets, &some(ids(body, "droplet_ids")?)?),
        Op::AddFirewallTags => add(&mut parts.tags, some(texts(body, "tags")?)?),
        Op::RemoveFirewallTags => remove(&mut parts.tags, &some(texts(body, "tags")?)?),
        Op::AddFirewallRules | Op::RemoveFirewallRules => {
            let (inbound, outbound) = (rules(body, Direction::Inbound)?, rules(body, Direction::Outbound)?);
            if inbound.is_empty() && outbound.is_empty() {
                return Err(Problem::new(400, "at least one rule is required"));
            }
            if op == Op::AddFirewallRules {
                add(&mut parts.inbound, inbound);
                add(&mut parts.outbound, outbound);
            } else {
                remove(&mut parts.inbound, &inbound);
                remove(&mut parts.outbound, &outbound);
            }
        }
        _ => {}
    }
    Ok(())
}

fn some<T>(entries: Vec<T>) -> Result<Vec<T>, Problem> {
    if entries.is_empty() { Err(Problem::new(400, "the list must not be empty")) } else { Ok(entries) }
}

fn add<T: PartialEq>(list: &mut Vec<T>, entries: Vec<T>) {
    for entry in entries {
        if !list.contains(&entry) {
            list.push(entry);
        }
    }
}

fn remove<T: PartialEq>(list: &mut Vec<T>, entries: &[T]) {
    list.retain(|entry| !entries.contains(entry));
}
