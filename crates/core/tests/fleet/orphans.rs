//! Addresses that may belong to a pool, although nobody remembers them.

use crate::creation::{buying, world};
use crate::sightings::in_question;
use crate::world::{Trick, World, ip};
use flipop_core::model::{Address, FaultKind};
use std::collections::BTreeSet;

/// A pool that lost its spec and its status after it had bought two addresses. No process runs yet.
pub(crate) fn forgotten() -> World {
    let mut world = world(2);
    world.run(20);
    world.pools.get_mut("pool").unwrap().status = flipop_core::addresses::pool::status::PoolStatus::default();
    world.edit("pool", |spec| spec.ips.clear());
    world
}

#[test]
fn with_spec_and_status_wiped_what_stands_on_candidates_is_named_and_not_bought_again() {
    let mut world = forgotten();
    world.start();
    world.run(200);
    assert_eq!(world.created, 2);
    assert!(is_uncertain(&world), "{:?}", world.status("pool").conditions);
    // A node that stops matching for a while changes nothing, even with a new process.
    for restart in [false, true] {
        world.set_node(1, false);
        if restart {
            world.start();
        }
        world.run(100);
        world.set_node(1, true);
        world.run(20);
        assert_eq!((world.created, world.holder(1)), (2, Some(ip(201))));
    }
    world.edit("pool", |spec| spec.ips = vec![ip(201).to_string(), ip(202).to_string()]);
    world.run(20);
    assert!(!is_uncertain(&world));
    assert_eq!((world.created, unknown(&world)), (2, [].into()));
}

pub(crate) fn unknown(world: &World) -> BTreeSet<Address> {
    world.status("pool").memory.as_ref().unwrap().unknown.clone()
}

#[test]
fn foreign_addresses_on_nodes_of_a_pool_that_lacks_none_are_not_noted() {
    let mut world = World::with(1, 2);
    world.add_ip(90);
    world.move_by_hand(90, Some(2));
    world.run(60);
    assert_eq!((world.holder(2), unknown(&world)), (Some(ip(90)), [].into()));
}

#[test]
fn an_unknown_address_that_leaves_its_droplet_stands_in_for_none_and_nothing_is_left_of_it() {
    for to in [None, Some(91)] {
        let mut world = forgotten();
        world.start();
        world.run(100);
        assert_eq!(unknown(&world), [ip(201), ip(202)].into());
        world.move_by_hand(201, to);
        world.run(100);
        assert_eq!((world.created, unknown(&world)), (3, [].into()), "{to:?}");
        let orphans = world.status("pool").memory.as_ref().unwrap().orphans.clone();
        assert_eq!(orphans, Some([ip(202)].into()));
    }
}

#[test]
fn addresses_of_unknown_origin_that_a_token_no_longer_shows_on_their_droplets_are_not_bought_again() {
    for (desired, bought) in [(2, 2), (3, 3)] {
        let mut world = forgotten();
        world.edit("pool", |spec| spec.desired_ips = desired);
        world.start();
        world.run(100);
        assert_eq!(world.created, bought);
        world.faults.blind = true;
        world.run(200);
        assert_eq!(world.created, bought);
        world.faults.blind = false;
        world.run(200);
        assert_eq!(world.created, bought);
        assert!(is_uncertain(&world));
    }
}

#[test]
fn an_unknown_address_that_goes_to_another_candidate_counts_there() {
    let mut world = forgotten();
    world.start();
    world.run(100);
    world.move_by_hand(201, Some(3));
    world.run(100);
    world.set_node(3, false);
    world.run(100);
    assert_eq!((world.created, unknown(&world)), (2, [ip(201), ip(202)].into()));
}

#[test]
fn an_orphan_that_goes_to_another_droplet_makes_room_also_after_a_purchase() {
    let mut world = forgotten();
    world.edit("pool", |spec| spec.desired_ips = 3);
    world.start();
    world.run(100);
    assert_eq!(world.created, 3);
    world.move_by_hand(201, Some(91));
    world.run(100);
    assert_eq!(world.created, 4);
}

#[test]
pub(crate) fn unknown_addresses_that_were_known_to_a_purchase_which_was_refused_stay_known() {
    let mut world = forgotten();
    world.edit("pool", |spec| spec.desired_ips = 3);
    world.tricks.push_back(Trick::Refused(FaultKind::Quota));
    world.start();
    // It stops matching before the refusal comes.
    world.run_while(10, |world| !world.tricks.is_empty());
    world.set_node(1, false);
    world.run(200);
    assert_eq!(world.created, 3);
}

#[test]
fn where_only_the_memory_was_lost_what_the_status_shows_is_named_and_neither_let_go_nor_bought_again() {
    let mut world = world(2);
    world.run(20);
    // The Go operator's CRDs were installed for a while, and the addresses were never written into the spec.
    world.edit("pool", |spec| spec.ips.clear());
    world.run(20);
    world.pools.get_mut("pool").unwrap().status.memory = None;
    world.start();
    world.run(200);
    let memory = world.status("pool").memory.clone().unwrap();
    assert_eq!((memory.former, memory.unknown), ([].into(), [ip(201), ip(202)].into()));
    assert_eq!((world.created, world.holder(1), world.holder(2)), (2, Some(ip(201)), Some(ip(202))));
}

