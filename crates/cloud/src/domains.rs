//! Domains and their records at the simulated `DigitalOcean`.
//!
//! Names are stored relative to the zone. A name with a final dot is absolute and is reduced to that. Like the real
//! API, this one keeps two equal A records as separate records. Invariants: a CNAME shares its name with nothing. Every
//! record's content is valid for its type. IDs are never reused.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};

use super::change::{ChangeKind, RecordVerb};
use super::do_answers::{Problem, list, text};
use super::wire::{Op, Provider, Reply};
use super::world::{Context, World};
use super::zones::{Domain, Record};

/// TTL of a record created without one.
const TTL_DEFAULT: u32 = 1_800;
/// Smallest TTL of a record.
const TTL_MIN: u32 = 30;
/// Largest TTL of a record, which is the limit of a DNS answer.
const TTL_MAX: u32 = 2_147_483_647;
/// Record types that can be created.
const TYPES: [&str; 8] = ["A", "AAAA", "CAA", "CNAME", "MX", "NS", "SRV", "TXT"];

/// Numeric fields besides the TTL.
const NUMBERS: [&str; 4] = ["priority", "port", "weight", "flags"];

impl Record {
    fn render(&self) -> Value {
        let number = |name: &str| self.numbers.get(name).copied();
        json!({
            "id": self.id,
            "type": self.rtype,
            "name": self.name,
            "data": self.data,
            "priority": number("priority"),
            "port": number("port"),
            "ttl": self.ttl,
            "weight": number("weight"),
            "flags": number("flags"),
            "tag": self.tag,
        })
    }
}

impl World {
    /// Answers a call about domains.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other operation belongs to another resource")]
    pub(super) fn domain_call(&mut self, call: &Context<'_>) -> Result<Reply, Problem> {
        let zone = call.route.arg(0).to_ascii_lowercase();
        match call.route.op {
            Op::ListDomains => {
                let seen = self.domains.seen(call.now_ms, self.knobs.list_lag_ms);
                let domains = seen.iter().map(|(name, domain)| render_domain(name, domain)).collect();
                list(call, "domains", domains)
            }
            Op::CreateDomain => self.post_domain(call),
            Op::GetDomain => {
                let domain = self.domain(&zone)?;
                Ok(Reply::json(200, &json!({"domain": render_domain(&zone, domain)})))
            }
            Op::DeleteDomain => {
                self.domain(&zone)?;
                self.domains_mut().remove(&zone);
                Ok(Reply::empty(204))
            }
            Op::ListRecords => self.list_records(call, &zone),
            Op::CreateRecord => self.post_record(call, &zone),
            Op::GetRecord => {
                let record = self.record(call, &zone)?;
                Ok(Reply::json(200, &json!({"domain_record": record.render()})))
            }
            Op::PutRecord | Op::PatchRecord => self.edit_record(call, &zone),
            Op::DeleteRecord => {
                let record = self.record(call, &zone)?.clone();
                self.take_record(&zone, record.id);
                Ok(Reply::empty(204))
            }
            _ => Err(Problem::not_found()),
        }
    }

    fn domain(&self, zone: &str) -> Result<&Domain, Problem> {
        self.domains.now().get(zone).ok_or_else(Problem::not_found)
    }

    fn record(&self, call: &Context<'_>, zone: &str) -> Result<&Record, Problem> {
        let id: u64 = call.route.arg(1).parse().map_err(|_| Problem::not_found())?;
        self.domain(zone)?.records.get(&id).ok_or_else(Problem::not_found)
    }

    fn domains_mut(&mut self) -> &mut BTreeMap<String, Domain> {
        self.domains.change(self.now_ms, self.knobs.list_lag_ms)
    }

