//! The core's belief about one address, and how reads may change it.
//!
//! Invariants: a read that began less than 30 s after the end of our own action cannot contradict that
//! action's result. Any other contradiction counts only once a second read agrees with it. While the place is unknown,
//! the last confirmed place stays.

use crate::mechanism::{Pace, Retry, counts, two_looks};
use crate::model::{Address, Context, MachineId, Moment, ReservedIp};

/// A created address is gone after two 404 answers this far apart.
pub const FORGET_AFTER_MS: u64 = 60_000;

/// How often an absent address is read by itself. An address that no list shows may exist by now.
const ABSENT_INTERVAL_MS: u64 = 600_000;

/// Where an address is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// Not read yet.
    #[default]
    Unknown,
    /// The provider answers 404.
    Absent,
    /// It exists.
    Present {
        /// The machine that it is assigned to.
        machine: Option<MachineId>,
        /// Region slug.
        region: String,
        /// An action on it is pending.
        locked: bool,
    },
}

impl Place {
    /// Takes the place from the provider's answer.
    pub fn of(read: &ReservedIp) -> Self {
        Self::Present { machine: read.machine.clone(), region: read.region.clone(), locked: read.locked }
    }

    /// The machine that the address is assigned to.
    pub fn machine(&self) -> Option<&MachineId> {
        match self {
            Self::Present { machine, .. } => machine.as_ref(),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// The message about an address that somebody else moved here. `node` is the node on that machine, if known; `noun`
    /// is the word for a machine.
    pub fn message(&self, ip: Address, node: Option<&str>, noun: &str) -> String {
        match self {
            Self::Present { machine: Some(machine), .. } => {
                let place = match node {
                    Some(node) => format!("node {node} ({machine})"),
                    None => machine.to_string(),
                };
                format!("{ip} was moved by others: it is on {place} now")
            }
            Self::Present { machine: None, .. } => {
                format!("{ip} was moved by others: it is on no {noun} now")
            }
            Self::Unknown | Self::Absent => {
                format!("{ip} was deleted by others: it is no longer in the account")
            }
        }
    }

    /// Whether both agree on existence and machine. `locked` comes and goes, so it is not compared.
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Present { machine: a, .. }, Self::Present { machine: b, .. }) => a == b,
            (Self::Absent, Self::Absent) | (Self::Unknown, Self::Unknown) => true,
            (Self::Unknown | Self::Absent | Self::Present { .. }, _) => false,
        }
    }
}

/// An address that is on no machine.
const NOWHERE: Place = Place::Present { machine: None, region: String::new(), locked: false };

/// A contradiction that waits for a second read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contradiction {
    claim: Place,
    /// When the first read that showed it began.
    since: Moment,
    read: Retry,
}

/// The effect of a read on a belief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// Nothing that a plan depends on.
    Nothing,
    /// The first knowledge of this address, or a change of `locked` or region.
    Refreshed,
    /// Someone else moved, unassigned, deleted or restored the address.
    Overturned,
    /// A contradiction, to be confirmed by a read.
    Doubted,
}

/// The core's belief about one address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Belief {
    place: Place,
    /// The machine that a status names. It counts only until the first read.
    reported: Option<MachineId>,
    settled_at: Option<Moment>,
    doubt: Option<Contradiction>,
    unlisted: bool,
    absent_since: Option<Moment>,
    absent_twice: bool,
    /// When the address was last read by itself and was absent, or the read failed.
    absent_read: Option<Moment>,
    /// The reads of an address that somebody else's action keeps locked, and when the next one is due.
    locked: Option<Retry>,
}

impl Belief {
    /// Where the address is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// True while a contradiction waits for its second read. Until then the address is not given out.
    pub fn is_doubted(&self) -> bool {
        self.doubt.is_some()
    }

    /// True for an address that exists but is on no list, so it has to be read by itself.
    pub fn is_unlisted(&self) -> bool {
        self.unlisted
    }

    /// True after two 404 answers at least [`FORGET_AFTER_MS`] apart.
    pub fn is_gone(&self) -> bool {
        self.place == Place::Absent && self.absent_twice && self.doubt.is_none()
    }

