//! I9 and I1 at every step: a status describes the spec that it claims to describe, and no two statuses put one
//! address in two places. Its conditions are documented.

use super::truth::{Pool, Truth};
use super::validity::{self, text};
use super::{Judge, Violation};
use crate::scene::{MACHINES, POOLS};
use flipop_apiserver::Change;
use flipop_cloud::{Cloud, IpView};
use flipop_core::model::catalog;
use std::collections::{BTreeMap, BTreeSet};

/// The address and the place of each active entry.
fn active(pool: &Pool) -> BTreeMap<&str, &str> {
    let entries = pool.addresses().filter(|(_, entry)| text(entry, "/state") == "active");
    entries.map(|(ip, entry)| (ip, text(entry, "/providerID"))).collect()
}

/// Whether the status of an object is about its present spec.
fn is_about_its_spec(object: &Pool) -> bool {
    object.observed() == object.generation
}

/// `SpecValid` reports the mistakes of the spec.
fn spec_valid(object: &Pool, right: (&str, &str), wrong: &mut Vec<String>) {
    let says = object.says("SpecValid");
    if says != right {
        wrong.push(format!("SpecValid is {says:?}, not {right:?}, for generation {}", object.generation));
    }
}

/// A condition is useless unless users can look it up.
fn documented(kind: &str, object: &Pool, wrong: &mut Vec<String>) {
    for condition in object.conditions() {
        let [of, status, reason] = ["/type", "/status", "/reason"].map(|field| text(condition, field));
        if !catalog::contains(kind, of, status, reason) {
            wrong.push(format!("{of} {status} {reason} of a {kind} is documented nowhere"));
        }
    }
}

/// The mistakes in a pool's new status.
fn of_pool(truth: &Truth, pool: &Pool, before: Option<&Pool>, cloud: &Cloud) -> Vec<String> {
    let mut wrong = Vec::new();
    documented("FloatingIPPool", pool, &mut wrong);
    if pool.observed() > pool.generation {
        wrong.push(format!("generation {} is observed, and there are {}", pool.observed(), pool.generation));
    }
    if !is_about_its_spec(pool) {
        return wrong;
    }
    let mistakes = validity::of_pool(&pool.spec);
    let right = mistakes.first().map_or(("True", "Valid"), |reach| ("False", reach.reason()));
    spec_valid(pool, right, &mut wrong);
    let expected = pool.entries();
    let told: BTreeSet<String> = pool.states().into_keys().collect();
    // Addresses that were not looked up yet are missing in the status. At rest all are there. A frozen pool's
    // status stays unchanged.
    if !validity::is_frozen(&mistakes) && !told.is_subset(&expected) {
        wrong.push(format!("status.ips names {told:?}, and the pool has {expected:?}"));
    }
    let here = active(pool);
    // A new leader keeps an address's former entry although the list shows the address elsewhere, until it has also
    // read that address alone.
    let (told, there) = (before.map(active).unwrap_or_default(), cloud.ips());
    let stands = |view: &IpView, place: &str| {
        view.droplet.is_some_and(|droplet| place == MACHINES.provider_id(droplet))
    };
    let is_kept = |ip: &str, place: &str| {
        told.get(ip) == Some(&place)
            && !there.iter().any(|view| view.ip.to_string() == ip && stands(view, place))
    };
    let found: Vec<&str> =
        here.iter().filter(|(ip, place)| !is_kept(ip, place)).map(|(_, place)| *place).collect();
    if found.iter().collect::<BTreeSet<_>>().len() < found.len() {
        wrong.push(format!("two addresses are active in one place: {here:?}"));
    }
    let others = truth.pools.values().filter(|other| other.uid != pool.uid && !other.deleting);
    for other in others.filter(|other| is_about_its_spec(other)) {
        for (ip, there) in active(other) {
            if here.get(ip).is_some_and(|place| *place != there) {
                wrong.push(format!("{ip} is active here, and at {there} in {}", other.name));
            }
        }
    }
    wrong
}

/// The mistakes in a record set's new status.
fn of_record_set(set: &Pool) -> Vec<String> {
    let mut wrong = Vec::new();
    documented("NodeDNSRecordSet", set, &mut wrong);
    if is_about_its_spec(set) {
        let good = validity::of_record_set(&set.spec);
        spec_valid(set, if good { ("True", "Valid") } else { ("False", "RecordSetIgnored") }, &mut wrong);
    }
    wrong
}

impl Judge {
    /// The operator wrote an object.
    pub(super) fn check_status(&mut self, now_ms: u64, change: &Change, before: Option<&Pool>) {
        let name = &change.key.name;
        let is_pool = change.storage.plural == POOLS;
        let Some(object) = self.truth.object(&change.storage.plural, name) else { return };
        self.tellings.status(object, is_pool, now_ms);
        let mut wrong =
            if is_pool { of_pool(&self.truth, object, before, &self.cloud) } else { of_record_set(object) };
        wrong.extend(self.graces.wrongly_suspected(object, &self.blindness, now_ms));
        for text in wrong {
            self.violations.push(Violation { at_ms: now_ms, rule: "I9", text: format!("{name}: {text}") });
        }
    }
}
