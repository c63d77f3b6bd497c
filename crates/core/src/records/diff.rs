//! The changes from the records that a name has to those that it should have.
//!
//! Invariants: only address records are changed. A name that has an address, and should have one, always keeps one,
//! even if the changes stop anywhere in their order. The order of records and addresses does not matter.

use crate::model::Address;
use crate::records::dns::{ADDRESS_KIND, Change, ChangeSet, Record};
use std::collections::BTreeSet;
use std::iter;

/// TTL of new records unless a spec says otherwise. It is short, because clients must notice a failover.
pub const DEFAULT_TTL: u32 = 60;

/// The rule for the TTL of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TtlRule {
    /// Every record gets this one.
    Every(u32),
    /// Existing records keep their own, and new ones get this one.
    New(u32),
}

impl Default for TtlRule {
    fn default() -> Self {
        Self::New(DEFAULT_TTL)
    }
}

/// The addresses that a record set should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Exactly these. Never empty.
    Exact(BTreeSet<Address>),
    /// None. The set is deleted.
    Empty,
    /// All that it has.
    Keep,
    /// All that it has except these, which somebody else may own soon. Never empty.
    Without(BTreeSet<Address>),
}

/// The wanted state of a record set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its addresses.
    pub target: Target,
    /// Addresses about which too little is known. They stay where they are, and are not added.
    pub undecided: BTreeSet<Address>,
    /// Its TTL.
    pub ttl: TtlRule,
}

impl TtlRule {
    fn is_met_by(self, record: &Record) -> bool {
        match self {
            // The provider chooses the TTL of a proxied record, whatever was written.
            Self::Every(ttl) => record.proxied || record.ttl == ttl,
            Self::New(_) => true,
        }
    }

    fn of(self, record: &Record) -> u32 {
        match self {
            Self::Every(_) if record.proxied => record.ttl,
            Self::Every(ttl) => ttl,
            Self::New(_) => record.ttl,
        }
    }

    fn of_new(self) -> u32 {
        match self {
            Self::Every(ttl) | Self::New(ttl) => ttl,
        }
    }
}

/// The changes from the address records of a name to the wanted ones: updates, then creates, then deletes. None while
/// the name has an alias.
pub fn diff(records: &[Record], wanted: &Wanted) -> ChangeSet {
    if alias(records).is_some() {
        return ChangeSet::default();
    }
    let ours = records.iter().filter(|record| record.kind == ADDRESS_KIND);
    let (mut held, mut surplus) = (Vec::new(), Vec::new());
    for record in ours.clone() {
        match record.address() {
            Some(ip) => held.push((ip, !wanted.ttl.is_met_by(record), record)),
            None => surplus.push(record),
        }
    }
    let addresses: BTreeSet<Address> = match &wanted.target {
        Target::Keep => return ChangeSet::default(),
        Target::Empty => BTreeSet::new(),
        Target::Without(gone) => {
            let (mut go, stay): (Vec<&Record>, Vec<&Record>) =
                ours.partition(|record| record.address().is_some_and(|ip| gone.contains(&ip)));
            go.sort_by(|a, b| a.id.cmp(&b.id));
            return ChangeSet { changes: deletions(go), survivor: !stay.is_empty() };
        }
        Target::Exact(addresses) => {
            let kept = held.iter().map(|(ip, ..)| *ip).filter(|ip| wanted.undecided.contains(ip));
            addresses.iter().copied().chain(kept).collect()
        }
    };
    // If several records have one address, one that needs no change stays.
    held.sort_by(|(a, a_unmet, a_record), (b, b_unmet, b_record)| {
        (a, a_unmet, &a_record.id).cmp(&(b, b_unmet, &b_record.id))
    });
    let update =
        |record: &Record, ip| Change::Update { id: record.id.clone(), ip, ttl: wanted.ttl.of(record) };
    let (mut changes, mut missing, mut survivor) = (Vec::new(), Vec::new(), false);
    let mut held = held.into_iter().peekable();
    for ip in addresses {
        surplus.extend(iter::from_fn(|| held.next_if(|(at, ..)| *at < ip)).map(|(.., record)| record));
        match held.next_if(|(at, ..)| *at == ip) {
            None => missing.push(ip),
            Some((_, true, record)) => changes.push(update(record, ip)),
            Some((_, false, _)) => survivor = true,
        }
    }
    surplus.extend(held.map(|(.., record)| record));
    // A surplus record takes a missing address before any record is created or deleted.
    surplus.sort_by(|a, b| a.id.cmp(&b.id));
    let reused = surplus.len().min(missing.len());
    changes.extend(surplus.iter().zip(&missing).map(|(record, ip)| update(record, *ip)));
    let create = |ip: &Address| Change::Create { ip: *ip, ttl: wanted.ttl.of_new() };
    changes.extend(missing.iter().skip(reused).map(create));
    changes.extend(deletions(surplus.split_off(reused)));
    ChangeSet { changes, survivor }
}

fn deletions(records: Vec<&Record>) -> Vec<Change> {
    records.into_iter().map(|record| Change::Delete { id: record.id.clone() }).collect()
}

/// The records that changes leave as they are.
fn untouched<'a>(records: &'a [Record], changes: &'a [Change]) -> impl Iterator<Item = &'a Record> {
    let touched: BTreeSet<&String> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Update { id, .. } | Change::Delete { id } => Some(id),
            Change::Create { .. } => None,
        })
        .collect();
    records.iter().filter(move |record| !touched.contains(&record.id))
}

/// Whether changes only delete, and no record that stays is a certain one.
pub fn only_keeps_others(records: &[Record], set: &ChangeSet, certain: &BTreeSet<String>) -> bool {
    let only_deletes =
        !set.is_empty() && set.changes.iter().all(|change| matches!(change, Change::Delete { .. }));
    let mut stay = untouched(records, &set.changes).filter(|record| record.address().is_some());
    only_deletes && set.survivor && !stay.any(|record| certain.contains(&record.id))
}

/// Puts a write of an unchanged record before the changes. If that record no longer exists, the write fails and
/// nothing is deleted.
pub fn with_proof(records: &[Record], mut set: ChangeSet) -> ChangeSet {
    let as_it_is = |record: &Record| {
        let ip = record.address()?;
        Some(Change::Update { id: record.id.clone(), ip, ttl: record.ttl })
    };
    let proof = untouched(records, &set.changes).find_map(as_it_is);
    if let Some(proof) = proof {
        set.changes.insert(0, proof);
        // No other record that stays is certain.
        set.survivor = false;
    }
    set
}

/// The alias at a name. A name with an alias cannot have address records.
pub fn alias(records: &[Record]) -> Option<&Record> {
    records.iter().find(|record| record.kind == "CNAME")
}

/// Whether external-dns has marked a name as its own. It will continue to write there.
pub fn is_marked_by_external_dns(records: &[Record]) -> bool {
    records.iter().any(|record| record.kind == "TXT" && record.data.contains("heritage=external-dns"))
}

/// The addresses that records hold.
pub fn addresses(records: &[Record]) -> BTreeSet<Address> {
    records.iter().filter_map(Record::address).collect()
}

/// The records at a name after changes to `before` were answered with `answered`.
pub fn after(before: &[Record], changes: &[Change], answered: Vec<Record>) -> Vec<Record> {
    let touched: BTreeSet<&str> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Update { id, .. } | Change::Delete { id } => Some(id.as_str()),
            Change::Create { .. } => None,
        })
        .collect();
    let untouched = before.iter().filter(|record| !touched.contains(record.id.as_str())).cloned();
    untouched.chain(answered).collect()
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
