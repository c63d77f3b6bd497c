//! Moves by hand: which ones are made, which ones are refused, and what users are told.

use crate::faults::spec_of;
use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::manual_move::result::{LastMove, MoveOutcome};
use flipop_core::model::spec::RawRecordSet;
use flipop_core::model::{FaultKind, WriteFailure};
use std::collections::BTreeSet;

/// From the first node to the third, which has none.
pub(crate) const REQUEST: &str = "192.0.2.1=node-3#1";

pub(crate) fn last(world: &World) -> &LastMove {
    world.status("pool").last_move.as_ref().unwrap()
}

pub(crate) fn outcome(world: &World) -> Option<MoveOutcome> {
    world.status("pool").last_move.as_ref().map(|last| last.outcome)
}

/// How many moves the provider was asked for.
pub(crate) fn moves(world: &World) -> usize {
    world.total("assign 192.0.2.1 node-3")
}

/// A world at rest: two addresses on the first two of three nodes.
pub(crate) fn settled() -> World {
    let mut world = World::with(2, 3);
    world.run(60);
    assert_eq!((world.holder(1), world.holder(2), world.holder(3)), (Some(ip(1)), Some(ip(2)), None));
    world
}

fn refused(world: &mut World, request: &str, why: &str) {
    let (before, warnings) = (world.assigns, world.events_of("MoveRefused").len());
    world.ask("pool", Some(request));
    world.run(30);
    assert_eq!(outcome(world), Some(MoveOutcome::Refused), "{request}: {:?}", last(world));
    assert!(last(world).message.contains(why), "{request}: {:?}", last(world));
    assert_eq!(last(world).request, request);
    assert_eq!(world.events_of("MoveRefused").len(), warnings + 1, "{request}");
    assert!(world.events.last().unwrap().message.contains(why), "{:?}", world.events.last());
    assert_eq!(world.assigns, before, "{request}");
}

#[test]
fn an_address_goes_where_it_is_asked_to_and_stays_there() {
    let mut world = settled();
    world.ask("pool", Some(REQUEST));
    let from = world.now;
    world.run(10);
    assert_eq!((world.holder(1), world.holder(3)), (None, Some(ip(1))));
    assert!(!world.annotations.contains_key("node-1"));
    assert_eq!(world.annotations["node-3"], ip(1).to_string());
    assert_eq!(*world.status("pool").assignable_nodes, ["node-1"]);
    let LastMove { request, ip: moved, from: left, to, time_s, outcome, message } = last(&world).clone();
    assert_eq!((request.as_str(), moved, outcome), (REQUEST, Some(ip(1)), MoveOutcome::Done));
    assert_eq!((left.as_str(), to.as_str(), message.as_str()), ("node-1", "node-3", ""));
    let began_s = i64::try_from(from.as_millis() / 1_000).unwrap();
    assert!((began_s..began_s + 10).contains(&time_s), "{time_s} {began_s}");
    assert_eq!(
        (world.events_of("Assigned").len(), world.events_of("MatchLost").len()),
        (3, 0),
        "one Event tells of it"
    );
    let (assigns, writes) = (world.assigns, world.status_writes);
    world.run(1_800);
    assert_eq!((world.assigns, world.status_writes), (assigns, writes), "nothing brings it back");
    let changes = world.fleet.snapshot().changes;
    let reasons: Vec<_> = changes.iter().map(|change| change.reason.clone()).collect();
    assert!(reasons.contains(&"moved by hand".to_owned()), "{reasons:?}");
}

#[test]
fn the_node_that_gave_it_up_takes_the_next_free_address_and_not_the_same_one() {
    let mut world = settled();
    world.add_ip(3);
    world.ask("pool", Some(REQUEST));
    world.run_while(10, |world| world.holder(3).is_none());
    world.edit("pool", |spec| spec.ips.push(ip(3).to_string()));
    world.run(30);
    assert_eq!((world.holder(1), world.holder(3)), (Some(ip(3)), Some(ip(1))));
    assert_eq!(world.assigns, 4);
    world.set_node(3, false);
    world.set_node(4, true);
    world.run(30);
    assert_eq!(world.holder(4), Some(ip(1)), "and a failover moves it like any other");
}

