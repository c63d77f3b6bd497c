//! The Lease that a kubelet renews, reduced to the facts that decisions need.

use flipop_core::model::node_check::LeaseFacts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{NamespaceResourceScope, Resource};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// The namespace of these Leases.
pub const NAMESPACE: &str = "kube-node-lease";

/// The kubelet's default duration, in seconds.
const DEFAULT_DURATION_S: u64 = 40;

/// A Lease as the API server sends it.
#[derive(Debug, Clone, Deserialize)]
pub struct LeaseSlim {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: Spec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    lease_duration_seconds: Option<i64>,
    renew_time: Option<String>,
}

fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Spec, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl LeaseSlim {
    /// Reduces it to its facts.
    #[must_use]
    pub fn into_facts(self) -> LeaseFacts {
        let duration_s = self.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration_s = duration_s.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_DURATION_S);
        LeaseFacts {
            name: self.metadata.name.unwrap_or_default(),
            renewed: self.spec.renew_time.unwrap_or_default(),
            duration_ms: duration_s.saturating_mul(1_000),
        }
    }
}

impl Resource for LeaseSlim {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Lease".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "coordination.k8s.io".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "leases".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(lease: Value) -> LeaseFacts {
        serde_json::from_value::<LeaseSlim>(lease).unwrap().into_facts()
    }

    #[test]
    fn a_lease_is_cut_to_its_renewal_and_its_duration() {
        let lease = json!({
            "metadata": { "name": "node-1", "namespace": NAMESPACE },
            "spec": { "holderIdentity": "node-1", "leaseDurationSeconds": 20, "renewTime": "2026-01-01T00:00:00.000001Z" },
        });
        let expected = LeaseFacts {
            name: "node-1".into(),
            renewed: "2026-01-01T00:00:00.000001Z".into(),
            duration_ms: 20_000,
        };
        assert_eq!(facts(lease), expected);
        for odd in [
            json!(null),
            json!({}),
            json!({ "leaseDurationSeconds": 0 }),
            json!({ "leaseDurationSeconds": -7 }),
        ] {
            let read = facts(json!({ "metadata": { "name": "n" }, "spec": odd }));
            assert_eq!((read.renewed.as_str(), read.duration_ms), ("", 40_000), "{odd}");
        }
    }
}
