//! The effects of answers, and how often a call is repeated.

use crate::faults::{OF_BOTH, OF_DNS, fault};
use crate::world::{PROVIDER, Trick, World, ip};
use flipop_core::addresses::action as addresses;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::mechanism::{Answer, Budget, Epoch, Purpose, Quota, RateReport};
use flipop_core::model::{ActionId, ActionStatus, FaultKind, Moment};

const T: fn(u64) -> Moment = Moment::from_millis;

#[test]
fn a_read_of_one_address_that_was_refused_to_the_former_token_is_begun_anew_at_once() {
    // A call that was sent before the change says nothing about the new token, even if it was sent at the same moment.
    for changed_after_ms in [Some(1), Some(0), None] {
        let changed = changed_after_ms.is_some();
        let mut world = World::with(1, 1);
        world.tricks.push_back(Trick::Lost(true));
        world.faults.gets = Some(FaultKind::Unauthorized);
        world.run_while(10, |world| world.total("get") == 0);
        // The refusal is on its way.
        world.faults.gets = None;
        if let Some(ms) = changed_after_ms {
            world.run_until(world.now.plus_millis(ms));
            world.observe(Input::TokenChanged(PROVIDER.into()));
        }
        world.run(5);
        let state = world.entry("pool", 1).state.clone();
        assert_eq!(state == "active", changed, "{state}: {:?}", world.calls);
        world.run(60);
        assert_eq!(world.entry("pool", 1).state, "active");
        assert_eq!(world.assigns, 1);
    }
}

#[test]
fn a_read_of_one_address_that_fails_is_repeated_ever_less_often() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Lost(true));
    world.faults.gets = Some(FaultKind::Transient);
    world.run(60);
    let gets = world.total("get");
    assert!((4..=12).contains(&gets), "{gets}: {:?}", world.calls);
}

#[test]
fn a_token_that_may_not_read_one_address_is_told_and_one_failure_is_not() {
    for kind in [FaultKind::Unauthorized, FaultKind::Transient] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(Trick::Lost(true));
        world.faults.gets = Some(kind);
        world.run(5);
        let told = world.has("pool", "ProviderReady");
        assert_eq!(told, kind == FaultKind::Unauthorized);
    }
}

#[test]
fn what_others_moved_is_told_once() {
    let mut world = World::with(2, 3);
    world.run(10);
    let told = |world: &World| world.events_of("MovedByOthers").len();
    world.run(200);
    assert_eq!(told(&world), 0);
    let address = world.holder(1).unwrap().as_v4().unwrap().octets()[3];
    world.move_by_hand(address, None);
    world.run(200);
    assert_eq!(told(&world), 1);
    assert_eq!(world.assigns, 3);
}

#[test]
fn what_others_did_with_an_address_is_told_in_words() {
    for (to, words) in [
        (Some(Some(9)), "192.0.2.2 was moved by others: it is on droplet 109 now"),
        (Some(Some(3)), "192.0.2.2 was moved by others: it is on node node-3 (droplet 103) now"),
        (Some(None), "192.0.2.2 was moved by others: it is on no droplet now"),
        (None, "192.0.2.2 was deleted by others: it is no longer in the account"),
    ] {
        let mut world = World::with(2, 2);
        // A known node that does not match.
        world.set_node(3, false);
        world.run(65);
        match to {
            Some(to) => world.move_by_hand(2, to),
            None => drop(world.cloud.remove(&ip(2))),
        }
        world.run(120);
        let told: Vec<&str> = world
            .events
            .iter()
            .filter(|event| event.reason.as_str() == "MovedByOthers")
            .map(|event| event.message.as_str())
            .collect();
        assert_eq!(told, [words]);
        if to.is_none() {
            let state = world.entry("pool", 2).state.as_str();
            assert_eq!((state, world.annotations.contains_key("node-2"), world.assigns), ("error", false, 2));
        }
    }
}

#[test]
fn how_long_a_failover_took_is_told_of_each_that_went_well() {
    let mut world = World::with(1, 1);
    world.run(10);
    let first = world.fleet.take_latencies_ms();
    assert_eq!(first.len(), 1, "{first:?}");
    world.tricks.push_back(Trick::Errored);
    world.tricks.push_back(Trick::Slow(20));
    world.set_node(2, true);
    world.set_node(1, false);
    world.run(120);
    assert_eq!(world.holder(2), Some(ip(1)));
    let second = world.fleet.take_latencies_ms();
    assert!(second.len() == 1 && (20_000..=40_000).contains(&second[0]), "{second:?}");
}

