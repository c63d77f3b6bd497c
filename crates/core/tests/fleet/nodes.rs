//! Nodes that change unexpectedly: two nodes of one droplet, nodes made again under their names, nodes gone from a
//! filter.

use crate::faults::{ELSEWHERE, nodes_key, spec_of};
use crate::world::{Trick, World, ip};
use crate::zones::set_spec;
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, Observed, WriteFailure};

#[test]
fn two_nodes_of_one_droplet_share_its_address_and_nothing_moves() {
    let mut world = World::with(3, 2);
    world.run(10);
    // The kubelet registered anew under another name; the old node is still Ready for some seconds.
    world.set_node_on(7, 1);
    world.run(120);
    assert_eq!((world.assigns, world.total("unassign")), (2, 0));
    world.delete_node(1);
    world.run(10);
    assert_eq!(world.annotations["node-7"], ip(1).to_string());
    assert_eq!(world.assigns, 2);
}

#[test]
fn of_two_ready_nodes_of_one_droplet_the_older_one_counts() {
    let mut world = World::with(2, 2);
    world.run(10);
    let annotated = |world: &World| world.annotations.keys().cloned().collect::<Vec<_>>();
    let blocked = |world: &World| {
        let blocked = world.condition("pool", "NodesBlocked");
        blocked.map(|blocked| (blocked.reason.clone(), blocked.message.clone()))
    };
    let shared = Some((
        "SharedMachine".to_owned(),
        "node-0: the older node node-1 has the same spec.providerID and is Ready, so it counts in its place; delete the \
         Node that is not on this droplet"
            .to_owned(),
    ));
    // Somebody registers a node, whose name is even the first one, with the droplet of another.
    world.set_node_on(0, 1);
    world.run(55);
    assert_eq!((blocked(&world), annotated(&world)), (None, vec!["node-1".into(), "node-2".into()]));
    world.run(10);
    assert_eq!(blocked(&world), shared);
    world.start();
    world.run(10);
    assert_eq!(blocked(&world), shared, "a new leader knows it at once");
    // Its failure is nobody's.
    world.set_node_on_as(0, 1, false);
    world.run(60);
    assert_eq!((blocked(&world), annotated(&world)), (None, vec!["node-1".into(), "node-2".into()]));
    // Where the older one goes, the younger one was its replacement.
    world.set_node_on(0, 1);
    world.set_node(1, false);
    world.run(60);
    assert_eq!((blocked(&world), annotated(&world)), (None, vec!["node-0".into(), "node-2".into()]));
    world.set_node(1, true);
    world.run(60);
    assert_eq!((blocked(&world), annotated(&world)), (shared, vec!["node-1".into(), "node-2".into()]));
    assert_eq!((world.assigns, world.total("unassign")), (2, 0));
}

#[test]
fn of_two_nodes_of_one_droplet_only_the_older_one_gets_an_address() {
    let mut world = World::with(2, 0);
    world.set_node_on(0, 1);
    world.set_node_on(1, 1);
    let ips = world.pools["pool"].spec.clone().unwrap().ips;
    world.edit("pool", |spec| spec.ips.clear());
    world.run(70);
    world.edit("pool", |spec| spec.ips = ips);
    world.run(120);
    assert_eq!(
        (world.assigns, world.annotations.keys().collect::<Vec<_>>()),
        (1, vec![&"node-0".to_owned()])
    );
    assert_eq!(world.status("pool").node_errors.len(), 1);
}

#[test]
fn a_pool_of_another_provider_waits_for_machines_of_that_provider() {
    let mut world = World::with(1, 3);
    world.run(10);
    world.edit("pool", |spec| spec.provider = ELSEWHERE.into());
    world.run(10);
    let waits = world.waits();
    let no_server = |(_, why): &(String, String)| why.contains("is not of the form elsewhere://<server id>");
    assert!(waits.len() >= 2 && waits.iter().all(no_server), "{waits:?}");
}

#[test]
fn a_node_made_again_under_its_name_is_another_one() {
    let mut world = World::with(1, 1);
    world.run(10);
    // The deletion was not seen.
    world.replace_node(1, 2);
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(1)));
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
    // The same droplet, registered anew.
    world.replace_node(1, 2);
    world.run(10);
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
    assert_eq!(world.assigns, 2);
}

#[test]
fn a_node_that_stops_matching_while_the_account_is_unknown_loses_its_annotation() {
    let mut world = World::with(2, 2);
    world.run(10);
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.run(60);
    world.set_node(1, false);
    world.run(5);
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2"]);
    world.set_node(1, true);
    world.faults.reads = None;
    world.run(70);
    assert_eq!((world.annotations.len(), world.assigns), (2, 2));
}

