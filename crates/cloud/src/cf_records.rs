//! DNS records at the simulated Cloudflare, singly and in batches.
//!
//! Invariants: a CNAME shares its name with no A, AAAA or CNAME. No two records have the same name, type and content. A
//! proxied record has TTL 1. A batch is carried out completely or not at all.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};

use super::cf_answers::{Problem, listing, page, success};
use super::change::{ChangeKind, RecordVerb};
use super::wire::{Op, Provider, Reply, Request};
use super::world::{Context, World};
use super::zones::{CfRecord, Plan, Zone};

/// The TTL that means "automatic".
const TTL_AUTO: u64 = 1;
/// Largest TTL.
const TTL_MAX: u64 = 86_400;
/// Longest comment on the free plan.
const COMMENT_MAX: usize = 100;
/// Most records on one page.
const PER_PAGE_MAX: usize = 5_000_000;
const PER_PAGE_DEFAULT: usize = 100;
/// Record types that this simulation knows.
const TYPES: [&str; 9] = ["A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SRV", "TXT"];

/// One requested write.
#[derive(Debug, Clone)]
enum Write {
    Delete(String),
    Patch(String, Map<String, Value>),
    Put(String, Map<String, Value>),
    Post(Map<String, Value>),
}

/// The result of one write.
#[derive(Debug, Clone)]
struct Written {
    verb: RecordVerb,
    record: CfRecord,
    /// The previous content, if there was a record.
    replaced: Option<String>,
}

impl World {
    /// The zone whose ID is the first path segment.
    pub(super) fn zone(&self, call: &Context<'_>) -> Result<&Zone, Problem> {
        let id = call.route.arg(0);
        // Documents use IDs that no real zone has. A zone added with such an ID is found.
        if let Some(zone) = self.zones.now().get(id) {
            return Ok(zone);
        }
        if id.len() != 32 || !id.chars().all(|c| c.is_ascii_hexdigit()) {
            let path = &call.request.path;
            let message = format!("Could not route to {path}, perhaps your object identifier is invalid?");
            return Err(Problem { status: 400, code: 7003, message, chain: None });
        }
        Err(Problem::forbidden())
    }

    /// Answers a read.
    pub(super) fn read_records(&self, call: &Context<'_>) -> Result<Reply, Problem> {
        let zone = self.zone(call)?;
        if call.route.op == Op::GetRecord {
            let record = zone.records.get(call.route.arg(1)).ok_or_else(Problem::no_record)?;
            return Ok(success(&self.render_record(record)));
        }
        let page = page(call, PER_PAGE_DEFAULT, PER_PAGE_MAX)?;
        let seen = self.zones.seen(call.now_ms, self.knobs.list_lag_ms);
        let records = seen.get(&zone.id).map(|zone| &zone.records);
        let filter = Filter::read(call.request);
        let mut records: Vec<&CfRecord> =
            records.into_iter().flat_map(BTreeMap::values).filter(|record| filter.takes(record)).collect();
        records.sort_by_key(|record| record.order);
        Ok(listing(page, records.into_iter().map(|record| self.render_record(record)).collect()))
    }

    /// Answers a write.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other operation belongs to another resource")]
    pub(super) fn write_records(&mut self, call: &Context<'_>) -> Result<Reply, Problem> {
        let zone = self.zone(call)?.clone();
        let body = call.request.object()?;
        let id = call.route.arg(1).to_owned();
        let write = match call.route.op {
            Op::BatchRecords => return self.batch(zone, &body),
            Op::PutRecord => Write::Put(id, body),
            Op::PatchRecord => Write::Patch(id, body),
            Op::DeleteRecord => Write::Delete(id),
            _ => Write::Post(body),
        };
        let written = self.commit(zone, vec![write])?;
        let Some(Written { verb, record, .. }) = written.first() else { return Err(Problem::no_record()) };
        Ok(match verb {
            RecordVerb::Deleted => success(&json!({"id": record.id})),
            RecordVerb::Created | RecordVerb::Updated => success(&self.render_record(record)),
        })
    }

