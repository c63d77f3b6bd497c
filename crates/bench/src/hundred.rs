//! A hundred nodes that have their addresses already: what start and rest have in common.

use crate::report::Report;
use crate::world::{POOL, REGION, SOON, Stage, World};
use crate::{rest, say, start};
use flipop_envtest::Outcome;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Addresses and nodes.
pub(crate) const COUNT: u8 = 100;

/// Milliseconds that the provider takes for each answer.
const LATENCY_MS: u64 = 50;

/// Requests under way while the cluster is made.
const AT_ONCE: usize = 8;

/// A standing assignment is shown so soon, annotations included.
const SETTLED: Duration = Duration::from_secs(3);

/// Address of a node.
pub(crate) fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}

/// Name of a node.
pub(crate) fn node(number: u8) -> String {
    format!("node-{number:03}")
}

pub(crate) async fn measure(
    stage: &Stage,
    quick: bool,
    (with_start, with_rest): (bool, bool),
    report: &mut Report,
) -> Outcome {
    let world = stage.world().await?;
    stream::iter(1..=COUNT)
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |number| {
            let world = &world;
            async move {
                let droplet = world.node(&node(number), "work").await?;
                world.cloud().add_ip(Some(ip(number)), REGION);
                Ok::<_, flipop_envtest::Failure>(world.cloud().move_ip(ip(number), Some(droplet))?)
            }
        })
        .await?;
    let ips: Vec<Ipv4Addr> = (1..=COUNT).map(ip).collect();
    world.pool(POOL, &ips, "work", None).await?;
    world.cloud().tune(|knobs| knobs.latency_ms = LATENCY_MS);
    if with_start {
        say("start: a hundred addresses stand already …");
        start::measure(&world, quick, report).await?;
    }
    if with_rest {
        say("rest: nothing happens …");
        rest::measure(&world, quick, report).await?;
    }
    world.end().await;
    Ok(())
}

/// Waits until all are shown as active, and what follows from that has been written.
pub(crate) async fn settled(world: &World) -> Outcome {
    let all = |status: &crate::world::Status| match status.active().len() {
        count if count == usize::from(COUNT) => Ok(()),
        count => Err(format!("{count} are active")),
    };
    world.pool_shows("all addresses are active", SOON, all).await?;
    tokio::time::sleep(SETTLED).await;
    Ok(())
}
