//! Random histories of two pools that buy. Answers are lost or refused, specs are frozen or reverted, and processes
//! restart. In the end each pool has exactly as many addresses as it wants, and each bought address belongs to one of
//! them.

use crate::contention::{Event, happen, kinds, tricks, write_failures};
use crate::faults::spec;
use crate::world::{World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Common(Event),
    /// `GitOps` puts the spec back as it was.
    Revert(u8),
    Freeze(u8, u8),
    Thaw(u8),
    Desire(u8, i64),
}

const NAMES: [&str; 2] = ["one", "two"];

fn common() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1..6_u8, any::<bool>()).prop_map(|(n, ready)| Event::Node(n, ready)),
        1 => (1..6_u8).prop_map(Event::DeleteNode),
        1 => (1..6_u8).prop_map(Event::ReplaceNode),
        4 => tricks().prop_map(Event::Trick),
        1 => proptest::option::of(kinds()).prop_map(Event::Reads),
        1 => proptest::option::of(kinds()).prop_map(Event::Lists),
        1 => proptest::option::of(kinds()).prop_map(Event::Gets),
        1 => any::<bool>().prop_map(Event::Blind),
        1 => Just(Event::Token),
        2 => write_failures().prop_map(Event::StatusWrite),
        2 => Just(Event::Crash),
        1 => any::<bool>().prop_map(Event::Permit),
        2 => Just(Event::LeadAgain),
        4 => (1..100_u16).prop_map(Event::Wait),
        4 => (1..3_u16).prop_map(Event::Wait),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => common().prop_map(Step::Common),
        1 => (0..2_u8).prop_map(Step::Revert),
        1 => (0..2_u8, 0..3_u8).prop_map(|(pool, how)| Step::Freeze(pool, how)),
        1 => (0..2_u8).prop_map(Step::Thaw),
        1 => (0..2_u8, 1..4_i64).prop_map(|(pool, desired)| Step::Desire(pool, desired)),
    ]
}

fn take(world: &mut World, step: &Step, wanted: &mut [i64; 2]) {
    let name = |pool: u8| NAMES[usize::from(pool)];
    match step {
        Step::Common(event) => {
            // Without the scope, a read of one address silently lies.
            world.moved.extend((201..=212).map(ip));
            happen(world, event);
        }
        Step::Revert(pool) => world.edit(name(*pool), |spec| spec.ips.clear()),
        Step::Freeze(pool, how) => world.edit(name(*pool), |spec| match how {
            0 => spec.provider = "nowhere".into(),
            1 => spec.matching.node_label = "a in".into(),
            _ => spec.region = String::new(),
        }),
        Step::Thaw(pool) => thaw(world, name(*pool)),
        Step::Desire(pool, desired) => {
            let most = &mut wanted[usize::from(*pool)];
            *most = (*most).max(*desired);
            world.edit(name(*pool), |spec| spec.desired_ips = *desired);
        }
    }
}

fn thaw(world: &mut World, name: &str) {
    world.edit(name, |old| {
        *old = RawPoolSpec { desired_ips: old.desired_ips, ips: old.ips.clone(), ..spec() };
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_bought_twice_or_lost(history in proptest::collection::vec(steps(), 0..50)) {
        let mut world = World::new();
        world.call_timeout_ms = 10_000;
        (1..=4).for_each(|n| world.set_node(n, true));
        // An address on a droplet outside the cluster proves the scope.
        world.add_ip(90);
        world.move_by_hand(90, Some(90));
        let mut wanted = [1, 1];
        for name in NAMES {
            world.add_pool(name, RawPoolSpec { desired_ips: 1, ..spec() });
        }
        world.start();
        for step in &history {
            take(&mut world, step, &mut wanted);
        }
        world.tricks.clear();
        world.faults = crate::faults::Faults::default();
        world.observe(Input::Permit(true));
        for (name, desired) in NAMES.into_iter().zip(wanted) {
            thaw(&mut world, name);
            world.edit(name, |spec| spec.desired_ips = desired);
        }
        world.run(3_000);
        let uncertain = NAMES.iter().any(|name| {
            world.has(name, "CreationUncertain")
        });
        prop_assert!(!uncertain, "{:?}", world.pools);
        let total: i64 = wanted.iter().sum();
        prop_assert_eq!(i64::try_from(world.created).unwrap(), total, "{:?}", world.pools);
        for (name, desired) in NAMES.into_iter().zip(wanted) {
            prop_assert_eq!(i64::try_from(world.status(name).ips.len()).unwrap(), desired, "{}", name);
        }
        let (assigns, writes) = (world.assigns, world.status_writes);
        world.run(600);
        prop_assert_eq!((world.assigns, world.status_writes), (assigns, writes));
    }
}
