//! A paused pool: nothing begins for it, and sent requests are finished. After the pause the first step is a read of
//! the account.

use crate::creation::buying;
use crate::faults::{spec, spec_of};
use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::fleet::Input;
use flipop_core::model::{
    Address, FaultKind, Moment, ObjectKind, ObjectRef, Observed, Owner, Uid, WriteFailure,
};
use flipop_core::records::dns::Change;

const WHY: &str = "incident 7";

/// An operation, its reads and the writes that follow it are over this long after its end.
const FINISHED_MS: u64 = 90_000;

impl World {
    /// Sets the annotation that pauses a pool, or removes it.
    pub(crate) fn pause(&mut self, name: &str, text: Option<&str>) {
        self.version += 1;
        let pool = self.pools.get_mut(name).unwrap();
        pool.paused = text.map(str::to_owned);
        pool.resource_version = self.version.to_string();
        let seen = Input::Pools(Observed::Apply(pool.clone()));
        self.observe(seen);
    }

    /// Sets the annotation that pauses a record set, or removes it.
    pub(crate) fn pause_set(&mut self, name: &str, text: Option<&str>) {
        self.version += 1;
        let set = self.record_sets.get_mut(name).unwrap();
        set.paused = text.map(str::to_owned);
        set.resource_version = self.version.to_string();
        let seen = Input::RecordSets(Observed::Apply(set.clone()));
        self.observe(seen);
    }

    fn is_paused(&self, pool: &str) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.paused.is_some())
    }

    /// Nothing begins at the provider for a paused pool.
    pub(crate) fn check_pause(&self, pool: &ObjectRef) {
        assert!(!self.is_paused(&pool.name.name), "begun for the paused pool {}", pool.name);
    }

    /// An operation of ours has moved the address lately, or does so now. What follows from it waits for the permit.
    fn is_finished_now(&self, ip: Address) -> bool {
        let lately = |ends: Moment| self.now.millis_since(ends.max(self.permitted)) < FINISHED_MS;
        self.pending.values().any(|op| op.ip == ip && (!op.over || lately(op.ends)))
    }

    /// A node gets, or loses, the address of a paused pool only where an operation of ours was under way.
    pub(crate) fn annotate_checked(&mut self, node: String, uid: Uid, value: Option<Address>) {
        let before = self.annotations.get(&node).and_then(|text| Address::v4(text));
        for ip in before.into_iter().chain(value) {
            let named =
                |pool: &PoolObject| pool.spec.as_ref().is_ok_and(|spec| spec.ips.contains(&ip.to_string()));
            let paused = self.pools.values().any(|pool| pool.paused.is_some() && named(pool));
            assert!(!paused || self.is_finished_now(ip), "{node}: {before:?} becomes {value:?} in a pause");
        }
        self.annotate(node, uid, value);
    }

    /// No record of a paused object changes, but for those of addresses that operations of ours have moved.
    pub(crate) fn check_pause_of_records(&self, owner: &Owner, fqdn: &str, changes: &[Change]) {
        let name = &owner.object.name.name;
        if owner.kind == ObjectKind::RecordSet {
            let paused = self.record_sets.get(name).is_some_and(|set| set.paused.is_some());
            assert!(!paused, "{fqdn} changes for the paused set {name}: {changes:?}");
        } else if self.is_paused(name) {
            for change in changes {
                let follows = matches!(change, Change::Create { ip, .. } if self.is_finished_now(*ip));
                assert!(follows, "{fqdn} changes for the paused pool {name}: {changes:?}");
            }
        }
    }
}

/// How many moves and purchases were requested.
fn begun(world: &World) -> usize {
    ["assign", "unassign", "create"].map(|call| world.total(call)).iter().sum()
}

/// Two nodes with an address each, a third without, and a pause.
fn paused() -> World {
    let mut world = World::with(2, 3);
    world.run(70);
    world.pause("pool", Some(WHY));
    world.run(2);
    world
}

#[test]
fn a_paused_pool_assigns_nothing_until_the_annotation_is_gone() {
    for text in ["incident 7", "", "false"] {
        let mut world = World::with(2, 3);
        world.run(70);
        world.pause("pool", Some(text));
        let (before, annotations) = (begun(&world), world.annotations.clone());
        world.set_node(1, false);
        world.run(700);
        assert_eq!((begun(&world), &world.annotations), (before, &annotations), "{text:?}");
        assert_eq!(world.holder(1), Some(ip(1)), "{text:?}");
        assert_eq!(world.entry("pool", 1).state, "no-match", "{text:?}");
        world.pause("pool", None);
        world.run(3);
        assert_eq!(world.holder(3), Some(ip(1)), "{text:?}");
        assert_eq!(world.annotations["node-3"], ip(1).to_string(), "{text:?}");
        assert!(!world.annotations.contains_key("node-1"), "{text:?}");
    }
}

