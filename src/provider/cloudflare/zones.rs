//! Zones: by name or by id, and what is remembered of them.
//!
//! A value with a dot is a name. Of an id the name is asked, and is missing when the token may only edit records.

use super::{Cloudflare, refusal, result, wire};
use crate::provider::CallContext;
use crate::provider::dns;
use crate::provider::http::{Answer, Request, bounded};
use crate::provider::observe::Call;
use flipop_core::model::fault::{Fault, FaultKind};
use flipop_core::model::moment::Moment;
use flipop_core::records::dns::Zone;
use http::StatusCode;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a zone is believed to be as it was: as long as a record set is believed before it is read again. A zone
/// that was made anew under its name is noticed at once, because its old id is refused.
const FRESH_MS: u64 = 600_000;

/// More zones than record sets name. Beyond that all are asked for anew, which costs calls and nothing else.
const MAX_ZONES: usize = 1_000;

/// TTL floor of zones on the Enterprise plan.
const ENTERPRISE_TTL_FLOOR: u32 = 30;

/// Zones of one name: one in each of several accounts, some of them moved away.
const PER_PAGE: &str = "50";

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Zones(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    /// Of which token.
    generation: u64,
    /// By what a spec says.
    found: BTreeMap<String, (Moment, Zone)>,
    /// Names of zones, by id, that showed in the records of tokens that may not read them. An id keeps its name.
    learned: BTreeMap<String, String>,
}

impl Zones {
    fn get(&self, written: &str, generation: u64, now: Moment) -> Option<Zone> {
        let memory = self.lock();
        let (at, zone) = memory.found.get(written)?;
        let fresh = memory.generation == generation && now.millis_since(*at) < FRESH_MS;
        fresh.then(|| zone.clone())
    }

    fn put(&self, written: &str, generation: u64, now: Moment, zone: &Zone) {
        let mut memory = self.lock();
        if memory.generation != generation || memory.found.len() >= MAX_ZONES {
            memory.found.clear();
            memory.generation = generation;
        }
        memory.found.insert(written.to_owned(), (now, zone.clone()));
    }

    /// Drops what is remembered of a zone.
    pub(super) fn forget(&self, id: &str) {
        self.lock().found.retain(|_, (_, zone)| zone.id != id);
    }

    /// The name of a zone has shown in its records.
    pub(super) fn learn(&self, id: &str, name: &str) {
        let mut memory = self.lock();
        if memory.learned.len() >= MAX_ZONES {
            memory.learned.clear();
        }
        memory.learned.insert(id.to_owned(), name.to_owned());
        memory.found.retain(|_, (_, zone)| zone.id != id);
    }

    fn learned(&self, id: &str) -> Option<String> {
        self.lock().learned.get(id).cloned()
    }

    /// Refuses a name that is outside of its zone, as far as the zone's name is known by any means.
    pub(super) fn check(&self, zone: &Zone, fqdn: &str) -> Result<(), Fault> {
        let name = zone.name.clone().or_else(|| self.learned(&zone.id));
        name.map_or(Ok(()), |name| dns::relative(fqdn, &name).map(drop))
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        // Nothing in here can be half changed in a way that matters: it is only a memory.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cloudflare {
    /// The zone that a spec means.
    pub(super) async fn zone(&self, context: &CallContext, written: &str) -> Result<Zone, Fault> {
        let key = dns::zone_name(written)?;
        let by_name = written.contains('.');
        // A name and an id cannot be the same text: only names are kept with a dot.
        let key = if by_name { format!("{key}.") } else { key };
        let generation = *self.api.token_generation().borrow();
        if let Some(zone) = self.zones.get(&key, generation, self.clock.now()) {
            return Ok(zone);
        }
        let work = async {
            match key.strip_suffix('.') {
                Some(name) => self.zone_by_name(name).await,
                None => self.zone_by_id(&key).await,
            }
        };
        let zone = self.api.operation(Call::FindZone, context, work).await?;
        if zone.name.is_some() {
            // A missing right may be given at any time: whoever wants to know asks again.
            self.zones.put(&key, generation, self.clock.now(), &zone);
        }
        Ok(zone)
    }

    async fn zone_by_name(&self, name: &str) -> Result<Zone, Fault> {
        let answer =
            self.api.read(Request::get(&["zones"], &[("name", name), ("per_page", PER_PAGE)])).await?;
        let zones: Vec<wire::ZoneEntry> = content(&answer)?;
        let mut zones: Vec<_> = zones.into_iter().filter(|zone| zone.name == name).collect();
        if zones.len() > 1 {
            // What is left behind after a zone moved to another account is not active.
            zones.retain(|zone| zone.status.as_deref() == Some("active"));
        }
        match zones.as_slice() {
            [zone] => Ok(found(zone)),
            [] => Err(Fault {
                kind: FaultKind::NotFound,
                message: bounded(&format!(
                    "the token sees no zone {name}: check dnsRecordSet.zone, or give the token the permission \
                     Zone > Zone > Read, or write the zone's id"
                )),
                outcome_unknown: false,
                retry_after_ms: None,
            }),
            [_, _, ..] => Err(dns::invalid(&format!(
                "the token sees several zones {name}: write the id of one of them in dnsRecordSet.zone"
            ))),
        }
    }

    async fn zone_by_id(&self, id: &str) -> Result<Zone, Fault> {
        let answer = self.api.read(Request::get(&["zones", id], &[])).await?;
        let refused = answer.status() == StatusCode::FORBIDDEN && answer.refused_in_between().is_none();
        if refused && !refusal::refuses_token(&answer) {
            // The token may only edit records; or there is no such zone, which shows when it is read.
            let shown = self.zones.learned(id);
            return Ok(Zone { id: id.to_owned(), name: None, shown, ttl_floor: super::TTL_FLOOR });
        }
        let zone: wire::ZoneEntry = content(&answer)?;
        if zone.id.eq_ignore_ascii_case(id) {
            Ok(found(&zone))
        } else {
            Err(answer.malformed("it is about another zone"))
        }
    }
}

fn content<T: serde::de::DeserializeOwned>(answer: &Answer) -> Result<T, Fault> {
    result(answer)?.result.ok_or_else(|| answer.malformed("it has no result"))
}

fn found(entry: &wire::ZoneEntry) -> Zone {
    let ttl_floor = if entry.is_enterprise() { ENTERPRISE_TTL_FLOOR } else { super::TTL_FLOOR };
    Zone { id: entry.id.clone(), name: Some(entry.name.clone()), shown: None, ttl_floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(id: &str) -> Zone {
        Zone { id: id.to_owned(), name: None, shown: None, ttl_floor: 60 }
    }

    #[test]
    fn a_zone_is_remembered_for_a_while_under_its_token() {
        let zones = Zones::default();
        let at = Moment::from_millis;
        zones.put("a", 1, at(0), &zone("1"));
        assert_eq!(zones.get("a", 1, at(FRESH_MS - 1)), Some(zone("1")));
        assert_eq!(zones.get("a", 1, at(FRESH_MS)), None);
        assert_eq!(zones.get("a", 2, at(0)), None);
        zones.put("b", 2, at(0), &zone("2"));
        assert_eq!(zones.get("a", 2, at(0)), None, "another token, another world");
        zones.forget("2");
        assert_eq!(zones.get("b", 2, at(0)), None);
    }
}
