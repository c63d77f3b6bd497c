//! The manifests, applied as in docs/operations/install.md: on a new cluster, and over the Go operator's.

use crate::suite::{Case, cases};
use crate::world::{World, path};
use flipop_envtest::cluster::{Kind, NAMESPACE};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

/// The controller checks a policy moments after its creation.
const TYPE_CHECK_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Bare:
        the_crds_apply_on_their_own_and_kubectl_knows_their_names,
        the_manifests_apply_without_a_warning_and_a_second_time_without_a_change,
        the_manifests_apply_over_those_of_the_go_operator,
        what_the_go_operator_stored_is_served_after_the_manifests_replaced_its_own,
        only_an_object_without_a_status_says_that_nobody_has_looked_at_it,
        a_pod_of_the_deployment_is_admitted_where_restricted_is_enforced,
    ];
    cases.extend(cases![BareWithControllers: the_admission_policies_pass_the_type_check]);
    cases
}

async fn the_crds_apply_on_their_own_and_kubectl_knows_their_names(world: &mut World) -> Outcome {
    world.kubectl.run(&["apply", "-f", &path("crds")]).await?;
    world.cluster.kinds_established().await?;
    world.pool("mine", &json!({ "provider": "digitalocean", "ips": ["203.0.113.10"] })).await?;
    for name in ["fipool", "floatingippool", "floatingippools", "flipop"] {
        let ran = world.kubectl.run(&["get", name, "-o", "name"]).await?;
        assert_eq!(ran.stdout.trim(), "floatingippool.flipop.digitalocean.com/mine", "kubectl get {name}");
    }
    let explained = world.kubectl.run(&["explain", "fipool.spec.desiredIPs"]).await?;
    // kubectl wraps the lines.
    let words: Vec<&str> = explained.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("created in `region`"), "{}", explained.stdout);
    world.kubectl.run(&["explain", "nodedns.spec.addressType"]).await?;
    Ok(())
}

async fn the_manifests_apply_without_a_warning_and_a_second_time_without_a_change(
    world: &mut World,
) -> Outcome {
    world.cluster.namespace(NAMESPACE, Some("restricted")).await?;
    let manifests = path("k8s");
    let apply = ["apply", "-n", NAMESPACE, "-f", &manifests];
    let first = world.kubectl.run(&apply).await?;
    assert_eq!(first.stderr, "");
    assert!(first.stdout.contains("deployment.apps/flipop created"), "{}", first.stdout);
    world.cluster.kinds_established().await?;
    let before = versions(world).await?;
    let second = world.kubectl.run(&apply).await?;
    assert_eq!(second.stderr, "");
    assert_eq!(versions(world).await?, before);
    Ok(())
}

/// Kind, name and resource version of every object in the manifests.
async fn versions(world: &World) -> Outcome<Vec<(String, String, String)>> {
    let objects = read(world, &["get", "-n", NAMESPACE, "-f", &path("k8s")]).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = |object: &Value| {
        let metadata = &object["metadata"];
        (text(&object["kind"]), text(&metadata["name"]), text(&metadata["resourceVersion"]))
    };
    Ok(objects["items"].as_array().into_iter().flatten().map(version).collect())
}

async fn go_operator(world: &World) -> Outcome {
    world.cluster.namespace(NAMESPACE, None).await?;
    world.kubectl.run(&["apply", "-f", &path("tests/corpus/go-crds")]).await?;
    world.cluster.kinds_established().await?;
    world.kubectl.run(&["apply", "-n", NAMESPACE, "-f", &path("tests/corpus/go-install")]).await?;
    world.kubectl.run(&["apply", "-f", &path("tests/apiserver/fixtures/go-objects.yaml")]).await?;
    Ok(())
}

async fn read(world: &World, arguments: &[&str]) -> Outcome<Value> {
    let ran = world.kubectl.run(&[arguments, &["-o", "json"]].concat()).await?;
    Ok(serde_json::from_str(&ran.stdout)?)
}