#[test]
fn nothing_is_sent_before_the_server_has_it_as_pending() {
    let mut world = settled();
    world.faults.held_status_writes = Some(Vec::new());
    world.ask("pool", Some(REQUEST));
    world.run(60);
    assert_eq!((moves(&world), outcome(&world)), (0, None));
    world.release_status_writes();
    world.run(5);
    assert_eq!((moves(&world), world.holder(3)), (1, Some(ip(1))));
}

#[test]
fn a_cool_off_is_waited_for_and_begun() {
    let mut world = settled();
    world.edit("pool", |spec| spec.cool_off_seconds = 100.0);
    world.run(50);
    world.set_node(2, false);
    world.set_node(4, true);
    world.run(5);
    let free = if world.holder(3) == Some(ip(2)) { 4 } else { 3 };
    world.ask("pool", Some(&format!("192.0.2.1=node-{free}")));
    world.run(20);
    let writes = world.status_writes;
    world.run(70);
    assert_eq!(world.status_writes, writes, "the status counts nothing down");
    assert_eq!((outcome(&world), world.holder(1)), (Some(MoveOutcome::Pending), Some(ip(1))));
    let why = "assignmentCoolOffSeconds has not passed since the last assignment, until 00:20:10 UTC";
    assert_eq!(last(&world).message, why, "users see what it waits for");
    assert_eq!(world.fleet.snapshot().pools[0].pending_move.as_ref(), Some(last(&world)));
    world.run(10);
    assert_eq!(last(&world).message, "");
    assert_eq!(world.fleet.snapshot().pools[0].pending_move, None);
    assert_eq!((outcome(&world), world.holder(free)), (Some(MoveOutcome::Done), Some(ip(1))));
    world.set_node(free, false);
    world.run(80);
    assert_eq!(world.holder(free), Some(ip(1)), "its own cool-off counts for the next");
    world.run(30);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn a_failover_goes_first() {
    let mut world = settled();
    world.set_node(4, true);
    world.edit("pool", |spec| spec.cool_off_seconds = 30.0);
    world.run(40);
    world.ask("pool", Some("192.0.2.1=node-4"));
    world.set_node(2, false);
    world.run(5);
    assert_eq!((world.holder(3), outcome(&world)), (Some(ip(2)), Some(MoveOutcome::Pending)));
    world.run(30);
    assert_eq!((world.holder(4), outcome(&world)), (Some(ip(1)), Some(MoveOutcome::Done)));
}

#[test]
fn a_failover_goes_first_when_both_have_waited_for_the_cool_off() {
    let mut world = settled();
    world.set_node(4, true);
    world.edit("pool", |spec| spec.cool_off_seconds = 30.0);
    world.run(40);
    world.set_node(2, false);
    world.run(5);
    assert_eq!(world.holder(3), Some(ip(2)), "the cool-off begins");
    world.set_node(2, true);
    world.ask("pool", Some("192.0.2.1=node-4"));
    world.run(5);
    assert_eq!(outcome(&world), Some(MoveOutcome::Pending));
    world.set_node(3, false);
    let from = world.now;
    world.run(40);
    let next = world.calls.iter().find(|(at, call)| *at >= from && call.starts_with("assign ")).unwrap();
    assert!(next.1.starts_with("assign 192.0.2.2 "), "{next:?}");
}

#[test]
fn what_is_under_way_on_the_address_or_the_node_is_waited_for() {
    let mut world = settled();
    world.cloud.get_mut(&ip(1)).unwrap().locked = true;
    world.run(60);
    world.ask("pool", Some(REQUEST));
    world.run(60);
    assert_eq!((moves(&world), outcome(&world)), (0, Some(MoveOutcome::Pending)), "the address is locked");
    world.cloud.get_mut(&ip(1)).unwrap().locked = false;
    world.run(90);
    assert_eq!((moves(&world), outcome(&world)), (1, Some(MoveOutcome::Done)));

    let mut world = settled();
    world.tricks.push_back(Trick::Slow(20));
    world.set_node(2, false);
    world.run(2);
    world.ask("pool", Some(REQUEST));
    world.run(10);
    assert_eq!(outcome(&world), Some(MoveOutcome::Pending), "an address is on its way to the node");
    world.run(30);
    assert_eq!(outcome(&world), Some(MoveOutcome::Refused));
    assert!(last(&world).message.contains("node-3 already has 192.0.2.2"), "{:?}", last(&world));

    let mut world = settled();
    world.add_ip(3);
    world.tricks.push_back(Trick::Slow(20));
    world.add_pool("other", spec_of([3]));
    world.run(2);
    world.ask("pool", Some(REQUEST));
    world.run(10);
    assert_eq!(outcome(&world), Some(MoveOutcome::Pending), "another pool's address is on its way there");
    world.run(30);
    assert_eq!((moves(&world), outcome(&world)), (0, Some(MoveOutcome::Refused)));
    assert!(last(&world).message.contains("node-3 already has 192.0.2.3"), "{:?}", last(&world));
}

#[test]
fn what_cannot_be_met_is_refused_for_good() {
    let mut world = settled();
    world.add_ip(7);
    world.add_pool("other", spec_of([7]));
    world.run(10);
    assert_eq!(world.holder(3), Some(ip(7)));
    world.set_node(4, true);
    world.set_node(5, false);
    world.set_node(6, true);
    world.nodes.get_mut("node-6").unwrap().region = Some("fra1".into());
    world.run(10);
    let far = world.nodes["node-6"].clone();
    world.observe(flipop_core::fleet::Input::Nodes(
        crate::faults::nodes_key(),
        flipop_core::model::facts::Observed::Apply(far),
    ));
    for (request, why) in [
        ("192.0.2.1", "no '='"),
        ("192.0.2.1=", "not a node name"),
        ("192.0.2.9=node-4", "not an address of the pool"),
        ("192.0.2.7=node-4", "belongs to the pool ns/other"),
        ("192.0.2.1=node-9", "no node named node-9"),
        ("192.0.2.1=node-5", "node-5 is not Ready"),
        ("192.0.2.1=node-2", "node-2 already has 192.0.2.2"),
        ("192.0.2.1=node-1", "node-1 already has 192.0.2.1"),
        ("192.0.2.1=node-3", "node-3 already has 192.0.2.7"),
        ("192.0.2.1=node-6", "different regions"),
    ] {
        refused(&mut world, request, why);
    }
    refused(&mut world, "192.0.2.1=node-5#2", "node-5 is not Ready");
    world.set_node(5, true);
    world.run(60);
    let writes = world.status_writes;
    world.start();
    world.run(300);
    assert_eq!((outcome(&world), world.holder(5)), (Some(MoveOutcome::Refused), None), "it is final");
    assert_eq!(world.status_writes, writes, "a new leader has nothing to add");
}

#[test]
fn an_address_that_is_disabled_or_gone_and_a_pool_that_is_frozen_move_nothing() {
    let mut world = settled();
    world.edit("pool", |spec| spec.desired_ips = 1);
    world.run(10);
    refused(&mut world, "192.0.2.2=node-3", "192.0.2.2 is disabled");
    world.edit("pool", |spec| spec.ips.insert(0, ip(9).to_string()));
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run(90);
    refused(&mut world, "192.0.2.9=node-3", "the account does not have 192.0.2.9");
    world.edit("pool", |spec| spec.matching.node_label = "a in".into());
    refused(&mut world, REQUEST, "frozen");
    world.edit("pool", |spec| spec.matching.node_label = String::new());
    world.run(60);
    assert_eq!(moves(&world), 0);
}

#[test]
fn a_foreign_address_or_one_that_another_pool_let_go_keeps_its_node() {
    let mut world = settled();
    world.add_foreign_ip(99, 3);
    world.run(60);
    refused(&mut world, REQUEST, "node-3 already has 192.0.2.99");
}

#[test]
fn the_same_request_is_not_met_twice_and_another_text_asks_anew() {
    let mut world = settled();
    world.ask("pool", Some(REQUEST));
    world.run(10);
    world.ask("pool", Some("192.0.2.1=node-1#back"));
    world.run(10);
    assert_eq!((outcome(&world), world.holder(1)), (Some(MoveOutcome::Done), Some(ip(1))));
    world.ask("pool", None);
    world.run(10);
    world.ask("pool", Some("192.0.2.1=node-1#back"));
    world.run(10);
    assert_eq!((outcome(&world), world.events_of("MoveIgnored").len()), (Some(MoveOutcome::Done), 1));
    assert!(world.events.last().unwrap().message.contains("another text after #"));
    world.run(600);
    assert_eq!(world.events_of("MoveIgnored").len(), 1);
    world.ask("pool", Some("192.0.2.1=node-3#2"));
    world.run(10);
    assert_eq!((outcome(&world), world.holder(3)), (Some(MoveOutcome::Done), Some(ip(1))));
}

#[test]
fn a_request_that_changes_before_it_begins_is_dropped_and_the_new_one_is_met() {
    let mut world = settled();
    world.edit("pool", |spec| spec.cool_off_seconds = 600.0);
    world.set_node(4, true);
    world.ask("pool", Some(REQUEST));
    world.run(5);
    assert_eq!(outcome(&world), Some(MoveOutcome::Pending));
    world.ask("pool", None);
    world.run(5);
    assert_eq!(
        (outcome(&world), world.events_of("MoveInterrupted").len()),
        (Some(MoveOutcome::Interrupted), 1)
    );
    world.ask("pool", Some("192.0.2.1=node-3#2"));
    world.run(5);
    world.ask("pool", Some("192.0.2.1=node-4"));
    world.run(700);
    assert_eq!((world.holder(3), world.holder(4)), (None, Some(ip(1))));
    assert_eq!((outcome(&world), moves(&world)), (Some(MoveOutcome::Done), 0));
}

#[test]
fn crds_that_drop_the_answer_get_it_as_an_event_alone() {
    for all in [true, false] {
        let mut world = settled();
        (world.go_crds, world.faults.drops_moves) = (all, true);
        if all {
            world.set_node(4, true);
            world.run(60);
        }
        let writes = world.status_writes;
        world.ask("pool", Some(REQUEST));
        world.run(1_200);
        assert_eq!((moves(&world), outcome(&world)), (0, None), "{all}");
        assert_eq!(world.events_of("MoveRefused").len(), 1, "{all}");
        assert!(world.events.iter().any(|event| event.message.contains("drop status.lastMove")), "{all}");
        assert!(world.status_writes <= writes + 3, "{all}: {}", world.status_writes - writes);
        (world.go_crds, world.faults.drops_moves) = (false, false);
        world.run(1_200);
        world.ask("pool", Some("192.0.2.1=node-3#2"));
        world.run(10);
        assert_eq!((moves(&world), outcome(&world)), (1, Some(MoveOutcome::Done)), "{all}");
    }
}

#[test]
fn crds_that_drop_the_answer_keep_no_pool_from_buying() {
    let mut world = settled();
    world.faults.drops_moves = true;
    world.ask("pool", Some(REQUEST));
    world.run(10);
    world.edit("pool", |spec| spec.desired_ips = 3);
    world.run(60);
    assert_eq!(world.created, 1);
}

#[test]
fn a_status_that_cannot_be_written_moves_nothing() {
    let mut world = settled();
    world.denied.insert("pool".into());
    world.ask("pool", Some(REQUEST));
    world.run(60);
    assert_eq!((moves(&world), world.events_of("MoveRefused").len()), (0, 1));
    world.denied.clear();
    world.run(700);
    assert_eq!((moves(&world), outcome(&world)), (0, Some(MoveOutcome::Refused)));
}

#[test]
fn a_conflict_delays_the_move_and_no_more() {
    for failure in [WriteFailure::Conflict, WriteFailure::Transient("x".into()), WriteFailure::NotSent] {
        let mut world = settled();
        world.faults.status_writes.push_back(failure.clone());
        world.ask("pool", Some(REQUEST));
        world.run(5);
        // The faked conflict brings no watch event, so the test writes the object again.
        world.ask("pool", Some(REQUEST));
        world.run(10);
        assert_eq!((moves(&world), outcome(&world)), (1, Some(MoveOutcome::Done)), "{failure:?}");
    }
}

#[test]
fn what_the_provider_refuses_or_gives_up_is_not_tried_again() {
    use FaultKind::{Invalid, NodeInUse, NotFound, Permanent, Quota};
    let refusals = [Invalid, NodeInUse, NotFound, Permanent, Quota].map(Trick::Refused);
    let failures = [Trick::Errored, Trick::Lost(false)];
    for trick in refusals.into_iter().chain(failures) {
        let mut world = settled();
        world.tricks.push_back(trick);
        world.ask("pool", Some(REQUEST));
        world.run(1_200);
        let (expected, event) = if failures.contains(&trick) {
            (MoveOutcome::Interrupted, "MoveInterrupted")
        } else {
            (MoveOutcome::Refused, "MoveRefused")
        };
        assert_eq!((outcome(&world), moves(&world)), (Some(expected), 1), "{trick:?}");
        assert_eq!((world.events_of(event).len(), world.holder(1)), (1, Some(ip(1))), "{trick:?}");
        assert!(!last(&world).message.is_empty(), "{trick:?}");
    }
}

#[test]
fn a_refusal_that_is_only_too_early_is_waited_out() {
    for kind in [FaultKind::InProgress, FaultKind::Throttled, FaultKind::Transient] {
        let mut world = settled();
        world.tricks.extend([Trick::Refused(kind); 2]);
        world.ask("pool", Some(REQUEST));
        world.run(30);
        assert_eq!((outcome(&world), moves(&world)), (Some(MoveOutcome::Done), 3), "{kind}");
        assert_eq!(world.holder(3), Some(ip(1)), "{kind}");
    }
}

#[test]
fn a_lost_answer_is_followed_by_reads_and_never_by_a_repeat() {
    let mut world = settled();
    world.tricks.push_back(Trick::Lost(true));
    world.ask("pool", Some(REQUEST));
    world.run(30);
    assert_eq!((outcome(&world), moves(&world)), (Some(MoveOutcome::Done), 1));
}

#[test]
fn a_move_that_the_provider_refuses_changes_no_record_and_no_annotation() {
    for (trick, changes) in [(Trick::Refused(FaultKind::Permanent), false), (Trick::Fine, true)] {
        let mut world = World::with(2, 3);
        world.edit("pool", |spec| {
            let zone = "example.com".to_owned();
            spec.record_set =
                Some(RawRecordSet { zone, record_name: "www".into(), ..RawRecordSet::default() });
        });
        world.run(60);
        assert_eq!(world.published("www.example.com"), [1, 2]);
        world.tricks.push_back(trick);
        world.ask("pool", Some(REQUEST));
        let mut seen = BTreeSet::new();
        for _ in 0..400 {
            world.run_until(world.now.plus_millis(10));
            let annotated = world.annotations.get("node-1").cloned();
            seen.insert((world.published("www.example.com"), annotated));
        }
        let stayed = seen == BTreeSet::from([(vec![1, 2], Some(ip(1).to_string()))]);
        assert_eq!(stayed, !changes, "{trick:?} {seen:?}");
        world.run(60);
        assert_eq!(world.published("www.example.com"), [1, 2]);
    }
}
