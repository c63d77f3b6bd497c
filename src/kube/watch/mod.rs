//! Watches: one list-then-watch loop for each (kind, namespace, selector), as a future that the caller runs.
//!
//! Each watch sends [`Observed`] steps or [`News`] with a tag into a channel. The caller gives both. A watch owns its
//! recovery (relists, deadlines, backoff) and its [`WatchHealth`]. It does not own what is watched, nor any store.
//!
//! Invariants: an [`Observed::Reset`] is always a complete, consistent list. Objects are reduced to their facts before
//! they are kept. An undecodable object never ends a watch. A silent watch is noticed within 65 s.

mod events;
mod follow;
mod health;
pub mod list_once;
pub mod messages;
pub mod page;
pub mod sorted;
#[cfg(test)]
mod tests;

pub use health::{WatchHealth, WatchName, WatchStatus};

use crate::api::seen::{Conditioned, Guarded, Seen};
use crate::clock::Clock;
use crate::kube::objects::labelled::Labelled;
use crate::kube::objects::lease::{self, LeaseSlim};
use crate::kube::objects::own_node::{OwnNode, OwnNodeFacts};
use crate::kube::objects::{NodeSlim, PodSlim, protobuf};
use crate::latest;
use crate::random::Random;
use flipop_core::model::{LeaseFacts, NodeFacts, Observed, PodFacts};
use follow::{Absent, Follow, Source};
use kube::core::{NamespaceResourceScope, Resource};
use kube::{Api, Client};
use messages::{News, Print, Steps, Versioned};
use sorted::{Selection, Sorter};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Counts how often the API server came back. Each change ends every backoff that is under way.
pub type BackoffReset = latest::Receiver<u64>;

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

/// The channel for the messages of a watch, each with the caller's tag.
pub type Sink<G, M> = mpsc::Sender<(G, M)>;

/// The objects that a watch of nodes or pods asks for, and the keys that it serves.
#[derive(Debug, Default)]
pub struct Target {
    /// Namespace of pods. `None` means all.
    pub namespace: Option<String>,
    /// Label selector. Empty means all.
    pub selector: String,
    /// The selectors of the keys that it serves, if they are several.
    pub keys: Option<Arc<Selection>>,
    /// Where it reports its state until its first list is complete, if it is to replace watches that still run.
    pub aside: Option<WatchHealth>,
}

/// Watches nodes, until it is cancelled or nobody listens.
pub async fn watch_nodes<G: Clone + Send>(
    context: WatchContext,
    target: Target,
    tag: G,
    sink: Sink<G, News<NodeFacts>>,
    cancel: CancellationToken,
) {
    let (all, receiver) = (Api::<NodeSlim>::all(context.client.clone()), (tag, sink));
    let Some(keys) = target.keys.clone() else {
        let source = Source::of(all, protobuf::NODES, ("nodes", target), NodeSlim::into_facts);
        return Follow::new(context, source, Versioned::every_step(), receiver).run(cancel).await;
    };
    let cut = move |node: Labelled<NodeSlim>| {
        let keys = keys.of("", &node.labels);
        (node.object.into_facts(), keys)
    };
    let all = Api::all(context.client.clone());
    let source = Source::of(all, protobuf::LABELLED_NODES, ("nodes", target), cut);
    let sorter = Sorter::every_event(|node: &NodeFacts| Print::new(&node.name, &()));
    Follow::new(context, source, sorter, receiver).run(cancel).await;
}

/// Watches the Leases that kubelets renew. Their events are read in bursts, `pause` apart.
pub async fn watch_leases<G: Clone + Send>(
    context: WatchContext,
    pause: Duration,
    tag: G,
    sink: Sink<G, Observed<LeaseFacts>>,
    cancel: CancellationToken,
) {
    let leases = Api::<LeaseSlim>::namespaced(context.client.clone(), lease::NAMESPACE);
    let source = Source::all(leases, WatchName::of_leases(), LeaseSlim::into_facts);
    let source = Source { wire: Some(protobuf::LEASES), pause, ..source };
    Follow::new(context, source, Steps, (tag, sink)).run(cancel).await;
}

/// Watches one node, by name.
pub async fn watch_own_node(
    context: WatchContext,
    name: &str,
    sink: Sink<(), Observed<OwnNodeFacts>>,
    cancel: CancellationToken,
) {
    let nodes = Api::<OwnNode>::all(context.client.clone());
    let source = Source::all(nodes, WatchName::new("nodes", None, ""), OwnNode::into_facts);
    let source = Source { field_selector: Some(format!("metadata.name={name}")), ..source };
    Follow::new(context, source, Steps, ((), sink)).run(cancel).await;
}

/// Watches running pods.
///
/// Only pods in phase `Running` can serve, so the server is asked for these alone. It reports a pod that enters the
/// phase as added, and a pod that leaves it as deleted. Finished jobs cost nothing.
pub async fn watch_pods<G: Clone + Send>(
    context: WatchContext,
    target: Target,
    tag: G,
    sink: Sink<G, News<PodFacts>>,
    cancel: CancellationToken,
) {
    const RUNNING: &str = "status.phase=Running";
    let print = |pod: &PodFacts| Print::new(&(&pod.namespace, &pod.name), pod);
    let (client, namespace, receiver) = (context.client.clone(), target.namespace.clone(), (tag, sink));
    let Some(keys) = target.keys.clone() else {
        let pods = in_namespace(client, namespace.as_deref());
        let source = Source::of(pods, protobuf::PODS, ("pods", target), PodSlim::into_facts);
        let source = Source { field_selector: Some(RUNNING.to_owned()), ..source };
        return Follow::new(context, source, Versioned::changes(print), receiver).run(cancel).await;
    };
    let cut = move |pod: Labelled<PodSlim>| {
        let facts = pod.object.into_facts();
        let keys = keys.of(&facts.namespace, &pod.labels);
        (facts, keys)
    };
    let pods = in_namespace(client, namespace.as_deref());
    let source = Source::of(pods, protobuf::LABELLED_PODS, ("pods", target), cut);
    let source = Source { field_selector: Some(RUNNING.to_owned()), ..source };
    Follow::new(context, source, Sorter::changes(print), receiver).run(cancel).await;
}

/// The objects of a namespace (`None`: of all).
pub(crate) fn in_namespace<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// Watches all objects of one of our kinds, in every namespace.
///
/// While its CRD is not installed, the kind counts as empty: a complete empty list is sent once, and the watch goes on
/// waiting for the CRD.
pub async fn watch_resources<K: Conditioned, G: Clone + Send>(
    context: WatchContext,
    tag: G,
    sink: Sink<G, Observed<Seen<K>>>,
    cancel: CancellationToken,
) {
    let objects = Api::<Guarded<K>>::all(context.client.clone());
    let name = WatchName::new(K::plural(&()).into_owned(), None, "");
    let source = Source::all(objects, name, |guarded: Guarded<K>| guarded.0);
    let source = Source { absent: Absent::CountsAsEmpty, ..source };
    Follow::new(context, source, Steps, (tag, sink)).run(cancel).await;
}
