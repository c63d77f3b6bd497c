//! Decides the next step for an address that is given back.
//!
//! Level-triggered: each step follows from the present knowledge. So no step is taken twice, and no step relies on
//! an earlier read.

use super::super::Pool;
use super::super::memory::Purchased;
use super::{Around, Blocked, Giving, Records};
use crate::addresses::account::belief::{Belief, Place};
use crate::addresses::account::op::{MAX_OPS, Op, OpKind, look_again_ms};
use crate::addresses::account::rights::Right;
use crate::addresses::account::{Account, EFFECT_MS};
use crate::addresses::action::{Action, Call};
use crate::mechanism::{Effects, Purpose};
use crate::model::catalog::events::EventReason;
use crate::model::catalog::reclaim::ReclaimBlocked;
use crate::model::{Address, FaultKind, MachineId, Moment};

/// The last reads of objects, records and the address are at most this old at the deletion.
const FRESH_MS: u64 = 30_000;

/// An address stays if a read that began this long after the accepted deletion still shows it.
const CONFIRMED_MS: u64 = 60_000;

/// The longest wait for the TTL of records.
const LONGEST_TTL_MS: u64 = 3_600_000;

/// An obstacle is reported once it has lasted this long. Most end before the status could be written.
pub(super) const REPORTED_AFTER_MS: u64 = 5_000;

/// The step that an address waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// The account, or the address.
    Reading,
    /// Records.
    Records,
    /// The TTL of the records.
    Ttl,
    /// The annotation.
    Annotation,
    /// The unassignment.
    Unassigning,
    /// The last reads.
    Checking,
    /// A purchase.
    Purchase,
    /// The mark in the status.
    Mark,
    /// The deletion.
    Deleting,
    /// The removal from `spec.ips`.
    Listed,
    /// The end of a pause.
    Paused,
}

/// The next thing to do.
enum Next {
    Wait(Step),
    Blocked(ReclaimBlocked, String),
    /// It stays in the account.
    Keep(String),
    /// Others have deleted it.
    Lost,
    /// The deletion is confirmed.
    Closed,
}

use Next::Wait;

impl Pool {
    /// Takes the next step for one address. If that step waits for a list of objects, returns when the list may
    /// begin.
    pub(crate) fn give_back(
        &mut self,
        ip: Address,
        account: &mut Account,
        around: &Around<'_>,
        out: &mut Effects<Action>,
    ) -> Option<Moment> {
        let bought = self.memory.as_ref().and_then(|memory| memory.purchase_of(ip)).cloned()?;
        let mut giving = self.reclaim.giving.remove(&ip).unwrap_or_default();
        let mut next = self.next_for(&bought, &mut giving, account, around, out);
        let is_open = giving.undecided.is_some() && giving.accepted.is_none();
        if is_open && matches!(next, Next::Keep(_)) {
            // A deletion that was sent may still take effect. Until that is settled, nobody knows whether the address
            // stays.
            next = Wait(Step::Deleting);
        }
        let wanted = giving.fresh.filter(|since| around.listed.is_none_or(|listed| listed.begun < *since));
        let (reason, message) = match next {
            Wait(step) => {
                (giving.step, giving.blocked) = (Some(step), None);
                self.reclaim.giving.insert(ip, giving);
                return wanted.filter(|_| step == Step::Checking);
            }
            Next::Blocked(reason, message) => {
                let before = giving.blocked.take().filter(|before| before.reason == reason);
                let since = before.map_or(around.now, |before| before.since);
                let at = since.plus_millis(REPORTED_AFTER_MS);
                out.later(Some(at).filter(|at| *at > around.now));
                giving.blocked = Some(Blocked { reason, message, since });
                let listing = reason == ReclaimBlocked::ObjectsUnread;
                self.reclaim.giving.insert(ip, giving);
                return wanted.filter(|_| listing);
            }
            Next::Keep(why) => {
                let message = format!("{ip} stays in the account: {why}");
                self.reclaim.kept.insert(ip, why);
                (EventReason::ReclaimKept, message)
            }
            Next::Lost => (EventReason::MovedByOthers, format!("{ip} was deleted by others")),
            Next::Closed => {
                account.deleted(ip, around.now);
                (
                    EventReason::Reclaimed,
                    format!("deleted {ip} in the account; remove it from spec.releasedIPs"),
                )
            }
        };
        self.forget_bought(ip, reason == EventReason::Reclaimed);
        let warning = reason != EventReason::Reclaimed;
        out.tell([self.notice(warning, reason, ip, message)]);
        None
    }

