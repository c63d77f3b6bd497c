//! Two objects with one name, and bad specs and their reach.

use crate::dns::pool;
use crate::faults::{spec, spec_of};
use crate::world::{PROVIDER, World, ip};
use crate::zones::{CLOUDFLARE, DnsTrick, ZONE_ID, external, internal, record_set, set_spec};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::provider::ZoneForm;
use flipop_core::model::spec::RawRecordSet;
use flipop_core::model::{ObjectKind, Observed};
use flipop_core::records::name::{NameError, ZoneRef};
use flipop_core::records::spec::RawRecordSetSpec;

const WWW: &str = "www.example.com";

#[test]
fn of_two_sets_with_one_name_the_older_writes_and_the_other_says_so_until_it_takes_over() {
    let mut world = World::with_set(2);
    world.add_record_set("young", set_spec("WWW.example.com."));
    world.edit_set("young", |spec| spec.address_type = "InternalIP".into());
    world.run(10);
    assert_eq!(world.dns.addresses(PROVIDER, WWW), [external(1), external(2)]);
    let status = world.set_status("young");
    assert!(status.state == "error" && status.error.contains("NodeDNSRecordSet ns/set"), "{status:?}");
    assert!(world.has("young", "Conflict"));
    assert!(status.addresses.is_empty());
    assert!(!world.has("set", "Conflict"));
    let told = world.events.iter().filter(|notice| notice.reason.as_str() == "NameClaimed");
    assert!(
        told.clone().all(|n| n.kind == ObjectKind::RecordSet && n.warning && n.object.name.name == "young")
    );
    assert_eq!(told.count(), 1);
    let (reads, applies) = (world.dns.reads, world.dns.applies.len());
    world.delete_record_set("set");
    world.run(10);
    assert_eq!(world.dns.addresses(PROVIDER, WWW)[0].as_v4().unwrap().octets()[0], 10);
    assert_eq!(world.set_status("young").state, "active");
    assert!(!world.has("young", "Conflict"));
    assert_eq!(world.dns.applies.len(), applies + 1);
    assert_eq!(world.dns.reads, reads, "the knowledge about the name passes on with it");
    assert!(world.dns.emptied.is_empty());
}

#[test]
fn a_record_set_made_again_under_its_name_takes_its_records_over() {
    let mut world = World::with_set(2);
    world.run(10);
    world.add_record_set("set", set_spec("www"));
    world.run(20);
    assert_eq!(world.dns.addresses(PROVIDER, WWW), [external(1), external(2)]);
    assert_eq!(world.set_status("set").state, "active");
    assert!(!world.has("set", "Conflict"), "the former record set claims nothing");
}

#[test]
fn a_name_that_changes_hands_while_it_is_changed_waits_for_the_end_of_that() {
    let mut world = World::with_set(2);
    world.run(10);
    let applies = world.dns.applies.len();
    world.dns.tricks.push_back(DnsTrick::Slow(5_000));
    world.edit_set("set", |spec| spec.address_type = "InternalIP".into());
    world.run_while(100, |world| world.dns.applies.len() == applies);
    world.delete_record_set("set");
    world.run_until(world.now.plus_millis(100));
    world.add_record_set("next", set_spec("www"));
    world.run(3);
    assert_eq!(world.dns.applies.len(), applies + 1);
    world.run(10);
    assert_eq!(world.dns.applies.len(), applies + 2);
    assert_eq!(world.dns.addresses(PROVIDER, WWW), [external(1), external(2)]);
}

