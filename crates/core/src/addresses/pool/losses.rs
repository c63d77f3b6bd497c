//! Holders that stopped matching since the last plan: the reason, and where their addresses go. Also each change of an
//! address's place, kept for people who want to know later what happened.
//!
//! Owns the one message for each plan. Does not decide who gets an address.

use super::report::Wait;
use super::{Candidate, Pool};
use crate::addresses::account::belief::Place;
use crate::addresses::account::op::{Op, OpKind};
use crate::addresses::account::{Account, Finished};
use crate::mechanism::Notice;
use crate::model::catalog::events::EventReason;
use crate::model::{Address, MachineId, Mismatch, Moment, ObjectName};
use std::collections::{BTreeMap, BTreeSet};

/// The most nodes that one message names.
const MAX_NAMED: usize = 3;

/// One message about several losses, each with its reason and what happens next. `None` without any.
pub(crate) fn summary(reported: &[(String, String)], many: &str) -> Option<String> {
    match reported {
        [] => None,
        [(why, next)] => Some(format!("{why}: {next}")),
        several => {
            let named: Vec<String> =
                several.iter().take(MAX_NAMED).map(|(why, next)| format!("{why} ({next})")).collect();
            let more = several.len().saturating_sub(MAX_NAMED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            Some(format!("{} {many}: {}{more}", several.len(), named.join(", ")))
        }
    }
}

/// A matching node with an address, and how it lost its match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Its name.
    pub node: String,
    /// Why it no longer matches.
    pub why: Mismatch,
    /// When it lost its match, which is the end of its grace if it had one.
    pub at: Moment,
    /// When a plan found it.
    pub noticed: Moment,
}

/// Losses without an Event yet, by address.
#[derive(Debug, Default)]
pub(super) struct Losses {
    lost: BTreeMap<Address, Loss>,
}

impl Losses {
    /// Whether every loss has its Event.
    pub(super) fn are_reported(&self) -> bool {
        self.lost.is_empty()
    }

    /// Notes that a node with an address no longer matches.
    pub(super) fn note(&mut self, ip: Address, node: &str, why: Mismatch, at: Moment) {
        self.lost.insert(ip, Loss { node: node.to_owned(), why, at, noticed: at });
    }
}

impl Pool {
    /// While the account is unknown, forgets confirmed places on nodes that no longer match or have become other
    /// machines. All other places stay confirmed.
    pub fn forget_mismatched(&mut self, account: &Account) {
        if self.nodes.matched && self.is_live() {
            let candidates = &self.candidates;
            self.report.active.retain(|ip, node| {
                let place = account.place(*ip).machine();
                let same =
                    |candidate: &Candidate| place.is_none() || candidate.node.machine.as_ref() == place;
                candidates.get(node).is_some_and(same)
            });
        }
    }

    /// The Event about holders that lost their match, after the plan that follows. A holder that matches again, or
    /// whose address is no longer used, is no loss.
    pub(crate) fn tell_losses(&mut self, account: &Account, now: Moment) -> Option<Notice> {
        if self.losses.lost.is_empty() {
            return None;
        }
        let lost = std::mem::take(&mut self.losses.lost);
        let used: BTreeSet<Address> = self.used().into_iter().collect();
        let mut orphaned = false;
        let mut reported = Vec::new();
        let receivers = self.candidates.waits().filter(|(_, wait)| wait.takes()).take(lost.len());
        let receivers: Vec<(String, Wait)> =
            receivers.map(|(name, wait)| (name.to_string(), wait.clone())).collect();
        let mut receivers = receivers.iter();
        for (ip, loss) in lost {
            if !used.contains(&ip) || self.report.active.contains_key(&ip) {
                continue;
            }
            let (taken, next) = self.what_becomes_of(ip, &mut receivers, account);
            orphaned |= !taken;
            reported.push((format!("{} {}", loss.node, loss.why), next));
            self.ips.entry(ip).or_default().left = Some(Loss { noticed: now, ..loss });
        }
        let message = summary(&reported, "nodes with an address no longer match")?;
        Some(self.notice(orphaned, EventReason::MatchLost, "match", message))
    }

