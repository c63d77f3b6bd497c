//! The nodes of one object that lost their match or may lose it. Decides which node keeps its match for a while, and
//! which has to wait until it counts again.
//!
//! Invariants: without `spec.grace` this module only delays the verdict of a check until its proof. Only a node that
//! serves keeps its match beyond the next plan. A node that still has its address never waits. No node waits while no
//! other node matches.

use super::suspicion::{Clocks, Suspicion};
use crate::model::spec::Grace;
use crate::model::{Class, Context, Mismatch, Moment, NodeFacts, NodeStore, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// The earliest time between the end of a reported suspicion and the report of the next one of the same node. Without
/// it, a pod that crashes repeatedly would cause a status write each time.
const QUIET_MS: u64 = 60_000;

/// A node that has been gone for longer than this is forgotten.
const GONE_MS: u64 = 3_600_000;

/// The most reads under way for one object. When a whole zone fails, all its nodes become suspect at once.
const MAX_ASKED: usize = 8;

/// The facts for a decision about one node.
#[derive(Debug)]
pub struct Look<'a> {
    /// The node.
    pub node: &'a NodeFacts,
    /// Whether it matches now.
    pub verdict: Result<(), Mismatch>,
    /// It had its match at the last look, and is still the same machine.
    pub member: bool,
    /// Whether the status says that it serves: `Some`, with the start of the suspicion if the status reports one.
    pub serves_by_status: Option<Option<i64>>,
    /// The criteria were edited since the last look.
    pub edited: bool,
}

/// The result of a look at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// It matches, or counts as if it did.
    Member,
    /// It matches, and has to keep matching for a while before it counts.
    Recovering,
    /// It does not match.
    Out(Mismatch),
}

/// How a suspicion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The node matches again.
    Recovered,
    /// Its grace ran out.
    Expired,
    /// The node got a failure without a grace.
    Overruled,
}

/// A suspicion of a node that serves, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Name of the node.
    pub node: String,
    /// The suspicion.
    pub suspicion: Suspicion,
    /// How it ended.
    pub end: End,
    /// When.
    pub at: Moment,
}

