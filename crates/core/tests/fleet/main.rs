//! The decisions in a small world: named scenarios, and random ones that must end well.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test reports a mistake by failing"
)]

mod answers;
mod beliefs;
mod bounds;
mod by_hand;
mod by_hand_leaders;
mod catalog;
mod catalogued;
mod checks;
mod cluster;
mod conditions;
mod contention;
mod contradictions;
mod creation;
mod dns;
mod dns_budgets;
mod dns_claims;
mod dns_faults;
mod dns_lags;
mod dns_left;
mod dns_limits;
mod dns_marks;
mod dns_random;
mod dns_rereads;
mod dns_status;
mod dns_told;
mod dns_unread;
mod failures;
mod faults;
mod firewalls;
mod firewalls_doubt;
mod frozen;
mod grace;
mod grace_edges;
mod grace_sets;
mod grace_unseen;
mod intents;
mod labels;
mod let_go;
mod lists;
mod memory;
mod minimum;
mod node_checks;
mod node_checks_scope;
mod node_checks_witness;
mod nodes;
mod order;
mod orphans;
mod outages;
mod pause;
mod pause_dns;
mod pods;
mod pool_told;
mod purchases;
mod purity;
mod random;
mod reads;
mod reclaim;
mod reclaim_doubt;
mod reclaim_pools;
mod renewals;
mod returns;
mod scale;
mod scope;
mod seen;
mod selectors;
mod sightings;
mod tokens;
mod told;
mod turns;
mod twins;
mod walls;
mod watches;
mod why;
mod world;
mod writes;
mod zones;

use crate::faults::spec_of;
use flipop_core::model::FaultKind;
use world::{Trick, World, ip};

#[test]
fn addresses_go_to_the_first_nodes_by_name_and_the_nodes_are_annotated() {
    let mut world = World::with(2, 5);
    world.run(10);
    assert_eq!((world.holder(1), world.holder(2), world.holder(3)), (Some(ip(1)), Some(ip(2)), None));
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
    let status = world.status("pool");
    assert_eq!(status.ips[&ip(1).to_string()].state, "active");
    assert_eq!(*status.assignable_nodes, ["node-3", "node-4", "node-5"]);
    assert_eq!(world.assigns, 2);
}

#[test]
fn a_restart_moves_and_writes_nothing() {
    let mut world = World::with(3, 3);
    world.run(20);
    let (assigns, writes, from) = (world.assigns, world.status_writes, world.now);
    world.start();
    world.run(120);
    assert_eq!((world.assigns, world.status_writes), (assigns, writes));
    assert!(world.count(from, "list") <= 3 && world.count(from, "get") == 0);
}

#[test]
fn a_node_that_fails_hands_its_address_over_and_one_that_recovers_keeps_it() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.set_node(1, false);
    world.run(10);
    assert_eq!(world.holder(1), Some(ip(1)), "an address that nobody needs stays");
    assert!(world.annotations.is_empty());
    assert_eq!(world.entry("pool", 1).state, "no-match");
    world.set_node(1, true);
    world.run(10);
    assert_eq!(world.assigns, 1);
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
    world.set_node(1, false);
    world.set_node(2, true);
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn of_addresses_that_can_be_moved_the_longest_released_goes_first() {
    let mut world = World::with(2, 2);
    world.run(10);
    world.set_node(2, false);
    world.run(5);
    world.set_node(1, false);
    world.run(5);
    world.set_node(3, true);
    world.run(10);
    assert_eq!(world.holder(3), Some(ip(2)));
}

#[test]
fn cool_off_spaces_assignments_and_a_refusal_does_not_start_it() {
    let mut world = World::with(3, 3);
    world.edit("pool", |spec| spec.cool_off_seconds = 20.0);
    world.tricks.push_back(Trick::Refused(FaultKind::NodeInUse));
    let start = world.now;
    world.run(5);
    assert_eq!(world.assigns, 2, "the refusal cost no cool-off");
    world.run(17);
    assert_eq!(world.assigns, 3);
    world.run(100);
    let times: Vec<u64> = world
        .calls
        .iter()
        .filter(|(_, call)| call.starts_with("assign"))
        .map(|(at, _)| at.millis_since(start) / 1_000)
        .collect();
    assert!(times[2] >= times[1] + 20, "{times:?}");
}

