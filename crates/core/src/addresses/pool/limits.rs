//! The limits of ours that stand against a creation.

use super::Pool;
use super::creation::Purchase;
use super::memory::Memory;
use super::world::World;
use crate::addresses::account::Account;
use crate::model::catalog::pool::CreationFailed;

/// A memory of this size, in bytes, begins nothing that enlarges it: the API server stores no object above 1.5 MiB.
const MAX_MEMORY_BYTES: usize = 1 << 20;

impl Pool {
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
