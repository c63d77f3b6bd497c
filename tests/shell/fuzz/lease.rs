//! The Lease, with any content.

use super::corpus::replay;
use super::input::json_like;
use flipop::leader::record;
use k8s_openapi::api::coordination::v1::Lease;
use proptest::prelude::*;

fn sound(bytes: &[u8]) -> bool {
    let Ok(lease) = serde_json::from_slice::<Lease>(bytes) else { return false };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let (before, _version) = (record::transitions(&lease), record::version(&lease));
    assert!(record::duration_ms(&lease) >= 1_000);
    let taken = record::taken(&lease, "us", now);
    for (ours, holder, transitions) in [
        (record::renewed(&lease, "us", now), "us", before),
        (record::released(&lease, now), "", before),
        (taken, "us", before.saturating_add(1)),
    ] {
        assert_eq!((record::holder(&ours), record::transitions(&ours)), (holder, transitions));
        assert_eq!(ours.metadata, lease.metadata, "what is not ours stays");
        let written = serde_json::to_value(&ours).unwrap();
        let again: Lease = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), written);
    }
    true
}

#[test]
fn the_samples_are_read_as_their_names_say() {
    replay("lease", sound);
}

proptest! {
    #[test]
    fn any_lease_can_be_judged_and_taken_or_is_refused(bytes in json_like("lease")) {
        sound(&bytes);
    }
}
