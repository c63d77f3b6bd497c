//! One account's firewalls, for all pools: which request is sent next, and which pool an answer concerns.
//!
//! Invariants: firewalls use the budget that addresses and records do not need. Each firewall has at most one change
//! under way. While the token is refused, one change a minute tests whether it still is.

use super::action::{Action, Call, Outcome, Reply};
use super::cover::Covers;
use super::read_trust::Looks;
use super::report;
use super::set::{Existence, Set};
use super::spec::Entry;
use super::steps::{IntendedFirewall, Leave, Scene, Step, Steps};
use crate::mechanism::{Budget, Effects, Epoch, Notice, Purpose, RefusedRight};
use crate::model::catalog::events::EventReason;
use crate::model::provider::FirewallLimits;
use crate::model::words::name_all;
use crate::model::{AccountId, CallFailure, Condition, Context, MachineId, MachineKind, Moment, Owner, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// The firewalls of one account.
#[derive(Debug)]
pub struct FirewallAccount {
    id: AccountId,
    limits: FirewallLimits,
    machines: &'static MachineKind,
    looks: Looks,
    sets: BTreeMap<Uid, Set>,
    /// The pools that need looks, and those that only need a guard.
    wanting: BTreeSet<Uid>,
    guarding: BTreeSet<Uid>,
    /// The gate before changes.
    gate: RefusedRight,
}

/// The means to send changes.
#[derive(Debug)]
pub struct Means<'a> {
    /// The account and its epoch.
    pub epoch: &'a Epoch,
    /// The budget of its token.
    pub budget: &'a mut Budget,
    /// Whether calls that change something may start.
    pub permit: bool,
    /// Now.
    pub now: Moment,
}

impl FirewallAccount {
    /// An account about which nothing is known.
    pub fn new(id: AccountId, limits: FirewallLimits, machines: &'static MachineKind) -> Self {
        Self {
            id,
            limits,
            machines,
            looks: Looks::default(),
            sets: BTreeMap::new(),
            wanting: BTreeSet::new(),
            guarding: BTreeSet::new(),
            gate: RefusedRight::default(),
        }
    }

    /// Starts again when leadership begins, because a predecessor may have changed everything.
    pub fn restart(&mut self, now: Moment) {
        self.sets.clear();
        self.wanting.clear();
        self.guarding.clear();
        self.looks.restart(now);
        self.gate = RefusedRight::default();
    }

    /// Takes in a change of the token.
    pub fn token_changed(&mut self, now: Moment) {
        self.looks.restart(now);
        self.gate = RefusedRight::default();
        self.sets.values_mut().for_each(Set::forgive);
    }

    /// Makes every call due that failed with the account, because its outage is over.
    pub fn release(&mut self, now: Moment) {
        self.looks.release(now);
        self.sets.values_mut().for_each(|set| set.retry.release(now));
    }

    /// The entries that a pool's status is to remember. `None` while the pool has not been noted.
    pub fn entries(&self, uid: &Uid) -> Option<impl Iterator<Item = &Entry>> {
        self.sets.get(uid).map(Set::entries)
    }

    /// The conditions about a pool's firewalls. `None` while there is nothing to report.
    pub fn conditions(&self, intended: &IntendedFirewall, unusable: bool) -> Option<Vec<Condition>> {
        let set = self.sets.get(&intended.pool.uid)?;
        report::conditions(set, &self.looks, intended, (self.machines.noun, unusable))
    }

    /// Forgets a pool that is gone. Returns the firewalls that it leaves behind.
    pub fn forget(&mut self, uid: &Uid) -> Vec<Entry> {
        self.wanting.remove(uid);
        self.guarding.remove(uid);
        self.sets.remove(uid).iter().flat_map(Set::entries).cloned().collect()
    }

    /// Notes what each pool intends. `remembered` are the entries of its status on the server.
    pub fn note(&mut self, intentions: &[(IntendedFirewall, Vec<Entry>)], now: Moment) {
        for (intended, remembered) in intentions {
            self.sets.entry(intended.pool.uid.clone()).or_insert_with(|| Set::recalled(remembered.clone()));
        }
        let (owned, counts) = (self.owned(), self.counts());
        for (intended, remembered) in intentions {
            let Some(mut set) = self.sets.remove(&intended.pool.uid) else { continue };
            set.note(intended, &self.scene(&owned, counts, remembered, now));
            self.sets.insert(intended.pool.uid.clone(), set);
        }
    }

