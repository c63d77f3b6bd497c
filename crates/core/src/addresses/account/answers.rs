//! Takes in the answers to calls of an account. They change its beliefs about addresses, its operations under way, and
//! the proof of its scope.

use super::belief::{Belief, Learned, Place};
use super::op::End;
use super::rights::Right;
use super::{Account, Changes, Finished, LIST_INTERVAL_MS, MachineRead, Trouble};
use crate::mechanism::{Epoch, Pace};
use crate::model::{
    ActionId, ActionStatus, Address, CallFailure, Context, FaultKind, MachineId, Moment, ReservedIp,
    ReservedIpList,
};
use std::collections::BTreeMap;

impl Account {
    /// Takes in the answer to a list that began at `begun`.
    pub fn on_list(
        &mut self,
        begun: Moment,
        result: Result<ReservedIpList, CallFailure>,
        at @ Context { now, .. }: Context,
    ) -> Changes {
        self.touch();
        match result {
            Err(CallFailure::Fault(fault)) => {
                self.reads.list_failed(&fault, at);
                self.read_failed(fault, now);
                Changes::default()
            }
            Ok(list) if self.is_of_now(begun) => {
                self.reads.list_done(begun);
                self.trouble = None;
                self.evaluate(begun, list, now)
            }
            Ok(_) | Err(CallFailure::NotSent) => {
                self.reads.list_done(begun);
                self.reads.list_at(now);
                Changes::default()
            }
        }
    }

    /// Believes a list, unless a missing scope may have hidden machines from it.
    fn evaluate(&mut self, begun: Moment, list: ReservedIpList, now: Moment) -> Changes {
        if list.ips.values().any(|read| read.machine.is_some()) {
            self.saw_scope(begun);
            self.unproved = None;
        } else if self.lists_showed_machines() {
            self.machine_read = MachineRead::Unproved;
        }
        if self.machine_read == MachineRead::Proved {
            return self.believe(begun, list, now);
        }
        self.unproved = Some((begun, list));
        if self.machine_read == MachineRead::Unproved {
            // Each list asks for at most one proof.
            self.reads.prove_now(now);
        }
        Changes::default()
    }

    fn believe(&mut self, begun: Moment, list: ReservedIpList, now: Moment) -> Changes {
        self.shown = self.shown.max(Some(begun));
        if let Some(message) = list.contradiction {
            self.trouble = Some(Trouble { kind: FaultKind::Transient, message });
            return self.glimpse(begun, list.ips, now);
        }
        let mut concerned = self.other_changes(&list.ips);
        if concerned.as_ref().is_none_or(|others| !others.is_empty()) {
            self.beliefs.all_move();
        }
        let mut changes = Changes::default();
        let expected =
            |ip, belief: &Belief| !self.ops.contains_key(ip) && belief.is_confirmed_by(list.ips.get(ip));
        let unexpected = self.beliefs.iter().filter(|(ip, belief)| !expected(ip, belief));
        let unexpected: Vec<Address> = unexpected.map(|(ip, _)| *ip).collect();
        for ip in unexpected {
            let entry = list.ips.get(&ip);
            let mut machines: Vec<MachineId> = self.machines_of(ip).collect();
            if let Some(op) = self.ops.get_mut(&ip) {
                let ended = op.listed(entry, begun, now);
                self.finish(ip, ended, now, &mut changes);
            } else {
                let belief = self.beliefs.about(ip);
                belief.listed(entry, begun, now);
                if belief.is_unlisted() {
                    self.reads.single(ip);
                }
            }
            machines.extend(self.machines_of(ip));
            if let Some(concerned) = &mut concerned {
                concerned.push((ip, machines));
            }
        }
        self.listed = Some((begun, list));
        self.glimpsed = None;
        Changes { concerned, ..changes }
    }

    /// The addresses that no pool names and that a list shows elsewhere than the last one, each with its machines.
    /// `None` if there is no last list, or one that contradicts itself is newer.
    fn other_changes(&self, ips: &BTreeMap<Address, ReservedIp>) -> Option<Vec<(Address, Vec<MachineId>)>> {
        let (_, last) = self.listed.as_ref().filter(|_| self.glimpsed.is_none())?;
        let changed = |ip: &&Address| last.ips.get(ip) != ips.get(ip) && !self.beliefs.contains_key(ip);
        let on = |ip| {
            [last.ips.get(ip), ips.get(ip)].into_iter().flatten().filter_map(|read| read.machine.clone())
        };
        let all = last.ips.keys().chain(ips.keys());
        Some(all.filter(changed).map(|ip| (*ip, on(ip).collect())).collect())
    }