#[test]
fn a_pool_and_a_set_claim_alike_and_an_invalid_owner_goes_on_claiming() {
    let mut world = pool(1, 1);
    world.edit("pool", |spec| spec.record_set.as_mut().unwrap().ttl = -1);
    world.add_record_set("young", set_spec("www"));
    world.run(10);
    assert_eq!(world.published(WWW), [0_u8; 0]);
    assert!(world.set_status("young").error.contains("FloatingIPPool ns/pool"));
    assert!(world.status("pool").error.contains("spec.dnsRecordSet.ttl"));
    assert_eq!(world.holder(1), Some(ip(1)), "a bad record set stops only itself");
    world.edit("pool", |spec| spec.record_set = None);
    world.run(10);
    assert_eq!(world.published(WWW), [1]);
    assert_eq!(world.dns.addresses(PROVIDER, WWW), [external(1)]);
    assert_eq!(world.set_status("young").state, "active");
    assert_eq!(world.status("pool").record_set, None);
    assert!(!world.status("pool").conditions.iter().any(|c| c.kind.starts_with("RecordSet")));
}

#[test]
fn a_pool_that_loses_its_name_says_so_and_goes_on_assigning() {
    let mut world = World::with_set(2);
    world.add_ip(1);
    let record_set = Some(record_set("www"));
    world.add_pool("pool", RawPoolSpec { record_set, ..spec_of([1]) });
    world.run(10);
    assert_eq!(world.holder(1), Some(ip(1)));
    assert_eq!(world.dns.addresses(PROVIDER, WWW), [external(1), external(2)]);
    let conditions = &world.status("pool").conditions;
    let has = |kind: &str, status: &str| conditions.iter().any(|c| c.kind == kind && c.status == status);
    assert!(has("RecordSetConflict", "True") && has("RecordSetReady", "False"), "{conditions:?}");
    assert!(world.events.iter().any(|n| n.kind == ObjectKind::Pool && n.reason.as_str() == "NameClaimed"));
}

#[test]
fn a_zone_by_name_and_by_id_is_one_zone() {
    let mut world = World::with_set(1);
    let cloudflare = |zone: &str| {
        Some(RawRecordSet { provider: CLOUDFLARE.into(), zone: zone.into(), ..record_set("www") })
    };
    world.edit_set("set", |spec| spec.record_set = cloudflare("Example.com"));
    world.add_record_set("young", set_spec("other"));
    world.edit_set("young", |spec| spec.record_set = cloudflare(ZONE_ID));
    world.run(10);
    assert_eq!(world.set_status("set").state, "active");
    assert!(world.set_status("young").error.contains("ns/set"), "{:?}", world.set_status("young"));
    assert_eq!(world.dns.applies.len(), 1);
}

#[test]
fn a_name_waits_until_the_zone_of_an_older_object_was_looked_up_once() {
    // The second zone does not exist, so its object publishes nothing.
    for (zone, owner) in [("example.com", external(1)), (WWW, internal(1))] {
        let mut world = World::with_set(1);
        world.dns.slow_name_ms = 20_000;
        let set = |zone: &str, record_name: &str| RawRecordSetSpec {
            record_set: Some(RawRecordSet {
                provider: CLOUDFLARE.into(),
                zone: zone.into(),
                ..record_set(record_name)
            }),
            ..set_spec("")
        };
        world.edit_set("set", |spec| *spec = set(zone, "www.example.com."));
        let by_id = set(ZONE_ID, "www");
        world.add_record_set("young", RawRecordSetSpec { address_type: "InternalIP".into(), ..by_id });
        world.add_record_set("younger", set(ZONE_ID, "elsewhere"));
        world.run(15);
        assert_eq!(world.dns.addresses(CLOUDFLARE, "elsewhere.example.com"), [external(1)]);
        assert!(world.dns.addresses(CLOUDFLARE, WWW).is_empty());
        world.run(15);
        assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [owner]);
        assert_eq!(world.dns.applies.len(), 2);
    }
}

#[test]
fn the_same_name_at_two_providers_is_no_conflict() {
    let mut world = World::with_set(1);
    world.add_record_set("other", set_spec("www"));
    world.edit_set("other", |spec| spec.provider = CLOUDFLARE.into());
    world.run(10);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), world.dns.addresses(PROVIDER, WWW));
    assert_eq!(world.set_status("other").state, "active");
}

