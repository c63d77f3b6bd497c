//! Addresses that a spec lets go, or a deleted pool leaves, at a bad moment. FLIPOP still knows their owners and
//! places.

use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::FaultKind;

/// One node, and a pool whose address is on its way to it.
fn on_its_way() -> World {
    let mut world = World::with(1, 1);
    world.add_ip(2);
    world.tricks.push_back(Trick::Slow(20));
    world.run(5);
    assert_eq!((world.assigns, world.holder(1)), (1, None));
    world
}

fn replace(world: &mut World) {
    world.edit("pool", |spec| spec.ips = vec![ip(2).to_string()]);
}

#[test]
fn an_address_that_is_let_go_on_its_way_makes_room_when_it_has_arrived() {
    for restart in [false, true] {
        let mut world = on_its_way();
        replace(&mut world);
        world.run(5);
        if restart {
            world.start();
        }
        world.run(200);
        assert_eq!(world.holder(1), Some(ip(2)), "restart {restart}: {:?}", world.calls);
        assert!(world.status("pool").node_errors.is_empty(), "restart {restart}");
    }
}

#[test]
fn an_address_that_is_let_go_while_the_account_cannot_be_read_makes_room_even_after_a_restart() {
    for restart in [true, false] {
        let mut world = World::with(1, 1);
        world.add_ip(2);
        world.run(20);
        world.faults.reads = Some(FaultKind::Unauthorized);
        world.run(70);
        if restart {
            world.start();
            world.run(70);
        }
        replace(&mut world);
        world.run(70);
        world.start();
        world.run(5);
        world.faults.reads = None;
        world.run(200);
        assert_eq!(world.holder(1), Some(ip(2)), "{:?}", world.status("pool"));
        assert_eq!(world.status("pool").ips.len(), 1, "{:?}", world.status("pool"));
    }
}

#[test]
fn where_an_address_went_since_the_last_list_is_known_when_no_pool_names_it_any_more() {
    let mut world = World::with(1, 1);
    world.add_ip(2);
    world.run(5);
    assert_eq!((world.holder(1), world.total("list")), (Some(ip(1)), 1));
    world.faults.lists = Some(FaultKind::Transient);
    let spec = world.pools["pool"].spec.clone().unwrap();
    world.add_pool("other", RawPoolSpec { ips: vec![ip(2).to_string()], ..spec });
    world.run(200);
    world.delete_pool("pool");
    world.run(20);
    assert_eq!(world.assigns, 1, "{:?}", world.calls);
    assert_eq!(world.status("other").node_errors, ["node-1"]);
}

#[test]
fn an_address_that_is_gone_is_read_no_more_once_no_pool_names_it() {
    let mut world = World::with(2, 1);
    world.run(60);
    world.cloud.remove(&ip(2));
    let from = world.now;
    world.run(7_200);
    assert!(world.count(from, "get 192.0.2.2") > 2, "{:?}", world.calls);
    world.edit("pool", |spec| spec.ips.truncate(1));
    world.run(120);
    let from = world.now;
    world.run(7_200);
    assert_eq!(world.count(from, "get"), 0, "{:?}", world.calls);
}
