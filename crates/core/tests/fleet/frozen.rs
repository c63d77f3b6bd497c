//! Invalid specs, and statuses that say too little or too much. Existing assignments stay.

use crate::bounds::too_large;
use crate::faults::{nodes_key, spec, spec_of};
use crate::world::{World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::spec::RawMatch;
use flipop_core::model::{Address, FaultKind, WriteFailure};

/// Every way to freeze a pool.
fn freezes() -> Vec<fn(&mut RawPoolSpec)> {
    vec![
        |spec| spec.provider = "nowhere".into(),
        |spec| spec.provider = String::new(),
        |spec| spec.matching.node_label = "a in".into(),
        |spec| spec.matching.pod_label = "!".into(),
        |spec| spec.matching.pod_namespace = "web/pods?x=".into(),
        |spec| spec.too_large.push(too_large("spec.ips")),
        |spec| spec.too_large.push(too_large("spec.match.tolerations")),
        |spec| {
            spec.ips.clear();
            spec.desired_ips = 0;
        },
    ]
}

#[test]
fn a_frozen_pool_changes_nothing_even_across_a_restart_and_thaws_without_a_move() {
    for (number, freeze) in freezes().into_iter().enumerate() {
        for restart in [false, true] {
            let mut world = World::with(2, 3);
            world.run(10);
            let before = world.pools["pool"].spec.clone().unwrap();
            let (ips, annotations) = (world.status("pool").ips.clone(), world.annotations.clone());
            world.edit("pool", freeze);
            if restart {
                world.start();
            }
            world.run(120);
            let what = format!("freeze {number}, restart {restart}");
            assert_ne!(world.status("pool").error, "", "{what}");
            assert_eq!(world.annotations, annotations, "{what}");
            assert_eq!(world.status("pool").ips, ips, "{what}");
            assert_eq!(world.assigns, 2, "{what}");
            world.edit("pool", |spec| *spec = before);
            world.run(60);
            assert_eq!((world.assigns, world.status("pool").error.as_str()), (2, ""), "{what}");
            assert_eq!(world.status("pool").ips, ips, "{what}");
        }
    }
}

#[test]
fn a_frozen_pool_gives_nothing_back_that_is_taken_from_it_until_it_thaws() {
    for (number, freeze) in freezes().into_iter().enumerate() {
        let mut world = World::with(2, 3);
        world.run(10);
        let before = world.pools["pool"].spec.clone().unwrap();
        world.edit("pool", freeze);
        world.move_by_hand(1, None);
        world.run(200);
        assert_eq!(world.assigns, 2, "freeze {number}");
        world.edit("pool", |spec| *spec = before);
        world.run(70);
        assert_eq!(world.assigns, 3, "freeze {number}");
    }
}

#[test]
fn a_frozen_pool_tells_where_its_addresses_are_after_others_have_moved_them() {
    // A pool that names no provider has no account that could be read.
    for (number, freeze) in freezes().into_iter().enumerate().skip(2) {
        let mut world = World::with(2, 2);
        world.run(10);
        let address = world.holder(1).unwrap().as_v4().unwrap().octets()[3];
        let entry = |world: &World| world.entry("pool", address).clone();
        world.edit("pool", freeze);
        world.move_by_hand(address, None);
        world.run(200);
        assert_eq!(entry(&world).state, "unassigned", "freeze {number}");
        assert!(!world.annotations.contains_key("node-1"), "freeze {number}: {:?}", world.annotations);
        assert!(world.annotations.contains_key("node-2"), "freeze {number}: {:?}", world.annotations);
        world.move_by_hand(address, Some(9));
        world.run(200);
        assert_eq!(entry(&world).state, "no-match", "freeze {number}");
        world.move_by_hand(address, Some(1));
        world.run(200);
        assert_eq!(entry(&world).state, "active", "freeze {number}");
        assert_eq!((world.annotations.len(), world.assigns), (2, 2), "freeze {number}");
    }
}

#[test]
fn a_pool_without_one_good_address_is_not_ready_and_a_purchase_counts_towards_what_is_desired() {
    let mut world = World::with(1, 2);
    world.edit("pool", |spec| spec.ips = vec!["192.0.2.300".into()]);
    world.start();
    world.run(10);
    let ready = |world: &World| {
        let conditions = world.status("pool").conditions.clone();
        conditions.into_iter().find(|condition| condition.kind == "Ready").unwrap()
    };
    let told = ready(&world);
    assert_eq!((told.status.as_str(), told.reason.as_str()), ("False", "NoAddresses"), "{told:?}");
    world.edit("pool", |spec| *spec = RawPoolSpec { desired_ips: 2, region: "nyc3".into(), ..spec.clone() });
    world.run(60);
    let told = ready(&world);
    assert!(told.status == "True" && told.message.starts_with("2 of 2 addresses"), "{told:?}");
}

#[test]
fn a_pool_frozen_while_it_buys_still_finds_out_what_it_bought() {
    for freeze in freezes() {
        let mut world = World::bare(0, 3);
        world.add_foreign_ip(90, 90);
        world.add_pool("pool", RawPoolSpec { desired_ips: 1, ..spec() });
        world.start();
        world.tricks.push_back(crate::world::Trick::Lost(true));
        world.run(1);
        let before = world.pools["pool"].spec.clone().unwrap();
        world.edit("pool", freeze);
        world.run(120);
        world.edit("pool", |spec| {
            let ips = spec.ips.clone();
            *spec = before;
            spec.ips = ips;
        });
        world.run(120);
        assert_eq!(world.created, 1);
        assert!(world.holder(1).is_some());
    }
}

#[test]
fn a_watch_that_may_not_be_read_at_the_start_takes_nothing_back() {
    let mut world = World::with(2, 2);
    world.run(10);
    let (ips, annotations) = (world.status("pool").ips.clone(), world.annotations.clone());
    world.start_without_nodes();
    world.observe(Input::WatchTrouble(nodes_key(), Some("may not list nodes".into())));
    world.run(60);
    let failing = |world: &World| world.has("pool", "WatchFailing");
    assert!(failing(&world));
    assert_eq!((&world.status("pool").ips, &world.annotations), (&ips, &annotations));
    world.observe(Input::WatchTrouble(nodes_key(), None));
    world.start();
    world.run(10);
    assert!(!failing(&world));
    assert_eq!(world.assigns, 2);
}

#[test]
fn a_provider_that_fails_from_the_start_is_told_and_takes_nothing_back() {
    for kind in [FaultKind::Transient, FaultKind::Unauthorized, FaultKind::Throttled] {
        let mut world = World::with(2, 2);
        world.run(10);
        let ips = world.status("pool").ips.clone();
        world.faults.reads = Some(kind);
        world.start();
        world.run(60);
        let told = |world: &World| world.has("pool", "ProviderReady");
        assert!(told(&world));
        assert_eq!((&world.status("pool").ips, world.annotations.len()), (&ips, 2));
        world.faults.reads = None;
        world.run(70);
        assert!(!told(&world));
        assert_eq!(world.assigns, 2);
    }
}

/// Edits after which every assignment is still a valid one.
fn harmless() -> Vec<fn(&mut RawPoolSpec)> {
    vec![
        |spec| spec.ips.reverse(),
        |spec| spec.region = "ams3".into(),
        |spec| spec.region = String::new(),
        |spec| spec.desired_ips = 3,
        |spec| spec.cool_off_seconds = 100.0,
        |spec| spec.cool_off_seconds = f64::NAN,
        |spec| spec.ips.push("nonsense".into()),
        |spec| spec.ips.insert(0, "2001:db8::1".into()),
        |spec| spec.ips.push(ip(1).to_string()),
        |spec| spec.released_ips = vec!["what".into()],
        |spec| spec.desired_ips = -5,
        |spec| {
            spec.matching = RawMatch {
                tolerations: vec![flipop_core::model::matching::Toleration::default()],
                ..RawMatch::default()
            };
        },
    ]
}

#[test]
fn edits_that_keep_an_assignment_valid_never_move_it() {
    for (number, edit) in harmless().into_iter().enumerate() {
        let mut world = World::with(3, 4);
        world.run(10);
        let before = world.pools["pool"].spec.clone().unwrap();
        let annotations = world.annotations.clone();
        world.edit("pool", edit);
        world.run(60);
        assert_eq!((world.assigns, &world.annotations), (3, &annotations), "edit {number}");
        world.edit("pool", |spec| *spec = before);
        world.run(60);
        assert_eq!((world.assigns, &world.annotations), (3, &annotations), "edit {number}");
        assert_eq!(world.status("pool").error, "");
    }
}

#[test]
fn from_any_edit_to_any_other_and_back_nothing_moves() {
    let edits: Vec<fn(&mut RawPoolSpec)> = harmless().into_iter().chain(freezes()).collect();
    for (first, from) in edits.iter().enumerate() {
        for (second, to) in edits.iter().enumerate() {
            let mut world = World::with(3, 4);
            world.run(10);
            let before = world.pools["pool"].spec.clone().unwrap();
            let annotations = world.annotations.clone();
            world.edit("pool", from);
            world.run(20);
            world.edit("pool", |spec| {
                *spec = before.clone();
                to(spec);
            });
            world.run(20);
            world.edit("pool", |spec| *spec = before);
            world.run(60);
            let what = format!("edit {first}, then {second}");
            assert_eq!((world.assigns, &world.annotations), (3, &annotations), "{what}");
            assert_eq!(world.status("pool").error, "", "{what}");
        }
    }
}

#[test]
fn a_selector_that_is_changed_and_changed_back_in_a_moment_goes_on_matching() {
    let mut world = World::with(1, 2);
    world.run(10);
    world.edit("pool", |spec| spec.matching.node_label = "a=b".into());
    world.edit("pool", |spec| spec.matching.node_label = String::new());
    world.set_node(1, false);
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(1)));
    // The same change by deleting the pool and creating it again.
    let spec = world.pools["pool"].spec.clone().unwrap();
    world.delete_pool("pool");
    world.add_pool("pool", spec);
    world.set_node(1, true);
    world.set_node(2, false);
    world.run(10);
    assert_eq!(world.holder(1), Some(ip(1)));
}

