//! DNS records of a paused object. They stay as they are, except for work that was sent before. After the pause they
//! are read before they change.

use crate::dns::pool;
use crate::world::{PROVIDER, Trick, World, ip};
use crate::zones::{DnsTrick, external, set_spec};
use flipop_core::model::FaultKind;
use flipop_core::model::spec::RawRecordSet;

const WWW: &str = "www.example.com";
const WHY: &str = "incident 7";

#[test]
fn the_records_of_a_paused_set_stay_until_the_annotation_is_gone() {
    for text in ["incident 7", "", "false"] {
        for restart in [false, true] {
            let mut world = World::with_set(3);
            world.run(20);
            let applies = world.dns.applies.len();
            world.pause_set("set", Some(text));
            world.set_node(1, false);
            world.set_node(4, true);
            world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
            if restart {
                world.start();
            }
            world.run(1_300);
            let what = format!("{text:?}, restart {restart}");
            assert_eq!(
                (world.dns.applies.len(), world.published(WWW)),
                (applies, vec![9, 1, 2, 3]),
                "{what}"
            );
            assert_eq!(world.verdict("set", "Ready"), ("False", "Paused"), "{what}");
            assert_eq!(world.verdict("set", "Paused"), ("True", "Annotation"), "{what}");
            let told = world.set_status("set");
            assert_eq!((told.state.as_str(), told.addresses.len()), ("in-progress", 4), "{what}");
            world.pause_set("set", None);
            world.run(20);
            assert_eq!(world.published(WWW), [2, 3, 4], "{what}");
            assert_eq!(world.verdict("set", "Ready"), ("True", "Published"), "{what}");
            assert_eq!(world.condition("set", "Paused"), None, "{what}");
        }
    }
}

#[test]
fn a_paused_set_whose_records_are_right_is_ready_and_says_that_it_is_paused() {
    let mut world = World::with_set(2);
    world.run(20);
    world.pause_set("set", Some(WHY));
    let reads = world.dns.reads;
    world.run(1_300);
    assert_eq!(world.verdict("set", "Ready"), ("True", "Published"));
    assert!(world.message("set", "Paused").unwrap().ends_with(": incident 7"));
    assert_eq!(world.dns.reads, reads + 3, "reading goes on");
    let told: Vec<_> = world.events.iter().filter(|event| event.reason.as_str() == "Paused").collect();
    assert!(told.len() == 1 && told[0].message.ends_with(": incident 7"), "{told:?}");
}

#[test]
fn a_set_that_is_paused_from_the_start_publishes_nothing() {
    let mut world = World::bare(0, 2);
    world.add_record_set("set", set_spec("www"));
    world.pause_set("set", Some(WHY));
    world.start();
    world.run(60);
    assert_eq!((world.published(WWW), world.verdict("set", "Ready")), (vec![], ("False", "Paused")));
    world.pause_set("set", None);
    world.run(5);
    assert_eq!(world.published(WWW), [1, 2]);
}

#[test]
fn an_edit_of_a_paused_set_changes_no_record_anywhere() {
    let edits: [fn(&mut RawRecordSet); 3] =
        [|set| set.record_name = "other".into(), |set| set.ttl = 300, |set| set.when_empty = "Delete".into()];
    for (number, edit) in edits.into_iter().enumerate() {
        let mut world = World::with_set(2);
        world.run(20);
        let (applies, foreign) = (world.dns.applies.len(), world.dns.foreign(&[]));
        world.pause_set("set", Some(WHY));
        world.edit_set("set", |spec| edit(spec.record_set.as_mut().unwrap()));
        if number == 2 {
            (1..=2).for_each(|n| world.set_node(n, false));
        }
        world.run(1_300);
        assert_eq!((world.dns.applies.len(), world.dns.foreign(&[])), (applies, foreign), "edit {number}");
        world.pause_set("set", None);
        world.run(20);
        assert!(world.dns.applies.len() > applies, "edit {number}");
    }
}

#[test]
fn a_change_that_was_sent_is_finished_and_none_follows() {
    for trick in [DnsTrick::Fine, DnsTrick::Slow(5), DnsTrick::Lost(1), DnsTrick::Stopped(1)] {
        let mut world = World::with_set(2);
        world.run(20);
        world.dns.tricks.push_back(trick);
        (3..=4).for_each(|n| world.set_node(n, true));
        let applies = world.dns.applies.len();
        world.run_while(10, |world| world.dns.applies.len() == applies);
        world.pause_set("set", Some(WHY));
        world.run(700);
        assert_eq!(world.dns.applies.len(), applies + 1, "{trick:?}");
        let right = world.published(WWW) == [1, 2, 3, 4];
        let expected = if right { ("True", "Published") } else { ("False", "Paused") };
        assert_eq!(world.verdict("set", "Ready"), expected, "{trick:?}");
        world.pause_set("set", None);
        world.run(60);
        assert_eq!(world.published(WWW), [1, 2, 3, 4], "{trick:?}");
    }
}

