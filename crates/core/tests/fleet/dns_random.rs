//! Random histories of record sets. Whatever happens, no name is emptied by mistake, and foreign records stay
//! untouched. Once the faults stop, everything becomes right and comes to rest.

use crate::faults::spec_of;
use crate::world::{PROVIDER, Trick, World, ip};
use crate::zones::{CLOUDFLARE, DnsTrick, record_set, set_spec};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, WriteFailure};
use proptest::prelude::*;

const NAMES: [&str; 3] = ["pool.example.com", "www.example.com", "kept.example.com"];

/// The first of the addresses that others write.
const BY_HAND: u8 = 100;

#[derive(Debug, Clone)]
enum Event {
    Node(u8, bool),
    DeleteNode(u8),
    ByHand(usize, u8),
    ReadFault(Option<FaultKind>),
    Lag(u64),
    Slow(u64),
    Trick(DnsTrick),
    IpTrick(Trick),
    StatusUnwritten,
    Permit(bool),
    Crash,
    Again,
    Rename(bool),
    /// Whether the pool is meant, or else the record set; and whether it is paused.
    Pause(bool, bool),
    WaitMs(u64),
}

fn kinds() -> impl Strategy<Value = FaultKind> {
    prop::sample::select(vec![
        FaultKind::Transient,
        FaultKind::Throttled,
        FaultKind::NotFound,
        FaultKind::Invalid,
        FaultKind::Unauthorized,
        FaultKind::Permanent,
    ])
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (1..6_u8, any::<bool>()).prop_map(|(n, ready)| Event::Node(n, ready)),
        1 => (1..6_u8).prop_map(Event::DeleteNode),
        1 => (0..3_usize, BY_HAND..BY_HAND + 10).prop_map(|(name, n)| Event::ByHand(name, n)),
        1 => prop::option::of(kinds()).prop_map(Event::ReadFault),
        1 => prop_oneof![Just(0), Just(3_000_u64)].prop_map(Event::Lag),
        1 => prop_oneof![Just(0), Just(9_950_u64)].prop_map(Event::Slow),
        2 => (0..4_usize, kinds()).prop_map(|(done, kind)| Event::Trick(DnsTrick::Refused(done, kind))),
        2 => (0..4_usize).prop_map(|done| Event::Trick(DnsTrick::Lost(done))),
        1 => Just(Event::Trick(DnsTrick::NotSent)),
        1 => (0..4_usize).prop_map(|done| Event::Trick(DnsTrick::Stopped(done))),
        1 => any::<bool>().prop_map(|effect| Event::IpTrick(Trick::Lost(effect))),
        1 => Just(Event::StatusUnwritten),
        1 => any::<bool>().prop_map(Event::Permit),
        1 => Just(Event::Crash),
        1 => Just(Event::Again),
        1 => any::<bool>().prop_map(Event::Rename),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(pool, paused)| Event::Pause(pool, paused)),
        8 => prop_oneof![0..3_000_u64, 0..60_000_u64, Just(601_000)].prop_map(Event::WaitMs),
    ]
}

/// Events that lead one process to change a small set.
fn own_events() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..4_u8, any::<bool>()).prop_map(|(n, ready)| Event::Node(n, ready)),
        1 => (0..3_usize).prop_map(|done| Event::Trick(DnsTrick::Refused(done, FaultKind::Transient))),
        2 => (0..3_usize).prop_map(|done| Event::Trick(DnsTrick::Lost(done))),
        1 => any::<bool>().prop_map(|fails| Event::ReadFault(fails.then_some(FaultKind::Transient))),
        1 => Just(Event::StatusUnwritten),
        1 => Just(Event::Again),
        6 => (0..8_000_u64).prop_map(Event::WaitMs),
    ]
}

fn world() -> World {
    let mut world = World::bare(3, 4);
    world.add_pool("pool", RawPoolSpec { record_set: Some(record_set("pool")), ..spec_of(1..=3) });
    world.add_record_set("set", set_spec("www"));
    world.add_record_set("kept", set_spec("kept"));
    world.edit_set("kept", |spec| spec.record_set.as_mut().unwrap().when_empty = "Keep".into());
    world.add_record_set("young", set_spec("kept"));
    world.start();
    world
}

/// Whether the status wrongly says that nothing is published, because it could not be written for longer than first
/// records wait. A leader that takes over then believes that others wrote the records.
fn is_untold(world: &World) -> bool {
    let status = world.set_status("set");
    status.state == "active" && status.addresses.is_empty() && !world.published(NAMES[1]).is_empty()
}

/// Plays a history. True if the last process that took over believes that others wrote our records.
fn happen_all(world: &mut World, history: &[Event]) -> bool {
    let mut misled = false;
    for event in history {
        if matches!(event, Event::Crash | Event::Again) {
            misled = is_untold(world);
        }
        happen(world, event);
    }
    misled
}

