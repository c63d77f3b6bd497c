//! The limits of tenants (k8s/tenants): a table of objects that they allow, and of others with the words of the
//! refusal.

use crate::suite::{Case, cases};
use crate::warnings::changed;
use crate::world::{World, path};
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_envtest::cluster::Kind;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// A policy takes effect moments after it was applied.
const IN_FORCE_TIMEOUT: Duration = Duration::from_secs(20);

/// The id of a zone at Cloudflare.
const ID: &str = "0da42c8d2132a9ddaf714f9e7c920711";

const ZONE: &str = "spec.dnsRecordSet.zone must be listed in flipop.digitalocean.com/tenant-zones";
const FULL: &str = "spec.dnsRecordSet.recordName needs the full name with a final dot";
const DOMAIN: &str = "and must be in a domain of flipop.digitalocean.com/tenant-domains";
const LABEL: &str = "spec.match.nodeLabel must be flipop.digitalocean.com/tenant-node-label";
const PODS: &str = "spec.match.podNamespace is missing";
const MOST: &str = "may be at most flipop.digitalocean.com/tenant-max-addresses of the namespace, now: 3";
const IPS: &str = "spec.ips may get an entry only if";
const RELEASED: &str = "spec.releasedIPs may get an entry only with";
const RECLAIM: &str = "spec.reclaimPolicy may be Delete only if";
const FIREWALL: &str = "spec.firewall may be set only if";
const PORT: &str = "spec.nodeCheck.port may be set only if";
const ALLOWED: &str = "";

/// Its meaning, how it differs from an allowed spec, and the words of the refusal, or [`ALLOWED`].
type Row = (&'static str, Value, &'static str);

pub(crate) fn cases() -> Vec<Case> {
    cases![InstalledForOne: the_annotations_of_a_namespace_limit_its_objects]
}

