//! One object's record set, as the rest of the state shows it: its spec, and the addresses to publish.
//!
//! Also finds where the records are, from the spec and from what is known of the zone, and decides which object owns
//! the records at a name: the oldest one that names it, of either kind, valid or not.

use super::account::DnsAccount;
use super::diff::Target;
use super::dns::Zone;
use super::name::{NameError, ZoneRef, check_shown, qualify};
use super::site::{Site, SiteKey};
use super::spec::{Destination, SetSpec};
use super::status::{Remark, Reported};
use crate::model::pause::Reason;
use crate::model::{Address, Owner, Seniority};
use std::collections::{BTreeMap, BTreeSet};

/// The addresses that an object has to publish.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The addresses to publish.
    pub addresses: BTreeSet<Address>,
    /// Addresses about which too little is known. They stay published if they are published now.
    pub undecided: BTreeSet<Address>,
    /// Whether a node matches. A set without an address is then a fault, and not intended.
    pub any_node: bool,
    /// Addresses that are about to be deleted in the account. No record may keep one, not even the last record.
    pub withdrawn: BTreeSet<Address>,
}

impl Choice {
    /// Stops publishing these addresses, which are about to be deleted in the account.
    pub fn withdraw(&mut self, gone: &BTreeSet<Address>) {
        self.addresses.retain(|ip| !gone.contains(ip));
        self.undecided.retain(|ip| !gone.contains(ip));
        self.withdrawn.clone_from(gone);
    }

    /// The target for a name that keeps its records.
    pub fn keep_at(&self, site: &Site) -> Target {
        let stand = site.addresses().unwrap_or_default();
        if stand.is_disjoint(&self.withdrawn) {
            Target::Keep
        } else {
            Target::Without(self.withdrawn.clone())
        }
    }
}

/// One object's record set as the rest of the state shows it at this moment.
#[derive(Debug)]
pub struct View {
    /// The object.
    pub owner: Owner,
    /// Decides who is older.
    pub created_at_s: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// The record set as the spec wants it.
    pub spec: SetSpec,
    /// Why the object is paused, if it is. Its records then stay as they are, and only the addresses in `finishing`
    /// join them.
    pub paused: Option<Reason>,
    /// Addresses that a paused object still publishes, because the operation that moved them was sent before the
    /// pause.
    pub finishing: BTreeSet<Address>,
    /// The mistakes in the spec that stop this set.
    pub problems: Vec<String>,
    /// The addresses to publish. `None` while too little is known.
    pub choice: Option<Choice>,
    /// The status on the server.
    pub reported: Reported,
    /// Further conditions.
    pub remarks: Vec<Remark>,
    /// Why no node matches. Empty while one does.
    pub no_match: String,
}

impl View {
    /// Decides which of two objects is the older.
    pub const fn seniority(&self) -> Seniority<'_> {
        self.owner.seniority(self.created_at_s)
    }
}

/// An object that names records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The records.
    pub site: SiteKey,
    /// `metadata.creationTimestamp` of the object, in seconds since the Unix epoch.
    pub created_at_s: i64,
    /// The object.
    pub owner: Owner,
}

/// The owner of each name.
pub fn owners(claims: impl IntoIterator<Item = Claim>) -> BTreeMap<SiteKey, Owner> {
    let mut sorted: Vec<Claim> = claims.into_iter().collect();
    sorted.sort_by(|a, b| a.owner.seniority(a.created_at_s).cmp(&b.owner.seniority(b.created_at_s)));
    let mut owners = BTreeMap::new();
    for claim in sorted {
        owners.entry(claim.site).or_insert(claim.owner);
    }
    owners
}

/// The place of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// The spec names no place.
    Nowhere,
    /// The zone is being looked up. Holds the name, as far as it is known.
    Pending(String),
    /// The name does not fit the zone.
    Bad(String),
    /// The place is known.
    At(SiteKey, Zone),
}

impl Located {
    /// Finds the place of a spec.
    pub fn of(place: Option<&Destination>, account: Option<&DnsAccount>) -> Self {
        let Some(Destination { account_id, zone, record_name }) = place else { return Self::Nowhere };
        let known = account.and_then(|account| account.zone(zone));
        let known = known.or_else(|| match zone {
            // Without a token nothing can be looked up or written, but the name can be shown.
            ZoneRef::Name(name) if account.is_none() => {
                Some(Zone { id: name.clone(), name: Some(name.clone()), shown: None, ttl_floor: 0 })
            }
            ZoneRef::Name(_) | ZoneRef::Id(_) => None,
        });
        let name = match (&known, zone) {
            (Some(zone), _) => qualify(record_name, zone.name.as_deref())
                .and_then(|fqdn| check_shown(fqdn, zone.shown.as_deref())),
            (None, ZoneRef::Name(name)) => qualify(record_name, Some(name)),
            (None, ZoneRef::Id(_)) => return Self::Pending(record_name.clone()),
        };
        match (name, known) {
            (Ok(fqdn), Some(zone)) => {
                let key = SiteKey { account_id: account_id.clone(), zone: zone.id.clone(), fqdn };
                Self::At(key, zone)
            }
            (Ok(fqdn), None) => Self::Pending(fqdn),
            (Err(error), _) => Self::Bad(name_problem(&error)),
        }
    }

    /// The name of the records, as far as it is known.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Nowhere | Self::Bad(_) => "",
            Self::Pending(name) => name,
            Self::At(key, _) => &key.fqdn,
        }
    }
}

fn name_problem(error: &NameError) -> String {
    format!("spec.dnsRecordSet.recordName: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ObjectKind, ObjectName, ObjectRef, Uid};

    fn claim(fqdn: &str, created_at_s: i64, kind: ObjectKind, name: &str) -> Claim {
        let site = SiteKey { account_id: "p".into(), zone: "z".into(), fqdn: fqdn.into() };
        let object =
            ObjectRef { uid: Uid(format!("{name}-{kind:?}").into()), name: ObjectName::new("ns", name) };
        Claim { site, created_at_s, owner: Owner { kind, object } }
    }

    #[test]
    fn the_oldest_owns_a_name_whatever_its_kind_and_the_order_does_not_matter() {
        use ObjectKind::{Pool, RecordSet};
        let mut claims = vec![
            claim("a", 2, Pool, "young"),
            claim("a", 1, RecordSet, "old"),
            claim("b", 1, Pool, "y"),
            claim("b", 1, RecordSet, "x"),
            claim("c", 1, RecordSet, "same"),
            claim("c", 1, Pool, "same"),
            claim("d", 9, Pool, "alone"),
        ];
        let found = owners(claims.clone());
        let names: Vec<_> =
            found.values().map(|owner| (owner.kind, owner.object.name.name.as_str())).collect();
        assert_eq!(names, [(RecordSet, "old"), (RecordSet, "x"), (Pool, "same"), (Pool, "alone")]);
        claims.reverse();
        assert_eq!(owners(claims), found);
    }
}
