//! One assignment or unassignment under way, from the decision to its certain end.
//!
//! Invariants: there is at most one per address and one per machine. After an unknown outcome the address is read
//! until it is unlocked. The request is never repeated.

use crate::mechanism::{Pace, Retry, Schedule};
use crate::model::{
    ActionId, ActionStatus, Address, CallFailure, Context, Fault, FaultKind, MachineId, Moment, ReservedIp,
    Uid,
};

/// Operations under way per account: enough for a hundred nodes that fail at once. Lists confirm them, for which the
/// requests of a minute have to last too. It also bounds memory and sockets.
pub const MAX_OPS: usize = 100;

/// Pending for this long, an action is reported as stalled.
pub const STALLED_AFTER_MS: u64 = 300_000;

/// The message about an action that failed at the provider. It leaves out the action's id, which differs at each try.
/// So repeated failures share one Event and one status.
const ERRORED: &str = "the provider reports that the action failed (errored)";

/// From acceptance to the first poll, and the shortest time between two polls. Many actions take less than a second,
/// and one request takes about as long as this.
const SOONEST_POLL_MS: u64 = 250;

/// The longest time between two polls of an action that is not stalled.
const LATEST_POLL_MS: u64 = 5_000;

/// The shortest time between two looks at an action while many are pending. They share a list, or the requests of a
/// minute.
const SOONEST_OF_MANY_MS: u64 = 1_000;

/// Between two looks at a stalled action.
const STALLED_INTERVAL_MS: u64 = 60_000;

/// An accepted action may still take effect for this long after the provider no longer knows it.
const FORGOTTEN_MS: u64 = 60_000;

/// The effect of an operation on its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Put it on the machine.
    Assign,
    /// Take it off the machine.
    Unassign {
        /// The address that gets the room. `None` if the address is given back.
        successor: Option<Address>,
    },
}

/// FLIPOP's work on an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Activity {
    /// The request is under way.
    Sending,
    /// The provider works on it.
    Polling {
        action: ActionId,
        accepted: Moment,
        /// When it was last looked at, or accepted.
        seen: Moment,
        /// How many lists have shown it pending.
        looks: u32,
        poll: Retry,
        directly: bool,
    },
    /// The outcome is unknown, and reads of the address will show it.
    Verifying {
        cause: FaultKind,
        message: String,
        since: Moment,
        look: Retry,
        refused: bool,
        /// When the read began that first showed the address unlocked and on no machine.
        denied: Option<Moment>,
        /// Which reads prove that nothing happened.
        disproof: Disproof,
    },
}

/// The meaning of a read that shows the address unlocked where it was before the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disproof {
    /// The request had no effect.
    No,
    /// The provider accepted an action and no longer knows it. Only reads that begin from this moment on count.
    Until(Moment),
    /// One such read has come; the next one decides.
    Once(Moment),
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The provider confirmed it.
    Done,
    /// It did not happen, and the provider accepted nothing.
    Refused(FaultKind, String),
    /// It was accepted, or may have been, but did not happen.
    Failed(FaultKind, String),
    /// The provider's action ended as `errored`.
    Errored(String),
    /// The address is gone.
    AddressGone,
    /// The request was not sent.
    NotSent,
}

/// One assignment or unassignment under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// The pool on whose behalf.
    pub pool: Uid,
    /// Its effect.
    pub kind: OpKind,
    /// The machine that gains or loses the address.
    pub machine: MachineId,
    /// The node on that machine.
    pub node: (Uid, String),
    /// The machine on which the address was.
    pub from: Option<MachineId>,
    /// When it was decided.
    pub started: Moment,
    /// When the change of nodes or pods that caused it was seen, if known.
    pub caused: Moment,
    /// Its request failed with the whole account.
    pub whole: bool,
    /// The provider asked for no repetition of the request before this.
    asked: Moment,
    activity: Activity,
}

impl Op {
    /// An operation whose request is about to be sent.
    pub fn new(
        pool: Uid,
        kind: OpKind,
        machine: MachineId,
        node: (Uid, String),
        from: Option<MachineId>,
        now: Moment,
    ) -> Self {
        let (activity, caused) = (Activity::Sending, now);
        Self { pool, kind, machine, node, from, started: now, caused, whole: false, asked: now, activity }
    }

    /// True while the request's answer is awaited.
    pub fn is_unanswered(&self) -> bool {
        self.activity == Activity::Sending
    }

    /// The machine on which the address will be when this succeeds.
    pub fn target(&self) -> Option<MachineId> {
        match self.kind {
            OpKind::Assign => Some(self.machine.clone()),
            OpKind::Unassign { .. } => None,
        }
    }

    /// True once it has lasted for five minutes.
    pub fn is_stalled(&self, now: Moment) -> bool {
        self.activity != Activity::Sending && now.millis_since(self.started) >= STALLED_AFTER_MS
    }

