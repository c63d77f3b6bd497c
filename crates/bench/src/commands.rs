//! The commands that people call, on a large cluster: the time that each takes of its own.
//!
//! That is the processor time of its process. It includes neither the time that the API server takes to answer nor the
//! waits that a busy machine adds.

use crate::bulk::{Copied, Store};
use crate::footprint::{OF_CHILDREN, TICK, ticks};
use crate::report::Report;
use crate::scale::make_node;
use crate::start::ANNOTATION;
use crate::stats::{Samples, ms};
use crate::world::{REGION, Stage, TEAM, World};
use flipop_envtest::cluster::Kind;
use flipop_envtest::{Failure, Outcome};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Map, Value, json};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Nodes of the cluster.
const NODES: usize = 1_000;

/// Its pools. Each matches as many nodes as the others.
const POOLS: usize = 100;

/// Addresses of a pool, all of which are on nodes.
const ADDRESSES: usize = 5;

/// The most time that a command may take of its own.
pub(crate) const GOAL: Duration = Duration::from_secs(1);

/// How often each command runs.
const ROUNDS: usize = 3;

/// Parallel requests while the pools are created.
const AT_ONCE: usize = 8;

pub(crate) async fn measure(stage: &Stage, quick: bool, report: &mut Report) -> Outcome {
    let world = stage.world().await?;
    populate(&world).await?;
    let kubeconfig = world.server.kubectl()?.kubeconfig().to_owned();
    for (word, codes) in [("status", [0, 0]), ("plan", [3, 3]), ("check", [0, 1])] {
        let mut samples = Samples::default();
        for _ in 0..if quick { 1 } else { ROUNDS } {
            samples.push(own_time(stage.binary(), word, &kubeconfig, codes).await?);
        }
        let figure = format_args!("{word}: own time with {NODES} nodes and {POOLS} pools (median / max)");
        report.median_within(figure, GOAL, &samples);
        report.value(format_args!("ms of own time of {word}"), ms(samples.median()));
    }
    world.end().await;
    Ok(())
}

/// The processor time of one run, which has to end with one of these codes.
pub(crate) async fn own_time(
    binary: &Path,
    word: &str,
    kubeconfig: &Path,
    codes: [i32; 2],
) -> Outcome<Duration> {
    let before = waited_for()?;
    let mut command = tokio::process::Command::new(binary);
    command.args([word, "-A", "-o", "json"]).env_clear().env("KUBECONFIG", kubeconfig);
    let output = command.stdin(Stdio::null()).output().await?;
    if !output.status.code().is_some_and(|code| codes.contains(&code)) {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(format!("{word} ended with {}: {told}", output.status)));
    }
    Ok(waited_for()?.saturating_sub(before))
}

/// The processor time of all children of this process that have ended.
fn waited_for() -> Outcome<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let ticks = ticks(&stat, OF_CHILDREN).ok_or_else(|| Failure::new("no times in /proc/self/stat"))?;
    Ok(TICK.saturating_mul(ticks))
}

/// Creates nodes, and pools whose addresses are on them, as an operator leaves them: each address is in the annotation
/// of its node. A node in a hundred has failed since then.
async fn populate(world: &World) -> Outcome {
    let template = make_node(world).await?;
    let per_pool = NODES / POOLS;
    let node = |number: usize| {
        let ready = if number.is_multiple_of(100) { "False" } else { "True" };
        let mut fields = vec![
            ("/spec/providerID", json!(format!("digitalocean://{}", number + 1))),
            ("/metadata/labels/pool", json!(format!("p{}", number / per_pool))),
            ("/metadata/labels/kubernetes.io~1hostname", json!(name(number))),
            ("/status/conditions/3/status", json!(ready)),
        ];
        if number % per_pool < ADDRESSES {
            let ours = json!({ "f:metadata": { "f:annotations": { format!("f:{ANNOTATION}"): {} } } });
            let entry = json!({
                "manager": "flipop", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": ours,
            });
            let address = address(number / per_pool, number % per_pool);
            fields.push(("/metadata/annotations", json!({ ANNOTATION: address })));
            fields.push(("/metadata/managedFields", json!([entry])));
        }
        Copied { namespace: None, name: name(number), fields }
    };
    let copies: Vec<Copied> = (0..NODES).map(node).collect();
    Store::of(world)?.write(&template, 0, &copies).await?;
    stream::iter(0..POOLS)
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |number| pool(world, number, number * per_pool))
        .await?;
    // The API server takes the nodes in through its own watch of the store.
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok(())
}

/// An address of a pool.
fn address(pool: usize, place: usize) -> String {
    let number = u32::try_from(pool * ADDRESSES + place).unwrap_or_default();
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 128, 0, 1).to_bits() + number).to_string()
}

fn name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Creates a pool whose addresses are on the nodes from this one on.
async fn pool(world: &World, number: usize, first: usize) -> Outcome {
    let ips: Vec<String> = (0..ADDRESSES).map(|place| address(number, place)).collect();
    let matching = json!({ "nodeLabel": format!("pool=p{number}") });
    let spec = json!({ "provider": "digitalocean", "region": REGION, "ips": ips, "match": matching });
    let pool = format!("pool-{number:03}");
    world.cluster.create(Kind::Pool, TEAM, &pool, &spec).await?;
    let entry = |place: usize| {
        let node = first + place;
        json!({ "state": "active", "nodeName": name(node), "providerID": format!("digitalocean://{}", node + 1) })
    };
    let entries: Map<String, Value> = ips.iter().cloned().zip((0..ADDRESSES).map(entry)).collect();
    let status = json!({ "ips": entries, "observedGeneration": 1 });
    world.cluster.replace_status(Kind::Pool, TEAM, &pool, &status).await
}
