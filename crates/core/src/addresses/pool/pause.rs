//! The pause of a pool, which begins nothing while the annotation is present, and then until the account is read
//! again.
//!
//! Operations sent before the pause are finished. Their addresses stay in `finishing` until annotation and record match
//! the result. Everything else on nodes and in DNS stays as it is. This module does not decide what is due without a
//! pause.

use super::Pool;
use super::report::Wait;
use super::status::{IpState, PoolStatus};
use crate::addresses::account::Account;
use crate::addresses::account::belief::Place;
use crate::model::pause::Reason;
use crate::model::{Address, Moment, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the pool may begin anything, and what it finishes during a pause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pause {
    /// Present while the annotation is.
    by: Option<Reason>,
    /// When the annotation was removed, until a list that began later has shown where addresses are.
    lifted: Option<Moment>,
    /// Addresses of operations sent before the pause, each with the uid of the node on which the operation left it.
    finishing: BTreeMap<Address, Option<Uid>>,
}

impl Pause {
    /// Takes in the present annotation.
    pub fn observe(&mut self, annotation: Option<&str>, now: Moment) {
        let by = annotation.map(Reason::new);
        if self.by.is_some() && by.is_none() {
            self.lifted = Some(now);
        }
        self.by = by;
    }

    /// Takes over operations of an earlier leader, which only the status shows.
    pub(super) fn recall(&mut self, status: &PoolStatus) {
        let sent = status
            .ips
            .iter()
            .filter(|(_, entry)| entry.state == IpState::InProgress.as_str() && !entry.node_name.is_empty());
        for ip in sent.filter_map(|(ip, _)| Address::v4(ip)) {
            self.finishing.entry(ip).or_default();
        }
    }

    /// Why the pool is paused, while it is.
    pub fn reason(&self) -> Option<&Reason> {
        self.by.as_ref()
    }

    /// True while nothing may begin.
    pub fn holds(&self) -> bool {
        self.by.is_some() || self.lifted.is_some()
    }

    /// True from the removal of the annotation until the account is read again.
    pub fn is_lifting(&self) -> bool {
        self.by.is_none() && self.lifted.is_some()
    }

    /// Addresses whose operations, annotations and records are being finished.
    pub fn finishing(&self) -> impl Iterator<Item = Address> {
        self.finishing.keys().copied()
    }

    /// Whether an operation from before the pause left the address on this node.
    pub fn finishes_on(&self, ip: Address, node: &Uid) -> bool {
        self.finishing.get(&ip).is_some_and(|on| on.as_ref() == Some(node))
    }

    /// The reason for which candidates wait while nothing may begin.
    pub(super) fn wait(&self) -> Option<Wait> {
        match (&self.by, self.lifted) {
            (Some(reason), _) => Some(Wait::Paused(reason.text())),
            (None, Some(_)) => Some(Wait::Rereading),
            (None, None) => None,
        }
    }
}

impl Pool {
    /// True while the pool may begin something at the provider, in DNS or on nodes.
    pub fn may_begin(&self) -> bool {
        self.is_live() && !self.pause.holds()
    }

    /// Asks for a new list after a pause, which ends the pause. Only for a pool whose account is known.
    pub fn look_after_pause(&mut self, account: &mut Account) {
        if let Some(since) = self.pause.lifted.filter(|_| self.pause.is_lifting()) {
            if account.was_listed_since(since) {
                self.pause.lifted = None;
            } else {
                account.want_list(since);
            }
        }
        if !self.pause.holds() {
            self.pause.finishing.clear();
        }
    }

    /// Follows operations sent before the pause to where they leave their addresses.
    pub fn follow_sent(&mut self, account: &Account) {
        if !self.pause.holds() {
            return;
        }
        let mut finishing = std::mem::take(&mut self.pause.finishing);
        let sent = account.ops().filter(|(_, op)| op.pool == self.object.uid);
        finishing.extend(sent.map(|(ip, _)| (ip, None)));
        let matched = self.nodes.matched;
        finishing.retain(|ip, on| {
            let under_way = match account.place(*ip) {
                Place::Unknown => true,
                Place::Present { locked, .. } => *locked,
                Place::Absent => false,
            };
            if !matched || account.op(*ip).is_some() || under_way && on.is_none() {
                return true;
            }
            let candidate = self.report.active.get(ip).and_then(|node| self.candidates.get(node));
            match (&on, candidate) {
                (None, Some(candidate)) => {
                    *on = Some(candidate.node.uid.clone());
                    true
                }
                (Some(on), Some(candidate)) => *on == candidate.node.uid,
                (_, None) => false,
            }
        });
        self.pause.finishing = finishing;
    }

    /// Drops addresses that are done: annotation and record are as they should be.
    pub fn has_finished(&mut self, is_done: impl Fn(Address, &Uid) -> bool) {
        self.pause.finishing.retain(|ip, on| on.as_ref().is_none_or(|on| !is_done(*ip, on)));
    }

    /// The addresses whose annotations stay where they are. `known` says whether the account is known.
    pub fn kept_still(&self, known: bool) -> BTreeSet<Address> {
        let mut still: BTreeSet<Address> = self.effective().into_iter().chain(self.former()).collect();
        still.extend(self.effective_before());
        let finishes = |ip: &Address| known && self.nodes.matched && self.pause.finishing.contains_key(ip);
        still.retain(|ip| !finishes(ip));
        still
    }
}