#[test]
fn a_released_address_that_stands_on_a_candidate_is_no_unknown_one() {
    let mut world = World::bare(2, 2);
    world.add_pool("pool", RawPoolSpec { desired_ips: 2, ..spec_of(1..=2) });
    world.start();
    world.run(60);
    world.edit("pool", |spec| {
        spec.ips.remove(0);
        spec.released_ips = vec![ip(1).to_string()];
    });
    world.moved.insert(ip(1));
    world.run(60);
    assert!(!world.has("pool", "CreationUncertain"));
    assert_eq!(world.created, 1);
    assert!((1..=2).all(|n| world.holder(n).is_some_and(|held| held != ip(1))));
}

#[test]
fn a_pool_that_does_nothing_tells_conflicting_claims_too_and_forgets_them() {
    for frozen_later in [false, true] {
        let mut world = World::with(2, 2);
        world.run(10);
        // A pool that is frozen because of its selector still belongs to the account.
        let mut nothing = spec_of([2]);
        nothing.matching.node_label = "a in".into();
        let unknown = RawPoolSpec { provider: "nowhere".into(), ..spec_of([2]) };
        world.add_pool("younger", if frozen_later { unknown } else { nothing.clone() });
        world.edit("younger", |spec| *spec = nothing);
        world.run(10);
        let status = world.status("younger");
        assert!(world.has("younger", "Conflict"), "{status:?}");
        let entry = world.entry("younger", 2);
        assert!(entry.state == "error" && entry.error.contains("ns/pool"), "{status:?}");
        if frozen_later {
            world.edit("pool", |spec| spec.ips.truncate(1));
        } else {
            world.delete_pool("pool");
        }
        world.run(10);
        assert!(!world.has("younger", "Conflict"), "{:?}", world.status("younger"));
    }
}

