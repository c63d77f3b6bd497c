//! Marks of external-dns, at a name and beside it: a warning, at little cost.

use crate::dns::pool;
use crate::world::{PROVIDER, World};
use crate::zones::{CLOUDFLARE, ZONE_ID, set_spec};
use flipop_core::fleet::Input;
use flipop_core::mechanism::{Quota, RateReport};
use flipop_core::model::FaultKind;

const WWW: &str = "www.example.com";
const BESIDE: &str = "a-www.example.com";
const MARK: &str = "\"heritage=external-dns,external-dns/owner=me\"";

/// The place of the mark according to the condition.
fn warned_of(world: &World) -> Option<String> {
    let (_, place) = world.message("set", "ExternalDNS")?.split_once("has a TXT record at ")?;
    Some(place.split_once(':')?.0.to_owned())
}

/// How often the name was read in an hour, and how often its mark was looked for.
fn looks_in_an_hour(world: &mut World) -> (usize, usize) {
    let before = (world.dns.reads, world.dns.mark_looks);
    world.run(3_600);
    (world.dns.reads - before.0, world.dns.mark_looks - before.1)
}

#[test]
fn a_mark_of_external_dns_is_a_warning_and_nothing_more() {
    for at in [WWW, BESIDE] {
        let mut world = World::bare(0, 1);
        world.dns.add(PROVIDER, "example.com", at, "TXT", MARK);
        world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
        world.add_record_set("set", set_spec("www"));
        world.start();
        world.run(10);
        let before_the_second_look = if at == WWW { Some(WWW) } else { None };
        assert_eq!((warned_of(&world).as_deref(), world.dns.mark_looks), (before_the_second_look, 0));
        world.run(30);
        assert_eq!(world.published(WWW), [1], "foreign address records are made exact");
        assert_eq!(warned_of(&world).as_deref(), Some(at));
        assert_eq!(world.set_status("set").state, "active");
    }
}

#[test]
fn a_mark_beside_a_name_is_noticed_within_ten_minutes_and_so_is_that_it_is_gone() {
    for (provider, zone) in [(PROVIDER, "example.com"), (CLOUDFLARE, ZONE_ID)] {
        let mut world = World::with_set(1);
        world.edit_set("set", |spec| spec.provider = provider.into());
        world.run(60);
        assert_eq!((warned_of(&world), world.dns.mark_looks), (None, 1), "{provider}");
        let id = world.dns.add(provider, zone, BESIDE, "TXT", MARK);
        // A mark for other records, beside the same name.
        world.dns.add(provider, zone, "aaaa-www.example.com", "TXT", MARK);
        world.dns.add(provider, zone, BESIDE, "TXT", "v=spf1 -all");
        world.run(601);
        assert_eq!(warned_of(&world).as_deref(), Some(BESIDE), "{provider}");
        let records = world.dns.records.get_mut(&(provider.to_owned(), zone.to_owned())).unwrap();
        records.retain(|(_, record)| record.id != id);
        world.run(601);
        assert_eq!(warned_of(&world), None, "{provider}");
    }
}

/// Whether the pool warns of the mark beside its name.
fn pool_warns(world: &World) -> bool {
    let conditions = &world.status("pool").conditions;
    conditions.iter().any(|c| c.kind == "RecordSetExternalDNS" && c.message.contains(BESIDE))
}

fn unmark(world: &mut World) {
    world.dns.records.values_mut().for_each(|records| records.retain(|(name, _)| name != BESIDE));
}

#[test]
fn a_mark_beside_a_pool_s_name_is_warned_of_too_and_looked_for_again_when_leadership_begins() {
    let mut world = pool(2, 3);
    world.dns.add(PROVIDER, "example.com", BESIDE, "TXT", MARK);
    world.run(40);
    assert!(pool_warns(&world));
    unmark(&mut world);
    world.lead_again();
    world.run(40);
    assert!(!pool_warns(&world));
}

