//! The results of the checks of one node.

use crate::model::ids::Address;
use crate::model::moment::Moment;
use crate::model::node_check::NodeCheck;

/// The number of checks before the present failures from which packet loss is estimated.
const REMEMBERED: u32 = 64;

/// This many passed checks in a row end a verdict.
const RECOVERED: u32 = 10;

/// The condition reports checks that have failed for this long while the Lease was renewed.
const DOUBTED_MS: u64 = 30_000;

/// A check that passed within this time is as good as one that passed now. It covers two periods of a node that
/// serves nothing, and some time to answer.
const RECENT_MS: u64 = 25_000;

/// Each row: the remembered checks that failed, at most, and the failures in a row that then prove more than packet
/// loss. At the loss that a row stands for, chance alone produces such failures with a probability below 10^-8.
const LOSS: [(u32, u32); 6] = [(1, 5), (4, 7), (8, 9), (12, 15), (20, 21), (28, 28)];

/// The failures in a row that prove a death when more than half of all checks fail.
const MOST: u32 = 45;

/// A verdict that the node is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) since: Moment,
    /// The Lease was renewed after the verdict.
    renewed: bool,
    /// The renewal time in the Lease at the verdict.
    pub(super) lease_us: Option<i64>,
}

/// The checks of one node.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) address: Address,
    /// Failures in a row.
    pub(super) failures: u32,
    /// Passed checks in a row.
    passes: u32,
    pub(super) last_pass: Option<Moment>,
    /// When its checks began.
    since: Moment,
    /// When the first of the present failures was noted.
    pub(super) first_failure: Option<Moment>,
    /// A bit for each check before the present failures. A set bit is a failed check.
    history: u64,
    /// The Lease was renewed while a full threshold of checks failed. So the checks do not reach a machine that
    /// lives.
    pub(super) disbelieved: bool,
    /// The Lease was renewed, or a check passed, since the checks began.
    pub(super) seen_alive: bool,
    /// The condition reports these failures.
    pub(super) doubted: bool,
    pub(super) dead: Option<Dead>,
}

impl Record {
    pub(super) const fn new(name: String, address: Address, now: Moment) -> Self {
        Self {
            name,
            address,
            failures: 0,
            passes: 0,
            last_pass: None,
            since: now,
            first_failure: None,
            history: 0,
            disbelieved: false,
            seen_alive: false,
            doubted: false,
            dead: None,
        }
    }

    /// A check passed. Returns whether something other than the counts has changed.
    pub(super) fn passed(&mut self, now: Moment) -> bool {
        let failed = self.failures.min(REMEMBERED);
        for _ in 0..failed {
            self.history = (self.history << 1) | 1;
        }
        self.history <<= 1;
        (self.failures, self.first_failure, self.disbelieved) = (0, None, false);
        self.passes = self.passes.saturating_add(1);
        self.last_pass = Some(now);
        let first = !std::mem::replace(&mut self.seen_alive, true);
        let lives = |dead: &Dead| dead.renewed || self.passes >= RECOVERED;
        let ended = self.dead.as_ref().is_some_and(lives);
        if ended {
            self.dead = None;
            // Failures of a dead machine say nothing about packet loss.
            self.history = 0;
        }
        let cleared = self.doubted && self.passes >= RECOVERED;
        self.doubted &= !cleared;
        first || ended || cleared || failed > 0
    }

    /// A check failed.
    pub(super) fn failed(&mut self, now: Moment) {
        self.failures = self.failures.saturating_add(1);
        self.passes = 0;
        self.first_failure.get_or_insert(now);
    }

    /// The Lease was renewed. Returns whether that changes the judgement of the node.
    pub(super) fn renewed(&mut self, check: NodeCheck, now: Moment) -> bool {
        let first = !std::mem::replace(&mut self.seen_alive, true);
        if let Some(dead) = &mut self.dead {
            dead.renewed = true;
            return first;
        }
        if self.failures < check.threshold {
            return first;
        }
        let silent_ms = now.millis_since(self.silent_since());
        let told = !self.doubted && silent_ms >= DOUBTED_MS;
        self.doubted |= told;
        let new = !std::mem::replace(&mut self.disbelieved, true);
        first || told || new
    }

    /// The verdict is wrong: a consistent read has shown that the machine lives.
    pub(super) fn contradicted(&mut self) {
        self.dead = None;
        self.disbelieved = true;
        self.seen_alive = true;
    }

    /// The last answer, or the start of the checks.
    pub(super) fn silent_since(&self) -> Moment {
        self.last_pass.unwrap_or(self.since)
    }

    /// The failures in a row that prove more than packet loss.
    fn enough(&self, check: NodeCheck) -> u32 {
        let lost = self.history.count_ones();
        let by_loss = LOSS.iter().find(|(most, _)| lost <= *most).map_or(MOST, |(_, enough)| *enough);
        check.threshold.max(by_loss)
    }

    /// Whether its failures prove more than packet loss, and can be believed.
    pub(super) fn has_enough(&self, check: NodeCheck) -> bool {
        self.failures >= self.enough(check) && !self.disbelieved && self.dead.is_none()
    }

    /// Whether a check has passed since the latest failure.
    pub(super) const fn answers(&self) -> bool {
        self.passes > 0
    }

    pub(super) fn die(&mut self, lease_us: Option<i64>, now: Moment) {
        self.passes = 0;
        self.dead = Some(Dead { since: now, renewed: false, lease_us });
    }

    /// Whether other nodes are chosen first: a check failed, or none has passed lately.
    pub(super) fn is_behind(&self, now: Moment) -> bool {
        let stale = self.last_pass.is_some_and(|at| now.millis_since(at) > RECENT_MS);
        self.failures > 0 || stale
    }
}
