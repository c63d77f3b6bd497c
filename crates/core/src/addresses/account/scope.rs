//! Whether the token may read machines. Without that scope every address looks unassigned.
//!
//! Invariant: if a read shows an address on no machine that is believed to be on one, the read counts only once the
//! scope is proved. The proof must not begin before the first such read.

use super::Account;
use crate::mechanism::{Pace, Schedule};
use crate::model::{Address, Context, Moment, ReservedIp};

/// Whether the token may read machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MachineRead {
    /// Not proved yet, or no longer.
    #[default]
    Unproved,
    /// A machine was seen, or the machines could be listed.
    Proved,
    /// The provider refuses to list machines.
    Missing,
}

impl Account {
    /// Drops a proof that is from before a gap or of another token.
    pub(super) fn forget_scope(&mut self) {
        self.machine_read = MachineRead::Unproved;
        self.scope_seen = None;
    }

    /// Whether a read begun at `begun` used this token and began after the last gap.
    pub(super) fn is_of_now(&self, begun: Moment) -> bool {
        begun >= self.not_before
    }

    /// Notes that a read that began at `begun` proves the scope. Reads that waited for the proof are repeated.
    pub(super) fn saw_scope(&mut self, begun: Moment) {
        if !self.is_of_now(begun) {
            return;
        }
        if self.machine_read == MachineRead::Missing {
            // Moves by others were invisible until now.
            self.forget_listed();
            self.unproved = None;
            self.reads.list_at(begun);
        }
        self.machine_read = MachineRead::Proved;
        self.scope_seen = self.scope_seen.max(Some(begun));
        for ip in std::mem::take(&mut self.hidden) {
            if let Some(op) = self.ops.get_mut(&ip) {
                op.look_at_once(begun);
            } else if let Some(belief) = self.beliefs.get_mut(&ip) {
                belief.confirm_at_once(begun);
            }
        }
    }

    /// Whether an address read at `begun` without a machine may be on one that the token cannot see.
    pub(super) fn may_be_hidden(&self, ip: Address, read: &ReservedIp, begun: Moment) -> bool {
        let since = match (self.ops.get(&ip), self.beliefs.get(&ip)) {
            // A read of a locked address decides nothing.
            (Some(op), _) => op.denied_since(begun).filter(|_| !read.locked),
            (None, belief) => belief.and_then(|belief| belief.denied_since(begun)),
        };
        let unproved = self.machine_read != MachineRead::Proved || !self.is_of_now(begun);
        unproved || since.is_some_and(|since| self.scope_seen < Some(since))
    }

    /// Asks for a proof of the scope before the address is believed to be unassigned. Other addresses are not held up.
    pub(super) fn doubt_scope(
        &mut self,
        ip: Address,
        read: &ReservedIp,
        begun: Moment,
        at @ Context { now, .. }: Context,
    ) {
        let counts = self.machine_read == MachineRead::Proved && self.is_of_now(begun);
        self.hidden.insert(ip);
        if counts {
            self.reads.prove_soon(now);
        }
        if let Some(op) = self.ops.get_mut(&ip) {
            op.read_hidden(Some(begun).filter(|_| counts && !read.locked), now);
        } else if let Some(belief) = self.beliefs.get_mut(&ip) {
            if counts && !belief.is_denied() {
                belief.read(Some(read), begun, now);
            } else {
                belief.read_failed(Pace::by(Schedule::Fast), at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::account::Changes;
    use crate::addresses::action::{Action, Call};
    use crate::mechanism::{Effect, Effects};
    use crate::model::ReservedIpList;
    use crate::model::provider::examples;
    use crate::model::provider::examples::droplet;
    use std::collections::{BTreeMap, BTreeSet};

    const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

    fn read(last: u8, machine: Option<u64>) -> ReservedIp {
        let ip = Address::from([192, 0, 2, last]);
        ReservedIp { ip, region: "nyc3".into(), machine: machine.map(droplet), locked: false }
    }

    #[test]
    fn what_the_former_token_was_not_shown_is_not_believed_for_a_proof_of_the_new_one() {
        for exchanged in [true, false] {
            let mut account = Account::new("p".into(), examples::OF_BOTH.limits, &examples::DROPLETS);
            let both = [read(1, Some(1)), read(2, Some(2))].map(|read| (read.ip, read));
            let ips = both.iter().map(|(ip, _)| *ip).collect();
            account.name(&ips, BTreeSet::new(), &BTreeMap::new(), T(0));
            let list = ReservedIpList { ips: both.clone().into(), ..Default::default() };
            account.on_list(T(0), Ok(list), Context::exactly(T(0)));
            let mut get = |found: ReservedIp, begun, token| {
                if token {
                    account.token_changed(T(20));
                }
                account.on_get(found.ip, begun, Ok(found), Context::exactly(begun.plus_millis(100)))
            };
            assert_eq!(get(read(1, None), T(10), false), Changes::default());
            get(read(2, Some(2)), T(21), exchanged);
            let changes = get(read(1, None), T(15), false);
            assert_eq!(changes.overturned.is_empty(), exchanged);
        }
    }

    #[test]
    fn a_proof_that_is_older_than_the_list_that_waits_for_it_releases_nothing() {
        let mut account = Account::new("p".into(), examples::OF_BOTH.limits, &examples::DROPLETS);
        account.reads.prove_now(T(5));
        let plan = |account: &mut Account, now| {
            let mut out = Effects::default();
            account.plan_reads(&BTreeMap::new(), now, &mut out);
            let proves = |effect: &Effect<Action>| matches!(effect, Effect::Do(action) if action.call == Call::ProveMachineRead);
            out.into_vec().iter().any(proves)
        };
        assert!(plan(&mut account, T(5)));
        let list = ReservedIpList { ips: [(read(1, None).ip, read(1, None))].into(), ..Default::default() };
        account.on_list(T(10), Ok(list), Context::exactly(T(11)));
        account.on_proof(Ok(true), Context::exactly(T(12)));
        assert!(!account.is_known());
        assert!(plan(&mut account, T(12)), "another proof comes");
        account.on_proof(Ok(false), Context::exactly(T(13)));
        assert_eq!(account.machine_read(), MachineRead::Missing);
    }
}
