//! A token, as calls about records show it: how many requests it has left, how many are under way, and whether it is
//! refused.

use crate::world::{PROVIDER, World, ip};
use crate::zones::{CLOUDFLARE, DnsTrick, external, set_spec};
use flipop_core::fleet::Input;
use flipop_core::mechanism::{Quota, RateReport};
use flipop_core::model::FaultKind;
use std::ops::Range;

const WWW: &str = "www.example.com";

fn remaining(world: &World, provider: &str) -> Option<u64> {
    let accounts = world.fleet.snapshot().accounts;
    accounts.into_iter().find(|account| account.provider == provider).unwrap().rate_remaining
}

/// The provider says that this many requests are left.
fn grant(world: &mut World, provider: &str, remaining: u64) {
    let (now, reset_at) = (world.now, world.now.plus_millis(3_600_000));
    let quota = Quota { limit: Some(5_000), remaining, reset_at, observed_at: now };
    let report = RateReport { quota: Some(quota), ..RateReport::default() };
    world.observe(Input::Rate(provider.into(), report));
}

#[test]
fn a_token_of_which_only_records_need_anything_is_held_to_what_its_provider_says() {
    let mut world = World::with_set(1);
    world.edit_set("set", |spec| spec.provider = CLOUDFLARE.into());
    grant(&mut world, CLOUDFLARE, 1_000);
    assert_eq!(remaining(&world, CLOUDFLARE), Some(1_000));
    world.run(10);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [external(1)]);
    assert_eq!(remaining(&world, CLOUDFLARE), Some(997), "the zone, its records and a change");
    let blocked = RateReport { blocked_until: Some(world.now.plus_millis(300_000)), ..RateReport::default() };
    world.observe(Input::Rate(CLOUDFLARE.into(), blocked));
    world.set_node(2, true);
    world.run(290);
    assert_eq!(world.dns.applies.len(), 1);
    world.run(30);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [external(1), external(2)]);
}

#[test]
fn of_changes_that_were_not_sent_none_counts_as_a_request() {
    for (trick, sent) in [
        (DnsTrick::Fine, 8),
        (DnsTrick::Refused(0, FaultKind::Transient), 1),
        (DnsTrick::Refused(3, FaultKind::Transient), 4),
        (DnsTrick::Stopped(3), 3),
        (DnsTrick::NotSent, 0),
    ] {
        let mut world = World::with_set(8);
        world.dns.tricks.push_back(trick);
        grant(&mut world, PROVIDER, 1_000);
        let spent = |world: &World| 1_000 - remaining(world, PROVIDER).unwrap();
        world.run_while(5, |world| world.dns.applies.is_empty());
        let announced = spent(&world);
        // No other call follows it.
        world.observe(Input::Permit(false));
        world.run(1);
        let reads = u64::try_from(world.dns.reads).unwrap();
        assert_eq!((announced, spent(&world)), (9, reads + sent), "{trick:?}");
    }
}

/// Checks that another name is published and another address assigned within seconds.
fn assert_room_for_others(world: &mut World) {
    world.add_ip(2);
    world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
    world.add_record_set("small", set_spec("small"));
    world.run(4);
    assert!(!world.published("small.example.com").is_empty());
    assert_eq!(world.entry("pool", 2).state, "active");
}

#[test]
fn changes_that_were_not_sent_leave_room_for_other_names_and_for_polls() {
    let mut world = World::with(1, 60);
    world.run(10);
    // Each of these rounds sends one request.
    world.dns.tricks.extend([DnsTrick::Refused(0, FaultKind::Transient); 8]);
    world.add_record_set("large", set_spec("large"));
    world.add_record_set("wide", set_spec("wide"));
    world.run_while(50, |world| !world.dns.tricks.is_empty());
    assert_room_for_others(&mut world);
}

#[test]
fn rounds_that_are_slow_leave_room_for_other_names_and_for_polls() {
    let mut world = World::with(1, 60);
    world.run(10);
    world.dns.tricks.extend([DnsTrick::Slow(240_000); 10]);
    (0..10).for_each(|n| world.add_record_set(&format!("large-{n}"), set_spec(&format!("large-{n}"))));
    world.run_while(50, |world| !world.dns.tricks.is_empty());
    assert_room_for_others(&mut world);
    world.run(900);
    let missing = (0..10).filter(|n| world.published(&format!("large-{n}.example.com")).len() < 60);
    assert_eq!(missing.count(), 0);
}

