//! Checks of nodes: makes each wanted check in its turn, and passes on the answers.
//!
//! Owns when a check is made, and how many run at once. Does not decide which checks are wanted, or what an answer
//! means.
//!
//! Invariants: the checks of one node are made one after another; at most [`MAX_UNDERWAY`] are under way; a check
//! that is no longer wanted gives no answer; a check of a node that serves nothing delays none of one that serves.

pub mod connect;
pub mod feed;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::random::Random;
use flipop_core::model::ids::{Address, Uid};
use flipop_core::model::moment::Moment;
use flipop_core::model::node_check::{CheckKey, CheckOutcome, CheckTarget, Checked};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// The most checks under way at once. Each has a socket.
pub const MAX_UNDERWAY: usize = 500;

/// The most answers that wait for the loop. Beyond this, checks wait too.
pub const MAX_ANSWERS: usize = 1_024;

/// Checks begin at multiples of this. So the checks of many nodes share the wake-ups of the process.
const GRID_MS: u64 = 50;

/// While the limit holds checks back, the late ones are counted this often.
const COUNTED_MS: u64 = 500;

/// One check to make.
#[derive(Debug, Clone)]
pub struct Call {
    /// Name of the node.
    pub node: String,
    /// The address.
    pub address: Address,
    /// The port.
    pub port: u16,
    /// The time after which it fails.
    pub timeout: Duration,
}

/// Makes checks. A simulation replaces this.
pub trait Probe: Send + Sync {
    /// Makes one check.
    fn probe(&self, call: Call) -> BoxFuture<'static, CheckOutcome>;
}

/// The checks that are wanted.
pub type Wanted = Arc<BTreeMap<CheckKey, CheckTarget>>;

/// The schedule's knowledge of one check.
#[derive(Debug)]
struct Turn {
    target: CheckTarget,
    due: Moment,
    /// The check was never made.
    first: bool,
}

/// Makes the wanted checks.
pub struct Prober {
    probe: Arc<dyn Probe>,
    clock: Clock,
    random: Random,
    metrics: Arc<Metrics>,
    wanted: watch::Receiver<Wanted>,
    answers: mpsc::Sender<Checked>,
    turns: BTreeMap<CheckKey, Turn>,
    /// The checks that wait for their turn: those of nodes that serve, and the others.
    queues: [BTreeSet<(Moment, CheckKey)>; 2],
    busy: BTreeSet<Uid>,
    /// Checks that wait because another check of their node is under way.
    behind: BTreeMap<Uid, BTreeSet<CheckKey>>,
}

/// The parts of a prober.
pub struct Parts {
    /// Makes the checks.
    pub probe: Arc<dyn Probe>,
    /// Time.
    pub clock: Clock,
    /// Spreads the checks over time.
    pub random: Random,
    /// Counts the checks.
    pub metrics: Arc<Metrics>,
    /// The wanted checks.
    pub wanted: watch::Receiver<Wanted>,
    /// The channel for answers.
    pub answers: mpsc::Sender<Checked>,
}

