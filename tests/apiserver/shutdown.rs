//! How the process ends, and which troubles cannot cost it the lease: hung calls, blocked output, stalled clients.

use crate::dns::{Name, externals, set_spec};
use crate::suite::{Case, cases};
use crate::team::{holder, launch, replica, replica_with, stage, while_addresses_move, writers, writes};
use crate::world::{Object, SOON, World, plain_spec, same};
use flipop_cloud::{Call, Fault, Injection, Op, Provider, Target, When};
use flipop_envtest::audit::Write;
use flipop_envtest::cluster::USER;
use flipop_envtest::operator::Operator;
use flipop_envtest::process::{FullPipe, Signal};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How long after SIGTERM to wait for calls in flight.
const DRAIN: Duration = Duration::from_secs(8);

/// The process ends within 10 s. The rest is for a loaded machine.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Ends at once, even on a loaded machine, and long before calls in flight are given up.
const AT_ONCE: Duration = Duration::from_secs(5);

/// How long the creation takes that is under way at the signal.
const SLOW_MS: u64 = 4_000;

/// The time for several renewals.
const A_WHILE: Duration = Duration::from_secs(7);

/// Far more than the endpoints serve at once.
const HALF_OPEN: usize = 1_000;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        sigterm_waits_for_a_purchase_records_it_and_starts_nothing_else,
        sigterm_while_a_call_hangs_leaves_the_lease_to_expire,
        sigterm_in_the_middle_of_a_round_lets_one_request_end_and_the_next_process_sends_the_rest,
        a_second_signal_ends_the_process_at_once,
        output_that_nobody_reads_stops_neither_lease_nor_work,
        a_thousand_half_open_connections_stop_neither_lease_nor_scrapes,
    ]
}

async fn leads(world: &World) -> Outcome<String> {
    eventually("somebody leads", SOON, || holder(world)).await
}

/// Waits until such a call is under way.
async fn under_way(world: &World, op: Op) -> Outcome<Call> {
    eventually("the call is under way", Duration::from_mins(1), || async {
        let call = world.cloud().calls(0).into_iter().find(|call| call.op == op && call.ended_ms.is_none());
        call.ok_or_else(|| Failure::new("not yet"))
    })
    .await
}

