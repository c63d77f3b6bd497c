//! Writes of the status and the spec that are refused, lost or overtaken.

use crate::creation::world as buying;
use crate::faults::{spec, spec_of};
use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::{FaultKind, WriteFailure};

#[test]
fn a_pool_that_is_gone_without_news_is_not_written_in_a_loop() {
    let mut world = World::with(1, 1);
    world.pools.remove("pool");
    let writes = world.status_writes;
    world.run(60);
    assert!(world.status_writes - writes < 15, "{}", world.status_writes);
}

#[test]
fn a_conflict_that_stays_is_tried_ever_less_often_and_one_that_goes_at_once() {
    let mut world = World::with(1, 1);
    (0..1_000).for_each(|_| world.faults.status_writes.push_back(WriteFailure::Conflict));
    world.run(120);
    assert!(world.status_writes < 20, "{}", world.status_writes);
    world.faults.status_writes.clear();
    world.edit("pool", |spec| spec.cool_off_seconds = 1.0);
    world.run(1);
    assert_eq!(world.status("pool").ips.len(), 1);
}

#[test]
fn a_failed_status_write_is_repaired() {
    for failure in [
        WriteFailure::Transient("lost".into()),
        WriteFailure::Throttled { message: "too many requests".into(), wait_ms: 20_000 },
        WriteFailure::Conflict,
        WriteFailure::NotSent,
        WriteFailure::Gone,
        WriteFailure::Forbidden("status".into()),
        WriteFailure::Invalid("too long".into()),
    ] {
        for late in [false, true] {
            let mut world = World::with(1, 1);
            world.faults.status_writes.push_back(failure.clone());
            if late {
                world.faults.held_status_writes = Some(Vec::new());
                world.run(30);
                world.release_status_writes();
            }
            world.run(70);
            assert_eq!(world.entry("pool", 1).state, "active", "{failure:?}, late: {late}");
            assert!(!world.has("pool", "WriteDenied"), "{failure:?}, late: {late}");
        }
    }
}

#[test]
fn a_write_waits_for_as_long_as_the_api_server_asks() {
    let throttled = |wait_ms| WriteFailure::Throttled { message: "too many requests".into(), wait_ms };
    let mut world = World::with(1, 1);
    world.faults.status_writes.push_back(throttled(20_000));
    world.run(19);
    assert_eq!(world.status_writes, 1);
    world.run(4);
    assert!(world.status_writes > 1);
    let mut world = World::with(1, 1);
    world.faults.annotations.push_back(throttled(20_000));
    world.run(19);
    assert_eq!(world.annotations.len(), 0);
    world.run(4);
    assert_eq!(world.annotations.len(), 1);
    // No answer holds a write for ever.
    let mut world = World::with(1, 1);
    world.faults.status_writes.push_back(throttled(u64::MAX));
    world.run(301);
    assert!(world.status_writes > 1);
}

#[test]
fn created_addresses_that_may_not_be_written_into_the_spec_are_told_for_as_long_as_that_holds() {
    let refusals = [WriteFailure::Forbidden("update".into()), WriteFailure::Invalid("a policy".into())];
    for refusal in refusals {
        let mut world = buying(1);
        world.faults.ips_writes = Some(refusal.clone());
        world.run(60);
        let told = |world: &World| world.has("pool", "WriteDenied");
        assert!(told(&world) && world.created == 1, "{refusal:?}");
        let writes = world.status_writes;
        world.run(1_800);
        assert!(told(&world), "{refusal:?}");
        assert_eq!(world.status_writes, writes, "{refusal:?}: it is told once");
        assert_eq!(world.events_of("WriteDenied").len(), 1, "{refusal:?}");
        world.faults.ips_writes = None;
        world.run(700);
        assert!(!told(&world), "{refusal:?}");
    }
    // The user writes it instead of us.
    let mut world = buying(1);
    world.faults.ips_writes = Some(WriteFailure::Forbidden("update".into()));
    world.run(60);
    let bought = world.status("pool").ips.keys().next().unwrap().clone();
    world.edit("pool", |spec| spec.ips.push(bought));
    world.run(60);
    assert!(!world.has("pool", "WriteDenied"));
}

#[test]
fn an_intent_that_cannot_be_written_holds_no_other_pool_up() {
    let mut world = buying(1);
    world.add_pool("other", RawPoolSpec { desired_ips: 1, ..spec() });
    world.denied.insert("pool".into());
    world.run(60);
    assert_eq!(world.created, 1);
    assert_eq!(world.pools["other"].spec.as_ref().unwrap().ips.len(), 1);
    world.denied.clear();
    world.run(700);
    assert_eq!(world.created, 2);
}

