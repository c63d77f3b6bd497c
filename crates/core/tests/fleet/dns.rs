//! Record sets without faults: which addresses are published, when, and in how many calls.

use crate::faults::{nodes_key, spec_of};
use crate::world::{PROVIDER, World, ip};
use crate::zones::{CLOUDFLARE, ZONE_ID, external, record_set, set_spec};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::spec::{RawMatch, RawRecordSet};
use flipop_core::model::{Observed, PodFacts, RESERVED_IP_ANNOTATION, WatchKey};
use flipop_core::records::spec::RawRecordSetSpec;

const WWW: &str = "www.example.com";

/// A pool of this many addresses with a record set, and this many nodes.
pub(crate) fn pool(addresses: u8, nodes: u8) -> World {
    let mut world = World::bare(addresses, nodes);
    world.add_pool("pool", RawPoolSpec { record_set: Some(record_set("www")), ..spec_of(1..=addresses) });
    world.start();
    world
}

#[test]
fn the_addresses_of_matching_nodes_are_published_and_nothing_else_changes() {
    let mut world = World::with_set(3);
    let before = world.dns.foreign(&[WWW]);
    world.run(5);
    assert_eq!(world.published(WWW), [1, 2, 3]);
    assert_eq!((world.dns.reads, world.dns.applies.len(), world.dns.changes), (1, 1, 3));
    let status = world.set_status("set");
    assert_eq!((status.state.as_str(), status.error.as_str(), status.fqdn.as_str()), ("active", "", WWW));
    assert_eq!(status.addresses, [external(1), external(2), external(3)]);
    assert_eq!(status.observed_generation, 1);
    let snapshot = world.fleet.snapshot();
    let set = &snapshot.record_sets[0];
    assert_eq!((set.dns.as_str(), set.records, set.provider.as_str()), (WWW, 3, PROVIDER));
    assert_eq!(world.dns.foreign(&[WWW]), before);
    let told: Vec<&str> = world.events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(told, ["www.example.com has 3 addresses now: 203.0.113.1, 203.0.113.2, 203.0.113.3"]);
    assert!(
        world.calls.iter().all(|(_, call)| call.starts_with("apply")),
        "no pool, no account: {:?}",
        world.calls
    );
}

#[test]
fn a_restart_writes_nothing_and_looks_twice() {
    for mut world in [World::with_set(3), pool(2, 3)] {
        world.run(20);
        let (applies, writes, reads) = (world.dns.applies.len(), world.status_writes, world.dns.reads);
        world.events.clear();
        world.start();
        world.run(120);
        assert_eq!((world.dns.applies.len(), world.status_writes), (applies, writes));
        assert_eq!(world.dns.reads, reads + 2);
        assert_eq!(world.events, []);
    }
}

#[test]
fn at_rest_a_name_is_read_every_ten_minutes_and_what_others_did_is_put_right() {
    let mut world = World::with_set(2);
    world.run(10);
    let (reads, writes) = (world.dns.reads, world.status_writes);
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
    world.run(3_600);
    assert_eq!(world.dns.reads, reads + 6);
    assert_eq!(world.published(WWW), [1, 2]);
    assert_eq!(world.dns.applies.len(), 2);
    assert_eq!(world.status_writes, writes, "before and after it was right");
}

#[test]
fn fifty_nodes_within_five_seconds_are_few_rounds() {
    for (pause_ms, rounds) in [(0, 1), (20, 1), (100, 3), (1, 1)] {
        let mut world = World::with_set(0);
        world.run(5);
        let begun = world.now;
        for n in 1..=50 {
            world.set_node(n, true);
            world.run_until(world.now.plus_millis(pause_ms));
        }
        let last = world.now;
        world.run(4);
        let first = world.dns.applies[0].millis_since(begun);
        assert!(first <= 2_100, "{first} ms until the first were published, {pause_ms} ms apart");
        assert_eq!(world.published(WWW).len(), 50, "{pause_ms} ms apart");
        // At this provider each change is a request of its own, so a round is more than one call.
        let calls = world.dns.reads + world.dns.changes;
        assert!(calls <= 60, "{calls} requests, {pause_ms} ms apart");
        let done = world.dns.applies.last().unwrap().millis_since(last);
        assert!(done <= 1_500, "{done} ms after the last node, {pause_ms} ms apart");
        assert!(world.dns.applies.len() <= rounds + 1, "{:?}", world.dns.applies);
    }
}