async fn the_manifests_apply_over_those_of_the_go_operator(world: &mut World) -> Outcome {
    go_operator(world).await?;
    let deployment = ["get", "deployment", "flipop", "-n", NAMESPACE];
    let before = read(world, &deployment).await?;
    let applied = world.kubectl.run(&["apply", "-n", NAMESPACE, "-f", &path("k8s")]).await?;
    assert_eq!(applied.stderr, "");
    let after = read(world, &deployment).await?;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "replaced instead of changed");
    assert_eq!(after["spec"]["selector"]["matchLabels"], json!({ "app": "flipop" }));
    assert_eq!(after["spec"]["replicas"], 2);
    let variables =
        after["spec"]["template"]["spec"]["containers"][0]["env"].as_array().into_iter().flatten();
    for variable in variables.filter(|variable| variable["valueFrom"]["secretKeyRef"].is_object()) {
        assert_eq!(variable["valueFrom"]["secretKeyRef"]["optional"], true, "{variable}");
    }
    let role = read(world, &["get", "role", "flipop", "-n", NAMESPACE]).await?;
    let resources: Vec<&Value> =
        role["rules"].as_array().into_iter().flatten().map(|rule| &rule["resources"]).collect();
    assert!(!resources.iter().any(|names| names.to_string().contains("configmaps")), "{resources:?}");
    Ok(())
}

async fn what_the_go_operator_stored_is_served_after_the_manifests_replaced_its_own(
    world: &mut World,
) -> Outcome {
    go_operator(world).await?;
    let status = json!({
        "error": "",
        "ips": { "203.0.113.10": { "state": "active", "nodeName": "a", "providerID": "digitalocean://1", "error": "" } },
        "nodeErrors": [], "assignableNodes": ["b"],
    });
    world.cluster.replace_status(Kind::Pool, "default", "from-go", &status).await?;
    let before = world.cluster.get(Kind::Pool, "default", "from-go").await?;
    let before_set = world.cluster.get(Kind::RecordSet, "default", "from-go").await?;
    world.kubectl.run(&["apply", "-n", NAMESPACE, "-f", &path("k8s")]).await?;
    world.cluster.kinds_established().await?;
    let after = world.cluster.get(Kind::Pool, "default", "from-go").await?;
    let after_set = world.cluster.get(Kind::RecordSet, "default", "from-go").await?;
    assert_eq!((&after["spec"], &after["status"]), (&before["spec"], &before["status"]));
    assert_eq!(after_set["spec"], before_set["spec"]);
    // Both can still be written.
    world.cluster.replace_status(Kind::Pool, "default", "from-go", &json!({ "error": "x" })).await?;
    world
        .cluster
        .patch_spec(Kind::RecordSet, "default", "from-go", &json!({ "addressType": "InternalIP" }))
        .await
}

/// Flux and `kubectl wait` consider an object healthy if it has no status, or one of this generation.
async fn only_an_object_without_a_status_says_that_nobody_has_looked_at_it(world: &mut World) -> Outcome {
    go_operator(world).await?;
    let by_go = json!({ "state": "active", "error": "" });
    world.cluster.replace_status(Kind::RecordSet, "default", "from-go", &by_go).await?;
    world.kubectl.run(&["apply", "-n", NAMESPACE, "-f", &path("k8s")]).await?;
    world.cluster.kinds_established().await?;
    let nobody = json!({ "observedGeneration": -1 });
    let pool = world.cluster.get(Kind::Pool, "default", "from-go").await?;
    assert_eq!(pool["status"], nobody, "stored by the Go CRDs, and never looked at");
    let set = world.cluster.get(Kind::RecordSet, "default", "from-go").await?;
    assert_eq!(set["status"], by_go, "it has a status, to which nothing is added");

    for (kind, plural) in [("FloatingIPPool", "fipool"), ("NodeDNSRecordSet", "nodedns")] {
        let object = json!({
            "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": kind,
            "metadata": { "name": "new", "namespace": "default" },
            "spec": {}, "status": { "error": "a status that is created with its object counts for nothing" },
        });
        let create = ["create", "-o", "json", "-f", "-"];
        let created = world.kubectl.attempt(&create, Some(&object.to_string())).await?;
        assert!(created.success, "{}", created.stderr);
        let new = read(world, &["get", plural, "new", "-n", "default"]).await?;
        assert_eq!(new["status"], nobody, "{kind}");
        let listed = read(world, &["get", plural, "-n", "default"]).await?;
        assert_eq!(listed["items"][1]["status"], nobody, "{kind}");
    }
    // After a return to the Go operator.
    for kind in Kind::ALL {
        world.cluster.replace_status(kind, "default", "new", &json!({ "error": "x" })).await?;
        assert_eq!(world.cluster.get(kind, "default", "new").await?["status"], json!({ "error": "x" }));
    }
    Ok(())
}

