//! Addresses that are given back: the order of the steps, and the addresses that are never deleted.

use crate::creation::buying;
use crate::world::{PROVIDER, Trick, World, ip};
use crate::zones::{record_set, set_spec};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::model::{Moment, RESERVED_IP_ANNOTATION};
use flipop_core::records::spec::RawRecordSetSpec;

const WWW: &str = "www.example.com";

/// The first address that is bought.
pub(crate) const FIRST: u8 = 201;

/// A pool that gives back its bought addresses. This many are bought, assigned and published.
pub(crate) fn bought(count: i64, edit: impl FnOnce(&mut RawPoolSpec)) -> World {
    let mut world = buying(count);
    world.edit("pool", |spec| {
        spec.reclaim_policy = "Delete".into();
        spec.record_set = Some(record_set("www"));
        edit(spec);
    });
    world.start();
    world.run(30);
    world
}

/// Lets an address go, as the documents tell users to.
pub(crate) fn release(world: &mut World, n: u8) {
    world.edit("pool", |spec| {
        spec.released_ips.push(ip(n).to_string());
        spec.ips.retain(|named| *named != ip(n).to_string());
        spec.desired_ips -= 1;
    });
}

fn at(world: &World, what: &str) -> Moment {
    let found = world.calls.iter().find(|(_, call)| call.starts_with(what));
    found.unwrap_or_else(|| panic!("no {what}: {:?}", world.calls)).0
}

#[test]
fn a_released_address_leaves_records_annotation_and_node_and_is_deleted() {
    let mut world = bought(2, |_| {});
    assert_eq!(world.published(WWW), [FIRST, 202]);
    assert!(world.bought("pool", ip(FIRST)).is_some_and(|bought| bought.names.len() == 1));
    let from = world.now;
    world.calls.clear();
    release(&mut world, FIRST);
    world.run(50);
    assert_eq!(world.published(WWW), [202]);
    assert!(
        world.holder(1) == Some(ip(FIRST)) && world.annotations.contains_key("node-1"),
        "clients know it"
    );
    world.run(40);
    let order = ["apply", "unassign", "list objects", "get", "delete"].map(|what| at(&world, what));
    assert!(order.is_sorted(), "{:?}", world.calls);
    let waited = at(&world, "unassign").millis_since(from) / 1_000;
    assert!((60..=64).contains(&waited), "the TTL is waited for: {waited} s");
    let took = at(&world, "delete").millis_since(at(&world, "unassign"));
    assert!(took < 5_000, "{took} ms: {:?}", world.calls);
    assert!(!world.cloud.contains_key(&ip(FIRST)));
    assert_eq!(world.bought("pool", ip(FIRST)), None);
    assert!(world.bought("pool", ip(202)).is_some());
    assert_eq!(world.holder(2), Some(ip(202)), "the other one stays");
    let told = world.events.iter().find(|event| event.reason.as_str() == "Reclaimed");
    assert_eq!(told.map(|told| told.warning), Some(false));
    assert!(!world.has("pool", "Reclaiming") && !world.has("pool", "ReclaimKept"));
    assert_eq!(world.count(from, "create"), 0);
}

#[test]
fn what_is_left_in_spec_ips_goes_there_when_the_address_is_gone() {
    let mut world = bought(2, |_| {});
    world.edit("pool", |spec| {
        spec.released_ips.push(ip(FIRST).to_string());
        spec.desired_ips -= 1;
    });
    world.run(50);
    let ips = |world: &World| world.pools["pool"].spec.as_ref().unwrap().ips.clone();
    assert_eq!(ips(&world).len(), 2);
    world.run(50);
    assert_eq!(ips(&world), [ip(202).to_string()]);
    assert_eq!(world.bought("pool", ip(FIRST)), None);
    world.run(120);
    assert_eq!(world.total("delete"), 1);
}

#[test]
fn without_the_policy_nothing_is_deleted_then_or_later() {
    for policy in ["", "Retain", "delete", "Recycle"] {
        let mut world = bought(2, |spec| spec.reclaim_policy = policy.into());
        assert!(world.bought("pool", ip(FIRST)).is_some(), "it is noted all the same");
        let odd = !matches!(policy, "" | "Retain");
        let told = world.status("pool").conditions.iter().any(|told| told.reason == "PolicyIgnored");
        assert_eq!(told, odd, "{policy}");
        release(&mut world, FIRST);
        world.run(100);
        assert_eq!(world.bought("pool", ip(FIRST)), None);
        world.edit("pool", |spec| spec.reclaim_policy = "Delete".into());
        world.run(600);
        assert!(world.cloud.contains_key(&ip(FIRST)), "{policy}: it was let go for good");
        assert_eq!(world.total("delete"), 0);
    }
}

#[test]
fn an_address_that_no_answer_named_is_never_deleted() {
    // Bought by a request whose answer was lost, and adopted.
    let mut world = buying(1);
    world.edit("pool", |spec| spec.reclaim_policy = "Delete".into());
    world.tricks.push_back(Trick::Lost(true));
    world.start();
    world.run(120);
    assert_eq!((world.holder(1), world.bought("pool", ip(FIRST))), (Some(ip(FIRST)), None));
    release(&mut world, FIRST);
    world.edit("pool", |spec| spec.ips = vec![ip(90).to_string()]);
    world.run(300);
    // Written by a user, and counted as created because the memory is missing.
    let mut other = World::with(2, 2);
    other.edit("pool", |spec| {
        (spec.desired_ips, spec.region) = (2, "nyc3".into());
        spec.reclaim_policy = "Delete".into();
    });
    other.run(60);
    release(&mut other, 1);
    other.run(300);
    for (world, n) in [(world, FIRST), (other, 1)] {
        assert!(world.cloud.contains_key(&ip(n)));
        assert_eq!(world.total("delete"), 0);
    }
}

