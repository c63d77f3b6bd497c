//! The knowledge about the records at one name, and the next step there.
//!
//! A site belongs to a name instead of an object. So its knowledge passes to the next owner of the name, and only one
//! change set at a time is under way, whichever object asked for it.
//!
//! Invariants: a write needs believed records, from a read or from a complete write of our own. A read follows a
//! failed write. After a write that may have had an effect there are two reads, 5 s apart. There is one call at a
//! time, except that a write may start during a reread of believed records. The answer to such a reread does not
//! count.
//!
//! [`Looks`] decides how far a read is believed.

use super::diff::{Wanted, addresses, after, alias, diff, is_marked_by_external_dns, with_proof};
use super::read_trust::{BETWEEN_LOOKS_MS, Looks, Shown};
use crate::mechanism::{Failure, LAG_MS, Pace};
use crate::model::{AccountId, Address, CallFailure, Context, Fault, FaultKind, Moment, Owner};
use crate::records::dns::{Change, ChangeSet, Record};
use std::collections::{BTreeSet, VecDeque};

/// Changes that others make at a name are noticed within this time.
pub const RESYNC_MS: u64 = 600_000;

/// The number of reads after a write that may have had an effect.
const READS_IN_DOUBT: u8 = 2;

/// At most [`MAX_ROUNDS`] begin within this time.
const ROUNDS_WINDOW_MS: u64 = 2_000;

/// The first round starts at once, and the second takes in the changes since. More rounds would only chase a flapping
/// node.
const MAX_ROUNDS: usize = 2;

/// The place of records. A zone is identified by its id. A lookup finds the id of a zone that the spec names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteKey {
    /// The account.
    pub account_id: AccountId,
    /// The zone's id.
    pub zone: String,
    /// The fully qualified name.
    pub fqdn: String,
}

/// The read under way.
#[derive(Debug)]
struct Reading {
    begun: Moment,
    /// It began before a restart or with another token, so its answer does not count.
    outdated: bool,
    /// A write began meanwhile, so the answer may show the records from before it.
    overtaken: bool,
}

/// The change set under way.
#[derive(Debug)]
struct Applying {
    wanted: Wanted,
    changes: Vec<Change>,
    left: usize,
    writer: Owner,
    /// It began before a restart or with another token, so the records are read again after it.
    outdated: bool,
}

/// Reads that are still needed before anything is written.
#[derive(Debug)]
struct Doubt {
    reads: u8,
    next: Moment,
}

/// The next step at a site.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A call is under way.
    Busy,
    /// The records are as wanted. Look again at this moment.
    Rest(Moment),
    /// A step is due, but not before this moment.
    Wait(Moment),
    /// Read the records, because something waits for that.
    Read,
    /// Read the records again, although they are as wanted as far as known.
    Reread,
    /// Change them.
    Apply(ChangeSet),
}

/// The end of a change set that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Everything was carried out.
    Done,
    /// The changes of one call were carried out, and the rest follows.
    Partly,
    /// Nothing was sent, or sending stopped for lack of a permit.
    NotSent,
    /// It failed.
    Failed(FaultKind),
}

/// The records at one name.
#[derive(Debug, Default)]
pub struct Site {
    records: Option<Vec<Record>>,
    /// Nothing contradicts the records as last seen.
    believed: bool,
    looks: Looks,
    read_due: Moment,
    /// When the last read that counted began.
    read_at: Option<Moment>,
    doubt: Option<Doubt>,
    reading: Option<Reading>,
    applying: Option<Applying>,
    /// When the latest rounds began.
    rounds: VecDeque<Moment>,
    /// The intended records with which the round under way continues, because its changes did not fit into one call.
    goes_on: Option<Wanted>,
    /// The addresses that the latest round removed, in all of its calls.
    removed: BTreeSet<Address>,
    write_failure: Option<Failure<Wanted>>,
    /// The failure of a read without which nothing is known. A successful read ends no failure of a write, because
    /// that write would otherwise never back off.
    read_failure: Option<Failure<()>>,
    /// The failure of a reread of known records.
    reread_failure: Option<Failure<()>>,
}

impl Site {
    /// Whether a call is under way.
    pub fn is_busy(&self) -> bool {
        self.reading.is_some() || self.applying.is_some()
    }

    /// The addresses that the records hold, as last seen.
    pub fn addresses(&self) -> Option<BTreeSet<Address>> {
        self.records.as_deref().map(addresses)
    }

    /// The addresses that the latest round removed.
    pub fn removed(&self) -> &BTreeSet<Address> {
        &self.removed
    }

    /// Whether the records are known and nothing contradicts them.
    pub fn is_known(&self) -> bool {
        self.believed && self.reread_failure.is_none()
    }