/// One namespace with limits, one where every field is allowed too, and two that allow nothing.
fn namespaces() -> Value {
    let limits = |fields: &str| {
        json!({
            "flipop.digitalocean.com/tenant-zones": format!("Example.com, {ID}"),
            "flipop.digitalocean.com/tenant-domains": " team-a.example.com,games.example.com ",
            "flipop.digitalocean.com/tenant-node-label": "tenant=team-a",
            "flipop.digitalocean.com/tenant-max-addresses": "3",
            "flipop.digitalocean.com/tenant-fields": fields,
        })
    };
    let mut empty = limits("");
    for text in empty.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        *text = json!("");
    }
    let namespace = |name: &str, annotations: Value| {
        let metadata = json!({ "name": name, "annotations": annotations });
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
    };
    let items = [
        namespace("limited", limits("")),
        namespace("open", limits("ips, firewall,nodeCheck.port, reclaimPolicy")),
        namespace("absent", json!({})),
        namespace("empty", empty),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// An allowed spec.
fn right(kind: Kind) -> Value {
    let both = json!({
        "match": { "nodeLabel": "tenant=team-a", "podNamespace": "web", "podLabel": "app=web" },
        "dnsRecordSet": { "zone": "example.com", "recordName": "www.team-a" },
    });
    match kind {
        Kind::Pool => {
            changed(both, &json!({ "provider": "digitalocean", "region": "nyc3", "desiredIPs": 3 }))
        }
        Kind::RecordSet => changed(both, &json!({ "dnsRecordSet": { "whenEmpty": "Keep" } })),
    }
}

fn name(zone: &str, name: &str) -> Value {
    json!({ "dnsRecordSet": { "zone": zone, "recordName": name } })
}

/// Records, in objects of both kinds.
fn names() -> Vec<Row> {
    vec![
        ("the allowed spec", json!({}), ALLOWED),
        ("another provider", json!({ "dnsRecordSet": { "provider": "cloudflare" } }), ALLOWED),
        ("a zone with a final dot", name("example.com.", "www.team-a"), ALLOWED),
        ("upper case and white space", name(" EXAMPLE.com\n", "WWW.Team-A"), ALLOWED),
        ("two final dots", name("example.com..", "www.team-a"), ZONE),
        ("another zone", name("example.org", "www.team-a"), ZONE),
        ("a zone below an allowed one", name("team-a.example.com", "www"), ZONE),
        ("a zone that ends like an allowed one", name("notexample.com", "www.team-a"), ZONE),
        ("the root zone", name(".", "www.team-a.example.com."), ZONE),
        ("no zone", name("", "www"), ALLOWED),
        ("no name", name("example.org", ""), ALLOWED),
        ("no record set", json!({ "dnsRecordSet": null }), ALLOWED),
        ("the domain itself", name("example.com", "team-a"), ALLOWED),
        ("the other domain", name("example.com", "eu.games"), ALLOWED),
        ("a full name", name("example.com", "www.team-a.example.com"), ALLOWED),
        ("a full name with a final dot", name("example.com", "www.team-a.example.com."), ALLOWED),
        ("a wildcard in the domain", name("example.com", "*.team-a"), ALLOWED),
        ("another name", name("example.com", "www"), DOMAIN),
        (
            "the zone as @",
            name("example.com", "@"),
            "spec.dnsRecordSet.recordName means example.com. and must be",
        ),
        ("the zone by its name", name("example.com", "Example.com"), DOMAIN),
        ("a wildcard of the zone", name("example.com", "*"), DOMAIN),
        ("a name that ends like the domain", name("example.com", "xteam-a"), DOMAIN),
        ("the same in full", name("example.com", "www.xteam-a.example.com."), DOMAIN),
        ("a name of another zone", name("example.com", "team-a.example.org"), DOMAIN),
        ("a final dot outside the zone", name("example.com", "www.team-a."), DOMAIN),
        ("a name with two final dots", name("example.com", "www.team-a.example.com.."), DOMAIN),
        ("white space before the name", name("example.com", " team-a.example.com."), DOMAIN),
        ("an id and a full name", name(ID, "www.team-a.example.com."), ALLOWED),
        ("an id and no final dot", name(ID, "www.team-a.example.com"), FULL),
        ("an id and a relative name", name(ID, "www.team-a"), FULL),
        ("an id and another name", name(ID, "www.example.com."), DOMAIN),
        ("another id", name("0123456789abcdef", "www.team-a.example.com."), ZONE),
    ]
}

/// Nodes and pods, in objects of both kinds.
fn matches() -> Vec<Row> {
    let node = |label: &str| json!({ "match": { "nodeLabel": label } });
    vec![
        ("one more requirement", node("tenant=team-a,size in (a,b)"), ALLOWED),
        ("no label", json!({ "match": { "nodeLabel": null } }), LABEL),
        ("an empty label", node(""), LABEL),
        ("no match", json!({ "match": null }), LABEL),
        ("a longer value", node("tenant=team-ab"), LABEL),
        ("another operator", node("tenant!=team-a"), LABEL),
        ("the label behind another", node("a,tenant=team-a"), LABEL),
        ("white space before the label", node(" tenant=team-a"), LABEL),
        ("pods of every namespace", json!({ "match": { "podNamespace": null } }), PODS),
        ("an empty namespace", json!({ "match": { "podNamespace": "" } }), PODS),
        ("no pods", json!({ "match": { "podNamespace": "", "podLabel": "" } }), ALLOWED),
        ("every pod of a namespace", json!({ "match": { "podLabel": null } }), ALLOWED),
        ("every taint", json!({ "match": { "tolerations": [{ "operator": "Exists" }] } }), ALLOWED),
        ("node checks", json!({ "nodeCheck": {} }), ALLOWED),
        ("node checks of a port", json!({ "nodeCheck": { "port": 22 } }), PORT),
    ]
}

fn addresses(last: impl IntoIterator<Item = u8>) -> Vec<String> {
    last.into_iter().map(|last| format!("203.0.113.{last}")).collect()
}

fn pools() -> Vec<Row> {
    let firewall = json!({ "ports": [{ "protocol": "tcp", "port": "22" }], "sources": ["0.0.0.0/0"] });
    vec![
        ("no purchase", json!({ "desiredIPs": 0 }), ALLOWED),
        ("one purchase too many", json!({ "desiredIPs": 4 }), MOST),
        ("a listed address", json!({ "ips": addresses([1]) }), IPS),
        ("an empty list", json!({ "ips": [], "releasedIPs": [] }), ALLOWED),
        ("a released address", json!({ "releasedIPs": addresses([1]) }), RELEASED),
        ("the default policy", json!({ "reclaimPolicy": "Retain" }), ALLOWED),
        ("deletion", json!({ "reclaimPolicy": "Delete" }), RECLAIM),
        ("a firewall", json!({ "firewall": firewall }), FIREWALL),
        ("a firewall without ports", json!({ "firewall": { "ports": [] } }), FIREWALL),
        ("an empty firewall", json!({ "firewall": {} }), ALLOWED),
    ]
}

/// Where every field is allowed.
fn open_pools() -> Vec<Row> {
    let firewall = json!({ "ports": [{ "protocol": "tcp", "port": "22" }], "sources": ["0.0.0.0/0"] });
    vec![
        ("listed addresses", json!({ "ips": addresses(1..4) }), ALLOWED),
        ("one address too many", json!({ "ips": addresses(1..5) }), MOST),
        ("a released address", json!({ "releasedIPs": addresses([1]) }), RELEASED),
        (
            "the same with deletion",
            json!({ "releasedIPs": addresses([1]), "reclaimPolicy": "Delete" }),
            ALLOWED,
        ),
        ("a firewall", json!({ "firewall": firewall }), ALLOWED),
        ("node checks of a port", json!({ "nodeCheck": { "port": 22 } }), ALLOWED),
    ]
}

/// The difference from the allowed spec in an object that is older than the policy.
fn old(kind: Kind) -> Value {
    let both = json!({ "match": { "nodeLabel": "x" }, "dnsRecordSet": { "zone": "example.org" } });
    match kind {
        Kind::Pool => {
            let pool = json!({ "ips": addresses(0..5), "releasedIPs": addresses([7, 8]), "firewall": { "ports": [] } });
            changed(both, &pool)
        }
        Kind::RecordSet => both,
    }
}

/// Merge patches of the older objects of both kinds.
fn updates() -> Vec<Row> {
    vec![
        ("a pause", json!({ "metadata": { "annotations": { PAUSED_ANNOTATION: "" } } }), ALLOWED),
        ("a finalizer", json!({ "metadata": { "finalizers": ["example.com/x"] } }), ALLOWED),
        ("the same spec", json!({ "spec": { "match": { "nodeLabel": "x" } } }), ALLOWED),
        ("another field", json!({ "spec": { "grace": { "podSeconds": 5 } } }), ZONE),
    ]
}

/// The same of a pool.
fn pool_updates() -> Vec<Row> {
    let fixed = json!({ "spec": {
        "match": { "nodeLabel": "tenant=team-a" }, "dnsRecordSet": { "zone": "example.com" }, "ips": addresses([4, 0, 2]),
    } });
    // As a patch, null has to stay: it removes the field.
    let with = |change: Value| {
        let mut patch = changed(fixed.clone(), &json!({ "spec": change }));
        if patch["spec"].get("firewall").is_none() {
            patch["spec"]["firewall"] = Value::Null;
        }
        patch
    };
    vec![
        ("some of its addresses", with(json!({})), ALLOWED),
        ("all five of its addresses", with(json!({ "ips": addresses(0..5) })), MOST),
        ("one more address", with(json!({ "ips": addresses([4, 0, 9]) })), IPS),
        ("its firewall", with(json!({ "firewall": { "sources": ["10.0.0.0/8"] } })), FIREWALL),
        ("fewer released addresses", with(json!({ "releasedIPs": addresses([8]) })), ALLOWED),
        ("another released address", with(json!({ "releasedIPs": addresses([8, 9]) })), RELEASED),
    ]
}

fn object(kind: Kind, name: &str, spec: &Value) -> Value {
    let kind = if kind == Kind::Pool { "FloatingIPPool" } else { "NodeDNSRecordSet" };
    let version = "flipop.digitalocean.com/v1alpha1";
    json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// The refusal of a new object, or nothing.
async fn refusal(world: &World, namespace: &str, kind: Kind, spec: Value) -> String {
    let created = world.cluster.create_object(namespace, &object(kind, "new", &spec), true).await;
    created.err().as_ref().map(ToString::to_string).unwrap_or_default()
}

/// The difference between a verdict and the expected one.
fn wrong(what: &str, found: &str, wanted: &str) -> Option<String> {
    let right = if wanted == ALLOWED { found.is_empty() } else { found.contains(wanted) };
    (!right).then(|| format!("{what}: {wanted:?}, but: {found:?}"))
}

async fn in_force(world: &World) -> Outcome {
    for kind in Kind::ALL {
        eventually("the policy is in force", IN_FORCE_TIMEOUT, || async {
            let refused = refusal(world, "absent", kind, right(kind)).await.contains("flipop-tenants");
            let allowed = refusal(world, "limited", kind, right(kind)).await;
            if refused && allowed.is_empty() { Ok(()) } else { Err(Failure::new(allowed)) }
        })
        .await?;
    }
    Ok(())
}

async fn the_annotations_of_a_namespace_limit_its_objects(world: &mut World) -> Outcome {
    world.kubectl.apply("default", &namespaces().to_string()).await?;
    for kind in Kind::ALL {
        let older = object(kind, "old", &changed(right(kind), &old(kind)));
        world.cluster.create_object("limited", &older, false).await?;
    }
    let policy = path("k8s/tenants/policy.yaml");
    // Without it, an object that costs too much to judge would pass.
    assert!(fs::read_to_string(&policy)?.contains("failurePolicy: Fail\n"));
    world.kubectl.run(&["apply", "-f", policy.as_str()]).await?;
    in_force(world).await?;
    let mut mistakes = Vec::new();
    for kind in Kind::ALL {
        let of_pools = if kind == Kind::Pool { [pools(), open_pools()] } else { [vec![], vec![]] };
        let [limited, open] = of_pools;
        let both = names().into_iter().chain(matches());
        let rows =
            both.chain(limited).map(|row| ("limited", row)).chain(open.into_iter().map(|row| ("open", row)));
        for (namespace, (what, change, wanted)) in rows {
            let found = refusal(world, namespace, kind, changed(right(kind), &change)).await;
            mistakes.extend(wrong(&format!("{kind:?} in {namespace}, {what}"), &found, wanted));
        }
        for namespace in ["absent", "empty"] {
            let found = refusal(world, namespace, kind, json!({})).await;
            mistakes.extend(wrong(&format!("{kind:?} in {namespace}"), &found, LABEL));
            let root = refusal(world, namespace, kind, name(".", "www.team-a.example.com.")).await;
            mistakes.extend(wrong(&format!("the root zone in {namespace}"), &root, ZONE));
        }
        let mut nulls = right(kind);
        (nulls["nodeCheck"], nulls["grace"]) = (json!({ "port": null }), Value::Null);
        if kind == Kind::Pool {
            (nulls["ips"], nulls["releasedIPs"], nulls["firewall"]) = (Value::Null, Value::Null, Value::Null);
        }
        mistakes.extend(wrong(
            "fields that are null",
            &refusal(world, "limited", kind, nulls).await,
            ALLOWED,
        ));
        mistakes.extend(wrong(
            "a spec that is null",
            &refusal(world, "limited", kind, Value::Null).await,
            LABEL,
        ));
        let of_pools = if kind == Kind::Pool { pool_updates() } else { Vec::new() };
        for (what, patch, wanted) in updates().into_iter().chain(of_pools) {
            let found = patched(world, kind, &patch).await?;
            mistakes.extend(wrong(&format!("update of {kind:?}: {what}"), &found, wanted));
        }
    }
    assert_eq!(mistakes, Vec::<String>::new());
    the_operator_is_exempt(world).await
}

/// The refusal of a change to an older object, or nothing.
async fn patched(world: &World, kind: Kind, patch: &Value) -> Outcome<String> {
    let patch = patch.to_string();
    let arguments =
        ["patch", kind.plural(), "old", "-n", "limited", "--type", "merge", "--dry-run=server", "-p", &patch];
    let ran = world.kubectl.attempt(&arguments, None).await?;
    Ok(if ran.success { String::new() } else { ran.stderr })
}

/// FLIPOP adds what it buys to `spec.ips`. Nobody else may.
async fn the_operator_is_exempt(world: &World) -> Outcome {
    world.cluster.create_object("limited", &object(Kind::Pool, "bought", &right(Kind::Pool)), false).await?;
    let mut pool = world.cluster.get(Kind::Pool, "limited", "bought").await?;
    pool["spec"]["ips"] = json!(addresses(1..4));
    let arguments = ["replace", "--validate=false", "--dry-run=server", "-f", "-"];
    let operator = world.kubectl.with_kubeconfig(&world.operator_kubeconfig().await?);
    let ran = operator.attempt(&arguments, Some(&pool.to_string())).await?;
    assert!(ran.success, "{}", ran.stderr);
    let ran = world.kubectl.attempt(&arguments, Some(&pool.to_string())).await?;
    assert!(!ran.success && ran.stderr.contains(IPS), "{}", ran.stderr);
    Ok(())
}