#[test]
fn an_annotation_that_cannot_be_written_is_tried_until_it_can() {
    for failure in [
        WriteFailure::Transient("try again".into()),
        WriteFailure::Forbidden("nodes".into()),
        WriteFailure::Conflict,
        WriteFailure::Gone,
        WriteFailure::NotSent,
    ] {
        let mut world = World::with(1, 1);
        world.faults.annotations.push_back(failure.clone());
        world.run(30);
        let denied = |world: &World| world.has("pool", "AnnotationsDenied");
        assert_eq!(denied(&world), matches!(failure, WriteFailure::Forbidden(_)));
        world.run(60);
        assert_eq!(world.annotations.len(), 1, "{failure:?}");
        assert!(!denied(&world));
    }
}

#[test]
fn annotations_are_called_denied_only_while_one_is_wanted_that_was_refused() {
    let told = |world: &World| {
        let told = |pool| world.has(pool, "AnnotationsDenied");
        assert_eq!(told("pool"), told("refused"), "a pool that nothing else concerns says it too");
        told("pool")
    };
    let mut world = World::with(1, 1);
    world.run(10);
    (0..100).for_each(|_| world.faults.annotations.push_back(WriteFailure::Forbidden("nodes".into())));
    world.add_ip(2);
    world.set_node(2, true);
    world.add_pool("refused", spec_of([2]));
    world.run(30);
    assert!(told(&world));
    // Another kind of failure in between changes nothing.
    world.faults.annotations.clear();
    world.faults.annotations.push_back(WriteFailure::Transient("a timeout".into()));
    (0..100).for_each(|_| world.faults.annotations.push_back(WriteFailure::Forbidden("nodes".into())));
    world.run(200);
    assert!(told(&world));
    world.set_node(2, false);
    world.run(5);
    assert!(!told(&world), "no node is to be annotated any more");
}

#[test]
fn a_new_leader_annotates_nothing_before_it_has_read_the_nodes() {
    let mut world = World::with(1, 2);
    world.run(10);
    world.hold_watches = true;
    world.move_by_hand(1, Some(2));
    world.lead_again();
    world.run(120);
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-1"], "of nodes nothing is known yet");
    world.hold_watches = false;
    world.run(70);
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2"]);
    assert_eq!(world.assigns, 1);
}

#[test]
fn a_foreign_address_is_named_even_after_the_provider_refused_its_node() {
    let mut world = World::with(1, 1);
    world.run(60);
    world.set_node(1, false);
    world.set_node(2, true);
    world.add_ip(99);
    world.move_by_hand(99, Some(2));
    world.run(5);
    let status = world.status("pool");
    assert_eq!(status.node_errors, ["node-2"]);
    assert!(
        status.conditions.iter().any(|c| c.reason == "ForeignAddress" && c.message.contains("192.0.2.99")),
        "{:?}",
        status.conditions
    );
}

#[test]
fn an_old_address_that_may_have_been_moved_is_not_taken_off() {
    let mut world = World::with(2, 1);
    world.run(60);
    // Somebody moved it. The list has shown that, and the second read fails.
    world.move_by_hand(1, Some(9));
    world.moved.insert(ip(2));
    world.faults.gets = Some(FaultKind::Transient);
    world.run(50);
    world.edit("pool", |spec| {
        spec.desired_ips = 1;
        spec.ips.reverse();
    });
    world.run(3);
    assert_eq!(world.total("unassign"), 0, "{:?}", world.calls);
    world.faults.gets = None;
    world.run(60);
    assert_eq!((world.holder(1), world.holder(9)), (Some(ip(2)), Some(ip(1))));
}

#[test]
fn a_droplet_with_an_assignment_of_another_pool_is_claimed() {
    let mut world = World::with(1, 1);
    world.add_ip(2);
    world.tricks.push_back(Trick::Slow(30));
    world.add_pool("younger", spec_of([2]));
    world.run(10);
    assert_eq!(world.assigns, 1);
    assert_eq!(*world.status("younger").assignable_nodes, ["node-1"]);
    world.set_node(2, true);
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(2)));
}

#[test]
fn a_flapping_node_keeps_its_address_while_nobody_needs_it() {
    let mut world = World::with(2, 2);
    world.run(10);
    for step in 0..200 {
        world.set_node(1, step % 2 == 0);
        world.run(1 + step % 7);
    }
    world.set_node(1, true);
    world.run(30);
    assert_eq!((world.assigns, world.annotations.len()), (2, 2));
}

