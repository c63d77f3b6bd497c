//! `spec.grace` of records: a node that fails for a while stays published.

use crate::dns::pool;
use crate::faults::nodes_key;
use crate::world::World;
use crate::zones::{DnsTrick, external};
use flipop_core::fleet::Input;
use flipop_core::model::spec::RawGrace;
use flipop_core::model::{Address, FaultKind, Observed, Readiness, Taint, Uid};

const NAME: &str = "www.example.com";

/// A set of two nodes that are both published.
fn set(grace: RawGrace) -> World {
    let mut world = World::with_set(2);
    world.run(10);
    world.edit_set("set", |spec| spec.grace = grace);
    world.run(1);
    assert_eq!(world.published(NAME), [1, 2]);
    world
}

fn bearing(node_seconds: i64) -> RawGrace {
    RawGrace { node_seconds, ..RawGrace::default() }
}

#[test]
fn a_node_that_recovers_within_its_grace_stays_published() {
    let mut world = set(bearing(60));
    let before = world.total("apply");
    world.set_node(2, false);
    world.run(30);
    let suspect = world.set_status("set").suspects.get("node-2").cloned().unwrap();
    assert_eq!(suspect.reason, "NotReady");
    let (_, reason, message) = world.told("set", "Suspect");
    assert_eq!(reason, "NodeFailing");
    assert!(message.starts_with("node-2 is not Ready (since "), "{message}");
    assert!(message.contains("): its records follow at "), "{message}");
    world.set_node(2, true);
    world.run(120);
    assert_eq!((world.published(NAME), world.total("apply")), (vec![1, 2], before));
    assert_eq!(world.events_of("FailoverAvoided"), ["node-2 matches again after 30 s and stays in the set"]);
    assert_eq!((world.message("set", "Suspect"), world.set_status("set").suspects.len()), (None, 0));
}

#[test]
fn after_its_grace_the_record_goes_and_a_cordon_takes_it_at_once() {
    let mut world = set(bearing(30));
    let start = world.now;
    world.set_node(2, false);
    world.run(40);
    assert_eq!(world.published(NAME), [1]);
    let read = world.calls.iter().find(|(_, call)| call == "read node-2").unwrap().0;
    assert_eq!(read.millis_since(start), 30_000);

    let mut world = set(bearing(30));
    world.set_node(2, false);
    world.run(5);
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: String::new(),
        effect: "NoSchedule".into(),
    };
    world.taint(2, vec![taint]);
    world.run(5);
    assert_eq!((world.published(NAME), world.message("set", "Suspect")), (vec![1], None));
}

#[test]
fn grace_keeps_a_node_and_never_an_address_that_it_lost() {
    let mut world = set(bearing(60));
    world.set_node(2, false);
    world.run(5);
    let mut node = world.nodes["node-2"].clone();
    node.external_ips = vec![external(9)];
    world.nodes.insert("node-2".into(), node.clone());
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    world.run(5);
    assert_eq!(world.published(NAME), [1], "none of its addresses is published: it holds nothing");
}

#[test]
fn a_node_that_is_not_published_has_no_grace() {
    let mut world = set(bearing(60));
    world.set_node(3, false);
    world.run(5);
    assert_eq!((world.published(NAME), world.message("set", "Suspect")), (vec![1, 2], None));
}

#[test]
fn a_mistake_in_grace_keeps_the_records_going() {
    for grace in [bearing(-1), bearing(3_601)] {
        let mut world = set(grace);
        assert_eq!(world.verdict("set", "SpecValid").1, "GraceIgnored");
        assert_eq!(world.verdict("set", "Ready").1, "Published");
        world.set_node(2, false);
        world.run(5);
        assert_eq!(world.published(NAME), [1], "nothing waits");
        world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().ttl = -1);
        world.run(5);
        assert_eq!(world.verdict("set", "SpecValid").1, "RecordSetIgnored", "it reaches farther");
    }
}

#[test]
fn a_new_process_goes_on_where_the_status_says() {
    let mut world = set(bearing(60));
    let start = world.now;
    world.set_node(2, false);
    world.run(30);
    world.start();
    world.run(60);
    let read = world.calls.iter().find(|(_, call)| call == "read node-2").unwrap().0;
    assert!(read.millis_since(start).abs_diff(60_000) <= 1_050, "{read:?}");
    assert_eq!((world.published(NAME), world.events_of("FailoverDelayed").len()), (vec![1], 1));
}

