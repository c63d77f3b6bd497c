//! The warnings of `kubectl apply` about a spec that is admitted but does not do what it seems to say.
//!
//! The policies ignore what they cannot evaluate, so a mistake in an expression would silence it. So each rule is met
//! here by one spec, and by no other.

use crate::corpus::documents;
use crate::suite::{Case, cases};
use crate::world::{World, path};
use flipop_core::addresses::pool::manual_move::result::Request;
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome, cluster::Kind};
use serde_json::{Value, json};
use std::time::Duration;

/// A policy takes effect moments after it was applied.
const IN_FORCE_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        the_examples_apply_without_a_warning,
        each_doubtful_pool_is_admitted_with_its_own_warning,
        each_doubtful_request_to_move_is_admitted_with_its_own_warning,
        each_doubtful_record_set_is_admitted_with_its_own_warning,
        a_pause_that_reads_like_none_is_warned_of,
        each_object_of_the_corpus_gives_the_warnings_that_it_promises,
    ]
}

/// The warnings for an object with this spec, which must be admitted.
async fn warnings(world: &World, kind: &str, spec: &Value) -> Outcome<Vec<String>> {
    let object = json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": kind, "metadata": { "name": "x" }, "spec": spec,
    });
    warnings_for(world, &object).await
}

async fn warnings_for(world: &World, object: &Value) -> Outcome<Vec<String>> {
    let all = world.cluster.create_object("default", object, true).await?;
    // A policy's message follows its name and that of its binding. Other warnings are about unknown fields.
    let of_policy =
        |text: &String| Some(text.split_once("ValidatingAdmissionPolicy")?.1.split_once("': ")?.1.to_owned());
    Ok(all.iter().filter_map(of_policy).collect())
}

