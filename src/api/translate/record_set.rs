//! Translates the spec and status of a `NodeDNSRecordSet`.

use super::{
    Meta, addresses, observed, plain_conditions, plain_meta, raw_grace, raw_match, raw_node_check,
    raw_record_set, second, text, texts, timed_conditions,
};
use crate::api::{self, Condition, NodeDNSRecordSet, NodeDNSRecordSetSpec, NodeDNSRecordSetStatus, Seen};
use flipop_core::records::spec::RawRecordSetSpec;
use flipop_core::records::status::{RecordSetObject, RecordSetStatus, SuspectNode};

/// A record set as shown by the watch.
pub fn record_set_object(seen: &Seen<NodeDNSRecordSet>) -> RecordSetObject {
    let Meta { object, created_at_s, generation, resource_version, deleting, paused } =
        plain_meta(api::meta_of(seen));
    let spec = seen.as_ref().map(|set| raw_spec(&set.spec)).map_err(|unread| unread.error.clone());
    let status = seen.as_ref().ok().and_then(|set| set.status.as_ref()).map(plain_status).unwrap_or_default();
    RecordSetObject { object, created_at_s, generation, resource_version, deleting, paused, spec, status }
}

fn raw_spec(spec: &NodeDNSRecordSetSpec) -> RawRecordSetSpec {
    RawRecordSetSpec {
        provider: text(spec.provider.as_ref()),
        matching: spec.match_.as_ref().map(raw_match).unwrap_or_default(),
        record_set: spec.dns_record_set.as_ref().map(raw_record_set),
        address_type: text(spec.address_type.as_ref()),
        grace: spec.grace.as_ref().map(raw_grace).unwrap_or_default(),
        node_check: spec.node_check.as_ref().map(raw_node_check),
        too_large: spec.too_large.clone(),
    }
}

/// The status of an object as plain data, without times.
pub fn plain_status(status: &NodeDNSRecordSetStatus) -> RecordSetStatus {
    RecordSetStatus {
        state: status.state.clone(),
        error: status.error.clone(),
        conditions: plain_conditions(&status.conditions),
        observed_generation: observed(status.observed_generation),
        fqdn: status.fqdn.clone(),
        addresses: addresses(&status.addresses),
        suspects: status.suspects.iter().filter_map(suspect).collect(),
    }
}

/// A node is a suspect only if the start of its failure is readable.
fn suspect(node: &api::SuspectNode) -> Option<(String, SuspectNode)> {
    let since_s = node.since.as_ref()?.0.as_second();
    Some((node.node.clone(), SuspectNode { since_s, reason: node.reason.clone() }))
}

/// The status as written. `before` holds the current conditions, whose times are kept.
pub fn written_status(
    status: &RecordSetStatus,
    generation: i64,
    before: &[Condition],
    now: jiff::Timestamp,
) -> NodeDNSRecordSetStatus {
    let RecordSetStatus { state, error, conditions, observed_generation, fqdn, addresses, suspects } = status;
    let suspect = |(node, suspect): (&String, &SuspectNode)| api::SuspectNode {
        node: node.clone(),
        since: second(suspect.since_s),
        reason: suspect.reason.clone(),
    };
    NodeDNSRecordSetStatus {
        state: state.clone(),
        error: error.clone(),
        conditions: timed_conditions(conditions, generation, before, now),
        observed_generation: Some(*observed_generation),
        fqdn: fqdn.clone(),
        addresses: texts(addresses),
        suspects: suspects.iter().map(suspect).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipop_core::model::{Address, Condition as PlainCondition};

    #[test]
    fn the_status_of_an_object_that_nobody_has_looked_at_says_nothing() {
        let unobserved = serde_json::json!({ "observedGeneration": -1 });
        let read: NodeDNSRecordSetStatus = serde_json::from_value(unobserved).unwrap();
        assert_eq!(plain_status(&read), RecordSetStatus::default());
    }

    #[test]
    fn a_status_comes_back_as_it_was_written() {
        let status = RecordSetStatus {
            state: "error".into(),
            error: "e".into(),
            conditions: vec![PlainCondition {
                kind: "Ready".into(),
                status: "False".into(),
                reason: "R".into(),
                message: "m".into(),
            }],
            observed_generation: 7,
            fqdn: "www.example.com".into(),
            addresses: vec![Address::from([192, 0, 2, 1]), Address::from([192, 0, 2, 2])],
            suspects: [("a".into(), SuspectNode { since_s: 1_795_705_200, reason: "NotReady".into() })]
                .into(),
        };
        let written = written_status(&status, 7, &[], jiff::Timestamp::UNIX_EPOCH);
        let json = serde_json::to_value(&written).unwrap();
        let read: NodeDNSRecordSetStatus = serde_json::from_value(json).unwrap();
        assert_eq!(plain_status(&read), status);
    }
}
