//! The messages that tell users why nothing matches, why an address left its node, which addresses are idle, and how
//! long an object has been unready.

use crate::faults::{spec, spec_of};
use crate::world::{NO_NODE, Trick, World, ip};
use crate::zones::record_set;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::FailoverPhase::{Confirmed, Noticed, Published, Requested};
use flipop_core::model::{ConditionType, Taint};
use std::collections::BTreeMap;

fn idle(world: &World) -> Option<&str> {
    world.message("pool", "AddressesIdle")
}

fn events(world: &World, reason: &str) -> Vec<(bool, String)> {
    let found = world.events.iter().filter(|event| event.reason.as_str() == reason);
    found.map(|event| (event.warning, event.message.clone())).collect()
}

#[test]
fn a_label_that_no_node_has_is_told_with_the_number_of_nodes_asked_for_once_a_minute() {
    let mut world = World::bare(1, 0);
    world.unlabelled = 12;
    let matching = flipop_core::model::spec::RawMatch { node_label: NO_NODE.into(), ..Default::default() };
    for name in ["pool", "other"] {
        let ips = vec![ip(1).to_string()];
        world.add_pool(name, RawPoolSpec { ips, matching: matching.clone(), ..spec() });
    }
    world.start();
    let from = world.now;
    world.run(30);
    let (_, reason, message) = world.told("pool", "Ready");
    assert_eq!(reason, "NoMatchingNode");
    assert_eq!(
        message,
        "no node matches spec.match (none of the cluster's 12 nodes matches nodeLabel pool=egde); the addresses stay where they are"
    );
    assert_eq!(world.count(from, "count nodes"), 1, "one for both pools");
    world.run(300);
    assert_eq!(world.count(from, "count nodes"), 6);
    let writes = world.status_writes;
    world.run(300);
    assert_eq!(world.status_writes, writes, "the same text is not written again");
    world.edit("pool", |spec| spec.matching.node_label.clear());
    world.edit("other", |spec| spec.matching.node_label.clear());
    world.run(10);
    let from = world.now;
    world.run(300);
    assert_eq!(world.count(from, "count nodes"), 0, "nobody needs the number");
}

#[test]
fn why_no_node_matches_is_rewritten_once_a_minute_at_most() {
    let mut world = World::with(1, 3);
    world.run(100);
    (1..=3).for_each(|n| world.set_node(n, false));
    world.run(1);
    let told = |world: &World| world.told("pool", "Ready").2.to_owned();
    assert!(
        told(&world).contains("of 3 nodes: 3 are not Ready (node-1, node-2, node-3)"),
        "{}",
        told(&world)
    );
    let gpu = Taint { key: "gpu".into(), value: "true".into(), effect: "NoSchedule".into() };
    world.taint(1, vec![gpu]);
    world.run(50);
    assert!(told(&world).contains("3 are not Ready"), "{}", told(&world));
    world.run(15);
    let now = "of 3 nodes: 2 are not Ready (node-2, node-3), node-1 has the taint gpu=true:NoSchedule";
    assert!(told(&world).contains(now), "{}", told(&world));
}

#[test]
fn a_holder_that_stops_matching_is_one_event_that_says_why_and_what_comes_next() {
    let mut world = World::with(1, 2);
    world.run(100);
    assert_eq!(world.holder(1), Some(ip(1)));
    world.set_node(1, false);
    world.run(10);
    let moved = (false, "node-1 is not Ready: 192.0.2.1 moves to node-2".to_owned());
    assert_eq!(events(&world, "MatchLost"), [moved]);
    world.delete_node(2);
    world.run(10);
    let lost = events(&world, "MatchLost").pop().unwrap();
    let text = "node-2 was deleted or relabeled: 192.0.2.1 stays there, because no other node matches";
    assert_eq!(lost, (true, text.to_owned()));
    assert_eq!(events(&world, "MatchLost").len(), 2);
}

