//! The reason why a pool stays unready although nodes match, if a user has to act, and the limits of ours that stand
//! against a creation.

use super::Pool;
use super::creation::Purchase;
use super::memory::Memory;
use super::placement::Whereabouts;
use super::report::Wait;
use super::world::World;
use crate::addresses::account::Account;
use crate::model::catalog::pool::{CreationFailed, Ready};
use crate::model::words::{enumerate, name_all};
use crate::model::{Address, ObjectName};
use std::collections::BTreeSet;

/// A memory of this size, in bytes, begins nothing that enlarges it: the API server stores no object above 1.5 MiB.
const MAX_MEMORY_BYTES: usize = 1 << 20;

impl Pool {
    /// Reason and message. `None` while assignments are under way or due.
    pub(super) fn blocked_for(&self, account: &Account) -> Option<(Ready, String)> {
        self.unusable_addresses(account).or_else(|| self.claimed_nodes())
    }

    /// The reason if some addresses cannot be used, and there are no others or no node can take the others.
    fn unusable_addresses(&self, account: &Account) -> Option<(Ready, String)> {
        let under_way = account.ops().any(|(_, op)| op.pool == self.object.uid);
        let whereabouts = |ip: &Address| self.report.placements.get(ip).map(|placed| &placed.whereabouts);
        let is_absent = |ip: &Address| matches!(whereabouts(ip), Some(Whereabouts::Absent { .. }));
        let is_claimed = |ip: &Address| self.report.claimed.contains_key(ip);
        let left = || self.used().into_iter().filter(|ip| !self.report.active.contains_key(ip));
        let claimed = left().filter_map(|ip| {
            let owner = self.report.claimed.get(&ip)?;
            Some(format!("{ip} is claimed by the older pool {owner}"))
        });
        let claimed: Vec<String> = claimed.collect();
        let others = left().any(|ip| !is_absent(&ip) && !is_claimed(&ip));
        if under_way || (others && !self.only_errors_wait()) {
            return None;
        }
        let absent = left().filter(|ip| is_absent(ip) && !is_claimed(ip));
        let absent: Vec<String> = absent.map(|ip| ip.to_string()).collect();
        let reason = match (absent.len(), claimed.len()) {
            (0, 0) => return None,
            (0, _) => Ready::AddressClaimed,
            _ => Ready::AddressNotFound,
        };
        let verb = if absent.len() == 1 { "is" } else { "are" };
        let absent = (!absent.is_empty())
            .then(|| format!("{} {verb} not in the account", enumerate(absent.into_iter())));
        let claimed = (!claimed.is_empty()).then(|| enumerate(claimed.into_iter()));
        let parts: Vec<String> = absent.into_iter().chain(claimed).collect();
        Some((reason, parts.join("; ")))
    }

    /// Whether no node waits, except for a problem of its own.
    fn only_errors_wait(&self) -> bool {
        !self.candidates.any_queued() && self.candidates.waits().all(|(_, wait)| wait.is_error())
    }

    /// The reason if every waiting node belongs to another pool.
    fn claimed_nodes(&self) -> Option<(Ready, String)> {
        let mut pools: BTreeSet<&ObjectName> = BTreeSet::new();
        if self.candidates.any_queued() {
            return None;
        }
        for (_, wait) in self.candidates.waits() {
            let (Wait::Claimed(pool) | Wait::ClaimedBy(pool, _)) = wait else { return None };
            pools.insert(pool);
        }
        (!pools.is_empty()).then(|| {
            let named = name_all(pools);
            (Ready::NodesClaimed, format!("every matching node without an address is claimed by {named}"))
        })
    }
    /// The limit of ours that stands against a creation, if there is one.
    pub(super) fn bar(&self, account: &Account, world: &World<'_>) -> Option<(CreationFailed, String)> {
        let memory = self.memory.as_ref().map_or(0, Memory::bytes);
        if memory >= MAX_MEMORY_BYTES {
            let message = "the status has no room for another address; remove entries of spec.ips that are no longer needed";
            return Some((CreationFailed::StatusFull, message.to_owned()));
        }
        let most = account.max_addresses?;
        let open = world.in_the_way().filter(|pool| *pool.creates_at() == account.epoch().account_id);
        let open = open.filter(|pool| pool.purchase() > Purchase::None).count();
        let held = world.sights.seen.len();
        (held + open >= most).then(|| {
            let message = format!(
                "the account has {held} addresses and {open} open creations, and the operator creates none beyond \
                 --max-addresses={most}"
            );
            (CreationFailed::LimitReached, message)
        })
    }
}
