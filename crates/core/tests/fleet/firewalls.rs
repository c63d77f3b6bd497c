//! `spec.firewall`: which ports are open on which machines, in which order they open and close, and what that costs.

use crate::faults::spec_of;
use crate::walls::{Slip, opens, rule};
use crate::world::{World, droplet, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::firewalls::facts::Rule;
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, Moment};
use std::collections::BTreeSet;

fn nodes(range: std::ops::RangeInclusive<u64>) -> BTreeSet<u64> {
    range.collect()
}

#[test]
fn every_node_with_the_labels_is_in_a_firewall_of_the_pool_before_it_gets_an_address() {
    let mut world = World::walled(1, 3);
    world.walls.pending_ms = 400;
    world.set_node(3, false);
    world.run(10);
    assert_eq!(world.walls.members(), nodes(1..=3), "readiness does not count");
    assert_eq!((world.holder(1), world.walls.open(1)), (Some(ip(1)), ["443".to_owned()].into()));
    assert_eq!(world.verdict("pool", "FirewallReady"), ("True", "Applied"));
    let order: Vec<&str> = world
        .calls
        .iter()
        .map(|(_, call)| call.split(' ').next().unwrap())
        .filter(|call| ["create", "assign"].contains(call))
        .collect();
    assert_eq!(order, ["create", "assign"]);
    let status = world.status("pool");
    let [entry] = status.firewalls.as_slice() else { panic!("{:?}", status.firewalls) };
    assert!(!entry.id.is_empty() && entry.name == "flipop-uid-pool-1", "{entry:?}");
}

#[test]
fn the_first_look_and_the_first_opening_are_waited_for_as_any_other() {
    for (look_ms, pending_ms) in [(50, 50), (400, 0), (2_500, 1_000), (7_000, 500)] {
        for new_pool in [true, false] {
            let mut world = World::walled(2, 3);
            (world.walls.look_ms, world.walls.pending_ms) = (look_ms, pending_ms);
            if new_pool {
                world.edit("pool", |spec| spec.firewall = None);
                world.edit("pool", |spec| spec.ips.clear());
                world.run(30);
                world.edit("pool", |spec| {
                    spec.ips = vec![ip(1).to_string(), ip(2).to_string()];
                    spec.firewall = opens(&["443"]);
                });
            }
            world.run(15);
            let order: Vec<&str> = world
                .calls
                .iter()
                .map(|(_, call)| call.split(' ').next().unwrap())
                .filter(|call| ["create", "assign"].contains(call))
                .collect();
            assert_eq!(order, ["create", "assign", "assign"], "{look_ms} {pending_ms} {new_pool}");
        }
    }
}

#[test]
fn a_firewall_that_a_predecessor_only_announced_is_waited_for_too() {
    let mut world = World::walled(1, 3);
    world.walls.look_ms = 400;
    while world.status("pool").firewalls.is_empty() {
        world.run_until(world.now.plus_millis(5));
    }
    assert_eq!((world.total("create"), world.assigns), (0, 0));
    world.start();
    world.run(9);
    assert_eq!(world.assigns, 0, "{:?}", world.calls);
    world.run(60);
    assert_eq!((world.holder(1), world.assigns), (Some(ip(1)), 1));
    assert_eq!(world.walls.members(), nodes(1..=3));
}

#[test]
fn without_spec_firewall_no_call_is_made_and_nothing_is_said() {
    let mut world = World::with(2, 3);
    world.walls.add("base", &[1, 2, 3], &[]);
    world.run(200);
    assert_eq!(world.total("look"), 0);
    assert!(world.status("pool").conditions.iter().all(|told| !told.kind.starts_with("Firewall")));
    world.edit("pool", |spec| spec.firewall = opens(&[]));
    world.run(100);
    assert_eq!(world.total("look"), 0, "an empty list of ports asks for no firewall");
}

#[test]
fn a_failover_among_members_waits_for_no_call_about_firewalls() {
    let mut world = World::walled(1, 2);
    world.walls.pending_ms = 400;
    world.run(120);
    let from = world.now;
    world.set_node(1, false);
    world.run(1);
    assert_eq!(world.holder(2), Some(ip(1)));
    assert_eq!(world.count(from, "look") + world.count(from, "add"), 0);
}

