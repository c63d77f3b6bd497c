//! `spec.grace` together with other features: a new leader during a reboot, edits, pauses, moves by hand, labels.

use crate::by_hand::{last, outcome};
use crate::faults::nodes_key;
use crate::world::{Trick, World, ip};
use crate::zones::set_spec;
use flipop_core::addresses::pool::manual_move::result::MoveOutcome;
use flipop_core::fleet::Input;
use flipop_core::model::spec::RawGrace;
use flipop_core::model::{Moment, Observed, Readiness};

fn world(pod_seconds: i64, node_seconds: i64) -> World {
    crate::grace::world(pod_seconds, node_seconds)
}

fn clock_s(world: &World) -> i64 {
    i64::try_from(world.now.as_millis() / 1_000).unwrap()
}

fn read_after_ms(world: &World, start: Moment) -> u64 {
    world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0.millis_since(start)
}

fn says(world: &mut World, ready: Readiness) {
    let since_s = clock_s(world);
    world.change_node_unseen(1, |node| (node.ready, node.ready_since_s) = (ready, Some(since_s)));
    let node = world.nodes["node-1"].clone();
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
}

#[test]
fn a_leader_that_starts_while_the_pods_follow_a_reboot_goes_on_with_the_grace_of_the_node() {
    for restarts in [false, true] {
        let mut world = world(5, 60);
        let start = world.now;
        says(&mut world, Readiness::NotReady);
        world.set_pod("p-1", 1, false);
        world.run(20);
        says(&mut world, Readiness::Ready);
        world.run(5);
        if restarts {
            world.start();
        }
        world.run(60);
        let shift = read_after_ms(&world, start).abs_diff(60_000);
        assert!(shift <= 3_000, "{restarts}: {shift}");
        assert_eq!(world.holder(2), Some(ip(1)));
    }
}

