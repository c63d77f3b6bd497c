//! Random histories of two pools that want the same nodes, in a world where everything goes wrong: reads, writes,
//! watches, rights, specs. Once the faults are over, everything becomes right and comes to rest.

use crate::faults::spec;
use crate::world::{Trick, World, droplet, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::label_mode::RawNodeLabels;
use flipop_core::model::{FaultKind, WriteFailure};
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Node(u8, bool),
    DeleteNode(u8),
    ReplaceNode(u8),
    MoveByHand(u8, Option<u8>),
    DeleteIp(u8),
    RestoreIps,
    Lock(u8, bool),
    Crash,
    Permit(bool),
    LeadAgain,
    Trick(Trick),
    Reads(Option<FaultKind>),
    Lists(Option<FaultKind>),
    Gets(Option<FaultKind>),
    Blind(bool),
    Stale(bool),
    StatusWrite(WriteFailure),
    Annotation(WriteFailure),
    AddSecond,
    DeleteSecond,
    Edit(u8, u8),
    Token,
    Wait(u16),
}

pub(crate) fn kinds() -> impl Strategy<Value = FaultKind> {
    prop_oneof![
        Just(FaultKind::Transient),
        Just(FaultKind::Throttled),
        Just(FaultKind::Unauthorized),
        Just(FaultKind::Permanent)
    ]
}

pub(crate) fn write_failures() -> impl Strategy<Value = WriteFailure> {
    prop_oneof![
        Just(WriteFailure::Conflict),
        Just(WriteFailure::Gone),
        Just(WriteFailure::NotSent),
        Just(WriteFailure::Forbidden("it".into())),
        Just(WriteFailure::Transient("lost".into())),
    ]
}

