//! The pools and record sets in the report.

use super::Facts;
use super::model::{AddressReport, PendingMove, PoolReport, Published, Records, SetReport, Waiting, state};
use crate::command::matched::Matched;
use flipop_core::addresses::pool::manual_move::result::request_of;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::addresses::pool::status::{IpEntry, IpState, PoolObject};
use flipop_core::model::catalog::pool::ProviderReady;
use flipop_core::model::{Address, ConditionType, NodeFacts, ObjectKind};
use flipop_core::records::spec::NodeSetSpec;
use flipop_core::records::status::RecordSetObject;
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
pub(super) fn pool(facts: &Facts, names: &Names, pool: &PoolObject, spec: Option<&PoolSpec>) -> PoolReport {
    let status = &pool.status;
    let name = &pool.object.name;
    let since = facts.paused.get(&(ObjectKind::Pool, name.clone()));
    let generations = (status.observed_generation, pool.generation);
    let matched = spec.and_then(|spec| facts.matched.get(spec.criteria.as_ref()?));
    let line = line(facts, pool);
    let first = line.first().map(|waiting| waiting.node.clone());
    let mut addresses: Vec<AddressReport> = status
        .ips
        .iter()
        .map(|(ip, entry)| address(facts, names, pool, (ip, entry), matched, first.as_deref()))
        .collect();
    addresses.sort_by_key(|address| address.address.parse::<Address>().ok());
    PoolReport {
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        state: state(&status.conditions, (pool.paused.as_ref(), since), generations),
        used: status.used_ips.unwrap_or_default(),
        active: addresses.iter().filter(|address| address.state == IpState::Active.as_str()).count(),
        addresses,
        pending_move: pending_move(pool, facts.leading.is_stale()),
        line,
        left_out: matched.map(Matched::left_out).unwrap_or_default(),
        records: records(pool, spec),
    }
}

/// The move by hand that is not finished: one that the operator has accepted, or one that it has not read yet.
fn pending_move(pool: &PoolObject, stale: bool) -> Option<PendingMove> {
    let request = request_of(pool.move_request.as_deref())?;
    let last = pool.status.last_move.as_ref().filter(|last| last.request == request);
    let waits_for = match last {
        Some(last) if !last.is_pending() => return None,
        _ if stale => "no replica leads",
        Some(last) => last.message.as_str(),
        None => "the leader has not read the request yet",
    };
    let since = last.and_then(|last| jiff::Timestamp::from_second(last.time_s).ok());
    Some(PendingMove {
        request: request.split('#').next().unwrap_or_default().to_owned(),
        from: last.map(|last| last.from.clone()).unwrap_or_default(),
        since: since.map(|since| since.to_string()),
        waits_for: waits_for.to_owned(),
    })
}

/// The nodes that get an address next. Without the leader the order is unknown, so they are sorted by name, as in
/// the status. The leader names the first ones.
fn line(facts: &Facts, pool: &PoolObject) -> Vec<Waiting> {
    let line = facts.leading.pool(&pool.object.name).map(|known| known.line.as_slice()).unwrap_or_default();
    let named: BTreeSet<&str> = line.iter().map(|wait| wait.node.as_str()).collect();
    let line =
        line.iter().map(|wait| Waiting { node: wait.node.clone(), waits_for: Some(wait.waits_for.clone()) });
    let others = pool.status.assignable_nodes.iter().chain(&pool.status.node_errors);
    let others = others.filter(|node| !named.contains(node.as_str()));
    line.chain(others.map(|node| Waiting { node: node.clone(), waits_for: None })).collect()
}

fn address(
    facts: &Facts,
    names: &Names,
    pool: &PoolObject,
    (ip, entry): (&String, &IpEntry),
    matched: Option<&Matched>,
    first: Option<&str>,
) -> AddressReport {
    let reported = facts.leading.ip(&pool.object.name, ip);
    let moves = entry.state == IpState::InProgress.as_str();
    // During a move the status names the target, and only the leader knows where the address was last seen.
    let seen = reported.filter(|_| moves).map(|known| (known.provider_id.clone(), known.node.clone()));
    let (provider_id, node) = match seen {
        Some(seen) => seen,
        None if moves => (String::new(), String::new()),
        None => (entry.provider_id.clone(), entry.node_name.clone()),
    };
    let known = || facts.machines.get(&provider_id).cloned().unwrap_or_default();
    let node = Some(node).filter(|node| !node.is_empty()).unwrap_or_else(known);
    let health = match matched {
        _ if node.is_empty() => String::new(),
        Some(matched) => matched.health(&node),
        None => "unknown: the spec is invalid".to_owned(),
    };
    AddressReport {
        since: facts.leading.since(ip, &node),
        dns: names.get(ip).into_iter().flatten().cloned().collect(),
        next: next(facts, pool, (ip, entry), first),
        address: ip.clone(),
        target: if moves { entry.node_name.clone() } else { String::new() },
        state: entry.state.clone(),
        error: entry.error.clone(),
        provider_id,
        node,
        health,
    }
}

