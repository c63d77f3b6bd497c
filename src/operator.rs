//! The operator as a whole: its parts, the order in which they start, and how they end.

use crate::clock::Clock;
use crate::config::{BindAddress, Config, DecisionFlags};
use crate::debug::View;
use crate::execute::{Executor, Underway};
use crate::kube::client::{ClientError, Clients};
use crate::kube::events;
use crate::kube::kubeconfig::{self, ClusterError};
use crate::kube::watch::{WatchContext, WatchHealth};
use crate::leader::elector::{Elector, ElectorSettings, RELEASE_MS};
use crate::leader::{LeaderHandle, LeaderOutcome, LeaderState, LeaseHome, LeaseThread, ThreadError};
use crate::liveness::Liveness;
use crate::metrics::{Metrics, MetricsError};
use crate::permit::PermitSource;
use crate::probe::connect::Sockets;
use crate::probe::{self, Feed, Probe, Prober};
use crate::provider::http::{BuildError, Transport};
use crate::provider::observe::CallObserver;
use crate::provider::{self, Providers, install_tls};
use crate::random::Random;
use crate::reconcile::{Parts, Reconciler};
use crate::watches::Watches;
use crate::{admin, leader, telemetry, version};
use flipop_core::fleet::Settings;
use flipop_core::model::provider::{Descriptor, Providers as KnownProviders};
use futures::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Capacity for outcomes not yet taken in: more than the calls that are usually under way. Further ones wait.
const OUTCOMES: usize = 256;

/// The reconcile loop beats every two seconds. After this long without a beat it is stuck.
const MAX_LOOP_AGE_MS: u64 = 30_000;

/// How long calls under way may take to end after SIGTERM. This limit, the next two and
/// [`crate::telemetry::LONGEST_FLUSH`] add up to less than 10 s. Kubernetes kills a process after 30 s by default.
const DRAIN: Duration = Duration::from_secs(8);

/// How long the election may then take to end: a little longer than its own limit, so that it can log the result.
const RELEASE: Duration = Duration::from_millis(RELEASE_MS + 100);

/// How long everything else may take to end. A task needs milliseconds to stop.
const LAST: Duration = Duration::from_millis(200);

