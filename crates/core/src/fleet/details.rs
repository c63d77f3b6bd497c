//! Details for people who look at the state of the process: the nodes that do not match, the nodes in line, and what
//! happens next to each address. They are made on demand, because for many objects with many nodes that takes
//! milliseconds, and they are seldom read.

use super::Fleet;
use crate::addresses::pool::Pool;
use crate::mechanism::Follower;
use crate::model::{Address, MachineId, Mismatch, Moment, ObjectName, verdict};
use std::collections::BTreeMap;

/// The most nodes that are named for each reason. The others are counted.
const MAX_NAMED: usize = 20;

/// The most nodes in line that are named. The others are counted.
const MAX_IN_LINE: usize = 100;

/// Nodes that do not match, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason, as the predicate of a sentence about a node.
    pub reason: String,
    /// The number of nodes.
    pub count: usize,
    /// The names of the first ones.
    pub nodes: Vec<String>,
}

/// The details of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolDetails {
    /// The nodes that have its labels and do not match.
    pub left_out: Vec<LeftOut>,
    /// The first candidates without an address, in the order in which they get one, each with the reason why it waits,
    /// and when its assignment is tried again.
    pub line: Vec<(String, String, Option<Moment>)>,
    /// The number of candidates without an address.
    pub waiting: usize,
    /// Its addresses, once the account is known.
    pub ips: BTreeMap<Address, IpDetails>,
}

/// The details of one address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpDetails {
    /// The node on the machine where the address was last seen. Empty if the pool has no such node.
    pub node: String,
    /// The provider ID of that machine. Empty if the address was last seen on none.
    pub provider_id: String,
    /// The node to which it is being moved.
    pub target: String,
    /// The next event and its time, if more is known than its state.
    pub next: String,
}

/// The details of all objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// By pool.
    pub pools: BTreeMap<ObjectName, PoolDetails>,
    /// For each record set, the nodes that have its labels and do not match.
    pub record_sets: BTreeMap<ObjectName, Vec<LeftOut>>,
}

impl Fleet {
    /// The details of every object. A process that does not lead has none.
    pub fn details(&self, now: Moment) -> Details {
        if !self.leading {
            return Details::default();
        }
        let pools = self.pools.values().filter(|pool| !pool.deleting).map(|pool| {
            let line = pool.line(now);
            let details = PoolDetails {
                left_out: self.left_out_by(&**pool),
                waiting: line.len(),
                line: line
                    .into_iter()
                    .take(MAX_IN_LINE)
                    .map(|(node, wait)| (node.to_owned(), pool.text_of(wait), wait.retry_at()))
                    .collect(),
                ips: self.ip_details(pool, now),
            };
            (pool.object.name.clone(), details)
        });
        let sets = self.record_sets.values().filter(|set| !set.deleting);
        let sets = sets.map(|set| (set.object.name.clone(), self.left_out_by(set)));
        Details { pools: pools.collect(), record_sets: sets.collect() }
    }

    fn ip_details(&self, pool: &Pool, now: Moment) -> BTreeMap<Address, IpDetails> {
        let Some(account) = self.accounts.get(&pool.spec.account_id) else { return BTreeMap::new() };
        let stores = self.watched.stores(pool);
        let nodes = || stores.into_iter().flat_map(|(nodes, _)| nodes.iter());
        let named: BTreeMap<&MachineId, &str> =
            nodes().filter_map(|node| Some((node.machine.as_ref()?, node.name.as_str()))).collect();
        let details = |ip: Address| {
            let seen = account.place(ip).machine();
            let named = seen.and_then(|machine| named.get(machine).copied());
            let op = account.op(ip).filter(|op| op.target().is_some());
            IpDetails {
                node: named.unwrap_or_default().to_owned(),
                provider_id: seen.map(MachineId::provider_id).unwrap_or_default(),
                target: op.map(|op| op.node.1.clone()).unwrap_or_default(),
                next: pool.next(ip, account, (self.epoch_ms, now)).unwrap_or_default(),
            }
        };
        pool.effective().into_iter().map(|ip| (ip, details(ip))).collect()
    }

    fn left_out_by(&self, follower: &dyn Follower) -> Vec<LeftOut> {
        let Some((criteria, (nodes, pods))) = follower.criteria().zip(self.watched.stores(follower)) else {
            return Vec::new();
        };
        let mut reasons: BTreeMap<Mismatch, LeftOut> = BTreeMap::new();
        for node in nodes.iter() {
            let Err(why) = verdict(criteria, node, pods).and_then(|()| follower.check(node)) else {
                continue;
            };
            let reason = why.to_string();
            let left = reasons.entry(why).or_insert(LeftOut { reason, count: 0, nodes: Vec::new() });
            left.count = left.count.saturating_add(1);
            if left.nodes.len() < MAX_NAMED {
                left.nodes.push(node.name.clone());
            }
        }
        let mut reasons: Vec<LeftOut> = reasons.into_values().collect();
        reasons.sort_by_key(|left| std::cmp::Reverse(left.count));
        reasons
    }
}
