//! Everything that one operator decides about, in one state: pools, nodes, pods and accounts.
//!
//! Facts go in through [`Fleet::observe`], and decisions come out of [`Fleet::plan`]. The whole state has one owner. So
//! claims between pools, the one open creation per account and the one operation per machine follow from it without
//! negotiation.

pub mod action;
mod annotations;
mod attention;
mod changes;
mod checks;
mod claims;
mod details;
mod dns;
mod explain;
mod failovers;
mod firewalls;
mod followers;
mod intended;
mod labels;
mod node_writes;
mod objects;
mod outcomes;
mod patience;
mod plan;
mod reclaim;
mod record_sets;
mod snapshot;
mod unready;
mod witness;
mod writes;

pub use crate::addresses::pool::losses::{Change, Failover, Phases};
pub use details::{Details, IpDetails, LeftOut, PoolDetails};
pub use failovers::FailoverPhase;
pub use patience::GraceCounts;
pub use snapshot::{AccountSnapshot, IpSnapshot, PoolSnapshot, RecordSetSnapshot, Snapshot, SuspectSnapshot};
pub use unready::QUIET_AFTER_START_MS;

use crate::addresses::account::Account;
use crate::addresses::pool::Pool;
use crate::addresses::pool::status::PoolObject;
use crate::firewalls::spec::FirewallSpec;
use crate::mechanism::{Clocks, Effect, Notice, RateReport, is_older};
use crate::model::provider::{Descriptor, Providers};
use crate::model::{
    AccountId, Checked, Context, Criteria, LeaseFacts, Moment, NodeFacts, ObjectKind, ObjectName, ObjectRef,
    Observed, PodFacts, Uid, WatchKey,
};
use crate::records::name::Zones;
use crate::records::node_set::NodeSet;
use crate::records::status::RecordSetObject;
use action::{Action, Outcome};
use annotations::Annotations;
use dns::Dns;
use labels::NodeLabelling;
use std::collections::{BTreeMap, BTreeSet};

/// Settings for the life of the process.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The known providers, and those that can be used.
    pub providers: Providers,
    /// The Unix time of the clock's origin in milliseconds. It is for texts, and for times in the status until the API
    /// server's clock is known.
    pub epoch_ms: u64,
    /// The node that the process runs on, which it does not check. `None` if it is unknown.
    pub own_node: Option<String>,
    /// The namespace that the process runs in. `None` if it is unknown.
    pub own_namespace: Option<String>,
    /// The zones in which records may be written.
    pub zones: Zones,
    /// No address is bought in an account that has this many.
    pub max_addresses: Option<usize>,
    /// Each plan looks at every pool anew, as a test of the plans that do not.
    pub thorough: bool,
}

/// A fact.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "inputs are consumed at once, never stored in numbers")]
pub enum Input {
    /// A step of the watch of pools. A kind whose CRD is absent is an empty list.
    Pools(Observed<PoolObject>),
    /// A step of the watch of record sets. A kind whose CRD is absent is an empty list.
    RecordSets(Observed<RecordSetObject>),
    /// A step of a watch of nodes.
    Nodes(WatchKey, Observed<NodeFacts>),
    /// A step of a watch of pods.
    Pods(WatchKey, Observed<PodFacts>),
    /// A watch fails (`Some`), or works again.
    WatchTrouble(WatchKey, Option<String>),
    /// The answer to an action.
    Outcome(Outcome),
    /// Leadership begins, or resumes after a gap in which another process may have written. Everything is read again.
    Leading,
    /// Whether calls that change something may start.
    Permit(bool),
    /// Whether Events may not be written.
    EventsDenied(bool),
    /// The process is ending. It starts only the status write that records a finished creation.
    Draining,
    /// The provider's rate limits for an account.
    Rate(AccountId, RateReport),
    /// The token of an account changed.
    TokenChanged(AccountId),
    /// The time of the clock's origin on the API server's clock, in milliseconds since the Unix epoch.
    ServerEpoch(u64),
    /// The answer to a check of a node.
    Checked(Checked),
    /// A step of the watch of the Leases of nodes.
    Leases(Observed<LeaseFacts>),
    /// Whether the Leases may not be read.
    LeasesDenied(bool),
}

/// The result of a plan.
#[derive(Debug, Default)]
pub struct Plan {
    /// The actions and Events that are due now.
    pub effects: Vec<Effect<Action>>,
    /// When to plan again at the latest.
    pub wake: Option<Moment>,
    /// Something was evaluated again, so snapshots may differ.
    pub fresh: bool,
    /// If anything happened: the watches that should run from now on, and no others. The objects of all others are
    /// forgotten, so a watch that is asked for again later has to begin with a list.
    pub watches: Option<BTreeSet<WatchKey>>,
}

