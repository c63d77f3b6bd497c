//! The truth about DNS: the records that objects want, now and recently, and the records that nobody may touch.
//!
//! I4: a set is never emptied by accident and holds only addresses that belong to it. Every other record stays as it
//! was.

use super::since::{Since, note};
use super::truth::{Node, Pool, Truth};
use super::validity::{self, Reach, text};
use crate::scene::{CLOUDFLARE_ZONE, ZONE, zone_of};
use flipop_cloud::{Cloud, IpView, Plan, Provider, RecordView};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A name at a provider.
pub(super) type Site = (Provider, String);

/// TTL of records that ask for none.
const TTL_S: u64 = 60;

/// The records that the owner of a name wants.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) site: Site,
    zone: String,
    pub(super) owner: String,
    pub(super) addresses: BTreeSet<String>,
    /// No address is left to publish, so the set is to be deleted.
    pub(super) goes: bool,
    ttl: Option<u64>,
    /// The right records depend on where addresses are.
    pub(super) of_pool: bool,
}

/// Where an object's records are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) site: Site,
    pub(super) zone: String,
    /// Whether the zone exists.
    pub(super) found: bool,
}

/// Creates the zones, with other people's records.
pub(crate) fn furnish(cloud: &Cloud) {
    cloud.add_domain(ZONE);
    // The id is not needed: plans name the zone.
    let _id = cloud.add_zone(CLOUDFLARE_ZONE, Plan::Free);
    for provider in Provider::ALL {
        let zone = zone_of(provider);
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

/// All records, by provider.
pub(crate) fn records(cloud: &Cloud) -> BTreeMap<Provider, Vec<RecordView>> {
    Provider::ALL.map(|provider| (provider, cloud.records(provider, zone_of(provider)))).into()
}

/// The place that an object names, even if the rest of its spec is wrong.
pub(super) fn place(object: &Pool) -> Option<Place> {
    let set = validity::record_set(&object.spec)?;
    let default = [text(&object.spec, "/provider"), "digitalocean"];
    let default = default.into_iter().find(|provider| !provider.is_empty()).unwrap_or_default();
    let provider = validity::dns_provider(set, default)?;
    let zone = text(set, "/zone").trim_end_matches('.').to_lowercase();
    let name = text(set, "/recordName").to_lowercase();
    // At Cloudflare a zone without a dot is an id, and no plan knows one.
    if zone.is_empty() || name.is_empty() || (provider == Provider::Cloudflare && !zone.contains('.')) {
        return None;
    }
    let fqdn = if name == "@" {
        zone.clone()
    } else if let Some(full) = name.strip_suffix('.') {
        full.to_owned()
    } else if name == zone || name.ends_with(&format!(".{zone}")) {
        name
    } else {
        format!("{name}.{zone}")
    };
    let found = zone == zone_of(provider);
    Some(Place { site: (provider, fqdn), zone, found })
}

/// All objects that may name places.
pub(super) fn objects(truth: &Truth) -> impl Iterator<Item = &Pool> {
    truth.pools.values().chain(truth.record_sets.values()).filter(|object| !object.deleting)
}

/// All sites that objects name now.
pub(super) fn sites(truth: &Truth) -> Vec<Site> {
    objects(truth).filter_map(place).map(|place| place.site).collect()
}

/// The oldest object of either kind that names a site.
pub(super) fn owner<'a>(truth: &'a Truth, site: &Site) -> Option<&'a Pool> {
    let names = |object: &&Pool| place(object).is_some_and(|place| place.site == *site);
    objects(truth).filter(names).min_by(|one, other| one.age().cmp(&other.age()))
}

/// The wanted records, by name, of owners whose spec can be followed.
pub(super) fn wanted(truth: &Truth, ips: &[IpView]) -> BTreeMap<Site, Wanted> {
    let pools = truth.pools.values().filter_map(|pool| of_pool(truth, pool, ips));
    let sets = truth.record_sets.values().filter_map(|set| of_set(truth, set));
    pools.chain(sets).map(|wanted| (wanted.site.clone(), wanted)).collect()
}

/// The place of an object, if it owns that place.
fn owned(truth: &Truth, object: &Pool) -> Option<Place> {
    let place = place(object).filter(|place| place.found && !object.deleting)?;
    owner(truth, &place.site).filter(|owner| owner.uid == object.uid)?;
    Some(place)
}

/// The wanted TTL, raised to the zone's minimum.
fn ttl(object: &Pool, provider: Provider) -> Option<u64> {
    let asked = object.spec.pointer("/dnsRecordSet/ttl").and_then(Value::as_u64).filter(|ttl| *ttl > 0)?;
    Some(match provider {
        Provider::DigitalOcean => asked.max(30),
        // 1 means automatic.
        Provider::Cloudflare if asked == 1 => 1,
        Provider::Cloudflare => asked.max(60),
    })
}

/// Whether the wanted TTL is below the zone's minimum.
pub(super) fn is_raised(object: &Pool, provider: Provider) -> bool {
    let asked = object.spec.pointer("/dnsRecordSet/ttl").and_then(Value::as_u64).filter(|ttl| *ttl > 0);
    asked.is_some_and(|asked| ttl(object, provider) != Some(asked))
}

