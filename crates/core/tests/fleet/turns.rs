//! The order of turns after failures. The failure of one node or one address holds up no other.

use crate::faults::{nodes_key, spec, spec_of};
use crate::world::{Trick, World, droplet, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, Observed};

#[test]
fn a_node_that_is_refused_again_and_again_keeps_the_address_from_the_next_one_for_seconds_only() {
    for trick in [FaultKind::InProgress, FaultKind::Transient].map(Trick::Refused) {
        let mut world = World::with(1, 2);
        world.faults.broken_droplets.insert(droplet(1), trick);
        world.run(4);
        assert_eq!(world.holder(2), Some(ip(1)), "{trick:?}: {:?}", world.calls);
        world.add_ip(2);
        world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
        world.faults.broken_droplets.clear();
        world.run(120);
        assert_eq!(world.holder(1), Some(ip(2)), "{trick:?}: it is tried again");
    }
}

#[test]
fn a_droplet_that_can_have_no_address_keeps_none_from_another_node() {
    for kind in [FaultKind::Permanent, FaultKind::Invalid] {
        let mut world = World::with(1, 2);
        world.faults.broken_droplets.insert(droplet(1), Trick::Refused(kind));
        world.run(3);
        assert_eq!(world.holder(2), Some(ip(1)), "{kind}: {:?}", world.calls);
        let status = world.status("pool");
        assert_eq!(status.node_errors, ["node-1"], "{kind}");
        assert!(status.assignable_nodes.is_empty(), "{kind}");
    }
}

#[test]
fn an_address_whose_last_assignment_failed_says_so_also_where_its_node_alone_waits() {
    for kind in [FaultKind::Permanent, FaultKind::Invalid, FaultKind::NotFound] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(Trick::Refused(kind));
        world.run(5);
        let entry = world.entry("pool", 1).clone();
        assert_eq!(entry.state, "error", "{kind}");
        assert!(entry.error.contains(kind.to_string().as_str()), "{kind}: {}", entry.error);
        world.run(70);
        assert_eq!(world.entry("pool", 1).state, "active", "{kind}");
    }
}

#[test]
fn what_failed_once_is_held_against_an_address_or_a_node_for_minutes_and_not_for_ever() {
    for (minutes, first) in [(5, 2), (30, 1)] {
        // The first address fails once, and the second one serves the node.
        let mut world = World::with(2, 1);
        world.tricks.push_back(Trick::Refused(FaultKind::Transient));
        world.run(10);
        assert_eq!(world.holder(1), Some(ip(2)));
        world.run(minutes * 60);
        // Now the first one lies idle, the second one on a droplet that does not match.
        world.set_node(1, false);
        world.run(5);
        world.set_node(2, true);
        world.run(10);
        assert_eq!(world.holder(2), Some(ip(first)), "after {minutes} min");
    }
    for (minutes, first) in [(5, 3), (30, 2)] {
        let mut world = World::with(1, 2);
        world.set_node(1, false);
        world.tricks.push_back(Trick::Errored);
        world.run_while(5, |world| world.events_of("AssignmentFailed").is_empty());
        world.set_node(1, true);
        world.set_node(2, false);
        world.run(10);
        assert_eq!(world.holder(1), Some(ip(1)));
        world.set_node(2, true);
        world.run(5);
        world.set_node(3, true);
        world.run(minutes * 60);
        world.set_node(1, false);
        world.run(10);
        // The node that began to match first comes first, except after a recent failure.
        assert_eq!(world.holder(first), Some(ip(1)), "after {minutes} min");
    }
}

#[test]
fn what_is_found_in_use_has_failed_at_nothing() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Refused(FaultKind::Permanent));
    world.run(5);
    world.move_by_hand(1, Some(1));
    world.run(70);
    assert_eq!(world.entry("pool", 1).state, "active");
    assert_eq!(world.assigns, 1, "somebody did it");
    // When the address has to move, the refusal no longer counts.
    world.set_node(2, true);
    world.set_node(3, true);
    world.faults.broken_droplets.insert(droplet(2), Trick::Refused(FaultKind::Permanent));
    world.set_node(1, false);
    world.run(3);
    assert_eq!(world.holder(3), Some(ip(1)), "one refusal is not two: {:?}", world.calls);
}

