//! Addresses that a pool gives back: they leave the account once nobody uses them, and nothing else does.

use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, Object, SOON, TEAM, World, path, plain_spec, same};
use flipop_cloud::{Op, Provider};
use flipop_envtest::cluster::Kind;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than all steps take without records.
const STEPS: Duration = Duration::from_secs(40);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Installed:
        a_deleted_pool_goes_with_what_was_bought_for_it,
    ];
    cases.extend(cases![InstalledForOne: definitions_are_deleted_once_the_policy_is_retain]);
    cases.extend(cases![BareWithControllers: a_namespace_waits_for_what_its_pools_give_back]);
    cases
}

/// A pool's finalizers.
async fn finalizers(world: &World) -> Outcome<Value> {
    Ok(world.cluster.get(Kind::Pool, TEAM, "p").await?["metadata"]["finalizers"].clone())
}

/// Waits until a pool is gone.
async fn is_gone(world: &World, within: Duration) -> Outcome {
    eventually("the pool is gone", within, || async {
        same(world.cluster.get(Kind::Pool, TEAM, "p").await.is_err(), true).map_err(Failure::new)
    })
    .await
}

async fn a_deleted_pool_goes_with_what_was_bought_for_it(world: &mut World) -> Outcome {
    let mut operator = world.operator().await?;
    bought(world).await?;
    assert_eq!(finalizers(world).await?, json!(["flipop.digitalocean.com/reclaim"]));
    world.cluster.delete(Kind::Pool, TEAM, "p").await?;
    eventually("a deletion is sent", STEPS, || async {
        same(deletions(world) > 0, true).map_err(Failure::new)
    })
    .await?;
    // The next leader continues.
    operator.kill_9();
    world.cluster.delete_lease().await?;
    let _operator = world.operator().await?;
    is_gone(world, STEPS).await?;
    account_has(world, &[]).await?;
    for node in ["alpha", "beta"] {
        assert_eq!(world.nodes.annotation(node, ANNOTATION).await?, None);
    }
    Ok(())
}

/// Prepares the removal as the page about it says: every policy becomes `Retain`, no finalizer is left, and the
/// manifests go.
async fn definitions_are_deleted_once_the_policy_is_retain(world: &mut World) -> Outcome {
    let _operator = world.operator().await?;
    bought(world).await?;
    world.cluster.patch_spec(Kind::Pool, TEAM, "p", &json!({ "reclaimPolicy": "Retain" })).await?;
    eventually("no finalizer is left", SOON, || async {
        same(finalizers(world).await?, Value::Null).map_err(Failure::new)
    })
    .await?;
    world.kubectl.run(&["delete", "--timeout=30s", "-f", &path("crds")]).await?;
    assert_eq!((deletions(world), world.cloud().ips().len()), (0, 2));
    world.kubectl.run(&["apply", "-f", &path("crds")]).await?;
    world.cluster.kinds_established().await
}

async fn a_namespace_waits_for_what_its_pools_give_back(world: &mut World) -> Outcome {
    world.cluster.install(&world.kubectl, &path("k8s")).await?;
    let controllers = world.server.controllers(&["namespace-controller"])?;
    assert!(controllers.is_some(), "no kube-controller-manager");
    world.node("alpha").await?;
    let _operator = world.operator().await?;
    world.cluster.namespace("one", None).await?;
    world.cluster.create(Kind::Pool, "one", "p", &bought_spec(1)).await?;
    eventually("an address was bought and serves", Duration::from_mins(1), || async {
        let pool = world.cluster.get(Kind::Pool, "one", "p").await?;
        let entries = pool["status"]["purchasedIPs"].as_array().map_or(0, Vec::len);
        same((entries, world.nodes.annotation("alpha", ANNOTATION).await?.is_some()), (1, true))
            .map_err(Failure::new)
    })
    .await?;
    world.kubectl.run(&["delete", "namespace", "--timeout=50s", "one"]).await?;
    account_has(world, &[]).await?;
    assert_eq!(world.nodes.annotation("alpha", ANNOTATION).await?, None);
    Ok(())
}

/// A pool that gives back what it buys.
fn bought_spec(desired: u8) -> Value {
    let mut spec = plain_spec(&[]);
    spec["desiredIPs"] = json!(desired);
    spec["reclaimPolicy"] = json!("Delete");
    spec
}

/// Two nodes, and a pool with two bought addresses on them. Returns the addresses in order of purchase.
async fn bought(world: &World) -> Outcome<Vec<String>> {
    for node in ["alpha", "beta"] {
        world.node(node).await?;
    }
    world.pool("p", &bought_spec(2)).await?;
    let complete = |pool: &Object| {
        same(pool.active().len(), 2)?;
        same(pool.spec_ips().len(), 2)?;
        same(purchased(pool).len(), 2)?;
        Ok(purchased(pool))
    };
    world.pool_shows("p", "two addresses were bought", Duration::from_mins(1), complete).await
}

fn purchased(pool: &Object) -> Vec<String> {
    let entries = pool.status()["purchasedIPs"].as_array().cloned().unwrap_or_default();
    entries.iter().filter_map(|entry| entry["ip"].as_str().map(str::to_owned)).collect()
}

fn deletions(world: &World) -> u64 {
    world.cloud().count(Provider::DigitalOcean, Op::DeleteReservedIp)
}

/// Waits until the account has these addresses alone.
async fn account_has(world: &World, wanted: &[String]) -> Outcome {
    eventually("the account has no other address", STEPS, || async {
        let has: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
        same(has.as_slice(), wanted).map_err(Failure::new)
    })
    .await
}
