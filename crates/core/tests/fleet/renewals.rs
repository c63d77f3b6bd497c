//! Zones that change under their names while the former zone still answers.

use crate::world::World;
use crate::zones::{CLOUDFLARE, ZONE_ID, external, record_set, set_spec};
use flipop_core::model::spec::RawRecordSet;
use flipop_core::model::{Address, FaultKind};

const WWW: &str = "www.example.com";
const NEW_ID: &str = "0123456789abcdef0123456789abcdef";

/// A set at Cloudflare whose records are right, in a zone that is given by name.
fn at_cloudflare(ttl: i64) -> World {
    let mut world = World::with_set(2);
    world.edit_set("set", |spec| {
        spec.record_set = Some(RawRecordSet { provider: CLOUDFLARE.into(), ttl, ..record_set("www") });
    });
    world.run(10);
    assert_eq!((at(&world, ZONE_ID), world.dns.lookups), (vec![external(1), external(2)], 1));
    world
}

/// The addresses of the name in one zone.
fn at(world: &World, zone: &str) -> Vec<Address> {
    let records = &world.dns.records[&(CLOUDFLARE.to_owned(), zone.to_owned())];
    let mut found: Vec<Address> =
        records.iter().filter(|(name, _)| name == WWW).filter_map(|(_, record)| record.address()).collect();
    found.sort();
    found
}

fn ttls(world: &World) -> Vec<u32> {
    let records = &world.dns.records[&(CLOUDFLARE.to_owned(), ZONE_ID.to_owned())];
    records.iter().filter(|(name, _)| name == WWW).map(|(_, record)| record.ttl).collect()
}

#[test]
fn a_zone_that_moved_is_followed_within_ten_minutes_although_the_former_one_still_answers() {
    let mut world = at_cloudflare(0);
    world.dns.move_zone(NEW_ID);
    world.dns.add(CLOUDFLARE, NEW_ID, WWW, "A", "198.51.100.9");
    let (reads, status) = (world.dns.reads, world.set_status("set").clone());
    world.run(610);
    assert_eq!((at(&world, NEW_ID), world.dns.lookups), (vec![external(1), external(2)], 2));
    assert_eq!(at(&world, ZONE_ID), [external(1), external(2)], "what stands in the former zone stays");
    assert!(world.dns.reads > reads, "it is read before it is written");
    assert_eq!((world.set_status("set"), world.dns.emptied.len()), (&status, 0));
    world.delete_node(1);
    world.run(10);
    assert_eq!((at(&world, NEW_ID), at(&world, ZONE_ID).len()), (vec![external(2)], 2));
}

#[test]
fn a_zone_that_is_found_no_more_goes_on_as_long_as_it_answers() {
    let mut world = at_cloudflare(0);
    let status = world.set_status("set").clone();
    world.dns.hide_zone();
    world.run(3_600);
    assert_eq!((world.dns.lookups, world.set_status("set")), (7, &status));
    world.set_node(3, true);
    world.run(10);
    assert_eq!(at(&world, ZONE_ID).len(), 3);
    world.dns.read_fault = Some(FaultKind::Unauthorized);
    world.run(800);
    let error = &world.set_status("set").error;
    assert!(error.contains("spec.dnsRecordSet.zone example.com: NotFound"), "{error}");
}

#[test]
fn a_zone_whose_plan_changes_takes_what_it_may_take_from_then_on() {
    let mut world = at_cloudflare(30);
    assert_eq!(ttls(&world), [60, 60]);
    assert!(world.has("set", "TTLRaised"));
    world.dns.change_plan(30);
    world.run(610);
    assert_eq!((ttls(&world), world.message("set", "TTLRaised")), (vec![30, 30], None));
    world.dns.change_plan(60);
    world.run(610);
    assert_eq!(ttls(&world), [60, 60]);
    assert!(world.has("set", "TTLRaised"));
}

#[test]
fn a_ttl_that_nobody_asked_for_is_what_the_zone_takes_and_nothing_is_told_of_it() {
    let mut world = at_cloudflare(0);
    world.dns.change_plan(120);
    world.run(610);
    world.set_node(3, true);
    world.run(10);
    let mut ttls = ttls(&world);
    ttls.sort_unstable();
    assert_eq!((ttls[2], world.message("set", "TTLRaised")), (120, None), "{ttls:?}");
}

#[test]
fn ten_sets_of_one_zone_cost_one_lookup_in_ten_minutes_and_no_other_write() {
    let mut world = at_cloudflare(0);
    for n in 0..9 {
        world.add_record_set(&format!("set-{n}"), set_spec(&format!("n{n}")));
        world.edit_set(&format!("set-{n}"), |spec| spec.provider = CLOUDFLARE.into());
    }
    world.run(30);
    let versions = |world: &World| -> Vec<String> {
        world.record_sets.values().map(|set| set.resource_version.clone()).collect()
    };
    let (before, changes) = (versions(&world), world.dns.changes);
    for failing in [0, 1] {
        world.dns.failing_lookups = failing;
        let lookups = world.dns.lookups;
        world.run(3_600);
        assert_eq!(world.dns.lookups - lookups, 6, "{failing}");
    }
    assert_eq!((versions(&world), world.dns.changes), (before, changes));
}

#[test]
fn what_is_to_be_changed_goes_before_a_look_at_the_zone() {
    let mut world = at_cloudflare(0);
    // A call that hangs does not hold up the other.
    world.run(595);
    world.dns.slow_name_ms = 9_000;
    world.run_while(30, |world| world.dns.lookups == 1);
    world.delete_node(1);
    world.run(3);
    assert_eq!(at(&world, ZONE_ID), [external(2)]);
    world.run(20);
    assert_eq!(world.dns.lookups, 2);
}
