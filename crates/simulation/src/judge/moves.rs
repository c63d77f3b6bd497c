//! I1: an address moves only to a node that needs it, and only from one that does not.

use super::truth::Pool;
use super::{Judge, Process};
use crate::facts::{Facts, Kind};
use std::net::Ipv4Addr;

impl Judge {
    /// A call that may move an address is sent.
    pub(super) fn check_move(&mut self, now_ms: u64, process: Process, facts: &Facts) {
        if let Kind::Assign { ip, droplet } = facts.kind {
            self.check_assignment(now_ms, process, ip, droplet);
            self.check_patience(now_ms, process, ip, droplet);
        } else if let Kind::Unassign { ip } = facts.kind {
            self.check_unassignment(now_ms, process, ip);
        }
    }

    /// I1: an address goes only to a candidate. It leaves a candidate only if somebody else put it there or a user
    /// requests it.
    fn check_assignment(&mut self, now_ms: u64, process: Process, ip: Ipv4Addr, droplet: u64) {
        self.requests.forget(ip);
        let from_ms = self.blindness.since(now_ms);
        let owners = self.truth.owners(ip, from_ms);
        if owners.is_empty() {
            self.blame(now_ms, "I1", format!("{process} assigns {ip}, which no pool names"));
            return;
        }
        if !owners.iter().any(|pool| self.truth.followed(pool, from_ms)) {
            self.blame(now_ms, "I1", format!("{process} assigns {ip} of a pool that is frozen"));
        }
        if !owners.iter().any(|pool| self.truth.matched(pool, droplet, from_ms))
            && !self.matched_before(ip, droplet, from_ms).any(|matched| matched)
        {
            self.blame(now_ms, "I1", format!("{process} assigns {ip} to {droplet}, which does not match"));
        }
        let stands = self.cloud.ip(ip).and_then(|view| view.droplet);
        let moved = self.by_hand.get(&ip).is_some_and(|at| self.blindness.is_unnoticed(*at, now_ms));
        if let Some(old) = stands
            && old != droplet
            && !moved
            && !owners.iter().any(|pool| self.truth.unmatched(pool, old, from_ms))
            && self.matched_before(ip, old, from_ms).all(|matched| matched)
            && !self.asked(now_ms, process, (ip, droplet))
        {
            self.check_evidence(now_ms, process, &owners, &ip.to_string(), old);
        }
    }

    /// For each earlier spec that named the address: whether it matches the droplet as it is now.
    fn matched_before(&self, ip: Ipv4Addr, droplet: u64, from_ms: u64) -> impl Iterator<Item = bool> {
        let named = self.former_since(from_ms).filter(move |pool| pool.used().contains(&ip));
        named.map(move |pool| self.truth.candidates(pool).any(|node| node.droplet == Some(droplet)))
    }

    /// An address is taken off a droplet in two cases only. One: it is given back. Two: it is no longer used, and
    /// its droplet is a candidate for another address.
    fn check_unassignment(&mut self, now_ms: u64, process: Process, ip: Ipv4Addr) {
        let from_ms = self.blindness.since(now_ms);
        let pools = || self.pools_since(from_ms);
        if pools().any(|pool| pool.gives_back(ip)) {
            return;
        }
        if !pools().any(|pool| pool.held(ip) && !pool.used().contains(&ip)) {
            let text = format!("{process} unassigns {ip}, which no pool held and uses no more");
            self.blame(now_ms, "I1", text);
            return;
        }
        let Some(droplet) = self.cloud.ip(ip).and_then(|view| view.droplet) else { return };
        let wanted = |pool: &&Pool| {
            pool.used().iter().any(|used| *used != ip) && self.truth.matched(&pool.name, droplet, from_ms)
        };
        if !pools().any(|pool| wanted(&pool)) {
            let text = format!("{process} unassigns {ip} from {droplet}, to make room for none");
            self.blame(now_ms, "I1", text);
        }
    }
}
