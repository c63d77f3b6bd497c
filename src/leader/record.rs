//! The Lease record, field by field as client-go writes it.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

/// How long an unchanged record keeps its holder. The Go operator's lease duration.
pub const LEASE_DURATION_MS: u64 = 15_000;

/// [`LEASE_DURATION_MS`] in the record's unit.
const LEASE_DURATION_SECONDS: i32 = 15;

/// The duration that client-go writes into a released lease.
const RELEASED_DURATION_SECONDS: i32 = 1;

/// The holder named by the lease. Empty means nobody.
pub fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// The number of changes of holder.
pub fn transitions(lease: &Lease) -> i32 {
    lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default()
}

/// How long the record is valid after its last change. client-go treats a record without a duration as expired. We
/// allow it [`LEASE_DURATION_MS`], which is safer.
pub fn duration_ms(lease: &Lease) -> u64 {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.filter(|seconds| *seconds > 0).and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(LEASE_DURATION_MS, |seconds| seconds.saturating_mul(1_000))
}

/// The resource version as a number, if it is one.
pub fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_deref()?.parse().ok()
}

fn ours(identity: &str, acquired: MicroTime, renewed: MicroTime, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(LEASE_DURATION_SECONDS),
        acquire_time: Some(acquired),
        renew_time: Some(renewed),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

/// A new lease to create where none exists.
pub fn first(name: &str, namespace: &str, identity: &str, now: jiff::Timestamp) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ours(identity, MicroTime(now), MicroTime(now), 0)),
    }
}

/// The lease `old`, taken by us, with one more change of holder.
pub fn taken(old: &Lease, identity: &str, now: jiff::Timestamp) -> Lease {
    let transitions = transitions(old).saturating_add(1);
    Lease {
        metadata: old.metadata.clone(),
        spec: Some(ours(identity, MicroTime(now), MicroTime(now), transitions)),
    }
}

/// The lease `old`, which is ours, renewed.
pub fn renewed(old: &Lease, identity: &str, now: jiff::Timestamp) -> Lease {
    let acquired = old.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
    let acquired = acquired.unwrap_or(MicroTime(now));
    Lease {
        metadata: old.metadata.clone(),
        spec: Some(ours(identity, acquired, MicroTime(now), transitions(old))),
    }
}

/// The lease `old`, which is ours, released.
pub fn released(old: &Lease, now: jiff::Timestamp) -> Lease {
    let spec = LeaseSpec {
        lease_duration_seconds: Some(RELEASED_DURATION_SECONDS),
        ..ours("", MicroTime(now), MicroTime(now), transitions(old))
    };
    Lease { metadata: old.metadata.clone(), spec: Some(spec) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(lease: &Lease) -> serde_json::Value {
        serde_json::to_value(lease).unwrap()["spec"].clone()
    }

    #[test]
    fn the_record_is_written_as_client_go_writes_it() {
        let start: jiff::Timestamp = "2024-05-06T07:08:09.123456789Z".parse().unwrap();
        let later: jiff::Timestamp = "2024-05-06T07:08:11Z".parse().unwrap();
        let lease = first(super::super::LEASE_NAME, "flipop", "a_1", start);
        assert_eq!(
            spec(&lease),
            json!({"holderIdentity": "a_1", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "acquireTime": "2024-05-06T07:08:09.123456Z", "renewTime": "2024-05-06T07:08:09.123456Z"})
        );
        let lease = taken(&lease, "b_2", later);
        assert_eq!(
            spec(&lease),
            json!({"holderIdentity": "b_2", "leaseDurationSeconds": 15, "leaseTransitions": 1,
                "acquireTime": "2024-05-06T07:08:11.000000Z", "renewTime": "2024-05-06T07:08:11.000000Z"})
        );
        let lease = renewed(&lease, "b_2", start);
        assert_eq!(
            spec(&lease),
            json!({"holderIdentity": "b_2", "leaseDurationSeconds": 15, "leaseTransitions": 1,
                "acquireTime": "2024-05-06T07:08:11.000000Z", "renewTime": "2024-05-06T07:08:09.123456Z"})
        );
        assert_eq!(
            spec(&released(&lease, later)),
            json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1,
                "acquireTime": "2024-05-06T07:08:11.000000Z", "renewTime": "2024-05-06T07:08:11.000000Z"})
        );
    }

    #[test]
    fn a_record_without_a_duration_lasts_as_long_as_ours() {
        let mut lease = first("l", "n", "a", jiff::Timestamp::UNIX_EPOCH);
        lease.spec.as_mut().unwrap().lease_duration_seconds = None;
        assert_eq!(duration_ms(&lease), LEASE_DURATION_MS);
        lease.spec.as_mut().unwrap().lease_duration_seconds = Some(1);
        assert_eq!(duration_ms(&lease), 1_000);
    }
}
