//! Two objects that name the same records: the older one owns them, and the other one says so and writes nothing.

use crate::dns::{Name, RecordSet, ZONE, external, externals, has, set_spec};
use crate::suite::{Case, cases};
use crate::world::{Pool, SOON, TEAM, World, ip, plain_spec, same};
use flipop_cloud::Provider;
use flipop_envtest::Outcome;
use flipop_envtest::cluster::Kind;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        of_two_record_sets_the_older_owns_the_name_however_it_is_written,
        a_pool_and_a_record_set_claim_from_each_other_alike,
    ]
}

/// Creation times have whole seconds.
async fn later() {
    tokio::time::sleep(Duration::from_millis(1_100)).await;
}

fn set_lost(set: &RecordSet, owner: &str) -> Result<(), String> {
    set.is_current()?;
    same(set.text("state"), "error")?;
    same(set.addresses(), vec![])?;
    set.has("Ready", "False", "NameClaimed", &[owner])?;
    set.has("Conflict", "True", "NameClaimed", &[owner])?;
    set.has("SpecValid", "True", "Valid", &[])
}

fn pool_lost(pool: &Pool, owner: &str) -> Result<(), String> {
    pool.is_current()?;
    same(&pool.status()["dnsRecordSet"]["addresses"], &json!(null))?;
    has(pool.status(), "RecordSetReady", "False", "NameClaimed", &[owner])?;
    has(pool.status(), "RecordSetConflict", "True", "NameClaimed", &[owner])
}

/// A record set of the nodes with `only=<node>`.
fn of_node(node: &str, zone: &str, name: &str) -> Value {
    let mut spec = set_spec(Provider::Cloudflare, name);
    spec["dnsRecordSet"]["zone"] = json!(zone);
    spec["match"] = json!({ "nodeLabel": format!("only={node}") });
    spec
}

async fn of_two_record_sets_the_older_owns_the_name_however_it_is_written(world: &mut World) -> Outcome {
    let id = world.zones();
    for (number, node) in [(1, "alpha"), (2, "beta"), (3, "gamma")] {
        let address = external(number).to_string();
        world.node_with(node, |new| new.address("ExternalIP", &address).label("only", node)).await?;
    }
    let operator = world.dns_operator().await?;
    let name = Name::new(Provider::Cloudflare, "nodes");
    world.record_set("zebra", &of_node("alpha", ZONE, "nodes")).await?;
    world.set_settles("zebra", &name, &externals(&[1])).await?;
    later().await;
    // The zone by id, and the name in full and in capitals.
    world.record_set("middle", &of_node("beta", &id, "NODES.example.com.")).await?;
    world
        .set_shows("middle", "it says whose the name is", SOON, |set| set_lost(set, "default/zebra"))
        .await?;
    world.event_says("middle", "NameClaimed", &["default/zebra"]).await?;
    later().await;
    world.record_set("aardvark", &of_node("gamma", ZONE, "nodes.example.com")).await?;
    world.set_shows("aardvark", "it says whose it is", SOON, |set| set_lost(set, "default/zebra")).await?;
    // Claims are per provider: the same name at another provider is another name.
    let mut elsewhere = of_node("gamma", ZONE, "nodes");
    elsewhere["dnsRecordSet"]["provider"] = json!("digitalocean");
    world.record_set("elsewhere", &elsewhere).await?;
    let there = Name::new(Provider::DigitalOcean, "nodes");
    world.set_settles("elsewhere", &there, &externals(&[3])).await?;
    assert_eq!(name.addresses(world), externals(&[1]));
    let lost = operator.scrape().await?.sum("flipop_nodednsrecordset_records", &[("name", "middle")]);
    assert_eq!(lost, Some(0.0), "what another publishes is not counted twice");

    // The claim lasts while the owner's spec is invalid. When the owner goes, it passes to the next object only.
    world.edit_set("zebra", &json!({ "addressType": "Hostname" })).await?;
    world
        .set_shows("zebra", "it is wrong", SOON, |set| {
            set.has("SpecValid", "False", "RecordSetIgnored", &["spec.addressType"])
        })
        .await?;
    let mut followed = name.follow(world);
    world.set_shows("middle", "it still waits", SOON, |set| set_lost(set, "default/zebra")).await?;
    world.cluster.delete(Kind::RecordSet, TEAM, "zebra").await?;
    world.set_settles("middle", &name, &externals(&[2])).await?;
    world.set_shows("aardvark", "another owner", SOON, |set| set_lost(set, "default/middle")).await?;
    // It also passes on when the owner changes its name.
    world.edit_set("middle", &json!({ "dnsRecordSet": { "recordName": "other" } })).await?;
    world.set_settles("middle", &Name::new(Provider::Cloudflare, "other"), &externals(&[2])).await?;
    world.set_settles("aardvark", &name, &externals(&[3])).await?;
    world
        .set_shows("aardvark", "nothing is contested", SOON, |set| same(set.condition("Conflict"), None))
        .await?;
    followed.was_never_empty();
    assert_eq!(followed.sets().len(), 1);
    Ok(())
}

async fn a_pool_and_a_record_set_claim_from_each_other_alike(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10, 11]);
    world.public_node("alpha", 1).await?;
    world.public_node("beta", 2).await?;
    let _operator = world.dns_operator().await?;
    let digitalocean = |relative| Name::new(Provider::DigitalOcean, relative);
    let (x, y) = (digitalocean("x"), digitalocean("y"));
    let pool = |last, name| {
        let mut spec = plain_spec(&[last]);
        spec["dnsRecordSet"] = json!({ "zone": ZONE, "recordName": name });
        spec
    };
    world.pool("older-pool", &pool(10, "x")).await?;
    world.record_set("older-set", &set_spec(Provider::DigitalOcean, "y")).await?;
    world.pool_publishes("older-pool", &x, &[ip(10).to_string()]).await?;
    world.set_settles("older-set", &y, &externals(&[1, 2])).await?;
    later().await;
    let calls = world.cloud().next_call();
    world.record_set("younger-set", &set_spec(Provider::DigitalOcean, "x")).await?;
    world.pool("younger-pool", &pool(11, "y")).await?;
    world
        .set_shows("younger-set", "the pool has it", SOON, |set| {
            set_lost(set, "FloatingIPPool default/older-pool")
        })
        .await?;
    world
        .pool_shows("younger-pool", "the record set has it", SOON, |pool| {
            pool_lost(pool, "NodeDNSRecordSet default/older-set")?;
            // Only a name is contested: the pool's address is assigned.
            same(pool.active().len(), 1)?;
            same(pool.error(), "")
        })
        .await?;
    world.event_says("younger-pool", "NameClaimed", &["default/older-set"]).await?;
    assert_eq!(world.dns_writes(calls), []);
    let mut followed = [&x, &y].map(|name| name.follow(world));
    world.cluster.delete(Kind::Pool, TEAM, "older-pool").await?;
    world.cluster.delete(Kind::RecordSet, TEAM, "older-set").await?;
    world.set_settles("younger-set", &x, &externals(&[1, 2])).await?;
    world.pool_publishes("younger-pool", &y, &[ip(11).to_string()]).await?;
    for followed in &mut followed {
        followed.was_never_empty();
    }
    Ok(())
}
