//! The operator's service account can change one annotation and four labels of a node, and nothing else.

use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, World, plain_spec};
use flipop_core::model::node_labels::LabelKey;
use flipop_envtest::apiserver::connect;
use flipop_envtest::nodes::Nodes;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A policy takes effect moments after it was applied.
const IN_FORCE_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Installed:
        the_one_annotation_can_be_set_changed_and_removed,
        the_labels_of_addresses_can_be_set_changed_and_removed,
        every_other_change_of_a_node_is_refused,
        nobody_else_is_concerned_by_the_policy,
    ];
    cases.extend(cases![InstalledForOne: a_leader_tells_once_that_no_policy_limits_it]);
    cases
}

/// The line of the log.
const UNLIMITED: &str = "no admission policy limits what this account may change on nodes";

async fn a_leader_tells_once_that_no_policy_limits_it(world: &mut World) -> Outcome {
    world.node("alpha").await?;
    world.node("beta").await?;
    let nodes = as_operator(world).await?;
    world.reserve(&[10]);
    world.pool("p", &plain_spec(&[10])).await?;
    let limited = world.operator().await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    assert!(!limited.log().contains(UNLIMITED), "{}", limited.log_tail());
    drop(limited);
    let other = "request.userInfo.username == 'system:serviceaccount:flipop:prod-flipop'";
    let patch = json!([{ "op": "replace", "path": "/spec/matchConditions/0/expression", "value": other }]);
    let policy = "validatingadmissionpolicy/flipop-node-annotation";
    world.kubectl.run(&["patch", policy, "--type=json", "-p", &patch.to_string()]).await?;
    let attempt = AtomicUsize::new(0);
    eventually("the policy is for another account", IN_FORCE_TIMEOUT, || async {
        let value = format!("y{}", attempt.fetch_add(1, Ordering::Relaxed));
        nodes.set_label("beta", "probe", Some(&value)).await
    })
    .await?;
    let operator = world.operator().await?;
    // Its predecessor's Lease runs out first.
    eventually("the leader tells it", 3 * IN_FORCE_TIMEOUT, || async {
        let told = operator.log().matches(UNLIMITED).count();
        if told == 1 { Ok(()) } else { Err(Failure::new(format!("{told} times: {}", operator.log_tail()))) }
    })
    .await?;
    let probe = "flipop.digitalocean.com/policy-probe";
    for node in ["alpha", "beta"] {
        assert_eq!(world.nodes.annotation(node, probe).await?, None, "a dry run leaves nothing");
    }
    Ok(())
}

/// The nodes with the operator's identity, once the policy is in effect.
async fn as_operator(world: &World) -> Outcome<Nodes> {
    let nodes = Nodes::new(connect(&world.operator_kubeconfig().await?).await?);
    // Another value each time, because a patch without a change is admitted even when the policy is in effect.
    let attempt = AtomicUsize::new(0);
    eventually("the policy is in force", IN_FORCE_TIMEOUT, || async {
        let value = format!("x{}", attempt.fetch_add(1, Ordering::Relaxed));
        match nodes.set_label("alpha", "probe", Some(&value)).await {
            Ok(()) => Err(Failure::new("a label could be set")),
            Err(_) => Ok(()),
        }
    })
    .await?;
    world.nodes.set_label("alpha", "probe", None).await?;
    Ok(nodes)
}

async fn the_one_annotation_can_be_set_changed_and_removed(world: &mut World) -> Outcome {
    world.node_with("alpha", |node| node.annotation("other", "kept")).await?;
    let operator = as_operator(world).await?;
    for value in [Some("203.0.113.10"), Some("203.0.113.11"), None] {
        operator.set_annotation("alpha", ANNOTATION, value).await?;
        assert_eq!(world.nodes.annotation("alpha", ANNOTATION).await?.as_deref(), value);
    }
    assert_eq!(world.nodes.annotation("alpha", "other").await?.as_deref(), Some("kept"));
    Ok(())
}

async fn the_labels_of_addresses_can_be_set_changed_and_removed(world: &mut World) -> Outcome {
    world.node_with("alpha", |node| node.label("other", "kept")).await?;
    let operator = as_operator(world).await?;
    for key in LabelKey::ALL {
        let flag = matches!(key, LabelKey::Active | LabelKey::LegacyEnabled);
        let (good, bad) = if flag {
            (["true", "false"], ["yes", "203.0.113.10"])
        } else {
            (["203.0.113.10", "203.0.113.11"], ["true", "x"])
        };
        for value in good {
            operator.set_label("alpha", key.as_str(), Some(value)).await?;
        }
        for value in bad {
            assert!(operator.set_label("alpha", key.as_str(), Some(value)).await.is_err(), "{key:?}={value}");
        }
        operator.set_label("alpha", key.as_str(), None).await?;
    }
    assert!(operator.set_label("alpha", "other", None).await.is_err(), "another label could be removed");
    Ok(())
}

async fn every_other_change_of_a_node_is_refused(world: &mut World) -> Outcome {
    world
        .node_with("alpha", |node| node.annotation("other", "kept").taint("dedicated", "NoSchedule"))
        .await?;
    let operator = as_operator(world).await?;
    let changes: [(&str, Value); 12] = [
        ("a new label", json!({ "metadata": { "labels": { "new": "x" } } })),
        ("a changed label", json!({ "metadata": { "labels": { "pool": "x" } } })),
        ("a removed label", json!({ "metadata": { "labels": { "pool": null } } })),
        ("a new annotation", json!({ "metadata": { "annotations": { "new": "x" } } })),
        ("a changed annotation", json!({ "metadata": { "annotations": { "other": "x" } } })),
        ("a removed annotation", json!({ "metadata": { "annotations": { "other": null } } })),
        (
            "an annotation beside the right one",
            json!({ "metadata": { "annotations": {
            ANNOTATION: "203.0.113.10", "new": "x",
        } } }),
        ),
        ("a value that is no address", json!({ "metadata": { "annotations": { ANNOTATION: "<script>" } } })),
        ("a removed taint", json!({ "spec": { "taints": null } })),
        ("a cordon", json!({ "spec": { "unschedulable": true } })),
        ("a finalizer", json!({ "metadata": { "finalizers": ["flipop.digitalocean.com/x"] } })),
        (
            "an owner",
            json!({ "metadata": { "ownerReferences": [
            { "apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x" },
        ] } }),
        ),
    ];
    let before = world.nodes.get("alpha").await?;
    for (what, change) in changes {
        let Err(refusal) = operator.patch("alpha", &change).await else { panic!("{what} was accepted") };
        assert!(
            refusal.to_string().contains("flipop.digitalocean.com/ipv4-reserved-ip"),
            "{what}: {refusal}"
        );
    }
    assert!(operator.set_ready("alpha", false).await.is_err(), "the status was accepted");
    assert!(operator.delete("alpha").await.is_err(), "the deletion was accepted");
    let after = world.nodes.get("alpha").await?;
    assert_eq!(after, before);
    Ok(())
}

async fn nobody_else_is_concerned_by_the_policy(world: &mut World) -> Outcome {
    world.node("alpha").await?;
    as_operator(world).await?;
    world.nodes.set_label("alpha", "new", Some("x")).await?;
    world.nodes.set_annotation("alpha", ANNOTATION, Some("whatever an administrator likes")).await?;
    world.nodes.patch("alpha", &json!({ "spec": { "unschedulable": true } })).await
}
