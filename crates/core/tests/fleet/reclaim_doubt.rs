//! Addresses that are given back, in doubt. Without certainty nothing is deleted, and the status says why.

use crate::faults::{spec, spec_of};
use crate::reclaim::{FIRST, bought, release};
use crate::world::{Trick, World, droplet, ip};
use crate::zones::{external, record_set, set_spec};
use flipop_core::fleet::Input;
use flipop_core::model::{AccountId, FaultKind, Observed, ReservedIp, WriteFailure};

/// Runs until the first deletion is about to be sent.
fn nearly(world: &mut World) {
    release(world, FIRST);
    world.run_while(5, |world| world.total("unassign") == 0);
    world.run_until(world.now.plus_millis(1_000));
}

#[test]
fn an_address_that_another_pool_names_is_kept_for_good() {
    for muted in [false, true] {
        let mut world = bought(2, |_| {});
        release(&mut world, FIRST);
        world.run(10);
        // Without a watch only the lists show it.
        world.add_pool("other", spec_of([FIRST]));
        if muted {
            let seen = world.pools["other"].clone();
            world.start();
            world.observe(Input::Pools(Observed::Delete(seen)));
        }
        world.run(300);
        assert_eq!((world.total("delete"), world.bought("pool", ip(FIRST))), (0, None), "{muted}");
        assert!(
            world.message("pool", "ReclaimKept").is_some_and(|told| told.contains("ns/other")),
            "{muted}"
        );
        assert!(!world.events_of("ReclaimKept").is_empty());
        world.delete_pool("other");
        world.run(300);
        assert_eq!(world.total("delete"), 0, "{muted}: not even when nobody names it any more");
        world.start();
        world.run(60);
        assert!(world.has("pool", "ReclaimKept"), "a new leader goes on saying so");
        world.edit("pool", |spec| spec.released_ips.clear());
        world.run(10);
        assert!(!world.has("pool", "ReclaimKept"));
    }
}

#[test]
fn an_address_that_somebody_moved_is_kept() {
    for to in [3, 90] {
        let mut world = bought(2, |_| {});
        release(&mut world, FIRST);
        world.run(10);
        world.cloud.get_mut(&ip(90)).unwrap().machine = None;
        world.cloud.get_mut(&ip(FIRST)).unwrap().machine = Some(droplet(to));
        world.run(300);
        assert_eq!((world.total("delete"), world.total("unassign")), (0, 0), "{to}");
        assert_eq!(world.cloud[&ip(FIRST)].machine, Some(droplet(to)));
        assert!(world.message("pool", "ReclaimKept").is_some_and(|told| told.contains("192.0.2.201")));
    }
}

#[test]
fn an_address_on_a_droplet_that_left_the_cluster_waits() {
    let mut world = bought(2, |_| {});
    world.delete_node(1);
    release(&mut world, FIRST);
    world.run(300);
    assert_eq!((world.total("delete"), world.cloud[&ip(FIRST)].machine.clone()), (0, Some(droplet(1))));
    assert!(
        world
            .message("pool", "ReclaimBlocked")
            .is_some_and(|told| told.contains("not a node of this cluster"))
    );
    world.cloud.get_mut(&ip(FIRST)).unwrap().machine = None;
    world.run(120);
    assert_eq!(world.total("delete"), 1);
}

#[test]
fn a_locked_address_waits_and_the_condition_says_how_to_keep_it() {
    let mut world = bought(2, |_| {});
    release(&mut world, FIRST);
    world.run(5);
    world.cloud.get_mut(&ip(FIRST)).unwrap().locked = true;
    world.run(300);
    assert_eq!((world.total("delete"), world.total("unassign")), (0, 0));
    let told = world.message("pool", "ReclaimBlocked").unwrap();
    let way = "kubectl patch fipool pool -n ns --type merge -p '{\"spec\":{\"reclaimPolicy\":\"Retain\"}}'";
    assert!(told.contains(way), "{told}");
    assert!(!world.events_of("ReclaimBlocked").is_empty());
    world.cloud.get_mut(&ip(FIRST)).unwrap().locked = false;
    world.run(120);
    assert_eq!(world.total("delete"), 1);
    assert!(!world.has("pool", "ReclaimBlocked"));
}

