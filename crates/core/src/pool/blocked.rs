//! Why a pool stays unready although nodes match: a cause that somebody has to mend, where there is one.

use super::Pool;
use super::report::Wait;
use crate::account::Account;
use crate::account::belief::Place;
use crate::ids::ObjectName;
use crate::words::{enumerate, name_all};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

impl Pool {
    /// Reason and message. `None` while assignments are under way or due.
    pub(super) fn blocked_for(&self, account: &Account) -> Option<(&'static str, String)> {
        self.unusable_addresses(account).or_else(|| self.claimed_nodes())
    }

    /// No address that is left can be used.
    fn unusable_addresses(&self, account: &Account) -> Option<(&'static str, String)> {
        let (mut absent, mut lost) = (Vec::new(), Vec::new());
        for ip in self.used().into_iter().filter(|ip| !self.report.active.contains_key(ip)) {
            if let Some(owner) = self.report.lost.get(&ip) {
                lost.push(format!("{ip} is claimed by the older pool {owner}"));
            } else if *account.place(ip) == Place::Absent {
                absent.push(ip);
            } else {
                return None;
            }
        }
        let (claimed, several) = (!lost.is_empty(), absent.len() > 1);
        let claims = enumerate(lost.into_iter());
        if absent.is_empty() {
            return claimed.then_some(("AddressClaimed", claims));
        }
        let named = enumerate(absent.iter().map(Ipv4Addr::to_string));
        let text = if several {
            "the account does not have the addresses"
        } else {
            "the account does not have the address"
        };
        let claims = if claimed { format!("; {claims}") } else { String::new() };
        Some(("AddressNotFound", format!("{text} {named}{claims}")))
    }

    /// Every node that waits belongs to another pool.
    fn claimed_nodes(&self) -> Option<(&'static str, String)> {
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
                | Wait::NotADroplet(_)
                | Wait::Budget
                | Wait::Full
                | Wait::Unsure
                | Wait::Refused(_) => return None,
            };
        }
        (!pools.is_empty()).then(|| {
            let named = name_all(pools);
            ("NodesClaimed", format!("every matching node without an address is claimed by {named}"))
        })
    }
}