#[test]
fn a_pool_that_is_paused_from_the_start_does_nothing_also_under_a_new_leader() {
    let mut world = World::with(0, 3);
    world.add_ip(1);
    world.add_pool("other", spec_of([1]));
    world.pause("other", Some(WHY));
    for _ in 0..3 {
        world.run(120);
        world.start();
    }
    assert_eq!((begun(&world), world.annotations.len()), (0, 0));
    assert_eq!(world.verdict("other", "Ready").1, "Paused");
    world.pause("other", None);
    world.run(3);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn the_status_tells_the_truth_and_why_no_more_happens() {
    let mut world = paused();
    let told = world.condition("pool", "Paused").unwrap();
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("True", "Annotation"));
    assert!(told.message.ends_with(": incident 7"), "{told:?}");
    assert_eq!(world.verdict("pool", "Ready").0, "True", "two of two addresses serve");
    world.set_node(2, false);
    world.run(2);
    let ready = world.condition("pool", "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Paused"));
    assert!(ready.message.starts_with("1 of 2 addresses are on matching nodes"), "{ready:?}");
    assert!(ready.message.ends_with("incident 7"), "{ready:?}");
    assert_eq!(*world.status("pool").assignable_nodes, ["node-3"]);
    let waiting = world.waits();
    assert!(waiting[0].1.starts_with("the pool is paused by the annotation"), "{waiting:?}");
    world.pause("pool", Some("another reason"));
    world.run(2);
    assert!(world.told("pool", "Paused").2.ends_with(": another reason"));
    world.pause("pool", None);
    world.run(3);
    assert_eq!(world.condition("pool", "Paused"), None);
    assert_eq!(world.verdict("pool", "Ready").0, "True");
}

#[test]
fn the_beginning_and_the_end_are_told_once_each_whoever_leads() {
    let mut world = paused();
    assert_eq!(world.events_of("Paused").len(), 1);
    assert!(world.events_of("Paused")[0].ends_with(": incident 7"));
    world.start();
    world.run(120);
    assert_eq!((world.events_of("Paused").len(), world.events_of("Resumed").len()), (1, 0));
    world.pause("pool", None);
    world.run(120);
    assert_eq!((world.events_of("Paused").len(), world.events_of("Resumed").len()), (1, 1));
    world.start();
    world.run(120);
    assert_eq!((world.events_of("Paused").len(), world.events_of("Resumed").len()), (1, 1));
    // Nobody led when this annotation was removed.
    world.pause("pool", Some(WHY));
    world.run(5);
    world.pools.get_mut("pool").unwrap().paused = None;
    world.start();
    world.run(5);
    assert_eq!((world.events_of("Paused").len(), world.events_of("Resumed").len()), (2, 2));
}

#[test]
fn a_surplus_address_makes_no_room_while_the_pool_is_paused() {
    let mut world = World::with(2, 1);
    world.run(70);
    world.pause("pool", Some(WHY));
    world.edit("pool", |spec| {
        spec.desired_ips = 1;
        spec.ips.reverse();
    });
    world.run(120);
    assert_eq!((world.holder(1), world.total("unassign")), (Some(ip(1)), 0));
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
    world.pause("pool", None);
    world.moved.insert(ip(1));
    world.run(5);
    assert_eq!(world.holder(1), Some(ip(2)));
}

#[test]
fn after_room_was_made_the_successor_waits_for_the_end_of_the_pause() {
    let mut world = World::with(2, 1);
    world.run(70);
    world.moved.insert(ip(1));
    world.edit("pool", |spec| {
        spec.desired_ips = 1;
        spec.ips.reverse();
    });
    world.run_while(10, |world| world.total("unassign") == 0);
    world.pause("pool", Some(WHY));
    world.run(120);
    assert_eq!((world.holder(1), world.total("unassign")), (None, 1));
    world.pause("pool", None);
    world.run(5);
    assert_eq!(world.holder(1), Some(ip(2)));
}

#[test]
fn an_assignment_that_was_sent_before_is_finished_with_its_annotation() {
    // A pause at each moment of a failover: before the decision, while it is under way, and after.
    for delay_ms in (0..1_500).step_by(50) {
        let mut world = World::with(1, 2);
        world.run(70);
        world.set_node(1, false);
        world.run_until(world.now.plus_millis(delay_ms));
        world.pause("pool", Some(WHY));
        let sent = world.assigns;
        world.run(120);
        assert_eq!(world.assigns, sent, "after {delay_ms} ms");
        let on = if sent == 1 { 1 } else { 2 };
        assert_eq!(world.holder(on), Some(ip(1)), "after {delay_ms} ms");
        let annotated: Vec<&String> = world.annotations.keys().collect();
        assert_eq!(annotated, [&format!("node-{on}")], "after {delay_ms} ms");
        let state = &world.entry("pool", 1).state;
        assert_eq!(state, if on == 1 { "no-match" } else { "active" }, "after {delay_ms} ms");
        // A finished request is not maintained, so somebody may remove the annotation.
        world.annotations.clear();
        world.set_node(2, true);
        world.run(60);
        assert_eq!(world.annotations.get("node-2"), None, "after {delay_ms} ms");
    }
}

