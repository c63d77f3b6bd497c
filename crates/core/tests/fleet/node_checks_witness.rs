//! `spec.nodeCheck` with the provider as a witness: a machine that is off or gone, and answers that prove nothing.

use crate::node_checks::{Clinic, moved_after, name, standing, world};
use crate::world::{PROVIDER, World, droplet, ip};
use flipop_core::fleet::Input;
use flipop_core::mechanism::evidence::Standing;
use flipop_core::model::spec::RawGrace;
use flipop_core::model::{FaultKind, Moment, Observed, RawNodeCheck};
use flipop_core::records::spec::RawRecordSetSpec;

const WWW: &str = "www.example.com";

/// The reads of a droplet since a moment, in milliseconds after it.
fn reads(world: &World, n: u8, from: Moment) -> Vec<u64> {
    let call = format!("read {}", droplet(n));
    let calls = world.calls.iter().filter(|(at, told)| *at >= from && *told == call);
    calls.map(|(at, _)| at.millis_since(from)).collect()
}

/// The first machine dies, and its provider says this of it.
fn dies(world: &mut World, clinic: &mut Clinic, says: Result<bool, FaultKind>) -> Moment {
    world.faults.machines.insert(droplet(1), says);
    clinic.dies(1);
    world.now
}

#[test]
fn a_machine_that_is_off_loses_its_address_within_three_seconds_with_or_without_a_lease() {
    for has_lease in [true, false] {
        let (mut world, mut clinic) = world(1, 3);
        if !has_lease {
            let lease = world.leases.remove(&name(1)).unwrap();
            world.observe(Input::Leases(Observed::Delete(lease)));
        }
        let died = dies(&mut world, &mut clinic, Ok(true));
        clinic.run(&mut world, 20);
        let after = moved_after(&world, died).expect("no move");
        assert!(after <= 3_000, "after {after} ms");
        assert_eq!((world.assigns, world.holder(1)), (2, None));
        let [unreachable] = world.events_of("NodeUnreachable").try_into().unwrap();
        let words = "in a row), and its provider reports that droplet 101 is switched off";
        assert!(unreachable.contains(words), "{unreachable}");
        let [lost] = world.events_of("MatchLost").try_into().unwrap();
        assert!(lost.contains("node-1 answers no check and is switched off"), "{lost}");
        let grace = world.fleet.grace_counts();
        assert_eq!((grace.expired, world.fleet.take_detections_ms().len()), (0, 1));
    }
}

#[test]
fn what_proves_nothing_is_asked_for_four_times_and_the_lease_decides() {
    for says in [Ok(false), Err(FaultKind::Transient), Err(FaultKind::Unauthorized)] {
        let (mut world, mut clinic) = world(1, 3);
        let died = dies(&mut world, &mut clinic, says);
        clinic.run(&mut world, 60);
        let after = moved_after(&world, died).unwrap();
        assert!((11_000..=12_500).contains(&after), "{says:?}: after {after} ms");
        let reads = reads(&world, 1, died);
        let [first, ..] = *reads else { panic!("no read: {:?}", world.calls) };
        let waits: Vec<u64> = reads.iter().map(|at| (at - first) / 1_000).collect();
        assert_eq!(waits, [0, 2, 5, 9], "{says:?}: {reads:?}");
    }
}

