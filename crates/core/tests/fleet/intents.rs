//! Intents: how a purchase is announced before it is sent, who may announce one, and how an uncertain one ends.

use crate::creation::buying;
use crate::faults::{spec, spec_of};
use crate::world::{Trick, World, ip};
use flipop_core::addresses::action as addresses;
use flipop_core::addresses::pool::memory::Intent;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::mechanism::Answer;
use flipop_core::model::spec::RawMatch;
use flipop_core::model::{CallFailure, FaultKind, WriteFailure};

fn intent<'a>(world: &'a World, pool: &str) -> Option<&'a Intent> {
    world.status(pool).memory.as_ref()?.intent.as_ref()
}

/// Edits after which nothing may be bought.
const FORBIDDEN: [fn(&mut RawPoolSpec); 4] = [
    |spec| spec.matching.node_label = "a in".into(),
    |spec| spec.provider = "nobody".into(),
    |spec| spec.region = String::new(),
    |spec| spec.desired_ips = 1_001,
];

#[test]
fn a_pool_that_may_not_buy_announces_nothing() {
    for (number, forbid) in FORBIDDEN.into_iter().enumerate() {
        let mut world = buying(2);
        world.edit("pool", forbid);
        world.start();
        for _ in 0..120 {
            world.run(1);
            assert_eq!(intent(&world, "pool"), None, "{number}");
        }
        assert!(world.status_writes <= 2, "{number}: {}", world.status_writes);
        world.edit("pool", |spec| *spec = RawPoolSpec { desired_ips: 2, ..crate::faults::spec() });
        world.run(60);
        assert_eq!(world.created, 2, "{number}");
    }
}

#[test]
fn nothing_is_announced_before_the_nodes_are_known_or_while_the_status_loses_it() {
    let mut world = buying(2);
    world.hold_watches = true;
    world.start();
    world.run(120);
    assert_eq!((intent(&world, "pool"), world.status_writes), (None, 0));
    world.hold_watches = false;
    world.go_crds = true;
    world.run(3_600);
    assert_eq!(world.created, 0);
    assert!(world.status_writes <= 20, "{}", world.status_writes);
}

#[test]
fn each_purchase_has_a_number_of_its_own_also_after_a_pause() {
    let mut world = buying(1);
    world.tricks.push_back(Trick::Slow(5));
    world.start();
    world.run(2);
    let first = intent(&world, "pool").unwrap().number;
    world.run(20);
    world.lead_again();
    world.run(10);
    world.tricks.clear();
    world.tricks.extend([Trick::Slow(5); 4]);
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run_while(50, |world| intent(world, "pool").is_none());
    assert!(intent(&world, "pool").unwrap().number > first);
}

#[test]
fn a_refusal_that_comes_when_the_pool_is_gone_is_no_purchase() {
    for (trick, told) in [(Trick::Refused(FaultKind::Quota), 0), (Trick::Lost(false), 1), (Trick::Fine, 1)] {
        let mut world = buying(1);
        world.tricks.push_back(trick);
        world.start();
        world.run_while(5, |world| world.total("create") == 0);
        world.delete_pool("pool");
        world.run(10);
        let notices = world.events_of("CreatedWithoutPool").len();
        assert_eq!(notices, told, "{trick:?}");
    }
}

/// One of two new addresses was bought, and nobody knows which.
fn uncertain() -> World {
    let mut world = buying(1);
    world.tricks.push_back(Trick::Lost(true));
    world.start();
    world.run(1);
    world.add_ip(150);
    world.run(120);
    assert!(intent(&world, "pool").is_some_and(|intent| intent.uncertain.is_some()));
    world
}

#[test]
fn an_uncertain_purchase_ends_when_all_but_one_of_its_addresses_are_somebodys() {
    for taken in 0..3 {
        let mut world = uncertain();
        match taken {
            0 => world.move_by_hand(150, Some(91)),
            1 => drop(world.cloud.remove(&ip(150))),
            _ => world.add_pool("other", spec_of([150])),
        }
        world.run(120);
        assert_eq!(intent(&world, "pool"), None, "{taken}");
        let ips = &world.pools["pool"].spec.as_ref().unwrap().ips;
        assert_eq!((world.created, ips), (1, &vec![ip(201).to_string()]), "{taken}");
    }
}