/// The whole state.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with a meaning of its own")]
pub struct Fleet {
    settings: Settings,
    leading: bool,
    permit: bool,
    draining: bool,
    events_denied: bool,
    pools_listed: bool,
    record_sets_listed: bool,
    pools: BTreeMap<Uid, Box<Pool>>,
    attention: attention::Attention,
    claims: claims::Claims,
    /// The objects as the last plan left them.
    shown: snapshot::Shown,
    /// Why nodes cannot be annotated and labelled, as the pools were last told.
    denied: (Option<String>, Option<String>),
    /// Pools whose nodes and pods were completely known at some time since leadership began.
    matched_once: BTreeSet<Uid>,
    record_sets: BTreeMap<Uid, NodeSet>,
    /// The last object with each name.
    names: BTreeMap<(ObjectKind, ObjectName), Uid>,
    watched: followers::Watched,
    accounts: BTreeMap<AccountId, Account>,
    annotations: Annotations,
    intended: intended::Intended,
    labels: NodeLabelling,
    dns: Dns,
    firewalls: firewalls::Firewalls,
    objects: objects::Objects,
    /// Since when lists of all objects have to begin before an address is adopted.
    adoption_waits: Option<Moment>,
    outbox: Vec<Notice>,
    census: explain::Census,
    changes: changes::Changes,
    failovers: failovers::Failovers,
    unready: BTreeMap<Uid, unready::Unready>,
    /// When this process took in its first fact.
    born: Option<Moment>,
    dirty: bool,
    wake: Option<Moment>,
    /// Milliseconds from a change of nodes or pods to the confirmed assignment that responds to it.
    latencies_ms: Vec<u64>,
    /// The time of the origin of this process's clock, on the API server's clock.
    epoch_ms: u64,
    grace: GraceCounts,
    checks: checks::Checks,
}