    /// Machines to which no assignment of this pool should begin yet, each with the end of the wait.
    pub fn gates(&self, intended: &IntendedFirewall, now: Moment) -> BTreeMap<MachineId, Moment> {
        let Some(set) =
            self.sets.get(&intended.pool.uid).filter(|set| !report::is_in_trouble(set, &self.looks))
        else {
            return BTreeMap::new();
        };
        set.gates(&self.looks, now)
    }

    fn owned(&self) -> BTreeSet<String> {
        let entries = self.sets.values().flat_map(Set::entries);
        entries.filter(|entry| !entry.id.is_empty()).map(|entry| entry.id.clone()).collect()
    }

    /// Whether the looks show reliably which firewalls govern a machine.
    fn counts(&self) -> bool {
        self.looks.whole().is_some()
            && self.looks.missing().is_empty()
            && self.sets.values().all(|set| set.doubt().is_none())
    }

    fn scene<'a>(
        &'a self,
        owned: &'a BTreeSet<String>,
        counts: bool,
        remembered: &'a [Entry],
        now: Moment,
    ) -> Scene<'a> {
        let (account_id, capacity, looks) = (&self.id, self.limits.machines, &self.looks);
        Scene { account_id, capacity, looks, owned, counts, remembered, now }
    }

    /// Decides which reads and changes to send. `intentions` are those of these pools. Returns the pools for which
    /// something is to be done or awaited.
    pub fn plan(
        &mut self,
        (intentions, pools): (&[(IntendedFirewall, Vec<Entry>)], &BTreeSet<Uid>),
        mut means: Means<'_>,
        out: &mut Effects<Action>,
    ) -> BTreeSet<Uid> {
        let now = means.now;
        let asks = |uid: &Uid| intentions.iter().any(|(intended, _)| intended.pool.uid == *uid);
        self.sets.retain(|uid, set| !set.firewalls.is_empty() || !pools.contains(uid) || asks(uid));
        self.note(intentions, now);
        let (owned, counts) = (self.owned(), self.counts());
        let mut whole_by = None;
        let mut restless = BTreeSet::new();
        self.wanting.retain(|uid| !pools.contains(uid));
        self.guarding.retain(|uid| !pools.contains(uid));
        for (intended, remembered) in intentions {
            let uid = &intended.pool.uid;
            let Some(mut set) = self.sets.remove(uid) else { continue };
            let before = out.additions();
            let due = set.plan(intended, &self.scene(&owned, counts, remembered, now));
            let acts = intended.leave == Leave::Act;
            if acts
                && (!set.firewalls.is_empty() || (intended.rules.is_some() && !intended.machines.is_empty()))
            {
                self.wanting.insert(uid.clone());
            }
            if !set.firewalls.is_empty() {
                self.guarding.insert(uid.clone());
            }
            out.later(due.wake);
            for until in set.gates(&self.looks, now).into_values() {
                out.later(until);
            }
            whole_by = [whole_by, due.whole_by].into_iter().flatten().min();
            let waits = !due.steps.is_empty() || due.whole_by.is_some() || set.lacking().next().is_some();
            self.send(&mut set, intended, due, &mut means, out);
            if waits || out.additions() != before {
                restless.insert(uid.clone());
            }
            self.sets.insert(uid.clone(), set);
        }
        let guard_from = self.looks.guard_from();
        let guards = !self.guarding.is_empty();
        if !self.wanting.is_empty() || guards && guard_from <= now {
            self.look(whole_by, &mut means, out);
        } else if guards {
            out.later(guard_from);
        }
        restless
    }

    fn look(&mut self, whole_by: Option<Moment>, means: &mut Means<'_>, out: &mut Effects<Action>) {
        let Some((at, machines)) = self.looks.due(whole_by) else { return };
        if at > means.now {
            out.later(at);
        } else if admit(means, out) {
            self.looks.begun(machines, means.now);
            out.act(means.epoch.request(None, Call::Look { machines }));
        }
    }

    fn send(
        &mut self,
        set: &mut Set,
        intended: &IntendedFirewall,
        due: Steps,
        means: &mut Means<'_>,
        out: &mut Effects<Action>,
    ) {
        for step in due.steps {
            let is_write = !matches!(step, Step::Find(_));
            if is_write && !self.may_write(means, out) || !admit(means, out) {
                continue;
            }
            if is_write {
                self.gate.sent(means.now);
            }
            let call = match step {
                Step::Find(entry) => {
                    if let Some(ours) = set.named(&entry.name) {
                        ours.existence = Existence::Lost(true);
                    }
                    Call::Find(entry.id)
                }
                Step::Create(name, rules, machines) => {
                    if let Some(ours) = set.named(&name) {
                        ours.note_creation(&machines);
                    }
                    Call::Create { name, rules, machines }
                }
                Step::Change(Entry { id, name, .. }, change) => {
                    let here = due.isolated.iter().filter(|(of, _)| *of == name).map(|(_, machine)| machine);
                    let fresh: Vec<&MachineId> = here.filter(|machine| set.is_news(machine)).collect();
                    out.tell((!fresh.is_empty()).then(|| isolation(intended, &name, &fresh)));
                    if let Some(ours) = set.named(&name) {
                        ours.note_change(&change);
                    }
                    Call::Change { name, id, change }
                }
            };
            out.act(means.epoch.request(Some(Owner::pool(intended.pool.clone())), call));
        }
    }

    /// Whether a change may be sent. While the token is refused, one change a minute tests whether it still is.
    fn may_write(&self, means: &Means<'_>, out: &mut Effects<Action>) -> bool {
        if !means.permit {
            return false;
        }
        if let Some(at) = self.gate.waits(means.now) {
            out.later(at);
            return false;
        }
        true
    }

    /// Takes in an answer.
    pub fn answered(&mut self, Outcome { epoch, owner, begun, mut reply }: Outcome, at: Context) {
        if matches!(reply, Reply::Created(..) | Reply::Changed { .. }) {
            self.looks.changed(at.now);
            self.gate.answered(&epoch, reply.failure().as_deref(), at.now);
        }
        let set = owner.and_then(|owner| self.sets.get_mut(&owner.object.uid));
        match (reply, set) {
            (Reply::Looked(result), _) => self.looked(begun, result, at),
            (Reply::Found(id, result), Some(set)) => set.found(&id, result, at),
            (Reply::Created(name, result), Some(set)) => set.created(&name, result, at),
            (Reply::Changed { name, deleted, result }, Some(set)) => set.changed(&name, deleted, result, at),
            (Reply::Found(..) | Reply::Created(..) | Reply::Changed { .. }, None) => {}
        }
    }

    fn looked(&mut self, begun: Moment, result: Result<super::facts::Sight, CallFailure>, at: Context) {
        let Some(firewalls) = self.looks.answered(begun, result, at) else { return };
        let owned = self.owned();
        let whole = self.looks.whole().filter(|whole| whole.begun == begun);
        let covers = whole.map(|whole| Covers {
            firewalls: &whole.firewalls,
            machines: &whole.machines,
            owned: &owned,
        });
        for set in self.sets.values_mut() {
            set.saw(begun, &firewalls, covers.as_ref());
        }
        let unfinished = self.sets.values().any(Set::is_unfinished);
        self.looks.follow(unfinished, at.now);
    }
}

fn admit(means: &mut Means<'_>, out: &mut Effects<Action>) -> bool {
    match means.budget.admit(Purpose::Firewall, means.now) {
        Ok(()) => {
            means.budget.sent(Purpose::Firewall, means.now);
            true
        }
        Err(at) => {
            out.later(at);
            false
        }
    }
}

fn isolation(intended: &IntendedFirewall, name: &str, machines: &[&MachineId]) -> Notice {
    let owner = Owner::pool(intended.pool.clone());
    let nodes = machines.iter().map(|machine| {
        let node = intended.machines.get(*machine);
        node.cloned().unwrap_or_else(|| machine.to_string())
    });
    let nodes: BTreeSet<String> = nodes.collect();
    let message = format!(
        "FLIPOP removed these nodes from firewall {name}: {}; no firewall of yours governs them any more, and this one \
         alone would close every other port",
        name_all(&nodes)
    );
    Notice::on(&owner, true, EventReason::FirewallWouldIsolate, name, message)
}
