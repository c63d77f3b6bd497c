//! Which records stay while nodes or addresses are unknown, and what statuses say of them.

use crate::dns::pool;
use crate::faults::nodes_key;
use crate::world::{PROVIDER, World, ip};
use crate::zones::{DnsTrick, external, set_spec};
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, Observed, WriteFailure};

const WWW: &str = "www.example.com";

fn kinds(world: &World) -> Vec<&str> {
    world.set_status("set").conditions.iter().map(|condition| condition.kind.as_str()).collect()
}

#[test]
fn a_set_whose_nodes_could_never_be_watched_says_so() {
    let mut world = World::new();
    world.hold_watches = true;
    world.add_record_set("set", set_spec("www"));
    world.start();
    world.observe(Input::WatchTrouble(nodes_key(), Some("nodes is forbidden".into())));
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "WatchFailing"]);
    // The status names the cause, and follows it.
    for cause in ["nodes is forbidden", "the API server cannot be reached"] {
        world.observe(Input::WatchTrouble(nodes_key(), Some(cause.into())));
        world.run(10);
        let ready = &world.set_status("set").conditions[0];
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "NodesUnread"));
        assert_eq!(ready.message, format!("nodes or pods have not been read yet: {cause}"));
    }
    assert_eq!((world.dns.reads, world.dns.applies.len()), (0, 0));
    world.set_node(1, true);
    world.hold_watches = false;
    world.observe(Input::WatchTrouble(nodes_key(), None));
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "SpecValid"]);
    assert_eq!(world.set_status("set").conditions[0].reason, "Published");
}

#[test]
fn after_a_restart_a_set_whose_nodes_cannot_be_watched_says_so_beside_what_was_true_of_it() {
    let mut world = World::with_set(2);
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "SpecValid"]);
    world.hold_watches = true;
    world.lead_again();
    for trouble in ["nodes is forbidden", "nodes hang"] {
        world.observe(Input::WatchTrouble(nodes_key(), Some(trouble.into())));
        world.run(10);
        assert_eq!(kinds(&world), ["Ready", "SpecValid", "WatchFailing"]);
        let status = world.set_status("set");
        assert!(status.conditions[2].message.contains(trouble), "{status:?}");
        assert_eq!((status.state.as_str(), &status.addresses), ("active", &vec![external(1), external(2)]));
    }
    world.observe(Input::WatchTrouble(nodes_key(), None));
    world.hold_watches = false;
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "SpecValid"]);
    assert_eq!(world.dns.applies.len(), 1);
}

#[test]
fn what_was_written_is_built_on_before_a_watch_shows_it() {
    let mut world = World::with_set(1);
    world.run(10);
    let writes = world.status_writes;
    world.faults.mute = true;
    for n in 2..=4 {
        world.set_node(n, true);
        world.run(10);
    }
    assert_eq!(world.set_status("set").addresses.len(), 4);
    assert_eq!(world.status_writes, writes + 3, "none met with a conflict");
}

#[test]
fn a_watch_event_that_our_own_write_overtook_takes_nothing_back() {
    let mut world = World::with_set(1);
    let old = world.record_sets["set"].clone();
    world.run(10);
    let writes = world.status_writes;
    world.observe(Input::RecordSets(Observed::Apply(old)));
    world.set_node(2, true);
    world.run(10);
    assert_eq!(world.set_status("set").addresses.len(), 2);
    assert_eq!(world.status_writes, writes + 1, "none met with a conflict");
}

#[test]
fn trouble_that_a_former_process_has_told_is_no_event_again() {
    let mut world = World::with_set(1);
    world.dns.add(PROVIDER, "example.com", WWW, "CNAME", "elsewhere.example.com");
    world.run(10);
    let told = |world: &World| world.events_of("CNAME").len();
    assert_eq!(told(&world), 1);
    world.start();
    world.run(60);
    assert_eq!(told(&world), 1);
    assert!(world.set_status("set").error.contains("CNAME"));
}

#[test]
fn an_address_of_which_a_new_process_knows_nothing_yet_stays_published() {
    let mut world = pool(2, 2);
    world.run(20);
    world.faults.unlisted.insert(ip(2));
    world.faults.gets = Some(FaultKind::Transient);
    world.start();
    world.run(60);
    assert_eq!(world.published(WWW), [1, 2]);
    world.faults.gets = None;
    world.cloud.remove(&ip(2));
    world.run(120);
    assert_eq!(world.published(WWW), [1], "now it is known to be gone");
}

#[test]
fn a_pool_whose_nodes_are_not_known_yet_empties_no_name() {
    let mut world = pool(2, 2);
    world.edit("pool", |spec| spec.record_set.as_mut().unwrap().when_empty = "Delete".into());
    world.run(20);
    let applies = world.dns.applies.len();
    world.hold_watches = true;
    world.start();
    world.run(120);
    assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![1, 2], applies));
}

/// A record set of no node whose status says `Empty`.
fn told_empty() -> World {
    let mut world = World::with_set(0);
    world.run(20);
    assert_eq!(world.set_status("set").state, "active");
    world
}

