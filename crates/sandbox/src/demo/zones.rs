//! The DNS zones that some YAML needs, at which provider, derived from the specs as the operator reads them.
//!
//! Invariant: every record set that names a zone finds it, by name or by id.

use super::manifest::Document;
use super::pools::{POOL_KIND, RECORD_SET_KIND};
use flipop::api::NodeDNSRecordSet;
use flipop::api::translate::record_set::record_set_object;
use flipop_cloud::Provider;
use flipop_core::records::name::ZoneRef;
use flipop_core::records::spec::{Destination, NodeSetSpec};
use flipop_sandbox::advice;
use std::fmt;

/// A zone that exists before the YAML is applied.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Zone {
    pub(super) provider: Provider,
    pub(super) name: String,
    /// Its id, if the YAML gives one.
    pub(super) id: Option<String>,
}

impl Zone {
    /// Whether a record set belongs here.
    pub(super) fn is(&self, place: &Destination) -> bool {
        let same = match &place.zone {
            ZoneRef::Name(name) => self.name == *name,
            ZoneRef::Id(id) => self.id.as_ref() == Some(id),
        };
        same && self.provider.name() == place.account_id.provider
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        match &self.id {
            Some(id) => write!(f, " (id {id})"),
            None => Ok(()),
        }
    }
}

/// The zones of these objects. Zones given by name come first.
pub(super) fn zones(documents: &[Document]) -> Vec<Zone> {
    let places = documents.iter().filter_map(place);
    let places: Vec<(Provider, Destination)> =
        places.filter_map(|place| Some((Provider::named(&place.account_id.provider)?, place))).collect();
    let mut zones: Vec<Zone> = Vec::new();
    for (provider, place) in &places {
        if let ZoneRef::Name(name) = &place.zone
            && !zones.iter().any(|zone| zone.is(place))
        {
            zones.push(Zone { provider: *provider, name: name.clone(), id: None });
        }
    }
    for (provider, place) in &places {
        let ZoneRef::Id(id) = &place.zone else { continue };
        if zones.iter().any(|zone| zone.is(place)) {
            continue;
        }
        let guess = guessed(&place.record_name);
        // A zone named elsewhere in the YAML may well be the one with this id.
        let taken = zones.iter_mut().find(|zone| zone.provider == *provider && zone.name == guess);
        match taken {
            Some(zone @ Zone { id: None, .. }) => zone.id = Some(id.clone()),
            Some(_) => {
                let name = format!("zone-{}.example", zones.len());
                zones.push(Zone { provider: *provider, name, id: Some(id.clone()) });
            }
            None => zones.push(Zone { provider: *provider, name: guess, id: Some(id.clone()) }),
        }
    }
    zones
}

/// A plausible name for a zone that some YAML gives by id: the end of a qualified record name.
fn guessed(record_name: &str) -> String {
    let name = record_name.trim_end_matches('.').to_ascii_lowercase();
    let mut labels = name.rsplit('.');
    match (labels.next(), labels.next()) {
        (Some(last), Some(before)) => format!("{before}.{last}"),
        _ => "example.com".to_owned(),
    }
}

/// The place of an object's record set.
fn place(document: &Document) -> Option<Destination> {
    if document.is(POOL_KIND) {
        return super::specs::pool_spec(document)?.record_set?.place;
    }
    if !document.is(RECORD_SET_KIND) {
        return None;
    }
    let set: NodeDNSRecordSet = serde_json::from_value(document.value.clone()).ok()?;
    let raw = record_set_object(&Ok(set)).spec.ok()?;
    NodeSetSpec::parse(&raw, &advice::providers()).set.place
}

#[cfg(test)]
mod tests {
    use super::super::manifest::{self, parse};
    use super::*;

    fn named(documents: &[Document]) -> Vec<String> {
        let named = |zone: &Zone| format!("{} {zone}", zone.provider.name());
        zones(documents).iter().map(named).collect()
    }

    fn sets(specs: &[&str]) -> Vec<Document> {
        let object = |spec: &&str| {
            format!(
                "apiVersion: flipop.digitalocean.com/v1alpha1\nkind: NodeDNSRecordSet\nmetadata: {{name: x}}\nspec: {spec}\n"
            )
        };
        parse("x", &specs.iter().map(object).collect::<Vec<_>>().join("---\n")).unwrap()
    }

    #[test]
    fn the_examples_need_a_zone_at_each_provider() {
        assert_eq!(
            named(&manifest::load(&[]).unwrap()),
            ["digitalocean example.com", "cloudflare example.net"]
        );
    }

    #[test]
    fn the_provider_defaults_as_in_the_operator_and_an_unknown_one_has_no_zones() {
        let documents = sets(&[
            "{dnsRecordSet: {zone: A.example., recordName: x}}",
            "{provider: cloudflare, dnsRecordSet: {zone: b.example, recordName: x}}",
            "{provider: cloudflare, dnsRecordSet: {provider: digitalocean, zone: c.example, recordName: x}}",
            "{provider: aws, dnsRecordSet: {zone: d.example, recordName: x}}",
            "{dnsRecordSet: {recordName: x}}",
        ]);
        let expected = ["digitalocean a.example", "cloudflare b.example", "digitalocean c.example"];
        assert_eq!(named(&documents), expected);
    }

    #[test]
    fn a_zone_that_is_given_by_its_id_is_the_one_that_its_records_name() {
        let documents = sets(&[
            "{provider: cloudflare, dnsRecordSet: {zone: abc, recordName: www.Example.org.}}",
            "{provider: cloudflare, dnsRecordSet: {zone: abc, recordName: other}}",
            "{provider: cloudflare, dnsRecordSet: {zone: example.org, recordName: '@'}}",
            "{provider: cloudflare, dnsRecordSet: {zone: def, recordName: plain}}",
            "{provider: cloudflare, dnsRecordSet: {zone: ghi, recordName: plain}}",
        ]);
        let expected = [
            "cloudflare example.org (id abc)",
            "cloudflare example.com (id def)",
            "cloudflare zone-2.example (id ghi)",
        ];
        assert_eq!(named(&documents), expected);
    }
}
