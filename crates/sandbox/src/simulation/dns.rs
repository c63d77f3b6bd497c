//! What is true of DNS: which records the objects ask for, and which were never anybody's to touch.
//!
//! I4: a set is never emptied by accident, holds only addresses that belong there, and every other record stays as it
//! was.

use super::truth::{Pool, Truth};
use super::workloads::{CLOUDFLARE_ZONE, ZONE};
use crate::cloud::{Cloud, IpView, Plan, Provider, RecordView};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A name at a provider.
pub(super) type Site = (Provider, String);

/// What an object asks for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) site: Site,
    zone: String,
    owner: String,
    created: String,
    addresses: BTreeSet<String>,
    /// With no node matching the set goes.
    deletes: bool,
    matches: bool,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The zones as they are before the operator comes, with records of others.
pub(super) fn furnish(cloud: &Cloud) {
    cloud.add_domain(ZONE);
    // Its id is of no interest: plans name it.
    let _id = cloud.add_zone(CLOUDFLARE_ZONE, Plan::Free);
    for (provider, zone) in [(Provider::DigitalOcean, ZONE), (Provider::Cloudflare, CLOUDFLARE_ZONE)] {
        let foreign = [
            RecordView::new(&format!("www.{zone}"), "A", "203.0.113.7", 300),
            RecordView::new(zone, "TXT", "v=spf1 -all", 300),
            RecordView::new(&format!("pool-0.{zone}"), "TXT", "somebody's note", 300),
        ];
        for record in &foreign {
            let _id = cloud.add_record(provider, zone, record);
        }
    }
}

/// Every record, by provider.
pub(super) fn records(cloud: &Cloud) -> BTreeMap<Provider, Vec<RecordView>> {
    [(Provider::DigitalOcean, ZONE), (Provider::Cloudflare, CLOUDFLARE_ZONE)]
        .map(|(provider, zone)| (provider, cloud.records(provider, zone)))
        .into()
}

/// The site that an object names, with its zone.
fn site(object: &Pool) -> Option<(Site, String)> {
    let set = object.spec.get("dnsRecordSet").filter(|set| set.is_object())?;
    let provider = [text(set, "/provider"), text(&object.spec, "/provider"), "digitalocean"];
    let provider = provider.into_iter().find(|provider| !provider.is_empty());
    let provider = if provider == Some("cloudflare") { Provider::Cloudflare } else { Provider::DigitalOcean };
    let (zone, name) = (text(set, "/zone"), text(set, "/recordName"));
    let inside = name == zone || name.ends_with(&format!(".{zone}"));
    let fqdn = match name {
        "@" => zone.to_owned(),
        _ if inside => name.to_owned(),
        _ => format!("{name}.{zone}"),
    };
    Some(((provider, fqdn), zone.to_owned()))
}

/// Every site that an object names now.
pub(super) fn sites(truth: &Truth) -> Vec<Site> {
    let objects = truth.pools.values().chain(truth.record_sets.values());
    objects.filter_map(site).map(|(site, _)| site).collect()
}

/// What is asked for, by the oldest object of each name.
pub(super) fn wanted(truth: &Truth, ips: &[IpView]) -> BTreeMap<Site, Wanted> {
    let mut all: BTreeMap<Site, Wanted> = BTreeMap::new();
    let pools = truth.pools.values().filter_map(|pool| of_pool(truth, pool, ips));
    let sets = truth.record_sets.values().filter_map(|set| of_set(truth, set));
    for wanted in pools.chain(sets) {
        let older = all.get(&wanted.site).is_some_and(|known| known.created <= wanted.created);
        if !older {
            all.insert(wanted.site.clone(), wanted);
        }
    }
    all
}

fn of_pool(truth: &Truth, pool: &Pool, ips: &[IpView]) -> Option<Wanted> {
    let (site, zone) = site(pool)?;
    let used = pool.used();
    let own = |view: &&IpView| {
        used.contains(&view.ip) && truth.owner(view.ip).is_some_and(|owner| owner.uid == pool.uid)
    };
    let droplets: BTreeSet<u64> = truth.candidates(pool).filter_map(|node| node.droplet).collect();
    let active = ips.iter().filter(own).filter(|view| view.droplet.is_some_and(|d| droplets.contains(&d)));
    Some(Wanted {
        site,
        zone,
        owner: pool.name.clone(),
        created: pool.created.clone(),
        addresses: active.map(|view| view.ip.to_string()).collect(),
        deletes: false,
        matches: true,
    })
}

fn of_set(truth: &Truth, set: &Pool) -> Option<Wanted> {
    let (site, zone) = site(set)?;
    let kind = text(&set.spec, "/addressType");
    let matching: Vec<_> = truth.candidates(set).collect();
    let addresses = matching.iter().filter_map(|node| match kind {
        "InternalIP" => Some(node.internal.clone()),
        "" | "ExternalIP" => Some(node.external.clone()),
        _ => node.annotation.clone(),
    });
    Some(Wanted {
        site,
        zone,
        owner: set.name.clone(),
        created: set.created.clone(),
        addresses: addresses.filter(|address| !address.is_empty()).collect(),
        deletes: text(&set.spec, "/dnsRecordSet/whenEmpty") != "Keep",
        matches: !matching.is_empty(),
    })
}

/// What is published otherwise than it is asked for.
pub(super) fn complaints(truth: &Truth, cloud: &Cloud, ips: &[IpView], all: &mut Vec<String>) {
    for Wanted { site, zone, owner, addresses, deletes, matches, .. } in wanted(truth, ips).into_values() {
        let have: Vec<String> = cloud.a_records(site.0, &zone, &site.1);
        let published: BTreeSet<String> = have.iter().cloned().collect();
        let right = if addresses.is_empty() {
            matches || !deletes || have.is_empty()
        } else {
            published == addresses && have.len() == addresses.len()
        };
        if !right {
            all.push(format!("{owner}: {} holds {have:?}, not {addresses:?}", site.1));
        }
    }
    for set in truth.record_sets.values() {
        let observed = set.status.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default();
        if observed != set.generation {
            all.push(format!("{}: generation {} is not observed", set.name, set.generation));
        }
    }
}
