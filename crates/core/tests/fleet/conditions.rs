//! The conditions of the latest plan, as metrics show them.

use crate::world::{Trick, World};
use flipop_core::fleet::Input;
use flipop_core::model::{Condition, FaultKind};

/// Type, status and reason of each condition that is shown of the only pool.
fn shown(world: &World) -> Vec<(String, String, String)> {
    let pools = world.fleet.snapshot().pools;
    triples(&pools.first().unwrap().conditions)
}

fn triples(conditions: &[Condition]) -> Vec<(String, String, String)> {
    let triple = |c: &Condition| (c.kind.clone(), c.status.clone(), c.reason.clone());
    conditions.iter().map(triple).collect()
}

fn has(world: &World, kind: &str, reason: &str) -> bool {
    shown(world).iter().any(|(shown, _, why)| shown == kind && why == reason)
}

#[test]
fn what_is_shown_is_what_the_status_says() {
    let mut world = World::with(2, 2);
    world.tricks.push_back(Trick::Refused(FaultKind::Invalid));
    world.observe(Input::EventsDenied(true));
    world.run(10);
    assert!(has(&world, "Ready", "Assigning") && has(&world, "NodesBlocked", "AssignmentFailed"));
    assert!(has(&world, "EventsDenied", "Forbidden"), "{:?}", shown(&world));
    assert_eq!(shown(&world), triples(&world.status("pool").conditions));
    world.run(100);
    assert!(has(&world, "Ready", "Assigned") && !has(&world, "NodesBlocked", "AssignmentFailed"));
    assert_eq!(shown(&world), triples(&world.status("pool").conditions));
}

#[test]
fn it_is_shown_though_the_status_cannot_be_written() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.denied.insert("pool".into());
    world.set_node(1, false);
    world.run(10);
    assert!(
        world.status("pool").conditions.iter().any(|c| c.reason == "Assigned"),
        "the status is of before"
    );
    assert!(has(&world, "Ready", "NoMatchingNode"));
}

#[test]
fn who_begins_to_lead_shows_what_the_status_says_until_it_knows_more() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.set_node(1, false);
    world.hold_watches = true;
    world.start_without_nodes();
    world.run(10);
    assert!(has(&world, "Ready", "Assigned"), "{:?}", shown(&world));
    world.hold_watches = false;
    world.run(10);
    assert!(has(&world, "Ready", "NoMatchingNode"));
    // The knowledge of this process from before a gap in its leadership may be wrong.
    world.pools.get_mut("pool").unwrap().status.conditions.clear();
    world.hold_watches = true;
    world.lead_again();
    assert_eq!(shown(&world), []);
}