#[test]
fn fifty_nodes_that_begin_to_match_within_five_seconds_cost_at_most_twenty_calls() {
    let mut world = World::walled(1, 1);
    world.walls.pending_ms = 700;
    world.run(120);
    let from = world.now;
    for n in 2..=51 {
        world.set_node(n, true);
        world.run_until(world.now.plus_millis(100));
    }
    world.run(20);
    assert_eq!(world.walls.members(), nodes(1..=51));
    let of = |what: &str| world.count(from, what);
    // A look at everything is a list of firewalls and a list of droplets.
    let calls = of("look") + of("look at all") + of("create flipop") + of("add") + of("find firewall");
    assert!(
        calls <= 20,
        "{calls}: {:?}",
        world.calls.iter().filter(|(at, _)| *at >= from).collect::<Vec<_>>()
    );
    let sizes: Vec<usize> = world.walls.ours().map(|wall| wall.machines.len()).collect();
    assert_eq!(sizes, [10, 10, 10, 10, 10, 1]);
}

#[test]
fn gaps_are_filled_members_stay_and_an_empty_last_one_is_deleted() {
    let mut world = World::walled(1, 12);
    world.run(60);
    let sizes = |world: &World| world.walls.ours().map(|wall| wall.machines.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&world), [10, 2]);
    world.delete_node(3);
    world.run(50);
    assert_eq!(sizes(&world), [10, 2], "it leaves a minute later");
    world.run(40);
    assert_eq!(sizes(&world), [9, 2], "nobody moves from one to the other");
    world.set_node(20, true);
    world.run(20);
    assert_eq!(sizes(&world), [10, 2]);
    world.delete_node(11);
    world.delete_node(12);
    world.run(100);
    assert_eq!(sizes(&world), [10]);
    assert_eq!(world.status("pool").firewalls.len(), 1);
}

#[test]
fn a_port_is_opened_everywhere_before_another_is_closed() {
    let mut world = World::walled(1, 2);
    world.walls.pending_ms = 300;
    world.run(30);
    let from = world.now;
    world.edit("pool", |spec| spec.firewall = opens(&["8443"]));
    world.run(30);
    assert_eq!(world.walls.open(1), ["8443".to_owned()].into());
    let calls: Vec<&str> = world
        .calls
        .iter()
        .filter(|(at, call)| *at >= from && call.contains("rules"))
        .map(|(_, call)| call.as_str())
        .collect();
    assert_eq!(calls, ["add rules flipop-uid-pool-1", "remove rules flipop-uid-pool-1"]);
}

#[test]
fn a_port_is_closed_only_when_the_nodes_that_come_are_in() {
    let mut world = World::walled(1, 12);
    world.edit("pool", |spec| spec.firewall = opens(&["443", "80"]));
    world.run(60);
    let from = world.now;
    world.edit("pool", |spec| spec.firewall = opens(&["443"]));
    world.set_node(13, true);
    world.run(60);
    assert_eq!(
        (world.walls.open(1), world.walls.open(13)),
        (["443".to_owned()].into(), ["443".to_owned()].into())
    );
    let at = |what: &str| {
        let calls = world.calls.iter().filter(|(at, call)| *at >= from && call.starts_with(what));
        calls.map(|(at, _)| *at).collect::<Vec<Moment>>()
    };
    let (put_in, closed) = (at("add members"), at("remove rules"));
    assert!(put_in.iter().max() < closed.iter().min() && closed.len() == 2, "{put_in:?} {closed:?}");
}

#[test]
fn what_others_change_in_ours_is_put_right_within_a_minute() {
    let mut world = World::walled(1, 2);
    world.run(30);
    world.walls.by_hand(|all| {
        let ours = all.iter_mut().find(|wall| wall.name.starts_with("flipop")).unwrap();
        ours.rules = [rule("443", "192.0.2.0/24"), rule("22", "0.0.0.0/0")].into();
        ours.machines.remove(&droplet(2));
        ours.tags.insert("everybody".into());
    });
    world.run(75);
    let ours = world.walls.named("uid-pool-1").unwrap().clone();
    assert_eq!(ours.rules, [rule("443", "0.0.0.0/0")].into());
    assert_eq!((ours.tags, world.walls.members()), (BTreeSet::new(), nodes(1..=2)));
    world.walls.by_hand(|all| all.retain(|wall| !wall.name.starts_with("flipop")));
    world.run(75);
    assert_eq!(world.walls.members(), nodes(1..=2), "gone: made anew");
}

fn denial(port: &str, from: &str) -> Rule {
    Rule { denies: true, ..rule(port, from) }
}

