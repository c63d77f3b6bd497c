//! A simulated Kubernetes API server.
//!
//! One cluster has any number of fronts. An [`ApiServer`] is a front: it answers HTTP requests, in process as a
//! [`tower::Service`] under [`kube::Client`], or on loopback for kubectl ([`ApiServer::serve`]). [`ApiServer::front`]
//! creates another front to the same cluster, with its own faults ([`Interceptor`]) and its own lag ([`View`]). It
//! stands for another replica of the API server, or for the network path of one client.
//!
//! Deliberately absent: authentication and authorisation ([`Interceptor::allows`] answers access reviews), admission
//! policies (stored but not evaluated; [`Builder::advice`] supplies their warnings), most of CEL in schemas, schemas of
//! built-in kinds, owner references and garbage collection, schedulers, kubelets except for [`forward`].
//!
//! Invariants: only connections have tasks. All waiting is on tokio's clock. Time comes from the clock and identifiers
//! from the seed that were handed in. The lock on the cluster is never held across an await.

mod admission;
mod codec;
mod columns;
mod crd;
mod discovery;
mod error;
pub mod forward;
mod handler;
mod hooks;
mod ids;
mod intent;
mod json_path;
mod meta;
mod object_meta;
mod openapi;
mod output;
mod ownership;
mod patch;
mod protobuf;
mod read;
mod remove;
mod request;
mod resource;
mod rules;
mod scale;
mod scenario;
mod schema;
mod selector;
mod serve;
mod store;
mod virtual_resources;
mod watch;
mod write;

pub use error::{ApiError, Cause};
pub use hooks::{Call, Disconnected, FrameFacts, Interceptor, OnFrame, Undisturbed, Verb, View};
pub use meta::Key;
pub use resource::Storage;
pub use scenario::{Applied, Changes, NodeSpec, PodSpec, Readiness, ScenarioError};
pub use serve::kubeconfig_yaml;
pub use store::Change;

use flipop::latest;
use jiff::{SignedDuration, Timestamp};
use resource::Resource;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use store::{Behaviour, Store};

/// The default number of remembered changes: enough for any scenario, and a limit for noisy ones.
const DEFAULT_HISTORY: usize = 20_000;

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The cluster behind all fronts.
struct Cluster {
    store: Mutex<Store>,
    revisions: latest::Sender<u64>,
    clock: Clock,
}

/// A front of the simulated cluster. Clones are the same front.
#[derive(Clone)]
pub struct ApiServer {
    cluster: Arc<Cluster>,
    interceptor: Arc<dyn Interceptor>,
    views: latest::Sender<View>,
    cuts: latest::Sender<u64>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// The settings of a cluster.
#[derive(Clone)]
pub struct Builder {
    seed: u64,
    clock: Clock,
    behaviour: Behaviour,
}

impl Builder {
    /// How many changes the log keeps. A request for older ones is answered with 410.
    pub fn history(mut self, changes: usize) -> Self {
        self.behaviour.history = changes.max(1);
        self
    }

    /// The warnings for an accepted custom resource, as from admission policies (default: none).
    pub fn advice(mut self, advice: fn(&Value) -> Vec<String>) -> Self {
        self.behaviour.advice = advice;
        self
    }

    /// Creates the cluster, with the namespaces `default`, `kube-system` and `kube-node-lease`.
    pub fn build(self) -> ApiServer {
        let server = ApiServer::of(Arc::new(Cluster {
            store: Mutex::new(Store::new(self.seed, self.behaviour)),
            revisions: latest::Sender::new(0),
            clock: self.clock,
        }));
        server.create_first_namespaces();
        server
    }
}

impl ApiServer {
    /// A cluster with identifiers from `seed` and timestamps from `clock`.
    pub fn builder(seed: u64, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Builder {
        let behaviour = Behaviour { history: DEFAULT_HISTORY, advice: |_| Vec::new() };
        Builder { seed, clock: Arc::new(clock), behaviour }
    }

    /// A cluster on tokio's clock, which tests pause. Its time starts at `epoch`.
    pub fn simulated(seed: u64, epoch: Timestamp) -> Self {
        let start = tokio::time::Instant::now();
        let clock = move || {
            let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
            epoch.checked_add(elapsed).unwrap_or(Timestamp::MAX)
        };
        Self::builder(seed, clock).build()
    }

    /// Another front of the same cluster: without faults, current, and with its own watches.
    pub fn front(&self) -> Self {
        Self::of(Arc::clone(&self.cluster))
    }

    fn of(cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            interceptor: Arc::new(Undisturbed),
            views: latest::Sender::new(View::Current),
            cuts: latest::Sender::new(0),
        }
    }

    /// This front with faults. Open watches keep the interceptor with which they started.
    pub fn with_interceptor(mut self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.interceptor = interceptor;
        self
    }

    /// Sets how current this front is from now on.
    pub fn set_view(&self, view: View) {
        self.views.send_replace(view);
    }

    /// Breaks all open watches of this front without a last frame.
    pub fn cut_watches(&self) {
        self.cuts.send_modify(|count| *count = count.saturating_add(1));
    }

    /// Forgets all history up to now. Older watches and page tokens are answered with 410. Open watches that keep up
    /// are not affected.
    pub fn compact(&self) {
        self.write(|store| {
            let revision = store.revision();
            store.compact(revision);
        });
    }

    /// The newest revision of the cluster.
    pub fn revision(&self) -> u64 {
        self.read(Store::revision)
    }

    /// The cluster's time.
    pub fn now(&self) -> Timestamp {
        (self.cluster.clock)()
    }

    fn read<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.cluster.store.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the cluster, then notifies the watches.
    fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let (result, revision) = {
            let mut store = self.cluster.store.lock().unwrap_or_else(PoisonError::into_inner);
            let result = change(&mut store);
            (result, store.revision())
        };
        self.cluster.revisions.send_if_modified(|known| {
            let news = revision > *known;
            *known = revision.max(*known);
            news
        });
        result
    }

    /// The revision that watches and cached reads of this front see.
    fn cache_revision(&self, store: &Store) -> u64 {
        match self.views.latest() {
            View::Current => store.revision(),
            View::CacheAt(revision) | View::AllAt(revision) => revision.min(store.revision()),
        }
    }

    /// The revision that reads without a version see.
    fn latest_revision(&self, store: &Store) -> u64 {
        match self.views.latest() {
            View::Current | View::CacheAt(_) => store.revision(),
            View::AllAt(revision) => revision.min(store.revision()),
        }
    }

    /// The changes of a resource after a revision, the revision that they reach, and whether the resource is still
    /// served.
    fn changes(&self, after: u64, resource: &Resource) -> Result<(Vec<Arc<Change>>, u64, bool), ApiError> {
        self.read(|store| {
            let upto = self.cache_revision(store).max(after);
            let changes = store
                .changes_after(after)?
                .take_while(|change| change.revision <= upto)
                .filter(|change| change.storage == resource.storage)
                .cloned()
                .collect();
            let served = store.registry.find(&resource.group, &resource.version, &resource.plural).is_some();
            Ok((changes, upto, served))
        })
    }
}
