//! How the cost of decisions grows with the size of a pool: `cargo bench --package flipop-core --bench growth`.
//!
//! A pool has up to ten addresses, on its first nodes. Measured are an event that concerns one node, together with the
//! plan that answers it, among many nodes of one pool and among many pools or record sets, and the comparison of a
//! name's records with those that it should have. What concerns every pool is measured with another token.

#![expect(clippy::disallowed_methods, reason = "real time is what is measured")]

mod world;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flipop_core::addresses::action as addresses;
use flipop_core::fleet::Input;
use flipop_core::model::{CallFailure, Fault, FaultKind, Observed, PodFacts, Readiness};
use flipop_core::records::diff::{Target, TtlRule, Wanted, diff};
use flipop_core::records::dns::Record;
use std::hint::black_box;
use std::time::Duration;
use world::{PROVIDER, World, address, node, nodes, pod, pods, record, record_set};

/// Tests run each row once, with debug assertions: the small sizes are enough for them.
const SIZES: &[u16] = if cfg!(debug_assertions) { &[10, 100] } else { &[10, 100, 1_000, 5_000] };

/// Pools of ten nodes each.
const POOLS: &[u16] = if cfg!(debug_assertions) { &[1, 10] } else { &[1, 10, 100, 1_000, 5_000] };

/// Times `one` in worlds of each size. It is given the size and the number of the round.
fn among(
    criterion: &mut Criterion,
    (name, sizes): (&str, &[u16]),
    world: impl Fn(u16) -> World,
    one: impl Fn(&mut World, u16, u64) -> Duration,
) {
    let mut group = criterion.benchmark_group(name);
    for size in sizes {
        let mut made = None;
        group.bench_with_input(BenchmarkId::from_parameter(size), size, |bencher, size| {
            let world = made.get_or_insert_with(|| world(*size));
            bencher.iter_custom(|rounds| (0..rounds).map(|round| one(world, *size, round)).sum());
        });
    }
}

/// A pod of one pool of many nodes decides nothing, because its node has another one that serves. A candidate without
/// an address stops matching, and matches again. A node that has an address fails.
fn one_pool(criterion: &mut Criterion) {
    let world = |size| World::new(1, size, false);
    among(criterion, ("match: a pod that decides nothing", SIZES), world, |world, size, round| {
        world.ignore(PodFacts { name: "second".into(), ..pod(size / 2, round % 2 == 0) })
    });
    among(criterion, ("match: a candidate goes or comes", SIZES), world, |world, size, round| {
        world.answer(Input::Pods(pods(0), Observed::Apply(pod(size - 1, round % 2 == 1)))).0
    });
    among(criterion, ("plan: a node with an address fails", SIZES), world, |world, _, _| world.fail_over());
}

/// A node of one of many pools fails, a pod of one decides nothing, a list shows the result, and something concerns
/// each of them. At the start, everything is read, placed and written once.
fn pools(criterion: &mut Criterion) {
    let checked = |pools| World::new(pools, 10, true);
    let row = ("plan: a labelled, checked node of one of many pools fails", POOLS);
    among(criterion, row, checked, |world, _, _| world.fail_over());
    let world = |pools| World::new(pools, 10, false);
    let row = ("plan: a node of one of many pools fails", POOLS);
    among(criterion, row, world, |world, _, _| world.fail_over());
    let row = ("match: a pod of one of many pools that decides nothing", POOLS);
    among(criterion, row, world, |world, _, round| {
        world.ignore(PodFacts { name: "second".into(), ..pod(5, round % 2 == 0) })
    });
    among(criterion, ("plan: what concerns every pool", POOLS), world, |world, _, _| {
        world.answer(Input::TokenChanged(PROVIDER.into())).0
    });
    among(criterion, ("plan: a list of the account after a failover", POOLS), world, |world, _, _| {
        // The list before showed the address on the former node.
        world.fail_over();
        world.list(|_| {})
    });
    among(criterion, ("plan: the account refuses the token", POOLS), world, |world, _, _| {
        let refused = Fault::new(FaultKind::Unauthorized, "401".into());
        let took =
            world.list(|reply| *reply = addresses::Reply::Listed(Err(CallFailure::Fault(refused.clone()))));
        world.answer(Input::TokenChanged(PROVIDER.into()));
        took
    });
    let mut group = criterion.benchmark_group("start: until many pools are at rest");
    group.sample_size(10);
    for &pools in POOLS {
        group.bench_with_input(BenchmarkId::from_parameter(pools), &pools, |bencher, _| {
            bencher.iter(|| world(pools));
        });
    }
}

/// A node of one of many record sets fails.
fn record_sets(criterion: &mut Criterion) {
    let world = |sets: u16| World::of(Vec::new(), (0..sets).map(record_set).collect(), 10);
    among(criterion, ("plan: a node of one of many record sets fails", POOLS), world, |world, _, _| {
        let set = |ready| Input::Nodes(nodes(0), Observed::Apply(node(1, ready)));
        let (took, _) = world.answer(set(Readiness::NotReady));
        let published = |world: &World| world.names.get("set-0.example.com").map(Vec::len);
        assert_eq!(published(world), Some(9));
        world.answer(set(Readiness::Ready));
        assert_eq!(published(world), Some(10));
        took
    });
}

/// The data for metrics after a failover in one of many pools.
fn snapshots(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot: of many pools");
    for &pools in POOLS {
        let world = World::new(pools, 10, false);
        group.bench_with_input(BenchmarkId::from_parameter(pools), &pools, |bencher, _| {
            bencher.iter(|| black_box(world.fleet.snapshot()));
        });
    }
}

/// One of many records is wrong.
fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("diff: one record of a name changes");
    for &size in SIZES {
        let records: Vec<Record> =
            (0..size).map(|number| record(number.to_string(), address(number), 60)).collect();
        let target = Target::Exact((1..=size).map(address).collect());
        let wanted = Wanted { target, undecided: [].into(), ttl: TtlRule::Every(60) };
        group.bench_with_input(BenchmarkId::from_parameter(size), &size, |bencher, _| {
            bencher.iter(|| diff(black_box(&records), black_box(&wanted)));
        });
    }
}

criterion_group!(growth, one_pool, pools, record_sets, snapshots, records);
criterion_main!(growth);
