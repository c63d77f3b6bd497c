//! Whether the token may read droplets: without that scope every address looks unassigned.
//!
//! Invariant: that an address stands on no droplet, where it was held to stand on one, counts only once the scope was
//! proved by a read that was begun no sooner than the one that first said so.

use super::Account;
use crate::facts::ReservedIp;
use crate::fault::FaultKind;
use crate::moment::{Jitter, Moment};
use std::net::Ipv4Addr;

/// Whether the token may read droplets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DropletRead {
    /// Not proved yet, or no longer.
    #[default]
    Unproved,
    /// A droplet was seen, or the droplets could be listed.
    Proved,
    /// The provider refuses to list droplets.
    Missing,
}

impl Account {
    /// A read that was begun at `begun` proves the scope, unless it was made with another token.
    pub(super) fn saw_scope(&mut self, begun: Moment) {
        if begun >= self.token_since {
            self.droplet_read = DropletRead::Proved;
            self.scope_seen = self.scope_seen.max(Some(begun));
        }
    }

    /// An address was read, at `begun`, without a droplet: it may stand on one that is only not shown.
    pub(super) fn may_be_hidden(&self, ip: Ipv4Addr, begun: Moment) -> bool {
        let since = match (self.ops.get(&ip), self.beliefs.get(&ip)) {
            (Some(op), _) => op.verified_since(),
            (None, belief) => belief.and_then(|belief| belief.denied_since(begun)),
        };
        self.droplet_read != DropletRead::Proved || since.is_some_and(|since| self.scope_seen < Some(since))
    }

    /// The scope has to be proved before it is believed that the address stands nowhere.
    pub(super) fn doubt_scope(
        &mut self,
        ip: Ipv4Addr,
        read: &ReservedIp,
        begun: Moment,
        now: Moment,
        jitter: Jitter,
    ) {
        let first = self.droplet_read == DropletRead::Proved;
        if first {
            self.droplet_read = DropletRead::Unproved;
            self.reads.prove_now(now);
        }
        if let Some(op) = self.ops.get_mut(&ip) {
            op.read_hidden(now);
        } else if let Some(belief) = self.beliefs.get_mut(&ip) {
            if first && !belief.is_denied() {
                belief.read(Some(read), begun, now);
            } else {
                belief.read_failed(FaultKind::Transient, now, jitter);
            }
        }
    }
}
