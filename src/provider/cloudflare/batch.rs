//! Carries out a change set in as few requests as is safe.
//!
//! A batch succeeds or fails as a whole in the API. Its deletes run first, whatever their order in the request, and
//! name servers follow record by record. So a delete shares a batch with other changes only if an untouched record
//! keeps the name alive meanwhile.

use super::{Cloudflare, content, records, refusal, result, wire};
use crate::permit::Permit;
use crate::provider::call::CallError;
use crate::provider::dns::{self, Applied, Unfinished};
use crate::provider::http::{Request, bounded, filled};
use flipop_core::model::{Address, Fault, FaultKind};
use flipop_core::records::dns::{ADDRESS_KIND, Change, ChangeSet, Record, Zone};
use serde_json::{Value, json};
use std::ops::Range;

/// The name to change, and the client and permit to change it with.
#[derive(Clone, Copy)]
struct Target<'a> {
    client: &'a Cloudflare,
    permit: &'a Permit,
    zone: &'a Zone,
    fqdn: &'a str,
}

/// Why a batch has no result.
enum Failed {
    /// A record already exists, and nothing was changed.
    Exists(Fault),
    /// Anything else.
    Call(CallError),
}

impl<E: Into<CallError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Call(error.into())
    }
}

/// Carries out a change set.
pub(super) async fn carry_out(
    client: &Cloudflare,
    permit: &Permit,
    zone: &Zone,
    fqdn: &str,
    set: &ChangeSet,
) -> Result<Applied, Unfinished> {
    let named = client.zones.check(zone, fqdn);
    named.map_err(|fault| Unfinished { done: 0, cause: fault.into() })?;
    let target = Target { client, permit, zone, fqdn };
    let mut applied = Applied::default();
    for range in batches(set) {
        let Range { start: done, end } = range;
        if done > 0 && !client.api.may_go_on(permit) {
            break;
        }
        let changes: Vec<&Change> = set.changes.get(range).unwrap_or_default().iter().collect();
        let settled = target.settle(&changes).await.map_err(|cause| Unfinished { done, cause })?;
        applied.records.extend(settled.records);
        applied.done = done.saturating_add(settled.done);
        if applied.done < end {
            break;
        }
    }
    Ok(applied)
}

/// Splits the change set. Each piece is one batch.
fn batches(set: &ChangeSet) -> Vec<Range<usize>> {
    let is_delete = |change: &Change| matches!(change, Change::Delete { .. });
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut previous = None;
    for (index, change) in set.changes.iter().enumerate() {
        let turns = previous.is_some_and(|previous| previous != is_delete(change));
        previous = Some(is_delete(change));
        match batches.last_mut() {
            Some(last) if last.len() < super::BATCH && (set.survivor || !turns) => {
                last.end = index.saturating_add(1);
            }
            _ => batches.push(index..index.saturating_add(1)),
        }
    }
    batches
}

