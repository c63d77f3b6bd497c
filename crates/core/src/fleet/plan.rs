//! One pass of decisions over the whole state.

use super::action::Action;
use super::annotations::Desired;
use super::firewalls::Gates;
use super::labels::DesiredLabels;
use super::{Fleet, Plan};
use crate::addresses::account::Account;
use crate::addresses::account::belief::Place;
use crate::addresses::action::Action as OfAddresses;
use crate::addresses::pool::Pool;
use crate::addresses::pool::candidates::Candidate;
use crate::addresses::pool::world::World;
use crate::mechanism::effects::{Effect, Effects};
use crate::model::facts::ReservedIp;
use crate::model::ids::{AccountId, Address, ObjectRef, Uid};
use crate::model::machine::MachineId;
use crate::model::matching::Criteria;
use crate::model::mismatch::Mismatch;
use crate::model::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};

impl Fleet {
    /// Decides the next actions. They count as begun: a second plan without new facts is empty.
    pub fn plan(&mut self, now: Moment) -> Plan {
        let watches = self.dirty.then(|| self.forget_unwatched());
        if self.leading {
            self.weigh_checks(now);
        }
        let due = self.wake.is_some_and(|wake| wake <= now);
        if !self.leading || !(self.dirty || due) {
            return Plan {
                effects: std::mem::take(&mut self.outbox).into_iter().map(Effect::Tell).collect(),
                wake: self.wake.into_iter().chain(self.checks_due()).min().filter(|_| self.leading),
                fresh: false,
                watches,
            };
        }
        self.dirty = false;
        let (pools, sets) = (&self.pools, &self.record_sets);
        self.unready.retain(|uid, _| pools.contains_key(uid) || sets.contains_key(uid));
        let mut out: Effects<Action> = Effects::default();
        out.tell(std::mem::take(&mut self.outbox));
        if self.draining {
            self.place_addresses();
            if self.permit {
                self.plan_writes(now, &mut out);
            }
        } else if self.pools_listed && self.record_sets_listed {
            self.note_matched();
            self.settle_suspects(now, &mut out);
            let owners = self.owners();
            let gates = self.gates(now);
            out.lend(|out| self.plan_pools((&owners, &gates), now, out));
            self.place_addresses();
            self.explain(now, &mut out);
            out.lend(|out| self.plan_dns(now, out));
            self.note_published(now);
            if self.permit {
                self.plan_reclaims(now, &mut out);
            }
            out.lend(|out| self.plan_reads(&owners, now, out));
            out.lend(|out| self.plan_firewalls(now, out));
            if self.permit {
                let (desired, labels, read) = self.desired_annotations(&owners);
                self.annotations.forget_failures(&desired);
                // The statuses go first, because users look at them first and annotations can take hundreds of writes.
                self.plan_writes(now, &mut out);
                self.plan_record_set_writes(now, &mut out);
                let seen = !self.matched_once.is_empty();
                // Labels go first, because a move may wait for the answer to their removal.
                self.labels.plan(&labels, seen, now, &mut out);
                self.annotations.plan(&desired, (seen, read), now, &mut out);
                self.note_finished();
            }
        } else {
            self.place_addresses();
        }
        out.later(self.plan_checks(now));
        self.wake = out.wake();
        let effects = out.into_vec();
        let is_write = |effect: &Effect<Action>| matches!(effect, Effect::Do(action) if action.is_write());
        debug_assert!(self.permit || !effects.iter().any(is_write), "nothing is written without a permit");
        Plan { effects, wake: self.wake, fresh: true, watches }
    }