#[test]
fn the_records_of_a_paused_pool_stay_and_its_conditions_say_why() {
    let mut world = pool(2, 3);
    world.run(70);
    world.pause("pool", Some(WHY));
    let applies = world.dns.applies.len();
    world.set_node(1, false);
    world.run(1_300);
    assert_eq!((world.dns.applies.len(), world.published(WWW)), (applies, vec![1, 2]));
    let told = world.condition("pool", "RecordSetReady").unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("False", "Paused"));
    assert!(told.message.ends_with("incident 7"), "{told:?}");
    world.pause("pool", None);
    world.run(5);
    assert_eq!((world.holder(3), world.published(WWW)), (Some(ip(1)), vec![1, 2]));
    assert_eq!(world.verdict("pool", "RecordSetReady").0, "True");
}

#[test]
fn a_move_that_was_sent_is_finished_with_its_record() {
    for delay_ms in (0..2_000).step_by(50) {
        let mut world = pool(2, 3);
        world.run(70);
        world.set_node(1, false);
        world.run_until(world.now.plus_millis(delay_ms));
        world.pause("pool", Some(WHY));
        let sent = world.assigns;
        world.run(120);
        assert_eq!((world.assigns, world.published(WWW)), (sent, vec![1, 2]), "after {delay_ms} ms");
    }
}

#[test]
fn the_record_of_a_move_that_was_sent_follows_even_when_dns_is_down_for_long_and_nothing_else_does() {
    let mut world = pool(2, 3);
    world.run(70);
    world.tricks.push_back(Trick::Slow(3));
    world.set_node(1, false);
    // The record goes while the address moves.
    world.run_while(10, |world| world.published(WWW).len() == 2);
    world.dns.tricks.push_back(DnsTrick::Refused(0, FaultKind::Transient));
    world.pause("pool", Some(WHY));
    world.run(120);
    assert_eq!(world.published(WWW), [1, 2]);
    // Its later fate is no part of the work that was sent.
    let applies = world.dns.applies.len();
    world.set_node(3, false);
    world.run(1_300);
    assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![1, 2], applies));
    assert_eq!(world.annotations["node-3"], ip(1).to_string());
}

#[test]
fn after_the_pause_the_records_are_read_before_the_first_change() {
    for (pools, wanted) in [(false, vec![2]), (true, vec![1, 2])] {
        let mut world = if pools { pool(2, 3) } else { World::with_set(2) };
        world.run(300);
        if pools {
            world.pause("pool", Some(WHY));
        } else {
            world.pause_set("set", Some(WHY));
            world.set_node(1, false);
        }
        world.run(5);
        // Somebody writes a record, and no read shows it before the end of the pause.
        world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
        let (reads, applies) = (world.dns.reads, world.dns.applies.len());
        world.dns.slow_ms = 3_000;
        if pools {
            world.pause("pool", None);
        } else {
            world.pause_set("set", None);
        }
        world.run(2);
        assert_eq!(world.dns.applies.len(), applies, "pool {pools}: nothing before the answer");
        assert!(world.dns.reads > reads, "pool {pools}");
        world.dns.slow_ms = 0;
        world.run(30);
        assert_eq!(world.published(WWW), wanted, "pool {pools}");
    }
}

#[test]
fn records_wait_for_the_list_of_the_account_after_a_pause() {
    let mut world = pool(2, 3);
    world.run(70);
    world.pause("pool", Some(WHY));
    world.set_node(1, false);
    world.run(5);
    world.faults.lists = Some(FaultKind::Transient);
    let applies = world.dns.applies.len();
    world.pause("pool", None);
    world.run(30);
    assert_eq!((world.dns.applies.len(), world.published(WWW)), (applies, vec![1, 2]));
}

#[test]
fn a_paused_set_keeps_its_name_against_a_younger_one() {
    let mut world = World::with_set(2);
    world.run(20);
    world.pause_set("set", Some(WHY));
    world.add_record_set("younger", set_spec("www"));
    world.set_node(3, true);
    world.run(60);
    assert_eq!(world.published(WWW), [1, 2]);
    let younger = world.set_status("younger");
    assert!(younger.conditions.iter().any(|condition| condition.reason == "NameClaimed"), "{younger:?}");
    // Deletion works as always, and the name passes to the next object.
    world.delete_record_set("set");
    world.run(20);
    assert_eq!(world.published(WWW), [1, 2, 3]);
}

#[test]
fn nodes_that_are_lost_meanwhile_are_told_without_a_promise() {
    let mut world = World::with_set(2);
    world.run(20);
    world.pause_set("set", Some(WHY));
    world.set_node(1, false);
    world.run(5);
    let told: Vec<_> = world.events.iter().filter(|event| event.reason.as_str() == "MatchLost").collect();
    assert!(told.len() == 1 && told[0].message.ends_with("while the object is paused"), "{told:?}");
    assert_eq!(world.set_status("set").addresses, [external(1), external(2)]);
}
