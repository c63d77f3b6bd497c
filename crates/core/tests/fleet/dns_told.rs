//! The conditions of a record set in words, and the Events that come with them.

use crate::dns::pool;
use crate::faults::nodes_key;
use crate::world::World;
use crate::zones::{DnsTrick, set_spec};
use flipop_core::fleet::Input;
use flipop_core::model::{FaultKind, Observed};

#[test]
fn what_is_published_is_told_and_what_stays_although_nothing_is_to_be() {
    let mut world = World::with_set(2);
    world.run(10);
    assert_eq!(world.told("set", "Ready"), ("True", "Published", "2 addresses: 203.0.113.1, 203.0.113.2"));
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().when_empty = "Keep".into());
    world.set_node(2, false);
    world.run(10);
    assert_eq!(world.told("set", "Ready"), ("True", "Published", "1 address: 203.0.113.1"));
    world.set_node(1, false);
    world.run(10);
    let stays = "no node matches spec.match (of 2 nodes: 2 are not Ready (node-1, node-2)); the records stay: 203.0.113.1";
    assert_eq!(world.told("set", "Ready"), ("False", "NoMatchingNode", stays));
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().when_empty = "Delete".into());
    world.run(10);
    let waits = "no node matches spec.match (of 2 nodes: 2 are not Ready (node-1, node-2)); the records stay for now \
                 (FLIPOP deletes them if no node matches within 10 min): 203.0.113.1";
    assert_eq!(world.told("set", "Ready"), ("False", "NoMatchingNode", waits));
    assert_eq!(world.set_status("set").state, "active");
    world.run_while(700, |world| world.dns.emptied.is_empty());
    assert_eq!(world.dns.emptied.len(), 1);
    world.run(30);
    assert_eq!(
        world.told("set", "Ready"),
        (
            "False",
            "NoMatchingNode",
            "no node matches spec.match (of 2 nodes: 2 are not Ready (node-1, node-2)); no address is published"
        )
    );

    let mut bare = World::with_set(1);
    bare.run(10);
    for n in [1, 2] {
        bare.set_node(n, true);
        let node = bare.nodes.get_mut(&format!("node-{n}")).unwrap();
        node.external_ips.clear();
        let node = node.clone();
        bare.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    }
    bare.run(10);
    let stays = "no matching node has an address to publish; the records stay: 203.0.113.1";
    assert_eq!(bare.told("set", "Ready"), ("True", "Kept", stays));
}

#[test]
fn a_passing_failure_is_told_only_when_it_comes_again_and_again() {
    for (kind, failures, told) in [
        (FaultKind::Transient, TOLD - 1, false),
        (FaultKind::Transient, TOLD, true),
        (FaultKind::InProgress, TOLD - 1, false),
    ] {
        let mut world = World::with_set(1);
        world.run(10);
        world.dns.tricks.extend(vec![DnsTrick::Refused(0, kind); failures]);
        world.set_node(2, true);
        let mut seen = false;
        for _ in 0..600 {
            world.run_until(world.now.plus_millis(100));
            seen |= world.told("set", "Ready").2.contains("by a trick");
        }
        assert_eq!((seen, world.published("www.example.com").len()), (told, 2), "{kind} {failures}");
    }
}

/// How many failures in a row it takes until the status tells of them.
const TOLD: usize = 2;

#[test]
fn a_mistake_in_a_spec_is_one_event_of_the_object_that_has_it() {
    let mut set = World::with_set(1);
    set.edit_set("set", |spec| spec.record_set.as_mut().unwrap().record_name = "a b".into());
    set.run(10);
    assert_eq!((set.events_of("InvalidSpec").len(), set.told("set", "Ready").1), (1, "InvalidSpec"));
    let mut pool = pool(1, 1);
    pool.edit("pool", |spec| spec.record_set.as_mut().unwrap().record_name = "a b".into());
    pool.run(10);
    assert_eq!(pool.events_of("InvalidSpec").len(), 1);
}

