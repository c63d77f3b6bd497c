//! Record sets without an address to publish.

use crate::dns::{Name, external, externals, has, internal, named, set_spec};
use crate::suite::{Case, cases};
use crate::world::{SOON, World, ip, met, plain_spec, same};
use flipop_cloud::{Op, Provider};
use flipop_envtest::Outcome;
use flipop_envtest::api_proxy::{Answer, ApiProxy, Meet, Rule};
use flipop_envtest::wait::throughout;
use flipop_envtest::{Failure, nodes::NewNode};
use futures::future::try_join_all;
use serde_json::json;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        when_all_nodes_are_lost_at_once_each_set_does_what_when_empty_says_and_once,
        a_node_without_an_address_is_named_and_the_others_are_published,
    ]
}

/// Longer than any debounce and the following round.
const QUIET: Duration = Duration::from_secs(4);

const NODES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// Identifies the watches of these nodes: that of the record sets, and those of the pools.
const SELECTORS: [&str; 3] =
    ["labelSelector=pool%3Dwork", "labelSelector=of%3Dpool-kept", "labelSelector=of%3Dpool-deleted"];

/// Record sets and pools that keep or delete their records, by default or explicitly.
struct Objects {
    deleted: Name,
    deleted_on_cloudflare: Name,
    kept: Name,
    kept_of_pool: Name,
    deleted_of_pool: Name,
}

impl Objects {
    async fn make(world: &World) -> Outcome<Self> {
        let (digitalocean, cloudflare) = (Provider::DigitalOcean, Provider::Cloudflare);
        for (provider, set, when_empty) in [
            (digitalocean, "deleted", None),
            (cloudflare, "deleted-cf", Some("Delete")),
            (cloudflare, "kept", Some("Keep")),
        ] {
            let mut spec = set_spec(provider, set);
            spec["dnsRecordSet"]["whenEmpty"] = json!(when_empty);
            world.record_set(set, &spec).await?;
        }
        for (pool, provider, last, when_empty) in [
            ("pool-kept", digitalocean, [10, 11], None),
            ("pool-deleted", cloudflare, [12, 13], Some("Delete")),
        ] {
            let mut spec = plain_spec(&last);
            spec["match"]["nodeLabel"] = json!(format!("of={pool}"));
            spec["dnsRecordSet"] = json!({
                "provider": named(provider), "zone": "example.com", "recordName": pool, "whenEmpty": when_empty,
            });
            world.pool(pool, &spec).await?;
        }
        Ok(Self {
            deleted: Name::new(digitalocean, "deleted"),
            deleted_on_cloudflare: Name::new(cloudflare, "deleted-cf"),
            kept: Name::new(cloudflare, "kept"),
            kept_of_pool: Name::new(digitalocean, "pool-kept"),
            deleted_of_pool: Name::new(cloudflare, "pool-deleted"),
        })
    }

    /// Waits until every set but the first is published.
    async fn published(&self, world: &World) -> Outcome {
        let all = externals(&[1, 2, 3, 4]);
        world.set_settles("deleted-cf", &self.deleted_on_cloudflare, &all).await?;
        world.set_settles("kept", &self.kept, &all).await?;
        let pool = |last: [u8; 2]| last.map(|last| ip(last).to_string());
        world.pool_publishes("pool-kept", &self.kept_of_pool, &pool([10, 11])).await?;
        world.pool_publishes("pool-deleted", &self.deleted_of_pool, &pool([12, 13])).await
    }

    /// Waits until every object reports that there is no node.
    async fn told_empty(&self, world: &World) -> Outcome {
        world.set_settles("deleted", &self.deleted, &[]).await?;
        world.set_settles("deleted-cf", &self.deleted_on_cloudflare, &[]).await?;
        world.name_has(&self.deleted_of_pool, &[]).await?;
        world
            .pool_shows("pool-deleted", "its name is empty", SOON, |pool| {
                same(&pool.status()["dnsRecordSet"]["addresses"], &json!(null))?;
                has(pool.status(), "RecordSetReady", "True", "Empty", &[])
            })
            .await?;
        world
            .set_shows("kept", "it is kept", SOON, |set| {
                same(set.addresses(), externals(&[1, 2, 3, 4]))?;
                set.has("Ready", "True", "Kept", &["198.51.100.1"])
            })
            .await?;
        world
            .pool_shows("pool-kept", "it is kept", SOON, |pool| {
                same(pool.active().len(), 0)?;
                has(pool.status(), "RecordSetReady", "True", "Kept", &["203.0.113.10"])
            })
            .await
    }
}

