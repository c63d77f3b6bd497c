//! Watches: one list-then-watch loop for each (kind, namespace, selector), as a future that the caller runs.
//!
//! Each watch sends [`Observed`] steps with a tag into a channel. The caller gives both. A watch owns its recovery
//! (relists, deadlines, backoff) and its [`WatchHealth`]. It does not own what is watched, nor any store.
//!
//! Invariants: an [`Observed::Reset`] is always a complete, consistent list. Objects are reduced to their facts before
//! they are kept. An undecodable object never ends a watch. A silent watch is noticed within 65 s.

mod events;
mod follow;
mod health;
pub mod once;
pub mod page;
mod repeats;
#[cfg(test)]
mod tests;

pub use health::{WatchHealth, WatchName, WatchStatus};

use crate::api::seen::{Guarded, Seen, seen};
use crate::clock::Clock;
use crate::kube::objects::lease::{self, LeaseSlim};
use crate::kube::objects::own_node::{OwnNode, OwnNodeFacts};
use crate::kube::objects::{NodeSlim, PodSlim, protobuf};
use crate::random::Random;
use crate::signal;
use flipop_core::model::facts::{NodeFacts, Observed, PodFacts};
use flipop_core::model::node_check::LeaseFacts;
use follow::{Absent, Follow, Source};
use kube::core::{NamespaceResourceScope, Resource};
use kube::{Api, Client};
use repeats::Print;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Counts how often the API server came back. Each change ends every backoff that is under way.
pub type BackoffReset = signal::Receiver<u64>;

/// The parts that every watch needs.
#[derive(Clone)]
pub struct WatchContext {
    /// A client whose read timeout suits watches.
    pub client: Client,
    /// Monotonic time.
    pub clock: Clock,
    /// For the jitter of backoffs.
    pub random: Random,
    /// Ends backoffs early.
    pub reset: BackoffReset,
    /// Where each watch reports its state.
    pub health: WatchHealth,
}

/// The channel for the steps of a watch, each with the caller's tag.
pub type Sink<G, T> = mpsc::Sender<(G, Observed<T>)>;

/// Watches the nodes that `label_selector` selects (empty: all), until it is cancelled or nobody listens.
pub async fn watch_nodes<G: Clone + Send>(
    context: WatchContext,
    label_selector: String,
    tag: G,
    sink: Sink<G, NodeFacts>,
    cancel: CancellationToken,
) {
    let source = Source {
        api: Api::<NodeSlim>::all(context.client.clone()),
        name: WatchName::new("nodes", None, &label_selector),
        label_selector,
        field_selector: None,
        absent: Absent::Waited,
        wire: Some(protobuf::NODES),
        cut: NodeSlim::into_facts,
        print: None,
        pause: Duration::ZERO,
    };
    Follow::new(context, source, tag, sink).run(cancel).await;
}

/// Watches the Leases that kubelets renew. Their events are read in bursts, `pause` apart.
pub async fn watch_leases<G: Clone + Send>(
    context: WatchContext,
    pause: Duration,
    tag: G,
    sink: Sink<G, LeaseFacts>,
    cancel: CancellationToken,
) {
    let source = Source {
        api: Api::<LeaseSlim>::namespaced(context.client.clone(), lease::NAMESPACE),
        name: WatchName::of_leases(),
        label_selector: String::new(),
        field_selector: None,
        absent: Absent::Waited,
        wire: Some(protobuf::LEASES),
        cut: LeaseSlim::into_facts,
        print: None,
        pause,
    };
    Follow::new(context, source, tag, sink).run(cancel).await;
}

/// Watches one node, by name.
pub async fn watch_own_node(
    context: WatchContext,
    name: &str,
    sink: Sink<(), OwnNodeFacts>,
    cancel: CancellationToken,
) {
    let source = Source {
        api: Api::<OwnNode>::all(context.client.clone()),
        name: WatchName::new("nodes", None, ""),
        label_selector: String::new(),
        field_selector: Some(format!("metadata.name={name}")),
        absent: Absent::Waited,
        wire: None,
        cut: OwnNode::into_facts,
        print: None,
        pause: Duration::ZERO,
    };
    Follow::new(context, source, (), sink).run(cancel).await;
}

/// Watches the running pods that `label_selector` selects (empty: all) in `namespace` (`None`: in all).
///
/// Only pods in phase `Running` can serve, so the server is asked for these alone. It reports a pod that enters the
/// phase as added, and a pod that leaves it as deleted. Finished jobs cost nothing.
pub async fn watch_pods<G: Clone + Send>(
    context: WatchContext,
    namespace: Option<String>,
    label_selector: String,
    tag: G,
    sink: Sink<G, PodFacts>,
    cancel: CancellationToken,
) {
    let api: Api<PodSlim> = match &namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    };
    let source = Source {
        api,
        name: WatchName::new("pods", namespace, &label_selector),
        label_selector,
        field_selector: Some("status.phase=Running".to_owned()),
        absent: Absent::Waited,
        wire: Some(protobuf::PODS),
        cut: PodSlim::into_facts,
        print: Some(|pod| Print::new(&(&pod.namespace, &pod.name), pod)),
        pause: Duration::ZERO,
    };
    Follow::new(context, source, tag, sink).run(cancel).await;
}

/// Watches all objects of one of our kinds, in every namespace.
///
/// While its CRD is not installed, the kind counts as empty: a complete empty list is sent once, and the watch goes on
/// waiting for the CRD.
pub async fn watch_resources<K, G>(
    context: WatchContext,
    tag: G,
    sink: Sink<G, Seen<K>>,
    cancel: CancellationToken,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    G: Clone + Send,
{
    let source = Source {
        api: Api::<Guarded<K>>::all(context.client.clone()),
        name: WatchName::new(K::plural(&()).into_owned(), None, ""),
        label_selector: String::new(),
        field_selector: None,
        absent: Absent::CountsAsEmpty,
        wire: None,
        cut: seen,
        print: None,
        pause: Duration::ZERO,
    };
    Follow::new(context, source, tag, sink).run(cancel).await;
}
