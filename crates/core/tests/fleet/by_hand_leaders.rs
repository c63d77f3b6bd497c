//! Moves by hand while leaders come and go. A request is met once, and never by a leader that may have come too late.

use crate::by_hand::{REQUEST, last, moves, outcome, settled};
use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::manual_move::result::{LastMove, MoveOutcome};
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, Observed};

#[test]
fn a_request_that_stands_there_at_first_sight_is_ignored() {
    let mut world = settled();
    world.ask("pool", Some(REQUEST));
    world.start();
    world.run(60);
    assert_eq!((outcome(&world), world.events_of("MoveIgnored").len()), (Some(MoveOutcome::Ignored), 1));
    assert!(last(&world).message.contains("another text after #"), "{:?}", last(&world));
    assert_eq!((last(&world).ip, last(&world).to.as_str()), (Some(ip(1)), "node-3"));
    let writes = world.status_writes;
    world.start();
    world.run(600);
    assert_eq!((moves(&world), world.events_of("MoveIgnored").len(), world.status_writes), (0, 1, writes));
    world.ask("pool", Some("192.0.2.1=node-3#2"));
    world.run(10);
    assert_eq!((outcome(&world), world.holder(3)), (Some(MoveOutcome::Done), Some(ip(1))));
}

#[test]
fn an_object_that_is_made_with_a_request_is_no_request() {
    let mut world = settled();
    let mut pool = world.pools["pool"].clone();
    world.delete_pool("pool");
    pool.object.uid = flipop_core::model::ids::Uid("restored".into());
    pool.move_request = Some(REQUEST.into());
    pool.status.last_move = None;
    world.put_pool(pool);
    world.run(60);
    assert_eq!((moves(&world), outcome(&world)), (0, Some(MoveOutcome::Ignored)));
}

#[test]
fn a_standby_that_saw_the_pool_without_the_request_meets_it() {
    for saw in [true, false] {
        let mut world = settled();
        if !saw {
            world.ask("pool", Some(REQUEST));
        }
        world.stand_by();
        world.run(5);
        if saw {
            world.ask("pool", Some(REQUEST));
        }
        world.run(5);
        assert_eq!((moves(&world), world.events_of("MoveIgnored").len()), (0, 0), "it does not lead");
        world.observe(Input::Permit(true));
        world.lead_again();
        world.run(60);
        assert_eq!(moves(&world), usize::from(saw));
        assert_eq!(outcome(&world), Some(if saw { MoveOutcome::Done } else { MoveOutcome::Ignored }));
    }
}

#[test]
fn a_standby_leaves_alone_what_the_leader_answered() {
    let mut world = settled();
    world.stand_by();
    world.run(5);
    world.ask("pool", Some(REQUEST));
    let mut pool = world.pools["pool"].clone();
    let done = LastMove {
        request: REQUEST.into(),
        ip: Some(ip(1)),
        from: "node-1".into(),
        to: "node-3".into(),
        time_s: 7,
        outcome: MoveOutcome::Refused,
        message: "by the leader".into(),
    };
    pool.status.last_move = Some(done.clone());
    world.put_pool(pool);
    world.observe(Input::Permit(true));
    world.lead_again();
    world.run(60);
    assert_eq!((moves(&world), last(&world)), (0, &done));
    assert_eq!(world.events_of("MoveIgnored").len(), 0);
}

#[test]
fn a_status_that_is_wiped_does_not_make_a_request_a_new_one() {
    for standby in [true, false] {
        let mut world = settled();
        if standby {
            world.stand_by();
            world.run(5);
        }
        world.ask("pool", Some(REQUEST));
        let mut pool = world.pools["pool"].clone();
        if standby {
            pool.status.last_move = Some(LastMove {
                request: REQUEST.into(),
                ip: Some(ip(1)),
                from: "node-1".into(),
                to: "node-3".into(),
                time_s: 7,
                outcome: MoveOutcome::Done,
                message: String::new(),
            });
            world.put_pool(pool.clone());
        } else {
            world.run(10);
            pool = world.pools["pool"].clone();
        }
        pool.status.last_move = None;
        world.put_pool(pool);
        world.observe(Input::Permit(true));
        world.lead_again();
        world.run(60);
        assert_eq!((moves(&world), outcome(&world).is_some()), (usize::from(!standby), true), "{standby}");
        assert_ne!(outcome(&world), Some(MoveOutcome::Pending), "{standby}");
    }
}

#[test]
fn an_object_that_could_not_be_read_was_not_seen_without_a_request() {
    let mut world = settled();
    let readable = world.pools["pool"].spec.clone();
    let mut pool = world.pools["pool"].clone();
    pool.spec = Err("odd".into());
    world.put_pool(pool.clone());
    world.start();
    world.run(10);
    (pool.spec, pool.move_request) = (readable, Some(REQUEST.into()));
    world.put_pool(pool);
    world.run(60);
    assert_eq!((moves(&world), outcome(&world)), (0, Some(MoveOutcome::Ignored)));
}

