//! Hands the answers to actions to the parts of the fleet that they concern.

use super::Fleet;
use super::action::{Outcome, Sweep};
use crate::addresses::account::op::End;
use crate::addresses::account::rights::Right;
use crate::addresses::account::{Account, Changes};
use crate::addresses::action::{Outcome as OfAddresses, Reply};
use crate::addresses::pool::{Pool, orphans};
use crate::mechanism::Epoch;
use crate::model::{AccountId, Address, CallFailure, Context, FaultKind, MachineId, Moment};
use crate::records::action::{self as records, Reply as OfRecords};
use crate::records::site::SiteKey;

impl Fleet {
    /// Takes in an answer. Every answer changes the work under way, so a plan follows even if nothing else has
    /// changed.
    pub(super) fn observe_outcome(&mut self, outcome: Outcome, at: Context) {
        self.dirty |= !matches!(outcome, Outcome::NodesCounted(_));
        match outcome {
            Outcome::Addresses(outcome) => self.addresses_answered(outcome, at),
            Outcome::Records(outcome) => self.records_answered(outcome, at),
            Outcome::Firewalls(outcome) => self.firewalls_answered(outcome, at),
            Outcome::StatusWritten(pool, result) => {
                self.attention.touch(&pool);
                if let Some(pool) = self.pools.get_mut(&pool) {
                    pool.status_written(result, at);
                }
            }
            Outcome::IpsWritten { pool, add, remove, result } => {
                self.attention.touch(&pool);
                if let Some(pool) = self.pools.get_mut(&pool) {
                    pool.ips_written((&add, &remove), &result, at);
                }
            }
            Outcome::FinalizerWritten { pool, present, result } => {
                self.attention.touch(&pool);
                if let Some(pool) = self.pools.get_mut(&pool) {
                    pool.guard_written(present, &result, at);
                }
            }
            Outcome::RecordSetStatusWritten(record_set, result) => {
                self.record_set_status_written(&record_set, result, at);
            }
            Outcome::Annotated { node, uid, value, result } => {
                self.annotations.written(node, uid, value, result, at);
                self.note_denials();
            }
            Outcome::Labelled { node, uid, changes, result } => {
                self.labels.written(node, uid, &changes, result, at);
                self.note_denials();
            }
            Outcome::Swept(result) => {
                if let Some(Sweep { names, marked }) = self.annotations.swept(result, at) {
                    self.labels.swept(&marked);
                    self.checks.evidence.nodes_listed(names);
                }
            }
            Outcome::ObjectsListed(asked, result) => self.objects.answered(asked, result, at),
            Outcome::NodesCounted(result) => self.nodes_counted(&result),
            Outcome::NodeRead(object, read) => self.node_read(&object, &read, at),
        }
    }

    fn addresses_answered(&mut self, mut outcome: OfAddresses, at: Context) {
        let account_id = outcome.epoch.account_id.clone();
        let mut account = self.accounts.get_mut(&account_id);
        judge(&outcome.epoch, account.as_deref().map(Account::epoch), outcome.reply.failure());
        let ends = account.as_mut().is_some_and(|account| account.hear(&mut outcome, at.now));
        self.address_call_answered(outcome, at);
        if ends {
            self.outage_ended(&account_id, at.now);
        }
    }

    /// Makes every call due that failed with the account of addresses.
    fn outage_ended(&mut self, account_id: &AccountId, now: Moment) {
        self.attention.look_at_all();
        self.accounts.get_mut(account_id).into_iter().for_each(|account| account.release(now));
        self.firewalls.release(account_id, now);
        let concerned = |pool: &&mut Box<Pool>| {
            pool.spec.account_id == *account_id
                || pool.creates_at() == account_id
                || pool.has_bought_in(account_id)
        };
        self.pools.values_mut().filter(concerned).for_each(|pool| pool.release(now));
    }

    fn address_call_answered(&mut self, outcome: OfAddresses, at: Context) {
        let OfAddresses { epoch, owner, begun, reply } = outcome;
        let pool = owner.map(|owner| owner.object).unwrap_or_default();
        match reply {
            Reply::Tested(_) => {}
            Reply::Listed(result) => {
                self.note_shown(&epoch, begun, &result);
                self.with_account(&epoch, None, at, |account| account.on_list(begun, result, at));
            }
            Reply::Got(ip, result) => {
                self.reclaim_read(&epoch, ip, begun, &result, at);
                self.with_account(&epoch, Some(ip), at, |account| account.on_get(ip, begun, result, at));
            }
            Reply::Proved(result) => {
                self.with_account(&epoch, None, at, |account| account.on_proof(result, at));
            }
            Reply::MachineRead(machine, asked, result) => {
                self.machine_read(&epoch, &machine, (asked, result), at.now);
            }
            Reply::Polled(ip, result) => {
                self.with_account(&epoch, Some(ip), at, |account| account.on_poll(ip, begun, result, at));
            }
            Reply::Changed(ip, result) => {
                self.with_account(&epoch, Some(ip), at, |account| {
                    account.on_changed(ip, &epoch, result, at.now)
                });
            }
            Reply::Created(result) => {
                self.attention.look_at_all();
                let Some(account) = self.accounts.get_mut(&epoch.account_id) else { return };
                account.creation_answered();
                account.answered(Right::Create, &epoch, result.as_ref().err(), at.now);
                match self.pools.get_mut(&pool.uid) {
                    Some(pool) if !pool.deleting || pool.is_going() => {
                        pool.on_created(account, result, at, &mut self.outbox);
                    }
                    gone => {
                        // So it no longer delays the other pools of the account.
                        if let Some(pool) = gone {
                            pool.forget_intent();
                        }
                        self.outbox.extend(orphans::ownerless(pool, &result));
                    }
                }
            }
            Reply::Deleted(ip, result) => {
                self.attention.look_at_all();
                let Some(account) = self.accounts.get_mut(&epoch.account_id) else { return };
                account.deletion_answered(ip);
                account.answered(Right::Delete, &epoch, result.as_ref().err(), at.now);
                let owner = self.pools.get_mut(&pool.uid).filter(|pool| pool.is_giving(ip));
                match (owner, &result) {
                    (Some(pool), _) => pool.on_deleted(ip, result, at),
                    (None, Ok(())) => account.deletion_is_unowned(ip, true, at.now),
                    (None, Err(CallFailure::Fault(fault))) if fault.outcome_unknown => {
                        account.deletion_is_unowned(ip, false, at.now);
                    }
                    (None, Err(_)) => {}
                }
            }
        }
    }

