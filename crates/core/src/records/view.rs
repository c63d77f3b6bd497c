//! One object's record set, as the rest of the state shows it: its spec, and the addresses to publish.
//!
//! Also decides which object owns the records at a name: the oldest one that names it, of either kind, valid or not.

use super::diff::Target;
use super::site::Site;
use super::site::SiteKey;
use super::spec::SetSpec;
use super::status::{Remark, Told};
use crate::model::ids::{Address, Owner, Seniority};
use crate::model::pause::Reason;
use std::collections::{BTreeMap, BTreeSet};

/// The addresses that an object has to publish.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The addresses to publish.
    pub addresses: BTreeSet<Address>,
    /// Addresses about which too little is known. They stay published if they are published now.
    pub undecided: BTreeSet<Address>,
    /// Whether a node matches. A set without an address is then a fault, and not a wish.
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
    pub told: Told,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{ObjectKind, ObjectRef};
    use crate::model::ids::{ObjectName, Uid};

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