    /// Whether the records are known from more than a single look, and no change is under way.
    pub fn is_confirmed(&self) -> bool {
        self.is_known() && self.looks.agree() && self.applying.is_none()
    }

    /// Whether external-dns has marked the name too.
    pub fn is_marked_by_external_dns(&self) -> bool {
        self.records.as_deref().is_some_and(is_marked_by_external_dns)
    }

    /// Whether the name has an alias, so that it cannot have address records.
    pub fn has_alias(&self) -> bool {
        self.records.as_deref().is_some_and(|records| alias(records).is_some())
    }

    /// Whether the known records are as wanted.
    pub fn is_right(&self, wanted: &Wanted) -> bool {
        let records = self.records.as_deref().filter(|_| self.is_known());
        records.is_some_and(|records| alias(records).is_none() && diff(records, wanted).is_empty())
    }

    /// The last failure, how often it came in a row, and its message.
    pub fn failure(&self) -> Option<(FaultKind, u32, &str)> {
        let read = self.read_failure.as_ref().map(parts);
        read.or(self.write_failure.as_ref().map(parts)).or(self.reread_failure.as_ref().map(parts))
    }

    /// Starts again: the records are read before anything is written.
    pub fn restart(&mut self) {
        self.believed = false;
        self.looks.restart();
        self.doubt.iter_mut().for_each(|doubt| doubt.reads = READS_IN_DOUBT);
        self.goes_on = None;
        self.forgive();
    }

    /// Notes that no object names it. True while it has to be kept: until the end of a call, and as long as lists may
    /// still show the records from before our last write.
    pub fn unclaimed(&mut self, now: Moment) -> bool {
        if self.is_busy() {
            return true;
        }
        self.restart();
        self.looks.is_settling(now)
    }

    /// Takes in a change of the token. Calls that the old token was refused may work now.
    pub fn forgive(&mut self) {
        self.write_failure = None;
        self.read_failure = None;
        self.reread_failure = None;
        self.reading.iter_mut().for_each(|reading| reading.outdated = true);
        self.applying.iter_mut().for_each(|applying| applying.outdated = true);
    }

    /// The next step. `settled_at` is when the changes of the intended records have settled. A `paced` site begins only
    /// a limited number of rounds in a row.
    pub fn next(&self, wanted: &Wanted, settled_at: Moment, paced: bool, now: Moment) -> Step {
        if self.applying.is_some() {
            return Step::Busy;
        }
        let failed_write = self.write_failure.as_ref().and_then(|failure| failure.waits(wanted, 0, now));
        let known = self.records.as_deref().filter(|_| self.believed && self.doubt.is_none());
        let changes = known.map(|records| diff(records, wanted)).unwrap_or_default();
        let doubtful = self.looks.hold(known.unwrap_or_default(), &changes);
        let held = doubtful.filter(|until| *until > now);
        if !changes.is_empty() && held.is_none() {
            let changes = match known.filter(|_| doubtful.is_some()) {
                Some(records) => with_proof(records, changes),
                None => changes,
            };
            let paused = self.rounds.front().filter(|_| paced && self.rounds.len() >= MAX_ROUNDS);
            let paused = paused.map_or(now, |first| first.plus_millis(ROUNDS_WINDOW_MS));
            let begins = if self.goes_on.as_ref() == Some(wanted) { now } else { paused.max(settled_at) };
            let begins = begins.max(failed_write.unwrap_or(now));
            return if begins > now { Step::Wait(begins) } else { Step::Apply(changes) };
        }
        if self.reading.is_some() {
            return held.map_or(Step::Busy, Step::Wait);
        }
        let failed_read = self.read_failure.as_ref().and_then(|failure| failure.waits(&(), 0, now));
        let failed_read = failed_read.max(failed_write);
        let doubted = self.doubt.as_ref().map(|doubt| doubt.next).filter(|next| *next > now);
        if let Some(due) = failed_read.or(doubted) {
            return Step::Wait(due);
        }
        if known.is_none() {
            return Step::Read;
        }
        let failed = self.reread_failure.as_ref().map(|failure| failure.retry.due());
        match (failed.or(Some(self.read_due)).filter(|due| *due > now), held) {
            (Some(due), Some(until)) => Step::Wait(due.min(until)),
            (Some(due), None) if failed.is_some() => Step::Wait(due),
            (Some(due), None) => Step::Rest(due),
            (None, Some(_)) => Step::Read,
            (None, None) => Step::Reread,
        }
    }

    /// When the records are due to be read again.
    pub fn read_due(&self) -> Moment {
        self.read_due
    }

