//! Labels of nodes: which node has which labels, and that they leave before the address does.

use crate::faults::spec_of;
use crate::world::{World, ip};
use flipop_core::fleet::action::Outcome;
use flipop_core::model::label_mode::RawNodeLabels;
use flipop_core::model::node_labels::{LabelChanges, LabelKey, SeenLabel};
use flipop_core::model::spec::RawMatch;
use flipop_core::model::{Address, FaultKind, Observed, Taint, Toleration, Uid, WriteFailure};
use std::collections::BTreeMap;

const ON: RawNodeLabels = RawNodeLabels { enabled: true, legacy: false };
const LEGACY: RawNodeLabels = RawNodeLabels { enabled: true, legacy: true };

impl World {
    /// A write of labels arrives. It sets no label with an address that is elsewhere.
    pub(crate) fn label(&mut self, node: String, uid: Uid, changes: LabelChanges) {
        self.call(format!("label {node}"));
        let named = |labels: &BTreeMap<LabelKey, Option<String>>| {
            labels.get(&LabelKey::Ip).cloned().flatten().and_then(|text| Address::v4(&text))
        };
        let facts = self.nodes.get(&node).filter(|facts| facts.uid == uid);
        if let Some((ip, facts)) = named(&changes).zip(facts)
            && !self.moved.contains(&ip)
        {
            assert_eq!(self.cloud[&ip].machine, facts.machine, "{node} is labelled with {ip}");
        }
        let result = if facts.is_some() { Ok(()) } else { Err(WriteFailure::Gone) };
        let result = self.faults.labels.pop_front().map_or(result, Err);
        let delay_ms = self.faults.label_delay_ms.unwrap_or(50);
        if let Some(ip) = facts.and_then(|facts| facts.labels.address()) {
            // A refusal is an answer too: the removal may take long.
            if result.is_err() {
                self.labels_go.insert(ip, self.now.plus_millis(delay_ms));
            } else if changes.get(&LabelKey::Ip) == Some(&None) {
                self.labels_go.insert(ip, self.now.plus_millis(500));
            }
        }
        // Of a write that fails for a moment, only the answer is lost.
        let done = matches!(result, Ok(()) | Err(WriteFailure::Transient(_)));
        if let Some(facts) = self.nodes.get_mut(&node).filter(|_| done) {
            facts.labels.apply(&changes);
            let facts = facts.clone();
            if facts.labels.is_empty() {
                self.labels.remove(&node);
            } else {
                self.labels.insert(node.clone(), facts.labels.clone());
            }
            self.show_node(facts);
        }
        self.answer_after(delay_ms, Outcome::Labelled { node, uid, changes, result });
    }

    /// Checks an assignment that begins: the removal of the labels with its address was requested, and it was answered
    /// or had time. A pool that sets no labels waits for none, not even for those of its predecessor.
    pub(crate) fn check_labels(&self, pool: &str, ip: Address, to: &str) {
        if !self
            .pools
            .get(pool)
            .is_some_and(|pool| pool.spec.as_ref().is_ok_and(|spec| spec.node_labels.enabled))
        {
            return;
        }
        let well = |name: &String| {
            self.nodes
                .get(name)
                .is_some_and(|node| node.ready.is_ready() && !node.deleting && node.name != to)
        };
        let named = self.labels.iter().filter(|(name, _)| well(name));
        let standing = named.filter(|(_, labels)| labels.address() == Some(ip)).map(|(name, _)| name).next();
        if let Some(name) = standing {
            let from = self.labels_go.get(&ip).copied();
            let waited = from.is_some_and(|from| self.now >= from);
            assert!(waited, "{ip} goes to {to}, and {name} is still labelled with it: {from:?}");
        }
    }

    /// The labels of a node, as `key=value`, in the order of the keys.
    fn labels_of(&self, n: u8) -> Vec<String> {
        let labels = self.labels.get(&format!("node-{n}"));
        let labels = labels.into_iter().flat_map(|labels| &labels.0);
        labels.map(|(key, label)| format!("{}={}", key.as_str(), label.value)).collect()
    }

    /// Answers to writes of labels take this long, and no watch shows their effect sooner.
    fn delay_labels(&mut self, ms: u64) {
        self.faults.mute = true;
        self.faults.label_delay_ms = Some(ms);
    }

