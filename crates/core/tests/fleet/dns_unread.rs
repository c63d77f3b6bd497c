//! The records of pools whose addresses can no longer be read.

use crate::faults::spec_of;
use crate::world::{PROVIDER, World, ip};
use crate::zones::{CLOUDFLARE, record_set};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::spec::RawRecordSet;
use flipop_core::model::{Address, FaultKind};

const WWW: &str = "www.example.com";
const API: &str = "api.example.com";

fn place(provider: &str, name: &str) -> RawRecordSet {
    let place = record_set(name);
    RawRecordSet { provider: provider.into(), ttl: 300, when_empty: "Delete".into(), ..place }
}

/// A pool with three addresses, two of them on nodes and in records at this provider. The token of the addresses is
/// refused from then on. An older pool exists too.
fn unread(provider: &str) -> World {
    let mut world = World::bare(3, 2);
    let record_set = Some(place(provider, "www"));
    world.add_pool("older", spec_of([9]));
    world.add_pool("pool", RawPoolSpec { record_set, ..spec_of(1..=3) });
    world.start();
    world.run(20);
    assert_eq!(world.dns.addresses(provider, WWW), [ip(1), ip(2)]);
    refuse(&mut world);
    world
}

fn refuse(world: &mut World) {
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.run(60);
    let conditions = &world.status("pool").conditions;
    assert!(
        conditions.iter().any(|c| (c.kind.as_str(), c.reason.as_str()) == ("ProviderReady", "Unauthorized"))
    );
}

fn rename(world: &mut World, provider: &str) {
    world.edit("pool", |spec| spec.record_set = Some(place(provider, "api")));
}

#[test]
fn records_at_another_provider_follow_the_spec_and_are_put_right_while_the_addresses_token_is_refused() {
    let mut world = unread(CLOUDFLARE);
    let zone = crate::zones::ZONE_ID;
    world.dns.add(CLOUDFLARE, zone, WWW, "A", "198.51.100.9");
    world.run(610);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [ip(1), ip(2)]);
    rename(&mut world, CLOUDFLARE);
    world.run(10);
    assert_eq!(world.dns.addresses(CLOUDFLARE, API), [ip(1), ip(2)]);
    let conditions = &world.status("pool").conditions;
    assert!(conditions.iter().any(|c| c.kind == "RecordSetReady" && c.status == "True"), "{conditions:?}");
    world.faults.reads = None;
    world.set_node(1, false);
    world.set_node(3, true);
    world.run(120);
    let on_nodes: Vec<Address> = [2, 3].into_iter().filter_map(|n| world.holder(n)).collect();
    let mut published = world.dns.addresses(CLOUDFLARE, API);
    published.sort_by_key(|ip| on_nodes.iter().position(|on| on == ip));
    assert_eq!((published, on_nodes.len()), (on_nodes, 2));
}

#[test]
fn so_they_do_while_the_token_may_not_read_droplets_any_more() {
    let mut world = unread(CLOUDFLARE);
    world.faults.reads = None;
    world.faults.blind = true;
    world.run(120);
    rename(&mut world, CLOUDFLARE);
    world.run(10);
    assert_eq!(world.dns.addresses(CLOUDFLARE, API), [ip(1), ip(2)]);
}

#[test]
fn no_address_leaves_its_records_while_nobody_can_say_where_it_is() {
    let mut world = unread(CLOUDFLARE);
    let applies = world.dns.applies.len();
    // Somebody may move an address by hand to a node that serves.
    for (node, ready) in [(1, false), (1, true), (1, false), (2, false), (1, true)] {
        world.set_node(node, ready);
        world.run(620);
        assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [ip(1), ip(2)], "{node} {ready}");
    }
    assert_eq!(world.dns.applies.len(), applies);
    // For no address is it known that it belongs at the new name.
    rename(&mut world, CLOUDFLARE);
    world.run(620);
    assert_eq!((world.dns.addresses(CLOUDFLARE, API).len(), world.dns.applies.len()), (0, applies));
}

#[test]
fn an_address_whose_node_does_not_match_does_not_come_to_a_name_where_it_was_not() {
    let mut world = unread(CLOUDFLARE);
    world.set_node(1, false);
    rename(&mut world, CLOUDFLARE);
    world.run(620);
    assert_eq!(world.dns.addresses(CLOUDFLARE, API), [ip(2)]);
}

#[test]
fn an_address_that_an_older_pool_names_or_that_was_taken_out_is_published_no_more() {
    let mut world = unread(CLOUDFLARE);
    world.edit("pool", |spec| spec.ips.retain(|text| *text != ip(2).to_string()));
    world.run(10);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [ip(1)]);
    world.edit("pool", |spec| spec.ips.push(ip(2).to_string()));
    world.run(10);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [ip(1), ip(2)]);
    world.edit("older", |spec| spec.ips.push(ip(1).to_string()));
    world.run(10);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [ip(2)]);
}

#[test]
fn the_records_of_a_pool_that_is_frozen_or_whose_nodes_are_unknown_stay_as_others_left_them() {
    for frozen in [true, false] {
        let mut world = unread(CLOUDFLARE);
        world.hold_watches = !frozen;
        world.edit("pool", |spec| spec.matching.node_label = if frozen { "=" } else { "a=b" }.into());
        world.dns.add(CLOUDFLARE, crate::zones::ZONE_ID, WWW, "A", "198.51.100.9");
        let applies = world.dns.applies.len();
        world.run(620);
        assert_eq!(world.dns.applies.len(), applies, "frozen {frozen}");
    }
}

#[test]
fn records_at_the_refused_provider_wait_and_cost_no_call() {
    let mut world = unread(PROVIDER);
    let (reads, applies) = (world.dns.reads, world.dns.applies.len());
    rename(&mut world, PROVIDER);
    world.run(1_300);
    assert_eq!((world.dns.reads, world.dns.applies.len()), (reads, applies));
    world.faults.reads = None;
    world.run(120);
    assert_eq!(world.dns.addresses(PROVIDER, API), [ip(1), ip(2)]);
}

#[test]
fn a_process_or_a_token_that_never_read_the_addresses_changes_no_record() {
    for another_token in [false, true] {
        let mut world = unread(CLOUDFLARE);
        if another_token {
            world.observe(Input::TokenChanged(PROVIDER.into()));
        } else {
            world.start();
        }
        rename(&mut world, CLOUDFLARE);
        let applies = world.dns.applies.len();
        world.run(1_300);
        assert_eq!(world.dns.applies.len(), applies, "{another_token}");
        assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [ip(1), ip(2)]);
    }
}
