//! `FloatingIPPool`: its spec, its status and the memory in it.

use super::{
    Meta, addresses, annotation, observed, plain_conditions, plain_meta, raw_grace, raw_match,
    raw_node_check, raw_record_set, second, text, texts, timed_conditions,
};
use crate::api::{
    Condition, CreatedIp, Creation, Firewall, FirewallEntry, FloatingIPPool, FloatingIPPoolSpec,
    FloatingIPPoolStatus, IpStatus, LastMove, NodeLabels, PublishedRecordSet, PurchasedIp, RecordName, Seen,
    meta_of,
};
use flipop_core::addresses::pool::manual_move::result::{
    LastMove as PlainMove, MOVE_ANNOTATION, MoveOutcome,
};
use flipop_core::addresses::pool::memory::{Created, Intent, Memory, Name, Purchased};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::addresses::pool::status::{FINALIZER, IpEntry, IpState, PoolObject, PoolStatus};
use flipop_core::firewalls::spec::{Entry, RawFirewall, RawPort};
use flipop_core::model::label_mode::RawNodeLabels;
use flipop_core::model::{AccountId, Address, Uid, region_slug};
use flipop_core::records::status::PublishedSet;
use std::collections::BTreeSet;

/// Value of [`Creation::phase`] while FLIPOP is still finding out the outcome.
const OPEN: &str = "Open";

/// Value of [`Creation::phase`] when only the user can tell the outcome.
const UNCERTAIN: &str = "Uncertain";

/// A pool as the watch showed it.
pub fn pool_object(seen: &Seen<FloatingIPPool>) -> PoolObject {
    let Meta { object, created_at_s, generation, resource_version, deleting, paused } =
        plain_meta(meta_of(seen));
    // FLIPOP does nothing about the finalizers of an object that it cannot read.
    let pool = seen.as_ref().ok();
    let finalizers = pool.and_then(|pool| pool.metadata.finalizers.as_ref());
    PoolObject {
        object,
        created_at_s,
        generation,
        resource_version,
        deleting,
        guarded: finalizers.is_some_and(|names| names.iter().any(|name| name == FINALIZER)),
        paused,
        spec: seen.as_ref().map(|pool| raw_spec(&pool.spec)).map_err(|unread| unread.error.clone()),
        move_request: pool.and_then(|pool| annotation(&pool.metadata, MOVE_ANNOTATION)),
        status: pool.and_then(|pool| pool.status.as_ref()).map(plain_status).unwrap_or_default(),
    }
}

/// A pool as a list showed it, whose spec also names these addresses, wherever in `spec.ips` they are.
pub fn naming(seen: &Seen<FloatingIPPool>, named: &BTreeSet<Address>) -> PoolObject {
    let mut pool = pool_object(seen);
    if let Ok(spec) = &mut pool.spec {
        spec.ips.extend(named.iter().map(ToString::to_string));
    }
    pool
}

fn raw_node_labels(labels: &NodeLabels) -> RawNodeLabels {
    RawNodeLabels { enabled: labels.enabled.unwrap_or_default(), legacy: labels.legacy.unwrap_or_default() }
}

fn raw_spec(spec: &FloatingIPPoolSpec) -> RawPoolSpec {
    RawPoolSpec {
        provider: text(spec.provider.as_ref()),
        region: text(spec.region.as_ref()),
        desired_ips: spec.desired_ips.unwrap_or_default(),
        min_active: spec.min_active.unwrap_or_default(),
        grace: spec.grace.as_ref().map(raw_grace).unwrap_or_default(),
        node_check: spec.node_check.as_ref().map(raw_node_check),
        node_labels: spec.node_labels.as_ref().map(raw_node_labels).unwrap_or_default(),
        ips: spec.ips.clone().unwrap_or_default(),
        released_ips: spec.released_ips.clone().unwrap_or_default(),
        reclaim_policy: text(spec.reclaim_policy.as_ref()),
        cool_off_seconds: spec.assignment_cool_off_seconds.unwrap_or_default(),
        matching: spec.match_.as_ref().map(raw_match).unwrap_or_default(),
        record_set: spec.dns_record_set.as_ref().map(raw_record_set),
        firewall: spec.firewall.as_ref().map(raw_firewall),
        too_large: spec.too_large.clone(),
    }
}

