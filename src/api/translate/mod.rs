//! Translates between the objects of the API server and the plain data that decisions work with.
//!
//! It loses nothing that decisions use, and it decides nothing. It adds the times of conditions: a condition keeps its
//! `lastTransitionTime` for as long as its status stays the same.

pub mod pool;
pub mod record_set;

use crate::api::{Condition, DnsRecordSet, Grace, Match, NodeCheck, UNOBSERVED, given, object_of};
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_core::model::spec::{RawGrace, RawMatch, RawRecordSet};
use flipop_core::model::{Address, Condition as PlainCondition, ObjectRef, RawNodeCheck, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// The metadata that both kinds have.
struct Meta {
    object: ObjectRef,
    created_at_s: i64,
    generation: i64,
    resource_version: String,
    deleting: bool,
    /// The text of the annotation that pauses the object. Even an empty text pauses it.
    paused: Option<String>,
}

fn plain_meta(meta: &ObjectMeta) -> Meta {
    Meta {
        object: object_of(meta),
        created_at_s: meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        // The API server counts from 1. A negative number would read as [`UNOBSERVED`] in the status that names it, and
        // FLIPOP would write that status over and over.
        generation: meta.generation.unwrap_or_default().max(0),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        paused: annotation(meta, PAUSED_ANNOTATION),
    }
}

fn annotation(meta: &ObjectMeta, name: &str) -> Option<String> {
    meta.annotations.as_ref()?.get(name).cloned()
}

fn text(field: Option<&String>) -> String {
    given(field).unwrap_or_default().to_owned()
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

fn raw_grace(grace: &Grace) -> RawGrace {
    RawGrace {
        pod_seconds: grace.pod_seconds.unwrap_or_default(),
        node_seconds: grace.node_seconds.unwrap_or_default(),
        recovery_seconds: grace.recovery_seconds.unwrap_or_default(),
    }
}

fn raw_node_check(check: &NodeCheck) -> RawNodeCheck {
    let NodeCheck { port, period_seconds, timeout_seconds, failure_threshold } = *check;
    RawNodeCheck { port, period_seconds, timeout_seconds, failure_threshold }
}

/// A number of seconds since 1970 as a time of the API.
fn second(second: i64) -> Option<Time> {
    jiff::Timestamp::from_second(second).ok().map(Time)
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

/// The generation that a status describes. 0 if there is none, as in an object without a status.
fn observed(generation: Option<i64>) -> i64 {
    generation.filter(|generation| *generation != UNOBSERVED).unwrap_or_default()
}

fn addresses<C: FromIterator<Address>>(texts: &[String]) -> C {
    texts.iter().filter_map(|text| Address::v4(text)).collect()
}

fn texts<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> Vec<String> {
    addresses.into_iter().map(ToString::to_string).collect()
}

fn plain_conditions(conditions: &[Condition]) -> Vec<PlainCondition> {
    let plain = |condition: &Condition| {
        let Condition { type_: kind, status, reason, message, .. } = condition.clone();
        PlainCondition { kind, status, reason, message }
    };
    conditions.iter().map(plain).collect()
}

/// Conditions to be written. `before` holds the object's current conditions, whose times are kept.
fn timed_conditions(
    plain: &[PlainCondition],
    generation: i64,
    before: &[Condition],
    now: jiff::Timestamp,
) -> Vec<Condition> {
    plain.iter().map(|plain| timed(plain, generation, before, now)).collect()
}

fn timed(plain: &PlainCondition, generation: i64, before: &[Condition], now: jiff::Timestamp) -> Condition {
    let kept = before.iter().find(|known| known.type_ == plain.kind && known.status == plain.status);
    // metav1.Time keeps whole seconds.
    let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    let last_transition_time = kept.and_then(|known| known.last_transition_time.clone()).or(Some(Time(now)));
    let PlainCondition { kind: type_, status, reason, message } = plain.clone();
    let observed_generation = Some(generation);
    Condition { type_, status, reason, message, last_transition_time, observed_generation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{FloatingIPPool, NodeDNSRecordSet, Undecodable};

    #[test]
    fn the_annotation_pauses_by_its_presence_also_an_object_that_cannot_be_decoded() {
        for (annotations, expected) in [
            (serde_json::json!({}), None),
            (serde_json::json!({ "flipop.digitalocean.com/pause": "true" }), None),
            (serde_json::json!({ PAUSED_ANNOTATION: "incident 7" }), Some("incident 7")),
            (serde_json::json!({ PAUSED_ANNOTATION: "" }), Some("")),
            (serde_json::json!({ PAUSED_ANNOTATION: "false" }), Some("false")),
        ] {
            let metadata = serde_json::json!({ "name": "a", "namespace": "b", "annotations": annotations });
            let object = serde_json::json!({ "metadata": metadata.clone(), "spec": {} });
            let pool: FloatingIPPool = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(pool::pool_object(&Ok(pool)).paused.as_deref(), expected);
            let set: NodeDNSRecordSet = serde_json::from_value(object).unwrap();
            assert_eq!(record_set::record_set_object(&Ok(set)).paused.as_deref(), expected);
            let undecodable = Undecodable {
                metadata: Box::new(serde_json::from_value(metadata).unwrap()),
                error: "spec.ips: invalid type".to_owned(),
            };
            assert_eq!(pool::pool_object(&Err(undecodable.clone())).paused.as_deref(), expected);
            assert_eq!(record_set::record_set_object(&Err(undecodable)).paused.as_deref(), expected);
        }
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
