//! A failover of a pool's address as DNS sees it: the address is dropped when its node fails, and published again when
//! it is on another node.
//!
//! The publishing round begins with its first call. It is due when the assignment is confirmed (the confirming answer
//! was sent) or when the round that dropped the address has ended, whichever is later. Both orders are measured. The
//! drop round is normally the faster one, so it is slowed down for the other order.

use crate::report::Report;
use crate::stats::{Ms, Samples, ms};
use crate::world::{POOL, REGION, TEAM, World};
use crate::zones::{LATENCY_MS, ZONE, calls, holds};
use flipop_cloud::{Fault, Injection, Op, Provider, Target};
use flipop_envtest::cluster::Kind;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

/// From when the round is due.
const GOAL: Duration = Duration::from_millis(50);

/// Calls of the round.
const CALLS: usize = 2;

/// How long an assignment takes, in milliseconds.
const ACTION_MS: u64 = 900;

/// How much a drop round is slowed down, so that it ends after the assignment.
const SLOW_MS: u64 = 2_500;

const SAMPLES: usize = 10;

/// Rounds of one record set are spaced over 2 s. The pause keeps failovers apart.
const PAUSE: Duration = Duration::from_secs(3);

/// The time in which calls after the round would come.
const AFTER: Duration = Duration::from_millis(500);

const IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(203, 0, 113, 10), Ipv4Addr::new(203, 0, 113, 11)];
const NODES: [&str; 3] = ["alpha", "beta", "gamma"];

pub(crate) async fn measure(world: &World, provider: Provider, quick: bool, report: &mut Report) -> Outcome {
    let name = provider.name();
    let cloud = world.cloud();
    for node in NODES {
        world.node(node, "edge").await?;
    }
    for ip in IPS {
        cloud.add_ip(Some(ip), REGION);
    }
    cloud.tune(|knobs| knobs.action_ms = ACTION_MS);
    let spec = json!({ "provider": "digitalocean", "region": REGION, "ips": IPS,
                       "match": { "nodeLabel": "pool=edge" },
                       "dnsRecordSet": { "provider": name, "zone": ZONE, "recordName": "edge" } });
    world.cluster.create(Kind::Pool, TEAM, POOL, &spec).await?;
    world.cluster.delete_lease().await?;
    let mut operator = world.serving().await?;
    settled(world, provider, None).await?;
    for slow in [false, true] {
        let (mut took, mut most) = (Samples::default(), 0);
        for _ in 0..if quick { 2 } else { SAMPLES } {
            tokio::time::sleep(PAUSE).await;
            let (late, count) = failover(world, provider, slow).await?;
            took.push(late);
            most = count.max(most);
        }
        let due = if slow { "end of a slow drop round" } else { "confirmed assignment" };
        let figure = format!("{name}: failover of a pool's IP, provider latency {LATENCY_MS} ms");
        report.row(
            format_args!("{figure}: {due} → first call of the round that publishes it"),
            format_args!("≤ {}", Ms(GOAL)),
            format_args!("{took}, {} samples", took.len()),
            took.max() <= GOAL,
        );
        report.value(format_args!("ms, {name}: {due} → first call"), ms(took.median()));
        report.at_most(format_args!("{figure}: calls of that round ({due})"), CALLS, most, took.len());
    }
    operator.terminate().await?;
    Ok(())
}

/// Fails the node of the first address. Returns how late the round began, and how many calls it took.
async fn failover(world: &World, provider: Provider, slow: bool) -> Outcome<(Duration, usize)> {
    let (cloud, [ip, _]) = (world.cloud(), IPS);
    let pool = world.cluster.get(Kind::Pool, TEAM, POOL).await?;
    let node = pool.pointer(&format!("/status/ips/{ip}/nodeName")).and_then(|node| node.as_str());
    let node = node.ok_or_else(|| Failure::new("the address is on no node"))?.to_owned();
    if slow {
        let fault = Fault::Delay { before_ms: 0, after_ms: SLOW_MS };
        cloud.inject(Injection::once(Target::provider(provider).mutating().containing(ZONE_CALLS), fault));
    }
    let since = cloud.next_call();
    world.nodes.set_ready(&node, false).await?;
    settled(world, provider, Some(&node)).await?;
    tokio::time::sleep(AFTER).await;
    let calls = calls(world, provider, since);
    let polls = cloud.calls(since).into_iter().filter(|call| call.op == Op::GetAction);
    let confirmed_ms = polls.filter_map(|call| call.ended_ms).max();
    let confirmed_ms = confirmed_ms.ok_or_else(|| Failure::new("no action was looked at"))?;
    // One call drops the address. The rest is the measured round.
    let Some((dropped, round)) = calls.split_first() else { return Err(Failure::new("nothing was written")) };
    let (Some(ended_ms), Some(first)) = (dropped.ended_ms, round.first()) else {
        return Err(Failure::new(format!("the address was not dropped and published: {calls:#?}")));
    };
    let due_ms = ended_ms.max(confirmed_ms);
    world.nodes.set_ready(&node, true).await?;
    Ok((Duration::from_micros(first.at_us.saturating_sub(due_ms.saturating_mul(1_000))), round.len()))
}

/// Part of the path of all record calls, at either provider.
const ZONE_CALLS: &str = "records";

/// Waits until both addresses are active and published, the first one on another node than `except`.
async fn settled(world: &World, provider: Provider, except: Option<&str>) -> Outcome {
    let [ip, _] = IPS;
    let both = |status: &crate::world::Status| {
        let active = status.active();
        let place = active.get(&ip.to_string());
        if active.len() == IPS.len() && place.map(String::as_str) != except {
            Ok(())
        } else {
            Err(format!("active: {active:?}"))
        }
    };
    world.pool_shows("both addresses are active", both).await?;
    let wanted: BTreeSet<String> = IPS.iter().map(ToString::to_string).collect();
    holds(world, provider, &format!("edge.{ZONE}"), &wanted).await
}
