//! What stays published, and what statuses say of it, while nodes or addresses are not known.

use crate::dns::pool;
use crate::faults::nodes_key;
use crate::world::{PROVIDER, World, ip};
use crate::zones::{external, set_spec};
use flipop_core::facts::Observed;
use flipop_core::fault::FaultKind;
use flipop_core::fleet::Input;

const WWW: &str = "www.example.com";

fn kinds(world: &World) -> Vec<&str> {
    world.set_status("set").conditions.iter().map(|condition| condition.kind.as_str()).collect()
}

#[test]
fn a_set_whose_nodes_could_never_be_watched_says_so() {
    let mut world = World::new();
    world.hold_watches = true;
    world.add_record_set("set", set_spec("www"));
    world.start();
    world.observe(Input::WatchTrouble(nodes_key(), Some("nodes is forbidden".into())));
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "WatchFailing"]);
    let ready = &world.set_status("set").conditions[0];
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "NodesUnread"));
    assert_eq!((world.dns.reads, world.dns.applies.len()), (0, 0));
    world.set_node(1, true);
    world.hold_watches = false;
    world.observe(Input::WatchTrouble(nodes_key(), None));
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "SpecValid"]);
    assert_eq!(world.set_status("set").conditions[0].reason, "Published");
}

#[test]
fn after_a_restart_a_set_whose_nodes_cannot_be_watched_says_so_beside_what_was_true_of_it() {
    let mut world = World::with_set(2);
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "SpecValid"]);
    world.hold_watches = true;
    world.lead_again();
    for trouble in ["nodes is forbidden", "nodes hang"] {
        world.observe(Input::WatchTrouble(nodes_key(), Some(trouble.into())));
        world.run(10);
        assert_eq!(kinds(&world), ["Ready", "SpecValid", "WatchFailing"]);
        let status = world.set_status("set");
        assert!(status.conditions[2].message.contains(trouble), "{status:?}");
        assert_eq!((status.state.as_str(), &status.addresses), ("active", &vec![external(1), external(2)]));
    }
    world.observe(Input::WatchTrouble(nodes_key(), None));
    world.hold_watches = false;
    world.run(10);
    assert_eq!(kinds(&world), ["Ready", "SpecValid"]);
    assert_eq!(world.dns.applies.len(), 1);
}

#[test]
fn what_was_written_is_built_on_before_a_watch_shows_it() {
    let mut world = World::with_set(1);
    world.run(10);
    let writes = world.status_writes;
    world.faults.mute = true;
    for n in 2..=4 {
        world.set_node(n, true);
        world.run(10);
    }
    assert_eq!(world.set_status("set").addresses.len(), 4);
    assert_eq!(world.status_writes, writes + 3, "none met with a conflict");
}

#[test]
fn a_watch_event_that_our_own_write_overtook_takes_nothing_back() {
    let mut world = World::with_set(1);
    let old = world.record_sets["set"].clone();
    world.run(10);
    let writes = world.status_writes;
    world.observe(Input::RecordSets(Observed::Apply(old)));
    world.set_node(2, true);
    world.run(10);
    assert_eq!(world.set_status("set").addresses.len(), 2);
    assert_eq!(world.status_writes, writes + 1, "none met with a conflict");
}

#[test]
fn trouble_that_a_former_process_has_told_is_no_event_again() {
    let mut world = World::with_set(1);
    world.dns.add(PROVIDER, "example.com", WWW, "CNAME", "elsewhere.example.com");
    world.run(10);
    let told = |world: &World| world.notices.iter().filter(|reason| **reason == "CNAME").count();
    assert_eq!(told(&world), 1);
    world.start();
    world.run(60);
    assert_eq!(told(&world), 1);
    assert!(world.set_status("set").error.contains("CNAME"));
}

#[test]
fn an_address_of_which_a_new_process_knows_nothing_yet_stays_published() {
    let mut world = pool(2, 2);
    world.run(20);
    world.faults.unlisted.insert(ip(2));
    world.faults.gets = Some(FaultKind::Transient);
    world.start();
    world.run(60);
    assert_eq!(world.published(WWW), [1, 2]);
    world.faults.gets = None;
    world.cloud.remove(&ip(2));
    world.run(120);
    assert_eq!(world.published(WWW), [1], "now it is known to be gone");
}

#[test]
fn a_pool_whose_nodes_are_not_known_yet_empties_no_name() {
    let mut world = pool(2, 2);
    world.edit("pool", |spec| spec.record_set.as_mut().unwrap().when_empty = "Delete".into());
    world.run(20);
    let applies = world.dns.applies.len();
    world.hold_watches = true;
    world.start();
    world.run(120);
    assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![1, 2], applies));
}
