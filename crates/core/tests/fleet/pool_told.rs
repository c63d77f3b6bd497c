//! The part of a pool's status about its record set, and what the next process reads from it.

use flipop_core::addresses::pool::status::{PoolStatus, complete};
use flipop_core::model::catalog::records::{TTLRaised, UnderWay};
use flipop_core::model::{Address, Condition};
use flipop_core::records::status::{Phase, PublishedSet, Remark, SetReport};

const MESSAGE: &str = "so it is";

fn condition(kind: &str, status: &str, reason: &str) -> Condition {
    let [kind, status, reason, message] = [kind, status, reason, MESSAGE].map(str::to_owned);
    Condition { kind, status, reason, message }
}

fn published() -> PublishedSet {
    PublishedSet { fqdn: "www.example.com".into(), addresses: vec![Address::from([192, 0, 2, 1])] }
}

/// The status of a pool of generation 3, with these conditions.
fn status(conditions: Vec<Condition>) -> PoolStatus {
    PoolStatus { conditions, observed_generation: 3, record_set: Some(published()), ..PoolStatus::default() }
}

#[test]
fn what_is_not_known_of_a_record_set_yet_stays_as_it_was() {
    let ours =
        [condition("RecordSetCNAME", "True", "CNAME"), condition("RecordSetReady", "True", "Published")];
    let others = condition("Ready", "True", "Assigned");
    let on_server = status([ours.to_vec(), vec![others]].concat());
    let ready = condition("Ready", "False", "NoCandidates");
    let mut now =
        PoolStatus { conditions: vec![ready.clone()], observed_generation: 3, ..PoolStatus::default() };
    let edited = PoolStatus { observed_generation: 4, ..now.clone() };
    complete(&mut now, None, &on_server);
    assert_eq!(now.record_set, Some(published()));
    assert_eq!(now.conditions, [vec![ready.clone()], ours.to_vec()].concat());
    // The former spec may have named another zone.
    let mut now = edited;
    complete(&mut now, None, &on_server);
    assert_eq!(now.conditions, [ready, ours[0].clone()]);
    assert!(!now.reported_records(4).current);
}

#[test]
fn what_is_known_of_a_record_set_takes_the_place_of_what_was() {
    let report = SetReport {
        phase: Phase::InProgress { reason: UnderWay::InProgress, message: MESSAGE.into() },
        spec_error: Some("the name is too long".into()),
        published: published(),
        remarks: vec![Remark { finding: TTLRaised::BelowFloor.into(), message: MESSAGE.into() }],
    };
    let on_server = status(vec![condition("RecordSetReady", "True", "Published")]);
    for (error, both) in [("", "the name is too long"), ("no region", "no region; the name is too long")] {
        let mut now = PoolStatus { error: error.into(), ..PoolStatus::default() };
        complete(&mut now, Some(&report), &on_server);
        let told = [
            condition("RecordSetReady", "False", "InProgress"),
            condition("RecordSetTTLRaised", "True", "BelowFloor"),
        ];
        assert_eq!((now.error.as_str(), now.conditions.as_slice()), (both, told.as_slice()));
        assert_eq!(now.record_set, Some(published()));
    }
}

#[test]
fn the_next_process_reads_whether_a_record_set_was_right_and_else_what_was_wrong() {
    let told = |kind, status_of, reason, generation| {
        let told = status(vec![condition(kind, status_of, reason)]).reported_records(generation);
        assert_eq!(told.published, published());
        (told.right, told.error, told.current)
    };
    let ready = "RecordSetReady";
    assert_eq!(told(ready, "True", "Published", 3), (true, String::new(), true));
    assert_eq!(told(ready, "True", "Published", 4), (true, String::new(), false), "of another spec");
    assert_eq!(told(ready, "False", "InProgress", 3), (false, String::new(), true));
    assert_eq!(told(ready, "False", "CNAME", 3), (false, MESSAGE.into(), true));
    assert_eq!(told("Ready", "True", "Assigned", 3), (false, String::new(), false), "not of the record set");
}