impl Prober {
    /// A prober that has not begun.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { probe, clock, random, metrics, wanted, answers } = parts;
        Self {
            probe,
            clock,
            random,
            metrics,
            wanted,
            answers,
            turns: BTreeMap::new(),
            queues: Default::default(),
            busy: BTreeSet::new(),
            behind: BTreeMap::new(),
        }
    }

    /// Runs until it is cancelled, or until either channel is closed.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut underway = FuturesUnordered::new();
        let mut counted_at: Option<Moment> = None;
        loop {
            while underway.len() < MAX_UNDERWAY {
                let Some((key, call)) = self.next_due() else { break };
                let (started, probe) = (self.clock.now(), self.probe.probe(call));
                underway.push(async move { (key, started, probe.await) });
            }
            let full = underway.len() >= MAX_UNDERWAY;
            let now = self.clock.now();
            if !full {
                self.metrics.checks().set_stretched(0);
            } else if counted_at.is_none_or(|at| now.millis_since(at) >= COUNTED_MS) {
                self.metrics.checks().set_stretched(self.late());
                counted_at = Some(now);
            }
            let counted = counted_at.map(|at| at.plus_millis(COUNTED_MS));
            let next = if full { counted } else { self.next_at() };
            let clock = self.clock.clone();
            let due = async {
                match next {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.follow();
                }
                Some((key, started, outcome)) = underway.next() => {
                    if let Some(answer) = self.ended(key, started, outcome)
                        && self.answers.send(answer).await.is_err()
                    {
                        return;
                    }
                }
                () = due => {}
            }
        }
    }

    /// Makes exactly the wanted checks from now on. A new check is due at once.
    fn follow(&mut self) {
        let wanted = Arc::clone(&self.wanted.borrow_and_update());
        let now = self.clock.now();
        let gone = self.turns.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect::<Vec<_>>();
        for key in gone {
            if let Some(turn) = self.turns.remove(&key) {
                self.line(turn.target.holds).remove(&(turn.due, key.clone()));
            }
            if let Some(behind) = self.behind.get_mut(&key.node) {
                behind.remove(&key);
            }
        }
        self.behind.retain(|_, behind| !behind.is_empty());
        for (key, target) in wanted.iter() {
            let Some(turn) = self.turns.get_mut(key) else {
                self.turns.insert(key.clone(), Turn { target: target.clone(), due: now, first: true });
                self.line(target.holds).insert((now, key.clone()));
                continue;
            };
            let (before, held) = (turn.due, std::mem::replace(&mut turn.target, target.clone()).holds);
            let due = before.min(now.plus_millis(target.period_ms));
            if self.line(held).remove(&(before, key.clone())) {
                self.line(target.holds).insert((due, key.clone()));
                if let Some(turn) = self.turns.get_mut(key) {
                    turn.due = due;
                }
            }
        }
    }

    /// The checks that wait for their turn, of nodes that serve or of others.
    fn line(&mut self, holds: bool) -> &mut BTreeSet<(Moment, CheckKey)> {
        let [holders, others] = &mut self.queues;
        if holds { holders } else { others }
    }

    /// When the next check is due.
    fn next_at(&self) -> Option<Moment> {
        self.queues.iter().filter_map(|queue| queue.first().map(|(due, _)| *due)).min()
    }

    /// The next check that is due and may start. Nodes that serve come first.
    fn next_due(&mut self) -> Option<(CheckKey, Call)> {
        let now = self.clock.now();
        loop {
            let is_due =
                |queue: &&mut BTreeSet<_>| queue.first().is_some_and(|(due, _): &(Moment, _)| *due <= now);
            let (_, key) = self.queues.iter_mut().find(is_due)?.pop_first()?;
            let Some(turn) = self.turns.get(&key) else { continue };
            if !self.busy.insert(key.node.clone()) {
                self.behind.entry(key.node.clone()).or_default().insert(key);
                continue;
            }
            let CheckTarget { name, address, .. } = turn.target.clone();
            let timeout = Duration::from_millis(key.check.timeout_ms);
            let call = Call { node: name, address, port: key.check.port, timeout };
            return Some((key, call));
        }
    }

    /// A check has ended. Schedules the waiting checks of its node, and its own next turn.
    fn ended(&mut self, key: CheckKey, started: Moment, outcome: CheckOutcome) -> Option<Checked> {
        self.metrics.checks().ended(&outcome);
        self.busy.remove(&key.node);
        let now = self.clock.now();
        for waiting in self.behind.remove(&key.node).into_iter().flatten() {
            // It keeps its place in the queue: the check that has waited longest is next.
            if let Some((due, holds)) = self.turns.get(&waiting).map(|turn| (turn.due, turn.target.holds)) {
                self.line(holds).insert((due, waiting));
            }
        }
        let turn = self.turns.get_mut(&key)?;
        // The first turn of a check is at once, and its second at a random time. This spreads the checks of many
        // nodes.
        let first = std::mem::take(&mut turn.first);
        let period_ms = turn.target.period_ms;
        let wait_ms = if first { 1 + self.random.below(period_ms) } else { period_ms };
        let (due, holds) = (on_the_grid(started.plus_millis(wait_ms)).max(now), turn.target.holds);
        turn.due = due;
        self.line(holds).insert((due, key.clone()));
        Some(Checked { key, outcome })
    }

    /// The number of checks that are more than a period late.
    fn late(&self) -> usize {
        let now = self.clock.now();
        let late = |(due, key): &&(Moment, CheckKey)| {
            let period_ms = self.turns.get(key).map_or(0, |turn| turn.target.period_ms);
            now.millis_since(*due) > period_ms
        };
        let waiting =
            |queue: &BTreeSet<_>| queue.iter().take_while(|(due, _)| *due < now).filter(late).count();
        self.queues.iter().map(waiting).sum()
    }
}

/// The multiple of [`GRID_MS`] that is nearest. A check that began a little late does not put off those that follow.
fn on_the_grid(due: Moment) -> Moment {
    let ms = due.as_millis();
    let since = ms % GRID_MS;
    let ms = if since * 2 < GRID_MS { ms - since } else { ms.saturating_add(GRID_MS - since) };
    Moment::from_millis(ms)
}
