//! `spec.grace` where a node recovers unseen. Before the grace ends, a consistent read decides.

use crate::grace::{told_once, world};
use crate::world::{World, ip};
use flipop_core::model::{Moment, Readiness};

fn clock_s(world: &World) -> i64 {
    i64::try_from(world.now.as_millis() / 1_000).unwrap()
}

fn first_read_ms(world: &World, start: Moment) -> u64 {
    world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0.millis_since(start)
}

#[test]
fn a_node_that_has_recovered_unseen_keeps_its_address() {
    let mut world = world(0, 30);
    world.set_node(1, false);
    world.change_node_unseen(1, |node| node.ready = Readiness::Ready);
    world.run(600);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
    let reads = world.calls.iter().filter(|(_, call)| call == "read node-1").count();
    assert_eq!(reads, 19, "once for each grace that runs out, which begins anew with each answer");
    world.change_node_unseen(1, |node| node.ready = Readiness::NotReady);
    world.run(31);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_node_that_failed_anew_unseen_has_its_whole_grace() {
    let mut world = world(0, 30);
    world.set_node(1, false);
    let epoch_s = i64::try_from(world.now.as_millis() / 1_000).unwrap();
    world.change_node_unseen(1, |node| node.ready_since_s = Some(epoch_s + 20));
    world.run(45);
    assert_eq!(world.assigns, 1);
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_new_process_counts_from_what_the_node_says_where_that_is_later() {
    let mut world = world(0, 60);
    let start = world.now;
    world.set_node(1, false);
    world.run(20);
    assert_eq!(told_once(&world), 1);
    // It recovered and failed again while nobody saw it.
    let epoch_s = i64::try_from(start.as_millis() / 1_000).unwrap();
    let mut node = world.nodes["node-1"].clone();
    node.ready_since_s = Some(epoch_s + 18);
    world.nodes.insert("node-1".into(), node);
    world.start();
    world.run(90);
    let read = world.calls.iter().find(|(_, call)| call == "read node-1").unwrap().0;
    let after_ms = read.millis_since(start);
    assert!((77_000..=79_000).contains(&after_ms), "{after_ms}");
}

#[test]
fn pods_that_served_while_no_process_ran_have_their_whole_grace() {
    let mut world = world(60, 0);
    let start = world.now;
    world.set_pod("p-1", 1, false);
    world.run(20);
    assert_eq!(told_once(&world), 1);
    // They were Ready again, and have just failed once more.
    world.pods.get_mut("p-1").unwrap().fails_since_s = Some(clock_s(&world));
    world.start();
    world.run(45);
    assert_eq!((first_read_ms(&world, start) / 1_000, world.assigns), (60, 1), "as the status tells it");
    world.run(17);
    assert_eq!(world.holder(2), Some(ip(1)), "one grace after they failed again");
}

#[test]
fn pods_of_which_a_process_saw_the_failure_begin_have_one_grace() {
    // The clock of a kubelet may be ahead, and pods may come and go without serving.
    let mut world = world(60, 0);
    let start = world.now;
    world.set_pod("p-1", 1, false);
    world.pods.get_mut("p-1").unwrap().fails_since_s = Some(clock_s(&world) + 50);
    world.run(62);
    assert_eq!((first_read_ms(&world, start), world.holder(2)), (60_000, Some(ip(1))));
}
