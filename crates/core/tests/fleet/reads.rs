//! Reads of the account: they neither starve nor spin, and are not believed too soon.

use crate::world::{PROVIDER, Trick, World, ip};
use flipop_core::addresses::action as addresses;
use flipop_core::fleet::Input;
use flipop_core::mechanism::{Answer, Epoch, Quota, RateReport};
use flipop_core::model::FaultKind;

/// Calls within the last `seconds`.
fn calls(world: &World, seconds: u64) -> usize {
    let from = world.now.as_millis() - seconds * 1_000;
    world.calls.iter().filter(|(at, _)| at.as_millis() >= from).count()
}

#[test]
fn a_refused_token_is_tried_once_a_minute_and_no_more() {
    let mut world = World::with(3, 3);
    world.run(30);
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.run(600);
    assert!((9..=11).contains(&calls(&world, 600)), "{:?}", world.calls);
    world.faults.reads = None;
    world.set_node(1, false);
    world.set_node(4, true);
    world.run(70);
    assert_eq!(world.holder(4), Some(ip(1)));
}

#[test]
fn a_token_refused_before_it_was_ever_good_is_tried_once_a_minute() {
    let mut world = World::with(3, 3);
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.run(600);
    assert!((9..=12).contains(&calls(&world, 600)), "{:?}", world.calls);
    world.faults.reads = None;
    world.run(70);
    assert_eq!(world.assigns, 3);
}

