//! Starts, shares and ends watches. The core decides which ones are wanted.
//!
//! Each key has its own complete store in the core, whichever watch serves it: [`planner`] says which keys share a
//! watch, and [`handover`] which watch is listened to for each key.
//!
//! Invariant: after [`Watches::restart`] no step of an earlier watch is passed on, so later decisions rest on lists
//! begun afterwards.

mod handover;
mod planner;

use crate::api::{FloatingIPPool, NodeDNSRecordSet, Seen};
use crate::kube::objects::PodSlim;
use crate::kube::trouble::TroubleKind;
use crate::kube::watch::messages::News;
use crate::kube::watch::sorted::Selection;
use crate::kube::watch::{self, Target, WatchContext, WatchHealth, WatchName, WatchStatus};
use crate::kube::writes;
use crate::probe::BEAT;
use flipop_core::model::{LeaseFacts, Moment, NodeFacts, Observed, PodFacts, WatchKey};
use handover::{Handover, SourceId};
use planner::{Group, Planner};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most steps of one kind that wait to be consumed. A full channel only slows the watch down.
const BACKLOG: usize = 1_024;

/// The longest time between two plans of the watches.
const REPLAN_MS: u64 = 60_000;

/// The longest wait for the number of pods. Without it, each selector gets a watch of its own.
const COUNT_MS: u64 = 5_000;

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

struct Channel<G, M> {
    sender: mpsc::Sender<(G, M)>,
    receiver: mpsc::Receiver<(G, M)>,
}

impl<G, M> Channel<G, M> {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        Self { sender, receiver }
    }
}

/// A running watch of nodes or pods.
struct Running {
    /// The objects that it asks for.
    asks: WatchKey,
    /// It serves a group, and not just the key that it asks for.
    shared: bool,
    cancel: CancellationToken,
}

/// The running watches.
pub struct Watches {
    context: WatchContext,
    tracker: TaskTracker,
    cancel: CancellationToken,
    round: Round,
    of_round: CancellationToken,
    wanted: BTreeSet<WatchKey>,
    planner: Planner,
    planned_at: Option<Moment>,
    running: BTreeMap<SourceId, Running>,
    /// The states of watches that are to replace others and have no complete list yet.
    aside: WatchHealth,
    pools: Channel<Round, Observed<Seen<FloatingIPPool>>>,
    record_sets: Channel<Round, Observed<Seen<NodeDNSRecordSet>>>,
    nodes: Channel<SourceId, News<NodeFacts>>,
    of_nodes: Handover<NodeFacts>,
    pods: Channel<SourceId, News<PodFacts>>,
    of_pods: Handover<PodFacts>,
    /// Steps that one message brought, for several keys.
    ready: VecDeque<Step>,
    counts: Channel<Round, (String, Option<u64>)>,
    counting: BTreeSet<String>,
    leases: Channel<Round, Observed<LeaseFacts>>,
    leases_running: Option<CancellationToken>,
}

impl Watches {
    /// Starts with no watch.
    pub fn new(context: WatchContext, tracker: TaskTracker, cancel: CancellationToken) -> Self {
        Self {
            context,
            tracker,
            of_round: cancel.child_token(),
            cancel,
            round: 0,
            wanted: BTreeSet::new(),
            planner: Planner::default(),
            planned_at: None,
            running: BTreeMap::new(),
            aside: WatchHealth::default(),
            pools: Channel::new(),
            record_sets: Channel::new(),
            nodes: Channel::new(),
            of_nodes: Handover::new(),
            pods: Channel::new(),
            of_pods: Handover::new(),
            ready: VecDeque::new(),
            counts: Channel::new(),
            counting: BTreeSet::new(),
            leases: Channel::new(),
            leases_running: None,
        }
    }

    /// True before the first [`Watches::restart`].
    pub fn are_idle(&self) -> bool {
        self.round == 0
    }

