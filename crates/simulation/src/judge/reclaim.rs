//! I18: FLIPOP deletes an address only if it was bought, no object names it, and it serves nowhere.

use super::truth::{Pool, items};
use super::validity::text;
use super::{Judge, Process};
use crate::facts::{Facts, Kind};
use crate::scene::HOME;
use flipop_cloud::Provider;
use serde_json::Value;
use std::net::Ipv4Addr;

/// All last reads are at most this old at a deletion.
const FRESH_MS: u64 = 31_000;

impl Pool {
    /// The status entry of an address that was bought for this very object.
    pub(super) fn bought(&self, ip: Ipv4Addr) -> Option<&Value> {
        let mut bought = items(&self.status, "/purchasedIPs").filter(|entry| text(entry, "/uid") == self.uid);
        bought.find(|entry| text(entry, "/ip").parse() == Ok(ip))
    }

    /// Whether the spec asks for the deletion of an address that was bought for the pool.
    pub(super) fn gives_back(&self, ip: Ipv4Addr) -> bool {
        let deletes = text(&self.spec, "/reclaimPolicy") == "Delete";
        deletes && (self.deleting || self.lets_go(ip)) && self.bought(ip).is_some()
    }
}

impl Judge {
    /// Whether a pool gives an address back, or did lately.
    pub(super) fn is_given_back(&self, now_ms: u64, address: &str) -> bool {
        let Ok(ip) = address.parse() else { return false };
        let from_ms = self.blindness.since_of_records(now_ms);
        self.pools_since(from_ms).any(|pool| pool.gives_back(ip))
    }

    /// Judges a call that is sent.
    pub(super) fn check_deletion(&mut self, now_ms: u64, process: Process, facts: &Facts) {
        let busy = |wanted: fn(&Kind) -> bool| {
            self.open.values().any(|open| open.process == process && wanted(&open.facts.kind))
        };
        let wrong = if facts.kind == Kind::CreateIp {
            busy(|kind| matches!(kind, Kind::DeleteIp { .. }))
                .then(|| "while a deletion is under way".to_owned())
        } else if let Kind::DeleteIp { ip } = facts.kind {
            let purchase =
                busy(|kind| *kind == Kind::CreateIp).then(|| "while a purchase is under way".to_owned());
            purchase.or_else(|| self.keeps_address(now_ms, ip))
        } else {
            return;
        };
        if let Some(wrong) = wrong {
            self.blame(now_ms, "I18", format!("{process} starts {:?} {wrong}", facts.what));
        }
    }

    /// Why an address must not be deleted, if so.
    fn keeps_address(&self, now_ms: u64, ip: Ipv4Addr) -> Option<String> {
        let view = self.cloud.ip(ip)?;
        if !self.created.contains(&ip) {
            return Some("that was not bought".to_owned());
        }
        let from_ms = self.blindness.since(now_ms).min(now_ms.saturating_sub(FRESH_MS));
        let Some(pool) = self.pools_since(from_ms).find(|pool| pool.gives_back(ip)) else {
            return Some("that nobody gives back".to_owned());
        };
        let marked = self.truth.pools.values().filter(|other| other.uid == pool.uid);
        let mut marked = marked.filter_map(|pool| pool.bought(ip));
        if !marked.any(|entry| entry.get("deleting") == Some(&Value::Bool(true))) {
            return Some("that the status does not mark".to_owned());
        }
        let name = &pool.name;
        let owners = self.truth.named_since(ip, from_ms);
        if let Some(other) = owners.iter().find(|other| *other != name) {
            return Some(format!("that {other} names"));
        }
        let lately = self.by_hand.get(&ip).is_some_and(|at| at.saturating_add(FRESH_MS) > now_ms);
        if let Some(droplet) = view.droplet.filter(|_| !lately) {
            return Some(format!("that stands on {droplet}"));
        }
        for held in items(pool.bought(ip)?, "/names") {
            let provider = Provider::named(text(held, "/provider")).unwrap_or(HOME);
            let fqdn = text(held, "/fqdn").to_owned();
            let edited = self.touched.get(&(provider, fqdn.clone()));
            let edited = edited.is_some_and(|at| at.saturating_add(FRESH_MS) > now_ms);
            let zone = fqdn.split_once('.').map_or("", |(_, zone)| zone);
            let records = self.cloud.a_records(provider, zone, &fqdn);
            if !edited && records.iter().any(|data| *data == ip.to_string()) {
                return Some(format!("that {fqdn} still holds"));
            }
        }
        None
    }
}
