//! Firewalls in doubt: no machine is isolated, and nothing changes before the facts are known.

use crate::faults::{spec, spec_of};
use crate::walls::{Slip, opens, rule};
use crate::world::{World, droplet, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::firewalls::facts::Firewall;
use flipop_core::fleet::Input;
use flipop_core::model::FaultKind;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn a_machine_that_no_firewall_governs_is_left_open_and_gets_its_address_at_once() {
    let mut world = World::with(1, 2);
    world.walls.add("base", &[2], &[]);
    world.edit("pool", |spec| spec.firewall = opens(&["443"]));
    world.run(3);
    assert_eq!(world.walls.members(), [2].into());
    assert_eq!(world.holder(1), Some(ip(1)), "it is open: nothing to wait for");
    assert_eq!(world.verdict("pool", "FirewallWouldIsolate"), ("True", "NoOtherFirewall"));
    assert_eq!(world.told("pool", "FirewallReady").0, "True");
    world.walls.by_hand(|all| {
        all[0].machines.insert(droplet(1));
    });
    world.run(60);
    assert_eq!(world.walls.members(), [1, 2].into());
    assert_eq!(world.condition("pool", "FirewallWouldIsolate"), None);
}

#[test]
fn a_machine_that_no_firewall_governs_is_judged_once_and_keeps_no_port_open() {
    let mut world = World::with(1, 2);
    world.walls.add("base", &[2], &[]);
    world.edit("pool", |spec| spec.firewall = opens(&["443"]));
    world.run(30);
    world.edit("pool", |spec| spec.firewall = opens(&["80"]));
    world.run(30);
    let ours = world.walls.ours().next().unwrap();
    assert_eq!(ours.rules, [rule("80", "0.0.0.0/0")].into(), "the former port is closed");
    let from = world.now;
    for _ in 0..100 {
        world.run(1);
        assert_eq!(world.verdict("pool", "FirewallReady"), ("True", "Applied"));
    }
    assert!(world.count(from, "look") <= 3, "no more looks than usual: {}", world.count(from, "look"));
}

#[test]
fn an_orphan_of_ours_and_another_pool_s_firewall_cover_nothing() {
    let mut world = World::with(1, 2);
    world.walls.add("flipop-0123abcd-1", &[1], &[]);
    world.walls.add("base", &[2], &[]);
    world.edit("pool", |spec| spec.firewall = opens(&["443"]));
    world.run(10);
    let ours = world.walls.named("uid-pool-1").unwrap();
    assert_eq!(ours.machines, [droplet(2)].into());
    let orphan = world.walls.named("0123abcd-1").unwrap();
    assert_eq!(orphan.machines, [droplet(1)].into(), "it is left alone");
}

#[test]
fn a_member_that_loses_its_last_other_firewall_is_taken_out_after_a_second_look() {
    for paused in [false, true] {
        let mut world = World::walled(1, 2);
        world.run(30);
        if paused {
            let mut pool = world.pools["pool"].clone();
            pool.paused = Some(String::new());
            world.put_pool(pool);
        }
        world.walls.by_hand(|all| all.retain(|wall| wall.name != "base"));
        world.run(58);
        assert_eq!(world.walls.members(), BTreeSet::new(), "{paused}");
        let told = world.events_of("FirewallWouldIsolate").len();
        assert_eq!(told, 1);
        world.run(120);
        assert_eq!(world.walls.members(), BTreeSet::new(), "it does not come back");
        world.walls.add("base", &[], &["k8s"]);
        world.run(60);
        assert_eq!(world.walls.members().is_empty(), paused, "but with the other one");
    }
}

#[test]
fn one_look_that_lacks_the_other_firewall_takes_nobody_out() {
    let mut world = World::walled(1, 2);
    world.run(30);
    let shown: Vec<Firewall> = world.walls.ours().cloned().collect();
    world.walls.stale = Some(shown);
    let from = world.now;
    world.run_while(10, |world| world.count(from, "look") == 0);
    world.walls.stale = None;
    world.run(60);
    assert_eq!(world.walls.members(), [1, 2].into());
    assert_eq!(world.count(from, "remove"), 0);
}

#[test]
fn a_token_that_may_not_read_tags_changes_nothing_and_is_told() {
    let mut world = World::walled(1, 2);
    world.run(30);
    let before = world.walls.all.clone();
    world.walls.missing = ["tag:read"].into();
    world.run(55);
    world.edit("pool", |spec| spec.firewall = opens(&["80"]));
    world.delete_node(2);
    world.set_node(3, true);
    world.run(200);
    assert_eq!(world.walls.all, before);
    assert_eq!(world.verdict("pool", "FirewallReady"), ("False", "ScopeMissing"));
    world.set_node(1, false);
    world.run(5);
    assert_eq!(world.holder(3), Some(ip(1)), "no address waits for that");
    world.walls.missing.clear();
    world.run(130);
    assert_eq!(world.walls.members(), [1, 3].into());
}

#[test]
fn lists_that_leave_ours_out_or_show_it_empty_change_nothing() {
    for hidden in [true, false] {
        let mut world = World::walled(1, 2);
        world.run(30);
        let before = world.walls.all.clone();
        world.walls.memberless = !hidden;
        if hidden {
            world.walls.hidden.insert(before[1].name.clone());
        }
        let from = world.now;
        world.run_while(10, |world| world.count(from, "look") == 0);
        world.run_until(world.now.plus_millis(100));
        world.edit("pool", |spec| spec.firewall = opens(&["80"]));
        world.run_until(world.now.plus_millis(4_000));
        assert_eq!(world.walls.all, before);
        assert_eq!(world.verdict("pool", "FirewallReady"), ("False", "CoverageUnknown"));
        world.walls.hidden.clear();
        world.walls.memberless = false;
        world.run(100);
        assert_eq!(world.walls.open(1), ["80".to_owned()].into());
        assert_eq!(world.count(from, "create"), 0);
    }
}

#[test]
fn two_firewalls_of_one_name_are_left_to_the_user() {
    let mut world = World::walled(1, 1);
    let twin = |id: &str| Firewall {
        id: id.into(),
        name: "flipop-uid-pool-1".into(),
        machines: BTreeSet::new(),
        tags: BTreeSet::new(),
        rules: [rule("1", "::/0")].into(),
        pending: BTreeMap::new(),
    };
    world.walls.by_hand(|all| all.extend([twin("a"), twin("b")]));
    world.run(60);
    assert_eq!(world.told("pool", "FirewallReady").1, "CoverageUnknown");
    assert!(world.walls.members().is_empty() && world.holder(1).is_some());
}

#[test]
fn an_address_on_a_node_without_the_labels_keeps_its_ports_until_it_has_left() {
    let mut world = World::walled(1, 1);
    world.run(30);
    // No other node can take the address, so it stays.
    world.set_node(1, false);
    world.delete_node(1);
    world.run(300);
    assert_eq!((world.holder(1), world.walls.members()), (Some(ip(1)), [1].into()));
    world.set_node(2, true);
    world.run(30);
    assert_eq!((world.holder(2), world.walls.members()), (Some(ip(1)), [1, 2].into()));
    world.run(60);
    assert_eq!(world.walls.members(), [2].into());
}

#[test]
fn two_pools_of_one_node_open_both_their_ports() {
    let mut world = World::walled(1, 2);
    world.add_ip(2);
    world.add_pool("other", RawPoolSpec { firewall: opens(&["80"]), ..spec_of([2]) });
    world.run(60);
    assert_eq!(world.walls.open(1), ["443".to_owned(), "80".to_owned()].into());
    world.edit("other", |spec| spec.firewall = None);
    world.run(60);
    assert_eq!(world.walls.open(1), ["443".to_owned()].into());
}

#[test]
fn a_spec_of_which_nothing_can_be_followed_closes_nothing() {
    let mut world = World::walled(1, 1);
    world.run(30);
    let before = world.walls.all.clone();
    world.edit("pool", |spec| {
        spec.firewall.as_mut().unwrap().sources = vec!["10.0.0.1/8".into()];
    });
    world.run(100);
    assert_eq!(world.walls.all, before);
    assert_eq!(world.verdict("pool", "SpecValid"), ("False", "FirewallIgnored"));
    assert_eq!(world.verdict("pool", "FirewallReady"), ("False", "InvalidSpec"));
    assert_eq!(world.told("pool", "Ready").0, "True");
}

#[test]
fn a_list_that_is_late_repeats_no_change() {
    let mut world = World::walled(1, 2);
    world.run(30);
    let from = world.now;
    world.walls.stale = Some(world.walls.all.clone());
    world.edit("pool", |spec| spec.firewall = opens(&["80"]));
    world.run(20);
    assert_eq!((world.count(from, "add"), world.count(from, "remove")), (1, 0));
    world.walls.stale = None;
    world.run(20);
    assert_eq!((world.count(from, "add"), world.count(from, "remove")), (1, 1));
    assert_eq!(world.walls.open(1), ["80".to_owned()].into());
    // After 30 s a list is believed.
    let from = world.now;
    world.walls.stale = Some(world.walls.all.clone());
    world.edit("pool", |spec| spec.firewall = opens(&["80", "81"]));
    world.run(50);
    assert_eq!(world.count(from, "add"), 2);
}

#[test]
fn a_firewall_whose_members_were_all_taken_out_is_in_no_doubt() {
    let mut world = World::walled(1, 2);
    world.run(30);
    world.walls.by_hand(|all| all.retain(|wall| wall.name != "base"));
    for _ in 0..120 {
        world.run(1);
        assert_eq!(world.verdict("pool", "FirewallReady").0, "True");
    }
    assert_eq!(world.walls.members(), BTreeSet::new(), "nothing is isolated");
}

#[derive(Debug, Clone)]
enum Event {
    Node(u8, bool),
    Replace(u8),
    Ports(bool, Option<bool>),
    Slip(Slip),
    Hidden(bool),
    Memberless(bool),
    Looks(bool),
    Token,
    Crash,
    Wait(u16),
}

fn events() -> impl Strategy<Value = Event> {
    let slips = prop_oneof![
        Just(Slip::Refused(FaultKind::Transient)),
        Just(Slip::Refused(FaultKind::Unauthorized)),
        any::<bool>().prop_map(Slip::Lost)
    ];
    prop_oneof![
        4 => (1..6_u8, any::<bool>()).prop_map(|(n, ready)| Event::Node(n, ready)),
        2 => (1..6_u8).prop_map(Event::Replace),
        2 => (any::<bool>(), prop::option::of(any::<bool>())).prop_map(|(old, web)| Event::Ports(old, web)),
        2 => slips.prop_map(Event::Slip),
        1 => any::<bool>().prop_map(Event::Hidden),
        1 => any::<bool>().prop_map(Event::Memberless),
        1 => any::<bool>().prop_map(Event::Looks),
        1 => Just(Event::Token),
        1 => Just(Event::Crash),
        6 => (1..90_u16).prop_map(Event::Wait),
    ]
}

fn happen(world: &mut World, event: &Event) {
    match *event {
        Event::Node(n, ready) => world.set_node(n, ready),
        Event::Replace(n) => world.replace_node(n, n),
        Event::Ports(old, web) => {
            let ports = if old { ["443", "444"] } else { ["80", "81"] };
            let firewall = web.and_then(|web| opens(&[ports[usize::from(web)]]));
            world.edit(if old { "pool" } else { "young" }, |spec| spec.firewall = firewall);
        }
        Event::Slip(slip) => world.walls.slips.push_back(slip),
        Event::Hidden(hidden) => {
            let ours = world.walls.ours().map(|wall| wall.name.clone()).filter(|_| hidden).collect();
            world.walls.hidden = ours;
        }
        Event::Memberless(memberless) => world.walls.memberless = memberless,
        Event::Looks(fail) => world.walls.looks = fail.then_some(FaultKind::Transient),
        Event::Token => world.observe(Input::TokenChanged(crate::world::PROVIDER.into())),
        Event::Crash => world.start(),
        Event::Wait(seconds) => world.run(seconds.into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_firewalls_ends_well(history in prop::collection::vec(events(), 0..25)) {
        let mut world = World::walled(2, 5);
        world.add_ip(3);
        let ips = vec![ip(3).to_string()];
        world.add_pool("young", RawPoolSpec { ips, firewall: opens(&["80"]), ..spec() });
        world.run(100);
        for event in history {
            happen(&mut world, &event);
        }
        world.walls.slips.clear();
        world.walls.hidden.clear();
        (world.walls.looks, world.walls.memberless) = (None, false);
        (1..=5).for_each(|n| world.set_node(n, true));
        world.edit("pool", |spec| spec.firewall = opens(&["443"]));
        world.edit("young", |spec| spec.firewall = opens(&["80"]));
        world.run(1_000);
        for n in 1..=5 {
            prop_assert_eq!(world.walls.open(n), BTreeSet::from(["443".to_owned(), "80".to_owned()]));
        }
        let served = (1..=5).filter(|n| world.holder(*n).is_some()).count();
        prop_assert_eq!(served, 3, "{:?}", &world.calls);
    }
}