#[test]
fn a_proof_that_is_refused_keeps_nothing_from_recovering() {
    let mut world = World::with(1, 1);
    world.faults.proofs = Some(FaultKind::Unauthorized);
    world.run(300);
    assert_eq!(world.assigns, 0);
    assert!(world.count(flipop_core::model::moment::Moment::default(), "") <= 12, "{:?}", world.calls);
    world.faults.proofs = None;
    world.run(65);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn what_keeps_the_scope_from_being_proved_is_told_until_it_is() {
    for (kind, reason) in [(FaultKind::Transient, "Transient"), (FaultKind::Unauthorized, "Unauthorized")] {
        let mut world = World::with(1, 1);
        world.faults.proofs = Some(kind);
        world.run(30);
        let told = |world: &World| {
            let ready = world.condition("pool", "ProviderReady");
            ready.map(|condition| (condition.status.clone(), condition.reason.clone()))
        };
        assert_eq!(told(&world), Some(("False".into(), reason.into())));
        world.faults.proofs = None;
        world.run(65);
        assert_eq!((told(&world), world.holder(1)), (None, Some(ip(1))));
    }
}

#[test]
fn a_scope_that_goes_missing_stops_assignments_and_not_the_reads() {
    let mut world = World::with(2, 2);
    world.run(30);
    world.faults.blind = true;
    world.run(120);
    let condition = |world: &World| {
        world.status("pool").conditions.iter().any(|condition| condition.reason == "ScopeMissing")
    };
    assert!(condition(&world), "{:?}", world.status("pool").conditions);
    assert_eq!(world.assigns, 2);
    assert_eq!(world.annotations.len(), 2, "unknown keeps what was confirmed");
    world.faults.blind = false;
    world.set_node(1, false);
    world.set_node(3, true);
    world.run(120);
    assert!(!condition(&world));
    assert_eq!((world.holder(2), world.holder(3)), (Some(ip(2)), Some(ip(1))));
}

#[test]
fn while_the_scope_is_missing_an_unknown_outcome_is_not_read_in_a_loop() {
    let mut world = World::with(2, 2);
    world.run(30);
    world.tricks.push_back(Trick::Slow(3_600));
    world.set_node(1, false);
    world.set_node(3, true);
    world.faults.blind = true;
    world.run(60);
    // The action is never found again, so the address has to be read.
    world.forget_actions();
    let from = world.now;
    world.run(60);
    assert!((5..20).contains(&world.count(from, "get")), "{}", world.count(from, "get"));
    world.faults.blind = false;
    world.run(120);
    assert_eq!(world.holder(3), Some(ip(1)));
}

#[test]
fn many_pending_actions_do_not_make_a_failing_list_spin() {
    let mut world = World::with(10, 10);
    (0..10).for_each(|_| world.tricks.push_back(Trick::Slow(40)));
    world.run(2);
    let from = world.now;
    world.faults.lists = Some(FaultKind::Transient);
    world.run(30);
    assert!(world.count(from, "list") <= 8, "{}", world.count(from, "list"));
    world.faults.lists = None;
    world.run(60);
    assert_eq!((world.assigns, world.status("pool").assignable_nodes.len()), (10, 0));
    assert!((1..=10).all(|n| world.holder(n).is_some()));
}

#[test]
fn many_pending_actions_go_on_while_no_list_is_believed() {
    let mut world = World::with(12, 2);
    world.run(30);
    (0..10).for_each(|_| world.tricks.push_back(Trick::Slow(90)));
    (3..=12).for_each(|n| world.set_node(n, true));
    world.run(1);
    world.faults.blind = true;
    world.run(120);
    world.faults.blind = false;
    world.run(120);
    assert_eq!(world.assigns, 12);
    assert_eq!(world.active("pool"), 12);
}

#[test]
fn lists_go_on_when_another_read_proves_the_scope() {
    let mut world = World::with(2, 2);
    world.run(3);
    // Somebody takes off every address within a minute of the first proof, so the next list is held back.
    world.move_by_hand(1, None);
    world.move_by_hand(2, None);
    world.run(50);
    let (epoch, begun, was) = (Epoch::first(PROVIDER.into()), world.now, world.cloud[&ip(1)].clone());
    let machine = Some(crate::faults::droplet_of(101));
    let found = flipop_core::model::facts::ReservedIp { machine, ..was };
    let reply = addresses::Reply::Got(ip(1), Ok(found));
    world.observe(Input::Outcome(Answer { epoch, owner: None, begun, reply }.into()));
    let from = world.now;
    world.run(300);
    assert!(world.count(from, "list") >= 5, "{:?}", world.calls);
    assert!(world.holder(1).is_some() && world.holder(2).is_some());
}

#[test]
fn another_token_is_proved_at_once_and_nothing_of_the_old_one_is_believed() {
    let mut world = World::with(1, 1);
    world.run(5);
    let from = world.now;
    world.observe(Input::TokenChanged(PROVIDER.into()));
    world.run(1);
    assert_eq!((world.count(from, "prove"), world.count(from, "list")), (1, 1), "{:?}", world.calls);
}

#[test]
fn an_address_locked_by_someone_else_is_looked_at_until_it_is_free() {
    let mut world = World::with(1, 1);
    world.cloud.get_mut(&ip(1)).unwrap().locked = true;
    world.run(10);
    assert_eq!(world.assigns, 0);
    world.cloud.get_mut(&ip(1)).unwrap().locked = false;
    world.run(7);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn a_list_that_lags_behind_an_unassignment_by_others_moves_nothing() {
    let mut world = World::with(2, 2);
    world.run(60);
    let old = world.cloud.clone();
    world.set_node(2, false);
    world.set_node(3, true);
    world.run(40);
    assert_eq!(world.holder(3), Some(ip(2)));
    world.faults.stale = Some(old);
    world.run(300);
    assert_eq!(world.assigns, 3);
    assert_eq!(world.entry("pool", 2).state, "active");
}

#[test]
fn a_refused_assignment_starts_no_cool_off_even_when_the_refusal_had_to_be_looked_into() {
    let mut world = World::with(2, 2);
    world.edit("pool", |spec| spec.cool_off_seconds = 100.0);
    world.tricks.push_back(Trick::Refused(FaultKind::NotFound));
    world.run(10);
    assert!(world.holder(2).is_some(), "{:?}", world.calls);
}

#[test]
fn an_assignment_that_is_refused_for_want_of_rights_does_not_storm() {
    let mut world = World::with(30, 30);
    for _ in 0..1_000 {
        world.tricks.push_back(Trick::Refused(FaultKind::Unauthorized));
    }
    world.run(600);
    let posts = world.count(flipop_core::model::moment::Moment::default(), "assign");
    assert!(posts <= 330, "{posts}");
}

#[test]
fn whatever_call_is_refused_for_want_of_rights_the_scope_is_proved_anew() {
    use crate::faults::spec;
    use flipop_core::addresses::pool::spec::RawPoolSpec;
    let mut world = World::with(1, 1);
    world.run(100);
    world.tricks.push_back(Trick::Refused(FaultKind::Unauthorized));
    world.edit("pool", |old| *old = RawPoolSpec { desired_ips: 2, ips: old.ips.clone(), ..spec() });
    let from = world.now;
    world.run(2);
    assert_eq!((world.count(from, "create"), world.count(from, "prove")), (1, 1), "{:?}", world.calls);
}

#[test]
fn more_than_five_pending_actions_are_looked_up_with_one_list() {
    let mut world = World::with(10, 10);
    (0..10).for_each(|_| world.tricks.push_back(Trick::Slow(20)));
    world.run(1);
    let from = world.now;
    world.run(18);
    assert_eq!(world.count(from, "poll"), 0);
    assert!((3..=8).contains(&world.count(from, "list")), "{}", world.count(from, "list"));
    world.run(10);
    assert!((1..=10).all(|n| world.holder(n).is_some()));
    let mut world = World::with(5, 5);
    (0..5).for_each(|_| world.tricks.push_back(Trick::Slow(20)));
    world.run(19);
    // Four polls in the first second, and later ever fewer.
    let polls = world.count(flipop_core::model::moment::Moment::default(), "poll");
    assert!((70..=90).contains(&polls), "{polls}");
}

#[test]
fn nothing_is_sent_while_the_provider_asks_for_a_pause() {
    let mut world = World::with(3, 3);
    world.run(30);
    let until = world.now.plus_millis(300_000);
    let report = RateReport { blocked_until: Some(until), ..Default::default() };
    world.observe(Input::Rate(PROVIDER.into(), report));
    world.set_node(1, false);
    world.set_node(4, true);
    let from = world.now;
    world.run(299);
    assert_eq!(world.count(from, ""), 0, "{:?}", world.calls);
    assert_eq!(*world.status("pool").assignable_nodes, ["node-4"]);
    world.run(3);
    assert_eq!(world.holder(4), Some(ip(1)));
}

#[test]
fn a_poll_that_fails_says_nothing_of_the_action() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Slow(20));
    world.run(3);
    world.faults.reads = Some(FaultKind::Transient);
    world.run(10);
    world.faults.reads = None;
    world.run(30);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
    assert!(world.events_of("AssignmentFailed").is_empty(), "{:?}", world.events);
}

