//! Lists whose total contradicts their entries. They show the places of addresses, and decide nothing else.

use crate::creation::{buying, world};
use crate::faults::{CONTRADICTION, spec};
use crate::world::{PROVIDER, Trick, World, ip};
use flipop_core::addresses::pool::memory::Memory;
use flipop_core::addresses::pool::spec::RawPoolSpec;

#[test]
fn a_list_that_contradicts_itself_shows_where_addresses_stand_and_the_others_are_read_singly() {
    let mut world = World::with(2, 2);
    world.faults.contradiction = Some(CONTRADICTION);
    world.faults.unlisted.insert(ip(2));
    world.run(10);
    assert!((1..=2).all(|n| world.holder(n).is_some()), "{:?}", world.calls);
    let told = world.condition("pool", "ProviderReady").unwrap();
    assert_eq!((told.status.as_str(), told.message.as_str()), ("False", CONTRADICTION));
    world.faults.contradiction = None;
    world.run(61);
    assert!(!world.has("pool", "ProviderReady"));
}

#[test]
fn a_node_that_fails_is_left_while_lists_contradict_themselves() {
    let mut world = World::with(1, 2);
    world.faults.contradiction = Some(CONTRADICTION);
    world.run(10);
    let held = (1..=2).find(|n| world.holder(*n).is_some()).unwrap();
    world.set_node(held, false);
    world.run(5);
    assert!(world.holder(3 - held).is_some(), "{:?}", world.calls);
}

#[test]
fn nothing_is_bought_while_lists_contradict_themselves() {
    for before in [true, false] {
        let mut world = buying(2);
        world.faults.contradiction = before.then_some(CONTRADICTION);
        world.tricks.push_back(Trick::Fine);
        world.start();
        if !before {
            world.run_while(5, |world| world.created == 0);
            world.faults.contradiction = Some(CONTRADICTION);
            world.set_node(4, true);
            world.edit("pool", |spec| spec.desired_ips = 3);
        }
        let (from, bought) = (world.now, world.created);
        // A purchase that was already announced is sent before the next list comes.
        world.run(if before { 300 } else { 90 });
        let bought = if before { bought } else { world.created };
        let from = if before { from } else { world.now };
        world.edit("pool", |spec| spec.desired_ips = 5);
        world.run(300);
        assert_eq!((world.created, world.count(from, "create")), (bought, 0), "{before}: {:?}", world.calls);
        world.faults.contradiction = None;
        world.run(120);
        assert_eq!(world.created, 5, "{before}");
    }
}

#[test]
fn a_list_that_contradicts_itself_closes_no_purchase() {
    for effect in [true, false] {
        let mut world = world(1);
        world.tricks.push_back(Trick::Lost(effect));
        world.run_while(5, |world| world.total("create") == 0);
        world.faults.contradiction = Some(CONTRADICTION);
        world.faults.unlisted.insert(ip(201));
        world.run(400);
        let (created, intent) = (world.created, world.status("pool").memory.as_ref().unwrap().intent.clone());
        assert_eq!((created, intent.is_some()), (usize::from(effect), true), "{:?}", world.calls);
        world.faults = crate::faults::Faults::default();
        world.run(200);
        assert_eq!((world.created, world.cloud.len()), (1, 2), "{effect}: {:?}", world.calls);
    }
}

#[test]
fn one_of_two_lists_that_agree_must_not_contradict_itself() {
    let mut world = world(1);
    world.tricks.push_back(Trick::Lost(true));
    world.run_while(5, |world| world.total("create") == 0);
    // The first list is whole but leaves the new address out. The second contradicts itself. The third shows all.
    world.faults.unlisted.insert(ip(201));
    world.run(20);
    world.faults.contradiction = Some(CONTRADICTION);
    world.run(70);
    world.faults = crate::faults::Faults::default();
    world.run(200);
    assert_eq!((world.created, world.cloud.len()), (1, 2), "{:?}", world.calls);
}

#[test]
fn an_address_of_unknown_origin_is_not_forgotten_because_such_lists_leave_it_out() {
    let mut world = World::bare(0, 1);
    world.add_foreign_ip(7, 1);
    world.add_pool("pool", RawPoolSpec { provider: PROVIDER.into(), desired_ips: 1, ..spec() });
    world.start();
    world.run(10);
    let unknown = |memory: &Memory| memory.unknown.contains(&ip(7));
    assert!(unknown(world.status("pool").memory.as_ref().unwrap()));
    world.faults.contradiction = Some(CONTRADICTION);
    world.faults.unlisted.insert(ip(7));
    world.run(400);
    assert!(unknown(world.status("pool").memory.as_ref().unwrap()));
    // Once it is gone and two whole lists have left it out, it no longer counts.
    world.cloud.remove(&ip(7));
    world.faults.contradiction = None;
    world.run(200);
    assert!(!world.status("pool").memory.as_ref().is_some_and(unknown), "{:?}", world.calls);
}
