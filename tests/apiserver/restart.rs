//! A new process adopts existing assignments: no address moves because the operator was away.

use crate::suite::{Case, cases};
use crate::world::{SOON, TEAM, World, ip, path, same};
use flipop_cloud::Op;
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::Operator;
use flipop_envtest::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    cases![Installed:
        assignments_are_adopted_without_a_call_that_changes_anything,
        a_pool_that_the_go_operator_served_is_adopted_as_it_stands,
    ]
}

/// Two addresses on alpha and beta, assigned by this operator.
async fn settled(world: &World) -> Outcome<Operator> {
    world.reserve(&[10, 11]);
    for node in ["alpha", "beta", "gamma"] {
        world.node(node).await?;
    }
    let operator = world.operator().await?;
    // Against the order of names, so that a new process might be tempted to swap them.
    world.nodes.set_ready("alpha", false).await?;
    world.plain_pool("p", &[10, 11]).await?;
    world.pool_settles("p", &[(10, "beta"), (11, "gamma")]).await?;
    world.nodes.set_ready("alpha", true).await?;
    world
        .pool_shows("p", "alpha waits", SOON, |pool| {
            same(pool.names("assignableNodes"), vec!["alpha".to_owned()])
        })
        .await?;
    world.annotation_settles("beta", Some(10)).await?;
    Ok(operator)
}

/// Checks that the account was listed since, and nothing was changed.
async fn adopted(world: &World, calls: u64) -> Outcome {
    flipop_envtest::wait::eventually("the account was listed", SOON, || async {
        let listed = world.cloud().calls(calls).iter().any(|call| call.op == Op::ListReservedIps);
        if listed { Ok(()) } else { Err(Failure::new("no list yet")) }
    })
    .await?;
    world.pool_settles("p", &[(10, "beta"), (11, "gamma")]).await?;
    world.annotation_settles("gamma", Some(11)).await?;
    assert_eq!(world.mutating_calls(calls), []);
    Ok(())
}

async fn assignments_are_adopted_without_a_call_that_changes_anything(world: &mut World) -> Outcome {
    let mut operator = settled(world).await?;
    let status = operator.terminate().await?;
    assert!(status.success(), "{status}");
    let (calls, writes) = (world.cloud().next_call(), world.server.audit().position()?);
    let operator = world.operator().await?;
    adopted(world, calls).await?;
    // The status was already right, so only the Lease is written.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let written = world.server.audit().writes_of(flipop_envtest::cluster::USER, writes)?;
    let others: Vec<_> = written.iter().filter(|write| write.resource != "leases").collect();
    assert!(others.is_empty(), "{others:?}");
    let assigned = operator
        .scrape()
        .await?
        .sum("flipop_floatingippoolcontroller_node_status", &[("name", "p"), ("status", "assigned")]);
    assert_eq!(assigned, Some(2.0));
    Ok(())
}

async fn a_pool_that_the_go_operator_served_is_adopted_as_it_stands(world: &mut World) -> Outcome {
    world.reserve(&[10]);
    world.node("alpha").await?;
    let droplet = world.node("beta").await?;
    world.cloud().move_ip(ip(10), Some(droplet))?;
    world.kubectl.run(&["apply", "-f", &path("tests/apiserver/fixtures/go-objects.yaml")]).await?;
    let status = json!({
        "error": "", "assignableNodes": ["alpha"], "nodeErrors": [],
        "ips": {
            "203.0.113.10": { "state": "active", "nodeName": "beta", "providerID": format!("digitalocean://{droplet}") },
            "203.0.113.99": { "state": "error", "error": "an address that left the spec long ago" },
        },
    });
    world.cluster.replace_status(Kind::Pool, TEAM, "from-go", &status).await?;
    let _operator = world.operator().await?;
    world.annotation_settles("beta", Some(10)).await?;
    world.pool_settles("from-go", &[(10, "beta")]).await?;
    world
        .pool_shows("from-go", "what the Go operator left is gone", SOON, |pool| {
            same(pool.status()["ips"]["203.0.113.99"].is_null(), true)?;
            pool.is_current()
        })
        .await?;
    assert_eq!(world.mutating_calls(0), []);
    Ok(())
}
