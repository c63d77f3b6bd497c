//! Random histories. Whatever happens, no assignment is wrong (the world checks each one). Once the faults stop,
//! everything becomes right and comes to rest.

use crate::faults::spec;
use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::FaultKind;
use flipop_core::model::label_mode::RawNodeLabels;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Event {
    Node(u8, bool),
    DeleteNode(u8),
    MoveByHand(u8, Option<u8>),
    Crash,
    Trick(Trick),
    CoolOff(u8),
    Pause(bool),
    Wait(u16),
}

fn tricks() -> impl Strategy<Value = Trick> {
    prop_oneof![
        Just(Trick::Refused(FaultKind::Transient)),
        Just(Trick::Refused(FaultKind::Throttled)),
        Just(Trick::Refused(FaultKind::NodeInUse)),
        Just(Trick::Refused(FaultKind::Invalid)),
        Just(Trick::Refused(FaultKind::NotFound)),
        Just(Trick::Lost(true)),
        Just(Trick::Lost(false)),
        Just(Trick::Errored),
        (1..90_u64).prop_map(Trick::Slow),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1..6_u8, any::<bool>()).prop_map(|(n, ready)| Event::Node(n, ready)),
        1 => (1..6_u8).prop_map(Event::DeleteNode),
        1 => (1..4_u8, proptest::option::of(1..9_u8)).prop_map(|(n, to)| Event::MoveByHand(n, to)),
        1 => Just(Event::Crash),
        3 => tricks().prop_map(Event::Trick),
        1 => (0..10_u8).prop_map(Event::CoolOff),
        2 => any::<bool>().prop_map(Event::Pause),
        6 => (1..40_u16).prop_map(Event::Wait),
    ]
}

fn happen(world: &mut World, event: &Event) {
    match *event {
        Event::Node(n, ready) => world.set_node(n, ready),
        Event::DeleteNode(n) => world.delete_node(n),
        Event::MoveByHand(n, to) => world.move_by_hand(n, to),
        Event::Crash => world.start(),
        Event::Trick(trick) => world.tricks.push_back(trick),
        Event::CoolOff(seconds) => world.edit("pool", |spec| spec.cool_off_seconds = f64::from(seconds)),
        Event::Pause(paused) => world.pause("pool", paused.then_some("a pause")),
        Event::Wait(seconds) => world.run(u64::from(seconds)),
    }
}

/// Ends the faults and checks the result: as many addresses as possible are on matching nodes, no node has two, and
/// nothing moves.
fn settle(world: &mut World) {
    world.tricks.clear();
    world.pause("pool", None);
    world.run(1_500);
    world.moved.clear();
    let ready: Vec<u8> = (1..6)
        .filter(|n| world.nodes.get(&format!("node-{n}")).is_some_and(|node| node.ready.is_ready()))
        .collect();
    let served = ready.iter().filter(|n| world.holder(**n).is_some()).count();
    assert_eq!(served, ready.len().min(world.cloud.len()), "{:?}\n{:?}", world.cloud, world.calls);
    let annotated: Vec<String> =
        ready.iter().filter(|n| world.holder(**n).is_some()).map(|n| format!("node-{n}")).collect();
    assert_eq!(world.annotations.keys().cloned().collect::<Vec<_>>(), annotated);
    let enabled = world.pools["pool"].spec.as_ref().unwrap().node_labels.enabled;
    let labelled = if enabled { annotated } else { Vec::new() };
    assert_eq!(world.labels.keys().cloned().collect::<Vec<_>>(), labelled);
    let (assigns, writes) = (world.assigns, world.status_writes);
    world.run(600);
    assert_eq!((world.assigns, world.status_writes), (assigns, writes), "it does not come to rest");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_well(labels: bool, history in proptest::collection::vec(events(), 0..40)) {
        let mut world = World::with(3, 4);
        world.edit("pool", |spec| spec.node_labels = RawNodeLabels { enabled: labels, legacy: false });
        for event in history {
            happen(&mut world, &event);
        }
        settle(&mut world);
    }

    #[test]
    fn any_history_buys_exactly_what_is_desired(
        desired in 1..5_u8,
        history in proptest::collection::vec(events(), 0..25),
    ) {
        let mut world = World::bare(0, 4);
        world.add_foreign_ip(90, 90);
        world.add_pool("pool", RawPoolSpec { desired_ips: i64::from(desired), ..spec() });
        world.start();
        let by_hand = |event: &Event| matches!(event, Event::MoveByHand(..));
        for event in history.iter().filter(|event| !by_hand(event)) {
            happen(&mut world, event);
        }
        world.tricks.clear();
        world.pause("pool", None);
        world.run(2_500);
        prop_assert_eq!(world.created, usize::from(desired));
        prop_assert_eq!(world.pools["pool"].spec.as_ref().unwrap().ips.len(), usize::from(desired));
    }

    #[test]
    fn the_same_facts_in_another_order_give_the_same_status(order in Just((1..6_u8).collect::<Vec<_>>()).prop_shuffle()) {
        let build = |order: &[u8]| {
            let mut world = World::new();
            (1..=3).for_each(|n| world.add_ip(n));
            for n in order {
                world.set_node(*n, true);
            }
            let ips = (1..=3).map(|n| ip(n).to_string()).collect();
            world.add_pool("pool", RawPoolSpec { ips, ..spec() });
            world.start();
            world.run(20);
            world.status("pool").clone()
        };
        prop_assert_eq!(build(&order), build(&[1, 2, 3, 4, 5]));
    }
}