    /// Whether a fact since the last plan may change a decision. The arrival of a wake time may change one too.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        self.leading && self.dirty
    }

    /// Pools from the oldest to the youngest, without those that are being deleted.
    pub(super) fn by_age(&self) -> Vec<&Pool> {
        let mut pools: Vec<&Pool> = self.pools.values().filter(|pool| !pool.deleting).collect();
        pools.sort_by_key(|pool| pool.seniority());
        pools
    }

    /// Notes the pools whose nodes are completely known now.
    fn note_matched(&mut self) {
        let pools = &self.pools;
        self.matched_once.retain(|uid| pools.contains_key(uid));
        let matched = pools.values().filter(|pool| pool.matched);
        self.matched_once.extend(matched.map(|pool| pool.object.uid.clone()));
    }

    /// Each address belongs to the oldest pool that names it, valid or not.
    fn owners(&self) -> BTreeMap<Address, ObjectRef> {
        let mut owners = BTreeMap::new();
        for pool in self.by_age() {
            for ip in pool.effective() {
                owners.entry(ip).or_insert_with(|| pool.object.clone());
            }
        }
        owners
    }

    fn plan_pools(
        &mut self,
        (owners, gates): (&BTreeMap<Address, ObjectRef>, &Gates),
        now: Moment,
        out: &mut Effects<OfAddresses>,
    ) {
        let no_gates = BTreeMap::new();
        if self.permit {
            let when = (self.epoch_ms, now);
            self.pools.values_mut().for_each(|pool| pool.weigh_move(when, out));
        }
        self.pools.values_mut().for_each(Pool::begin_plan);
        let labelled = self.labelled();
        let order: Vec<Uid> = self.by_age().iter().map(|pool| pool.object.uid.clone()).collect();
        let accounts: Vec<AccountId> = self.accounts.keys().cloned().collect();
        for account_id in accounts {
            let members: Vec<Uid> = order
                .iter()
                .filter(|uid| self.pools.get(*uid).is_some_and(|pool| pool.spec.account_id == account_id))
                .cloned()
                .collect();
            let Some(mut account) = self.accounts.remove(&account_id) else { continue };
            self.name_addresses(&members, &mut account, now);
            if account.is_known() {
                self.keep_memories(&members, owners, &mut account, now);
                // The memories have changed which addresses are effective, and so their owners.
                let owners = self.owners();
                let mut named = self.name_addresses(&members, &mut account, now);
                let (seen, holders) = (account.seen(), account.holders());
                let strays = &strays(&seen, &named);
                let standing = self.standing(&members, &owners, &account);
                let deleting = self.may_delete_in(&account_id, &account, now);
                out.later(account.unowned_deletion_until(now));
                for uid in &members {
                    let Some(mut pool) = self.pools.remove(uid) else { continue };
                    let permit = self.permit;
                    let knows_names = self.knows_names_for(&pool, &account, &mut named);
                    let why_not = pool.move_target().and_then(|node| self.mismatch_of(&pool, &node));
                    let others = &self.pools;
                    let (owners, standing, seen, holders) = (&owners, &standing, &seen, &holders);
                    let (gates, labelled) = (gates.get(uid).unwrap_or(&no_gates), &labelled);
                    let deleting = deleting || pool.may_delete_in(&account_id);
                    let world = World {
                        now,
                        permit,
                        owners,
                        standing,
                        seen,
                        strays,
                        holders,
                        gates,
                        labelled,
                        deleting,
                        others,
                    };
                    plan_moves(&mut pool, &mut account, &world, why_not.as_ref(), out);
                    let creates = *pool.creates_at() == account_id;
                    if creates && knows_names {
                        pool.plan_creation(&mut account, &world, &named, out);
                        // No other pool may adopt it too.
                        named.extend(pool.effective());
                    }
                    self.pools.insert(uid.clone(), pool);
                }
                let going = self.pools.values().filter(|pool| pool.deleting);
                let all: Vec<Uid> =
                    order.iter().cloned().chain(going.map(|pool| pool.object.uid.clone())).collect();
                let going = self.pools.values_mut().filter(|pool| pool.is_going());
                going.for_each(|pool| pool.look_after_pause(&mut account));
                self.resolve_strangers(&all, &account_id, &mut account, &mut named, out);
            } else {
                let unread = self.pools.values_mut().filter(|pool| pool.spec.account_id == account_id);
                unread.for_each(|pool| pool.forget_mismatched(&account));
            }
            self.accounts.insert(account_id, account);
        }
        self.pools.values_mut().for_each(Pool::end_plan);
    }

    /// Works out where the addresses of each pool are.
    fn place_addresses(&mut self) {
        for pool in self.pools.values_mut().filter(|pool| !pool.deleting) {
            pool.place(self.accounts.get(&pool.spec.account_id));
        }
    }

    /// Tells the account which addresses matter, and returns those that any pool names.
    fn name_addresses(&self, members: &[Uid], account: &mut Account, now: Moment) -> BTreeSet<Address> {
        let named: BTreeSet<Address> = self.by_age().iter().flat_map(|pool| pool.effective()).collect();
        let pools = || members.iter().filter_map(|uid| self.pools.get(uid));
        let bought = self.pools.values().flat_map(Pool::purchased);
        let bought = bought.filter(|bought| bought.account_id == account.epoch().account_id);
        let bought: BTreeSet<Address> = bought.map(|bought| bought.ip).collect();
        let mut watched: BTreeSet<Address> = pools().flat_map(Pool::effective).collect();
        watched.extend(&bought);
        watched.extend(pools().flat_map(Pool::former));
        watched.extend(pools().flat_map(Pool::effective_before));
        let remembered = pools().flat_map(Pool::created).chain(pools().flat_map(Pool::former));
        let remembered = remembered.chain(bought.iter().copied()).collect();
        let told = if account.is_known() { BTreeMap::new() } else { pools().flat_map(Pool::told).collect() };
        account.name(&watched, remembered, &told, now);
        named.union(&bought).copied().collect()
    }

    fn keep_memories(
        &mut self,
        members: &[Uid],
        owners: &BTreeMap<Address, ObjectRef>,
        account: &mut Account,
        now: Moment,
    ) {
        let visible: BTreeSet<Address> = members
            .iter()
            .filter_map(|uid| self.pools.get(uid))
            .flat_map(Pool::effective)
            .filter(|ip| matches!(account.place(*ip), Place::Present { .. }))
            .collect();
        if visible.is_empty() {
            let going = self.pools.values().flat_map(Pool::due_back).collect();
            account.excuse_absences(&going, now);
        }
        for uid in members {
            if let Some(pool) = self.pools.get_mut(uid) {
                pool.keep_memory(account, owners, !visible.is_empty());
            }
        }
    }

    /// The used address on each machine, with its pool.
    fn standing(
        &self,
        members: &[Uid],
        owners: &BTreeMap<Address, ObjectRef>,
        account: &Account,
    ) -> BTreeMap<MachineId, (ObjectRef, Address)> {
        let mut standing = BTreeMap::new();
        for pool in members.iter().filter_map(|uid| self.pools.get(uid)) {
            for ip in pool.used() {
                let owned = owners.get(&ip).is_some_and(|owner| owner.uid == pool.object.uid);
                if let Some(machine) = account.place(ip).machine().cloned().filter(|_| owned) {
                    standing.insert(machine, (pool.object.clone(), ip));
                }
            }
        }
        standing
    }

    /// Ends creations in this account of pools that are being deleted, or whose spec names another account by now.
    fn resolve_strangers(
        &mut self,
        order: &[Uid],
        account_id: &AccountId,
        account: &mut Account,
        named: &mut BTreeSet<Address>,
        out: &mut Effects<OfAddresses>,
    ) {
        for uid in order {
            let strange = |pool: &Pool| {
                (pool.deleting || pool.spec.account_id != *account_id) && pool.creates_at() == account_id
            };
            if !self.pools.get(uid).is_some_and(strange) {
                continue;
            }
            let Some(mut pool) = self.pools.remove(uid) else { continue };
            if self.knows_names_for(&pool, account, named) {
                pool.end_creation(account, named, out);
                // No other pool may adopt it too.
                named.extend(pool.effective());
            }
            self.pools.insert(uid.clone(), pool);
        }
    }

    fn plan_reads(
        &mut self,
        owners: &BTreeMap<Address, ObjectRef>,
        now: Moment,
        out: &mut Effects<OfAddresses>,
    ) {
        for (account_id, account) in &mut self.accounts {
            // An account without an object is not read.
            let concerns = |pool: &Pool| {
                let gives_back = pool.is_going() && pool.has_bought_in(account_id);
                pool.spec.account_id == *account_id || pool.creates_at() == account_id || gives_back
            };
            let wanted = self.pools.values().any(concerns);
            if !wanted && account.ops().next().is_none() {
                // Old lists must not answer a later request.
                account.forget_lists(now);
                continue;
            }
            account.plan_reads(owners, now, out);
        }
    }

    /// Notes which operations from before a pause are done.
    fn note_finished(&mut self) {
        let (annotations, dns) = (&self.annotations, &self.dns);
        for (uid, pool) in self.pools.iter_mut().filter(|(_, pool)| pool.pause.holds()) {
            let published = |ip| pool.spec.record_set.is_none() || dns.shows(uid, ip);
            let done: BTreeSet<Address> = pool.pause.finishing().filter(|ip| published(*ip)).collect();
            pool.has_finished(|ip, node| done.contains(&ip) && annotations.has(node, ip));
        }
    }

    /// The addresses that labels name, each with the node that has the labels. A node that fails or is being deleted
    /// is left out, so no move waits for its labels. A node that no watch shows may only have left a filter. If it is
    /// gone, the answer to the write shows that at once.
    fn labelled(&self) -> BTreeMap<Address, Uid> {
        let well = |(_, uid, name): &(Address, &Uid, &str)| {
            let node = self.nodes.values().find_map(|store| store.get(name).filter(|node| node.uid == **uid));
            node.is_none_or(|node| node.ready.is_ready() && !node.deleting)
        };
        self.labels.named().filter(well).map(|(ip, uid, _)| (ip, uid.clone())).collect()
    }

    /// The wanted annotations and labels of nodes, which name the addresses that the provider confirmed on candidates.
    /// Also returns whether enough is known to sweep for left-over ones.
    fn desired_annotations(&self, owners: &BTreeMap<Address, ObjectRef>) -> (Desired, DesiredLabels, bool) {
        let mut desired = Desired::default();
        let mut labels = DesiredLabels::default();
        let mut read = true;
        for pool in self.pools.values().filter(|pool| !pool.deleting) {
            let account = self.accounts.get(&pool.spec.account_id);
            let known = account.is_some_and(Account::is_known);
            read &= (known || pool.spec.is_frozen()) && !pool.is_unread();
            let watch = pool.spec.criteria.as_ref().map(Criteria::node_watch);
            let watched = watch.and_then(|watch| self.nodes.get(&watch));
            // A candidate from before a gap in the leadership may be another node by now.
            let seen = self.matched_once.contains(&pool.object.uid);
            let still = pool.pause.holds();
            let mut one = Desired::default();
            let mut here = BTreeSet::new();
            // A node that matches again while its address moves elsewhere would have the annotation only for a moment.
            let placements = pool.report.placements.iter();
            for (ip, node) in placements.filter_map(|(ip, placement)| Some((ip, placement.node()?))) {
                let frozen = pool.spec.is_frozen();
                let owned = owners.get(ip).map_or(frozen, |owner| owner.uid == pool.object.uid);
                // A frozen pool does not look at its nodes again, and another node may have the name by now.
                let shown = watched.and_then(|nodes| nodes.get(node));
                let stands =
                    |candidate: &&Candidate| shown.is_some_and(|node| node.uid == candidate.node.uid);
                let due = |uid: &Uid| !still || pool.pause.finishes_on(*ip, uid);
                let candidate = pool.candidates.get(node).filter(|_| owned && seen);
                let candidate = candidate.filter(|candidate| due(&candidate.node.uid));
                if let Some(candidate) = candidate.filter(stands) {
                    one.confirmed.insert(candidate.node.uid.clone(), (node.to_owned(), *ip));
                    here.insert(*ip);
                }
            }
            if still {
                let ours = |ip: &Address| owners.get(ip).is_none_or(|owner| owner.uid == pool.object.uid);
                one.protected.extend(pool.kept_still(known).into_iter().filter(ours));
            } else if !pool.matched || pool.spec.is_frozen() {
                // An address that is known to be on one node is on no other.
                let stays = |ip: &&Address| !pool.has_left(**ip) && !here.contains(*ip);
                one.protected.extend(pool.effective().iter().chain(pool.effective_before()).filter(stays));
            } else if !known {
                let nodes = pool.candidates.iter().map(|(_, candidate)| candidate.node.uid.clone()).collect();
                one.unconfirmed.push((nodes, pool.effective().into_iter().collect()));
            }
            one.protected.extend(pool.annotated_still());
            labels.of_pool(pool, &one, known);
            desired.extend(one);
        }
        for pool in self.pools.values().filter(|pool| pool.is_going()) {
            let kept = Desired { protected: pool.annotated_still(), ..Desired::default() };
            labels.kept.extend(kept.clone());
            desired.extend(kept);
        }
        labels.without_address(&desired);
        (desired, labels, read)
    }
}

