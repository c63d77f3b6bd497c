//! Two pools that want the same thing.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, same};
use flipop_envtest::Outcome;
use flipop_envtest::cluster::Kind;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        the_older_pool_keeps_an_address_that_two_pools_name,
        a_droplet_serves_one_pool_and_the_other_says_whose_it_is,
    ]
}

async fn the_older_pool_keeps_an_address_that_two_pools_name(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let _operator = world.operator().await?;
    world.plain_pool("zebra", &[10]).await?;
    world.pool_settles("zebra", &[(10, "alpha")]).await?;
    // Creation times have whole seconds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    world.plain_pool("aardvark", &[10, 11]).await?;
    world.pool_settles("aardvark", &[(11, "beta")]).await?;
    world
        .pool_shows("aardvark", "the conflict is reported", SOON, |pool| {
            same(pool.state(10), "error")?;
            pool.has_condition("Conflict")?;
            pool.has_condition("default/zebra")
        })
        .await?;
    world.pool_settles("zebra", &[(10, "alpha")]).await?;
    assert_eq!(world.mutating_calls(0).len(), 2);
    // When the older pool goes, the other one gets the address.
    world.cluster.delete(Kind::Pool, TEAM, "zebra").await?;
    world.pool_settles("aardvark", &[(10, "alpha"), (11, "beta")]).await?;
    assert_eq!(world.mutating_calls(0).len(), 2, "it stands on a candidate already");
    Ok(())
}

async fn a_droplet_serves_one_pool_and_the_other_says_whose_it_is(world: &mut World) -> Outcome {
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    let _operator = world.operator().await?;
    world.plain_pool("first", &[10]).await?;
    world.pool_settles("first", &[(10, "alpha")]).await?;
    world.plain_pool("second", &[11]).await?;
    world
        .pool_shows("second", "its address waits", SOON, |pool| {
            same(pool.state(11), "unassigned")?;
            same(pool.names("nodeErrors"), Vec::new())
        })
        .await?;
    world.pool_settles("first", &[(10, "alpha")]).await?;
    assert_eq!(world.assigns(0).len(), 1);
    Ok(())
}
