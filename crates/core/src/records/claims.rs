//! Decides which object owns the records at a name: the oldest one that names it, of either kind, valid or not.

use super::site::SiteKey;
use crate::model::ids::Owner;
use std::collections::BTreeMap;

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
        let object = ObjectRef { uid: Uid(format!("{name}-{kind:?}")), name: ObjectName::new("ns", name) };
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
