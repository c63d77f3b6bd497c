//! The data for metrics and `/debug`: a copy, so that a scrape never waits.

use super::unready::Unready;
use super::{Change, Fleet, GraceCounts};
use crate::addresses::account::Account;
use crate::addresses::pool::Pool;
use crate::addresses::pool::manual_move::result::LastMove;
use crate::addresses::pool::placement::Whereabouts;
use crate::addresses::pool::status::IpState;
use crate::mechanism::Suspicion;
use crate::model::bounds::TEXT_BYTES;
use crate::model::{AccountId, Address, Condition, ConditionType, Moment, ObjectName, Uid};
use crate::records::node_set::NodeSet;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// One address of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpSnapshot {
    /// The address.
    pub ip: Address,
    /// State as in the status. Empty if unknown.
    pub state: String,
    /// The node that it is on, if that node matches.
    pub node: String,
    /// Why the node that it was last seen on no longer matches, and since when. `None` if that is not known.
    pub lost: Option<(String, Moment)>,
    /// Provider ID of the machine that it is on.
    pub provider_id: String,
    /// The mistake or failure, as in the status.
    pub error: String,
    /// Assignments that succeeded since the process started.
    pub assignments: u64,
    /// Assignments that failed since the process started.
    pub errors: u64,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// The object's uid.
    pub uid: Uid,
    /// Namespace and name.
    pub name: ObjectName,
    /// The account, as `provider` or `provider/name`.
    pub provider: String,
    /// FQDN of the pool's record set if known, else the name as written. Empty without a record set.
    pub dns: String,
    /// Candidates without an address.
    pub available: usize,
    /// Used addresses that are on a machine.
    pub assigned: usize,
    /// Addresses still to be created.
    pub unfulfilled: usize,
    /// The addresses.
    pub ips: Vec<IpSnapshot>,
    /// Addresses moved from one node to another since the process started, by reason.
    pub moves: BTreeMap<&'static str, u64>,
    /// Its conditions, which are those of its status until newer ones are known.
    pub conditions: Vec<Condition>,
    /// Since when a summary condition has not been True for its reason, as far as known.
    pub unready: Vec<(ConditionType, Moment)>,
    /// Nodes that fail and keep their address for now.
    pub suspects: Vec<SuspectSnapshot>,
    /// The addresses of its records, as last published.
    pub published: Vec<Address>,
    /// The move by hand that is not finished.
    pub pending_move: Option<LastMove>,
}

/// A node that fails and keeps its address for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspectSnapshot {
    /// Name of the node.
    pub node: String,
    /// Why it fails.
    pub reason: String,
    /// When it began to fail, in seconds since 1970.
    pub since_s: i64,
    /// When its grace is over, in seconds since 1970.
    pub ends_s: i64,
}

/// One `NodeDNSRecordSet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSetSnapshot {
    /// The object's uid.
    pub uid: Uid,
    /// Namespace and name.
    pub name: ObjectName,
    /// The provider of its records.
    pub provider: String,
    /// FQDN of its records if known, else the name as written.
    pub dns: String,
    /// The number of published addresses.
    pub records: usize,
    /// The published addresses.
    pub addresses: Vec<Address>,
    /// `active`, `in-progress` or `error`, as in the status.
    pub state: String,
    /// The error message.
    pub error: String,
    /// Its conditions, which are those of its status until newer ones are known.
    pub conditions: Vec<Condition>,
    /// Since when a summary condition has not been True for its reason, as far as known.
    pub unready: Vec<(ConditionType, Moment)>,
}

/// One account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSnapshot {
    /// The account, as `provider` or `provider/name`.
    pub provider: String,
    /// Requests left in the token's quota, as far as known.
    pub rate_remaining: Option<u64>,
    /// Since when its calls fail altogether, in seconds since 1970. `None` while they do not.
    pub out_since_s: Option<i64>,
}

/// The whole state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Whether this process leads. A standby exposes no pools.
    pub leading: bool,
    /// Whether it may write now.
    pub permit: bool,
    /// The pools, by uid. Snapshots share those that nothing concerned in between.
    pub pools: Arc<Vec<Arc<PoolSnapshot>>>,
    /// The `NodeDNSRecordSet` objects, shared in the same way.
    pub record_sets: Arc<Vec<Arc<RecordSetSnapshot>>>,
    /// The accounts.
    pub accounts: Vec<AccountSnapshot>,
    /// The last changes of addresses, the oldest first.
    pub changes: Arc<VecDeque<Change>>,
    /// How suspicions of serving nodes ended.
    pub grace: GraceCounts,
    /// Firewalls that deleted pools have left at the provider.
    pub firewalls_left: u64,
    /// Grows whenever an object came, went or was edited.
    pub edition: u64,
}

