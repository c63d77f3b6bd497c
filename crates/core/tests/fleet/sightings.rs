//! Purchases, and lists that leave addresses out or are outdated.

use crate::creation::{buying, world};
use crate::faults::{spec, spec_of};
use crate::orphans::{forgotten, is_uncertain, unknown};
use crate::world::{PROVIDER, Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::FaultKind;

/// A pool that has just bought address 201, and does not know that.
fn answer_lost() -> World {
    let mut world = buying(1);
    world.tricks.push_back(Trick::Lost(true));
    world.start();
    world.run_while(10, |world| world.created == 0);
    world
}

/// A pool that bought either 201 or one of the others, and nobody knows which.
pub(crate) fn in_question(others: &[u8]) -> World {
    let mut world = answer_lost();
    for other in others {
        world.add_ip(*other);
    }
    world.run_while(200, |world| !is_uncertain(world));
    world
}

/// The addresses in `spec.ips` of a pool.
fn named(world: &World, pool: &str) -> Vec<String> {
    world.pools[pool].spec.as_ref().unwrap().ips.clone()
}

/// Makes one list leave an address out.
fn omit_once(world: &mut World, n: u8) {
    world.faults.unlisted.insert(ip(n));
    run_to_the_next_list(world);
    world.faults.unlisted.clear();
}

fn run_to_the_next_list(world: &mut World) {
    let lists = world.calls.len();
    world.run_while(200, |world| !world.calls[lists..].iter().any(|(_, call)| call == "list"));
    world.run(1);
}

#[test]
fn what_a_pool_bought_since_the_last_list_counts_also_for_the_pool_that_takes_its_place() {
    for seconds in [0, 1, 10] {
        let mut world = buying(1);
        world.add_pool("other", spec_of([90]));
        world.start();
        // Bought, on its way to the droplet, and there.
        world.run_while(10, |world| world.assigns < 2);
        world.run(seconds);
        world.delete_pool("pool");
        world.run(1);
        world.add_pool("pool", RawPoolSpec { desired_ips: 1, ..spec() });
        world.run(200);
        assert_eq!((world.created, unknown(&world), is_uncertain(&world)), (1, [ip(201)].into(), true));
    }
}

#[test]
fn a_purchase_of_unknown_outcome_that_one_of_two_lists_leaves_out_is_found_by_a_third() {
    for others in [&[][..], &[95]] {
        let mut world = answer_lost();
        for other in others {
            world.add_ip(*other);
        }
        world.run(5);
        omit_once(&mut world, 201);
        world.run(200);
        let adopted = if others.is_empty() { vec![ip(201).to_string()] } else { vec![] };
        assert_eq!(
            (world.created, named(&world, "pool"), is_uncertain(&world)),
            (1, adopted, !others.is_empty())
        );
    }
}

#[test]
fn an_unknown_address_that_one_list_leaves_out_is_not_bought_again() {
    let mut world = forgotten();
    world.start();
    world.run(100);
    omit_once(&mut world, 201);
    assert!(is_uncertain(&world));
    world.run(200);
    assert_eq!((world.created, unknown(&world)), (2, [ip(201), ip(202)].into()));
}

#[test]
fn of_several_addresses_one_of_which_was_bought_none_is_adopted_because_one_list_leaves_another_out() {
    let mut world = in_question(&[95]);
    omit_once(&mut world, 201);
    world.run(200);
    assert!(is_uncertain(&world));
    // Of one that stays away nothing is left but to take the other.
    world.cloud.remove(&ip(201));
    world.run(200);
    assert_eq!(
        (world.created, named(&world, "pool"), is_uncertain(&world)),
        (1, vec![ip(95).to_string()], false)
    );
}

#[test]
fn unknown_addresses_stay_named_while_their_pool_is_frozen_or_their_account_cannot_be_read() {
    for frozen in [false, true] {
        let mut world = forgotten();
        world.start();
        world.run(100);
        assert!(is_uncertain(&world));
        if frozen {
            world.edit("pool", |spec| spec.matching.node_label = "a in".to_owned());
        } else {
            world.faults.lists = Some(FaultKind::Transient);
        }
        world.start();
        for _ in 0..100 {
            world.run(1);
            assert!(is_uncertain(&world), "{frozen}");
        }
    }
}

#[test]
fn an_announced_purchase_is_taken_back_while_it_is_not_known_which_nodes_match() {
    let mut world = world(1);
    world.run(20);
    world.pools.get_mut("pool").unwrap().status = flipop_core::addresses::pool::status::PoolStatus::default();
    world.edit("pool", |spec| spec.ips.clear());
    world.set_node(1, false);
    world.start();
    let announced =
        |world: &World| world.status("pool").memory.as_ref().is_some_and(|kept| kept.intent.is_some());
    world.run_while(1, |world| !announced(world));
    // It is written, and not answered yet.
    world.hold_watches = true;
    world.edit("pool", |spec| spec.matching.node_label = "a=b".to_owned());
    world.set_node(1, true);
    world.run(20);
    world.hold_watches = false;
    world.run(200);
    assert_eq!((world.created, unknown(&world), is_uncertain(&world)), (1, [ip(201)].into(), true));
}

#[test]
fn what_another_pool_bought_since_the_last_list_is_not_taken_for_what_a_lost_request_brought() {
    let mut world = buying(1);
    (1..=3).for_each(|n| world.set_node(n, false));
    world.add_pool("other", spec_of([90]));
    world.start();
    world.run_while(10, |world| world.created == 0);
    world.run(1);
    world.delete_pool("pool");
    world.tricks.push_back(Trick::Lost(false));
    world.add_pool("next", RawPoolSpec { desired_ips: 1, ..spec() });
    world.run(200);
    assert_eq!((world.created, named(&world, "next")), (2, vec![ip(202).to_string()]));
}

#[test]
fn the_last_of_several_addresses_is_not_adopted_once_it_is_deleted() {
    let mut world = in_question(&[95]);
    world.cloud.remove(&ip(201));
    omit_once(&mut world, 201);
    world.add_pool("other", spec_of([95]));
    world.run(200);
    assert_eq!((world.created, named(&world, "pool")), (2, vec![ip(202).to_string()]));
}

#[test]
fn an_address_that_stays_away_while_others_are_in_question_is_listed_no_more_often_than_the_rest() {
    for assigned in [false, true] {
        let mut world = in_question(&[95, 96]);
        omit_once(&mut world, 201);
        if assigned {
            world.move_by_hand(201, Some(91));
        } else {
            world.cloud.remove(&ip(201));
        }
        world.run(100);
        let from = world.now;
        world.run(600);
        assert_eq!((world.count(from, "list"), is_uncertain(&world)), (12, true), "{assigned}");
    }
}

#[test]
fn addresses_that_come_and_go_in_the_account_hold_no_purchase_up_for_ever() {
    let mut world = buying(1);
    world.tricks.push_back(Trick::Lost(false));
    world.start();
    world.run_while(10, |world| !world.tricks.is_empty());
    for n in 100..150 {
        world.add_ip(n);
        world.cloud.remove(&ip(n - 3));
        world.run(8);
    }
    assert_eq!((world.created, named(&world, "pool").len()), (1, 1));
}

#[test]
fn a_purchase_of_unknown_outcome_that_lists_show_now_and_then_is_found() {
    let mut world = answer_lost();
    world.add_ip(95);
    world.run(5);
    omit_once(&mut world, 201);
    world.cloud.remove(&ip(95));
    run_to_the_next_list(&mut world);
    omit_once(&mut world, 201);
    world.run(200);
    assert_eq!((world.created, named(&world, "pool")), (1, vec![ip(201).to_string()]));
}

#[test]
fn an_address_in_question_that_stood_on_a_candidate_for_a_while_is_no_longer_counted_there() {
    for to in [None, Some(91)] {
        let mut world = in_question(&[95, 96]);
        world.move_by_hand(201, Some(1));
        world.run(100);
        assert_eq!(unknown(&world), [ip(201)].into());
        world.move_by_hand(201, to);
        world.run(100);
        assert_eq!((unknown(&world), is_uncertain(&world)), ([].into(), true), "{to:?}");
        let from = world.now;
        world.run(600);
        assert_eq!(world.count(from, "list"), 12, "{to:?}");
        omit_once(&mut world, 95);
        world.run(10);
        assert_eq!((world.created, is_uncertain(&world)), (1, true), "{to:?}");
    }
}

#[test]
fn a_purchase_of_unknown_outcome_that_appears_as_another_address_goes_is_found() {
    let mut world = buying(1);
    world.tricks.push_back(Trick::Lost(true));
    world.faults.unlisted.insert(ip(201));
    world.start();
    world.run_while(10, |world| world.created == 0);
    world.add_ip(95);
    world.run(5);
    world.faults.unlisted = [ip(95)].into();
    run_to_the_next_list(&mut world);
    world.cloud.remove(&ip(95));
    omit_once(&mut world, 201);
    world.run(200);
    assert_eq!((world.created, named(&world, "pool")), (1, vec![ip(201).to_string()]));
}

#[test]
fn absences_before_and_after_a_time_with_another_provider_do_not_add_up() {
    let mut world = forgotten();
    // The account stays in use.
    world.add_pool("other", spec_of([77]));
    world.start();
    world.run(100);
    assert_eq!(unknown(&world), [ip(201), ip(202)].into());
    omit_once(&mut world, 201);
    world.edit("pool", |spec| spec.provider = "nowhere".to_owned());
    world.run(150);
    world.set_node(1, false);
    world.faults.unlisted.insert(ip(201));
    run_to_the_next_list(&mut world);
    world.edit("pool", |spec| spec.provider = PROVIDER.to_owned());
    world.run(5);
    world.faults.unlisted.clear();
    world.run(100);
    assert_eq!((world.created, unknown(&world)), (2, [ip(201), ip(202)].into()));
}

#[test]
fn the_list_that_agrees_with_another_is_asked_for_in_time_and_no_sooner() {
    // One of two addresses in question goes.
    let mut world = in_question(&[95]);
    world.cloud.remove(&ip(201));
    run_to_the_next_list(&mut world);
    assert!(is_uncertain(&world));
    let from = world.now;
    world.run(28);
    assert_eq!(world.count(from, "list"), 0);
    world.run(4);
    assert_eq!((world.count(from, "list"), is_uncertain(&world)), (1, false));
    // The second list leaves the bought address out.
    let mut world = answer_lost();
    world.run(5);
    omit_once(&mut world, 201);
    let from = world.now;
    world.run(28);
    assert_eq!((world.count(from, "list"), named(&world, "pool").len()), (0, 0));
    world.run(4);
    assert_eq!((world.count(from, "list"), named(&world, "pool").len()), (1, 1));
}