    /// The message for users about an unknown outcome.
    pub fn trouble(&self) -> Option<&str> {
        match &self.activity {
            Activity::Verifying { message, .. } => Some(message),
            Activity::Sending | Activity::Polling { .. } => None,
        }
    }

    /// The action to poll, when, and whether only a poll can show its end. `many` says that too many actions are
    /// pending for single polls.
    pub fn poll_due(&self, many: bool) -> Option<(ActionId, Moment, bool)> {
        match &self.activity {
            Activity::Polling { action, seen, poll, directly, .. } => {
                let due = poll.due();
                let at = if many { due.max(seen.plus_millis(SOONEST_OF_MANY_MS)) } else { due };
                Some((*action, at, *directly))
            }
            Activity::Sending | Activity::Verifying { .. } => None,
        }
    }

    /// When the address is to be read.
    pub fn read_due(&self) -> Option<Moment> {
        match &self.activity {
            Activity::Verifying { look, .. } => Some(look.due()),
            Activity::Sending | Activity::Polling { .. } => None,
        }
    }

    /// Given a read that began at `begun` and shows the address unlocked and on no machine, returns when the first
    /// such read began.
    pub(super) fn denied_since(&self, begun: Moment) -> Option<Moment> {
        match &self.activity {
            Activity::Verifying { denied, .. } => Some(denied.unwrap_or(begun)),
            Activity::Sending | Activity::Polling { .. } => None,
        }
    }

    /// How its failure of this kind delays the next request.
    pub fn pace(&self, kind: FaultKind, now: Moment) -> Pace {
        Pace::by(Schedule::of(kind)).after(self.whole, self.asked.millis_since(now))
    }

    /// Takes in the answer to the request. `None` while the operation continues.
    pub fn answered(
        &mut self,
        answer: Result<(ActionId, ActionStatus), CallFailure>,
        now: Moment,
    ) -> Option<End> {
        if let Err(CallFailure::Fault(fault)) = &answer {
            self.whole = fault.whole;
            self.asked = now.plus_millis(fault.retry_after_ms.unwrap_or(0));
        }
        match answer {
            Ok((_, ActionStatus::Completed)) => Some(End::Done),
            Ok((_, ActionStatus::Errored)) => Some(End::Errored(ERRORED.to_owned())),
            Ok((action, ActionStatus::InProgress)) => {
                let poll = Retry::at(now.plus_millis(poll_again_ms(0)));
                let (accepted, seen) = (now, now);
                self.activity = Activity::Polling { action, accepted, seen, looks: 0, poll, directly: false };
                None
            }
            Err(CallFailure::NotSent) => Some(End::NotSent),
            Err(CallFailure::Fault(fault)) if fault.outcome_unknown || fault.kind == FaultKind::NotFound => {
                let refused = !fault.outcome_unknown;
                self.verify((fault.kind, fault.message), refused, (now, now), Disproof::No);
                None
            }
            Err(CallFailure::Fault(fault)) => Some(End::Refused(fault.kind, fault.message)),
        }
    }

    /// Takes in the answer to a poll of the action. `None` while the operation continues.
    pub fn polled(
        &mut self,
        answer: Result<ActionStatus, CallFailure>,
        at @ Context { now, .. }: Context,
    ) -> Option<End> {
        let stalled = self.is_stalled(now);
        let Activity::Polling { accepted, seen, poll, .. } = &mut self.activity else {
            return None;
        };
        match answer {
            Ok(ActionStatus::Completed) => return Some(End::Done),
            Ok(ActionStatus::Errored) => return Some(End::Errored(ERRORED.to_owned())),
            Ok(ActionStatus::InProgress) if stalled => {
                let message =
                    format!("its action has been pending for more than {} s", STALLED_AFTER_MS / 1_000);
                let next = now.plus_millis(STALLED_INTERVAL_MS);
                self.verify((FaultKind::InProgress, message), false, (now, next), Disproof::No);
            }
            Ok(ActionStatus::InProgress) => {
                *seen = now;
                *poll = Retry::at(now.plus_millis(poll_again_ms(now.millis_since(*accepted))));
            }
            // Polls will not show how the action ended: the provider no longer knows it, or has long refused to tell.
            Err(CallFailure::Fault(fault))
                if fault.kind == FaultKind::NotFound || (stalled && fault.kind == FaultKind::Permanent) =>
            {
                let message = format!("FLIPOP cannot read how its action ended: {}", fault.message);
                let disproof = Disproof::Until(accepted.plus_millis(FORGOTTEN_MS));
                self.verify((fault.kind, message), false, (now, now), disproof);
            }
            Err(CallFailure::Fault(fault)) => poll.failed(Pace::of(&fault), at),
            Err(CallFailure::NotSent) => poll.hasten(now),
        }
        None
    }

