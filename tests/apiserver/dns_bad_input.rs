//! An administrator's DNS mistakes: a condition names the field and the remedy, an Event and one log line say so too,
//! and everything without a mistake goes on.

use crate::dns::{Name, ZONE, external, externals, has, named, set_spec};
use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, SOON, TEAM, World, ip, plain_spec, same};
use flipop_cloud::{Op, Provider};
use flipop_envtest::Outcome;
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::{CLOUDFLARE_TOKEN, Operator, TOKEN};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        each_mistake_in_a_record_set_is_named_once_and_harms_no_other,
        each_mistake_in_a_pool_s_record_set_costs_the_pool_no_address,
        a_zone_that_the_account_does_not_have_is_named,
        a_token_without_the_scope_is_told_which_it_lacks,
        a_token_that_may_not_read_zones_serves_names_in_full_by_id,
        a_provider_without_a_token_is_told_the_variable,
        annotations_that_are_no_ipv4_address_are_reported,
        a_token_that_is_refused_is_told_once_and_what_stands_stays,
    ]
}

/// Longer than the first retries of any call.
const QUIET: Duration = Duration::from_secs(4);

/// The log's warnings about an object.
fn warnings(operator: &Operator, object: &str) -> Vec<String> {
    let object = format!("\"{TEAM}/{object}\"");
    let about = |line: &&str| line.contains("WARN") && line.contains(&object);
    operator.log().lines().filter(about).map(str::to_owned).collect()
}

/// Checks that there is exactly one warning about an object, with these words.
#[track_caller]
fn warned_once(operator: &Operator, object: &str, words: &[&str]) {
    let lines = warnings(operator, object);
    assert!(
        matches!(&lines[..], [only] if words.iter().all(|word| only.contains(word))),
        "one warning about {object} with {words:?} instead of {lines:#?}"
    );
}

/// Mistakes in `dnsRecordSet`: each with its field and a word of the remedy.
fn mistakes() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    vec![
        ("no-zone", json!({ "zone": "" }), "spec.dnsRecordSet.zone", "example.com"),
        ("bad-zone", json!({ "zone": "exa mple.com" }), "spec.dnsRecordSet.zone", "letters"),
        ("no-name", json!({ "recordName": null }), "spec.dnsRecordSet.recordName", "www"),
        ("outside", json!({ "recordName": "www.example.org." }), "spec.dnsRecordSet.recordName", "dot"),
        ("bad-name", json!({ "recordName": "a..b" }), "spec.dnsRecordSet.recordName", "letters"),
        ("negative", json!({ "ttl": -1 }), "spec.dnsRecordSet.ttl", "seconds"),
        ("huge", json!({ "ttl": 2_147_483_648_u32 }), "spec.dnsRecordSet.ttl", "2147483647"),
        ("huge-cf", json!({ "ttl": 86_401, "provider": "cloudflare" }), "spec.dnsRecordSet.ttl", "86400"),
        (
            "unknown",
            json!({ "provider": "route53" }),
            "spec.dnsRecordSet.provider",
            "cloudflare, digitalocean",
        ),
    ]
}

fn changed(mut spec: Value, change: &Value) -> Value {
    for (field, value) in change.as_object().into_iter().flatten() {
        spec["dnsRecordSet"][field] = value.clone();
    }
    spec
}