#[test]
fn every_kind_of_failed_assignment_is_repaired() {
    for trick in [
        Trick::Refused(FaultKind::Transient),
        Trick::Refused(FaultKind::Throttled),
        Trick::Refused(FaultKind::InProgress),
        Trick::Lost(true),
        Trick::Lost(false),
        Trick::Errored,
    ] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(trick);
        world.run(4);
        assert_eq!(world.holder(1), Some(ip(1)), "{trick:?}");
    }
    for kind in [
        FaultKind::NodeInUse,
        FaultKind::Invalid,
        FaultKind::Permanent,
        FaultKind::NotFound,
        FaultKind::Quota,
    ] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(Trick::Refused(kind));
        world.run(30);
        assert_eq!(world.holder(1), None, "{kind}: not before it is due");
        world.run(40);
        assert_eq!(world.holder(1), Some(ip(1)), "{kind}");
    }
}

#[test]
fn a_node_that_cannot_take_an_address_lets_the_next_one_have_it() {
    for trick in [Trick::Refused(FaultKind::NodeInUse), Trick::Refused(FaultKind::Invalid), Trick::Errored] {
        let mut world = World::with(1, 2);
        world.tricks.push_back(trick);
        world.run(5);
        assert_eq!(world.holder(2), Some(ip(1)), "{trick:?}");
    }
}

#[test]
fn one_hung_action_delays_no_other_address() {
    let mut world = World::with(2, 2);
    world.tricks.push_back(Trick::Slow(3_600));
    world.run(5);
    assert_eq!(world.holder(2), Some(ip(2)));
    world.run(400);
    assert!(world.has("pool", "Stalled"));
    assert_eq!(world.total("assign"), 2);
    assert_eq!(world.assigns, 2, "no second assignment while the address is locked");
}

#[test]
fn what_others_move_is_noticed_within_a_minute_and_put_right() {
    let mut world = World::with(1, 1);
    world.run(60);
    world.move_by_hand(1, None);
    world.run(60);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn an_address_that_others_take_to_another_candidate_stays_there() {
    let mut world = World::with(1, 2);
    world.run(60);
    world.move_by_hand(1, Some(2));
    world.run(120);
    assert_eq!((world.holder(2), world.assigns), (Some(ip(1)), 1));
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2"]);
}

#[test]
fn an_address_that_the_account_does_not_have_is_an_error_that_harms_no_other() {
    let mut world = World::with(2, 2);
    world.cloud.remove(&ip(1));
    world.run(10);
    let entry = world.entry("pool", 1);
    assert_eq!(
        (entry.state.as_str(), entry.error.as_str()),
        ("error", "the account does not have this address")
    );
    assert_eq!((world.holder(1), world.assigns), (Some(ip(2)), 1), "nothing is tried with what is not there");
}

#[test]
fn a_foreign_address_on_a_node_is_never_touched() {
    let mut world = World::with(1, 2);
    world.add_foreign_ip(99, 1);
    world.run(20);
    assert_eq!((world.holder(1), world.holder(2)), (Some(ip(99)), Some(ip(1))));
    let status = world.status("pool");
    assert_eq!(status.node_errors, ["node-1"]);
    assert!(
        status.conditions.iter().any(|c| c.reason == "ForeignAddress" && c.message.contains("192.0.2.99"))
    );
}

#[test]
fn a_surplus_address_leaves_its_node_only_for_a_used_one() {
    let mut world = World::with(2, 1);
    world.run(10);
    world.edit("pool", |spec| {
        spec.desired_ips = 1;
        spec.ips.reverse();
    });
    world.moved.insert(ip(1));
    world.run(20);
    assert_eq!(world.holder(1), Some(ip(2)), "the first of the list is used, the other one makes room");
    assert_eq!(world.entry("pool", 1).state, "disabled");
    let mut world = World::with(2, 2);
    world.run(10);
    world.edit("pool", |spec| spec.desired_ips = 1);
    world.run(60);
    assert_eq!(world.total("unassign"), 0);
    assert_eq!(world.holder(2), Some(ip(2)), "nobody needs its place, so it stays");
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-1"]);
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run(10);
    assert_eq!((world.assigns, world.annotations.len()), (2, 2), "it is used again where it stands");
}

#[test]
fn of_two_pools_that_name_one_address_the_older_keeps_it() {
    let mut world = World::with(1, 2);
    world.add_pool("younger", spec_of([1]));
    world.run(10);
    let entry = world.entry("younger", 1);
    assert!(entry.state == "error" && entry.error.contains("ns/pool"), "{entry:?}");
    world.delete_pool("pool");
    world.run(10);
    assert_eq!(world.entry("younger", 1).state, "active");
    assert_eq!(world.assigns, 1, "ownership passed on without a move");
}

#[test]
fn a_node_serves_one_pool_at_a_time() {
    let mut world = World::with(1, 1);
    world.add_ip(2);
    world.add_pool("younger", spec_of([2]));
    world.run(10);
    assert_eq!(world.holder(1), Some(ip(1)));
    assert_eq!(*world.status("younger").assignable_nodes, ["node-1"], "claimed is no error");
}

#[test]
fn annotations_go_with_the_pool_and_left_overs_are_swept() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.delete_pool("pool");
    world.run(5);
    assert!(world.annotations.is_empty());
    assert_eq!(world.holder(1), Some(ip(1)), "the address stays");
    let mut world = World::with(1, 2);
    world.annotations.insert("node-2".into(), ip(77).to_string());
    world.run(10);
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-1"]);
}