#[test]
fn fewer_desired_addresses_delete_none_and_the_status_says_that_they_cost() {
    let mut world = bought(2, |_| {});
    world.edit("pool", |spec| spec.desired_ips = 1);
    world.run(600);
    assert_eq!(world.total("delete"), 0);
    assert!(world.message("pool", "AddressesIdle").is_some_and(|told| told.contains("192.0.2.202")));
}

#[test]
fn the_last_record_goes_too_whatever_when_empty_says() {
    let mut world = bought(1, |spec| spec.record_set.as_mut().unwrap().when_empty = "Keep".into());
    assert_eq!(world.published(WWW), [FIRST]);
    world.edit("pool", |spec| {
        spec.released_ips.push(ip(FIRST).to_string());
        // An address that is not in the account, so that no other one takes the place.
        spec.ips = vec![ip(91).to_string()];
    });
    world.run(150);
    assert!(world.published(WWW).is_empty(), "an address that strangers will get is in no record");
    assert!(!world.cloud.contains_key(&ip(FIRST)));
}

#[test]
fn records_of_nodes_and_records_at_former_names_give_it_up_as_well() {
    let mut world = bought(2, |_| {});
    let nodes = RawRecordSetSpec { address_type: RESERVED_IP_ANNOTATION.into(), ..set_spec("nodes") };
    world.add_record_set("nodes", nodes);
    world.run(20);
    assert_eq!(world.published("nodes.example.com"), [FIRST, 202]);
    world.edit("pool", |spec| spec.record_set = Some(record_set("new")));
    world.run(20);
    assert_eq!(world.published(WWW), [FIRST, 202], "an edit leaves the records of the former name");
    assert_eq!(world.bought("pool", ip(FIRST)).unwrap().names.len(), 3);
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.7");
    release(&mut world, FIRST);
    world.run(20);
    assert_eq!(world.published("nodes.example.com"), [202], "while its node still carries the annotation");
    assert!(world.annotations.contains_key("node-1"));
    let stays = world.dns.addresses(PROVIDER, WWW);
    assert_eq!(stays, [ip(202), "198.51.100.7".parse().unwrap()], "nothing else goes there");
    world.run(2_000);
    assert!(!world.cloud.contains_key(&ip(FIRST)));
    assert_eq!(world.published("nodes.example.com"), [202]);
}

#[test]
fn crds_that_know_nothing_of_it_delete_nothing() {
    let mut world = bought(2, |_| {});
    world.go_crds = true;
    release(&mut world, FIRST);
    world.run(600);
    assert_eq!(world.total("delete"), 0);
    assert!(world.cloud.contains_key(&ip(FIRST)));
}

#[test]
fn a_status_that_was_copied_to_another_object_gives_nothing_back() {
    let mut world = bought(2, |_| {});
    let mut copy = world.pools["pool"].clone();
    world.delete_pool("pool");
    world.run(10);
    copy.object.uid = flipop_core::model::ids::Uid("another".into());
    world.put_pool(copy);
    world.start();
    world.run(10);
    release(&mut world, FIRST);
    world.run(300);
    assert_eq!(world.total("delete"), 0);
    assert!(world.cloud.contains_key(&ip(FIRST)));
}

#[test]
fn a_paused_pool_gives_back_nothing_until_the_pause_is_over() {
    let mut world = bought(2, |_| {});
    world.pause("pool", Some("maintenance"));
    release(&mut world, FIRST);
    world.run(300);
    assert_eq!((world.published(WWW), world.holder(1)), (vec![FIRST, 202], Some(ip(FIRST))));
    assert!(world.message("pool", "Reclaiming").is_some_and(|told| told.contains("paused")));
    world.pause("pool", None);
    world.run(120);
    assert!(!world.cloud.contains_key(&ip(FIRST)));
}

#[test]
fn purchases_and_deletions_take_turns() {
    // The pool wants a replacement at once, and the answer to its purchase is lost.
    let mut world = bought(2, |_| {});
    world.edit("pool", |spec| spec.released_ips.push(ip(FIRST).to_string()));
    world.tricks.push_back(Trick::Lost(true));
    world.run(200);
    assert!(!world.cloud.contains_key(&ip(FIRST)) && world.cloud.contains_key(&ip(203)));
    assert_eq!(world.created, 3, "one replacement, and it was found");
    // While the outcome of a deletion is unknown, nothing is bought.
    let mut world = bought(2, |_| {});
    // The unassignment, and the deletion after it.
    world.tricks.extend([Trick::Fine, Trick::Slow(20)]);
    release(&mut world, FIRST);
    world.run_while(5, |world| world.total("delete") == 0);
    let from = world.now;
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run(18);
    assert_eq!(world.count(from, "create"), 0);
    world.run(30);
    assert_eq!(world.count(from, "create"), 1);
}

#[test]
fn no_deletion_is_sent_while_nobody_knows_what_a_purchase_brought() {
    let mut world = bought(2, |_| {});
    release(&mut world, FIRST);
    world.run_while(200, |world| world.total("unassign") == 0);
    // The answer to a purchase is lost just before the deletion is due.
    world.tricks.push_back(Trick::Lost(true));
    world.edit("pool", |spec| spec.desired_ips = 2);
    world.run_while(20, |world| world.created < 3);
    let bought_at = world.now;
    let open =
        |world: &World| world.status("pool").memory.as_ref().is_some_and(|memory| memory.intent.is_some());
    assert!(open(&world), "the purchase is undecided");
    world.run_while(300, open);
    assert_eq!(world.count(bought_at, "delete"), 0);
    world.run(200);
    assert_eq!(world.count(bought_at, "delete"), 1);
    assert_eq!(world.created, 3, "and it was found");
}
