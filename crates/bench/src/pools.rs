//! Many pools of one address, each with selectors of its own: start, failovers, and the cost at rest.
//!
//! The addresses stand on their nodes before the operator starts, as after a restart.

use crate::commands;
use crate::failover::{self, Who};
use crate::footprint::{Memory, open_files, processor_time, spent};
use crate::report::Report;
use crate::stats::{Ms, Samples, ms};
use crate::world::{OPERATOR, POOL, REGION, SOON, Stage, World, is_assign};
use flipop_envtest::cluster::Kind;
use flipop_envtest::nodes::NewPod;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::Instant;

const POOLS: u16 = 1_000;
const POOLS_QUICK: u16 = 50;

/// The growth of memory is measured from a world with fewer pools by this factor.
const FEWER: u16 = 10;

/// The nodes that fail at once. Each of their pools has another node.
const TOGETHER: u16 = 100;

/// Objects that are created at a time.
const AT_ONCE: usize = 16;

const START: Duration = Duration::from_millis(1_500);
const FAILOVER: Duration = Duration::from_millis(40);
const BURST: Duration = Duration::from_millis(1_500);

/// Processor time in a minute at rest.
const REST: Duration = Duration::from_secs(2);

/// Resident memory, and its growth for each pool, in KiB.
const MEMORY: u64 = 60 << 10;
const GROWTH: f64 = 12.0;

/// Open descriptors at rest.
const FILES: u64 = 80;

/// How long selectors may be counted and merged after a start, before the operator is at rest.
const MERGED: Duration = Duration::from_secs(30);

const SAMPLES: usize = 16;
const SAMPLES_QUICK: usize = 3;

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    let count = if quick { POOLS_QUICK } else { POOLS };
    let fewer = count.div_ceil(FEWER);
    let (world, mut operator, ..) = started(stage, fewer).await?;
    let small = Memory::of(operator.id())?;
    operator.terminate().await?;
    world.end().await;

    let (world, mut operator, start, spent) = started(stage, count).await?;
    let figure = format_args!("{count} pools with selectors of their own: start → all addresses active");
    report.within(figure, START, start);
    report.value(format_args!("ms, start with {count} pools"), ms(start));
    report.note(format_args!("{count} pools: processor time until then {}", Ms(spent)));
    at_rest(&operator, count, (fewer, small), quick, report).await?;
    let kubeconfig = world.server.kubectl()?.kubeconfig().to_owned();
    let status = commands::own_time(stage.binary(), "status", &kubeconfig, [0, 0]).await?;
    report.within(format_args!("{count} pools: own time of status"), commands::GOAL, status);
    report.value(format_args!("ms of own time of status with {count} pools"), ms(status));
    let samples = if quick { SAMPLES_QUICK } else { SAMPLES };
    let failovers = failovers(&world, samples).await?;
    let figure = format_args!("{count} pools: failover of one of them (median / max)");
    report.median_within(figure, FAILOVER, &failovers);
    report.value(format_args!("ms, failover among {count} pools"), ms(failovers.median()));
    let together = TOGETHER.min(count - 1);
    let burst = burst(&world, together).await?;
    let figure =
        format_args!("{count} pools, {together} nodes fail at once: first write → last assign request");
    report.within(figure, BURST, burst);
    report.value(format_args!("ms, {together} failovers at once among {count} pools"), ms(burst));
    operator.terminate().await?;
    let (mut operator, restart) = restarted(&world).await?;
    let figure = format_args!("{count} pools, a node failed meanwhile: restart → assign request");
    report.within(figure, START, restart);
    report.value(format_args!("ms, restart with {count} pools"), ms(restart));
    operator.terminate().await?;
    world.end().await;
    Ok(())
}

/// Starts the operator again after a node has failed, whose pool has another one. Returns the time until the address of
/// that node is sent there.
async fn restarted(world: &World) -> Outcome<(Operator, Duration)> {
    world.nodes.set_ready(&node(1, "a"), true).await?;
    world.nodes.set_ready(&node(1, "b"), false).await?;
    let cloud = world.cloud();
    let (since, begun_us) = (cloud.next_call(), cloud.now_us());
    let operator = world.start()?;
    let sent_us = eventually("the address is sent elsewhere", SOON, || async move {
        let sent = cloud
            .calls(since)
            .into_iter()
            .find(|call| is_assign(call, OPERATOR) && call.path.contains(&ip(1).to_string()));
        sent.map(|call| call.at_us).ok_or_else(|| Failure::new("no assign request"))
    })
    .await?;
    Ok((operator, Duration::from_micros(sent_us.saturating_sub(begun_us))))
}