#[test]
fn an_uncertain_purchase_keeps_no_other_pool_from_buying() {
    let mut world = uncertain();
    world.add_pool("second", RawPoolSpec { desired_ips: 1, ..spec() });
    world.run(60);
    assert_eq!((world.created, world.pools["second"].spec.as_ref().unwrap().ips.len()), (2, 1));
    assert!(intent(&world, "pool").is_some());
}

#[test]
fn an_intent_that_another_pool_announced_is_waited_for() {
    let mut world = buying(1);
    world.add_pool("second", RawPoolSpec { desired_ips: 1, ..spec() });
    world.start();
    let mut both = 0;
    world.run_while(5, |world| world.created == 0);
    for _ in 0..400 {
        world.run_until(world.now.plus_millis(5));
        both += usize::from(["pool", "second"].iter().all(|pool| intent(&world, pool).is_some()));
    }
    assert_eq!((world.created, both), (2, 0));
}

#[test]
fn what_was_announced_is_not_bought_once_the_pool_may_not_buy_any_more() {
    for (number, forbid) in FORBIDDEN.into_iter().enumerate() {
        let mut world = buying(1);
        world.start();
        world.run_while(5, |world| intent(world, "pool").is_none());
        assert_eq!(world.total("create"), 0);
        world.edit("pool", forbid);
        world.run(120);
        assert_eq!((world.created, intent(&world, "pool")), (0, None), "{number}");
    }
}

#[test]
fn what_was_announced_waits_for_the_permit_and_for_a_token_that_is_not_refused() {
    for permit in [true, false] {
        let mut world = buying(1);
        world.start();
        world.run_while(5, |world| intent(world, "pool").is_none());
        if permit {
            // A list is refused as soon as the intent is in the status.
            world.faults.reads = Some(FaultKind::Unauthorized);
            world.faults.lists = Some(FaultKind::Unauthorized);
            let fault = crate::faults::fault(FaultKind::Unauthorized, false);
            let reply = addresses::Reply::Listed(Err(CallFailure::Fault(fault)));
            let (epoch, begun) = (world.epoch.clone(), world.now);
            world.observe(Input::Outcome(Answer { epoch, owner: None, begun, reply }.into()));
        } else {
            world.observe(Input::Permit(false));
        }
        world.run(120);
        assert_eq!(world.total("create"), 0);
        assert_eq!((world.created, intent(&world, "pool").is_some()), (0, true), "{permit}");
        (world.faults.reads, world.faults.lists) = (None, None);
        world.observe(Input::Permit(true));
        world.run(120);
        assert_eq!(world.created, 1, "{permit}");
    }
}

#[test]
fn what_was_announced_is_not_bought_when_nothing_is_missing_any_more() {
    for named in [true, false] {
        let mut world = buying(1);
        world.add_ip(7);
        world.edit("pool", |spec| {
            spec.desired_ips = 2;
            spec.ips.push(ip(7).to_string());
        });
        world.start();
        world.run_while(5, |world| intent(world, "pool").is_none());
        if named {
            world.add_ip(8);
            world.edit("pool", |spec| spec.ips.push(ip(8).to_string()));
        } else {
            world.edit("pool", |spec| spec.desired_ips = 1);
        }
        world.run(120);
        assert_eq!((world.created, intent(&world, "pool")), (0, None), "{named}");
    }
}

#[test]
fn of_a_purchase_without_an_answer_only_a_new_address_that_nobody_names_is_adopted() {
    for bought in [true, false] {
        let mut world = buying(1);
        // Another unassigned address was there before, and one that appears meanwhile belongs to another pool.
        world.add_ip(91);
        world.tricks.push_back(Trick::Lost(bought));
        world.start();
        world.run_while(5, |world| world.total("create") == 0);
        // Somebody buys an address in another region, and one that is on a droplet.
        world.add_ip(151);
        world.cloud.get_mut(&ip(151)).unwrap().region = "ams3".into();
        world.add_foreign_ip(152, 92);
        world.hold_watches = true;
        world.add_ip(150);
        let matching = RawMatch { node_label: "a=b".into(), ..RawMatch::default() };
        world.add_pool("other", RawPoolSpec { matching, ..spec_of([150]) });
        world.run(200);
        assert_eq!((world.created, intent(&world, "pool")), (1, None), "{bought}");
        assert!(world.events_of("CreationUncertain").is_empty(), "{bought}: there is no doubt");
        assert_eq!(world.pools["pool"].spec.as_ref().unwrap().ips, [ip(201).to_string()], "{bought}");
    }
}

