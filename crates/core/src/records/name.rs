//! How users write zones and record names, and the canonical form that the rest of the code uses.
//!
//! The canonical form is lower case without a final dot. A name never leaves its zone. Also has the zones in which the
//! operator may write records.

use super::dns::Zone;
use crate::model::provider::ZoneForm;
use crate::model::words::shown;
use std::fmt;

/// The longest name in its written form (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;

/// The longest part of a name between two dots (same section).
const MAX_LABEL: usize = 63;

/// A zone as a spec refers to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneRef {
    /// By its canonical name.
    Name(String),
    /// By the provider's id.
    Id(String),
}

impl ZoneRef {
    /// Parses the `zone` field of a spec, which is not empty.
    ///
    /// # Errors
    /// The mistake in it.
    pub fn parse(text: &str, form: ZoneForm) -> Result<Self, NameError> {
        match form {
            ZoneForm::NameOrId if !text.contains('.') => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                if text.chars().all(plain) && text.len() <= MAX_LABEL {
                    Ok(Self::Id(text.to_owned()))
                } else {
                    Err(NameError::Malformed(shown(text)))
                }
            }
            ZoneForm::Name | ZoneForm::NameOrId => Ok(Self::Name(canonical(text)?)),
        }
    }

    /// The name or the id.
    pub fn text(&self) -> &str {
        match self {
            Self::Name(text) | Self::Id(text) => text,
        }
    }
}

/// The reason why a name cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameError {
    /// It is not a DNS name.
    Malformed(String),
    /// It ends in a dot and is outside the zone. Holds the name and the zone.
    Outside(String, String),
    /// It is relative to a zone whose name the token may not read.
    ZoneUnnamed(String),
    /// The token may not read the zone's name, so this counts as a full name, and it is outside the zone: the name and
    /// the zone, as records show it.
    OutsideShown(String, String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(name) => write!(
                f,
                "{name:?} is not a DNS name; use letters, digits, '-' and '_' between dots (at most {MAX_LABEL} each), \
                 and the xn-- form for any others"
            ),
            Self::Outside(name, zone) => write!(
                f,
                "{name:?} ends in a dot and is not in the zone {zone}; leave the dot out for a relative name"
            ),
            Self::OutsideShown(name, zone) => write!(
                f,
                "{name:?} is taken as a full name, since the token may not read the zone's name, and is not in the zone \
                 {zone}; write a name in that zone in full, or correct dnsRecordSet.zone, or give the token the permission \
                 Zone > Zone > Read"
            ),
            Self::ZoneUnnamed(name) => write!(
                f,
                "{name:?} is relative and the token may not read the zone's name; write the name in full, or give the \
                 token the permission Zone > Zone > Read"
            ),
        }
    }
}

/// The fully qualified name of `record_name` in a zone. `zone` is `None` if the token may not read the zone's name.
///
/// # Errors
/// The reason why there is none.
pub fn qualify(record_name: &str, zone: Option<&str>) -> Result<String, NameError> {
    let lower = record_name.to_ascii_lowercase();
    let Some(zone) = zone else {
        return if lower.contains('.') {
            canonical(&lower)
        } else {
            Err(NameError::ZoneUnnamed(shown(&lower)))
        };
    };
    let inside = |name: &str| is_inside(name, zone);
    if lower == "@" {
        return Ok(zone.to_owned());
    }
    if let Some(absolute) = lower.strip_suffix('.') {
        return if inside(absolute) {
            canonical(absolute)
        } else {
            Err(NameError::Outside(shown(&lower), zone.to_owned()))
        };
    }
    if inside(&lower) { canonical(&lower) } else { canonical(&format!("{lower}.{zone}")) }
}

/// Checks a full name against the zone's name, if records have shown one.
///
/// # Errors
/// The name is outside the zone.
pub fn check_shown(fqdn: String, zone: Option<&str>) -> Result<String, NameError> {
    match zone {
        Some(zone) if !is_inside(&fqdn, zone) => Err(NameError::OutsideShown(shown(&fqdn), zone.to_owned())),
        Some(_) | None => Ok(fqdn),
    }
}

