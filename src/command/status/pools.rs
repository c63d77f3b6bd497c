//! A pool in the report.

use super::Facts;
use super::model::{AddressReport, PoolReport, Records, Waiting, state};
use crate::command::matched::Matched;
use flipop_core::addresses::pool::object::PoolObject;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::addresses::pool::status::{IpEntry, IpState};
use flipop_core::model::ids::Address;
use std::collections::{BTreeMap, BTreeSet};

/// The names that hold each address.
pub(super) type Names = BTreeMap<String, BTreeSet<String>>;

/// The names at which all objects publish addresses.
pub(super) fn published(facts: &Facts) -> Names {
    let mut names = Names::new();
    let pools = facts.pools.iter().filter_map(|(pool, _)| pool.status.record_set.as_ref());
    let pools = pools.map(|set| (&set.fqdn, &set.addresses));
    let sets = facts.record_sets.iter().map(|(set, _)| (&set.status.fqdn, &set.status.addresses));
    for (fqdn, addresses) in pools.chain(sets) {
        for address in addresses {
            names.entry(address.to_string()).or_default().insert(fqdn.clone());
        }
    }
    names
}

/// One pool in the report.
pub(super) fn report(facts: &Facts, names: &Names, pool: &PoolObject, spec: Option<&PoolSpec>) -> PoolReport {
    let status = &pool.status;
    let (namespace, name) = (pool.object.name.namespace.clone(), pool.object.name.name.clone());
    let matched = spec
        .and_then(|spec| spec.criteria.as_ref())
        .map(|criteria| Matched::new(&facts.lists, &facts.nodes, criteria));
    let line = line(facts, pool);
    let first = line.first().map(|waiting| waiting.node.clone());
    let mut addresses: Vec<AddressReport> = status
        .ips
        .iter()
        .map(|(ip, entry)| address(facts, names, pool, (ip, entry), matched.as_ref(), first.as_deref()))
        .collect();
    addresses.sort_by_key(|address| address.address.parse::<Address>().ok());
    PoolReport {
        namespace,
        name,
        state: state(&status.conditions, pool.paused.as_ref(), status.observed_generation, pool.generation),
        used: status.used_ips.unwrap_or_default(),
        active: addresses.iter().filter(|address| address.state == IpState::Active.as_str()).count(),
        addresses,
        line,
        left_out: matched.as_ref().map(Matched::left_out).unwrap_or_default(),
        records: records(pool, spec),
    }
}

/// The nodes that get an address next. Without the leader the order is unknown, so they are sorted by name, as in
/// the status.
fn line(facts: &Facts, pool: &PoolObject) -> Vec<Waiting> {
    let name = &pool.object.name;
    if let Some(told) = facts.leading.line(&name.namespace, &name.name) {
        let told = told.into_iter();
        return told.map(|(node, why)| Waiting { node, waits_for: Some(why) }).collect();
    }
    let waiting = pool.status.assignable_nodes.iter().chain(&pool.status.node_errors);
    waiting.map(|node| Waiting { node: node.clone(), waits_for: None }).collect()
}

fn address(
    facts: &Facts,
    names: &Names,
    pool: &PoolObject,
    (ip, entry): (&String, &IpEntry),
    matched: Option<&Matched>,
    first: Option<&str>,
) -> AddressReport {
    let on = matched.and_then(|matched| matched.machines.get(&entry.provider_id));
    let other = facts.nodes.iter().find(|node| node.provider_id == entry.provider_id);
    let node = Some(&entry.node_name).filter(|name| !name.is_empty());
    let node = node.or(on).or(other.map(|node| &node.name).filter(|_| !entry.provider_id.is_empty()));
    let node = node.cloned().unwrap_or_default();
    let health = match matched {
        _ if node.is_empty() => String::new(),
        Some(matched) => matched.health(&node),
        None => "unknown: the spec is invalid".to_owned(),
    };
    AddressReport {
        since: facts.leading.since(ip, &node),
        dns: names.get(ip).into_iter().flatten().cloned().collect(),
        next: next(pool, ip, entry, first),
        address: ip.clone(),
        provider_id: entry.provider_id.clone(),
        state: entry.state.clone(),
        node,
        health,
    }
}

/// The next event for an address. `first`: the node that is first in line.
fn next(pool: &PoolObject, ip: &str, entry: &IpEntry, first: Option<&str>) -> String {
    if pool.paused.is_some() && entry.state != IpState::Active.as_str() {
        return "nothing: the pool is paused".to_owned();
    }
    if entry.suspect_since_s.is_some() {
        let suspects = pool.status.conditions.iter().find(|condition| condition.kind == "Suspect");
        // The condition reports each address as "… 203.0.113.7 moves at …".
        let text = suspects.map(|condition| condition.message.as_str()).unwrap_or_default();
        let part = text.split(&format!("{ip} moves ")).nth(1).map(|rest| rest.split([',', ';']).next());
        let when = part.flatten().map(|when| when.split(" and ").next().unwrap_or(when));
        return when.map_or("moves when its grace is over".to_owned(), |when| format!("moves {when}"));
    }
    let state = IpState::ALL.iter().find(|state| state.as_str() == entry.state);
    match (state, first) {
        (Some(IpState::Active) | None, _) => String::new(),
        (Some(IpState::InProgress), _) => "the provider carries out its move".to_owned(),
        (Some(IpState::Error), _) => entry.error.clone(),
        (Some(IpState::Disabled), _) => "nothing: the pool does not use it".to_owned(),
        (Some(IpState::NoMatch | IpState::Unassigned), Some(first)) => format!("moves to {first}"),
        (Some(IpState::NoMatch | IpState::Unassigned), None) => "waits for a matching node".to_owned(),
    }
}

fn records(pool: &PoolObject, spec: Option<&PoolSpec>) -> Option<Records> {
    let raw = pool.spec.as_ref().ok()?.record_set.as_ref()?;
    let set = spec.and_then(|spec| spec.record_set.as_ref());
    let published = pool.status.record_set.clone().unwrap_or_default();
    let ready = pool.status.conditions.iter().find(|condition| condition.kind == "RecordSetReady");
    Some(Records {
        name: if published.fqdn.is_empty() { raw.record_name.clone() } else { published.fqdn },
        provider: set.map(|set| set.provider.clone()).unwrap_or_default(),
        ttl: (raw.ttl > 0).then_some(raw.ttl),
        addresses: published.addresses.iter().map(ToString::to_string).collect(),
        ready: ready.map_or("Unknown".to_owned(), |ready| ready.status.clone()),
        reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
    })
}
