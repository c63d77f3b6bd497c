//! The annotation that pauses an object, set and removed by an administrator in the middle of a failover.

use crate::dns::{Name, external, set_spec};
use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, SOON, World, ip, plain_spec, same};
use flipop_cloud::{Op, Provider};
use flipop_core::model::pause::PAUSED_ANNOTATION;
use flipop_envtest::wait::{eventually, throughout};
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// How long the provider takes for an assignment here: long enough to pause a pool meanwhile.
const ACTION: Duration = Duration::from_secs(4);

/// Long enough to see anything that is due at once.
const SETTLED: Duration = Duration::from_secs(5);

const WHY: &str = "incident 7";

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_pool_that_is_paused_during_a_failover_ends_that_move_and_begins_the_next_one_when_it_resumes,
        the_records_of_a_paused_set_stay_until_it_resumes,
    ]
}

async fn annotate(world: &World, object: &str, text: Option<&str>) -> Outcome {
    let change = match text {
        Some(text) => format!("{PAUSED_ANNOTATION}={text}"),
        None => format!("{PAUSED_ANNOTATION}-"),
    };
    world.kubectl.run(&["annotate", object, &change]).await?;
    Ok(())
}

async fn a_pool_that_is_paused_during_a_failover_ends_that_move_and_begins_the_next_one_when_it_resumes(
    world: &mut World,
) -> Outcome {
    world.zones();
    world.reserve(&[10, 11]);
    for node in ["alpha", "beta", "gamma", "omega"] {
        world.node(node).await?;
    }
    let operator = world.dns_operator().await?;
    let name = Name::new(Provider::DigitalOcean, "pool");
    let mut spec = plain_spec(&[10, 11]);
    spec["dnsRecordSet"] = json!({ "zone": "example.com", "recordName": "pool" });
    world.pool("p", &spec).await?;
    world.pool_settles("p", &[(10, "alpha"), (11, "beta")]).await?;
    let both = [ip(10).to_string(), ip(11).to_string()];
    world.pool_publishes("p", &name, &both).await?;

    // When the pool is paused, one move is under way and the other has not begun.
    world.cloud().tune(|knobs| knobs.action_ms = u64::try_from(ACTION.as_millis()).unwrap_or(u64::MAX));
    world.nodes.set_ready("alpha", false).await?;
    eventually("the move is under way", SOON, || async {
        same(world.cloud().ips().iter().filter(|view| view.locked).count(), 1).map_err(Failure::new)
    })
    .await?;
    annotate(world, "fipool/p", Some(WHY)).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "beta")]).await?;
    world.annotation_settles("gamma", Some(10)).await?;
    world.annotation_settles("alpha", None).await?;
    world.pool_publishes("p", &name, &both).await?;
    world.pool_shows("p", "it says why", SOON, |pool| pool.has_condition(WHY)).await?;

    let (calls, records) = (world.mutating_calls(0).len(), world.dns_writes(0).len());
    world.nodes.set_ready("beta", false).await?;
    let unready = |pool: &crate::world::Pool| pool.has_condition("1 of 2 addresses are on matching nodes");
    world.pool_shows("p", "Ready tells the truth", SOON, unready).await?;
    nothing_begins(world, (calls, records)).await?;
    // The next leader does not begin either.
    drop(operator);
    let _operator = world.dns_operator().await?;
    nothing_begins(world, (calls, records)).await?;
    world.annotation_settles("beta", Some(11)).await?;

    let from = world.cloud().next_call();
    annotate(world, "fipool/p", None).await?;
    world.pool_settles("p", &[(10, "gamma"), (11, "omega")]).await?;
    world.annotation_settles("omega", Some(11)).await?;
    world.annotation_settles("beta", None).await?;
    world.pool_publishes("p", &name, &both).await?;
    let made: Vec<Op> = world.cloud().calls(from).iter().map(|call| call.op).collect();
    let at = |op: Op| made.iter().position(|made| *made == op);
    assert!(at(Op::ListReservedIps) < at(Op::AssignIp) && at(Op::ListReservedIps).is_some(), "{made:?}");
    eventually("the Events are written", SOON, || async {
        let events = world.cluster.events("default", "p").await?;
        let told = |start: &str| events.iter().any(|event| event.starts_with(start));
        same((told("Paused: "), told("Resumed: ")), (true, true)).map_err(Failure::new)
    })
    .await
}

async fn nothing_begins(world: &World, (calls, records): (usize, usize)) -> Outcome {
    throughout("nothing begins", SETTLED, || async {
        let made = (world.mutating_calls(0).len(), world.dns_writes(0).len());
        same(made, (calls, records)).map_err(Failure::new)?;
        same(world.nodes.annotation("beta", ANNOTATION).await?, Some(ip(11).to_string()))
            .map_err(Failure::new)
    })
    .await
}

async fn the_records_of_a_paused_set_stay_until_it_resumes(world: &mut World) -> Outcome {
    world.zones();
    for (node, last) in [("alpha", 1), ("beta", 2), ("gamma", 3)] {
        world.public_node(node, last).await?;
    }
    let _operator = world.dns_operator().await?;
    let name = Name::new(Provider::Cloudflare, "nodes");
    world.record_set("s", &set_spec(Provider::Cloudflare, "nodes")).await?;
    let of = |lasts: &[u8]| lasts.iter().map(|last| external(*last).to_string()).collect::<Vec<_>>();
    world.name_has(&name, &of(&[1, 2, 3])).await?;
    annotate(world, "nodedns/s", Some("")).await?;
    let paused = |set: &crate::dns::RecordSet| set.has("Paused", "True", "Annotation", &["without a reason"]);
    world.set_shows("s", "it is paused", SOON, paused).await?;
    let writes = world.dns_writes(0).len();
    world.nodes.set_ready("alpha", false).await?;
    let waits = |set: &crate::dns::RecordSet| set.has("Ready", "False", "Paused", &["stay as they are"]);
    world.set_shows("s", "Ready says why", SOON, waits).await?;
    throughout("the records stay", SETTLED, || async {
        same(world.dns_writes(0).len(), writes).map_err(Failure::new)
    })
    .await?;
    annotate(world, "nodedns/s", None).await?;
    world.name_has(&name, &of(&[2, 3])).await?;
    let right = |set: &crate::dns::RecordSet| set.has("Ready", "True", "Published", &[]);
    world.set_shows("s", "it is Ready", SOON, right).await?;
    Ok(())
}
