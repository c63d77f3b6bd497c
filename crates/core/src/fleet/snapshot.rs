//! What metrics and `/debug` show: a copy of the facts, so that a scrape waits for nothing.

use super::Fleet;
use crate::ids::ObjectName;
use crate::pool::status::IpState;
use std::net::Ipv4Addr;

/// One address of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpSnapshot {
    /// The address.
    pub ip: Ipv4Addr,
    /// State as in the status, empty when unknown.
    pub state: String,
    /// The node that it is on, when that node matches.
    pub node: String,
    /// Provider ID of the droplet that it is on.
    pub provider_id: String,
    /// Assignments that succeeded since the process started.
    pub assignments: u64,
    /// Assignments that failed since the process started.
    pub errors: u64,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Namespace and name.
    pub name: ObjectName,
    /// `spec.provider`.
    pub provider: String,
    /// FQDN of the pool's record set, empty without one.
    pub dns: String,
    /// Candidates without an address.
    pub available: usize,
    /// Used addresses that stand on a droplet.
    pub assigned: usize,
    /// Addresses still to be created.
    pub unfulfilled: usize,
    /// The addresses.
    pub ips: Vec<IpSnapshot>,
    /// For each candidate without an address, what it waits for.
    pub waiting: Vec<(String, String)>,
}

/// One account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSnapshot {
    /// The provider.
    pub provider: String,
    /// Requests left in the token's quota, as far as known.
    pub rate_remaining: Option<u64>,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// This process leads: a standby exposes no pools.
    pub leading: bool,
    /// It may write at this moment.
    pub permit: bool,
    /// The pools.
    pub pools: Vec<PoolSnapshot>,
    /// The accounts.
    pub accounts: Vec<AccountSnapshot>,
}

impl Fleet {
    /// A copy of what metrics show.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        if !self.leading {
            return Snapshot::default();
        }
        let pools = self.pools.values().map(|pool| {
            let account = self.accounts.get(&pool.spec.provider);
            let status = pool.render(account, None, crate::moment::Moment::default());
            let used = pool.used();
            let place = |ip| account.and_then(|account| account.place(ip).droplet());
            let ips = pool.effective().into_iter().map(|ip| {
                let entry = status.ips.get(&ip.to_string()).cloned().unwrap_or_default();
                let record = pool.ips.get(&ip);
                IpSnapshot {
                    ip,
                    state: entry.state.clone(),
                    node: if entry.state == IpState::Active.as_str() {
                        entry.node_name
                    } else {
                        String::new()
                    },
                    provider_id: entry.provider_id,
                    assignments: record.map_or(0, |record| record.assignments),
                    errors: record.map_or(0, |record| record.errors),
                }
            });
            PoolSnapshot {
                name: pool.object.name.clone(),
                provider: pool.spec.provider.clone(),
                dns: String::new(),
                available: pool.report.waiting.len(),
                assigned: used.iter().filter(|ip| place(**ip).is_some()).count(),
                unfulfilled: pool.missing(),
                ips: ips.collect(),
                waiting: pool
                    .report
                    .waiting
                    .iter()
                    .map(|(node, wait)| (node.clone(), wait.to_string()))
                    .collect(),
            }
        });
        let accounts = self.accounts.iter().map(|(provider, account)| AccountSnapshot {
            provider: provider.clone(),
            rate_remaining: account.rate_remaining(),
        });
        Snapshot { leading: true, permit: self.permit, pools: pools.collect(), accounts: accounts.collect() }
    }

    /// Milliseconds from changes of nodes or pods to the confirmed assignments that answer them, since the last call.
    pub fn take_latencies_ms(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.latencies_ms)
    }
}
