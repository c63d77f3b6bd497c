//! Which nodes are checked and how often, when checks are off, and how checks affect record sets.

use crate::faults::{nodes_key, spec};
use crate::node_checks::{Clinic, lease, moved_after, name, standing, world};
use crate::world::{World, droplet, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::mechanism::evidence::Standing;
use flipop_core::model::{Address, Observed, RawNodeCheck, Uid};
use flipop_core::records::spec::RawRecordSetSpec;
use proptest::prelude::*;

#[test]
fn holders_are_checked_at_the_full_rate_and_others_every_ten_seconds() {
    let (world, _) = world(1, 3);
    let periods: Vec<(String, u64)> =
        world.fleet.checks().1.values().map(|target| (target.name.clone(), target.period_ms)).collect();
    let expected = [(1, 1_000), (2, 10_000), (3, 10_000)].map(|(n, period_ms)| (name(n), period_ms));
    assert_eq!(periods, expected);
}

#[test]
fn a_node_whose_address_is_that_of_no_machine_is_not_checked_and_named() {
    for address in ["127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "255.255.255.255"] {
        let (mut world, mut clinic) = world(1, 3);
        world.change_node_unseen(2, |node| node.internal_ips = vec![address.parse().unwrap()]);
        world.show_node(world.nodes["node-2"].clone());
        clinic.run(&mut world, 20);
        let names = world.fleet.checks().1.values().map(|target| target.name.clone());
        assert_eq!(names.collect::<Vec<_>>(), ["node-1", "node-3"], "{address}");
        let (_, reason, message) = world.told("pool", "ChecksDoubted");
        assert_eq!(reason, "AddressRefused");
        assert!(message.ends_with(&format!("so they are not checked: node-2 ({address})")), "{message}");
    }
}

#[test]
fn equal_checks_of_several_objects_are_one_and_the_own_node_has_none() {
    let (mut world, mut clinic) = world(1, 3);
    let pool = world.pools["pool"].spec.clone().unwrap();
    world.add_pool("second", pool.clone());
    clinic.run(&mut world, 2);
    assert_eq!(world.fleet.checks().1.len(), 3);
    let other = RawNodeCheck { port: Some(22), ..RawNodeCheck::default() };
    world.edit("second", |spec| spec.node_check = Some(other));
    clinic.run(&mut world, 2);
    assert_eq!(world.fleet.checks().1.len(), 6);
    let mut own = world.nodes["node-2"].clone();
    own.name = "node-of-flipop".into();
    own.uid = Uid("own".into());
    own.machine = Some(droplet(99));
    world.nodes.insert(own.name.clone(), own.clone());
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(own)));
    clinic.run(&mut world, 2);
    assert_eq!(world.fleet.checks().1.len(), 6);
    world.delete_node(3);
    world.run(2);
    assert_eq!(world.fleet.checks().1.len(), 4);
    world.edit("second", |spec| spec.node_check = None);
    world.edit("pool", |spec| spec.node_check = None);
    world.run(2);
    assert_eq!((world.fleet.checks().1.len(), world.fleet.wants_leases()), (0, false));
}