    fn batch(&mut self, zone: Zone, body: &Map<String, Value>) -> Result<Reply, Problem> {
        let (deletes, patches) = (objects(body, "deletes")?, objects(body, "patches")?);
        let (puts, posts) = (objects(body, "puts")?, objects(body, "posts")?);
        let counts = [deletes.len(), patches.len(), puts.len(), posts.len()];
        let (total, max) = (counts.iter().sum::<usize>(), zone.plan.batch_max());
        if total > max {
            let message =
                format!("The batch holds {total} changes, more than the {max} of this zone's plan.");
            return Err(Problem::validation(9310, &message));
        }
        let mut writes = Vec::with_capacity(total);
        for object in deletes {
            writes.push(Write::Delete(record_id(&object)?));
        }
        for object in patches {
            writes.push(Write::Patch(record_id(&object)?, object));
        }
        for object in puts {
            writes.push(Write::Put(record_id(&object)?, object));
        }
        writes.extend(posts.into_iter().map(Write::Post));
        let written = self.commit(zone, writes)?;
        let mut rendered = written.iter().map(|written| self.render_record(&written.record));
        let mut section = |count| rendered.by_ref().take(count).collect::<Vec<_>>();
        let [deletes, patches, puts, posts] = counts.map(&mut section);
        Ok(success(&json!({"deletes": deletes, "patches": patches, "puts": puts, "posts": posts})))
    }

    /// Makes all writes in order on a copy of the zone, and keeps the copy if none fails.
    fn commit(&mut self, mut zone: Zone, writes: Vec<Write>) -> Result<Vec<Written>, Problem> {
        let mut written = Vec::with_capacity(writes.len());
        for write in writes {
            written.push(self.write(&mut zone, write)?);
        }
        self.zones.change(self.now_ms, self.knobs.list_lag_ms).insert(zone.id.clone(), zone);
        for Written { verb, record, replaced } in &written {
            self.note(ChangeKind::Record {
                provider: Provider::Cloudflare,
                verb: *verb,
                id: record.id.clone(),
                fqdn: record.name.clone(),
                rtype: record.rtype.clone(),
                data: record.content.clone(),
                replaced: replaced.clone(),
            });
        }
        Ok(written)
    }

    fn write(&mut self, zone: &mut Zone, write: Write) -> Result<Written, Problem> {
        let known = |zone: &Zone, id: &str| zone.records.get(id).cloned().ok_or_else(Problem::no_record);
        let (verb, mut record) = match write {
            Write::Delete(id) => {
                let record = zone.records.remove(&id).ok_or_else(Problem::no_record)?;
                return Ok(Written { verb: RecordVerb::Deleted, record, replaced: None });
            }
            Write::Patch(id, body) => {
                let record = known(zone, &id)?;
                (RecordVerb::Updated, apply(record, &body, zone)?)
            }
            Write::Put(id, body) => {
                let old = known(zone, &id)?;
                let blank = CfRecord { order: old.order, created_ms: old.created_ms, ..blank(id) };
                (RecordVerb::Updated, apply(blank, &body, zone)?)
            }
            Write::Post(body) => {
                let mut record = apply(blank(String::new()), &body, zone)?;
                record.id = self.seed.hex32();
                record.order = self.fresh_id();
                record.created_ms = self.now_ms;
                (RecordVerb::Created, record)
            }
        };
        record.modified_ms = self.now_ms;
        check_neighbours(&record, zone)?;
        let replaced = zone.records.insert(record.id.clone(), record.clone()).map(|old| old.content);
        Ok(Written { verb, record, replaced })
    }

    /// Adds a record from outside the API, unchecked, and returns its ID.
    pub(super) fn add_cf_record(&mut self, zone: &str, mut record: CfRecord) -> String {
        record.id = self.seed.hex32();
        record.order = self.fresh_id();
        (record.created_ms, record.modified_ms) = (self.now_ms, self.now_ms);
        let id = record.id.clone();
        let zones = self.zones.change(self.now_ms, self.knobs.list_lag_ms);
        if let Some(zone) = zones.get_mut(zone) {
            zone.records.insert(id.clone(), record);
        }
        id
    }

    /// Deletes a record from outside the API. Returns false if there is none.
    pub(super) fn drop_cf_record(&mut self, zone: &str, id: &str) -> bool {
        let zones = self.zones.change(self.now_ms, self.knobs.list_lag_ms);
        zones.get_mut(zone).is_some_and(|zone| zone.records.remove(id).is_some())
    }

