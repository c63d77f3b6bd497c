//! The operator as a whole: what runs beside what, in which order it starts, and how it ends.

use crate::admin;
use crate::clock::Clock;
use crate::config::{Config, ProviderConfig};
use crate::execute::Executor;
use crate::kube::client::{ClientError, Clients};
use crate::kube::events;
use crate::kube::kubeconfig::{self, ClusterError};
use crate::kube::watch::{WatchContext, WatchHealth};
use crate::leader::elector::{Elector, ElectorSettings};
use crate::leader::permit::PermitSource;
use crate::leader::thread::{self, ThreadError};
use crate::leader::{LeaderHandle, LeaderOutcome, LeaderState};
use crate::liveness::Liveness;
use crate::metrics::{Metrics, MetricsError};
use crate::provider::digitalocean::{self, DigitalOcean};
use crate::provider::http::{ApiConfig, BuildError};
use crate::provider::{IpProvider, install_tls};
use crate::random::Random;
use crate::reconcile::{Parts, Reconciler};
use crate::watches::Watches;
use flipop_core::budget::Limits;
use flipop_core::fleet::Settings;
use flipop_core::pool::spec::Providers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Outcomes that wait to be taken in: more than calls are ever under way.
const OUTCOMES: usize = 256;

/// The reconcile loop beats every two seconds; this long without a beat means that it is stuck.
const MAX_LOOP_AGE_MS: u64 = 30_000;

/// How long calls under way may take to end after SIGTERM (the contract: 8 s, all in all 10).
const DRAIN: Duration = Duration::from_secs(8);

/// How long giving up the lease and ending the rest may take after that.
const LAST: Duration = Duration::from_millis(1_500);

/// Name of the DNS provider that this build knows beside `digitalocean`.
const CLOUDFLARE: &str = "cloudflare";

/// Why the operator could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// No API server to talk to.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Its client could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A provider's client could not be made.
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
    /// Someone else took the lease.
    #[error("failed to keep the lease: {0:?} holds it now; ending so that only one replica acts")]
    LeaseLost(String),
}

/// What a caller may know of a running operator.
#[derive(Debug, Default)]
pub struct Started {
    /// Where metrics are served, once they are.
    pub metrics: Option<std::net::SocketAddr>,
}

/// Runs until `shutdown` is cancelled (ends well) or until the lease is lost (an error). `started` is called once
/// everything runs.
///
/// # Errors
/// [`OperatorError`].
pub async fn run(
    config: Config,
    shutdown: CancellationToken,
    started: impl FnOnce(Started),
) -> Result<(), OperatorError> {
    install_tls();
    let clock = Clock::system();
    let random = Random::system();
    let cluster = kubeconfig::resolve(&config.cluster).await?;
    let clients = Clients::new(&cluster)?;
    let health = WatchHealth::default();
    let metrics = Metrics::new(health.clone(), env!("CARGO_PKG_VERSION"))?;
    let providers = Arc::new(ip_providers(&config, &clock, &metrics)?);
    let liveness = Liveness::new(clock.clone());
    let permits = PermitSource::new(clock.clone());
    let identity = config.new_identity();
    tracing::info!(identity, namespace = cluster.namespace, kubeconfig = cluster.origin, "starting");
    let (elector, leader) = Elector::new(ElectorSettings {
        identity: identity.clone(),
        namespace: cluster.namespace.clone(),
        clock: clock.clone(),
        random: random.clone(),
        permits: permits.clone(),
        heartbeat: Some(liveness.register("lease", MAX_LOOP_AGE_MS)),
    });
    let stop_lease = CancellationToken::new();
    let mut lease = thread::spawn(elector, cluster, stop_lease.clone())?;
    let tracker = TaskTracker::new();
    let (stop, drain) = (CancellationToken::new(), CancellationToken::new());
    let (events, event_writer) = events::events(clients.requests.clone(), &identity);
    tracker.spawn(event_writer.run(stop.clone()));
    let address = serve_admin(&config, &metrics, &health, &liveness, &leader, (&tracker, &stop)).await?;
    let (sender, done) = mpsc::channel(OUTCOMES);
    let watches = Watches::new(
        WatchContext {
            client: clients.watches.clone(),
            clock: clock.clone(),
            random: random.clone(),
            reset: leader.api_returns(),
            health,
        },
        tracker.clone(),
        stop.clone(),
    );
    let executor = Executor {
        providers: Arc::clone(&providers),
        client: clients.requests,
        permit: permits.permit(),
        clock,
        events,
        done: sender,
        tracker: tracker.clone(),
        writing: Arc::default(),
    };
    let reconciler = Reconciler::new(Parts {
        settings: settings(&config, &providers),
        executor,
        done,
        watches,
        leader: leader.state(),
        metrics,
        random,
        heartbeat: liveness.register("reconcile", MAX_LOOP_AGE_MS),
    });
    let mut reconcile = tracker.spawn(reconciler.run(drain.clone(), stop.clone()));
    started(Started { metrics: address });
    let outcome = tokio::select! {
        outcome = lease.outcome() => Some(outcome?),
        () = shutdown.cancelled() => None,
    };
    if let Some(LeaderOutcome::Lost { holder }) = outcome {
        // Nothing may go on: permits are void already, and what is under way is cut off.
        stop.cancel();
        return Err(OperatorError::LeaseLost(holder));
    }
    tracing::info!("shutting down: nothing new is started");
    leader.stand_down();
    drain.cancel();
    let drained = tokio::time::timeout(DRAIN, &mut reconcile).await.is_ok();
    stop.cancel();
    if drained {
        leader.release();
    } else {
        tracing::warn!("calls are still under way: the lease is left to expire");
        stop_lease.cancel();
    }
    let _late = tokio::time::timeout(LAST, lease.outcome()).await;
    tracker.close();
    let _late = tokio::time::timeout(LAST, tracker.wait()).await;
    Ok(())
}