    /// Restarts the time of absence. Nothing else is visible either, so the absence proves nothing.
    pub(super) fn excuse_absence(&mut self, now: Moment) {
        if self.absent_since.is_some() {
            self.absent_since = Some(now);
            self.absent_twice = false;
        }
    }

    /// When to read this address by itself: to settle a doubt, to see a lock end, for its second 404
    /// (`confirm_absence`), or because it may exist although no list shows it.
    pub fn read_due(&self, confirm_absence: bool) -> Option<Moment> {
        if let Some(doubt) = &self.doubt {
            return Some(doubt.read.due());
        }
        if let Some(look) = self.locked {
            return Some(look.due());
        }
        let since = self.absent_since.filter(|_| self.place == Place::Absent)?;
        let again = self.absent_read.unwrap_or(since).plus_millis(ABSENT_INTERVAL_MS);
        let confirms = confirm_absence && !self.absent_twice;
        Some(if confirms { again.min(since.plus_millis(FORGET_AFTER_MS)) } else { again })
    }

    /// When to check whether somebody else's action still locks the address, unless a doubt has it read anyway.
    pub(crate) fn look_due(&self) -> Option<Moment> {
        self.locked.filter(|_| self.doubt.is_none()).map(|look| look.due())
    }

    /// Notes that a status places the address on this machine. A first list that disagrees may be older than the
    /// status, so it has to be confirmed.
    pub fn note_reported(&mut self, machine: MachineId) {
        if self.place == Place::Unknown {
            self.reported = Some(machine);
        }
    }

    /// Notes the result of an ended action of ours.
    pub fn settle(&mut self, place: Place, now: Moment) {
        *self = Self { place, settled_at: Some(now), unlisted: self.unlisted, ..Self::default() };
    }

    /// Whether a read that began at `begun` may still show the state from before our own action.
    pub(super) fn is_settled_against(&self, begun: Moment) -> bool {
        !counts(begun, self.settled_at)
    }

    /// Whether the address's entry in a complete list changes nothing, not even when the address is read next.
    pub(super) fn is_confirmed_by(&self, entry: Option<&ReservedIp>) -> bool {
        !self.unlisted
            && self.read_due(true).is_none()
            && entry.is_some_and(|read| self.place == Place::of(read))
    }

    /// Takes in the address's entry in a complete list that began at `begun`.
    pub fn listed(&mut self, entry: Option<&ReservedIp>, begun: Moment, now: Moment) -> Learned {
        if entry.is_some() {
            self.unlisted = false;
        }
        let claim = match entry {
            Some(read) => Place::of(read),
            None if self.unlisted || self.place == Place::Absent => return Learned::Nothing,
            None => Place::Absent,
        };
        if self.is_settled_against(begun) {
            return Learned::Nothing;
        }
        if let (Place::Unknown, Some(read)) = (&self.place, entry) {
            let Some(machine) = self.reported.take().filter(|machine| read.machine.as_ref() != Some(machine))
            else {
                self.adopt(claim, now);
                return Learned::Refreshed;
            };
            self.place =
                Place::Present { machine: Some(machine), region: read.region.clone(), locked: false };
        }
        if self.place.agrees(&claim) {
            let changed = self.place != claim || self.doubt.is_some();
            self.adopt(claim, now);
            return if changed { Learned::Refreshed } else { Learned::Nothing };
        }
        self.doubt(claim, begun, now)
    }

    /// Takes in a read of this address alone that began at `begun`. `None` means a 404.
    pub fn read(&mut self, found: Option<&ReservedIp>, begun: Moment, now: Moment) -> Learned {
        let claim = found.map_or(Place::Absent, Place::of);
        if self.is_settled_against(begun) {
            self.doubt = None;
            return Learned::Nothing;
        }
        let doubted_as = self.doubt.as_ref().map(|doubt| doubt.claim.clone());
        let missing_from_list = doubted_as == Some(Place::Absent);
        if self.place == Place::Unknown {
            self.unlisted = found.is_some() && missing_from_list;
            self.adopt_read(claim, begun, now);
            return Learned::Refreshed;
        }
        if self.place.agrees(&claim) {
            self.unlisted = self.unlisted || (found.is_some() && missing_from_list);
            self.adopt_read(claim, begun, now);
            return Learned::Refreshed;
        }
        if doubted_as.is_some_and(|doubted| doubted.agrees(&claim)) {
            self.adopt_read(claim, begun, now);
            return Learned::Overturned;
        }
        self.doubt(claim, begun, now.plus_millis(1_000))
    }