    fn render_record(&self, record: &CfRecord) -> Value {
        let mut value = json!({
            "id": record.id,
            "name": record.name,
            "type": record.rtype,
            "content": record.content,
            "proxiable": proxiable(&record.rtype),
            "proxied": record.proxied,
            "ttl": record.ttl,
            "settings": {},
            "meta": {},
            "comment": record.comment,
            "tags": record.tags,
            "created_on": self.timestamp(record.created_ms),
            "modified_on": self.timestamp(record.modified_ms),
        });
        if let (Some(priority), Some(object)) = (record.priority, value.as_object_mut()) {
            object.insert("priority".to_owned(), json!(priority));
        }
        value
    }
}

/// A record with no content yet.
pub(super) fn blank(id: String) -> CfRecord {
    CfRecord { id, ttl: TTL_AUTO, ..CfRecord::default() }
}

/// The filters of a list. A missing filter matches everything. Like the real API, ignores other parameters.
struct Filter {
    name: Option<String>,
    name_start: Option<String>,
    rtype: Option<String>,
    content: Option<String>,
    proxied: Option<String>,
}

impl Filter {
    fn read(request: &Request) -> Self {
        let exact = |name: &str| request.param(name).or_else(|| request.param(&format!("{name}.exact")));
        Self {
            name: exact("name").map(|name| name.to_ascii_lowercase()),
            name_start: request.param("name.startswith").map(|start| start.to_ascii_lowercase()),
            rtype: request.param("type"),
            content: exact("content"),
            proxied: request.param("proxied"),
        }
    }

    fn takes(&self, record: &CfRecord) -> bool {
        self.name.as_deref().is_none_or(|name| name == record.name)
            && self.name_start.as_deref().is_none_or(|start| record.name.starts_with(start))
            && self.rtype.as_deref().is_none_or(|rtype| rtype == record.rtype)
            && self.content.as_deref().is_none_or(|content| content == record.content)
            && self.proxied.as_deref().is_none_or(|proxied| proxied == record.proxied.to_string())
    }
}

/// A list of objects in the body of a batch. Null and absent count as empty.
fn objects(body: &Map<String, Value>, name: &str) -> Result<Vec<Map<String, Value>>, Problem> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let objects = items.iter().map(|item| item.as_object().cloned());
            objects.collect::<Option<_>>().ok_or_else(|| Problem::from(super::wire::MalformedBody))
        }
        Some(_) => Err(super::wire::MalformedBody.into()),
    }
}

fn record_id(object: &Map<String, Value>) -> Result<String, Problem> {
    let id = object.get("id").and_then(Value::as_str);
    id.map(str::to_owned).ok_or_else(|| Problem::validation(9000, "DNS record id is required."))
}

fn text(body: &Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match body.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(super::wire::MalformedBody.into()),
    }
}

/// Applies the fields of a request to a record and checks the result.
fn apply(mut record: CfRecord, body: &Map<String, Value>, zone: &Zone) -> Result<CfRecord, Problem> {
    if let Some(rtype) = text(body, "type")? {
        record.rtype = rtype;
    }
    if !TYPES.contains(&record.rtype.as_str()) {
        return Err(Problem::validation(9004, "DNS record type is invalid."));
    }
    if let Some(name) = text(body, "name")? {
        record.name = full_name(&name, &zone.name);
    }
    if record.name.is_empty() {
        return Err(Problem::validation(9000, "DNS name is invalid."));
    }
    if let Some(content) = text(body, "content")? {
        record.content = content;
    }
    check_content(&record)?;
    apply_flags(&mut record, body, zone.plan)?;
    Ok(record)
}