#[test]
fn each_bad_spec_is_told_with_its_field_stops_only_its_set_and_clears() {
    type Spoil = fn(&mut RawRecordSet);
    let bad: [(&str, Spoil); 7] = [
        ("spec.dnsRecordSet.zone", |set| set.zone = String::new()),
        ("spec.dnsRecordSet.recordName", |set| set.record_name = String::new()),
        ("spec.dnsRecordSet.recordName", |set| set.record_name = "www.other.org.".into()),
        ("spec.dnsRecordSet.zone", |set| set.zone = "other.org".into()),
        ("spec.dnsRecordSet.ttl", |set| set.ttl = -5),
        ("spec.dnsRecordSet.provider", |set| set.provider = "route53".into()),
        ("spec.dnsRecordSet.whenEmpty", |set| set.when_empty = "Burn".into()),
    ];
    for (field, spoil) in bad {
        let mut world = World::with_set(1);
        world.add_record_set("good", set_spec("good"));
        world.run(10);
        world.edit_set("set", |spec| spoil(spec.record_set.as_mut().unwrap()));
        world.set_node(2, true);
        world.run(20);
        let status = world.set_status("set");
        assert!(status.state == "error" && status.error.contains(field), "{field}: {status:?}");
        assert_eq!(world.published(WWW), [1], "{field}: the existing records stay");
        assert_eq!(world.published("good.example.com"), [1, 2], "{field}");
        world.edit_set("set", |spec| spec.record_set = Some(record_set("www")));
        world.run(10);
        assert_eq!(
            (world.published(WWW), world.set_status("set").error.as_str()),
            (vec![1, 2], ""),
            "{field}"
        );
    }
}

#[test]
fn a_bad_address_type_or_selector_leaves_the_records_as_they_are() {
    for spoil in [0, 1] {
        let mut world = World::with_set(1);
        world.run(10);
        world.edit_set("set", |spec| match spoil {
            0 => spec.address_type = "Hostname".into(),
            _ => spec.matching.node_label = "a in".into(),
        });
        world.set_node(1, false);
        world.run(30);
        assert_eq!(world.published(WWW), [1]);
        let field = ["spec.addressType", "spec.match.nodeLabel"][spoil];
        assert!(world.set_status("set").error.contains(field), "{:?}", world.set_status("set"));
        world.start();
        world.run(30);
        assert_eq!(world.published(WWW), [1]);
        assert_eq!(world.set_status("set").addresses, [external(1)], "the status still names them");
    }
}

type Edit = fn(&mut RawRecordSetSpec);

/// Edits after which the records stay as they are, nonsense among them.
fn harmless() -> Vec<Edit> {
    fn raw(spec: &mut RawRecordSetSpec) -> &mut RawRecordSet {
        spec.record_set.as_mut().unwrap()
    }
    vec![
        |spec| raw(spec).record_name = "WWW.Example.com.".into(),
        |spec| raw(spec).when_empty = "Keep".into(),
        |spec| spec.record_set = None,
        |spec| raw(spec).zone = String::new(),
        |spec| raw(spec).zone = "other.org".into(),
        |spec| raw(spec).record_name = "www.other.org.".into(),
        |spec| raw(spec).record_name = String::new(),
        |spec| raw(spec).ttl = -5,
        |spec| raw(spec).provider = "route53".into(),
        |spec| raw(spec).when_empty = "Burn".into(),
        |spec| spec.address_type = "Hostname".into(),
        |spec| spec.matching.node_label = "a in".into(),
        |spec| spec.matching.pod_namespace = "web/pods?x=".into(),
    ]
}

