//! Zones by name or ID, and the cache of them.
//!
//! A value with a dot is a name. For an ID, the name is looked up. It stays unknown if the token may only edit records.

use super::{Cloudflare, content, refusal, wire};
use crate::provider::call::CallContext;
use crate::provider::dns;
use crate::provider::http::{Request, bounded};
use crate::provider::observe::Call;
use flipop_core::model::{Fault, FaultKind, Moment};
use flipop_core::records::dns::Zone;
use http::StatusCode;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a cached zone is trusted: as long as a record set before it is read again. A zone recreated under its name
/// is noticed at once, because its old ID is refused.
const FRESH_MS: u64 = 600_000;

/// Most cached zones; record sets name fewer. Beyond this, all zones are looked up again, which costs only calls.
const MAX_ZONES: usize = 1_000;

/// TTL floor of zones on the Enterprise plan.
const ENTERPRISE_TTL_FLOOR: u32 = 30;

/// Zones per page. One name may have a zone in each of several accounts, and some may have moved away.
const PER_PAGE: &str = "50";

/// The cached zones.
#[derive(Debug, Default)]
pub(super) struct Zones(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    /// The token that the entries were read with.
    generation: u64,
    /// Zones, by the text in a spec.
    found: BTreeMap<String, (Moment, Zone)>,
    /// Zone names, by ID, seen in records while the token may not read the zone. An ID never changes its name.
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

    /// Removes a zone from the cache.
    pub(super) fn forget(&self, id: &str) {
        self.lock().found.retain(|_, (_, zone)| zone.id != id);
    }

    /// Remembers a zone's name that its records revealed.
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

    /// Refuses a name outside its zone, if the zone's name is known from any source.
    pub(super) fn check(&self, zone: &Zone, fqdn: &str) -> Result<(), Fault> {
        let name = zone.name.clone().or_else(|| self.learned(&zone.id));
        name.map_or(Ok(()), |name| dns::relative(fqdn, &name).map(drop))
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        // A panic elsewhere cannot leave harm here: this is only a cache.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cloudflare {
    /// The zone that a spec names.
    pub(super) async fn zone(&self, context: &CallContext, written: &str) -> Result<Zone, Fault> {
        let key = dns::zone_name(written)?;
        let by_name = written.contains('.');
        // A name and an ID are never the same key: only names keep their dot.
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
            // Zones without a name are not cached, because the missing right may be granted at any time.
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
            // The zone left behind after a move to another account is not active.
            zones.retain(|zone| zone.status.as_deref() == Some("active"));
        }
        match zones.as_slice() {
            [zone] => Ok(found(zone)),
            [] => Err(Fault::new(
                FaultKind::NotFound,
                bounded(&format!(
                    "the token sees no zone {name}: check dnsRecordSet.zone, or give the token the permission \
                     Zone > Zone > Read, or write the zone's id"
                )),
            )),
            [_, _, ..] => Err(dns::invalid(&format!(
                "the token sees several zones {name}: write the id of one of them in dnsRecordSet.zone"
            ))),
        }
    }

    async fn zone_by_id(&self, id: &str) -> Result<Zone, Fault> {
        let answer = self.api.read(Request::get(&["zones", id], &[])).await?;
        let refused = answer.status() == StatusCode::FORBIDDEN && answer.refused_in_between().is_none();
        if refused && !refusal::refuses_token(&answer) {
            // Either the token may only edit records, or the zone does not exist, which a read of its records shows.
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