/// The data of the objects as the last plan left them.
#[derive(Debug, Default, Clone)]
pub(super) struct Shown {
    pools: Arc<Vec<Arc<PoolSnapshot>>>,
    record_sets: Arc<Vec<Arc<RecordSetSnapshot>>>,
}

/// Replaces or adds an entry.
fn put<T>(all: &mut Arc<Vec<Arc<T>>>, place: Result<usize, usize>, one: T) {
    let (all, one) = (Arc::make_mut(all), Arc::new(one));
    match place {
        Ok(at) => all.get_mut(at).into_iter().for_each(|known| *known = Arc::clone(&one)),
        Err(at) => all.insert(at, one),
    }
}

fn suspects(pool: &Pool) -> Vec<SuspectSnapshot> {
    let snapshot = |(node, suspicion): (&String, &Suspicion)| SuspectSnapshot {
        node: node.clone(),
        reason: suspicion.why().to_string(),
        since_s: suspicion.since_s(),
        ends_s: suspicion.ends_s(&pool.spec.grace),
    };
    pool.nodes.suspects.reported().map(snapshot).collect()
}

impl Fleet {
    /// A copy of the data for metrics.
    pub fn snapshot(&self) -> Snapshot {
        if !self.leading {
            return Snapshot::default();
        }
        let mut shown = self.shown.clone();
        match self.attention.touched().filter(|_| !self.settings.thorough) {
            Some(touched) => self.show(&mut shown, touched),
            None => self.show_all(&mut shown),
        }
        let rates = self.accounts.iter().map(|(account_id, account)| (account_id, account.rate_remaining()));
        let accounts = rates.chain(self.dns.rates_remaining()).map(|(account_id, rate_remaining)| {
            let addresses = self.accounts.get(account_id).and_then(Account::out_since);
            let out_since = addresses.into_iter().chain(self.dns.out_since(account_id)).min();
            let out_since_s = out_since.map(|since| {
                let ms = since.plus_millis(self.epoch_ms).as_millis();
                i64::try_from(ms / 1_000).unwrap_or(i64::MAX)
            });
            AccountSnapshot { provider: account_id.to_string(), rate_remaining, out_since_s }
        });
        Snapshot {
            leading: true,
            permit: self.permit,
            pools: shown.pools,
            record_sets: shown.record_sets,
            accounts: accounts.collect(),
            changes: self.changes.shared(),
            grace: self.grace,
            firewalls_left: self.firewalls.left,
            edition: self.attention.edition(),
        }
    }

    /// Copies the data of the objects of this plan.
    pub(super) fn show_objects(&mut self) {
        let mut shown = std::mem::take(&mut self.shown);
        if self.looks_at_all() {
            self.show_all(&mut shown);
        } else {
            self.show(&mut shown, &self.attention.due);
        }
        self.shown = shown;
    }

    fn show_all(&self, shown: &mut Shown) {
        let pools = self.pools.values().filter(|pool| !pool.deleting);
        shown.pools = Arc::new(pools.map(|pool| Arc::new(self.pool_snapshot(pool))).collect());
        let sets = self.record_sets.values().filter(|set| !set.deleting);
        shown.record_sets = Arc::new(sets.map(|set| Arc::new(self.record_set_snapshot(set))).collect());
    }

    /// Copies the data of these objects. The others are as before.
    fn show(&self, shown: &mut Shown, uids: &BTreeSet<Uid>) {
        for pool in uids.iter().filter_map(|uid| self.pools.get(uid)).filter(|pool| !pool.deleting) {
            let place = shown.pools.binary_search_by_key(&&pool.object.uid, |known| &known.uid);
            put(&mut shown.pools, place, self.pool_snapshot(pool));
        }
        for set in uids.iter().filter_map(|uid| self.record_sets.get(uid)).filter(|set| !set.deleting) {
            let place = shown.record_sets.binary_search_by_key(&&set.object.uid, |known| &known.uid);
            put(&mut shown.record_sets, place, self.record_set_snapshot(set));
        }
    }