    /// Somebody else sets a label.
    fn label_by_hand(&mut self, n: u8, key: LabelKey, value: &str) {
        let facts = self.nodes.get_mut(&format!("node-{n}")).unwrap();
        facts.labels.0.insert(key, SeenLabel { value: value.to_owned(), ours: false });
        let facts = facts.clone();
        self.labels.insert(facts.name.clone(), facts.labels.clone());
        self.show_node(facts);
    }
}

fn active(last: u8) -> Vec<String> {
    vec![
        "flipop.digitalocean.com/reserved-ip-active=true".to_owned(),
        format!("flipop.digitalocean.com/reserved-ip={}", ip(last)),
    ]
}

fn legacy(last: u8) -> Vec<String> {
    let mut labels = active(last);
    labels.push(format!("do-outbound-floating-ip={}", ip(last)));
    labels.push("do-outbound-floating-ip-enabled=true".to_owned());
    labels
}

const OFF: &str = "do-outbound-floating-ip-enabled=false";

/// One address for each of `addresses`, and a pool with labels.
fn labelled(addresses: u8, nodes: u8, node_labels: RawNodeLabels) -> World {
    let mut world = World::with(addresses, nodes);
    world.edit("pool", |spec| spec.node_labels = node_labels);
    world.run(30);
    world
}

/// Milliseconds from now to the next assignment.
fn begins_after(world: &mut World) -> u64 {
    let (from, before) = (world.now, world.assigns);
    world.run_while(10, |world| world.assigns == before);
    world.now.millis_since(from)
}

#[test]
fn labels_stand_where_the_annotation_stands() {
    let mut world = labelled(1, 2, ON);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (active(1), vec![]));
    world.set_node(1, false);
    world.run(30);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (vec![], active(1)));
    world.edit("pool", |spec| spec.node_labels = RawNodeLabels::default());
    world.run(30);
    assert!(world.labels.is_empty(), "labels were switched off");
    assert_eq!(world.annotations["node-2"], ip(1).to_string());
    world.edit("pool", |spec| spec.node_labels = ON);
    world.run(30);
    world.delete_pool("pool");
    world.run(30);
    assert!(world.labels.is_empty() && world.annotations.is_empty(), "the pool is gone");
}

#[test]
fn without_the_field_no_label_is_written() {
    let mut world = World::with(1, 2);
    world.edit("pool", |spec| spec.node_labels = RawNodeLabels { enabled: false, legacy: true });
    world.run(60);
    world.set_node(1, false);
    world.run(60);
    assert_eq!(world.total("label"), 0);
}

#[test]
fn the_labels_of_the_older_tool_follow_the_match() {
    let mut world = labelled(1, 2, LEGACY);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (legacy(1), vec![OFF.to_owned()]));
    world.set_node(1, false);
    world.run(30);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (vec![], legacy(1)), "node-1 no longer matches");
    world.set_node(1, true);
    world.run(30);
    assert_eq!(world.labels_of(1), [OFF]);
    // The node has an address of a pool without labels, so the label for "no address" goes.
    world.add_ip(9);
    world.move_by_hand(9, Some(1));
    world.add_pool("plain", spec_of([9]));
    world.run(90);
    assert_eq!(world.annotations["node-1"], ip(9).to_string());
    assert_eq!(world.labels_of(1), Vec::<String>::new());
}

#[test]
fn a_move_waits_for_the_labels_to_go_and_no_longer_than_half_a_second() {
    // A taint ends the match of a node that is otherwise healthy.
    for (delay_ms, least, most) in [(50, 40, 70), (450, 440, 470), (5_000, 490, 510)] {
        let mut world = labelled(1, 2, ON);
        world.delay_labels(delay_ms);
        world.taint(1, vec![Taint { key: "k".into(), value: String::new(), effect: "NoSchedule".into() }]);
        let waited = begins_after(&mut world);
        assert!((least..=most).contains(&waited), "answered after {delay_ms} ms, begun after {waited} ms");
    }
    // Without labels the move does not wait.
    let mut world = labelled(1, 2, RawNodeLabels::default());
    world.taint(1, vec![Taint { key: "k".into(), value: String::new(), effect: "NoSchedule".into() }]);
    assert_eq!(begins_after(&mut world), 10, "one step");
}

#[test]
fn a_move_waits_for_the_labels_of_a_node_that_the_watch_shows_no_more() {
    // It may only have lost the label that the pool selects by.
    for (delay_ms, least, most) in [(50, 40, 70), (5_000, 490, 510)] {
        let mut world = labelled(1, 2, ON);
        world.delay_labels(delay_ms);
        world.delete_node(1);
        let waited = begins_after(&mut world);
        assert!((least..=most).contains(&waited), "answered after {delay_ms} ms, begun after {waited} ms");
    }
}