#[test]
fn a_conflicting_claim_moves_nothing_and_ends_with_the_older_pool() {
    let mut world = World::with(2, 3);
    world.run(10);
    world.add_ip(3);
    world.add_pool("younger", spec_of([2, 3]));
    world.run(20);
    assert_eq!(world.holder(3), Some(ip(3)));
    assert!(world.has("younger", "Conflict"));
    // The older pool lets the address go.
    world.edit("pool", |spec| spec.ips.truncate(1));
    world.run(20);
    assert!(!world.has("younger", "Conflict"));
    assert_eq!((world.assigns, world.entry("younger", 2).state.as_str()), (3, "active"));
    // The older pool is marked as deleted, and somebody's finalizer keeps it. Its claims end.
    let mut deleting = world.pools["pool"].clone();
    deleting.deleting = true;
    world.put_pool(deleting);
    world.run(20);
    assert_eq!(world.annotations.len(), 2);
    world.edit("younger", |spec| spec.ips.push(ip(1).to_string()));
    world.run(20);
    assert_eq!(world.annotations.len(), 3);
    assert_eq!(world.assigns, 3);
}

#[test]
fn a_pool_made_again_under_its_name_is_another_one() {
    let mut world = World::with(2, 2);
    world.run(10);
    let spec = world.pools["pool"].spec.clone().unwrap();
    // The deletion was not seen, and an answer for the old one is still under way.
    world.faults.status_writes.push_back(WriteFailure::Conflict);
    world.add_pool("pool", spec);
    world.run(20);
    assert_eq!((world.assigns, world.annotations.len()), (2, 2));
    assert_eq!(world.status("pool").ips.len(), 2);
    assert!(!world.has("pool", "Conflict"), "the former pool claims nothing");
}

