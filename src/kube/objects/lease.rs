//! The Lease that a kubelet renews, reduced to the facts that decisions need.

use super::{RawIdentity, RawTime, raw, slim, slim_metadata};
use flipop_core::model::LeaseFacts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// The namespace of these Leases.
pub const NAMESPACE: &str = "kube-node-lease";

/// The kubelet's default duration, in seconds.
const DEFAULT_DURATION_S: u64 = 40;

slim! {
    /// A Lease.
    LeaseSlim, from "RawLease" to LeaseFacts, NamespaceResourceScope,
    ["Lease", "coordination.k8s.io", "v1", "leases"]
}

raw! {
    RawLease { metadata: RawIdentity, spec: RawLeaseSpec }

    RawLeaseSpec {
        #[serde(rename = "leaseDurationSeconds")]
        duration_s: Option<i64>,
        #[serde(rename = "renewTime")]
        renewed: RawTime,
    }
}

impl From<RawLease> for LeaseSlim {
    fn from(RawLease { metadata, spec }: RawLease) -> Self {
        let RawLeaseSpec { duration_s, renewed } = spec;
        let duration_s = duration_s.and_then(|seconds| u64::try_from(seconds).ok());
        let duration_s = duration_s.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_DURATION_S);
        Self {
            metadata: slim_metadata(metadata.resource_version),
            facts: LeaseFacts {
                name: metadata.name,
                renewed_us: renewed.0.map(jiff::Timestamp::as_microsecond),
                duration_ms: duration_s.saturating_mul(1_000),
            },
        }
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
            renewed_us: Some(1_767_225_600_000_001),
            duration_ms: 20_000,
        };
        assert_eq!(facts(lease), expected);
        for odd in [
            json!(null),
            json!({}),
            json!({ "leaseDurationSeconds": 0 }),
            json!({ "leaseDurationSeconds": -7 }),
            json!({ "renewTime": "yesterday" }),
            json!({ "renewTime": null }),
        ] {
            let read = facts(json!({ "metadata": { "name": "n" }, "spec": odd }));
            assert_eq!((read.renewed_us, read.duration_ms), (None, 40_000), "{odd}");
        }
    }
}
