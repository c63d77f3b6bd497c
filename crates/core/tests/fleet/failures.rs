//! Failed assignments: what they say about address and node, what users read, and what stays in the status while little
//! is known.

use crate::world::{Trick, World, droplet, ip};
use flipop_core::model::FaultKind;

#[test]
fn the_provider_being_busy_speaks_against_neither_address_nor_node() {
    for kind in [FaultKind::InProgress, FaultKind::Throttled] {
        let mut world = World::with(1, 2);
        world.tricks.push_back(Trick::Refused(kind));
        world.run(30);
        assert_eq!(world.holder(1), Some(ip(1)), "{kind}: the node is still the first");
    }
    for (kind, on_first) in [(FaultKind::InProgress, 1), (FaultKind::Transient, 2)] {
        let mut world = World::with(2, 1);
        world.tricks.push_back(Trick::Refused(kind));
        world.run(30);
        assert_eq!(world.holder(1), Some(ip(on_first)), "{kind}");
    }
}

#[test]
fn a_node_that_refused_an_assignment_goes_behind_those_that_wait() {
    for (trick, behind) in [
        (Trick::Refused(FaultKind::NotFound), true),
        (Trick::Refused(FaultKind::NodeInUse), true),
        (Trick::Refused(FaultKind::Invalid), true),
        (Trick::Refused(FaultKind::Permanent), true),
        (Trick::Errored, true),
        (Trick::Refused(FaultKind::Transient), false),
        (Trick::Refused(FaultKind::Quota), false),
    ] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(trick);
        world.run_until(world.now.plus_millis(300));
        world.set_node(2, true);
        world.set_node(3, true);
        world.run(200);
        let first = if behind { 2 } else { 1 };
        assert_eq!(world.holder(first), Some(ip(1)), "{trick:?}: {:?}", world.calls);
        // All waits after the refusal are over.
        world.set_node(first, false);
        world.run(10);
        assert_eq!(world.holder(first + 1), Some(ip(1)), "{trick:?}: {:?}", world.calls);
    }
}

#[test]
fn a_droplet_that_is_busy_five_times_is_tried_again_and_a_free_node_does_not_wait_for_it() {
    let mut alone = World::with(1, 1);
    alone.tricks.extend([Trick::Refused(FaultKind::InProgress); 5]);
    alone.run(120);
    assert_eq!((alone.holder(1), alone.assigns), (Some(ip(1)), 6), "{:?}", alone.calls);
    let mut world = World::with(1, 2);
    world.faults.broken_droplets.insert(droplet(1), Trick::Refused(FaultKind::InProgress));
    world.run(5);
    assert_eq!((world.holder(2), world.assigns), (Some(ip(1)), 3), "{:?}", world.calls);
    for world in [&alone, &world] {
        assert_eq!(world.status("pool").node_errors, [""; 0]);
    }
}

#[test]
fn a_ready_node_whose_droplet_is_gone_is_named_and_another_gets_the_address() {
    let mut world = World::with(1, 2);
    world.faults.broken_droplets.insert(droplet(1), Trick::Refused(FaultKind::NotFound));
    world.run(3);
    assert_eq!((world.holder(2), world.assigns), (Some(ip(1)), 2));
    world.add_ip(2);
    world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
    world.run(3_600);
    assert_eq!(world.status("pool").node_errors, ["node-1"]);
    let told = |kind: &str| {
        let conditions = &world.status("pool").conditions;
        conditions
            .iter()
            .find(|told| told.kind == kind)
            .map(|told| (told.reason.clone(), told.message.clone()))
    };
    let (reason, message) = told("NodesBlocked").unwrap();
    assert!(reason == "AssignmentFailed" && message.contains("node-1"), "{message}");
    assert!(world.assigns <= 12, "the waits grow: {}", world.assigns);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn an_address_that_two_nodes_refuse_as_invalid_is_offered_to_no_third() {
    for (kind, tries) in [(FaultKind::Invalid, 2), (FaultKind::NodeInUse, 4)] {
        let mut world = World::with(1, 4);
        world.tricks.extend([Trick::Refused(kind); 20]);
        world.run(30);
        assert_eq!(world.assigns, tries, "{kind}");
    }
}

#[test]
fn failures_and_successes_are_counted_and_told() {
    for (kind, told) in [(FaultKind::Permanent, 1), (FaultKind::InProgress, 0)] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(Trick::Refused(kind));
        world.run(10);
        let entry = world.entry("pool", 1);
        let error = if told == 1 { format!("{kind}: {kind} by a trick") } else { String::new() };
        let state = if told == 1 { "error" } else { "active" };
        assert_eq!((entry.state.as_str(), entry.error.as_str()), (state, error.as_str()));
        world.run(100);
        assert_eq!(world.entry("pool", 1).error, "");
        let counted = &world.fleet.snapshot().pools[0].ips[0];
        assert_eq!((counted.assignments, counted.errors), (1, told));
        let notices = |reason: &str| world.events_of(reason).len();
        assert_eq!((notices("Assigned"), notices("AssignmentFailed")), (1, usize::from(told == 1)));
    }
}