#[test]
fn a_report_of_the_kubelet_since_the_first_failure_cancels() {
    let (mut world, mut clinic) = world(1, 3);
    let died = dies(&mut world, &mut clinic, Ok(true));
    clinic.turn(&mut world);
    clinic.renewal(&mut world, 1);
    clinic.run(&mut world, 10);
    assert_eq!((world.assigns, reads(&world, 1, died).len()), (1, 0));
    // It comes once the provider was asked.
    let (mut world, mut clinic) = self::world(1, 3);
    world.faults.late_machines_ms = 1_000;
    let died = dies(&mut world, &mut clinic, Ok(true));
    clinic.run_while(&mut world, |world| reads(world, 1, died).is_empty());
    clinic.renewal(&mut world, 1);
    clinic.run(&mut world, 10);
    assert_eq!((world.assigns, reads(&world, 1, died).len()), (1, 1));
    // It comes after the verdict, which a grace holds up.
    let (mut world, mut clinic) = self::world(1, 3);
    world.edit("pool", |spec| spec.grace = RawGrace { node_seconds: 30, ..RawGrace::default() });
    dies(&mut world, &mut clinic, Ok(true));
    clinic.run_while(&mut world, |world| standing(world, 1) != Some(Standing::Dead));
    clinic.renewal(&mut world, 1);
    clinic.run(&mut world, 60);
    assert_eq!((world.assigns, standing(&world, 1)), (1, Some(Standing::Deprioritized)));
}

#[test]
fn before_the_move_a_consistent_read_has_to_show_no_report_of_the_kubelet() {
    // The watch is behind: on the server the Lease goes on.
    let (mut world, mut clinic) = world(1, 3);
    let died = dies(&mut world, &mut clinic, Ok(true));
    let mut lease = world.leases[&name(1)].clone();
    lease.renewed_us = Some(999_999);
    world.leases.insert(name(1), lease);
    clinic.run(&mut world, 60);
    assert_eq!((world.assigns, world.count(died, "read node-1")), (1, 1));
    assert_eq!(world.events_of("NodeUnreachable").len(), 1);
}

#[test]
fn a_late_answer_about_failures_that_are_over_proves_nothing() {
    let (mut world, mut clinic) = world(1, 3);
    world.faults.late_machines_ms = 10_000;
    let died = dies(&mut world, &mut clinic, Ok(true));
    clinic.run_while(&mut world, |world| reads(world, 1, died).is_empty());
    // A check passes, the kubelet reports nothing, and all checks fail again.
    clinic.silent.remove(&1);
    clinic.run(&mut world, 2);
    clinic.silent.insert(1);
    world.faults.machines.clear();
    clinic.run(&mut world, 9);
    assert_eq!(world.assigns, 1);
    clinic.run(&mut world, 10);
    assert_eq!(world.events_of("NodeUnreachable").len(), 1, "once the Lease says so");
}

#[test]
fn a_machine_that_no_longer_exists_has_no_grace_where_the_token_shows_another_one() {
    let grace = RawGrace { node_seconds: 600, ..RawGrace::default() };
    for (others, moves) in [
        (Ok(false), true),
        // A token that shows nothing any more.
        (Err(FaultKind::NotFound), false),
        (Err(FaultKind::Transient), false),
    ] {
        let (mut world, mut clinic) = world(1, 3);
        world.edit("pool", |spec| spec.grace = grace);
        world.faults.machines.extend([2, 3].map(|n| (droplet(n), others)));
        let died = dies(&mut world, &mut clinic, Err(FaultKind::NotFound));
        clinic.run(&mut world, 30);
        let after = moved_after(&world, died);
        assert_eq!(after.is_some(), moves, "{others:?}: {:?}", world.calls);
        if moves {
            assert!(after < Some(3_500), "{after:?}");
            let [unreachable] = world.events_of("NodeUnreachable").try_into().unwrap();
            assert!(unreachable.ends_with("its provider no longer has droplet 101"), "{unreachable}");
            assert_eq!((reads(&world, 1, died).len(), reads(&world, 2, died).len()), (1, 1));
        } else {
            let compared = reads(&world, 2, died).len() + reads(&world, 3, died).len();
            assert_eq!((reads(&world, 1, died).len(), compared), (4, 4), "{others:?}: one for each miss");
        }
    }
}

