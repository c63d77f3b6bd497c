//! Outages of providers: what waits is due again soon after the end, and not before.

use crate::faults::spec_of;
use crate::world::{PROVIDER, Trick, World, ip};
use crate::zones::{CLOUDFLARE, DnsTrick, record_set, set_spec};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::Moment;
use flipop_core::model::spec::RawRecordSet;
use flipop_core::records::spec::RawRecordSetSpec;

const WWW: &str = "www.example.com";

/// Lets time pass until a call starts that begins with `prefix`, and returns the milliseconds.
fn wait_for(world: &mut World, prefix: &str) -> u64 {
    let from = world.now;
    world.run_while(50, |world| world.count(from, prefix) == 0 && world.now.millis_since(from) < 400_000);
    world.now.millis_since(from)
}

/// A world with one address on a node, which fails two seconds after the provider.
fn failing() -> World {
    let mut world = World::with(1, 2);
    world.run(20);
    world.faults.out = Some(0);
    world.run(2);
    let first = if world.holder(1).is_some() { 1 } else { 2 };
    world.set_node(first, false);
    world
}

#[test]
fn an_assignment_follows_within_six_seconds_of_the_end_of_an_outage_of_any_length() {
    for seconds in [4, 12, 33, 60, 170, 700] {
        let mut world = failing();
        world.run(seconds);
        world.faults.out = None;
        let waited = wait_for(&mut world, "assign");
        assert!(waited <= 6_000, "{waited} ms after {seconds} s: {:?}", world.calls);
        world.run(5);
        assert_eq!(world.holder(1).or(world.holder(2)), Some(ip(1)));
        assert_eq!(world.fleet.snapshot().accounts[0].out_since_s, None);
    }
}

#[test]
fn a_request_that_did_not_reach_the_provider_is_sent_again_as_soon() {
    for seconds in [100, 120, 140, 160] {
        let mut world = failing();
        world.faults.unreached = true;
        world.run(seconds);
        world.faults.out = None;
        let waited = wait_for(&mut world, "assign");
        assert!(waited <= 6_000, "{waited} ms after {seconds} s: {:?}", world.calls);
    }
}

#[test]
fn a_zone_that_could_not_be_looked_up_is_looked_up_as_soon() {
    for seconds in [100, 120, 140, 160] {
        let mut world = World::bare(0, 1);
        world.dns.out = true;
        world.add_record_set("set", RawRecordSetSpec { provider: CLOUDFLARE.into(), ..set_spec("www") });
        world.start();
        world.run(seconds);
        world.dns.out = false;
        let waited = wait_for(&mut world, "apply");
        assert!(waited <= 6_000, "{waited} ms after {seconds} s: {:?}", world.calls);
    }
}

#[test]
fn an_account_that_is_out_is_tested_every_five_seconds_and_all_else_keeps_its_schedule() {
    let mut world = failing();
    let from = world.now;
    world.run(120);
    let tests: Vec<Moment> =
        world.calls.iter().filter(|(_, call)| call == "test").map(|(at, _)| *at).collect();
    assert!((22..=25).contains(&tests.len()), "{tests:?}");
    assert!(tests.windows(2).all(|pair| pair[1].millis_since(pair[0]) >= 5_000), "{tests:?}");
    assert!(world.count(from, "get") <= 10 && world.count(from, "assign") == 1, "{:?}", world.calls);
    let out = world.fleet.snapshot().accounts[0].out_since_s;
    assert!(out.is_some_and(|since| (1_020..=1_026).contains(&since)), "{out:?}");
}

#[test]
fn a_request_that_fails_while_reads_succeed_keeps_its_schedule() {
    let mut world = World::with(1, 1);
    world.faults.broken = Some((ip(1), Trick::Lost(false)));
    world.run(120);
    assert!((5..=10).contains(&world.assigns), "{:?}", world.calls);
    assert_eq!(world.total("test"), 0);
}

#[test]
fn lists_that_fail_while_single_reads_succeed_are_not_sent_without_end() {
    let mut world = World::with(1, 1);
    world.run(20);
    world.faults.lists_out = true;
    let from = world.now;
    world.run(600);
    assert!(world.count(from, "list") <= 40, "{}", world.count(from, "list"));
}

