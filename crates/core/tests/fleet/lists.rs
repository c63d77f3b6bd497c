//! Lists that fail, hang or prove nothing. Meanwhile FLIPOP reads addresses one by one.

use crate::world::{PROVIDER, Trick, World, ip};
use crate::zones::set_spec;
use flipop_core::fleet::Input;
use flipop_core::mechanism::RateReport;
use flipop_core::model::FaultKind;

/// Ten actions take 20 s each, and 2 s later lists begin to fail.
fn ten_pending_while_lists_fail() -> World {
    let mut world = World::with(10, 10);
    (0..10).for_each(|_| world.tricks.push_back(Trick::Slow(20)));
    world.run(2);
    world.faults.lists = Some(FaultKind::Transient);
    world
}

#[test]
fn many_pending_actions_are_polled_one_by_one_while_lists_fail() {
    let mut world = ten_pending_while_lists_fail();
    let from = world.now;
    world.run(28);
    assert_eq!(world.active("pool"), 10);
    assert!((60..130).contains(&world.count(from, "poll")), "{}", world.count(from, "poll"));
    // Once lists work again, they serve all addresses.
    world.faults.lists = None;
    world.run(60);
    (0..10).for_each(|_| world.tricks.push_back(Trick::Slow(20)));
    (1..=10).for_each(|n| world.set_node(n, false));
    (11..=20).for_each(|n| world.set_node(n, true));
    let from = world.now;
    world.run(30);
    assert_eq!((world.active("pool"), world.count(from, "poll")), (10, 0));
}

#[test]
fn many_pending_actions_are_polled_no_more_than_once_a_second_while_lists_fail() {
    for (actions, polls) in [(5, 25..=35), (10, 20..=30)] {
        let mut world = World::with(actions, actions);
        (0..actions).for_each(|_| world.tricks.push_back(Trick::Slow(20)));
        world.run(1);
        world.faults.lists = Some(FaultKind::Transient);
        let from = world.now;
        world.run(3);
        assert!(polls.contains(&world.count(from, "poll")), "{actions}: {}", world.count(from, "poll"));
    }
}

#[test]
fn many_pending_actions_wait_for_no_list_that_hangs() {
    let mut world = World::with(10, 10);
    (0..10).for_each(|_| world.tricks.push_back(Trick::Slow(5)));
    world.run(1);
    world.faults.late_lists_ms = 10_000;
    world.run(9);
    assert_eq!(world.active("pool"), 10, "{:?}", world.calls);
}

#[test]
fn no_pending_action_is_called_stalled_because_lists_fail() {
    let mut world = ten_pending_while_lists_fail();
    world.run(400);
    assert!(world.events_of("Stalled").is_empty(), "{:?}", world.events);
}

#[test]
fn of_many_pending_actions_those_that_wait_longest_are_asked_after_first() {
    let mut world = World::with(20, 20);
    (0..20).for_each(|_| world.tricks.push_back(Trick::Slow(400)));
    world.run(2);
    world.faults.lists = Some(FaultKind::Transient);
    let from = world.now;
    // Somebody else uses the token too, which leaves room for a poll only now and then.
    for others in 1..500 {
        let requests = u64::try_from(world.calls.len()).unwrap() + others;
        world.observe(Input::Rate(PROVIDER.into(), RateReport { requests, ..RateReport::default() }));
        world.run_until(world.now.plus_millis(500));
    }
    let polls = |n: u8| {
        let poll = format!("poll {}", ip(n));
        world.calls.iter().filter(|(at, call)| *at >= from && *call == poll).count()
    };
    let counts: Vec<usize> = (1..=20).map(polls).collect();
    let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
    assert!(*least > 5 && most - least < 3, "{counts:?}");
}

#[test]
fn addresses_that_others_lock_are_looked_at_while_lists_fail_and_leave_room_for_records() {
    let mut world = World::with(60, 60);
    world.cloud.values_mut().for_each(|read| read.locked = true);
    world.run(30);
    assert_eq!(world.assigns, 0);
    world.faults.lists = Some(FaultKind::Transient);
    world.run(120);
    world.add_record_set("small", set_spec("small"));
    world.run(4);
    assert!(world.dns.addresses(PROVIDER, "small.example.com").len() > 40);
    world.cloud.get_mut(&ip(60)).unwrap().locked = false;
    world.run(60);
    assert_eq!(world.assigns, 1);
}
