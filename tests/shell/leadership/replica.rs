//! One process: the real elector, and work that asks for permits where the operator does.
//!
//! Half of its writes go to nodes through the operator's own client code, with its fence. The other half stands for
//! provider calls: the permit is checked before the call and again when the connection is up, and the call is given up
//! at the permit's end.

use super::freeze::Freezer;
use super::judge::Judge;
use super::network::{CONNECT_MS, Fault, Link, WRITE_TRANSIT_MS, Wire};
use flipop::clock::Clock;
use flipop::kube::client::Fence;
use flipop::kube::writes;
use flipop::leader::elector::{Elector, ElectorSettings};
use flipop::leader::record::LEASE_DURATION_MS;
use flipop::leader::{LeaderHandle, LeaderOutcome, LeaderState};
use flipop::permit::{Permit, PermitSource};
use flipop::random::Random;
use flipop_apiserver::{ApiServer, View};
use flipop_core::model::{Moment, Uid};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer;

/// The node that all replicas write to.
pub(crate) const NODE: &str = "node";

/// The longest wait for the provider's answer, as in the operator.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a shutdown waits for writes, as in the operator.
const DRAIN: Duration = Duration::from_secs(8);

/// The longest time between two decisions to write.
const PACE_MS: u64 = 900;

/// The most writes at a time.
const MAX_WRITES: usize = 6;

/// How long a decision waits until it is carried out: normally, and sometimes for longer than a permit lasts.
const QUEUE_MS: u64 = 300;
const LONG_QUEUE_MS: u64 = 25_000;

/// The parts of a replica.
pub(crate) struct Parts<'a> {
    pub(crate) name: String,
    pub(crate) server: &'a ApiServer,
    pub(crate) node: Uid,
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
    pub(crate) judge: Judge,
    pub(crate) tracker: TaskTracker,
}

/// A process. Dropping it is a crash.
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) freezer: Freezer,
    link: Arc<Link>,
    front: ApiServer,
    handle: LeaderHandle,
    terminate: CancellationToken,
    ended: Arc<Mutex<Option<LeaderOutcome>>>,
    _process: JoinSet<()>,
}

#[derive(Clone)]
struct Worker {
    name: String,
    random: Random,
    clock: Clock,
    handle: LeaderHandle,
    source: PermitSource,
    client: kube::Client,
    node: Uid,
    judge: Judge,
    tracker: TaskTracker,
    freezer: Freezer,
    terminate: CancellationToken,
    stop: CancellationToken,
    /// When a call was last given up without an answer.
    given_up: Arc<Mutex<Option<Moment>>>,
}

impl Replica {
    pub(crate) fn start(parts: Parts<'_>) -> Self {
        let Parts { name, server, node, clock, seed, judge, tracker } = parts;
        let random = Random::seeded(seed);
        let (witness, sender) = (judge.clone(), name.clone());
        let link =
            Link::new(Random::seeded(random.next_u64()), move || witness.arrived(&sender, "an annotation"));
        let front = server.front().with_interceptor(link.clone());
        let source = PermitSource::new(clock.clone());
        let (elector, handle) = Elector::new(ElectorSettings {
            identity: name.clone(),
            namespace: "flipop".to_owned(),
            clock: clock.clone(),
            random: Random::seeded(random.next_u64()),
            permits: source.clone(),
            heartbeat: None,
        });
        let (witness, sender, current) = (judge.clone(), name.clone(), source.clone());
        let wire = Wire {
            front: front.clone(),
            link: Arc::clone(&link),
            tracker: tracker.clone(),
            on_fenced: Arc::new(move |permit| {
                witness.sent(&sender, permit.epoch(), current.permit().epoch());
            }),
        };
        let (terminate, stop) = (CancellationToken::new(), CancellationToken::new());
        let freezer = Freezer::default();
        let worker = Worker {
            name: name.clone(),
            random,
            clock,
            handle: handle.clone(),
            source,
            client: kube::Client::new(Fence.layer(wire.clone()), "flipop"),
            node,
            judge: judge.clone(),
            tracker,
            freezer: freezer.clone(),
            terminate: terminate.clone(),
            stop: stop.clone(),
            given_up: Arc::default(),
        };
        let ended = Arc::new(Mutex::new(None));
        let mut process = JoinSet::new();
        let (end, who) = (Arc::clone(&ended), name.clone());
        process.spawn(freezer.wrap(async move {
            let client = kube::Client::new(wire, "flipop");
            let mut work = JoinSet::new();
            work.spawn(worker.freezer.clone().wrap(worker.run()));
            let outcome = elector.run(client.clone(), client, stop).await;
            judge.note(&format!("{who} ends: {outcome:?}"));
            *end.lock().unwrap() = Some(outcome);
        }));
        Self { name, freezer, link, front, handle, terminate, ended, _process: process }
    }

