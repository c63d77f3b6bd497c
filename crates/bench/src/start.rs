//! Taking over a hundred existing assignments.
//!
//! The operator begins as a standby with its watches in sync, and the holder releases the lease. The time runs from the
//! answer to the operator's lease request to the answer to its last write of the pool's status, both by the API
//! server's clock (its audit log). Status and annotations are wiped before, so all have to be written.

use crate::report::Report;
use crate::standing::{COUNT, node, settled};
use crate::stats::{Ms, Samples, ms};
use crate::world::{OPERATOR, POOL, SOON, TEAM, World};
use flipop_envtest::audit::Write;
use flipop_envtest::cluster::{Kind, LEASE, NAMESPACE, USER};
use flipop_envtest::operator::Operator;
use flipop_envtest::wait::eventually;
use flipop_envtest::{Failure, Outcome};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;

/// Provider calls until everything is reported.
const CALLS: usize = 3;

/// From the lease's answer to the last status write.
const GOAL: Duration = Duration::from_millis(500);

/// Repetitions.
const ROUNDS: usize = 5;

/// The annotation that the operator writes.
pub(crate) const ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";

pub(crate) async fn measure(world: &World, quick: bool, report: &mut Report) -> Outcome {
    let (mut took, mut annotated, mut calls, mut statuses) = (Samples::default(), Samples::default(), 0, 0);
    for _ in 0..if quick { 2 } else { ROUNDS } {
        let mut operator = standby(world).await?;
        let (since, position) = (world.cloud().next_call(), world.audit().position()?);
        release(world).await?;
        settled(world).await?;
        let writes = world.audit().writes_of(USER, position)?;
        let led = writes.iter().find(|write| write.resource == "leases" && write.status < 300);
        let led = led.ok_or_else(|| Failure::new("the lease was not taken"))?;
        let (count, status) = after(led, &writes, "floatingippools/status")?;
        took.push(status);
        statuses = count.max(statuses);
        annotated.push(after(led, &writes, "nodes")?.1);
        let operators = world.cloud().calls(since).into_iter().filter(|call| call.token == OPERATOR);
        calls = operators.count().max(calls);
        operator.terminate().await?;
    }
    let figure = format_args!("start with {COUNT} assigned IPs, provider latency 50 ms: provider calls");
    report.at_most(figure, CALLS, calls, took.len());
    report.row(
        format_args!("start with {COUNT} assigned IPs: lease's answer → last status, watches in sync"),
        format_args!("≤ {}", Ms(GOAL)),
        format_args!("{took} ({statuses} status writes at most)"),
        took.max() <= GOAL,
    );
    report.value("ms, lease's answer → last status", ms(took.median()));
    report.note(format_args!("start: lease's answer → last of {COUNT} annotations {annotated}"));
    Ok(())
}

/// Wipes what an operator would have written, lets another holder take the lease, and starts the operator.
async fn standby(world: &World) -> Outcome<Operator> {
    world.cluster.replace_status(Kind::Pool, TEAM, POOL, &json!({})).await?;
    for number in 1..=COUNT {
        world.nodes.set_annotation(&node(number), ANNOTATION, None).await?;
    }
    world.cluster.delete_lease().await?;
    let now = json!("2026-01-01T00:00:00.000000Z");
    let lease = json!({
        "metadata": { "name": LEASE },
        "spec": {
            "holderIdentity": "bench", "leaseDurationSeconds": 60, "leaseTransitions": 1,
            "acquireTime": now, "renewTime": now,
        },
    });
    leases(world).create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
    let operator = world.serving().await?;
    let running = &operator;
    eventually("the standby's watches are in sync", SOON, || async move {
        match running.get("/readyz").await? {
            (200, _) => Ok(()),
            (status, text) => Err(Failure::new(format!("{status}: {text}"))),
        }
    })
    .await?;
    // The watches that depend on what the first ones showed.
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(operator)
}

/// Releases the lease as client-go does.
async fn release(world: &World) -> Outcome {
    let patch = json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } });
    Ok(leases(world).patch(LEASE, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)?)
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), NAMESPACE)
}

/// The number of writes of this resource, and how long after `led` the last one was answered.
fn after(led: &Write, writes: &[Write], resource: &str) -> Outcome<(usize, Duration)> {
    let of: Vec<&Write> = writes.iter().filter(|write| write.resource == resource).collect();
    let last = of.last().ok_or_else(|| Failure::new(format!("no write of {resource}: {writes:#?}")))?;
    let (from, to): (Timestamp, Timestamp) = (led.completed.parse()?, last.completed.parse()?);
    Ok((of.len(), to.duration_since(from).try_into()?))
}
