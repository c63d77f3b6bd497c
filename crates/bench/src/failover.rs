//! From sending the write that makes a node `NotReady` to the arrival of the assign request, compared with a bare
//! client.

use crate::bare::{self, Bare};
use crate::hang::Hangs;
use crate::load::{Load, RATE};
use crate::report::Report;
use crate::stats::{Ms, Samples, above, ms};
use crate::world::{BARE, OPERATOR, POOL, Stage, World, is_assign};
use flipop_cloud::Call;
use flipop_envtest::Outcome;
use flipop_envtest::nodes::NewPod;
use flipop_envtest::operator::Operator;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::net::Ipv4Addr;
use std::time::Duration;

/// How much longer the operator's median may be than the bare client's.
const GOAL: Duration = Duration::from_millis(2);

/// Samples per client and condition.
const SAMPLES: usize = 32;
const SAMPLES_QUICK: usize = 6;

/// Samples that are discarded first: they include first connections and first loads of code.
const WARM_UP: usize = 3;

/// The time after which all effects of the last sample have ended.
const PAUSE: Duration = Duration::from_millis(100);

/// An outage in which the waits between retries become longer than the goal.
const OUTAGE: Duration = Duration::from_secs(40);

/// From the end of an outage to the request.
const GOAL_AFTER_OUTAGE: Duration = Duration::from_secs(6);

/// Outages that are measured.
const OUTAGES: usize = 3;

const IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
const BARE_IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 11);
const NODES: [&str; 2] = ["alpha", "beta"];

/// The client that is to answer a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Operator,
    Bare,
}

/// The samples of the two clients.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    operator: Samples,
    bare: Samples,
}

impl Pair {
    pub(crate) fn push(&mut self, who: Who, sample: Duration) {
        match who {
            Who::Operator => self.operator.push(sample),
            Who::Bare => self.bare.push(sample),
        }
    }
}

/// The node that has the address, and the other one.
#[derive(Debug)]
pub(crate) struct Places {
    holder: &'static str,
    spare: &'static str,
}

/// A cluster with two nodes and a pool of one address, which is on one of them, and an operator.
pub(crate) async fn ground(stage: &Stage) -> Outcome<(World, Operator, Places)> {
    let world = stage.world().await?;
    world.cluster.namespace("web", None).await?;
    world.cloud().add_ip(Some(IP), crate::world::REGION);
    // The benchmark makes thousands of calls a minute. It measures them and must not be limited.
    world.cloud().tune(|knobs| knobs.rate_limits = false);
    for node in NODES {
        world.node(node, "work").await?;
        let pod = NewPod::new("web", &format!("web-{node}"), node).label("app", "web");
        world.nodes.create_pod(&pod).await?;
    }
    let [holder, spare] = NODES;
    let places = Places { holder, spare };
    world.pool(POOL, &[IP], "work", Some("app=web")).await?;
    let operator = world.serving().await?;
    settled(&world, &places).await?;
    Ok((world, operator, places))
}

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    let samples = if quick { SAMPLES_QUICK } else { SAMPLES };
    let (world, _operator, mut places) = ground(stage).await?;
    let _bare = Bare::start(&world, "pool=work", BARE_IP).await?;

    let idle = pairs(&world, &mut places, samples, None).await?;
    row(report, "failover", GOAL, &idle);

    let load = Load::start(&world).await?;
    let loaded = pairs(&world, &mut places, samples, None).await?;
    let rate = load.end().await?;
    row(report, &format!("failover under {RATE} pod updates/s"), GOAL, &loaded);
    report.note(format_args!("pod updates during the failovers: {rate:.0}/s"));

    let hung = pairs(&world, &mut places, samples, Some(Hangs::default())).await?;
    row(report, "failover while another provider call hangs", GOAL, &hung);
    let mut waits = Samples::default();
    for _ in 0..if quick { 1 } else { OUTAGES } {
        waits.push(after_outage(&world, &mut places).await?);
    }
    report.row(
        format_args!("an outage of {} s in which a node fails: its end → assign request", OUTAGE.as_secs()),
        format_args!("max ≤ {}", Ms(GOAL_AFTER_OUTAGE)),
        format_args!("median {}, max {}, {} outages", Ms(waits.median()), Ms(waits.max()), waits.len()),
        waits.max() <= GOAL_AFTER_OUTAGE,
    );
    report.value(format_args!("ms, after an outage"), ms(waits.median()));
    world.end().await;
    Ok(())
}

