//! Only one replica acts, by client-go's protocol on the Go operator's Lease.

use crate::suite::{Case, cases};
use crate::world::{SOON, World, same};
use flipop_envtest::cluster::USER;
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use std::time::Duration;

/// A released lease is taken over in under 2 s. The rest is for a loaded machine.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![Installed:
        the_lease_is_the_one_that_the_go_operator_uses,
        a_standby_takes_over_when_the_leader_ends_in_order,
    ];
    cases.extend(cases![Installed: nothing_but_the_lease_is_written_at_rest]);
    cases
}

async fn holder(world: &World) -> Outcome<String> {
    let lease = world.cluster.lease().await?.ok_or_else(|| Failure::new("no lease"))?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    if holder.is_empty() { Err(Failure::new("nobody holds the lease")) } else { Ok(holder) }
}

async fn held(world: &World) -> Outcome<String> {
    eventually("somebody holds the lease", SOON, || holder(world)).await
}

async fn the_lease_is_the_one_that_the_go_operator_uses(world: &mut World) -> Outcome {
    let _operator = world.operator().await?;
    let identity = held(world).await?;
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
    held(world).await?;
    let standby = world.operator().await?;
    world.plain_pool("p", &[10]).await?;
    world.pool_settles("p", &[(10, "alpha")]).await?;
    Ok((leader, standby))
}

async fn a_standby_takes_over_when_the_leader_ends_in_order(world: &mut World) -> Outcome {
    let (mut leader, standby) = pair(world).await?;
    assert_eq!(standby.get("/healthz").await?.0, 200);
    let metrics = standby.scrape().await?;
    assert_eq!(
        metrics.sum("flipop_floatingippoolcontroller_ip_state", &[]),
        None,
        "a standby shows no pools"
    );
    let before = holder(world).await?;
    let calls = world.cloud().next_call();
    let status = leader.terminate().await?;
    assert!(status.success(), "{status}");
    eventually("the standby holds the lease", RELEASE_TIMEOUT, || async {
        let now = holder(world).await?;
        if now == before { Err(Failure::new("still the old one")) } else { Ok(()) }
    })
    .await?;
    world.nodes.set_ready("alpha", false).await?;
    world.pool_settles("p", &[(10, "beta")]).await?;
    assert_eq!(world.assigns(calls).len(), 1);
    Ok(())
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