/// A kubelet may register its node before a cloud controller has set the addresses.
#[test]
fn a_check_follows_the_address_of_its_node() {
    let (of_pool, _) = world(1, 3);
    let mut of_set = World::with_set(3);
    of_set.edit_set("set", |spec: &mut RawRecordSetSpec| spec.node_check = Some(RawNodeCheck::default()));
    for mut world in [of_pool, of_set] {
        world.run(60);
        let mut node = world.nodes["node-3"].clone();
        let (old, new) = (node.internal_ips[0], Address::from([10, 0, 9, 9]));
        for addresses in [vec![old], Vec::new(), vec![new], vec![old, new]] {
            node.internal_ips.clone_from(&addresses);
            world.nodes.insert(node.name.clone(), node.clone());
            world.observe(Input::Nodes(nodes_key(), Observed::Apply(node.clone())));
            world.run(0);
            let checked = world.fleet.checks().1.values().filter(|target| target.name == "node-3");
            let checked: Vec<Address> = checked.map(|target| target.address).collect();
            assert_eq!(checked, addresses.first().copied().into_iter().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_new_term_of_leadership_begins_with_empty_counts() {
    let (mut world, mut clinic) = world(1, 3);
    clinic.dies(1);
    clinic.run(&mut world, 11);
    world.lead_again();
    clinic.due.clear();
    let began = world.now;
    clinic.list(&mut world, 3);
    clinic.run(&mut world, 30);
    let after = moved_after(&world, began).unwrap();
    assert!((12_000..=13_500).contains(&after), "{after}");
}

#[test]
fn without_the_right_to_read_leases_checks_are_off_and_a_condition_names_it() {
    let (mut world, mut clinic) = world(1, 3);
    world.observe(Input::LeasesDenied(true));
    clinic.dies(1);
    clinic.run(&mut world, 120);
    assert_eq!((world.assigns, world.fleet.checks().1.len()), (1, 0));
    assert!(world.fleet.wants_leases(), "it may come back");
    let (_, reason, message) = world.told("pool", "ChecksUnavailable");
    assert_eq!(reason, "Forbidden");
    assert!(message.contains("kube-node-lease") && message.contains("k8s/nodecheck"), "{message}");
    world.observe(Input::LeasesDenied(false));
    clinic.run(&mut world, 40);
    assert_eq!((world.assigns, world.message("pool", "ChecksUnavailable")), (2, None));
}

#[test]
fn a_bad_value_switches_the_checks_off_and_nothing_else() {
    let (mut world, mut clinic) = world(1, 3);
    let bad = RawNodeCheck { port: Some(0), ..RawNodeCheck::default() };
    world.edit("pool", |spec| spec.node_check = Some(bad));
    clinic.run(&mut world, 5);
    let (_, reason, message) = world.told("pool", "SpecValid");
    assert_eq!((reason, world.fleet.checks().1.len()), ("NodeCheckIgnored", 0));
    assert!(
        message.starts_with("spec.nodeCheck.port: 0 is ignored, and no node is checked; use "),
        "{message}"
    );
    world.set_node(1, false);
    world.run(3);
    assert_eq!(world.assigns, 2);
}

#[test]
fn a_record_set_loses_a_dead_node_and_gains_none_that_was_not_seen_alive() {
    let mut world = World::with_set(3);
    world.run(5);
    world.edit_set("set", |spec: &mut RawRecordSetSpec| spec.node_check = Some(RawNodeCheck::default()));
    world.run(1);
    let mut clinic = Clinic::default();
    clinic.list(&mut world, 3);
    clinic.run(&mut world, 60);
    let www = "www.example.com";
    assert_eq!(world.published(www), [1, 2, 3]);
    // Nodes join that answer no check and renew nothing.
    for n in [4, 10, 11] {
        clinic.dies(n);
        world.leases.insert(name(n), lease(n, 0));
        world.observe(Input::Leases(Observed::Apply(lease(n, 0))));
        world.set_node(n, true);
    }
    clinic.run(&mut world, 8);
    assert_eq!(world.published(www), [1, 2, 3]);
    world.leases.remove(&name(10));
    world.observe(Input::Leases(Observed::Delete(lease(10, 0))));
    world.run(1);
    assert_eq!(world.published(www), [1, 2, 3, 10], "a node without a Lease is not judged");
    world.leases.remove(&name(11));
    world.observe(Input::Leases(Observed::Reset(world.leases.values().cloned().collect())));
    world.run(1);
    assert_eq!(world.published(www), [1, 2, 3, 10, 11]);
    for n in [10, 11] {
        world.set_node(n, false);
    }
    clinic.dies(1);
    clinic.run(&mut world, 20);
    assert_eq!(world.published(www), [2, 3]);
    clinic.returns(4);
    clinic.run(&mut world, 11);
    assert_eq!(world.published(www), [2, 3, 4]);
    clinic.dies(2);
    clinic.dies(3);
    clinic.dies(4);
    world.leases.extend((5..=9).map(|n| (name(n), lease(n, 0))));
    clinic.run(&mut world, 60);
    assert_eq!(world.published(www), [1, 2, 3, 4], "checks do not count while every node is dead");
}

#[test]
fn a_node_that_failed_a_check_goes_behind_and_is_taken_where_it_is_the_only_one() {
    let (mut world, mut clinic) = world(1, 3);
    clinic.silent.insert(2);
    clinic.run(&mut world, 15);
    assert_eq!(standing(&world, 2), Some(Standing::Deprioritized));
    world.set_node(1, false);
    clinic.run(&mut world, 5);
    assert_eq!((world.holder(2), world.holder(3)), (None, Some(ip(1))));
    world.set_node(3, false);
    clinic.run(&mut world, 5);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[derive(Debug, Clone)]
enum Event {
    Dies(u8),
    Silent(u8),
    Returns(u8),
    Ready(u8, bool),
    Replace(u8),
    Address(u8),
    Edit(bool, Option<i64>),
    Lists,
    OwnFault(bool),
    Wait(u8),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1..5_u8).prop_map(Event::Dies),
        2 => (1..5_u8).prop_map(Event::Silent),
        2 => (1..5_u8).prop_map(Event::Returns),
        1 => (1..5_u8, any::<bool>()).prop_map(|(n, ready)| Event::Ready(n, ready)),
        1 => (1..5_u8).prop_map(Event::Replace),
        1 => (1..5_u8).prop_map(Event::Address),
        1 => (any::<bool>(), prop::option::of(22..24_i64)).prop_map(|(set, port)| Event::Edit(set, port)),
        1 => Just(Event::Lists),
        1 => any::<bool>().prop_map(Event::OwnFault),
        6 => (1..30_u8).prop_map(Event::Wait),
    ]
}

fn happen((world, clinic): (&mut World, &mut Clinic), event: &Event) {
    // A machine that comes back has lost its address all the same.
    world.moved.extend((1..=3).map(ip));
    match *event {
        Event::Dies(n) => clinic.dies(n),
        Event::Silent(n) => drop(clinic.silent.insert(n)),
        Event::Returns(n) => clinic.returns(n),
        Event::Ready(n, ready) => world.set_node(n, ready),
        Event::Replace(n) => world.replace_node(n, n),
        Event::Address(n) => {
            world.change_node_unseen(n, |node| node.internal_ips = vec![Address::from([10, 0, 9, n])]);
            world.show_node(world.nodes[&name(n)].clone());
        }
        Event::Edit(set, port) => {
            let check = port.map(|port| RawNodeCheck { port: Some(port), ..RawNodeCheck::default() });
            if set {
                world.edit_set("set", |spec: &mut RawRecordSetSpec| spec.node_check = check);
            } else {
                world.edit("pool", |spec| spec.node_check = check);
            }
        }
        Event::Lists => clinic.list(world, 4),
        Event::OwnFault(fails) => clinic.own_fault = fails,
        Event::Wait(seconds) => clinic.run(world, seconds.into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_checks_ends_well(history in prop::collection::vec(events(), 0..16)) {
        let mut world = World::with_set(4);
        (1..=3).for_each(|n| world.add_ip(n));
        let check = Some(RawNodeCheck::default());
        for (name, ips) in [("pool", 1..=2), ("plain", 3..=3)] {
            let ips = ips.map(|n| ip(n).to_string()).collect();
            world.add_pool(name, RawPoolSpec { ips, node_check: check, ..spec() });
        }
        world.edit_set("set", |spec: &mut RawRecordSetSpec| spec.node_check = check);
        let mut clinic = Clinic::default();
        clinic.list(&mut world, 4);
        clinic.run(&mut world, 30);
        for event in history {
            happen((&mut world, &mut clinic), &event);
        }
        world.moved.extend((1..=3).map(ip));
        clinic.own_fault = false;
        (1..=4).for_each(|n| {
            clinic.returns(n);
            world.set_node(n, true);
        });
        clinic.run(&mut world, 60);
        let served = (1..=4).filter(|n| world.holder(*n).is_some()).count();
        prop_assert_eq!(served, 3, "{:?}", &world.calls);
        prop_assert_eq!(world.published("www.example.com"), [1, 2, 3, 4]);
    }
}
