//! Records at a place that a spec no longer names, and names that lost all records. Each is reported once, by name.

use crate::dns::pool;
use crate::world::{PROVIDER, World};
use crate::zones::{CLOUDFLARE, external, record_set, set_spec};
use flipop_core::model::spec::RawRecordSet;

const WWW: &str = "www.example.com";

const ADVICE: &str =
    "keeps its records, and FLIPOP no longer manages them; delete them unless clients use them";

type Edit = fn(&mut RawRecordSet);

/// The texts of Events about records that were left.
fn left(world: &World) -> Vec<&str> {
    let told = world.events.iter().filter(|event| event.reason.as_str() == "RecordsLeft");
    told.inspect(|event| assert!(event.warning)).map(|event| event.message.as_str()).collect()
}

/// A world of each kind of object, with the addresses that it publishes, and the way to edit its record set.
type Case = (World, &'static str, fn(&mut World, Edit));

fn both_kinds() -> [Case; 2] {
    let mut worlds: [Case; 2] = [
        (pool(2, 2), "192.0.2.1, 192.0.2.2", |world, edit| {
            world.edit("pool", |spec| edit(spec.record_set.as_mut().unwrap()));
        }),
        (World::with_set(2), "203.0.113.1, 203.0.113.2", |world, edit| {
            world.edit_set("set", |spec| edit(spec.record_set.as_mut().unwrap()));
        }),
    ];
    for (world, ..) in &mut worlds {
        world.dns.zone(PROVIDER, "example.org", Some("example.org"));
        world.run(60);
    }
    worlds
}

#[test]
fn records_at_a_former_name_zone_or_provider_are_told_once_and_not_again_by_the_next_process() {
    let edits: [Edit; 3] = [
        |set| set.record_name = "api".into(),
        |set| set.zone = "example.org".into(),
        |set| set.provider = CLOUDFLARE.into(),
    ];
    for edit in edits {
        for (mut world, published, change) in both_kinds() {
            assert_eq!(left(&world), Vec::<&str>::new());
            change(&mut world, edit);
            world.run(60);
            let told = format!("www.example.com in the zone example.com at {PROVIDER} {ADVICE}: {published}");
            assert_eq!(left(&world), [told.as_str()]);
            world.lead_again();
            world.run(60);
            world.start();
            world.run(700);
            assert_eq!(left(&world), [told.as_str()], "told once");
            // The spec goes back to its first place, so the records at the other place are left.
            change(&mut world, |set| *set = record_set("www"));
            world.run(60);
            assert_eq!(left(&world).len(), 2);
        }
    }
}

#[test]
fn a_record_set_that_is_taken_out_of_a_pool_leaves_its_records_and_says_so_once() {
    let (mut world, published, _) = both_kinds().into_iter().next().unwrap();
    world.observe(flipop_core::fleet::Input::Permit(false));
    world.edit("pool", |spec| spec.record_set = None);
    world.run(60);
    assert_eq!(left(&world), Vec::<&str>::new(), "no Event may be written");
    world.observe(flipop_core::fleet::Input::Permit(true));
    world.run(60);
    let told = format!("www.example.com in the zone example.com at {PROVIDER} {ADVICE}: {published}");
    assert_eq!(left(&world), [told.as_str()]);
    assert!(world.status("pool").record_set.is_none());
    world.start();
    world.run(700);
    assert_eq!(left(&world).len(), 1);
    world.edit("pool", |spec| spec.record_set = Some(record_set("www")));
    world.run(60);
    world.edit("pool", |spec| spec.record_set = None);
    world.run(60);
    assert_eq!(left(&world).len(), 2);
}

#[test]
fn records_that_were_left_while_no_process_ran_are_told_by_the_status_alone() {
    let (mut world, published, _) = both_kinds().into_iter().next().unwrap();
    let told = format!("www.example.com {ADVICE}: {published}");
    // No process sees the edit happen.
    drop(world.change_spec("pool", |spec| spec.record_set = Some(record_set("api"))));
    world.start();
    world.run(60);
    assert_eq!(left(&world), [told.as_str()]);
    drop(world.change_spec("pool", |spec| spec.record_set = None));
    world.start();
    world.run(60);
    assert_eq!(left(&world), [told.as_str(), told.replace("www.", "api.").as_str()]);
    world.start();
    world.run(60);
    assert_eq!(left(&world).len(), 2, "told once");
}

#[test]
fn nothing_is_said_to_be_left_where_nothing_was_published_or_the_name_is_still_looked_after() {
    let edits: [(&str, Edit); 4] = [
        ("a mistake", |set| set.zone.clear()),
        ("another way to write the same name", |set| set.record_name = "www.example.com".into()),
        ("another time to live", |set| set.ttl = 120),
        ("an unknown provider", |set| set.provider = "bind".into()),
    ];
    for (why, edit) in edits {
        for (mut world, _, change) in both_kinds() {
            change(&mut world, edit);
            world.run(60);
            assert_eq!(left(&world), Vec::<&str>::new(), "{why}");
            change(&mut world, |set| *set = record_set("www"));
            world.run(60);
            assert_eq!(left(&world), Vec::<&str>::new(), "{why}");
        }
    }
    let mut world = World::with_set(0);
    world.run(60);
    world.edit_set("set", |spec| spec.record_set = Some(record_set("api")));
    world.run(60);
    assert_eq!(left(&world), Vec::<&str>::new(), "nothing was published");

    // The next object takes the name over.
    let mut world = World::with_set(2);
    world.add_record_set("heir", set_spec("www"));
    world.run(60);
    world.edit_set("set", |spec| spec.record_set = Some(record_set("api")));
    world.run(60);
    assert_eq!(left(&world), Vec::<&str>::new(), "the name belongs to another object");
    // An object that never had the name leaves nothing there.
    world.edit_set("set", |spec| spec.record_set = Some(record_set("www")));
    world.run(60);
    world.add_record_set("third", set_spec("www"));
    world.run(60);
    world.events.clear();
    world.edit_set("third", |spec| spec.record_set = Some(record_set("third")));
    world.run(60);
    assert_eq!(left(&world), Vec::<&str>::new(), "the name never belonged to it");
}

#[test]
fn a_mistake_on_the_way_to_another_name_hides_nothing_that_was_left() {
    for (mut world, published, change) in both_kinds() {
        change(&mut world, |set| set.zone.clear());
        world.run(60);
        change(&mut world, |set| *set = record_set("api"));
        world.run(60);
        let told = format!("www.example.com in the zone example.com at {PROVIDER} {ADVICE}: {published}");
        assert_eq!(left(&world), [told.as_str()]);
    }
}

#[test]
fn records_that_were_all_removed_are_named_in_a_warning() {
    for (nodes, named) in [
        (1, "203.0.113.1".to_owned()),
        // More records than one call deletes.
        (40, (1..=40).map(|n| external(n).to_string()).collect::<Vec<_>>().join(", ")),
    ] {
        let mut world = World::with_set(nodes);
        world.run(60);
        world.events.clear();
        (1..=nodes).for_each(|n| world.set_node(n, false));
        world.run(60);
        assert_eq!(world.dns.emptied, [WWW]);
        let records = world.events.iter().filter(|event| event.reason.as_str().starts_with("Records"));
        let told: Vec<_> =
            records.map(|event| (event.warning, event.reason.as_str(), event.message.as_str())).collect();
        let text = format!("{WWW} has no addresses now; FLIPOP deleted {named}");
        assert_eq!(told, [(true, "RecordsRemoved", text.as_str())]);
    }
}