#[test]
fn what_is_due_when_the_permit_returns_is_done_at_once() {
    let mut world = World::with(1, 2);
    world.run(10);
    let (holder, other) = if world.holder(1).is_some() { (1, 2) } else { (2, 1) };
    world.observe(Input::Permit(false));
    world.set_node(holder, false);
    world.run(20);
    assert_eq!(world.assigns, 1);
    world.observe(Input::Permit(true));
    world.run(2);
    assert_eq!((world.assigns, world.holder(other)), (2, Some(ip(1))));
}

#[test]
fn an_address_that_was_bought_is_unrecorded_until_the_status_names_it() {
    let mut world = World::with(0, 1);
    world.edit("pool", |spec| *spec = RawPoolSpec { desired_ips: 1, ..crate::faults::spec() });
    assert!(!world.fleet.has_unrecorded_creation());
    world.run_while(10, |world| !world.fleet.has_unrecorded_creation());
    assert_eq!(world.created, 1);
    world.run(5);
    assert!(!world.fleet.has_unrecorded_creation());
    assert_eq!(world.status("pool").memory.as_ref().map_or(0, |memory| memory.created.len()), 1);
}

#[test]
fn the_limits_of_cloudflare_leave_fifty_requests_in_five_minutes_to_others() {
    let mut budget = Budget::new(OF_DNS.limits);
    for _ in 0..1_150 {
        assert_eq!(budget.admit(Purpose::Assign, T(1_000)), Ok(()));
        budget.sent(Purpose::Assign, T(1_000));
    }
    let free = budget.admit(Purpose::Assign, T(1_000)).unwrap_err();
    assert!((T(301_000)..T(320_000)).contains(&free), "{free:?}");
}

#[test]
fn pages_that_nobody_announced_count_against_the_quota() {
    let mut budget = Budget::new(OF_BOTH.limits);
    let quota = Quota { limit: Some(5_000), remaining: 100, reset_at: T(600_000), observed_at: T(0) };
    let report = |requests| RateReport { requests, quota: Some(quota), ..RateReport::default() };
    budget.sent(Purpose::Poll, T(0));
    budget.observe(T(0), &report(1));
    assert_eq!(budget.remaining(), Some(100));
    budget.observe(T(1), &report(8));
    assert_eq!(budget.remaining(), Some(93));
}

#[test]
fn faults_and_actions_are_named_by_what_they_say() {
    assert_eq!(fault(FaultKind::Transient, false).to_string(), fault(FaultKind::Transient, false).message);
    assert!(!fault(FaultKind::Transient, false).message.is_empty());
    assert_eq!(ActionId(7).to_string(), "7");
}

#[test]
fn the_answer_to_a_look_at_a_former_action_does_not_end_the_next_one() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Slow(20));
    world.run(5);
    let (epoch, begun, ip) = (Epoch::first(PROVIDER.into()), Moment::default(), ip(1));
    let reply = addresses::Reply::Polled(ip, Ok(ActionStatus::Completed));
    world.observe(Input::Outcome(Answer { epoch, owner: None, begun, reply }.into()));
    world.run(2);
    assert_eq!(world.status("pool").ips[&ip.to_string()].state, "in-progress");
    world.run(30);
    assert_eq!(world.status("pool").ips[&ip.to_string()].state, "active");
}

#[test]
fn why_the_outcome_of_an_assignment_is_not_known_is_told_of_its_address() {
    for (trick, words) in
        [(Trick::Lost(true), "by a trick"), (Trick::Slow(3_600), "has been pending for more than 300 s")]
    {
        let mut world = World::with(1, 1);
        world.tricks.push_back(trick);
        world.faults.gets = Some(FaultKind::Transient);
        world.run(2);
        world.faults.lists = Some(FaultKind::Transient);
        world.run(600);
        let entry = world.entry("pool", 1);
        assert!(entry.state == "in-progress" && entry.error.contains(words), "{entry:?}");
    }
}
