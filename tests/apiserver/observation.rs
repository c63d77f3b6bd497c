//! An administrator sees Events, conditions and metrics, and never the token.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, plain_spec};
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::TOKEN;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// The time in which changes by others are noticed: 60 s, and some margin.
const NOTICED: Duration = Duration::from_secs(75);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        metrics_have_the_names_types_and_labels_of_the_contract_and_vanish_with_their_pool,
        a_move_leaves_an_event,
        the_token_is_nowhere_to_be_seen,
    ]
}

const POOL_METRICS: [(&str, &str, &[&str]); 6] = [
    (
        "flipop_floatingippoolcontroller_node_status",
        "gauge",
        &["namespace", "name", "provider", "dns", "status"],
    ),
    (
        "flipop_floatingippoolcontroller_ip_assignments",
        "counter",
        &["namespace", "name", "ip", "provider", "dns"],
    ),
    (
        "flipop_floatingippoolcontroller_ip_node",
        "gauge",
        &["namespace", "name", "ip", "provider", "dns", "provider_id", "node"],
    ),
    (
        "flipop_floatingippoolcontroller_ip_state",
        "gauge",
        &["namespace", "name", "ip", "provider", "dns", "state"],
    ),
    ("flipop_floatingippoolcontroller_unfulfilled_ips", "gauge", &["namespace", "name", "provider", "dns"]),
    ("flipop_condition", "gauge", &["kind", "namespace", "name", "type", "status", "reason"]),
];

const CALL_METRICS: [(&str, &str, &[&str]); 2] = [
    (
        "flipop_providers_calls_total",
        "counter",
        &["provider", "call", "outcome", "kind", "namespace", "name"],
    ),
    (
        "flipop_providers_call_duration_seconds",
        "histogram",
        &["provider", "call", "kind", "namespace", "name"],
    ),
];

async fn metrics_have_the_names_types_and_labels_of_the_contract_and_vanish_with_their_pool(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10]);
    let droplet = world.node("alpha").await?;
    let operator = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let scrape = operator.scrape().await?;
    for (name, kind, labels) in POOL_METRICS.iter().chain(&CALL_METRICS) {
        assert_eq!(scrape.kind(name), Some(*kind), "{name}");
        let series = if *kind == "histogram" { format!("{name}_count") } else { (*name).to_owned() };
        let mut wanted: Vec<&str> = labels.to_vec();
        wanted.sort_unstable();
        let found = scrape.series(&series, &[]);
        assert!(!found.is_empty(), "no {series}");
        for series in found {
            assert_eq!(series.labels.keys().map(String::as_str).collect::<Vec<_>>(), wanted, "{name}");
        }
    }
    let node =
        [("ip", "203.0.113.10"), ("node", "alpha"), ("provider_id", &format!("digitalocean://{droplet}"))];
    assert_eq!(scrape.sum("flipop_floatingippoolcontroller_ip_node", &node), Some(1.0));
    let assign = [("call", "AssignIP"), ("kind", "FloatingIPPool"), ("namespace", TEAM), ("name", "p")];
    assert_eq!(scrape.sum("flipop_providers_calls_total", &assign), Some(1.0));
    let list = [("call", "ListIPs"), ("kind", ""), ("namespace", ""), ("name", "")];
    assert!(scrape.sum("flipop_providers_calls_total", &list).is_some());

    world.cluster.delete(Kind::Pool, TEAM, "p").await?;
    eventually("the series of the pool are gone", SOON, || async {
        let scrape = operator.scrape().await?;
        for (name, ..) in POOL_METRICS {
            if !scrape.series(name, &[("name", "p")]).is_empty() {
                return Err(Failure::new(name));
            }
        }
        Ok(())
    })
    .await
}

async fn a_move_leaves_an_event(world: &mut World) -> Outcome {
    let _stage = world.on_alpha_beside_beta().await?;
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    eventually("an event tells of the address and its new node", SOON, || async {
        let events = world.cluster.events(TEAM, "p").await?;
        let told = |event: &&String| event.contains("203.0.113.10") && event.contains("beta");
        if events.iter().any(|event| told(&event)) {
            Ok(())
        } else {
            Err(Failure::new(format!("{events:?}")))
        }
    })
    .await
}

async fn the_token_is_nowhere_to_be_seen(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    let operator = world.operator().await?;
    let mut spec = plain_spec(&[10]);
    spec["dnsRecordSet"] = json!({ "zone": "example.com", "recordName": "www" });
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world.cloud().revoke_token("operator", true);
    world.nodes.set_ready("alpha", false).await?;
    world
        .pool_shows("p", "the refusal is reported", NOTICED, |pool| pool.has_condition("ProviderReady"))
        .await?;
    let metrics = operator.get("/metrics").await?.1;
    let events = world.cluster.events(TEAM, "p").await?.join("\n");
    let status = world.get_pool("p").await?.status().to_string();
    for (place, text) in
        [("log", operator.log()), ("metrics", metrics), ("events", events), ("status", status)]
    {
        assert!(!text.contains(TOKEN), "the token is in the {place}");
    }
    Ok(())
}