    /// Ends the giving back of an address. `gone` says that the address no longer exists.
    fn forget_bought(&mut self, ip: Address, gone: bool) {
        if let Some(memory) = &mut self.memory {
            memory.purchased.retain(|bought| bought.ip != ip);
            memory.created.retain(|created| !gone || created.ip != ip);
        }
        if gone && self.deleting {
            // An object that is being deleted gets no write of its spec, so the address is removed from our copy here.
            self.spec.ips.retain(|written| *written != ip);
        }
    }

    /// Removes the mark, because the address is not to be deleted now and no deletion may still take effect.
    fn unmark(&mut self, ip: Address) {
        let bought = self.memory.iter_mut().flat_map(|memory| &mut memory.purchased);
        bought.filter(|bought| bought.ip == ip).for_each(|bought| bought.deleting = false);
    }

    /// Returns the addresses that are being given back, and forgets the state of all others.
    pub(crate) fn on_their_way(&mut self) -> Vec<Address> {
        let mut ways = self.due_back();
        let giving = self.reclaim.giving.iter();
        let open = giving.filter(|(ip, giving)| giving.may_take_effect() && !ways.contains(ip));
        let open = open.map(|(ip, _)| *ip).filter(|ip| self.purchased().any(|bought| bought.ip == *ip));
        ways.extend(open.collect::<Vec<_>>());
        self.reclaim.giving.retain(|ip, _| ways.contains(ip));
        let released = &self.spec.released;
        let deleting = self.deleting;
        self.reclaim.kept.retain(|ip, _| deleting || released.contains(ip));
        ways
    }

    fn next_for(
        &mut self,
        bought: &Purchased,
        giving: &mut Giving,
        account: &mut Account,
        around: &Around<'_>,
        out: &mut Effects<Action>,
    ) -> Next {
        let ip = bought.ip;
        if giving.gone {
            let listed = self.spec.ips.contains(&ip) && !giving.unlisted && !self.deleting;
            return if listed { Wait(Step::Listed) } else { Next::Closed };
        }
        if giving.sending {
            return Wait(Step::Deleting);
        }
        if std::mem::take(&mut giving.inherited) {
            giving.undecided = Some(around.now);
        }
        if let Some(next) = self.confirm(ip, giving, account, around, out) {
            return next;
        }
        if !self.due_back().contains(&ip) {
            self.unmark(ip);
            return Wait(Step::Reading);
        }
        if self.pause.holds() {
            return Wait(Step::Paused);
        }
        if let Some(other) = around.named_by.get(&ip) {
            return Next::Keep(format!("{other} names it"));
        }
        if let Some(next) = unknown(account) {
            return next;
        }
        if account.op(ip).is_some() {
            return Wait(Step::Unassigning);
        }
        let on = match account.place(ip) {
            _ if account.belief(ip).is_none_or(Belief::is_doubted) => return Wait(Step::Reading),
            Place::Unknown => return Wait(Step::Reading),
            Place::Absent if account.belief(ip).is_some_and(Belief::is_gone) && !bought.deleting => {
                return Next::Lost;
            }
            Place::Absent => {
                if bought.deleting {
                    look(self, ip, giving, account, around.now, out);
                }
                return Wait(Step::Deleting);
            }
            Place::Present { machine: Some(machine), .. } if machine.provider_id() != bought.held_on => {
                return Next::Keep(format!("it is on {machine}, where this pool did not put it"));
            }
            Place::Present { locked: true, .. } => {
                let message = "an action on it is pending at the provider".to_owned();
                return Next::Blocked(ReclaimBlocked::Locked, message);
            }
            Place::Present { machine, .. } => machine.clone(),
        };
        if let Some(next) = publishes(bought, giving, around, out) {
            return next;
        }
        match (around.annotated)(ip) {
            Some(false) => {}
            Some(true) if around.unwritable.is_some() => {
                let message = around.unwritable.unwrap_or_default().to_owned();
                return Next::Blocked(ReclaimBlocked::AnnotationStays, message);
            }
            Some(true) | None => return Wait(Step::Annotation),
        }
        match on {
            Some(machine) => self.take_off(ip, machine, account, around, out),
            None => self.delete(bought, giving, account, around, out),
        }
    }

