//! The judge's rules about names and about waiting work.
//!
//! I4 DNS, I6 isolation: a fault elsewhere delays no work.

use super::dns::{self, Site};
use super::truth::Pool;
use super::{EDITED_MS, Judge, firewalls, settled, supply};
use crate::scene::HOME;
use flipop_cloud::{Provider, RecordView};

/// How often the judge looks for waiting work.
const LOOK_MS: u64 = 1_000;

impl Judge {
    /// Takes in what objects want from DNS now.
    pub(super) fn look(&mut self, now_ms: u64) {
        let wanted = dns::wanted(&self.truth, &self.cloud.ips());
        self.intended.look(&wanted, now_ms);
        self.looked.1 = true;
    }

    /// I6: possible work is done.
    pub(super) fn look_for_work(&mut self, now_ms: u64) {
        let (looked_ms, changed) = self.looked;
        let due = changed || !self.calm.is_idle();
        if !due || now_ms < looked_ms + LOOK_MS {
            return;
        }
        // Work held up by grace waits from the end of the grace, without another change.
        self.looked = (now_ms, self.graces.is_any_open(&self.blindness, now_ms));
        let mut waits = Vec::new();
        let calm = |provider| self.calm.is_calm(provider, now_ms);
        if calm(HOME) {
            let ips = settled::views(&self.cloud);
            let rests = |pool: &Pool| {
                self.pauses.rests(true, &pool.name, now_ms)
                    || self.graces.is_open(&pool.uid, &self.blindness, now_ms)
                    || firewalls::opens(pool)
            };
            waits.extend(supply::waits(&self.truth, &ips, rests).into_iter().map(|what| (HOME, what)));
        }
        if Provider::ALL.into_iter().any(calm) {
            for wanted in dns::wanted(&self.truth, &self.cloud.ips()).into_values() {
                // The places of addresses are known only as well as their account is.
                let rests = self.pauses.rests(wanted.of_pool, &wanted.owner, now_ms);
                if rests || (wanted.of_pool && !calm(HOME)) {
                    continue;
                }
                let owner = dns::owner(&self.truth, &wanted.site);
                if owner.is_some_and(|owner| self.graces.is_open(&owner.uid, &self.blindness, now_ms)) {
                    continue;
                }
                waits.extend(wanted.complaint(&self.cloud, &self.touched).map(|what| (wanted.site.0, what)));
            }
        }
        for late in self.calm.look(now_ms, waits.into_iter()) {
            self.blame(now_ms, "I6", late);
        }
    }

    /// I4: only address records of names that objects want are changed, and only to addresses that belong there. A
    /// name is not emptied while it has nodes or is to be kept. `withdrawn`: the address is about to be deleted.
    pub(super) fn check_record(
        &mut self,
        now_ms: u64,
        (site, rtype): (&Site, &str),
        new: Option<&str>,
        withdrawn: bool,
    ) {
        if rtype != "A" || !self.sites.contains(site) {
            self.blame(now_ms, "I4", format!("a {rtype} record of {} was touched", site.1));
            return;
        }
        let from_ms = self.blindness.since_of_records(now_ms).min(self.moved_since(now_ms));
        let from_ms = from_ms.saturating_sub(self.graces.longest_ms());
        let zone = site.1.split_once('.').map_or("", |(_, zone)| zone);
        let empty = self.cloud.a_records(site.0, zone, &site.1).is_empty();
        // Where others wrote, the operator may trust its own last round until it looks again.
        let edited = self.touched.get(site).is_some_and(|at| now_ms.saturating_sub(*at) <= EDITED_MS);
        if empty && !edited && !withdrawn && !self.intended.went(site, from_ms) {
            self.blame(now_ms, "I4", format!("{} was emptied", site.1));
        }
        // An address that others moved may still count as active at any name of its pool.
        let moved = |address: &str| {
            let at = address.parse().ok().and_then(|ip| self.by_hand.get(&ip));
            at.is_some_and(|at| self.blindness.is_unnoticed(*at, now_ms))
        };
        // A node, an address and a spec, each in its present or a former state.
        let once = |address: &str| {
            let mut objects = self.former_since(from_ms).chain(dns::objects(&self.truth));
            let ips = self.cloud.ips();
            objects.any(|object| dns::publishes(&self.truth, from_ms, &ips, object, site, address))
        };
        let known =
            |address: &str| self.intended.asked(site, address, from_ms) || moved(address) || once(address);
        let strange = |address: &&str| !known(address);
        if let Some(address) = new.filter(strange) {
            self.blame(now_ms, "I4", format!("{address} does not belong to {}", site.1));
        }
    }

    /// Since when the operator may believe an old place of an address that others moved.
    fn moved_since(&self, now_ms: u64) -> u64 {
        let moved = self.by_hand.values().filter(|at| self.blindness.is_unnoticed(**at, now_ms));
        let longest_ms = moved.map(|at| self.blindness.unnoticed_until(*at) - at).max();
        now_ms.saturating_sub(longest_ms.unwrap_or_default())
    }

    /// I4: other people's records are unchanged.
    pub(super) fn check_others(&mut self, now_ms: u64) {
        let ours = |provider: Provider, record: &RecordView| {
            record.rtype == "A" && self.sites.contains(&(provider, record.fqdn.clone()))
        };
        let now = dns::records(&self.cloud);
        let same = now.iter().all(|(provider, now)| {
            let before = self.others.get(provider).into_iter().flatten();
            now.iter().filter(|r| !ours(*provider, r)).eq(before.filter(|r| !ours(*provider, r)))
        });
        if !same {
            self.blame(now_ms, "I4", format!("records of others have changed: {now:?}"));
        }
    }
}