#[test]
fn a_droplet_on_which_a_younger_pool_made_room_is_not_taken_by_an_older_one() {
    let mut world = World::bare(3, 1);
    // The younger pool has its unused address on the node, and a used one to put there.
    world.move_by_hand(2, Some(1));
    world.moved.clear();
    world.add_pool("old", spec_of([1]));
    world.edit("old", |spec| spec.matching.node_label = "a in".into());
    let ips = vec![ip(3).to_string(), ip(2).to_string()];
    world.add_pool("young", RawPoolSpec { ips, desired_ips: 1, ..spec() });
    world.start();
    world.run_while(5, |world| world.holder(1).is_some());
    world.edit("old", |spec| spec.matching.node_label = String::new());
    world.run(10);
    assert_eq!(world.holder(1), Some(ip(3)), "{:?}", world.calls);
    assert!(world.status("old").node_errors.is_empty());
}

#[test]
fn a_pool_whose_nodes_are_not_read_yet_is_not_said_to_match_none() {
    let mut world = World::bare(2, 2);
    world.add_pool("old", spec_of([1]));
    world.edit("old", |spec| spec.matching.pod_namespace = "elsewhere".into());
    world.add_pool("young", spec_of([2]));
    world.move_by_hand(1, Some(1));
    world.moved.clear();
    world.hold_watches = true;
    world.start_without_nodes();
    // The nodes can be listed, but not the pods of the older pool.
    world.observe(Input::Nodes(nodes_key(), Observed::Reset(world.nodes.values().cloned().collect())));
    world.run(60);
    let status = world.status("young");
    assert!(status.node_errors.is_empty(), "{status:?}");
    assert!(status.conditions.iter().all(|condition| condition.kind != "NodesBlocked"), "{status:?}");
}

#[test]
fn an_address_that_is_only_reserved_for_another_node_is_not_in_another_region() {
    let mut world = World::bare(2, 1);
    world.set_node(2, true);
    world.move_by_hand(2, Some(2));
    world.moved.clear();
    let ips = vec![ip(1).to_string(), ip(2).to_string()];
    world.add_pool("pool", RawPoolSpec { ips, desired_ips: 1, ..spec() });
    world.set_node(1, false);
    world.start();
    world.run_while(5, |world| world.holder(2).is_some());
    // FLIPOP still follows the address that has made room, and may send nothing more.
    world.observe(Input::Permit(false));
    world.set_node(1, true);
    world.run(10);
    let told = world.waits();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|(_, wait)| !wait.contains("region")), "{told:?}");
    world.observe(Input::Permit(true));
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn an_address_that_an_older_pool_owns_is_not_counted_as_assigned() {
    let mut world = World::with(1, 1);
    world.run(5);
    world.add_pool("young", spec_of([1]));
    world.run(5);
    let pools = world.fleet.snapshot().pools;
    let assigned: Vec<(&str, usize)> =
        pools.iter().map(|pool| (pool.name.name.as_str(), pool.assigned)).collect();
    assert_eq!(assigned, [("pool", 1), ("young", 0)]);
}

#[test]
fn what_is_not_known_is_counted_as_it_was_confirmed() {
    let restarts: [fn(&mut World); 2] = [
        |world| world.faults.lists = Some(FaultKind::Transient),
        |world| world.edit("pool", |spec| spec.provider = "nobody".into()),
    ];
    for restart in restarts {
        let mut world = World::with(1, 2);
        world.run(5);
        restart(&mut world);
        world.start();
        world.run(5);
        let pool = &world.fleet.snapshot().pools[0];
        assert_eq!((pool.assigned, pool.available), (1, 1), "{:?}", world.status("pool"));
    }
}
