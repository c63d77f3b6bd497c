//! `flipop agent`: the pods of this node reach the internet through the node's reserved IP.
//!
//! Owns the tasks and how they are connected. [`decision`] decides from the node's annotation and the metadata
//! service. [`layout`] says what the kernel needs for that. [`state`] brings both together, and [`kernel`] speaks
//! netlink. The agent assigns nothing, and writes nothing to the API server.

pub mod decision;
pub mod kernel;
pub mod layout;
pub mod metadata;
pub mod ready;
pub mod report;
pub mod state;

use crate::admin::{self, BindError, Endpoints};
use crate::clock::Clock;
use crate::config::AgentConfig;
use crate::kube::client::{self, ClientError};
use crate::kube::kubeconfig::{self, ClusterError};
use crate::kube::objects::own_node::OwnNodeFacts;
use crate::kube::watch::{WatchContext, WatchHealth, watch_own_node};
use crate::liveness::{Heartbeat, Liveness};
use crate::provider::install_tls;
use crate::random::Random;
use crate::{latest, version};
use decision::Reserved;
use flipop_core::model::Observed;
use kernel::{NetlinkError, Notices};
use metadata::{Anchor, Metadata};
use report::Report;
use state::State;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The time between two reads of the reserved IP.
const READ_MS: u64 = 1_000;

/// The same while the annotation names an address that the last read did not name. Pods then leave through the address
/// soon after both name it.
const EXPECTING_MS: u64 = 200;

/// The time between two reads of the anchor address, once it is known.
const ANCHOR_MS: u64 = 60_000;

/// Notifications come in bursts. One look answers all that come within this time.
const BURST_MS: u64 = 100;

/// A loop without a turn for this long is stuck, since a look is due every 30 s.
const MAX_LOOP_AGE_MS: u64 = 120_000;

/// The most facts that wait for the loop.
const QUEUE: usize = 16;

/// Why the agent ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No cluster was found.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// No client could be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The endpoints cannot listen.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The thread of the endpoints failed.
    #[error("failed to start the thread of the endpoints: {0}")]
    Endpoints(std::io::Error),
    /// The kernel does not report changes.
    #[error("failed to listen to the kernel: {0}")]
    Notices(#[from] NetlinkError),
    /// The metrics cannot be registered: a bug.
    #[error("failed to register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A fact from the metadata service.
enum Reading {
    Reserved(Option<Reserved>),
    Anchor(Anchor),
}

/// Runs until it is told to stop. The settings in the kernel then stay.
///
/// # Errors
/// [`AgentError`].
pub async fn run(config: AgentConfig, shutdown: CancellationToken) -> Result<(), AgentError> {
    install_tls();
    let clock = Clock::system();
    let cluster = kubeconfig::resolve(&config.cluster, &clock)?;
    tracing::info!(
        version = version::VERSION,
        commit = version::COMMIT,
        node = config.node_name,
        api_server = cluster.server(),
        egress = ?config.egress,
        when_absent = ?config.when_absent,
        dry_run = config.dry_run,
        "starting the agent"
    );
    let report = Arc::new(Report::new(&config.node_name)?);
    let liveness = Liveness::new(clock.clone());
    let tracker = TaskTracker::new();
    if let Some(address) = &config.metrics {
        let listener = admin::bind(address).await?;
        let endpoints = endpoints(&report, &liveness);
        let ended = admin::spawn(listener, admin::routes(endpoints), shutdown.clone());
        let ended = ended.map_err(AgentError::Endpoints)?;
        tracker.spawn(async move { ended.await.unwrap_or_default() });
    }
    let returns = latest::Sender::new(0);
    let context = WatchContext {
        client: client::watches(&cluster, None)?,
        clock: clock.clone(),
        random: Random::system(),
        reset: returns.subscribe(),
        health: WatchHealth::default(),
    };
    let (node_sink, nodes) = mpsc::channel(QUEUE);
    let (name, stop) = (config.node_name.clone(), shutdown.clone());
    tracker.spawn(async move { watch_own_node(context, &name, node_sink, stop).await });
    let (reading_sink, readings) = mpsc::channel(QUEUE);
    let annotated = latest::Sender::new(None);
    tracker.spawn(read_metadata(clock.clone(), annotated.subscribe(), reading_sink, shutdown.clone()));
    let heartbeat = liveness.register("agent", MAX_LOOP_AGE_MS);
    let inputs = Inputs { nodes, readings, annotated, notices: Notices::listen()? };
    turn_after_turn(State::new(config, report, clock.now()), inputs, &clock, &heartbeat, &shutdown).await;
    drop(returns);
    tracker.close();
    tracker.wait().await;
    Ok(())
}

fn endpoints(report: &Arc<Report>, liveness: &Liveness) -> Endpoints {
    let (metrics, ready) = (Arc::clone(report), Arc::clone(report));
    Endpoints {
        metrics: Arc::new(move || metrics.metrics()),
        not_ready: Arc::new(move || ready.not_ready()),
        liveness: liveness.clone(),
        debug: None,
    }
}

/// Reads the metadata service until the receiver is gone. A change of the annotation causes a read at once.
async fn read_metadata(
    clock: Clock,
    mut annotated: latest::Receiver<Option<Ipv4Addr>>,
    sink: mpsc::Sender<Reading>,
    stop: CancellationToken,
) {
    let mut metadata = Metadata::new(metadata::ADDRESS);
    let mut anchor_due = clock.now();
    let mut reported = String::new();
    loop {
        let begun = clock.now();
        let mut wait_ms = READ_MS;
        let reading = async {
            let expected = annotated.see();
            let reserved = metadata.reserved().await;
            report(&mut reported, reserved.as_ref().err());
            let good = reserved.is_ok();
            if good && expected.is_some_and(|ip| reserved != Ok(Reserved::Active(ip))) {
                wait_ms = EXPECTING_MS;
            }
            if sink.send(Reading::Reserved(reserved.ok())).await.is_err() {
                return false;
            }
            if good && anchor_due <= clock.now() {
                match metadata.anchor().await {
                    Ok(anchor) => {
                        anchor_due = clock.now().plus_millis(ANCHOR_MS);
                        return sink.send(Reading::Anchor(anchor)).await.is_ok();
                    }
                    Err(error) => report(&mut reported, Some(&error)),
                }
            }
            true
        };
        let heard = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            heard = reading => heard,
        };
        if !heard {
            return;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Ok(()) = annotated.changed() => {}
            () = clock.sleep_until(begun.plus_millis(wait_ms)) => {}
        }
    }
}

