//! The labels that a node may carry while it has an address: their keys, and their present values.

use crate::model::ids::Address;
use std::collections::BTreeMap;

/// A label that FLIPOP writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelKey {
    /// An address is on the node: always "true".
    Active,
    /// The address.
    Ip,
    /// The address, by the name of an older tool.
    LegacyIp,
    /// Whether an address is on the node, by the name of an older tool.
    LegacyEnabled,
}

impl LabelKey {
    /// Every key.
    pub const ALL: [Self; 4] = [Self::Active, Self::Ip, Self::LegacyIp, Self::LegacyEnabled];

    /// The key as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "flipop.digitalocean.com/reserved-ip-active",
            Self::Ip => "flipop.digitalocean.com/reserved-ip",
            Self::LegacyIp => "do-outbound-floating-ip",
            Self::LegacyEnabled => "do-outbound-floating-ip-enabled",
        }
    }
}

/// Labels to write, by key.
pub type Labels = BTreeMap<LabelKey, String>;

/// The changes of a write: the value to set, or `None` to remove the label.
pub type LabelChanges = BTreeMap<LabelKey, Option<String>>;

/// A label found on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLabel {
    /// Its value, verbatim.
    pub value: String,
    /// It was last written by field manager `flipop`.
    pub ours: bool,
}

/// The labels of a node that have one of our keys, of any writer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeLabels(pub BTreeMap<LabelKey, SeenLabel>);

impl NodeLabels {
    /// Whether the node carries none of our keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether FLIPOP wrote one of them.
    pub fn any_ours(&self) -> bool {
        self.0.values().any(|label| label.ours)
    }

    /// The address that our labels name.
    pub fn address(&self) -> Option<Address> {
        let ours = |key| self.0.get(&key).filter(|label| label.ours);
        let label = ours(LabelKey::Ip).or_else(|| ours(LabelKey::LegacyIp))?;
        Address::v4(&label.value)
    }

    /// The changes after which the node has exactly these labels of ours. Labels that others wrote stay, unless
    /// another value is wanted.
    pub fn changes_to(&self, wanted: &Labels) -> LabelChanges {
        let mut changes = LabelChanges::new();
        for key in LabelKey::ALL {
            let seen = self.0.get(&key);
            match wanted.get(&key) {
                Some(value) if seen.is_some_and(|seen| seen.value == *value) => {}
                Some(value) => drop(changes.insert(key, Some(value.clone()))),
                None if seen.is_some_and(|seen| seen.ours) => drop(changes.insert(key, None)),
                None => {}
            }
        }
        changes
    }

    /// Applies a write of ours that was accepted.
    pub fn apply(&mut self, changes: &LabelChanges) {
        for (key, value) in changes {
            match value {
                Some(value) => self.0.insert(*key, SeenLabel { value: value.clone(), ours: true }),
                None => self.0.remove(key),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::label_mode::LabelMode;

    fn seen(labels: &[(LabelKey, &str, bool)]) -> NodeLabels {
        let label = |(key, value, ours): &(LabelKey, &str, bool)| {
            (*key, SeenLabel { value: (*value).to_owned(), ours: *ours })
        };
        NodeLabels(labels.iter().map(label).collect())
    }

    #[test]
    fn a_write_changes_what_differs_and_leaves_what_others_wrote() {
        let wanted = LabelMode::On.labels(Some(Address::from([192, 0, 2, 1])));
        let both = LabelChanges::from([
            (LabelKey::Active, Some("true".to_owned())),
            (LabelKey::Ip, Some("192.0.2.1".to_owned())),
        ]);
        assert_eq!(NodeLabels::default().changes_to(&wanted), both);
        let mut there = seen(&[(LabelKey::LegacyEnabled, "false", true), (LabelKey::LegacyIp, "x", false)]);
        let mut changes = both.clone();
        changes.insert(LabelKey::LegacyEnabled, None);
        assert_eq!(there.changes_to(&wanted), changes, "only our own label of the older tool goes");
        there.apply(&changes);
        assert_eq!(there.changes_to(&wanted), LabelChanges::new());
        assert_eq!(there.address(), Some(Address::from([192, 0, 2, 1])));
        assert_eq!(seen(&[(LabelKey::Ip, "192.0.2.9", false)]).address(), None, "it is not ours");
    }
}
