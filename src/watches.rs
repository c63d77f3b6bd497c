//! Starts, shares and ends watches. The core decides which ones are wanted.
//!
//! Invariant: after [`Watches::restart`] no step of an earlier watch is passed on, so later decisions rest on lists
//! begun afterwards.

use crate::api::{FloatingIPPool, NodeDNSRecordSet, Seen};
use crate::kube::trouble::TroubleKind;
use crate::kube::watch::{self, WatchContext, WatchName};
use crate::probe::feed::BEAT;
use flipop_core::model::facts::{NodeFacts, Observed, PodFacts};
use flipop_core::model::matching::WatchKey;
use flipop_core::model::node_check::LeaseFacts;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most steps of one kind that wait to be consumed. A full channel only slows the watch down.
const BACKLOG: usize = 1_024;

/// The restart of the watches that a step belongs to.
type Round = u64;

/// A step and its kind.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "steps are consumed at once; their queues hold them by kind")]
pub enum Step {
    /// Of the pools.
    Pools(Observed<Seen<FloatingIPPool>>),
    /// Of the record sets.
    RecordSets(Observed<Seen<NodeDNSRecordSet>>),
    /// Of nodes.
    Nodes(WatchKey, Observed<NodeFacts>),
    /// Of pods.
    Pods(WatchKey, Observed<PodFacts>),
    /// Of the Leases of nodes.
    Leases(Observed<LeaseFacts>),
}

struct Channel<G, T> {
    sender: mpsc::Sender<(G, Observed<T>)>,
    receiver: mpsc::Receiver<(G, Observed<T>)>,
}

impl<G, T> Channel<G, T> {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        Self { sender, receiver }
    }
}

/// The running watches.
pub struct Watches {
    context: WatchContext,
    tracker: TaskTracker,
    cancel: CancellationToken,
    round: Round,
    of_round: CancellationToken,
    running: BTreeMap<WatchKey, CancellationToken>,
    pools: Channel<Round, Seen<FloatingIPPool>>,
    record_sets: Channel<Round, Seen<NodeDNSRecordSet>>,
    nodes: Channel<(Round, WatchKey), NodeFacts>,
    pods: Channel<(Round, WatchKey), PodFacts>,
    leases: Channel<Round, LeaseFacts>,
    leases_running: Option<CancellationToken>,
}

impl Watches {
    /// Starts with no watch.
    #[must_use]
    pub fn new(context: WatchContext, tracker: TaskTracker, cancel: CancellationToken) -> Self {
        Self {
            context,
            tracker,
            of_round: cancel.child_token(),
            cancel,
            round: 0,
            running: BTreeMap::new(),
            pools: Channel::new(),
            record_sets: Channel::new(),
            nodes: Channel::new(),
            pods: Channel::new(),
            leases: Channel::new(),
            leases_running: None,
        }
    }

    /// True before the first [`Watches::restart`].
    #[must_use]
    pub fn are_idle(&self) -> bool {
        self.round == 0
    }

    /// Ends every watch, then starts those of our own kinds anew.
    pub fn restart(&mut self) {
        self.of_round.cancel();
        self.of_round = self.cancel.child_token();
        self.round += 1;
        self.running.clear();
        self.leases_running = None;
        let (context, round, cancel) = (self.context.clone(), self.round, self.of_round.clone());
        self.tracker.spawn(watch::watch_resources(context, round, self.pools.sender.clone(), cancel));
        let (context, cancel) = (self.context.clone(), self.of_round.clone());
        self.tracker.spawn(watch::watch_resources(context, round, self.record_sets.sender.clone(), cancel));
    }

    /// Starts and ends watches of nodes and pods, so that exactly the wanted ones run.
    pub fn follow(&mut self, wanted: &BTreeSet<WatchKey>) {
        self.running.retain(|key, cancel| {
            let keep = wanted.contains(key);
            if !keep {
                cancel.cancel();
            }
            keep
        });
        for key in wanted {
            if !self.running.contains_key(key) {
                let cancel = self.of_round.child_token();
                self.start(key.clone(), cancel.clone());
                self.running.insert(key.clone(), cancel);
            }
        }
    }

    /// Starts or ends the watch of the Leases of nodes.
    pub fn follow_leases(&mut self, wanted: bool) {
        if !wanted {
            if let Some(running) = self.leases_running.take() {
                running.cancel();
            }
            return;
        }
        if self.leases_running.is_none() {
            let cancel = self.of_round.child_token();
            let (context, sink) = (self.context.clone(), self.leases.sender.clone());
            self.tracker.spawn(watch::watch_leases(context, BEAT, self.round, sink, cancel.clone()));
            self.leases_running = Some(cancel);
        }
    }

