//! A pool's record set: exactly the addresses confirmed on matching nodes, published as fast as a failover needs.

use crate::dns::{BOTH, Name, named};
use crate::suite::{Case, cases};
use crate::world::{SOON, World, ip, plain_spec, same};
use flipop_cloud::{Call, Fault, Injection, Op, Provider, Target, When};
use flipop_envtest::wait::{eventually, throughout};
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        only_confirmed_addresses_are_published_and_a_failover_is_two_rounds_of_few_calls,
        the_only_address_stays_published_while_it_moves,
        dns_that_hangs_delays_no_assignment,
    ]
}

/// How long the provider takes for an assignment here.
const ACTION: Duration = Duration::from_secs(3);

async fn only_confirmed_addresses_are_published_and_a_failover_is_two_rounds_of_few_calls(
    world: &mut World,
) -> Outcome {
    world.zones();
    world.reserve(&[10, 11, 20, 21]);
    for provider in BOTH {
        for node in ["alpha", "beta"] {
            let name = format!("{node}-{}", named(provider));
            world.node_with(&name, |new| new.label("for", named(provider))).await?;
        }
    }
    world.cloud().tune(|knobs| knobs.action_ms = u64::try_from(ACTION.as_millis()).unwrap_or(u64::MAX));
    let _operator = world.dns_operator().await?;
    let names = BOTH.map(|provider| Name::new(provider, "pool"));
    let lasts = [[10, 11], [20, 21]];
    for (provider, last) in BOTH.into_iter().zip(lasts) {
        let mut spec = plain_spec(&last);
        spec["match"]["nodeLabel"] = json!(format!("for={}", named(provider)));
        spec["dnsRecordSet"] =
            json!({ "provider": named(provider), "zone": "example.com", "recordName": "pool" });
        world.pool(named(provider), &spec).await?;
    }
    // The addresses are requested, but not confirmed yet.
    eventually("all are asked for", SOON, || async {
        let pending = world.cloud().ips().iter().filter(|view| view.locked).count();
        same(pending, 4).map_err(Failure::new)
    })
    .await?;
    assert_eq!(world.dns_writes(0), []);
    for ((provider, name), last) in BOTH.into_iter().zip(&names).zip(lasts) {
        world.pool_publishes(named(provider), name, &last.map(|last| ip(last).to_string())).await?;
    }
    for ((provider, name), [first, second]) in BOTH.into_iter().zip(&names).zip(lasts) {
        let pool = named(provider);
        let active = world.get_pool(pool).await?.active();
        let lost = active[&ip(first).to_string()].clone();
        let mut followed = name.follow(world);
        let calls = world.cloud().next_call();
        world.node_with(&format!("gamma-{pool}"), |new| new.label("for", pool)).await?;
        world.nodes.set_ready(&lost, false).await?;
        world.name_has(name, &[ip(second).to_string()]).await?;
        world.pool_publishes(pool, name, &[ip(first).to_string(), ip(second).to_string()]).await?;
        let both = vec![ip(first).to_string(), ip(second).to_string()];
        assert_eq!(followed.sets(), [both.clone(), vec![ip(second).to_string()], both]);
        let made = world.dns_calls(provider, calls);
        let ops: Vec<Op> = made.iter().map(|call| call.op).collect();
        let changes = match provider {
            Provider::DigitalOcean => [Op::DeleteRecord, Op::CreateRecord],
            Provider::Cloudflare => [Op::BatchRecords; 2],
        };
        assert_eq!(ops, changes, "one call to drop it, one to publish it");
        // It is published only after its action has ended, so at least the action's length after the request.
        let all = world.cloud().calls(calls);
        let at = |op: Op| all.iter().rfind(|call| call.op == op).map_or(0, |call: &Call| call.at_ms);
        let published = made.last().map_or(0, |call| call.at_ms);
        assert!(published >= at(Op::AssignIp) + u64::try_from(ACTION.as_millis())?, "{made:?}");
    }
    Ok(())
}

async fn the_only_address_stays_published_while_it_moves(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10]);
    world.node("alpha").await?;
    let _operator = world.dns_operator().await?;
    let name = Name::new(Provider::DigitalOcean, "pool");
    let mut spec = plain_spec(&[10]);
    spec["dnsRecordSet"] = json!({ "zone": "example.com", "recordName": "pool" });
    world.pool("p", &spec).await?;
    let addresses = [ip(10).to_string()];
    world.pool_publishes("p", &name, &addresses).await?;
    let calls = world.cloud().next_call();
    world.nodes.set_ready("alpha", false).await?;
    world
        .pool_shows("p", "nothing is active, and the record is kept", SOON, |pool| {
            same(pool.active().len(), 0)?;
            crate::dns::has(pool.status(), "RecordSetReady", "True", "Kept", &["203.0.113.10"])?;
            same(&pool.status()["dnsRecordSet"]["addresses"], &json!(addresses))
        })
        .await?;
    world.node("beta").await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    world.pool_publishes("p", &name, &addresses).await?;
    // The records were right all the time.
    assert_eq!(world.dns_calls(Provider::DigitalOcean, calls), []);
    Ok(())
}

async fn dns_that_hangs_delays_no_assignment(world: &mut World) -> Outcome {
    world.zones();
    world.reserve(&[10, 11]);
    world.node("alpha").await?;
    world.node_with("beta", |new| new.label("pool", "other")).await?;
    let operator = world.dns_operator().await?;
    for provider in BOTH {
        let target = Target::op(Op::ListRecords).of(provider);
        world.cloud().inject(Injection::always(target, Fault::Hang(When::Before)));
    }
    let mut spec = plain_spec(&[10]);
    spec["dnsRecordSet"] = json!({ "zone": "example.com", "recordName": "pool" });
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    spec = plain_spec(&[11]);
    spec["match"]["nodeLabel"] = json!("pool=other");
    spec["dnsRecordSet"] = json!({ "provider": "cloudflare", "zone": "example.com", "recordName": "pool" });
    world.pool("q", &spec).await?;
    world.pool_settles("q", &[(11, "beta")]).await?;
    world.annotation_settles("beta", Some(11)).await?;
    throughout("a scrape waits for nothing", Duration::from_secs(1), || async {
        operator.scrape().await.map(drop)
    })
    .await?;
    assert_eq!(world.dns_writes(0), []);
    world.cloud().withdraw_all();
    world.pool_publishes("p", &Name::new(Provider::DigitalOcean, "pool"), &[ip(10).to_string()]).await?;
    world.pool_publishes("q", &Name::new(Provider::Cloudflare, "pool"), &[ip(11).to_string()]).await
}
