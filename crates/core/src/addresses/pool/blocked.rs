//! Why a pool stays unready although nodes match: a cause that somebody has to mend, where there is one.

use super::Pool;
use super::report::Wait;
use crate::addresses::account::Account;
use crate::addresses::account::belief::Place;
use crate::model::catalog::pool::Ready;
use crate::model::ids::{Address, ObjectName};
use crate::model::words::{enumerate, name_all};
use std::collections::BTreeSet;

impl Pool {
    /// Reason and message. `None` while assignments are under way or due.
    pub(super) fn blocked_for(&self, account: &Account) -> Option<(Ready, String)> {
        self.unusable_addresses(account).or_else(|| self.claimed_nodes())
    }

    /// Some addresses cannot be used, and there are no others, or no node can take those.
    fn unusable_addresses(&self, account: &Account) -> Option<(Ready, String)> {
        let under_way = account.ops().any(|(_, op)| op.pool == self.object.uid);
        let is_absent = |ip: &Address| *account.place(*ip) == Place::Absent;
        let is_lost = |ip: &Address| self.report.lost.contains_key(ip);
        let left = || self.used().into_iter().filter(|ip| !self.report.active.contains_key(ip));
        let lost = left().filter_map(|ip| {
            let owner = self.report.lost.get(&ip)?;
            Some(format!("{ip} is claimed by the older pool {owner}"))
        });
        let lost: Vec<String> = lost.collect();
        let others = left().any(|ip| !is_absent(&ip) && !is_lost(&ip));
        if under_way || (others && !self.report.waiting.values().all(Wait::is_error)) {
            return None;
        }
        let absent = left().filter(|ip| is_absent(ip) && !is_lost(ip));
        let absent: Vec<String> = absent.map(|ip| ip.to_string()).collect();
        let reason = match (absent.len(), lost.len()) {
            (0, 0) => return None,
            (0, _) => Ready::AddressClaimed,
            _ => Ready::AddressNotFound,
        };
        let verb = if absent.len() == 1 { "is" } else { "are" };
        let absent = (!absent.is_empty())
            .then(|| format!("{} {verb} not in the account", enumerate(absent.into_iter())));
        let lost = (!lost.is_empty()).then(|| enumerate(lost.into_iter()));
        let parts: Vec<String> = absent.into_iter().chain(lost).collect();
        Some((reason, parts.join("; ")))
    }

    /// Every node that waits belongs to another pool.
    fn claimed_nodes(&self) -> Option<(Ready, String)> {
        let mut pools: BTreeSet<&ObjectName> = BTreeSet::new();
        for wait in self.report.waiting.values() {
            match wait {
                Wait::Claimed(pool) | Wait::ClaimedBy(pool, _) => pools.insert(pool),
                Wait::NoFreeIp
                | Wait::CoolOff
                | Wait::InFlight(_)
                | Wait::RetryAt(..)
                | Wait::Pending(..)
                | Wait::Foreign(_)
                | Wait::OtherRegion(_)
                | Wait::NotAMachine(_)
                | Wait::Paused(_)
                | Wait::Rereading
                | Wait::Budget
                | Wait::Full
                | Wait::Unsure
                | Wait::Refused(_) => return None,
            };
        }
        (!pools.is_empty()).then(|| {
            let named = name_all(pools);
            (Ready::NodesClaimed, format!("every matching node without an address is claimed by {named}"))
        })
    }
}