#[test]
fn from_any_edit_of_a_record_set_to_any_other_and_back_no_record_changes() {
    for (first, from) in harmless().iter().enumerate() {
        for (second, to) in harmless().iter().enumerate() {
            let mut world = World::with_set(2);
            world.run(10);
            let before = world.record_sets["set"].spec.clone().unwrap();
            for edit in [from, to] {
                world.edit_set("set", |spec| {
                    *spec = before.clone();
                    edit(spec);
                });
                world.run(20);
            }
            world.edit_set("set", |spec| *spec = before);
            world.run(60);
            let what = format!("edit {first}, then {second}");
            assert_eq!((world.published(WWW), world.dns.changes), (vec![1, 2], 2), "{what}");
            let status = world.set_status("set");
            assert_eq!((status.state.as_str(), status.error.as_str()), ("active", ""), "{what}");
        }
    }
}

#[test]
fn an_empty_record_set_of_a_pool_is_none() {
    let mut world = pool(1, 1);
    world.edit("pool", |spec| spec.record_set = Some(RawRecordSet::default()));
    world.run(10);
    assert_eq!(world.status("pool").error, "");
    assert_eq!((world.dns.reads, world.status("pool").record_set.clone()), (0, None));
    assert_eq!(world.fleet.snapshot().pools[0].dns, "");
}

#[test]
fn a_deleted_object_lets_its_name_go_even_while_its_change_is_under_way() {
    let mut world = World::with_set(2);
    world.add_record_set("young", set_spec("www"));
    world.run(10);
    world.set_node(3, true);
    world.run_until(world.now.plus_millis(310));
    assert_eq!(world.dns.applies.len(), 2, "under way");
    world.delete_record_set("set");
    world.set_node(4, true);
    world.run(10);
    assert_eq!(world.published(WWW), [1, 2, 3, 4]);
    assert_eq!(world.set_status("young").state, "active");
}

#[test]
fn what_is_written_labels_a_set_whose_zone_is_missing_or_malformed() {
    for zone in ["", "a b.c"] {
        let mut world = pool(1, 1);
        let spec = set_spec("web");
        let bad = RawRecordSet { zone: zone.into(), ..record_set("web") };
        world
            .add_record_set("by-default", RawRecordSetSpec { record_set: Some(bad.clone()), ..spec.clone() });
        let named = RawRecordSet { provider: CLOUDFLARE.into(), ..bad.clone() };
        world.add_record_set("named", RawRecordSetSpec { record_set: Some(named), ..spec.clone() });
        world.add_record_set("without", RawRecordSetSpec { record_set: None, ..spec });
        world.edit("pool", |spec| spec.record_set = Some(bad));
        world.run(10);
        let snapshot = world.fleet.snapshot();
        let labels = |name: &str| {
            let set = snapshot.record_sets.iter().find(|set| set.name.name == name).unwrap();
            (set.provider.as_str(), set.dns.as_str())
        };
        assert_eq!(labels("by-default"), (PROVIDER, "web"));
        assert_eq!(labels("named"), (CLOUDFLARE, "web"));
        assert_eq!(labels("without"), (PROVIDER, ""));
        assert_eq!(snapshot.pools[0].dns, "web");
    }
}

#[test]
fn a_record_set_that_is_being_deleted_has_no_series_any_more() {
    let mut world = World::with_set(1);
    world.run(10);
    assert_eq!(world.fleet.snapshot().record_sets.len(), 1);
    let mut set = world.record_sets["set"].clone();
    set.deleting = true;
    world.observe(Input::RecordSets(Observed::Apply(set)));
    world.run(10);
    assert!(world.fleet.snapshot().record_sets.is_empty());
}

#[test]
fn a_set_that_cannot_be_read_twice_in_a_row_goes_on_claiming_its_name() {
    let mut world = World::with_set(1);
    world.run(5);
    world.add_record_set("young", set_spec("www"));
    world.run(5);
    for message in ["one", "another"] {
        let mut set = world.record_sets["set"].clone();
        world.version += 1;
        set.resource_version = world.version.to_string();
        set.spec = Err(message.into());
        world.record_sets.insert("set".into(), set.clone());
        world.observe(Input::RecordSets(Observed::Apply(set)));
        world.run(30);
        assert!(world.set_status("young").error.contains("NodeDNSRecordSet ns/set"), "{message}");
    }
}

