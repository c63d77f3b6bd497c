//! The progress of a request to move an address by hand: whether it is new, and its outcome.
//!
//! A request counts as new only in a process that saw the object without it. The status is read when leadership
//! begins, so no process repeats a move that another one began. This module does not decide whether a request can be
//! met.

use super::result::{LastMove, MoveOutcome, Request, request_of};
use crate::mechanism::Retry;
use crate::model::{Address, Moment};

/// How this process first saw the text of the annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sight {
    /// The object could not be read yet.
    #[default]
    None,
    /// The text was there when this process first saw the object, or the request was taken up. Somebody may have acted
    /// on it.
    Old,
    /// The text appeared after this process first saw the object, and the request was not taken up yet.
    New,
    /// The text reappeared after its request had been answered.
    Again,
}

/// The stage of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    /// No request, or the request is answered.
    #[default]
    Idle,
    /// The status does not say yet that the request is pending.
    Announcing,
    /// The server has the status, so the request to the provider may follow.
    Announced,
    /// The operation is under way.
    Sent(Address),
    /// Another process, or this one before a gap, left the request pending. Holds since when its outcome is being
    /// examined.
    Recalled(Option<Moment>),
}

/// Why the status on the server does not show the outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unkept {
    /// The installed CRDs drop it.
    Pruned,
    /// The status cannot be written.
    Denied,
}

/// Moves by hand of one pool.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    /// The request in the annotation.
    pub(crate) request: Option<String>,
    pub(crate) sight: Sight,
    pub(crate) stage: Stage,
    /// The last request that was answered or is pending.
    pub(crate) last: Option<LastMove>,
    pub(crate) unkept: Option<Unkept>,
    pub(crate) retry: Retry,
    pub(crate) epoch_ms: u64,
}

impl Moving {
    /// Takes in the annotation as the watch shows it.
    pub(crate) fn observed(&mut self, annotation: Option<&str>) {
        let request = request_of(annotation);
        let first = self.sight == Sight::None;
        if !first && request == self.request {
            return;
        }
        let answered = self.last.as_ref().is_some_and(|last| !last.is_pending());
        self.sight = match (first, self.asks_again(request.as_deref())) {
            (false, false) => Sight::New,
            (false, true) if answered => Sight::Again,
            (true, _) | (false, true) => Sight::Old,
        };
        self.unkept = None;
        self.request = request;
    }

    /// Whether the last move answers this request.
    pub(crate) fn asks_again(&self, request: Option<&str>) -> bool {
        request.is_some() && self.last.as_ref().map(|last| last.request.as_str()) == request
    }

    /// Takes the last move from the status when leadership begins, or continues after a gap. If this process has newer
    /// knowledge about the present request, that counts instead.
    pub(crate) fn recall(&mut self, stored: Option<&LastMove>) {
        let request_of = |last: &Option<LastMove>| last.as_ref().map(|last| last.request.clone());
        let stored = stored.cloned();
        let same = request_of(&stored) == request_of(&self.last);
        let answered = self.last.as_ref().is_some_and(|last| !last.is_pending());
        let under_way = matches!(self.stage, Stage::Sent(_));
        if self.sight == Sight::Again || (self.request.is_some() && request_of(&stored) == self.request) {
            // Some process has taken up the request, whatever happens to the status.
            self.sight = Sight::Old;
        }
        if same && (answered || under_way) && stored.as_ref().is_none_or(LastMove::is_pending) {
            return;
        }
        let pending = stored.as_ref().is_some_and(LastMove::is_pending);
        self.stage = if pending { Stage::Recalled(None) } else { Stage::Idle };
        self.last = stored;
    }

    /// The value for the status.
    pub(crate) fn last_move(&self) -> Option<LastMove> {
        self.last.clone().filter(|_| self.unkept != Some(Unkept::Pruned))
    }

    /// Takes in the status that the server stored after a write.
    pub(crate) fn written(&mut self, sent: Option<&LastMove>, kept: Option<&LastMove>) {
        if sent.is_some() && sent != kept {
            self.unkept = Some(Unkept::Pruned);
        } else if self.stage == Stage::Announcing && sent == self.last.as_ref() {
            self.stage = Stage::Announced;
        }
    }

    /// Notes that the server refuses the status write.
    pub(crate) fn not_written(&mut self) {
        if self.stage == Stage::Announcing {
            self.unkept = Some(Unkept::Denied);
        }
    }

    /// Whether the move of this address is under way.
    pub(crate) fn is_sent(&self, ip: Address) -> bool {
        self.stage == Stage::Sent(ip)
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Announcing | Stage::Announced)
    }

    /// The request, while it is neither answered nor begun.
    pub(crate) fn wanted(&self) -> Option<&String> {
        let request = self.request.as_ref()?;
        let new = self.sight == Sight::New;
        (self.is_open() || (self.stage == Stage::Idle && new)).then_some(request)
    }

    /// Whether there is no request, and none under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.request.is_none() && self.stage == Stage::Idle
    }

    /// Notes the outcome of a request, or that it is pending.
    pub(crate) fn note(&mut self, outcome: MoveOutcome, message: &str, now: Moment) {
        let time_s = now.plus_millis(self.epoch_ms).as_millis() / 1_000;
        if let Some(last) = &mut self.last {
            last.outcome = outcome;
            message.clone_into(&mut last.message);
            last.time_s = i64::try_from(time_s).unwrap_or_default();
        }
    }

    /// Notes why the pending request waits, for users. Its time stays that of the outcome.
    pub(crate) fn waits_for(&mut self, why: String) {
        if let Some(last) = self.last.as_mut().filter(|last| last.is_pending()) {
            last.message = why;
        }
    }

    /// Makes this request the last move.
    pub(crate) fn begin(&mut self, request: &str, from: String) {
        let (ip, to) = match Request::parse(request) {
            Ok(Request { ip, node }) => (Some(ip), node),
            Err(_) => (None, String::new()),
        };
        let (outcome, message) = (MoveOutcome::Pending, String::new());
        self.last = Some(LastMove { request: request.to_owned(), ip, from, to, time_s: 0, outcome, message });
        self.retry = Retry::default();
        self.sight = Sight::Old;
    }
}
