//! Gathers the facts from the rest of the state for giving back bought addresses, and lets each pool take its next
//! steps.
//!
//! Invariant: a decision for one pool takes account of the records, annotations and objects of all pools.

use super::Fleet;
use super::action::Action;
use super::dns::{Leaving, site_of};
use crate::addresses::account::Account;
use crate::addresses::action::Action as OfAddresses;
use crate::addresses::pool::Pool;
use crate::addresses::pool::creation::Purchase;
use crate::addresses::pool::reclaim::{Around, Listed};
use crate::mechanism::{Effects, Epoch};
use crate::model::{AccountId, Address, CallFailure, Context, Moment, ObjectKind, ReservedIp, Uid};
use crate::records::site::SiteKey;
use crate::records::spec::AddressSource;
use crate::records::status::described;
use crate::records::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The addresses to take out of all records, by pool.
pub(super) type Withdrawn = BTreeMap<Uid, BTreeSet<Address>>;

impl Fleet {
    /// Other pools that name some of these addresses, as the watches show them.
    fn named_by_others(&self, uid: &Uid, ips: &BTreeSet<Address>) -> BTreeMap<Address, String> {
        let mut named = BTreeMap::new();
        let others: BTreeSet<&Uid> = ips.iter().flat_map(|ip| self.namers(*ip)).collect();
        let others = others.into_iter().filter_map(|uid| self.pools.get(uid));
        for pool in others.filter(|pool| pool.object.uid != *uid) {
            let text = || described(ObjectKind::Pool, &pool.object.name);
            let used = pool.spec.ips.iter().copied().chain(pool.created()).filter(|_| !pool.deleting);
            let all = used.chain(pool.purchased().map(|bought| bought.ip));
            for ip in all.filter(|ip| ips.contains(ip)) {
                named.entry(ip).or_insert_with(text);
            }
        }
        named
    }

    /// The addresses to take out of all records, by pool. An address that another pool names stays.
    pub(super) fn withdrawn(&self) -> Withdrawn {
        let mut withdrawn = Withdrawn::new();
        for pool in self.due_pools() {
            let uid = &pool.object.uid;
            let mut ips = pool.withdrawn();
            if ips.is_empty() {
                continue;
            }
            let named = self.named_by_others(uid, &ips);
            ips.retain(|ip| !named.contains_key(ip));
            withdrawn.insert(uid.clone(), ips);
        }
        withdrawn
    }

    /// Takes those addresses out of the views. A record set that publishes the nodes' own addresses keeps them.
    pub(super) fn withdraw(&self, withdrawn: &Withdrawn, views: &mut [View]) {
        let withdrawn: BTreeSet<Address> = withdrawn.values().flatten().copied().collect();
        if withdrawn.is_empty() {
            return;
        }
        for view in views {
            let set = self.record_sets.get(&view.owner.object.uid);
            let own = set.is_some_and(|set| set.spec.source != Some(AddressSource::Annotation));
            if let Some(choice) = view.choice.as_mut().filter(|_| !own) {
                choice.withdraw(&withdrawn);
            }
        }
    }

    /// The names that ever held such an address.
    pub(super) fn leaving(&self, withdrawn: &Withdrawn) -> BTreeMap<SiteKey, Leaving> {
        let mut leaving: BTreeMap<SiteKey, Leaving> = BTreeMap::new();
        for (uid, ips) in withdrawn {
            let Some(pool) = self.pools.get(uid) else { continue };
            for bought in pool.purchased().filter(|bought| ips.contains(&bought.ip)) {
                let since = pool.reads_records_since(bought.ip);
                for name in &bought.names {
                    let entry = leaving.entry(site_of(name)).or_insert_with(|| Leaving {
                        owner: pool.owner(),
                        ips: BTreeSet::new(),
                        since: None,
                    });
                    entry.ips.insert(bought.ip);
                    entry.since = entry.since.max(since);
                }
            }
        }
        leaving
    }

    /// Whether an unconfirmed deletion in the account has taken effect or may do so.
    pub(super) fn may_delete_in(&self, account_id: &AccountId, account: &Account, now: Moment) -> bool {
        account.is_deleting()
            || account.unowned_deletion_until(now).is_some()
            || self.due_pools().any(|pool| pool.may_delete_in(account_id))
    }

    /// Whether a purchase in this account is unfinished.
    fn is_purchasing(&self, account_id: &AccountId, account: &Account) -> bool {
        let here = self.due_pools().filter(|pool| pool.creates_at() == account_id);
        account.creating().is_some() || here.map(Pool::purchase).any(|purchase| purchase > Purchase::None)
    }