#[test]
fn a_new_process_warns_of_a_mark_without_a_break_until_it_has_looked_for_itself() {
    for kind in ["pool", "record set"] {
        let mut world = if kind == "pool" { pool(2, 3) } else { World::with_set(2) };
        let warns =
            |world: &World| if kind == "pool" { pool_warns(world) } else { warned_of(world).is_some() };
        world.dns.add(PROVIDER, "example.com", BESIDE, "TXT", MARK);
        world.run(40);
        assert!(warns(&world), "{kind}");
        world.dns.mark_looks = 0;
        world.start();
        world.set_node(2, false);
        for _ in 0..40 {
            world.run(1);
            assert!(warns(&world), "{kind}");
        }
        assert_eq!(world.dns.mark_looks, 1, "{kind}");
        unmark(&mut world);
        world.start();
        world.run(40);
        assert!(!warns(&world), "{kind}");
    }
}

#[test]
fn a_look_for_a_mark_costs_one_call_in_ten_minutes_where_there_can_be_one_and_none_elsewhere() {
    for (name, looks) in [("www", 6), ("@", 0), ("*", 0), ("*.www", 0)] {
        let mut world = World::with_set(1);
        world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().record_name = name.into());
        world.run(60);
        assert_eq!(looks_in_an_hour(&mut world), (6, looks), "{name}");
    }
}

#[test]
fn only_the_owner_of_a_name_looks_for_its_mark_and_is_warned() {
    let mut world = World::with_set(1);
    world.dns.add(PROVIDER, "example.com", BESIDE, "TXT", MARK);
    world.add_record_set("younger", set_spec("www"));
    world.run(60);
    assert_eq!(warned_of(&world).as_deref(), Some(BESIDE));
    assert!(!world.has("younger", "ExternalDNS"));
    assert_eq!(looks_in_an_hour(&mut world), (6, 6));
}

#[test]
fn a_look_for_a_mark_that_fails_changes_neither_what_is_known_nor_anything_else() {
    let kinds = [FaultKind::Transient, FaultKind::Unauthorized, FaultKind::NotFound, FaultKind::Invalid];
    for kind in kinds {
        for marked in [false, true] {
            let mut world = World::with_set(2);
            if marked {
                world.dns.add(PROVIDER, "example.com", BESIDE, "TXT", MARK);
            }
            world.run(60);
            unmark(&mut world);
            world.dns.mark_fault = Some(kind);
            let before = world.dns.reads;
            world.run(900);
            assert_eq!(world.dns.reads - before, 1, "{kind:?}");
            let (applies, looks) = (world.dns.applies.len(), world.dns.mark_looks);
            world.run_while(100, |world| world.dns.mark_looks == looks);
            world.run(1);
            world.set_node(1, false);
            world.run(2);
            assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![2], applies + 1), "{kind:?}");
            assert_eq!(world.set_status("set").state, "active", "{kind:?}");
            assert_eq!(warned_of(&world).is_some(), marked, "{kind:?}");
            let (_, looks) = looks_in_an_hour(&mut world);
            assert!((6..=60).contains(&looks), "{kind:?}: {looks} looks in an hour");
            world.dns.mark_fault = None;
            world.run(601);
            assert_eq!(warned_of(&world), None, "{kind:?}");
        }
    }
}

#[test]
fn a_mark_is_looked_for_with_what_other_reads_leave_of_the_quota() {
    let mut world = World::with_set(1);
    world.run(60);
    let (now, reset_at) = (world.now, world.now.plus_millis(1_800_000));
    let quota = Quota { limit: Some(5_000), remaining: 400, reset_at, observed_at: now };
    let report = RateReport { quota: Some(quota), ..RateReport::default() };
    world.observe(Input::Rate(PROVIDER.into(), report));
    world.run(1_790);
    assert_eq!((world.published(WWW), world.dns.mark_looks), (vec![1], 1));
    world.run(60);
    assert_eq!(world.dns.mark_looks, 2);
}

#[test]
fn while_a_token_is_refused_nobody_looks_for_marks_with_it() {
    let mut world = World::with_set(1);
    world.add_record_set("other", set_spec("other"));
    world.run(60);
    world.dns.read_fault = Some(FaultKind::Unauthorized);
    world.run(700);
    let (reads, looks) = looks_in_an_hour(&mut world);
    assert!((55..=61).contains(&reads), "{reads} reads in an hour");
    assert_eq!(looks, 0);
}
