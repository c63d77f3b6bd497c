//! The provider's lists of records lag for longer than two looks take. A process does not believe that a record which
//! it has deleted itself is back.

use crate::world::World;
use crate::zones::{DnsTrick, set_spec};
use flipop_core::model::FaultKind;

const WWW: &str = "www.example.com";

/// A set of this many nodes at rest, and lists that lag by 20 s from now on.
fn lagging(nodes: u8) -> World {
    let mut world = World::with_set(nodes);
    world.run(60);
    world.dns.lag_ms = 20_000;
    world
}

#[test]
fn a_new_term_of_the_same_process_does_not_rely_on_what_it_deleted_before() {
    let mut world = lagging(2);
    world.set_node(2, false);
    world.run(2);
    assert_eq!(world.published(WWW), [1]);
    world.lead_again();
    world.set_node(2, true);
    world.run(8);
    world.set_node(1, false);
    world.run(60);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![2], 0));
}

#[test]
fn a_deletion_that_was_carried_out_before_another_failed_is_not_undone_by_a_list() {
    for trick in [DnsTrick::Refused(1, FaultKind::Transient), DnsTrick::Lost(1), DnsTrick::Lost(2)] {
        let mut world = lagging(3);
        world.dns.tricks.push_back(trick);
        world.set_node(2, false);
        world.set_node(3, false);
        world.run(1);
        world.set_node(1, false);
        world.set_node(2, true);
        world.run(60);
        assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![2], 0), "{trick:?}");
    }
}

#[test]
fn a_deletion_whose_reply_was_lost_is_repeated_at_once_where_another_record_stays_for_certain() {
    let mut world = World::with_set(2);
    world.run(60);
    world.dns.tricks.push_back(DnsTrick::Lost(0));
    world.set_node(2, false);
    world.run(10);
    assert_eq!(world.published(WWW), [1]);
}

#[test]
fn a_record_that_was_just_deleted_is_not_taken_to_be_there_again() {
    let mut world = World::with_set(1);
    world.run(60);
    world.dns.lag_ms = 2_000;
    world.set_node(1, false);
    world.run(1);
    world.dns.tricks.push_back(DnsTrick::Refused(0, FaultKind::Transient));
    world.set_node(1, true);
    world.run(3);
    assert_eq!((world.published(WWW), world.dns.tricks.len()), (vec![1], 0));
}

#[test]
fn an_object_that_is_made_anew_does_not_rely_on_what_the_former_one_deleted() {
    let mut world = lagging(2);
    world.set_node(2, false);
    world.run(2);
    world.delete_record_set("set");
    world.run(1);
    world.set_node(2, true);
    let reads = world.dns.reads;
    world.add_record_set("set", set_spec("www"));
    world.run(1);
    assert_eq!(world.dns.reads, reads + 1, "others may have changed the rest");
    world.run(7);
    world.set_node(1, false);
    world.run(60);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![2], 0));
}

/// The new leader sees a record that its predecessor has just deleted, and cannot look again.
#[test]
fn what_was_seen_once_and_never_again_is_written_before_all_others_are_deleted() {
    let mut world = World::with_set(3);
    world.run(60);
    world.dns.lag_ms = 4_900;
    world.set_node(3, false);
    world.run_until(world.now.plus_millis(300));
    assert_eq!(world.published(WWW), [1, 2]);
    world.start();
    world.run(3);
    world.dns.read_fault = Some(FaultKind::Transient);
    world.set_node(3, true);
    world.set_node(1, false);
    world.set_node(2, false);
    // This is longer than the wait for another look.
    world.run(60);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![1, 2], 0));
    world.dns.read_fault = None;
    world.run(600);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![3], 0));
}