#[test]
fn what_was_sent_is_finished_also_when_its_answer_was_lost_or_its_annotation_refused() {
    for (trick, refused) in [(Trick::Lost(true), false), (Trick::Slow(200), false), (Trick::Fine, true)] {
        let mut world = World::with(1, 1);
        world.tricks.push_back(trick);
        if refused {
            world.faults.annotations.extend([WriteFailure::Conflict, WriteFailure::Conflict]);
        }
        world.run_while(10, |world| world.assigns == 0);
        world.pause("pool", Some(WHY));
        world.run(300);
        assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))), "{trick:?}");
        assert_eq!(world.annotations["node-1"], ip(1).to_string(), "{trick:?}");
    }
}

#[test]
fn a_failed_assignment_is_not_sent_again_and_its_address_keeps_its_annotation() {
    for trick in [Trick::Errored, Trick::Refused(FaultKind::Transient), Trick::Lost(false)] {
        let mut world = World::with(1, 2);
        world.run(70);
        world.tricks.push_back(trick);
        world.set_node(1, false);
        world.run_while(10, |world| world.assigns == 1);
        world.pause("pool", Some(WHY));
        // The node comes back, and its address never left it.
        world.set_node(1, true);
        world.run(300);
        assert_eq!((world.assigns, world.holder(1)), (2, Some(ip(1))), "{trick:?}");
        assert_eq!(world.annotations["node-1"], ip(1).to_string(), "{trick:?}");
    }
}

#[test]
fn a_new_leader_finishes_what_the_status_says_was_sent() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Slow(5));
    world.run(2);
    assert_eq!(world.entry("pool", 1).state, "in-progress");
    world.pause("pool", Some(WHY));
    world.start();
    world.run(120);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
    assert_eq!(world.annotations["node-1"], ip(1).to_string());
}