#[test]
fn many_holders_lost_at_once_are_one_event_with_three_of_them() {
    let mut world = World::with(5, 5);
    world.run(100);
    (1..=5).for_each(|n| world.set_node(n, false));
    world.run(10);
    let told = events(&world, "MatchLost");
    assert_eq!(told.len(), 1, "{told:?}");
    let (warning, text) = &told[0];
    assert!(*warning && text.starts_with("5 nodes with an address no longer match: node-1 is not Ready ("));
    assert!(text.ends_with(", and 2 more"), "{text}");
}

#[test]
fn an_edit_of_the_criteria_is_named_as_the_reason() {
    let mut world = World::with(1, 2);
    world.run(100);
    world.edit("pool", |spec| spec.matching.pod_label = "app=none".into());
    world.run(10);
    let (_, text) = events(&world, "MatchLost").pop().unwrap();
    assert!(text.starts_with("node-1 does not meet spec.match as it was edited"), "{text}");
}

#[test]
fn an_edit_before_a_change_of_leader_is_no_reason_for_a_loss_after_it() {
    let mut world = World::with(1, 2);
    world.run(100);
    world.edit("pool", |spec| spec.matching.pod_label = "app,app".into());
    world.lead_again();
    world.run(10);
    let (_, text) = events(&world, "MatchLost").pop().unwrap();
    assert!(text.starts_with("node-1 runs no matching pod that is Ready"), "{text}");
}

#[test]
fn addresses_that_serve_nowhere_are_told_after_five_seconds_and_no_longer_than_that_is_true() {
    let mut world = World::with(2, 2);
    world.run(100);
    assert_eq!(idle(&world), None);
    world.set_node(1, false);
    world.run(4);
    assert_eq!(idle(&world), None, "too early");
    world.run(2);
    let text = "192.0.2.1 is on node-1, which is not Ready; every matching node has an address";
    assert_eq!(world.told("pool", "AddressesIdle"), ("True", "NotServing", text));
    assert_eq!(events(&world, "AddressesIdle"), [(true, text.to_owned())]);
    assert_eq!(world.told("pool", "Ready").0, "True", "Ready keeps its meaning");
    let writes = world.status_writes;
    world.start();
    world.run(30);
    assert_eq!(world.status_writes, writes, "a restart says nothing else");
    world.set_node(1, true);
    world.run(2);
    assert_eq!(idle(&world), None);
}

#[test]
fn addresses_without_a_node_and_those_beyond_the_wish_are_told_with_what_they_cost() {
    let mut world = World::with(3, 1);
    world.run(100);
    let text = "192.0.2.2, 192.0.2.3 are unassigned and billed: there are more addresses than matching nodes";
    assert_eq!(idle(&world), Some(text));
    let mut world = World::with(3, 1);
    world.edit("pool", |spec| spec.desired_ips = 1);
    world.run(10);
    let text =
        "192.0.2.2 (unassigned and billed), 192.0.2.3 (unassigned and billed) are beyond spec.desiredIPs";
    assert_eq!(world.told("pool", "AddressesIdle"), ("True", "Surplus", text));
    world.cloud.remove(&ip(1));
    world.run(200);
    assert!(idle(&world).unwrap().starts_with("192.0.2.1 is not in the account"), "{:?}", idle(&world));
}

#[test]
fn an_address_on_its_way_is_not_called_idle() {
    let mut world = World::with(1, 2);
    world.run(100);
    world.tricks.push_back(Trick::Slow(60));
    world.set_node(1, false);
    world.run(50);
    assert_eq!(idle(&world), None);
}

#[test]
fn what_keeps_a_pool_from_its_addresses_is_the_reason_of_ready() {
    let mut absent = World::with(1, 1);
    absent.edit("pool", |spec| spec.ips = vec!["192.0.2.99".into()]);
    absent.run(200);
    let (status, reason, message) = absent.told("pool", "Ready");
    assert_eq!((status, reason), ("False", "AddressNotFound"));
    assert!(message.ends_with("192.0.2.99 is not in the account"), "{message}");

    let mut claimed = World::with(1, 2);
    claimed.add_pool("younger", spec_of([1]));
    claimed.run(30);
    assert_eq!(claimed.verdict("younger", "Ready"), ("False", "AddressClaimed"));

    let mut nodes = World::with(1, 1);
    nodes.run(10);
    nodes.add_ip(2);
    nodes.add_pool("younger", spec_of([2]));
    nodes.run(30);
    let ready = nodes.condition("younger", "Ready").unwrap();
    assert_eq!(ready.reason, "NodesClaimed");
    let text = "every matching node without an address is claimed by ns/pool";
    assert!(ready.message.ends_with(text), "{}", ready.message);
}