#[test]
fn an_annotation_that_somebody_changed_is_put_right_at_once() {
    let mut world = World::with(1, 1);
    world.run(60);
    for by_hand in [None, Some("198.51.100.7".to_owned())] {
        match by_hand {
            None => drop(world.annotations.remove("node-1")),
            Some(value) => drop(world.annotations.insert("node-1".into(), value)),
        }
        world.set_node(1, true);
        world.run(1);
        assert_eq!(world.annotations["node-1"], ip(1).to_string());
    }
    assert_eq!(world.status_writes, 2, "one when it was sent, one when it was done");
}

#[test]
fn values_of_others_stay_on_nodes_that_no_pool_confirms() {
    let mut world = World::with(1, 2);
    world.annotations.insert("node-2".into(), "198.51.100.7".into());
    world.foreign.insert("node-2".into());
    world.start();
    world.run(700);
    assert_eq!(world.annotations["node-2"], "198.51.100.7");
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
}

#[test]
fn after_a_gap_in_the_leadership_nothing_is_assigned_before_the_nodes_are_listed_again() {
    let mut world = World::with(1, 2);
    world.run(60);
    world.add_ip(2);
    world.hold_watches = true;
    world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
    // Nobody knows the present state of node-2.
    world.lead_again();
    world.run(60);
    assert_eq!(world.assigns, 1, "{:?}", world.calls);
    world.hold_watches = false;
    world.run(10);
    assert_eq!((world.assigns, world.holder(2)), (2, Some(ip(2))));
}

#[test]
fn a_pool_that_was_deleted_while_the_watch_was_cut_is_gone() {
    let mut world = World::with(1, 1);
    world.add_pool("younger", spec_of([1]));
    world.run(10);
    assert_eq!(world.annotations.len(), 1);
    world.pools.remove("pool");
    world.observe(Input::Pools(Observed::Reset(world.pools.values().cloned().collect())));
    world.run(10);
    assert_eq!(world.entry("younger", 1).state, "active", "the claim went with it");
    world.pools.clear();
    world.observe(Input::Pools(Observed::Reset(Vec::new())));
    world.run(10);
    assert!(world.annotations.is_empty());
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
}

/// Faults of an address that prevent its assignment.
const BROKEN: [Trick; 6] = [
    Trick::Errored,
    Trick::Lost(false),
    Trick::Refused(FaultKind::Transient),
    Trick::Refused(FaultKind::Invalid),
    Trick::Refused(FaultKind::Permanent),
    Trick::Refused(FaultKind::NotFound),
];

#[test]
fn a_broken_address_keeps_no_node_from_a_good_one() {
    for trick in BROKEN {
        let mut world = World::with(2, 1);
        world.faults.broken = Some((ip(1), trick));
        world.run(600);
        assert_eq!(world.holder(1), Some(ip(2)), "{trick:?}: {:?}", world.calls);
        // The address is tried again once it works and a node has room.
        world.faults.broken = None;
        world.set_node(2, true);
        world.run(700);
        assert_eq!(world.holder(2), Some(ip(1)), "{trick:?}: {:?}", world.calls);
    }
}

#[test]
fn a_broken_spare_address_holds_up_no_failover() {
    for trick in BROKEN {
        let mut world = World::with(1, 1);
        world.run(10);
        world.add_ip(2);
        world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
        // Time for a list to show it.
        world.run(100);
        world.faults.broken = Some((ip(2), trick));
        world.set_node(1, false);
        world.set_node(2, true);
        world.run(600);
        assert_eq!(world.holder(2), Some(ip(1)), "{trick:?}: {:?}", world.calls);
    }
}

#[test]
fn with_a_cool_off_a_node_makes_room_only_when_its_next_address_may_come() {
    for cool_off in [0.0, 20.0] {
        let mut world = World::with(3, 3);
        world.edit("pool", |spec| spec.cool_off_seconds = cool_off);
        world.run(120);
        (4..=6).for_each(|n| world.add_ip(n));
        world.edit("pool", |spec| {
            spec.cool_off_seconds = cool_off;
            spec.ips = (4..=6).map(|n| ip(n).to_string()).collect();
        });
        world.moved.extend((1..=3).map(ip));
        let (mut bare, most) = (0, if cool_off > 0.0 { 1 } else { 3 });
        for _ in 0..2_000 {
            world.run_until(world.now.plus_millis(100));
            let without = (1..=3).filter(|n| world.holder(*n).is_none()).count();
            assert!(without <= most, "{without} nodes have no address");
            bare += without;
        }
        let new: std::collections::BTreeSet<_> = (1..=3).filter_map(|n| world.holder(n)).collect();
        assert_eq!(new, (4..=6).map(ip).collect(), "{:?}", world.calls);
        assert_eq!(world.assigns, 6);
        assert!(bare <= 3 * 15, "nodes had no address for {bare} tenths of a second");
    }
}

