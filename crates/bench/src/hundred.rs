//! A hundred nodes that already have their addresses: the common part of start, rest and checks.

use crate::report::Report;
use crate::standing::{COUNT, ip, node};
use crate::world::{POOL, REGION, Stage};
use crate::{checks, rest, say, start};
use flipop_envtest::Outcome;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::net::Ipv4Addr;

/// How long the provider takes for each answer, in milliseconds.
const LATENCY_MS: u64 = 50;

/// Parallel requests while the cluster is created.
const AT_ONCE: usize = 8;

pub(crate) async fn measure(
    stage: &Stage,
    quick: bool,
    [with_start, with_rest, with_checks]: [bool; 3],
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
        say("start: a hundred addresses are already assigned …");
        start::measure(&world, quick, report).await?;
    }
    if with_rest {
        say("rest: nothing happens …");
        rest::measure(&world, quick, report).await?;
    }
    if with_checks {
        say("checks: the nodes are checked …");
        checks::measure(&world, quick, report).await?;
    }
    world.end().await;
    Ok(())
}
