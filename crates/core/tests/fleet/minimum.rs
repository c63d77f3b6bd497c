//! `spec.minActive`, and the number that it is compared with in columns.

use crate::faults::spec;
use crate::world::{World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;

/// A world with this many addresses and nodes, and a pool that asks for this many active addresses.
fn asking(addresses: u8, nodes: u8, min_active: i64) -> World {
    let mut world = World::with(addresses, nodes);
    world.edit("pool", |spec| spec.min_active = min_active);
    world.run(10);
    world
}

#[test]
fn a_pool_is_ready_only_with_as_many_active_addresses_as_it_asks_for() {
    for (addresses, nodes, min_active, right) in [
        (3, 1, 0, ("True", "Assigned")),
        (3, 1, 1, ("True", "Assigned")),
        (3, 1, 2, ("False", "BelowMinimum")),
        (3, 2, 2, ("True", "Assigned")),
        // More than the pool has, so it never becomes ready.
        (2, 4, 3, ("False", "BelowMinimum")),
    ] {
        let world = asking(addresses, nodes, min_active);
        let (status, reason, _) = world.told("pool", "Ready");
        assert_eq!((status, reason), right, "{addresses} {nodes} {min_active}");
        assert_eq!(world.told("pool", "SpecValid"), ("True", "Valid", ""));
    }
    let mut world = asking(3, 3, 2);
    world.set_node(1, false);
    world.set_node(2, false);
    world.run(10);
    let message = "fewer than spec.minActive (2) are active: 1 of 3 addresses are on matching nodes; no matching node \
                   waits for one";
    assert_eq!(world.told("pool", "Ready"), ("False", "BelowMinimum", message));
    world.set_node(2, true);
    world.run(10);
    assert_eq!(world.told("pool", "Ready").0, "True");
}

#[test]
fn another_reason_stays_and_names_the_minimum_only_where_it_is_not_reached() {
    let without = asking(1, 0, 0);
    let with = asking(1, 0, 1);
    let (status, reason, message) = with.told("pool", "Ready");
    assert_eq!((status, reason), ("False", "NoMatchingNode"));
    let before = without.told("pool", "Ready").2;
    assert_eq!(message, format!("{before}; fewer than spec.minActive (1) are active"));

    let mut frozen = asking(2, 2, 2);
    frozen.edit("pool", |spec| spec.matching.node_label = "role in (".into());
    frozen.run(10);
    let (_, reason, message) = frozen.told("pool", "Ready");
    assert_eq!(reason, "InvalidSpec");
    assert!(!message.contains("minActive"), "both are active as they were: {message}");

    let mut unread = asking(1, 1, 2);
    unread.start_without_nodes();
    unread.run(10);
    assert_eq!(unread.told("pool", "Ready").1, "BelowMinimum", "as it was, until something is known");
}

#[test]
fn a_minimum_out_of_bounds_is_told_of_and_changes_nothing_else() {
    for min_active in [-1, 1_001, i64::MIN, i64::MAX] {
        let world = asking(3, 1, min_active);
        let told_of = format!(
            "spec.minActive: {min_active} is ignored; use a number from 1 to 1000, or 0 to ask for none"
        );
        assert_eq!(world.told("pool", "SpecValid"), ("False", "MinActiveIgnored", told_of.as_str()));
        assert_eq!(world.status("pool").error, told_of);
        assert_eq!(world.told("pool", "Ready").0, "True", "the feature is off");
        assert!(world.holder(1).is_some());
    }
}

#[test]
fn any_other_mistake_gives_the_reason_and_all_are_named() {
    for (field, reason) in [("spec.dnsRecordSet.ttl", "RecordSetIgnored"), ("spec.ips[1]", "EntryIgnored")] {
        let mut world = World::with(1, 1);
        world.edit("pool", |spec| {
            spec.min_active = -1;
            if reason == "EntryIgnored" {
                spec.ips.push("nonsense".into());
            } else {
                let set = flipop_core::model::spec::RawRecordSet {
                    zone: "example.com".into(),
                    record_name: "www".into(),
                    ttl: -1,
                    ..Default::default()
                };
                spec.record_set = Some(set);
            }
        });
        world.run(10);
        let (status, told_reason, message) = world.told("pool", "SpecValid");
        assert_eq!((status, told_reason), ("False", reason));
        assert!(message.contains(field) && message.contains("spec.minActive: -1"), "{message}");
    }
}

#[test]
fn the_status_counts_the_addresses_that_the_pool_uses() {
    let used = |world: &World| world.status("pool").used_ips;
    let mut world = World::with(3, 1);
    world.run(10);
    assert_eq!(used(&world), Some(3), "without desiredIPs all of them");
    world.edit("pool", |spec| spec.released_ips = vec![ip(1).to_string()]);
    world.run(10);
    assert_eq!(used(&world), Some(2), "but for those that it lets go");
    world.edit("pool", |spec| spec.desired_ips = 1);
    world.run(10);
    assert_eq!(used(&world), Some(1), "with desiredIPs so many");

    let mut buys = World::bare(0, 1);
    buys.add_pool("pool", RawPoolSpec { desired_ips: 2, region: String::new(), ips: vec![], ..spec() });
    buys.start();
    buys.run(10);
    assert_eq!((used(&buys), buys.created), (Some(2), 0), "and those that cannot be created yet");
}