/// Makes all nodes Ready or not Ready while the operator cannot watch them, so that it next sees them in one list. In a
/// watch the changes would arrive one by one, and the first would be published alone.
async fn all_in_one_list(world: &World, proxy: &ApiProxy, ready: bool) -> Outcome {
    let watch = |part, status| proxy.meet(Rule::new("watch", part, Meet::Instead(Answer::failure(status))));
    let away = SELECTORS.map(|selector| watch(selector, 503));
    proxy.cut();
    for rule in away {
        met(proxy, rule, 1).await?;
    }
    try_join_all(NODES.map(|node| world.nodes.set_ready(node, ready))).await?;
    let forgotten = SELECTORS.map(|selector| watch(selector, 410));
    for rule in away {
        proxy.lift(rule);
    }
    for rule in forgotten {
        met(proxy, rule, 1).await?;
        proxy.lift(rule);
    }
    Ok(())
}

async fn when_all_nodes_are_lost_at_once_each_set_does_what_when_empty_says_and_once(
    world: &mut World,
) -> Outcome {
    world.zones();
    world.reserve(&[10, 11, 12, 13]);
    for (number, node) in (1..).zip(NODES) {
        let pool = if number <= 2 { "pool-kept" } else { "pool-deleted" };
        let address = external(number).to_string();
        world.node_with(node, |new| new.address("ExternalIP", &address).label("of", pool)).await?;
    }
    let (proxy, _operator) = world.dns_operator_behind().await?;
    let objects = Objects::make(world).await?;
    world.set_settles("deleted", &objects.deleted, &externals(&[1, 2, 3, 4])).await?;
    objects.published(world).await?;

    let calls = world.cloud().next_call();
    let mut kept = [&objects.kept, &objects.kept_of_pool].map(|name| name.follow(world));
    all_in_one_list(world, &proxy, false).await?;
    objects.told_empty(world).await?;
    // The records are deleted once. Records that somebody else writes there later are not ours.
    let writes = world.dns_writes(calls).len();
    objects.deleted.write(world, external(200), 60);
    let theirs = [external(200).to_string()];
    throughout("nothing is written", QUIET, || async {
        same(world.dns_writes(calls).len(), writes).map_err(Failure::new)?;
        same(objects.deleted.addresses(world).as_slice(), &theirs[..]).map_err(Failure::new)
    })
    .await?;
    // Four deletes at DigitalOcean; at Cloudflare one batch for the set and one for the pool.
    let ops: Vec<Op> = world.dns_writes(calls).into_iter().map(|(op, _)| op).collect();
    assert_eq!(ops.iter().filter(|op| **op == Op::DeleteRecord).count(), 4, "{ops:?}");
    assert_eq!(ops.iter().filter(|op| **op == Op::BatchRecords).count(), 2, "{ops:?}");

    let back = world.cloud().next_call();
    all_in_one_list(world, &proxy, true).await?;
    objects.published(world).await?;
    world
        .set_shows("deleted", "it is published again", SOON, |set| {
            set.has("Ready", "True", "Published", &["198.51.100.4"])?;
            let published = objects.deleted.addresses(world);
            same(externals(&[1, 2, 3, 4]).iter().all(|address| published.contains(address)), true)
        })
        .await?;
    for followed in &mut kept {
        followed.rested();
    }
    assert_eq!(world.assigns(back), [], "every node has its own address back");
    Ok(())
}

async fn a_node_without_an_address_is_named_and_the_others_are_published(world: &mut World) -> Outcome {
    world.zones();
    world.public_node("alpha", 1).await?;
    let v6 = |new: NewNode| {
        new.address("ExternalIP", "2001:db8::1").address("InternalIP", &internal(2).to_string())
    };
    world.node_with("beta", v6).await?;
    let _operator = world.dns_operator().await?;
    let name = Name::new(Provider::Cloudflare, "nodes");
    world.record_set("nodes", &set_spec(Provider::Cloudflare, "nodes")).await?;
    world.set_settles("nodes", &name, &externals(&[1])).await?;
    world
        .set_shows("nodes", "beta is named", SOON, |set| {
            set.has("AddressMissing", "True", "NodeWithoutAddress", &["1 of 2", "ExternalIP", "beta"])
        })
        .await?;
    // If no node has an address, that is a defect, not a wish to empty the name.
    let calls = world.cloud().next_call();
    world.nodes.set_addresses("alpha", &[("InternalIP", "10.0.0.1"), ("ExternalIP", "2001:db8::2")]).await?;
    world
        .set_shows("nodes", "the records stay", SOON, |set| {
            set.has("Ready", "True", "Kept", &["198.51.100.1"])?;
            set.has("AddressMissing", "True", "NodeWithoutAddress", &["2 of 2", "alpha"])?;
            same(set.addresses(), externals(&[1]))
        })
        .await?;
    assert_eq!(world.dns_writes(calls), []);
    world
        .nodes
        .set_addresses("beta", &[("ExternalIP", "2001:db8::1"), ("ExternalIP", "198.51.100.2")])
        .await?;
    world.set_settles("nodes", &name, &externals(&[2])).await?;
    world.nodes.delete("alpha").await?;
    world
        .set_shows("nodes", "nobody lacks anything", SOON, |set| same(set.condition("AddressMissing"), None))
        .await
}
