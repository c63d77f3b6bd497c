//! Deleted pools that give back the addresses that were bought for them.

use crate::faults::spec_of;
use crate::reclaim::{FIRST, bought, release};
use crate::walls::opens;
use crate::world::{Trick, World, ip};
use crate::zones::record_set;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::{FaultKind, Moment, ObjectName, ObjectRef, Uid, WriteFailure};

const WWW: &str = "www.example.com";

#[test]
fn the_finalizer_stands_while_something_was_bought_and_the_policy_asks_for_it() {
    let mut world = bought(1, |_| {});
    assert!(world.pools["pool"].guarded);
    let bought_at = world.calls.iter().position(|(_, call)| call.starts_with("create")).unwrap();
    let guarded_at = world.calls.iter().position(|(_, call)| call == "finalizer true").unwrap();
    assert!(guarded_at < bought_at, "it stands before anything is bought");
    world.edit("pool", |spec| spec.reclaim_policy = "Retain".into());
    world.run(1);
    assert!(!world.pools["pool"].guarded, "within a second");
    world.edit("pool", |spec| spec.reclaim_policy = "Delete".into());
    world.run(1);
    assert!(world.pools["pool"].guarded);
    // Somebody removes it, and FLIPOP puts it back.
    let mut pool = world.pools["pool"].clone();
    pool.guarded = false;
    world.put_pool(pool);
    world.run(1);
    assert!(world.pools["pool"].guarded);
    release(&mut world, FIRST);
    world.edit("pool", |spec| spec.ips = vec![ip(90).to_string()]);
    world.run(150);
    assert!(!world.pools["pool"].guarded, "nothing is left to give back");
    // A pool that bought nothing never gets one.
    let mut other = World::with(1, 1);
    other.edit("pool", |spec| spec.reclaim_policy = "Delete".into());
    other.run(60);
    assert!(!other.pools["pool"].guarded);
}

#[test]
fn a_deleted_pool_goes_when_everything_that_was_bought_is_gone() {
    let mut world = bought(2, |_| {});
    world.begin_deletion("pool");
    world.run(20);
    assert!(world.published(WWW).is_empty(), "the last record goes");
    assert!(world.annotations.contains_key("node-1"), "clients may still use it");
    assert!(world.message("pool", "Reclaiming").is_some_and(|told| told.contains("192.0.2.202")));
    world.run(100);
    assert!(!world.pools.contains_key("pool"));
    assert!(!world.cloud.contains_key(&ip(FIRST)) && !world.cloud.contains_key(&ip(202)));
    assert!(world.annotations.is_empty());
    assert_eq!((world.total("delete"), world.created), (2, 2));
}

#[test]
fn a_deleted_pool_gives_back_its_addresses_then_empties_its_firewalls_and_then_deletes_them() {
    let mut world = bought(2, |_| {});
    world.walls.add("base", &[1, 2, 3], &[]);
    world.edit("pool", |spec| spec.firewall = opens(&["443"]));
    world.run(30);
    assert_eq!(world.walls.members(), [1, 2, 3].into());
    let from = world.now;
    world.begin_deletion("pool");
    world.run(300);
    assert!(!world.pools.contains_key("pool"));
    assert_eq!((world.walls.ours().count(), world.walls.all.len()), (0, 1), "the user's stays");
    let at = |what: &str| {
        let calls = world.calls.iter().filter(|(at, call)| *at >= from && call.starts_with(what));
        calls.map(|(at, _)| *at).collect::<Vec<Moment>>()
    };
    let (given_back, taken_out, deleted) = (at("delete 192."), at("remove members"), at("delete flipop"));
    assert_eq!((given_back.len(), deleted.len()), (2, 1));
    assert!(given_back.iter().max() < taken_out.iter().min(), "{given_back:?} {taken_out:?}");
    assert!(taken_out.iter().max() < deleted.iter().min(), "{taken_out:?} {deleted:?}");
}

#[test]
fn what_was_not_bought_stays_with_its_record() {
    let mut world = bought(2, |_| {});
    world.add_ip(7);
    world.set_node(4, true);
    world.edit("pool", |spec| {
        spec.desired_ips = 3;
        spec.ips.insert(0, ip(7).to_string());
    });
    world.run(20);
    assert_eq!(world.published(WWW), [7, FIRST, 202]);
    world.begin_deletion("pool");
    world.run(150);
    assert!(!world.pools.contains_key("pool"));
    assert_eq!((world.published(WWW), world.total("delete")), (vec![7], 2));
    assert!(world.cloud[&ip(7)].machine.is_some());
}

#[test]
fn a_deleted_pool_yields_its_name_and_its_addresses() {
    let mut world = bought(2, |_| {});
    world.begin_deletion("pool");
    world.run(5);
    let other = RawPoolSpec { record_set: Some(record_set("www")), ..spec_of([FIRST]) };
    world.add_pool("other", other);
    world.run(200);
    assert!(!world.pools.contains_key("pool"));
    assert!(world.cloud.contains_key(&ip(FIRST)) && !world.cloud.contains_key(&ip(202)));
    assert_eq!(world.published(WWW), [FIRST]);
    assert!(!world.events_of("ReclaimKept").is_empty());
}