impl Target<'_> {
    /// Carries out these changes as far as it may continue. A record that already existed with the wrong TTL is missing
    /// from the result, so that the next read corrects its TTL.
    async fn settle(self, changes: &[&Change]) -> Result<Applied, CallError> {
        let fault = match self.send(changes).await {
            Ok(left) => {
                return Ok(Applied { done: changes.len(), records: left.into_iter().flatten().collect() });
            }
            Err(Failed::Call(error)) => return self.without_new_records(changes, error).await,
            Err(Failed::Exists(fault)) => fault,
        };
        // Another writer was faster, or an earlier batch of ours did arrive. A change that is already true is done. The
        // others failed because of it, and are sent once more.
        if !self.client.api.may_go_on(self.permit) {
            return Ok(Applied::default());
        }
        let seen = records::read(&self.client.api, self.zone, self.fqdn).await?;
        let standing: Vec<Standing> = changes.iter().map(|change| Standing::of(change, &seen)).collect();
        let pairs = changes.iter().zip(&standing);
        let rest: Vec<&Change> = pairs
            .filter(|(_, standing)| matches!(standing, Standing::Open))
            .map(|(change, _)| *change)
            .collect();
        let (done, sent) = if rest.is_empty() {
            (changes.len(), Vec::new())
        } else if rest.len() == changes.len() {
            return Err(self.in_the_way(changes, &seen, &fault).await?.into());
        } else if !self.client.api.may_go_on(self.permit) {
            (standing.iter().take_while(|standing| !matches!(standing, Standing::Open)).count(), Vec::new())
        } else {
            match self.send(&rest).await {
                Ok(records) => (changes.len(), records),
                Err(Failed::Exists(fault)) => return Err(not_shown(&fault).into()),
                Err(Failed::Call(error)) => return Err(error),
            }
        };
        let mut sent = sent.into_iter();
        let pairs = changes.iter().zip(standing).take(done);
        let left = pairs.filter_map(|(change, standing)| match standing {
            Standing::Open => sent.next().flatten(),
            Standing::Gone => None,
            Standing::Left(record) => {
                let has_ttl = written(change).is_some_and(|(_, ttl)| ttl == record.ttl);
                Some(record).filter(|record| record.proxied || has_ttl)
            }
        });
        Ok(Applied { done, records: left.collect() })
    }

    /// A batch succeeds or fails as a whole. If the zone has no room for a new record, the updates are sent alone, so
    /// that they need not wait for room.
    async fn without_new_records(self, changes: &[&Change], error: CallError) -> Result<Applied, CallError> {
        let full = matches!(&error, CallError::Fault(fault) if fault.kind == FaultKind::Quota);
        let update = |change: &&&Change| matches!(change, Change::Update { .. });
        let updates: Vec<&Change> = changes.iter().take_while(update).copied().collect();
        let some = !updates.is_empty() && updates.len() < changes.len();
        if !full || !some || !self.client.api.may_go_on(self.permit) {
            return Err(error);
        }
        match self.send(&updates).await {
            Ok(left) => Ok(Applied { done: updates.len(), records: left.into_iter().flatten().collect() }),
            Err(Failed::Exists(_)) => Err(error),
            Err(Failed::Call(error)) => Err(error),
        }
    }

    /// The fault to report if no change was made. If the zone's name is unknown, the obstacle may be a record whose
    /// name is `fqdn` completed with the zone's name. Such a record reveals the zone's name.
    async fn in_the_way(self, changes: &[&Change], seen: &[Record], fault: &Fault) -> Result<Fault, Fault> {
        if self.zone.name.is_none() && seen.is_empty() {
            let Self { client, zone, fqdn, .. } = self;
            let addresses = changes.iter().filter_map(|change| Some(written(change)?.0));
            let addresses: Vec<Address> = addresses.collect();
            let name = records::completed_with(&client.api, zone, fqdn, &addresses).await?;
            if let Some(name) = name
                && let Err(outside) = dns::relative(fqdn, &name)
            {
                client.zones.learn(&zone.id, &name);
                return Ok(outside);
            }
        }
        Ok(not_shown(fault))
    }

    /// Sends one batch.
    async fn send(self, changes: &[&Change]) -> Result<Vec<Option<Record>>, Failed> {
        let path = ["zones", self.zone.id.as_str(), "dns_records", "batch"];
        let body = body(changes, self.fqdn);
        let answer = self.client.api.write(self.permit, Request::post(&path, &body)).await?;
        if refusal::says_exists(&answer) {
            return Err(Failed::Exists(refusal::fault(&answer)));
        }
        let written: wire::BatchResult = content(&answer)?;
        let posts = written.posts.unwrap_or_default();
        if posts.iter().any(|post| !post.is_of(self.fqdn)) {
            return Err(self.take_back(&posts).await.into());
        }
        let patches = written.patches.unwrap_or_default();
        let entries = patches.into_iter().chain(posts).map(wire::RecordEntry::into_record);
        let entries: Vec<Record> = entries.collect();
        let left = changes.iter().map(|change| match (change, Standing::of(change, &entries)) {
            (Change::Delete { .. }, _) => Ok(None),
            (_, Standing::Left(record)) => Ok(Some(record)),
            (_, Standing::Open | Standing::Gone) => {
                Err(answer.malformed("it does not show all the records that were written"))
            }
        });
        Ok(left.collect::<Result<Vec<_>, Fault>>()?)
    }

    /// The token may not read the zone, and the zone's name is not the assumed one: the API took the record's full name
    /// for a name inside the zone. Deletes the new records and remembers the zone's name.
    async fn take_back(self, posts: &[wire::RecordEntry]) -> CallError {
        let made = posts.iter().map(|post| post.name.as_str()).next().unwrap_or_default();
        if let Some(zone) = made.strip_prefix(self.fqdn).and_then(|rest| rest.strip_prefix('.')) {
            self.client.zones.learn(&self.zone.id, zone);
        }
        let deletes: Vec<Value> = posts.iter().map(|post| json!({ "id": post.id })).collect();
        let path = ["zones", self.zone.id.as_str(), "dns_records", "batch"];
        let request = Request::post(&path, &json!({ "deletes": deletes }));
        let outcome = match self.client.api.write(self.permit, request).await {
            Ok(answer) => result::<Value>(&answer).map(drop).map_err(CallError::from),
            Err(error) => Err(error),
        };
        let fqdn = self.fqdn;
        let text = format!(
            "dnsRecordSet.recordName {fqdn} is outside of the zone: the provider created {made} instead"
        );
        let rest = match outcome {
            Ok(()) => "which FLIPOP deleted; change recordName or zone".to_owned(),
            Err(error) => format!("which you have to delete by hand ({error})"),
        };
        Fault::new(FaultKind::Invalid, bounded(&format!("{text}, {rest}"))).into()
    }
}