    /// Takes in the answer to a proof that the token may read machines.
    pub fn on_proof(
        &mut self,
        result: Result<bool, CallFailure>,
        at @ Context { now, .. }: Context,
    ) -> Changes {
        self.touch();
        let begun = self.reads.prove_done(result.is_ok());
        let newer = self.unproved.as_ref().map(|(listed, _)| *listed);
        if begun.is_some_and(|begun| !self.is_of_now(begun) || newer.is_some_and(|listed| begun < listed)) {
            self.reads.prove_now(now);
            return Changes::default();
        }
        if result.is_ok() {
            self.trouble = None;
        }
        match result {
            Ok(true) => {
                self.saw_scope(begun.unwrap_or(now));
                let unproved = self.unproved.take();
                let outdated = |begun: &Moment| now.millis_since(*begun) > LIST_INTERVAL_MS;
                if unproved.as_ref().is_some_and(|(begun, _)| outdated(begun)) {
                    // The proof came late. Others may have moved addresses meanwhile.
                    self.forget_listed();
                    self.reads.list_at(now);
                } else if let Some((begun, list)) = unproved {
                    return self.believe(begun, list, now);
                }
            }
            Ok(false) => {
                self.machine_read = MachineRead::Missing;
                self.unproved = None;
                self.reads.prove_at(now);
            }
            Err(CallFailure::NotSent) => self.reads.prove_now(now),
            Err(CallFailure::Fault(fault)) => {
                self.reads.prove_failed(&fault, at);
                if self.machine_read != MachineRead::Proved || fault.kind == FaultKind::Unauthorized {
                    self.read_failed(fault, now);
                }
            }
        }
        Changes::default()
    }

    /// Takes in the answer to a read of one address that began at `begun`.
    pub fn on_get(
        &mut self,
        ip: Address,
        begun: Moment,
        result: Result<ReservedIp, CallFailure>,
        at @ Context { now, .. }: Context,
    ) -> Changes {
        self.touch();
        self.reads.gets.remove(&ip);
        let mut changes = Changes::default();
        let found = match result {
            Ok(read) => Some(read),
            Err(CallFailure::Fault(fault)) if fault.kind == FaultKind::NotFound => None,
            Err(CallFailure::NotSent) => return changes,
            Err(CallFailure::Fault(fault)) => {
                if let Some(op) = self.ops.get_mut(&ip) {
                    op.read_failed(&fault, at);
                } else if let Some(belief) = self.beliefs.get_mut(&ip) {
                    belief.read_failed(Pace::of(&fault), at);
                }
                if fault.kind == FaultKind::Unauthorized {
                    self.read_failed(fault, now);
                }
                return changes;
            }
        };
        if found.as_ref().is_some_and(|read| read.machine.is_some()) {
            self.saw_scope(begun);
            if self.unproved.take().is_some() {
                // The list waited for a proof, and this read shows that the list is out of date.
                self.forget_listed();
                self.reads.list_at(now);
            }
        } else if let Some(read) = &found
            && self.may_be_hidden(ip, read, begun)
        {
            self.doubt_scope(ip, read, begun, at);
            return changes;
        }
        if let Some(op) = self.ops.get_mut(&ip) {
            let ended = op.read(found.as_ref(), begun, now);
            let failed = matches!(ended, Some(End::Failed(..)));
            self.finish(ip, ended, now, &mut changes);
            if failed && let Some(belief) = self.beliefs.get_mut(&ip) {
                belief.read(found.as_ref(), begun, now);
            }
        } else if let Some(belief) = self.beliefs.get_mut(&ip)
            && belief.read(found.as_ref(), begun, now) == Learned::Overturned
        {
            changes.overturned.push(ip);
        }
        changes
    }

    /// Takes in the answer to an assignment or unassignment, which was decided in the epoch `asked`.
    pub fn on_changed(
        &mut self,
        ip: Address,
        asked: &Epoch,
        answer: Result<(ActionId, ActionStatus), CallFailure>,
        now: Moment,
    ) -> Changes {
        self.touch();
        let mut changes = Changes::default();
        self.answered(Right::Move, asked, answer.as_ref().err(), now);
        if let Some(op) = self.ops.get_mut(&ip) {
            let ended = op.answered(answer, now);
            self.finish(ip, ended, now, &mut changes);
        }
        changes
    }