pub(super) fn is_inside(name: &str, zone: &str) -> bool {
    name == zone || name.strip_suffix(zone).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn canonical(text: &str) -> Result<String, NameError> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '*';
    let label = |label: &str| !label.is_empty() && label.len() <= MAX_LABEL && label.chars().all(plain);
    if name.len() <= MAX_NAME && name.split('.').all(label) {
        Ok(name)
    } else {
        Err(NameError::Malformed(shown(text)))
    }
}

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
    use proptest::prelude::*;

    #[test]
    fn every_way_of_writing_a_name_means_the_same() {
        for (name, fqdn) in [
            ("www", "www.example.com"),
            ("WWW", "www.example.com"),
            ("a.b", "a.b.example.com"),
            ("@", "example.com"),
            ("example.com", "example.com"),
            ("Example.COM.", "example.com"),
            ("www.example.com", "www.example.com"),
            ("www.EXAMPLE.com.", "www.example.com"),
            ("notexample.com", "notexample.com.example.com"),
            ("www.other.org", "www.other.org.example.com"),
            ("*", "*.example.com"),
            ("_a-b", "_a-b.example.com"),
        ] {
            assert_eq!(qualify(name, Some("example.com")).as_deref(), Ok(fqdn), "{name}");
        }
    }

    #[test]
    fn a_name_that_ends_in_a_dot_has_to_lie_in_the_zone() {
        for name in ["www.", "www.other.org.", "notexample.com.", "com.", ".example.com."] {
            assert!(qualify(name, Some("example.com")).is_err(), "{name}");
        }
        let error = qualify("www.other.org.", Some("example.com")).unwrap_err().to_string();
        assert!(error.contains("example.com") && error.contains("www.other.org."), "{error}");
    }

    #[test]
    fn without_the_zone_s_name_only_a_name_with_a_dot_will_do() {
        assert_eq!(qualify("WWW.example.com", None).as_deref(), Ok("www.example.com"));
        assert_eq!(qualify("www.example.com.", None).as_deref(), Ok("www.example.com"));
        for name in ["www", "@"] {
            assert!(qualify(name, None).unwrap_err().to_string().contains("Zone > Zone > Read"), "{name}");
        }
    }

    #[test]
    fn what_is_no_name_is_told_so() {
        let long = "a".repeat(64);
        let too_long = ["a".repeat(60).as_str(); 5].join(".");
        for name in ["a..b", ".a", "a b", "a/b", "ä", long.as_str(), too_long.as_str(), "a\n", "a..", "a.@"]
        {
            let error = qualify(name, Some("example.com"));
            assert!(error.is_err(), "{name:?} became {error:?}");
        }
    }

    #[test]
    fn a_zone_without_a_dot_is_an_id_only_where_there_are_ids() {
        let name = |text: &str| Ok(ZoneRef::Name(text.to_owned()));
        assert_eq!(ZoneRef::parse("Example.com.", ZoneForm::NameOrId), name("example.com"));
        assert_eq!(ZoneRef::parse("Example.com.", ZoneForm::Name), name("example.com"));
        assert_eq!(ZoneRef::parse("internal", ZoneForm::Name), name("internal"));
        let id = "023e105f4ecef8ad9ca31a8372d0c353";
        assert_eq!(ZoneRef::parse(id, ZoneForm::NameOrId), Ok(ZoneRef::Id(id.to_owned())));
        assert!(ZoneRef::parse("a/../b", ZoneForm::NameOrId).is_err());
        assert!(ZoneRef::parse("../zones", ZoneForm::NameOrId).is_err());
    }

    proptest! {
        #[test]
        fn a_qualified_name_lies_in_its_zone_and_is_a_fixed_point(name in "[a-zA-Z0-9_*@. -]{1,30}") {
            if let Ok(fqdn) = qualify(&name, Some("example.com")) {
                prop_assert!(fqdn == "example.com" || fqdn.ends_with(".example.com"));
                prop_assert_eq!(qualify(&fqdn, Some("example.com")), Ok(fqdn.clone()));
                prop_assert_eq!(qualify(&format!("{fqdn}."), Some("example.com")), Ok(fqdn));
            }
        }
    }

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