async fn a_pod_of_the_deployment_is_admitted_where_restricted_is_enforced(world: &mut World) -> Outcome {
    world.cluster.install(&world.kubectl, &path("k8s")).await?;
    let deployment = read(world, &["get", "deployment", "flipop", "-n", NAMESPACE]).await?;
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("flipop-0");
    let create = ["create", "--dry-run=server", "-n", NAMESPACE, "-f", "-"];
    let admitted = world.kubectl.attempt(&create, Some(&pod.to_string())).await?;
    assert!(admitted.success, "{}", admitted.stderr);
    assert_eq!(admitted.stderr, "");
    // Its priority class is in the manifests, and the API server knows it.
    let pod_json = ["create", "--dry-run=server", "-n", NAMESPACE, "-o", "json", "-f", "-"];
    let admitted = world.kubectl.attempt(&pod_json, Some(&pod.to_string())).await?;
    let admitted: Value = serde_json::from_str(&admitted.stdout)?;
    let class = read(world, &["get", "priorityclass", "flipop"]).await?;
    assert_eq!(admitted["spec"]["priority"], class["value"]);
    assert!(class["value"].as_u64().is_some_and(|value| value > 0), "{class}");
    the_disruption_budget_covers(world, &deployment).await?;
    // The counter-test: the namespace refuses pods that are not restricted.
    pod["spec"]["securityContext"]["runAsNonRoot"] = json!(false);
    let refused = world.kubectl.attempt(&create, Some(&pod.to_string())).await?;
    assert!(!refused.success && refused.stderr.contains("violates PodSecurity"), "{}", refused.stderr);
    Ok(())
}

/// Checked as stored: the API server drops unknown fields and refuses unknown values.
async fn the_disruption_budget_covers(world: &World, deployment: &Value) -> Outcome {
    let budget = read(world, &["get", "poddisruptionbudget", "flipop", "-n", NAMESPACE]).await?;
    assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"]);
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
    Ok(())
}

async fn the_admission_policies_pass_the_type_check(world: &mut World) -> Outcome {
    world.cluster.install(&world.kubectl, &path("k8s")).await?;
    let controllers = world.server.controllers(&["validatingadmissionpolicy-status-controller"])?;
    assert!(controllers.is_some(), "no kube-controller-manager");
    let world = &*world;
    eventually("every policy was checked, without a warning", TYPE_CHECK_TIMEOUT, || async {
        let policies = read(world, &["get", "validatingadmissionpolicy"]).await?;
        let policies = policies["items"].as_array().cloned().unwrap_or_default();
        if policies.len() < 3 {
            return Err(Failure::new(format!("{} policies", policies.len())));
        }
        for policy in policies {
            let (name, status) = (&policy["metadata"]["name"], &policy["status"]);
            if status["observedGeneration"] != policy["metadata"]["generation"] {
                return Err(Failure::new(format!("{name} is not checked yet")));
            }
            if status["typeChecking"]["expressionWarnings"].is_array() {
                return Err(Failure::new(format!("{name}: {:#}", status["typeChecking"])));
            }
        }
        Ok(())
    })
    .await
}
