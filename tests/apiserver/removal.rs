//! Objects, nodes, definitions, namespaces and the operator itself are removed in any order. Nothing hangs, and nothing
//! is left that should go.

use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, REGION, SOON, TEAM, World, ip, path, plain_spec, same};
use flipop_envtest::cluster::{Kind, NAMESPACE};
use flipop_envtest::nodes::NewNode;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// How long the provider takes for an assignment here: long enough to delete its node meanwhile.
const ACTION_MS: u64 = 6_000;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Installed:
        a_pool_deleted_while_nobody_leads_leaves_no_annotation_once_somebody_does,
        a_node_deleted_while_its_address_is_on_the_way_hands_it_on_afterwards,
    ];
    cases.extend(cases![InstalledForOne: definitions_deleted_under_the_operator_can_be_applied_again]);
    cases.extend(cases![BareWithControllers: namespaces_can_be_deleted_with_and_without_the_operator]);
    cases
}

/// Waits until a node has no annotation.
async fn is_bare(world: &World, node: &str) -> Outcome {
    eventually(&format!("{node} carries no annotation"), SOON, || async {
        same(world.nodes.annotation(node, ANNOTATION).await?, None).map_err(Failure::new)
    })
    .await
}

async fn a_pool_deleted_while_nobody_leads_leaves_no_annotation_once_somebody_does(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node_with("beta", |node| node.label("pool", "other")).await?;
    world.plain_pool("p", &[10]).await?;
    let mut other = plain_spec(&[11]);
    other["match"]["nodeLabel"] = json!("pool=other");
    world.pool("q", &other).await?;
    let mut operator = world.operator().await?;
    world.annotation_settles("alpha", Some(10)).await?;
    world.annotation_settles("beta", Some(11)).await?;
    let pool = world.cluster.get(Kind::Pool, TEAM, "p").await?;
    assert!(pool["metadata"]["finalizers"].is_null(), "{}", pool["metadata"]);
    operator.kill_9();
    world.cluster.delete_lease().await?;
    world.cluster.delete(Kind::Pool, TEAM, "p").await?;
    assert!(world.cluster.get(Kind::Pool, TEAM, "p").await.is_err(), "gone at once");
    assert_eq!(world.nodes.annotation("alpha", ANNOTATION).await?, Some(ip(10).to_string()));
    let calls = world.cloud().next_call();
    let _operator = world.operator().await?;
    is_bare(world, "alpha").await?;
    world.annotation_settles("beta", Some(11)).await?;
    assert_eq!(world.mutating_calls(calls), [], "addresses stay where they are");
    // One pool is deleted while an operator leads.
    world.cluster.delete(Kind::Pool, TEAM, "q").await?;
    is_bare(world, "beta").await?;
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn definitions_deleted_under_the_operator_can_be_applied_again(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.plain_pool("p", &[10]).await?;
    let mut operator = world.operator().await?;
    world.annotation_settles("alpha", Some(10)).await?;
    let calls = world.cloud().next_call();
    world.kubectl.run(&["delete", "--timeout=30s", "-f", &path("crds")]).await?;
    is_bare(world, "alpha").await?;
    assert!(operator.runs()?, "{}", operator.log_tail());
    assert_eq!(operator.get("/healthz").await?.0, 200);
    world.kubectl.run(&["apply", "-f", &path("crds")]).await?;
    world.cluster.kinds_established().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.annotation_settles("alpha", Some(10)).await?;
    assert_eq!(world.mutating_calls(calls), [], "it stood there all the time");
    Ok(())
}

async fn namespaces_can_be_deleted_with_and_without_the_operator(world: &mut World) -> Outcome {
    world.cluster.install(&world.kubectl, &path("k8s")).await?;
    let controllers = world.server.controllers(&["namespace-controller"])?;
    assert!(controllers.is_some(), "no kube-controller-manager");
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node_with("beta", |node| node.label("pool", "other")).await?;
    let mut operator = world.operator().await?;
    let delete = ["delete", "namespace", "--timeout=50s"];
    let mut other = plain_spec(&[11]);
    other["match"]["nodeLabel"] = json!("pool=other");
    for (namespace, spec) in [("one", plain_spec(&[10])), ("two", other)] {
        world.cluster.namespace(namespace, None).await?;
        world.cluster.create(Kind::Pool, namespace, "p", &spec).await?;
    }
    world.annotation_settles("alpha", Some(10)).await?;
    world.annotation_settles("beta", Some(11)).await?;
    let calls = world.cloud().next_call();
    world.kubectl.run(&[&delete[..], &["one"]].concat()).await?;
    is_bare(world, "alpha").await?;
    assert_eq!(world.nodes.annotation("beta", ANNOTATION).await?, Some(ip(11).to_string()));
    // The operator's own namespace is deleted while it runs, with its account and its Lease.
    world.kubectl.run(&[&delete[..], &[NAMESPACE]].concat()).await?;
    world.kubectl.run(&[&delete[..], &["two"]].concat()).await?;
    operator.signal(flipop_envtest::process::Signal::TERM)?;
    operator.wait_end(Duration::from_secs(12)).await?;
    assert_eq!(world.mutating_calls(calls), []);
    // A later installation removes the left-overs.
    world.cluster.install(&world.kubectl, &path("k8s")).await?;
    let _operator = world.operator().await?;
    is_bare(world, "beta").await
}

async fn a_node_deleted_while_its_address_is_on_the_way_hands_it_on_afterwards(world: &mut World) -> Outcome {
    let (_operator, beta) = world.on_alpha_beside_beta().await?;
    world.cloud().tune(|knobs| knobs.action_ms = ACTION_MS);
    let since = world.cloud().next_call();
    world.nodes.set_ready("alpha", false).await?;
    let sent = eventually("the address is on its way to beta", SOON, || async {
        let calls = world.mutating_calls(since);
        calls.into_iter().find(|call| call.effect).ok_or_else(|| Failure::new("not yet"))
    })
    .await?;
    let gamma = world.cloud().add_droplet("gamma", REGION);
    world.nodes.delete("beta").await?;
    let node = NewNode::new("gamma").droplet(gamma).label("pool", "work");
    world.nodes.create(&node).await?;
    world.pool_settles("p", &[(10, "gamma")]).await?;
    assert_eq!(world.assigns(since), [(ip(10), beta), (ip(10), gamma)]);
    let second = world.mutating_calls(sent.seq + 1);
    assert!(second.iter().all(|call| call.at_ms >= sent.at_ms + ACTION_MS), "{sent:?}, then {second:?}");
    Ok(())
}
