//! DNS at both providers, in zones that hold much else: what the figures of bursts and of failovers have in common.

use crate::report::Report;
use crate::world::{OPERATOR, SOON, Stage, World};
use crate::{burst, publish, say};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use flipop_sandbox::cloud::{Call, Plan, Provider, RecordView};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// Milliseconds that a provider takes for each answer.
pub(crate) const LATENCY_MS: u64 = 50;

/// Records in a zone that are not the operator's.
pub(crate) const OTHERS: u16 = 400;

/// The zone, at either provider.
pub(crate) const ZONE: &str = "example.com";

const TTL: u64 = 300;

/// Both providers, as specs call them.
pub(crate) const PROVIDERS: [(Provider, &str); 2] =
    [(Provider::DigitalOcean, "digitalocean"), (Provider::Cloudflare, "cloudflare")];

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    for (provider, name) in PROVIDERS {
        let mut world = stage.world().await?;
        world.add_cloudflare();
        let others = fill(&world, provider)?;
        world.cloud().tune(|knobs| knobs.latency_ms = LATENCY_MS);
        say(&format!("DNS at {name}: nodes become ready …"));
        burst::measure(&world, (provider, name), quick, report).await?;
        say(&format!("DNS at {name}: the node of a pool's address fails …"));
        publish::measure(&world, (provider, name), quick, report).await?;
        let records = world.cloud().records(provider, ZONE);
        if !others.iter().all(|other| records.contains(other)) {
            return Err(Failure::new(format!("{name}: a record of others is gone or altered")));
        }
        world.end().await;
    }
    Ok(())
}

/// Makes the zone and what else is in it.
fn fill(world: &World, provider: Provider) -> Outcome<Vec<RecordView>> {
    let cloud = world.cloud();
    match provider {
        Provider::DigitalOcean => cloud.add_domain(ZONE),
        Provider::Cloudflare => drop(cloud.add_zone(ZONE, Plan::Free)),
    }
    for number in 0..OTHERS {
        let [high, low] = number.to_be_bytes();
        let data = Ipv4Addr::new(198, 51, 100 + high, low).to_string();
        let record = RecordView::new(&format!("host-{number}.{ZONE}"), "A", &data, TTL);
        let added = cloud.add_record(provider, ZONE, &record);
        added.ok_or_else(|| Failure::new("the zone takes no record"))?;
    }
    Ok(cloud.records(provider, ZONE))
}

/// The operator's calls for DNS at a provider, from number `since` on. All of Cloudflare's are.
pub(crate) fn calls(world: &World, provider: Provider, since: u64) -> Vec<Call> {
    let dns = |call: &Call| provider == Provider::Cloudflare || call.path.starts_with("/v2/domains");
    let calls = world.cloud().calls(since).into_iter();
    calls.filter(|call| call.provider == provider && call.token == OPERATOR && dns(call)).collect()
}

/// Waits until exactly these addresses are at a name, each once.
pub(crate) async fn holds(
    world: &World,
    provider: Provider,
    fqdn: &str,
    wanted: &BTreeSet<String>,
) -> Outcome {
    eventually(&format!("{fqdn} holds {} addresses", wanted.len()), SOON, || async move {
        let records = world.cloud().a_records(provider, ZONE, fqdn);
        if records.len() == wanted.len() && records.iter().all(|record| wanted.contains(record)) {
            Ok(())
        } else {
            Err(Failure::new(format!("{records:?}")))
        }
    })
    .await
}
