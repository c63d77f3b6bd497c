//! Between the objects of the API server and the plain data that decisions work with.
//!
//! Loses nothing that decisions use and decides nothing. Times of conditions are added here: a condition keeps its
//! `lastTransitionTime` as long as its status stays.

use crate::api::{
    Condition, CreatedIp, Creation, DnsRecordSet, FloatingIPPool, FloatingIPPoolSpec, FloatingIPPoolStatus,
    IpStatus, Match, given,
};
use crate::kube::watch::{Seen, Undecodable};
use flipop_core::action::{ObjectRef, PoolObject};
use flipop_core::ids::{ObjectName, Uid};
use flipop_core::matching::Toleration;
use flipop_core::pool::memory::{Created, Intent, Memory};
use flipop_core::pool::spec::{RawMatch, RawPoolSpec, RawRecordSet};
use flipop_core::pool::status::{Condition as PlainCondition, IpEntry, IpState, PoolStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// Value of [`Creation::phase`] while the outcome is being found out.
const OPEN: &str = "Open";

/// Value of [`Creation::phase`] when only the user can tell.
const UNCERTAIN: &str = "Uncertain";

/// A pool as the watch showed it.
#[must_use]
pub fn pool_object(seen: &Seen<FloatingIPPool>) -> PoolObject {
    match seen {
        Ok(pool) => readable_pool(pool),
        Err(undecodable) => unreadable_pool(undecodable),
    }
}

fn readable_pool(pool: &FloatingIPPool) -> PoolObject {
    let meta = &pool.metadata;
    let name =
        ObjectName::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
    PoolObject {
        object: ObjectRef { uid: Uid(meta.uid.clone().unwrap_or_default()), name },
        created_at_s: meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        generation: meta.generation.unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        spec: Ok(raw_spec(&pool.spec)),
        status: pool.status.as_ref().map(plain_status).unwrap_or_default(),
    }
}

fn unreadable_pool(undecodable: &Undecodable) -> PoolObject {
    let Undecodable { name, uid, resource_version, generation, created, deleting, error } =
        undecodable.clone();
    PoolObject {
        object: ObjectRef { uid, name },
        created_at_s: created.map_or(0, jiff::Timestamp::as_second),
        generation: generation.unwrap_or_default(),
        resource_version,
        deleting,
        spec: Err(error),
        status: PoolStatus::default(),
    }
}

fn text(field: Option<&String>) -> String {
    given(field).unwrap_or_default().to_owned()
}

fn raw_spec(spec: &FloatingIPPoolSpec) -> RawPoolSpec {
    RawPoolSpec {
        provider: text(spec.provider.as_ref()),
        region: text(spec.region.as_ref()),
        desired_ips: spec.desired_ips.unwrap_or_default(),
        ips: spec.ips.clone().unwrap_or_default(),
        released_ips: spec.released_ips.clone().unwrap_or_default(),
        cool_off_seconds: spec.assignment_cool_off_seconds.unwrap_or_default(),
        matching: spec.match_.as_ref().map(raw_match).unwrap_or_default(),
        record_set: spec.dns_record_set.as_ref().map(raw_record_set),
    }
}

fn raw_match(criteria: &Match) -> RawMatch {
    let toleration = |toleration: &crate::api::Toleration| Toleration {
        effect: text(toleration.effect.as_ref()),
        key: text(toleration.key.as_ref()),
        operator: text(toleration.operator.as_ref()),
        value: text(toleration.value.as_ref()),
    };
    RawMatch {
        node_label: text(criteria.node_label.as_ref()),
        pod_namespace: text(criteria.pod_namespace.as_ref()),
        pod_label: text(criteria.pod_label.as_ref()),
        tolerations: criteria.tolerations.iter().flatten().map(toleration).collect(),
    }
}

fn raw_record_set(record_set: &DnsRecordSet) -> RawRecordSet {
    RawRecordSet {
        provider: text(record_set.provider.as_ref()),
        zone: text(record_set.zone.as_ref()),
        record_name: text(record_set.record_name.as_ref()),
        ttl: record_set.ttl.unwrap_or_default(),
        when_empty: text(record_set.when_empty.as_ref()),
    }
}

/// The status of an object as plain data, without times.
#[must_use]
pub fn plain_status(status: &FloatingIPPoolStatus) -> PoolStatus {
    let entry = |entry: &IpStatus| IpEntry {
        state: entry.state.clone(),
        node_name: entry.node_name.clone(),
        provider_id: entry.provider_id.clone(),
        error: entry.error.clone(),
    };
    let condition = |condition: &Condition| PlainCondition {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    };
    PoolStatus {
        ips: status.ips.iter().map(|(ip, status)| (ip.clone(), entry(status))).collect(),
        assignable_nodes: status.assignable_nodes.clone(),
        node_errors: status.node_errors.clone(),
        error: status.error.clone(),
        conditions: status.conditions.iter().map(condition).collect(),
        observed_generation: status.observed_generation.unwrap_or_default(),
        memory: memory(status),
    }
}

/// The operator's memory in a status; `None` where it left none.
fn memory(status: &FloatingIPPoolStatus) -> Option<Memory> {
    let created = status.created_ips.as_ref()?;
    let created = created
        .iter()
        .filter_map(|created| created.ip.parse().ok().map(|ip| Created { ip, written: created.written }));
    let intent = status.creation.as_ref().map(|creation| Intent {
        region: creation.region.clone(),
        known: addresses(&creation.known_ips),
        uncertain: (creation.phase == UNCERTAIN).then(|| addresses(&creation.uncertain_ips)),
    });
    Some(Memory {
        created: created.collect(),
        former: addresses(&status.former_ips),
        orphans: status.orphan_ips.as_deref().map(addresses),
        intent,
    })
}

fn addresses(texts: &[String]) -> BTreeSet<Ipv4Addr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn texts<'a>(addresses: impl IntoIterator<Item = &'a Ipv4Addr>) -> Vec<String> {
    addresses.into_iter().map(ToString::to_string).collect()
}

