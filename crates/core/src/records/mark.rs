//! The mark of external-dns for a name.
//!
//! Since 0.18, external-dns writes its `TXT` ownership record at `a-<name>` instead of at the name. A read of the name
//! does not show it, so the mark has its own read. Nothing waits for that read.
//!
//! Invariant: a failed read changes nothing.

use super::diff::is_marked_by_external_dns;
use super::name::qualify;
use super::site::RESYNC_MS;
use crate::mechanism::{Failure, Pace};
use crate::model::{CallFailure, Context, Moment};
use crate::records::dns::{Record, Zone};

/// The prefix of the marked name: the type of its records.
const PREFIX: &str = "a-";

/// The knowledge about one mark.
#[derive(Debug, Default)]
pub struct Mark {
    /// Whether the mark existed at the last look of this process.
    stands: Option<bool>,
    due: Moment,
    reading: bool,
    failure: Option<Failure<()>>,
}

/// The name at which external-dns marks a name. `None` if it cannot be marked.
///
/// The mark of the zone's own name would be outside the zone. The mark of a wildcard has a name that the user chooses
/// (`--txt-wildcard-replacement`). Without that option, providers refuse it.
pub fn name_of_mark(fqdn: &str, zone: &Zone) -> Option<String> {
    let apex = [&zone.name, &zone.shown].into_iter().flatten().any(|zone| zone == fqdn);
    let name = (!apex && !fqdn.starts_with('*')).then(|| format!("{PREFIX}{fqdn}"))?;
    // A name longer than DNS allows cannot be a mark.
    qualify(&name, None).ok()
}

impl Mark {
    /// Whether the mark existed at the last look, if there was one.
    pub fn stands(&self) -> Option<bool> {
        self.stands
    }

    /// When to look next. `None` while a look is under way.
    pub fn due(&self) -> Option<Moment> {
        (!self.reading).then_some(self.due)
    }

    /// Starts again, because somebody else may have written or deleted the mark.
    pub fn restart(&mut self) {
        self.due = Moment::default();
        self.failure = None;
    }

    /// Notes that a read is sent.
    pub fn reading(&mut self) {
        self.reading = true;
    }

    /// Takes in the answer to the read.
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
                Failure::note(&mut self.failure, what, ((), 0), Pace::of(&fault), at);
                self.due = self.failure.as_ref().map_or(now, |failure| failure.retry.due());
            }
        }
    }

    /// Makes a read due that failed with the account, because its outage is over.
    pub fn release(&mut self, now: Moment) {
        Failure::release(&mut self.failure, now);
        self.due = self.failure.as_ref().map_or(self.due, |failure| failure.retry.due());
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
