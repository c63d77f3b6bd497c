//! One node that serves, fails for a reason that may pass, and keeps its match while the grace lasts.
//!
//! Invariants: once the node itself has failed, the start and limit of that failure count until it matches again. The
//! start is never later than the first sight of the failure. The match ends only after a consistent read has shown the
//! failure.

use super::retry::{Pace, Retry, Schedule};
use crate::model::catalog::shared::Suspect;
use crate::model::spec::Grace;
use crate::model::words::clock_time;
use crate::model::{Class, Context, Mismatch, Moment, NodeFacts, Readiness, Uid};

/// A suspicion that ends sooner than this is not reported at all.
const REPORTED_AFTER_MS: u64 = 2_000;

/// The longest time between two reads of a node while the API server does not answer.
const LONGEST_RETRY_MS: u64 = 5_000;

/// The API server's clock has a resolution of a second.
const CLOCK_STEP_S: i64 = 1;

/// The present time, on the clock of this process and on the API server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// On the clock of this process.
    pub now: Moment,
    /// Milliseconds from 1970 to the origin of that clock, by the API server's clock.
    pub epoch_ms: u64,
}

impl Clocks {
    /// Seconds since 1970 on the API server's clock.
    fn seconds(self) -> i64 {
        i64::try_from(self.now.plus_millis(self.epoch_ms).as_millis() / 1_000).unwrap_or(i64::MAX)
    }

    /// The moment so many seconds after an instant on the API server's clock, or after now if that is not known or
    /// still to come. A moment that has passed may be given as now.
    pub fn moment_after(self, instant_s: Option<i64>, seconds: i64) -> Moment {
        let age_s = instant_s.map_or(0, |instant_s| self.seconds().saturating_sub(instant_s).max(0));
        let left_s = u64::try_from(seconds.saturating_sub(age_s)).unwrap_or(0);
        self.now.plus_millis(left_s.saturating_mul(1_000))
    }
}

/// When a failure began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    /// When this process first saw it.
    at: Moment,
    /// It had lasted this long by then.
    before_ms: u64,
    /// The start on the API server's clock. The status has it, so that every process reports the same.
    since_s: i64,
}

impl Start {
    const fn seen(since_s: i64, at: Moment) -> Self {
        Self { at, before_ms: 0, since_s }
    }

    /// The start of a failure that this process did not see begin.
    fn reported(since_s: i64, limit_ms: u64, clocks: Clocks) -> Self {
        let lasted_s = u64::try_from(clocks.seconds().saturating_sub(since_s)).unwrap_or(0);
        Self { at: clocks.now, before_ms: lasted_s.saturating_mul(1_000).min(limit_ms), since_s }
    }

    const fn ends(self, limit_ms: u64) -> Moment {
        self.at.plus_millis(limit_ms.saturating_sub(self.before_ms))
    }

    const fn lasted_ms(self, now: Moment) -> u64 {
        now.millis_since(self.at).saturating_add(self.before_ms)
    }
}

/// The consistent read that has to show the failure before the match ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It is still to be requested, when the grace is over.
    Wanted(Retry),
    /// It was requested at this moment.
    Asked(Moment, Retry),
    /// It showed the failure.
    Given,
}

/// A node that fails and keeps its match for now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with a meaning of its own")]
pub struct Suspicion {
    /// `metadata.uid` of the node.
    pub(super) uid: Uid,
    provider_id: String,
    why: Mismatch,
    pod: Option<Start>,
    node: Option<Start>,
    /// The last seen condition `Ready` of the node, and its start. If the watch saw it change, the change is no
    /// recovery.
    word: (Readiness, Option<i64>),
    proof: Proof,
    /// A plan has found that the node serves.
    pub(super) serves: bool,
    /// Status and Event report it.
    pub(super) reported: bool,
    /// It was seen in an earlier term of leadership. The status decides whether its grace continues.
    pub(super) inherited: bool,
    /// This process knows its start only from a status. The pods may have served in between.
    begin_is_reported: bool,
}

impl Suspicion {
    /// A failure that begins now.
    pub(super) fn begin(node: &NodeFacts, why: Mismatch, clocks: Clocks) -> Self {
        let mut new = Self {
            uid: node.uid.clone(),
            provider_id: node.provider_id.clone(),
            why: why.clone(),
            pod: None,
            node: None,
            word: (node.ready, node.fails_since_s()),
            proof: Proof::Wanted(Retry::default()),
            serves: false,
            reported: false,
            inherited: false,
            begin_is_reported: false,
        };
        new.fails(why, Start::seen(clocks.seconds(), clocks.now));
        new
    }

