//! The loop: facts in, one plan per wake, actions out.
//!
//! It owns the [`Fleet`] and is the only one who touches it. It decides nothing and waits for nothing but the next
//! fact: every call runs on a task of its own. Inputs are drained before a plan, so that a burst of events is one
//! plan.

use crate::api::translate::pool::pool_object;
use crate::api::translate::record_set::record_set_object;
use crate::api::{Condition, Conditioned, Seen, Undecodable, meta_of, object_of};
use crate::clock::Clock;
use crate::execute::{Done, Executor};
use crate::kube::server_time::ServerTime;
use crate::leader::LeaderState;
use crate::liveness::Heartbeat;
use crate::metrics::Metrics;
use crate::probe::{BEAT, Feed};
use crate::random::Random;
use crate::watches::{Step, Watches};
use flipop_core::fleet::{Fleet, Input, Settings};
use flipop_core::mechanism::{Effect, RateReport};
use flipop_core::model::{
    AccountId, Context, Moment, NodeFacts, ObjectKind, ObjectRef, Observed, Uid, WatchKey,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Facts taken in before a plan is made all the same: a flood of events must not keep a failover waiting.
const MAX_DRAINED: usize = 512;

/// Turns of the runtime without news after which a burst counts as taken in: what the machine has received already
/// passes through a few tasks on its way here. All of them together take about a tenth of a millisecond.
const QUIET_TURNS: usize = 32;

/// Turns in all, for a burst that does not end.
const MAX_TURNS: usize = 256;

/// Between two looks at what has no event of its own: token files, permit, troubles of watches, liveness.
const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// While a permit is awaited, it is looked for this often.
const AWAIT_PERMIT: Duration = Duration::from_millis(100);

/// Messages that are remembered as told. More are forgotten together, and told again.
const MAX_REPORTED: usize = 1_000;

/// The loop.
pub struct Reconciler {
    /// The state that decides.
    fleet: Fleet,
    executor: Executor,
    checks: Feed,
    watches: Watches,
    leader: watch::Receiver<LeaderState>,
    /// The epoch of permits in which this process leads.
    epoch: Option<u64>,
    /// The epoch in which the policy of nodes was probed. `None`: it has to be, once a node is seen.
    probed: Option<u64>,
    has_admission: bool,
    done: mpsc::Receiver<Done>,
    tokens: BTreeMap<AccountId, (watch::Receiver<u64>, watch::Receiver<RateReport>)>,
    conditions: BTreeMap<(ObjectKind, Uid), Vec<Condition>>,
    troubles: BTreeMap<WatchKey, String>,
    /// Rights that were found missing and objects that could not be read: each is said once.
    denials: BTreeSet<String>,
    metrics: Arc<Metrics>,
    server_time: ServerTime,
    /// The part of it that the decisions know.
    server_epoch_ms: Option<u64>,
    clock: Clock,
    random: Random,
    wake: Option<Moment>,
    heartbeat: Heartbeat,
}

/// The parts of the loop.
pub struct Parts {
    /// The parts that never change.
    pub settings: Settings,
    /// Carries out actions.
    pub executor: Executor,
    /// Checks of nodes.
    pub checks: Feed,
    /// Whether the API server has admission policies.
    pub has_admission: bool,
    /// Where outcomes arrive.
    pub done: mpsc::Receiver<Done>,
    /// Watches of the API server.
    pub watches: Watches,
    /// Where leadership stands.
    pub leader: watch::Receiver<LeaderState>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The time on the API server's clock, as far as known.
    pub server_time: ServerTime,
    /// Random numbers.
    pub random: Random,
    /// Beats while the loop turns.
    pub heartbeat: Heartbeat,
}

impl Reconciler {
    /// A loop that has not begun.
    pub fn new(parts: Parts) -> Self {
        let accounts = parts.executor.providers.accounts();
        let tokens = accounts
            .map(|(id, account)| (id.clone(), (account.token_generation(), account.rate())))
            .collect();
        Self {
            fleet: Fleet::new(parts.settings),
            clock: parts.executor.clock.clone(),
            executor: parts.executor,
            checks: parts.checks,
            watches: parts.watches,
            leader: parts.leader,
            epoch: None,
            probed: None,
            has_admission: parts.has_admission,
            done: parts.done,
            tokens,
            conditions: BTreeMap::new(),
            troubles: BTreeMap::new(),
            denials: BTreeSet::new(),
            metrics: parts.metrics,
            server_time: parts.server_time,
            server_epoch_ms: None,
            random: parts.random,
            wake: None,
            heartbeat: parts.heartbeat,
        }
    }

    /// Runs until cancelled, or, once `drain` is cancelled, until nothing that was begun is under way any more.
    pub async fn run(mut self, drain: CancellationToken, cancel: CancellationToken) {
        let mut draining = false;
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        housekeeping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.heartbeat.beat();
            let (wake, clock) = (self.wake, self.clock.clone());
            let due = async {
                match wake {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = drain.cancelled(), if !draining => {
                    draining = true;
                    self.executor.events.stop();
                    self.observe(Input::Draining);
                }
                changed = self.leader.changed() => if changed.is_err() { return } else { self.observe_leader() },
                // Before what may come without end.
                _ = housekeeping.tick() => self.keep_house(),
                Some(done) = self.done.recv() => self.observe_done(done),
                step = self.watches.next() => self.observe_step(step),
                () = self.metrics.details_asked() => {
                    let now = self.clock.now();
                    self.metrics.publish_details(self.fleet.details(now), now);
                }
                () = due => {}
                () = tokio::time::sleep(AWAIT_PERMIT), if self.awaits_permit() => {}
                () = tokio::time::sleep(BEAT), if self.watches.follow_the_leases() => {}
            }
            self.observe_own();
            self.take_in().await;
            self.plan();
            if draining && self.is_drained() {
                return;
            }
        }
    }

    /// Nothing that was begun is under way, and what was bought is recorded.
    fn is_drained(&self) -> bool {
        self.executor.underway.is_over() && self.done.is_empty() && !self.fleet.has_unrecorded_creation()
    }

    fn observe(&mut self, input: Input) {
        let at = Context { now: self.clock.now(), jitter: self.random.jitter() };
        let epoch_ms = self.server_time.epoch_ms();
        if let Some(epoch_ms) = epoch_ms.filter(|_| epoch_ms != self.server_epoch_ms) {
            self.server_epoch_ms = Some(epoch_ms);
            self.fleet.observe(Input::ServerEpoch(epoch_ms), at);
        }
        self.fleet.observe(input, at);
    }

    fn awaits_permit(&self) -> bool {
        self.epoch.is_some() && self.executor.permit.may_start().is_err()
    }

    /// The first answer of the election starts the watches; each beginning of leadership starts them anew, so that
    /// what a predecessor did is read before anything is decided.
    fn observe_leader(&mut self) {
        let state = self.leader.borrow_and_update().clone();
        match state {
            LeaderState::Leading { permit, .. } if self.epoch != Some(permit.epoch()) => {
                self.epoch = Some(permit.epoch());
                self.executor.permit = permit;
                self.observe(Input::Leading);
                self.watches.restart();
            }
            LeaderState::Standby { .. } if self.watches.are_idle() => self.watches.restart(),
            LeaderState::Leading { .. }
            | LeaderState::Standby { .. }
            | LeaderState::Starting
            | LeaderState::Lapsed { .. }
            | LeaderState::Lost { .. }
            | LeaderState::Ended => {}
        }
    }

    fn observe_done(&mut self, done: Done) {
        if let Some((object, conditions)) = done.conditions {
            self.conditions.insert(object, conditions);
        }
        if let Some(message) = done.outcome.refusal()
            && first_time(&mut self.denials, message.to_owned())
        {
            tracing::warn!("{message}");
        }
        self.observe(Input::Outcome(done.outcome));
    }

    fn observe_step(&mut self, step: Step) {
        match step {
            Step::Pools(step) => {
                self.observe_objects(&step);
                self.observe(Input::Pools(map(&step, pool_object)));
            }
            Step::RecordSets(step) => {
                self.observe_objects(&step);
                self.observe(Input::RecordSets(map(&step, record_set_object)));
            }
            Step::Nodes(key, step) => {
                self.probe_node_policy(&step);
                self.observe(Input::Nodes(key, step));
            }
            Step::Pods(key, step) => self.observe(Input::Pods(key, step)),
            Step::Leases(step) => self.observe(Input::Leases(step)),
        }
    }

    /// Once in a leadership, on the first node that is seen.
    fn probe_node_policy(&mut self, step: &Observed<NodeFacts>) {
        let node = match step {
            Observed::Reset(nodes) => nodes.first(),
            Observed::Apply(node) => Some(node),
            Observed::Delete(_) => None,
        };
        let due = self.has_admission && self.epoch.is_some() && self.probed != self.epoch;
        if let Some(node) = node.filter(|_| due && self.executor.permit.may_start().is_ok()) {
            self.probed = self.epoch;
            self.executor.probe_node_policy(node.name.clone(), Arc::clone(&self.metrics));
        }
    }

    /// Keeps facts about our own objects that the decisions do not need.
    fn observe_objects<K: Conditioned>(&mut self, step: &Observed<Seen<K>>) {
        match step {
            Observed::Reset(objects) => {
                self.conditions.retain(|(kind, _), _| *kind != K::KIND);
                for object in objects {
                    self.note_conditions(object);
                }
            }
            Observed::Apply(object) => self.note_conditions(object),
            Observed::Delete(object) => {
                self.conditions.remove(&(K::KIND, object_of(meta_of(object)).uid));
            }
        }
    }

    fn note_conditions<K: Conditioned>(&mut self, object: &Seen<K>) {
        let (kind, ObjectRef { name, uid }) = (K::KIND.as_str(), object_of(meta_of(object)));
        match object {
            Ok(object) => {
                self.conditions.insert((K::KIND, uid), object.conditions().to_vec());
            }
            Err(Undecodable { error, .. }) => {
                if first_time(&mut self.denials, format!("{kind} {name}: {error}")) {
                    tracing::warn!(kind, object = %name, "failed to read the object: {error}");
                }
            }
        }
    }

    /// Takes in what has arrived and what is on its way through this process, up to a bound: a burst that the machine
    /// has received is one plan, however many tasks it passes through.
    async fn take_in(&mut self) {
        let (mut room, mut quiet) = (MAX_DRAINED, 0);
        // After a stall of the machine, a plan that is due by its time must know what has arrived meanwhile.
        let due = self.wake.is_some_and(|at| at <= self.clock.now());
        for _ in 0..MAX_TURNS {
            let taken = self.drain(room);
            room = room.saturating_sub(taken);
            quiet = if taken > 0 { 0 } else { quiet + 1 };
            // Most events of pods decide nothing. These turns would be most of what such an event costs.
            if room == 0 || quiet > QUIET_TURNS || !(due || self.fleet.is_changed()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Takes in what has arrived, at most so much; answers how much it was.
    fn drain(&mut self, most: usize) -> usize {
        for taken in 0..most {
            if let Ok(done) = self.done.try_recv() {
                self.observe_done(done);
            } else if let Some(step) = self.watches.try_next() {
                self.observe_step(step);
            } else if let Some(checked) = self.checks.try_next() {
                self.observe(Input::Checked(checked));
            } else {
                return taken;
            }
        }
        most
    }

    fn keep_house(&mut self) {
        self.metrics.publish_checked(self.fleet.checked_nodes(self.clock.now()));
        self.observe(Input::EventsDenied(self.executor.events.forbidden()));
        self.observe(Input::LeasesDenied(self.watches.leases_denied()));
        self.executor.providers.accounts().for_each(|(_, account)| account.recheck_token());
        self.watches.look_after();
        let troubles = self.watches.troubles();
        for key in
            self.troubles.keys().filter(|key| !troubles.contains_key(*key)).cloned().collect::<Vec<_>>()
        {
            self.observe(Input::WatchTrouble(key, None));
        }
        for (key, message) in &troubles {
            self.observe(Input::WatchTrouble(key.clone(), Some(message.clone())));
        }
        self.troubles = troubles;
    }

    fn observe_accounts(&mut self) {
        let mut inputs = Vec::new();
        for (account_id, (token, rate)) in &mut self.tokens {
            if token.has_changed().unwrap_or(false) {
                token.borrow_and_update();
                inputs.push(Input::TokenChanged(account_id.clone()));
            }
            if rate.has_changed().unwrap_or(false) {
                let report = *rate.borrow_and_update();
                inputs.push(Input::Rate(account_id.clone(), report));
            }
        }
        for input in inputs {
            self.observe(input);
        }
    }

    /// Takes in the state of the accounts and of the permit.
    fn observe_own(&mut self) {
        self.observe_accounts();
        let permit = self.executor.permit.may_start().is_ok();
        self.observe(Input::Permit(permit));
    }

    fn plan(&mut self) {
        // The permit may have lapsed a moment ago.
        self.observe_own();
        let plan = self.fleet.plan(self.clock.now());
        self.wake = plan.wake;
        for effect in plan.effects {
            match effect {
                Effect::Do(action) => {
                    let before = action.status_of().and_then(|object| self.conditions.get(&object));
                    self.executor.start(action, before.map(Vec::as_slice).unwrap_or_default());
                }
                Effect::Tell(notice) => self.executor.tell(notice),
            }
        }
        if let Some(wanted) = plan.watches {
            self.watches.follow(&wanted);
        }
        if plan.fresh {
            self.watches.follow_leases(self.fleet.wants_leases());
            self.checks.follow(self.fleet.checks());
            self.metrics.checks().observe_detections(&self.fleet.take_detections_ms());
            let (snapshot, latencies_ms) = (self.fleet.snapshot(), self.fleet.take_latencies_ms());
            self.metrics.publish(snapshot, &latencies_ms, &self.fleet.take_failovers());
        }
    }
}

/// True unless the text is remembered.
fn first_time(reported: &mut BTreeSet<String>, text: String) -> bool {
    if reported.len() >= MAX_REPORTED {
        reported.clear();
    }
    reported.insert(text)
}

fn map<T, U>(step: &Observed<T>, cut: impl Fn(&T) -> U) -> Observed<U> {
    match step {
        Observed::Reset(all) => Observed::Reset(all.iter().map(cut).collect()),
        Observed::Apply(one) => Observed::Apply(cut(one)),
        Observed::Delete(one) => Observed::Delete(cut(one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_told_once_and_what_is_remembered_stays_bounded() {
        let mut reported = BTreeSet::new();
        assert!(first_time(&mut reported, "one".to_owned()) && !first_time(&mut reported, "one".to_owned()));
        for number in 0..3 * MAX_REPORTED {
            assert!(first_time(&mut reported, number.to_string()));
            assert!(reported.len() <= MAX_REPORTED);
        }
    }
}