#[test]
fn an_object_that_stays_unready_is_a_warning_after_five_seconds_and_its_end_is_told_too() {
    let mut world = World::with(1, 1);
    world.run(100);
    world.set_node(1, false);
    world.run(4);
    assert_eq!(events(&world, "NotReady"), []);
    world.run(2);
    let (warning, text) = events(&world, "NotReady").pop().unwrap();
    assert!(
        warning && text.starts_with("Ready is False (NoMatchingNode): no node matches spec.match"),
        "{text}"
    );
    world.run(300);
    assert_eq!(events(&world, "NotReady").len(), 1);
    world.set_node(1, true);
    world.run(2);
    let (warning, text) = events(&world, "Recovered").pop().unwrap();
    assert!(!warning && text.starts_with("Ready is True (Assigned): "), "{text}");
}

#[test]
fn a_snapshot_says_where_a_moving_address_was_last_and_since_when_its_pool_is_not_ready() {
    let mut world = World::with(1, 2);
    world.run(100);
    world.tricks.push_back(Trick::Slow(60));
    let lost = world.now;
    world.set_node(1, false);
    world.run(5);
    let snapshot = world.fleet.snapshot();
    let moving = &snapshot.pools[0].ips[0];
    let details = world.fleet.details(world.now);
    let place = &details.pools.values().next().unwrap().ips[&moving.ip];
    assert_eq!((&*moving.node, &*place.node, &*place.target), ("", "node-1", "node-2"));
    assert_eq!(moving.lost, Some(("is not Ready".to_owned(), lost)));
    assert_eq!(snapshot.pools[0].unready, [(ConditionType::Ready, lost)]);
    world.start();
    world.run(70);
    let pool = &world.fleet.snapshot().pools[0];
    let active = &pool.ips[0];
    assert_eq!((&*active.node, &active.lost), ("node-2", &None));
    assert!(pool.unready.is_empty());
    world.set_node(2, false);
    world.run(5);
    assert_eq!(world.fleet.snapshot().pools[0].unready.len(), 1);
    world.start();
    world.run(5);
    let pool = &world.fleet.snapshot().pools[0];
    assert_eq!(pool.conditions.iter().find(|told| told.kind == "Ready").unwrap().reason, "NoMatchingNode");
    assert_eq!(pool.unready, [], "the new leader does not know since when");
}

#[test]
fn a_short_spell_and_the_first_minute_of_a_process_are_no_news() {
    let mut short = World::with(1, 1);
    short.run(100);
    short.set_node(1, false);
    short.run(3);
    short.set_node(1, true);
    short.run(60);
    assert_eq!((events(&short, "NotReady"), events(&short, "Recovered")), (vec![], vec![]));

    let mut early = World::with(1, 0);
    early.run(50);
    assert_eq!(events(&early, "NotReady"), []);
    early.run(20);
    assert_eq!(events(&early, "NotReady").len(), 1, "it still lasts after the first minute");

    early.start();
    early.run(120);
    assert_eq!(events(&early, "NotReady").len(), 1, "the next process has no news of it");

    let mut over = World::with(1, 0);
    over.run(50);
    over.set_node(1, true);
    over.run(60);
    assert_eq!((events(&over, "NotReady"), events(&over, "Recovered")), (vec![], vec![]));
}