#[test]
fn at_a_provider_with_batches_a_round_is_one_call() {
    let mut world = World::with_set(0);
    world.edit_set("set", |spec| spec.provider = CLOUDFLARE.into());
    world.run(5);
    for n in 1..=50 {
        world.set_node(n, true);
        world.run_until(world.now.plus_millis(100));
    }
    world.run(3);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW).len(), 50);
    let calls = world.dns.lookups + world.dns.reads + world.dns.applies.len();
    // One of the reads was for the other provider, before the edit.
    assert!(calls <= 6, "{calls} calls, {:?}", world.dns.applies);
}

#[test]
fn a_flapping_node_costs_a_bounded_number_of_rounds() {
    let mut world = World::with_set(3);
    world.run(10);
    let before = world.dns.applies.len();
    for flap in 0..600 {
        world.set_node(1, flap % 2 == 0);
        world.run_until(world.now.plus_millis(100));
    }
    let rounds = world.dns.applies.len() - before;
    assert!(rounds <= 32, "{rounds} rounds in a minute");
    let mut world = pool(3, 3);
    world.run(10);
    let before = world.dns.applies.len();
    for flap in 0..600 {
        world.set_node(1, flap % 2 == 0);
        world.run_until(world.now.plus_millis(100));
    }
    let rounds = world.dns.applies.len() - before;
    assert!(rounds <= 62, "{rounds} rounds in a minute");
}

#[test]
fn when_every_node_stops_matching_a_node_set_is_deleted_once_and_a_kept_one_stays() {
    let mut world = World::with_set(3);
    world.add_record_set("kept", set_spec("kept"));
    world.edit_set("kept", |spec| spec.record_set.as_mut().unwrap().when_empty = "Keep".into());
    world.run(60);
    let before = world.dns.applies.len();
    (1..=3).for_each(|n| world.set_node(n, false));
    world.run(30);
    assert_eq!((world.published(WWW), world.published("kept.example.com")), (vec![], vec![1, 2, 3]));
    assert_eq!(world.dns.emptied, [WWW]);
    assert_eq!(world.dns.applies.len(), before + 1);
    assert!(world.set_status("set").addresses.is_empty());
    assert_eq!(world.set_status("set").state, "active");
    // FLIPOP deletes a name once. Records that somebody writes there later are theirs, even after a restart.
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
    world.run(700);
    world.start();
    world.run(700);
    assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![9], before + 1));
    (1..=3).for_each(|n| world.set_node(n, true));
    world.run(10);
    assert_eq!(world.published(WWW), [1, 2, 3]);
    assert_eq!(world.dns.emptied, [WWW]);
}

#[test]
fn what_was_deleted_once_at_one_provider_is_deleted_at_another_one_too() {
    let mut world = World::with_set(1);
    // The zone at the other provider is already known.
    let spec = RawRecordSetSpec { provider: CLOUDFLARE.into(), ..set_spec("other") };
    world.add_record_set("other", spec);
    world.run(10);
    world.set_node(1, false);
    world.run(30);
    assert_eq!(world.dns.emptied.len(), 2);
    // A record that the set left there at an earlier time.
    world.dns.add(CLOUDFLARE, ZONE_ID, WWW, "A", "198.51.100.9");
    world.edit_set("set", |spec| spec.provider = CLOUDFLARE.into());
    world.run(590);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW).len(), 1, "no node has matched this spec");
    world.run(60);
    assert!(world.dns.addresses(CLOUDFLARE, WWW).is_empty());
    assert_eq!(world.set_status("set").state, "active");
    // At this provider too, the name is deleted only once.
    world.dns.add(CLOUDFLARE, ZONE_ID, WWW, "A", "198.51.100.9");
    world.start();
    world.run(700);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW).len(), 1);
}

