//! The Lease, which is the Go operator's, and trouble with it: deleted, stolen, written by wrong clocks, or unreachable
//! for a minute.

use crate::suite::{Case, cases};
use crate::team::{
    TAKEOVER_TIMEOUT, holder, overlaps, replica, stage, stands_by, taken_from, while_addresses_move, works,
    writers, writes,
};
use crate::world::{SOON, World, ip, same};
use flipop_cloud::Op;
use flipop_envtest::cluster::USER;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use std::time::Duration;
use tokio::time::Instant;

/// A lost lease ends the process within 5 s. The rest is for a loaded machine.
const LOST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long observers respect a record that does not change.
const LEASE: Duration = Duration::from_secs(15);

/// After this long without a renewal no permit is left.
const PERMIT: Duration = Duration::from_secs(10);

/// How often a holder renews.
const RENEWAL: Duration = Duration::from_secs(2);

/// How long the API server is down.
const OUTAGE: Duration = Duration::from_mins(1);

/// After an outage everything is read again, including watches.
const RETURN_TIMEOUT: Duration = Duration::from_secs(40);

/// The identity of a stranger that is no operator.
const STRANGER: &str = "stranger_1";

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        the_lease_is_the_one_that_the_go_operator_uses,
        nothing_but_the_lease_is_written_at_rest,
        a_lease_that_is_deleted_stays_with_its_holder,
        a_stranger_that_takes_the_lease_ends_the_leader_and_is_respected_though_its_clock_is_behind,
        a_stranger_whose_clock_is_ahead_is_waited_for_no_longer_than_its_lease_lasts,
        an_api_server_that_is_down_for_a_minute_is_waited_for_and_nothing_is_written_meanwhile,
    ]
}

async fn leads(world: &World) -> Outcome<String> {
    eventually("somebody leads", SOON, || holder(world)).await
}

async fn a_lease_that_is_deleted_stays_with_its_holder(world: &mut World) -> Outcome {
    let world = &*world;
    stage(world).await?;
    while_addresses_move(world, async {
        let mut leader = replica(world, "leader").await?;
        let identity = leads(world).await?;
        let mut standby = replica(world, "standby").await?;
        // A standby that has not seen the lease would take its absence for a first start.
        stands_by(&standby).await?;
        writes(world, "leader", 0).await?;
        for _ in 0..3 {
            world.cluster.delete_lease().await?;
            let since = world.cloud().next_call();
            let now = eventually("somebody makes it again", SOON, || holder(world)).await?;
            assert_eq!(now, identity, "the one whose permit still lasts");
            writes(world, "leader", since).await?;
        }
        assert!(leader.runs()? && standby.runs()?);
        Ok(())
    })
    .await?;
    assert_eq!(writers(world, 0), ["leader"]);
    Ok(())
}

/// Writes the record as a stranger who holds the lease and whose clock shows this time.
async fn stranger_renews(world: &World, clock: &str, taken: bool) -> Outcome {
    let now: jiff::Timestamp = clock.parse()?;
    let before = world.cluster.lease().await?.and_then(|lease| lease.spec).unwrap_or_default();
    let term = before.lease_transitions.unwrap_or_default() + i32::from(taken);
    let spec = LeaseSpec {
        holder_identity: Some(STRANGER.to_owned()),
        lease_duration_seconds: Some(15),
        lease_transitions: Some(term),
        acquire_time: before.acquire_time.or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    };
    world.cluster.put_lease(spec).await
}

async fn ends(operator: &mut Operator) -> Outcome {
    let status = operator.wait_end(LOST_TIMEOUT).await?;
    assert_eq!(status.code(), Some(1), "a lost lease is no success");
    Ok(())
}

async fn a_stranger_that_takes_the_lease_ends_the_leader_and_is_respected_though_its_clock_is_behind(
    world: &mut World,
) -> Outcome {
    let world = &*world;
    stage(world).await?;
    while_addresses_move(world, async {
        let mut leader = replica(world, "robbed").await?;
        leads(world).await?;
        let _standby = replica(world, "standby").await?;
        works(world, "robbed").await?;
        stranger_renews(world, "1999-12-31T00:00:00Z", true).await?;
        ends(&mut leader).await?;
        // By the record's times it expired decades ago; by its changes it is alive.
        let since = world.cloud().next_call();
        let mut renewed = Instant::now();
        for second in 0..4 {
            stranger_renews(world, &format!("1999-12-31T00:00:1{second}Z"), false).await?;
            renewed = Instant::now();
            tokio::time::sleep(RENEWAL).await;
        }
        assert_eq!(holder(world).await?, STRANGER);
        taken_from(world, STRANGER, TAKEOVER_TIMEOUT).await?;
        assert!(renewed.elapsed() >= LEASE, "taken after {:?}", renewed.elapsed());
        assert!(writers(world, since).iter().all(|name| name == "standby"), "{:?}", writers(world, since));
        writes(world, "standby", since).await?;
        Ok(())
    })
    .await?;
    assert_eq!(writers(world, 0), ["robbed", "standby"]);
    assert_eq!(overlaps(world, 0), 0);
    Ok(())
}

