//! Labels of nodes on a real API server: under the admission policy, through a move, a crash and an older policy. Also
//! the objects of other projects that select nodes by these labels.

use crate::suite::{Case, cases};
use crate::world::{SOON, World, ip, path, plain_spec, same};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const ACTIVE: &str = "flipop.digitalocean.com/reserved-ip-active";
const IP: &str = "flipop.digitalocean.com/reserved-ip";
const LEGACY_IP: &str = "do-outbound-floating-ip";
const LEGACY_ENABLED: &str = "do-outbound-floating-ip-enabled";

pub(crate) fn cases() -> Vec<Case> {
    let mut all = cases![Installed:
        labels_follow_the_address_and_a_crash_leaves_none,
    ];
    all.extend(cases![InstalledForOne:
        an_older_node_policy_costs_the_labels_and_not_the_annotation,
        what_the_documents_show_for_others_is_accepted,
    ]);
    all
}

async fn labels(world: &World, node: &str) -> Outcome<BTreeMap<String, String>> {
    let labels = world.nodes.get(node).await?.metadata.labels.unwrap_or_default();
    Ok(labels
        .into_iter()
        .filter(|(key, _)| [ACTIVE, IP, LEGACY_IP, LEGACY_ENABLED].contains(&key.as_str()))
        .collect())
}

async fn labelled(world: &World, node: &str, wanted: &[(&str, &str)]) -> Outcome {
    let wanted: BTreeMap<String, String> =
        wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    eventually(&format!("{node} is labelled {wanted:?}"), SOON, || async {
        same(labels(world, node).await?, wanted.clone()).map_err(Failure::new)
    })
    .await
}

fn spec(legacy: bool) -> Value {
    let mut spec = plain_spec(&[10]);
    spec["nodeLabels"] = json!({ "enabled": true, "legacy": legacy });
    spec
}

async fn labels_follow_the_address_and_a_crash_leaves_none(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node_with("alpha", |node| node.label("mine", "kept")).await?;
    world.node("beta").await?;
    let mut operator = world.operator().await?;
    world.pool("p", &spec(true)).await?;
    let address = ip(10).to_string();
    let here = [(ACTIVE, "true"), (IP, &address), (LEGACY_IP, &address), (LEGACY_ENABLED, "true")];
    labelled(world, "alpha", &here).await?;
    labelled(world, "beta", &[(LEGACY_ENABLED, "false")]).await?;
    world.nodes.set_taints("alpha", &[("drain", "", "NoSchedule")]).await?;
    labelled(world, "beta", &here).await?;
    labelled(world, "alpha", &[]).await?;
    world.annotation_settles("beta", Some(10)).await?;
    operator.kill_9();
    world.kubectl.run(&["delete", "fipool", "p"]).await?;
    let _next = world.operator().await?;
    labelled(world, "beta", &[]).await?;
    world.annotation_settles("beta", None).await?;
    let alpha = world.nodes.get("alpha").await?.metadata.labels.unwrap_or_default();
    assert_eq!(alpha.get("mine").map(String::as_str), Some("kept"));
    Ok(())
}

async fn an_older_node_policy_costs_the_labels_and_not_the_annotation(world: &mut World) -> Outcome {
    let policy = fs::read_to_string(path("k8s/policy-node-annotation.yaml"))?;
    // The policy of a release without labels.
    let older = policy.replace(
        "variables.labels.all(key, key in variables.addressLabels || key in variables.flagLabels\n      || (key",
        "variables.labels.all(key, (key",
    );
    assert_ne!(older, policy);
    world.kubectl.apply("flipop", &older).await?;
    world.reserve(&[10]);
    world.node("alpha").await?;
    eventually("the older policy is in force", SOON, || async {
        let operator = world.operator_kubeconfig().await?;
        let label = ["label", "node", "alpha", "do-outbound-floating-ip=203.0.113.10", "--overwrite"];
        match world.kubectl.with_kubeconfig(&operator).run(&label).await {
            Ok(_) => Err(Failure::new("a label could be set")),
            Err(_) => Ok(()),
        }
    })
    .await?;
    world.kubectl.run(&["label", "node", "alpha", "do-outbound-floating-ip-"]).await?;
    let _operator = world.operator().await?;
    world.pool("p", &spec(false)).await?;
    world.annotation_settles("alpha", Some(10)).await?;
    world
        .pool_shows("p", "it says so", SOON, |pool| {
            pool.has_condition("FLIPOP may change no labels of a node except")
        })
        .await?;
    labelled(world, "alpha", &[]).await
}

/// CRDs of other projects, with only the fields that the documents use, so that a wrong field is refused.
const DEFINITIONS: [(&str, &str, &str, &str, bool); 2] = [
    ("cilium.io", "v2", "CiliumEgressGatewayPolicy", "ciliumegressgatewaypolicies", false),
    ("networking.doks.digitalocean.com", "v1alpha1", "Route", "routes", false),
];

async fn what_the_documents_show_for_others_is_accepted(world: &mut World) -> Outcome {
    let strings = json!({ "type": "array", "items": { "type": "string" } });
    let selector = json!({ "type": "object", "properties": {
        "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
    } });
    let policy = json!({ "type": "object", "required": ["selectors", "destinationCIDRs", "egressGateway"], "properties": {
        "selectors": { "type": "array", "items": { "type": "object", "properties": { "podSelector": selector } } },
        "destinationCIDRs": strings, "excludedCIDRs": strings,
        "egressGateway": { "type": "object", "required": ["nodeSelector"], "properties": {
            "nodeSelector": selector, "interface": { "type": "string" }, "egressIP": { "type": "string" },
        } },
    } });
    // A core/v1 NodeSelector, as DigitalOcean documents it.
    let requirement = json!({ "type": "object", "required": ["key", "operator"], "properties": {
        "key": { "type": "string" }, "operator": { "type": "string" }, "values": strings,
    } });
    let node_selector = json!({ "type": "object", "required": ["nodeSelectorTerms"], "properties": {
        "nodeSelectorTerms": { "type": "array", "items": { "type": "object", "properties": {
            "matchExpressions": { "type": "array", "items": requirement },
        } } },
    } });
    let route = json!({ "type": "object", "required": ["destinations", "gateways"], "properties": {
        "destinations": strings, "gateways": strings, "nodeSelector": node_selector,
    } });
    for ((group, version, kind, plural, namespaced), spec) in DEFINITIONS.into_iter().zip([policy, route]) {
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind },
                "versions": [{ "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
            },
        });
        world.kubectl.apply("default", &definition.to_string()).await?;
        let name = format!("crd/{plural}.{group}");
        world.kubectl.run(&["wait", &name, "--for=condition=Established", "--timeout=30s"]).await?;
    }
    let page = fs::read_to_string(path("docs/recipes/egress.md"))?;
    let blocks: Vec<&str> = page
        .split("```yaml not applied: ")
        .skip(1)
        .filter_map(|rest| rest.split_once('\n')?.1.split_once("```").map(|(block, _)| block))
        .collect();
    assert_eq!(blocks.len(), DEFINITIONS.len());
    for block in blocks {
        assert!(block.contains("flipop.digitalocean.com/reserved-ip-active"), "{block}");
        world.kubectl.apply("default", block).await?;
    }
    Ok(())
}