#[test]
fn a_pool_publishes_exactly_its_active_addresses_and_is_never_emptied() {
    let mut world = pool(2, 3);
    world.run(10);
    assert_eq!(world.published(WWW), [1, 2]);
    let status = world.status("pool");
    let published = status.record_set.as_ref().unwrap();
    assert_eq!((published.fqdn.as_str(), published.addresses.as_slice()), (WWW, &[ip(1), ip(2)][..]));
    assert!(status.conditions.iter().any(|c| c.kind == "RecordSetReady" && c.status == "True"));
    assert_eq!(world.fleet.snapshot().pools[0].dns, WWW);
    world.set_node(3, false);
    world.set_node(1, false);
    world.run(10);
    assert_eq!(world.published(WWW), [2]);
    world.set_node(2, false);
    world.run(30);
    assert_eq!(world.published(WWW), [2], "with none active the record stays");
    world.set_node(3, true);
    world.run(10);
    assert_eq!(world.published(WWW), [1], "the longest released one was given out");
    assert_eq!(world.dns.emptied, [""; 0]);
    world.delete_pool("pool");
    world.run(30);
    assert_eq!(world.published(WWW), [1], "a deleted pool leaves its records");
}

#[test]
fn a_pool_that_asks_for_it_is_deleted_when_empty() {
    let mut world = pool(2, 2);
    world.edit("pool", |spec| spec.record_set.as_mut().unwrap().when_empty = "Delete".into());
    world.run(10);
    (1..=2).for_each(|n| world.set_node(n, false));
    world.run(10);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![], 1));
}

#[test]
fn a_name_is_deleted_for_want_of_nodes_and_not_while_its_only_address_moves() {
    let mut world = pool(1, 2);
    world.edit("pool", |spec| spec.record_set.as_mut().unwrap().when_empty = "Delete".into());
    world.run(30);
    let before = world.dns.applies.len();
    world.set_node(1, false);
    world.run(30);
    assert_eq!((world.holder(2), world.published(WWW)), (Some(ip(1)), vec![1]));
    assert_eq!((world.dns.emptied.len(), world.dns.applies.len()), (0, before));
    // Matching nodes keep the name even if none of them can have the address.
    world.cloud.get_mut(&ip(1)).unwrap().locked = true;
    world.set_node(2, false);
    world.set_node(3, true);
    world.run(100);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![1], 0));
    world.set_node(3, false);
    world.run(30);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![], 1));
}

#[test]
fn a_failover_is_a_drop_round_and_a_publishing_round_of_one_call_each_at_once() {
    let mut world = pool(2, 3);
    world.run(60);
    let (reads, before) = (world.dns.reads, world.dns.applies.len());
    let start = world.now;
    world.set_node(1, false);
    world.run(10);
    assert_eq!(world.published(WWW), [1, 2]);
    assert_eq!(world.dns.reads, reads);
    let rounds: Vec<u64> = world.dns.applies.iter().skip(before).map(|at| at.millis_since(start)).collect();
    assert_eq!(rounds.len(), 2, "{rounds:?}");
    assert_eq!(rounds[0], 0, "the address that is lost goes at once");
    let confirmed = world.events.iter().filter(|notice| notice.reason.as_str() == "Assigned").count();
    assert_eq!(confirmed, 3);
    assert!(rounds[1] < 1_200, "{rounds:?}");
}

#[test]
fn what_is_not_complete_is_not_published() {
    let mut world = World::with_set(3);
    world.run(10);
    let before = world.dns.applies.len();
    world.fleet = crate::faults::fleet();
    world.observe(Input::Leading);
    world.observe(Input::Permit(true));
    let sets: Vec<_> = world.record_sets.values().cloned().collect();
    world.observe(Input::RecordSets(Observed::Reset(sets)));
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(world.nodes["node-1"].clone())));
    world.run(60);
    assert_eq!(world.dns.reads, 1, "not even asked");
    world.observe(Input::Pools(Observed::Reset(Vec::new())));
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(world.nodes["node-2"].clone())));
    world.run(60);
    assert_eq!(world.dns.applies.len(), before);
    world.follow();
    world.run(60);
    assert_eq!((world.dns.applies.len(), world.published(WWW)), (before, vec![1, 2, 3]));
}

