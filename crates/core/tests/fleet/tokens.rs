//! Refused tokens, and their replacements.

use crate::faults::spec;
use crate::world::{PROVIDER, Trick, World, ip};
use crate::zones::{CLOUDFLARE, DnsTrick};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::FaultKind;

const REFUSED: Trick = Trick::Refused(FaultKind::Unauthorized);

/// A call, and a change of a pool of one address that asks for it.
type Want = (&'static str, fn(&mut RawPoolSpec));

const WANTS: [Want; 2] = [
    ("create", |spec| *spec = RawPoolSpec { desired_ips: 2, ips: spec.ips.clone(), ..crate::faults::spec() }),
    ("assign", |spec| spec.ips.push(ip(2).to_string())),
];

fn change_token(world: &mut World, provider: &str) {
    world.observe(Input::TokenChanged(provider.into()));
}

#[test]
fn an_assignment_that_was_refused_is_sent_at_once_with_another_token() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(REFUSED);
    world.run(20);
    assert_eq!((world.assigns, world.holder(1)), (1, None), "not due yet");
    change_token(&mut world, PROVIDER);
    world.run(2);
    assert_eq!((world.assigns, world.holder(1)), (2, Some(ip(1))), "{:?}", world.calls);
    // A request that the new token is refused waits a minute again.
    world.tricks.push_back(REFUSED);
    world.set_node(1, false);
    world.set_node(2, true);
    world.run(55);
    assert_eq!(world.assigns, 3);
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn an_unassignment_that_was_refused_is_sent_at_once_with_another_token() {
    let mut world = World::with(2, 1);
    world.run(65);
    assert_eq!(world.holder(1), Some(ip(1)));
    let from = world.now;
    world.tricks.push_back(REFUSED);
    // The address on the node is no longer used, and has to make room for the other one.
    world.moved.insert(ip(1));
    world.edit("pool", |spec| {
        spec.ips.reverse();
        spec.desired_ips = 1;
    });
    world.run(20);
    assert_eq!((world.count(from, "unassign"), world.count(from, "prove")), (1, 1), "{:?}", world.calls);
    change_token(&mut world, PROVIDER);
    world.run(4);
    assert_eq!((world.count(from, "unassign"), world.holder(1)), (2, Some(ip(2))), "{:?}", world.calls);
}

#[test]
fn a_creation_that_was_refused_is_sent_at_once_with_another_token() {
    let mut world = World::with(1, 2);
    world.run(65);
    world.tricks.push_back(REFUSED);
    world.edit("pool", |old| *old = RawPoolSpec { desired_ips: 2, ips: old.ips.clone(), ..spec() });
    let from = world.now;
    world.run(20);
    assert_eq!((world.count(from, "create"), world.created), (1, 0), "not due yet");
    assert!(world.status("pool").error.contains("Unauthorized"), "{}", world.status("pool").error);
    change_token(&mut world, PROVIDER);
    world.run(2);
    assert_eq!((world.count(from, "create"), world.created), (2, 1), "{:?}", world.calls);
    world.run(2);
    assert_eq!(world.status("pool").error, "");
}

/// A record set whose next write will be refused, and something to write.
fn about_to_be_refused(provider: &str) -> World {
    let mut world = World::with_set(0);
    world.edit_set("set", |spec| spec.provider = provider.into());
    world.run(5);
    world.dns.tricks.push_back(DnsTrick::Refused(0, FaultKind::Unauthorized));
    world.set_node(1, true);
    world
}

#[test]
fn a_dns_write_that_was_refused_is_sent_at_once_with_another_token() {
    for provider in [PROVIDER, CLOUDFLARE] {
        let mut world = about_to_be_refused(provider);
        world.run(20);
        assert_eq!((world.dns.applies.len(), world.dns.changes), (1, 0), "{provider}: not due yet");
        let error = &world.set_status("set").error;
        assert!(error.contains("Unauthorized"), "{provider}: {error}");
        change_token(&mut world, provider);
        world.run(2);
        assert_eq!((world.dns.applies.len(), world.dns.changes), (2, 1), "{provider}");
        assert_eq!(world.set_status("set").state, "active");
    }
}

#[test]
fn a_refused_write_is_told_like_a_refused_list_until_it_succeeds_or_there_is_another_token() {
    let told = ("False", "Unauthorized", "Unauthorized by a trick");
    for (proved_lately, change) in
        [(true, WANTS[0].1), (false, WANTS[0].1), (true, WANTS[1].1), (false, WANTS[1].1)]
    {
        for new_token in [false, true] {
            let mut world = World::with(1, 2);
            world.add_ip(2);
            world.run(if proved_lately { 10 } else { 100 });
            world.tricks.extend([REFUSED; 3]);
            world.edit("pool", change);
            world.run(1);
            assert_eq!(world.told("pool", "ProviderReady"), told);
            world.run(59);
            let (from, writes) = (world.now, world.status_writes);
            world.run(70);
            assert_eq!(world.told("pool", "ProviderReady"), told);
            let tries = world.count(from, "assign") + world.count(from, "create");
            assert!(world.status_writes <= writes + 2 * tries, "{} writes", world.status_writes - writes);
            assert_eq!(world.events_of("ProviderNotReady").len(), 1);
            if new_token {
                world.tricks.clear();
                change_token(&mut world, PROVIDER);
                world.run(5);
            } else {
                world.run(130);
            }
            assert_eq!(world.message("pool", "ProviderReady"), None);
            assert!(world.holder(1).is_some() && world.holder(2).is_some());
        }
    }
}

#[test]
fn a_refused_write_that_nobody_needs_any_more_is_no_trouble() {
    let mut world = World::with(1, 2);
    world.run(65);
    world.tricks.push_back(REFUSED);
    world.set_node(1, false);
    world.run(1);
    assert!(world.has("pool", "ProviderReady"));
    world.set_node(1, true);
    world.run(5);
    assert_eq!((world.message("pool", "ProviderReady"), world.holder(1)), (None, Some(ip(1))));
}

#[test]
fn another_token_hastens_nothing_that_failed_for_another_reason_or_at_another_provider() {
    for (kind, provider) in [(FaultKind::Permanent, PROVIDER), (FaultKind::Unauthorized, CLOUDFLARE)] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(Trick::Refused(kind));
        world.run(20);
        change_token(&mut world, provider);
        world.run(20);
        assert_eq!(world.assigns, 1, "{kind} {provider}: {:?}", world.calls);
    }
}