    /// Whether another node takes over the address, and the text for users. Each of the `receivers` takes one.
    fn what_becomes_of<'a>(
        &self,
        ip: Address,
        receivers: &mut impl Iterator<Item = &'a (String, Wait)>,
        account: &Account,
    ) -> (bool, String) {
        if let Some(op) = account.op(ip) {
            return (true, format!("{ip} moves to {}", op.node.1));
        }
        match receivers.next() {
            Some((node, wait)) => (true, format!("{ip} waits for {node}: {}", self.text_of(wait))),
            None => (false, format!("{ip} stays there, because {}", self.why_no_other())),
        }
    }

    /// The node that had an address last and no longer matches.
    pub(crate) fn left(&self, ip: Address) -> Option<&Loss> {
        self.ips.get(&ip)?.left.as_ref()
    }

    /// The node or machine that an operation takes an address from. Empty if it was on none.
    fn source(&self, ip: Address, op: &Op) -> String {
        match (self.left(ip).filter(|_| op.kind == OpKind::Assign), &op.from) {
            (Some(loss), Some(_)) => loss.node.clone(),
            (_, Some(from)) => self.candidate_on(from).map_or_else(|| from.to_string(), ToOwned::to_owned),
            (_, None) => String::new(),
        }
    }

    /// A finished operation, as `/debug` shows it.
    pub(crate) fn change_of(&self, finished: &Finished, now: Moment) -> Change {
        let Finished { ip, op, .. } = finished;
        let assigns = op.kind == OpKind::Assign;
        let by_hand = assigns && self.moving.is_sent(*ip);
        let (left, from) = (self.left(*ip), self.source(*ip, op));
        let reason = match (op.kind, left, &op.from) {
            (OpKind::Assign, ..) if by_hand => "moved by hand".to_owned(),
            (OpKind::Unassign { successor: Some(successor) }, ..) => format!("makes room for {successor}"),
            (OpKind::Unassign { successor: None }, ..) => "is released".to_owned(),
            (OpKind::Assign, Some(Loss { node, why, .. }), _) => format!("{node} {why}"),
            (OpKind::Assign, None, Some(_)) => "was on no matching node".to_owned(),
            (OpKind::Assign, None, None) => "was unassigned".to_owned(),
        };
        let moved = match (left, &op.from) {
            _ if by_hand => Some(MANUAL),
            (Some(loss), _) => Some(loss.why.kind()),
            (None, Some(_)) => Some(UNSEEN),
            (None, None) => None,
        };
        let failover = left.filter(|_| assigns && !by_hand).map(|loss| Failover {
            lost: loss.at,
            noticed_ms: loss.noticed.millis_since(loss.at),
            requested_ms: op.started.millis_since(loss.at),
            confirmed_ms: now.millis_since(loss.at),
        });
        Change {
            at: now,
            object: self.object.name.clone(),
            ip: *ip,
            from,
            to: if assigns { op.node.1.clone() } else { String::new() },
            reason,
            moved: moved.filter(|_| assigns),
            phases: Some(Phases {
                decided_ms: op.started.millis_since(op.caused),
                confirmed_ms: now.millis_since(op.started),
                published_ms: None,
            }),
            failover,
        }
    }

    /// Counts a move by its reason.
    pub(crate) fn count_move(&mut self, moved: Option<&'static str>) {
        if let Some(reason) = moved {
            *self.moves.entry(reason).or_default() += 1;
        }
    }

    /// A move that somebody else made, as `/debug` shows it.
    pub(crate) fn change_by_others(&self, ip: Address, place: &Place, now: Moment) -> Change {
        let name = |machine: &MachineId| {
            self.candidate_on(machine).map_or_else(|| machine.to_string(), ToOwned::to_owned)
        };
        Change {
            at: now,
            object: self.object.name.clone(),
            ip,
            from: self.report.active.get(&ip).cloned().unwrap_or_default(),
            to: place.machine().map(name).unwrap_or_default(),
            reason: "changed by others".to_owned(),
            moved: None,
            phases: None,
            failover: None,
        }
    }

    /// The reason why an address without a matching node goes to no other node now.
    pub(super) fn why_no_other(&self) -> String {
        if let Some((node, wait)) = self.candidates.waits().find(|(_, wait)| wait.takes()) {
            return format!("{node} waits for an address ({})", self.text_of(wait));
        }
        let blocked = self.candidates.waits().find(|(_, wait)| !matches!(wait, Wait::InFlight(_)));
        match blocked {
            Some((node, wait)) => format!("no matching node can take one ({node}: {})", self.text_of(wait)),
            None if self.candidates.is_empty() => "no other node matches".to_owned(),
            None if !self.candidates.any_waits() => "every matching node has an address".to_owned(),
            None => "no matching node is free".to_owned(),
        }
    }
}

/// One address that moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it was confirmed, or noticed.
    pub at: Moment,
    /// The pool.
    pub object: ObjectName,
    /// The address.
    pub ip: Address,
    /// The node or machine that it was on. Empty if it was on none.
    pub from: String,
    /// The node or machine that it is on now. Empty if it is on none.
    pub to: String,
    /// Why.
    pub reason: String,
    /// The reason in one word, if the operator moved the address from one node to another.
    pub moved: Option<&'static str>,
    /// How long the move took, if the operator made it.
    pub phases: Option<Phases>,
    /// How long the move took from the old node's loss of its match, if that was the cause.
    pub failover: Option<Failover>,
}

/// The duration of each part of a move, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// From the change of nodes or pods to the request.
    pub decided_ms: u64,
    /// From the request to the provider's confirmation.
    pub confirmed_ms: u64,
    /// From the confirmation until the pool's records held the address.
    pub published_ms: Option<u64>,
}

/// When each phase of a failover ended, in milliseconds since the node lost its match at the end of its grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failover {
    /// When the node lost its match.
    pub lost: Moment,
    /// A plan found the loss.
    pub noticed_ms: u64,
    /// The request was sent.
    pub requested_ms: u64,
    /// The provider confirmed the move.
    pub confirmed_ms: u64,
}

/// A user asked for the move.
pub const MANUAL: &str = "Manual";

/// The address was on no matching node when this process began to lead.
pub const UNSEEN: &str = "Unseen";