    /// Adds a zone with its initial records. Returns false if it exists already.
    pub(super) fn add_domain(&mut self, zone: &str) -> bool {
        if self.domains.now().contains_key(zone) {
            return false;
        }
        let mut domain = Domain::default();
        let mut first = vec![("SOA", TTL_DEFAULT.to_string())];
        first.extend((1..=3).map(|n| ("NS", format!("ns{n}.digitalocean.com"))));
        for (rtype, data) in first {
            let id = self.fresh_id();
            domain.records.insert(id, Record::new(id, rtype, "@", &data, TTL_DEFAULT));
        }
        self.domains_mut().insert(zone.to_owned(), domain);
        true
    }

    /// Puts a record into a zone. Replaces a record with the same ID.
    pub(super) fn put_record(&mut self, zone: &str, record: Record) {
        let (fqdn, rtype, data) = (record.fqdn(zone), record.rtype.clone(), record.data.clone());
        let id = record.id.to_string();
        let Some(domain) = self.domains_mut().get_mut(zone) else { return };
        let old = domain.records.insert(record.id, record);
        let verb = if old.is_some() { RecordVerb::Updated } else { RecordVerb::Created };
        let (provider, replaced) = (Provider::DigitalOcean, old.map(|old| old.data));
        self.note(ChangeKind::Record { provider, verb, id, fqdn, rtype, data, replaced });
    }

    /// Removes a record from a zone. Returns false if it is not there.
    pub(super) fn take_record(&mut self, zone: &str, id: u64) -> bool {
        let old = self.domains_mut().get_mut(zone).and_then(|domain| domain.records.remove(&id));
        let Some(old) = old else { return false };
        let (fqdn, verb) = (old.fqdn(zone), RecordVerb::Deleted);
        let (provider, rtype, data) = (Provider::DigitalOcean, old.rtype, old.data);
        let id = id.to_string();
        self.note(ChangeKind::Record { provider, verb, id, fqdn, rtype, data, replaced: None });
        true
    }

    fn post_domain(&mut self, call: &Context<'_>) -> Result<Reply, Problem> {
        let body = call.request.object()?;
        let name = text(&body, "name", "Name is not valid.")?;
        let name = name.ok_or_else(|| Problem::unprocessable("Name can't be blank."))?.to_ascii_lowercase();
        if !name.contains('.') || !is_host_name(&name) {
            return Err(Problem::unprocessable("Name is not a valid domain."));
        }
        let apex = match text(&body, "ip_address", "IP address is not valid.")? {
            None => None,
            Some(ip) => {
                Some(ip.parse::<Ipv4Addr>().map_err(|_| Problem::unprocessable("IP address is not valid."))?)
            }
        };
        if !self.add_domain(&name) {
            return Err(Problem::unprocessable("Name has already been taken."));
        }
        if let Some(ip) = apex {
            self.add_plain_record(&name, "A", "@", &ip.to_string(), TTL_DEFAULT);
        }
        Ok(Reply::json(201, &json!({"domain": {"name": name, "ttl": TTL_DEFAULT, "zone_file": null}})))
    }

    /// Adds a record without checking it, like one left by an earlier owner.
    pub(super) fn add_plain_record(
        &mut self,
        zone: &str,
        rtype: &str,
        name: &str,
        data: &str,
        ttl: u32,
    ) -> u64 {
        let id = self.fresh_id();
        self.put_record(zone, Record::new(id, rtype, name, data, ttl));
        id
    }

    fn list_records(&self, call: &Context<'_>, zone: &str) -> Result<Reply, Problem> {
        self.domain(zone)?;
        let seen = self.domains.seen(call.now_ms, self.knobs.list_lag_ms);
        let records = seen.get(zone).map(|domain| &domain.records);
        let name = call.request.param("name").map(|name| name.to_ascii_lowercase());
        let rtype = call.request.param("type");
        if rtype.as_deref().is_some_and(|rtype| rtype != "SOA" && !TYPES.contains(&rtype)) {
            return Err(Problem::unprocessable("Type is not included in the list"));
        }
        let wanted = |record: &&Record| {
            name.as_deref().is_none_or(|name| name.trim_end_matches('.') == record.fqdn(zone))
                && rtype.as_deref().is_none_or(|rtype| rtype == record.rtype)
        };
        let records = records.into_iter().flat_map(BTreeMap::values).filter(wanted);
        list(call, "domain_records", records.map(Record::render).collect())
    }

