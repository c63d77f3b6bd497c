//! Nodes and pods.

use super::corpus::replay;
use super::input::json_like;
use flipop::kube::objects::{FIELD_MANAGER, NodeSlim, PodSlim};
use flipop_core::model::selector::Selector;
use flipop_core::model::{Criteria, NodeFacts, PodFacts, RESERVED_IP_ANNOTATION, Readiness, Taint, verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

fn node(bytes: &[u8]) -> Option<NodeFacts> {
    serde_json::from_slice::<NodeSlim>(bytes).ok().map(NodeSlim::into_facts)
}

fn pod(bytes: &[u8]) -> Option<PodFacts> {
    serde_json::from_slice::<PodSlim>(bytes).ok().map(PodSlim::into_facts)
}

fn node_again(facts: &NodeFacts) -> Value {
    let addresses = |kind: &str, ips: &[flipop_core::model::ids::Address]| -> Vec<Value> {
        ips.iter().map(|ip| json!({"type": kind, "address": ip.to_string()})).collect()
    };
    let external = addresses("ExternalIP", &facts.external_ips);
    let addresses = [external, addresses("InternalIP", &facts.internal_ips)].concat();
    let taint = |taint: &Taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
    let field = format!("f:{RESERVED_IP_ANNOTATION}");
    let fields =
        json!({"manager": FIELD_MANAGER, "fieldsV1": {"f:metadata": {"f:annotations": {field: {}}}}});
    let created = facts.created_at_s.map(|at_s| jiff::Timestamp::from_second(at_s).unwrap().to_string());
    let ready = match facts.ready {
        Readiness::Ready => "True",
        Readiness::NotReady => "False",
        Readiness::Unknown => "Unknown",
    };
    json!({
        "metadata": {
            "name": facts.name, "uid": *facts.uid.0, "creationTimestamp": created,
            "deletionTimestamp": facts.deleting.then_some("2024-01-01T00:00:00Z"),
            "labels": {"topology.kubernetes.io/region": facts.region},
            "annotations": {RESERVED_IP_ANNOTATION: facts.annotation},
            "managedFields": if facts.annotation_ours { json!([fields]) } else { Value::Null },
        },
        "spec": {"providerID": facts.provider_id, "taints": facts.taints.iter().map(taint).collect::<Vec<_>>()},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "addresses": addresses,
        },
    })
}

fn pod_again(facts: &PodFacts) -> Value {
    json!({
        "metadata": {"namespace": facts.namespace, "name": facts.name},
        "spec": {"nodeName": facts.node},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": if facts.serving { "True" } else { "False" }}],
        },
    })
}

fn sound_node(bytes: &[u8]) -> bool {
    let Some(facts) = node(bytes) else { return false };
    assert_eq!(node(node_again(&facts).to_string().as_bytes()).as_ref(), Some(&facts));
    if verdict(&Criteria::new(Selector::default(), None, Vec::new()), &facts, None).is_ok() {
        assert!(
            facts.ready.is_ready()
                && !facts.deleting
                && facts.taints.is_empty()
                && !facts.provider_id.is_empty()
        );
    }
    true
}

fn sound_pod(bytes: &[u8]) -> bool {
    let Some(facts) = pod(bytes) else { return false };
    assert_eq!(pod(pod_again(&facts).to_string().as_bytes()).as_ref(), Some(&facts));
    true
}

#[test]
fn the_samples_are_read_as_their_names_say() {
    replay("node", sound_node);
    replay("pod", sound_pod);
}

proptest! {
    #[test]
    fn any_node_is_sound_or_refused(bytes in json_like("node")) {
        sound_node(&bytes);
    }

    #[test]
    fn any_pod_is_sound_or_refused(bytes in json_like("pod")) {
        sound_pod(&bytes);
    }
}