/// Lets time pass until this call is under way, unanswered.
fn run_until_sent(world: &mut World, call: &str) {
    let from = world.now;
    world.run_while(5, |world| world.count(from, call) == 0);
    world.run_until(world.now.plus_millis(1));
}

#[test]
fn a_refusal_of_the_former_token_that_comes_late_holds_nothing_up() {
    for (call, change) in WANTS {
        let mut world = World::with(1, 2);
        world.add_ip(2);
        world.run(65);
        world.tricks.push_back(REFUSED);
        world.edit("pool", change);
        run_until_sent(&mut world, call);
        let from = world.now;
        change_token(&mut world, PROVIDER);
        world.run(4);
        assert!(world.holder(1).is_some() && world.holder(2).is_some(), "{:?}", world.calls);
        assert_eq!(
            (world.count(from, "prove"), world.message("pool", "ProviderReady")),
            (1, None),
            "{:?}",
            world.calls
        );
    }
}

#[test]
fn an_answer_from_before_a_gap_in_the_leadership_counts_unless_it_is_a_refusal() {
    for (call, change) in WANTS {
        for refused in [true, false] {
            let mut world = World::with(1, 2);
            world.add_ip(2);
            world.run(65);
            world.tricks.extend(refused.then_some(REFUSED));
            world.edit("pool", change);
            let from = world.now;
            run_until_sent(&mut world, call);
            world.lead_again();
            world.run(4);
            assert!(world.holder(1).is_some() && world.holder(2).is_some(), "{call}: {:?}", world.calls);
            let sent = 1 + usize::from(refused);
            assert_eq!(
                (world.count(from, call), world.message("pool", "ProviderReady")),
                (sent, None),
                "{call}"
            );
        }
    }
}

#[test]
fn a_read_with_the_former_token_says_nothing_of_the_new_one() {
    for call in ["list", "prove"] {
        for refused in [false, true] {
            let mut world = World::with(1, 1);
            world.faults.reads = refused.then_some(FaultKind::Unauthorized);
            world.faults.lists = None;
            if call == "prove" {
                world.faults.proofs = world.faults.reads.take();
            }
            run_until_sent(&mut world, call);
            world.faults.reads = None;
            world.faults.proofs = None;
            // The provider decided the pending answer when the call was sent.
            let from = world.now;
            change_token(&mut world, PROVIDER);
            world.run(2);
            assert_eq!(world.holder(1), Some(ip(1)), "{call} {refused}: {:?}", world.calls);
            assert_eq!((world.count(from, "prove"), world.count(from, "list")), (1, 1), "{call} {refused}");
        }
    }
}