/// Why the operator could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// No API server is configured.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The API server's client could not be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The thread that looks for the API server failed.
    #[error("failed to run the thread that looks for the API server: {0}")]
    Start(#[from] std::io::Error),
    /// A provider's client could not be created.
    #[error(transparent)]
    Provider(#[from] BuildError),
    /// The thread of the lease failed.
    #[error(transparent)]
    Lease(#[from] ThreadError),
    /// Metrics could not be registered.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The metrics address cannot be bound.
    #[error(transparent)]
    Admin(#[from] admin::BindError),
    /// The thread of the endpoints failed.
    #[error("failed to start the thread of the endpoints: {0}")]
    Endpoints(std::io::Error),
    /// Someone else took the lease, or emptied it.
    #[error("failed to keep the lease: {} holds it now; ending so that only one replica acts", named(.0))]
    LeaseLost(String),
}

fn named(holder: &str) -> String {
    if holder.is_empty() { "nobody".to_owned() } else { format!("{holder:?}") }
}

/// Facts about a running operator for its caller.
#[derive(Debug, Default)]
pub struct Started {
    /// The address of the metrics endpoint, if there is one.
    pub metrics: Option<std::net::SocketAddr>,
}

/// Everything below the operator. A simulation replaces only this.
pub struct Platform {
    /// The clock.
    pub clock: Clock,
    /// Random numbers for jitter.
    pub random: Random,
    /// The identity of this process in the Lease.
    pub identity: String,
    /// The operator's own namespace.
    pub namespace: String,
    /// The API server's URL, for logs.
    pub server: String,
    /// Clients of the API server.
    pub clients: Clients,
    /// Where the elector runs.
    pub lease: LeaseHome,
    /// Carries requests to providers. `None` means over the network.
    pub transport: Option<Arc<dyn Transport>>,
    /// Makes checks of nodes.
    pub probe: Arc<dyn Probe>,
    /// The node that the process runs on, if it is known.
    pub node: Option<String>,
    /// Whether the API server has admission policies. A simulated one has none.
    pub has_admission: bool,
}

impl Platform {
    /// This machine, and the cluster found from it.
    ///
    /// # Errors
    /// If there is no cluster, or no way to talk to it.
    pub fn system(config: &Config) -> Result<Self, OperatorError> {
        install_tls();
        let clock = Clock::system();
        let cluster = kubeconfig::resolve(&config.cluster, &clock)?;
        let (identity, namespace) = (config.new_identity(), cluster.namespace.clone());
        let server = cluster.server();
        tracing::info!(
            version = version::VERSION,
            commit = version::COMMIT,
            providers = config.provider_names().join(", "),
            api_server = server,
            kubeconfig = cluster.origin,
            identity,
            namespace,
            "starting"
        );
        Ok(Self {
            server,
            clients: Clients::new(&cluster, clock.clone())?,
            clock,
            random: Random::system(),
            identity,
            namespace,
            lease: LeaseHome::Thread(Box::new(cluster)),
            transport: None,
            probe: Arc::new(Sockets::default()),
            node: config.node.clone(),
            has_admission: true,
        })
    }

    /// Runs [`Platform::system`] on its own thread, because a credential plugin in a kubeconfig blocks its caller.
    async fn find(config: &Config) -> Result<Self, OperatorError> {
        let (sender, found) = oneshot::channel();
        let (config, runtime) = (config.clone(), Handle::current());
        std::thread::Builder::new().name("start".to_owned()).spawn(move || {
            let _inside = runtime.enter();
            // Nobody listens any more: the process is on its way out.
            let _unheard = sender.send(Self::system(&config));
        })?;
        found.await.map_err(std::io::Error::other)?
    }
}

/// The facilities that every part uses.
struct Base {
    clock: Clock,
    random: Random,
    clients: Clients,
    transport: Option<Arc<dyn Transport>>,
    health: WatchHealth,
    metrics: Arc<Metrics>,
    liveness: Liveness,
    tracker: TaskTracker,
    stop: CancellationToken,
    /// Stops everything when the operator is dropped, even half-way.
    _stop_on_drop: DropGuard,
}

/// The election, which runs beside everything else.
struct Election {
    identity: String,
    leader: LeaderHandle,
    permits: PermitSource,
    lease: LeaseThread,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

/// Runs on this machine until `shutdown` is cancelled (success) or the lease is lost (an error). Calls `started` once
/// everything runs.
///
/// # Errors
/// [`OperatorError`].
pub async fn run(
    config: Config,
    shutdown: CancellationToken,
    started: impl FnOnce(Started),
) -> Result<(), OperatorError> {
    if config.ignored_arguments > 0 {
        tracing::warn!(
            ignored = config.ignored_arguments,
            "some arguments belong to no flag and are ignored; a flag's BOOL follows an equals sign: --debug=true"
        );
    }
    let found = shutdown.run_until_cancelled(Platform::find(&config)).await;
    let Some(platform) = found.transpose()? else { return Ok(()) };
    run_on(platform, config, shutdown, started).await
}

/// Like [`run`], on a given platform.
///
/// # Errors
/// [`OperatorError`].
pub async fn run_on(
    platform: Platform,
    config: Config,
    shutdown: CancellationToken,
    started: impl FnOnce(Started),
) -> Result<(), OperatorError> {
    let has_admission = platform.has_admission;
    let Platform {
        clock, random, identity, namespace, server, clients, lease, transport, probe, node, ..
    } = platform;
    let base = Base::new(clock, random, clients, transport)?;
    let providers = providers(&config, &base)?;
    let bound = shutdown.run_until_cancelled(listen(config.metrics.as_ref())).await;
    let Some(listener) = bound.transpose()? else { return Ok(()) };
    let metrics = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let mut election = elect(identity, namespace.clone(), lease, &base)?;
    if let Some(listener) = listener {
        serve_admin(listener, &base, &election.leader, &election.identity, config.page)?;
    }
    tell_waits(server, &base, &election.leader);
    let drain = CancellationToken::new();
    if config.decisions.keep_last_record {
        tracing::info!("--keep-last-record: NodeDNSRecordSets without whenEmpty keep their records");
    }
    let own = (node, Some(namespace));
    let settings = settings(&providers, config.decisions.clone(), own, &base.clock);
    let reconciler = reconciler(providers, settings, (probe, has_admission), (&base, &election));
    let reconcile = base.tracker.spawn(reconciler.run(drain.clone(), base.stop.clone()));
    started(Started { metrics });
    tokio::select! {
        biased;
        outcome = election.lease.outcome() => {
            // Everything must stop: permits are void already, and calls under way are cut off.
            base.stop.cancel();
            ended(outcome?)
        }
        () = shutdown.cancelled() => end(base, election, reconcile, drain).await,
    }
}

async fn listen(address: Option<&BindAddress>) -> Result<Option<TcpListener>, admin::BindError> {
    match address {
        Some(address) => admin::bind(address).await.map(Some),
        None => Ok(None),
    }
}

impl Base {
    fn new(
        clock: Clock,
        random: Random,
        clients: Clients,
        transport: Option<Arc<dyn Transport>>,
    ) -> Result<Self, OperatorError> {
        let (health, stop) = (WatchHealth::default(), CancellationToken::new());
        Ok(Self {
            random,
            clients,
            transport,
            metrics: Metrics::new(health.clone(), version::VERSION)?,
            health,
            liveness: Liveness::new(clock.clone()),
            clock,
            tracker: TaskTracker::new(),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        })
    }
}

fn elect(
    identity: String,
    namespace: String,
    home: LeaseHome,
    base: &Base,
) -> Result<Election, OperatorError> {
    let permits = PermitSource::new(base.clock.clone());
    let (elector, leader) = Elector::new(ElectorSettings {
        identity: identity.clone(),
        namespace,
        clock: base.clock.clone(),
        random: base.random.clone(),
        permits: permits.clone(),
        heartbeat: Some(base.liveness.register("lease", MAX_LOOP_AGE_MS)),
    });
    let stop = CancellationToken::new();
    let lease = leader::spawn(elector, home, stop.clone())?;
    Ok(Election { identity, leader, permits, lease, _stop_on_drop: stop.clone().drop_guard(), stop })
}

fn reconciler(
    providers: Providers,
    settings: Settings,
    (probe, has_admission): (Arc<dyn Probe>, bool),
    (base, election): (&Base, &Election),
) -> Reconciler {
    let underway = Arc::new(Underway::new(base.clock.clone()));
    let (client, clock) = (base.clients.requests.clone(), base.clock.clone());
    let (events, event_writer) = events::events(client, clock, &election.identity, underway.guards());
    base.tracker.spawn(event_writer.run(base.stop.clone()));
    let context = WatchContext {
        client: base.clients.watches.clone(),
        clock: base.clock.clone(),
        random: base.random.clone(),
        reset: election.leader.api_returns(),
        health: base.health.clone(),
    };
    let (sender, done) = mpsc::channel(OUTCOMES);
    let executor = Executor {
        providers: providers.into(),
        client: base.clients.requests.clone(),
        permit: election.permits.permit(),
        clock: base.clock.clone(),
        events,
        done: sender,
        tracker: base.tracker.clone(),
        underway,
    };
    Reconciler::new(Parts {
        settings,
        executor,
        checks: check_nodes(probe, base),
        has_admission,
        done,
        watches: Watches::new(context, base.tracker.clone(), base.stop.clone()),
        leader: election.leader.state(),
        metrics: Arc::clone(&base.metrics),
        server_time: base.clients.time.clone(),
        random: base.random.clone(),
        heartbeat: base.liveness.register("reconcile", MAX_LOOP_AGE_MS),
    })
}

/// Starts what checks nodes.
fn check_nodes(probe: Arc<dyn Probe>, base: &Base) -> Feed {
    let (feed, wanted, answers) = probe::feed();
    let (clock, random, metrics) = (base.clock.clone(), base.random.clone(), Arc::clone(&base.metrics));
    let prober = Prober::new(probe::Parts { probe, clock, random, metrics, wanted, answers });
    base.tracker.spawn(prober.run(base.stop.clone()));
    feed
}

/// Starts nothing new and waits for what is under way. Releases the lease only if all of it has ended.
async fn end(
    base: Base,
    mut election: Election,
    reconcile: JoinHandle<()>,
    drain: CancellationToken,
) -> Result<(), OperatorError> {
    tracing::info!("shutting down: nothing new is started");
    election.leader.stand_down();
    election.permits.close();
    drain.cancel();
    let drained = tokio::select! {
        biased;
        drained = tokio::time::timeout(DRAIN, reconcile) => drained.is_ok(),
        outcome = election.lease.outcome() => {
            base.stop.cancel();
            return ended(outcome?);
        }
    };
    base.stop.cancel();
    if drained {
        election.leader.release();
    } else {
        tracing::warn!("calls are still under way: the lease is left to expire");
        election.stop.cancel();
    }
    // The loop ends with the election too, and its end may be reported first.
    let outcome = tokio::time::timeout(RELEASE, election.lease.outcome()).await;
    base.tracker.close();
    let _late = tokio::time::timeout(LAST, base.tracker.wait()).await;
    outcome.map_or(Ok(()), |outcome| ended(outcome?))
}

/// The meaning of the election's end for the process.
fn ended(outcome: LeaderOutcome) -> Result<(), OperatorError> {
    match outcome {
        LeaderOutcome::Lost { holder } => Err(OperatorError::LeaseLost(holder)),
        LeaderOutcome::Stopped | LeaderOutcome::Released | LeaderOutcome::NotReleased => Ok(()),
    }
}

/// Clients of the providers that have a token.
fn providers(config: &Config, base: &Base) -> Result<Providers, OperatorError> {
    let observer: Arc<dyn CallObserver> = Arc::<Metrics>::clone(&base.metrics);
    let proxies = &config.cluster.proxy;
    Ok(provider::connect(&config.providers, proxies, &base.clock, &observer, base.transport.as_ref())?)
}

fn settings(
    providers: &Providers,
    DecisionFlags { keep_last_record, zones, max_addresses }: DecisionFlags,
    (own_node, own_namespace): (Option<String>, Option<String>),
    clock: &Clock,
) -> Settings {
    let has_token =
        |of: &Descriptor| providers.accounts().any(|(account_id, _)| account_id.provider == of.name);
    let known = provider::descriptors().map(|descriptor| (descriptor, has_token(&descriptor)));
    let providers = KnownProviders::new(known, keep_last_record);
    let epoch_ms = clock.epoch_ms();
    Settings { providers, epoch_ms, own_node, own_namespace, zones, max_addresses, thorough: false }
}

fn serve_admin(
    listener: TcpListener,
    base: &Base,
    leader: &LeaderHandle,
    identity: &str,
    page: bool,
) -> Result<(), OperatorError> {
    let (scraped, described) = (Arc::clone(&base.metrics), Arc::clone(&base.metrics));
    let (health, state, clock) = (base.health.clone(), leader.state(), base.clock.clone());
    let (leading, identity) = (leader.state(), identity.to_owned());
    let debug = move || {
        let (described, clock, leader) = (Arc::clone(&described), clock.clone(), holder(&leading, &identity));
        async move { serde_json::json!(View { leader, ..described.describe(&clock).await }) }.boxed()
    };
    let endpoints = admin::Endpoints {
        metrics: Arc::new(move || scraped.encode().map_err(|error| error.to_string())),
        not_ready: Arc::new(move || reasons_not_ready(&health, &state)),
        liveness: base.liveness.clone(),
        debug: page.then_some(Arc::new(debug)),
    };
    let mut router = admin::routes(endpoints);
    if page {
        router = router.merge(admin::page::routes(""));
    }
    let ended = admin::spawn(listener, router, base.stop.clone()).map_err(OperatorError::Endpoints)?;
    base.tracker.spawn(async move { ended.await.unwrap_or_default() });
    Ok(())
}

/// The identity of the leader, which this process may not be. Empty if it is unknown.
fn holder(leader: &watch::Receiver<LeaderState>, identity: &str) -> String {
    match &*leader.borrow() {
        LeaderState::Standby { holder } | LeaderState::Lost { holder } => holder.clone(),
        LeaderState::Leading { .. } => identity.to_owned(),
        LeaderState::Starting | LeaderState::Lapsed { .. } | LeaderState::Ended => String::new(),
    }
}

/// The requests that the API server has not answered since the process began. The elector itself logs a refused lease.
fn unanswered(health: &WatchHealth, leader: &watch::Receiver<LeaderState>) -> Vec<String> {
    let mut waits = health.unanswered();
    if matches!(*leader.borrow(), LeaderState::Starting) && !health.is_answered() {
        waits.insert(0, "the lease has not been read yet".to_owned());
    }
    waits
}

/// Logs what the process waits for, until everything was answered once.
fn tell_waits(server: String, base: &Base, leader: &LeaderHandle) {
    let (health, state, stop) = (base.health.clone(), leader.state(), base.stop.clone());
    let missing = move || unanswered(&health, &state);
    let task = telemetry::tell_missing(base.clock.clone(), server, missing, |line| tracing::warn!("{line}"));
    base.tracker.spawn(async move { stop.run_until_cancelled_owned(task).await });
}

/// Why the process is not ready. A leader is ready when its watches are. So is a standby, which keeps its watches in
/// sync too.
fn reasons_not_ready(health: &WatchHealth, leader: &watch::Receiver<LeaderState>) -> Vec<String> {
    let mut reasons = health.reasons_not_ready();
    if matches!(*leader.borrow(), LeaderState::Starting) {
        reasons.push("the lease has not been read yet".to_owned());
    }
    reasons
}

#[cfg(test)]
#[path = "operator_tests.rs"]
mod tests;
