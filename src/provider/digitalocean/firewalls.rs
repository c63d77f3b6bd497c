//! Firewalls over `/v2/firewalls`, with the droplets and tags that show which droplets they govern.
//!
//! A `PUT` resets every field that it leaves out, so the endpoints that add and remove are used instead. Answers
//! silently leave out what the token may not read: droplets need `droplet:read`, and tags need `tag:read`.

use super::refusal::Intent;
use super::wire::Paging;
use super::{DigitalOcean, PER_PAGE, accepted, droplet, is_followed};
use crate::permit::Permit;
use crate::provider::addresses::{FirewallProvider, NewFirewall};
use crate::provider::call::{CallContext, CallError, Changing, Reading};
use crate::provider::http::{Answer, Api, Request, filled};
use crate::provider::observe::Call;
use crate::provider::paging::{self, Page, Pages};
use flipop_core::firewalls::action::Change;
use flipop_core::firewalls::facts::{Direction, Firewall, Rule, Sight, Targets};
use flipop_core::model::{Fault, FaultKind, MachineId};
use futures::FutureExt;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// The remedy for a token that lacks a scope for firewalls.
const SCOPE_MISSING: &str = "the token may not do this: spec.firewall needs the scopes firewall:read, firewall:create, \
                             firewall:update, firewall:delete, droplet:read and tag:read";

/// The action of a rule that names none.
const ALLOW: &str = "allow";

/// The other action.
const DENY: &str = "deny";

/// Without this scope, answers leave out droplets.
const DROPLET_READ: &str = "droplet:read";

/// Without this scope, answers leave out tags.
const TAG_READ: &str = "tag:read";

#[derive(Debug, Deserialize)]
struct FirewallsBody {
    firewalls: Vec<Entry>,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Debug, Deserialize)]
struct FirewallBody {
    firewall: Made,
}

