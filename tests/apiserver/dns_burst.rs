//! Many nodes at once: calls are counted, and the rest of the zone is compared record by record.

use crate::dns::{BOTH, Name, external, externals, set_spec};
use crate::suite::{Case, cases};
use crate::world::World;
use flipop_cloud::{Op, Provider, RecordView};
use flipop_envtest::Outcome;
use futures::future::try_join_all;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed: fifty_nodes_within_five_seconds_cost_few_calls_and_touch_no_other_record]
}

const NODES: u8 = 50;

/// The time in which all nodes become ready.
const BURST: Duration = Duration::from_secs(5);

/// Other people's records of every kind, some of them at the same name.
fn fill(world: &World, provider: Provider, name: &Name) {
    for number in 0..400_u16 {
        let (kind, fqdn, data) = match number {
            0 => ("TXT", name.fqdn.clone(), "\"v=spf1 -all\"".to_owned()),
            1 => ("AAAA", name.fqdn.clone(), "2001:db8::1".to_owned()),
            // Names that a careless filter would take for ours.
            2 => ("A", format!("x.{}", name.fqdn), "192.0.2.2".to_owned()),
            3 => ("A", format!("x{}", name.fqdn), "192.0.2.3".to_owned()),
            _ => ("A", format!("r{number}.{}", name.zone), format!("192.0.2.{}", number % 250)),
        };
        let record = RecordView::new(&fqdn, kind, &data, 300 + u64::from(number));
        let proxied = provider == Provider::Cloudflare && number % 7 == 4;
        let comment = (provider == Provider::Cloudflare && number % 5 == 4).then(|| format!("no. {number}"));
        let record = RecordView { proxied, comment, ..record };
        assert!(world.cloud().add_record(provider, &name.zone, &record).is_some());
    }
}

async fn fifty_nodes_within_five_seconds_cost_few_calls_and_touch_no_other_record(
    world: &mut World,
) -> Outcome {
    world.zones();
    let names = BOTH.map(|provider| Name::new(provider, "nodes"));
    for name in &names {
        fill(world, name.provider, name);
    }
    let before = names.each_ref().map(|name| name.others(world));
    try_join_all((1..=NODES).map(|number| {
        let world = &*world;
        async move {
            let node = format!("n{number}");
            world
                .node_with(&node, |new| new.address("ExternalIP", &external(number).to_string()).not_ready())
                .await
        }
    }))
    .await?;
    let _operator = world.dns_operator().await?;
    world.record_set("on-digitalocean", &set_spec(Provider::DigitalOcean, "nodes")).await?;
    world.record_set("on-cloudflare", &set_spec(Provider::Cloudflare, "nodes")).await?;
    for (set, name) in [("on-digitalocean", &names[0]), ("on-cloudflare", &names[1])] {
        world.set_settles(set, name, &[]).await?;
    }
    // The calls that find an empty name are counted too.
    assert!(world.dns_writes(0).is_empty(), "{:?}", world.dns_writes(0));

    let mut tick = tokio::time::interval(BURST / u32::from(NODES));
    for number in 1..=NODES {
        tick.tick().await;
        world.nodes.set_ready(&format!("n{number}"), true).await?;
    }
    let all: Vec<u8> = (1..=NODES).collect();
    for (set, name) in [("on-digitalocean", &names[0]), ("on-cloudflare", &names[1])] {
        world.set_settles(set, name, &externals(&all)).await?;
        let calls = world.dns_calls(name.provider, 0);
        let most = if name.provider == Provider::DigitalOcean { 60 } else { 8 };
        let made: Vec<Op> = calls.iter().map(|call| call.op).collect();
        assert!(calls.len() <= most, "{} calls at {:?}: {made:?}", calls.len(), name.provider);
        let creates = made.iter().filter(|op| **op == Op::CreateRecord).count();
        assert_eq!(creates, if name.provider == Provider::DigitalOcean { 50 } else { 0 });
    }
    for (name, before) in names.iter().zip(before) {
        assert_eq!(before.len(), if name.provider == Provider::DigitalOcean { 404 } else { 400 });
        assert_eq!(name.others(world), before);
    }
    Ok(())
}