async fn each_mistake_in_a_record_set_is_named_once_and_harms_no_other(world: &mut World) -> Outcome {
    world.zones();
    world.public_node("alpha", 1).await?;
    let operator = world.dns_operator().await?;
    let mut wrong: Vec<(&str, Value, &str, &str)> = Vec::new();
    for (set, change, field, remedy) in mistakes() {
        wrong.push((set, changed(set_spec(Provider::DigitalOcean, set), &change), field, remedy));
    }
    let mut spec = set_spec(Provider::DigitalOcean, "hostname");
    spec["addressType"] = json!("Hostname");
    wrong.push(("hostname", spec, "spec.addressType", "ExternalIP"));
    let mut spec = set_spec(Provider::Cloudflare, "selector");
    spec["match"]["podLabel"] = json!("a in (");
    wrong.push(("selector", spec, "spec.match.podLabel", ")"));
    let none = json!({ "match": { "nodeLabel": "pool=work" } });
    wrong.push(("nothing", none, "spec.dnsRecordSet.zone", "example.com"));
    for (set, spec, ..) in &wrong {
        world.record_set(set, spec).await?;
    }
    world.record_set("healthy", &set_spec(Provider::Cloudflare, "healthy")).await?;
    let healthy = Name::new(Provider::Cloudflare, "healthy");
    world.set_settles("healthy", &healthy, &externals(&[1])).await?;
    for (set, _, field, remedy) in &wrong {
        world
            .set_shows(set, "the mistake is named", SOON, |set| {
                set.is_current()?;
                same(set.text("state"), "error")?;
                same(set.text("error").contains(field) && set.text("error").contains(remedy), true)?;
                same(set.addresses(), vec![])?;
                set.has("SpecValid", "False", "RecordSetIgnored", &[field, remedy])?;
                set.has("Ready", "False", "InvalidSpec", &[field])
            })
            .await?;
        world.event_says(set, "InvalidSpec", &[field, remedy]).await?;
    }
    // The valid ones go on, and nothing is written for the others.
    world.public_node("beta", 2).await?;
    world.set_settles("healthy", &healthy, &externals(&[1, 2])).await?;
    let others: Vec<_> = world.dns_writes(0).into_iter().filter(|(op, _)| *op != Op::BatchRecords).collect();
    assert_eq!(others, []);
    assert_eq!(world.cloud().records(Provider::Cloudflare, ZONE).len(), 2);
    for (set, _, field, remedy) in &wrong {
        warned_once(&operator, set, &[field, remedy]);
    }
    // Each of them works as soon as it is right.
    for (set, ..) in &wrong {
        let right = json!({
            "addressType": null, "match": { "podLabel": null },
            "dnsRecordSet": { "provider": "digitalocean", "zone": ZONE, "recordName": set, "ttl": null },
        });
        world.edit_set(set, &right).await?;
    }
    for (set, ..) in &wrong {
        world.set_settles(set, &Name::new(Provider::DigitalOcean, set), &externals(&[1, 2])).await?;
    }
    Ok(())
}

async fn each_mistake_in_a_pool_s_record_set_costs_the_pool_no_address(world: &mut World) -> Outcome {
    world.zones();
    let operator = world.dns_operator().await?;
    let mut pools = Vec::new();
    for (number, (pool, change, field, remedy)) in (10..).zip(mistakes()) {
        world.reserve(&[number]);
        world.node_with(pool, |node| node.label("for", pool)).await?;
        let mut spec = changed(plain_spec(&[number]), &json!({ "zone": ZONE, "recordName": pool }));
        spec["match"]["nodeLabel"] = json!(format!("for={pool}"));
        world.pool(pool, &changed(spec, &change)).await?;
        pools.push((number, pool, field, remedy));
    }
    for (number, pool, field, remedy) in &pools {
        world.pool_settles(pool, &[(*number, pool)]).await?;
        world
            .pool_shows(pool, "the mistake is named", SOON, |shown| {
                shown.is_current()?;
                same(shown.error().contains(field) && shown.error().contains(remedy), true)?;
                has(shown.status(), "SpecValid", "False", "RecordSetIgnored", &[field, remedy])?;
                has(shown.status(), "RecordSetReady", "False", "InvalidSpec", &[field])?;
                has(shown.status(), "Ready", "True", "Assigned", &[])
            })
            .await?;
        world.event_says(pool, "InvalidSpec", &[field, remedy]).await?;
    }
    assert_eq!(world.dns_writes(0), []);
    for (number, pool, field, remedy) in &pools {
        warned_once(&operator, pool, &[field, remedy]);
        let right = json!({
            "dnsRecordSet": { "provider": "digitalocean", "zone": ZONE, "recordName": pool, "ttl": 60 },
        });
        world.cluster.patch_spec(Kind::Pool, TEAM, pool, &right).await?;
        let name = Name::new(Provider::DigitalOcean, pool);
        world.pool_publishes(pool, &name, &[ip(*number).to_string()]).await?;
        world.pool_shows(pool, "nothing is wrong", SOON, |pool| same(pool.error(), "")).await?;
    }
    assert_eq!(world.assigns(0).len(), pools.len(), "no edit moves an address");
    Ok(())
}