    /// Ends every watch, then starts those of our own kinds anew.
    pub fn restart(&mut self) {
        self.of_round.cancel();
        self.of_round = self.cancel.child_token();
        self.round += 1;
        self.wanted.clear();
        self.planner.restart();
        self.running.clear();
        (self.of_nodes, self.of_pods) = (Handover::new(), Handover::new());
        self.ready.clear();
        self.counting.clear();
        self.leases_running = None;
        let (context, round, cancel) = (self.context.clone(), self.round, self.of_round.clone());
        self.tracker.spawn(watch::watch_resources(context, round, self.pools.sender.clone(), cancel));
        let (context, cancel) = (self.context.clone(), self.of_round.clone());
        self.tracker.spawn(watch::watch_resources(context, round, self.record_sets.sender.clone(), cancel));
    }

    /// Starts and ends watches of nodes and pods, so that exactly the wanted keys are served.
    pub fn follow(&mut self, wanted: &BTreeSet<WatchKey>) {
        if self.wanted == *wanted {
            return;
        }
        self.wanted.clone_from(wanted);
        self.of_nodes.want(&wanted.iter().filter(|key| is_of_nodes(key)).cloned().collect());
        self.of_pods.want(&wanted.iter().filter(|key| !is_of_nodes(key)).cloned().collect());
        // A key that is wanted again later begins with a list.
        self.ready.retain(|step| match step {
            Step::Nodes(key, _) | Step::Pods(key, _) => wanted.contains(key),
            Step::Pools(_) | Step::RecordSets(_) | Step::Leases(_) => true,
        });
        self.carry_out();
    }

    /// Looks for groups that may not be read, and plans anew from time to time.
    pub fn look_after(&mut self) {
        let now = self.context.clock.now();
        let (serving, aside) = (self.context.health.snapshot(), self.aside.snapshot());
        let refused = |watch: &WatchKey| {
            let name = name_of(watch);
            let hopeless = |status: &WatchStatus| status.is_hopeless();
            [&serving, &aside].into_iter().any(|statuses| statuses.get(&name).is_some_and(hopeless))
        };
        let refused: Vec<WatchKey> = self
            .planner
            .groups()
            .values()
            .map(|group| &group.watch)
            .filter(|watch| refused(watch))
            .cloned()
            .collect();
        for watch in &refused {
            tracing::info!(watch = %name_of(watch), "one watch for all is refused: each selector gets its own");
            self.planner.refused(watch, now);
        }
        if !refused.is_empty() || self.planned_at.is_none_or(|at| now.millis_since(at) >= REPLAN_MS) {
            self.carry_out();
        }
    }

    /// Plans, and starts and ends watches accordingly.
    fn carry_out(&mut self) {
        let now = self.context.clock.now();
        self.planned_at = Some(now);
        let settled = |id| self.of_nodes.is_settled(id) || self.of_pods.is_settled(id);
        let uncounted = self.planner.plan(&self.wanted, settled, now);
        let groups = self.planner.groups();
        let shared = self.running.iter().filter(|(_, running)| running.shared);
        for id in shared.map(|(id, _)| id).filter(|id| !groups.contains_key(id)) {
            self.of_nodes.retire(*id);
            self.of_pods.retire(*id);
        }
        self.end_needless();
        let begun: BTreeMap<SourceId, Group> = self
            .planner
            .groups()
            .iter()
            .filter(|(id, _)| !self.running.contains_key(id))
            .map(|(id, of)| (*id, of.clone()))
            .collect();
        for (id, Group { watch, keys }) in begun {
            self.begin(id, watch, keys.into_iter().collect());
        }
        let own: BTreeSet<&WatchKey> =
            self.running.values().filter(|running| !running.shared).map(|running| &running.asks).collect();
        // Until the pods are counted, it is open whether these keys get watches of their own.
        let open =
            |key: &WatchKey| !is_of_nodes(key) && !uncounted.is_empty() && self.of_pods.server(key).is_none();
        let alone = self.planner.alone(&self.wanted).into_iter();
        let alone: Vec<WatchKey> = alone.filter(|key| !own.contains(key) && !open(key)).cloned().collect();
        for key in alone {
            let id = self.planner.number();
            self.begin(id, key.clone(), Arc::new([key]));
        }
        for namespace in uncounted {
            if self.counting.insert(namespace.clone()) {
                self.count(namespace);
            }
        }
    }