#[test]
fn an_address_of_others_that_comes_to_a_candidate_after_the_first_purchase_stands_in_for_none() {
    let mut world = buying(1);
    world.tricks.push_back(Trick::Lost(true));
    world.start();
    world.run(120);
    assert_eq!(world.created, 1);
    world.add_foreign_ip(77, 3);
    world.run(60);
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run(120);
    assert_eq!((world.created, world.holder(3)), (2, Some(ip(77))));
}

#[test]
fn a_purchase_under_way_is_not_forgotten_when_the_crds_stop_keeping_the_memory() {
    for trick in [Trick::Slow(20), Trick::Lost(true)] {
        let mut world = buying(1);
        world.tricks.push_back(trick);
        world.start();
        world.run_while(5, |world| world.total("create") == 0);
        world.go_crds = true;
        world.set_node(3, false);
        world.run(2);
        assert!(world.status("pool").memory.is_none(), "the server has lost it");
        world.run(120);
        let ips = &world.pools["pool"].spec.as_ref().unwrap().ips;
        assert_eq!(ips, &[ip(201).to_string()], "{trick:?}: nothing else remembers it");
        // The next process does not forget it either.
        world.start();
        world.run(700);
        world.go_crds = false;
        world.run(700);
        let ips = &world.pools["pool"].spec.as_ref().unwrap().ips;
        assert_eq!((world.created, ips), (1, &vec![ip(201).to_string()]), "{trick:?}");
    }
}

#[test]
fn a_process_that_ends_while_the_crds_are_replaced_leaves_what_it_bought_in_the_spec() {
    let mut world = buying(1);
    world.tricks.push_back(Trick::Slow(3));
    world.start();
    world.run_while(5, |world| world.total("create") == 0);
    world.go_crds = true;
    world.observe(Input::Draining);
    world.run(8);
    assert!(!world.fleet.has_unrecorded_creation());
    assert_eq!(world.pools["pool"].spec.as_ref().unwrap().ips, [ip(201).to_string()]);
    world.start();
    world.run(700);
    assert_eq!((world.created, world.status("pool").ips.len()), (1, 1));
}

/// Two pools that lack an address each. The intent of the first one could not be written, so the second one may buy.
fn where_the_second_may_buy_first() -> World {
    let mut world = buying(1);
    world.add_pool("second", RawPoolSpec { desired_ips: 1, ..spec() });
    world.faults.unwritten = Some(("pool", WriteFailure::Transient("lost".into())));
    world
}

#[test]
fn what_was_announced_waits_for_the_answer_to_another_pools_purchase() {
    let mut world = where_the_second_may_buy_first();
    world.tricks.push_back(Trick::Slow(90));
    world.start();
    world.run_while(5, |world| world.total("create") == 0);
    assert!(intent(&world, "second").is_some() && intent(&world, "pool").is_none());
    world.faults.unwritten = None;
    world.run_while(50, |world| intent(world, "pool").is_none());
    assert_eq!(world.total("create"), 1);
    world.run(5);
    assert_eq!((world.total("create"), world.created), (1, 1), "the answer may still come");
    world.run(200);
    assert_eq!((world.total("create"), world.created), (2, 2));
}

#[test]
fn of_two_pools_that_have_announced_a_purchase_both_buy_one_after_the_other() {
    let mut world = where_the_second_may_buy_first();
    world.start();
    world.run_while(5, |world| world.status_writes == 0);
    world.faults.unwritten = None;
    world.faults.held_status_writes = Some(Vec::new());
    world.run_while(50, |world| world.faults.held_status_writes.as_ref().unwrap().len() < 2);
    let held = world.faults.held_status_writes.as_ref().unwrap();
    assert!(held.iter().all(|(.., status)| status.memory.as_ref().unwrap().intent.is_some()), "{held:?}");
    // Both answers come at the same moment, and no watch shows anything before.
    world.faults.mute = true;
    world.release_status_writes();
    world.faults.mute = false;
    let mut both = 0;
    for _ in 0..200 {
        world.run_until(world.now.plus_millis(20));
        both += usize::from(["pool", "second"].iter().all(|pool| intent(&world, pool).is_some()));
    }
    assert!(both > 0);
    world.run(120);
    assert_eq!(world.created, 2);
    for pool in ["pool", "second"] {
        assert_eq!(world.pools[pool].spec.as_ref().unwrap().ips.len(), 1, "{pool}");
    }
}