    /// A failure that this process did not see begin. `reported_since_s` is its start in the predecessor's status, if
    /// reported there.
    pub(super) fn resume(
        node: &NodeFacts,
        why: &Mismatch,
        reported_since_s: Option<i64>,
        grace: &Grace,
        clocks: Clocks,
    ) -> Self {
        let mut new = Self::begin(node, why.clone(), clocks);
        if let Some(reported) = reported_since_s {
            let since_s = node.fails_since_s().map_or(reported, |fails| fails.max(reported));
            // If the node became Ready after that start, the node itself had failed, and its pods only follow.
            let followed =
                why.class() == Class::Pod && node.ready_since_s.is_some_and(|ready| ready > reported);
            let class = if followed && grace.node_ms > grace.pod_ms { Class::Node } else { why.class() };
            let start = Start::reported(since_s, grace.limit_ms(class), clocks);
            (new.pod, new.node) =
                if class == Class::Node { (None, Some(start)) } else { (Some(start), None) };
            (new.reported, new.begin_is_reported) = (true, true);
        }
        new
    }

    /// Notes the present reason of the failure.
    fn fails(&mut self, why: Mismatch, start: Start) {
        match why.class() {
            Class::Node => self.node.get_or_insert(start),
            Class::Pod | Class::Hard => self.pod.get_or_insert(start),
        };
        if self.why != why {
            // The proof was about another failure.
            self.proof = Proof::Wanted(Retry::default());
            self.why = why;
        }
    }

    /// Notes the failure as the watch shows it now.
    pub(super) fn is_seen(&mut self, node: &NodeFacts, why: Mismatch, clocks: Clocks) {
        if self.word.0 != node.ready {
            self.word = (node.ready, node.fails_since_s());
        }
        self.still_fails(why, clocks);
    }

    fn still_fails(&mut self, why: Mismatch, clocks: Clocks) {
        self.fails(why, Start::seen(clocks.seconds(), clocks.now));
    }

    /// Whether status and Events report it.
    pub const fn is_reported(&self) -> bool {
        self.reported
    }

    /// Whether this is the node that fails, on the same machine.
    pub fn is_of(&self, node: &NodeFacts) -> bool {
        self.uid == node.uid && self.provider_id == node.provider_id
    }

    /// `metadata.uid` of the node.
    pub const fn node_uid(&self) -> &Uid {
        &self.uid
    }

    /// Why the node fails.
    pub const fn why(&self) -> &Mismatch {
        &self.why
    }

    /// The reason in the condition.
    pub fn finding(&self) -> Suspect {
        match self.why.class() {
            Class::Pod => Suspect::PodNotReady,
            Class::Node | Class::Hard => Suspect::NodeFailing,
        }
    }

    /// The start that counts, and the class whose limit applies.
    fn holds(&self) -> Option<(Start, Class)> {
        let of_node = self.node.map(|start| (start, Class::Node));
        of_node.or_else(|| self.pod.map(|start| (start, Class::Pod)))
    }

    /// When the failure that counts began, in seconds since 1970 on the API server's clock.
    pub fn since_s(&self) -> i64 {
        self.holds().map_or(0, |(start, _)| start.since_s)
    }

    /// When its grace is over, on the API server's clock. Every process writes the same time into the status.
    pub fn ends_s(&self, grace: &Grace) -> i64 {
        let limit_ms = self.holds().map_or(0, |(_, class)| grace.limit_ms(class));
        self.since_s().saturating_add(i64::try_from(limit_ms.div_ceil(1_000)).unwrap_or(i64::MAX))
    }

    /// The text for users. `follows` says what happens at the end of its grace.
    pub fn text(&self, node: &str, follows: &str, grace: &Grace) -> String {
        let (since, ends) = (clock_time(self.since_s()), clock_time(self.ends_s(grace)));
        format!("{node} {} (since {since}): {follows} at {ends} at the earliest", self.why)
    }

    /// When its grace is over.
    pub(super) fn deadline(&self, grace: &Grace) -> Moment {
        self.holds().map_or(Moment::default(), |(start, class)| start.ends(grace.limit_ms(class)))
    }

    /// When it is reported.
    pub(super) fn reported_at(&self) -> Moment {
        let earliest = self.pod.into_iter().chain(self.node).map(|start| start.ends(REPORTED_AFTER_MS)).min();
        earliest.unwrap_or_default()
    }