#[test]
fn neither_a_leaving_pod_nor_an_annotated_node_that_does_not_match_makes_a_set_flicker() {
    let pod = |node: u8, serving: bool| PodFacts {
        namespace: "ns".into(),
        name: format!("pod-{node}"),
        node: format!("node-{node}"),
        serving,
        fails_since_s: None,
    };
    let mut world = World::bare(0, 3);
    for pod in [pod(1, true), pod(2, true), pod(3, false)] {
        world.pods.insert(pod.name.clone(), pod);
    }
    let matching = RawMatch { pod_namespace: "ns".into(), ..RawMatch::default() };
    world.add_record_set("set", RawRecordSetSpec { matching, ..set_spec("www") });
    world.foreign.extend(["node-1".to_owned(), "node-4".to_owned()]);
    world.annotations.insert("node-4".into(), external(4).to_string());
    world.set_node(4, false);
    let by_annotation = RawRecordSetSpec { address_type: RESERVED_IP_ANNOTATION.into(), ..set_spec("ann") };
    world.add_record_set("annotated", by_annotation);
    world.annotations.insert("node-1".into(), external(1).to_string());
    world.set_node(1, true);
    world.start();
    world.run(10);
    assert_eq!((world.published(WWW), world.published("ann.example.com")), (vec![1, 2], vec![1]));
    let changes = world.dns.changes;
    world.start();
    world.run(60);
    assert_eq!(world.dns.changes, changes);
    let pods = WatchKey::Pods { namespace: "ns".into(), selector: String::new() };
    world.observe(Input::Pods(pods, Observed::Apply(pod(2, false))));
    world.run(5);
    assert_eq!(world.published(WWW), [1]);
}

#[test]
fn a_set_follows_addresses_annotation_and_address_type() {
    let mut world = World::with_set(2);
    world.run(5);
    let mut node = world.nodes["node-1"].clone();
    node.external_ips = vec![external(9), external(8)];
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    world.run(5);
    assert_eq!(world.published(WWW), [2, 8, 9]);
    world.edit_set("set", |spec| spec.address_type = "InternalIP".into());
    world.run(5);
    assert_eq!(world.dns.addresses(PROVIDER, WWW)[0].as_v4().unwrap().octets()[0], 10);
    world.edit_set("set", |spec| spec.address_type = RESERVED_IP_ANNOTATION.into());
    world.run(5);
    assert_eq!(world.published(WWW), [1, 2], "no matching node has one: the set stays");
    assert!(world.message("set", "AddressMissing").unwrap().contains("node-1"));
    assert_eq!(world.set_status("set").state, "active");
    world.annotations.insert("node-2".into(), external(77).to_string());
    world.set_node(2, true);
    world.run(5);
    assert_eq!(world.published(WWW), [77]);
    assert!(world.dns.emptied.is_empty());
}

#[test]
fn a_change_of_name_or_zone_leaves_the_old_records_and_removal_ends_it() {
    let mut world = World::with_set(1);
    world.run(5);
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().record_name = "API.example.com.".into());
    world.run(5);
    assert_eq!((world.published(WWW), world.published("api.example.com")), (vec![1], vec![1]));
    assert_eq!(world.set_status("set").fqdn, "api.example.com");
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().provider = CLOUDFLARE.into());
    world.run(5);
    assert_eq!(world.dns.addresses(CLOUDFLARE, "api.example.com"), [external(1)]);
    assert_eq!(world.published("api.example.com"), [1]);
    let before = world.dns.applies.len();
    world.edit_set("set", |spec| spec.record_set = None);
    world.set_node(1, false);
    world.run(60);
    assert_eq!(world.dns.applies.len(), before);
    let status = world.set_status("set");
    assert!(status.state == "error" && status.error.contains("spec.dnsRecordSet.zone"), "{status:?}");
}

#[test]
fn a_ttl_is_raised_to_the_floor_with_a_condition_and_an_existing_one_is_kept_where_none_is_asked_for() {
    let mut world = World::with_set(1);
    world.dns.add(PROVIDER, "example.com", WWW, "A", "203.0.113.1");
    world.set_node(2, true);
    world.run(5);
    let ttls = |world: &World| {
        let records = &world.dns.records[&(PROVIDER.to_owned(), "example.com".to_owned())];
        let ours = records.iter().filter(|(name, record)| name == WWW && record.kind == "A");
        ours.map(|(_, record)| record.ttl).collect::<Vec<_>>()
    };
    assert_eq!(ttls(&world), [1_800, 60]);
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().ttl = 5);
    world.run(5);
    assert_eq!(ttls(&world), [30, 30]);
    assert!(world.message("set", "TTLRaised").unwrap().contains("30"));
    // While a spec is invalid, no condition is about the former spec.
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().ttl = -5);
    world.run(5);
    assert_eq!((ttls(&world), world.message("set", "TTLRaised")), (vec![30, 30], None));
    world.edit_set("set", |spec| spec.record_set.as_mut().unwrap().ttl = 300);
    world.run(5);
    assert_eq!((ttls(&world), world.message("set", "TTLRaised")), (vec![300, 300], None));
    // Where 1 s leaves the TTL to the provider, it is not raised.
    world.edit_set("set", |spec| {
        let set = spec.record_set.as_mut().unwrap();
        (set.provider, set.ttl) = (CLOUDFLARE.into(), 1);
    });
    world.run(10);
    let published = world.dns.addresses(CLOUDFLARE, WWW).len();
    assert_eq!((published, world.message("set", "TTLRaised")), (2, None));
}