fn raw_firewall(firewall: &Firewall) -> RawFirewall {
    let ports = firewall.ports.iter().flatten();
    RawFirewall {
        ports: ports
            .map(|port| RawPort { protocol: text(port.protocol.as_ref()), port: text(port.port.as_ref()) })
            .collect(),
        sources: firewall.sources.clone().unwrap_or_default(),
    }
}

fn firewall(entry: &FirewallEntry) -> Entry {
    let account_id = AccountId { provider: entry.provider.clone(), name: entry.account.clone() };
    Entry { id: entry.id.clone(), name: entry.name.clone(), account_id }
}

fn written_firewall(entry: &Entry) -> FirewallEntry {
    let Entry { id, name, account_id } = entry.clone();
    FirewallEntry { id, name, provider: account_id.provider, account: account_id.name }
}

/// The status of an object as plain data, without times.
pub fn plain_status(status: &FloatingIPPoolStatus) -> PoolStatus {
    let entry = |entry: &IpStatus| {
        let IpStatus { state, node_name, provider_id, error, suspect_since, suspect_reason } = entry.clone();
        let suspect_since_s = suspect_since.map(|since| since.0.as_second());
        IpEntry { state, node_name, provider_id, error, suspect_since_s, suspect_reason }
    };
    PoolStatus {
        ips: status.ips.iter().map(|(ip, status)| (ip.clone(), Box::new(entry(status)))).collect(),
        used_ips: status.used_ips,
        assignable_nodes: status.assignable_nodes.clone().into(),
        assignable_count: status.assignable_node_count,
        node_error_count: status.node_error_count,
        node_errors: status.node_errors.clone(),
        error: status.error.clone(),
        conditions: plain_conditions(&status.conditions),
        observed_generation: observed(status.observed_generation),
        memory: memory(status),
        last_move: status.last_move.as_ref().and_then(last_move),
        record_set: status.dns_record_set.as_ref().map(|published| PublishedSet {
            fqdn: published.fqdn.clone(),
            addresses: addresses(&published.addresses),
        }),
        firewalls: status.firewalls.iter().map(firewall).collect(),
    }
}

/// The last move by hand. `None` if the status holds no readable one.
fn last_move(status: &LastMove) -> Option<PlainMove> {
    let LastMove { request, ip, from, to, time, outcome, message } = status.clone();
    let ip = Address::v4(&ip);
    let outcome = MoveOutcome::parse(&outcome)?;
    let time_s = time.map_or(0, |time| time.0.as_second());
    Some(PlainMove { request, ip, from, to, time_s, outcome, message })
}

fn written_move(plain: &PlainMove) -> LastMove {
    let PlainMove { request, ip, from, to, time_s, outcome, message } = plain.clone();
    let time = second(time_s);
    let outcome = outcome.as_str().to_owned();
    let ip = ip.as_ref().map(ToString::to_string).unwrap_or_default();
    LastMove { request, ip, from, to, time, outcome, message }
}

/// The bought addresses. An entry that cannot be read is left out, so its address is never deleted.
fn purchased(entry: &PurchasedIp) -> Option<Purchased> {
    let PurchasedIp { ip, provider, account, uid, held_on, names, deleting } = entry.clone();
    let name = |name: RecordName| Name {
        account_id: AccountId { provider: name.provider, name: name.account },
        zone: name.zone,
        fqdn: name.fqdn,
    };
    let ip = Address::v4(&ip)?;
    let account_id = AccountId { provider, name: account };
    let names = names.into_iter().map(name).collect();
    Some(Purchased { ip, account_id, uid: Uid(uid.into()), held_on, names, deleting })
}

fn written_purchase(plain: &Purchased) -> PurchasedIp {
    let Purchased { ip, account_id, uid, held_on, names, deleting } = plain.clone();
    let AccountId { provider, name: account } = account_id;
    let name = |Name { account_id: AccountId { provider, name: account }, zone, fqdn }: Name| RecordName {
        provider,
        account,
        zone,
        fqdn,
    };
    let ip = ip.to_string();
    let names = names.into_iter().map(name).collect();
    PurchasedIp { ip, provider, account, uid: uid.0.to_string(), held_on, names, deleting }
}

