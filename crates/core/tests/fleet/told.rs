//! The conditions of a pool in words, and the Events that come with them.

use crate::faults::{nodes_key, spec, spec_of};
use crate::world::{Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::spec::RawMatch;
use flipop_core::model::{FaultKind, Observed};

#[test]
fn ready_counts_addresses_and_nodes() {
    for (addresses, nodes, without) in [
        (2, 2, "2 of 2 addresses are on matching nodes; no matching node waits for one"),
        (1, 2, "1 of 1 addresses are on matching nodes; 1 matching node has none"),
        (1, 4, "1 of 1 addresses are on matching nodes; 3 matching nodes have none"),
        (3, 1, "1 of 3 addresses are on matching nodes; no matching node waits for one"),
    ] {
        let mut world = World::with(addresses, nodes);
        world.run(10);
        assert_eq!(world.told("pool", "Ready"), ("True", "Assigned", without));
    }
}

#[test]
fn ready_of_a_pool_whose_provider_was_never_read_says_why_itself() {
    let mut world = World::bare(1, 0);
    world.set_node(1, true);
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.add_pool("pool", spec_of([1]));
    world.start();
    world.run(10);
    let cause = world.told("pool", "ProviderReady").2.to_owned();
    let message = format!("the provider has not been read yet: {cause}");
    assert_eq!(world.told("pool", "Ready"), ("Unknown", "ProviderUnread", message.as_str()));
    assert!(!cause.is_empty());
    // Once it was read, a refusal is no reason to say that it never was.
    world.faults.reads = None;
    world.run(70);
    assert_eq!(world.told("pool", "Ready").1, "Assigned");
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.run(120);
    let message = format!("the provider cannot be read: {cause}");
    assert_eq!(world.told("pool", "Ready"), ("Unknown", "ProviderUnread", message.as_str()));
}

#[test]
fn ready_is_false_for_a_reason() {
    let mut none = World::with(1, 0);
    none.run(10);
    let (status, reason, message) = none.told("pool", "Ready");
    assert_eq!((status, reason), ("False", "NoMatchingNode"));
    assert!(
        message.starts_with("no node matches spec.match")
            && message.ends_with("); the addresses stay where they are")
    );

    let mut hung = World::with(2, 2);
    hung.tricks.push_back(Trick::Slow(100));
    hung.run(10);
    let message = "1 of 2 addresses are on matching nodes; 1 matching node has none";
    assert_eq!(hung.told("pool", "Ready"), ("False", "Assigning", message));
    hung.tricks.push_back(Trick::Refused(FaultKind::Quota));
    hung.edit("pool", |spec| spec.desired_ips = 3);
    hung.run(5);
    let message = "1 of 3 addresses are on matching nodes; 1 matching node has none";
    assert_eq!(
        hung.told("pool", "Ready"),
        ("False", "Assigning", message),
        "there is an address for that node"
    );

    let mut released = World::with(1, 1);
    released.edit("pool", |spec| spec.released_ips = vec![ip(1).to_string()]);
    released.run(10);
    let (status, reason, message) = released.told("pool", "Ready");
    assert_eq!((status, reason), ("False", "NoAddresses"));
    assert!(message.starts_with("the pool has no address"), "{message}");

    let mut missing = World::with(1, 3);
    missing.tricks.extend([Trick::Fine, Trick::Refused(FaultKind::Quota)]);
    missing.run(5);
    missing.edit("pool", |spec| spec.desired_ips = 2);
    missing.run(10);
    let message = "1 of 2 addresses are on matching nodes; 2 matching nodes have none";
    assert_eq!(missing.told("pool", "Ready"), ("False", "MissingAddresses", message));
    assert_eq!(
        missing.told("pool", "CreationFailed"),
        ("True", FaultKind::Quota.reason(), "Quota by a trick")
    );
}

#[test]
fn a_mistake_is_told_in_words_and_only_as_long_as_it_is_there() {
    for (provider, message) in [
        (
            "cloudflare",
            "provider \"cloudflare\" has no floating IPs; use one that has: digitalocean, elsewhere",
        ),
        ("nobody", "unknown provider \"nobody\"; use one of: digitalocean, elsewhere"),
        ("", "no provider is named; use one of: digitalocean, elsewhere"),
    ] {
        let mut world = World::with(1, 1);
        world.edit("pool", |spec| spec.provider = provider.into());
        world.run(10);
        assert_eq!(world.told("pool", "SpecValid").2, format!("spec.provider: {message}"));
    }
    let mut world = World::with(1, 1);
    world.tricks.extend([Trick::Fine, Trick::Refused(FaultKind::Quota)]);
    world.run(5);
    world.edit("pool", |spec| spec.desired_ips = 1_000);
    world.run(10);
    assert_eq!(world.told("pool", "SpecValid"), ("True", "Valid", ""), "as many as there may be");
    let mut world = World::with(1, 1);
    world.edit("pool", |spec| spec.desired_ips = 1_001);
    world.run(10);
    for (message, words) in
        [("no map", "spec: cannot be read: no map"), ("no list", "spec: cannot be read: no list")]
    {
        let pool = world.pools.get_mut("pool").unwrap();
        pool.spec = Err(message.to_owned());
        pool.generation += 1;
        let pool = pool.clone();
        world.observe(Input::Pools(Observed::Apply(pool)));
        world.run(10);
        assert_eq!(world.told("pool", "SpecValid"), ("False", "PoolFrozen", words));
    }
}

#[test]
fn a_node_that_is_no_droplet_is_told_with_its_provider_id() {
    let mut world = World::with(1, 1);
    let mut node = world.nodes["node-1"].clone();
    (node.provider_id, node.machine) = ("aws:///i-1".into(), None);
    world.nodes.insert("node-1".into(), node.clone());
    world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
    world.run(10);
    let message = "node-1: spec.providerID \"aws:///i-1\" is not of the form digitalocean://<droplet id>";
    assert_eq!(world.told("pool", "NodesBlocked"), ("True", "NotAMachine", message));
}

#[test]
fn of_a_pool_that_is_frozen_at_the_start_what_it_held_stays_told() {
    let mut world = World::with(3, 1);
    world.cloud.remove(&ip(2));
    world.run(10);
    let states = |world: &World| -> Vec<String> {
        world.status("pool").ips.iter().map(|(ip, entry)| format!("{ip} {}", entry.state)).collect()
    };
    assert_eq!(states(&world), ["192.0.2.1 active", "192.0.2.2 error", "192.0.2.3 unassigned"]);
    world.pools.get_mut("pool").unwrap().spec.as_mut().unwrap().ips.clear();
    world.start();
    world.run(60);
    assert_eq!(states(&world), ["192.0.2.1 active", "192.0.2.3 unassigned"]);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
}

#[test]
fn what_is_pending_for_long_is_told_by_its_own_pool() {
    let mut world = World::with(1, 1);
    world.tricks.push_back(Trick::Slow(3_600));
    world.run(5);
    world.add_ip(2);
    world.set_node(2, true);
    world.add_pool("other", spec_of([2]));
    world.run(5);
    assert_eq!((world.holder(2), world.told("pool", "Stalled")), (Some(ip(2)), ("", "", "")));
    world.run(400);
    let message = "pending at the provider for more than 5 min: 192.0.2.1 to node-1; see the actions of each \
                   droplet there";
    assert_eq!(world.told("pool", "Stalled"), ("True", "ActionPending", message));
    assert!(!world.has("other", "Stalled"));
    assert_eq!(world.events_of("Stalled").len(), 1);
}

#[test]
fn every_mistake_of_a_spec_is_named_and_the_worst_gives_the_reason() {
    let mut world = World::with(1, 1);
    world.edit("pool", |spec| {
        spec.ips.extend(["nonsense".to_owned(), ip(1).to_string()]);
        spec.desired_ips = 1_001;
    });
    world.run(10);
    let (status, reason, message) = world.told("pool", "SpecValid");
    assert_eq!((status, reason), ("False", "CreationImpossible"));
    let all = "spec.ips[1]: \"nonsense\" is not an IPv4 address; spec.ips[2]: 192.0.2.1 is listed twice; the first entry \
               counts; spec.desiredIPs: 1001 is more than the operator supports; use at most 1000";
    assert_eq!(message, all);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn why_nodes_are_blocked_is_told_and_told_anew_when_it_is_something_else() {
    let mut world = World::with(1, 1);
    world.cloud.get_mut(&ip(1)).unwrap().region = "ams3".into();
    world.run(10);
    let (status, reason, message) = world.told("pool", "NodesBlocked");
    assert_eq!((status, reason), ("True", "OtherRegion"));
    assert!(message.starts_with("node-1: ") && message.contains("nyc3"), "{message}");
    assert_eq!(world.status("pool").node_errors, ["node-1"]);
    world.add_foreign_ip(99, 1);
    world.run(120);
    assert_eq!(world.told("pool", "NodesBlocked").1, "ForeignAddress");
    let events: Vec<&str> = world.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(events, ["NodesBlocked", "AddressesIdle", "NodesBlocked"]);
    world.cloud.remove(&ip(99));
    world.cloud.get_mut(&ip(1)).unwrap().region = "nyc3".into();
    world.run(120);
    assert_eq!(world.told("pool", "NodesBlocked"), ("", "", ""));
}

#[test]
fn trouble_is_one_event_whoever_tells_it() {
    let mut unread = World::with(1, 1);
    unread.run(10);
    unread.observe(Input::WatchTrouble(nodes_key(), Some("nodes is forbidden".into())));
    unread.run(10);
    assert_eq!(unread.events_of("WatchFailing").len(), 1);

    let mut failed = World::with(1, 1);
    failed.tricks.push_back(Trick::Refused(FaultKind::Invalid));
    failed.run(10);
    assert_eq!(failed.told("pool", "NodesBlocked").1, "AssignmentFailed");
    assert_eq!((failed.events_of("AssignmentFailed").len(), failed.events_of("NodesBlocked").len()), (1, 0));

    let buying = RawPoolSpec { desired_ips: 1, ..spec() };
    let mut several = World::bare(0, 1);
    several.add_pool("pool", buying.clone());
    several.tricks.push_back(Trick::Lost(true));
    several.start();
    several.run_while(5, |world| world.total("create") == 0);
    several.add_ip(150);
    several.run(120);
    assert_eq!(several.told("pool", "CreationUncertain").1, "SeveralNewAddresses");
    assert_eq!(several.events_of("CreationUncertain").len(), 1);

    let mut unknown = World::bare(0, 1);
    unknown.add_foreign_ip(77, 1);
    unknown.add_pool("pool", buying);
    unknown.start();
    unknown.run(120);
    let (_, reason, message) = unknown.told("pool", "CreationUncertain");
    assert_eq!((reason, unknown.created), ("UnknownAddressesOnNodes", 0));
    assert!(message.contains("192.0.2.77"), "{message}");
    assert_eq!(unknown.events_of("CreationUncertain").len(), 1);
}

#[test]
fn an_address_that_may_be_ours_is_named_however_many_there_are() {
    let buying = RawPoolSpec { desired_ips: 9, ..spec() };
    let mut unknown = World::new();
    for number in 1..=8 {
        unknown.set_node(number, true);
        unknown.add_ip(number);
        unknown.move_by_hand(number, Some(number));
    }
    unknown.moved.clear();
    unknown.add_pool("pool", buying.clone());
    unknown.start();
    unknown.run(120);
    let mut several = World::bare(0, 1);
    several.add_pool("pool", RawPoolSpec { desired_ips: 1, ..buying });
    several.tricks.push_back(Trick::Lost(true));
    several.start();
    several.run_while(5, |world| world.total("create") == 0);
    (1..=8).for_each(|number| several.add_ip(number));
    several.run(120);
    for (world, reason) in [(&unknown, "UnknownAddressesOnNodes"), (&several, "SeveralNewAddresses")] {
        let condition = world.told("pool", "CreationUncertain");
        assert_eq!(condition.1, reason);
        for number in 1..=8 {
            let address = format!(" 192.0.2.{number}");
            let named = condition.2.split([',', ';']).any(|part| part.ends_with(&address));
            assert!(named, "{address}: {}", condition.2);
        }
    }
}

#[test]
fn of_many_blocked_nodes_five_are_named() {
    let mut world = World::with(8, 8);
    for address in world.cloud.values_mut() {
        address.region = "ams3".into();
    }
    world.run(10);
    let message = world.told("pool", "NodesBlocked").2;
    assert!(message.contains("node-5: ") && !message.contains("node-6: "), "{message}");
    assert!(message.ends_with(" and 3 more"), "{message}");
    assert_eq!(world.status("pool").node_errors.len(), 8);
}

#[test]
fn whose_an_address_is_on_whose_node_another_pool_waits_is_told() {
    let mut world = World::bare(2, 1);
    world.add_pool("pool", spec_of([1]));
    // It names the address on the node, and has no use for it.
    let idle = RawPoolSpec { matching: never(), ..spec_of([2]) };
    world.add_pool("idle", idle);
    world.move_by_hand(2, Some(1));
    world.moved.clear();
    world.start();
    world.run(10);
    let (status, reason, message) = world.told("pool", "NodesBlocked");
    assert_eq!((status, reason), ("True", "MachineClaimed"), "{message}");
    assert!(message.contains("ns/idle") && message.contains("192.0.2.2"), "{message}");
    assert_eq!(world.holder(1), Some(ip(2)));
}

#[test]
fn a_node_with_another_pools_surplus_address_is_blocked_though_that_pool_matches_it() {
    let mut world = World::bare(2, 1);
    // The only address that it uses is not in the account.
    let ips = [9, 2].map(|n| ip(n).to_string()).to_vec();
    world.add_pool("idle", RawPoolSpec { ips, desired_ips: 1, ..spec() });
    world.add_pool("pool", spec_of([1]));
    world.move_by_hand(2, Some(1));
    world.moved.clear();
    world.start();
    world.run(120);
    let (status, reason, message) = world.told("pool", "NodesBlocked");
    assert_eq!((status, reason), ("True", "MachineClaimed"), "{message}");
    assert!(message.contains("ns/idle") && message.contains("192.0.2.2"), "{message}");
    assert_eq!((world.holder(1), world.moved.len()), (Some(ip(2)), 0));
}

/// Criteria that match no node.
fn never() -> RawMatch {
    RawMatch { pod_namespace: "elsewhere".into(), pod_label: "a=b".into(), ..RawMatch::default() }
}

#[test]
fn that_events_may_not_be_written_is_told_at_once_and_only_while_it_is_so() {
    let mut world = World::with(1, 1);
    world.run(10);
    for denied in [true, false] {
        world.observe(Input::EventsDenied(denied));
        world.run(1);
        assert_eq!(world.told("pool", "EventsDenied").1, if denied { "Forbidden" } else { "" });
    }
}

#[test]
fn a_claim_of_an_older_pool_is_told_while_nodes_cannot_be_read() {
    let mut world = World::with(1, 0);
    world.hold_watches = true;
    world.add_pool("younger", spec_of([1]));
    world.start_without_nodes();
    world.observe(Input::WatchTrouble(nodes_key(), Some("nodes is forbidden".into())));
    world.run(10);
    assert!(world.message("younger", "Conflict").unwrap().contains("192.0.2.1 is claimed"));
    assert!(!world.has("pool", "Conflict"));
}