    fn records_answered(&mut self, mut outcome: records::Outcome, at: Context) {
        let (account_id, begun) = (outcome.epoch.account_id.clone(), outcome.begun);
        judge(&outcome.epoch, self.dns.epoch(&account_id), outcome.reply.failure());
        let ends = self.dns.hear(&mut outcome, &mut self.accounts, at.now);
        let site = |zone, fqdn| SiteKey { account_id: account_id.clone(), zone, fqdn };
        match outcome.reply {
            OfRecords::Tested(_) => {}
            OfRecords::ZoneFound(zone, result) => {
                self.attention.look_at_all();
                self.dns.zone_found(&account_id, &zone, result, at);
            }
            OfRecords::RecordsRead { zone, fqdn, mark_of: None, result } => {
                let key = site(zone, fqdn);
                self.touch_owner(&key, result.is_err());
                self.dns.records_read(&key, result, at);
                self.touch_holders(&key);
            }
            OfRecords::RecordsRead { zone, mark_of: Some(fqdn), result, .. } => {
                let key = site(zone, fqdn);
                self.touch_owner(&key, result.is_err());
                self.dns.mark_read(&key, result, at);
            }
            OfRecords::RecordsApplied { zone, fqdn, result } => {
                let key = site(zone, fqdn);
                self.touch_owner(&key, result.is_err());
                self.dns.records_applied(&key, (begun, result), &mut self.accounts, at, &mut self.outbox);
                self.touch_holders(&key);
            }
        }
        if ends {
            self.attention.look_at_all();
            self.dns.outage_ended(&account_id, &mut self.accounts, at.now);
        }
    }

    /// Notes an answer about the records at a name. A failure may concern the zone or the token.
    fn touch_owner(&mut self, key: &SiteKey, failed: bool) {
        if failed {
            self.attention.look_at_all();
        } else if let Some(owner) = self.dns.owner(key) {
            self.attention.touch(&owner.object.uid);
        }
    }

    /// A pool remembers every name at which records hold an address that it bought.
    fn touch_holders(&mut self, key: &SiteKey) {
        match self.claims.known_owners() {
            Some(owners) => {
                let holders = self.dns.held_at(key).filter_map(|ip| owners.get(&ip));
                holders.for_each(|owner| self.attention.touch(&owner.uid));
            }
            None => self.attention.look_at_all(),
        }
    }

    /// Every status says why nodes cannot be changed. Returns whether that is another reason than before.
    pub(super) fn note_denials(&mut self) -> bool {
        let denied = |denied: Option<&str>| denied.map(str::to_owned);
        let now = (denied(self.annotations.denied()), denied(self.labels.denied()));
        let changed = self.denied != now;
        if changed {
            self.denied = now;
            self.attention.look_at_all();
        }
        changed
    }

    /// Hands an answer to an account.
    fn with_account(
        &mut self,
        Epoch { account_id, .. }: &Epoch,
        ip: Option<Address>,
        at: Context,
        act: impl FnOnce(&mut Account) -> Changes,
    ) {
        let Some(account) = self.accounts.get_mut(account_id) else { return };
        let outlook =
            |account: &Account| (account.is_known(), account.trouble().cloned(), account.machine_read());
        let before = outlook(account);
        let machines = |account: &Account| ip.into_iter().flat_map(|ip| account.machines_of(ip)).collect();
        let mut machines_of_ip: Vec<MachineId> = machines(account);
        let changes = act(account);
        machines_of_ip.extend(machines(account));
        let concerned = ip.map(|ip| vec![(ip, machines_of_ip)]).or(changes.concerned);
        if outlook(account) != before || concerned.is_none() {
            self.attention.look_at_all();
        }
        for finished in &changes.finished {
            self.attention.touch(&finished.op.pool);
            if let Some(pool) = self.pools.get_mut(&finished.op.pool) {
                if finished.end == End::Done {
                    let change = pool.change_of(finished, at.now);
                    pool.count_move(change.moved);
                    self.failovers.confirmed(&finished.op.pool, &change);
                    self.changes.push(change);
                }
                pool.finished(finished, account, at, &mut self.outbox);
            }
            if finished.end == End::Done && finished.op.target().is_some() {
                self.latencies_ms.push(at.now.millis_since(finished.op.caused));
            }
        }
        for (ip, machines) in concerned.into_iter().flatten() {
            self.touch_concerned(Some(ip), &machines);
        }
        self.tell_overturned(account_id, &changes.overturned, at.now);
    }
}

/// Turns a refusal from another epoch into an unsent call, since it proves nothing in this one and had no effect. All
/// other answers count in every epoch, purchases above all.
pub(super) fn judge(asked: &Epoch, present: Option<&Epoch>, failure: Option<&mut CallFailure>) {
    if present != Some(asked)
        && let Some(failure) = failure
        && matches!(failure, CallFailure::Fault(fault) if fault.kind == FaultKind::Unauthorized)
    {
        *failure = CallFailure::NotSent;
    }
}