#[test]
fn a_denial_in_ours_is_removed_before_anything_else_and_nothing_that_is_asked_for_closes() {
    let mut world = World::walled(1, 2);
    world.run(30);
    let from = world.now;
    world.walls.by_hand(|all| {
        let ours = all.iter_mut().find(|wall| wall.name.starts_with("flipop")).unwrap();
        ours.rules.extend([denial("443", "0.0.0.0/0"), rule("22", "0.0.0.0/0")]);
    });
    world.run(75);
    assert_eq!(world.walls.named("uid-pool-1").unwrap().rules, [rule("443", "0.0.0.0/0")].into());
    assert_eq!(world.count(from, "remove rules"), 2, "the denial alone, and then the other");
    assert_eq!(world.told("pool", "FirewallReady").1, "Applied");
}

#[test]
fn a_denial_of_others_is_told_with_its_firewall_and_no_address_waits_for_it() {
    for (rules, reason) in [
        (vec![denial("443", "0.0.0.0/0")], "DeniedByOther"),
        (vec![denial("400-500", "192.0.2.0/24")], "DeniedByOther"),
        (vec![denial("22", "0.0.0.0/0"), denial("443", "::/0"), rule("443", "0.0.0.0/0")], "Applied"),
    ] {
        let mut world = World::walled(1, 2);
        world.walls.pending_ms = 3_600_000;
        world.walls.by_hand(|all| all[0].rules = rules.into_iter().collect());
        world.run(4);
        let denied = reason == "DeniedByOther";
        assert_eq!(world.holder(1).or(world.holder(2)).is_some(), denied, "{reason}");
        world.walls.pending_ms = 0;
        world.walls.by_hand(|all| all.iter_mut().for_each(|wall| wall.pending.clear()));
        world.run(60);
        assert_eq!(world.told("pool", "FirewallReady").1, reason);
        let told =
            world.status("pool").conditions.iter().any(|told| told.message.contains("a rule of base denies"));
        assert_eq!(told, denied);
        assert_eq!(world.walls.members(), nodes(1..=2), "ours is as wanted all the same");
        world.walls.by_hand(|all| all[0].rules.clear());
        world.run(75);
        assert_eq!(world.verdict("pool", "FirewallReady"), ("True", "Applied"));
    }
}

#[test]
fn removing_the_firewall_takes_members_out_and_then_deletes_what_is_ours() {
    let mut world = World::walled(1, 12);
    world.run(30);
    world.edit("pool", |spec| spec.firewall = None);
    world.run(30);
    assert_eq!(world.walls.ours().count(), 0);
    assert_eq!(world.walls.all.len(), 1, "the user's stays");
    assert!(world.status("pool").firewalls.is_empty());
    let from = world.now;
    world.run(300);
    assert_eq!(world.count(from, "look"), 0, "and nobody looks any more");
    assert_eq!(world.condition("pool", "FirewallReady"), None);
}

#[test]
fn a_firewall_that_was_announced_and_refused_is_forgotten_with_the_wish() {
    let mut world = World::walled(1, 1);
    world.walls.slips.extend([Slip::Refused(FaultKind::Quota); 100]);
    world.run(4);
    assert_eq!((world.told("pool", "FirewallReady").1, world.status("pool").firewalls.len()), ("Quota", 1));
    world.edit("pool", |spec| spec.firewall = None);
    world.run(300);
    assert!(world.status("pool").firewalls.is_empty(), "{:?}", world.status("pool").firewalls);
    let from = world.now;
    world.run(300);
    assert_eq!(world.count(from, "look"), 0, "and nobody looks any more");
}

#[test]
fn a_pool_that_is_deleted_leaves_its_firewalls_and_says_so() {
    let mut world = World::walled(1, 2);
    world.run(30);
    world.delete_pool("pool");
    world.run(100);
    assert_eq!(world.walls.members(), nodes(1..=2));
    let told: Vec<&str> = world
        .events
        .iter()
        .filter(|event| event.reason.as_str() == "FirewallLeft")
        .map(|event| event.message.as_str())
        .collect();
    assert!(told.len() == 1 && told[0].contains("flipop-uid-pool-1"), "{told:?}");
}