#[test]
fn that_a_machine_that_was_found_off_is_gone_ends_its_grace() {
    let (mut world, mut clinic) = world(1, 3);
    world.edit("pool", |spec| spec.grace = RawGrace { node_seconds: 600, ..RawGrace::default() });
    let died = dies(&mut world, &mut clinic, Ok(true));
    clinic.run(&mut world, 4);
    let [delayed] = world.events_of("FailoverDelayed").try_into().unwrap();
    assert!(delayed.starts_with("node-1 answers no check and is switched off (since "), "{delayed}");
    world.faults.machines.insert(droplet(1), Err(FaultKind::NotFound));
    clinic.run(&mut world, 6);
    assert!(moved_after(&world, died) > Some(4_000), "{:?}", world.calls);
    assert_eq!(world.events_of("NodeUnreachable").len(), 1);
}

#[test]
fn grace_of_nodes_applies_to_a_machine_that_is_off() {
    let (mut world, mut clinic) = world(1, 3);
    world.edit("pool", |spec| spec.grace = RawGrace { node_seconds: 30, ..RawGrace::default() });
    let died = dies(&mut world, &mut clinic, Ok(true));
    clinic.run(&mut world, 60);
    let after = moved_after(&world, died).unwrap();
    assert!((31_000..=33_500).contains(&after), "{after}");
    assert_eq!(world.fleet.grace_counts().expired, 1);
}

#[test]
fn the_last_matching_node_keeps_its_address_whatever_the_provider_says() {
    for says in [Ok(true), Err(FaultKind::NotFound)] {
        let (mut world, mut clinic) = world(1, 2);
        world.set_node(2, false);
        dies(&mut world, &mut clinic, says);
        clinic.run(&mut world, 60);
        assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))), "{says:?}");
        world.set_node(2, true);
        clinic.run(&mut world, 12);
        assert_eq!(world.holder(2), Some(ip(1)), "{says:?}");
    }
}

#[test]
fn a_new_leader_and_a_new_token_ask_again() {
    for leads in [true, false] {
        let (mut world, mut clinic) = world(1, 3);
        world.faults.late_machines_ms = 1_000;
        let died = dies(&mut world, &mut clinic, Ok(true));
        clinic.run_while(&mut world, |world| reads(world, 1, died).is_empty());
        // The answer is on its way, and no longer counts.
        if leads {
            world.lead_again();
            clinic.due.clear();
            clinic.list(&mut world, 3);
        } else {
            world.observe(Input::TokenChanged(PROVIDER.into()));
        }
        let began = world.now;
        clinic.run(&mut world, 1);
        assert_eq!(world.assigns, 1);
        clinic.run(&mut world, 5);
        assert_eq!(world.assigns, 2, "{leads}: {:?}", reads(&world, 1, began));
    }
}

/// The account of a set without pools is not read, so only the questions show its machines.
#[test]
fn a_record_set_loses_a_machine_that_is_off_and_one_that_was_shown_before_it_was_gone() {
    for says in [[Ok(true); 2], [Ok(false), Err(FaultKind::NotFound)], [Err(FaultKind::NotFound); 2]] {
        let mut world = World::with_set(3);
        world.run(5);
        world.edit_set("set", |spec: &mut RawRecordSetSpec| {
            spec.node_check = Some(RawNodeCheck::default());
        });
        world.run(1);
        let mut clinic = Clinic::default();
        clinic.list(&mut world, 3);
        clinic.run(&mut world, 60);
        assert_eq!(world.published(WWW), [1, 2, 3]);
        let died = dies(&mut world, &mut clinic, says[0]);
        clinic.run_while(&mut world, |world| reads(world, 1, died).is_empty());
        clinic.run(&mut world, 1);
        world.faults.machines.insert(droplet(1), says[1]);
        clinic.run(&mut world, 3);
        let expected: &[u8] = if says[0].is_err() { &[1, 2, 3] } else { &[2, 3] };
        assert_eq!(world.published(WWW), expected, "{says:?}");
        clinic.run(&mut world, 20);
        assert_eq!(world.published(WWW), [2, 3], "the Lease says so");
    }
}
