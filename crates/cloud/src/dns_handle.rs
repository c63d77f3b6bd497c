//! The DNS part of the handle: zones and records, changed from outside the API.

use super::cf_records::blank;
use super::handle::Cloud;
use super::wire::Provider;
use super::zones::{CfRecord, Plan};

/// A DNS record for tests, the same for both providers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordView {
    /// Fully qualified name.
    pub fqdn: String,
    /// Type.
    pub rtype: String,
    /// Content.
    pub data: String,
    /// TTL in seconds. At Cloudflare 1 means "automatic".
    pub ttl: u64,
    /// ID, as text.
    pub id: String,
    /// Cloudflare only: whether requests go through its network.
    pub proxied: bool,
    /// Cloudflare only.
    pub comment: Option<String>,
    /// Cloudflare only.
    pub tags: Vec<String>,
}

impl RecordView {
    /// A record to be added: fully qualified name, type, content, TTL.
    pub fn new(fqdn: &str, rtype: &str, data: &str, ttl: u64) -> Self {
        let (fqdn, rtype, data) = (fqdn.to_owned(), rtype.to_owned(), data.to_owned());
        Self { fqdn, rtype, data, ttl, ..Self::default() }
    }
}

impl Cloud {
    /// Adds a domain to `DigitalOcean`, with its SOA and three NS records.
    pub fn add_domain(&self, name: &str) {
        self.with(|world| world.add_domain(name));
    }

    /// Adds a zone to Cloudflare and returns its ID.
    pub fn add_zone(&self, name: &str, plan: Plan) -> String {
        self.with(|world| world.add_zone(None, name, plan))
    }

    /// Adds a zone with this ID to Cloudflare.
    pub fn add_zone_with_id(&self, id: &str, name: &str, plan: Plan) {
        self.with(|world| world.add_zone(Some(id), name, plan));
    }

    /// Adds a record from outside the API, unchecked. `zone` is a name at either provider. Returns its ID, or `None` if
    /// there is no such zone or the name is outside it.
    pub fn add_record(&self, provider: Provider, zone: &str, record: &RecordView) -> Option<String> {
        self.with(|world| match provider {
            Provider::DigitalOcean => {
                world.domains.now().get(zone)?;
                let name = match record.fqdn.strip_suffix(zone)? {
                    "" => "@",
                    inside => inside.strip_suffix('.')?,
                };
                let ttl = u32::try_from(record.ttl).ok()?;
                Some(world.add_plain_record(zone, &record.rtype, name, &record.data, ttl).to_string())
            }
            Provider::Cloudflare => {
                let id = world.zones.now().values().find(|known| known.name == zone)?.id.clone();
                let made = CfRecord {
                    name: record.fqdn.clone(),
                    rtype: record.rtype.clone(),
                    content: record.data.clone(),
                    ttl: record.ttl,
                    proxied: record.proxied,
                    comment: record.comment.clone(),
                    tags: record.tags.clone(),
                    ..blank(String::new())
                };
                Some(world.add_cf_record(&id, made))
            }
        })
    }

    /// Deletes a record from outside the API. Returns false if there is none.
    pub fn delete_record(&self, provider: Provider, zone: &str, id: &str) -> bool {
        self.with(|world| match provider {
            Provider::DigitalOcean => id.parse().is_ok_and(|id| world.take_record(zone, id)),
            Provider::Cloudflare => {
                let zone = world.zones.now().values().find(|known| known.name == zone);
                let zone = zone.map(|zone| zone.id.clone());
                zone.is_some_and(|zone| world.drop_cf_record(&zone, id))
            }
        })
    }

    /// All records of a zone, in the order of creation. Empty if there is no such zone.
    pub fn records(&self, provider: Provider, zone: &str) -> Vec<RecordView> {
        self.with(|world| match provider {
            Provider::DigitalOcean => {
                let records = world.domains.now().get(zone).map(|domain| domain.records.values());
                let view = |record: &super::zones::Record| RecordView {
                    id: record.id.to_string(),
                    ..RecordView::new(&record.fqdn(zone), &record.rtype, &record.data, record.ttl.into())
                };
                records.into_iter().flatten().map(view).collect()
            }
            Provider::Cloudflare => {
                let found = world.zones.now().values().find(|known| known.name == zone);
                let mut records: Vec<&CfRecord> =
                    found.into_iter().flat_map(|zone| zone.records.values()).collect();
                records.sort_by_key(|record| record.order);
                let view = |record: &CfRecord| RecordView {
                    id: record.id.clone(),
                    proxied: record.proxied,
                    comment: record.comment.clone(),
                    tags: record.tags.clone(),
                    ..RecordView::new(&record.name, &record.rtype, &record.content, record.ttl)
                };
                records.into_iter().map(view).collect()
            }
        })
    }

    /// The sorted contents of the A records of one name.
    pub fn a_records(&self, provider: Provider, zone: &str, fqdn: &str) -> Vec<String> {
        let records = self.records(provider, zone).into_iter();
        let of_name = records.filter(|record| record.rtype == "A" && record.fqdn == fqdn);
        let mut contents: Vec<String> = of_name.map(|record| record.data).collect();
        contents.sort();
        contents
    }
}