    /// Takes in the answer to a poll of an action.
    pub fn on_poll(
        &mut self,
        ip: Address,
        begun: Moment,
        result: Result<ActionStatus, CallFailure>,
        at @ Context { now, .. }: Context,
    ) -> Changes {
        self.touch();
        self.reads.polls.remove(&ip);
        let mut changes = Changes::default();
        if let Err(CallFailure::Fault(fault)) = &result {
            self.refused(fault, now);
        }
        // A poll that began before the operation was about an earlier action.
        if let Some(op) = self.ops.get_mut(&ip).filter(|op| begun > op.started) {
            let ended = op.polled(result, at);
            self.finish(ip, ended, now, &mut changes);
        }
        changes
    }

    /// Removes an ended operation and takes in its result.
    pub(super) fn finish(&mut self, ip: Address, ended: Option<End>, now: Moment, changes: &mut Changes) {
        let Some(end) = ended else { return };
        let Some(op) = self.ops.remove(&ip) else { return };
        let belief = self.beliefs.about(ip);
        match &end {
            End::Done => {
                let region = match belief.place() {
                    Place::Present { region, .. } => region.clone(),
                    Place::Unknown | Place::Absent => String::new(),
                };
                belief.settle(Place::Present { machine: op.target(), region, locked: false }, now);
            }
            End::AddressGone => {
                belief.read(None, now, now);
                belief.read(None, now, now);
            }
            End::Refused(..) | End::Failed(..) | End::Errored(_) | End::NotSent => {}
        }
        changes.finished.push(Finished { ip, op, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::account::op::{Op, OpKind};
    use crate::mechanism::Purpose;
    use crate::model::Uid;
    use crate::model::provider::examples::{DROPLETS, OF_BOTH, droplet};
    use std::collections::BTreeSet;

    const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

    #[test]
    fn only_a_list_that_shows_what_is_believed_and_else_what_the_last_one_showed_concerns_nothing() {
        let mut account = Account::new("p".into(), OF_BOTH.limits, &DROPLETS);
        let (ours, foreign) = ([192, 0, 2, 1].into(), [192, 0, 2, 9].into());
        account.name(&[ours].into(), BTreeSet::new(), &BTreeMap::new(), T(0));
        let read = |ip: Address, machine, locked| {
            (ip, ReservedIp { ip, region: "nyc3".into(), machine: Some(droplet(machine)), locked })
        };
        let list = |account: &mut Account, second, read: &[(Address, ReservedIp)], contradiction| {
            let list = ReservedIpList { ips: read.iter().cloned().collect(), contradiction };
            account.on_list(T(second), Ok(list), Context::exactly(T(second))).concerned == Some(vec![])
        };
        let usual = [read(ours, 1, false)];
        assert!(!list(&mut account, 1, &usual, None), "nothing was known");
        assert!(list(&mut account, 2, &usual, None));
        let with_foreign = [read(ours, 1, false), read(foreign, 2, false)];
        assert!(!list(&mut account, 3, &with_foreign, None));
        assert!(list(&mut account, 4, &with_foreign, None));
        assert!(!list(&mut account, 5, &with_foreign, Some("page 2 was short".into())));
        assert!(!list(&mut account, 6, &with_foreign, None), "it is newer than one that contradicts itself");
        let locked = [read(ours, 1, true)];
        assert!(!list(&mut account, 7, &locked, None));
        assert!(!list(&mut account, 8, &locked, None), "the lock may end at any time");
        let elsewhere = [read(ours, 3, false)];
        assert!(!list(&mut account, 9, &elsewhere, None));
        assert!(!list(&mut account, 10, &elsewhere, None), "a second read has to agree");
        assert!(!list(&mut account, 11, &usual, None));
        assert!(list(&mut account, 12, &usual, None));
        let target = (Uid("n".into()), "n".into());
        let op = Op::new(Uid("pool".into()), OpKind::Assign, droplet(7), target, None, T(13));
        account.begin(ours, op, Purpose::Assign);
        assert!(!list(&mut account, 13, &usual, None), "an operation is under way");
        let epoch = account.epoch().clone();
        account.on_changed(ours, &epoch, Ok((ActionId(1), ActionStatus::Completed)), T(14));
        let moved = [read(ours, 7, false)];
        assert!(list(&mut account, 60, &moved, None), "it shows the result of the operation");
        assert!(!list(&mut account, 110, &usual, None), "somebody has moved the address");
        let both = [read(ours, 7, false), read(foreign, 2, false)];
        assert!(!list(&mut account, 160, &both, None), "the doubt ends, and there is another address");
        assert!(!list(&mut account, 210, &both[1..], None));
        account.on_get(ours, T(211), Ok(read(ours, 7, false).1), Context::exactly(T(211)));
        assert!(!list(&mut account, 260, &both, None), "lists show the address again");
        assert!(list(&mut account, 310, &both, None));
    }
}