/// The only field of a new firewall that is needed.
#[derive(Debug, Deserialize)]
struct Made {
    id: String,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Entry {
    id: String,
    name: String,
    inbound_rules: Option<Vec<RuleEntry>>,
    outbound_rules: Option<Vec<RuleEntry>>,
    droplet_ids: Option<Vec<u64>>,
    tags: Option<Vec<String>>,
    pending_changes: Option<Vec<Pending>>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Pending {
    droplet_id: u64,
    removing: Option<bool>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct RuleEntry {
    protocol: String,
    /// `allow` or `deny`. Firewalls from before there was this field have none.
    action: Option<String>,
    ports: Option<String>,
    sources: Option<TargetsEntry>,
    destinations: Option<TargetsEntry>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
struct TargetsEntry {
    addresses: Option<BTreeSet<String>>,
    droplet_ids: Option<BTreeSet<u64>>,
    load_balancer_uids: Option<BTreeSet<String>>,
    kubernetes_ids: Option<BTreeSet<String>>,
    tags: Option<BTreeSet<String>>,
}

#[derive(Debug, Deserialize)]
struct DropletsBody {
    droplets: Vec<DropletEntry>,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Debug, Deserialize, PartialEq)]
struct DropletEntry {
    id: u64,
    tags: Option<BTreeSet<String>>,
}

#[derive(Debug, Deserialize)]
struct TagsBody {
    #[serde(rename = "tags")]
    _tags: Vec<serde::de::IgnoredAny>,
}

impl RuleEntry {
    fn into_rule(self, direction: Direction) -> Rule {
        let targets = match direction {
            Direction::Inbound => self.sources,
            Direction::Outbound => self.destinations,
        };
        let targets = targets.unwrap_or_default();
        let machines = targets.droplet_ids.unwrap_or_default();
        // Some answers leave the ports empty where others use "0" for every port.
        let ports = self.ports.filter(|ports| !ports.is_empty()).unwrap_or_else(|| "0".to_owned());
        Rule {
            // No unknown action lets anything in for certain.
            denies: self.action.is_some_and(|action| action != ALLOW),
            direction,
            protocol: self.protocol,
            ports,
            targets: Targets {
                addresses: targets.addresses.unwrap_or_default(),
                machines: machines.iter().map(ToString::to_string).collect(),
                balancers: targets.load_balancer_uids.unwrap_or_default(),
                clusters: targets.kubernetes_ids.unwrap_or_default(),
                tags: targets.tags.unwrap_or_default(),
            },
        }
    }
}

impl Entry {
    fn into_facts(self) -> Firewall {
        let rules = |rules: Option<Vec<RuleEntry>>, direction| {
            rules.into_iter().flatten().map(move |rule| rule.into_rule(direction))
        };
        let inbound = rules(self.inbound_rules, Direction::Inbound);
        let pending = self.pending_changes.into_iter().flatten();
        Firewall {
            id: self.id,
            name: self.name,
            machines: self.droplet_ids.into_iter().flatten().map(droplet).collect(),
            tags: self.tags.into_iter().flatten().collect(),
            rules: inbound.chain(rules(self.outbound_rules, Direction::Outbound)).collect(),
            pending: pending
                .map(|change| (droplet(change.droplet_id), change.removing.unwrap_or(false)))
                .collect(),
        }
    }
}

struct Firewalls;

impl Pages for Firewalls {
    type Entry = Firewall;
    type Key = String;

    const WHAT: &'static str = "firewalls";
    const TOTAL_IS_OF_LIST: bool = true;
    // Accounts have some hundreds at most. This is room for 10,000.
    const MAX_PAGES: u64 = 50;

    async fn page(&self, api: &Api, number: u64) -> Result<Page<String, Firewall>, Fault> {
        let page = number.to_string();
        let query = [("per_page", PER_PAGE), ("page", page.as_str())];
        let answer = api.read(Request::get(&["v2", "firewalls"], &query)).await?;
        let FirewallsBody { firewalls, paging } = permitted(&answer, Intent::Read)?.decode()?;
        let more = is_followed(&answer, paging.next(), number)?;
        let entries = firewalls.into_iter().map(|entry| (entry.id.clone(), entry.into_facts())).collect();
        Ok(Page { entries, total: paging.total(), more, answer })
    }
}

struct Droplets {
    /// Whether the token may not list droplets.
    forbidden: AtomicBool,
}

impl Pages for Droplets {
    type Entry = DropletEntry;
    type Key = u64;

    const WHAT: &'static str = "droplets";
    const TOTAL_IS_OF_LIST: bool = true;
    // Room for 10,000.
    const MAX_PAGES: u64 = 50;

    async fn page(&self, api: &Api, number: u64) -> Result<Page<u64, DropletEntry>, Fault> {
        let page = number.to_string();
        let query = [("per_page", PER_PAGE), ("page", page.as_str())];
        let answer = api.read(Request::get(&["v2", "droplets"], &query)).await?;
        self.forbidden.store(is_forbidden(&answer), Ordering::Relaxed);
        let DropletsBody { droplets, paging } = permitted(&answer, Intent::Read)?.decode()?;
        let more = is_followed(&answer, paging.next(), number)?;
        let entries = droplets.into_iter().map(|entry| (entry.id, entry)).collect();
        Ok(Page { entries, total: paging.total(), more, answer })
    }
}

/// Whether the token lacks a scope. If the whole token is refused, the status is another one.
fn is_forbidden(answer: &Answer) -> bool {
    answer.status() == StatusCode::FORBIDDEN && answer.refused_in_between().is_none()
}

fn permitted(answer: &Answer, intent: Intent) -> Result<&Answer, Fault> {
    accepted(answer, intent, SCOPE_MISSING)
}

/// A rule in the form that the API accepts. ICMP has no ports.
fn written(rule: &Rule) -> Value {
    let Targets { addresses, machines, balancers, clusters, tags } = &rule.targets;
    let ids: Vec<u64> = machines.iter().filter_map(|id| id.parse().ok()).collect();
    let targets = filled(json!({
        "addresses": addresses,
        "droplet_ids": ids,
        "load_balancer_uids": balancers,
        "kubernetes_ids": clusters,
        "tags": tags,
    }));
    let key = match rule.direction {
        Direction::Inbound => "sources",
        Direction::Outbound => "destinations",
    };
    let ports = (rule.protocol != "icmp").then_some(&rule.ports);
    let action = rule.denies.then_some(DENY);
    json!(filled(json!({ "protocol": rule.protocol, key: targets, "ports": ports, "action": action })))
}

/// The rules by direction. A direction without rules is left out.
fn written_rules<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Map<String, Value> {
    let (inbound, outbound): (Vec<&Rule>, Vec<&Rule>) =
        rules.into_iter().partition(|rule| rule.direction == Direction::Inbound);
    let written = |rules: Vec<&Rule>| rules.into_iter().map(written).collect::<Vec<_>>();
    filled(json!({ "inbound_rules": written(inbound), "outbound_rules": written(outbound) }))
}

fn ids<'a>(machines: impl IntoIterator<Item = &'a MachineId>) -> Vec<u64> {
    machines.into_iter().filter_map(|machine| machine.id().parse().ok()).collect()
}

impl DigitalOcean {
    async fn firewalls(&self) -> Result<Vec<Firewall>, Fault> {
        Ok(paging::whole(&self.api, &Firewalls).await?.into_values().collect())
    }

    /// `None` if the token may not list droplets.
    async fn tagged_droplets(&self) -> Result<Option<BTreeMap<MachineId, BTreeSet<String>>>, Fault> {
        let droplets = Droplets { forbidden: AtomicBool::new(false) };
        match paging::whole(&self.api, &droplets).await {
            Ok(found) => {
                let tagged =
                    found.into_values().map(|found| (droplet(found.id), found.tags.unwrap_or_default()));
                Ok(Some(tagged.collect()))
            }
            Err(_forbidden) if droplets.forbidden.load(Ordering::Relaxed) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn tags_readable(&self) -> Result<bool, Fault> {
        let answer = self.api.read(Request::get(&["v2", "tags"], &[("per_page", "1")])).await?;
        if is_forbidden(&answer) {
            return Ok(false);
        }
        let _list: TagsBody = permitted(&answer, Intent::Read)?.decode()?;
        Ok(true)
    }

    async fn see(&self, context: &CallContext, machines: bool) -> Result<Sight, Fault> {
        let firewalls = self.api.operation(Call::ListFirewalls, context, self.firewalls()).await?;
        let mut sight = Sight { firewalls, ..Sight::default() };
        if !machines {
            return Ok(sight);
        }
        sight.machines = self.api.operation(Call::ListDroplets, context, self.tagged_droplets()).await?;
        if sight.machines.is_none() {
            sight.missing.insert(DROPLET_READ);
        }
        // Any tag in an answer proves the scope.
        let tagged = |firewall: &Firewall| {
            !firewall.tags.is_empty() || firewall.rules.iter().any(|rule| !rule.targets.tags.is_empty())
        };
        let shown = sight.machines.iter().flat_map(BTreeMap::values).any(|tags| !tags.is_empty());
        if !shown
            && !sight.firewalls.iter().any(tagged)
            && !self.api.operation(Call::ListTags, context, self.tags_readable()).await?
        {
            sight.missing.insert(TAG_READ);
        }
        Ok(sight)
    }

    async fn find(&self, id: &str) -> Result<bool, Fault> {
        let answer = self.api.read(Request::get(&["v2", "firewalls", id], &[])).await?;
        match permitted(&answer, Intent::Read) {
            Ok(_found) => Ok(true),
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    async fn make(&self, permit: &Permit, new: &NewFirewall) -> Result<String, CallError> {
        let mut body = written_rules(&new.rules);
        body.insert("name".to_owned(), json!(new.name));
        body.insert("droplet_ids".to_owned(), json!(ids(&new.machines)));
        let request = Request::post(&["v2", "firewalls"], &Value::Object(body));
        let answer = self.api.write(permit, request).await?;
        let made: FirewallBody = permitted(&answer, Intent::Create)?.decode()?;
        Ok(made.firewall.id)
    }

    async fn alter(&self, permit: &Permit, id: &str, change: &Change) -> Result<(), CallError> {
        let (part, body) = match change {
            Change::Delete => return self.delete(permit, id).await,
            Change::AddRules(rules) | Change::RemoveRules(rules) => {
                ("rules", Value::Object(written_rules(rules)))
            }
            Change::AddMembers(machines) | Change::RemoveMembers(machines) => {
                ("droplets", json!({ "droplet_ids": ids(machines) }))
            }
            Change::RemoveTags(tags) => ("tags", json!({ "tags": tags })),
        };
        let path = ["v2", "firewalls", id, part];
        let adds = matches!(change, Change::AddRules(_) | Change::AddMembers(_));
        let request = if adds { Request::post(&path, &body) } else { Request::delete_with(&path, &body) };
        let answer = self.api.write(permit, request).await?;
        permitted(&answer, Intent::Read)?;
        Ok(())
    }

    async fn delete(&self, permit: &Permit, id: &str) -> Result<(), CallError> {
        let answer = self.api.write(permit, Request::delete(&["v2", "firewalls", id])).await?;
        match permitted(&answer, Intent::Read) {
            Err(fault) if fault.kind != FaultKind::NotFound => Err(fault.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl FirewallProvider for DigitalOcean {
    fn look<'a>(&'a self, context: &'a CallContext, machines: bool) -> Reading<'a, Sight> {
        self.see(context, machines).boxed()
    }

    fn has_firewall<'a>(&'a self, context: &'a CallContext, id: &'a str) -> Reading<'a, bool> {
        self.api.operation(Call::GetFirewall, context, self.find(id)).boxed()
    }

    fn create_firewall<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        new: &'a NewFirewall,
    ) -> Changing<'a, String> {
        self.api.operation(Call::CreateFirewall, context, self.make(permit, new)).boxed()
    }

    fn change_firewall<'a>(
        &'a self,
        context: &'a CallContext,
        permit: &'a Permit,
        id: &'a str,
        change: &'a Change,
    ) -> Changing<'a, ()> {
        let call = if *change == Change::Delete { Call::DeleteFirewall } else { Call::UpdateFirewall };
        self.api.operation(call, context, self.alter(permit, id, change)).boxed()
    }
}