    /// Whether the Leases of nodes are watched.
    #[must_use]
    pub const fn follow_the_leases(&self) -> bool {
        self.leases_running.is_some()
    }

    /// Whether the Leases of nodes may not be read.
    #[must_use]
    pub fn leases_denied(&self) -> bool {
        let statuses = self.context.health.snapshot();
        let status = statuses.get(&WatchName::of_leases());
        status.is_some_and(|status| status.trouble == Some(TroubleKind::Forbidden))
    }

    fn start(&self, key: WatchKey, cancel: CancellationToken) {
        let context = self.context.clone();
        let tag = (self.round, key.clone());
        match key {
            WatchKey::Nodes { selector } => {
                self.tracker.spawn(watch::watch_nodes(
                    context,
                    selector,
                    tag,
                    self.nodes.sender.clone(),
                    cancel,
                ));
            }
            WatchKey::Pods { namespace, selector } => {
                let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
                let sink = self.pods.sender.clone();
                self.tracker.spawn(watch::watch_pods(context, namespace, selector, tag, sink, cancel));
            }
        }
    }

    /// The next step, except for steps of Leases: hundreds of those come in a second, and none is urgent. Nodes come
    /// before pods, which are far more numerous.
    pub async fn next(&mut self) -> Step {
        loop {
            let step = tokio::select! {
                biased;
                Some((round, step)) = self.pools.receiver.recv() => (round, Step::Pools(step)),
                Some((round, step)) = self.record_sets.receiver.recv() => (round, Step::RecordSets(step)),
                Some(((round, key), step)) = self.nodes.receiver.recv() => (round, Step::Nodes(key, step)),
                Some(((round, key), step)) = self.pods.receiver.recv() => (round, Step::Pods(key, step)),
                else => std::future::pending().await,
            };
            if let Some(step) = self.of_this_round(step) {
                return step;
            }
        }
    }

    /// The next step, if one has arrived.
    pub fn try_next(&mut self) -> Option<Step> {
        loop {
            let step = if let Ok((round, step)) = self.pools.receiver.try_recv() {
                (round, Step::Pools(step))
            } else if let Ok((round, step)) = self.record_sets.receiver.try_recv() {
                (round, Step::RecordSets(step))
            } else if let Ok(((round, key), step)) = self.nodes.receiver.try_recv() {
                (round, Step::Nodes(key, step))
            } else if let Ok(((round, key), step)) = self.pods.receiver.try_recv() {
                (round, Step::Pods(key, step))
            } else if let Ok((round, step)) = self.leases.receiver.try_recv() {
                (round, Step::Leases(step))
            } else {
                return None;
            };
            if let Some(step) = self.of_this_round(step) {
                return Some(step);
            }
        }
    }

    /// Drops steps of an earlier round, and of a watch that has ended.
    fn of_this_round(&self, (round, step): (Round, Step)) -> Option<Step> {
        let running = match &step {
            Step::Pools(_) | Step::RecordSets(_) => true,
            Step::Leases(_) => self.leases_running.is_some(),
            Step::Nodes(key, _) | Step::Pods(key, _) => self.running.contains_key(key),
        };
        (round == self.round && running).then_some(step)
    }

    /// The failures of node and pod watches that last until someone fixes them.
    #[must_use]
    pub fn troubles(&self) -> BTreeMap<WatchKey, String> {
        let statuses = self.context.health.snapshot();
        let named = |key: &WatchKey| match key {
            WatchKey::Nodes { selector } => name("nodes", None, selector),
            WatchKey::Pods { namespace, selector } => {
                let namespace = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
                name("pods", namespace, selector)
            }
        };
        self.running
            .keys()
            .filter_map(|key| {
                let status = statuses.get(&named(key))?;
                let lasting = status.trouble.is_some_and(needs_someone);
                lasting.then(|| (key.clone(), status.message.clone()))
            })
            .collect()
    }
}

fn name(kind: &str, namespace: Option<String>, selector: &str) -> WatchName {
    WatchName { kind: kind.to_owned(), namespace, selector: selector.to_owned() }
}

/// Whether a watch fails until someone fixes the cause.
fn needs_someone(kind: TroubleKind) -> bool {
    matches!(
        kind,
        TroubleKind::Forbidden | TroubleKind::Unauthorised | TroubleKind::Invalid | TroubleKind::NotFound
    )
}
