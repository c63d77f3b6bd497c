//! Objects with a field over its bound, beside others, and the limits that an administrator sets.

use crate::creation::{buying as purse, world as buying};
use crate::faults::spec;
use crate::reclaim::{FIRST, bought, release};
use crate::world::{Trick, World, ip};
use crate::zones::set_spec;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::Address;
use flipop_core::model::bounds::{TooLarge, Unit};
use flipop_core::records::name::Zones;

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
        let kept = world.message("pool", "ReclaimKept").or(world.message("pool", "ReclaimBlocked"));
        assert_eq!(kept.is_some_and(|told| told.contains("ns/long")), named, "{kept:?}");
    }
}

#[test]
fn no_address_is_bought_beyond_the_limit_of_the_operator_whoever_made_the_others() {
    let mut world = purse(2);
    world.max_addresses = Some(2);
    world.start();
    world.run(60);
    assert_eq!((world.created, world.cloud.len()), (1, 2), "another one is in the account");
    let status = world.status("pool");
    let told = status.conditions.iter().find(|told| told.kind == "CreationFailed").unwrap();
    assert_eq!(told.reason, "LimitReached");
    assert!(told.message.starts_with("the account has 2 addresses and 0 open creations"), "{}", told.message);
    assert_eq!(status.error, format!("no address is created: {}", told.message));
    world.cloud.remove(&ip(90));
    world.run(600);
    assert_eq!(world.created, 2, "there is room again");
    assert!(!world.has("pool", "CreationFailed"));
}

#[test]
fn records_in_a_zone_that_the_operator_may_not_write_stay_and_so_does_the_claim() {
    let mut world = World::with_set(2);
    world.run(30);
    let before = world.published("www.example.com");
    assert!(!before.is_empty());
    world.zones = Zones::parse("example.org").unwrap();
    world.start();
    world.add_record_set("younger", set_spec("www"));
    let from = world.now;
    world.set_node(1, false);
    world.run(120);
    assert_eq!((world.published("www.example.com"), world.count(from, "apply")), (before, 0));
    for (set, reason) in [("set", "ZoneNotAllowed"), ("younger", "ZoneNotAllowed")] {
        let told = world.condition(set, "Ready").unwrap();
        assert_eq!(told.reason, reason, "{set}: {}", told.message);
    }
    world.zones = Zones::parse("example.com").unwrap();
    world.start();
    world.run(120);
    assert_eq!(world.published("www.example.com").len(), 1, "node 1 has left");
}

#[test]
fn an_address_is_not_given_back_while_its_records_are_in_a_zone_that_the_operator_may_not_write() {
    let mut world = bought(2, |_| {});
    world.zones = Zones::parse("example.org").unwrap();
    world.start();
    release(&mut world, FIRST);
    world.run(300);
    assert!(world.cloud.contains_key(&ip(FIRST)));
    let told = world.message("pool", "ReclaimBlocked").unwrap();
    assert!(told.contains("--zones"), "{told}");
}

#[test]
fn a_thousand_addresses_that_the_account_does_not_have_delay_no_other_pool() {
    let took = [false, true].map(|absent| {
        let mut world = World::with(1, 2);
        if absent {
            let ips = (0..1_000_u16).map(|number| format!("198.18.{}.{}", number / 250, number % 250));
            world.add_pool("absent", RawPoolSpec { ips: ips.collect(), ..spec() });
        }
        world.run(5);
        let from = world.now;
        world.set_node(1, false);
        world.run_while(90, |world| {
            let entry = world.entry("pool", 1);
            (entry.state.as_str(), entry.node_name.as_str()) != ("active", "node-2")
        });
        world.now.millis_since(from)
    });
    assert_eq!(took[0], took[1], "{took:?}");
}