    fn post_record(&mut self, call: &Context<'_>, zone: &str) -> Result<Reply, Problem> {
        self.domain(zone)?;
        let body = call.request.object()?;
        let mut record = apply(Record::new(0, "", "", "", TTL_DEFAULT), &body, zone)?;
        self.check_record(&record, zone)?;
        record.id = self.fresh_id();
        let rendered = record.render();
        self.put_record(zone, record);
        Ok(Reply::json(201, &json!({ "domain_record": rendered })))
    }

    /// PUT and PATCH do the same: missing fields keep their value. The schema requires the type in both.
    fn edit_record(&mut self, call: &Context<'_>, zone: &str) -> Result<Reply, Problem> {
        let old = self.record(call, zone)?.clone();
        let body = call.request.object()?;
        if text(&body, "type", "Type is not valid.")?.is_none() {
            return Err(Problem::unprocessable("Type can't be blank."));
        }
        if old.rtype == "SOA" {
            return Err(Problem::unprocessable("SOA records cannot be changed this way."));
        }
        let mut record = old;
        // Targets are stored without their final dot, but the check of the new state requires it.
        if points_to_host(&record.rtype) && !body.contains_key("data") {
            return Err(Problem::unprocessable("Data needs to end with a dot (.)"));
        }
        record = apply(record, &body, zone)?;
        self.check_record(&record, zone)?;
        let rendered = record.render();
        self.put_record(zone, record);
        Ok(Reply::json(200, &json!({ "domain_record": rendered })))
    }

    fn check_record(&self, record: &Record, zone: &str) -> Result<(), Problem> {
        let others = self.domain(zone)?.records.values();
        let mut others = others.filter(|other| other.id != record.id && other.name == record.name);
        let clash = others.any(|other| record.rtype == "CNAME" || other.rtype == "CNAME");
        if clash {
            return Err(Problem::unprocessable("CNAME records cannot share a name with other records"));
        }
        Ok(())
    }
}

fn render_domain(name: &str, domain: &Domain) -> Value {
    let soa = format!("$ORIGIN {name}.\n$TTL {TTL_DEFAULT}\n");
    let lines =
        domain.records.values().filter(|record| record.rtype != "SOA").map(|record| {
            format!("{}. {} IN {} {}\n", record.fqdn(name), record.ttl, record.rtype, record.data)
        });
    let zone_file: String = std::iter::once(soa).chain(lines).collect();
    json!({"name": name, "ttl": TTL_DEFAULT, "zone_file": zone_file})
}

/// Applies the fields of a request to a record and checks the result.
fn apply(mut record: Record, body: &Map<String, Value>, zone: &str) -> Result<Record, Problem> {
    if let Some(rtype) = text(body, "type", "Type is not valid.")? {
        record.rtype = rtype;
    }
    if record.rtype.is_empty() {
        return Err(Problem::unprocessable("Type can't be blank."));
    }
    if !TYPES.contains(&record.rtype.as_str()) {
        return Err(Problem::unprocessable("Type is not included in the list"));
    }
    if let Some(name) = text(body, "name", "Name is not valid.")? {
        record.name = relative(&name, zone)?;
    } else if record.name.is_empty() {
        if !matches!(record.rtype.as_str(), "MX" | "NS") {
            return Err(Problem::unprocessable("Name can't be blank"));
        }
        "@".clone_into(&mut record.name);
    }
    if let Some(data) = text(body, "data", "Data is not valid.")? {
        record.data = data;
        check_data(&mut record)?;
    } else if record.data.is_empty() {
        return Err(Problem::unprocessable("Data can't be blank"));
    }
    if let Some(ttl) = number(body, "ttl")? {
        record.ttl = ttl;
        // Some clients send 0 for "not given".
        if ttl == 0 {
            record.ttl = TTL_DEFAULT;
        } else if !(TTL_MIN..=TTL_MAX).contains(&ttl) {
            return Err(Problem::unprocessable("record ttl must be greater than 30"));
        }
    }
    for name in NUMBERS {
        if let Some(value) = number(body, name)?.filter(|_| takes_number(&record.rtype, name)) {
            record.numbers.insert(name, value);
        }
    }
    let missing =
        NUMBERS.iter().find(|name| needs_number(&record.rtype, name) && !record.numbers.contains_key(*name));
    if let Some(name) = missing {
        return Err(Problem { status: 422, message: format!("{name} is not a number") });
    }
    record.tag = text(body, "tag", "Tag is not valid.")?.or(record.tag);
    if record.rtype == "CAA" && record.tag.is_none() {
        return Err(Problem::unprocessable("Tag can't be blank"));
    }
    Ok(record)
}

