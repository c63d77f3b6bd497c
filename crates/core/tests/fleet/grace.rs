//! `spec.grace` of a pool: a node that fails for a while keeps its address.

use crate::by_hand::outcome;
use crate::faults::nodes_key;
use crate::world::{World, ip};
use flipop_core::addresses::pool::manual_move::result::MoveOutcome;
use flipop_core::fleet::Input;
use flipop_core::model::spec::RawGrace;
use flipop_core::model::{Moment, Observed, Readiness, Taint, Toleration, WriteFailure};

/// A pool with this grace, of one address, and two nodes: node-1 has the address.
pub(crate) fn world(pod_seconds: i64, node_seconds: i64) -> World {
    bearing(RawGrace { pod_seconds, node_seconds, recovery_seconds: 0 }, 1)
}

fn bearing(grace: RawGrace, addresses: u8) -> World {
    let mut world = World::with(addresses, 2);
    world.edit("pool", |spec| spec.matching.pod_namespace = "ns".into());
    world.set_pod("p-1", 1, true);
    world.run(5);
    world.set_pod("p-2", 2, true);
    world.run(5);
    world.edit("pool", |spec| spec.grace = grace);
    world.run(1);
    assert_eq!(world.holder(1), Some(ip(1)));
    world
}

fn counts(world: &World) -> (u64, u64, u64) {
    let counts = world.fleet.grace_counts();
    (counts.recovered, counts.expired, counts.overruled)
}

fn taint(key: &str) -> Vec<Taint> {
    vec![Taint { key: key.into(), value: String::new(), effect: "NoExecute".into() }]
}

#[test]
fn a_pod_that_restarts_within_its_grace_moves_nothing() {
    let mut world = world(30, 0);
    world.set_pod("p-1", 1, false);
    world.run(29);
    assert_eq!((world.assigns, world.status("pool").ips["192.0.2.1"].state.as_str()), (1, "active"));
    let entry = &world.status("pool").ips["192.0.2.1"];
    assert_eq!((entry.suspect_since_s.is_some(), entry.suspect_reason.as_str()), (true, "PodNotReady"));
    let (_, reason, message) = world.told("pool", "Suspect");
    assert_eq!(reason, "PodNotReady");
    assert!(message.starts_with("node-1 runs no matching pod that is Ready (since "), "{message}");
    assert!(message.contains("): 192.0.2.1 moves at "), "{message}");
    world.set_pod("p-1", 1, true);
    world.run(300);
    assert_eq!((world.assigns, counts(&world)), (1, (1, 0, 0)));
    assert_eq!(world.message("pool", "Suspect"), None);
    assert_eq!(world.events_of("FailoverDelayed").len(), 1);
    let avoided = world.events_of("FailoverAvoided");
    assert_eq!(avoided, ["node-1 matches again after 29 s and keeps its address"]);
    assert_eq!(world.status("pool").ips["192.0.2.1"].suspect_since_s, None);
    assert!(!world.calls.iter().any(|(_, call)| call == "read node-1"), "nothing had to be proved");
}

#[test]
fn at_the_end_of_its_grace_the_failure_is_proved_and_the_address_moves() {
    let mut world = world(0, 30);
    world.set_node(1, false);
    let failed = world.now;
    world.run(40);
    let at =
        |call: &str| world.calls.iter().find(|(_, made)| made == call).map(|(at, _)| at.millis_since(failed));
    assert_eq!(at("read node-1"), Some(30_000));
    assert_eq!(at("assign 192.0.2.1 node-2"), Some(30_050), "at once when the read has answered");
    assert_eq!((world.holder(2), counts(&world)), (Some(ip(1)), (0, 1, 0)));
    assert_eq!((world.message("pool", "Suspect"), world.events_of("FailoverAvoided").len()), (None, 0));
    let lost = world.events_of("MatchLost");
    assert_eq!(lost, ["node-1 is not Ready: 192.0.2.1 moves to node-2"]);
}

#[test]
fn without_grace_nothing_waits() {
    for (pod, node) in [(0, 0), (0, 30), (30, 0)] {
        let mut world = world(pod, node);
        let now = world.now;
        if node == 0 {
            world.set_node(1, false);
        } else {
            world.set_pod("p-1", 1, false);
        }
        world.run(5);
        let moved = world.calls.iter().find(|(at, call)| *at >= now && call.starts_with("assign"));
        let after = moved.map(|(at, _)| at.millis_since(now));
        // A failure of pods waits a second for the failure of their node.
        assert_eq!(after, Some(if node == 0 { 0 } else { 1_050 }), "{pod} {node}");
    }
}

