//! DNS over `/v2/domains`: the records of one name, read in one filtered list and changed one by one.
//!
//! A zone's id is its name. Records have names relative to it, but the filter of the list needs the full name. There is
//! no batch. The API accepts two equal records, so after an unknown outcome only a read can tell.

use super::refusal::Intent;
use super::{DigitalOcean, PER_PAGE, accepted_or, is_followed, wire};
use crate::permit::Permit;
use crate::provider::call::{CallContext, CallError, Reading};
use crate::provider::dns::{self, Applied, DnsProvider, Named, Unfinished};
use crate::provider::http::{Answer, Api, Request};
use crate::provider::observe::Call;
use crate::provider::paging::{self, Page, Pages};
use flipop_core::model::{Address, Fault, FaultKind};
use flipop_core::records::dns::{ADDRESS_KIND, Change, ChangeSet, Record, Zone};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

/// `GET /v2/domains/{zone}/records`.
#[derive(Debug, Deserialize)]
struct RecordsBody {
    domain_records: Vec<RecordEntry>,
    #[serde(flatten)]
    paging: wire::Paging,
}

/// The answer to `POST` and `PUT`.
#[derive(Debug, Deserialize)]
struct RecordBody {
    domain_record: RecordEntry,
}

/// A record. Other types than ours may lack fields.
#[derive(Debug, Deserialize)]
struct RecordEntry {
    id: u64,
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    data: Option<String>,
    ttl: Option<u32>,
}

impl RecordEntry {
    fn is_of(&self, relative: &str) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        name.eq_ignore_ascii_case(relative) || (name.is_empty() && relative == "@")
    }

    fn into_record(self) -> Record {
        Record {
            id: self.id.to_string(),
            kind: self.kind.to_ascii_uppercase(),
            data: self.data.unwrap_or_default(),
            ttl: self.ttl.unwrap_or_default(),
            proxied: false,
        }
    }
}

/// One name in one zone.
#[derive(Clone, Copy)]
struct Target<'a> {
    zone: &'a str,
    fqdn: &'a str,
    relative: &'a str,
}

impl<'a> Target<'a> {
    fn new(zone: &'a Zone, fqdn: &'a str) -> Result<Self, Fault> {
        Ok(Self { zone: &zone.id, fqdn, relative: dns::relative(fqdn, &zone.id)? })
    }

    /// Checks an answer to a read of the list.
    fn listed<'b>(&self, answer: &'b Answer) -> Result<&'b Answer, Fault> {
        accepted_or(answer, Intent::Read, |kind, message| {
            if kind != FaultKind::NotFound {
                return self.advice(kind, message);
            }
            let remedy = format!("create {} at the provider, correct dnsRecordSet.zone", self.zone);
            format!("the token sees no such zone: {remedy}, or give the token the scope domain:read")
        })
    }

    /// Checks an answer to a change.
    fn changed<'b>(&self, answer: &'b Answer) -> Result<&'b Answer, Fault> {
        accepted_or(answer, Intent::Read, |kind, message| self.advice(kind, message))
    }

    /// The remedy for a refusal.
    fn advice(&self, kind: FaultKind, message: &str) -> String {
        let fqdn = self.fqdn;
        let message = message.to_ascii_lowercase();
        match kind {
            FaultKind::NotFound => "the record, or its zone, is gone".to_owned(),
            FaultKind::Unauthorized => {
                "the token may not do this: DNS needs the scopes domain:read, domain:create, domain:update and \
                 domain:delete"
                    .to_owned()
            }
            FaultKind::Invalid if message.contains("cname") => {
                format!("{fqdn} has a CNAME: remove it, or change dnsRecordSet.recordName")
            }
            FaultKind::Invalid if message.contains("ttl") => {
                "dnsRecordSet.ttl is not accepted: change it".to_owned()
            }
            FaultKind::Invalid => {
                format!("the record {fqdn} is not accepted: check dnsRecordSet.recordName and ttl")
            }
            FaultKind::InProgress
            | FaultKind::Transient
            | FaultKind::Throttled
            | FaultKind::NodeInUse
            | FaultKind::Quota
            | FaultKind::Permanent => String::new(),
        }
    }
}

impl Pages for Target<'_> {
    type Entry = Named;
    type Key = String;

    const WHAT: &'static str = "DNS records";

    // The API's documentation does not say whether the total counts the records of the name or those of the zone.
    const TOTAL_IS_OF_LIST: bool = false;

    // Room for 4,000 records of one name. No resolver accepts a tenth of that.
    const MAX_PAGES: u64 = 20;

    async fn page(&self, api: &Api, number: u64) -> Result<Page<String, Named>, Fault> {
        let page = number.to_string();
        let query = [("name", self.fqdn), ("per_page", PER_PAGE), ("page", page.as_str())];
        let answer = api.read(Request::get(&["v2", "domains", self.zone, "records"], &query)).await?;
        let RecordsBody { domain_records, paging } = self.listed(&answer)?.decode()?;
        let more = is_followed(&answer, paging.next(), number)?;
        let named = |entry: RecordEntry| {
            (entry.id.to_string(), Named { of_name: entry.is_of(self.relative), record: entry.into_record() })
        };
        let entries = domain_records.into_iter().map(named).collect();
        Ok(Page { entries, total: paging.total(), more, answer })
    }
}