#[test]
fn after_a_gap_in_the_leadership_nothing_is_assigned_before_the_account_is_listed_again() {
    let mut world = World::with(2, 1);
    world.run(60);
    // Another leader may have moved it meanwhile.
    world.move_by_hand(2, Some(9));
    world.set_node(2, true);
    world.faults.lists = Some(FaultKind::Transient);
    world.lead_again();
    world.run(30);
    assert_eq!(world.assigns, 1, "{:?}", world.calls);
    world.faults.lists = None;
    world.run(70);
    assert_eq!((world.assigns, world.holder(2)), (2, Some(ip(2))));
}

#[test]
fn what_a_token_has_left_is_told_and_counted_down_by_what_is_sent() {
    let mut world = World::with(1, 1);
    world.run(10);
    let left = |world: &World| {
        let snapshot = world.fleet.snapshot();
        snapshot.accounts.iter().find(|account| account.provider == PROVIDER).unwrap().rate_remaining
    };
    assert_eq!(left(&world), None, "the provider has said nothing yet");
    let quota = Quota {
        limit: Some(5_000),
        remaining: 4_000,
        reset_at: world.now.plus_millis(60_000),
        observed_at: world.now,
    };
    world.observe(Input::Rate(PROVIDER.into(), RateReport { quota: Some(quota), ..RateReport::default() }));
    assert_eq!(left(&world), Some(4_000));
    let from = world.now;
    world.run(120);
    let sent = u64::try_from(world.count(from, "")).unwrap();
    assert!(sent > 0);
    assert_eq!(left(&world), Some(4_000 - sent));
}