#[test]
fn a_provider_that_nobody_knows_is_told_once_and_where_it_is_written() {
    let unknown = "unknown provider \"nobody\"";
    let mut inherited = World::with_set(1);
    inherited.edit_set("set", |spec| spec.provider = "nobody".into());
    inherited.run(10);
    assert!(
        inherited.told("set", "Ready").2.starts_with(&format!("spec.provider: {unknown}")),
        "{:?}",
        inherited.told("set", "Ready")
    );
    let mut own = World::with_set(1);
    own.edit_set("set", |spec| spec.record_set.as_mut().unwrap().provider = "nobody".into());
    own.run(10);
    assert!(
        own.told("set", "Ready").2.starts_with(&format!("spec.dnsRecordSet.provider: {unknown}")),
        "{:?}",
        own.told("set", "Ready")
    );
    let mut pool = pool(1, 1);
    pool.edit("pool", |spec| spec.provider = "nobody".into());
    pool.run(10);
    let valid = pool.condition("pool", "SpecValid").unwrap();
    assert_eq!(valid.message.matches("nobody").count(), 1, "{}", valid.message);
}

#[test]
fn what_is_wrong_with_a_ttl_is_told_in_words() {
    for (ttl, words) in [
        (-1, "-1 is negative; write seconds, or leave it out for 60"),
        (1 << 40, "1099511627776 is more than any provider allows; use at most "),
        (i64::from(u32::MAX), "4294967295 is more than the provider allows; use at most "),
        (0, ""),
    ] {
        let mut world = World::with_set(1);
        world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().ttl = ttl);
        world.run(10);
        let valid = world.condition("set", "SpecValid").unwrap();
        assert_eq!(valid.status == "True", words.is_empty());
        let field = if words.is_empty() { "" } else { "spec.dnsRecordSet.ttl: " };
        assert!(valid.message.starts_with(&format!("{field}{words}")), "{}", valid.message);
    }
}

#[test]
fn what_stands_in_a_field_is_shown_and_a_spec_that_cannot_be_read_is_its_only_mistake() {
    let mut world = World::with_set(1);
    world.edit_set("set", |spec| {
        spec.address_type = "Somewhere".into();
        spec.record_set.as_mut().unwrap().when_empty = "Later".into();
    });
    world.run(10);
    let message = |world: &World| world.told("set", "SpecValid").2.to_owned();
    let both = message(&world);
    assert!(both.contains("\"Somewhere\"") && both.contains("\"Later\""), "{both}");
    for reason in ["no map", "no list"] {
        let set = world.record_sets.get_mut("set").unwrap();
        set.spec = Err(reason.to_owned());
        set.generation += 1;
        let set = set.clone();
        world.observe(Input::RecordSets(Observed::Apply(set)));
        world.run(10);
        assert_eq!(message(&world), format!("spec: cannot be read: {reason}"));
    }
}

#[test]
fn what_a_node_lacks_is_told_by_the_type_of_the_addresses() {
    for (address_type, lacking) in [
        ("ExternalIP", "an IPv4 address of type ExternalIP"),
        ("InternalIP", "an IPv4 address of type InternalIP"),
        (
            "flipop.digitalocean.com/ipv4-reserved-ip",
            "in the annotation flipop.digitalocean.com/ipv4-reserved-ip",
        ),
    ] {
        let mut world = World::with_set(1);
        let node = world.nodes.get_mut("node-1").unwrap();
        node.external_ips.clear();
        node.internal_ips.clear();
        let node = node.clone();
        world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
        world.edit_set("set", |spec| spec.address_type = address_type.into());
        world.run(10);
        let missing = world.condition("set", "AddressMissing").unwrap();
        assert!(
            missing.message.contains(lacking) && missing.message.contains("node-1"),
            "{}",
            missing.message
        );
    }
}

#[test]
fn of_another_name_nothing_is_told_before_it_was_read() {
    let mut world = World::with_set(2);
    world.run(10);
    assert_eq!(world.set_status("set").addresses.len(), 2);
    world.dns.read_fault = Some(FaultKind::Permanent);
    world.edit_set("set", |spec| *spec = set_spec("api"));
    world.run(60);
    let status = world.set_status("set");
    assert_eq!((status.fqdn.as_str(), status.addresses.len()), ("api.example.com", 0));
}

#[test]
fn changes_that_have_to_wait_keep_no_name_from_being_read() {
    let mut world = World::with_set(1);
    world.run(60);
    world.observe(Input::Permit(false));
    world.set_node(2, true);
    let reads = world.dns.reads;
    let flap = |world: &mut World, times: u32| {
        for number in 0..times {
            world.set_node(3, number % 2 == 0);
            world.run(10);
        }
    };
    flap(&mut world, 370);
    assert_eq!((world.dns.reads, world.dns.applies.len()), (reads + 6, 1));
    // A failed read is retried on the same schedule as any other.
    world.dns.read_fault = Some(FaultKind::Permanent);
    flap(&mut world, 120);
    assert_eq!(world.dns.reads, reads + 9);
}