    /// Given a read that began at `begun` and shows the address on no machine, returns when the first such read began.
    /// `None` if that does not contradict the belief.
    pub(super) fn denied_since(&self, begun: Moment) -> Option<Moment> {
        if self.place == Place::Unknown {
            return self.doubt.as_ref().map(|doubt| doubt.since);
        }
        if self.place.agrees(&NOWHERE) || self.is_settled_against(begun) {
            return None;
        }
        Some(self.doubt.as_ref().filter(|_| self.is_denied()).map_or(begun, |doubt| doubt.since))
    }

    /// Whether a read has already shown the address on no machine, or nothing contradicts it.
    pub(super) fn is_denied(&self) -> bool {
        self.place == Place::Unknown || self.doubt.as_ref().is_some_and(|doubt| doubt.claim.agrees(&NOWHERE))
    }

    /// Makes a second read due now that failed and was postponed.
    pub(super) fn confirm_at_once(&mut self, now: Moment) {
        if let Some(doubt) = self.doubt.as_mut().filter(|doubt| doubt.read.is_failing()) {
            doubt.read = Retry::at(now.min(doubt.read.due()));
        }
    }

    /// Makes a read due that failed with the account, because its outage is over.
    pub(super) fn release(&mut self, now: Moment) {
        self.doubt.iter_mut().for_each(|doubt| doubt.read.release(now));
        self.locked.iter_mut().for_each(|look| look.release(now));
    }

    /// Notes that a read of this address alone failed with something other than 404.
    pub fn read_failed(&mut self, pace: Pace, at @ Context { now, .. }: Context) {
        if let Some(doubt) = &mut self.doubt {
            doubt.read.failed(pace, at);
        }
        if let Some(look) = &mut self.locked {
            look.failed(pace, at);
        }
        if let Some(since) = &mut self.absent_since {
            if !self.absent_twice {
                *since = now;
            }
            self.absent_read = Some(now);
        }
    }

    fn doubt(&mut self, claim: Place, since: Moment, next: Moment) -> Learned {
        match &mut self.doubt {
            Some(doubt) if doubt.claim.agrees(&claim) => Learned::Nothing,
            Some(_) | None => {
                self.doubt = Some(Contradiction { claim, since, read: Retry::at(next) });
                Learned::Doubted
            }
        }
    }

    fn adopt(&mut self, claim: Place, now: Moment) {
        self.doubt = None;
        self.watch_lock(&claim, now);
        self.absent_since = None;
        self.absent_twice = false;
        self.place = claim;
    }

    fn watch_lock(&mut self, claim: &Place, now: Moment) {
        self.locked = match claim {
            Place::Present { locked: true, .. } => {
                let mut look = self.locked.unwrap_or_default();
                look.again(now, super::op::look_again_ms);
                Some(look)
            }
            Place::Present { .. } | Place::Unknown | Place::Absent => None,
        };
    }

