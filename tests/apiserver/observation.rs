//! What an administrator sees: Events, conditions and metrics, also about changes by others to the account.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, ip, plain_spec, same};
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
        an_address_moved_by_hand_comes_back,
        an_address_taken_to_another_candidate_by_hand_is_accepted,
        an_address_that_the_account_does_not_have_is_an_error_of_its_own,
        a_droplet_in_another_region_is_reported_and_another_node_is_chosen,
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

async fn an_address_moved_by_hand_comes_back(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    let alpha = world.node("alpha").await?;
    let _operator = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let calls = world.cloud().next_call();
    world.cloud().move_ip(ip(10), None)?;
    eventually("the address is back", NOTICED, || async {
        match world.cloud().ip(ip(10)).and_then(|view| view.droplet) {
            Some(droplet) if droplet == alpha => Ok(()),
            place => Err(Failure::new(format!("{place:?}"))),
        }
    })
    .await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    assert_eq!(world.assigns(calls).len(), 1);
    Ok(())
}

async fn an_address_taken_to_another_candidate_by_hand_is_accepted(world: &mut World) -> Outcome {
    let (_operator, beta) = world.on_alpha_beside_beta().await?;
    let calls = world.cloud().next_call();
    world.cloud().move_ip(ip(10), Some(beta))?;
    world.pool_settles_within("p", &[(10, "beta")], NOTICED).await?;
    world.annotation_settles("beta", Some(10)).await?;
    world.annotation_settles("alpha", None).await?;
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn an_address_that_the_account_does_not_have_is_an_error_of_its_own(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let _operator = world.operator().await?;
    world.plain_pool("p", &[99, 10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world
        .pool_shows("p", "the missing address is an error", NOTICED, |pool| {
            same(pool.state(99), "error")?;
            let error = pool.of_ip("203.0.113.99", "error");
            if error.contains("account") { Ok(()) } else { Err(format!("its error is {error:?}")) }
        })
        .await?;
    assert_eq!(world.assigns(0).len(), 1, "nothing is tried with what is not there");
    Ok(())
}

async fn a_droplet_in_another_region_is_reported_and_another_node_is_chosen(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    let far = world.cloud().add_droplet("alpha", "ams3");
    world
        .nodes
        .create(&flipop_envtest::nodes::NewNode::new("alpha").droplet(far).label("pool", "work"))
        .await?;
    world.node("beta").await?;
    let _operator = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles_within("p", &[(10, "beta")], Duration::from_secs(30)).await?;
    world
        .pool_shows("p", "the node in the other region is named", Duration::from_secs(30), |pool| {
            same(pool.names("nodeErrors"), vec!["alpha".to_owned()])?;
            pool.has_condition("alpha")
        })
        .await?;
    assert!(world.assigns(0).iter().filter(|(_, droplet)| *droplet == far).count() <= 1, "no loop");
    Ok(())
}

async fn a_move_leaves_an_event(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let _operator = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
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
