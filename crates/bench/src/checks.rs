//! Node checks of a hundred nodes that have addresses, and many Leases: processor time and memory that they add.

use crate::footprint::{Memory, processor_time};
use crate::report::Report;
use crate::standing::{COUNT, node, settled};
use crate::stats::ms;
use crate::world::{POOL, TEAM, World};
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::Operator;
use flipop_envtest::{Failure, Outcome};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The port of the kubelet.
const PORT: u16 = 10_250;

/// The Leases of the cluster. Kubelets renew each every ten seconds.
const LEASES: u32 = 1_000;
const RENEWAL: Duration = Duration::from_secs(10);

/// Parallel requests.
const AT_ONCE: usize = 8;

/// How long processor time is counted.
const WINDOW: Duration = Duration::from_mins(1);
const WINDOW_QUICK: Duration = Duration::from_secs(20);

/// The part of a core that the checks and the Leases may take, in percent, and the memory of their own, in KiB.
const CPU_PERCENT: f64 = 5.0;
const MEMORY: u64 = 4 * 1_024;

pub(crate) async fn measure(world: &World, quick: bool, report: &mut Report) -> Outcome {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s/nodecheck");
    world.server.kubectl()?.run(&["apply", "-f", &rights.display().to_string()]).await?;
    let machines = machines(world).await?;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-node-lease");
    stream::iter(0..LEASES)
        .map(Ok::<_, Failure>)
        .try_for_each_concurrent(AT_ONCE, |number| {
            let leases = &leases;
            async move {
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name(number) },
                    "spec": { "holderIdentity": name(number), "leaseDurationSeconds": 40 },
                });
                leases.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
                Ok(())
            }
        })
        .await?;
    let renewed = AtomicU64::new(0);
    let measured = async {
        world.cluster.delete_lease().await?;
        let launch = world.launch.clone().env("NODE_NAME", "elsewhere");
        let mut operator = launch.start(world.server.folder())?;
        operator.healthy().await?;
        settled(world).await?;
        let window = if quick { WINDOW_QUICK } else { WINDOW };
        let before = spent(&operator, window, &renewed).await?;
        world.cluster.patch_spec(Kind::Pool, TEAM, POOL, &json!({ "nodeCheck": {} })).await?;
        // The list of Leases and the first checks of all nodes are over.
        tokio::time::sleep(RENEWAL).await;
        let after = spent(&operator, window, &renewed).await?;
        operator.terminate().await?;
        Ok::<_, Failure>((before, after))
    };
    let (before, after) = tokio::select! {
        measured = measured => measured?,
        ended = renew(&leases, &renewed) => return Err(ended.err().unwrap_or_else(|| Failure::new("no renewals"))),
    };
    drop(machines);
    let percent = (after.percent - before.percent).max(0.0);
    let own = after.memory.anonymous().saturating_sub(before.memory.anonymous());
    report.row(
        format_args!(
            "node checks of {COUNT} nodes each second, {:.0} renewed Leases a second: processor time",
            after.rate
        ),
        format_args!("≤ {CPU_PERCENT} % of a core"),
        format_args!("{percent:.2} % (with {:.2} %, without {:.2} %)", after.percent, before.percent),
        percent <= CPU_PERCENT,
    );
    report.row(
        format_args!("node checks of {COUNT} nodes, {LEASES} Leases: memory of their own"),
        "≤ 4 MiB",
        format_args!("{own} KiB"),
        own <= MEMORY,
    );
    report.value("ms of processor time a minute, node checks", ms(WINDOW.mul_f64(percent / 100.0)));
    Ok(())
}

/// What a process takes during a window.
struct Spent {
    percent: f64,
    memory: Memory,
    /// Renewals a second.
    rate: f64,
}

async fn spent(operator: &Operator, window: Duration, renewed: &AtomicU64) -> Outcome<Spent> {
    let (before, first) = (processor_time(operator.id())?, renewed.load(Ordering::Relaxed));
    tokio::time::sleep(window).await;
    let took = processor_time(operator.id())?.saturating_sub(before);
    let count = u32::try_from(renewed.load(Ordering::Relaxed) - first)?;
    Ok(Spent {
        percent: 100.0 * took.as_secs_f64() / window.as_secs_f64(),
        memory: Memory::of(operator.id())?,
        rate: f64::from(count) / window.as_secs_f64(),
    })
}

/// Gives each node a loopback address that answers checks.
async fn machines(world: &World) -> Outcome<JoinSet<()>> {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let mut machines = JoinSet::new();
    for number in 1..=COUNT {
        let at = Ipv4Addr::new(127, 90, 0, number);
        let listener = TcpListener::bind((at, PORT)).await?;
        machines.spawn(async move {
            loop {
                // A check needs no more than an open connection.
                let _checked = listener.accept().await;
            }
        });
        let addresses = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": at }] } });
        nodes.patch_status(&node(number), &PatchParams::default(), &Patch::Merge(&addresses)).await?;
    }
    Ok(machines)
}

/// The name of a Lease. The first ones are those of the nodes.
fn name(number: u32) -> String {
    u8::try_from(number + 1)
        .ok()
        .filter(|number| *number <= COUNT)
        .map_or_else(|| format!("other-{number}"), node)
}

/// Renews all Leases in turn, without end.
async fn renew(leases: &Api<Lease>, renewed: &AtomicU64) -> Outcome {
    let mut due = interval(RENEWAL / LEASES);
    due.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let begun = Instant::now();
    let ticks = stream::unfold(due, |mut due| async move {
        due.tick().await;
        Some(((), due))
    });
    ticks
        .zip(stream::iter((0..LEASES).cycle()))
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |((), number)| async move {
            // Each renewal has another time, or it would change nothing.
            let time = jiff::Timestamp::UNIX_EPOCH + begun.elapsed();
            let patch =
                json!({ "spec": { "renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string() } });
            leases.patch(&name(number), &PatchParams::default(), &Patch::Merge(&patch)).await?;
            renewed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .await
}
