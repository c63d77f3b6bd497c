//! One leader after another: killed, stopped in order, frozen and continued, cut off. No two of them ever write at the
//! same time.
//!
//! `FLIPOP_TAKEOVERS` sets how many takeovers are measured (3 by default).

use crate::suite::{Case, cases};
use crate::team::{
    TAKEOVER_TIMEOUT, Times, holder, logged_ms, overlaps, replica, replica_with, say, stage, stands_by,
    taken_from, times, while_addresses_move, works, writers, writes,
};
use crate::world::{SOON, World};
use flipop_envtest::apiserver::kubeconfig_through;
use flipop_envtest::operator::Operator;
use flipop_envtest::process::Signal;
use flipop_envtest::proxy::{FaultProxy, Network};
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use std::time::Duration;

/// A released lease is taken over in under 2 s. Polling alone would take up to 4.4 s, an expiry 15 s. The rest is for a
/// loaded machine.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long observers respect a record that does not change.
const LEASE_MS: u64 = 15_000;

/// How long a leader is frozen: longer than its lease.
const STOP: Duration = Duration::from_secs(40);

/// A lost lease ends the process within 5 s. The rest is for a loaded machine and a hanging call.
const LOST_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        a_leader_that_was_killed_is_replaced_when_its_lease_has_run_out,
        a_leader_that_ends_in_order_is_replaced_at_once,
        a_leader_that_was_stopped_writes_nothing_after_another_took_over,
        a_leader_behind_a_silent_network_writes_nothing_after_another_took_over,
        a_leader_whose_connections_are_cut_writes_nothing_after_another_took_over,
    ]
}

/// A replica that leads and writes, and a standby. Also returns the leader's identity.
async fn pair(world: &World, leader: Operator, standby: &str) -> Outcome<(Operator, Operator, String)> {
    let identity = eventually("somebody leads", SOON, || holder(world)).await?;
    let standby = replica(world, standby).await?;
    stands_by(&standby).await?;
    Ok((leader, standby, identity))
}

fn name(number: usize) -> String {
    format!("replica-{number}")
}

async fn a_leader_that_was_killed_is_replaced_when_its_lease_has_run_out(world: &mut World) -> Outcome {
    let world = &*world;
    let runs = times("FLIPOP_TAKEOVERS", 3);
    stage(world).await?;
    let (mut taken, mut wrote) = (Times::default(), Times::default());
    while_addresses_move(world, async {
        let first = replica(world, &name(0)).await?;
        let (mut leader, mut standby, mut identity) = pair(world, first, &name(1)).await?;
        for run in 0..runs {
            works(world, &name(run)).await?;
            leader.kill_9();
            let killed_ms = world.cloud().now_ms();
            // No process is left that could renew it.
            let last = world.cluster.lease().await?.and_then(|lease| lease.spec?.renew_time);
            identity = taken_from(world, &identity, TAKEOVER_TIMEOUT).await?;
            taken.push(world.cloud().now_ms() - killed_ms);
            let acquired = world.cluster.lease().await?.and_then(|lease| lease.spec?.acquire_time);
            let (Some(last), Some(acquired)) = (last, acquired) else {
                return Err(Failure::new("a lease without times"));
            };
            let unchanged_ms = acquired.0.as_millisecond() - last.0.as_millisecond();
            assert!(unchanged_ms >= i64::try_from(LEASE_MS)?, "taken after {unchanged_ms} ms");
            let first = writes(world, &name(run + 1), 0).await?;
            wrote.push(first.at_ms.saturating_sub(killed_ms));
            leader = standby;
            standby = replica(world, &name(run + 2)).await?;
            stands_by(&standby).await?;
        }
        Ok(())
    })
    .await?;
    assert_eq!(writers(world, 0), (0..=runs).map(name).collect::<Vec<_>>(), "each wrote in its turn");
    assert_eq!(overlaps(world, 0), 0);
    taken.say("takeover after SIGKILL, lease");
    wrote.say("takeover after SIGKILL, first write");
    say(&format!("overlapping writes: 0 of {}", world.mutating_calls(0).len()));
    Ok(())
}