async fn sigterm_waits_for_a_purchase_records_it_and_starts_nothing_else(world: &mut World) -> Outcome {
    let slow = Fault::Delay { before_ms: 0, after_ms: SLOW_MS };
    world.cloud().inject(Injection::once(Target::op(Op::CreateReservedIp), slow));
    world.node("alpha").await?;
    let mut operator = replica(world, "leader").await?;
    let identity = leads(world).await?;
    let mut spec = plain_spec(&[]);
    spec["desiredIPs"] = json!(2);
    world.pool("p", &spec).await?;
    let purchase = under_way(world, Op::CreateReservedIp).await?;
    operator.signal(Signal::TERM)?;
    let since = world.server.audit().position()?;
    while world.cloud().calls(purchase.seq).first().is_some_and(|call| call.ended_ms.is_none()) {
        assert_eq!(holder(world).await?, identity, "the lease is kept while a call is under way");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let status = operator.wait_end(END_TIMEOUT).await?;
    assert!(status.success(), "{status}");
    let bought: Vec<String> = world.cloud().ips().iter().map(|view| view.ip.to_string()).collect();
    assert_eq!(bought.len(), 1);
    let remembered = world.get_pool("p").await?.status()["createdIPs"].to_string();
    assert!(remembered.contains(&bought[0]), "{remembered}");
    let later: Vec<Op> = world.mutating_calls(purchase.seq + 1).iter().map(|call| call.op).collect();
    assert_eq!(later, [], "neither the assignment nor the second purchase is begun");
    let written = world.server.audit().writes_of(USER, since)?;
    let other = |write: &&Write| !["leases", "floatingippools/status"].contains(&write.resource.as_str());
    let other: Vec<&Write> = written.iter().filter(other).collect();
    assert!(other.is_empty(), "neither is an Event: {other:?}");
    assert!(holder(world).await.is_err(), "released");
    Ok(())
}

/// A leader whose assignment is never answered.
async fn hung(world: &World) -> Outcome<(Operator, String)> {
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.cloud().inject(Injection::once(Target::op(Op::AssignIp), Fault::Hang(When::Before)));
    let operator = replica(world, "leader").await?;
    let identity = leads(world).await?;
    world.plain_pool("p", &[10]).await?;
    under_way(world, Op::AssignIp).await?;
    Ok((operator, identity))
}

async fn sigterm_while_a_call_hangs_leaves_the_lease_to_expire(world: &mut World) -> Outcome {
    let (mut operator, identity) = hung(world).await?;
    let asked = Instant::now();
    operator.signal(Signal::TERM)?;
    let status = operator.wait_end(END_TIMEOUT).await?;
    assert!(status.success(), "{status}");
    assert!(asked.elapsed() >= DRAIN, "ended after {:?}, while a call was in flight", asked.elapsed());
    assert_eq!(holder(world).await?, identity, "what hangs may still arrive: nobody may take over at once");
    assert_eq!(world.mutating_calls(0).len(), 1, "nothing new was begun");
    Ok(())
}

async fn sigterm_in_the_middle_of_a_round_lets_one_request_end_and_the_next_process_sends_the_rest(
    world: &mut World,
) -> Outcome {
    world.zones();
    let last: Vec<u8> = (1..=10).collect();
    for number in &last {
        world.public_node(&format!("n{number}"), *number).await?;
    }
    let slow = Fault::Delay { before_ms: 0, after_ms: 1_000 };
    world.cloud().inject(Injection::always(Target::op(Op::CreateRecord), slow));
    let name = Name::new(Provider::DigitalOcean, "nodes");
    let mut operator = world.dns_operator().await?;
    world.record_set("nodes", &set_spec(name.provider, "nodes")).await?;
    let begun = eventually("a request of the round is under way", SOON, || async {
        let call = world.cloud().calls(0).into_iter().rfind(|call| call.op == Op::CreateRecord);
        call.filter(|call| call.ended_ms.is_none()).ok_or_else(|| Failure::new("not yet"))
    })
    .await?;
    let asked = Instant::now();
    assert!(operator.terminate().await?.success());
    assert!(asked.elapsed() < AT_ONCE, "ended after {:?}", asked.elapsed());
    assert_eq!(world.dns_writes(begun.seq + 1), [], "begun after the signal");
    assert!(holder(world).await.is_err(), "nothing is under way: the lease is given up");
    world.cloud().withdraw_all();
    let _operator = world.dns_operator().await?;
    world.set_settles("nodes", &name, &externals(&last)).await?;
    assert_eq!(world.cloud().count(Provider::DigitalOcean, Op::CreateRecord), 10);
    Ok(())
}

async fn a_second_signal_ends_the_process_at_once(world: &mut World) -> Outcome {
    let (mut operator, identity) = hung(world).await?;
    operator.signal(Signal::TERM)?;
    eventually("the first signal was understood", SOON, || async {
        let log = operator.log();
        if log.contains("shutting down") { Ok(()) } else { Err(Failure::new("not yet")) }
    })
    .await?;
    operator.signal(Signal::TERM)?;
    let status = operator.wait_end(AT_ONCE).await?;
    assert_eq!(status.code(), Some(0));
    assert_eq!(holder(world).await?, identity, "not released");
    Ok(())
}

/// Checks that the leader keeps its lease and goes on working for a while.
async fn goes_on(world: &World, identity: &str) -> Outcome {
    let renewed = || async {
        let spec = world.cluster.lease().await?.and_then(|lease| lease.spec).unwrap_or_default();
        let time = spec.renew_time.ok_or_else(|| Failure::new("a lease that was never renewed"))?;
        Ok::<_, Failure>((spec.holder_identity.unwrap_or_default(), time.0))
    };
    let (_, before) = renewed().await?;
    let since = world.cloud().next_call();
    tokio::time::sleep(A_WHILE).await;
    let (holder, after) = renewed().await?;
    assert_eq!(holder, identity);
    assert!(after > before, "not renewed for {A_WHILE:?}");
    writes(world, "leader", since).await.map(drop)
}

async fn output_that_nobody_reads_stops_neither_lease_nor_work(world: &mut World) -> Outcome {
    let world = &*world;
    stage(world).await?;
    let pipe = FullPipe::new()?;
    let launch = launch(world, "leader", &world.operator_kubeconfig().await?)?;
    let mut operator = launch.start_into(world.server.folder(), &pipe)?;
    operator.healthy().await?;
    while_addresses_move(world, async {
        let identity = leads(world).await?;
        writes(world, "leader", 0).await?;
        goes_on(world, &identity).await?;
        operator.scrape().await?;
        assert_eq!(operator.get("/healthz").await?.0, 200);
        let status = operator.terminate().await?;
        assert!(status.success(), "{status}");
        assert!(holder(world).await.is_err(), "released");
        Ok(())
    })
    .await?;
    assert!(pipe.is_full()?, "somebody read it");
    Ok(())
}

async fn a_thousand_half_open_connections_stop_neither_lease_nor_scrapes(world: &mut World) -> Outcome {
    let world = &*world;
    stage(world).await?;
    let operator = replica_with(world, "leader", &world.operator_kubeconfig().await?).await?;
    while_addresses_move(world, async {
        let identity = leads(world).await?;
        writes(world, "leader", 0).await?;
        let mut half_open = Vec::new();
        for number in 0..HALF_OPEN {
            let mut stream = TcpStream::connect(operator.metrics_address()?).await?;
            // Some send nothing, some stop in the middle of a line, and some never read their answer.
            let begin: &[u8] = match number % 3 {
                0 => b"",
                1 => b"GET /metrics HTTP/1.1\r\nHost:",
                _ => b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            };
            // A connection that was closed for a newer one refuses more data.
            let _ = stream.write_all(begin).await;
            half_open.push(stream);
        }
        operator.scrape().await?;
        assert_eq!(operator.get("/healthz").await?.0, 200);
        goes_on(world, &identity).await?;
        operator.scrape().await?;
        assert_eq!(operator.get("/readyz").await?.0, 200);
        Ok(())
    })
    .await?;
    assert_eq!(writers(world, 0), ["leader"]);
    world.pool_shows("p", "it is current", SOON, Object::is_current).await?;
    world.pool_shows("p", "every address has a node", SOON, |pool| same(pool.active().len(), 3)).await
}