async fn a_zone_that_the_account_does_not_have_is_named(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10]);
    world.public_node("alpha", 1).await?;
    let operator = world.dns_operator().await?;
    let unknown = "0123456789abcdef0123456789abcdef";
    let sets = [
        ("digitalocean", Provider::DigitalOcean, "example.net", "NotFound"),
        ("cloudflare", Provider::Cloudflare, "example.net", "NotFound"),
        // A token that may not see a zone gets the same answer as for a zone that does not exist.
        ("by-id", Provider::Cloudflare, unknown, "Unauthorised"),
    ];
    for (set, provider, zone, _) in sets {
        let mut spec = set_spec(provider, "www.example.net");
        spec["dnsRecordSet"]["zone"] = json!(zone);
        world.record_set(set, &spec).await?;
    }
    let mut spec = plain_spec(&[10]);
    spec["dnsRecordSet"] = json!({ "zone": "example.net", "recordName": "pool" });
    world.pool("p", &spec).await?;
    world.record_set("healthy", &set_spec(Provider::DigitalOcean, "healthy")).await?;
    world.set_settles("healthy", &Name::new(Provider::DigitalOcean, "healthy"), &externals(&[1])).await?;
    for (set, _, zone, reason) in sets {
        world
            .set_shows(set, "the zone is named", SOON, |set| {
                set.is_current()?;
                same(set.text("state"), "error")?;
                set.has("Ready", "False", reason, &[zone])
            })
            .await?;
        world.event_says(set, reason, &[zone]).await?;
    }
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world
        .pool_shows("p", "the zone is named", SOON, |pool| {
            has(
                pool.status(),
                "RecordSetReady",
                "False",
                "NotFound",
                &["spec.dnsRecordSet.zone", "example.net"],
            )
        })
        .await?;
    tokio::time::sleep(QUIET).await;
    for (set, _, zone, reason) in sets {
        warned_once(&operator, set, &[reason, zone]);
    }
    // A zone that does not exist is not asked for again and again.
    let asked = world.cloud().calls(0).into_iter().filter(|call| {
        call.path.contains("example.net") || call.query.contains("example.net") || call.path.contains(unknown)
    });
    let asked: Vec<(Op, String)> = asked.map(|call| (call.op, call.path)).collect();
    assert!(asked.len() <= 6, "{asked:?}");
    // After an edit the zone is asked for at once.
    world.edit_set("cloudflare", &json!({ "dnsRecordSet": { "zone": ZONE, "recordName": "www" } })).await?;
    world.set_settles("cloudflare", &Name::new(Provider::Cloudflare, "www"), &externals(&[1])).await
}