#[test]
fn a_firewall_in_trouble_holds_up_no_address() {
    for kind in [FaultKind::Unauthorized, FaultKind::Transient, FaultKind::Permanent] {
        let mut world = World::with(1, 1);
        world.walls.looks = Some(kind);
        world.edit("pool", |spec| spec.firewall = opens(&["443"]));
        world.run(3);
        assert_eq!(world.holder(1), Some(ip(1)), "{kind}");
        assert_eq!(world.verdict("pool", "FirewallReady"), ("False", kind.reason()));
        assert_eq!(world.told("pool", "Ready").0, "True");
    }
    let mut world = World::walled(1, 1);
    world.walls.slips.push_back(Slip::Refused(FaultKind::Quota));
    world.run(4);
    assert_eq!(world.holder(1), Some(ip(1)));
    assert_eq!(world.told("pool", "FirewallReady").1, "Quota");
    world.run(80);
    assert_eq!(world.told("pool", "FirewallReady").1, "Applied", "it is tried again");
}

#[test]
fn a_refused_change_is_tried_once_a_minute_for_all_pools() {
    let mut world = World::walled(1, 1);
    world.walls.slips.extend([Slip::Refused(FaultKind::Unauthorized); 100]);
    world.add_ip(2);
    world.add_pool("other", RawPoolSpec { firewall: opens(&["80"]), ..spec_of([2]) });
    world.run(60);
    let from = world.now;
    world.run(600);
    let tries = world.count(from, "create");
    assert!((8..=11).contains(&tries), "{tries}");
}

#[test]
fn an_assignment_waits_ten_seconds_for_its_machine_and_not_longer() {
    let mut world = World::walled(1, 1);
    world.walls.pending_ms = 3_600_000;
    world.run(9);
    assert_eq!(world.holder(1), None);
    assert_eq!(world.verdict("pool", "FirewallReady"), ("True", "Applying"));
    world.run(3);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn a_creation_whose_answer_is_lost_is_found_by_its_name_and_never_made_twice() {
    for done in [true, false] {
        let mut world = World::walled(1, 1);
        world.walls.slips.push_back(Slip::Lost(done));
        world.run(100);
        assert_eq!(world.walls.ours().count(), 1, "{done}");
        assert_eq!(world.walls.members(), nodes(1..=1));
        assert_eq!(world.total("create"), if done { 1 } else { 2 });
    }
}

#[test]
fn a_crash_at_any_moment_leaves_no_firewall_that_no_status_names() {
    for ms in (0..3_000).step_by(50) {
        let mut world = World::walled(1, 12);
        world.walls.pending_ms = 300;
        world.run_until(world.now.plus_millis(ms));
        world.start();
        world.run(150);
        let names: BTreeSet<&str> = world.walls.ours().map(|wall| wall.name.as_str()).collect();
        let told = world.status("pool").firewalls.iter().map(|entry| entry.name.as_str());
        assert_eq!(names, told.collect(), "after {ms} ms");
        assert_eq!(world.walls.members(), nodes(1..=12), "after {ms} ms");
    }
}

#[test]
fn a_restart_changes_nothing() {
    let mut world = World::walled(1, 12);
    world.run(60);
    let (from, before) = (world.now, world.walls.all.clone());
    world.start();
    world.run(200);
    assert_eq!(world.walls.all, before);
    let changes =
        ["create", "add", "remove", "delete"].iter().map(|what| world.count(from, what)).sum::<usize>();
    assert_eq!(changes, 0);
}

#[test]
fn at_rest_one_look_in_fifty_seconds_is_all() {
    let mut world = World::walled(1, 12);
    world.run(60);
    let from = world.now;
    world.run(1_000);
    assert!((19..=21).contains(&world.count(from, "look")), "{}", world.count(from, "look"));
}

#[test]
fn crds_that_drop_the_fields_open_nothing() {
    let mut world = World::walled(1, 1);
    world.go_crds = true;
    world.run(100);
    assert_eq!(world.walls.ours().count(), 0);
}

#[test]
fn a_paused_pool_changes_no_firewall() {
    let mut world = World::walled(1, 2);
    world.run(30);
    let before = world.walls.all.clone();
    let mut pool = world.pools["pool"].clone();
    pool.paused = Some("maintenance".into());
    pool.spec.as_mut().unwrap().firewall = opens(&["1", "2"]);
    world.put_pool(pool);
    world.set_node(3, true);
    world.run(100);
    assert_eq!(world.walls.all, before);
}

#[test]
fn a_change_of_leader_in_the_middle_of_a_failover_waits_for_no_look() {
    let mut world = World::walled(1, 2);
    world.run(30);
    world.walls.looks = Some(FaultKind::Transient);
    world.set_node(1, false);
    world.observe(Input::Leading);
    world.lead_again();
    world.run(2);
    assert_eq!(world.holder(2), Some(ip(1)));
}