/// The part of [`apply`] for TTL, proxying, comment, tags and priority.
fn apply_flags(record: &mut CfRecord, body: &Map<String, Value>, plan: Plan) -> Result<(), Problem> {
    let malformed = || Problem::from(super::wire::MalformedBody);
    if let Some(proxied) = body.get("proxied") {
        record.proxied = proxied.as_bool().ok_or_else(malformed)?;
        if record.proxied && !proxiable(&record.rtype) {
            return Err(Problem::validation(9004, "This record type cannot be proxied."));
        }
    }
    if let Some(ttl) = body.get("ttl") {
        // Official clients sometimes write whole numbers as floats.
        record.ttl = ttl.as_u64().or_else(|| whole(ttl)).ok_or_else(malformed)?;
        if record.ttl != TTL_AUTO && !(plan.ttl_min()..=TTL_MAX).contains(&record.ttl) {
            let min = plan.ttl_min();
            let message = format!("TTL must be between {min} and {TTL_MAX} seconds, or 1 for Automatic.");
            return Err(Problem::validation(9021, &message));
        }
    }
    if record.proxied {
        record.ttl = TTL_AUTO;
    }
    match body.get("comment") {
        None => {}
        Some(Value::Null) => record.comment = None,
        Some(Value::String(comment)) if comment.chars().count() > COMMENT_MAX && plan == Plan::Free => {
            return Err(Problem::validation(9301, "The comment exceeds the maximum length of 100."));
        }
        Some(Value::String(comment)) => {
            record.comment = Some(comment.clone()).filter(|text| !text.is_empty());
        }
        Some(_) => return Err(malformed()),
    }
    if let Some(tags) = body.get("tags") {
        let tags = tags.as_array().ok_or_else(malformed)?.iter().map(|tag| tag.as_str().map(str::to_owned));
        record.tags = tags.collect::<Option<_>>().ok_or_else(malformed)?;
        let (count, max) = (record.tags.len(), plan.tags_max());
        if count > max {
            let message = format!("DNS record has {count} tags, exceeding the quota of {max}.");
            return Err(Problem::new(400, 9300, &message));
        }
    }
    if let Some(priority) = body.get("priority").filter(|_| record.rtype == "MX") {
        record.priority = Some(priority.as_u64().ok_or_else(malformed)?);
    }
    Ok(())
}

fn whole(value: &Value) -> Option<u64> {
    value.as_f64().filter(|number| number.fract() == 0.0)?.to_string().parse().ok()
}

fn proxiable(rtype: &str) -> bool {
    matches!(rtype, "A" | "AAAA" | "CNAME")
}

fn check_content(record: &CfRecord) -> Result<(), Problem> {
    match record.rtype.as_str() {
        "A" if record.content.parse::<Ipv4Addr>().is_err() => {
            Err(Problem::validation(9005, "Content for A record must be a valid IPv4 address."))
        }
        "AAAA" if record.content.parse::<Ipv6Addr>().is_err() => {
            Err(Problem::validation(9006, "Content for AAAA record must be a valid IPv6 address."))
        }
        _ if record.content.is_empty() => Err(Problem::validation(9002, "DNS record content is required.")),
        _ => Ok(()),
    }
}

/// Checks for conflicts with other records of the zone.
fn check_neighbours(record: &CfRecord, zone: &Zone) -> Result<(), Problem> {
    let others = zone.records.values();
    for other in others.filter(|other| other.id != record.id && other.name == record.name) {
        if record.rtype == "CNAME" && proxiable(&other.rtype) {
            let message = "An A, AAAA, or CNAME record with that host already exists.";
            return Err(Problem::new(400, 81053, message));
        }
        if other.rtype == "CNAME" && proxiable(&record.rtype) {
            return Err(Problem::new(400, 81054, "A CNAME record with that host already exists."));
        }
        if other.rtype == record.rtype && other.content == record.content {
            let same = other.ttl == record.ttl && other.proxied == record.proxied;
            let exists = Problem::new(400, 81057, "The record already exists.");
            return Err(if same { Problem::identical() } else { exists });
        }
    }
    Ok(())
}

/// The fully qualified name. A name that does not end in the zone is relative to it.
fn full_name(name: &str, zone: &str) -> String {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let inside = name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    match name.as_str() {
        "" => String::new(),
        "@" => zone.to_owned(),
        _ if inside => name,
        _ => format!("{name}.{zone}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_zone_are_taken_as_relative() {
        assert_eq!(full_name("www", "example.com"), "www.example.com");
        assert_eq!(full_name("WWW.example.com.", "example.com"), "www.example.com");
        assert_eq!(full_name("example.com", "example.com"), "example.com");
        assert_eq!(full_name("@", "example.com"), "example.com");
        assert_eq!(full_name("www.badexample.com", "example.com"), "www.badexample.com.example.com");
    }
}