async fn a_token_without_the_scope_is_told_which_it_lacks(world: &mut World) -> Outcome {
    let id = world.zones();
    world.reserve(&[10]);
    world.public_node("alpha", 1).await?;
    let scopes = ["reserved_ip:*", "droplet:read", "domain:read"];
    world.cloud().add_token(Provider::DigitalOcean, "operator", TOKEN, &scopes);
    world.cloud().add_token(
        Provider::Cloudflare,
        "operator-cf",
        CLOUDFLARE_TOKEN,
        &["zone:read", "dns:read"],
    );
    let operator = world.dns_operator().await?;
    let mut by_id = set_spec(Provider::Cloudflare, "by-id");
    by_id["dnsRecordSet"]["zone"] = json!(id);
    world.record_set("digitalocean", &set_spec(Provider::DigitalOcean, "nodes")).await?;
    world.record_set("cloudflare", &set_spec(Provider::Cloudflare, "nodes")).await?;
    world.record_set("by-id", &by_id).await?;
    let mut spec = plain_spec(&[10]);
    spec["dnsRecordSet"] = json!({ "zone": ZONE, "recordName": "pool" });
    world.pool("p", &spec).await?;
    // Reserved IPs need no right to change DNS.
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let sets = [("digitalocean", "domain:create"), ("cloudflare", "DNS"), ("by-id", "DNS")];
    for (set, scope) in sets {
        world
            .set_shows(set, "the scope is named", SOON, |set| {
                set.is_current()?;
                same(set.text("state"), "error")?;
                set.has("SpecValid", "True", "Valid", &[])?;
                set.has("Ready", "False", "Unauthorised", &[scope])
            })
            .await?;
        world.event_says(set, "Unauthorised", &[scope]).await?;
    }
    world
        .pool_shows("p", "the scope is named", SOON, |pool| {
            has(pool.status(), "RecordSetReady", "False", "Unauthorised", &["domain:create"])?;
            has(pool.status(), "Ready", "True", "Assigned", &[])
        })
        .await?;
    tokio::time::sleep(QUIET).await;
    for (set, scope) in sets {
        warned_once(&operator, set, &[scope]);
    }
    warned_once(&operator, "p", &["domain:create"]);
    // One try per minute and token, and the read before it.
    let refused = world.dns_writes(0);
    assert!(refused.len() <= 4, "{refused:?}");
    for secret in [TOKEN, CLOUDFLARE_TOKEN] {
        assert!(!operator.log().contains(secret));
    }
    Ok(())
}

async fn a_token_that_may_not_read_zones_serves_names_in_full_by_id(world: &mut World) -> Outcome {
    let id = world.zones();
    world.public_node("alpha", 1).await?;
    world.cloud().add_token(Provider::Cloudflare, "operator-cf", CLOUDFLARE_TOKEN, &["dns:edit"]);
    let operator = world.dns_operator().await?;
    let spec = |zone: &str, name: &str| {
        let mut spec = set_spec(Provider::Cloudflare, name);
        spec["dnsRecordSet"]["zone"] = json!(zone);
        spec
    };
    // Nobody knows the zone's name yet, which a relative name needs.
    world.record_set("relative", &spec(&id, "relative")).await?;
    world
        .set_shows("relative", "the permission is named", SOON, |set| {
            same(set.text("state"), "error")?;
            same(set.text("error").contains("Zone > Zone > Read"), true)?;
            set.has("Ready", "False", "InvalidSpec", &["spec.dnsRecordSet.recordName", "Zone > Zone > Read"])
        })
        .await?;
    world.event_says("relative", "InvalidSpec", &["Zone > Zone > Read"]).await?;
    assert_eq!(world.dns_writes(0), []);
    world.record_set("full", &spec(&id, "full.example.com")).await?;
    world.record_set("by-name", &spec(ZONE, "by-name")).await?;
    world.set_settles("full", &Name::new(Provider::Cloudflare, "full"), &externals(&[1])).await?;
    world
        .set_shows("by-name", "the permission is named", SOON, |set| {
            same(set.text("state"), "error")?;
            set.has("Ready", "False", "NotFound", &["Zone", "Read"])
        })
        .await?;
    tokio::time::sleep(QUIET).await;
    warned_once(&operator, "by-name", &["Zone"]);
    Ok(())
}

