//! The mark of external-dns beside a name.
//!
//! From 0.18 on, external-dns writes the `TXT` record that says whose a name is not at the name but at `a-<name>`. A read of
//! the name does not show it, so it has a read of its own, for which nothing waits.
//!
//! Invariant: a read that fails leaves what is known of the mark as it is.

use super::diff::is_marked_by_external_dns;
use super::name::qualify;
use super::site::RESYNC_MS;
use crate::mechanism::failure::Failure;
use crate::model::fault::CallFailure;
use crate::model::moment::{Context, Moment};
use crate::records::dns::{Record, Zone};

/// In front of the name that is marked: the type of its records.
const PREFIX: &str = "a-";

/// What is known of one mark.
#[derive(Debug, Default)]
pub struct Mark {
    /// Whether it stood there when this process last looked.
    stands: Option<bool>,
    due: Moment,
    reading: bool,
    failure: Option<Failure<()>>,
}

/// Where external-dns marks a name; `None` where it cannot.
///
/// The mark of the zone's own name would lie outside the zone. That of a wildcard has a name of its user's choice
/// (`--txt-wildcard-replacement`), without which providers refuse it.
#[must_use]
pub fn name_of_mark(fqdn: &str, zone: &Zone) -> Option<String> {
    let apex = [&zone.name, &zone.shown].into_iter().flatten().any(|zone| zone == fqdn);
    let name = (!apex && !fqdn.starts_with('*')).then(|| format!("{PREFIX}{fqdn}"))?;
    // Longer than DNS allows, it is no name.
    qualify(&name, None).ok()
}

impl Mark {
    /// Whether it stood there when it was last looked for, if it was.
    #[must_use]
    pub fn stands(&self) -> Option<bool> {
        self.stands
    }

    /// When it is to be looked for again; `None` while that is under way.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        (!self.reading).then_some(self.due)
    }

    /// Others may have written or deleted it.
    pub fn restart(&mut self) {
        self.due = Moment::default();
        self.failure = None;
    }

    /// A read goes out.
    pub fn reading(&mut self) {
        self.reading = true;
    }

    /// The answer to it.
    pub fn read(&mut self, result: Result<Vec<Record>, CallFailure>, at @ Context { now, .. }: Context) {
        self.reading = false;
        match result {
            Ok(records) => {
                self.stands = Some(is_marked_by_external_dns(&records));
                self.failure = None;
                self.due = now.plus_millis(RESYNC_MS);
            }
            Err(CallFailure::NotSent) => {}
            Err(CallFailure::Fault(fault)) => {
                let what = (fault.kind, fault.message.as_str());
                Failure::note(&mut self.failure, what, ((), 0), None, at);
                let asked = now.plus_millis(fault.retry_after_ms.unwrap_or(0));
                self.due = self.failure.as_ref().map_or(asked, |failure| failure.retry.due().max(asked));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_marked_in_its_first_label_unless_it_is_the_zone_s_own_or_a_wildcard() {
        let zone = |name: Option<&str>, shown: Option<&str>| Zone {
            id: "id".into(),
            name: name.map(str::to_owned),
            shown: shown.map(str::to_owned),
            ttl_floor: 30,
        };
        let known = zone(Some("example.com"), None);
        assert_eq!(name_of_mark("www.example.com", &known).as_deref(), Some("a-www.example.com"));
        assert_eq!(name_of_mark("b.c.example.com", &known).as_deref(), Some("a-b.c.example.com"));
        assert_eq!(name_of_mark("*.example.com", &known), None);
        assert_eq!(name_of_mark("example.com", &known), None);
        assert_eq!(name_of_mark("example.com", &zone(None, Some("example.com"))), None);
        assert!(name_of_mark("www.example.com", &zone(None, None)).is_some());
        for (letters, fits) in [(61, true), (62, false)] {
            let long = format!("{}.example.com", "b".repeat(letters));
            assert_eq!(name_of_mark(&long, &known).is_some(), fits, "{letters}");
        }
    }
}