#[test]
fn a_reason_that_somebody_decided_ends_grace_at_once() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 6] = [
        ("cordon", |world| world.taint(1, taint("node.kubernetes.io/unschedulable"))),
        ("out of service", |world| world.taint(1, taint("node.kubernetes.io/out-of-service"))),
        ("deleted", |world| world.delete_node(1)),
        ("replaced", |world| world.replace_node(1, 7)),
        ("relabeled", |world| {
            let node = world.nodes["node-1"].clone();
            world.observe(Input::Nodes(nodes_key(), Observed::Delete(node)));
        }),
        ("edited", |world| {
            let exists = Toleration { operator: "Exists".into(), ..Toleration::default() };
            world.edit("pool", |spec| spec.matching.tolerations = vec![exists]);
            world.taint(1, taint("node.kubernetes.io/disk-pressure"));
            world.run(1);
            world.edit("pool", |spec| spec.matching.tolerations.clear());
        }),
    ];
    for (name, change) in changes {
        let mut world = world(600, 600);
        world.set_pod("p-1", 1, false);
        world.run(5);
        let now = world.now;
        change(&mut world);
        world.run(1);
        let moves = |(at, call): &(Moment, String)| *at >= now && call == "assign 192.0.2.1 node-2";
        assert!(world.calls.iter().any(moves), "{name}: {:?}", world.status("pool").ips);
        if name != "edited" {
            assert_eq!(counts(&world), (0, 0, 1), "{name}");
        }
    }
}

#[test]
fn once_the_node_has_failed_its_own_limit_counts_until_it_matches_again() {
    let mut world = world(5, 60);
    let start = world.now;
    world.set_node(1, false);
    world.set_pod("p-1", 1, false);
    world.run(10);
    // After a reboot the node is Ready before its pods are.
    world.set_node(1, true);
    world.run(20);
    assert_eq!(world.assigns, 1, "the pods have a minute too");
    world.run(45);
    let read = world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0;
    assert_eq!((read.millis_since(start), world.holder(2)), (60_000, Some(ip(1))));
}

#[test]
fn each_class_has_a_start_of_its_own() {
    let mut world = world(20, 20);
    world.set_pod("p-1", 1, false);
    world.run(15);
    let failed = world.now;
    world.set_node(1, false);
    world.run(15);
    assert_eq!(world.assigns, 1, "the node has failed for 15 s");
    world.run(10);
    let read = world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0;
    assert_eq!(read.millis_since(failed), 20_000);
}

#[test]
fn a_node_that_holds_nothing_is_no_candidate_while_it_fails() {
    let mut world = world(60, 60);
    world.set_node(2, false);
    world.run(1);
    assert_eq!(*world.status("pool").assignable_nodes, [""; 0]);
    assert_eq!((world.message("pool", "Suspect"), counts(&world)), (None, (0, 0, 0)));
    // Nor is a node suspected after somebody has moved its address away.
    world.set_node(2, true);
    world.set_node(1, false);
    world.run(1);
    world.move_by_hand(1, Some(2));
    world.run(90);
    assert_eq!((world.holder(2), world.assigns), (Some(ip(1)), 1));
    assert_eq!(world.message("pool", "Suspect"), None);
    // Nor does it count as a node that matches.
    let mut world = self::world(60, 60);
    world.set_node(2, false);
    world.delete_node(1);
    world.run(10);
    assert_eq!(world.verdict("pool", "Ready").1, "NoMatchingNode");
}

#[test]
fn a_surplus_address_has_no_grace() {
    let mut world = bearing(RawGrace { pod_seconds: 60, node_seconds: 60, recovery_seconds: 0 }, 2);
    assert_eq!(world.holder(2), Some(ip(2)));
    world.set_node(2, false);
    world.run(5);
    assert!(world.has("pool", "Suspect"));
    world.edit("pool", |spec| spec.desired_ips = 1);
    world.run(5);
    assert_eq!(world.message("pool", "Suspect"), None);
}

