//! Objects of our two kinds, from the API server's bytes to the status that is written about them.

use super::corpus::replay;
use super::input::json_like;
use flipop::api::translate::{pool, record_set};
use flipop::api::{FloatingIPPool, FloatingIPPoolStatus, NodeDNSRecordSet, NodeDNSRecordSetStatus};
use flipop::provider::descriptors;
use flipop_core::addresses::action::{Call, Reply};
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::addresses::pool::status::{PoolObject, PoolStatus};
use flipop_core::fleet::action::Action;
use flipop_core::fleet::{Fleet, Input, Settings};
use flipop_core::mechanism::{Answer, Effect, Request};
use flipop_core::model::provider::Providers;
use flipop_core::model::selector::is_dns_label;
use flipop_core::model::spec::SpecProblem;
use flipop_core::model::{Context, Moment, Observed, ReservedIpList, WatchKey};
use flipop_core::records::spec::NodeSetSpec;
use flipop_core::records::status::{RecordSetObject, RecordSetStatus};
use proptest::prelude::*;

/// Longest text about one mistake.
const MAX_PROBLEM_CHARS: usize = 500;

fn providers() -> Providers {
    Providers::new(descriptors().map(|descriptor| (descriptor, descriptor.machines.is_some())), false)
}

fn decent(problems: &[SpecProblem]) {
    for problem in problems {
        let text = problem.to_string();
        assert!(text.chars().count() <= MAX_PROBLEM_CHARS, "{} characters: {text}", text.chars().count());
    }
}

/// The statuses of these objects once the cluster and the account are known to be empty.
fn statuses(pools: Vec<PoolObject>, sets: Vec<RecordSetObject>) -> (Vec<PoolStatus>, Vec<RecordSetStatus>) {
    let mut fleet = Fleet::new(Settings { providers: providers(), ..Settings::default() });
    let now = Moment::from_millis(1_000_000);
    let (mut of_pools, mut of_sets) = (Vec::new(), Vec::new());
    let mut inputs = vec![
        Input::Leading,
        Input::Permit(true),
        Input::Pools(Observed::Reset(pools)),
        Input::RecordSets(Observed::Reset(sets)),
    ];
    for _ in 0..4 {
        for input in inputs.drain(..) {
            fleet.observe(input, Context::exactly(now));
        }
        for key in fleet.watches() {
            inputs.push(match &key {
                WatchKey::Nodes { .. } => Input::Nodes(key, Observed::Reset(Vec::new())),
                WatchKey::Pods { .. } => Input::Pods(key, Observed::Reset(Vec::new())),
            });
        }
        for effect in fleet.plan(now).effects {
            let Effect::Do(action) = effect else { continue };
            match action {
                Action::Addresses(_) | Action::Records(_) | Action::Firewalls(_) if action.is_write() => {
                    panic!("nothing can be done in an empty world: {action:?}");
                }
                Action::Addresses(Request { epoch, owner, call }) => {
                    let listed = (call == Call::List).then(|| Reply::Listed(Ok(ReservedIpList::default())));
                    let proved = (call == Call::ProveMachineRead).then_some(Reply::Proved(Ok(true)));
                    let Some(reply) = listed.or(proved) else { continue };
                    inputs.push(Input::Outcome(Answer { epoch, owner, begun: now, reply }.into()));
                }
                Action::WriteStatus(write) => of_pools.push(write.status),
                Action::WriteRecordSetStatus(write) => of_sets.push(write.status),
                Action::Records(_)
                | Action::Firewalls(_)
                | Action::WriteIps { .. }
                | Action::Annotate { .. }
                | Action::Label { .. }
                | Action::SweepAnnotations
                | Action::CountNodes
                | Action::ListObjects { .. }
                | Action::WriteFinalizer { .. }
                | Action::ReadNode { .. } => {}
            }
        }
    }
    (of_pools, of_sets)
}

fn sound_pool(bytes: &[u8]) -> bool {
    let Ok(mut object) = serde_json::from_slice::<FloatingIPPool>(bytes) else { return false };
    let written = serde_json::to_string(&object).unwrap();
    let again: FloatingIPPool = serde_json::from_str(&written).unwrap();
    if object.spec.too_large.is_empty() {
        assert_eq!((&again.spec, &again.status), (&object.spec, &object.status), "{written}");
    }
    let plain = pool::pool_object(&Ok(object.clone()));
    let parsed = PoolSpec::parse(plain.spec.as_ref().unwrap(), &providers());
    decent(&parsed.problems);
    for (namespace, _) in parsed.criteria.iter().filter_map(|criteria| criteria.pods.as_ref()) {
        assert!(namespace.is_empty() || is_dns_label(namespace), "{namespace:?} becomes a part of a path");
    }
    assert!(parsed.desired.is_none_or(|desired| (1..=1_000).contains(&desired)));
    object.metadata.deletion_timestamp = None;
    for status in statuses(vec![pool::pool_object(&Ok(object))], Vec::new()).0 {
        let written = pool::written_status(&status, 1, &[], jiff::Timestamp::UNIX_EPOCH);
        let text = serde_json::to_string(&written).unwrap();
        let read: FloatingIPPoolStatus = serde_json::from_str(&text).unwrap();
        assert_eq!(pool::plain_status(&read), status, "or it would be written over and over");
    }
    true
}

fn sound_set(bytes: &[u8]) -> bool {
    let Ok(mut object) = serde_json::from_slice::<NodeDNSRecordSet>(bytes) else { return false };
    let written = serde_json::to_string(&object).unwrap();
    let again: NodeDNSRecordSet = serde_json::from_str(&written).unwrap();
    if object.spec.too_large.is_empty() {
        assert_eq!((&again.spec, &again.status), (&object.spec, &object.status), "{written}");
    }
    let plain = record_set::record_set_object(&Ok(object.clone()));
    decent(&NodeSetSpec::parse(plain.spec.as_ref().unwrap(), &providers()).problems);
    object.metadata.deletion_timestamp = None;
    for status in statuses(Vec::new(), vec![record_set::record_set_object(&Ok(object))]).1 {
        let written = record_set::written_status(&status, 1, &[], jiff::Timestamp::UNIX_EPOCH);
        let text = serde_json::to_string(&written).unwrap();
        let read: NodeDNSRecordSetStatus = serde_json::from_str(&text).unwrap();
        assert_eq!(record_set::plain_status(&read), status, "or it would be written over and over");
    }
    true
}

#[test]
fn the_samples_are_read_as_their_names_say() {
    replay("pool", sound_pool);
    replay("record-set", sound_set);
}

proptest! {
    #[test]
    fn any_pool_is_told_about_soundly_or_refused(bytes in json_like("pool")) {
        sound_pool(&bytes);
    }

    #[test]
    fn any_record_set_is_told_about_soundly_or_refused(bytes in json_like("record-set")) {
        sound_set(&bytes);
    }
}