pub(crate) async fn in_force(world: &World) -> Outcome {
    for kind in ["FloatingIPPool", "NodeDNSRecordSet"] {
        eventually("the policies are in force", IN_FORCE_TIMEOUT, || async {
            if warnings(world, kind, &json!({ "provider": "?" })).await?.is_empty() {
                return Err(Failure::new("no warning"));
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn the_examples_apply_without_a_warning(world: &mut World) -> Outcome {
    in_force(world).await?;
    let examples = path("examples");
    let arguments = ["apply", "-f", examples.as_str()];
    let applied = world.kubectl.run(&arguments).await?;
    assert_eq!(applied.stderr, "");
    let again = world.kubectl.run(&arguments).await?;
    assert!(again.stdout.lines().all(|line| line.ends_with("unchanged")), "{}", again.stdout);
    assert!(!world.cluster.list(Kind::Pool).await?.is_empty());
    Ok(())
}

/// A spec without a warning, changed by a merge patch.
pub(crate) fn changed(mut right: Value, change: &Value) -> Value {
    fn merge(into: &mut Value, patch: &Value) {
        match (into, patch) {
            (Value::Object(into), Value::Object(patch)) => {
                for (name, value) in patch {
                    if value.is_null() {
                        into.remove(name);
                    } else {
                        merge(into.entry(name.as_str()).or_insert(Value::Null), value);
                    }
                }
            }
            (into, patch) => *into = patch.clone(),
        }
    }
    merge(&mut right, change);
    right
}

async fn each_warns(world: &World, kind: &str, right: Value, table: &[(Value, &str)]) -> Outcome {
    in_force(world).await?;
    assert_eq!(warnings(world, kind, &right).await?, Vec::<String>::new());
    for (change, expected) in table {
        let found = warnings(world, kind, &changed(right.clone(), change)).await?;
        assert!(
            matches!(&found[..], [only] if only.starts_with(expected)),
            "{change} should warn once, with {expected:?}, and warned {found:#?}"
        );
    }
    Ok(())
}

type Doubtful = (Value, &'static str);

fn doubtful_pools() -> Vec<Doubtful> {
    vec![
        (json!({ "provider": null }), "spec.provider is missing"),
        (
            json!({ "provider": "aws", "dnsRecordSet": { "provider": "digitalocean" } }),
            "spec.provider aws is unknown",
        ),
        (
            json!({ "provider": "cloudflare", "dnsRecordSet": { "provider": "digitalocean" } }),
            "spec.provider cloudflare has no floating IPs",
        ),
        (json!({ "ips": null }), "set spec.ips or spec.desiredIPs"),
        (json!({ "desiredIPs": 2, "region": null }), "spec.region is missing"),
        (json!({ "desiredIPs": 1_001 }), "spec.desiredIPs 1001 is above 1000"),
        (json!({ "minActive": 2 }), "spec.minActive 2 is more than the pool has (1)"),
        (json!({ "minActive": 3, "desiredIPs": 2 }), "spec.minActive 3 is more than the pool has (2)"),
        (
            json!({ "ips": ["203.0.113.10", "2001:db8::1"] }),
            "spec.ips: IPv6 addresses are ignored, remove them: 2001:db8::1",
        ),
        (
            json!({ "ips": ["203.0.113.10", "203.0.113.256"] }),
            "spec.ips: not an IPv4 address and ignored, correct or remove: 203.0.113.256",
        ),
        (json!({ "ips": ["203.0.113.10", "203.0.113.10"] }), "spec.ips: listed more than once"),
        (json!({ "match": null }), "spec.match is missing"),
        (
            json!({
                "match": { "podNamespace": "flipop-agent", "podLabel": "app=flipop-agent" },
                "grace": { "podSeconds": 59 },
            }),
            "spec.grace.podSeconds is below 60, so a rollout of flipop-agent moves addresses",
        ),
        (json!({ "match": { "nodeLabel": "a in b" } }), "spec.match.nodeLabel is not a label selector"),
        (json!({ "match": { "podLabel": "a=b,," } }), "spec.match.podLabel is not a label selector"),
        (
            json!({ "match": { "podNamespace": "A_B" } }),
            "spec.match.podNamespace is not the name of a namespace",
        ),
        (json!({ "match": { "podNamespace": null } }), "spec.match.podNamespace is missing"),
        (
            json!({ "match": { "tolerations": [{ "operator": "Like" }] } }),
            "spec.match.tolerations: unknown operator, tolerates nothing: Like",
        ),
        (
            json!({ "match": { "tolerations": [{ "effect": "Never" }] } }),
            "spec.match.tolerations: unknown effect, matches no taint: Never",
        ),
        (
            json!({ "firewall": { "ports": [{ "protocol": "tcp", "port": "443" }] } }),
            "spec.firewall.sources is missing, so no port is opened",
        ),
    ]
}

fn doubtful_record_sets_of_pools() -> Vec<Doubtful> {
    vec![
        (json!({ "dnsRecordSet": { "provider": "aws" } }), "spec.dnsRecordSet.provider aws is unknown"),
        (json!({ "dnsRecordSet": { "zone": null } }), "spec.dnsRecordSet.zone is missing"),
        (json!({ "dnsRecordSet": { "recordName": null } }), "spec.dnsRecordSet.recordName is missing"),
        (
            json!({ "dnsRecordSet": { "recordName": "www.example.org." } }),
            "spec.dnsRecordSet.recordName www.example.org. ends in a dot but is not in the zone example.com",
        ),
        (
            json!({ "dnsRecordSet": { "recordName": "www.exmaple.COM" } }),
            "spec.dnsRecordSet.recordName www.exmaple.COM is not in the zone example.com, so it is published as \
             www.exmaple.COM.example.com",
        ),
        (
            json!({ "dnsRecordSet": { "recordName": "notexample.com" } }),
            "spec.dnsRecordSet.recordName notexample.com is not in the zone",
        ),
        (json!({ "dnsRecordSet": { "ttl": -1 } }), "spec.dnsRecordSet.ttl is negative"),
        (
            json!({ "dnsRecordSet": { "ttl": 29 } }),
            "spec.dnsRecordSet.ttl 29 is below what the provider takes",
        ),
        (
            json!({ "dnsRecordSet": { "ttl": 59, "provider": "cloudflare" } }),
            "spec.dnsRecordSet.ttl 59 is below what the provider takes",
        ),
        (
            json!({ "dnsRecordSet": { "ttl": 86_401, "provider": "cloudflare" } }),
            "spec.dnsRecordSet.ttl 86401 is more than the provider takes",
        ),
        (
            json!({ "dnsRecordSet": { "ttl": 2_147_483_648_i64 } }),
            "spec.dnsRecordSet.ttl 2147483648 is more than the provider takes",
        ),
    ]
}

async fn each_doubtful_pool_is_admitted_with_its_own_warning(world: &mut World) -> Outcome {
    let right = json!({
        "provider": "digitalocean", "region": "nyc3", "ips": ["203.0.113.10"],
        "match": {
            "nodeLabel": "a=b,c!=d,e in (f,g),h,!i,j notin (k)", "podNamespace": "web", "podLabel": "app=web",
            "tolerations": [{ "key": "k", "operator": "Exists", "effect": "NoExecute" }],
        },
        "dnsRecordSet": { "zone": "example.com", "recordName": "www", "ttl": 30 },
    });
    each_warns(world, "FloatingIPPool", right.clone(), &doubtful_pools()).await?;
    each_warns(world, "FloatingIPPool", right.clone(), &doubtful_record_sets_of_pools()).await?;
    let set = |set: Value| json!({ "dnsRecordSet": set });
    for quiet in [
        set(json!({ "ttl": 1, "provider": "cloudflare" })),
        set(json!({ "ttl": 604_800 })),
        set(json!({ "recordName": "a.b.Example.com" })),
        set(json!({ "recordName": "example.com" })),
        set(json!({ "recordName": "www.company" })),
        // The zone behind this id is unknown here.
        set(
            json!({ "recordName": "www.example.org", "provider": "cloudflare", "zone": "0123456789abcdef", "ttl": 60 }),
        ),
        json!({ "minActive": 1 }),
        json!({ "firewall": { "ports": [{ "protocol": "icmp" }], "sources": ["::/0"] } }),
        json!({ "minActive": 1_000, "desiredIPs": 1_000 }),
        // Lists that would take too long to judge.
        json!({ "ips": vec!["x"; 1_001] }),
        json!({ "match": { "tolerations": vec![json!({ "operator": "Like" }); 1_001] } }),
    ] {
        let object = changed(right.clone(), &quiet);
        assert_eq!(warnings(world, "FloatingIPPool", &object).await?, Vec::<String>::new(), "{quiet}");
    }
    Ok(())
}

async fn each_doubtful_request_to_move_is_admitted_with_its_own_warning(world: &mut World) -> Outcome {
    in_force(world).await?;
    let of_request = async |request: &str| {
        let annotations = json!({ "flipop.digitalocean.com/move": request });
        let spec =
            json!({ "provider": "digitalocean", "ips": ["203.0.113.10"], "match": { "nodeLabel": "a" } });
        let object = json!({
            "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
            "metadata": { "name": "x", "annotations": annotations }, "spec": spec,
        });
        warnings_for(world, &object).await
    };
    let long = format!("203.0.113.10=edge-3#{}", "x".repeat(400));
    for request in [
        "203.0.113.10",
        "edge-3",
        "203.0.113.256=edge-3",
        "2001:db8::1=edge-3",
        "203.0.113.10=",
        "203.0.113.10=Edge_3",
        "203.0.113.10#=edge-3",
        long.as_str(),
    ] {
        assert!(Request::parse(request).is_err(), "{request}");
        let found = of_request(request).await?;
        let about = "metadata.annotations: flipop.digitalocean.com/move asks for nothing";
        assert!(matches!(&found[..], [only] if only.starts_with(about)), "{request}: {found:#?}");
    }
    for request in ["", " ", "203.0.113.10=edge-3", " 203.0.113.10 = edge-3.example #a=b#c\nd "] {
        assert!(request.trim().is_empty() || Request::parse(request).is_ok(), "{request}");
        assert_eq!(of_request(request).await?, Vec::<String>::new(), "{request}");
    }
    Ok(())
}

async fn each_doubtful_record_set_is_admitted_with_its_own_warning(world: &mut World) -> Outcome {
    let right = json!({
        "provider": "digitalocean", "addressType": "flipop.digitalocean.com/ipv4-reserved-ip",
        "match": { "nodeLabel": "a=b", "podNamespace": "web", "podLabel": "app=web" },
        "dnsRecordSet": { "zone": "example.com", "recordName": "WWW.example.com.", "ttl": 120, "whenEmpty": "Keep" },
    });
    let table = [
        (json!({ "dnsRecordSet": null }), "spec.dnsRecordSet is missing"),
        (json!({ "provider": "aws" }), "spec.provider aws is unknown"),
        (json!({ "dnsRecordSet": { "provider": "aws" } }), "spec.dnsRecordSet.provider aws is unknown"),
        (json!({ "addressType": "PublicIP" }), "spec.addressType PublicIP is unknown"),
        (json!({ "match": null }), "spec.match is missing"),
        (json!({ "match": { "nodeLabel": "=b" } }), "spec.match.nodeLabel is not a label selector"),
        (json!({ "match": { "podLabel": "a==b==c" } }), "spec.match.podLabel is not a label selector"),
        (
            json!({ "match": { "podNamespace": "-" } }),
            "spec.match.podNamespace is not the name of a namespace",
        ),
        (json!({ "match": { "podNamespace": "" } }), "spec.match.podNamespace is missing"),
        (
            json!({ "match": { "tolerations": [{ "operator": "Like" }] } }),
            "spec.match.tolerations: unknown operator",
        ),
        (
            json!({ "match": { "tolerations": [{ "effect": "Never" }] } }),
            "spec.match.tolerations: unknown effect",
        ),
        (json!({ "dnsRecordSet": { "zone": null } }), "spec.dnsRecordSet.zone is missing"),
        (json!({ "dnsRecordSet": { "recordName": null } }), "spec.dnsRecordSet.recordName is missing"),
        (
            json!({ "dnsRecordSet": { "recordName": "notexample.com." } }),
            "spec.dnsRecordSet.recordName notexample.com. ends in a dot but is not in the zone",
        ),
        (
            json!({ "dnsRecordSet": { "recordName": "nodes.example.dev" } }),
            "spec.dnsRecordSet.recordName nodes.example.dev is not in the zone example.com",
        ),
        (json!({ "dnsRecordSet": { "whenEmpty": null } }), "spec.dnsRecordSet.whenEmpty is missing"),
        (json!({ "dnsRecordSet": { "whenEmpty": "" } }), "spec.dnsRecordSet.whenEmpty is missing"),
        (json!({ "dnsRecordSet": { "ttl": -1 } }), "spec.dnsRecordSet.ttl is negative"),
        (json!({ "dnsRecordSet": { "ttl": 1 } }), "spec.dnsRecordSet.ttl 1 is below what the provider takes"),
        (
            json!({ "dnsRecordSet": { "provider": "cloudflare", "ttl": 90_000 } }),
            "spec.dnsRecordSet.ttl 90000 is more than the provider takes",
        ),
    ];
    each_warns(world, "NodeDNSRecordSet", right, &table).await
}

async fn a_pause_that_reads_like_none_is_warned_of(world: &mut World) -> Outcome {
    in_force(world).await?;
    let spec = json!({ "provider": "?" });
    for kind in ["FloatingIPPool", "NodeDNSRecordSet"] {
        let others = warnings(world, kind, &spec).await?.len();
        for (text, warns) in
            [("false", true), ("False", true), ("no", true), ("", false), ("incident 7", false)]
        {
            let metadata = json!({ "name": "x", "annotations": { PAUSED_ANNOTATION: text } });
            let api_version = "flipop.digitalocean.com/v1alpha1";
            let object =
                json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec });
            let found = warnings_for(world, &object).await?;
            let about: Vec<&String> = found.iter().filter(|found| found.contains("paused")).collect();
            assert_eq!((about.len(), found.len() - about.len()), (usize::from(warns), others), "{found:?}");
        }
    }
    Ok(())
}

async fn each_object_of_the_corpus_gives_the_warnings_that_it_promises(world: &mut World) -> Outcome {
    in_force(world).await?;
    for object in documents("tests/corpus")?.iter().chain(&documents("tests/corpus/ours")?) {
        let promised = object["metadata"]["annotations"]["corpus/warns"].as_str().unwrap_or_default();
        let mut promised: Vec<&str> = promised.lines().collect();
        // The Go operator had no whenEmpty, so nearly all of them lack it.
        let set = &object["spec"]["dnsRecordSet"];
        if object["kind"] == "NodeDNSRecordSet"
            && set.is_object()
            && set["whenEmpty"].as_str().is_none_or(str::is_empty)
        {
            promised.push("spec.dnsRecordSet.whenEmpty is missing");
        }
        let found = warnings_for(world, object).await?;
        let kept = promised.iter().all(|part| found.iter().any(|warning| warning.contains(part)));
        let name = &object["metadata"]["name"];
        assert!(kept && promised.len() == found.len(), "{name} promises {promised:#?} and gives {found:#?}");
    }
    Ok(())
}