impl DigitalOcean {
    async fn records_of(&self, zone: &Zone, fqdn: &str) -> Result<Vec<Record>, Fault> {
        let target = Target::new(zone, fqdn)?;
        let entries = paging::whole(&self.api, &target).await?;
        dns::of_name(entries.into_values(), fqdn)
    }

    async fn carry_out(
        &self,
        permit: &Permit,
        zone: &Zone,
        fqdn: &str,
        set: &ChangeSet,
    ) -> Result<Applied, Unfinished> {
        let mut applied = Applied::default();
        let target = Target::new(zone, fqdn).map_err(|fault| Unfinished { done: 0, cause: fault.into() })?;
        for (done, change) in set.changes.iter().enumerate() {
            if done > 0 && !self.api.may_go_on(permit) {
                break;
            }
            match self.change(permit, target, change).await {
                Ok(record) => applied.records.extend(record),
                Err(cause) => return Err(Unfinished { done, cause }),
            }
            applied.done = done.saturating_add(1);
        }
        Ok(applied)
    }

    /// Makes one change. Returns the record that it leaves, if it leaves one.
    async fn change(
        &self,
        permit: &Permit,
        target: Target<'_>,
        change: &Change,
    ) -> Result<Option<Record>, CallError> {
        let Target { zone, relative, .. } = target;
        let body = |ip: &Address, ttl: &u32| json!({ "type": ADDRESS_KIND, "name": relative, "data": ip.to_string(), "ttl": ttl });
        match change {
            Change::Update { id, ip, ttl } => {
                let path = ["v2", "domains", zone, "records", id];
                let answer = self.api.write(permit, Request::put(&path, &body(ip, ttl))).await?;
                Ok(Some(written(target.changed(&answer)?, *ip)?))
            }
            Change::Create { ip, ttl } => {
                let path = ["v2", "domains", zone, "records"];
                let answer = self.api.write(permit, Request::post(&path, &body(ip, ttl))).await?;
                Ok(Some(written(target.changed(&answer)?, *ip)?))
            }
            Change::Delete { id } => {
                let path = ["v2", "domains", zone, "records", id];
                let answer = self.api.write(permit, Request::delete(&path)).await?;
                // A record that is already gone need not be deleted.
                if answer.status() != StatusCode::NOT_FOUND {
                    target.changed(&answer)?;
                }
                Ok(None)
            }
        }
    }
}

/// The record in the answer to a write.
fn written(answer: &Answer, ip: Address) -> Result<Record, Fault> {
    let RecordBody { domain_record } = answer.decode()?;
    let record = domain_record.into_record();
    if record.address() == Some(ip) {
        Ok(record)
    } else {
        Err(answer.malformed(&format!("it shows {} {}, not A {ip}", record.kind, record.data)))
    }
}

impl DnsProvider for DigitalOcean {
    fn find_zone<'a>(&'a self, _context: &'a CallContext, zone: &'a str) -> Reading<'a, Zone> {
        let found = dns::zone_name(zone).map(|name| Zone {
            id: name.clone(),
            name: Some(name),
            shown: None,
            ttl_floor: super::TTL_FLOOR,
        });
        std::future::ready(found).boxed()
    }

    fn read_records<'a>(
        &'a self,
        context: &'a CallContext,
        zone: &'a Zone,
        fqdn: &'a str,
    ) -> Reading<'a, Vec<Record>> {
        self.api.operation(Call::ListRecords, context, self.records_of(zone, fqdn)).boxed()
    }

    fn apply<'a>(
        &'a self,
        _context: &'a CallContext,
        permit: &'a Permit,
        zone: &'a Zone,
        fqdn: &'a str,
        set: &'a ChangeSet,
    ) -> BoxFuture<'a, Result<Applied, Unfinished>> {
        self.carry_out(permit, zone, fqdn, set).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_the_name_it_has_in_its_zone() {
        let entry = |name: &str| -> RecordEntry {
            serde_json::from_value(json!({ "id": 1, "type": "A", "name": name, "data": null })).unwrap()
        };
        assert!(entry("WWW").is_of("www"));
        assert!(entry("@").is_of("@") && entry("").is_of("@"));
        // A name that an older operator made of a full name: `www.example.com.example.com`.
        assert!(!entry("www.example.com").is_of("www"));
        assert!(!entry("www").is_of("@"));
    }
}