    pub(crate) fn network(&self, fault: Fault) {
        self.link.set(fault);
    }

    pub(crate) fn view(&self, view: View) {
        self.front.set_view(view);
    }

    pub(crate) fn cut_watches(&self) {
        self.front.cut_watches();
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.terminate.cancel();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.lock().unwrap().is_some()
    }

    /// Whether it knows the lease.
    pub(crate) fn has_looked(&self) -> bool {
        !matches!(*self.handle.state().borrow(), LeaderState::Starting)
    }
}

impl Worker {
    async fn run(self) {
        let mut state = self.handle.state();
        let mut writes = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = self.terminate.cancelled() => return self.end(writes).await,
                changed = state.changed() => if changed.is_err() { return },
                Some(_) = writes.join_next() => continue,
                () = sleep(Duration::from_millis(self.random.below(PACE_MS))) => {}
            }
            let permit = state.borrow_and_update().permit().cloned();
            if let Some(permit) = permit.filter(|permit| permit.may_start().is_ok())
                && writes.len() < MAX_WRITES
            {
                let worker = Self { random: Random::seeded(self.random.next_u64()), ..self.clone() };
                writes.spawn(self.freezer.wrap(worker.write(permit)));
            }
        }
    }

    /// Starts nothing more, waits for writes under way, and releases the lease only if all have ended.
    async fn end(self, mut writes: JoinSet<()>) {
        self.handle.stand_down();
        let drained = timeout(DRAIN, async {
            while writes.join_next().await.is_some() {}
            // A call that was given up without an answer may still be on its way, so it counts for as long as the lease
            // lasts.
            let given_up = *self.given_up.lock().unwrap();
            if let Some(moment) = given_up {
                self.clock.sleep_until(moment.plus_millis(LEASE_DURATION_MS)).await;
            }
        })
        .await;
        if drained.is_ok() {
            self.handle.release();
        } else {
            self.stop.cancel();
        }
    }

    /// Carries out one decision.
    async fn write(self, permit: Permit) {
        let decided = permit.epoch();
        let queue = if self.random.below(8) == 0 { LONG_QUEUE_MS } else { QUEUE_MS };
        sleep(Duration::from_millis(self.random.below(queue))).await;
        if self.random.below(2) == 0 {
            let ip = Ipv4Addr::from_bits(u32::try_from(self.clock.now().as_millis() % 1_000_000).unwrap());
            // The API server decides its fate.
            let written =
                writes::annotate_node(&self.client, &permit, NODE, &self.node, Some(ip.into())).await;
            if written.is_err() {
                self.gives_up();
            }
            return;
        }
        let answered = tokio::select! {
            biased;
            () = permit.ended() => false,
            called = timeout(CALL_TIMEOUT, self.call_provider(&permit, decided)) => called.is_ok(),
        };
        if !answered {
            self.gives_up();
        }
    }

    fn gives_up(&self) {
        *self.given_up.lock().unwrap() = Some(self.clock.now());
    }

    async fn call_provider(&self, permit: &Permit, decided: u64) {
        if permit.may_start().is_err() {
            return;
        }
        if self.random.below(3) == 0 {
            sleep(Duration::from_millis(self.random.below(CONNECT_MS))).await;
        }
        // The last code before the bytes leave.
        if permit.may_start().is_err() {
            return;
        }
        self.judge.sent(&self.name, decided, self.source.permit().epoch());
        let (reply, answer) = oneshot::channel();
        let (judge, name, random) = (self.judge.clone(), self.name.clone(), self.random.clone());
        self.tracker.spawn(async move {
            sleep(Duration::from_millis(random.below(WRITE_TRANSIT_MS))).await;
            judge.arrived(&name, "an assignment");
            sleep(Duration::from_millis(random.below(WRITE_TRANSIT_MS))).await;
            let _given_up = reply.send(());
        });
        let _any = answer.await;
    }
}