#[test]
fn at_rest_only_the_list_is_read() {
    let mut world = World::with(100, 100);
    world.run(120);
    let (from, writes) = (world.now, world.status_writes);
    world.run(3_600);
    let calls = world.calls.iter().filter(|(at, _)| *at > from).count();
    assert!(calls <= 75, "{calls}");
    assert_eq!(world.status_writes, writes);
}

#[test]
fn without_a_permit_nothing_is_written_but_reads_go_on() {
    let mut world = World::with(1, 2);
    world.observe(flipop_core::fleet::Input::Permit(false));
    let from = world.now;
    world.run(300);
    assert_eq!((world.assigns, world.status_writes), (0, 0));
    assert!(world.count(from, "list") >= 5);
    world.observe(flipop_core::fleet::Input::Permit(true));
    world.run(60);
    assert_eq!(
        (world.holder(1), &*world.status("pool").assignable_nodes),
        (Some(ip(1)), &["node-2".to_owned()][..])
    );
    // Also what changes only the status is written once there is a permit again.
    world.observe(flipop_core::fleet::Input::Permit(false));
    world.set_node(2, false);
    world.run(5);
    world.observe(flipop_core::fleet::Input::Permit(true));
    world.run(5);
    assert!(world.status("pool").assignable_nodes.is_empty());
}

#[test]
fn an_address_that_leaves_the_spec_and_returns_is_taken_back_where_it_stands() {
    for pause in [1, 40, 90] {
        let mut world = World::with(2, 2);
        world.run(3);
        world.edit("pool", |spec| spec.ips.truncate(1));
        world.run(pause);
        assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-1"]);
        world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
        world.run(5);
        assert_eq!(world.assigns, 2, "after {pause} s");
        assert_eq!(world.entry("pool", 2).state, "active");
    }
}

#[test]
fn an_address_that_was_let_go_and_cannot_be_taken_off_is_tried_ever_more_slowly() {
    let mut world = World::with(2, 1);
    world.run(65);
    world.tricks.extend([Trick::Refused(FaultKind::Permanent); 500]);
    world.moved.insert(ip(1));
    let from = world.now;
    world.edit("pool", |spec| {
        spec.ips.remove(0);
    });
    world.run(1_000);
    assert_eq!(world.count(from, "unassign"), 4, "after 0, 1, 6 and 16 min");
    let ips = &world.status("pool").ips;
    assert!(!ips.contains_key(&ip(1).to_string()), "it no longer belongs to the pool: {ips:?}");
    world.tricks.clear();
    world.run(600);
    assert_eq!(world.holder(1), Some(ip(2)));
}
