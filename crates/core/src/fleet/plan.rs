//! One pass of decisions over the whole state.

use super::action::Action;
use super::firewalls::PortsPending;
use super::{Fleet, Plan};
use crate::addresses::account::Account;
use crate::addresses::account::belief::Place;
use crate::addresses::action::Action as OfAddresses;
use crate::addresses::pool::Pool;
use crate::addresses::pool::world::{Sights, World};
use crate::mechanism::{Effect, Effects};
use crate::model::label_mode::LabelMode;
use crate::model::{AccountId, Address, MachineId, Mismatch, Moment, ObjectRef, Uid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

impl Fleet {
    /// Decides the next actions. They count as begun: a second plan without new facts is empty.
    pub fn plan(&mut self, now: Moment) -> Plan {
        if self.settings.thorough {
            self.forget_indexes();
        }
        let changed = self.dirty && (self.attention.take_watches_changed() || self.settings.thorough);
        let watches = changed.then(|| self.forget_unwatched());
        if self.leading {
            self.weigh_checks(now);
        }
        let due = self.wake.is_some_and(|wake| wake <= now);
        if !self.leading || !(self.dirty || due) {
            return Plan {
                effects: std::mem::take(&mut self.outbox).into_iter().map(Effect::Tell).collect(),
                wake: self.wake.into_iter().chain(self.checks_due(now)).min().filter(|_| self.leading),
                fresh: false,
                watches,
            };
        }
        self.dirty = false;
        self.begin_round(now);
        let mut out: Effects<Action> = Effects::default();
        out.tell(std::mem::take(&mut self.outbox));
        let whole = !self.draining && self.pools_listed && self.record_sets_listed;
        if self.draining {
            self.place_addresses();
            if self.permit {
                self.plan_writes(now, &mut out);
            }
        } else if whole {
            self.note_matched();
            self.settle_suspects(now, &mut out);
            let owners = self.claims.owners();
            let gates = self.gates(now);
            out.lend(|out| self.plan_pools(&gates, now, out));
            self.place_addresses();
            self.explain(now, &mut out);
            out.lend(|out| self.plan_dns(now, out));
            self.note_published(now);
            if self.permit {
                self.plan_reclaims(now, &mut out);
            }
            out.lend(|out| self.plan_questions(now, out));
            out.lend(|out| self.plan_reads(&owners, now, out));
            out.lend(|out| self.plan_firewalls(now, out));
            if self.permit {
                self.review_intended(&owners);
                self.annotations.forget_failures(self.intended.desired());
                if self.note_denials() {
                    self.widen();
                }
                // The statuses go first, because users look at them first and annotations can take hundreds of writes.
                self.plan_writes(now, &mut out);
                self.plan_record_set_writes(now, &mut out);
                let seen = !self.matched_once.is_empty();
                // Labels go first, because a move may wait for the answer to their removal.
                let desired = (self.intended.labels(), self.intended.desired());
                self.labels.plan(desired, seen, now, &mut out);
                self.annotations.plan(desired.1, (seen, self.intended.all_read()), now, &mut out);
                self.note_denials();
                self.note_finished();
            }
        } else {
            self.place_addresses();
        }
        out.later(self.plan_checks(now));
        self.end_round(whole);
        self.wake = out.wake().into_iter().chain(self.attention.wake()).min();
        let effects = out.into_vec();
        let is_write = |effect: &Effect<Action>| matches!(effect, Effect::Do(action) if action.is_write());
        debug_assert!(self.permit || !effects.iter().any(is_write), "nothing is written without a permit");
        Plan { effects, wake: self.wake, fresh: true, watches }
    }

    /// Forgets everything that spares work, or finds it out again.
    fn forget_indexes(&mut self) {
        self.accounts.values_mut().for_each(Account::forget_indexes);
        self.attention.forget();
        self.claims.forget();
        self.labels.find_naming();
        self.watched.find_nodes();
        self.find_names();
    }

    /// Whether a fact since the last plan may change a decision. The arrival of a wake time may change one too.
    pub const fn is_changed(&self) -> bool {
        self.leading && self.dirty
    }

    /// The pools of this plan, from the oldest to the youngest, without those that are being deleted.
    pub(super) fn by_age(&self) -> Vec<&Pool> {
        let mut pools: Vec<&Pool> = self.due_pools().filter(|pool| !pool.deleting).collect();
        pools.sort_by_key(|pool| pool.seniority());
        pools
    }

    /// Notes the pools whose nodes are completely known now.
    fn note_matched(&mut self) {
        let due = self.attention.due.iter().filter_map(|uid| self.pools.get(uid));
        self.matched_once.extend(due.filter(|pool| pool.nodes.matched).map(|pool| pool.object.uid.clone()));
    }

    fn plan_pools(&mut self, gates: &PortsPending, now: Moment, out: &mut Effects<OfAddresses>) {
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid) else { continue };
            if self.permit {
                pool.weigh_move((self.epoch_ms, now), out);
            }
            pool.begin_plan();
        }
        let accounts: Vec<AccountId> = self.accounts.keys().cloned().collect();
        for account_id in accounts {
            let Some(mut account) = self.accounts.remove(&account_id) else { continue };
            self.name_addresses(&mut account, now);
            if account.is_known() {
                self.plan_account(&mut account, gates, now, out);
            }
            for uid in &self.attention.due {
                let Some(pool) = self.pools.get_mut(uid) else { continue };
                if !account.is_known() && pool.spec.account_id == account_id {
                    pool.forget_mismatched(&account);
                }
            }
            self.accounts.insert(account_id, account);
        }
        for uid in &self.attention.due {
            self.pools.get_mut(uid).into_iter().for_each(|pool| pool.end_plan());
        }
    }

    /// Decides about the pools of one account, which is known.
    fn plan_account(
        &mut self,
        account: &mut Account,
        gates: &PortsPending,
        now: Moment,
        out: &mut Effects<OfAddresses>,
    ) {
        let (account_id, no_gates) = (account.epoch().account_id.clone(), BTreeMap::new());
        self.keep_memories(account, now);
        // The memories have changed which addresses are effective, and so their owners.
        self.review_claims();
        let (owners, mut named) = (self.claims.owners(), self.name_addresses(account, now));
        let sights = self.look(account, &owners, &named);
        let deleting = self.may_delete_in(&account_id, account, now);
        out.later(account.unowned_deletion_until(now));
        let mut in_the_way = self.in_the_way();
        let mut members = self.members_of(&account_id);
        while let Some(uid) = members.pop_front() {
            let Some(mut pool) = self.pools.remove(&uid) else { continue };
            in_the_way.remove(&uid);
            let before = (out.additions(), account.version());
            let knows_names = self.knows_names_for(&pool, account, &mut named);
            let labelled = self.labelled(&pool);
            let why_not = pool.move_target().and_then(|node| self.mismatch_of(&pool, &node));
            let world = World {
                now,
                permit: self.permit,
                owners: &owners,
                sights: &sights,
                gates: gates.get(&uid).unwrap_or(&no_gates),
                labelled: &labelled,
                deleting: deleting || pool.may_delete_in(&account_id),
                others: &self.pools,
                in_the_way: &in_the_way,
            };
            plan_moves(&mut pool, account, &world, why_not.as_ref(), out);
            if *pool.creates_at() == account_id && knows_names {
                pool.plan_creation(account, &world, &named, out);
                // No other pool may adopt it too.
                name(&mut named, &pool);
            }
            if pool.holds_up_others() {
                in_the_way.insert(uid.clone());
            }
            if out.additions() != before.0 {
                self.attention.stirs(&uid);
            }
            self.pools.insert(uid.clone(), pool);
            if account.version() != before.1 {
                self.tell_others(&uid, account, &mut members);
            }
        }
        for uid in &self.attention.due {
            let going = self.pools.get_mut(uid).filter(|pool| pool.is_going());
            if let Some(pool) = going {
                pool.look_after_pause(account);
            }
        }
        self.resolve_strangers(&account_id, account, &mut named, out);
    }

    /// The pools of this plan that belong to an account, from the oldest to the youngest.
    fn members_of(&self, account_id: &AccountId) -> VecDeque<Uid> {
        let members = self.by_age().into_iter().filter(|pool| pool.spec.account_id == *account_id);
        members.map(|pool| pool.object.uid.clone()).collect()
    }

    /// The pools that others have to wait for. Each of them is in this plan.
    fn in_the_way(&self) -> BTreeSet<Uid> {
        self.due_pools().filter(|pool| pool.holds_up_others()).map(|pool| pool.object.uid.clone()).collect()
    }

    /// Tells the pools whose nodes the operations concern that a pool has just begun. The younger ones, whose turn is
    /// still to come, are looked at in this plan, and all of them in the next one.
    fn tell_others(&mut self, uid: &Uid, account: &Account, members: &mut VecDeque<Uid>) {
        let ours = account.ops().filter(|(_, op)| op.pool == *uid);
        let machines = ours.flat_map(|(_, op)| [Some(op.machine.clone()), op.from.clone()]);
        let machines: Vec<MachineId> = machines.flatten().collect();
        let concerned = self.touch_concerned(None, &machines);
        let Some(pool) = self.pools.get(uid) else { return };
        let new = concerned.iter().filter(|uid| !self.attention.due.contains(*uid));
        let younger = |other: &&Pool| {
            let same = other.spec.account_id == pool.spec.account_id;
            same && !other.deleting && other.seniority() > pool.seniority()
        };
        let new: Vec<Uid> = new
            .filter_map(|uid| self.pools.get(uid).map(Box::as_ref))
            .filter(younger)
            .map(|pool| pool.object.uid.clone())
            .collect();
        if new.is_empty() {
            return;
        }
        self.attention.due.extend(new.iter().cloned());
        let waiting: BTreeSet<Uid> = members.drain(..).chain(new).collect();
        let account_id = account.epoch().account_id.clone();
        members.extend(self.members_of(&account_id).into_iter().filter(|uid| waiting.contains(uid)));
    }

    /// Works out where the addresses of each pool are.
    fn place_addresses(&mut self) {
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid) else { continue };
            if !pool.deleting {
                pool.place(self.accounts.get(&pool.spec.account_id));
            }
        }
    }

    /// Tells the account which addresses matter, and returns those that any pool names.
    fn name_addresses(&mut self, account: &mut Account, now: Moment) -> Arc<BTreeSet<Address>> {
        let account_id = account.epoch().account_id.clone();
        let names = self.claims.names(&account_id);
        if !self.claims.was_told(account, &names) {
            let pools =
                self.pools.values().filter(|pool| !pool.deleting && pool.spec.account_id == account_id);
            let reported = if account.is_known() {
                BTreeMap::new()
            } else {
                pools.flat_map(|pool| pool.reported_places()).collect()
            };
            account.name(&names.watched, names.remembered.clone(), &reported, now);
            self.claims.tell(account);
        }
        Arc::clone(&names.named)
    }

    fn keep_memories(&mut self, account: &mut Account, now: Moment) {
        let (account_id, owners) = (account.epoch().account_id.clone(), self.claims.owners());
        let is_present = |ip| matches!(account.place(ip), Place::Present { .. });
        let visible = self.claims.any_effective(&account_id, is_present);
        if !visible {
            let going = self.pools.values().flat_map(|pool| pool.due_back()).collect();
            account.excuse_absences(&going, now);
        }
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid) else { continue };
            if !pool.deleting && pool.spec.account_id == account_id {
                pool.keep_memory(account, &owners, visible);
            }
        }
    }

    /// Where the addresses of an account are. `named` are those that pools name.
    fn look(
        &mut self,
        account: &mut Account,
        owners: &BTreeMap<Address, ObjectRef>,
        named: &BTreeSet<Address>,
    ) -> Arc<Sights> {
        let (moved, id, claims) = (account.take_moved(), &account.epoch().account_id, &self.claims);
        // Addresses that no pool names are looked at with everything else.
        let moved = moved.filter(|moved| moved.keys().all(|ip| named.contains(ip)));
        let follow = |sights: &mut Sights| {
            moved.is_some_and(|moved| sights.follow(account, &moved, |ip| claims.user(id, owners, ip)))
        };
        self.attention.sights(id, claims.version, follow, || {
            let mut sights = Sights { seen: account.seen(), ..Sights::default() };
            for (machine, ip) in account.holders() {
                sights.crowded |= sights.holders.insert(machine, ip).is_some();
            }
            for read in sights.seen.values().filter(|read| !named.contains(&read.ip)) {
                if let Some(machine) = &read.machine {
                    sights.strays.entry(machine.clone()).or_default().push(read.ip);
                }
            }
            for (object, ip) in claims.used(id) {
                let owned = owners.get(&ip).is_some_and(|owner| owner.uid == object.uid);
                if let Some(machine) = account.place(ip).machine().cloned().filter(|_| owned) {
                    sights.standing.insert(machine, (object.clone(), ip));
                }
            }
            sights
        })
    }

    /// Ends creations in this account of pools that are being deleted, or whose spec names another account by now.
    fn resolve_strangers(
        &mut self,
        account_id: &AccountId,
        account: &mut Account,
        named: &mut Arc<BTreeSet<Address>>,
        out: &mut Effects<OfAddresses>,
    ) {
        let order: Vec<Uid> = self.by_age().iter().map(|pool| pool.object.uid.clone()).collect();
        let going =
            self.attention.due.iter().filter(|uid| self.pools.get(*uid).is_some_and(|it| it.deleting));
        let all: Vec<Uid> = order.into_iter().chain(going.cloned()).collect();
        for uid in &all {
            let strange = |pool: &Pool| {
                (pool.deleting || pool.spec.account_id != *account_id) && pool.creates_at() == account_id
            };
            if !self.pools.get(uid).is_some_and(|pool| strange(pool)) {
                continue;
            }
            let Some(mut pool) = self.pools.remove(uid) else { continue };
            if self.knows_names_for(&pool, account, named) {
                pool.end_creation(account, named, out);
                // No other pool may adopt it too.
                name(named, &pool);
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
            let wanted = self.pools.values().any(|pool| concerns(pool));
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
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid).filter(|pool| pool.pause.holds()) else { continue };
            let published = |ip| pool.spec.record_set.is_none() || dns.shows(uid, ip);
            let done: BTreeSet<Address> = pool.pause.finishing().filter(|ip| published(*ip)).collect();
            pool.has_finished(|ip, node| done.contains(&ip) && annotations.has(node, ip));
        }
    }

    /// The addresses of a pool that labels name, each with the nodes that have the labels. A node that fails or is
    /// being deleted is left out, so no move waits for its labels. A node that no watch shows may only have left a
    /// filter. If it is gone, the answer to the write shows that at once.
    fn labelled(&self, pool: &Pool) -> BTreeMap<Address, BTreeSet<Uid>> {
        if pool.spec.labels == LabelMode::Off {
            return BTreeMap::new();
        }
        let well = |(uid, name): &(&Uid, &str)| {
            let node = self.watched.node_named(name, uid);
            node.is_none_or(|node| node.ready.is_ready() && !node.deleting)
        };
        let nodes = |ip| self.labels.naming(ip).filter(well).map(|(uid, _)| uid.clone()).collect();
        let named = pool.effective().into_iter().chain(pool.former()).map(|ip| (ip, nodes(ip)));
        named.filter(|(_, nodes): &(Address, BTreeSet<Uid>)| !nodes.is_empty()).collect()
    }
}

/// Adds the addresses of a pool to those that are named.
fn name(named: &mut Arc<BTreeSet<Address>>, pool: &Pool) {
    let effective = pool.effective();
    if effective.iter().any(|ip| !named.contains(ip)) {
        Arc::make_mut(named).extend(effective);
    }
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
    if pool.is_live() && pool.nodes.matched {
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
