//! The labels of a node that matter: the label of its region, and the labels that FLIPOP writes.

use super::raw;
use flipop_core::model::node_labels::{LabelKey, NodeLabels, SeenLabel};
use serde::Deserialize;
use serde::de::IgnoredAny;

raw! {
    // The literals repeat `REGION_LABEL` and `LabelKey::as_str`: serde attributes take no constants. Tests compare.
    RawLabels {
        #[serde(rename = "topology.kubernetes.io/region")]
        region: Option<String>,
        #[serde(rename = "flipop.digitalocean.com/reserved-ip-active")]
        active: Option<String>,
        #[serde(rename = "flipop.digitalocean.com/reserved-ip")]
        ip: Option<String>,
        #[serde(rename = "do-outbound-floating-ip")]
        legacy_ip: Option<String>,
        #[serde(rename = "do-outbound-floating-ip-enabled")]
        legacy_enabled: Option<String>,
    }

    /// The fields of these labels that a field manager owns.
    RawLabelFields {
        #[serde(rename = "f:flipop.digitalocean.com/reserved-ip-active")]
        active: Option<IgnoredAny>,
        #[serde(rename = "f:flipop.digitalocean.com/reserved-ip")]
        ip: Option<IgnoredAny>,
        #[serde(rename = "f:do-outbound-floating-ip")]
        legacy_ip: Option<IgnoredAny>,
        #[serde(rename = "f:do-outbound-floating-ip-enabled")]
        legacy_enabled: Option<IgnoredAny>,
    }
}

impl RawLabels {
    fn by_key(self) -> [(LabelKey, Option<String>); 4] {
        [
            (LabelKey::Active, self.active),
            (LabelKey::Ip, self.ip),
            (LabelKey::LegacyIp, self.legacy_ip),
            (LabelKey::LegacyEnabled, self.legacy_enabled),
        ]
    }
}

impl RawLabelFields {
    fn holds(&self, key: LabelKey) -> bool {
        match key {
            LabelKey::Active => self.active.is_some(),
            LabelKey::Ip => self.ip.is_some(),
            LabelKey::LegacyIp => self.legacy_ip.is_some(),
            LabelKey::LegacyEnabled => self.legacy_enabled.is_some(),
        }
    }
}

/// The labels with our keys. `ours`: the fields that our field manager owns.
pub(super) fn labels_of<'a>(
    labels: RawLabels,
    ours: &(impl Iterator<Item = &'a RawLabelFields> + Clone),
) -> NodeLabels {
    let seen = |(key, value): (LabelKey, Option<String>)| {
        let ours = ours.clone().any(|fields| fields.holds(key));
        Some((key, SeenLabel { value: value?, ours }))
    };
    NodeLabels(labels.by_key().into_iter().filter_map(seen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::NodeSlim;
    use serde_json::{Value, json};

    #[test]
    fn labels_are_read_by_their_keys_and_each_is_ours_or_not() {
        let labels: serde_json::Map<String, Value> =
            LabelKey::ALL.iter().map(|key| (key.as_str().to_owned(), json!(key.as_str()))).collect();
        for ours in LabelKey::ALL {
            let facts = serde_json::from_value::<NodeSlim>(
                json!({"metadata": {"name": "a", "labels": labels, "managedFields": [
                    {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {
                        "f:flipop.digitalocean.com/reserved-ip": {}}}}},
                    {"manager": "flipop", "fieldsV1": {"f:metadata": {"f:labels": {
                        format!("f:{}", ours.as_str()): {}}}}},
                ]}}),
            )
            .unwrap()
            .into_facts();
            let label =
                |key: LabelKey| (key, SeenLabel { value: key.as_str().to_owned(), ours: key == ours });
            assert_eq!(facts.labels, NodeLabels(LabelKey::ALL.map(label).into()));
        }
    }
}