/// The body of a batch, without empty lists.
fn body(changes: &[&Change], fqdn: &str) -> Value {
    let (mut deletes, mut patches, mut posts) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change::Delete { id } => deletes.push(json!({ "id": id })),
            Change::Update { id, ip, ttl } => {
                patches.push(json!({ "id": id, "content": ip.to_string(), "ttl": ttl }));
            }
            Change::Create { ip, ttl } => posts.push(json!({
                "type": ADDRESS_KIND, "name": fqdn, "content": ip.to_string(), "ttl": ttl, "proxied": false,
            })),
        }
    }
    filled(json!({ "deletes": deletes, "patches": patches, "posts": posts })).into()
}

/// The address and the TTL that a change writes.
fn written(change: &Change) -> Option<(Address, u32)> {
    match change {
        Change::Update { ip, ttl, .. } | Change::Create { ip, ttl } => Some((*ip, *ttl)),
        Change::Delete { .. } => None,
    }
}

/// The state of a change, judged by some records.
enum Standing {
    /// Not made.
    Open,
    /// Made. It leaves no record.
    Gone,
    /// Made. It left this record.
    Left(Record),
}

impl Standing {
    /// Ignores the TTL, because the provider may set its own (1 for proxied records).
    fn of(change: &Change, records: &[Record]) -> Self {
        let mut records = records.iter();
        let left = match change {
            Change::Delete { id } => {
                return if records.any(|record| record.id == *id) { Self::Open } else { Self::Gone };
            }
            Change::Update { id, ip, .. } => {
                records.find(|record| record.id == *id && record.address() == Some(*ip))
            }
            Change::Create { ip, .. } => records.find(|record| record.address() == Some(*ip)),
        };
        left.map_or(Self::Open, |record| Self::Left(record.clone()))
    }
}

/// A record is in the way that the read did not show, or showed differently. Another read will tell.
fn not_shown(fault: &Fault) -> Fault {
    Fault { kind: FaultKind::InProgress, ..fault.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(updates: usize, creates: usize, deletes: usize, survivor: bool) -> ChangeSet {
        let ip = Address::from([192, 0, 2, 1]);
        let id = || "id".to_owned();
        let changes = std::iter::repeat_with(|| Change::Update { id: id(), ip, ttl: 60 })
            .take(updates)
            .chain(std::iter::repeat_with(|| Change::Create { ip, ttl: 60 }).take(creates))
            .chain(std::iter::repeat_with(|| Change::Delete { id: id() }).take(deletes))
            .collect();
        ChangeSet { changes, survivor }
    }

    #[test]
    fn deletes_go_with_the_rest_only_where_a_record_survives() {
        let table = [
            (set(0, 0, 0, false), vec![]),
            (set(2, 1, 0, false), vec![(0, 3)]),
            (set(0, 0, 3, false), vec![(0, 3)]),
            (set(1, 1, 2, false), vec![(0, 2), (2, 4)]),
            (set(1, 1, 2, true), vec![(0, 4)]),
            (set(0, 200, 0, false), vec![(0, 200)]),
            (set(0, 201, 0, false), vec![(0, 200), (200, 201)]),
            (set(100, 100, 1, false), vec![(0, 200), (200, 201)]),
            (set(150, 0, 150, true), vec![(0, 200), (200, 300)]),
            (set(150, 0, 250, false), vec![(0, 150), (150, 350), (350, 400)]),
        ];
        for (set, expected) in table {
            let found: Vec<_> = batches(&set).into_iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected, "{} changes", set.changes.len());
        }
    }

    #[test]
    fn of_an_existing_record_only_content_and_ttl_are_written() {
        let (update, create) = (set(1, 0, 0, false), set(0, 1, 0, false));
        let changes: Vec<&Change> = update.changes.iter().chain(&create.changes).collect();
        let expected = json!({
            "patches": [{"id": "id", "content": "192.0.2.1", "ttl": 60}],
            "posts": [{"type": "A", "name": "www.example.com", "content": "192.0.2.1", "ttl": 60, "proxied": false}],
        });
        assert_eq!(body(&changes, "www.example.com"), expected);
    }
}
