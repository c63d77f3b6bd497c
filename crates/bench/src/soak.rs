//! Hours of operation in a few minutes: nodes, pods, objects and calls fail and change constantly, while memory and
//! open files stay level.
//!
//! The first quarter of the time is warm-up. The last quarter is compared with the second by their medians, because a
//! single sample may include passing work.

use crate::footprint::{Memory, open_files};
use crate::load::Load;
use crate::report::Report;
use crate::world::{OPERATOR, POOL, REGION, Stage, TEAM, World, is_assign};
use crate::zones::ZONE;
use flipop_cloud::{Fault, Injection, Op, Target, When};
use flipop_envtest::Outcome;
use flipop_envtest::cluster::Kind;
use flipop_envtest::nodes::NewPod;
use flipop_envtest::operator::Operator;
use serde_json::json;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Nodes that take turns, and addresses for half of them.
const NODES: u8 = 12;
const ADDRESSES: u8 = 6;

/// The time between two changes.
const PACE: Duration = Duration::from_millis(500);

/// One sample after this many changes.
const SAMPLE_EVERY: u64 = 10;

/// The variation of a heap without leaks, in KiB.
const MEMORY_SLACK: u64 = 1_024;

/// Connections that happen to be open.
const FILES_SLACK: u64 = 4;

/// Samples in the order of time.
#[derive(Debug, Default)]
struct Series(Vec<u64>);

impl Series {
    /// The median of one quarter of the time, counted from 0.
    fn quarter(&self, number: usize) -> u64 {
        let length = self.0.len() / 4;
        let mut part: Vec<u64> = self.0.iter().skip(number * length).take(length).copied().collect();
        part.sort_unstable();
        part.get(part.len() / 2).copied().unwrap_or_default()
    }
}

fn node(number: u8) -> String {
    format!("soak-{number:02}")
}

fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}

pub(crate) async fn measure(stage: &Stage, minutes: u64, report: &mut Report) -> Outcome {
    let world = stage.world().await?;
    furnish(&world).await?;
    let mut operator = world.serving().await?;
    let load = Load::start(&world).await?;
    let (mut memory, mut files) = (Series::default(), Series::default());
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let mut ticks = tokio::time::interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changes: u64 = 0;
    while Instant::now() < end {
        ticks.tick().await;
        change(&world, changes).await?;
        changes += 1;
        if changes.is_multiple_of(SAMPLE_EVERY) {
            operator.get("/metrics").await?;
            memory.0.push(Memory::of(operator.id())?.resident);
            files.0.push(open_files(operator.id())?);
        }
    }
    let rate = load.end().await?;
    settles(&world, &mut operator).await?;
    let assigned = world.cloud().calls(0).iter().filter(|call| is_assign(call, OPERATOR)).count();
    report.note(format_args!(
        "soak: {minutes} min, {changes} changes, {rate:.0} pod updates/s, {assigned} assignments sent"
    ));
    let what = format!("soak of {minutes} min: median of the last quarter above that of the second");
    let (before, after) = (memory.quarter(1), memory.quarter(3));
    report.row(
        format_args!("{what}: resident memory"),
        format_args!("≤ {MEMORY_SLACK} KiB"),
        format_args!("{before} → {after} KiB"),
        after <= before + MEMORY_SLACK,
    );
    let (before, after) = (files.quarter(1), files.quarter(3));
    report.row(
        format_args!("{what}: open files"),
        format_args!("≤ {FILES_SLACK}"),
        format_args!("{before} → {after}"),
        after <= before + FILES_SLACK,
    );
    operator.terminate().await?;
    world.end().await;
    Ok(())
}

async fn furnish(world: &World) -> Outcome {
    world.cluster.namespace("web", None).await?;
    world.cloud().add_domain(ZONE);
    // The soak makes more calls per minute than a token allows.
    world.cloud().tune(|knobs| knobs.rate_limits = false);
    for number in 0..NODES {
        world.node(&node(number), "work").await?;
        world.nodes.set_external_ip(&node(number), &format!("198.51.100.{number}")).await?;
        let pod = NewPod::new("web", &format!("web-{number}"), &node(number)).label("app", "web");
        world.nodes.create_pod(&pod).await?;
    }
    for number in 0..ADDRESSES {
        world.cloud().add_ip(Some(ip(number)), REGION);
    }
    let ips: Vec<Ipv4Addr> = (0..ADDRESSES).map(ip).collect();
    world.pool(POOL, &ips, "work", Some("app=web")).await?;
    record_set(world, "nodes").await
}

async fn record_set(world: &World, name: &str) -> Outcome {
    let spec = json!({ "provider": "digitalocean", "match": { "nodeLabel": "pool=work" },
                       "dnsRecordSet": { "zone": ZONE, "recordName": name } });
    world.cluster.create(Kind::RecordSet, TEAM, name, &spec).await
}

/// Makes the next change in turn.
async fn change(world: &World, number: u64) -> Outcome {
    let turn = u8::try_from(number / 8 % u64::from(NODES))?;
    let (name, pod) = (node(turn), format!("web-{turn}"));
    match number % 8 {
        0 => world.nodes.set_ready(&name, false).await,
        1 => world.nodes.set_pod_ready("web", &format!("web-{}", (turn + 3) % NODES), false).await,
        2 => {
            let fault = if number.is_multiple_of(3) { Fault::status(500) } else { Fault::Reset(When::After) };
            world.cloud().inject(Injection::once(Target::op(Op::AssignIp), fault));
            Ok(())
        }
        3 => record_set(world, "passing").await,
        4 => world.nodes.set_ready(&name, true).await,
        5 => world.nodes.set_pod_ready("web", &format!("web-{}", (turn + 3) % NODES), true).await,
        6 => world.cluster.delete(Kind::RecordSet, TEAM, "passing").await,
        _ => {
            world.nodes.delete_pod("web", &pod).await?;
            world.nodes.create_pod(&NewPod::new("web", &pod, &name).label("app", "web")).await
        }
    }
}

/// Waits until every address is active again and the process is healthy.
async fn settles(world: &World, operator: &mut Operator) -> Outcome {
    for number in 0..NODES {
        world.nodes.set_ready(&node(number), true).await?;
        world.nodes.set_pod_ready("web", &format!("web-{number}"), true).await?;
    }
    world.all_active(ADDRESSES).await?;
    operator.healthy().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_a_part_of_the_time_and_its_median_the_middle_sample() {
        let series = Series(vec![9, 9, 9, 1, 7, 3, 5, 5, 5, 2, 8, 6]);
        assert_eq!((series.quarter(1), series.quarter(3)), (3, 6));
        assert_eq!(Series::default().quarter(3), 0);
    }
}