/// The providers of addresses that have a token.
fn ip_providers(
    config: &Config,
    clock: &Clock,
    metrics: &Arc<Metrics>,
) -> Result<BTreeMap<String, Arc<dyn IpProvider>>, OperatorError> {
    let mut providers: BTreeMap<String, Arc<dyn IpProvider>> = BTreeMap::new();
    if let Some(ProviderConfig { token, base_url, user_agent }) = config.digitalocean.clone() {
        let client = DigitalOcean::new(ApiConfig {
            base_url,
            user_agent,
            token,
            clock: clock.clone(),
            observer: Arc::<Metrics>::clone(metrics),
        })?;
        providers.insert(digitalocean::NAME.to_owned(), Arc::new(client));
    }
    Ok(providers)
}

fn settings(config: &Config, ips: &BTreeMap<String, Arc<dyn IpProvider>>) -> Settings {
    let known = [
        (digitalocean::NAME.to_owned(), "DIGITALOCEAN_ACCESS_TOKEN".to_owned()),
        (CLOUDFLARE.to_owned(), "CLOUDFLARE_TOKEN".to_owned()),
    ];
    let dns = [
        config.digitalocean.as_ref().map(|_| digitalocean::NAME.to_owned()),
        // Cloudflare has no floating IPs, with a token or without.
        Some(CLOUDFLARE.to_owned()),
    ];
    let providers = Providers {
        ip: ips.keys().cloned().collect(),
        dns: dns.into_iter().flatten().collect::<BTreeSet<String>>(),
        known: known.into(),
    };
    Settings { providers, limits: ips.keys().map(|name| (name.clone(), Limits::DIGITALOCEAN)).collect() }
}

async fn serve_admin(
    config: &Config,
    metrics: &Arc<Metrics>,
    health: &WatchHealth,
    liveness: &Liveness,
    leader: &LeaderHandle,
    (tracker, stop): (&TaskTracker, &CancellationToken),
) -> Result<Option<std::net::SocketAddr>, OperatorError> {
    let Some(bind) = &config.metrics else { return Ok(None) };
    let (scraped, debugged) = (Arc::clone(metrics), Arc::clone(metrics));
    let (health, state) = (health.clone(), leader.state());
    let listener = admin::bind(bind).await?;
    let address = listener.local_addr().ok();
    let endpoints = admin::Endpoints {
        metrics: Arc::new(move || scraped.encode().map_err(|error| error.to_string())),
        not_ready: Arc::new(move || reasons_not_ready(&health, &state)),
        liveness: liveness.clone(),
        debug: Arc::new(move || debugged.describe()),
    };
    tracker.spawn(admin::serve(listener, endpoints, stop.clone()));
    Ok(address)
}

/// A leader is ready when its watches are; so is a standby, which keeps its watches in sync as well.
fn reasons_not_ready(health: &WatchHealth, leader: &watch::Receiver<LeaderState>) -> Vec<String> {
    let mut reasons = health.reasons_not_ready();
    if matches!(*leader.borrow(), LeaderState::Starting) {
        reasons.push("the lease has not been read yet".to_owned());
    }
    reasons
}