#[test]
fn a_first_list_that_is_older_than_what_the_status_says_moves_nothing() {
    for really in [false, true] {
        let mut world = World::with(1, 2);
        world.run(10);
        let (holder, other) = if world.holder(1).is_some() { (1, 2) } else { (2, 1) };
        let mut old = world.cloud.clone();
        old.get_mut(&ip(1)).unwrap().machine = None;
        if really {
            world.move_by_hand(1, None);
        }
        let from = world.now;
        world.faults.stale = Some(old);
        world.set_node(other, true);
        world.start();
        world.run(10);
        world.faults.stale = None;
        world.run(100);
        assert_eq!(world.count(from, "get"), 1, "{:?}", world.calls);
        assert_eq!(world.assigns, if really { 2 } else { 1 }, "{:?}", world.calls);
        assert!(really || world.holder(holder) == Some(ip(1)));
    }
}

#[test]
fn many_addresses_that_others_keep_locked_leave_room_for_assignments_and_lists() {
    let mut world = World::with(60, 60);
    world.run(90);
    world.set_node(61, true);
    let last = world.holder(60).unwrap();
    let locked = |world: &mut World, locked| {
        world.cloud.values_mut().filter(|read| read.ip != last).for_each(|read| read.locked = locked);
    };
    locked(&mut world, true);
    world.start();
    let from = world.now;
    world.run(40);
    world.set_node(60, false);
    world.run(5);
    assert_eq!(world.holder(61), Some(last), "{:?}", &world.calls[world.calls.len() - 20..]);
    assert_eq!(world.count(from, "get"), 0);
    world.run(300);
    let lists = world.count(from, "list");
    assert!((50..80).contains(&lists), "{lists}");
    locked(&mut world, false);
    world.run(60);
    let states = world.status("pool").ips.values();
    assert_eq!(states.filter(|entry| entry.state == "active").count(), 60);
}

#[test]
fn a_list_that_waited_long_for_its_proof_is_not_believed() {
    let mut world = World::with(1, 2);
    world.faults.proofs = Some(FaultKind::Transient);
    world.run(300);
    // Nothing shows the move, because only the first list was read.
    world.move_by_hand(1, Some(2));
    world.moved.clear();
    world.faults.proofs = None;
    world.run(400);
    assert_eq!((world.holder(2), world.assigns), (Some(ip(1)), 0));
}

#[test]
fn an_address_on_no_list_that_comes_to_exist_is_found() {
    let mut world = World::with(1, 2);
    world.edit("pool", |spec| spec.ips.push(ip(9).to_string()));
    world.faults.unlisted.insert(ip(9));
    world.run(120);
    let (from, named) = (world.now, ip(9).to_string());
    assert_eq!(world.status("pool").ips[&named].state, "error");
    world.run(3_600);
    assert!((5..=7).contains(&world.count(from, "get")), "{}", world.count(from, "get"));
    world.add_ip(9);
    world.run(700);
    assert_eq!(world.status("pool").ips[&named].state, "active", "{:?}", world.status("pool"));
}

