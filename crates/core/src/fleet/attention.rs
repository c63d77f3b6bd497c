//! Which pools and record sets a plan looks at.
//!
//! Of many objects, most are at rest: their last plan began nothing, told nothing and asked for no later one, except to
//! read their records again, and nothing has happened since that concerns them. A plan leaves them out, and only asks
//! each pool whether a change concerns it.
//!
//! Invariant: a plan that looks at every object decides the same (`Settings::thorough`).

use super::Fleet;
use crate::addresses::pool::Pool;
use crate::addresses::pool::world::Sights;
use crate::model::{AccountId, Address, Criteria, MachineId, Moment, Uid, WatchKey};
use crate::records::node_set::NodeSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The watches and checks that the specs of all objects ask for.
#[derive(Debug, Default)]
struct Asked {
    /// The objects that use each watch.
    users: BTreeMap<WatchKey, Vec<Uid>>,
    /// Some object asks for checks of nodes.
    checks: bool,
}

/// Which pools and record sets a plan looks at.
#[derive(Debug, Default)]
pub(super) struct Attention {
    /// Something has happened that concerns every object.
    all: bool,
    /// Objects that something concerns since the last plan.
    touched: BTreeSet<Uid>,
    /// Objects that are not at rest.
    restless: BTreeSet<Uid>,
    /// Until when objects are at rest whose records are read again then.
    rests: BTreeMap<Uid, Moment>,
    /// The same, by time.
    wakes: BTreeSet<(Moment, Uid)>,
    /// The objects of the present plan.
    pub(super) due: BTreeSet<Uid>,
    /// Those of them for which the present plan began, told or asked for something.
    stirred: BTreeSet<Uid>,
    /// `None` once a spec has changed.
    asked: Option<Asked>,
    /// A spec has changed since the watches were last told.
    watches_changed: bool,
    /// Counts changes of specs.
    edition: u64,
    /// With the version of the claims.
    sights: BTreeMap<AccountId, (u64, Arc<Sights>)>,
    /// The machines of the candidates of each pool.
    machines: BTreeSet<(MachineId, Uid)>,
}

impl Attention {
    /// Has the next plan look at every object.
    pub(super) const fn look_at_all(&mut self) {
        self.all = true;
    }

    /// Has the next plan look at this object.
    pub(super) fn touch(&mut self, uid: &Uid) {
        // A standby never plans, and would remember objects that have gone.
        if !self.all {
            self.touched.insert(uid.clone());
        }
    }

    /// The objects that something concerns since the last plan, or `None` if something concerns every object.
    pub(super) fn touched(&self) -> Option<&BTreeSet<Uid>> {
        (!self.all).then_some(&self.touched)
    }

    /// Notes that an object came, went or has another spec.
    pub(super) fn specs_changed(&mut self) {
        self.all = true;
        self.asked = None;
        self.watches_changed = true;
        self.edition = self.edition.wrapping_add(1);
    }

    /// Counts changes of specs.
    pub(super) const fn edition(&self) -> u64 {
        self.edition
    }

    /// Whether the watches may be others than at the last call.
    pub(super) const fn take_watches_changed(&mut self) -> bool {
        std::mem::replace(&mut self.watches_changed, false)
    }

    /// Notes that the plan added something for an object.
    pub(super) fn stirs(&mut self, uid: &Uid) {
        self.stirred.insert(uid.clone());
    }

    /// When the first of the objects at rest is looked at again.
    pub(super) fn wake(&self) -> Option<Moment> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Notes whether an object of the present plan is at rest now, and until when its records need no read.
    fn settle(&mut self, uid: Uid, rests: bool, until: Option<Moment>) {
        if let Some(at) = self.rests.remove(&uid) {
            self.wakes.remove(&(at, uid.clone()));
        }
        if !rests {
            self.restless.insert(uid);
            return;
        }
        self.restless.remove(&uid);
        if let Some(at) = until {
            self.wakes.insert((at, uid.clone()));
            self.rests.insert(uid, at);
        }
    }