/// The addresses that no pool names, by the machine on which they are.
fn strays<'a>(
    seen: &'a BTreeMap<Address, ReservedIp>,
    named: &BTreeSet<Address>,
) -> BTreeMap<&'a MachineId, Vec<Address>> {
    let mut strays: BTreeMap<&MachineId, Vec<Address>> = BTreeMap::new();
    for read in seen.values().filter(|read| !named.contains(&read.ip)) {
        if let Some(machine) = &read.machine {
            strays.entry(machine).or_default().push(read.ip);
        }
    }
    strays
}

/// Decides on the assignments of one pool, and on the move that a user asks for.
fn plan_moves(
    pool: &mut Pool,
    account: &mut Account,
    world: &World<'_>,
    why_not: Option<&Mismatch>,
    out: &mut Effects<OfAddresses>,
) {
    pool.forgive_token_moving(account);
    pool.look_after_pause(account);
    if pool.is_live() && pool.matched {
        pool.plan_assignments(account, world, out);
        out.tell(world.permit.then(|| pool.tell_losses(account, world.now)).flatten());
        if world.permit {
            pool.plan_move(account, world, why_not, out);
        }
    } else {
        pool.note_claimed(world.owners);
    }
    if pool.spec.is_frozen() {
        pool.follow_standing(account);
    }
    pool.follow_sent(account);
}