#[test]
fn a_refused_token_is_no_better_for_a_try_that_was_not_sent() {
    for (trick, better) in [(DnsTrick::NotSent, false), (DnsTrick::Stopped(1), true)] {
        let mut world = World::with_set(3);
        world.add_record_set("other", set_spec("other"));
        world.dns.tricks.extend([DnsTrick::Refused(0, FaultKind::Unauthorized); 2]);
        world.run(30);
        let error = |world: &World| world.set_status("set").error.clone();
        assert!(error(&world).contains("Unauthorized"), "{}", error(&world));
        world.dns.tricks.push_back(trick);
        let begun = world.dns.applies.len();
        world.run_while(100, |world| world.dns.applies.len() == begun);
        world.run(5);
        assert_eq!(error(&world).is_empty(), better, "{trick:?}: {}", error(&world));
        world.run(100);
        assert_eq!(error(&world), "");
    }
}

#[test]
fn what_the_former_token_was_refused_keeps_the_new_one_from_no_read() {
    for changed in [true, false] {
        let mut world = World::with_set(1);
        world.dns.read_fault = Some(FaultKind::Unauthorized);
        world.dns.slow_ms = 2_000;
        world.run_while(5, |world| world.dns.reads == 0);
        world.dns.read_fault = None;
        if changed {
            world.run(1);
            world.observe(Input::TokenChanged(PROVIDER.into()));
        }
        world.run(10);
        assert_eq!(world.dns.applies.len(), usize::from(changed));
        world.run(100);
        assert_eq!(world.published(WWW), [1]);
    }
}

#[test]
fn calls_that_were_not_sent_leave_room_for_others_however_many_they_are() {
    let mut world = World::with_set(1);
    world.dns.tricks.extend([DnsTrick::NotSent; 50]);
    world.run_while(100, |world| !world.dns.tricks.is_empty());
    world.run(60);
    assert_eq!(world.published(WWW), [1]);
}

/// One node, a record set for each of these numbers, and a process that has just begun.
fn with_names(numbers: Range<u32>) -> World {
    let mut world = World::bare(0, 1);
    for n in numbers {
        world.add_record_set(&format!("set-{n}"), set_spec(&format!("name-{n}")));
    }
    world.start();
    world
}

#[test]
fn sixteen_calls_are_under_way_at_a_time_in_a_zone_and_thirty_two_in_all() {
    for (zones, calls) in [(1, 16), (2, 32), (3, 32)] {
        let mut world = with_names(0..0);
        for n in 0..60 {
            let (name, zone) = (format!("set-{n}"), format!("zone-{}.example", n % zones));
            world.dns.zone(PROVIDER, &zone, Some(&zone));
            world.add_record_set(&name, set_spec(&name));
            world.edit_set(&name, |spec| spec.record_set.as_mut().unwrap().zone = zone);
        }
        world.dns.slow_ms = 5_000;
        world.run(4);
        assert_eq!(world.dns.reads, calls);
        world.dns.slow_ms = 0;
        world.run(40);
        assert_eq!((world.dns.reads, world.dns.applies.len()), (60, 60));
    }
}

#[test]
fn a_revoked_token_is_tried_in_two_zones_and_then_once_a_minute_however_many_zones_there_are() {
    let mut world = with_names(0..0);
    for n in 0..8 {
        let (name, zone) = (format!("set-{n}"), format!("zone-{n}.example"));
        world.dns.zone(PROVIDER, &zone, Some(&zone));
        world.add_record_set(&name, set_spec("www"));
        world.edit_set(&name, |spec| spec.record_set.as_mut().unwrap().zone = zone);
    }
    world.run(100);
    world.dns.read_fault = Some(FaultKind::Unauthorized);
    world.dns.tricks.extend([DnsTrick::Refused(0, FaultKind::Unauthorized); 100]);
    let (reads, applies) = (world.dns.reads, world.dns.applies.len());
    for n in 0..8 {
        world.edit_set(&format!("set-{n}"), |spec| spec.record_set.as_mut().unwrap().ttl = 90);
        world.run(5);
    }
    world.run(560);
    let tries = world.dns.reads - reads + world.dns.applies.len() - applies;
    assert!((10..=15).contains(&tries), "{tries}");
    world.dns.read_fault = None;
    world.dns.tricks.clear();
    world.run(61);
    let new = (0..8).filter(|n| {
        let records = &world.dns.records[&(PROVIDER.to_owned(), format!("zone-{n}.example"))];
        records.iter().all(|(_, record)| record.ttl == 90)
    });
    assert_eq!(new.count(), 8);
}