/// In any case the request was met at most once, and its reported outcome is true.
fn check_end(world: &World, case: &str) {
    let expected = match outcome(world) {
        Some(MoveOutcome::Done) => Some(ip(1)),
        Some(MoveOutcome::Interrupted | MoveOutcome::Ignored) => None,
        other => panic!("{case}: {other:?}"),
    };
    assert_eq!(world.holder(3), expected, "{case}: {:?}", last(world));
    assert!(moves(world) <= 1, "{case}: {} moves", moves(world));
    assert_eq!(world.events_of("MovedByOthers").len(), 0, "{case}");
}

#[test]
fn a_crash_at_any_moment_leaves_a_move_done_or_interrupted() {
    let mut ends = std::collections::BTreeSet::new();
    for trick in [Trick::Fine, Trick::Lost(true), Trick::Slow(5)] {
        for ms in (0..3_000).step_by(30) {
            let mut world = settled();
            world.tricks.push_back(trick);
            world.ask("pool", Some(REQUEST));
            world.run_until(world.now.plus_millis(ms));
            world.start();
            world.run(180);
            check_end(&world, &format!("{trick:?}, crash after {ms} ms"));
            ends.insert(last(&world).outcome);
            let (writes, warnings) = (world.status_writes, world.events_of("MoveInterrupted").len());
            assert_eq!(warnings, usize::from(outcome(&world) == Some(MoveOutcome::Interrupted)));
            world.start();
            world.run(120);
            assert_eq!(world.status_writes, writes, "{trick:?} {ms}: it is told once");
        }
    }
    assert_eq!(ends.len(), 2, "each end is met: {ends:?}");
}

#[test]
fn a_gap_in_the_leadership_at_any_moment_loses_nothing_that_this_process_knows() {
    for trick in [Trick::Fine, Trick::Lost(true), Trick::Slow(5)] {
        for ms in (0..3_000).step_by(30) {
            let mut world = settled();
            world.tricks.push_back(trick);
            world.ask("pool", Some(REQUEST));
            world.run_until(world.now.plus_millis(ms));
            world.lead_again();
            world.run(180);
            check_end(&world, &format!("{trick:?}, gap after {ms} ms"));
        }
    }
}

#[test]
fn a_request_that_was_refused_in_a_gap_stays_refused() {
    let mut world = settled();
    world.set_node(3, false);
    world.faults.held_status_writes = Some(Vec::new());
    world.ask("pool", Some(REQUEST));
    world.run(1);
    assert_eq!(world.events_of("MoveRefused").len(), 1);
    world.faults.held_status_writes = None;
    world.set_node(3, true);
    world.lead_again();
    world.run(60);
    assert_eq!((moves(&world), world.events_of("MoveRefused").len()), (0, 1));
}

#[test]
fn a_list_from_before_the_move_is_not_believed() {
    let mut world = settled();
    let before = world.cloud.clone();
    world.ask("pool", Some(REQUEST));
    world.run_while(10, |world| world.holder(3).is_none());
    assert_eq!(outcome(&world), Some(MoveOutcome::Pending));
    world.faults.stale = Some(before);
    world.start();
    world.run(20);
    assert_eq!(outcome(&world), Some(MoveOutcome::Pending), "the list may be older than the move");
    world.faults.stale = None;
    world.run(120);
    assert_eq!((outcome(&world), world.events_of("MovedByOthers").len()), (Some(MoveOutcome::Done), 0));
}

#[test]
fn what_another_process_announced_is_never_sent_by_this_one() {
    let mut world = settled();
    world.faults.held_status_writes = Some(Vec::new());
    world.ask("pool", Some(REQUEST));
    world.run(1);
    let (pool, _, status) = world.faults.held_status_writes.take().unwrap().remove(0);
    // A former leader wrote exactly the same, and its request may still be under way.
    let mut object = world.pools["pool"].clone();
    object.status = status.clone();
    world.put_pool(object);
    world.write_status(&pool, "1", status);
    world.run(180);
    assert_eq!((moves(&world), outcome(&world)), (0, Some(MoveOutcome::Interrupted)));
}

#[test]
fn a_pending_move_of_an_address_that_the_pool_names_no_more_is_closed() {
    let mut world = settled();
    world.tricks.push_back(Trick::Refused(FaultKind::Throttled));
    world.ask("pool", Some(REQUEST));
    world.run_while(10, |world| outcome(world).is_none());
    let mut pool = world.pools["pool"].clone();
    pool.spec.as_mut().unwrap().ips.remove(0);
    world.put_pool(pool);
    world.start();
    world.run(180);
    assert_eq!(outcome(&world), Some(MoveOutcome::Interrupted));
    let observed = Input::Pools(Observed::Apply(world.pools["pool"].clone()));
    world.observe(observed);
    world.run(60);
    assert_eq!(world.events_of("MoveInterrupted").len(), 1);
}
