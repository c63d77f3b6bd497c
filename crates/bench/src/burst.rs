//! Nodes that become ready one after the other: how many calls it takes to publish them, and how soon all are there.
//!
//! Calls are counted from before the record set is made, so that its zone and its records being read is in the number.
//! The last change is taken from the moment at which the simulated provider made it; what the provider itself took is
//! its answers to the calls that began after the last node was ready, which follow one another.

use crate::report::Report;
use crate::stats::{Ms, Samples};
use crate::world::{POOL, REGION, SOON, TEAM, World};
use crate::zones::{LATENCY_MS, OTHERS, ZONE, calls, holds};
use flipop_cloud::{ChangeKind, Provider};
use flipop_envtest::cluster::Kind;
use flipop_envtest::nodes::NewNode;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// Nodes that become ready.
const NODES: u32 = 50;

/// Within this time.
const SPREAD: Duration = Duration::from_secs(5);

/// Calls: one for each record at `DigitalOcean`, which has no batches, and what is read.
const CALLS_DIGITALOCEAN: usize = 60;
const CALLS_CLOUDFLARE: usize = 8;

/// From the last node being ready to the last record, beside what the provider takes.
const GOAL: Duration = Duration::from_millis(1_500);

/// Calls that would come late come within this.
const AFTER: Duration = Duration::from_secs(3);

/// More would use up what the operator grants DNS of a minute's requests, which is not what is measured.
const ROUNDS: usize = 3;

pub(crate) async fn measure(
    world: &World,
    (provider, name): (Provider, &str),
    quick: bool,
    report: &mut Report,
) -> Outcome {
    let mut operator = world.start()?;
    operator.healthy().await?;
    let (mut took, mut most, mut at_provider) = (Samples::default(), 0, Duration::ZERO);
    for round in 0..if quick { 1 } else { ROUNDS } {
        let (count, late, provider_took) = burst(world, (provider, name), round).await?;
        most = count.max(most);
        at_provider = provider_took.max(at_provider);
        took.push(late.saturating_sub(provider_took));
    }
    operator.terminate().await?;
    let figure = format!(
        "{name}: {NODES} nodes become ready within {}, {OTHERS} other records, provider latency {LATENCY_MS} ms",
        Ms(SPREAD)
    );
    let limit = match provider {
        Provider::DigitalOcean => CALLS_DIGITALOCEAN,
        Provider::Cloudflare => CALLS_CLOUDFLARE,
    };
    report.row(
        format_args!("{figure}: provider calls"),
        format_args!("≤ {limit}"),
        format_args!("{most} (max of {})", took.len()),
        most <= limit,
    );
    report.row(
        format_args!("{figure}: last node ready → the set is right, beside the provider's own time"),
        format_args!("≤ {}", Ms(GOAL)),
        format_args!("{took} (and up to {} at the provider)", Ms(at_provider)),
        took.max() <= GOAL,
    );
    Ok(())
}

/// One burst: calls, time from the last node to the last record, and how much of that the provider's answers took.
async fn burst(
    world: &World,
    (provider, name): (Provider, &str),
    round: usize,
) -> Outcome<(usize, Duration, Duration)> {
    let (pool, cloud) = (format!("burst-{round}"), world.cloud());
    let mut wanted = BTreeSet::new();
    let mut nodes = Vec::new();
    for number in 1..=NODES {
        let (node, ip) = (format!("{pool}-{number:02}"), format!("203.0.113.{number}"));
        let droplet = cloud.add_droplet(&node, REGION);
        world.nodes.create(&NewNode::new(&node).droplet(droplet).label("pool", &pool).not_ready()).await?;
        world.nodes.set_external_ip(&node, &ip).await?;
        wanted.insert(ip);
        nodes.push(node);
    }
    let (since, fqdn) = (cloud.next_call(), format!("{pool}.{ZONE}"));
    let mut changes = cloud.changes();
    let spec = json!({ "provider": name, "match": { "nodeLabel": format!("pool={pool}") },
                       "dnsRecordSet": { "zone": ZONE, "recordName": pool } });
    world.cluster.create(Kind::RecordSet, TEAM, POOL, &spec).await?;
    let mut ticks = tokio::time::interval(SPREAD / NODES);
    for node in &nodes {
        ticks.tick().await;
        world.nodes.set_ready(node, true).await?;
    }
    let ready_us = cloud.now_us();
    holds(world, provider, &fqdn, &wanted).await?;
    tokio::time::sleep(AFTER).await;
    let mut last_ms = 0;
    while let Ok(change) = changes.try_recv() {
        if matches!(&change.kind, ChangeKind::Record { fqdn: name, .. } if *name == fqdn) {
            last_ms = change.at_ms;
        }
    }
    let all = calls(world, provider, since);
    // Each of these was answered before the last change, which has its effect before its own answer.
    let late = all.iter().filter(|call| call.at_us > ready_us && call.at_us / 1_000 < last_ms).count();
    let provider_took = Duration::from_millis(LATENCY_MS.saturating_mul(u64::try_from(late)?));
    shown(world).await?;
    world.cluster.delete(Kind::RecordSet, TEAM, POOL).await?;
    for node in &nodes {
        world.nodes.delete(node).await?;
    }
    let late = Duration::from_millis(last_ms).saturating_sub(Duration::from_micros(ready_us));
    Ok((all.len(), late, provider_took))
}

/// The status says the same.
async fn shown(world: &World) -> Outcome {
    eventually("all addresses are in the status", SOON, || async move {
        let set = world.cluster.get(Kind::RecordSet, TEAM, POOL).await?;
        let addresses = set.pointer("/status/addresses").and_then(|addresses| addresses.as_array());
        match addresses.map(Vec::len) {
            Some(count) if u32::try_from(count) == Ok(NODES) => Ok(()),
            count => Err(Failure::new(format!("{count:?} addresses"))),
        }
    })
    .await
}