async fn a_leader_that_ends_in_order_is_replaced_at_once(world: &mut World) -> Outcome {
    let world = &*world;
    let runs = times("FLIPOP_TAKEOVERS", 3);
    stage(world).await?;
    let (mut ended, mut taken, mut wrote) = (Times::default(), Times::default(), Times::default());
    while_addresses_move(world, async {
        let first = replica(world, &name(0)).await?;
        let (mut leader, mut standby, mut identity) = pair(world, first, &name(1)).await?;
        for run in 0..runs {
            works(world, &name(run)).await?;
            let asked_ms = world.cloud().now_ms();
            let status = leader.terminate().await?;
            assert!(status.success(), "{status}");
            ended.push(world.cloud().now_ms() - asked_ms);
            identity = taken_from(world, &identity, RELEASE_TIMEOUT).await?;
            let released_ms = logged_ms(&leader, "released the lease").await?;
            let took_ms = logged_ms(&standby, "took the lease").await?;
            taken.push(u64::try_from(took_ms - released_ms).unwrap_or_default());
            wrote.push(writes(world, &name(run + 1), 0).await?.at_ms.saturating_sub(asked_ms));
            leader = standby;
            standby = replica(world, &name(run + 2)).await?;
            stands_by(&standby).await?;
        }
        Ok(())
    })
    .await?;
    assert_eq!(writers(world, 0), (0..=runs).map(name).collect::<Vec<_>>(), "each wrote in its turn");
    assert_eq!(overlaps(world, 0), 0);
    ended.say("SIGTERM, end of the process");
    taken.say("takeover after SIGTERM, from the release");
    wrote.say("takeover after SIGTERM, first write from the signal");
    say(&format!("overlapping writes: 0 of {}", world.mutating_calls(0).len()));
    assert!(taken.max() < u64::try_from(RELEASE_TIMEOUT.as_millis())?, "by its release, not by its expiry");
    Ok(())
}

async fn a_leader_that_was_stopped_writes_nothing_after_another_took_over(world: &mut World) -> Outcome {
    let world = &*world;
    stage(world).await?;
    while_addresses_move(world, async {
        let first = replica(world, "stopped").await?;
        let (mut leader, standby, identity) = pair(world, first, "successor").await?;
        works(world, "stopped").await?;
        leader.signal(Signal::STOP)?;
        let stopped = tokio::time::Instant::now();
        taken_from(world, &identity, TAKEOVER_TIMEOUT).await?;
        let since = world.cloud().next_call();
        writes(world, "successor", since).await?;
        // Meanwhile many events arrive that it would have to handle, and fill its sockets.
        tokio::time::sleep(STOP.saturating_sub(stopped.elapsed())).await;
        leader.signal(Signal::CONT)?;
        let status = leader.wait_end(LOST_TIMEOUT).await?;
        assert_eq!(status.code(), Some(1), "a lost lease is no success");
        assert_eq!(writers(world, since), ["successor"]);
        assert_eq!(standby.get("/healthz").await?.0, 200);
        Ok(())
    })
    .await?;
    assert_eq!(writers(world, 0), ["stopped", "successor"]);
    Ok(())
}

async fn a_leader_behind_a_silent_network_writes_nothing_after_another_took_over(
    world: &mut World,
) -> Outcome {
    cut_off(world, Network::Silent).await
}

async fn a_leader_whose_connections_are_cut_writes_nothing_after_another_took_over(
    world: &mut World,
) -> Outcome {
    cut_off(world, Network::Cut).await
}

/// Cuts the leader off from the API server, but not from the provider.
async fn cut_off(world: &World, network: Network) -> Outcome {
    stage(world).await?;
    let proxy = FaultProxy::start(world.server.address()).await?;
    let through = kubeconfig_through(&world.operator_kubeconfig().await?, proxy.address())?;
    while_addresses_move(world, async {
        let first = replica_with(world, "cut-off", &through).await?;
        let (mut leader, _standby, identity) = pair(world, first, "successor").await?;
        proxy.is_used()?;
        works(world, "cut-off").await?;
        proxy.set(network);
        taken_from(world, &identity, TAKEOVER_TIMEOUT).await?;
        let since = world.cloud().next_call();
        writes(world, "successor", since).await?;
        assert!(leader.runs()?, "an API server that cannot be reached is waited for");
        assert_eq!(leader.get("/healthz").await?.0, 200);
        proxy.set(Network::Good);
        let status = leader.wait_end(LOST_TIMEOUT).await?;
        assert_eq!(status.code(), Some(1), "a lost lease is no success");
        assert_eq!(writers(world, since), ["successor"]);
        Ok(())
    })
    .await?;
    assert_eq!(writers(world, 0), ["cut-off", "successor"]);
    Ok(())
}
