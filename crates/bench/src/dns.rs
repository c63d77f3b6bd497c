//! DNS at both providers, in zones with many other records: the common part of bursts and failovers.

use crate::report::Report;
use crate::world::{Stage, World};
use crate::zones::{LATENCY_MS, OTHERS, ZONE};
use crate::{burst, publish, say};
use flipop_cloud::{Plan, Provider, RecordView};
use flipop_envtest::{Failure, Outcome};
use std::net::Ipv4Addr;

const TTL: u64 = 300;

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    for provider in Provider::ALL {
        let name = provider.name();
        let mut world = stage.world().await?;
        world.add_cloudflare();
        let others = fill(&world, provider)?;
        world.cloud().tune(|knobs| knobs.latency_ms = LATENCY_MS);
        say(&format!("DNS at {name}: nodes become ready …"));
        burst::measure(&world, provider, quick, report).await?;
        say(&format!("DNS at {name}: the node of a pool's address fails …"));
        publish::measure(&world, provider, quick, report).await?;
        let records = world.cloud().records(provider, ZONE);
        if !others.iter().all(|other| records.contains(other)) {
            return Err(Failure::new(format!("{name}: a record of others is gone or altered")));
        }
        world.end().await;
    }
    Ok(())
}

/// Creates the zone and its other records.
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