#[test]
fn where_the_proof_fails_nothing_moves_yet() {
    let mut world = world(0, 30);
    world.faults.node_reads = Some(WriteFailure::Transient("no".into()));
    world.set_node(1, false);
    world.run(120);
    let reads = world.calls.iter().filter(|(_, call)| call == "read node-1").count();
    assert!((15..40).contains(&reads), "it is tried again, but not all the time: {reads}");
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
    world.faults.node_reads = None;
    world.run(6);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_node_that_says_that_it_fails_in_other_words_has_not_recovered() {
    // A kubelet reports its own shutdown, and later Kubernetes reports that it is silent.
    let mut world = world(0, 60);
    let failed = world.now;
    let epoch_s = i64::try_from(failed.as_millis() / 1_000).unwrap();
    let says = |world: &mut World, ready: Readiness, since_s: i64| {
        let mut node = world.nodes["node-1"].clone();
        (node.ready, node.ready_since_s) = (ready, Some(since_s));
        world.nodes.insert("node-1".into(), node.clone());
        world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    };
    says(&mut world, Readiness::NotReady, epoch_s);
    world.run(40);
    says(&mut world, Readiness::Unknown, epoch_s + 40);
    world.run(22);
    let read = world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0;
    assert_eq!((read.millis_since(failed), world.holder(2)), (60_000, Some(ip(1))));
}

#[test]
fn a_changed_grace_counts_from_the_same_start() {
    let mut world = world(0, 600);
    let start = world.now;
    world.set_node(1, false);
    world.run(20);
    world.edit("pool", |spec| spec.grace.node_seconds = 40);
    world.run(25);
    let read = world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0;
    assert_eq!(read.millis_since(start), 40_000);
}

#[test]
fn a_pod_that_crashes_time_and_again_is_not_told_time_and_again() {
    let mut world = world(60, 0);
    let (writes, events) = (world.status_writes, world.events.len());
    for _ in 0..60 {
        world.set_pod("p-1", 1, false);
        world.run(3);
        world.set_pod("p-1", 1, true);
        world.run(2);
    }
    assert_eq!((world.assigns, counts(&world)), (1, (60, 0, 0)));
    let (writes, events) = (world.status_writes - writes, world.events.len() - events);
    assert!((8..=10).contains(&writes), "two a minute: {writes}");
    assert!((8..=10).contains(&events), "{events}");
}

#[test]
fn a_standby_that_saw_the_start_goes_on_and_a_new_process_asks_the_status() {
    for (seen, told) in [(true, true), (false, true), (false, false)] {
        let mut world = world(0, 60);
        let start = world.now;
        world.set_node(1, false);
        world.run(if told { 30 } else { 1 });
        if seen {
            world.lead_again();
        } else {
            world.start();
        }
        world.run(120);
        let read = world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0;
        let shift = read.millis_since(start).abs_diff(60_000);
        assert!(shift <= if seen { 0 } else { 1_050 }, "{seen} {told}: {shift}");
        assert_eq!((world.holder(2), told_once(&world)), (Some(ip(1)), 1));
    }
}

pub(crate) fn told_once(world: &World) -> usize {
    world.events_of("FailoverDelayed").len()
}

#[test]
fn a_grace_that_is_over_stays_so_for_every_leader() {
    let mut world = world(0, 30);
    world.set_node(2, false);
    world.run(1);
    world.set_node(1, false);
    world.run(60);
    let gone = |world: &World| {
        let entry = &world.status("pool").ips["192.0.2.1"];
        assert_eq!((entry.state.as_str(), entry.node_name.as_str()), ("no-match", ""));
        assert_eq!((world.message("pool", "Suspect"), world.annotations.len()), (None, 0));
    };
    gone(&world);
    let (writes, events) = (world.status_writes, world.events.len());
    for restart in [true, false, true, false, true] {
        if restart {
            world.start();
        } else {
            world.lead_again();
        }
        world.run(720);
        gone(&world);
    }
    assert_eq!(world.events.iter().skip(events).filter(|told| told.reason.as_str() != "NotReady").count(), 0);
    assert!(world.status_writes - writes <= 1, "{}", world.status_writes - writes);
}

#[test]
fn a_grace_that_is_over_stays_so_while_the_status_cannot_be_written() {
    let mut world = world(0, 30);
    world.set_node(2, false);
    world.run(1);
    world.faults.unwritten = Some(("pool", WriteFailure::Transient("no".into())));
    world.set_node(1, false);
    world.run(40);
    assert_eq!(world.annotations.len(), 0);
    // The node fails in another way while the status on the server still calls it active.
    world.set_pod("p-1", 1, false);
    world.run(5);
    let reads = world.calls.iter().filter(|(_, call)| call == "read node-1").count();
    assert_eq!((world.annotations.len(), counts(&world), reads), (0, (0, 1, 0), 1));
}

#[test]
fn a_node_that_came_back_has_to_last_before_it_counts_as_new() {
    let grace = RawGrace { pod_seconds: 0, node_seconds: 0, recovery_seconds: 60 };
    let mut world = bearing(grace, 2);
    world.set_node(2, false);
    world.run(1);
    // It still has its address, so it counts at once.
    world.set_node(2, true);
    world.run(1);
    assert_eq!(world.status("pool").ips["192.0.2.2"].state, "active");
    world.set_node(2, false);
    world.run(1);
    world.move_by_hand(2, None);
    world.run(70);
    world.set_node(2, true);
    world.run(50);
    assert_eq!((world.holder(2), world.status("pool").assignable_nodes.len()), (None, 0));
    world.set_node(2, false);
    world.run(1);
    world.set_node(2, true);
    world.run(59);
    assert_eq!(world.holder(2), None, "from the last time on");
    world.run(5);
    assert_eq!(world.holder(2), Some(ip(2)));
}

#[test]
fn no_node_waits_where_none_else_matches_or_for_what_it_did_before_this_process() {
    let grace = RawGrace { pod_seconds: 0, node_seconds: 0, recovery_seconds: 600 };
    let mut world = bearing(grace, 1);
    world.set_node(2, false);
    world.run(1);
    world.set_node(2, true);
    world.run(1);
    assert_eq!(*world.status("pool").assignable_nodes, [""; 0], "it recovers");
    world.set_node(1, false);
    world.run(5);
    assert_eq!(world.holder(2), Some(ip(1)), "it is the only one");
    world.set_node(1, true);
    world.run(1);
    assert_eq!(*world.status("pool").assignable_nodes, [""; 0]);
    world.start();
    world.run(1);
    assert_eq!(*world.status("pool").assignable_nodes, ["node-1"], "a new process saw nothing");
}

#[test]
fn a_suspicion_that_is_over_within_two_seconds_is_not_told() {
    for (fails_s, events) in [(1, 0), (3, 1)] {
        let mut world = world(60, 0);
        let writes = world.status_writes;
        world.set_pod("p-1", 1, false);
        world.run(fails_s);
        world.set_pod("p-1", 1, true);
        world.run(30);
        assert_eq!((told_once(&world), world.status_writes - writes), (events, 2 * events), "{fails_s} s");
    }
}

#[test]
fn a_grace_that_is_over_does_not_come_back_by_a_status_that_is_old() {
    let mut world = world(0, 30);
    world.set_node(2, false);
    world.run(1);
    world.set_node(1, false);
    world.run(29);
    // The status keeps saying that the address is active there.
    world.faults.unwritten = Some(("pool", WriteFailure::Transient("no".into())));
    world.run(2);
    assert_eq!(
        (world.status("pool").ips["192.0.2.1"].state.as_str(), world.annotations.len()),
        ("active", 0)
    );
    world.taint(1, taint("node.kubernetes.io/not-ready"));
    world.run(1);
    assert_eq!((counts(&world), world.annotations.len()), ((0, 1, 0), 0));
    world.faults.unwritten = None;
    world.run(60);
    assert_eq!((counts(&world), world.message("pool", "Suspect")), ((0, 1, 0), None));
}

#[test]
fn a_pause_keeps_a_suspect_and_lets_its_grace_run_out() {
    let mut world = world(0, 30);
    world.pause("pool", Some("incident 7"));
    world.set_node(1, false);
    world.run(60);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))), "nothing begins");
    assert_eq!(world.annotations.len(), 1, "and its annotation stays");
    world.pause("pool", None);
    world.run(5);
    assert_eq!((world.holder(2), counts(&world)), (Some(ip(1)), (0, 1, 0)), "at once when the pause is over");
}

#[test]
fn an_address_can_be_moved_by_hand_off_a_suspect_and_not_onto_one() {
    let mut world = world(0, 300);
    world.set_node(1, false);
    world.run(5);
    world.ask("pool", Some("192.0.2.1=node-2"));
    world.run(10);
    assert_eq!((world.holder(2), world.message("pool", "Suspect")), (Some(ip(1)), None));
    assert_eq!(outcome(&world), Some(MoveOutcome::Done));
    // A failing node that holds nothing is no candidate.
    world.ask("pool", Some("192.0.2.1=node-1"));
    world.run(10);
    assert_eq!((world.holder(2), outcome(&world)), (Some(ip(1)), Some(MoveOutcome::Refused)));
}