/// A set for the full name, in a zone at Cloudflare that is given by name or by id.
fn in_zone(zone: &str) -> RawRecordSetSpec {
    let record_set = RawRecordSet { zone: zone.into(), ..record_set(WWW) };
    RawRecordSetSpec {
        provider: CLOUDFLARE.into(),
        record_set: Some(record_set),
        ..RawRecordSetSpec::default()
    }
}

#[test]
fn an_older_object_whose_zone_is_not_answered_for_keeps_its_name() {
    let mut world = World::bare(0, 1);
    world.add_record_set("old", in_zone("example.com"));
    world.add_record_set("young", in_zone(ZONE_ID));
    world.edit_set("young", |spec| spec.address_type = "InternalIP".into());
    world.start();
    world.dns.failing_lookups = 2;
    world.run(30);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [external(1)]);
    assert_eq!(world.dns.applies.len(), 1, "the younger one wrote");
}

#[test]
fn of_the_objects_whose_zone_is_being_looked_up_the_oldest_is_waited_for() {
    for (old, young) in [("a", "z"), ("z", "a")] {
        let mut world = World::bare(0, 1);
        world.dns.slow_name_ms = 20_000;
        world.add_record_set(old, in_zone("example.com"));
        world.add_record_set(
            "middle",
            RawRecordSetSpec { address_type: "InternalIP".into(), ..in_zone(ZONE_ID) },
        );
        world.add_record_set(young, in_zone("example.com"));
        world.start();
        world.run(40);
        assert_eq!(world.dns.addresses(CLOUDFLARE, WWW), [external(1)]);
        assert_eq!(world.dns.applies.len(), 1, "nobody else wrote before");
    }
}

#[test]
fn nothing_is_done_before_both_kinds_of_objects_are_listed() {
    for pools_first in [true, false] {
        let mut world = World::new();
        world.hold_watches = true;
        world.set_node(1, true);
        world.add_ip(1);
        world.add_record_set("set", set_spec("www"));
        let ips = vec![ip(1).to_string()];
        world.add_pool("pool", RawPoolSpec { ips, record_set: Some(record_set("www")), ..spec() });
        world.observe(Input::Leading);
        world.observe(Input::Permit(true));
        world.hold_watches = false;
        let pools = Input::Pools(Observed::Reset(world.pools.values().cloned().collect()));
        let sets = Input::RecordSets(Observed::Reset(world.record_sets.values().cloned().collect()));
        let (first, second) = if pools_first { (pools, sets) } else { (sets, pools) };
        world.observe(first);
        world.run(60);
        assert_eq!((world.calls.len(), world.dns.reads, world.status_writes), (0, 0, 0), "{:?}", world.calls);
        world.observe(second);
        world.run(10);
        assert_eq!(world.holder(1), Some(ip(1)));
        assert_eq!(world.dns.addresses(PROVIDER, WWW), [external(1)], "the set is older");
        assert_eq!(world.status("pool").conditions.iter().filter(|c| c.reason == "NameClaimed").count(), 2);
    }
}

#[test]
fn a_zone_without_a_dot_is_an_id_where_there_are_ids_and_of_plain_letters() {
    let parse = |text: &str| ZoneRef::parse(text, ZoneForm::NameOrId);
    let id = "a".repeat(63);
    for text in ["023e105f4ecef8ad9ca31a8372d0c353", "A-b_9", &id] {
        assert_eq!(parse(text), Ok(ZoneRef::Id(text.to_owned())));
    }
    for text in ["a b", "a/b", "\u{e4}", &"a".repeat(64)] {
        assert_eq!(parse(text), Err(NameError::Malformed(text.to_owned())));
    }
    assert_eq!(parse("Example.com"), Ok(ZoneRef::Name("example.com".to_owned())));
    assert_eq!(ZoneRef::parse("example", ZoneForm::Name), Ok(ZoneRef::Name("example".to_owned())));
}