/// The reason of an Event, and an act that causes it.
type Trouble = (&'static str, fn(&mut World));

#[test]
fn each_trouble_is_told_once_as_an_event() {
    let edits: Vec<Trouble> = vec![
        ("InvalidSpec", |world| world.edit("pool", |spec| spec.ips.push("nonsense".into()))),
        ("ProviderNotReady", |world| world.faults.reads = Some(FaultKind::Unauthorized)),
        ("Conflict", |world| {
            let ips = vec![ip(1).to_string()];
            world.add_pool("younger", RawPoolSpec { ips, ..spec() });
        }),
        ("NodesBlocked", |world| {
            world.add_ip(99);
            world.move_by_hand(99, Some(3));
            world.set_node(2, false);
            world.run(60);
            world.set_node(3, true);
        }),
        ("AnnotationsDenied", |world| {
            (0..100)
                .for_each(|_| world.faults.annotations.push_back(WriteFailure::Forbidden("nodes".into())));
            world.set_node(1, false);
        }),
    ];
    for (reason, trouble) in edits {
        let mut world = World::with(2, 2);
        world.run(10);
        world.events.clear();
        trouble(&mut world);
        world.run(120);
        let told = |world: &World| world.events_of(reason).len();
        assert_eq!(told(&world), 1, "{reason}: {:?}", world.events);
        world.run(1_200);
        if reason != "AnnotationsDenied" {
            // Each process finds out anew that rights are missing.
            world.start();
        }
        world.run(60);
        assert_eq!(told(&world), 1, "{reason}: {:?}", world.events);
    }
}

#[test]
fn a_frozen_pool_keeps_and_claims_its_addresses_until_it_thaws() {
    let mut world = World::with(1, 1);
    world.add_pool("younger", spec_of([1]));
    world.run(10);
    world.edit("pool", |spec| spec.matching.node_label = "a in".into());
    world.set_node(1, false);
    world.set_node(2, true);
    world.run(60);
    assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))), "{:?}", world.calls);
    let error = &world.entry("younger", 1).error;
    assert!(error.contains("claimed by the older pool"), "{error}");
    assert!(world.status("pool").error.contains("spec.match.nodeLabel"));
    world.edit("pool", |spec| spec.matching.node_label = String::new());
    world.run(10);
    assert_eq!((world.holder(2), world.status("pool").error.as_str()), (Some(ip(1)), ""), "it thaws");
}

#[test]
fn the_annotation_of_a_frozen_pool_follows_an_address_that_others_move() {
    for (number, freeze) in freezes().into_iter().enumerate() {
        let mut world = World::with(1, 2);
        world.run(10);
        world.edit("pool", freeze);
        if world.pools["pool"].spec.as_ref().is_ok_and(|now| now.provider != spec().provider) {
            // Nobody looks where its addresses are.
            continue;
        }
        world.move_by_hand(1, Some(2));
        world.run(200);
        let annotated: Vec<(&str, &str)> =
            world.annotations.iter().map(|(node, ip)| (node.as_str(), ip.as_str())).collect();
        assert_eq!(annotated, [("node-2", ip(1).to_string().as_str())], "freeze {number}");
    }
}

#[test]
fn a_node_made_again_under_a_frozen_pool_is_not_annotated_over_and_over() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.edit("pool", |spec| spec.matching.node_label = "a in".into());
    world.run(5);
    let old = world.nodes["node-1"].clone();
    world.observe(Input::Nodes(nodes_key(), flipop_core::model::facts::Observed::Delete(old)));
    world.replace_node(1, 1);
    world.run(3_600);
    assert!(world.faults.writes_to_gone_nodes <= 1, "{}", world.faults.writes_to_gone_nodes);
    // After a gap in the leadership the former state of nodes is not believed.
    let before = world.faults.writes_to_gone_nodes;
    world.lead_again();
    world.run(3_600);
    assert_eq!(world.faults.writes_to_gone_nodes, before);
}

#[test]
fn a_frozen_pool_says_at_every_moment_what_stands() {
    let mut world = World::with(1, 1);
    world.run(10);
    world.edit("pool", |spec| spec.matching.node_label = "a in".into());
    world.run(5);
    let writes = world.status_writes;
    for _ in 0..120 {
        world.run(1);
        assert_eq!(world.entry("pool", 1).state, "active");
        assert_eq!(world.annotations.len(), 1);
    }
    assert_eq!(world.status_writes, writes);
}

#[test]
fn what_a_frozen_pool_knew_of_nodes_before_a_gap_keeps_claims_and_makes_none() {
    for (number, freeze) in freezes().into_iter().enumerate().skip(2) {
        let mut world = World::with(2, 2);
        world.run(10);
        let left = world.holder(1).unwrap().as_v4().unwrap().octets()[3];
        let stays = world.holder(2).unwrap();
        world.edit("pool", freeze);
        world.move_by_hand(left, None);
        world.run(200);
        world.hold_watches = true;
        world.lead_again();
        world.move_by_hand(left, Some(1));
        world.run(200);
        let state = |ip: Address| world.status("pool").ips[&ip.to_string()].state.as_str();
        assert_eq!((state(ip(left)), state(stays)), ("no-match", "active"), "freeze {number}");
        assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2"], "freeze {number}");
    }
}