    /// Takes in the address's entry in a complete list that began at `begun`, while many actions are pending.
    pub fn listed(&mut self, entry: Option<&ReservedIp>, begun: Moment, now: Moment) -> Option<End> {
        let target = self.target();
        let started = self.started;
        let Activity::Polling { looks, poll, directly, .. } = &mut self.activity else { return None };
        let Some(entry) = entry else {
            // An address that is on no list has to be read by itself.
            *directly = true;
            return None;
        };
        if entry.locked || begun <= started {
            *looks = looks.saturating_add(1);
            poll.put_off_to(now.plus_millis(look_again_ms(*looks)));
        } else if entry.machine == target {
            return Some(End::Done);
        } else {
            *directly = true;
        }
        None
    }

    /// Takes in a read of the address by itself that began at `begun`. `None` while the outcome stays unknown.
    pub fn read(&mut self, found: Option<&ReservedIp>, begun: Moment, now: Moment) -> Option<End> {
        let target = self.target();
        let stalled = self.is_stalled(now);
        let from = &self.from;
        let Activity::Verifying { cause, message, since, look, disproof, .. } = &mut self.activity else {
            return None;
        };
        if begun < *since {
            // It may show the state from before the request.
            return None;
        }
        let waits = |read: &ReservedIp| !read.locked && read.machine != target && read.machine == *from;
        if found.is_some_and(waits)
            && let Some(waited) = disproof.after(begun)
        {
            *disproof = waited;
            look.again(now, look_again_ms);
            return None;
        }
        match found {
            None => Some(End::AddressGone),
            Some(read) if read.locked => {
                look.again(now, |looks| if stalled { STALLED_INTERVAL_MS } else { look_again_ms(looks) });
                None
            }
            Some(read) if read.machine == target => Some(End::Done),
            Some(_) => Some(End::Failed(*cause, message.clone())),
        }
    }

    /// Notes that a read of the address failed with something other than 404.
    pub fn read_failed(&mut self, fault: &Fault, at: Context) {
        if let Activity::Verifying { look, .. } = &mut self.activity {
            look.failed(Pace::of(fault), at);
        }
    }

    /// Makes a postponed read due now, because the token changed or the missing scope was granted.
    pub fn look_at_once(&mut self, now: Moment) {
        self.next_look().into_iter().for_each(|look| look.hasten(now));
    }

    /// Makes a read due that failed with the account, because the outage is over.
    pub(super) fn release(&mut self, now: Moment) {
        self.next_look().into_iter().for_each(|look| look.release(now));
    }

    const fn next_look(&mut self) -> Option<&mut Retry> {
        match &mut self.activity {
            Activity::Sending => None,
            Activity::Polling { poll: look, .. } | Activity::Verifying { look, .. } => Some(look),
        }
    }

    /// Notes a read of the address that proved nothing, because this token may not see its machine. `denies` is when
    /// the read began, if the read counts once the scope is proved.
    pub(super) fn read_hidden(&mut self, denies: Option<Moment>, now: Moment) {
        if let Activity::Verifying { since, look, denied, .. } = &mut self.activity {
            *denied = denied.or(denies.filter(|begun| *begun >= *since));
            look.again(now, look_again_ms);
        }
    }

    /// True when the request itself was refused, although reads had to confirm that.
    pub fn was_refused(&self) -> bool {
        matches!(self.activity, Activity::Verifying { refused: true, .. })
    }

    fn verify(
        &mut self,
        (cause, message): (FaultKind, String),
        refused: bool,
        (since, next): (Moment, Moment),
        disproof: Disproof,
    ) {
        let look = Retry::at(next);
        self.activity = Activity::Verifying { cause, message, since, look, refused, denied: None, disproof };
    }
}

impl Disproof {
    /// The next step after a read, begun at `begun`, that shows no change. `None`: the read is believed.
    fn after(self, begun: Moment) -> Option<Self> {
        match self {
            Self::Until(from) if begun < from => Some(self),
            Self::Until(from) => Some(Self::Once(from)),
            Self::No | Self::Once(_) => None,
        }
    }
}

/// The wait after a poll, `passed_ms` after the action was accepted: a quarter of that time. So FLIPOP notices the end
/// of an action late by at most a quarter of its duration, and a long action costs few requests.
fn poll_again_ms(passed_ms: u64) -> u64 {
    (passed_ms / 4).clamp(SOONEST_POLL_MS, LATEST_POLL_MS)
}

/// Waits between reads of an address, single or by a list: 1, 1, 2, 3, then 5 s, and a minute after
/// [`STALLED_AFTER_MS`].
pub(crate) fn look_again_ms(looks: u32) -> u64 {
    match looks {
        0 | 1 => 1_000,
        2 => 2_000,
        3 => 3_000,
        4..=62 => 5_000,
        _ => STALLED_INTERVAL_MS,
    }
}

#[cfg(test)]
#[path = "op_tests.rs"]
mod tests;
