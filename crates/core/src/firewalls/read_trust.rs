//! The looks at an account's firewalls: when the next one is due, and the results of the last ones.
//!
//! A look is one read of all firewalls. A whole look also reads the machines and their tags. Only a whole look shows
//! which firewalls govern a machine.

use super::facts::{Firewall, Sight};
use crate::mechanism::{Pace, Retry};
use crate::model::{CallFailure, Context, FaultKind, MachineId, Moment};
use std::collections::{BTreeMap, BTreeSet};

/// From the start of one whole look to the start of the next, while a pool needs them.
const INTERVAL_MS: u64 = 50_000;

/// The shortest time between two whole looks for new machines. So nodes that appear together are added together.
pub const ROUND_MS: u64 = 3_000;

/// How long a whole look counts for machines that are to be added.
pub const FRESH_MS: u64 = 3_000;

/// The waits before the next looks after a change, for as long as something is pending.
const POLLS_MS: [u64; 5] = [1_000, 1_000, 2_000, 3_000, 5_000];

/// After the start, machines that only need a guard wait this long for the read of the addresses. One look then
/// serves both.
const GUARD_AFTER_MS: u64 = 5_000;

/// The wait after a look that was not sent, because the permit was missing or the process ends.
const UNSENT_MS: u64 = 1_000;

/// Why an account's firewalls cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Kind of the failure.
    pub kind: FaultKind,
    /// The text for users.
    pub message: String,
}

/// A whole look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// When it began.
    pub begun: Moment,
    /// When its answer came.
    pub arrived: Moment,
    /// Every firewall.
    pub firewalls: Vec<Firewall>,
    /// Every machine with its tags.
    pub machines: BTreeMap<MachineId, BTreeSet<String>>,
}

/// The looks at one account.
#[derive(Debug, Default)]
pub struct Looks {
    in_flight: bool,
    not_before: Moment,
    failures: Retry,
    poll: Option<Moment>,
    polls: usize,
    /// When the last whole look began, whatever its result.
    last: Option<Moment>,
    whole: Option<Whole>,
    missing: BTreeSet<&'static str>,
    trouble: Option<Trouble>,
}

impl Looks {
    /// Forgets earlier looks, because they no longer prove anything.
    pub fn restart(&mut self, now: Moment) {
        let in_flight = self.in_flight;
        *self = Self { in_flight, not_before: now, ..Self::default() };
    }

    /// The last whole look that left nothing out.
    pub fn whole(&self) -> Option<&Whole> {
        self.whole.as_ref()
    }

    /// Scopes that the token lacks. Looks leave something out because of them.
    pub fn missing(&self) -> &BTreeSet<&'static str> {
        &self.missing
    }

    /// Why the last look failed.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Whether a look has succeeded or failed, or has shown that the token lacks a scope.
    pub fn is_answered(&self) -> bool {
        self.whole.is_some() || self.trouble.is_some() || !self.missing.is_empty()
    }

    /// The latest moment of the first look for pools that only need a guard.
    pub fn guard_from(&self) -> Moment {
        if self.is_answered() { Moment::default() } else { self.not_before.plus_millis(GUARD_AFTER_MS) }
    }

    /// The earliest moment of a look for a need that arose at `since`.
    pub fn round_for(&self, since: Moment) -> Moment {
        let last = self.last.map(|last| last.plus_millis(ROUND_MS)).unwrap_or_default();
        since.max(last)
    }

    /// When the next look is due, and whether it is a whole one. `whole_by`: when a whole look is wanted at the
    /// latest. `None` while a look is under way.
    pub fn due(&self, whole_by: Option<Moment>) -> Option<(Moment, bool)> {
        if self.in_flight {
            return None;
        }
        let regular = self.last.map(|last| last.plus_millis(INTERVAL_MS)).unwrap_or_default();
        let whole = whole_by.map_or(regular, |by| by.min(regular));
        let (at, is_whole) = match self.poll {
            Some(poll) if poll < whole => (poll, false),
            Some(_) | None => (whole, true),
        };
        Some((at.max(self.failures.due()), is_whole))
    }

    /// Notes that a look was sent.
    pub fn begun(&mut self, whole: bool, now: Moment) {
        self.in_flight = true;
        if whole {
            self.last = Some(now);
        }
    }

    /// Notes that a change was answered. A look will soon show its effect.
    pub fn changed(&mut self, now: Moment) {
        self.polls = 0;
        self.poll_after(now);
    }

    fn poll_after(&mut self, now: Moment) {
        let wait_ms = POLLS_MS.get(self.polls).or(POLLS_MS.last()).copied().unwrap_or_default();
        self.polls = self.polls.saturating_add(1);
        self.poll = Some(now.plus_millis(wait_ms));
    }

    /// Takes in an answer. Returns the firewalls if the look counts.
    pub fn answered(
        &mut self,
        begun: Moment,
        result: Result<Sight, CallFailure>,
        at @ Context { now, .. }: Context,
    ) -> Option<Vec<Firewall>> {
        self.in_flight = false;
        let Sight { firewalls, machines, missing } = match result {
            Ok(sight) => sight,
            Err(CallFailure::NotSent) => {
                self.failures.not_before(now.plus_millis(UNSENT_MS));
                return None;
            }
            Err(CallFailure::Fault(fault)) => {
                self.failures.failed(Pace::of(&fault), at);
                self.trouble = Some(Trouble { kind: fault.kind, message: fault.message });
                return None;
            }
        };
        if begun < self.not_before {
            return None;
        }
        self.failures.succeeded();
        self.trouble = None;
        self.missing = missing;
        if !self.missing.is_empty() {
            // The unknown parts may hold any firewall.
            self.failures.not_before(begun.plus_millis(INTERVAL_MS));
            self.whole = None;
            return None;
        }
        if let Some(machines) = machines {
            self.whole = Some(Whole { begun, arrived: now, firewalls: firewalls.clone(), machines });
        }
        Some(firewalls)
    }

    /// Makes a look due that failed with the account, because its outage is over.
    pub fn release(&mut self, now: Moment) {
        self.failures.release(now);
    }

    /// Plans the next look after a look. It comes soon while something is pending.
    pub fn follow(&mut self, unfinished: bool, now: Moment) {
        if unfinished {
            self.poll_after(now);
        } else {
            self.poll = None;
            self.polls = 0;
        }
    }
}