    fn adopt_read(&mut self, claim: Place, begun: Moment, now: Moment) {
        self.doubt = None;
        self.watch_lock(&claim, now);
        if claim == Place::Absent {
            self.absent_read = Some(now);
            self.absent_twice |= two_looks(&mut self.absent_since, begun, FORGET_AFTER_MS);
            // A gone address is read as rarely as any other absent one.
            self.unlisted &= !self.absent_twice;
        } else {
            self.absent_since = None;
            self.absent_twice = false;
        }
        self.place = claim;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Schedule;
    use crate::model::provider::examples::droplet;

    fn at(machine: u64) -> ReservedIp {
        ReservedIp {
            ip: "192.0.2.1".parse().unwrap(),
            region: "nyc3".into(),
            machine: (machine > 0).then_some(droplet(machine)),
            locked: false,
        }
    }

    const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

    #[test]
    fn the_first_list_is_believed_and_a_contradiction_needs_a_second_witness() {
        let mut belief = Belief::default();
        assert_eq!(belief.listed(Some(&at(1)), T(0), T(0)), Learned::Refreshed);
        assert_eq!(belief.listed(Some(&at(2)), T(50), T(50)), Learned::Doubted);
        assert_eq!(belief.place().machine(), Some(&droplet(1)));
        assert_eq!(belief.read_due(false), Some(T(50)));
        assert_eq!(belief.read(Some(&at(2)), T(50), T(50)), Learned::Overturned);
        assert_eq!(belief.place().machine(), Some(&droplet(2)));
        assert!(!belief.is_doubted());
    }

    #[test]
    fn a_read_that_agrees_with_us_ends_the_doubt_and_a_third_opinion_is_doubted_anew() {
        let mut belief = Belief::default();
        belief.listed(Some(&at(1)), T(0), T(0));
        belief.listed(Some(&at(2)), T(50), T(50));
        assert_eq!(belief.read(Some(&at(1)), T(51), T(51)), Learned::Refreshed);
        assert!(!belief.is_doubted());
        belief.listed(Some(&at(2)), T(100), T(100));
        assert_eq!(belief.read(Some(&at(3)), T(101), T(101)), Learned::Doubted);
        assert_eq!(belief.place().machine(), Some(&droplet(1)));
        assert_eq!(belief.read(Some(&at(3)), T(102), T(102)), Learned::Overturned);
    }

    #[test]
    fn a_read_begun_just_after_our_own_action_cannot_contradict_it() {
        let mut belief = Belief::default();
        belief.listed(Some(&at(1)), T(0), T(0));
        belief.settle(Place::of(&at(2)), T(60));
        assert_eq!(belief.listed(Some(&at(1)), T(89), T(90)), Learned::Nothing);
        assert_eq!(belief.read(Some(&at(1)), T(89), T(91)), Learned::Nothing);
        assert_eq!(belief.listed(None, T(89), T(91)), Learned::Nothing);
        assert_eq!(belief.place().machine(), Some(&droplet(2)));
        assert_eq!(belief.listed(Some(&at(1)), T(90), T(91)), Learned::Doubted);
    }

    #[test]
    fn an_address_missing_from_the_list_is_unknown_until_a_read_says_404() {
        let mut belief = Belief::default();
        assert_eq!(belief.listed(None, T(0), T(0)), Learned::Doubted);
        assert_eq!(belief.place(), &Place::Unknown);
        assert_eq!(belief.read(None, T(0), T(0)), Learned::Refreshed);
        assert_eq!(belief.place(), &Place::Absent);
        assert!(!belief.is_gone());
        assert_eq!(belief.read_due(true), Some(T(60)));
        belief.read(None, T(60), T(60));
        assert!(belief.is_gone());
        assert_eq!(belief.listed(Some(&at(1)), T(61), T(61)), Learned::Doubted);
        assert_eq!(belief.read(Some(&at(1)), T(61), T(61)), Learned::Overturned);
        assert!(!belief.is_gone());
    }

    #[test]
    fn an_address_that_is_on_no_list_but_exists_is_read_singly() {
        let mut belief = Belief::default();
        belief.listed(None, T(0), T(0));
        belief.read(Some(&at(1)), T(0), T(0));
        assert!(belief.is_unlisted());
        assert_eq!(belief.listed(None, T(50), T(50)), Learned::Nothing);
        assert_eq!(belief.read(Some(&at(2)), T(51), T(51)), Learned::Doubted);
        assert_eq!(belief.read(Some(&at(2)), T(52), T(52)), Learned::Overturned);
        belief.listed(Some(&at(2)), T(100), T(100));
        assert!(!belief.is_unlisted());
    }

    #[test]
    fn a_failing_second_read_backs_off() {
        let mut belief = Belief::default();
        belief.listed(Some(&at(1)), T(0), T(0));
        belief.listed(Some(&at(2)), T(50), T(50));
        belief.read_failed(Pace::by(Schedule::Fast), Context::exactly(T(50)));
        assert_eq!(belief.read_due(false), Some(T(51)));
        belief.read_failed(Pace::by(Schedule::Unauthorized), Context::exactly(T(51)));
        assert_eq!(belief.read_due(false), Some(T(111)));
    }
}
