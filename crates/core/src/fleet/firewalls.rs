//! Firewalls of all pools: the firewall that each pool asks for, the machines that wait for a firewall, and the
//! reports.
//!
//! Invariants: a pool without `spec.firewall` and without a firewall in its status costs no request. Incomplete
//! knowledge changes nothing.

use super::Fleet;
use crate::addresses::account::Account;
use crate::addresses::pool::Pool;
use crate::addresses::pool::status::PoolStatus;
use crate::firewalls::account::{FirewallAccount, Means};
use crate::firewalls::action::{Action, Outcome, Reply};
use crate::firewalls::spec::{Entry, FirewallSpec};
use crate::firewalls::steps::{IntendedFirewall, Leave};
use crate::mechanism::{Effects, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::provider::Providers;
use crate::model::words::name_all;
use crate::model::{
    AccountId, Address, Condition, ConditionType, Context, MachineId, Moment, NodeStore, ObjectRef, Owner,
    Uid,
};
use std::collections::{BTreeMap, BTreeSet};

/// Machines to which no assignment of a pool should begin yet, and until when.
pub(super) type PortsPending = BTreeMap<Uid, BTreeMap<MachineId, Moment>>;

/// The state of firewalls.
#[derive(Debug, Default)]
pub(super) struct Firewalls {
    accounts: BTreeMap<AccountId, FirewallAccount>,
    /// Firewalls that deleted pools have left, since the process started.
    pub(super) left: u64,
}

impl Firewalls {
    /// The state for all providers that have firewalls.
    pub(super) fn new(providers: &Providers) -> Self {
        let accounts = providers.of_addresses().filter_map(|of| {
            let id = AccountId::from(of.name);
            Some((id.clone(), FirewallAccount::new(id, of.firewalls?, of.machines?)))
        });
        Self { accounts: accounts.collect(), left: 0 }
    }

    /// Starts again when leadership begins.
    pub(super) fn restart(&mut self, now: Moment) {
        self.accounts.values_mut().for_each(|account| account.restart(now));
    }

    /// Takes in a change of the token.
    pub(super) fn token_changed(&mut self, account_id: &AccountId, now: Moment) {
        if let Some(account) = self.accounts.get_mut(account_id) {
            account.token_changed(now);
        }
    }

    /// Makes every call due that failed with the account, because its outage is over.
    pub(super) fn release(&mut self, account_id: &AccountId, now: Moment) {
        self.accounts.get_mut(account_id).into_iter().for_each(|account| account.release(now));
    }

    /// The Event for a deleted pool that leaves firewalls.
    pub(super) fn forget(&mut self, pool: &ObjectRef) -> Option<Notice> {
        let left = self.accounts.values_mut().flat_map(|account| account.forget(&pool.uid));
        let left: Vec<Entry> = left.collect();
        if left.is_empty() {
            return None;
        }
        self.left = self.left.saturating_add(u64::try_from(left.len()).unwrap_or(u64::MAX));
        let names = name_all(left.iter().map(|entry| entry.name.as_str()));
        let message = format!(
            "the pool was deleted, and FLIPOP no longer manages its firewalls: {names}; delete those that you do \
             not need"
        );
        let owner = Owner::pool(pool.clone());
        Some(Notice::on(&owner, true, EventReason::FirewallLeft, "firewalls", message))
    }
}

impl Fleet {
    /// The pools that have firewalls at the provider, or may have some. These are deleted before the object that asks
    /// for their deletion.
    pub(super) fn pools_with_firewalls(&self) -> BTreeSet<Uid> {
        let has_some = |uid: &Uid, pool: &Pool| {
            let known = self.firewalls.accounts.values().find_map(|account| account.entries(uid));
            known.map_or(!pool.on_server.firewalls.is_empty(), |mut entries| entries.next().is_some())
        };
        let due = self.due_pools().map(|pool| (&pool.object.uid, pool));
        due.filter(|(uid, pool)| has_some(uid, pool)).map(|(uid, _)| uid.clone()).collect()
    }

    /// The intended firewalls of an account's pools, each with the firewalls that its status on the server remembers.
    fn intended_firewalls(
        &self,
        account_id: &AccountId,
        account: &Account,
        now: Moment,
    ) -> Vec<(IntendedFirewall, Vec<Entry>)> {
        let going = self.due_pools().filter(|pool| pool.is_going());
        let all = self.by_age().into_iter().chain(going);
        let here = all.filter(|pool| pool.spec.account_id == *account_id);
        here.filter_map(|pool| {
            let remembered: Vec<Entry> = pool
                .on_server
                .firewalls
                .iter()
                .filter(|entry| entry.account_id == *account_id)
                .cloned()
                .collect();
            let known = self.firewalls.accounts.get(account_id).and_then(|of| of.entries(&pool.object.uid));
            let stands = !remembered.is_empty() || known.is_some_and(|mut entries| entries.next().is_some());
            let asks = pool.spec.firewall != FirewallSpec::None;
            (asks || stands).then(|| (self.intended_firewall(pool, account, now), remembered))
        })
        .collect()
    }

    fn intended_firewall(&self, pool: &Pool, account: &Account, now: Moment) -> IntendedFirewall {
        let gone = pool.gives_up_firewalls();
        let rules = match &pool.spec.firewall {
            FirewallSpec::Open(rules) if !gone => Some(rules.clone()),
            FirewallSpec::None | FirewallSpec::Unusable | FirewallSpec::Open(_) => None,
        };
        let mut machines = BTreeMap::new();
        let stores = self.watched.stores(pool).map(|(nodes, _)| nodes);
        let labelled = stores.into_iter().flat_map(NodeStore::iter);
        for node in labelled {
            if let Some(machine) = node.machine.as_ref().filter(|on| on.kind() == account.machines()) {
                machines.insert(machine.clone(), node.name.clone());
            }
        }
        let ours = || account.ops().filter(|(_, op)| op.pool == pool.object.uid);
        let going = ours().map(|(_, op)| op.machine.clone());
        let claimed = &pool.report.claimed;
        let held = pool.effective().into_iter().filter(|ip: &Address| !claimed.contains_key(ip));
        let standing = held.filter_map(|ip| account.place(ip).machine().cloned());
        for machine in going.chain(standing) {
            let name = machine.to_string();
            machines.entry(machine).or_insert(name);
        }
        let known =
            account.is_known() && account.is_authorised() && stores.is_some_and(NodeStore::is_complete);
        let begins = pool.may_begin() && pool.spec.firewall != FirewallSpec::Unusable;
        let may = known && (begins || gone);
        IntendedFirewall {
            pool: pool.object.clone(),
            rules,
            machines,
            leave: if may { Leave::Act } else { Leave::Guard },
            moving: ours().any(|(_, op)| !op.is_stalled(now)),
        }
    }

    /// Notes the intended firewalls, and returns the machines that wait for their firewalls.
    pub(super) fn gates(&mut self, now: Moment) -> PortsPending {
        let mut gates = PortsPending::new();
        let ids: Vec<AccountId> = self.firewalls.accounts.keys().cloned().collect();
        for id in ids {
            let Some(account) = self.accounts.get(&id) else { continue };
            let intended = self.intended_firewalls(&id, account, now);
            let Some(firewalls) = self.firewalls.accounts.get_mut(&id) else { continue };
            firewalls.note(&intended, now);
            gates.extend(intended.iter().map(|(one, _)| (one.pool.uid.clone(), firewalls.gates(one, now))));
        }
        gates
    }

    /// Decides on reads and changes.
    pub(super) fn plan_firewalls(&mut self, now: Moment, out: &mut Effects<Action>) {
        let ids: Vec<AccountId> = self.firewalls.accounts.keys().cloned().collect();
        for id in ids {
            let Some(account) = self.accounts.get(&id) else { continue };
            let intended = self.intended_firewalls(&id, account, now);
            let permit = self.permit;
            let (Some(account), Some(firewalls)) =
                (self.accounts.get_mut(&id), self.firewalls.accounts.get_mut(&id))
            else {
                continue;
            };
            let epoch = account.epoch().clone();
            let means = Means { epoch: &epoch, budget: account.budget(), permit, now };
            let restless = firewalls.plan((&intended, &self.attention.due), means, out);
            for uid in &restless {
                self.attention.stirs(uid);
            }
        }
    }

    /// Takes in an answer.
    pub(super) fn firewalls_answered(&mut self, mut outcome: Outcome, at: Context) {
        self.attention.look_at_all();
        let id = outcome.epoch.account_id.clone();
        let present = self.accounts.get(&id).map(Account::epoch);
        super::outcomes::judge(&outcome.epoch, present, outcome.reply.failure());
        let begun = matches!(outcome.reply, Reply::Looked(_)).then_some(outcome.begun);
        if let Some(account) = self.accounts.get_mut(&id) {
            account.hear_of_others(begun, outcome.reply.failure(), at.now);
        }
        if let Some(account) = self.firewalls.accounts.get_mut(&id) {
            account.answered(outcome, at);
        }
    }
}

/// The conditions about firewalls.
const OURS: [ConditionType; 2] = [ConditionType::FirewallReady, ConditionType::FirewallWouldIsolate];

/// The firewall part of a status.
pub(super) struct FirewallReport {
    entries: Vec<Entry>,
    conditions: Vec<Condition>,
}

impl FirewallReport {
    /// Adds the firewall part to a status.
    pub(super) fn complete(self, status: &mut PoolStatus) {
        status.firewalls = self.entries;
        status.conditions.extend(self.conditions);
    }

    /// Replaces the firewall part of a status.
    pub(super) fn replace(self, status: &mut PoolStatus) {
        status.conditions.retain(|condition| !OURS.iter().any(|kind| condition.is(*kind)));
        self.complete(status);
    }
}

impl Fleet {
    /// The firewall part of each pool's status. An unknown part stays as it was.
    pub(super) fn firewall_reports(&self, now: Moment) -> BTreeMap<Uid, FirewallReport> {
        let tells = |pool: &Pool| {
            let known = self.firewalls.accounts.values().any(|of| of.entries(&pool.object.uid).is_some());
            known || pool.spec.firewall != FirewallSpec::None || !pool.on_server.firewalls.is_empty()
        };
        let pools = self.due_pools().filter(|pool| (!pool.deleting || pool.is_going()) && tells(pool));
        pools.map(|pool| (pool.object.uid.clone(), self.firewall_report(pool, now))).collect()
    }

    fn firewall_report(&self, pool: &Pool, now: Moment) -> FirewallReport {
        let before = &pool.on_server;
        let id = &pool.spec.account_id;
        let (account, firewalls) = (self.accounts.get(id), self.firewalls.accounts.get(id));
        let known = firewalls.and_then(|firewalls| firewalls.entries(&pool.object.uid));
        let elsewhere = before.firewalls.iter().filter(|entry| entry.account_id != *id).cloned();
        let entries = match known {
            Some(entries) => entries.cloned().chain(elsewhere).collect(),
            None => before.firewalls.clone(),
        };
        let unusable = pool.spec.firewall == FirewallSpec::Unusable;
        let now = account.zip(firewalls).and_then(|(account, firewalls)| {
            firewalls.conditions(&self.intended_firewall(pool, account, now), unusable)
        });
        let asks = pool.spec.firewall != FirewallSpec::None || !entries.is_empty();
        let conditions = match now {
            Some(conditions) => conditions,
            None if !asks => Vec::new(),
            None => {
                let ours =
                    before.conditions.iter().filter(|condition| OURS.iter().any(|kind| condition.is(*kind)));
                ours.cloned().collect()
            }
        };
        FirewallReport { entries, conditions }
    }
}