    fn begin(&mut self, id: SourceId, asks: WatchKey, keys: Arc<[WatchKey]>) {
        let (context, cancel, shared) = (self.context.clone(), self.of_round.child_token(), keys.len() > 1);
        let is_served = |key| self.of_nodes.server(key).or(self.of_pods.server(key)).is_some();
        let target = Target {
            keys: shared.then(|| Arc::new(Selection::new(&keys))),
            aside: keys.iter().all(is_served).then(|| self.aside.clone()),
            ..target_of(&asks)
        };
        if is_of_nodes(&asks) {
            self.of_nodes.begin(id, keys);
            let sink = self.nodes.sender.clone();
            self.tracker.spawn(watch::watch_nodes(context, target, id, sink, cancel.clone()));
        } else {
            self.of_pods.begin(id, keys);
            let sink = self.pods.sender.clone();
            self.tracker.spawn(watch::watch_pods(context, target, id, sink, cancel.clone()));
        }
        self.running.insert(id, Running { asks, shared, cancel });
    }

    /// Counts the pods of a namespace (empty: of all).
    fn count(&self, namespace: String) {
        let (client, sink, round) = (self.context.client.clone(), self.counts.sender.clone(), self.round);
        let cancel = self.of_round.clone();
        let counted = async move {
            let limit = Duration::from_millis(COUNT_MS);
            let count = tokio::time::timeout(limit, writes::count::<PodSlim>(&client, &namespace)).await;
            let count = count.ok().and_then(Result::ok);
            // Nobody listens any more only when the process ends.
            let _ended = sink.send((round, (namespace, count))).await;
        };
        self.tracker.spawn(async move { cancel.run_until_cancelled(counted).await });
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
    pub const fn follow_the_leases(&self) -> bool {
        self.leases_running.is_some()
    }

    /// Whether the Leases of nodes may not be read.
    pub fn leases_denied(&self) -> bool {
        is_refused(self.context.health.snapshot().get(&WatchName::of_leases()))
    }

    /// The next step, except for steps of Leases: hundreds of those come in a second, and none is urgent. Nodes come
    /// before pods, which are far more numerous.
    pub async fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.take_ready() {
                return step;
            }
            let heard = tokio::select! {
                biased;
                Some((round, step)) = self.pools.receiver.recv() => Heard::Of(round, Step::Pools(step)),
                Some((round, step)) = self.record_sets.receiver.recv() => Heard::Of(round, Step::RecordSets(step)),
                Some((id, news)) = self.nodes.receiver.recv() => Heard::Nodes(id, news),
                Some((id, news)) = self.pods.receiver.recv() => Heard::Pods(id, news),
                Some((round, counted)) = self.counts.receiver.recv() => Heard::Counted(round, counted),
                else => std::future::pending().await,
            };
            self.hear(heard);
        }
    }

    /// The next step, if one has arrived.
    pub fn try_next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.take_ready() {
                return Some(step);
            }
            let heard = if let Ok((round, step)) = self.pools.receiver.try_recv() {
                Heard::Of(round, Step::Pools(step))
            } else if let Ok((round, step)) = self.record_sets.receiver.try_recv() {
                Heard::Of(round, Step::RecordSets(step))
            } else if let Ok((id, news)) = self.nodes.receiver.try_recv() {
                Heard::Nodes(id, news)
            } else if let Ok((id, news)) = self.pods.receiver.try_recv() {
                Heard::Pods(id, news)
            } else if let Ok((round, counted)) = self.counts.receiver.try_recv() {
                Heard::Counted(round, counted)
            } else if let Ok((round, step)) = self.leases.receiver.try_recv() {
                Heard::Of(round, Step::Leases(step))
            } else {
                return None;
            };
            self.hear(heard);
        }
    }

    fn take_ready(&mut self) -> Option<Step> {
        let step = self.ready.pop_front();
        if step.is_none() {
            // After the first lists of many objects.
            self.ready.shrink_to(64);
        }
        step
    }

    /// Takes in a message, unless its watch has ended.
    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Of(_, Step::Leases(_)) if self.leases_running.is_none() => {}
            Heard::Of(round, step) if round == self.round => self.ready.push_back(step),
            Heard::Nodes(id, news) => {
                let passed = self.of_nodes.observe(id, news);
                self.ready.extend(passed.into_iter().map(|(key, step)| Step::Nodes(key, step)));
            }
            Heard::Pods(id, news) => {
                let passed = self.of_pods.observe(id, news);
                self.ready.extend(passed.into_iter().map(|(key, step)| Step::Pods(key, step)));
            }
            Heard::Counted(round, (namespace, count)) if round == self.round => {
                self.counting.remove(&namespace);
                self.planner.counted(namespace, count, self.context.clock.now());
                self.carry_out();
            }
            Heard::Of(..) | Heard::Counted(..) => {}
        }
        if self.of_nodes.has_taken_over() | self.of_pods.has_taken_over() {
            self.end_needless();
        }
    }

    /// Ends the watches that serve nothing any more.
    fn end_needless(&mut self) {
        for id in self.of_nodes.take_ended().into_iter().chain(self.of_pods.take_ended()) {
            if let Some(running) = self.running.remove(&id) {
                running.cancel.cancel();
            }
        }
    }

    /// The failures of node and pod watches that last until someone fixes them.
    pub fn troubles(&self) -> BTreeMap<WatchKey, String> {
        let statuses = self.context.health.snapshot();
        let mut troubles = BTreeMap::new();
        for (id, running) in &self.running {
            let status = statuses.get(&name_of(&running.asks));
            let lasting = status.filter(|status| status.needs_someone());
            if let Some(WatchStatus { message, .. }) = lasting {
                let concerned = self.of_nodes.concerned(*id).chain(self.of_pods.concerned(*id));
                troubles.extend(concerned.map(|key| (key.clone(), message.clone())));
            }
        }
        troubles
    }
}