#[test]
fn annotations_stay_as_they_are_whatever_happens_to_nodes_and_addresses() {
    let changes: [fn(&mut World); 5] = [
        |world| world.set_node(1, false),
        |world| world.move_by_hand(1, Some(3)),
        |world| world.move_by_hand(1, None),
        |world| world.edit("pool", |spec| drop(spec.ips.remove(0))),
        |world| world.edit("pool", |spec| spec.matching.node_label = "a in".into()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        for restart in [false, true] {
            let what = format!("change {number}, restart {restart}");
            let mut world = paused();
            let before = world.annotations.clone();
            change(&mut world);
            if restart {
                world.start();
            }
            world.run(1_300);
            assert_eq!(world.annotations, before, "{what}");
            if number < 3 {
                world.pause("pool", None);
                world.run(10);
                let on = world.nodes.keys().filter(|name| world.annotations.contains_key(*name));
                assert_eq!(on.count(), 2, "{what}: {:?}", world.annotations);
                for (name, value) in &world.annotations {
                    let n = name.strip_prefix("node-").and_then(|n| n.parse().ok()).unwrap();
                    assert_eq!(world.holder(n).map(|ip| ip.to_string()).as_ref(), Some(value), "{what}");
                }
            }
        }
    }
}

#[test]
fn of_a_deleted_pool_the_annotations_go_paused_or_not() {
    let mut world = paused();
    world.delete_pool("pool");
    world.run(5);
    assert!(world.annotations.is_empty());
}

#[test]
fn a_paused_pool_announces_no_purchase_and_takes_back_one_that_was_not_sent() {
    let mut world = buying(2);
    world.pause("pool", Some(WHY));
    world.start();
    world.run(120);
    assert_eq!((world.created, world.total("create")), (0, 0));
    assert_eq!(world.verdict("pool", "Ready").1, "Paused");
    world.pause("pool", None);
    // The intent is on its way to the server, and no request was sent.
    world.faults.held_status_writes = Some(Vec::new());
    world.run(2);
    world.pause("pool", Some(WHY));
    world.release_status_writes();
    world.run(120);
    assert_eq!(world.total("create"), 0);
    let intent = |world: &World| world.status("pool").memory.as_ref().and_then(|m| m.intent.clone());
    assert_eq!(intent(&world), None, "another pool of the account may buy");
    world.pause("pool", None);
    world.run(60);
    assert_eq!(world.created, 2);
}

#[test]
fn an_open_purchase_is_resolved_and_written_down_while_the_pool_is_paused() {
    for (trick, restart) in [
        (Trick::Fine, false),
        (Trick::Slow(5), false),
        (Trick::Lost(true), false),
        (Trick::Lost(true), true),
        (Trick::Lost(false), true),
    ] {
        let what = format!("{trick:?}, restart {restart}");
        let mut world = buying(1);
        world.tricks.push_back(trick);
        world.start();
        world.run_while(10, |world| world.total("create") == 0);
        world.pause("pool", Some(WHY));
        if restart {
            world.start();
        }
        world.add_pool("other", RawPoolSpec { desired_ips: 1, ..spec() });
        world.run(200);
        let bought = usize::from(trick != Trick::Lost(false));
        let pool = world.pools["pool"].spec.clone().unwrap();
        assert_eq!(pool.ips.len(), bought, "{what}");
        assert_eq!(world.status("pool").memory.as_ref().unwrap().intent, None, "{what}");
        assert_eq!(world.created, bought + 1, "{what}: the other pool buys its own");
        assert_eq!(world.status("other").memory.as_ref().unwrap().created.len(), 1, "{what}");
    }
}

#[test]
fn reads_go_on_and_claims_hold_while_a_pool_is_paused() {
    let mut world = paused();
    let from = world.now;
    world.add_ip(3);
    world.add_pool("younger", spec_of([1, 3]));
    world.run(200);
    assert!(world.count(from, "list") >= 4);
    assert!(world.entry("younger", 1).error.contains("older pool ns/pool"));
    assert_eq!((world.holder(1), world.holder(3)), (Some(ip(1)), Some(ip(3))));
    world.move_by_hand(1, None);
    world.run(70);
    assert_eq!(world.entry("pool", 1).state, "unassigned");
}

#[test]
fn after_the_pause_the_account_is_listed_before_the_first_change() {
    for (late_ms, contradiction) in [(0, None), (7_000, None), (0, Some(crate::faults::CONTRADICTION))] {
        let mut world = paused();
        world.set_node(1, false);
        world.run(30);
        world.faults.contradiction = contradiction;
        // The last regular list is some seconds old, and somebody has moved the address since.
        world.run_while(100, |world| {
            world.calls.last().is_none_or(|(at, call)| call != "list" || *at != world.now)
        });
        world.run(1);
        world.move_by_hand(1, Some(3));
        let from = world.now;
        world.faults.late_lists_ms = late_ms;
        world.pause("pool", None);
        world.run(60);
        let first = |what: &str| {
            world.calls.iter().find(|(at, call)| *at >= from && call.starts_with(what)).map(|(at, _)| *at)
        };
        assert_eq!(first("list"), Some(from), "late {late_ms}, {contradiction:?}");
        assert_eq!(first("assign"), None, "it is where it should be, late {late_ms}, {contradiction:?}");
        assert_eq!(world.annotations["node-3"], ip(1).to_string(), "late {late_ms}, {contradiction:?}");
    }
}

#[test]
fn no_change_comes_before_the_list_that_follows_a_pause() {
    for hold in [1, 20, 100] {
        let mut world = paused();
        world.set_node(1, false);
        world.run(30);
        world.faults.lists = Some(FaultKind::Transient);
        world.pause("pool", None);
        let (before, annotations) = (begun(&world), world.annotations.clone());
        world.run(hold);
        assert_eq!((begun(&world), &world.annotations), (before, &annotations), "for {hold} s");
        assert_eq!(world.verdict("pool", "Ready"), ("False", "Assigning"));
        world.faults.lists = None;
        world.run(60);
        assert_eq!(world.holder(3), Some(ip(1)), "for {hold} s");
    }
}

#[test]
fn a_pause_of_one_pool_holds_up_no_other() {
    let mut world = World::with(1, 1);
    world.run(70);
    world.pause("pool", Some(WHY));
    world.add_ip(2);
    world.add_pool("other", spec_of([2]));
    world.run(5);
    world.set_node(2, true);
    world.run(2);
    assert_eq!(world.holder(2), Some(ip(2)));
    // The end of the pause does not either.
    world.faults.late_lists_ms = 20_000;
    world.pause("pool", None);
    world.set_node(2, false);
    world.set_node(3, true);
    world.run(2);
    assert_eq!(world.holder(3), Some(ip(2)));
}

#[test]
fn a_pause_that_a_standby_saw_end_is_over_for_it_too() {
    let mut world = paused();
    world.stand_by();
    world.pause("pool", None);
    world.set_node(1, false);
    world.observe(Input::Permit(true));
    world.lead_again();
    world.run(5);
    assert_eq!(world.holder(3), Some(ip(1)));
}