#[test]
fn what_others_write_at_a_name_that_was_emptied_stays_and_is_not_called_ours() {
    let mut world = World::with_set(1);
    world.run(60);
    world.set_node(1, false);
    world.run(10);
    assert_eq!(world.published(WWW), [0_u8; 0]);
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
    let applies = world.dns.applies.len();
    world.run(1_300);
    assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![9], applies));
    let status = world.set_status("set");
    assert!(status.addresses.is_empty());
    let ready = status.conditions.iter().find(|condition| condition.kind == "Ready").unwrap();
    assert_eq!((ready.reason.as_str(), ready.status.as_str()), ("NoMatchingNode", "False"));
}

#[test]
fn a_zone_may_be_an_id_and_its_name_shows_up_once_it_is_known() {
    let mut world = World::with_set(1);
    world.edit_set("set", |spec| {
        let zone = ZONE_ID.into();
        spec.record_set = Some(RawRecordSet { provider: CLOUDFLARE.into(), zone, ..record_set("www") });
    });
    world.run(5);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [external(1)]);
    assert_eq!(world.set_status("set").fqdn, WWW);
    // The token may not read the name of this zone.
    let hidden = |name: &str| {
        Some(RawRecordSet { provider: CLOUDFLARE.into(), zone: "hidden".into(), ..record_set(name) })
    };
    world.edit_set("set", |spec| spec.record_set = hidden("www"));
    world.run(5);
    assert!(
        world.set_status("set").error.contains("Zone > Zone > Read"),
        "{}",
        world.set_status("set").error
    );
    assert!(world.set_status("set").error.contains("spec.dnsRecordSet.recordName"));
    world.edit_set("set", |spec| spec.record_set = hidden("a.hidden.org"));
    world.run(5);
    assert_eq!(world.dns.addresses(CLOUDFLARE, "a.hidden.org"), [external(1)]);
    assert_eq!(world.set_status("set").state, "active");
}

#[test]
fn an_address_that_is_on_no_list_is_not_dropped_from_dns_at_a_restart() {
    let mut world = pool(3, 3);
    world.faults.unlisted.insert(ip(2));
    world.run(30);
    assert_eq!(world.published(WWW), [1, 2, 3]);
    let changes = world.dns.changes;
    world.start();
    world.run(60);
    assert_eq!((world.published(WWW), world.dns.changes), (vec![1, 2, 3], changes));
}

#[test]
fn a_pool_of_which_too_little_is_known_is_not_emptied_even_where_its_spec_says_so() {
    let mut world = pool(2, 2);
    world.edit("pool", |spec| spec.record_set.as_mut().unwrap().when_empty = "Delete".into());
    // Another address proves that droplets can be seen.
    world.add_foreign_ip(90, 90);
    world.faults.unlisted.extend([ip(1), ip(2)]);
    world.run(30);
    assert_eq!(world.published(WWW), [1, 2]);
    world.start();
    world.run(60);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![1, 2], 0));
}

#[test]
fn a_frozen_pool_leaves_its_records_as_they_are() {
    let mut world = pool(2, 2);
    world.run(10);
    world.edit("pool", |spec| spec.matching.node_label = "a in".into());
    world.set_node(1, false);
    world.run(30);
    world.start();
    world.run(30);
    assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![1, 2], 1));
    let published = world.status("pool").record_set.clone().unwrap();
    assert_eq!(published.addresses, [ip(1), ip(2)]);
}