/// A message.
#[expect(clippy::large_enum_variant, reason = "messages are consumed at once")]
enum Heard {
    Of(Round, Step),
    Nodes(SourceId, News<NodeFacts>),
    Pods(SourceId, News<PodFacts>),
    Counted(Round, (String, Option<u64>)),
}

const fn is_of_nodes(key: &WatchKey) -> bool {
    matches!(key, WatchKey::Nodes { .. })
}

fn target_of(watch: &WatchKey) -> Target {
    let (namespace, selector) = match watch {
        WatchKey::Nodes { selector } => (None, selector),
        WatchKey::Pods { namespace, selector } => {
            (Some(namespace.clone()).filter(|namespace| !namespace.is_empty()), selector)
        }
    };
    Target { namespace, selector: selector.clone(), ..Target::default() }
}

fn name_of(watch: &WatchKey) -> WatchName {
    let kind = if is_of_nodes(watch) { "nodes" } else { "pods" };
    let Target { namespace, selector, .. } = target_of(watch);
    WatchName { kind: kind.to_owned(), namespace, selector }
}

fn is_refused(status: Option<&WatchStatus>) -> bool {
    status.is_some_and(|status| status.trouble == Some(TroubleKind::Forbidden))
}

#[cfg(test)]
#[path = "watches_tests.rs"]
mod tests;
