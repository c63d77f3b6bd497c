//! Knowledge that is forgotten in time, and knowledge that is recalled. Outdated watches and the view of a standby
//! decide nothing.

use crate::faults::{OF_BOTH, nodes_key, spec, spec_of};
use crate::reclaim::bought;
use crate::world::{PROVIDER, World, droplet, ip};
use flipop_core::addresses::pool::memory::Intent;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::mechanism::{Budget, Purpose};
use flipop_core::model::spec::RawMatch;
use flipop_core::model::{Address, Moment, Observed, Readiness, WriteFailure};

#[test]
fn what_a_watch_showed_before_it_was_given_up_decides_nothing_when_it_is_asked_for_again() {
    let mut world = World::with(1, 2);
    world.run(10);
    world.edit("pool", |spec| spec.matching.node_label = "a=b".into());
    world.run(10);
    assert_eq!(world.holder(1), Some(ip(1)));
    let watched = world.fleet.watches().into_iter().next().unwrap();
    assert_ne!(watched, nodes_key());
    // The watch of all nodes does not see this.
    for name in ["node-2", "node-1"] {
        let node = world.nodes.get_mut(name).unwrap();
        node.ready = Readiness::NotReady;
        let lost = Observed::Apply(node.clone());
        world.observe(Input::Nodes(watched.clone(), lost));
        world.run(10);
    }
    assert!(world.annotations.is_empty());
    world.hold_watches = true;
    world.edit("pool", |spec| spec.matching.node_label = String::new());
    world.run(60);
    assert_eq!(
        (world.assigns, world.annotations.len()),
        (1, 0),
        "node-2 was a candidate when it was last watched"
    );
    world.hold_watches = false;
    world.run(60);
    assert_eq!((world.assigns, world.annotations.len()), (1, 0));
}

#[test]
fn a_pool_that_comes_before_the_last_one_is_seen_to_go_begins_with_a_list() {
    let mut world = bought(1, |_| {});
    world.begin_deletion("pool");
    // The event of its deletion is late. FLIPOP learns from the answer to a write that the pool waits for nothing more.
    world.faults.mute = true;
    world.run(120);
    assert!(!world.pools.contains_key("pool") && world.fleet.watches().is_empty());
    world.add_ip(9);
    world.add_pool("other", spec_of([9]));
    world.faults.mute = false;
    world.run(60);
    assert_eq!(world.holder(1), Some(ip(9)));
}

#[test]
fn a_new_leader_remembers_what_its_first_list_says_and_not_what_it_saw_as_a_standby() {
    let mut world = World::bare(0, 1);
    world.add_pool("pool", RawPoolSpec { desired_ips: 1, region: "nyc3".into(), ..spec() });
    let before = world.pools["pool"].clone();
    world.start();
    world.run(60);
    assert_eq!(world.created, 1);
    // GitOps takes the address out of the spec again, so that the status alone remembers it.
    let mut after = world.pools.insert("pool".into(), before).unwrap();
    after.spec.as_mut().unwrap().ips.clear();
    world.stand_by();
    world.run(10);
    world.pools.insert("pool".into(), after);
    world.lead_again();
    world.observe(Input::Permit(true));
    world.run(600);
    let known = world.cloud.keys().next().unwrap().to_string();
    assert_eq!((world.created, world.cloud.len()), (1, 1));
    let status = world.status("pool");
    assert_eq!(status.ips[&known].state, "active");
    assert!(status.conditions.iter().all(|condition| condition.kind != "CreationUncertain"), "{status:?}");
}

#[test]
fn a_watch_in_trouble_is_reported_at_once_and_so_is_its_end() {
    let mut world = World::with(1, 1);
    world.run(65);
    let failing = |world: &World| world.message("pool", "WatchFailing").map(str::to_owned);
    for trouble in [Some("nodes is forbidden"), Some("nodes hang"), None] {
        world.observe(Input::WatchTrouble(nodes_key(), trouble.map(str::to_owned)));
        let begun = world.now;
        world.run(1);
        assert_eq!(failing(&world).is_some(), trouble.is_some());
        assert!(failing(&world).unwrap_or_default().contains(trouble.unwrap_or_default()));
        assert_eq!(world.count(begun, "list"), 0, "no answer of the provider was needed for that");
    }
}

#[test]
fn outdated_crds_are_reported_no_longer_once_they_keep_the_conditions_of_a_pool_that_buys_nothing() {
    let mut world = World::with(1, 1);
    let outdated = |world: &World| world.events_of("CRDsOutdated").len();
    world.go_crds = true;
    world.run(700);
    assert!(outdated(&world) > 0);
    world.go_crds = false;
    world.set_node(1, false);
    world.run(700);
    world.set_node(1, true);
    world.run(700);
    let status = world.status("pool");
    assert!(status.conditions.iter().any(|condition| condition.kind == "Ready"), "{status:?}");
    assert!(status.conditions.iter().all(|condition| condition.kind != "CRDsOutdated"), "{status:?}");
}

#[test]
fn a_budget_keeps_no_more_of_the_past_than_its_windows() {
    let limits = OF_BOTH.limits;
    let mut budget = Budget::new(limits);
    let mut size = 0;
    for second in 0..86_400 {
        let now = Moment::from_millis(second * 1_000);
        let purpose = if second % 10 == 0 { Purpose::Create } else { Purpose::Assign };
        if budget.admit(purpose, now).is_ok() {
            budget.sent(purpose, now);
        }
        if second == 600 {
            size = format!("{budget:?}").len();
        }
    }
    let grown = format!("{budget:?}").len();
    assert!(grown < size * 2, "{size} -> {grown} bytes");
}

