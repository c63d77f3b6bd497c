//! The scope `droplet:read`, lost and regained at bad moments. Without it every address looks unassigned.

use crate::world::{PROVIDER, Trick, World, ip};
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, Moment};

const T: fn(u64) -> Moment = Moment::from_millis;

#[test]
fn an_address_whose_droplet_is_only_not_shown_is_not_taken_off_it() {
    let mut world = World::with(1, 1);
    world.run(60);
    world.cloud.get_mut(&ip(1)).unwrap().locked = true;
    // The next list sees the lock, so the address is read by itself until the lock is gone.
    world.run(45);
    world.faults.blind = true;
    world.cloud.get_mut(&ip(1)).unwrap().locked = false;
    world.set_node(2, true);
    world.run(120);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))), "{:?}", world.calls);
    world.faults.blind = false;
    world.run(120);
    assert_eq!((world.assigns, world.entry("pool", 1).state.as_str()), (1, "active"));
}

#[test]
fn an_assignment_whose_answer_was_lost_has_not_failed_because_its_droplet_is_not_shown() {
    // In the first case the scope is lost before the assignment, and in the second between two looks at the locked
    // address. In the third no look succeeds before the address is unlocked.
    for (lost_after_ms, unread_for_s) in [(0, 0), (300, 0), (0, 3)] {
        let mut world = World::with(2, 1);
        world.run(20);
        world.tricks.push_back(Trick::Lost(true));
        world.set_node(2, true);
        world.run_until(world.now.plus_millis(lost_after_ms));
        world.faults.blind = true;
        world.faults.gets = Some(FaultKind::Transient).filter(|_| unread_for_s > 0);
        world.run(unread_for_s);
        world.faults.gets = None;
        world.run(20);
        world.faults.blind = false;
        world.run(120);
        assert_eq!((world.assigns, world.holder(2)), (2, Some(ip(2))), "{:?}", world.calls);
        assert!(world.events_of("AssignmentFailed").is_empty(), "{:?}", world.events);
    }
}

#[test]
fn that_somebody_took_a_locked_address_off_is_believed_once_the_scope_is_proved_anew() {
    let mut world = World::with(2, 2);
    world.run(60);
    world.cloud.get_mut(&ip(1)).unwrap().locked = true;
    world.run(45);
    world.cloud.get_mut(&ip(1)).unwrap().locked = false;
    world.move_by_hand(1, None);
    let from = world.now;
    world.run(20);
    assert_eq!((world.count(from, "prove"), world.assigns), (1, 3), "{:?}", world.calls);
    assert!((1..=2).all(|n| world.holder(n).is_some()));
}

#[test]
fn where_addresses_that_are_named_anew_stand_is_not_told_by_a_proof_of_the_past() {
    for exchanged in [false, true] {
        let mut world = World::with(1, 2);
        world.run(60);
        if exchanged {
            // The new token is proved, and no list comes any more.
            world.faults.lists = Some(FaultKind::Transient);
            world.observe(Input::TokenChanged(PROVIDER.into()));
            world.run(5);
        }
        let spec = world.pools["pool"].spec.clone().unwrap();
        world.delete_pool("pool");
        world.run(100);
        world.faults.lists = None;
        world.faults.blind = true;
        world.add_pool("again", spec);
        world.run(120);
        assert_eq!(world.assigns, 1, "{:?}", world.calls);
    }
    // While no address of ours is on a droplet, a list shows the places of others.
    let mut world = World::with(1, 0);
    world.add_foreign_ip(9, 1);
    world.run(60);
    world.faults.blind = true;
    world.run(60);
    (1..=2).for_each(|n| world.set_node(n, true));
    world.edit("pool", |spec| spec.ips = vec![ip(9).to_string()]);
    world.run(120);
    assert_eq!(world.assigns, 0, "{:?}", world.calls);
}