    /// Finds out whether a deletion took effect. `None`: no deletion is open, or a read after it shows the address,
    /// so the next step may follow.
    fn confirm(
        &self,
        ip: Address,
        giving: &mut Giving,
        account: &mut Account,
        around: &Around<'_>,
        out: &mut Effects<Action>,
    ) -> Option<Next> {
        let since = giving.undecided?;
        let shown_after = |ms: u64| giving.there.is_some_and(|there| there >= since.plus_millis(ms));
        if giving.accepted.is_some() {
            if shown_after(CONFIRMED_MS) {
                let why = "the provider accepted its deletion, but still shows it".to_owned();
                return Some(Next::Keep(why));
            }
        } else if shown_after(EFFECT_MS) {
            giving.undecided = None;
            return None;
        } else if shown_after(0) && around.now < since.plus_millis(EFFECT_MS) {
            out.later(since.plus_millis(EFFECT_MS));
            return None;
        }
        if account.is_authorised() {
            look(self, ip, giving, account, around.now, out);
        }
        Some(
            unknown(account).filter(|next| matches!(next, Next::Blocked(..))).unwrap_or(Wait(Step::Deleting)),
        )
    }

    /// Takes the address off a node of this cluster.
    fn take_off(
        &self,
        ip: Address,
        machine: MachineId,
        account: &mut Account,
        around: &Around<'_>,
        out: &mut Effects<Action>,
    ) -> Next {
        let Some(node) = (around.node_on)(&machine) else {
            let message =
                format!("it is on {machine}, which is not a node of this cluster; unassign it there");
            return Next::Blocked(ReclaimBlocked::OnMachine, message);
        };
        let on = Some(machine.clone());
        let failure = self.ips.get(&ip).and_then(|record| record.failure.as_ref());
        if let Some(failure) = failure
            && let Some(due) = failure.waits(&on, self.spec_version, around.now)
        {
            out.later(due);
            return Next::Blocked(reason_of(failure.kind), failure.message.clone());
        }
        let gate = account.gate(Right::Move);
        if let Some(at) = gate.waits(around.now) {
            out.later(at);
            return Next::Blocked(ReclaimBlocked::Unauthorized, gate.message().to_owned());
        }
        let busy = account.ops().count() >= MAX_OPS || account.ops().any(|(_, op)| op.machine == machine);
        if busy || !around.permit {
            return Wait(Step::Unassigning);
        }
        if let Err(at) = account.budget().admit(Purpose::Reclaim, around.now) {
            out.later(at);
            return Wait(Step::Unassigning);
        }
        let kind = OpKind::Unassign { successor: None };
        let op = Op::new(self.object.uid.clone(), kind, machine.clone(), node, on, around.now);
        account.begin(ip, op, Purpose::Reclaim);
        out.act(account.epoch().request(Some(self.owner()), Call::Unassign(ip, machine)));
        Wait(Step::Unassigning)
    }

    /// Makes the last reads, sets the mark, and sends the deletion.
    fn delete(
        &mut self,
        bought: &Purchased,
        giving: &mut Giving,
        account: &mut Account,
        around: &Around<'_>,
        out: &mut Effects<Action>,
    ) -> Next {
        let (ip, now) = (bought.ip, around.now);
        if around.purchasing {
            giving.fresh = None;
            return Wait(Step::Purchase);
        }
        let gate = account.gate(Right::Delete);
        if let Some(at) = gate.waits(now) {
            giving.fresh = None;
            out.later(at);
            return Next::Blocked(ReclaimBlocked::Unauthorized, gate.message().to_owned());
        }
        if let Some((kind, message)) = giving.failure.clone().filter(|_| giving.retry.due() > now) {
            giving.fresh = None;
            out.later(giving.retry.due());
            return Next::Blocked(reason_of(kind), message);
        }
        if let Some(next) = self.look_around(bought, giving, account, around, out) {
            return next;
        }
        if !bought.deleting {
            let ours = self.memory.iter_mut().flat_map(|memory| &mut memory.purchased);
            ours.filter(|bought| bought.ip == ip).for_each(|bought| bought.deleting = true);
            return Wait(Step::Mark);
        }
        if !self.is_marked(ip) {
            return if self.writes.is_status_failing() {
                Next::Blocked(ReclaimBlocked::StatusNotWritten, "the status cannot be written".to_owned())
            } else {
                Wait(Step::Mark)
            };
        }
        if !around.permit {
            return Wait(Step::Deleting);
        }
        if let Err(at) = account.budget().admit(Purpose::Reclaim, now) {
            out.later(at);
            return Wait(Step::Deleting);
        }
        debug_assert!(bought.uid == self.object.uid, "{ip} was bought for this object");
        account.begin_deletion(ip, now);
        giving.sending = true;
        out.act(account.epoch().request(Some(self.owner()), Call::Delete(ip)));
        Wait(Step::Deleting)
    }