    /// Whether the records are due to be read again and no call is under way.
    pub fn is_reread_due(&self, now: Moment) -> bool {
        let failed = self.reread_failure.as_ref().is_some_and(|failure| failure.retry.due() > now);
        !self.is_busy() && self.read_due <= now && !failed
    }

    /// Forgets earlier failures, because the records are as wanted.
    pub fn rested(&mut self) {
        self.write_failure = None;
        self.read_failure = None;
    }

    /// Notes that a read is sent.
    pub fn reading(&mut self, now: Moment) {
        self.reading = Some(Reading { begun: now, outdated: false, overtaken: false });
    }

    /// Notes that a change set is sent, with `left` more changes to follow.
    pub fn applying(
        &mut self,
        wanted: Wanted,
        changes: Vec<Change>,
        left: usize,
        writer: Owner,
        now: Moment,
    ) {
        debug_assert!(self.applying.is_none(), "one change set at a time for a name");
        if self.goes_on.as_ref() != Some(&wanted) {
            self.removed.clear();
            self.rounds.push_back(now);
            if self.rounds.len() > MAX_ROUNDS {
                self.rounds.pop_front();
            }
        }
        self.goes_on = None;
        self.reading.iter_mut().for_each(|reading| reading.overtaken = true);
        self.applying = Some(Applying { wanted, changes, left, writer, outdated: false });
    }

    /// The number of changes under way, and the object that they are for.
    pub fn under_way(&self) -> (usize, Option<Owner>) {
        let applying = self.applying.as_ref();
        applying.map_or((0, None), |applying| (applying.changes.len(), Some(applying.writer.clone())))
    }

    /// Takes in the answer to a read.
    pub fn read(&mut self, result: Result<Vec<Record>, CallFailure>, at @ Context { now, .. }: Context) {
        let begun = match self.reading.take() {
            Some(Reading { begun, outdated: false, overtaken: false }) => begun,
            Some(Reading { .. }) | None => return,
        };
        let records = match result {
            Ok(records) => self.looks.without_gone(begun, records),
            Err(CallFailure::NotSent) => return,
            Err(CallFailure::Fault(fault)) if self.believed => {
                let what = (fault.kind, fault.message.as_str());
                Failure::note(&mut self.reread_failure, what, ((), 0), Pace::of(&fault), at);
                return;
            }
            Err(CallFailure::Fault(fault)) => {
                self.fail_reading(&fault, at);
                return;
            }
        };
        self.reread_failure = None;
        let alias = alias(&records).map(|record| record.data.clone());
        if let Some(doubt) = &mut self.doubt {
            doubt.reads = doubt.reads.saturating_sub(1);
            doubt.next = now.plus_millis(BETWEEN_LOOKS_MS);
            if doubt.reads > 0 {
                self.records = Some(records);
                return;
            }
            self.doubt = None;
            self.looks.trust(begun, &records);
        } else {
            let known = self.records.as_deref().filter(|_| self.believed);
            if self.looks.look(begun, now, known, &records) == Shown::Past {
                self.read_due = self.looks.next().unwrap_or(now);
                return;
            }
        }
        self.records = Some(records);
        self.believed = true;
        self.read_at = Some(begun);
        self.read_due = self.looks.next().unwrap_or(now.plus_millis(RESYNC_MS));
        if let Some(alias) = alias {
            let shown: String = alias.chars().take(253).collect();
            let message = format!(
                "the name has a CNAME to {shown:?}, so it cannot have an address; delete the CNAME, or choose another \
                 recordName"
            );
            let fault = Fault::new(FaultKind::Permanent, message);
            self.believed = false;
            self.fail_reading(&fault, at);
        } else {
            self.read_failure = None;
        }
    }

    /// Notes that only the first `done` changes of the change set under way were sent. True if `records` has every
    /// record that they left. It is then the answer, and the other changes follow without a read.
    pub fn stopped_after(&mut self, done: usize, records: &[Record]) -> bool {
        let Some(applying) = self.applying.as_mut().filter(|_| done > 0) else { return false };
        let kept = applying.changes.iter().take(done);
        if records.len() != kept.filter(|change| !matches!(change, Change::Delete { .. })).count() {
            return false;
        }
        applying.left = applying.left.saturating_add(applying.changes.len().saturating_sub(done));
        applying.changes.truncate(done);
        true
    }

