//! The zones in which the operator may write records.

use super::dns::Zone;
use super::name::{NameError, ZoneRef, is_inside};
use crate::model::provider::ZoneForm;

/// Zones, each with those below it. An empty list allows every zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Zones(Vec<ZoneRef>);

impl Zones {
    /// Reads names and ids of zones, separated by commas.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(|entry| ZoneRef::parse(entry, ZoneForm::NameOrId)).collect::<Result<_, _>>().map(Self)
    }

    /// Why no records may be written in a zone, if none may. Some of its names may lie in an allowed zone that has no
    /// zone of its own; they are not told apart.
    pub fn refusal(&self, zone: &Zone) -> Option<String> {
        let name = zone.name.as_deref().or(zone.shown.as_deref());
        let allows = |entry: &ZoneRef| match entry {
            ZoneRef::Id(id) => zone.id == *id || name == Some(id),
            ZoneRef::Name(above) => name.is_some_and(|name| is_inside(name, above)),
        };
        let allowed = self.0.is_empty() || self.0.iter().any(allows);
        (!allowed).then(|| {
            let named = name.unwrap_or(&zone.id);
            format!("the operator may not write in the zone {named}; add it to --zones, or name another zone")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_allows_a_zone_and_those_below_it() {
        let zone = |id: &str, name: Option<&str>| Zone {
            id: id.to_owned(),
            name: name.map(str::to_owned),
            shown: None,
            ttl_floor: 0,
        };
        for (zones, id, name, allowed) in [
            ("", "example.com", Some("example.com"), true),
            ("example.com", "example.com", Some("example.com"), true),
            ("Example.COM. , example.org", "example.org", Some("example.org"), true),
            ("example.com", "sub.example.com", Some("sub.example.com"), true),
            ("sub.example.com", "example.com", Some("example.com"), false),
            ("example.com", "badexample.com", Some("badexample.com"), false),
            ("lan", "lan", Some("lan"), true),
            ("0da42c8d", "0da42c8d", None, true),
            ("0da42c8d", "ffffffff", Some("example.com"), false),
            ("example.com", "0da42c8d", Some("www.example.com"), true),
            ("example.com", "0da42c8d", None, false),
        ] {
            let refusal = Zones::parse(zones).unwrap().refusal(&zone(id, name));
            assert_eq!(refusal.is_none(), allowed, "{zones:?} {id} {name:?}: {refusal:?}");
        }
        for bad in ["a b", "example..com", "ä.example"] {
            assert!(Zones::parse(bad).is_err(), "{bad}");
        }
    }
}