#[test]
fn nothing_is_sent_before_the_time_that_the_provider_asked_for() {
    let mut world = failing();
    world.faults.out = Some(30_000);
    world.run(100);
    world.faults.out = None;
    let ended = world.now;
    let reads = |call: &str| call.starts_with("get") || call == "test";
    let last = world.calls.iter().rfind(|(at, call)| *at <= ended && reads(call)).unwrap().0;
    let waited = wait_for(&mut world, "assign");
    assert!(waited <= 36_000, "{waited}");
    let next = world.calls.iter().find(|(at, call)| *at > ended && reads(call)).unwrap().0;
    assert!(next.millis_since(last) >= 30_000, "{:?}", world.calls);
}

#[test]
fn after_an_outage_eight_calls_run_until_eight_have_succeeded() {
    let mut world = World::with(30, 50);
    world.run(60);
    world.faults.out = Some(0);
    (1..=50).filter(|n| world.holder(*n).is_some()).take(20).collect::<Vec<_>>().into_iter().for_each(|n| {
        world.set_node(n, false);
    });
    world.run(60);
    let from = world.now;
    world.faults.out = None;
    wait_for(&mut world, "get");
    let first = world.calls.iter().find(|(at, call)| *at > from && call.starts_with("get")).unwrap().0;
    world.run(20);
    let within = |ms| {
        let soon = |at: &Moment| *at >= first && at.millis_since(first) < ms;
        world.calls.iter().filter(|(at, call)| soon(at) && call != "test").count()
    };
    assert!((6..=8).contains(&within(50)), "{}", within(50));
    assert!(within(500) > 20, "{}", within(500));
    assert_eq!((1..=50).filter(|n| world.holder(*n).is_some()).count(), 30);
}

#[test]
fn a_leader_that_follows_during_an_outage_resumes_as_soon() {
    let mut world = failing();
    world.run(30);
    world.lead_again();
    world.run(30);
    world.faults.out = None;
    let waited = wait_for(&mut world, "assign");
    assert!(waited <= 6_000, "{waited} ms: {:?}", world.calls);
}

#[test]
fn records_follow_when_dns_alone_was_out() {
    for provider in [PROVIDER, CLOUDFLARE] {
        let mut world = World::bare(1, 2);
        let record_set = Some(RawRecordSet { provider: provider.into(), ..record_set("www") });
        world.add_pool("pool", RawPoolSpec { record_set, ..spec_of([1]) });
        world.start();
        world.run(90);
        world.dns.out = true;
        let from = world.now;
        world.add_ip(2);
        world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
        world.run(100);
        assert_eq!(world.count(from, "assign"), 1, "addresses are not out");
        assert!(world.count(from, "test of DNS") >= 15 && world.calls.iter().all(|(_, call)| call != "test"));
        world.dns.out = false;
        let ended = world.now;
        // The write has an unknown outcome, and two reads 5 s apart come before the next one.
        world.run_while(50, |world| world.dns.addresses(provider, WWW).len() < 2);
        let waited = world.now.millis_since(ended);
        assert!(waited <= 11_000, "{provider}: {waited} ms");
    }
}

#[test]
fn a_change_of_records_that_fails_after_the_end_of_an_outage_follows_at_once() {
    let mut world = World::with_set(2);
    world.run(60);
    world.dns.out = true;
    world.faults.unreached = true;
    world.dns.tricks.push_back(DnsTrick::Slow(9_000));
    world.set_node(3, true);
    world.run(2);
    let applies = |world: &World| {
        let calls = world.calls.iter().filter(|(_, call)| call.starts_with("apply www."));
        calls.map(|(at, _)| *at).collect::<Vec<Moment>>()
    };
    let slow = applies(&world).pop().unwrap();
    // The reads of another name begin the outage, which a test ends before the change has failed.
    world.add_record_set("other", set_spec("new"));
    world.run(3);
    assert!(world.fleet.snapshot().accounts[0].out_since_s.is_some());
    world.dns.out = false;
    world.run(15);
    assert_eq!(world.published(WWW), [1, 2, 3]);
    let again = applies(&world).pop().unwrap().millis_since(slow);
    assert!((9_050..9_400).contains(&again), "after {again} ms");
}
