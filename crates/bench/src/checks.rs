//! Node checks of a hundred nodes that have addresses, and the Leases of a large cluster: processor time and memory
//! that they add.

use crate::bulk::{Copied, Store, Template};
use crate::footprint::{self, Memory};
use crate::report::Report;
use crate::standing::{COUNT, node, settled};
use crate::stats::ms;
use crate::world::{POOL, TEAM, World};
use flipop_envtest::cluster::Kind;
use flipop_envtest::operator::Operator;
use flipop_envtest::tls::{Certificates, acceptor};
use flipop_envtest::{Failure, Outcome};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The port of the kubelet.
const PORT: u16 = 10_250;

/// The Leases of the cluster. Kubelets renew each every ten seconds.
const LEASES: usize = 5_000;
const RENEWAL: Duration = Duration::from_secs(10);

/// The fewest renewals a second with which the result counts.
const RATE: f64 = 475.0;

/// Leases that are renewed in one transaction of the store: 100 transactions a second are far below what it can do.
const TOGETHER: usize = 5;

/// The namespace of the Leases.
const NAMESPACE: &str = "kube-node-lease";

/// How long processor time is counted.
const WINDOW: Duration = Duration::from_mins(1);
const WINDOW_QUICK: Duration = Duration::from_secs(20);

/// The part of a core that the checks and the Leases may take, in percent, and the memory of their own, in KiB.
const CPU_PERCENT: f64 = 5.0;
const MEMORY: u64 = 4 * 1_024;

/// Renewals so far, and whether they go on.
#[derive(Debug)]
struct Renewals {
    count: AtomicU32,
    go_on: AtomicBool,
}

pub(crate) async fn measure(world: &World, quick: bool, report: &mut Report) -> Outcome {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s/nodecheck");
    world.server.kubectl()?.run(&["apply", "-f", &rights.display().to_string()]).await?;
    let machines = machines(world).await?;
    let (store, template) = (Store::of(world)?, lease(world).await?);
    let renewals = Renewals { count: AtomicU32::new(0), go_on: AtomicBool::new(true) };
    let measured = async {
        world.cluster.delete_lease().await?;
        let launch = world.launch.clone().env("NODE_NAME", "elsewhere");
        let mut operator = launch.start(world.server.folder())?;
        operator.healthy().await?;
        settled(world).await?;
        let window = if quick { WINDOW_QUICK } else { WINDOW };
        let before = spent(&operator, window, &renewals).await?;
        world.cluster.patch_spec(Kind::Pool, TEAM, POOL, &json!({ "nodeCheck": {} })).await?;
        // The list of Leases and the first checks of all nodes are over.
        tokio::time::sleep(RENEWAL).await;
        let both = spent(&operator, window, &renewals).await?;
        renewals.go_on.store(false, Ordering::Relaxed);
        let checks = spent(&operator, window, &renewals).await?;
        operator.terminate().await?;
        Ok::<_, Failure>([before, both, checks])
    };
    let [before, both, checks] = tokio::select! {
        measured = measured => measured?,
        ended = renew(&store, &template, &renewals) => {
            return Err(ended.err().unwrap_or_else(|| Failure::new("no renewals")));
        }
    };
    drop(machines);
    let percent = (both.percent - before.percent).max(0.0);
    let own = both.memory.anonymous.saturating_sub(before.memory.anonymous);
    report.row(
        format_args!(
            "node checks of {COUNT} nodes each second, {:.0} renewed Leases a second: processor time",
            both.rate
        ),
        format_args!("≤ {CPU_PERCENT} % of a core, with {RATE:.0} renewals or more"),
        format_args!(
            "{percent:.2} % (with {:.2} %, without renewals {:.2} %, without checks {:.2} %)",
            both.percent, checks.percent, before.percent
        ),
        percent <= CPU_PERCENT && both.rate >= RATE,
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

/// The cost of a process during a window.
struct Spent {
    percent: f64,
    memory: Memory,
    /// Renewals a second.
    rate: f64,
}

async fn spent(operator: &Operator, window: Duration, renewals: &Renewals) -> Outcome<Spent> {
    let first = renewals.count.load(Ordering::Relaxed);
    let took = footprint::spent(operator.id(), window).await?;
    let count = renewals.count.load(Ordering::Relaxed).wrapping_sub(first);
    Ok(Spent {
        percent: 100.0 * took.as_secs_f64() / window.as_secs_f64(),
        memory: Memory::of(operator.id())?,
        rate: f64::from(count) / window.as_secs_f64(),
    })
}

/// Gives each node an address of this machine that answers checks with TLS, as kubelets do. FLIPOP checks no address of
/// loopback, so a network for benchmarks (RFC 2544) becomes local, for which the benchmark has to run as root.
async fn machines(world: &World) -> Outcome<JoinSet<()>> {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let acceptor = acceptor(&Certificates::for_host("kubelet")?)?;
    let mut machines = JoinSet::new();
    let local = ["route", "replace", "local", "198.18.90.0/24", "dev", "lo"];
    if !Command::new("ip").args(local).status().await?.success() {
        return Err(Failure::new("failed to make 198.18.90.0/24 local: run the benchmark as root"));
    }
    for number in 1..=COUNT {
        let at = Ipv4Addr::new(198, 18, 90, number);
        let (listener, acceptor) = (TcpListener::bind((at, PORT)).await?, acceptor.clone());
        machines.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                // The client closes first. An error ends only its own connection.
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let _closed = stream.read_u8().await;
                }
            }
        });
        let addresses = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": at }] } });
        nodes.patch_status(&node(number), &PatchParams::default(), &Patch::Merge(&addresses)).await?;
    }
    Ok(machines)
}

/// A Lease of a kubelet, to copy.
async fn lease(world: &World) -> Outcome<Template> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), NAMESPACE);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "template", "ownerReferences": [{
            "apiVersion": "v1", "kind": "Node", "name": "template", "uid": "00000000-0000-4000-8000-000000000000",
        }] },
        "spec": {
            "holderIdentity": "template", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    leases.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
    Template::read(
        world,
        &format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/template"),
        "leases",
    )
    .await
}

/// The name of a Lease. The first ones are those of the nodes.
fn name(number: usize) -> String {
    u8::try_from(number + 1)
        .ok()
        .filter(|number| *number <= COUNT)
        .map_or_else(|| format!("other-{number}"), node)
}

/// Renews all Leases in turn, without end. It writes to the store: through the API this many writes would take all of a
/// small machine.
async fn renew(store: &Store, template: &Template, renewals: &Renewals) -> Outcome {
    let rounds = u32::try_from(LEASES / TOGETHER)?;
    let mut due = interval(RENEWAL / rounds);
    due.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let begun = Instant::now();
    for first in (0..LEASES).step_by(TOGETHER).cycle() {
        due.tick().await;
        if !renewals.go_on.load(Ordering::Relaxed) {
            continue;
        }
        // Each renewal has another time, or it would change nothing.
        let time = jiff::Timestamp::UNIX_EPOCH + begun.elapsed();
        let time = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let renewed = |number| Copied {
            namespace: Some(NAMESPACE.to_owned()),
            name: name(number),
            fields: vec![("/spec/holderIdentity", json!(name(number))), ("/spec/renewTime", json!(time))],
        };
        let copies: Vec<Copied> = (first..first + TOGETHER).map(renewed).collect();
        store.write(template, first, &copies).await?;
        renewals.count.fetch_add(u32::try_from(TOGETHER)?, Ordering::Relaxed);
    }
    Ok(())
}