#[test]
fn another_policy_lets_a_deleted_pool_go_within_a_second() {
    let mut world = bought(2, |_| {});
    world.begin_deletion("pool");
    world.run(20);
    world.edit("pool", |spec| spec.reclaim_policy = "Retain".into());
    world.run(1);
    assert!(!world.pools.contains_key("pool"));
    world.run(300);
    assert_eq!((world.total("delete"), world.cloud.len()), (0, 3));
}

#[test]
fn a_paused_pool_waits_and_a_frozen_one_does_not() {
    let mut world = bought(2, |_| {});
    world.pause("pool", Some("wait"));
    world.begin_deletion("pool");
    world.run(300);
    assert_eq!((world.total("delete"), world.published(WWW).len()), (0, 2));
    world.pause("pool", None);
    world.run(150);
    assert!(!world.pools.contains_key("pool"));
    let mut world = bought(2, |_| {});
    world.edit("pool", |spec| spec.provider = "another".into());
    world.run(5);
    world.begin_deletion("pool");
    world.run(150);
    assert!(!world.pools.contains_key("pool"));
    assert_eq!(world.total("delete"), 2);
}

#[test]
fn a_purchase_that_is_open_is_found_out_first_and_never_repeated() {
    for effect in [true, false] {
        let mut world = bought(1, |_| {});
        world.tricks.push_back(Trick::Lost(effect));
        world.edit("pool", |spec| spec.desired_ips = 2);
        world.run_while(5, |world| world.total("create") < 2);
        world.begin_deletion("pool");
        world.run(20);
        assert!(world.pools.contains_key("pool"), "{effect}: the intent is open");
        world.run(250);
        assert!(!world.pools.contains_key("pool"), "{effect}");
        assert_eq!(world.total("create"), 2, "{effect}");
        assert_eq!(world.cloud.contains_key(&ip(202)), effect, "what nobody is sure of stays");
        let told = world.events.iter().any(|event| event.message.contains("192.0.2.202"));
        assert_eq!(told, effect, "and is named");
    }
}

#[test]
fn whatever_leader_takes_over_a_deleted_pool_goes() {
    for ms in (0..75_000).step_by(2_930) {
        let mut world = bought(2, |_| {});
        world.begin_deletion("pool");
        world.run_until(world.now.plus_millis(ms));
        world.start();
        // A new leader has seen no TTL, because no record is left at the name.
        world.run(3_900);
        assert!(!world.pools.contains_key("pool"), "{ms}: {:?}", world.message("pool", "Reclaiming"));
        assert_eq!(world.cloud.len(), 1, "{ms}");
    }
}

#[test]
fn without_the_right_to_write_the_finalizer_nothing_is_bought() {
    let mut world = crate::creation::buying(1);
    world.edit("pool", |spec| spec.reclaim_policy = "Delete".into());
    world.faults.finalizers = Some(WriteFailure::Forbidden("may not update".into()));
    world.start();
    world.run(60);
    assert_eq!(world.created, 0);
    assert!(world.message("pool", "ReclaimBlocked").is_some_and(|told| told.contains("may not update")));
    world.faults.finalizers = None;
    world.run(600);
    assert_eq!(world.created, 1);
    assert!(!world.has("pool", "ReclaimBlocked"));
}

#[test]
fn a_refused_deletion_keeps_the_pool_and_says_how_to_let_it_go() {
    let mut world = bought(1, |_| {});
    world.begin_deletion("pool");
    world.run_while(5, |world| world.total("unassign") == 0);
    world.run_until(world.now.plus_millis(1_000));
    world.tricks.extend([Trick::Refused(FaultKind::Unauthorized); 3]);
    world.run(100);
    assert!(world.pools.contains_key("pool"));
    assert!(world.message("pool", "ReclaimBlocked").is_some_and(|told| told.contains("reclaimPolicy")));
    world.run(200);
    assert!(!world.pools.contains_key("pool"));
}

#[test]
fn a_pool_beside_the_operator_is_at_risk_while_it_deletes() {
    let mut world = World::with(1, 1);
    let mut pool = world.pools["pool"].clone();
    world.edit("pool", |spec| spec.reclaim_policy = "Delete".into());
    world.run(10);
    assert_eq!(world.message("pool", "ReclaimAtRisk"), None, "it is in another namespace");
    world.delete_pool("pool");
    pool.object = ObjectRef { uid: Uid("beside".into()), name: ObjectName::new("flipop", "pool") };
    world.put_pool(pool);
    world.run(10);
    assert_eq!(world.message("pool", "ReclaimAtRisk"), None, "it deletes nothing");
    world.edit("pool", |spec| spec.reclaim_policy = "Delete".into());
    world.run(10);
    assert!(
        world.message("pool", "ReclaimAtRisk").is_some_and(|told| told.contains("FLIPOP runs in flipop too"))
    );
    world.edit("pool", |spec| spec.reclaim_policy = "Retain".into());
    world.run(10);
    assert_eq!(world.message("pool", "ReclaimAtRisk"), None);
}

#[test]
fn a_pool_whose_only_address_somebody_deleted_goes_as_well() {
    let mut world = bought(1, |_| {});
    world.cloud.remove(&ip(FIRST));
    world.run(20);
    world.begin_deletion("pool");
    world.run(200);
    assert!(!world.pools.contains_key("pool"), "nothing is left to wait for");
    assert_eq!(world.total("delete"), 0);
    assert!(world.annotations.is_empty());
    assert!(!world.events_of("MovedByOthers").is_empty());
}