#[test]
fn a_token_without_the_scope_is_tried_once_a_minute_and_a_new_one_at_once() {
    let mut world = bought(2, |_| {});
    nearly(&mut world);
    world.tricks.extend([Trick::Refused(FaultKind::Unauthorized); 2]);
    let from = world.now;
    world.run(110);
    assert_eq!(world.count(from, "delete"), 2);
    assert!(
        world
            .status("pool")
            .conditions
            .iter()
            .any(|told| { told.kind == "ReclaimBlocked" && told.reason == "Unauthorized" })
    );
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run(5);
    assert_eq!(world.count(from, "create"), 1, "what was refused keeps no purchase waiting");
    world.run(120);
    assert!(!world.cloud.contains_key(&ip(FIRST)));
}

#[test]
fn a_token_without_the_scope_is_tried_once_a_minute_for_all_of_its_addresses() {
    let mut world = bought(3, |_| {});
    release(&mut world, FIRST);
    release(&mut world, FIRST + 1);
    world.run_while(5, |world| world.total("unassign") < 2);
    world.run_until(world.now.plus_millis(1_000));
    world.tricks.extend([Trick::Refused(FaultKind::Unauthorized); 8]);
    let from = world.now;
    world.run(110);
    assert_eq!(world.count(from, "delete"), 3, "two before it is known, and one a minute later");
}

#[test]
fn what_the_server_does_not_mark_is_not_deleted() {
    let mut world = bought(2, |_| {});
    nearly(&mut world);
    world.faults.unwritten = Some(("pool", WriteFailure::Forbidden("status".into())));
    world.run(200);
    assert_eq!(world.total("delete"), 0);
    world.faults.unwritten = None;
    world.run(600);
    assert_eq!(world.total("delete"), 1);
}

#[test]
fn a_lost_answer_ends_in_one_deletion_and_one_404() {
    for effect in [true, false] {
        let mut world = bought(2, |_| {});
        nearly(&mut world);
        world.tricks.push_back(Trick::Lost(effect));
        world.run(20);
        assert!(!world.cloud.contains_key(&ip(FIRST)), "{effect}");
        assert_eq!(world.bought("pool", ip(FIRST)), None, "{effect}");
        assert_eq!(world.total("delete"), if effect { 1 } else { 2 });
    }
}

#[test]
fn whatever_leader_takes_over_at_any_time_the_address_is_deleted_and_nothing_else() {
    for ms in (0..70_000).step_by(1_430).chain((62_000..66_000).step_by(40)) {
        let mut world = bought(2, |_| {});
        release(&mut world, FIRST);
        world.run_until(world.now.plus_millis(ms));
        world.start();
        world.run(200);
        assert!(!world.cloud.contains_key(&ip(FIRST)), "{ms}: {:?}", world.message("pool", "Reclaiming"));
        assert_eq!(world.bought("pool", ip(FIRST)), None, "{ms}");
        assert_eq!((world.holder(2), world.created), (Some(ip(202)), 2), "{ms}");
    }
}

#[test]
fn a_list_of_the_past_deletes_nothing_that_serves() {
    let mut world = bought(2, |_| {});
    nearly(&mut world);
    // Lists show it on no machine, but somebody has just put it on one.
    world.faults.stale = Some(world.cloud.clone());
    let read = ReservedIp { machine: Some(droplet(3)), ..world.cloud[&ip(FIRST)].clone() };
    world.cloud.insert(ip(FIRST), read);
    world.run(300);
    assert_eq!(world.total("delete"), 0);
}

#[test]
fn a_token_that_cannot_read_machines_deletes_nothing() {
    let mut world = bought(2, |_| {});
    nearly(&mut world);
    world.faults.blind = true;
    world.run(300);
    assert_eq!(world.total("delete"), 0);
}