#[test]
fn an_account_that_nobody_asked_for_meanwhile_is_read_before_anything_is_done() {
    let mut world = World::with(1, 2);
    (1..=2).for_each(|n| world.set_node(n, false));
    world.run(20);
    let spec = world.pools["pool"].spec.clone().unwrap();
    world.delete_pool("pool");
    (1..=2).for_each(|n| world.set_node(n, true));
    world.run(3_600);
    world.move_by_hand(1, Some(2));
    world.moved.clear();
    world.add_pool("again", spec);
    world.run(120);
    assert_eq!((world.assigns, world.holder(2)), (0, Some(ip(1))), "{:?}", world.calls);
}

#[test]
fn addresses_on_no_list_are_read_once_a_minute_however_often_lists_come() {
    let mut world = World::with(10, 2);
    for n in 11..=13 {
        world.add_ip(n);
        world.faults.unlisted.insert(ip(n));
        world.edit("pool", |spec| spec.ips.push(ip(n).to_string()));
    }
    world.run(120);
    (0..8).for_each(|_| world.tricks.push_back(Trick::Slow(90)));
    (3..=10).for_each(|n| world.set_node(n, true));
    let from = world.now;
    world.run(80);
    let (lists, gets) = (world.count(from, "list"), world.count(from, "get"));
    assert!(lists > 10 && (3..=6).contains(&gets), "{lists} lists, {gets} reads");
}

#[test]
fn of_many_addresses_on_no_list_each_has_its_turn() {
    let mut world = World::with(10, 2);
    for n in 11..=35 {
        world.add_ip(n);
        world.faults.unlisted.insert(ip(n));
        world.edit("pool", |spec| spec.ips.push(ip(n).to_string()));
    }
    world.run(200);
    let from = world.now;
    world.run(155);
    let turns: Vec<usize> = (11..=35).map(|n| world.count(from, &format!("get {}", ip(n)))).collect();
    assert!(turns.iter().all(|count| (1..=2).contains(count)), "{turns:?}");
    assert!((25..=40).contains(&turns.iter().sum::<usize>()), "{turns:?}");
}

#[test]
fn an_unlisted_address_that_is_gone_for_good_is_asked_for_as_seldom_as_any_other() {
    let mut world = World::with(1, 1);
    world.add_ip(9);
    world.faults.unlisted.insert(ip(9));
    world.edit("pool", |spec| spec.ips.push(ip(9).to_string()));
    world.run(120);
    let state = |world: &World| world.entry("pool", 9).state.clone();
    let gone = world.cloud.remove(&ip(9)).unwrap();
    world.run(55);
    assert_eq!(state(&world), "error");
    world.cloud.insert(ip(9), gone.clone());
    world.run(55);
    assert_ne!(state(&world), "error", "gone for a minute only, it is found with the next list");
    world.cloud.remove(&ip(9));
    world.run(300);
    let from = world.now;
    world.run(3_600);
    assert!((5..=7).contains(&world.count(from, "get")), "{}", world.count(from, "get"));
    world.cloud.insert(ip(9), gone);
    world.run(700);
    assert_ne!(state(&world), "error");
}

#[test]
fn a_newer_list_that_is_wanted_while_an_older_one_is_under_way_comes_after_it() {
    let mut world = World::with(2, 1);
    let begun = world.now.plus_millis(50_000);
    world.run_until(begun.plus_millis(10_000));
    world.run_until(begun.plus_millis(49_970));
    let old = world.cloud.clone();
    world.add_ip(9);
    world.move_by_hand(9, Some(2));
    world.faults.stale = Some(old);
    world.set_node(2, true);
    world.run_until(begun.plus_millis(50_040));
    assert_eq!((world.count(begun, "assign"), world.count(begun, "list")), (1, 2), "{:?}", world.calls);
    world.faults.stale = None;
    let from = world.now;
    world.run(5);
    assert_eq!(world.count(from, "list"), 1, "{:?}", world.calls);
    let waiting = world.waits();
    let why = waiting.iter().find(|(node, _)| node == "node-2").map(|(_, why)| why.clone());
    assert!(why.is_some_and(|why| why.contains(&ip(9).to_string())), "{waiting:?}");
}