/// The operator's memory in a status. `None` if the operator left none.
fn memory(status: &FloatingIPPoolStatus) -> Option<Memory> {
    let created = status.created_ips.as_ref()?;
    let created = created
        .iter()
        .filter_map(|created| Address::v4(&created.ip).map(|ip| Created { ip, written: created.written }));
    let intent = status.creation.as_ref().map(|creation| Intent {
        number: creation.number,
        account_id: creation.provider.as_str().into(),
        region: region_slug(&creation.region),
        known: addresses(&creation.known_ips),
        uncertain: (creation.phase == UNCERTAIN).then(|| addresses(&creation.uncertain_ips)),
    });
    Some(Memory {
        created: created.collect(),
        purchased: status.purchased_ips.iter().filter_map(purchased).collect(),
        former: addresses(&status.former_ips),
        unknown: addresses(&status.unknown_ips),
        orphans: status.orphan_ips.as_deref().map(addresses),
        intent,
    })
}

/// The status to be written. `before` holds the object's current conditions, whose times are kept.
pub fn written_status(
    status: &PoolStatus,
    generation: i64,
    before: &[Condition],
    now: jiff::Timestamp,
) -> FloatingIPPoolStatus {
    let PoolStatus {
        ips,
        used_ips,
        assignable_nodes,
        assignable_count,
        node_errors,
        node_error_count,
        error,
        conditions,
        observed_generation,
        memory,
        last_move,
        record_set,
        firewalls,
    } = status;
    let active = ips.values().filter(|entry| entry.state == IpState::Active.as_str()).count();
    let mut written = FloatingIPPoolStatus {
        ips: ips.iter().map(|(ip, entry)| (ip.clone(), ip_status(entry))).collect(),
        used_ips: *used_ips,
        active_ips: i64::try_from(active).ok(),
        assignable_nodes: assignable_nodes.to_vec(),
        assignable_node_count: *assignable_count,
        node_error_count: *node_error_count,
        node_errors: node_errors.clone(),
        error: error.clone(),
        conditions: timed_conditions(conditions, generation, before, now),
        observed_generation: Some(*observed_generation),
        last_move: last_move.as_ref().map(written_move),
        dns_record_set: record_set.as_ref().map(|published| PublishedRecordSet {
            fqdn: published.fqdn.clone(),
            addresses: texts(&published.addresses),
        }),
        firewalls: firewalls.iter().map(written_firewall).collect(),
        ..FloatingIPPoolStatus::default()
    };
    if let Some(Memory { created, purchased, former, unknown, orphans, intent }) = memory {
        let created =
            created.iter().map(|created| CreatedIp { ip: created.ip.to_string(), written: created.written });
        written.created_ips = Some(created.collect());
        written.purchased_ips = purchased.iter().map(written_purchase).collect();
        written.former_ips = texts(former);
        written.unknown_ips = texts(unknown);
        written.orphan_ips = orphans.as_ref().map(texts);
        written.creation =
            intent.as_ref().map(|Intent { number, account_id, region, known, uncertain }| Creation {
                number: *number,
                provider: account_id.provider.clone(),
                region: region.clone(),
                known_ips: texts(known),
                phase: if uncertain.is_some() { UNCERTAIN } else { OPEN }.to_owned(),
                uncertain_ips: uncertain.as_ref().map(texts).unwrap_or_default(),
            });
    }
    written
}

