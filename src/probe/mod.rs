//! Checks of nodes: makes each wanted check in its turn, and passes on the answers.
//!
//! Owns when a check is made, and how many run at once. Does not decide which checks are wanted, or what an answer
//! means.
//!
//! Invariants: the checks of one node are made one after another, unless one is overdue; at most [`MAX_UNDERWAY`] are
//! under way; the answers of one check come in the order in which it was made; a check that is no longer wanted gives
//! no answer; a check of a node that serves nothing delays none of one that serves.

pub mod connect;

#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::random::Random;
use flipop_core::model::{Address, CheckKey, CheckOutcome, CheckTarget, Checked, Moment, Uid};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// The most checks under way at once. Each has a socket.
pub const MAX_UNDERWAY: usize = 500;

/// The most answers that wait for the loop. Beyond this, checks wait too.
pub const MAX_ANSWERS: usize = 1_024;

/// A check of a node that serves is overdue after this long without an answer. The next one then begins, so a verdict
/// does not wait for one lost packet after another. Few machines take so long to answer.
const OVERDUE_MS: u64 = 250;

/// The most checks of a node that begin so soon after each other while none is answered. They are enough for a node
/// whose checks seldom fail, and a node behind a firewall returns to its period.
const MAX_HURRIED: u32 = 16;

/// The most checks that are repeated so soon, each of another node. Where more fall silent at once, the network fails,
/// and it needs no more packets.
const MAX_HURRYING: usize = 25;

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
    /// Its second turn has not been set yet.
    first: bool,
    /// The numbers of those under way, in the order in which they began.
    underway: VecDeque<u64>,
    /// How many began in a hurry since the last answer.
    hurried: u32,
}