    /// Forgets everything that spares work.
    pub(super) fn forget(&mut self) {
        self.all = true;
        self.asked = None;
        self.sights.clear();
        self.machines.clear();
    }

    /// The places of an account's addresses at this version of the claims. `follow` brings earlier ones up to date.
    pub(super) fn sights(
        &mut self,
        id: &AccountId,
        version: u64,
        follow: impl FnOnce(&mut Sights) -> bool,
        look: impl FnOnce() -> Sights,
    ) -> Arc<Sights> {
        if let Some((known, sights)) = self.sights.get_mut(id)
            && *known == version
            && Arc::get_mut(sights).is_some_and(follow)
        {
            return Arc::clone(sights);
        }
        let sights = Arc::new(look());
        self.sights.insert(id.clone(), (version, Arc::clone(&sights)));
        sights
    }

    /// Notes the machines on which the pool has other candidates than at the last call.
    pub(super) fn note_machines(&mut self, pool: &mut Pool) {
        for machine in pool.candidates.take_changed() {
            let here = pool.candidates.on(&machine).next().is_some();
            let key = (machine, pool.object.uid.clone());
            if here {
                self.machines.insert(key);
            } else {
                self.machines.remove(&key);
            }
        }
    }

    /// Forgets a pool that is gone.
    pub(super) fn forget_pool(&mut self, pool: &Pool) {
        self.machines.retain(|(_, uid)| *uid != pool.object.uid);
    }
}

impl Fleet {
    /// The objects that a plan would look at now.
    pub(super) fn concerned(&self, now: Moment) -> BTreeSet<Uid> {
        let attention = &self.attention;
        if attention.all {
            return self.everything();
        }
        let woken = attention.wakes.iter().take_while(|(at, _)| *at <= now).map(|(_, uid)| uid);
        let concerned = attention.touched.iter().chain(&attention.restless).chain(woken);
        let exists = |uid: &&Uid| self.pools.contains_key(*uid) || self.record_sets.contains_key(*uid);
        concerned.filter(exists).cloned().collect()
    }

    fn everything(&self) -> BTreeSet<Uid> {
        self.pools.keys().chain(self.record_sets.keys()).cloned().collect()
    }

    /// Has the present plan look at every object.
    pub(super) fn widen(&mut self) {
        self.attention.due = self.everything();
    }

    /// The pools of the present plan.
    pub(super) fn due_pools(&self) -> impl Iterator<Item = &Pool> {
        self.attention.due.iter().filter_map(|uid| self.pools.get(uid)).map(Box::as_ref)
    }

    /// The record sets of the present plan.
    pub(super) fn due_record_sets(&self) -> impl Iterator<Item = &NodeSet> {
        self.attention.due.iter().filter_map(|uid| self.record_sets.get(uid))
    }

    /// Begins a plan.
    pub(super) fn begin_round(&mut self, now: Moment) {
        self.attention.due = self.concerned(now);
        self.attention.all = false;
        self.attention.touched.clear();
        self.attention.stirred.clear();
        self.review_claims();
    }

    /// Ends a plan. It was `whole` if it decided about everything.
    pub(super) fn end_round(&mut self, whole: bool) {
        self.show_objects();
        self.attention.all |= !whole;
        if self.looks_at_all() {
            self.attention.restless.clear();
            self.attention.rests.clear();
            self.attention.wakes.clear();
        }
        let mut resting = self.dns.take_resting();
        let due = std::mem::take(&mut self.attention.due);
        for uid in due {
            let until = resting.remove(&uid);
            // Without a permit nothing is written, so an object that has nothing to do may have something to write.
            let rests = self.permit
                && !self.attention.stirred.contains(&uid)
                // Records that a former spec asked for are left with an Event.
                && until.is_some() == self.dns.set(&uid).is_some();
            let rests = if let Some(pool) = self.pools.get_mut(&uid) {
                self.attention.note_machines(pool);
                // The watches of a pool that is being deleted end once it gives nothing back.
                self.attention.watches_changed |= pool.deleting;
                rests && pool.is_at_rest(self.accounts.get(&pool.spec.account_id))
            } else {
                rests && self.record_sets.get(&uid).is_some_and(NodeSet::is_at_rest)
            };
            self.attention.settle(uid, rests, until);
        }
    }