/// The next event for an address. `first`: the first node of the queue.
fn next(facts: &Facts, pool: &PoolObject, (ip, entry): (&String, &IpEntry), first: Option<&str>) -> String {
    if facts.leading.is_stale() {
        return "nothing: no replica leads".to_owned();
    }
    let state = IpState::ALL.iter().find(|state| state.as_str() == entry.state);
    let reported = facts.leading.ip(&pool.object.name, ip).filter(|reported| reported.state == entry.state);
    let next = reported.map(|known| known.next.clone()).filter(|next| !next.is_empty());
    // An operation that has begun goes on during a pause.
    if pool.paused.is_some() && !matches!(state, Some(IpState::Active | IpState::InProgress)) {
        return "nothing: the pool is paused".to_owned();
    }
    if entry.suspect_since_s.is_some() {
        let suspects = pool.status.conditions.iter().find(|condition| condition.kind == "Suspect");
        // The condition reports each address as "… 203.0.113.7 moves at …".
        let text = suspects.map(|condition| condition.message.as_str()).unwrap_or_default();
        let part = text.split(&format!("{ip} moves ")).nth(1).map(|rest| rest.split([',', ';']).next());
        let when = part.flatten().map(|when| when.split(" and ").next().unwrap_or(when));
        return when.map_or("moves when its grace period is over".to_owned(), |when| format!("moves {when}"));
    }
    let when = if is_refused(pool) { " when the token works" } else { "" };
    match (next, state, first) {
        (_, Some(IpState::Active) | None, _) => String::new(),
        (next, Some(IpState::InProgress), _) => next.unwrap_or_else(|| in_progress(pool, entry)),
        (Some(next), ..) => next,
        (None, Some(IpState::Error), _) => entry.error.clone(),
        (None, Some(IpState::Disabled), _) => "nothing: the pool does not use it".to_owned(),
        (None, Some(IpState::NoMatch | IpState::Unassigned), Some(first)) => {
            format!("moves to {first}{when}")
        }
        (None, Some(IpState::NoMatch | IpState::Unassigned), None) => "waits for a matching node".to_owned(),
    }
}

/// The next event for an address whose operation only the leader knows. Its error, if it has one, is that of a request
/// whose outcome is unknown.
fn in_progress(pool: &PoolObject, entry: &IpEntry) -> String {
    match (entry.error.as_str(), entry.node_name.as_str()) {
        ("", "") => "the provider is moving it".to_owned(),
        ("", node) => format!("the provider is moving it to {node}"),
        (error, _) if is_refused(pool) => {
            format!("outcome unknown ({error}), read again when the token works")
        }
        (error, _) => format!("outcome unknown ({error}), read again until it is known"),
    }
}

/// Whether the token is refused, or lacks a scope without which nothing moves.
fn is_refused(pool: &PoolObject) -> bool {
    let reasons = [ProviderReady::Unauthorized, ProviderReady::ScopeMissing].map(ProviderReady::as_str);
    let provider = pool.status.conditions.iter().find(|condition| condition.is(ConditionType::ProviderReady));
    provider.is_some_and(|condition| reasons.contains(&condition.reason.as_str()))
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

/// One record set in the report.
pub(super) fn record_set(facts: &Facts, set: &RecordSetObject, spec: Option<&NodeSetSpec>) -> SetReport {
    let status = &set.status;
    let since = facts.paused.get(&(ObjectKind::RecordSet, set.object.name.clone()));
    let generations = (status.observed_generation, set.generation);
    let state = state(&status.conditions, (set.paused.as_ref(), since), generations);
    let matched = spec.and_then(|spec| facts.matched.get(spec.criteria.as_ref()?));
    let raw = set.spec.as_ref().ok().and_then(|raw| raw.record_set.as_ref());
    let written = raw.map(|raw| raw.record_name.clone()).unwrap_or_default();
    SetReport {
        namespace: set.object.name.namespace.clone(),
        name: set.object.name.name.clone(),
        records: Records {
            name: if status.fqdn.is_empty() { written } else { status.fqdn.clone() },
            provider: spec.map(|spec| spec.set.provider.clone()).unwrap_or_default(),
            ttl: raw.map(|raw| raw.ttl).filter(|ttl| *ttl > 0),
            addresses: status.addresses.iter().map(ToString::to_string).collect(),
            ready: state.ready.clone(),
            reason: state.reason.clone(),
        },
        state,
        nodes: matched.map(|matched| nodes(facts, set, spec, matched)).unwrap_or_default(),
        left_out: matched.map(Matched::left_out).unwrap_or_default(),
    }
}

/// Nodes that match, and nodes that keep their place for a while.
fn nodes(
    facts: &Facts,
    set: &RecordSetObject,
    spec: Option<&NodeSetSpec>,
    matched: &Matched,
) -> Vec<Published> {
    let suspects = set.status.suspects.keys().filter(|node| !matched.matching.contains(*node));
    let known: BTreeMap<&str, &NodeFacts> =
        facts.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let published = |node: &String| {
        let found = known.get(node.as_str()).copied();
        let addresses = found.zip(spec.and_then(|spec| spec.source)).map(|(node, source)| source.of(node));
        let addresses = addresses.unwrap_or_default().iter().map(ToString::to_string).collect();
        Published { node: node.clone(), addresses, health: matched.health(node) }
    };
    matched.matching.iter().chain(suspects).map(published).collect()
}