#[test]
fn a_zone_that_hangs_leaves_room_for_others() {
    let mut world = with_names(0..40);
    world.dns.hanging = Some("example.com");
    world.dns.zone(PROVIDER, "other.example", Some("other.example"));
    world.run(5);
    world.add_record_set("other", set_spec("www"));
    world.edit_set("other", |spec| spec.record_set.as_mut().unwrap().zone = "other.example".into());
    world.run(2);
    assert_eq!(world.published("www.other.example"), [1]);
}

#[test]
fn reads_of_what_is_known_that_hang_hold_up_no_change() {
    let mut world = with_names(10..50);
    world.run(100);
    world.start();
    world.run(3);
    let reads = world.dns.reads;
    world.dns.slow_ms = 60_000;
    world.run(6);
    assert_eq!(world.dns.reads - reads, 8, "second looks");
    let begun = world.now;
    world.edit_set("set-49", |spec| spec.record_set.as_mut().unwrap().ttl = 90);
    world.run(1);
    assert!(world.dns.applies.last().is_some_and(|at| *at > begun));
    world.dns.slow_ms = 0;
    world.run(100);
    assert_eq!(world.dns.reads - reads, 40, "and the others follow");
}

#[test]
fn reads_of_what_is_known_use_up_no_budget_that_a_change_needs() {
    let mut world = with_names(100..250);
    world.run(300);
    world.start();
    let reads = world.dns.reads;
    world.run(10);
    assert_eq!(world.dns.reads - reads, 150, "second looks wait after so many first ones");
    world.edit_set("set-249", |spec| spec.record_set.as_mut().unwrap().ttl = 90);
    world.run(2);
    assert_eq!(world.dns.records[&(PROVIDER.to_owned(), "example.com".to_owned())].last().unwrap().1.ttl, 90);
    world.run(200);
    assert_eq!(world.dns.reads - reads, 300, "but not for ever");
}

/// Two known names with the address of one node, the older object's first. Each also has a foreign address.
fn two_names_at_rest() -> World {
    let mut world = World::with_set(1);
    world.add_record_set("young", set_spec("young"));
    world.run(100);
    for name in [WWW, "young.example.com"] {
        world.dns.add(PROVIDER, "example.com", name, "A", "198.51.100.9");
    }
    world
}

#[test]
fn a_read_of_what_is_known_that_is_overdue_is_as_urgent_as_any_other() {
    let mut world = two_names_at_rest();
    // The rest of the quota is kept for changes. Polls do not get it.
    grant(&mut world, PROVIDER, 400);
    let reads = world.dns.reads;
    world.run(1_100);
    assert_eq!(world.dns.reads, reads, "due for a while");
    world.run(200);
    assert_eq!((world.published(WWW), world.published("young.example.com")), (vec![1], vec![1]));
}

#[test]
fn of_the_reads_of_what_is_known_those_that_wait_longest_come_first() {
    let mut world = two_names_at_rest();
    grant(&mut world, PROVIDER, 500);
    world.run(520);
    // The older object's name was just written, so it is due later.
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().ttl = 90);
    world.run(100);
    let (reads, foreign) = (world.dns.reads, world.published(WWW));
    grant(&mut world, PROVIDER, 501);
    world.observe(Input::Permit(false));
    world.observe(Input::Permit(true));
    world.run(5);
    assert_eq!((world.dns.reads, world.published(WWW)), (reads + 1, foreign), "one is let through");
    assert_eq!(world.published("young.example.com"), [1]);
}

#[test]
fn second_looks_hold_up_no_first_look_however_many_names_there_are() {
    let mut world = with_names(100..190);
    world.run(120);
    world.dns.slow_ms = 5_000;
    world.dns.add(PROVIDER, "example.com", "name-189.example.com", "A", "198.51.100.9");
    world.start();
    let begun = world.now;
    // Only 16 calls run at a time, so the first names are due again before the last ones are read. The very last one is
    // wrong, so its second look comes before those of others.
    world.run_while(100, |world| world.published("name-189.example.com") != [1]);
    let took = world.now.millis_since(begun);
    assert!(took < 41_000, "{took} ms");
}