#[test]
fn one_address_that_shows_no_droplet_keeps_no_other_from_its_node() {
    let mut world = World::with(3, 1);
    world.run(20);
    world.faults.proofs = Some(FaultKind::Transient);
    world.tricks.push_back(Trick::Lost(false));
    world.set_node(2, true);
    world.run(2);
    world.set_node(3, true);
    world.run(3);
    assert!(world.holder(3).is_some(), "{:?}", world.calls);
    let ready = world.condition("pool", "ProviderReady");
    assert!(ready.is_none_or(|condition| condition.status == "True"), "{ready:?}");
    world.faults.proofs = None;
    world.run(60);
    assert!(world.holder(2).is_some(), "{:?}", world.calls);
}

#[test]
fn a_move_by_hand_that_nobody_could_see_is_put_right_as_soon_as_the_scope_is_back() {
    for exchanged in [false, true] {
        let mut world = World::with(2, 2);
        world.run(60);
        world.cloud.get_mut(&ip(1)).unwrap().locked = true;
        world.run(45);
        world.faults.blind = true;
        world.cloud.get_mut(&ip(1)).unwrap().locked = false;
        world.move_by_hand(1, None);
        world.run(1_800);
        assert_eq!(world.assigns, 2);
        world.faults.blind = false;
        let from = world.now;
        if exchanged {
            world.observe(Input::TokenChanged(PROVIDER.into()));
        }
        world.run_while(100, |world| world.count(from, "prove") == 0);
        world.run(2);
        assert_eq!(world.assigns, 3, "{:?}", world.calls);
    }
}

#[test]
fn what_nobody_could_see_is_listed_before_anything_moves() {
    let mut world = World::with(1, 3);
    world.run(60);
    world.faults.blind = true;
    world.run(120);
    world.set_node(1, false);
    world.move_by_hand(1, Some(2));
    world.moved.clear();
    world.run(600);
    world.faults.blind = false;
    world.run(120);
    assert_eq!((world.assigns, world.holder(2)), (1, Some(ip(1))), "{:?}", world.calls);
}

#[test]
fn a_look_from_before_a_pause_keeps_no_later_one_from_its_proof() {
    let mut world = World::with(1, 1);
    world.tricks.extend([Trick::Lost(false), Trick::Lost(false)]);
    world.run_while(10, |world| world.total("get") == 0);
    world.lead_again();
    world.run(40);
    assert_eq!((world.assigns, world.holder(1)), (3, Some(ip(1))), "{:?}", world.calls);
}

#[test]
fn an_address_on_no_list_costs_no_proof_with_each_list() {
    let mut world = World::with(0, 1);
    world.add_ip(9);
    world.faults.unlisted.insert(ip(9));
    world.edit("pool", |spec| spec.ips.push(ip(9).to_string()));
    world.run(120);
    assert_eq!(world.holder(1), Some(ip(9)));
    let from = world.now;
    world.run(600);
    assert_eq!(world.count(from, "prove"), 0, "{:?}", world.calls);
}

#[test]
fn a_move_by_hand_that_was_first_looked_at_with_a_refused_token_is_put_right_as_soon() {
    let mut world = World::with(3, 2);
    world.run_until(T(1_099_990));
    let lists = world.total("list");
    let on_first = world.holder(1).unwrap();
    world.move_by_hand(on_first.as_v4().unwrap().octets()[3], None);
    world.run_until(T(1_100_010));
    assert_eq!(world.total("list"), lists + 1, "a list shows it");
    // The token loses the scope before the second look is answered, and a move is refused.
    world.tricks.push_back(Trick::Refused(FaultKind::Unauthorized));
    world.set_node(3, true);
    world.faults.blind = true;
    world.run(1_800);
    world.faults.blind = false;
    let from = world.now;
    world.run_while(100, |world| world.count(from, "prove") == 0);
    world.run(3);
    assert!((1..=3).all(|n| world.holder(n).is_some()), "{:?}", world.calls);
}