#[test]
fn the_last_changes_tell_who_moved_what_from_where_and_why() {
    let mut world = World::with(1, 2);
    world.run(100);
    world.set_node(1, false);
    world.run(10);
    world.set_node(1, true);
    world.run(10);
    world.move_by_hand(1, Some(1));
    world.run(120);
    let changes = world.fleet.snapshot().changes;
    let told: Vec<(&str, &str, &str)> = changes
        .iter()
        .map(|change| (change.from.as_str(), change.to.as_str(), change.reason.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("", "node-1", "was unassigned"),
            ("node-1", "node-2", "node-1 is not Ready"),
            ("node-2", "node-1", "changed by others"),
        ]
    );
    let moved: Vec<Option<&str>> = changes.iter().map(|change| change.moved).collect();
    assert_eq!(moved, [None, Some("NotReady"), None]);
    let phases = changes[1].phases.unwrap();
    assert!(phases.decided_ms < 10 && (50..5_000).contains(&phases.confirmed_ms), "{phases:?}");
}

#[test]
fn a_failover_is_measured_from_the_lost_match_to_the_record_and_counted_by_its_reason() {
    for grace_s in [0, 30] {
        let mut world = World::with(1, 2);
        world.edit("pool", |spec| {
            spec.record_set = Some(record_set("edge"));
            spec.grace.node_seconds = grace_s;
        });
        world.run(60);
        assert_eq!((world.fleet.take_failovers(), world.holder(1)), (vec![], Some(ip(1))));
        let start = world.now;
        world.set_node(1, false);
        world.run(90);
        assert_eq!(world.holder(2), Some(ip(1)));
        let measured = world.fleet.take_failovers();
        let [(Noticed, noticed), (Requested, requested), (Confirmed, confirmed), (Published, published)] =
            measured[..]
        else {
            panic!("{measured:?}");
        };
        // The wait of the grace does not count.
        assert!(noticed <= requested && requested < 200 && requested < confirmed, "{measured:?}");
        assert!((50..10_000).contains(&confirmed) && confirmed <= published, "{measured:?}");
        let snapshot = world.fleet.snapshot();
        assert_eq!(snapshot.pools[0].moves, BTreeMap::from([("NotReady", 1)]));
        let change = &snapshot.changes[1];
        let lost = change.failover.unwrap().lost.millis_since(start) / 1_000;
        assert_eq!(i64::try_from(lost).unwrap(), grace_s);
        assert_eq!(change.phases.unwrap().published_ms, Some(published - confirmed));
        assert_eq!(world.fleet.take_failovers(), []);
    }
}

#[test]
fn moves_by_hand_and_those_off_nodes_that_nobody_saw_fail_are_counted_as_such() {
    let mut world = World::with(1, 2);
    world.run(10);
    world.set_node(1, false);
    // Another process begins before anything was decided.
    world.start();
    world.run(60);
    assert_eq!(world.holder(2), Some(ip(1)));
    assert_eq!(world.fleet.snapshot().pools[0].moves, BTreeMap::from([("Unseen", 1)]));
    world.set_node(1, true);
    world.run(10);
    world.ask("pool", Some("192.0.2.1=node-1"));
    world.run(60);
    assert_eq!(world.holder(1), Some(ip(1)));
    assert_eq!(world.fleet.snapshot().pools[0].moves, BTreeMap::from([("Manual", 1), ("Unseen", 1)]));
    assert_eq!(world.fleet.take_failovers(), []);
}

#[test]
fn a_leader_that_never_saw_a_node_match_empties_no_name_for_ten_minutes() {
    let mut world = World::with_set(2);
    world.run(60);
    (1..=2).for_each(|n| world.set_node(n, false));
    world.start();
    world.run(590);
    assert_eq!(world.published("www.example.com"), [1, 2]);
    world.run(60);
    assert_eq!(world.published("www.example.com"), [0; 0]);
}

#[test]
fn a_node_set_tells_which_nodes_it_lost_and_why() {
    let mut world = World::with_set(2);
    world.run(60);
    world.set_node(2, false);
    world.run(10);
    world.set_node(1, false);
    world.run(10);
    let told = events(&world, "MatchLost");
    let expected = [
        (false, "node-2 is not Ready: the records follow".to_owned()),
        (
            true,
            "node-1 is not Ready: no other node matches, and the records are removed (whenEmpty: Delete)"
                .to_owned(),
        ),
    ];
    assert_eq!(told, expected);
}
