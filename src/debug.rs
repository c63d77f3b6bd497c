//! The value of `/debug`: the latest facts of this process as JSON, for people and for the web page.
//!
//! Owns its form. Waits for nothing, and decides nothing.

use crate::clock::Clock;
use crate::version::VERSION;
use flipop_core::fleet::{
    AccountSnapshot, Change, LeftOut, NodesLeftOut, Phases, PoolSnapshot, RecordSetSnapshot, Snapshot,
    SuspectSnapshot,
};
use flipop_core::mechanism::evidence::{CheckedNode, Standing};
use flipop_core::model::catalog;
use flipop_core::model::condition::{Condition, ConditionType};
use flipop_core::model::ids::{Address, ObjectKind, ObjectName};
use flipop_core::model::moment::Moment;
use serde_json::{Value, json};

/// The name of the fact that no admission policy limits the operator's changes of nodes.
pub const UNLIMITED: &str = "changesOfNodesUnlimited";

/// The facts. `left_out`: the nodes that pools leave out, and the nodes that record sets leave out. `unlimited`: see
/// [`UNLIMITED`].
pub fn describe(
    snapshot: &Snapshot,
    (by_pools, by_sets): &(NodesLeftOut, NodesLeftOut),
    (checked, unlimited): (&[CheckedNode], bool),
    clock: &Clock,
) -> Value {
    let pools = snapshot.pools.iter().map(|of| pool(of, by_pools, clock));
    let sets = snapshot.record_sets.iter().map(|of| record_set(of, by_sets, clock));
    let accounts = snapshot.accounts.iter().map(|AccountSnapshot { provider, rate_remaining, out_since_s }| {
        json!({"provider": provider, "requestsLeft": rate_remaining, "outSinceSeconds": out_since_s})
    });
    json!({
        "version": VERSION,
        "leading": snapshot.leading,
        UNLIMITED: unlimited,
        "nowSeconds": clock.timestamp().as_second(),
        "pools": pools.collect::<Vec<_>>(),
        "recordSets": sets.collect::<Vec<_>>(),
        "accounts": accounts.collect::<Vec<_>>(),
        "checks": checked.iter().map(check).collect::<Vec<_>>(),
        "changes": snapshot.changes.iter().map(|of| change(of, clock)).collect::<Vec<_>>(),
    })
}

fn check(node: &CheckedNode) -> Value {
    let standing = match node.standing {
        Standing::Unknown => "unknown",
        Standing::Alive => "alive",
        Standing::Behind => "failing",
        Standing::Dead => "dead",
    };
    json!({
        "node": node.name, "address": node.at, "standing": standing, "lastPassedMs": node.last_pass_ms,
        "failures": node.failures, "leaseAgeMs": node.lease_ms, "doubted": node.disbelieved,
    })
}

fn pool(pool: &PoolSnapshot, left_out: &NodesLeftOut, clock: &Clock) -> Value {
    let ips = pool.ips.iter().map(|ip| {
        let (why, since) = ip.lost.as_ref().map(|(why, at)| (why, seconds(*at, clock))).unzip();
        json!({
            "ip": ip.ip.to_string(), "state": ip.state, "node": ip.node, "providerID": ip.provider_id,
            "from": ip.from, "to": ip.to, "why": why, "sinceSeconds": since, "error": ip.error,
            "assignments": ip.assignments, "errors": ip.errors,
        })
    });
    let waiting = pool.waiting.reasons().into_iter();
    let waiting = waiting.map(|(node, why)| json!({"node": node, "waitsFor": why}));
    let suspects = pool.suspects.iter().map(|SuspectSnapshot { node, reason, since_s, ends_s }| {
        json!({"node": node, "reason": reason, "sinceSeconds": since_s, "endsSeconds": ends_s})
    });
    let records =
        (!pool.dns.is_empty()).then(|| json!({"name": pool.dns, "addresses": texts(&pool.published)}));
    json!({
        "namespace": pool.name.namespace, "name": pool.name.name, "provider": pool.provider,
        "conditions": conditions((ObjectKind::Pool, &pool.conditions, &pool.unready), clock),
        "ips": ips.collect::<Vec<_>>(), "nodesWithoutIP": waiting.collect::<Vec<_>>(),
        "suspects": suspects.collect::<Vec<_>>(), "records": records, "leftOut": groups(left_out, &pool.name),
    })
}

fn record_set(set: &RecordSetSnapshot, left_out: &NodesLeftOut, clock: &Clock) -> Value {
    let RecordSetSnapshot {
        name,
        provider,
        dns,
        records,
        addresses,
        state,
        error,
        conditions: told,
        unready,
    } = set;
    json!({
        "namespace": name.namespace, "name": name.name, "provider": provider, "dns": dns,
        "records": records, "addresses": texts(addresses), "state": state, "error": error,
        "conditions": conditions((ObjectKind::RecordSet, told, unready), clock),
        "leftOut": groups(left_out, name),
    })
}

fn texts(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// The conditions of an object of this kind, with the remedy of each, and since when it has its reason if known.
fn conditions(
    (object, conditions, unready): (ObjectKind, &[Condition], &[(ConditionType, Moment)]),
    clock: &Clock,
) -> Vec<Value> {
    let value = |condition: &Condition| {
        let since = unready.iter().find(|(kind, _)| condition.is(*kind)).map(|(_, at)| seconds(*at, clock));
        let Condition { kind, status, reason, message } = condition;
        json!({
            "type": kind, "status": status, "reason": reason, "message": message, "sinceSeconds": since,
            "remedy": catalog::remedy(object, kind, reason),
        })
    };
    conditions.iter().map(value).collect()
}

/// A moment in seconds since 1970.
fn seconds(at: Moment, clock: &Clock) -> i64 {
    clock.time_of(at).as_second()
}

fn groups(left_out: &NodesLeftOut, name: &ObjectName) -> Vec<Value> {
    let group = |LeftOut { reason, count, nodes }: &LeftOut| json!({"reason": reason, "count": count, "nodes": nodes});
    left_out.get(name).into_iter().flatten().map(group).collect()
}

fn change(change: &Change, clock: &Clock) -> Value {
    let Change { at, object, ip, from, to, reason, moved: _, phases, failover } = change;
    let time = clock.time_of(*at);
    let phases = phases.map(|Phases { decided_ms, confirmed_ms, published_ms }| {
        let noticed_ms = failover.map(|failover| failover.noticed_ms);
        json!({
            "noticedMs": noticed_ms, "decidedMs": decided_ms, "confirmedMs": confirmed_ms, "publishedMs": published_ms,
        })
    });
    json!({
        "time": format!("{time:.3}"), "namespace": object.namespace, "name": object.name, "ip": ip.to_string(),
        "from": from, "to": to, "reason": reason, "phases": phases,
    })
}