async fn a_provider_without_a_token_is_told_the_variable(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10]);
    world.public_node("alpha", 1).await?;
    // The operator has no token for Cloudflare here.
    let operator = world.operator().await?;
    world.record_set("cloudflare", &set_spec(Provider::Cloudflare, "nodes")).await?;
    let mut spec = plain_spec(&[10]);
    spec["dnsRecordSet"] = json!({ "provider": "cloudflare", "zone": ZONE, "recordName": "pool" });
    world.pool("p", &spec).await?;
    world.record_set("healthy", &set_spec(Provider::DigitalOcean, "healthy")).await?;
    world.set_settles("healthy", &Name::new(Provider::DigitalOcean, "healthy"), &externals(&[1])).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let words = ["spec.dnsRecordSet.provider", "CLOUDFLARE_TOKEN"];
    world
        .set_shows("cloudflare", "the variable is named", SOON, |set| {
            same(set.text("fqdn"), "nodes.example.com")?;
            set.has("SpecValid", "False", "RecordSetIgnored", &words)
        })
        .await?;
    world
        .pool_shows("p", "the variable is named", SOON, |pool| {
            has(pool.status(), "SpecValid", "False", "RecordSetIgnored", &words)?;
            has(pool.status(), "Ready", "True", "Assigned", &[])
        })
        .await?;
    for object in ["cloudflare", "p"] {
        world.event_says(object, "InvalidSpec", &words).await?;
        warned_once(&operator, object, &words);
    }
    assert_eq!(world.dns_calls(Provider::Cloudflare, 0), []);
    Ok(())
}

async fn annotations_that_are_no_ipv4_address_are_reported(world: &mut World) -> Outcome {
    world.zones();
    for (node, value) in [("alpha", "203.0.113.10"), ("beta", "2001:db8::1"), ("gamma", "none")] {
        world.node_with(node, |new| new.annotation(ANNOTATION, value)).await?;
    }
    let _operator = world.dns_operator().await?;
    let name = Name::new(Provider::DigitalOcean, "nodes");
    let mut spec = set_spec(Provider::DigitalOcean, "nodes");
    spec["addressType"] = json!(ANNOTATION);
    world.record_set("nodes", &spec).await?;
    world.set_settles("nodes", &name, &[ip(10).to_string()]).await?;
    world
        .set_shows("nodes", "the others are named", SOON, |set| {
            set.has("AddressMissing", "True", "NodeWithoutAddress", &[ANNOTATION, "beta", "gamma"])
        })
        .await
}

async fn a_token_that_is_refused_is_told_once_and_what_stands_stays(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10]);
    world.public_node("alpha", 1).await?;
    for provider in [Provider::DigitalOcean, Provider::Cloudflare] {
        Name::new(provider, "nodes").write(world, external(77), 60);
    }
    world.cloud().revoke_token("operator", true);
    world.cloud().revoke_token("operator-cf", true);
    let operator = world.dns_operator().await?;
    world.plain_pool("p", &[10]).await?;
    for provider in [Provider::DigitalOcean, Provider::Cloudflare] {
        world.record_set(named(provider), &set_spec(provider, "nodes")).await?;
    }
    world
        .pool_shows("p", "the token is named", SOON, |pool| {
            has(pool.status(), "ProviderReady", "False", "Unauthorised", &["DIGITALOCEAN_ACCESS_TOKEN"])?;
            same(pool.active().len(), 0)
        })
        .await?;
    world.event_says("p", "ProviderNotReady", &["DIGITALOCEAN_ACCESS_TOKEN"]).await?;
    let variables = [("digitalocean", "DIGITALOCEAN_ACCESS_TOKEN"), ("cloudflare", "CLOUDFLARE_TOKEN")];
    for (set, variable) in variables {
        world
            .set_shows(set, "the token is named", SOON, |set| {
                same(set.text("state"), "error")?;
                set.has("Ready", "False", "Unauthorised", &[variable])
            })
            .await?;
        world.event_says(set, "Unauthorised", &[variable]).await?;
    }
    tokio::time::sleep(QUIET).await;
    for (object, variable) in variables.into_iter().chain([("p", "DIGITALOCEAN_ACCESS_TOKEN")]) {
        warned_once(&operator, object, &[variable]);
        let remedy = &warnings(&operator, object)[0];
        assert!(!remedy.contains("scope"), "no scope is what this token lacks: {remedy}");
    }
    assert_eq!(world.mutating_calls(0), []);
    // One read per minute of the addresses, and one of DNS.
    assert!(world.cloud().next_call() <= 8, "{:#?}", world.cloud().calls(0));
    Ok(())
}