    /// Takes the next step for each address that is given back.
    pub(super) fn plan_reclaims(&mut self, now: Moment, out: &mut Effects<Action>) {
        self.note_names();
        let uids: Vec<Uid> = self.attention.due.iter().cloned().collect();
        let mut listed_since = self.adoption_waits.take();
        for uid in uids {
            let Some(ips) =
                self.pools.get_mut(&uid).map(|pool| pool.on_their_way()).filter(|ips| !ips.is_empty())
            else {
                continue;
            };
            let named_by = self.named_by_others(&uid, &ips.iter().copied().collect());
            for ip in ips {
                let wants = self.plan_reclaim(&uid, ip, &named_by, now, out);
                listed_since = listed_since.max(wants);
            }
        }
        if let Some(since) = listed_since {
            let bought = self.pools.values().flat_map(|pool| pool.purchased()).map(|bought| bought.ip);
            let unnamed = self
                .accounts
                .values()
                .filter_map(Account::last_list)
                .flat_map(|(_, list)| list.keys().copied());
            let sought = bought.chain(unnamed).collect();
            self.objects.want(since, sought, now, out);
        }
    }

    /// Whether it is known which addresses pools name, as far as this pool may adopt one. Watches show lists only up to
    /// their bounds: while one of them is longer, lists of all objects have to follow that of the account.
    pub(super) fn knows_names_for(
        &mut self,
        pool: &Pool,
        account: &Account,
        named: &mut Arc<BTreeSet<Address>>,
    ) -> bool {
        let others = self.pools.values().map(Box::as_ref);
        if !pool.may_adopt() || !others.chain([pool]).any(|pool| pool.spec.has_hidden_ips()) {
            return true;
        }
        let Some((begun, list)) = account.last_list() else { return true };
        let complete =
            |listed: &&Listed| listed.begun >= begun && list.keys().all(|ip| listed.sought.contains(ip));
        let Some(listed) = self.objects.last().filter(complete) else {
            self.adoption_waits = self.adoption_waits.max(Some(begun));
            return false;
        };
        Arc::make_mut(named).extend(listed.naming.keys());
        true
    }

    fn plan_reclaim(
        &mut self,
        uid: &Uid,
        ip: Address,
        named_by: &BTreeMap<Address, String>,
        now: Moment,
        out: &mut Effects<Action>,
    ) -> Option<Moment> {
        let bought = self.pools.get(uid)?.purchased().find(|bought| bought.ip == ip);
        let account_id = bought?.account_id.clone();
        let (mut pool, account) = (self.pools.remove(uid)?, self.accounts.remove(&account_id));
        let Some(mut account) = account else {
            pool.cannot_give_back(ip, format!("there is no token for {account_id}"), now);
            self.pools.insert(uid.clone(), pool);
            return None;
        };
        let here = *pool.creates_at() == account_id && pool.purchase() > Purchase::None;
        let around = Around {
            now,
            permit: self.permit,
            named_by,
            records: &|bought| self.dns.records_of(bought),
            annotated: &|ip| self.annotations.names(ip),
            unwritable: self.annotations.denied(),
            node_on: &|machine| {
                let node = self.watched.node_on(machine)?;
                Some((node.uid.clone(), node.name.clone()))
            },
            listed: self.objects.last(),
            unlistable: self.objects.failure(),
            purchasing: here || self.is_purchasing(&account_id, &account),
        };
        let mut wants = None;
        out.lend(|out: &mut Effects<OfAddresses>| wants = pool.give_back(ip, &mut account, &around, out));
        self.accounts.insert(account_id, account);
        self.pools.insert(uid.clone(), pool);
        wants
    }

    /// Notes in the statuses the names at which records hold bought addresses.
    fn note_names(&mut self) {
        let bought = self.due_pools().flat_map(Pool::purchased).map(|bought| bought.ip);
        let bought: BTreeSet<Address> = bought.collect();
        let held = self.dns.names_of(&bought, self.looks_at_all());
        if !held.is_empty() {
            for uid in &self.attention.due {
                if let Some(pool) = self.pools.get_mut(uid) {
                    pool.note_names(&held);
                }
            }
        }
    }

    /// Takes in the answer to a read of an address.
    pub(super) fn reclaim_read(
        &mut self,
        Epoch { account_id, .. }: &Epoch,
        ip: Address,
        begun: Moment,
        result: &Result<ReservedIp, CallFailure>,
        at: Context,
    ) {
        let namers: Vec<Uid> = self.namers(ip).into_iter().cloned().collect();
        for uid in &namers {
            if let Some(pool) = self.pools.get_mut(uid) {
                pool.read_back((account_id, ip), begun, result, at);
            }
        }
    }
}
