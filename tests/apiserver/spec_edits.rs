//! Every field of a pool's spec is edited and put back. No valid assignment is lost by that.

use crate::suite::{Case, cases};
use crate::world::{Pool, SOON, TEAM, World, ip, plain_spec, same};
use flipop_envtest::Outcome;
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::Operator;
use serde_json::{Value, json};

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_pool_frozen_by_its_provider_field_changes_nothing_and_recovers,
        addresses_can_be_added_reordered_and_removed,
        desired_ips_can_be_lowered_and_raised,
        the_region_only_matters_for_creation,
        the_node_label_can_be_changed_and_changed_back,
        an_unparsable_selector_freezes_the_pool_until_it_is_right,
        pod_criteria_can_be_added_changed_and_removed,
        tolerations_can_be_added_and_removed,
        the_cool_off_and_the_record_set_cost_no_assignment,
        malformed_repeated_and_ipv6_addresses_concern_only_themselves,
        a_spec_that_names_no_address_at_all_freezes_the_pool,
    ]
}

/// Two addresses on alpha and beta; gamma waits.
async fn settled(world: &World) -> Outcome<Operator> {
    world.reserve(&[10, 11]);
    for node in ["alpha", "beta", "gamma"] {
        world.node(node).await?;
    }
    let operator = world.operator().await?;
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    Ok(operator)
}

async fn edit(world: &World, spec: &Value) -> Outcome {
    world.cluster.patch_spec(Kind::Pool, TEAM, "p", spec).await
}

async fn is_current(world: &World) -> Outcome {
    world.pool_shows("p", "the status describes the spec as it is", SOON, Pool::is_current).await
}

/// Waits until `status.error` and a condition report the spec as invalid, with these words.
async fn reported(world: &World, words: &[&str]) -> Outcome {
    world
        .pool_shows("p", &format!("{words:?} is reported"), SOON, |pool| {
            pool.is_current()?;
            for word in words {
                if !pool.error().contains(word) {
                    return Err(format!("status.error says nothing of {word:?}"));
                }
                pool.has_condition(word)?;
            }
            Ok(())
        })
        .await
}

/// Waits until nothing is reported any more.
async fn cleared(world: &World) -> Outcome {
    world
        .pool_shows("p", "nothing is reported", SOON, |pool| {
            pool.is_current()?;
            same(pool.error(), "")?;
            pool.has_condition("\"Valid\"")
        })
        .await
}