#[test]
fn first_records_wait_until_the_status_no_longer_says_that_there_are_none() {
    let mut world = told_empty();
    let begun = world.now;
    world.set_node(1, true);
    world.run_while(10, |world| world.published(WWW).is_empty());
    assert!(world.now.millis_since(begun) < 500);
    assert_eq!(world.set_status("set").state, "in-progress", "a new leader knows of them now");
    world.set_node(1, false);
    world.start();
    world.run(660);
    assert_eq!(world.published(WWW), [0; 0]);
}

#[test]
fn first_records_do_not_wait_for_long_for_a_status_that_cannot_be_written() {
    for kept in [false, true] {
        let mut world = told_empty();
        if kept {
            world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().when_empty = "Keep".into());
            world.run(20);
        }
        let begun = world.now;
        (0..9)
            .for_each(|_| world.faults.status_writes.push_back(WriteFailure::Transient("a timeout".into())));
        world.set_node(1, true);
        world.run_while(10, |world| world.published(WWW).is_empty());
        let took = world.now.millis_since(begun);
        // The records of a set with Keep are never deleted, so nobody relies on its status.
        let expected = if kept { 200..500 } else { 1_900..2_200 };
        assert!(expected.contains(&took), "{kept}: {took} ms");
        // Later records do not wait.
        let begun = world.now;
        world.set_node(2, true);
        world.run_while(10, |world| world.published(WWW).len() < 2);
        assert!(world.now.millis_since(begun) < 500);
    }
}

#[test]
fn first_records_wait_as_well_while_it_is_not_known_whether_the_status_says_that_there_are_none() {
    let mut world = World::with_set(1);
    world.run(60);
    world.faults.status_writes.push_back(WriteFailure::Transient("a timeout".into()));
    world.set_node(1, false);
    world.run_while(10, |world| !world.faults.status_writes.is_empty());
    assert_eq!((world.published(WWW), world.set_status("set").addresses.len()), (vec![], 1));
    world.set_node(1, true);
    world.run_while(10, |world| world.published(WWW).is_empty());
    assert_eq!(world.set_status("set").state, "in-progress");
}

#[test]
fn a_name_is_told_to_be_empty_only_after_a_second_look() {
    let mut world = World::with_set(0);
    world.run(4);
    assert_eq!(world.set_status("set").state, "in-progress");
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
    world.run(660);
    assert_eq!((world.published(WWW), world.set_status("set").state.as_str()), (vec![], "active"));
}

#[test]
fn a_spec_that_nobody_could_follow_yet_is_not_said_to_be_followed() {
    let mut world = World::with_set(2);
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "SpecValid"]);
    world.hold_watches = true;
    world.edit_set("set", |spec| spec.matching.node_label = "a=b".into());
    world.run(1);
    for key in world.fleet.watches() {
        world.observe(Input::WatchTrouble(key, Some("nodes is forbidden".into())));
    }
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "WatchFailing"]);
    assert_eq!(world.set_status("set").conditions[0].reason, "NodesUnread");
}

#[test]
fn a_node_that_goes_at_any_moment_after_it_came_leaves_nothing_published() {
    for after_ms in (0..1_000).step_by(10) {
        for trick in [DnsTrick::Fine, DnsTrick::Slow(300), DnsTrick::Lost(0), DnsTrick::Lost(1)] {
            let mut world = World::with_set(1);
            world.run(60);
            world.set_node(1, false);
            world.run(60);
            assert_eq!(world.published(WWW), [0; 0]);
            world.dns.tricks.push_back(trick);
            world.set_node(1, true);
            world.run_until(world.now.plus_millis(after_ms));
            world.set_node(1, false);
            world.run(60);
            let status = world.set_status("set");
            let told = (status.state.as_str(), status.addresses.len());
            assert_eq!((world.published(WWW), told), (vec![], ("active", 0)), "{after_ms} {trick:?}");
        }
    }
}

/// First records do not wait for long. If the status could not be written, it still says that nothing is published.
#[test]
fn a_record_that_the_status_could_not_tell_before_a_take_over_stays_until_the_next_change() {
    let mut world = World::with_set(1);
    world.run(60);
    world.set_node(1, false);
    world.run(60);
    let failure = WriteFailure::Transient("a timeout".into());
    world.faults.status_writes.extend([failure.clone(), failure]);
    world.set_node(1, true);
    world.run_until(world.now.plus_millis(2_020));
    let addresses = |world: &World| world.set_status("set").addresses.len();
    assert_eq!((world.published(WWW), addresses(&world)), (vec![1], 0));
    world.start();
    world.set_node(1, false);
    world.run(60);
    // The new leader believes that others wrote the record.
    assert_eq!((world.published(WWW), addresses(&world)), (vec![1], 0));
    assert_eq!(world.set_status("set").conditions[0].reason, "NoMatchingNode");
    world.set_node(1, true);
    world.run(10);
    assert_eq!((world.published(WWW), addresses(&world)), (vec![1], 1));
    world.set_node(1, false);
    world.run(60);
    assert_eq!((world.published(WWW), addresses(&world)), (vec![], 0));
}

#[test]
fn nothing_is_said_of_a_set_while_its_nodes_are_only_not_read_yet() {
    let mut world = World::with_set(1);
    world.run(10);
    let told = world.set_status("set").clone();
    world.hold_watches = true;
    world.start();
    world.edit_set("set", |spec| spec.matching.node_label = "a=b".into());
    world.run(60);
    assert_eq!(world.set_status("set"), &told);
}