#[test]
fn a_node_that_never_gets_rid_of_its_address_holds_up_no_other() {
    let mut world = World::with(1, 1);
    world.edit("pool", |spec| spec.cool_off_seconds = 20.0);
    world.run(120);
    (2..=3).for_each(|n| world.add_ip(n));
    world.tricks.push_back(Trick::Slow(3_600));
    world.edit("pool", |spec| spec.ips = (2..=3).map(|n| ip(n).to_string()).collect());
    world.moved.insert(ip(1));
    world.run(100);
    assert_eq!(world.holder(1), Some(ip(1)), "{:?}", world.calls);
    world.set_node(2, true);
    world.run(30);
    assert!(world.holder(2).is_some(), "{:?}", world.calls);
}

#[test]
fn a_node_that_made_room_and_then_fits_no_more_holds_up_no_other() {
    let mut world = World::with(1, 1);
    world.edit("pool", |spec| spec.cool_off_seconds = 20.0);
    world.run(120);
    (2..=3).for_each(|n| world.add_ip(n));
    world.edit("pool", |spec| spec.ips = (2..=3).map(|n| ip(n).to_string()).collect());
    world.moved.insert(ip(1));
    world.run_while(100, |world| world.total("unassign") == 0);
    let mut node = world.nodes["node-1"].clone();
    node.region = Some("ams3".into());
    world.nodes.insert("node-1".into(), node.clone());
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    world.set_node(2, true);
    world.run(60);
    assert_eq!(world.holder(1), None, "{:?}", world.calls);
    assert!(world.holder(2).is_some(), "{:?}", world.calls);
}

#[test]
fn a_pool_that_comes_where_only_record_sets_were_annotates_its_nodes() {
    let mut world = World::with(1, 1);
    world.add_record_set("set", set_spec("www"));
    world.run(10);
    assert_eq!(world.annotations.len(), 1);
    // A standby sees the leader delete the pool, and leads next.
    world.stand_by();
    let spec = world.pools["pool"].spec.clone().unwrap();
    world.delete_pool("pool");
    world.annotations.clear();
    world.nodes.get_mut("node-1").unwrap().annotation = None;
    let node = world.nodes["node-1"].clone();
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    world.lead_again();
    world.observe(Input::Permit(true));
    world.run(10);
    world.add_pool("pool", spec);
    world.run(10);
    assert_eq!(world.annotations.get("node-1").map(String::as_str), Some("192.0.2.1"));
}

#[test]
fn a_node_made_again_while_the_account_is_unknown_is_not_annotated_with_the_other_machine_s_address() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.run(60);
    world.replace_node(1, 2);
    world.run(60);
    assert_eq!(world.annotations.len(), 0, "{:?}", world.annotations);
    assert_ne!(world.entry("pool", 1).state, "active");
    world.faults.reads = None;
    world.run(120);
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_node_that_was_in_use_is_served_at_once_when_what_stood_on_it_has_left() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.add_ip(9);
    world.move_by_hand(9, Some(2));
    // No read has shown the address when the node comes.
    world.set_node(2, true);
    world.set_node(1, false);
    world.run(5);
    let from = world.now;
    let waits = world.status("pool").node_errors.clone();
    assert_eq!((waits, world.holder(1)), (vec!["node-2".to_owned()], Some(ip(1))), "{:?}", world.calls);
    world.move_by_hand(9, None);
    // This is sooner than the minute after which it would be tried in any case.
    world.run(50);
    assert_eq!(world.holder(2), Some(ip(1)), "{:?}", world.status("pool"));
    assert_eq!(world.count(from, "assign"), 1);
}

#[test]
fn a_node_that_matches_again_while_its_address_goes_elsewhere_is_not_annotated_with_it() {
    let mut world = World::with(1, 1);
    world.run(20);
    world.tricks.push_back(Trick::Slow(20));
    world.set_node(2, true);
    world.set_node(1, false);
    world.run(5);
    world.set_node(1, true);
    world.run(5);
    assert_eq!((world.assigns, world.annotations.get("node-1")), (2, None), "{:?}", world.calls);
    world.run(60);
    assert_eq!(world.holder(2), Some(ip(1)));
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2"]);
}
