//! Objects with a field over its bound, beside others.

use crate::creation::world as buying;
use crate::faults::spec;
use crate::reclaim::{FIRST, bought, message, release};
use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::bounds::{TooLarge, Unit};
use flipop_core::model::ids::Address;

pub(crate) fn too_large(field: &str) -> TooLarge {
    TooLarge { field: field.to_owned(), size: 5_000, unit: Unit::Entries }
}

/// Adds a pool whose list of addresses is too long. Beyond the bound it names these.
fn add_long_pool(world: &mut World, hidden: impl IntoIterator<Item = Address>) {
    let ips = vec!["198.51.100.1".to_owned()];
    world.add_pool("long", RawPoolSpec { ips, too_large: vec![too_large("spec.ips")], ..spec() });
    world.hidden.insert("long".to_owned(), hidden.into_iter().collect());
}

#[test]
fn a_pool_over_a_bound_says_so_and_another_fails_over_as_without_it() {
    let took = [false, true].map(|long| {
        let mut world = World::with(1, 2);
        if long {
            add_long_pool(&mut world, []);
        }
        world.run(60);
        let from = world.now;
        world.set_node(1, false);
        world.run_while(60, |world| world.holder(2).is_none());
        if long {
            let status = world.status("long");
            let told = status.conditions.iter().find(|told| told.kind == "SpecValid").unwrap();
            assert_eq!((told.status.as_str(), told.reason.as_str()), ("False", "TooLarge"));
            assert_eq!(told.message, "spec.ips: 5000 entries are too many; use at most 1000");
        }
        world.now.millis_since(from)
    });
    assert_eq!(took[0], took[1]);
}

#[test]
fn an_address_is_adopted_only_if_no_entry_of_any_pool_names_it() {
    for named in [false, true] {
        let mut world = buying(2);
        world.tricks.push_back(Trick::Lost(true));
        add_long_pool(&mut world, named.then(|| ip(FIRST)));
        world.run(200);
        let pool = world.status("pool");
        assert!(world.calls.iter().any(|(_, call)| call == "list objects"));
        let adopted = pool.memory.as_ref().unwrap().created.iter().any(|created| created.ip == ip(FIRST));
        assert_eq!((world.created, adopted), (if named { 3 } else { 2 }, !named), "{pool:?}");
    }
}

#[test]
fn an_address_is_deleted_only_if_no_entry_of_any_pool_names_it() {
    for named in [false, true] {
        let mut world = bought(2, |_| {});
        add_long_pool(&mut world, named.then(|| ip(FIRST)));
        release(&mut world, FIRST);
        world.run(200);
        assert_eq!(world.cloud.contains_key(&ip(FIRST)), named);
        let kept = message(&world, "ReclaimKept").or(message(&world, "ReclaimBlocked"));
        assert_eq!(kept.is_some_and(|told| told.contains("ns/long")), named, "{kept:?}");
    }
}