pub(crate) fn tricks() -> impl Strategy<Value = Trick> {
    prop_oneof![
        kinds().prop_map(Trick::Refused),
        Just(Trick::Refused(FaultKind::NodeInUse)),
        Just(Trick::Refused(FaultKind::Invalid)),
        Just(Trick::Refused(FaultKind::NotFound)),
        Just(Trick::Refused(FaultKind::InProgress)),
        any::<bool>().prop_map(Trick::Lost),
        Just(Trick::Errored),
        (1..400_u64).prop_map(Trick::Slow),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    let of_nodes = prop_oneof![
        4 => (1..6_u8, any::<bool>()).prop_map(|(n, ready)| Event::Node(n, ready)),
        1 => (1..6_u8).prop_map(Event::DeleteNode),
        1 => (1..6_u8).prop_map(Event::ReplaceNode),
    ];
    let of_addresses = prop_oneof![
        3 => (1..6_u8, proptest::option::of(1..9_u8)).prop_map(|(n, to)| Event::MoveByHand(n, to)),
        1 => (1..6_u8).prop_map(Event::DeleteIp),
        1 => Just(Event::RestoreIps),
        1 => (1..6_u8, any::<bool>()).prop_map(|(n, locked)| Event::Lock(n, locked)),
    ];
    let of_calls = prop_oneof![
        3 => tricks().prop_map(Event::Trick),
        1 => proptest::option::of(kinds()).prop_map(Event::Reads),
        1 => proptest::option::of(kinds()).prop_map(Event::Lists),
        1 => proptest::option::of(kinds()).prop_map(Event::Gets),
        1 => any::<bool>().prop_map(Event::Blind),
        1 => any::<bool>().prop_map(Event::Stale),
        1 => Just(Event::Token),
        1 => write_failures().prop_map(Event::StatusWrite),
        1 => write_failures().prop_map(Event::Annotation),
    ];
    let of_us = prop_oneof![
        Just(Event::Crash),
        any::<bool>().prop_map(Event::Permit),
        Just(Event::LeadAgain),
        Just(Event::AddSecond),
        Just(Event::DeleteSecond),
        (0..2_u8, 0..10_u8).prop_map(|(pool, edit)| Event::Edit(pool, edit)),
    ];
    prop_oneof![
        3 => of_nodes,
        2 => of_addresses,
        3 => of_calls,
        3 => of_us,
        6 => (1..100_u16).prop_map(Event::Wait),
    ]
}

fn first() -> RawPoolSpec {
    RawPoolSpec { ips: (1..=3).map(|n| ip(n).to_string()).collect(), ..spec() }
}

fn second() -> RawPoolSpec {
    RawPoolSpec { ips: (3..=5).map(|n| ip(n).to_string()).collect(), ..spec() }
}

fn edit(world: &mut World, pool: u8, edit: u8) {
    let (name, whole) = if pool == 0 { ("pool", first()) } else { ("second", second()) };
    if !world.pools.contains_key(name) {
        return;
    }
    world.edit(name, |spec| match edit {
        0 => spec.ips.truncate(1),
        1 => spec.ips.reverse(),
        2 => spec.desired_ips = 1,
        3 => spec.cool_off_seconds = 7.0,
        4 => spec.matching.node_label = "a in".into(),
        5 => spec.provider = "nowhere".into(),
        6 => spec.released_ips = spec.ips.iter().take(1).cloned().collect(),
        7 => spec.node_labels = RawNodeLabels { enabled: true, legacy: true },
        8 => spec.node_labels = RawNodeLabels { enabled: true, legacy: false },
        _ => *spec = RawPoolSpec { node_labels: spec.node_labels, ..whole },
    });
}

fn restore(world: &mut World) {
    for n in 1..=5 {
        if !world.cloud.contains_key(&ip(n)) {
            world.add_ip(n);
        }
    }
}

pub(crate) fn happen(world: &mut World, event: &Event) {
    // Nearly every event here excuses an assignment that would be wrong in a fully known world.
    world.moved.extend((1..=5).map(ip));
    match event.clone() {
        Event::Node(n, ready) => world.set_node(n, ready),
        Event::DeleteNode(n) => world.delete_node(n),
        Event::ReplaceNode(n) => world.replace_node(n, n),
        Event::MoveByHand(n, to) => world.move_by_hand(n, to),
        Event::DeleteIp(n) => drop(world.cloud.remove(&ip(n))),
        Event::RestoreIps => restore(world),
        Event::Lock(n, locked) => {
            if let Some(read) = world.cloud.get_mut(&ip(n)) {
                read.locked = locked;
            }
        }
        Event::Crash => world.start(),
        Event::Permit(permit) => world.observe(Input::Permit(permit)),
        Event::LeadAgain => world.lead_again(),
        Event::Trick(trick) => world.tricks.push_back(trick),
        Event::Reads(kind) => world.faults.reads = kind,
        Event::Lists(kind) => world.faults.lists = kind,
        Event::Gets(kind) => world.faults.gets = kind,
        Event::Blind(blind) => world.faults.blind = blind,
        Event::Stale(stale) => world.faults.stale = stale.then(|| world.cloud.clone()),
        Event::StatusWrite(failure) => world.faults.status_writes.push_back(failure),
        Event::Annotation(failure) => {
            world.faults.labels.push_back(failure.clone());
            world.faults.annotations.push_back(failure);
        }
        Event::AddSecond if !world.pools.contains_key("second") => world.add_pool("second", second()),
        Event::AddSecond => {}
        Event::DeleteSecond => world.delete_pool("second"),
        Event::Edit(pool, number) => edit(world, pool, number),
        Event::Token => world.observe(Input::TokenChanged(crate::world::PROVIDER.into())),
        Event::Wait(seconds) => world.run(u64::from(seconds)),
    }
}

/// Ends all faults.
fn heal(world: &mut World) {
    world.tricks.clear();
    world.faults = crate::faults::Faults::default();
    restore(world);
    world.cloud.values_mut().for_each(|read| read.locked = false);
    edit(world, 0, 9);
    edit(world, 1, 9);
    world.observe(Input::Permit(true));
}

fn check(world: &mut World) {
    world.run(2_000);
    let ready: Vec<u8> = (1..6)
        .filter(|n| world.nodes.get(&format!("node-{n}")).is_some_and(|node| node.ready.is_ready()))
        .collect();
    // The statuses name them, because addresses that were bought on the way count too.
    let shown = world.pools.values().flat_map(|pool| pool.status.ips.keys().map(|ip| ip.parse().unwrap()));
    let named: std::collections::BTreeSet<flipop_core::model::ids::Address> = shown.collect();
    let served = |n: &u8| {
        world.cloud.values().any(|read| read.machine == Some(droplet(*n)) && named.contains(&read.ip))
    };
    // A droplet may have an address that no pool names any more. The address stays, so the node cannot be served.
    let foreign = |n: &u8| {
        world.cloud.values().any(|read| read.machine == Some(droplet(*n)) && !named.contains(&read.ip))
    };
    let now_served = ready.iter().filter(|n| served(n)).count();
    let open = ready.iter().filter(|n| !foreign(n)).count();
    assert_eq!(now_served, open.min(named.len()), "{:?}\n{:?}", world.cloud, world.pools);
    let annotated: Vec<String> = ready.iter().filter(|n| served(n)).map(|n| format!("node-{n}")).collect();
    assert_eq!(world.annotations.keys().cloned().collect::<Vec<_>>(), annotated);
    for (name, ip) in world.labels.iter().filter_map(|(name, labels)| Some((name, labels.address()?))) {
        assert_eq!(world.cloud[&ip].machine, world.nodes[name].machine, "{name} is labelled with {ip}");
    }
    let from = world.now;
    let (assigns, writes) = (world.assigns, world.status_writes);
    world.run(600);
    assert_eq!((world.assigns, world.status_writes), (assigns, writes), "it does not come to rest");
    assert!(world.calls.iter().filter(|(at, _)| *at > from).count() <= 13, "it does not come to rest");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_two_pools_ends_well(
        labels in (7..10_u8, 7..10_u8),
        history in proptest::collection::vec(events(), 0..50),
    ) {
        let mut world = World::bare(5, 4);
        world.add_pool("pool", first());
        world.add_pool("second", second());
        edit(&mut world, 0, labels.0);
        edit(&mut world, 1, labels.1);
        world.start();
        for event in history {
            happen(&mut world, &event);
        }
        heal(&mut world);
        check(&mut world);
    }
}