async fn a_stranger_whose_clock_is_ahead_is_waited_for_no_longer_than_its_lease_lasts(
    world: &mut World,
) -> Outcome {
    let world = &*world;
    stage(world).await?;
    stranger_renews(world, "2199-12-31T00:00:00Z", true).await?;
    let written = Instant::now();
    let operator = replica(world, "patient").await?;
    taken_from(world, STRANGER, TAKEOVER_TIMEOUT).await?;
    assert!(written.elapsed() >= LEASE, "taken after {:?}", written.elapsed());
    writes(world, "patient", 0).await?;
    assert_eq!(operator.get("/healthz").await?.0, 200);
    Ok(())
}

async fn an_api_server_that_is_down_for_a_minute_is_waited_for_and_nothing_is_written_meanwhile(
    world: &mut World,
) -> Outcome {
    world.reserve(&[10]);
    let droplet = world.node("alpha").await?;
    world.plain_pool("p", &[10]).await?;
    let leader = replica(world, "leader").await?;
    let identity = leads(world).await?;
    let standby = replica(world, "standby").await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    let down = world.cloud().next_call();
    world.server.stop();
    let stopped = Instant::now();
    tokio::time::sleep(PERMIT).await;
    // Now there is work to do.
    world.cloud().move_ip(ip(10), None)?;
    let mut replicas = [leader, standby];
    while stopped.elapsed() < OUTAGE {
        for operator in &mut replicas {
            assert!(operator.runs()?, "{}", operator.log_tail());
            assert_eq!(operator.get("/healthz").await?.0, 200);
        }
        tokio::time::sleep(RENEWAL).await;
    }
    assert_eq!(writers(world, down), Vec::<String>::new(), "no permit, no write");
    let readers = world.cloud().calls(down);
    assert!(
        readers.iter().any(|call| call.op == Op::ListReservedIps && call.token == "leader"),
        "reads go on"
    );
    assert!(readers.iter().all(|call| call.token != "standby"), "a standby calls no provider");
    world.server.start_again().await?;
    // Either may win. The winner repairs the place alone. The status is still from before the outage.
    let place = || async {
        match world.cloud().ip(ip(10)).and_then(|view| view.droplet) {
            Some(place) if place == droplet => Ok(()),
            place => Err(Failure::new(format!("on {place:?}"))),
        }
    };
    eventually("the address is back", RETURN_TIMEOUT, place).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    assert_eq!(writers(world, down).len(), 1, "{:?}", writers(world, down));
    let [mut leader, mut standby] = replicas;
    if holder(world).await? == identity {
        assert!(leader.runs()? && standby.runs()?);
        assert_eq!(writers(world, down), ["leader"]);
    } else {
        ends(&mut leader).await?;
        assert_eq!(writers(world, down), ["standby"]);
    }
    Ok(())
}

async fn the_lease_is_the_one_that_the_go_operator_uses(world: &mut World) -> Outcome {
    let _operator = world.operator().await?;
    let identity = leads(world).await?;
    let (host, unique) = identity.rsplit_once('_').unwrap_or_default();
    assert!(!host.is_empty() && unique.len() == 36, "{identity} is not <hostname>_<uuid>");
    let spec = world.cluster.lease().await?.and_then(|lease| lease.spec).unwrap_or_default();
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert!(
        spec.acquire_time.is_some() && spec.renew_time.is_some() && spec.lease_transitions.is_some(),
        "{spec:?}"
    );
    Ok(())
}

/// A leader and a standby, with an address on alpha.
async fn pair(world: &World) -> Outcome<(Operator, Operator)> {
    world.reserve(&[10]);
    world.node("alpha").await?;
    world.node("beta").await?;
    let leader = world.operator().await?;
    leads(world).await?;
    let standby = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    Ok((leader, standby))
}

async fn nothing_but_the_lease_is_written_at_rest(world: &mut World) -> Outcome {
    let (_leader, _standby) = pair(world).await?;
    world.annotation_settles("alpha", Some(10)).await?;
    world.pool_shows("p", "the status is current", SOON, |pool| same(pool.error(), "")).await?;
    // By then everything that belongs to the assignment is written.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (calls, writes) = (world.cloud().next_call(), world.server.audit().position()?);
    tokio::time::sleep(Duration::from_secs(12)).await;
    let written = world.server.audit().writes_of(USER, writes)?;
    assert!(written.iter().any(|write| write.resource == "leases"), "no renewal in 12 s");
    let others: Vec<_> = written.iter().filter(|write| write.resource != "leases").collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}