    /// Whether the present plan looks at every object. Each plan after an object has gone does.
    pub(super) fn looks_at_all(&self) -> bool {
        self.attention.due.len() == self.pools.len() + self.record_sets.len()
    }

    /// Looks again at the addresses that the pools of this plan name. If these are others, every object is looked at.
    pub(super) fn review_claims(&mut self) {
        if self.claims.review(&self.pools, &self.attention.due) {
            self.widen();
            self.claims.review(&self.pools, &self.attention.due);
        }
    }

    /// All pools that may name an address: its owner, and those that are not at rest.
    pub(super) fn namers(&self, ip: Address) -> BTreeSet<&Uid> {
        let attention = &self.attention;
        match self.claims.known_owners().filter(|_| !attention.all) {
            Some(owners) => {
                let awake = attention.touched.iter().chain(&attention.restless).chain(&attention.due);
                awake.chain(owners.get(&ip).map(|owner| &owner.uid)).collect()
            }
            None => self.pools.keys().collect(),
        }
    }

    /// Notes that an address or what is on these machines has changed. Returns the pools that this may concern.
    pub(super) fn touch_concerned(&mut self, ip: Option<Address>, machines: &[MachineId]) -> BTreeSet<Uid> {
        let on = |machine: &MachineId| {
            let from = self.attention.machines.range((machine.clone(), Uid::default())..);
            let machine = machine.clone();
            from.take_while(move |(on, _)| *on == machine).map(|(_, uid)| uid)
        };
        // A pool that names an address of another one is not at rest.
        let owner = ip.zip(self.claims.known_owners()).and_then(|(ip, owners)| owners.get(&ip));
        let owner = owner.map(|owner| &owner.uid);
        let concerned: BTreeSet<Uid> = machines.iter().flat_map(on).chain(owner).cloned().collect();
        self.attention.touched.extend(concerned.iter().cloned());
        concerned
    }

    /// The objects that use a watch.
    pub(super) fn users_of(&mut self, key: &WatchKey) -> Vec<Uid> {
        let asked = match self.attention.asked.take() {
            Some(asked) => asked,
            None => self.asked(),
        };
        let users = asked.users.get(key).cloned();
        self.attention.asked = Some(asked);
        // The content of a watch that nobody uses is forgotten by the next plan.
        self.attention.watches_changed |= users.is_none();
        users.unwrap_or_default()
    }

    fn asked(&self) -> Asked {
        let mut users: BTreeMap<WatchKey, Vec<Uid>> = BTreeMap::new();
        let pools = self.pools.iter().map(|(uid, pool)| (uid, &pool.spec.criteria));
        let sets = self.record_sets.iter().map(|(uid, set)| (uid, &set.spec.criteria));
        for (uid, criteria) in pools.chain(sets) {
            for key in criteria.iter().flat_map(Criteria::watches) {
                users.entry(key.clone()).or_default().push(uid.clone());
            }
        }
        Asked { users, checks: self.any_asks_for_checks() }
    }

    /// Whether some object asks for checks of nodes.
    pub(super) fn asks_for_checks(&self) -> bool {
        self.attention.asked.as_ref().map_or_else(|| self.any_asks_for_checks(), |asked| asked.checks)
    }

    fn any_asks_for_checks(&self) -> bool {
        let of_pool = self.pools.values().any(|pool| !pool.deleting && pool.spec.check.is_some());
        of_pool || self.record_sets.values().any(|set| !set.deleting && set.spec.check.is_some())
    }
}