async fn a_pool_frozen_by_its_provider_field_changes_nothing_and_recovers(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    let calls = world.cloud().next_call();
    for (provider, word) in [("aws", "aws"), ("cloudflare", "cloudflare"), ("", "provider")] {
        edit(world, &json!({ "provider": provider })).await?;
        reported(world, &["spec.provider", word]).await?;
        // The pool is frozen: a candidate fails, but its address stays.
        world.nodes.set_ready("alpha", false).await?;
        world.nodes.set_ready("alpha", true).await?;
    }
    assert_eq!(world.mutating_calls(calls), []);
    edit(world, &json!({ "provider": "digitalocean" })).await?;
    cleared(world).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn addresses_can_be_added_reordered_and_removed(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    let calls = world.cloud().next_call();
    let ips =
        |last: &[u8]| json!({ "ips": last.iter().map(|last| ip(*last).to_string()).collect::<Vec<_>>() });
    edit(world, &ips(&[11, 10])).await?;
    is_current(world).await?;
    assert_eq!(world.mutating_calls(calls), [], "an order is no reason to move");

    world.reserve(&[12]);
    edit(world, &ips(&[11, 10, 12])).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta"), (12, "gamma")]).await?;
    assert_eq!(world.assigns(calls).len(), 1);

    // The pool releases the address, which stays on its droplet but is no longer the pool's.
    edit(world, &ips(&[11, 12])).await?;
    world.pool_settles("p", &[(11, "beta"), (12, "gamma")]).await?;
    world.annotation_settles("alpha", None).await?;
    assert_eq!(world.mutating_calls(calls).len(), 1);
    edit(world, &ips(&[11, 12, 10])).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta"), (12, "gamma")]).await?;
    assert_eq!(world.mutating_calls(calls).len(), 1, "taken back where it stands");
    Ok(())
}

async fn desired_ips_can_be_lowered_and_raised(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    let calls = world.cloud().next_call();
    edit(world, &json!({ "desiredIPs": 1 })).await?;
    world
        .pool_shows("p", "the second address is disabled", SOON, |pool| {
            same(pool.state(10), "active")?;
            same(pool.state(11), "disabled")
        })
        .await?;
    world.annotation_settles("beta", None).await?;
    for desired in [json!(2), json!(0), Value::Null] {
        edit(world, &json!({ "desiredIPs": desired })).await?;
        is_current(world).await?;
        world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    }
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn the_region_only_matters_for_creation(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    let calls = world.cloud().next_call();
    for region in [Value::Null, json!("atlantis"), json!("")] {
        edit(world, &json!({ "region": region })).await?;
        is_current(world).await?;
        world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    }
    edit(world, &json!({ "desiredIPs": 3 })).await?;
    reported(world, &["spec.region"]).await?;
    assert_eq!(world.mutating_calls(calls), [], "nothing was created");
    edit(world, &json!({ "desiredIPs": 2 })).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await
}

async fn the_node_label_can_be_changed_and_changed_back(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    world.nodes.set_label("beta", "tier", Some("front")).await?;
    world.nodes.set_label("gamma", "tier", Some("front")).await?;
    let calls = world.cloud().next_call();
    edit(world, &json!({ "match": { "nodeLabel": "pool=work,tier in (front, back)" } })).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    world.annotation_settles("alpha", None).await?;
    assert_eq!(world.assigns(calls).len(), 1, "beta kept its address");
    edit(world, &json!({ "match": { "nodeLabel": "pool=work" } })).await?;
    is_current(world).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    assert_eq!(world.assigns(calls).len(), 1, "what is valid stays");
    Ok(())
}

async fn an_unparsable_selector_freezes_the_pool_until_it_is_right(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    let calls = world.cloud().next_call();
    for field in ["nodeLabel", "podLabel"] {
        edit(world, &json!({ "match": { field: "tier in front" } })).await?;
        reported(world, &[&format!("spec.match.{field}")]).await?;
        edit(world, &json!({ "match": { field: if field == "nodeLabel" { json!("pool=work") } else { Value::Null } } }))
            .await?;
        cleared(world).await?;
        world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    }
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn pod_criteria_can_be_added_changed_and_removed(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    world.pod("web-beta", "beta").await?;
    world.pod("web-gamma", "gamma").await?;
    let calls = world.cloud().next_call();
    edit(world, &json!({ "match": { "podNamespace": "web" } })).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    edit(world, &json!({ "match": { "podNamespace": null, "podLabel": "app=web" } })).await?;
    is_current(world).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    assert_eq!(world.assigns(calls).len(), 1);
    edit(world, &json!({ "match": { "podLabel": "app=mail" } })).await?;
    world.pool_settles("p", &[]).await?;
    world.annotation_settles("beta", None).await?;
    edit(world, &json!({ "match": { "podLabel": null } })).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    assert_eq!(world.assigns(calls).len(), 1, "an address that no one needed has stayed where it was");
    Ok(())
}

async fn tolerations_can_be_added_and_removed(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    world.nodes.set_taints("gamma", &[("dedicated", "", "NoExecute")]).await?;
    let calls = world.cloud().next_call();
    // No error: an unknown operator tolerates nothing.
    edit(world, &json!({ "match": { "tolerations": [{ "key": "dedicated", "operator": "Like" }] } })).await?;
    cleared(world).await?;
    world
        .pool_shows("p", "gamma is no candidate", SOON, |pool| same(pool.names("assignableNodes"), vec![]))
        .await?;
    edit(world, &json!({ "match": { "tolerations": [{ "key": "dedicated", "operator": "Exists" }] } }))
        .await?;
    world
        .pool_shows("p", "gamma is a candidate", SOON, |pool| {
            same(pool.names("assignableNodes"), vec!["gamma".to_owned()])
        })
        .await?;
    edit(world, &json!({ "match": { "tolerations": null } })).await?;
    world
        .pool_shows("p", "gamma is no candidate", SOON, |pool| same(pool.names("assignableNodes"), vec![]))
        .await?;
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn the_cool_off_and_the_record_set_cost_no_assignment(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    let calls = world.cloud().next_call();
    let edits = [
        json!({ "assignmentCoolOffSeconds": 3600 }),
        json!({ "assignmentCoolOffSeconds": 0.001 }),
        json!({ "assignmentCoolOffSeconds": null }),
        json!({ "dnsRecordSet": { "provider": "nowhere", "zone": "example.com", "recordName": "www" } }),
        json!({ "dnsRecordSet": null }),
    ];
    for change in edits {
        edit(world, &change).await?;
        is_current(world).await?;
        world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    }
    assert_eq!(world.assigns(calls), []);
    Ok(())
}

async fn malformed_repeated_and_ipv6_addresses_concern_only_themselves(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let _operator = world.operator().await?;
    let mut spec = plain_spec(&[]);
    spec["ips"] = json!(["203.0.113.300", "203.0.113.10", "2001:db8::1", "203.0.113.10", "203.0.113.11"]);
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    reported(world, &["203.0.113.300", "2001:db8::1", "spec.ips[3]"]).await?;
    let calls = world.cloud().next_call();
    edit(world, &json!({ "ips": ["203.0.113.10", "203.0.113.11"] })).await?;
    cleared(world).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn a_spec_that_names_no_address_at_all_freezes_the_pool(world: &mut World) -> Outcome {
    let _operator = settled(world).await?;
    let calls = world.cloud().next_call();
    edit(world, &json!({ "ips": null })).await?;
    reported(world, &["spec.ips"]).await?;
    edit(world, &json!({ "ips": ["203.0.113.10", "203.0.113.11"] })).await?;
    cleared(world).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}