#[test]
fn what_is_taken_out_of_the_spec_is_let_go_also_while_nothing_can_be_remembered_yet() {
    let mut world = world(1);
    world.add_ip(1);
    world.run(20);
    world.pools.get_mut("pool").unwrap().status.memory = None;
    world.faults.blind = true;
    world.start();
    world.run(100);
    world.edit("pool", |spec| spec.ips = vec![ip(1).to_string()]);
    world.run(100);
    world.faults.blind = false;
    world.run(200);
    assert_eq!((world.holder(1), unknown(&world), world.created), (Some(ip(1)), [].into(), 1));
}

#[test]
fn what_is_to_be_released_is_let_go_although_the_memory_was_lost() {
    let mut world = world(1);
    world.run(20);
    world.edit("pool", |spec| {
        spec.ips.clear();
        spec.released_ips = vec![ip(201).to_string()];
    });
    world.pools.get_mut("pool").unwrap().status.memory = None;
    world.start();
    world.run(200);
    assert_eq!((world.created, world.holder(1)), (2, Some(ip(202))));
}

pub(crate) fn is_uncertain(world: &World) -> bool {
    world.has("pool", "CreationUncertain")
}

#[test]
fn foreign_addresses_on_nodes_of_which_it_is_not_known_whether_they_match_are_not_noted() {
    for frozen in [false, true] {
        let mut world = World::with(1, 2);
        world.add_ip(90);
        world.move_by_hand(90, Some(2));
        world.run(60);
        world.hold_watches = true;
        world.edit("pool", |spec| {
            spec.desired_ips = 2;
            spec.matching.node_label = if frozen { "a in" } else { "a=b" }.to_owned();
        });
        world.run(200);
        assert_eq!((unknown(&world), is_uncertain(&world), world.created), ([].into(), false, 0), "{frozen}");
    }
}

#[test]
fn a_restart_between_a_first_purchase_and_its_failure_is_no_end_of_the_search_for_unknown_addresses() {
    let mut world = buying(1);
    world.add_ip(91);
    world.move_by_hand(91, Some(1));
    world.set_node(1, false);
    world.tricks.push_back(Trick::Lost(false));
    world.start();
    world.run_while(30, |world| !world.tricks.is_empty());
    world.start();
    world.set_node(1, true);
    world.run(200);
    assert_eq!((world.created, unknown(&world), is_uncertain(&world)), (0, [ip(91)].into(), true));
}

#[test]
fn an_unknown_address_stays_known_while_an_action_on_it_is_pending() {
    for desired in [2, 3] {
        let mut world = forgotten();
        world.edit("pool", |spec| spec.desired_ips = desired);
        world.start();
        world.run(100);
        let created = world.created;
        let (there, read) = (world.holder(1), world.cloud.get_mut(&ip(201)).unwrap());
        let droplet = read.machine.take();
        read.locked = true;
        world.run(100);
        let read = world.cloud.get_mut(&ip(201)).unwrap();
        (read.machine, read.locked) = (droplet, false);
        world.run(100);
        assert_eq!((world.created, world.holder(1)), (created, there), "{desired}");
    }
}

#[test]
fn an_unknown_address_stays_known_while_the_pool_is_in_another_region() {
    let mut world = forgotten();
    world.start();
    world.run(100);
    world.tricks.push_back(Trick::Refused(FaultKind::Quota));
    world.edit("pool", |spec| spec.region = "nyc9".to_owned());
    world.run_while(100, |world| !world.tricks.is_empty());
    world.set_node(1, false);
    world.run(10);
    world.edit("pool", |spec| spec.region = "nyc3".to_owned());
    world.run(200);
    assert_eq!((world.created, unknown(&world)), (2, [ip(201), ip(202)].into()));
}

#[test]
fn after_a_creation_that_the_user_told_from_others_no_foreign_address_stands_in_for_the_next() {
    let mut world = in_question(&[95]);
    world.edit("pool", |spec| spec.ips = vec![ip(201).to_string()]);
    world.run(60);
    world.tricks.push_back(Trick::Refused(FaultKind::Quota));
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run_while(200, |world| !world.tricks.is_empty());
    world.move_by_hand(95, Some(3));
    world.run(4_000);
    assert_eq!((world.created, unknown(&world), is_uncertain(&world)), (2, [].into(), false));
}

#[test]
fn a_restart_takes_no_condition_about_unknown_addresses_back() {
    for trick in [Trick::Fine, Trick::Lost(true)] {
        let mut world = forgotten();
        world.edit("pool", |spec| spec.desired_ips = 3);
        world.tricks.push_back(trick);
        world.start();
        world.run_while(30, |world| !world.tricks.is_empty());
        world.run(2);
        assert!(is_uncertain(&world), "{trick:?}");
        world.start();
        for _ in 0..100 {
            world.run(1);
            assert!(is_uncertain(&world), "{trick:?}");
        }
        assert_eq!(world.created, 3);
    }
}