/// Two pools that want an address each. The first one cannot announce its purchase.
fn two_buyers(failure: WriteFailure) -> World {
    let mut world = buying(1);
    world.add_pool("other", RawPoolSpec { desired_ips: 1, ..spec() });
    world.faults.unwritten = Some(("pool", failure));
    world
}

#[test]
fn an_intent_whose_write_fails_time_and_again_holds_no_other_pool_up() {
    let mut world = two_buyers(WriteFailure::Transient("the webhook does not answer".into()));
    world.run(60);
    assert_eq!(world.created, 1);
    assert_eq!(world.pools["other"].spec.as_ref().unwrap().ips.len(), 1);
    world.faults.unwritten = None;
    world.run(300);
    assert_eq!(world.created, 2);
    assert_eq!(world.pools["pool"].spec.as_ref().unwrap().ips.len(), 1);
}

#[test]
fn what_others_buy_before_an_intent_is_sent_is_never_taken_for_its_own() {
    let lost = || WriteFailure::Transient("the webhook does not answer".into());
    let mut world = two_buyers(lost());
    world.run_while(10, |world| world.created == 0);
    // The owner of this first address cannot be recorded, and the reply to the second purchase is lost.
    world.faults.unwritten = Some(("other", lost()));
    world.tricks.push_back(Trick::Lost(true));
    world.run_while(10, |world| world.created == 1);
    world.faults.unwritten = None;
    world.start();
    world.run(200);
    assert_eq!(world.created, 2);
    for pool in ["pool", "other"] {
        assert_eq!(world.status(pool).ips.len(), 1, "{pool}");
        assert!(!world.has(pool, "CreationUncertain"), "{pool}");
    }
}

#[test]
fn what_people_buy_before_an_intent_is_sent_is_never_taken_for_its_own() {
    for lost in [false, true] {
        let mut world = buying(1);
        world.faults.held_status_writes = Some(Vec::new());
        world.run(10);
        // A person buys one, and a list shows it, while the intent is still on its way.
        world.add_ip(99);
        world.run(60);
        world.tricks.push_back(Trick::Lost(lost));
        world.release_status_writes();
        world.run(120);
        assert_eq!(world.created, 1);
        let ips: Vec<_> = world.status("pool").ips.keys().cloned().collect();
        assert_eq!(ips, [ip(201).to_string()], "lost after the effect: {lost}; {:?}", world.events);
        assert!(world.events_of("CreationUncertain").is_empty(), "{:?}", world.events);
    }
}

#[test]
fn two_buyers_of_one_account_end_with_one_address_each_wherever_the_process_dies() {
    for crash_at_ms in (0..8_000).step_by(100) {
        let mut world = two_buyers(WriteFailure::Transient("the webhook does not answer".into()));
        world.run_until(world.now.plus_millis(4_000));
        world.faults.unwritten = None;
        world.run_until(world.now.plus_millis(crash_at_ms));
        world.start();
        world.run(400);
        let count = |pool: &str| world.pools[pool].spec.as_ref().unwrap().ips.len();
        assert_eq!((world.created, count("pool"), count("other")), (2, 1, 1), "after {crash_at_ms} ms");
    }
}

#[test]
fn a_refused_creation_is_sent_anew_as_soon_as_the_spec_is_mended() {
    let mut world = buying(1);
    world.edit("pool", |spec| spec.region = "nowhere".into());
    world.tricks.push_back(Trick::Refused(FaultKind::Invalid));
    world.run(10);
    assert_eq!(world.total("create"), 1);
    world.edit("pool", |spec| spec.region = "nyc3".into());
    world.run(2);
    assert_eq!((world.created, world.status("pool").error.as_str()), (1, ""));
}

#[test]
fn a_pool_that_cannot_be_read_at_the_start_keeps_its_memory() {
    let mut world = buying(2);
    world.run(20);
    world.edit("pool", |spec| spec.ips.clear());
    world.run(5);
    let good = world.pools["pool"].clone();
    let mut bad = good.clone();
    bad.spec = Err("desiredIPs: a string".into());
    bad.status = flipop_core::addresses::pool::status::PoolStatus::default();
    world.pools.insert("pool".into(), bad);
    world.start();
    world.run(60);
    assert_eq!(world.annotations.len(), 2, "what stands stays");
    // The spec is repaired. The server kept the former status, unless it was written meanwhile.
    let mut mended = world.pools["pool"].clone();
    if mended.status == flipop_core::addresses::pool::status::PoolStatus::default() {
        mended.status = good.status;
    }
    mended.spec = good.spec;
    world.put_pool(mended);
    world.run(120);
    assert_eq!((world.created, world.assigns), (2, 2));
}