#[test]
fn pods_that_fail_on_a_node_that_was_ready_all_along_have_their_own_grace_under_a_new_leader() {
    let mut world = world(30, 300);
    says(&mut world, Readiness::Ready);
    world.run(5);
    let start = world.now;
    world.set_pod("p-1", 1, false);
    world.run(10);
    world.start();
    world.run(40);
    assert!(read_after_ms(&world, start).abs_diff(30_000) <= 3_000);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_failure_without_any_grace_left_is_not_read_all_the_time() {
    // The watch is silent, and in truth the node has recovered.
    let mut world = world(60, 0);
    world.set_pod("p-1", 1, false);
    world.run(5);
    world.set_node(1, false);
    world.change_node_unseen(1, |node| node.ready = Readiness::Ready);
    world.pods.get_mut("p-1").unwrap().serving = true;
    world.run(60);
    let reads = world.calls.iter().filter(|(_, call)| call == "read node-1").count();
    assert!((5..=70).contains(&reads), "{reads}");
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
    // As soon as a read shows the failure, the address moves.
    world.change_node_unseen(1, |node| node.ready = Readiness::NotReady);
    world.run(8);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_mistake_ends_a_grace_that_runs_and_nothing_else() {
    let mut world = world(0, 600);
    world.set_node(1, false);
    world.run(20);
    world.edit("pool", |spec| spec.grace.pod_seconds = -1);
    world.run(5);
    let (_, reason, message) = world.told("pool", "SpecValid");
    assert!(reason == "GraceIgnored" && message.contains("spec.grace.podSeconds"), "{message}");
    assert!(!world.has("pool", "Suspect"));
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_pause_at_the_moment_of_the_deadline_holds_the_address() {
    for ms in [29_950, 29_999, 30_000, 30_049] {
        let mut world = world(0, 30);
        world.set_node(1, false);
        world.run_until(world.now.plus_millis(ms));
        world.pause("pool", Some(""));
        world.run(60);
        assert_eq!((world.assigns, world.holder(1), world.annotations.len()), (1, Some(ip(1)), 1), "{ms}");
        world.pause("pool", None);
        world.run(5);
        assert_eq!(world.holder(2), Some(ip(1)), "{ms}");
    }
}

#[test]
fn a_pending_move_that_meets_a_pause_is_refused() {
    let mut world = crate::by_hand::settled();
    world.edit("pool", |spec| spec.cool_off_seconds = 600.0);
    world.ask("pool", Some(crate::by_hand::REQUEST));
    world.run(5);
    assert_eq!(outcome(&world), Some(MoveOutcome::Pending));
    world.pause("pool", Some(""));
    world.run(5);
    assert_eq!(outcome(&world), Some(MoveOutcome::Refused));
    world.pause("pool", None);
    world.run(900);
    assert_eq!(crate::by_hand::moves(&world), 0);
}

#[test]
fn a_move_to_a_node_that_fails_before_the_answer_ends_and_the_planner_goes_on() {
    for (node_seconds, finally) in [(0, false), (60, true)] {
        let mut world = crate::by_hand::settled();
        world.edit("pool", |spec| spec.grace = RawGrace { node_seconds, ..RawGrace::default() });
        world.tricks.push_back(Trick::Slow(20));
        world.ask("pool", Some(crate::by_hand::REQUEST));
        world.run(5);
        assert_eq!(outcome(&world), Some(MoveOutcome::Pending));
        world.set_node(3, false);
        world.run(35);
        assert_eq!(outcome(&world), Some(MoveOutcome::Done), "{node_seconds}");
        assert_eq!(world.holder(3).is_some(), finally, "{node_seconds}: {:?}", world.status("pool").ips);
        world.run(60);
        assert_eq!((world.holder(3), world.holder(1)), (None, Some(ip(1))), "{node_seconds}");
        assert_eq!(crate::by_hand::moves(&world), 1);
    }
}

#[test]
fn a_nonce_that_changes_while_the_move_is_under_way_is_a_request_of_its_own() {
    let mut world = crate::by_hand::settled();
    world.tricks.push_back(Trick::Slow(20));
    world.ask("pool", Some("192.0.2.1=node-3#1"));
    world.run(5);
    world.ask("pool", Some("192.0.2.1=node-3#2"));
    world.run(60);
    assert_eq!((crate::by_hand::moves(&world), world.holder(3)), (1, Some(ip(1))));
    let last = last(&world);
    assert_eq!((last.request.as_str(), last.outcome), ("192.0.2.1=node-3#2", MoveOutcome::Refused));
    assert!(last.message.contains("node-3 already has 192.0.2.1"), "{last:?}");
}

#[test]
fn a_move_to_a_node_that_has_to_last_first_says_so() {
    let mut world = crate::by_hand::settled();
    world.edit("pool", |spec| spec.grace = RawGrace { recovery_seconds: 600, ..RawGrace::default() });
    world.set_node(3, false);
    world.run(1);
    world.set_node(3, true);
    world.run(1);
    world.ask("pool", Some(crate::by_hand::REQUEST));
    world.run(5);
    assert_eq!(outcome(&world), Some(MoveOutcome::Refused));
    let message = &last(&world).message;
    assert!(message.contains("node-3") && message.contains("recoverySeconds"), "{message}");
}

#[test]
fn a_node_whose_labels_came_back_has_to_last_too() {
    let mut world = crate::by_hand::settled();
    world.edit("pool", |spec| spec.grace = RawGrace { recovery_seconds: 60, ..RawGrace::default() });
    let relabel = |world: &mut World, n: u8, selected: bool| {
        let node = world.nodes[&format!("node-{n}")].clone();
        let observed = if selected { Observed::Apply(node) } else { Observed::Delete(node) };
        world.observe(Input::Nodes(nodes_key(), observed));
    };
    relabel(&mut world, 3, false);
    world.run(10);
    relabel(&mut world, 3, true);
    world.run(1);
    assert_eq!(*world.status("pool").assignable_nodes, [""; 0]);
    world.run(62);
    assert_eq!(*world.status("pool").assignable_nodes, ["node-3"]);
}

#[test]
fn what_is_told_waits_for_the_right_to_write() {
    let mut world = world(0, 60);
    world.observe(Input::Permit(false));
    world.set_node(1, false);
    world.run(5);
    world.observe(Input::Permit(true));
    world.run(5);
    assert_eq!(crate::grace::told_once(&world), 1);
}

fn set() -> World {
    let mut world = World::with_set(2);
    world.run(10);
    world.edit_set("set", |spec| spec.grace = RawGrace { node_seconds: 60, ..RawGrace::default() });
    world.run(1);
    assert_eq!(world.published("www.example.com"), [1, 2]);
    world
}

#[test]
fn a_suspect_whose_other_addresses_are_asked_for_is_not_published_anew() {
    let mut world = set();
    world.set_node(2, false);
    world.run(5);
    world.edit_set("set", |spec| spec.address_type = "InternalIP".into());
    world.run(20);
    let published = world.set_status("set").addresses.clone();
    assert_eq!(published, [crate::zones::internal(1)]);
    world.set_node(2, true);
    world.run(20);
    assert_eq!(world.set_status("set").addresses.len(), 2);
}

#[test]
fn a_grace_that_is_over_in_a_pause_stays_so_for_a_new_leader() {
    let mut world = set();
    world.pause_set("set", Some("incident 7"));
    world.set_node(2, false);
    world.run(120);
    let suspect = |world: &World| world.has("set", "Suspect");
    assert!(!suspect(&world));
    world.start();
    world.run(30);
    assert!(!suspect(&world));
    world.pause_set("set", None);
    world.run(20);
    assert_eq!(world.published("www.example.com"), [1]);
}

#[test]
fn a_pool_and_a_set_bear_the_same_node_for_different_times() {
    let mut world = world(0, 30);
    world.add_record_set("set", set_spec("nodes"));
    world.edit_set("set", |spec| spec.grace = RawGrace { node_seconds: 90, ..RawGrace::default() });
    world.run(20);
    assert_eq!(world.published("nodes.example.com"), [1, 2]);
    world.set_node(1, false);
    world.run(40);
    assert_eq!((world.holder(2), world.published("nodes.example.com")), (Some(ip(1)), vec![1, 2]));
    world.run(60);
    assert_eq!(world.published("nodes.example.com"), [2]);
}