    /// How long it has lasted, in milliseconds.
    pub fn lasted_ms(&self, now: Moment) -> u64 {
        self.holds().map_or(0, |(start, _)| start.lasted_ms(now))
    }

    /// When the proof has to be requested. `None` while it is under way, or once it is given.
    pub(super) fn ask_at(&self, grace: &Grace) -> Option<Moment> {
        match self.proof {
            Proof::Wanted(retry) => Some(retry.due().max(self.deadline(grace))),
            Proof::Asked(..) | Proof::Given => None,
        }
    }

    /// Whether the proof is under way.
    pub(super) const fn is_asked(&self) -> bool {
        matches!(self.proof, Proof::Asked(..))
    }

    /// Notes that the proof was requested.
    pub(super) const fn ask(&mut self, now: Moment) {
        let retry = match self.proof {
            Proof::Wanted(retry) | Proof::Asked(_, retry) => retry,
            Proof::Given => return,
        };
        self.proof = Proof::Asked(now, retry);
    }

    /// Marks it as from an earlier term. Its proof has to be requested again.
    pub(super) fn inherit(&mut self) {
        self.inherited = true;
        self.proof = Proof::Wanted(Retry::default());
    }

    /// Keeps the start that the predecessor reported. The time runs on as this process has measured it.
    pub(super) fn take_over(&mut self, reported_since_s: Option<i64>) {
        let Some(since_s) = reported_since_s else { return };
        self.reported = true;
        if let Some(start) = self.node.as_mut().or(self.pod.as_mut()) {
            start.since_s = since_s;
        }
    }

    /// Drops a proof from before the end of the grace, which happens when the grace was made longer meanwhile.
    pub(super) fn review(&mut self, grace: &Grace, now: Moment) {
        if self.proof == Proof::Given && self.deadline(grace) > now {
            self.proof = Proof::Wanted(Retry::default());
        }
    }

    /// Whether the grace is over and the failure is proved.
    pub(super) fn is_over(&self, grace: &Grace, now: Moment) -> bool {
        self.proof == Proof::Given && self.deadline(grace) <= now
    }

    /// Takes in the answer to the read that was requested at `asked`: whether the node matches and, if not, when its
    /// failure began by its own report. `None` if the read failed.
    pub(super) fn proved(
        &mut self,
        asked: Moment,
        read: Option<Result<(), (Mismatch, Option<i64>)>>,
        grace: &Grace,
        clocks: Clocks,
        at: Context,
    ) {
        let Proof::Asked(when, mut retry) = self.proof else { return };
        if when != asked {
            return;
        }
        let Some(verdict) = read else {
            retry.failed(Pace::by(Schedule::Fast).within(LONGEST_RETRY_MS), at);
            self.proof = Proof::Wanted(retry);
            return;
        };
        self.proof = Proof::Wanted(Retry::default());
        match verdict {
            // The watch is behind: the node has recovered, and a later failure is a new one. The grace may be zero and
            // the watch silent for long, so another read follows.
            Ok(()) => {
                self.restart(Start::seen(clocks.seconds(), clocks.now));
                retry.failed(Pace::by(Schedule::Fast).within(LONGEST_RETRY_MS), at);
                self.proof = Proof::Wanted(retry);
            }
            Err((why, since_s)) => {
                if let Some(since_s) = since_s.filter(|since_s| self.is_anew(&why, *since_s)) {
                    self.restart(Start::reported(since_s, grace.limit_ms(why.class()), clocks));
                    return;
                }
                self.still_fails(why, clocks);
                self.proof = Proof::Given;
            }
        }
    }

    /// Whether a failure that began at `since_s`, by the report of the node or its pods, is a new one. The node then
    /// matched in between, unseen.
    fn is_anew(&self, why: &Mismatch, since_s: i64) -> bool {
        let known_s = match (why.class(), self.node) {
            (Class::Node, Some(_)) => self.word.1.map_or(self.since_s(), |word_s| word_s.max(self.since_s())),
            // A pod's start of failure counts only if this process did not see the failure of the pods begin.
            (Class::Pod, None) if self.begin_is_reported => self.since_s(),
            _ => return false,
        };
        since_s > known_s.saturating_add(CLOCK_STEP_S)
    }

    fn restart(&mut self, start: Start) {
        (self.pod, self.node) = (self.pod.map(|_| start), self.node.map(|_| start));
        self.begin_is_reported = false;
    }
}