/// The cost of the operator while nothing happens.
async fn at_rest(
    operator: &Operator,
    count: u16,
    (fewer, small): (u16, Memory),
    quick: bool,
    report: &mut Report,
) -> Outcome {
    let window = if quick { Duration::from_secs(10) } else { Duration::from_mins(1) };
    let minutely = spent(operator.id(), window).await?.mul_f64(60.0 / window.as_secs_f64());
    report.within(format_args!("{count} pools at rest: processor time a minute"), REST, minutely);
    let (memory, files) = (Memory::of(operator.id())?, open_files(operator.id())?);
    let figure = format_args!("{count} pools at rest: resident memory");
    report.resident(figure, MEMORY, &memory, format_args!("{count} pools"))?;
    let grown = u32::try_from(memory.resident.saturating_sub(small.resident))?;
    let each = f64::from(grown) / f64::from(count - fewer);
    report.row(
        format_args!("{count} pools at rest: resident memory for each, from {fewer} pools on"),
        format_args!("≤ {GROWTH} KiB"),
        format_args!("{each:.1} KiB"),
        each <= GROWTH,
    );
    report.row(
        format_args!("{count} pools at rest: open descriptors"),
        format_args!("≤ {FILES}"),
        files,
        files <= FILES,
    );
    Ok(())
}

/// A world of pools whose addresses stand on their nodes, and an operator at rest in it. Returns the time from its
/// start until every status says so, and its processor time until then.
async fn started(stage: &Stage, count: u16) -> Outcome<(World, Operator, Duration, Duration)> {
    let world = stage.world().await?;
    world.cluster.namespace("web", None).await?;
    // The benchmark moves more addresses in a minute than a token may. That is not measured here.
    world.cloud().tune(|knobs| knobs.rate_limits = false);
    stream::iter(0..count)
        .map(|number| create(&world, number))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let begun = Instant::now();
    let operator = world.serving().await?;
    let world_of = &world;
    eventually("all addresses are active", SOON * 4, || async move {
        let pools = world_of.cluster.list(Kind::Pool).await?;
        let active = pools.iter().filter(|pool| is_active(pool)).count();
        if active == usize::from(count) {
            Ok(())
        } else {
            Err(Failure::new(format!("{active} of {count} are active")))
        }
    })
    .await?;
    let (start, spent) = (begun.elapsed(), processor_time(operator.id())?);
    tokio::time::sleep(MERGED).await;
    Ok((world, operator, start, spent))
}

fn is_active(pool: &Value) -> bool {
    let entries = pool.pointer("/status/ips").and_then(Value::as_object);
    entries.into_iter().flatten().any(|(_, entry)| entry.get("state").is_some_and(|state| state == "active"))
}

/// Creates a pool with its nodes, pods and address.
async fn create(world: &World, number: u16) -> Outcome {
    let (own, address) = (number.to_string(), ip(number));
    world.cloud().add_ip(Some(address), REGION);
    for which in if number <= TOGETHER { ["a", "b"].as_slice() } else { &["a"] } {
        let name = node(number, which);
        let droplet = world.node(&name, &own).await?;
        if *which == "a" {
            world.cloud().move_ip(address, Some(droplet))?;
        }
        let pod = NewPod::new("web", &format!("web-{name}"), &name).label("app", &own);
        world.nodes.create_pod(&pod).await?;
    }
    let name = if number == 0 { POOL.to_owned() } else { format!("pool-{number}") };
    world.pool(&name, &[address], &own, Some(&format!("app={number}"))).await
}

fn node(number: u16, which: &str) -> String {
    format!("node-{number}-{which}")
}

fn ip(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(198, 18, high, low)
}

/// Failovers of the first pool, there and back.
async fn failovers(world: &World, count: usize) -> Outcome<Samples> {
    let (mut samples, mut places) = (Samples::default(), [node(0, "a"), node(0, "b")]);
    for _ in 0..count {
        let [holder, spare] = places;
        samples.push(failover::fail(world, &holder, Who::Operator, ip(0)).await?);
        world.nodes.set_ready(&holder, true).await?;
        world.pool_shows("the address moved", |status| status.stands(ip(0), &spare, &[&holder])).await?;
        places = [spare, holder];
    }
    Ok(samples)
}

/// Nodes of as many pools fail at once. Returns the time until the last of their addresses was sent elsewhere.
async fn burst(world: &World, count: u16) -> Outcome<Duration> {
    let cloud = world.cloud();
    let (since, sent_us) = (cloud.next_call(), cloud.now_us());
    let failing = stream::iter(1..=count)
        .map(|number| async move { world.nodes.set_ready(&node(number, "a"), false).await });
    failing.buffer_unordered(usize::from(count)).try_collect::<Vec<()>>().await?;
    let last_us = eventually("all addresses are sent elsewhere", SOON, || async move {
        let calls = cloud.calls(since).into_iter().filter(|call| is_assign(call, OPERATOR));
        let at: BTreeMap<String, u64> = calls.map(|call| (call.path, call.at_us)).collect();
        let last = at.values().max().copied().filter(|_| at.len() >= usize::from(count));
        last.ok_or_else(|| Failure::new(format!("{} of {count}", at.len())))
    })
    .await?;
    Ok(Duration::from_micros(last_us.saturating_sub(sent_us)))
}