#[test]
fn objects_that_cannot_be_read_may_name_it() {
    let mut world = bought(2, |_| {});
    world.faults.object_lists = Some(WriteFailure::Forbidden("may not list".into()));
    release(&mut world, FIRST);
    world.run(300);
    assert_eq!(world.total("delete"), 0);
    assert!(world.message("pool", "ReclaimBlocked").is_some_and(|told| told.contains("may not list")));
    world.faults.object_lists = None;
    world.add_pool("other", spec());
    let mut other = world.pools["other"].clone();
    other.spec = Err("no such field".into());
    world.put_pool(other.clone());
    world.run(700);
    assert_eq!(world.total("delete"), 0);
    assert!(world.message("pool", "ReclaimBlocked").is_some_and(|told| told.contains("ns/other")));
    other.spec = Ok(spec_of([90]));
    world.put_pool(other);
    world.run(700);
    assert_eq!(world.total("delete"), 1);
}

#[test]
fn a_record_that_an_object_wants_keeps_it() {
    let mut world = bought(2, |_| {});
    // A node names it as its own address.
    let mut node = world.nodes["node-3"].clone();
    node.external_ips = vec![ip(FIRST), external(3)];
    world.nodes.insert(node.name.clone(), node.clone());
    world.show_node(node);
    world.add_record_set("nodes", set_spec("nodes"));
    world.run(20);
    release(&mut world, FIRST);
    world.run(2_000);
    assert_eq!(world.total("delete"), 0);
    let told = world.message("pool", "ReclaimBlocked").unwrap();
    assert!(told.contains("nodes.example.com") && told.contains("ns/nodes"), "{told}");
    world.delete_record_set("nodes");
    world.run(4_000);
    assert_eq!(world.total("delete"), 1, "what nobody wants any more is taken out");
    assert!(!world.published("nodes.example.com").contains(&FIRST));
}

#[test]
fn a_record_set_that_only_the_lists_show_keeps_what_it_publishes() {
    let mut world = bought(2, |_| {});
    world.add_record_set("nodes", set_spec("nodes"));
    let seen = world.record_sets["nodes"].clone();
    world.start();
    world.observe(Input::RecordSets(Observed::Delete(seen)));
    world.record_sets.get_mut("nodes").unwrap().status.addresses = vec![ip(FIRST)];
    release(&mut world, FIRST);
    world.run(2_000);
    assert_eq!(world.total("delete"), 0);
    let told = world.message("pool", "ReclaimBlocked").unwrap();
    assert!(told.contains("ns/nodes publishes it"), "{told}");
    world.record_sets.remove("nodes");
    world.run(2_000);
    assert_eq!(world.total("delete"), 1);
}

#[test]
fn a_record_that_comes_back_while_the_ttl_is_waited_for_keeps_it() {
    let mut world = bought(2, |_| {});
    world.edit("pool", |spec| spec.record_set = Some(record_set("new")));
    world.run(20);
    release(&mut world, FIRST);
    world.run(30);
    assert_eq!(world.published("www.example.com"), [202]);
    world.dns.add(crate::world::PROVIDER, "example.com", "www.example.com", "A", "192.0.2.201");
    // The check of each deletion fails if that was missed.
    world.run(4_000);
    assert_eq!(world.total("delete"), 1);
    assert_eq!(world.published("www.example.com"), [202]);
}

#[test]
fn a_change_of_mind_keeps_it() {
    for seconds in [1, 30, 61] {
        let mut world = bought(2, |_| {});
        release(&mut world, FIRST);
        world.run(seconds);
        world.edit("pool", |spec| spec.reclaim_policy = "Retain".into());
        world.run(1);
        let gone = world.total("delete") > 0;
        world.run(600);
        assert_eq!(world.total("delete") > 0, gone, "{seconds}");
        assert!(!world.has("pool", "Reclaiming"));
    }
}

#[test]
fn another_account_in_the_spec_gives_nothing_back() {
    let mut world = bought(2, |_| {});
    release(&mut world, FIRST);
    world.edit("pool", |spec| spec.provider = "another".into());
    world.run(300);
    assert_eq!(world.total("delete"), 0);
    assert_eq!(
        world.bought("pool", ip(FIRST)).map(|bought| bought.account_id.clone()),
        Some(AccountId::from(crate::world::PROVIDER))
    );
}