impl Ended {
    /// The text for users about a failure that was reported and has passed.
    pub fn avoided(&self, outcome: &str) -> Option<String> {
        let seconds = self.suspicion.lasted_ms(self.at).div_ceil(1_000);
        let avoided = self.end == End::Recovered && self.suspicion.is_reported();
        avoided.then(|| format!("{} matches again after {seconds} s and {outcome}", self.node))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Recovery {
    node: String,
    /// When it lost its match.
    lost: Moment,
    /// When it began to match again.
    since: Option<Moment>,
}

/// The nodes of one object that fail, or have failed.
#[derive(Debug, Clone, Default)]
pub struct Suspects {
    suspicions: BTreeMap<String, Suspicion>,
    /// The earliest moment at which the next suspicion of a node may be reported.
    quiet: BTreeMap<Uid, Moment>,
    /// Nodes that lost their match while this process watched.
    lost: BTreeMap<Uid, Recovery>,
    /// Nodes that fail and have no grace left. The status may still call such a node active until its next write
    /// succeeds.
    given_up: BTreeSet<Uid>,
    /// Suspicions that ended since the last plan.
    ended: Vec<Ended>,
    /// Something has changed since the last call of [`Suspects::take_touched`].
    touched: bool,
}

impl Suspects {
    /// The node's suspicion, if it keeps its match in spite of a failure.
    pub fn of(&self, node: &str) -> Option<&Suspicion> {
        self.suspicions.get(node)
    }

    /// The nodes that keep their match in spite of a failure.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Suspicion)> {
        self.suspicions.iter()
    }

    /// The suspicions that status and Events report.
    pub fn reported(&self) -> impl Iterator<Item = (&String, &Suspicion)> {
        self.suspicions.iter().filter(|(_, suspicion)| suspicion.reported)
    }

    /// Whether no node fails, or is remembered for a failure.
    pub fn is_empty(&self) -> bool {
        self.suspicions.is_empty() && self.ended.is_empty() && !self.touched && !self.remembers_nodes()
    }

    /// Whether something here has changed since the last call, so that a plan is due.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// Leadership begins. An earlier suspicion continues only if the status confirms it.
    pub fn distrust(&mut self) {
        self.suspicions.values_mut().for_each(Suspicion::inherit);
        self.given_up.clear();
        self.ended.clear();
    }

    /// Decides whether a node counts as matching.
    pub fn look(&mut self, look: Look<'_>, grace: &Grace, clocks: Clocks) -> Membership {
        let Look { node, verdict, member, serves_by_status, edited } = look;
        let Err(why) = verdict else {
            self.given_up.remove(&node.uid);
            self.end(&node.name, End::Recovered, clocks.now);
            return if member { Membership::Member } else { self.recovers(node, grace, clocks.now) };
        };
        if let Some(matches_again) = self.lost.get_mut(&node.uid) {
            matches_again.since = None;
        }
        let known = self.suspicions.get_mut(&node.name).filter(|known| member && known.uid == node.uid);
        if why.class() == Class::Hard {
            return self.out(node, member, why, grace, clocks.now);
        }
        // An edit of the criteria cannot cause the failure of a check.
        let by_check = why.is_by_check();
        if edited && !by_check && known.as_ref().is_none_or(|known| *known.why() != why) {
            return self.out(node, member, Mismatch::Edited, grace, clocks.now);
        }
        let limit_ms = grace.limit_ms(why.class());
        // Without a grace, only the failure of a check needs a proof before the match ends.
        let was_by_check = known.as_ref().is_some_and(|known| known.why().is_by_check());
        if was_by_check && !by_check && limit_ms == 0 {
            return self.out(node, member, why, grace, clocks.now);
        }
        if let Some(known) = known {
            if std::mem::take(&mut known.inherited) {
                let Some(reported_since_s) = serves_by_status else {
                    // By the status, the predecessor has already ended its match.
                    self.suspicions.remove(&node.name);
                    return Membership::Out(why);
                };
                known.take_over(reported_since_s);
            }
            self.touched |= *known.why() != why;
            known.is_seen(node, why, clocks);
            return Membership::Member;
        }
        if limit_ms == 0 && !(member && by_check) {
            return self.out(node, member, why, grace, clocks.now);
        }
        let new = if member {
            Suspicion::begin(node, why, clocks)
        } else if self.given_up.contains(&node.uid) {
            return Membership::Out(why);
        } else {
            let Some(reported_since_s) = serves_by_status else { return Membership::Out(why) };
            Suspicion::resume(node, &why, reported_since_s, grace, clocks)
        };
        self.touched = true;
        self.suspicions.insert(node.name.clone(), new);
        Membership::Member
    }

    /// The node no longer matches.
    fn out(
        &mut self,
        node: &NodeFacts,
        member: bool,
        why: Mismatch,
        grace: &Grace,
        now: Moment,
    ) -> Membership {
        self.end(&node.name, End::Overruled, now);
        if *grace != Grace::default() {
            self.given_up.insert(node.uid.clone());
        }
        if member {
            self.note_lost(node.name.clone(), node.uid.clone(), grace, now);
        }
        Membership::Out(why)
    }

    fn note_lost(&mut self, node: String, uid: Uid, grace: &Grace, now: Moment) {
        if grace.recovery_ms > 0 {
            self.lost.insert(uid, Recovery { node, lost: now, since: None });
        }
    }

    /// The watch no longer shows the node: it is gone, or its labels are. `member` is the uid of the node that had its
    /// match.
    pub fn unseen(&mut self, node: &str, member: Option<&Uid>, grace: &Grace, now: Moment) {
        for recovery in self.lost.values_mut().filter(|recovery| recovery.node == node) {
            (recovery.lost, recovery.since) = (now, None);
        }
        if let Some(uid) = member {
            self.note_lost(node.to_owned(), uid.clone(), grace, now);
        }
    }

    /// The nodes that match, and have to keep matching for a while before they count.
    pub fn recovering(&self) -> impl Iterator<Item = &str> {
        self.lost.values().filter(|recovery| recovery.since.is_some()).map(|recovery| recovery.node.as_str())
    }

    /// Whether the node matches, and has to keep matching for a while before it counts.
    pub fn is_recovering(&self, node: &str) -> bool {
        self.recovering().any(|recovering| recovering == node)
    }

    /// The node is gone, or another machine has its name.
    pub fn gone(&mut self, node: &str, now: Moment) {
        self.end(node, End::Overruled, now);
    }

    fn recovers(&mut self, node: &NodeFacts, grace: &Grace, now: Moment) -> Membership {
        let Some(recovery) = self.lost.get_mut(&node.uid) else { return Membership::Member };
        self.touched |= recovery.since.is_none();
        let since = *recovery.since.get_or_insert(now);
        if now.millis_since(since) < grace.recovery_ms {
            return Membership::Recovering;
        }
        self.lost.remove(&node.uid);
        Membership::Member
    }

    fn end(&mut self, node: &str, end: End, at: Moment) {
        let Some(suspicion) = self.suspicions.remove(node) else { return };
        self.touched = true;
        if suspicion.reported {
            self.quiet.insert(suspicion.uid.clone(), at.plus_millis(QUIET_MS));
        }
        if suspicion.serves {
            self.ended.push(Ended { node: node.to_owned(), suspicion, end, at });
        }
    }

    /// The suspicions of serving nodes that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// Whether something is remembered about nodes that may be gone.
    fn remembers_nodes(&self) -> bool {
        !(self.lost.is_empty() && self.quiet.is_empty() && self.given_up.is_empty())
    }

    /// Forgets nodes that no longer exist. A node that lost its labels may get them back, and then has to match for
    /// the recovery time.
    pub fn keep(&mut self, nodes: &NodeStore, now: Moment) {
        if !self.remembers_nodes() {
            return;
        }
        let live: BTreeSet<&Uid> = nodes.iter().map(|node| &node.uid).collect();
        let is_live = |uid: &Uid| live.contains(uid);
        self.lost.retain(|uid, recovery| is_live(uid) || now.millis_since(recovery.lost) < GONE_MS);
        self.quiet.retain(|uid, _| is_live(uid));
        self.given_up.retain(|uid| is_live(uid));
    }

    /// Ends the suspicions of nodes that do not serve, and of nodes whose failure is proved after their grace. Returns
    /// the nodes that thereby lose their match, and why.
    pub fn settle(
        &mut self,
        serving: &BTreeSet<String>,
        grace: &Grace,
        now: Moment,
    ) -> Vec<(String, Mismatch)> {
        let mut out = Vec::new();
        for (node, suspicion) in &mut self.suspicions {
            suspicion.serves = serving.contains(node);
            suspicion.review(grace, now);
            if !suspicion.serves || suspicion.is_over(grace, now) {
                out.push((node.clone(), suspicion.why().clone()));
            }
        }
        for (node, _) in &out {
            if let Some(uid) = self.suspicions.get(node).map(|suspicion| suspicion.uid.clone()) {
                self.given_up.insert(uid.clone());
                self.note_lost(node.clone(), uid, grace, now);
            }
            self.end(node, End::Expired, now);
        }
        // These reports no longer delay the next one.
        self.quiet.retain(|_, until| *until > now);
        out
    }

    /// The nodes whose failure has to be proved now, and when to ask again. Each answer must name `now`.
    pub fn ask(&mut self, grace: &Grace, now: Moment) -> (Vec<String>, Option<Moment>) {
        let mut room = MAX_ASKED.saturating_sub(self.suspicions.values().filter(|s| s.is_asked()).count());
        let (mut asked, mut later) = (Vec::new(), None);
        for (node, suspicion) in &mut self.suspicions {
            match suspicion.ask_at(grace) {
                Some(at) if at > now => later = later.into_iter().chain([at]).min(),
                // If there is no room, the answers to the reads under way cause the next plan.
                Some(_) if room > 0 => {
                    room -= 1;
                    suspicion.ask(now);
                    asked.push(node.clone());
                }
                Some(_) | None => {}
            }
        }
        (asked, later)
    }

    /// Takes in the answer to a read that [`Suspects::ask`] wanted at `asked`: whether the node matches and, if not,
    /// when its failure began by its own report. `None` if the read failed.
    pub fn proved(
        &mut self,
        (node, asked): (&str, Moment),
        read: Option<Result<(), (Mismatch, Option<i64>)>>,
        grace: &Grace,
        clocks: Clocks,
        at: Context,
    ) {
        if let Some(suspicion) = self.suspicions.get_mut(node) {
            suspicion.proved(asked, read, grace, clocks, at);
        }
    }

    /// The suspicions of serving nodes that are reported from now on, and when the next one is due.
    pub fn tell(&mut self, now: Moment) -> (Vec<(String, Suspicion)>, Option<Moment>) {
        let (mut reported, mut later) = (Vec::new(), None);
        for (node, suspicion) in self.suspicions.iter_mut().filter(|(_, s)| s.serves && !s.reported) {
            let quiet = self.quiet.get(&suspicion.uid).copied().unwrap_or_default();
            let at = suspicion.reported_at().max(quiet);
            if at > now {
                later = later.into_iter().chain([at]).min();
            } else {
                suspicion.reported = true;
                reported.push((node.clone(), suspicion.clone()));
            }
        }
        (reported, later)
    }

    /// The nodes to look at again, because they have matched for long enough or `at_once` wants them, and when the
    /// next one is due.
    pub fn recovered(
        &mut self,
        at_once: impl Fn(&str) -> bool,
        grace: &Grace,
        now: Moment,
    ) -> (BTreeSet<String>, Option<Moment>) {
        let (mut due, mut later) = (BTreeSet::new(), None);
        self.lost.retain(|_, recovery| {
            let Some(since) = recovery.since else { return true };
            let at = since.plus_millis(grace.recovery_ms);
            if at <= now || at_once(&recovery.node) {
                due.insert(recovery.node.clone());
                return false;
            }
            later = later.into_iter().chain([at]).min();
            true
        });
        (due, later)
    }
}