#[test]
fn an_address_on_its_way_is_told_with_its_node() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Slow(100));
    world.run(10);
    let entry = world.entry("pool", 1);
    assert_eq!((entry.state.as_str(), entry.node_name.as_str()), ("in-progress", "node-1"));
}

#[test]
fn a_move_that_fails_or_is_undecided_says_where_the_address_is_and_what_happens_next() {
    for (trick, reads, next) in [
        (Trick::Slow(100), None, "the provider is moving it to node-2"),
        (
            Trick::Lost(false),
            Some(FaultKind::Transient),
            "outcome unknown (Transient by a trick), read again at 00:17:48 UTC",
        ),
        (
            Trick::Lost(false),
            Some(FaultKind::Unauthorized),
            "outcome unknown (Transient by a trick), read again when the token works",
        ),
        (Trick::Refused(FaultKind::Quota), None, "tried again at 00:18:41 UTC (Quota: Quota by a trick)"),
    ] {
        let mut world = World::with(1, 1);
        world.set_node(2, true);
        world.run(60);
        world.tricks.push_back(trick);
        world.set_node(1, false);
        world.run_while(2, |world| world.assigns < 2);
        world.faults.reads = reads;
        world.run(6);
        let details = &world.details().ips[&ip(1)];
        assert_eq!((details.node.as_str(), details.next.as_str()), ("node-1", next));
        assert_eq!(details.provider_id, "digitalocean://101");
        let moves = !matches!(trick, Trick::Refused(_));
        assert_eq!(details.target, if moves { "node-2" } else { "" }, "{trick:?}");
    }
}

#[test]
fn a_node_whose_assignment_failed_says_when_it_is_tried_again() {
    let mut world = World::with(1, 0);
    world.tricks.push_back(Trick::Refused(FaultKind::NodeInUse));
    world.set_node(1, true);
    world.run_while(2, |world| world.assigns < 1);
    world.run(1);
    let [(node, why, Some(at))] = &world.details().line[..] else { panic!("no time") };
    assert!(node == "node-1" && why.starts_with("the last assignment failed"), "{node}: {why}");
    world.run_while(100, |world| world.assigns < 2);
    assert!(world.now.millis_since(*at) <= 200 && world.now >= *at, "{at:?}, {:?}", world.now);
}

#[test]
fn which_nodes_wait_stays_told_while_nodes_or_addresses_are_not_known() {
    let restarts: [fn(&mut World); 3] = [
        |world| world.hold_watches = true,
        |world| world.faults.lists = Some(FaultKind::Transient),
        |world| world.edit("pool", |spec| spec.matching.node_label = "a in".into()),
    ];
    for (number, restart) in restarts.into_iter().enumerate() {
        let mut world = World::with(1, 3);
        world.run(10);
        assert_eq!(*world.status("pool").assignable_nodes, ["node-2", "node-3"]);
        restart(&mut world);
        world.start();
        for _ in 0..60 {
            world.run(1);
            assert_eq!(*world.status("pool").assignable_nodes, ["node-2", "node-3"], "{number}");
        }
    }
}

#[test]
fn a_poll_that_fails_for_a_while_is_repeated_and_asks_for_nothing_else() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Slow(60));
    world.run_while(10, |world| world.assigns == 0);
    let from = world.now;
    world.run(1);
    world.faults.reads = Some(FaultKind::Transient);
    world.run(20);
    assert_eq!(world.count(from, "get"), 0, "{:?}", world.calls);
    assert!(world.count(from, "poll") > 1, "{:?}", world.calls);
    world.faults.reads = None;
    world.run(120);
    assert_eq!((world.holder(1), world.assigns), (Some(ip(1)), 1));
}

#[test]
fn an_accepted_action_that_polls_do_not_know_goes_to_one_node_only() {
    for (seconds, in_time) in [(10, true), (55, true), (200, false)] {
        let mut world = World::with(1, 3);
        world.faults.polls = Some(FaultKind::NotFound);
        world.tricks.push_back(Trick::Slow(seconds));
        world.run(60);
        assert_eq!(world.assigns, 1, "{seconds}");
        world.run(20);
        assert_eq!(world.assigns == 1, in_time, "another node is tried after a minute, and no sooner");
        assert!(world.events_of("MovedByOthers").is_empty(), "{seconds}: {:?}", world.events);
        if in_time {
            assert_eq!(world.entry("pool", 1).state, "active", "{seconds}");
        }
    }
}
