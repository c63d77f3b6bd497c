//! A known name is read again now and then, and the read holds up no change there.

use crate::dns::pool;
use crate::world::{PROVIDER, World};
use crate::zones::DnsTrick;
use flipop_core::model::FaultKind;

const WWW: &str = "www.example.com";

/// When the change sets that an event caused were sent, in milliseconds after it.
fn rounds_after(world: &mut World, event: impl FnOnce(&mut World)) -> Vec<u64> {
    let (before, start) = (world.dns.applies.len(), world.now);
    event(world);
    world.run(10);
    world.dns.applies.iter().skip(before).map(|at| at.millis_since(start)).collect()
}

/// A pool of two addresses whose records are right. Another read of them hangs.
fn rereading() -> World {
    let mut world = pool(2, 3);
    world.run(20);
    world.dns.slow_ms = 9_950;
    let reads = world.dns.reads;
    world.run_while(100, |world| world.dns.reads == reads);
    assert_eq!(world.dns.reads, reads + 1);
    world
}

#[test]
fn a_read_of_what_is_known_that_hangs_holds_up_neither_the_drop_nor_the_publishing_round() {
    let mut world = rereading();
    let reads = world.dns.reads - 1;
    let rounds = rounds_after(&mut world, |world| world.set_node(1, false));
    assert!(matches!(rounds[..], [0, published] if published < 1_200), "{rounds:?}");
    assert_eq!(world.published(WWW), [1, 2]);
    assert_eq!(
        world.dns.reads,
        reads + 1,
        "its answer may show the time before the change, and is not believed"
    );
    world.dns.slow_ms = 0;
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
    world.run(60);
    assert_eq!((world.dns.reads, world.published(WWW)), (reads + 2, vec![1, 2]), "it is read again");
}

#[test]
fn reads_that_fail_do_not_hold_up_changes_of_what_is_known() {
    let mut world = pool(2, 3);
    world.run(20);
    world.dns.read_fault = Some(FaultKind::Transient);
    let reads = world.dns.reads;
    world.run(3_600);
    let failed = world.dns.reads - reads;
    assert!((10..30).contains(&failed), "{failed} reads in an hour");
    let reported = |world: &World| {
        let conditions = &world.status("pool").conditions;
        conditions.iter().any(|c| c.kind == "RecordSetReady" && c.reason == "Transient")
    };
    assert!(reported(&world));
    let rounds = rounds_after(&mut world, |world| world.set_node(1, false));
    assert!(matches!(rounds[..], [0, published] if published < 1_200), "{rounds:?}");
    assert_eq!((world.published(WWW), world.dns.reads), (vec![1, 2], reads + failed));
    world.dns.read_fault = None;
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
    world.run(600);
    assert_eq!((world.published(WWW), reported(&world)), (vec![1, 2], false));
}

#[test]
fn a_failed_write_beside_a_read_that_hangs_is_repaired_after_reads_that_were_begun_later() {
    for trick in [DnsTrick::Lost(0), DnsTrick::Lost(1), DnsTrick::Refused(0, FaultKind::Transient)] {
        let mut world = rereading();
        let reads = world.dns.reads - 1;
        world.dns.slow_ms = 0;
        world.dns.tricks.push_back(trick);
        world.delete_node(1);
        world.run(60);
        assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![1, 2], 0), "{trick:?}");
        let needed = if matches!(trick, DnsTrick::Lost(_)) { 3 } else { 1 };
        assert_eq!(world.dns.reads, reads + 1 + needed, "{trick:?}");
    }
}
