//! The results of the checks of one node.

use crate::model::{Address, CheckTarget, MachineId, Mismatch, Moment, NodeCheck};

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
    pub(super) why: Mismatch,
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
    pub(super) machine: Option<MachineId>,
    /// When the last read began in which the provider showed the machine to the present token.
    pub(super) shown: Option<Moment>,
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
    /// Failures in a row when the kubelet last reported. 0 if it has not reported since the first of them.
    reported_after: u32,
    /// The Lease was renewed, or a check passed, since the checks began.
    pub(super) seen_alive: bool,
    /// The condition reports these failures.
    pub(super) doubt_reported: bool,
    pub(super) dead: Option<Dead>,
}

impl Record {
    pub(super) fn new(target: &CheckTarget, now: Moment) -> Self {
        Self {
            name: target.name.clone(),
            address: target.address,
            machine: target.machine.clone(),
            shown: None,
            failures: 0,
            passes: 0,
            last_pass: None,
            since: now,
            first_failure: None,
            history: 0,
            reported_after: 0,
            seen_alive: false,
            doubt_reported: false,
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
        (self.failures, self.first_failure, self.reported_after) = (0, None, 0);
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
        let cleared = self.doubt_reported && self.passes >= RECOVERED;
        self.doubt_reported &= !cleared;
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
            if dead.why != Mismatch::CheckFailed {
                self.contradicted();
                return true;
            }
            dead.renewed = true;
            return first;
        }
        let before = self.is_doubted(check);
        self.reported_after = self.failures;
        if self.failures < check.threshold {
            return first;
        }
        let silent_ms = now.millis_since(self.silent_since());
        let newly_doubted = !self.doubt_reported && silent_ms >= DOUBTED_MS;
        self.doubt_reported |= newly_doubted;
        first || newly_doubted || !before
    }

    /// Whether the kubelet reported while a full threshold of checks failed. So the checks do not reach a machine that
    /// lives.
    pub(super) const fn is_doubted(&self, check: NodeCheck) -> bool {
        self.reported_after >= check.threshold
    }

    /// The verdict is wrong: the kubelet has reported since.
    pub(super) fn contradicted(&mut self) {
        self.dead = None;
        self.reported_after = u32::MAX;
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
    fn convinces(&self, check: NodeCheck) -> bool {
        self.failures >= self.enough(check) && !self.is_doubted(check)
    }

    /// Whether its failures are enough for a verdict that is still to come.
    pub(super) fn has_enough(&self, check: NodeCheck) -> bool {
        self.convinces(check) && self.dead.is_none()
    }

    /// Whether the provider's word about the machine counts.
    pub(super) fn wants_witness(&self, check: NodeCheck) -> bool {
        let open = |dead: &Dead| dead.why != Mismatch::MachineGone && !dead.renewed;
        self.convinces(check) && self.reported_after == 0 && self.dead.as_ref().is_none_or(open)
    }

    /// Whether a check has passed since the latest failure.
    pub(super) const fn answers(&self) -> bool {
        self.passes > 0
    }

    pub(super) fn die(&mut self, why: Mismatch, lease_us: Option<i64>, now: Moment) {
        self.passes = 0;
        self.dead = Some(Dead { why, since: now, renewed: false, lease_us });
    }

    /// Whether other nodes are chosen first: a check failed, or none has passed lately.
    pub(super) fn is_deprioritized(&self, now: Moment) -> bool {
        let stale = self.last_pass.is_some_and(|at| now.millis_since(at) > RECENT_MS);
        self.failures > 0 || stale
    }
}