/// Logs each trouble once, and its end.
fn report(reported: &mut String, trouble: Option<&metadata::MetadataError>) {
    let text = trouble.map(ToString::to_string).unwrap_or_default();
    if *reported == text {
        return;
    }
    if text.is_empty() {
        tracing::info!("the metadata service answers again");
    } else {
        tracing::warn!("{text}");
    }
    *reported = text;
}

/// The sources of facts.
struct Inputs {
    nodes: mpsc::Receiver<((), Observed<OwnNodeFacts>)>,
    readings: mpsc::Receiver<Reading>,
    /// The address that the annotation names, for the task that reads the metadata service.
    annotated: latest::Sender<Option<Ipv4Addr>>,
    notices: Notices,
}

async fn turn_after_turn(
    mut state: State,
    mut inputs: Inputs,
    clock: &Clock,
    heartbeat: &Heartbeat,
    stop: &CancellationToken,
) {
    let mut due = state.turn(clock.now());
    loop {
        heartbeat.beat();
        let changed = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(((), node)) = inputs.nodes.recv() => {
                let changed = state.node(node_of(node));
                let now = state.annotated();
                inputs.annotated.send_if_modified(|before| std::mem::replace(before, now) != now);
                changed
            }
            Some(reading) = inputs.readings.recv() => match reading {
                Reading::Reserved(reserved) => state.reserved(reserved, clock.now()),
                Reading::Anchor(anchor) => state.anchor(anchor),
            },
            () = inputs.notices.heard() => {
                due = due.min(clock.now().plus_millis(BURST_MS));
                false
            }
            () = clock.sleep_until(due) => true,
        };
        if changed || due <= clock.now() {
            due = state.turn(clock.now());
        }
    }
}

/// The present node, if there is one.
fn node_of(observed: Observed<OwnNodeFacts>) -> Option<OwnNodeFacts> {
    match observed {
        Observed::Reset(nodes) => nodes.into_iter().next(),
        Observed::Apply(node) => Some(node),
        Observed::Delete(_) => None,
    }
}
