//! Addresses that the operator buys: exactly as many as wanted, whatever happens, and all recorded.

use crate::suite::{Case, cases};
use crate::world::{Pool, REGION, SOON, TEAM, World, plain_spec, same};
use flipop_cloud::{Fault, Injection, Op, Provider, Refusal, Target, When};
use flipop_envtest::cluster::Kind;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

/// An open intent is closed after two lists that are at least 30 s apart.
const INTENT_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        missing_addresses_are_created_written_into_the_spec_and_assigned,
        a_spec_that_is_put_back_by_git_ops_buys_nothing_again,
        a_manifest_that_is_applied_again_on_either_side_buys_nothing_again,
        a_crash_after_the_purchase_neither_loses_nor_repeats_it,
        a_crash_before_the_purchase_leads_to_one,
        a_quota_is_reported_and_what_there_is_works,
    ]
}

fn created_spec(desired: u8) -> Value {
    let mut spec = plain_spec(&[]);
    spec["desiredIPs"] = json!(desired);
    spec
}

async fn nodes(world: &World) -> Outcome {
    for node in ["alpha", "beta", "gamma"] {
        world.node(node).await?;
    }
    Ok(())
}

fn creations(world: &World) -> u64 {
    world.cloud().count(Provider::DigitalOcean, Op::CreateReservedIp)
}

/// This many addresses are in `spec.ips` and on nodes.
fn complete(count: usize) -> impl Fn(&Pool) -> Result<Vec<String>, String> {
    move |pool| {
        same(pool.spec_ips().len(), count)?;
        same(pool.active().len(), count)?;
        Ok(pool.spec_ips())
    }
}

async fn missing_addresses_are_created_written_into_the_spec_and_assigned(world: &mut World) -> Outcome {
    nodes(world).await?;
    let operator = world.operator().await?;
    world.pool("p", &created_spec(3)).await?;
    let written =
        world.pool_shows("p", "three addresses were created", Duration::from_mins(1), complete(3)).await?;
    let bought: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
    assert_eq!(written, bought, "in order of creation");
    assert!(world.cloud().ips().iter().all(|view| view.region == REGION));
    assert_eq!(creations(world), 3);
    let unfulfilled =
        operator.scrape().await?.sum("flipop_floatingippoolcontroller_unfulfilled_ips", &[("name", "p")]);
    assert_eq!(unfulfilled, Some(0.0));
    world.pool_shows("p", "the status is current", SOON, Pool::is_current).await
}

async fn a_spec_that_is_put_back_by_git_ops_buys_nothing_again(world: &mut World) -> Outcome {
    nodes(world).await?;
    let mut operator = world.operator().await?;
    world.pool("p", &created_spec(2)).await?;
    world.pool_shows("p", "two addresses were created", Duration::from_mins(1), complete(2)).await?;
    world.cluster.patch_spec(Kind::Pool, TEAM, "p", &json!({ "ips": null })).await?;
    let remembered = |pool: &Pool| {
        pool.is_current()?;
        same(pool.active().len(), 2)
    };
    world.pool_shows("p", "both are remembered", SOON, remembered).await?;
    operator.terminate().await?;
    let _operator = world.operator().await?;
    world.pool_shows("p", "both are remembered after a restart", SOON, remembered).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.get_pool("p").await?.spec_ips(), Vec::<String>::new(), "the operator does not fight");
    assert_eq!((creations(world), world.cloud().ips().len()), (2, 2));
    Ok(())
}

async fn a_manifest_that_is_applied_again_on_either_side_buys_nothing_again(world: &mut World) -> Outcome {
    nodes(world).await?;
    let _operator = world.operator().await?;
    let manifest = json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1",
        "kind": "FloatingIPPool",
        "metadata": { "name": "p" },
        "spec": created_spec(2),
    })
    .to_string();
    let server_side = ["apply", "--server-side", "--force-conflicts", "-n", TEAM, "-f", "-"];
    let apply = async |arguments: &[&str]| {
        let ran = world.kubectl.attempt(arguments, Some(&manifest)).await?;
        same(ran.success, true).map_err(|error| Failure::new(format!("{error}: {ran:?}")))
    };
    apply(&["apply", "-n", TEAM, "-f", "-"]).await?;
    world.pool_shows("p", "two addresses were created", Duration::from_mins(1), complete(2)).await?;
    for arguments in [&["apply", "-n", TEAM, "-f", "-"][..], &server_side] {
        let before = world.get_pool("p").await?.generation();
        apply(arguments).await?;
        let remembered = |pool: &Pool| {
            pool.is_current()?;
            same(pool.active().len(), 2)
        };
        world.pool_shows("p", "both are remembered", SOON, remembered).await?;
        let pool = world.get_pool("p").await?;
        assert_eq!(pool.spec_ips(), [""; 0], "{arguments:?} puts the spec back");
        assert!(pool.generation() >= before, "{arguments:?}");
    }
    assert_eq!((creations(world), world.cloud().ips().len()), (2, 2));
    Ok(())
}

/// Kills the operator while its only creation hangs, and starts another.
async fn killed_in_a_creation(world: &World, when: When) -> Outcome {
    nodes(world).await?;
    let hang = world.cloud().inject(Injection::once(Target::op(Op::CreateReservedIp), Fault::Hang(when)));
    let mut operator = world.operator().await?;
    world.pool("p", &created_spec(1)).await?;
    eventually("the creation was sent", Duration::from_mins(1), || async {
        if world.cloud().injected(hang) { Err(Failure::new("not yet")) } else { Ok(()) }
    })
    .await?;
    operator.kill_9();
    world.cluster.delete_lease().await?;
    let _operator = world.operator().await?;
    let written = world.pool_shows("p", "one address is there and used", INTENT_TIMEOUT, complete(1)).await?;
    let bought: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
    assert_eq!(bought, written, "exactly one was bought");
    Ok(())
}

async fn a_crash_after_the_purchase_neither_loses_nor_repeats_it(world: &mut World) -> Outcome {
    killed_in_a_creation(world, When::After).await?;
    assert_eq!(creations(world), 1);
    Ok(())
}

async fn a_crash_before_the_purchase_leads_to_one(world: &mut World) -> Outcome {
    killed_in_a_creation(world, When::Before).await?;
    assert_eq!(creations(world), 2);
    Ok(())
}

async fn a_quota_is_reported_and_what_there_is_works(world: &mut World) -> Outcome {
    nodes(world).await?;
    world.reserve(&[10]);
    let quota = Injection::always(Target::op(Op::CreateReservedIp), Fault::Refuse(Refusal::Quota));
    let quota = world.cloud().inject(quota);
    let _operator = world.operator().await?;
    let mut spec = plain_spec(&[10]);
    spec["desiredIPs"] = json!(2);
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    world
        .pool_shows("p", "the quota is reported", Duration::from_mins(1), |pool| {
            pool.has_condition("CreationFailed")?;
            if pool.error().to_lowercase().contains("quota") {
                Ok(())
            } else {
                Err("status.error is silent".to_owned())
            }
        })
        .await?;
    assert!(creations(world) <= 2, "a refusal is not hammered");
    assert!(world.cloud().withdraw(quota));
    Ok(())
}