    fn pool_snapshot(&self, pool: &Pool) -> PoolSnapshot {
        let (used, status, machines) = (pool.used(), &pool.shown, pool.spec.machines);
        let owned = |ip: &Address| !pool.report.claimed.contains_key(ip);
        // An address whose place is unknown stays as it was last confirmed.
        let place = |ip: &Address| pool.report.placements.get(ip).map(|placed| &placed.whereabouts);
        let stands = |ip: &Address| match place(ip) {
            Some(Whereabouts::Unknown { .. }) => {
                status.ips.get(&ip.to_string()).is_some_and(|entry| !entry.provider_id.is_empty())
            }
            Some(Whereabouts::Here { machine, .. } | Whereabouts::Elsewhere { machine, .. }) => {
                machine.is_some()
            }
            Some(Whereabouts::Absent { .. }) | None => false,
        };
        let ips = pool.effective().into_iter().map(|ip| {
            let entry = status.ips.get(&ip.to_string()).cloned().unwrap_or_default();
            let (assignments, errors) = pool.tally(ip);
            let active = entry.state == IpState::Active.as_str();
            let lost = pool.left(ip).filter(|_| !active);
            IpSnapshot {
                ip,
                state: entry.state.clone(),
                node: if active { entry.node_name } else { String::new() },
                lost: lost.map(|loss| (loss.why.to_string(), loss.at)),
                provider_id: machines
                    .and_then(|kind| kind.named(&entry.provider_id))
                    .map(|id| id.provider_id())
                    .unwrap_or_default(),
                error: entry.error,
                assignments,
                errors,
            }
        });
        PoolSnapshot {
            uid: pool.object.uid.clone(),
            name: pool.object.name.clone(),
            provider: self.provider_label(&pool.spec.account_id),
            dns: self.dns_label(&pool.object.uid),
            available: status.waiting(),
            assigned: used.iter().filter(|ip| owned(ip) && stands(ip)).count(),
            unfulfilled: pool.missing(),
            ips: ips.collect(),
            moves: pool.moves.clone(),
            conditions: pool.shown_conditions().to_vec(),
            unready: self.unready_since(&pool.object.uid),
            suspects: suspects(pool),
            published: self.published(pool),
            pending_move: pool.pending_move(),
        }
    }

    /// The account for a metric. A stranger may write any text as the provider.
    fn provider_label(&self, account_id: &AccountId) -> String {
        let provider = &account_id.provider;
        let known = provider.is_empty() || self.settings.providers.get(provider).is_some();
        if known { account_id.to_string() } else { "unknown".to_owned() }
    }

    /// The name of the records for a metric. Empty where it cannot be one.
    fn dns_label(&self, uid: &Uid) -> String {
        let name = self.dns.set(uid).map(|set| set.name.as_str()).unwrap_or_default();
        let sound = name.len() <= TEXT_BYTES && name.bytes().all(|byte| byte.is_ascii_graphic());
        if sound { name.to_owned() } else { String::new() }
    }

    /// The addresses of a pool's records, as last published.
    fn published(&self, pool: &Pool) -> Vec<Address> {
        let report = self.dns.set(&pool.object.uid).and_then(|set| set.report.as_ref());
        let on_server = pool.shown.record_set.as_ref();
        report
            .map(|report| &report.published)
            .or(on_server)
            .map(|set| set.addresses.clone())
            .unwrap_or_default()
    }

    fn record_set_snapshot(&self, set: &NodeSet) -> RecordSetSnapshot {
        let known = self.dns.set(&set.object.uid);
        let (state, error, addresses) = match known.and_then(|known| known.report.as_ref()) {
            Some(report) => (report.state().0, report.state().1, &report.published.addresses),
            None => (set.on_server.state.as_str(), set.on_server.error.as_str(), &set.on_server.addresses),
        };
        RecordSetSnapshot {
            uid: set.object.uid.clone(),
            name: set.object.name.clone(),
            provider: self.provider_label(&AccountId::from(&set.spec.set.provider)),
            dns: self.dns_label(&set.object.uid),
            records: addresses.len(),
            addresses: addresses.clone(),
            state: state.to_owned(),
            error: error.to_owned(),
            conditions: set.conditions.as_ref().unwrap_or(&set.on_server.conditions).clone(),
            unready: self.unready_since(&set.object.uid),
        }
    }

    fn unready_since(&self, uid: &Uid) -> Vec<(ConditionType, Moment)> {
        self.unready.get(uid).map(Unready::since).unwrap_or_default()
    }

    /// Milliseconds from each change of nodes or pods to the confirmed assignment that responds to it, since the last
    /// call.
    pub fn take_latencies_ms(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.latencies_ms)
    }
}