impl Fleet {
    /// A state that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        let account = |of: &Descriptor| {
            let id = AccountId::from(of.name);
            let mut account = Account::new(id.clone(), of.limits, of.machines?);
            account.max_addresses = settings.max_addresses;
            Some((id, account))
        };
        let accounts = settings.providers.of_addresses().filter_map(account).collect();
        let dns = Dns::new(&settings.providers, settings.zones.clone(), settings.epoch_ms);
        let firewalls = firewalls::Firewalls::new(&settings.providers);
        let checks = checks::Checks::new(&settings.providers);
        Self { epoch_ms: settings.epoch_ms, settings, accounts, checks, dns, firewalls, ..Self::default() }
    }

    /// The watches that some object asks for.
    pub fn watches(&self) -> BTreeSet<WatchKey> {
        let pools = self.pools.values().filter(|pool| !pool.deleting || pool.is_going());
        let pools = pools.filter_map(|pool| pool.spec.criteria.as_ref());
        let sets = self.record_sets.values().filter(|set| !set.deleting);
        let sets = sets.filter_map(|set| set.spec.criteria.as_ref());
        pools.chain(sets).flat_map(Criteria::watches).cloned().collect()
    }

    /// Takes in one fact.
    pub fn observe(&mut self, input: Input, at @ Context { now, .. }: Context) {
        self.born.get_or_insert(now);
        match input {
            Input::Pools(observed) => self.observe_pools(observed, now),
            Input::RecordSets(observed) => self.observe_record_sets(observed, now),
            Input::Nodes(key, observed) => self.observe_nodes(&key, observed, now),
            Input::Pods(key, observed) => self.observe_pods(&key, observed, now),
            Input::WatchTrouble(key, trouble) => {
                if self.watched.trouble.get(&key) != trouble.as_ref() {
                    self.concerns_all();
                }
                match trouble {
                    Some(message) => self.watched.trouble.insert(key, message),
                    None => self.watched.trouble.remove(&key),
                };
            }
            Input::Outcome(outcome) => self.observe_outcome(outcome, at),
            Input::Leading => self.lead(now),
            Input::Permit(permit) => {
                self.dirty |= self.permit != permit;
                self.permit = permit;
            }
            Input::EventsDenied(denied) => {
                if self.events_denied != denied {
                    self.concerns_all();
                }
                self.events_denied = denied;
            }
            Input::Draining => {
                self.concerns_all();
                self.draining = true;
            }
            Input::Rate(account_id, report) => {
                self.dns.observe_rate(&account_id, now, &report);
                if let Some(account) = self.accounts.get_mut(&account_id) {
                    account.observe_rate(now, &report);
                }
            }
            Input::TokenChanged(account_id) => {
                self.dns.token_changed(&account_id);
                self.firewalls.token_changed(&account_id, now);
                self.checks.evidence.forget_shown();
                if let Some(account) = self.accounts.get_mut(&account_id) {
                    account.token_changed(now);
                }
                self.concerns_all();
            }
            Input::ServerEpoch(epoch_ms) => self.epoch_ms = epoch_ms,
            Input::Checked(checked) => self.checks.evidence.checked(&checked, now),
            Input::Leases(observed) => self.checks.evidence.leases(&observed, now),
            Input::LeasesDenied(denied) => self.leases_denied(denied),
        }
    }

    /// Notes that something has happened that concerns every pool.
    fn concerns_all(&mut self) {
        self.dirty = true;
        self.attention.look_at_all();
    }

    /// True while an address was bought that the server's copy of the status does not remember yet.
    pub fn has_unrecorded_creation(&self) -> bool {
        // A pool that is being deleted gets no more status writes, unless it gives something back.
        let written = |pool: &Pool| !pool.deleting || pool.is_going();
        self.pools.values().any(|pool| written(pool) && pool.has_unrecorded_creation())
    }

    /// Begins leadership. Everything that a predecessor may have changed is read again before any decision.
    fn lead(&mut self, now: Moment) {
        self.leading = true;
        self.dirty = true;
        self.attention.specs_changed();
        self.pools_listed = false;
        self.record_sets_listed = false;
        self.watched.distrust();
        self.pools.values_mut().for_each(|pool| pool.distrust());
        self.matched_once.clear();
        self.record_sets.values_mut().for_each(NodeSet::distrust);
        self.dns.restart();
        self.firewalls.restart(now);
        self.failovers.forget();
        self.accounts.values_mut().for_each(|account| account.begin_epoch(now));
        self.annotations.restart();
        self.labels.restart();
        self.objects.restart();
        self.checks.restart();
    }

    fn observe_pools(&mut self, observed: Observed<PoolObject>, now: Moment) {
        self.dirty = true;
        match observed {
            Observed::Reset(seen) => {
                self.attention.specs_changed();
                let live: BTreeSet<Uid> = seen.iter().map(|pool| pool.object.uid.clone()).collect();
                self.keep_pools(|pool| live.contains(&pool.object.uid));
                // When leadership begins, the memory comes from the list, and not from an earlier sight as a standby.
                let recall = !self.pools_listed;
                for pool in seen {
                    self.apply_pool(pool, recall, now);
                }
                self.pools_listed = true;
            }
            Observed::Apply(pool) => {
                let known = self.pools.get(&pool.object.uid);
                if known.is_none_or(|known| !is_older(&pool.resource_version, &known.resource_version)) {
                    self.apply_pool(pool, !self.leading, now);
                }
            }
            Observed::Delete(pool) => {
                self.keep_pools(|kept| kept.object.uid != pool.object.uid);
            }
        }
    }

    /// Removes the other pools, which are gone.
    fn keep_pools(&mut self, kept: impl Fn(&Pool) -> bool) {
        if self.pools.values().all(|pool| kept(pool)) {
            return;
        }
        self.attention.specs_changed();
        let (kept, gone): (BTreeMap<Uid, Box<Pool>>, BTreeMap<Uid, Box<Pool>>) =
            std::mem::take(&mut self.pools).into_iter().partition(|(_, pool)| kept(pool));
        self.pools = kept;
        for pool in gone.values() {
            self.attention.forget_pool(pool);
            self.forget_name(ObjectKind::Pool, &pool.object);
        }
        let left: Vec<Notice> =
            gone.values().filter_map(|pool| self.firewalls.forget(&pool.object)).collect();
        let purchases = gone.into_values().filter_map(|pool| pool.unresolved_purchase());
        self.outbox.extend(purchases.chain(left).filter(|_| self.permit));
    }

    /// Forgets the objects of watches that no object asks for any more, and returns the watches that remain. A watch
    /// that is given up and asked for again between two plans continues without a new list.
    fn forget_unwatched(&mut self) -> BTreeSet<WatchKey> {
        let wanted = self.watches();
        self.watched.keep(&wanted);
        let (pools, sets) = (&self.pools, &self.record_sets);
        self.unready.retain(|uid, _| pools.contains_key(uid) || sets.contains_key(uid));
        self.matched_once.retain(|uid| pools.contains_key(uid));
        wanted
    }

    fn apply_pool(&mut self, seen: PoolObject, recall: bool, now: Moment) {
        let uid = seen.object.uid.clone();
        if let Some(former) = self.name_object(ObjectKind::Pool, &seen.object) {
            self.keep_pools(|pool| pool.object.uid != former);
        }
        let paused = seen.paused.clone();
        let Some(pool) = self.pools.get_mut(&uid) else {
            let mut pool = Pool::new(seen, &self.settings.providers);
            pool.pause.observe(paused.as_deref(), now);
            pool.note_namespace(self.settings.own_namespace.as_deref());
            self.pools.insert(uid.clone(), Box::new(pool));
            self.attention.specs_changed();
            self.rematch(&uid, now);
            return;
        };
        self.attention.touch(&uid);
        let deleting = pool.deleting;
        pool.pause.observe(paused.as_deref(), now);
        if recall {
            pool.recall(&seen);
        }
        let edited = pool.update(seen, &self.settings.providers) || recall;
        if edited || pool.deleting != deleting {
            self.attention.specs_changed();
        }
        if edited {
            self.rematch(&uid, now);
        }
    }

    /// Notes the name of an object. Returns the earlier object with this name: a new object under an old name is a
    /// deletion and a creation, even if the deletion was not seen.
    fn name_object(&mut self, kind: ObjectKind, object: &ObjectRef) -> Option<Uid> {
        let former = self.names.insert((kind, object.name.clone()), object.uid.clone());
        former.filter(|former| *former != object.uid)
    }

    /// Finds out again which object has which name.
    fn find_names(&mut self) {
        let pools = self.pools.values().map(|pool| (ObjectKind::Pool, &pool.object));
        let sets = self.record_sets.values().map(|set| (ObjectKind::RecordSet, &set.object));
        let named =
            |(kind, object): (ObjectKind, &ObjectRef)| ((kind, object.name.clone()), object.uid.clone());
        self.names = pools.chain(sets).map(named).collect();
    }

    /// Forgets the name of an object that is gone.
    fn forget_name(&mut self, kind: ObjectKind, object: &ObjectRef) {
        let key = (kind, object.name.clone());
        if self.names.get(&key) == Some(&object.uid) {
            self.names.remove(&key);
        }
    }

    /// Looks at every node again for one object.
    fn rematch(&mut self, uid: &Uid, now: Moment) {
        let clocks = self.clocks(now);
        let Some(follower) = followers::get(&mut self.pools, &mut self.record_sets, uid) else { return };
        let Some(stores) = self.watched.stores(follower) else { return };
        follower.rematch(None, stores, clocks);
        self.pools.get_mut(uid).into_iter().for_each(|pool| self.attention.note_machines(pool));
    }

    fn observe_nodes(&mut self, key: &WatchKey, observed: Observed<NodeFacts>, now: Moment) {
        let users = self.users_of(key);
        let of_pool = users.iter().any(|uid| self.pools.contains_key(uid));
        self.annotations.observe(&observed, of_pool);
        self.labels.observe(&observed, of_pool);
        let clocks = self.clocks(now);
        self.hear_of_nodes(key, &observed, now);
        let (touched, first) = self.watched.observe_nodes(key, observed);
        for uid in users.iter().filter(|_| !touched.is_empty()) {
            let pool = self
                .pools
                .get(uid)
                .is_some_and(|pool| pool.spec.check.is_some() || pool.spec.firewall != FirewallSpec::None);
            let set = self.record_sets.get(uid).is_some_and(|set| set.spec.check.is_some());
            // More counts of these nodes than whether they match.
            (pool || set).then(|| self.attention.touch(uid));
        }
        self.rematch_users(&users, Some(&touched).filter(|_| !first), clocks);
        self.dirty |= self.annotations.take_changed() | self.labels.take_changed();
    }

    fn observe_pods(&mut self, key: &WatchKey, observed: Observed<PodFacts>, now: Moment) {
        let (touched, first) = self.watched.observe_pods(key, observed);
        if touched.is_empty() && !first {
            return;
        }
        let (users, clocks) = (self.users_of(key), self.clocks(now));
        self.rematch_users(&users, Some(&touched).filter(|_| !first), clocks);
    }

    /// Takes in a step of a watch. The objects that use it look again at the touched nodes, or at all nodes.
    fn rematch_users(&mut self, users: &[Uid], touched: Option<&BTreeSet<String>>, clocks: Clocks) {
        for uid in users {
            let Some(follower) = followers::get(&mut self.pools, &mut self.record_sets, uid) else {
                continue;
            };
            let Some(stores) = self.watched.stores(follower) else { continue };
            if follower.rematch(touched, stores, clocks) {
                self.pools.get_mut(uid).into_iter().for_each(|pool| self.attention.note_machines(pool));
                self.attention.touch(uid);
                self.dirty = true;
            }
        }
    }
}