fn ip_status(entry: &IpEntry) -> IpStatus {
    let IpEntry { state, node_name, provider_id, error, suspect_since_s, suspect_reason } = entry.clone();
    let suspect_since = suspect_since_s.and_then(second);
    IpStatus { state, node_name, provider_id, error, suspect_since, suspect_reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipop_core::model::Condition as PlainCondition;

    fn memory() -> Memory {
        let ip = |text: &str| text.parse::<Address>().unwrap();
        Memory {
            created: vec![
                Created { ip: ip("192.0.2.9"), written: false },
                Created { ip: ip("192.0.2.1"), written: true },
            ],
            purchased: vec![Purchased {
                ip: ip("192.0.2.9"),
                account_id: "digitalocean".into(),
                uid: Uid("u".into()),
                held_on: "digitalocean://7".into(),
                names: BTreeSet::from([Name {
                    account_id: "cloudflare".into(),
                    zone: "z".into(),
                    fqdn: "www.example.com".into(),
                }]),
                deleting: true,
            }],
            former: BTreeSet::from([ip("192.0.2.5")]),
            unknown: BTreeSet::from([ip("192.0.2.6")]),
            orphans: Some(BTreeSet::new()),
            intent: Some(Intent {
                number: 7,
                account_id: "digitalocean".into(),
                region: "nyc3".into(),
                known: BTreeSet::from([ip("192.0.2.7")]),
                uncertain: None,
            }),
        }
    }

    #[test]
    fn the_region_of_an_intent_is_read_as_the_provider_has_it() {
        let mut status = FloatingIPPoolStatus { created_ips: Some(Vec::new()), ..Default::default() };
        status.creation = Some(Creation { region: " NYC3 ".into(), ..Creation::default() });
        assert_eq!(super::memory(&status).and_then(|memory| memory.intent).unwrap().region, "nyc3");
    }

    #[test]
    fn a_status_comes_back_as_it_was_written() {
        let status = PoolStatus {
            ips: [(
                "192.0.2.1".to_owned(),
                Box::new(IpEntry {
                    state: "active".into(),
                    node_name: "a".into(),
                    suspect_since_s: Some(1_795_705_200),
                    suspect_reason: "NotReady".into(),
                    ..IpEntry::default()
                }),
            )]
            .into(),
            used_ips: Some(2),
            assignable_nodes: [String::from("b")].into(),
            assignable_count: Some(501),
            node_error_count: Some(502),
            node_errors: vec!["c".into()],
            error: "e".into(),
            conditions: vec![PlainCondition {
                kind: "Ready".into(),
                status: "True".into(),
                reason: "R".into(),
                message: "m".into(),
            }],
            observed_generation: 7,
            memory: Some(memory()),
            last_move: Some(PlainMove {
                request: "192.0.2.1=b#2".into(),
                ip: Address::v4("192.0.2.1"),
                from: "a".into(),
                to: "b".into(),
                time_s: 1_800_000_000,
                outcome: MoveOutcome::Refused,
                message: "w".into(),
            }),
            record_set: Some(PublishedSet {
                fqdn: "www.example.com".into(),
                addresses: vec![Address::from([192, 0, 2, 1])],
            }),
            firewalls: vec![Entry {
                id: "i".into(),
                name: "flipop-0123abcd-1".into(),
                account_id: "digitalocean".into(),
            }],
        };
        let written = written_status(&status, 7, &[], jiff::Timestamp::UNIX_EPOCH);
        let json = serde_json::to_value(&written).unwrap();
        let read: FloatingIPPoolStatus = serde_json::from_value(json).unwrap();
        assert_eq!(plain_status(&read), status);
    }

    #[test]
    fn the_status_of_an_object_that_nobody_has_looked_at_says_nothing() {
        let unobserved = serde_json::json!({ "observedGeneration": -1 });
        let read: FloatingIPPoolStatus = serde_json::from_value(unobserved).unwrap();
        assert_eq!(plain_status(&read), PoolStatus::default());
    }

    #[test]
    fn a_request_to_move_is_read_from_the_annotation_of_an_object_that_can_be_read() {
        let object = |spec: &str| {
            serde_json::from_value::<FloatingIPPool>(serde_json::json!({
                "metadata": { "name": "p", "annotations": { MOVE_ANNOTATION: "192.0.2.1=b#2", "other": "x" } },
                "spec": { "provider": spec },
            }))
        };
        let seen = pool_object(&Ok(object("digitalocean").unwrap()));
        assert_eq!(seen.move_request.as_deref(), Some("192.0.2.1=b#2"));
    }

    #[test]
    fn an_empty_memory_is_not_no_memory() {
        let empty = PoolStatus { memory: Some(Memory::default()), ..PoolStatus::default() };
        let written = written_status(&empty, 1, &[], jiff::Timestamp::UNIX_EPOCH);
        let read: FloatingIPPoolStatus =
            serde_json::from_value(serde_json::to_value(&written).unwrap()).unwrap();
        assert_eq!(plain_status(&read).memory, Some(Memory::default()));
        assert_eq!(plain_status(&FloatingIPPoolStatus::default()).memory, None);
    }
}