#[test]
fn a_move_waits_for_labels_whose_write_had_no_answer_but_was_seen() {
    let mut world = World::with(1, 2);
    world.run(30);
    world.faults.labels = vec![WriteFailure::Transient("connection lost".into())].into();
    world.edit("pool", |spec| spec.node_labels = ON);
    world.run(30);
    assert_eq!((world.labels_of(1), world.faults.labels.len()), (active(1), 0));
    world.delay_labels(5_000);
    world.taint(1, vec![Taint { key: "k".into(), value: String::new(), effect: "NoSchedule".into() }]);
    let waited = begins_after(&mut world);
    assert!((490..=510).contains(&waited), "begun after {waited} ms");
}

#[test]
fn a_move_waits_for_no_node_that_fails_or_is_being_deleted() {
    let fail: [fn(&mut World); 2] = [
        |world| world.set_node(1, false),
        |world| {
            let node = world.nodes.get_mut("node-1").unwrap();
            node.deleting = true;
            let node = node.clone();
            world
                .observe(flipop_core::fleet::Input::Nodes(crate::faults::nodes_key(), Observed::Apply(node)));
        },
    ];
    for fail in fail {
        let mut world = labelled(1, 2, ON);
        world.delay_labels(5_000);
        fail(&mut world);
        assert_eq!(begins_after(&mut world), 10, "one step");
    }
}

#[test]
fn a_refused_removal_is_an_answer() {
    let mut world = labelled(1, 2, ON);
    world.faults.labels = vec![WriteFailure::Forbidden("no labels".into()); 3].into();
    world.taint(1, vec![Taint { key: "k".into(), value: String::new(), effect: "NoSchedule".into() }]);
    assert!(begins_after(&mut world) <= 70);
    world.run(30);
    let denied = |world: &World| world.has("pool", "LabelsDenied");
    assert!(denied(&world) && world.annotations["node-2"] == ip(1).to_string());
    world.run(900);
    assert!(!denied(&world) && world.labels_of(1).is_empty(), "it is tried again");
}

#[test]
fn a_move_by_hand_waits_for_the_labels_to_go() {
    let mut world = labelled(1, 2, ON);
    world.delay_labels(5_000);
    world.ask("pool", Some("192.0.2.1=node-2#1"));
    let waited = begins_after(&mut world);
    assert!((500..700).contains(&waited), "{waited} ms, of which the announcement takes some");
    assert_eq!(world.annotations["node-1"], ip(1).to_string(), "the annotation stays until it goes");
    world.run(30);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (vec![], active(1)));
}

#[test]
fn an_address_returns_to_the_node_that_still_has_its_labels_without_a_wait() {
    let begun = |node_labels| {
        let mut world = labelled(1, 1, node_labels);
        world.delay_labels(5_000);
        world.move_by_hand(1, None);
        begins_after(&mut world)
    };
    assert_eq!(begun(ON), begun(RawNodeLabels::default()));
}

#[test]
fn labels_come_back_if_the_move_does_not_begin() {
    let mut world = labelled(1, 2, ON);
    world.ask("pool", Some("192.0.2.1=node-2#1"));
    world.run_while(10, |world| !world.labels_of(1).is_empty());
    world.ask("pool", None);
    world.run(30);
    assert_eq!((world.holder(1), world.labels_of(1)), (Some(ip(1)), active(1)));
}

#[test]
fn a_cool_off_counts_for_the_move_that_waits_first() {
    let mut world = labelled(2, 2, ON);
    world.edit("pool", |spec| spec.cool_off_seconds = 20.0);
    world.run(60);
    world.add_ip(3);
    world.run(60);
    world.set_node(3, true);
    world.delay_labels(5_000);
    world.taint(1, vec![Taint { key: "k".into(), value: String::new(), effect: "NoSchedule".into() }]);
    // The third address appears while the first waits for its labels.
    world.run_until(world.now.plus_millis(100));
    world.set_node(4, true);
    world.edit("pool", |spec| spec.ips.push(ip(3).to_string()));
    world.run(5);
    assert!(world.assigns <= 3, "two assignments began within the cool-off");
}