fn happen(world: &mut World, event: &Event) {
    match *event {
        Event::Node(n, ready) => world.set_node(n, ready),
        Event::DeleteNode(n) => world.delete_node(n),
        Event::ByHand(name, n) => {
            world.dns.add(PROVIDER, "example.com", NAMES[name], "A", &format!("198.51.100.{n}"));
        }
        Event::ReadFault(kind) => world.dns.read_fault = kind,
        Event::Lag(ms) => world.dns.lag_ms = ms,
        Event::Slow(ms) => world.dns.slow_ms = ms,
        Event::Trick(trick) => world.dns.tricks.push_back(trick),
        Event::IpTrick(trick) => world.tricks.push_back(trick),
        Event::StatusUnwritten => {
            let failure = WriteFailure::Transient("a timeout".into());
            world.faults.status_writes.push_back(failure);
        }
        Event::Permit(permit) => world.observe(Input::Permit(permit)),
        Event::Crash => world.start(),
        Event::Again => world.lead_again(),
        Event::Rename(away) => world.edit_set("set", |spec| {
            spec.provider = String::from(if away { CLOUDFLARE } else { PROVIDER });
        }),
        Event::Pause(true, paused) => world.pause("pool", paused.then_some("a pause")),
        Event::Pause(false, paused) => world.pause_set("set", paused.then_some("a pause")),
        Event::WaitMs(ms) => world.run_until(world.now.plus_millis(ms)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_records_ends_well(history in prop::collection::vec(events(), 0..40)) {
        let mut world = world();
        let foreign = world.dns.foreign(&NAMES);
        let misled = happen_all(&mut world, &history);
        world.observe(Input::Permit(true));
        world.dns.read_fault = None;
        world.dns.lag_ms = 0;
        world.dns.slow_ms = 0;
        world.dns.tricks.clear();
        world.tricks.clear();
        happen(&mut world, &Event::Rename(false));
        happen(&mut world, &Event::Pause(true, false));
        happen(&mut world, &Event::Pause(false, false));
        world.run(1_900);
        let ready: Vec<u8> =
            (1..6).filter(|n| world.nodes.get(&format!("node-{n}")).is_some_and(|node| node.ready.is_ready())).collect();
        if ready.is_empty() {
            let left = world.published(NAMES[1]);
            let stays = misled || left.iter().all(|n| *n >= BY_HAND);
            prop_assert!(stays, "{:?}: only records of others may stay", left);
        } else {
            prop_assert_eq!(&world.published(NAMES[1]), &ready);
            prop_assert_eq!(&world.published(NAMES[2]), &ready);
            let active = (1..=3).filter(|n| ready.iter().any(|node| world.holder(*node) == Some(ip(*n))));
            prop_assert_eq!(world.published(NAMES[0]), active.collect::<Vec<_>>());
        }
        for set in ["set", "kept"] {
            prop_assert_eq!(&world.set_status(set).state, "active", "{:?}", world.set_status(set));
        }
        prop_assert_eq!(&world.set_status("young").state, "error");
        let theirs = |world: &World| {
            let mut foreign = world.dns.foreign(&NAMES);
            foreign.retain(|(key, name, _)| key.0 == PROVIDER || name != NAMES[1]);
            foreign
        };
        prop_assert_eq!(theirs(&world), foreign);
        let (applies, writes) = (world.dns.applies.len(), world.status_writes);
        world.run(1_300);
        prop_assert_eq!((world.dns.applies.len(), world.status_writes), (applies, writes), "no rest");
    }

    #[test]
    fn the_order_of_the_nodes_does_not_matter(order in Just((1..9_u8).collect::<Vec<_>>()).prop_shuffle()) {
        let build = |order: &[u8]| {
            let mut world = World::with_set(0);
            for n in order {
                world.set_node(*n, true);
            }
            world.run(10);
            let mut status = world.set_status("set").clone();
            status.conditions.sort();
            (world.published("www.example.com"), status)
        };
        prop_assert_eq!(build(&order), build(&[1, 2, 3, 4, 5, 6, 7, 8]));
    }
}

proptest! {
    // Many cases, because histories are short and few of them come close to a fault.
    #![proptest_config(ProptestConfig { cases: 1_024, ..ProptestConfig::default() })]

    #[test]
    fn lists_that_lag_far_mislead_no_process_about_what_it_changed_itself(
        history in prop::collection::vec(own_events(), 0..40)
    ) {
        let mut world = World::with_set(3);
        world.run(60);
        world.dns.lag_ms = 20_000;
        happen_all(&mut world, &history);
    }

    #[test]
    fn lists_that_lag_less_than_lies_between_two_looks_mislead_nobody(
        history in prop::collection::vec(prop_oneof![16 => own_events(), 1 => Just(Event::Crash)], 0..40)
    ) {
        let mut world = World::with_set(3);
        world.run(60);
        world.dns.lag_ms = 4_900;
        let misled = happen_all(&mut world, &history);
        world.dns.read_fault = None;
        world.dns.tricks.clear();
        world.run(700);
        let ready: Vec<u8> = (1..4).filter(|n| world.nodes[&format!("node-{n}")].ready.is_ready()).collect();
        if !(misled && ready.is_empty()) {
            prop_assert_eq!(world.published(NAMES[1]), ready);
        }
    }
}
