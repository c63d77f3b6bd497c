//! Moves by hand: whether a request can be met, when the move begins, and the report to users.
//!
//! The request is an annotation. Its answer is `status.lastMove`, which is on the server as pending before anything is
//! sent. Invariants: a request is carried out at most once. An answer is final. The planner decides first. A moved
//! address then stays in its place like any other.

use super::super::Pool;
use super::super::candidates::{Free, Receiver};
use super::super::report::Wait;
use super::super::world::World;
use super::progress::{Sight, Stage, Unkept};
use super::result::{LastMove, MoveOutcome, Request};
use crate::addresses::account::Account;
use crate::addresses::account::belief::{Belief, Place};
use crate::addresses::account::op::{End, Op, OpKind};
use crate::addresses::action::Action;
use crate::mechanism::{Effects, Failure, LAG_MS, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::words::second_of_day;
use crate::model::{Address, Context, FaultKind, MachineId, Mismatch, Moment};
use std::sync::Arc;

/// The remedy for a move that is not repeated.
const ANEW: &str = "to move the address, set the annotation again with another text after #";

/// The reason why nothing moves if the answer would be lost.
const PRUNED: &str =
    "the installed CRDs drop status.lastMove; apply the CRDs of this version (kubectl apply -f crds)";

/// The reasons for waits that only a move by hand has.
const REFUSED: &str = "the provider refused the request for now, and FLIPOP retries it";
const LABELS: &str = "labels are being removed from the node that has the address";
const DOUBTED: &str = "FLIPOP reads the address before it moves";

/// The reason why a move does not begin now.
enum Unfit {
    /// It never begins.
    Refused(String),
    /// Something else comes first. Holds the reason for users, and when to look again, if only time is missing.
    Waits(String, Option<Moment>),
}

impl Unfit {
    fn waits(why: impl Into<String>) -> Self {
        Self::Waits(why.into(), None)
    }
}

impl Pool {
    /// Whether a user may have an address moved now, and if not, why.
    fn may_move_by_hand(&self) -> Result<(), String> {
        if self.spec.is_frozen() {
            return Err("the pool is frozen, because its spec is invalid".to_owned());
        }
        if self.pause.reason().is_some() {
            return Err("the pool is paused".to_owned());
        }
        Ok(())
    }

    /// The node that a request to move names, if it is not among the candidates.
    pub(crate) fn move_target(&self) -> Option<String> {
        let request = Request::parse(self.moving.wanted()?).ok()?;
        Some(request.node).filter(|node| !self.candidates.contains(node))
    }

    /// Whether an address is about to serve elsewhere. During a move by hand it serves in its old place until the
    /// provider answers, because the provider may refuse the move.
    pub(crate) fn leaves(&self, ip: Address, account: &Account) -> bool {
        account.op(ip).is_some_and(|op| !(op.is_unanswered() && self.moving.is_sent(ip)))
    }

    /// The move by hand that is not finished.
    pub(crate) fn pending_move(&self) -> Option<LastMove> {
        self.moving.last_move().filter(LastMove::is_pending)
    }

    /// Whether a user had asked a former leader to move the address to this node. Then nobody else moved it.
    pub(crate) fn was_to_move(&self, ip: Address, node: Option<&str>) -> bool {
        let recalled = matches!(self.moving.stage, Stage::Recalled(_));
        let asked = self.moving.last.as_ref().filter(|last| recalled && last.is_pending());
        asked.is_some_and(|last| last.ip == Some(ip) && Some(last.to.as_str()) == node)
    }

    /// Answers a request as far as that is possible without knowing the account.
    pub(crate) fn weigh_move<A>(&mut self, (epoch_ms, now): (u64, Moment), out: &mut Effects<A>) {
        if self.is_unread() || self.deleting {
            return;
        }
        self.moving.epoch_ms = epoch_ms;
        if self.moving.is_open() && !self.moving.asks_again(self.moving.request.as_deref()) {
            let why = "the annotation was changed before the move began";
            out.tell([self.close_move(MoveOutcome::Interrupted, why, now)]);
        }
        self.yield_to_another(now);
        let Some(request) = self.moving.request.clone() else { return };
        if self.moving.asks_again(Some(&request)) {
            if self.moving.sight == Sight::Again {
                self.moving.sight = Sight::Old;
                let why = format!("the same request was answered before; {ANEW}");
                out.tell([self.move_notice(MoveOutcome::Ignored, &why)]);
            }
        } else if self.moving.stage == Stage::Idle && self.moving.sight == Sight::Old {
            self.moving.begin(&request, String::new());
            let why = format!(
                "the request may be an old one, because it was there when this leader first saw the pool; {ANEW}"
            );
            out.tell([self.close_move(MoveOutcome::Ignored, &why, now)]);
        }
        let wanted = self.moving.wanted().is_some();
        if wanted && let Err(why) = self.evaluate(&request) {
            out.tell([self.refuse_move(&request, &why, now)]);
        }
    }

    /// Whether a request can be met, judged by the pool alone.
    fn evaluate(&self, request: &str) -> Result<(), String> {
        Request::parse(request)?;
        self.may_move_by_hand()?;
        let pruned = self.creation.crds_outdated.then_some(Unkept::Pruned);
        match pruned.or(self.moving.unkept) {
            None => Ok(()),
            Some(Unkept::Pruned) => Err(PRUNED.to_owned()),
            Some(Unkept::Denied) => Err("the status of the pool cannot be written".to_owned()),
        }
    }

    /// Gives up a request that is pending on the server and that another process wrote. That process may have sent it.
    fn yield_to_another(&mut self, now: Moment) {
        let stored = self.on_server.last_move.as_ref();
        let writing = self.writes.status_ready(now) == Err(None);
        let same = |stored: &&LastMove| self.moving.asks_again(Some(&stored.request));
        if self.moving.stage == Stage::Announcing
            && !writing
            && let Some(stored) = stored.filter(same).cloned()
        {
            self.moving.stage = if stored.is_pending() { Stage::Recalled(None) } else { Stage::Idle };
            self.moving.last = Some(stored);
        }
    }

    /// Decides on a move, after the planner's own decisions. So a failover goes first.
    pub(crate) fn plan_move(
        &mut self,
        account: &mut Account,
        world: &World<'_>,
        why_not: Option<&Mismatch>,
        out: &mut Effects<Action>,
    ) {
        if let Stage::Recalled(since) = self.moving.stage {
            return self.settle_move(since, account, world.now, out);
        }
        let Some(wanted) = self.moving.wanted().cloned() else { return };
        // A request that cannot be read was refused before.
        let Ok(request) = Request::parse(&wanted) else { return };
        let fit = self.fit(&request, account, world, why_not);
        let mut unlabelling = None;
        let (why, at) = match fit {
            Err(Unfit::Refused(why)) => {
                out.tell([self.refuse_move(&wanted, &why, world.now)]);
                return;
            }
            Err(Unfit::Waits(why, at)) => (why, at),
            Ok((free, receiver)) if self.moving.stage == Stage::Announced => {
                let due = Some(self.moving.retry.due()).filter(|due| *due > world.now);
                let may = match due {
                    Some(due) => Err((REFUSED.to_owned(), Some(due))),
                    None => {
                        self.may_assign(false, account, world).map_err(|(wait, at)| self.reason(&wait, at))
                    }
                };
                if may.is_ok() {
                    let (leaves, to) = receiver.leaves(&free);
                    unlabelling = self.waits_for_labels(leaves, to, world, out);
                }
                if may.is_ok() && unlabelling.is_none() {
                    self.start(&free, &receiver, world.now, account, world, out);
                    let from = self.stands_on(free.from.as_ref());
                    let name = self.candidates.named(&request.node).map(|(name, _)| Arc::clone(name));
                    if let Some(name) = name {
                        self.candidates.note_wait(&name, Some(Wait::InFlight(request.ip)));
                    }
                    self.moving.stage = Stage::Sent(request.ip);
                    if let Some(last) = &mut self.moving.last {
                        last.from = from;
                    }
                }
                let labels = unlabelling.as_ref().map(|_| (LABELS.to_owned(), None));
                may.err().or(labels).unwrap_or_default()
            }
            Ok(_) => (String::new(), None),
        };
        out.later(at);
        if let Some(wait) = unlabelling {
            self.unlabelling.wait(wait);
        }
        if self.moving.stage == Stage::Idle {
            let from = self.stands_on(account.place(request.ip).machine());
            self.moving.begin(&wanted, from);
            self.moving.note(MoveOutcome::Pending, "", world.now);
            self.moving.stage = Stage::Announcing;
        }
        self.moving.waits_for(why);
    }

    /// A wait for users, with the time of its end if that stays the same, and when to look again.
    fn reason(&self, wait: &Wait, at: Option<Moment>) -> (String, Option<Moment>) {
        let why = self.text_of(wait);
        let lasting =
            matches!(wait, Wait::CoolOff | Wait::RetryAt(..) | Wait::Pending(..) | Wait::Firewall(_));
        let until = at.filter(|_| lasting).map(|at| second_of_day(at, self.moving.epoch_ms));
        (until.map_or(why.clone(), |until| format!("{why}, until {until}")), at)
    }

    /// The address and the node, if the address can go to the node now.
    fn fit<'a>(
        &'a self,
        Request { ip, node }: &Request,
        account: &Account,
        world: &World<'_>,
        why_not: Option<&Mismatch>,
    ) -> Result<(Free, Receiver<'a>), Unfit> {
        let refused = |why: String| Err(Unfit::Refused(why));
        if let Some(owner) = world.owners.get(ip).filter(|owner| owner.uid != self.object.uid) {
            return refused(format!("{ip} belongs to the pool {}", owner.name));
        }
        if !self.used().contains(ip) {
            let disabled = self.effective().contains(ip);
            let why = if disabled { "is disabled" } else { "is not an address of the pool" };
            return refused(format!("{ip} {why}"));
        }
        let Some((name, candidate)) = self.candidates.named(node) else {
            return refused(match why_not {
                None if self.nodes.suspects.is_recovering(node) => {
                    format!("{node} has matched again, but not yet for spec.grace.recoverySeconds")
                }
                None | Some(Mismatch::Gone) => format!("no node named {node} has the labels of spec.match"),
                Some(why) => format!("{node} {why}"),
            });
        };
        if let Some(suspicion) = self.nodes.suspects.of(name) {
            return refused(format!("{node} {}", suspicion.why()));
        }
        let there = candidate.node.machine.as_ref();
        let standing = there.and_then(|on| world.sights.standing.get(on)).map(|(_, held)| held);
        let held = standing.or_else(|| there.and_then(|on| world.sights.holders.get(on)));
        if let Some(held) = held {
            return refused(format!("{node} already has {held}"));
        }
        let (machine, region) = match account.place(*ip) {
            Place::Present { machine, region, locked: false } => (machine.clone(), region.clone()),
            Place::Present { .. } => return Err(Unfit::waits(self.text_of(&Wait::InFlight(*ip)))),
            Place::Unknown => return Err(Unfit::waits(DOUBTED)),
            Place::Absent => return refused(format!("the account does not have {ip}")),
        };
        self.may_leave(*ip, machine.as_ref(), account, world.now)?;
        let free = Free { ip: *ip, region, from: machine };
        let busy = self.busy(account, world);
        // The operation may belong to any pool.
        if let Some((other, _)) = there.and_then(|on| busy.machines.get(on)) {
            return Err(Unfit::waits(self.text_of(&Wait::InFlight(*other))));
        }
        let receiver = match self.receiver(name, candidate, &busy, account, world) {
            Ok(receiver) => receiver,
            Err(wait) => {
                if let Wait::RetryAt(at, _) | Wait::Pending(at, _) | Wait::Firewall(at) = &wait {
                    let (why, at) = self.reason(&wait, Some(*at));
                    return Err(Unfit::Waits(why, at));
                }
                return refused(format!("{node}: {}", self.text_of(&wait)));
            }
        };
        if receiver.suits(&free) {
            Ok((free, receiver))
        } else {
            refused(format!("{node} and {ip} are in different regions"))
        }
    }

    /// Whether nothing else is under way for an address.
    fn may_leave(
        &self,
        ip: Address,
        from: Option<&MachineId>,
        account: &Account,
        now: Moment,
    ) -> Result<(), Unfit> {
        let makes_room = |op: &Op| op.kind == OpKind::Unassign { successor: Some(ip) };
        let promised =
            account.ops().any(|(_, op)| makes_room(op)) || self.roomy.values().any(|room| *room == ip);
        let doubted = account.belief(ip).is_none_or(Belief::is_doubted);
        if account.op(ip).is_some() || promised {
            return Err(Unfit::waits(self.text_of(&Wait::InFlight(ip))));
        }
        if doubted || !self.is_recorded(ip) {
            return Err(Unfit::waits(DOUBTED));
        }
        let failure = self.ips.get(&ip).and_then(|record| record.failure.as_ref());
        let due = |failure: &Failure<_>| failure.waits(&from.cloned(), self.spec_version, now);
        let Some((failure, due)) = failure.and_then(|failure| Some((failure, due(failure)?))) else {
            return Ok(());
        };
        let (why, at) = self.reason(&Wait::RetryAt(due, failure.message.clone()), Some(due));
        Err(Unfit::Waits(why, at))
    }

    /// Finds out the outcome of a move that another process, or this one before a gap, left pending.
    fn settle_move(
        &mut self,
        since: Option<Moment>,
        account: &mut Account,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let Some(LastMove { ip, to, .. }) = self.moving.last.clone() else { return };
        let since = since.unwrap_or(now);
        self.moving.stage = Stage::Recalled(Some(since));
        let place = ip.map_or(&Place::Unknown, |ip| account.place(ip));
        let busy = |ip| account.op(ip).is_some() || account.belief(ip).is_some_and(Belief::is_doubted);
        if ip.is_some_and(busy) || matches!(place, Place::Present { locked: true, .. }) {
            return;
        }
        let on = place.machine().cloned();
        if on.as_ref().and_then(|on| self.candidate_on(on)).is_some_and(|node| node == to) {
            self.moving.note(MoveOutcome::Done, "", now);
            self.moving.stage = Stage::Idle;
            return;
        }
        let place = match (&on, place) {
            (Some(on), _) => format!("is on {}", self.stands_on(Some(on))),
            (None, Place::Present { .. }) => format!("is on no {}", self.spec.noun()),
            (None, Place::Unknown | Place::Absent) => "is not known in the account".to_owned(),
        };
        // A list may show the state from before the move.
        let newest = account.last_list().map(|(begun, _)| begun);
        let due = since.plus_millis(LAG_MS);
        if newest.is_none_or(|begun| begun < due) {
            if due > now {
                account.want_list(due);
                out.later(due);
            }
            return;
        }
        let why =
            format!("the leader changed before the move was confirmed, and the address {place}; {ANEW}");
        out.tell([self.close_move(MoveOutcome::Interrupted, &why, now)]);
    }

    /// Takes in the end of the operation on an address.
    pub(crate) fn move_ended(
        &mut self,
        ip: Address,
        op: &Op,
        end: &End,
        at: Context,
        news: &mut Vec<Notice>,
    ) {
        if !self.moving.is_sent(ip) {
            return;
        }
        let (outcome, why) = match end {
            End::NotSent => {
                self.moving.stage = Stage::Announced;
                return;
            }
            End::Refused(kind, _) if passes(*kind) => {
                self.moving.stage = Stage::Announced;
                self.moving.retry.failed(op.pace(*kind, at.now), at);
                return;
            }
            End::Done => {
                self.moving.note(MoveOutcome::Done, "", at.now);
                self.moving.stage = Stage::Idle;
                return;
            }
            End::Refused(kind, message) => (MoveOutcome::Refused, format!("{kind}: {message}")),
            End::Failed(kind, message) if op.was_refused() => {
                (MoveOutcome::Refused, format!("{kind}: {message}"))
            }
            End::Failed(kind, message) => (MoveOutcome::Interrupted, format!("{kind}: {message}")),
            End::Errored(message) => (MoveOutcome::Interrupted, message.clone()),
            End::AddressGone => {
                (MoveOutcome::Interrupted, "the account does not have it any more".to_owned())
            }
        };
        news.push(self.close_move(outcome, &why, at.now));
    }

    fn refuse_move(&mut self, request: &str, why: &str, now: Moment) -> Notice {
        if !self.moving.is_open() {
            self.moving.begin(request, String::new());
        }
        self.close_move(MoveOutcome::Refused, why, now)
    }

    /// Notes the answer to the present request, and reports it.
    fn close_move(&mut self, outcome: MoveOutcome, why: &str, now: Moment) -> Notice {
        self.moving.note(outcome, why, now);
        self.moving.stage = Stage::Idle;
        self.move_notice(outcome, why)
    }

    fn move_notice(&self, outcome: MoveOutcome, why: &str) -> Notice {
        let reason = match outcome {
            MoveOutcome::Ignored => EventReason::MoveIgnored,
            MoveOutcome::Interrupted => EventReason::MoveInterrupted,
            MoveOutcome::Refused | MoveOutcome::Pending | MoveOutcome::Done => EventReason::MoveRefused,
        };
        let last = self.moving.last.as_ref();
        let (what, subject) = match last.and_then(|last| Some((last.ip?, &last.to))) {
            Some((ip, to)) => (format!("the move of {ip} to {to}"), ip.to_string()),
            None => ("the move".to_owned(), "move".to_owned()),
        };
        let word = outcome.as_str().to_lowercase();
        self.notice(true, reason, subject, format!("{what} was {word}: {why}"))
    }

    /// A machine in words: the candidate on it, or else its id. Empty for none.
    fn stands_on(&self, machine: Option<&MachineId>) -> String {
        let name = |on: &MachineId| self.candidate_on(on).map_or_else(|| on.to_string(), ToOwned::to_owned);
        machine.map(name).unwrap_or_default()
    }
}

/// Whether a failure only means that it is too early.
fn passes(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::InProgress | FaultKind::Throttled | FaultKind::Transient)
}
