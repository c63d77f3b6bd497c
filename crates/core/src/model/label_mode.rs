//! Which labels the nodes of a pool get: `spec.nodeLabels`.

use crate::model::ids::Address;
use crate::model::matching::Criteria;
use crate::model::node_labels::{LabelKey, Labels};
use crate::model::spec::{Scope, SpecProblem};

/// `spec.nodeLabels` as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawNodeLabels {
    /// Nodes get labels.
    pub enabled: bool,
    /// Nodes also get the labels of the older tool.
    pub legacy: bool,
}

/// Which labels a pool's nodes get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelMode {
    /// None.
    #[default]
    Off,
    /// Those of this API.
    On,
    /// Those and the ones of the older tool.
    Legacy,
}

impl LabelMode {
    /// Parses `spec.nodeLabels`. A pool sets no labels if it selects its nodes by one of them: its match would then
    /// depend on its own result.
    pub fn parse(raw: RawNodeLabels, criteria: Option<&Criteria>, problems: &mut Vec<SpecProblem>) -> Self {
        if !raw.enabled {
            return Self::Off;
        }
        let names = |key: &&LabelKey| criteria.is_some_and(|of| of.node_selector.names(key.as_str()));
        if let Some(key) = LabelKey::ALL.iter().find(names) {
            problems.push(SpecProblem {
                scope: Scope::Labels,
                field: "spec.nodeLabels".to_owned(),
                message: format!(
                    "ignored, because spec.match.nodeLabel names {}, which depends on it; select nodes by another label",
                    key.as_str()
                ),
            });
            return Self::Off;
        }
        if raw.legacy { Self::Legacy } else { Self::On }
    }

    /// The labels of a node with this address, or of a node without an address.
    pub fn labels(self, ip: Option<Address>) -> Labels {
        let (modern, legacy) = match self {
            Self::Off => (false, false),
            Self::On => (true, false),
            Self::Legacy => (true, true),
        };
        let mut labels = Labels::new();
        if let Some(ip) = ip.filter(|_| modern) {
            labels.insert(LabelKey::Active, "true".to_owned());
            labels.insert(LabelKey::Ip, ip.to_string());
        }
        if legacy {
            labels.insert(LabelKey::LegacyEnabled, ip.is_some().to_string());
            labels.extend(ip.map(|ip| (LabelKey::LegacyIp, ip.to_string())));
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_the_older_tool_say_false_where_no_address_stands() {
        let off = Labels::from([(LabelKey::LegacyEnabled, "false".to_owned())]);
        assert_eq!(LabelMode::Legacy.labels(None), off);
        assert_eq!(LabelMode::Legacy.labels(Some(Address::from([192, 0, 2, 1]))).len(), 4);
        assert!(LabelMode::On.labels(None).is_empty());
    }
}