fn of_pool(truth: &Truth, pool: &Pool, ips: &[IpView]) -> Option<Wanted> {
    let Place { site, zone, .. } = owned(truth, pool)?;
    let mistakes = validity::of_pool(&pool.spec);
    if validity::is_frozen(&mistakes) || mistakes.contains(&Reach::RecordSet) {
        return None;
    }
    let used = pool.used();
    let own = |view: &&IpView| used.contains(&view.ip) && truth.owns(pool, view.ip);
    let candidates: Vec<_> = truth.candidates(pool).collect();
    let droplets: BTreeSet<u64> = candidates.iter().filter_map(|node| node.droplet).collect();
    let active = ips.iter().filter(own).filter(|view| view.droplet.is_some_and(|d| droplets.contains(&d)));
    let addresses: BTreeSet<String> = active.map(|view| view.ip.to_string()).collect();
    let goes = text(&pool.spec, "/dnsRecordSet/whenEmpty") == "Delete" && candidates.is_empty();
    let ttl = Some(ttl(pool, site.0).unwrap_or(TTL_S));
    Some(Wanted { site, zone, owner: pool.name.clone(), addresses, goes, ttl, of_pool: true })
}

/// Whether an object would publish an address at a name, with nodes as they are now or were at some time since
/// `from_ms`.
pub(super) fn publishes(
    truth: &Truth,
    from_ms: u64,
    ips: &[IpView],
    object: &Pool,
    site: &Site,
    address: &str,
) -> bool {
    if place(object).is_none_or(|place| place.site != *site) {
        return false;
    }
    let mut nodes = truth.candidates_since(object, from_ms);
    match address.parse().ok().filter(|ip| object.used().contains(ip)) {
        Some(ip) => {
            let view = ips.iter().find(|view| view.ip == ip);
            let droplet = view.and_then(|view| view.droplet);
            nodes.any(|node| node.droplet.is_some() && node.droplet == droplet)
        }
        None => nodes.any(|node| address_of(object, node) == address),
    }
}

/// The address that a set publishes for a node; empty for none.
pub(super) fn address_of<'a>(set: &Pool, node: &'a Node) -> &'a str {
    match text(&set.spec, "/addressType") {
        "InternalIP" => &node.internal,
        "" | "ExternalIP" => &node.external,
        _ => node.annotation.as_deref().unwrap_or_default(),
    }
}

fn of_set(truth: &Truth, set: &Pool) -> Option<Wanted> {
    let Place { site, zone, .. } = owned(truth, set)?;
    if !validity::of_record_set(&set.spec) {
        return None;
    }
    let matching: Vec<_> = truth.candidates(set).collect();
    let addresses = matching.iter().map(|node| address_of(set, node)).filter(|address| !address.is_empty());
    let addresses: BTreeSet<String> = addresses.map(str::to_owned).collect();
    let goes = text(&set.spec, "/dnsRecordSet/whenEmpty") != "Keep" && matching.is_empty();
    let ttl = ttl(set, site.0);
    Some(Wanted { site, zone, owner: set.name.clone(), addresses, goes, ttl, of_pool: false })
}

impl Wanted {
    /// How the published records differ from the wanted ones. `touched` are names where others wrote.
    pub(super) fn complaint(&self, cloud: &Cloud, touched: &BTreeMap<Site, u64>) -> Option<String> {
        let Self { site, zone, owner, addresses, goes, ttl, of_pool: _ } = self;
        let records = cloud.records(site.0, zone).into_iter().filter(|record| record.fqdn == site.1);
        let records: Vec<RecordView> = records.collect();
        if has_alias(&records) {
            return None;
        }
        let have: Vec<&RecordView> = records.iter().filter(|record| record.rtype == "A").collect();
        let published: BTreeSet<String> = have.iter().map(|record| record.data.clone()).collect();
        let right = if addresses.is_empty() {
            // A deleted set is no longer maintained.
            !goes || have.is_empty() || touched.contains_key(site)
        } else {
            let same = |record: &&RecordView| ttl.is_none_or(|ttl| record.ttl == ttl);
            published == *addresses && have.len() == addresses.len() && have.iter().all(same)
        };
        (!right).then(|| format!("{owner}: {} holds {have:?}, not {addresses:?}", site.1))
    }
}

/// Whether a CNAME prevents addresses at a name.
pub(super) fn has_alias(records: &[RecordView]) -> bool {
    records.iter().any(|record| record.rtype == "CNAME")
}

/// The records wanted at each name, and when.
#[derive(Debug, Default)]
pub(super) struct IntendedRecords {
    /// Which object wanted which name.
    sites: BTreeMap<(String, Site), Since>,
    /// Which address belonged to which object, under any name.
    addresses: BTreeMap<(String, String), Since>,
    goes: BTreeMap<Site, Since>,
}

impl IntendedRecords {
    /// Takes in the records that are wanted now.
    pub(super) fn look(&mut self, wanted: &BTreeMap<Site, Wanted>, now_ms: u64) {
        let (mut sites, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        for Wanted { site, owner, addresses: published, .. } in wanted.values() {
            sites.insert((owner.clone(), site.clone()));
            addresses.extend(published.iter().map(|address| (owner.clone(), address.clone())));
        }
        note(&mut self.sites, sites, now_ms);
        note(&mut self.addresses, addresses, now_ms);
        for site in wanted.keys() {
            self.goes.entry(site.clone()).or_default();
        }
        for (site, since) in &mut self.goes {
            since.set(wanted.get(site).is_some_and(|wanted| wanted.goes), now_ms);
        }
    }

    /// Whether an object wanted the name and had the address at some time since `from_ms`.
    pub(super) fn asked(&self, site: &Site, address: &str, from_ms: u64) -> bool {
        let asked = self.sites.iter().filter(|((_, asked), since)| asked == site && since.held(from_ms));
        asked.into_iter().any(|((owner, _), _)| {
            self.addresses.get(&(owner.clone(), address.to_owned())).is_some_and(|since| since.held(from_ms))
        })
    }

    /// Whether the set was to be deleted at some time since `from_ms`.
    pub(super) fn went(&self, site: &Site, from_ms: u64) -> bool {
        self.goes.get(site).is_some_and(|since| since.held(from_ms))
    }
}