fn takes_number(rtype: &str, name: &str) -> bool {
    match name {
        "priority" => rtype == "MX" || rtype == "SRV",
        "port" | "weight" => rtype == "SRV",
        _ => rtype == "CAA",
    }
}

/// Whether the type requires this number. A weight has a default.
fn needs_number(rtype: &str, name: &str) -> bool {
    name != "weight" && takes_number(rtype, name)
}

fn number(body: &Map<String, Value>, name: &str) -> Result<Option<u32>, Problem> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|value| u32::try_from(value).ok()) {
            Some(value) => Ok(Some(value)),
            None => Err(Problem { status: 422, message: format!("{name} is not a number") }),
        },
    }
}

fn points_to_host(rtype: &str) -> bool {
    matches!(rtype, "CNAME" | "MX" | "NS" | "SRV")
}

fn check_data(record: &mut Record) -> Result<(), Problem> {
    match record.rtype.as_str() {
        "A" if record.data.parse::<Ipv4Addr>().is_err() => {
            Err(Problem::unprocessable("IP address is not a valid IPv4 address"))
        }
        "AAAA" if record.data.parse::<Ipv6Addr>().is_err() => {
            Err(Problem::unprocessable("IP address is not a valid IPv6 address"))
        }
        rtype if points_to_host(rtype) && record.data != "@" => match record.data.strip_suffix('.') {
            None => Err(Problem::unprocessable("Data needs to end with a dot (.)")),
            Some(host) => {
                record.data = host.to_owned();
                Ok(())
            }
        },
        _ => Ok(()),
    }
}

/// The name as stored: in lower case, relative to the zone.
fn relative(name: &str, zone: &str) -> Result<String, Problem> {
    let name = name.to_ascii_lowercase();
    let name = match name.strip_suffix('.') {
        None => name,
        Some(absolute) if absolute == zone => "@".to_owned(),
        Some(absolute) => match absolute.strip_suffix(zone).and_then(|rest| rest.strip_suffix('.')) {
            Some(inside) => inside.to_owned(),
            None => return Err(Problem::unprocessable("Name is not within this domain")),
        },
    };
    if name == "@" || is_host_name(&name) {
        Ok(name)
    } else {
        Err(Problem::unprocessable("Name is not valid"))
    }
}

/// Labels of letters, digits, `-` and `_`, the first of which may be `*`.
fn is_host_name(name: &str) -> bool {
    let label = |(index, label): (usize, &str)| {
        (index == 0 && label == "*")
            || (1..=63).contains(&label.len())
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    name.len() <= 253 && name.split('.').enumerate().all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stored_relative_and_a_full_name_without_a_dot_doubles_the_zone() {
        let zone = "example.com";
        assert_eq!(relative("WWW", zone).unwrap(), "www");
        assert_eq!(relative("www.example.com.", zone).unwrap(), "www");
        assert_eq!(relative("example.com.", zone).unwrap(), "@");
        assert_eq!(relative("www.example.com", zone).unwrap(), "www.example.com");
        assert_eq!(relative("@", zone).unwrap(), "@");
        assert!(relative("www.badexample.com.", zone).is_err());
        assert!(relative("a..b", zone).is_err());
        assert!(relative("a b", zone).is_err());
    }
}