/// A check that was begun.
#[derive(Debug)]
struct Begun {
    key: CheckKey,
    number: u64,
    at: Moment,
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
    /// The check that holds up the others of its node.
    busy: BTreeMap<Uid, u64>,
    /// Checks that wait because another check of their node is under way.
    behind: BTreeMap<Uid, BTreeSet<CheckKey>>,
    /// How many checks were begun.
    begun: u64,
    /// When each check under way is overdue, in the order in which they began.
    overdue: BTreeMap<u64, (Moment, CheckKey)>,
    /// The checks that are repeated as soon as they are overdue.
    hurrying: BTreeSet<CheckKey>,
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
            busy: BTreeMap::new(),
            behind: BTreeMap::new(),
            begun: 0,
            overdue: BTreeMap::new(),
            hurrying: BTreeSet::new(),
        }
    }

    /// Runs until it is cancelled, or until either channel is closed.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut underway = FuturesUnordered::new();
        let mut counted_at: Option<Moment> = None;
        loop {
            while underway.len() < MAX_UNDERWAY {
                self.pass_overdue();
                let Some((begun, call)) = self.next_due() else { break };
                let probe = self.probe.probe(call);
                underway.push(async move { (begun, probe.await) });
            }
            let full = underway.len() >= MAX_UNDERWAY;
            let now = self.clock.now();
            if !full {
                self.metrics.checks().set_delayed(0);
            } else if counted_at.is_none_or(|at| now.millis_since(at) >= COUNTED_MS) {
                self.metrics.checks().set_delayed(self.late());
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
                Some((begun, outcome)) = underway.next() => {
                    for outcome in self.ended(&begun, outcome) {
                        self.metrics.checks().ended(&outcome);
                        let answer = Checked { key: begun.key.clone(), outcome };
                        if self.answers.send(answer).await.is_err() {
                            return;
                        }
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
            self.unline(&key);
            self.hurrying.remove(&key);
            self.turns.remove(&key);
        }
        for (key, target) in wanted.iter() {
            let Some(turn) = self.turns.get_mut(key) else {
                let (own, underway) = (target.clone(), VecDeque::new());
                let new = Turn { target: own, due: now, first: true, underway, hurried: 0 };
                self.turns.insert(key.clone(), new);
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

    /// Takes a check that waits for its turn out of the queue.
    fn unline(&mut self, key: &CheckKey) {
        if let Some((due, holds)) = self.turns.get(key).map(|turn| (turn.due, turn.target.holds)) {
            self.line(holds).remove(&(due, key.clone()));
        }
        if let Some(behind) = self.behind.get_mut(&key.node) {
            behind.remove(key);
            if behind.is_empty() {
                self.behind.remove(&key.node);
            }
        }
    }

    /// When the next check is due, or one of those under way is overdue.
    fn next_at(&self) -> Option<Moment> {
        let due = self.queues.iter().filter_map(|queue| queue.first().map(|(due, _)| *due));
        due.chain(self.overdue.values().next().map(|(at, _)| *at)).min()
    }

    /// Whether the next turn of a check that was not answered comes at once.
    fn hurries(&mut self, key: &CheckKey) -> bool {
        let Some(turn) = self.turns.get_mut(key) else { return false };
        let room = self.hurrying.len() < MAX_HURRYING || self.hurrying.contains(key);
        if !turn.target.holds || turn.hurried >= MAX_HURRIED || !room {
            return false;
        }
        turn.hurried += 1;
        self.hurrying.insert(key.clone());
        true
    }

    /// Lets the checks go on behind those that are overdue.
    fn pass_overdue(&mut self) {
        let now = self.clock.now();
        while let Some(first) = self.overdue.first_entry().filter(|first| first.get().0 <= now) {
            let (number, (_, key)) = first.remove_entry();
            if self.hurries(&key) {
                self.free(&key.node, number);
                self.set_turn(&key, now);
            }
        }
    }

    /// A check holds up the others of its node no longer. They keep their place in the queue: the one that has waited
    /// longest is next. Returns whether it held them up.
    fn free(&mut self, node: &Uid, number: u64) -> bool {
        if self.busy.get(node) != Some(&number) {
            return false;
        }
        self.busy.remove(node);
        self.overdue.remove(&number);
        for waiting in self.behind.remove(node).into_iter().flatten() {
            if let Some((due, holds)) = self.turns.get(&waiting).map(|turn| (turn.due, turn.target.holds)) {
                self.line(holds).insert((due, waiting));
            }
        }
        true
    }

    fn set_turn(&mut self, key: &CheckKey, due: Moment) {
        self.unline(key);
        let Some(turn) = self.turns.get_mut(key) else { return };
        turn.due = due;
        let holds = turn.target.holds;
        self.line(holds).insert((due, key.clone()));
    }

    /// The next check that is due and may start. Nodes that serve come first.
    fn next_due(&mut self) -> Option<(Begun, Call)> {
        let now = self.clock.now();
        loop {
            let is_due =
                |queue: &&mut BTreeSet<_>| queue.first().is_some_and(|(due, _): &(Moment, _)| *due <= now);
            let (_, key) = self.queues.iter_mut().find(is_due)?.pop_first()?;
            let Some(turn) = self.turns.get_mut(&key) else { continue };
            if self.busy.contains_key(&key.node) {
                self.behind.entry(key.node.clone()).or_default().insert(key);
                continue;
            }
            let number = self.begun;
            self.begun += 1;
            turn.underway.push_back(number);
            self.busy.insert(key.node.clone(), number);
            self.overdue.insert(number, (now.plus_millis(OVERDUE_MS), key.clone()));
            let CheckTarget { name, address, .. } = turn.target.clone();
            let timeout = Duration::from_millis(key.check.timeout_ms);
            let call = Call { node: name, address, port: key.check.port, timeout };
            return Some((Begun { key, number, at: now }, call));
        }
    }

    /// A check has ended. Schedules the waiting checks of its node and its own next turn, and returns the outcomes that
    /// are known now.
    fn ended(&mut self, Begun { key, number, at }: &Begun, outcome: CheckOutcome) -> Vec<CheckOutcome> {
        let mut is_next = self.free(&key.node, *number);
        let Some(turn) = self.turns.get_mut(key) else { return Vec::new() };
        let Some(place) = turn.underway.iter().position(|one| one == number) else { return Vec::new() };
        let mut known = Vec::new();
        if outcome == CheckOutcome::Passed {
            // Those before it are lost, and those after it answer a question that nobody asks any more.
            known.resize(place, CheckOutcome::Failed);
            turn.hurried = 0;
            for other in std::mem::take(&mut turn.underway) {
                self.free(&key.node, other);
            }
            is_next = true;
        } else {
            turn.underway.remove(place);
        }
        if is_next {
            let again = outcome == CheckOutcome::Failed && self.hurries(key);
            let wait_ms = if again { OVERDUE_MS } else { self.wait_ms(key) };
            if !again {
                self.hurrying.remove(key);
            }
            self.set_turn(key, on_the_grid(at.plus_millis(wait_ms)).max(self.clock.now()));
        }
        known.push(outcome);
        known
    }

    /// The time from a check to the next one. The first turn of a check is at once, and its second at a random time.
    /// This spreads the checks of many nodes.
    fn wait_ms(&mut self, key: &CheckKey) -> u64 {
        let Some(turn) = self.turns.get_mut(key) else { return 0 };
        let period_ms = turn.target.period_ms;
        if std::mem::take(&mut turn.first) { 1 + self.random.below(period_ms) } else { period_ms }
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

/// The loop takes in answers and renewals this often. Otherwise hundreds of them a second would wake it each time.
pub const BEAT: Duration = Duration::from_millis(200);

/// The core's end of the channel.
#[derive(Debug)]
pub struct Feed {
    wanted: watch::Sender<Wanted>,
    answers: mpsc::Receiver<Checked>,
    version: u64,
}

/// Both ends. The prober's end consists of the wanted checks and the channel for answers.
pub fn feed() -> (Feed, watch::Receiver<Wanted>, mpsc::Sender<Checked>) {
    let (wanted, seen) = watch::channel(Wanted::default());
    let (sender, answers) = mpsc::channel(MAX_ANSWERS);
    (Feed { wanted, answers, version: 0 }, seen, sender)
}

impl Feed {
    /// Makes exactly these checks from now on.
    pub fn follow(&mut self, (version, wanted): (u64, &BTreeMap<CheckKey, CheckTarget>)) {
        if self.version != version {
            self.version = version;
            // The receiver is gone only when the process ends.
            let _ended = self.wanted.send(Arc::new(wanted.clone()));
        }
    }

    /// The next answer, if one has arrived.
    pub fn try_next(&mut self) -> Option<Checked> {
        self.answers.try_recv().ok()
    }
}