/// Compares the two clients.
pub(crate) fn row(report: &mut Report, figure: &str, goal: Duration, Pair { operator, bare }: &Pair) {
    let excess = above(operator.median(), bare.median());
    let (worst, count) = (above(operator.max(), bare.max()), operator.len());
    report.row(
        format_args!("{figure}: node NotReady → assign request, above a bare client"),
        format_args!("median ≤ {}", Ms(goal)),
        format_args!("{excess} (max {worst}); operator {operator}, bare client {bare}, {count} each"),
        operator.median() <= bare.median() + goal,
    );
    report.value(format_args!("ms, {figure}"), ms(operator.median()));
    report.value(format_args!("ms, {figure}, the bare client"), ms(bare.median()));
}

/// Takes samples of both clients in turn.
async fn pairs(
    world: &World,
    places: &mut Places,
    samples: usize,
    mut hangs: Option<Hangs>,
) -> Outcome<Pair> {
    let mut pair = Pair::default();
    for round in 0..samples + WARM_UP {
        for who in [Who::Bare, Who::Operator] {
            let sample = loop {
                if let Some(hangs) = &mut hangs {
                    hangs.ensure(world).await?;
                }
                let sample = sample(world, places, who).await?;
                // A sample does not count if its hung call may have ended meanwhile.
                if hangs.as_ref().is_none_or(|hangs| hangs.holds(world)) {
                    break sample;
                }
            };
            if round >= WARM_UP {
                pair.push(who, sample);
            }
        }
    }
    Ok(pair)
}

/// One outage in which the node fails that has the address. Returns the time from its end to the assign request.
async fn after_outage(world: &World, places: &mut Places) -> Outcome<Duration> {
    let took = world.outage(OUTAGE, places.holder).await?;
    std::mem::swap(&mut places.holder, &mut places.spare);
    world.nodes.set_ready(places.spare, true).await?;
    settled(world, places).await?;
    Ok(took)
}

/// Takes samples of the operator alone.
pub(crate) async fn samples(world: &World, places: &mut Places, count: usize) -> Outcome<Samples> {
    let mut samples = Samples::default();
    for _ in 0..count {
        samples.push(sample(world, places, Who::Operator).await?);
    }
    Ok(samples)
}

/// One failure, answered by one of the clients. Afterwards everything is as before, or mirrored.
async fn sample(world: &World, places: &mut Places, who: Who) -> Outcome<Duration> {
    let node = if who == Who::Operator { places.holder } else { places.spare };
    let took = fail(world, node, who, IP).await?;
    if who == Who::Operator {
        std::mem::swap(&mut places.holder, &mut places.spare);
    }
    let holder = places.holder;
    world.pool_shows(&format!("{IP} is on {holder}"), |status| status.stands(IP, holder, &[])).await?;
    world.nodes.set_ready(places.spare, true).await?;
    settled(world, places).await?;
    tokio::time::sleep(PAUSE).await;
    Ok(took)
}

/// Makes a node `NotReady`. Returns the time until the client's assign request. The operator's request moves `ip`.
pub(crate) async fn fail(world: &World, node: &str, who: Who, ip: Ipv4Addr) -> Outcome<Duration> {
    let (token, reason) = match who {
        Who::Operator => (OPERATOR, "Operator"),
        Who::Bare => (BARE, bare::REASON),
    };
    let cloud = world.cloud();
    let (since, mut changes) = (cloud.next_call(), cloud.changes());
    let nodes: Api<Node> = Api::all(world.client.clone());
    let patch = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let (patch, params) = (Patch::Merge(&patch), PatchParams::default());
    let sent_us = cloud.now_us();
    let ours =
        |call: &Call| is_assign(call, token) && (who == Who::Bare || call.path.contains(&ip.to_string()));
    let write =
        async { nodes.patch_status(node, &params, &patch).await.map_err(flipop_envtest::Failure::from) };
    let (_node, call) = futures::try_join!(write, world.call(&mut changes, since, ours))?;
    Ok(Duration::from_micros(call.at_us.saturating_sub(sent_us)))
}

/// Waits until the address is active and the other node waits for one.
async fn settled(world: &World, places: &Places) -> Outcome {
    let Places { holder, spare } = *places;
    let what = format!("{IP} is on {holder}, {spare} waits");
    world.pool_shows(&what, |status| status.stands(IP, holder, &[spare])).await
}