#[test]
fn what_is_left_of_nodes_that_are_gone_has_no_grace_of_a_new_leader() {
    let mut world = set(bearing(30));
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().when_empty = "Keep".into());
    world.set_node(1, false);
    world.set_node(2, false);
    world.run(60);
    assert_eq!(world.verdict("set", "Ready").1, "NoMatchingNode");
    let events = world.events.len();
    for _ in 0..5 {
        world.start();
        world.run(720);
        assert_eq!(world.verdict("set", "Ready").1, "NoMatchingNode");
        assert_eq!((world.message("set", "Suspect"), world.published(NAME)), (None, vec![1, 2]));
    }
    assert_eq!(world.events.len(), events);
}

#[test]
fn a_grace_that_is_over_stays_so_while_the_record_cannot_be_deleted() {
    let mut world = set(bearing(30));
    world.dns.read_fault = Some(FaultKind::Transient);
    world.dns.tricks.extend([DnsTrick::Refused(0, FaultKind::Transient); 9]);
    world.set_node(2, false);
    world.run(40);
    assert_eq!((world.published(NAME), world.message("set", "Suspect")), (vec![1, 2], None));
    // The node fails in another way while the status and the records still name its address.
    let taint = Taint {
        key: "node.kubernetes.io/not-ready".into(),
        value: String::new(),
        effect: "NoExecute".into(),
    };
    world.taint(2, vec![taint]);
    world.run(10);
    assert_eq!((world.message("set", "Suspect"), world.events_of("FailoverDelayed").len()), (None, 1));
    world.dns.read_fault = None;
    world.run(600);
    let reads = world.calls.iter().filter(|(_, call)| call == "read node-2").count();
    assert_eq!((world.published(NAME), reads), (vec![1], 1));
}

#[test]
fn a_node_that_came_back_is_published_when_it_has_lasted() {
    let mut world = set(RawGrace { recovery_seconds: 60, ..RawGrace::default() });
    world.set_node(2, false);
    world.run(10);
    assert_eq!(world.published(NAME), [1]);
    world.set_node(2, true);
    world.run(55);
    assert_eq!(world.published(NAME), [1]);
    world.run(10);
    assert_eq!(world.published(NAME), [1, 2]);
    // If no other node matches, it counts at once.
    world.set_node(2, false);
    world.run(10);
    world.set_node(2, true);
    world.run(5);
    assert_eq!(world.published(NAME), [1]);
    world.set_node(1, false);
    world.run(10);
    assert_eq!(world.published(NAME), [2]);
}

#[test]
fn the_records_of_a_pool_stay_with_its_suspect() {
    let mut world = pool(1, 2);
    world.edit("pool", |spec| spec.grace = bearing(60));
    world.run(10);
    let (before, records) = (world.total("apply"), world.published(NAME));
    let holder: Vec<u8> = (1..=2).filter(|n| world.holder(*n).is_some()).collect();
    let [holder] = holder.as_slice() else { panic!("{holder:?}") };
    world.set_node(*holder, false);
    world.run(50);
    assert_eq!((world.published(NAME), world.total("apply")), (records.clone(), before));
    let annotation = world.annotations.get(&format!("node-{holder}"));
    assert_eq!(annotation.map(String::as_str), Some(Address::from([192, 0, 2, 1]).to_string().as_str()));
    world.set_node(*holder, true);
    world.run(60);
    assert_eq!((world.published(NAME), world.total("apply"), world.assigns), (records, before, 1));
}

#[test]
fn a_node_that_was_replaced_unseen_loses_its_match_at_the_end_of_its_grace() {
    let mut world = set(bearing(30));
    world.set_node(2, false);
    world.change_node_unseen(2, |node| {
        (node.ready, node.uid) = (Readiness::Ready, Uid("another".into()));
    });
    world.run(29);
    assert_eq!(world.published(NAME), [1, 2]);
    world.run(5);
    assert_eq!(world.published(NAME), [1], "what stands there now is another node");
}