#[test]
fn a_spec_that_became_unreadable_changes_nothing_until_it_is_mended() {
    let mut world = buying(2);
    world.run(20);
    let good = world.pools["pool"].spec.clone();
    let mut bad = world.pools["pool"].clone();
    bad.spec = Err("desiredIPs: a string".into());
    world.put_pool(bad);
    world.set_node(1, false);
    world.run(60);
    assert!(world.status("pool").error.contains("cannot be read"));
    assert!(world.status("pool").memory.as_ref().is_some_and(|memory| memory.created.len() == 2));
    let mut mended = world.pools["pool"].clone();
    mended.spec = good;
    world.put_pool(mended);
    world.run(60);
    assert_eq!((world.created, world.status("pool").error.as_str()), (2, ""));
    assert!(world.holder(2).is_some() && world.holder(3).is_some());
}

#[test]
fn a_process_that_drains_records_what_it_bought() {
    let mut world = buying(2);
    world.run_until(world.now.plus_millis(10));
    for _ in 0..400 {
        world.run_until(world.now.plus_millis(5));
        if world.created == 1 {
            break;
        }
    }
    assert_eq!(world.created, 1);
    world.observe(flipop_core::fleet::Input::Draining);
    world.faults.status_writes.push_back(WriteFailure::Conflict);
    world.run(5);
    assert!(!world.fleet.has_unrecorded_creation());
    assert!(world.status("pool").memory.as_ref().is_some_and(|memory| memory.has_created(ip(201))));
    assert_eq!((world.created, world.assigns), (1, 0));
    world.start();
    world.run(100);
    assert_eq!(world.created, 2);
}

#[test]
fn a_purchase_that_stands_nowhere_else_is_decided_on_anew_when_its_write_was_not_sent_at_the_end() {
    let mut world = buying(1);
    world.run_while(60, |world| world.created == 0);
    world.go_crds = true;
    world.faults.ips_writes = Some(WriteFailure::NotSent);
    world.run_while(60, |world| world.total("name") == 0);
    world.observe(flipop_core::fleet::Input::Draining);
    world.faults.ips_writes = None;
    world.run(5);
    assert!(!world.fleet.has_unrecorded_creation());
    assert_eq!(world.pools["pool"].spec.as_ref().unwrap().ips, [ip(201).to_string()]);
}

#[test]
fn crds_that_drop_our_fields_lead_to_no_loop_of_writes_before_there_is_a_memory() {
    for reads in [None, Some(FaultKind::Transient)] {
        let mut world = World::bare(0, 1);
        world.go_crds = true;
        world.faults.reads = reads;
        let provider = if reads.is_none() { "nowhere".into() } else { spec().provider };
        world.add_pool("pool", RawPoolSpec { provider, ..spec_of([1]) });
        world.start();
        world.run(60);
        assert!((1..=3).contains(&world.status_writes), "{reads:?}: {}", world.status_writes);
        let said = world.events.len();
        world.run(3_600);
        assert!(world.status_writes <= 12, "{reads:?}: {}", world.status_writes);
        assert!(world.events.len() <= said + 24, "{reads:?}: {:?}", world.events);
        world.go_crds = false;
        world.run(700);
        assert!(!world.status("pool").conditions.is_empty(), "{reads:?}");
    }
}

#[test]
fn crds_that_keep_a_part_of_an_intent_lead_to_no_loop_of_writes() {
    let mut world = buying(2);
    world.faults.drops_numbers = true;
    world.run(3_600);
    assert!(world.status_writes <= 30, "{}", world.status_writes);
    assert_eq!(world.created, 0);
    world.faults.drops_numbers = false;
    world.run(700);
    assert_eq!(world.created, 2);
}

#[test]
fn an_address_is_written_into_the_spec_once_and_what_failed_is_tried_ever_less_often() {
    let mut world = buying(2);
    world.faults.ips_writes = Some(WriteFailure::Transient("down".into()));
    world.run_while(5, |world| world.total("name") == 0);
    // This leads to another plan before the answer comes.
    world.set_node(4, true);
    world.run_until(world.now.plus_millis(20));
    assert_eq!(world.total("name"), 1);
    let from = world.now;
    world.run(60);
    let tries = world.count(from, "name");
    assert!((3..=12).contains(&tries), "{tries}: {:?}", world.calls);
    world.faults.ips_writes = None;
    world.run(60);
    assert_eq!(world.pools["pool"].spec.as_ref().unwrap().ips.len(), 2);
}
