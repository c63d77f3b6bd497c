//! Nodes that become ready one after another: how many calls publish them, and how soon all are published.
//!
//! The count starts before the record set is created, so it includes the reads of its zone and records. The time of the
//! last change is when the simulated provider made it. The provider's own share is its answers to the calls that began
//! after the last node was ready; they follow one another.

use crate::report::Report;
use crate::stats::{Ms, Samples, ms};
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

/// How many nodes become ready.
const NODES: u32 = 50;

/// The time within which they do.
const SPREAD: Duration = Duration::from_secs(5);

/// The most calls. `DigitalOcean` has no batches, so each record takes one; the rest are reads.
const CALLS_DIGITALOCEAN: usize = 60;
const CALLS_CLOUDFLARE: usize = 8;

/// From the last ready node to the last record, without the provider's own time.
const GOAL: Duration = Duration::from_millis(1_500);

/// The time in which late calls would come.
const AFTER: Duration = Duration::from_secs(3);

/// More rounds would use up the share of a minute's requests that the operator grants DNS, which is not measured here.
const ROUNDS: usize = 3;

pub(crate) async fn measure(world: &World, provider: Provider, quick: bool, report: &mut Report) -> Outcome {
    let name = provider.name();
    let mut operator = world.serving().await?;
    let (mut took, mut most, mut at_provider) = (Samples::default(), 0, Duration::ZERO);
    for round in 0..if quick { 1 } else { ROUNDS } {
        let (count, late, provider_took) = burst(world, provider, round).await?;
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
    report.at_most(format_args!("{figure}: provider calls"), limit, most, took.len());
    report.row(
        format_args!("{figure}: last node ready → the set is right, beside the provider's own time"),
        format_args!("≤ {}", Ms(GOAL)),
        format_args!("{took} (and up to {} at the provider)", Ms(at_provider)),
        took.max() <= GOAL,
    );
    report
        .value(format_args!("ms, {name}: {NODES} nodes become ready → the set is right"), ms(took.median()));
    Ok(())
}

/// One burst: the calls, the time from the last node to the last record, and the provider's share of it.
async fn burst(world: &World, provider: Provider, round: usize) -> Outcome<(usize, Duration, Duration)> {
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
    let spec = json!({ "provider": provider.name(), "match": { "nodeLabel": format!("pool={pool}") },
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
    // Each of these was answered before the last change, which takes effect before its own answer.
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

/// Waits until the status shows the same.
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