    /// Reads objects, records and the address once more. `None`: the reads are recent and show no obstacle.
    fn look_around(
        &self,
        bought: &Purchased,
        giving: &mut Giving,
        account: &mut Account,
        around: &Around<'_>,
        out: &mut Effects<Action>,
    ) -> Option<Next> {
        let (ip, now) = (bought.ip, around.now);
        let fresh = giving.fresh.filter(|since| now.millis_since(*since) < FRESH_MS);
        let since = *giving.fresh.insert(fresh.unwrap_or(now));
        out.later(since.plus_millis(FRESH_MS));
        let Some(listed) = around.listed.filter(|listed| listed.begun >= since) else {
            let failed =
                around.unlistable.map(|why| Next::Blocked(ReclaimBlocked::ObjectsUnread, why.to_owned()));
            return Some(failed.unwrap_or(Wait(Step::Checking)));
        };
        let named = listed.naming.get(&ip).into_iter().flatten();
        if let Some((_, other)) = named.into_iter().find(|(uid, _)| *uid != self.object.uid) {
            return Some(Next::Keep(format!("{other} names it")));
        }
        if let Some(other) = listed.publishing.get(&ip) {
            return Some(Next::Blocked(ReclaimBlocked::RecordHeld, format!("{other} publishes it")));
        }
        if let Some(object) = listed.unread.first() {
            let message = format!("{object} cannot be read, and may name it");
            return Some(Next::Blocked(ReclaimBlocked::ObjectsUnread, message));
        }
        match (around.records)(bought) {
            Records::None { read, .. } if read.is_none_or(|read| read >= since) => {}
            Records::None { .. } | Records::Unread(_) | Records::Held | Records::Claimed(_) => {
                return Some(Wait(Step::Checking));
            }
        }
        let Some(free) = giving.free.filter(|free| *free >= listed.done) else {
            look(self, ip, giving, account, now, out);
            return Some(Wait(Step::Checking));
        };
        (!account.proves_since(free, now)).then_some(Wait(Step::Checking))
    }
}

/// Reads the address, if a read is due.
fn look(
    pool: &Pool,
    ip: Address,
    giving: &mut Giving,
    account: &mut Account,
    now: Moment,
    out: &mut Effects<Action>,
) {
    if giving.look.due() > now {
        return out.later(giving.look.due());
    }
    giving.look.again(now, look_again_ms);
    if let Some(at) = account.look_at(ip, &pool.object, now, out) {
        out.later(at);
    }
}

/// The step or obstacle if the account is not known.
fn unknown(account: &Account) -> Option<Next> {
    if account.is_known() && account.is_authorised() {
        return None;
    }
    let trouble = account.trouble().filter(|trouble| trouble.kind != FaultKind::Transient);
    let blocked = |trouble: &crate::addresses::account::Trouble| {
        Next::Blocked(reason_of(trouble.kind), trouble.message.clone())
    };
    Some(trouble.map_or(Wait(Step::Reading), blocked))
}

/// The step or obstacle if records hold the address, or clients may still remember such a record.
fn publishes(
    bought: &Purchased,
    giving: &mut Giving,
    around: &Around<'_>,
    out: &mut Effects<Action>,
) -> Option<Next> {
    let ttl_ms = match (around.records)(bought) {
        Records::Unread(None) => return Some(Wait(Step::Records)),
        Records::Unread(Some(why)) => return Some(Next::Blocked(ReclaimBlocked::RecordsUnread, why)),
        Records::Held => {
            giving.unpublished = None;
            return Some(Wait(Step::Records));
        }
        Records::Claimed(which) => {
            giving.unpublished = None;
            return Some(Next::Blocked(ReclaimBlocked::RecordHeld, which));
        }
        Records::None { ttl_ms, .. } => ttl_ms.min(LONGEST_TTL_MS),
    };
    let due = giving.unpublished.get_or_insert(around.now).plus_millis(ttl_ms);
    if !giving.forgotten && due > around.now {
        out.later(due);
        return Some(Wait(Step::Ttl));
    }
    giving.forgotten = true;
    None
}

/// The reason to report when a call fails with this kind of fault.
fn reason_of(kind: FaultKind) -> ReclaimBlocked {
    match kind {
        FaultKind::Unauthorized => ReclaimBlocked::Unauthorized,
        FaultKind::Throttled => ReclaimBlocked::Throttled,
        FaultKind::InProgress => ReclaimBlocked::Locked,
        FaultKind::Transient
        | FaultKind::NotFound
        | FaultKind::NodeInUse
        | FaultKind::Invalid
        | FaultKind::Quota
        | FaultKind::Permanent => ReclaimBlocked::Refused,
    }
}