#[test]
fn a_refusal_of_the_former_token_in_dns_that_comes_late_holds_nothing_up() {
    for provider in [PROVIDER, CLOUDFLARE] {
        for exchanged in [true, false] {
            let mut world = about_to_be_refused(provider);
            world.run_while(5, |world| world.dns.applies.is_empty());
            if exchanged {
                change_token(&mut world, provider);
                world.run(2);
            } else {
                world.lead_again();
                world.run(10);
            }
            assert_eq!((world.dns.applies.len(), world.dns.changes), (2, 1), "{provider} {exchanged}");
            assert_eq!(world.set_status("set").state, "active", "{provider} {exchanged}");
        }
    }
}

#[test]
fn an_unknown_outcome_that_could_not_be_read_is_read_at_once_with_another_token() {
    let mut world = World::with(2, 1);
    world.run(65);
    world.faults.gets = Some(FaultKind::Unauthorized);
    world.tricks.push_back(Trick::Lost(true));
    world.set_node(2, true);
    world.run(10);
    assert_eq!(world.entry("pool", 2).state, "in-progress");
    world.faults.gets = None;
    change_token(&mut world, PROVIDER);
    world.run(1);
    assert_eq!(world.entry("pool", 2).state, "active", "{:?}", world.calls);
}

#[test]
fn a_poll_that_the_former_token_was_refused_late_holds_nothing_up() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Slow(10));
    world.run_while(5, |world| world.calls.iter().all(|(_, call)| !call.starts_with("assign")));
    let from = world.now;
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.faults.late_polls_ms = 2_000;
    world.run_while(5, |world| world.count(from, "poll") == 0);
    // The pending poll was decided when it was sent, and is answered after the new token was proved.
    world.faults.reads = None;
    world.faults.late_polls_ms = 0;
    world.run_until(world.now.plus_millis(5));
    change_token(&mut world, PROVIDER);
    world.run(15);
    assert_eq!(world.status("pool").ips["192.0.2.1"].state, "active", "{:?}", world.calls);
}

#[test]
fn however_many_addresses_wait_a_token_that_was_refused_is_tried_once_a_minute() {
    let mut world = World::with(12, 12);
    world.tricks.extend(vec![REFUSED; 1_000]);
    world.run(600);
    // All calls that were sent before the first answer, and then one a minute.
    let first =
        world.count(world.calls[0].0, "assign") - world.count(world.calls[0].0.plus_millis(2_000), "assign");
    assert!((10..=12 + 10).contains(&world.assigns) && first <= 12, "{first}: {:?}", world.calls);
    assert!(world.assigns - first <= 10, "{:?}", world.calls);
    assert!(world.has("pool", "ProviderReady"));
    let waiting = world.waits();
    let why = "the provider refuses it, and FLIPOP retries once a minute: Unauthorized by a trick";
    assert!(waiting.len() == 12 && waiting.iter().all(|(_, told)| told == why), "{waiting:?}");
    world.tricks.clear();
    world.run(65);
    assert_eq!(world.active("pool"), 12, "the first accepted request releases the others");
    assert!(!world.has("pool", "ProviderReady"));
}

#[test]
fn a_refusal_is_forgotten_when_something_of_the_kind_was_accepted() {
    let mut world = World::with(3, 1);
    world.tricks.extend([REFUSED, REFUSED]);
    world.run(130);
    assert_eq!((world.assigns, world.active("pool")), (3, 1));
    world.run(5);
    assert!(!world.has("pool", "ProviderReady"));
    let errors = world.status("pool").ips.values().filter(|entry| !entry.error.is_empty()).count();
    assert_eq!(errors, 0, "{:?}", world.status("pool").ips);
}

#[test]
fn however_many_pools_want_to_buy_a_token_that_was_refused_is_tried_once_a_minute() {
    let mut world = World::bare(0, 6);
    for name in ["a", "b", "c", "d"] {
        world.add_pool(name, RawPoolSpec { desired_ips: 1, ..spec() });
    }
    world.start();
    world.tricks.extend(vec![REFUSED; 1_000]);
    let from = world.now;
    world.run(600);
    let tries = world.count(from, "create");
    assert!((9..=11).contains(&tries), "{tries}: {:?}", world.calls);
    world.tricks.clear();
    world.run(80);
    assert_eq!(world.created, 4, "{:?}", world.calls);
    world.run(10);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(
            (world.status(name).error.as_str(), world.has(name, "ProviderReady")),
            ("", false),
            "{name}"
        );
    }
}

#[test]
fn a_frozen_pool_does_not_tell_of_what_the_former_token_was_refused() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(REFUSED);
    world.run(5);
    world.edit("pool", |spec| spec.matching.node_label = "a in".into());
    world.run(5);
    assert!(world.has("pool", "ProviderReady"));
    change_token(&mut world, PROVIDER);
    world.run(5);
    assert!(!world.has("pool", "ProviderReady"));
    assert_eq!(world.assigns, 1);
}
