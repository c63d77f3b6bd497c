//! `spec.grace` during a rolling restart of a Deployment, which moves the address without it, and its bounds.

use crate::suite::{Case, cases};
use crate::world::{SOON, World, ip, plain_spec, same};
use flipop_envtest::cluster::Kind;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Installed: a_mistake_in_the_grace_is_refused_or_told];
    cases.extend(cases![BareWithControllers: a_rolling_restart_moves_nothing_within_the_grace]);
    cases
}

/// Several times as long as an operator needs to move an address without waiting.
const MEANWHILE: Duration = Duration::from_secs(3);

/// How often the address has moved since, after the operator had time to move it.
async fn moves(world: &World, since: u64) -> Outcome<usize> {
    tokio::time::sleep(MEANWHILE).await;
    Ok(world.assigns(since).len())
}

fn patient() -> Value {
    json!({ "podSeconds": 60, "nodeSeconds": 300 })
}

async fn a_mistake_in_the_grace_is_refused_or_told(world: &mut World) -> Outcome {
    let mut spec = plain_spec(&[10]);
    spec["grace"] = json!({ "podSeconds": 3_601 });
    let Err(refused) = world.pool("p", &spec).await else {
        return Err(Failure::new("the API server takes it"));
    };
    let refused = refused.to_string();
    assert!(refused.contains("spec.grace.podSeconds") && refused.contains("3600"), "{refused}");
    Ok(())
}

/// Removes the pool, the pods, the nodes and the address.
async fn away(world: &World) -> Outcome {
    world.cluster.delete(Kind::Pool, "default", "p").await?;
    world.kubectl.run(&["delete", "pods", "--all", "-n", "web", "--force", "--grace-period=0"]).await?;
    world.kubectl.run(&["delete", "nodes", "--all"]).await?;
    world.cloud().delete_ip(ip(10));
    Ok(())
}

async fn a_rolling_restart_moves_nothing_within_the_grace(world: &mut World) -> Outcome {
    world.cluster.install(&world.kubectl, &crate::world::path("k8s")).await?;
    let controllers = world.server.controllers(&["deployment-controller", "replicaset-controller"])?;
    assert!(controllers.is_some(), "no kube-controller-manager");
    world.cluster.namespace("web", None).await?;
    world.kubectl.apply("web", DEPLOYMENT).await?;
    for (grace, restarts) in [(Some(patient()), 0..1), (None, 1..3)] {
        world.reserve(&[10]);
        for node in ["alpha", "beta"] {
            world.node(node).await?;
        }
        let _operator = world.operator().await?;
        let mut spec = plain_spec(&[10]);
        (spec["match"]["podNamespace"], spec["match"]["podLabel"]) = (json!("web"), json!("app=web"));
        if let Some(grace) = grace {
            spec["grace"] = grace;
        }
        let rolled = async {
            until_rolled_out(world).await?;
            world.pool("p", &spec).await?;
            world.pool_shows("p", "an address serves", SOON, |pool| same(pool.active().len(), 1)).await?;
            let since = world.cloud().next_call();
            world.kubectl.run(&["rollout", "restart", "deployment/web", "-n", "web"]).await?;
            until_rolled_out(world).await?;
            moves(world, since).await
        };
        let moved = tokio::select! {
            moved = rolled => moved?,
            Err(failure) = run_pods(world) => return Err(failure),
        };
        assert!(restarts.contains(&moved), "{moved} moves, expected {restarts:?}");
        away(world).await?;
    }
    Ok(())
}

/// One pod per node, one after the other.
const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{ name: main, image: none }]
";

async fn until_rolled_out(world: &World) -> Outcome {
    let wait = ["rollout", "status", "deployment/web", "-n", "web", "--timeout=60s"];
    world.kubectl.run(&wait).await.map(drop)
}

/// Schedules each pod to the node without one, and runs it, as a scheduler and kubelets would. Never ends.
async fn run_pods(world: &World) -> Outcome {
    loop {
        let pods = world.kubectl.run(&["get", "pods", "-n", "web", "-o", "json"]).await?;
        let pods: Value = serde_json::from_str(&pods.stdout)?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let is_on = |node: &&&str| pods.iter().any(|pod| pod["spec"]["nodeName"] == **node);
            if pod["spec"]["nodeName"].is_null() {
                let Some(free) = ["alpha", "beta"].iter().find(|node| !is_on(node)) else { continue };
                world.nodes.bind_pod("web", name, free).await?;
                break;
            }
            if pod["status"]["phase"] != "Running" {
                world.nodes.set_pod_ready("web", name, true).await?;
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
