//! `spec.grace` during a rolling restart, a kubelet restart, a reboot and a drain. Without grace each of them moves the
//! address; with grace only the drain does.

use crate::suite::{Case, cases};
use crate::world::{SOON, World, ip, plain_spec, same};
use flipop::clock::Clock;
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Installed:
        a_kubelet_that_restarts_moves_nothing_within_the_grace,
        a_reboot_moves_nothing_within_the_grace,
        a_drain_moves_the_address_at_once,
        a_node_that_stays_away_loses_its_address_when_its_grace_is_over,
        a_mistake_in_the_grace_is_refused_or_told,
    ];
    cases.extend(cases![BareWithControllers: a_rolling_restart_moves_nothing_within_the_grace]);
    cases
}

/// Several times as long as an operator needs to move an address without waiting.
const MEANWHILE: Duration = Duration::from_secs(3);

/// A pool `p` whose only address is on `alpha`, with a serving pod on `alpha` as on `beta`.
async fn on_alpha(world: &World, grace: Option<Value>) -> Outcome<(Operator, u64)> {
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.pod("a", "alpha").await?;
    let operator = world.operator().await?;
    let mut spec = plain_spec(&[10]);
    spec["match"]["podNamespace"] = json!("web");
    spec["match"]["podLabel"] = json!("app=web");
    if let Some(grace) = grace {
        spec["grace"] = grace;
    }
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.node("beta").await?;
    world.pod("b", "beta").await?;
    world
        .pool_shows("p", "beta waits", SOON, |pool| same(pool.names("assignableNodes"), vec!["beta".into()]))
        .await?;
    Ok((operator, world.cloud().next_call()))
}

/// How often the address has moved since, after the operator had time to move it.
async fn moves(world: &World, since: u64) -> Outcome<usize> {
    tokio::time::sleep(MEANWHILE).await;
    Ok(world.assigns(since).len())
}

fn patient() -> Value {
    json!({ "podSeconds": 60, "nodeSeconds": 300 })
}

/// Sets the status of a node's `Ready`, as the node controller writes `Unknown`.
async fn ready(world: &World, node: &str, status: &str) -> Outcome {
    let now = Clock::system().timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({ "type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": now });
    world.nodes.patch_status(node, &json!({ "conditions": [condition] })).await
}

const UNREACHABLE: [(&str, &str, &str); 2] = [
    ("node.kubernetes.io/unreachable", "", "NoSchedule"),
    ("node.kubernetes.io/unreachable", "", "NoExecute"),
];

async fn a_kubelet_that_restarts_moves_nothing_within_the_grace(world: &mut World) -> Outcome {
    for (grace, expected) in [(Some(patient()), 0), (None, 1)] {
        let (_operator, since) = on_alpha(world, grace).await?;
        ready(world, "alpha", "False").await?;
        world.nodes.set_taints("alpha", &[("node.kubernetes.io/not-ready", "", "NoSchedule")]).await?;
        assert_eq!(moves(world, since).await?, expected);
        ready(world, "alpha", "True").await?;
        world.nodes.set_taints("alpha", &[]).await?;
        assert_eq!(moves(world, since).await?, expected);
        away(world).await?;
    }
    Ok(())
}

async fn a_reboot_moves_nothing_within_the_grace(world: &mut World) -> Outcome {
    for (grace, expected) in [(Some(patient()), 0), (None, 1)] {
        let patient = grace.is_some();
        let (_operator, since) = on_alpha(world, grace).await?;
        ready(world, "alpha", "Unknown").await?;
        world.nodes.set_taints("alpha", &UNREACHABLE).await?;
        world.nodes.set_pod_ready("web", "a", false).await?;
        assert_eq!(moves(world, since).await?, expected);
        if patient {
            world
                .pool_shows("p", "the failure is told", SOON, |pool| pool.has_condition("NodeFailing"))
                .await?;
            let address = ip(10).to_string();
            let pool = world.get_pool("p").await?;
            assert_eq!((pool.state(10), pool.of_ip(&address, "suspectReason")), ("active", "ReadyUnknown"));
        }
        // The node is Ready before its pods are.
        ready(world, "alpha", "True").await?;
        world.nodes.set_taints("alpha", &[]).await?;
        assert_eq!(moves(world, since).await?, expected);
        world.nodes.set_pod_ready("web", "a", true).await?;
        assert_eq!(moves(world, since).await?, expected);
        if patient {
            world
                .pool_shows("p", "the failure is over", SOON, |pool| {
                    same(pool.conditions_with("Suspect"), vec![])
                })
                .await?;
            event(world, "FailoverDelayed").await?;
            event(world, "FailoverAvoided").await?;
        }
        away(world).await?;
    }
    Ok(())
}

async fn a_drain_moves_the_address_at_once(world: &mut World) -> Outcome {
    for grace in [Some(patient()), None] {
        let (_operator, since) = on_alpha(world, grace).await?;
        world.kubectl.run(&["cordon", "alpha"]).await?;
        world.nodes.set_taints("alpha", &[("node.kubernetes.io/unschedulable", "", "NoSchedule")]).await?;
        world.nodes.terminate_pod("web", "a").await?;
        world.pool_settles_within("p", &[(10, "beta")], SOON).await?;
        assert_eq!(world.assigns(since).len(), 1);
        away(world).await?;
    }
    Ok(())
}

async fn a_node_that_stays_away_loses_its_address_when_its_grace_is_over(world: &mut World) -> Outcome {
    let (_operator, since) = on_alpha(world, Some(json!({ "nodeSeconds": 5 }))).await?;
    let failed = tokio::time::Instant::now();
    ready(world, "alpha", "Unknown").await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    let calls = world.assigns(since).len();
    assert_eq!(calls, 1);
    assert!(failed.elapsed() >= Duration::from_secs(5), "it moved after {:?}", failed.elapsed());
    Ok(())
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

/// Waits for an Event of the pool.
async fn event(world: &World, reason: &'static str) -> Outcome {
    let filter = format!("--field-selector=reason={reason}");
    let what = format!("an Event {reason}");
    eventually(&what, SOON, || async {
        let ran = world.kubectl.run(&["get", "events", "-n", "default", &filter, "-o", "name"]).await?;
        if ran.stdout.trim().is_empty() { Err(Failure::new("there is none")) } else { Ok(()) }
    })
    .await
}

/// Removes everything that [`on_alpha`] created.
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