/// The status as it is written. `before` are the conditions that stand there now, whose times are kept.
#[must_use]
pub fn written_status(
    status: &PoolStatus,
    generation: i64,
    before: &[Condition],
    now: jiff::Timestamp,
) -> FloatingIPPoolStatus {
    let PoolStatus { ips, assignable_nodes, node_errors, error, conditions, observed_generation, memory } =
        status;
    let active = ips.values().filter(|entry| entry.state == IpState::Active.as_str()).count();
    let mut written = FloatingIPPoolStatus {
        ips: ips.iter().map(|(ip, entry)| (ip.clone(), ip_status(entry))).collect(),
        active_ips: i64::try_from(active).ok(),
        assignable_nodes: assignable_nodes.clone(),
        node_errors: node_errors.clone(),
        error: error.clone(),
        conditions: conditions.iter().map(|plain| timed(plain, generation, before, now)).collect(),
        observed_generation: Some(*observed_generation),
        ..FloatingIPPoolStatus::default()
    };
    if let Some(Memory { created, former, orphans, intent }) = memory {
        let created =
            created.iter().map(|created| CreatedIp { ip: created.ip.to_string(), written: created.written });
        written.created_ips = Some(created.collect());
        written.former_ips = texts(former);
        written.orphan_ips = orphans.as_ref().map(texts);
        written.creation = intent.as_ref().map(|Intent { region, known, uncertain }| Creation {
            region: region.clone(),
            known_ips: texts(known),
            phase: if uncertain.is_some() { UNCERTAIN } else { OPEN }.to_owned(),
            uncertain_ips: uncertain.as_ref().map(texts).unwrap_or_default(),
        });
    }
    written
}

fn ip_status(entry: &IpEntry) -> IpStatus {
    IpStatus {
        state: entry.state.clone(),
        node_name: entry.node_name.clone(),
        provider_id: entry.provider_id.clone(),
        error: entry.error.clone(),
    }
}

fn timed(plain: &PlainCondition, generation: i64, before: &[Condition], now: jiff::Timestamp) -> Condition {
    let kept = before.iter().find(|known| known.type_ == plain.kind && known.status == plain.status);
    // Seconds are what metav1.Time keeps.
    let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        type_: plain.kind.clone(),
        status: plain.status.clone(),
        reason: plain.reason.clone(),
        message: plain.message.clone(),
        last_transition_time: kept.and_then(|known| known.last_transition_time.clone()).or(Some(Time(now))),
        observed_generation: Some(generation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let ip = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        Memory {
            created: vec![
                Created { ip: ip("192.0.2.9"), written: false },
                Created { ip: ip("192.0.2.1"), written: true },
            ],
            former: BTreeSet::from([ip("192.0.2.5")]),
            orphans: Some(BTreeSet::new()),
            intent: Some(Intent {
                region: "nyc3".into(),
                known: BTreeSet::from([ip("192.0.2.7")]),
                uncertain: None,
            }),
        }
    }

    #[test]
    fn a_status_comes_back_as_it_was_written() {
        let status = PoolStatus {
            ips: [(
                "192.0.2.1".to_owned(),
                IpEntry { state: "active".into(), node_name: "a".into(), ..IpEntry::default() },
            )]
            .into(),
            assignable_nodes: vec!["b".into()],
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
        };
        let written = written_status(&status, 7, &[], jiff::Timestamp::UNIX_EPOCH);
        let json = serde_json::to_value(&written).unwrap();
        let read: FloatingIPPoolStatus = serde_json::from_value(json).unwrap();
        assert_eq!(plain_status(&read), status);
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

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let plain = |status: &str| PlainCondition {
            kind: "Ready".into(),
            status: status.into(),
            reason: "R".into(),
            message: String::new(),
        };
        let early = jiff::Timestamp::from_second(100).unwrap();
        let late = jiff::Timestamp::from_second(200).unwrap();
        let before = vec![timed(&plain("True"), 1, &[], early)];
        assert_eq!(timed(&plain("True"), 2, &before, late).last_transition_time, Some(Time(early)));
        assert_eq!(timed(&plain("False"), 2, &before, late).last_transition_time, Some(Time(late)));
    }
}