#[test]
fn what_others_wrote_stays_unless_a_pool_confirms_its_own_address() {
    let mut world = World::with(1, 3);
    world.label_by_hand(2, LabelKey::LegacyEnabled, "false");
    world.label_by_hand(3, LabelKey::Ip, "198.51.100.1");
    world.edit("pool", |spec| spec.node_labels = ON);
    world.run(700);
    assert_eq!(world.labels_of(2), [OFF]);
    assert_eq!(world.labels_of(3), ["flipop.digitalocean.com/reserved-ip=198.51.100.1"]);
    world.ask("pool", Some("192.0.2.1=node-3#1"));
    world.run(30);
    assert_eq!(world.labels_of(3), active(1));
    // FLIPOP's labels come and go beside those of others.
    world.ask("pool", Some("192.0.2.1=node-2#2"));
    world.run(30);
    assert_eq!(world.labels_of(2), [active(1), vec![OFF.to_owned()]].concat());
    world.ask("pool", Some("192.0.2.1=node-1#3"));
    world.run(30);
    assert_eq!(world.labels_of(2), [OFF]);
}

#[test]
fn a_crash_at_any_moment_leaves_the_labels_right_in_the_end() {
    for crash_ms in (0..2_000).step_by(50) {
        let mut world = labelled(2, 3, LEGACY);
        world.set_node(1, false);
        world.run_until(world.now.plus_millis(crash_ms));
        if crash_ms % 100 == 0 {
            // The next process finds labels of its predecessor and a pool without labels.
            world.edit("pool", |spec| spec.node_labels = RawNodeLabels::default());
        }
        world.start();
        world.run(700);
        let labels: Vec<_> = (1..=3).map(|n| world.labels_of(n)).collect();
        let expected =
            if crash_ms % 100 == 0 { [vec![], vec![], vec![]] } else { [vec![], legacy(2), legacy(1)] };
        assert_eq!(labels, expected, "a crash after {crash_ms} ms");
    }
}

#[test]
fn a_paused_pool_changes_no_label() {
    let mut world = labelled(1, 3, LEGACY);
    world.pause("pool", Some("incident 7"));
    world.run(5);
    let before = world.total("label");
    world.set_node(1, false);
    world.set_node(4, true);
    world.run(700);
    world.start();
    world.run(700);
    assert_eq!(world.total("label"), before);
    world.pause("pool", None);
    world.run(60);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (vec![], legacy(1)));
}

#[test]
fn what_is_not_known_stays() {
    let mut world = labelled(1, 2, LEGACY);
    world.faults.reads = Some(FaultKind::Unauthorized);
    world.run(60);
    world.start();
    world.run(700);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (legacy(1), vec![OFF.to_owned()]));
    world.edit("pool", |spec| spec.provider = "nowhere".into());
    world.start();
    world.run(700);
    assert_eq!((world.labels_of(1), world.labels_of(2)), (legacy(1), vec![OFF.to_owned()]), "frozen");
}

#[test]
fn a_pool_that_selects_by_its_own_label_sets_none_and_says_so() {
    for key in LabelKey::ALL {
        let mut world = World::with(1, 1);
        world.edit("pool", |spec| {
            spec.node_labels = ON;
            let tolerations = vec![Toleration::default()];
            let node_label = format!("!{}", key.as_str());
            spec.matching = RawMatch { node_label, tolerations, ..RawMatch::default() };
        });
        world.run(60);
        let valid = world.condition("pool", "SpecValid").unwrap();
        assert_eq!(valid.reason, "LabelsIgnored");
        assert!(valid.message.contains(key.as_str()), "{}", valid.message);
        assert_eq!(world.total("label "), 0);
        assert_eq!(world.holder(1), Some(ip(1)), "the rest of the pool works");
    }
}

#[test]
fn a_new_leader_lets_labels_go_that_no_sweep_has_found_yet() {
    let mut world = World::with(3, 4);
    world.edit("pool", |spec| spec.node_labels = ON);
    world.run(1);
    // Somebody moves addresses in a pause, in which labels stay. Then another process leads, and the pause ends.
    world.pause("pool", Some("incident"));
    world.move_by_hand(3, None);
    world.move_by_hand(1, Some(3));
    world.run(50);
    assert_eq!(world.labels_of(3), active(3));
    world.set_node(1, false);
    world.start();
    world.pause("pool", None);
    // Each assignment is checked as it begins.
    world.run(120);
    assert_eq!(world.labels_of(3), active(1));
}
