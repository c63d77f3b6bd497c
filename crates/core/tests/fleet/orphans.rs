//! Addresses that may be a pool's own although nothing is remembered of them.

use crate::creation::world;
use crate::world::{Trick, World, ip};
use flipop_core::fault::FaultKind;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// A pool of which spec and status were lost after it had bought two addresses; nobody runs yet.
fn forgotten() -> World {
    let mut world = world(2);
    world.run(20);
    world.pools.get_mut("pool").unwrap().status = flipop_core::pool::status::PoolStatus::default();
    world.edit("pool", |spec| spec.ips.clear());
    world
}

#[test]
fn with_spec_and_status_wiped_what_stands_on_candidates_is_named_and_not_bought_again() {
    let mut world = forgotten();
    world.start();
    world.run(200);
    assert_eq!(world.created, 2);
    let uncertain =
        world.status("pool").conditions.iter().any(|condition| condition.kind == "CreationUncertain");
    assert!(uncertain, "{:?}", world.status("pool").conditions);
    // A node that does not match for a while takes nothing back, whoever looks meanwhile.
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
    assert!(!world.status("pool").conditions.iter().any(|condition| condition.kind == "CreationUncertain"));
    assert_eq!((world.created, unknown(&world)), (2, [].into()));
}

fn unknown(world: &World) -> BTreeSet<Ipv4Addr> {
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
        assert!(world.status("pool").conditions.iter().any(|found| found.kind == "CreationUncertain"));
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
fn unknown_addresses_that_were_known_to_a_purchase_which_was_refused_stay_known() {
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
    // The Go operator's CRDs were there for a while, and the addresses were never written into the spec.
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
