//! The order of waiting nodes, and the time of a retry after a failure.

use crate::faults::nodes_key;
use crate::world::{Trick, World, ip};
use flipop_core::fleet::Input;
use flipop_core::mechanism::Schedule;
use flipop_core::model::{FaultKind, Jitter, NodeFacts, Observed};

/// The time that the small world takes to answer.
const ANSWER_MS: u64 = 50;

/// Something changes on a node, and its watch shows it.
fn change(world: &mut World, node: &str, edit: impl FnOnce(&mut NodeFacts)) {
    let node = world.nodes.get_mut(node).unwrap();
    edit(node);
    let seen = Observed::Apply(node.clone());
    world.observe(Input::Nodes(nodes_key(), seen));
}

#[test]
fn nodes_wait_in_the_order_in_which_they_began_to_match_whatever_else_changes_on_them() {
    let mut world = World::with(1, 1);
    world.run(10);
    for n in [4, 3, 2] {
        world.set_node(n, true);
        world.run(5);
    }
    change(&mut world, "node-4", |node| node.external_ips.clear());
    world.run(5);
    let line: Vec<String> = world.waits().into_iter().map(|(node, _)| node).collect();
    assert_eq!(line, ["node-4", "node-3", "node-2"], "and people see this order");
    for (lost, next) in [(1, 4), (4, 3), (3, 2)] {
        world.set_node(lost, false);
        world.run(10);
        assert_eq!(world.holder(next), Some(ip(1)), "after node-{lost}");
    }
}

#[test]
fn a_node_whose_region_is_corrected_is_served_at_once() {
    let mut world = World::with(1, 0);
    world.set_node(1, true);
    change(&mut world, "node-1", |node| node.region = Some("ams3".into()));
    world.run(65);
    assert_eq!(world.holder(1), None);
    let from = world.now;
    change(&mut world, "node-1", |node| node.region = Some("nyc3".into()));
    world.run(3);
    assert_eq!((world.holder(1), world.count(from, "list")), (Some(ip(1)), 0), "no list was waited for");
}

#[test]
fn a_retry_comes_up_to_a_tenth_later_by_chance_and_never_sooner() {
    for (schedule, failures, base) in
        [(Schedule::Fast, 1, 1_000), (Schedule::Slow, 1, 60_000), (Schedule::Slow, 9, 600_000)]
    {
        let delay = |random| schedule.delay_ms(failures, Jitter::from_random(random));
        assert_eq!((delay(0), delay(1_000), delay(65_000)), (base, base, base));
        assert_eq!((delay(500), delay(64_500)), (base + base / 20, base + base / 20));
        assert_eq!(delay(999), base + base / 10 * 999 / 1_000);
        assert!((0..=u16::MAX).all(|random| (base..base + base / 10).contains(&delay(random))));
    }
}

#[test]
fn an_edited_spec_is_tried_at_once_whatever_failed_with_the_former_ones() {
    let mut world = World::with(1, 1);
    world.tricks.extend([Trick::Refused(FaultKind::Invalid); 3]);
    world.run(5);
    for edit in 1..=3 {
        assert_eq!(world.holder(1), None, "before edit {edit}");
        world.edit("pool", |spec| spec.cool_off_seconds = f64::from(edit) / 1_000.0);
        world.run(2);
    }
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn with_a_cool_off_however_short_the_answer_to_one_assignment_is_awaited_before_the_next() {
    let mut world = World::with(4, 4);
    world.edit("pool", |spec| spec.cool_off_seconds = 0.001);
    world.run(20);
    let sent: Vec<_> =
        world.calls.iter().filter(|(_, call)| call.starts_with("assign")).map(|(at, _)| *at).collect();
    assert_eq!((sent.len(), world.assigns), (4, 4));
    assert!(sent.windows(2).all(|two| two[1].millis_since(two[0]) >= ANSWER_MS), "{sent:?}");
}

#[test]
fn of_nodes_that_lost_their_addresses_the_one_without_for_longest_is_the_first_to_have_one() {
    for (first, second) in [(1, 2), (2, 1)] {
        let mut world = World::with(2, 2);
        world.run(10);
        let (early, late) = (world.holder(first).unwrap(), world.holder(second).unwrap());
        world.cloud.remove(&early);
        world.run(200);
        world.cloud.remove(&late);
        world.run(200);
        world.add_ip(3);
        world.edit("pool", |spec| spec.ips.push(ip(3).to_string()));
        world.run(60);
        assert_eq!((world.holder(first), world.holder(second)), (Some(ip(3)), None));
    }
}

#[test]
fn what_a_node_waits_for_is_told_and_is_an_error_only_where_somebody_has_to_act() {
    for (kind, words, error) in [
        (FaultKind::InProgress, "the provider is still busy with it", false),
        (FaultKind::Invalid, "the last assignment failed", true),
    ] {
        let mut world = World::with(1, 1);
        world.tricks.extend([Trick::Refused(kind); 20]);
        world.run(10);
        assert_eq!(world.status("pool").node_errors.is_empty(), !error, "{kind}");
        let told = world.waits();
        assert!(told.len() == 1 && told[0].1.contains(words), "{kind}: {told:?}");
    }
    let mut world = World::with(1, 1);
    world.cloud.get_mut(&ip(1)).unwrap().region = "ams3".into();
    world.run(10);
    assert!(world.waits()[0].1.contains("nyc3"), "{:?}", world.waits());
    world.edit("pool", |spec| spec.ips.clear());
    world.edit("pool", |spec| spec.desired_ips = 1);
    world.edit("pool", |spec| spec.region = String::new());
    world.run(10);
    assert!(world.waits()[0].1.contains("no address of the pool is free"), "{:?}", world.waits());
}

#[test]
fn only_the_node_of_an_active_address_is_told_of_it() {
    let mut world = World::with(2, 2);
    world.tricks.extend([Trick::Fine, Trick::Slow(100)]);
    world.run(20);
    let ips = &world.fleet.snapshot().pools[0].ips;
    let told: Vec<(&str, &str)> = ips.iter().map(|ip| (ip.state.as_str(), ip.node.as_str())).collect();
    assert_eq!(told, [("active", "node-1"), ("in-progress", "")]);
}

#[test]
fn addresses_go_to_different_nodes_at_the_same_moment() {
    let mut world = World::with(3, 3);
    world.run(10);
    let assigned: Vec<_> = world.calls.iter().filter(|(_, call)| call.starts_with("assign")).collect();
    assert_eq!(assigned.len(), 3);
    assert!(assigned.iter().all(|(at, _)| *at == assigned[0].0), "{assigned:?}");
}