    /// Takes in the answer to a change set: the records that updates and creates left, or how many changes certainly
    /// took effect and why the next one failed.
    pub fn applied(
        &mut self,
        result: Result<Vec<Record>, (usize, CallFailure)>,
        at @ Context { now, .. }: Context,
    ) -> Applied {
        let Some(Applying { wanted, changes, left, writer: _, outdated }) = self.applying.take() else {
            return Applied::NotSent;
        };
        match result {
            Ok(answered) => {
                let expected =
                    changes.iter().filter(|change| !matches!(change, Change::Delete { .. })).count();
                let complete = answered.len() == expected;
                let ids = answered.iter().map(|record| record.id.clone()).collect();
                let before = self.records.as_deref().unwrap_or_default();
                let records = after(before, &changes, answered);
                self.removed.extend(addresses(before).difference(&addresses(&records)));
                let taken = diff(&records, &wanted).changes.len() <= left;
                self.records = Some(records);
                self.believed = complete && !outdated;
                if complete && !taken {
                    let message = "the provider answered with records of other names".to_owned();
                    let kind = FaultKind::Invalid;
                    let fault = Fault { outcome_unknown: true, ..Fault::new(kind, message) };
                    self.distrust((&changes, 0), now);
                    self.fail_writing(&fault, wanted, at);
                    return Applied::Failed(kind);
                }
                if complete && outdated {
                    // The records are read again at once, and a list may still show them as before this write.
                    self.distrust((&changes, changes.len()), now);
                }
                self.write_failure = None;
                self.read_failure = None;
                self.goes_on = (left > 0).then_some(wanted);
                // A list may still show the records from before this write.
                let failed = self.reread_failure.take().map_or(now, |failure| failure.retry.due());
                self.looks.wrote(self.records.as_deref().unwrap_or_default(), ids, &changes, now);
                let settled = self.read_due.max(now.plus_millis(LAG_MS));
                self.read_due = self.looks.next().unwrap_or(settled).max(failed);
                if left > 0 { Applied::Partly } else { Applied::Done }
            }
            Err((0, CallFailure::NotSent)) => {
                self.believed &= !outdated;
                Applied::NotSent
            }
            Err((done, CallFailure::NotSent)) => {
                self.distrust((&changes, done), now);
                Applied::NotSent
            }
            Err((done, CallFailure::Fault(mut fault))) => {
                self.believed = false;
                self.reread_failure = None;
                if fault.kind == FaultKind::NotFound {
                    // Others have deleted the record meanwhile. If the zone is gone instead, the next read shows that.
                    fault.kind = FaultKind::Transient;
                }
                if done > 0 || fault.outcome_unknown {
                    self.distrust((&changes, done), now);
                }
                self.fail_writing(&fault, wanted, at);
                Applied::Failed(fault.kind)
            }
        }
    }

    /// Doubts the records after a change set: its first changes took effect, and the others may have.
    fn distrust(&mut self, changes: (&[Change], usize), now: Moment) {
        self.looks.doubt(self.records.as_deref().unwrap_or_default(), changes, now);
        self.believed = false;
        self.reread_failure = None;
        self.doubt = Some(Doubt { reads: READS_IN_DOUBT, next: now });
    }

    /// Makes every call due that failed with the account, because its outage is over.
    pub fn release(&mut self, now: Moment) {
        Failure::release(&mut self.write_failure, now);
        Failure::release(&mut self.read_failure, now);
        Failure::release(&mut self.reread_failure, now);
    }

    fn fail_writing(&mut self, fault: &Fault, wanted: Wanted, at: Context) {
        let what = (fault.kind, fault.message.as_str());
        Failure::note(&mut self.write_failure, what, (wanted, 0), Pace::of(fault), at);
    }

    fn fail_reading(&mut self, fault: &Fault, at: Context) {
        let what = (fault.kind, fault.message.as_str());
        Failure::note(&mut self.read_failure, what, ((), 0), Pace::of(fault), at);
    }
}

/// The kind, count and message of a failure.
fn parts<I>(failure: &Failure<I>) -> (FaultKind, u32, &str) {
    (failure.kind, failure.retry.tries(), failure.message.as_str())
}

impl Site {
    /// When the last read that counted began.
    pub fn read_at(&self) -> Option<Moment> {
        self.read_at
    }

    /// Whether a change set is under way.
    pub fn is_changing(&self) -> bool {
        self.applying.is_some()
    }

    /// Asks for a read at `since`, unless the last read that counted began then or later.
    pub fn want_read(&mut self, since: Moment) {
        if self.read_at < Some(since) {
            self.read_due = self.read_due.min(since);
        }
    }

    /// The addresses that the records hold, each with its TTL. `None` if the provider chooses the TTL.
    pub fn ttls(&self) -> impl Iterator<Item = (Address, Option<u32>)> {
        let records = self.records.iter().flatten();
        records.filter_map(|record| Some((record.address()?, Some(record.ttl).filter(|_| !record.proxied))))
    }
}

#[cfg(test)]
#[path = "site_tests.rs"]
mod tests;