#[test]
fn a_new_leader_does_not_take_pods_that_it_saw_as_a_standby_for_those_that_run() {
    let mut world = World::bare(1, 2);
    let matching = RawMatch { pod_namespace: "ns".into(), ..RawMatch::default() };
    world.add_pool("pool", RawPoolSpec { matching, ..spec_of([1]) });
    world.set_pod("a", 1, true);
    world.start();
    world.run(10);
    world.set_pod("b", 2, true);
    world.run(60);
    assert_eq!(world.holder(1), Some(ip(1)));
    world.pods.remove("b");
    world.hold_watches = true;
    world.lead_again();
    world.nodes.get_mut("node-1").unwrap().ready = Readiness::NotReady;
    let nodes = world.nodes.values().cloned().collect();
    world.observe(Input::Nodes(nodes_key(), Observed::Reset(nodes)));
    world.run(60);
    assert_eq!(world.assigns, 1, "nobody knows whether a pod serves on node-2");
    world.hold_watches = false;
    world.run(60);
    assert_eq!(world.assigns, 1);
}

#[test]
fn an_address_that_was_let_go_is_remembered_until_it_is_gone_for_good_or_belongs_to_somebody() {
    let former = |world: &World| {
        let memory = world.status("pool").memory.as_ref().unwrap();
        memory.former.iter().copied().collect::<Vec<Address>>()
    };
    let let_go = || {
        let mut world = World::with(2, 2);
        world.run(10);
        world.edit("pool", |spec| spec.ips.truncate(1));
        world.run(10);
        assert_eq!((former(&world), world.holder(2)), (vec![ip(2)], Some(ip(2))));
        world
    };
    let mut world = let_go();
    world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
    world.run(10);
    assert!(former(&world).is_empty(), "it is the pool's again");

    let mut world = let_go();
    world.add_pool("other", spec_of([2]));
    world.run(10);
    assert!(former(&world).is_empty(), "it is another pool's");

    let mut world = let_go();
    let from = world.now;
    world.cloud.remove(&ip(2));
    world.run_while(1_000, |world| world.count(from, "list") == 0);
    world.run(3);
    assert_eq!(former(&world), [ip(2)], "one list without it proves nothing");
    world.run(200);
    assert!(former(&world).is_empty());
}

#[test]
fn where_an_address_stands_is_not_forgotten_with_the_pool_that_brought_it_there() {
    let mut world = World::with(1, 1);
    world.add_ip(2);
    world.start();
    world.run(10);
    world.add_pool("other", spec_of([2]));
    world.run(28);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
    let from = world.now;
    world.delete_pool("pool");
    world.run(5);
    assert_eq!(world.count(from, "list"), 0, "the last list is from before the assignment");
    assert_eq!((world.count(from, "assign"), world.holder(1)), (0, Some(ip(1))));
    assert_eq!(world.status("other").node_errors, ["node-1"]);
}

#[test]
fn what_was_bought_before_a_gap_in_the_leadership_is_remembered_after_it() {
    for (desired, taken) in [(1_usize, false), (2, false), (2, true)] {
        let mut world = crate::creation::buying(i64::try_from(desired).unwrap());
        world.start();
        world.run_while(5, |world| world.created == 0);
        // The answer has come, but the API server is gone before it can be recorded.
        world.faults.status_writes.push_back(WriteFailure::NotSent);
        world.observe(Input::Permit(false));
        world.run(20);
        let bought = world.cloud.keys().next_back().copied().unwrap();
        let of_us = world.status("pool").memory.clone().unwrap();
        assert!(of_us.intent.is_some() && !of_us.has_created(bought), "{of_us:?}");
        if taken {
            world.cloud.get_mut(&bought).unwrap().machine = Some(droplet(70));
            world.moved.insert(bought);
        }
        // A new address of somebody else.
        world.add_ip(7);
        world.lead_again();
        world.observe(Input::Permit(true));
        world.run(600);
        let memory = world.status("pool").memory.clone().unwrap();
        assert!(memory.has_created(bought), "{desired} {taken}: {memory:?}");
        assert!(memory.intent.is_none() && !memory.has_created(ip(7)), "{desired} {taken}: {memory:?}");
        assert_eq!((world.created, memory.created.len()), (desired, desired), "{taken}");
    }
}

#[test]
fn an_intent_that_others_wrote_down_during_a_gap_is_resolved_and_not_taken_for_an_own_one() {
    let mut world = crate::creation::buying(1);
    world.start();
    world.run(20);
    assert_eq!(world.created, 1);
    let known = world.cloud.keys().copied().collect();
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.observe(Input::Permit(false));
    // Another leader bought one more meanwhile, and ended before it was recorded.
    let intent =
        Intent { number: 1, account_id: PROVIDER.into(), region: "nyc3".into(), known, uncertain: None };
    let mut pool = world.pools["pool"].clone();
    pool.status.memory.as_mut().unwrap().intent = Some(intent);
    pool.resource_version = "1000".into();
    world.version = 1_000;
    world.pools.insert("pool".into(), pool);
    world.add_ip(7);
    world.lead_again();
    world.observe(Input::Permit(true));
    world.run(120);
    let memory = world.status("pool").memory.clone().unwrap();
    assert!(memory.has_created(ip(7)) && memory.intent.is_none(), "{memory:?}");
    assert_eq!(world.created, 1);
}
