//! Pods decide which nodes are candidates.

use crate::faults::{nodes_key, pods_key, spec_of};
use crate::world::{World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::Observed;
use flipop_core::model::spec::RawMatch;

/// Three nodes, of which the first two run a serving pod, and two addresses.
fn world() -> World {
    let mut world = World::bare(2, 3);
    let matching = RawMatch { pod_namespace: "ns".into(), ..RawMatch::default() };
    world.add_pool("pool", RawPoolSpec { matching, ..spec_of(1..=2) });
    world.set_pod("a", 1, true);
    world.set_pod("b", 2, true);
    world.start();
    world.run(10);
    world
}

#[test]
fn only_nodes_with_a_serving_pod_are_candidates() {
    let mut world = world();
    assert_eq!((world.holder(1), world.holder(2), world.holder(3)), (Some(ip(1)), Some(ip(2)), None));
    world.set_pod("a", 1, false);
    world.run(5);
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2"]);
    assert_eq!(world.entry("pool", 1).state, "no-match");
    world.set_pod("c", 3, true);
    world.run(5);
    assert_eq!(world.holder(3), Some(ip(1)));
    // One of two pods on a node is enough.
    world.set_pod("d", 3, true);
    world.delete_pod("c");
    world.run(5);
    assert_eq!(world.annotations["node-3"], ip(1).to_string());
    world.delete_pod("d");
    world.run(5);
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2"]);
    // Without the criterion every node is a candidate, and what stands stays.
    let assigns = world.assigns;
    world.edit("pool", |spec| spec.matching.pod_namespace = String::new());
    world.run(5);
    assert_eq!(world.annotations.keys().collect::<Vec<_>>(), ["node-2", "node-3"]);
    assert_eq!(world.assigns, assigns);
}

#[test]
fn pods_that_went_while_the_watch_was_cut_count_no_more() {
    let mut world = world();
    world.pods.remove("a");
    world.set_pod("c", 3, true);
    let all = world.pods.values().cloned().collect();
    world.observe(Input::Pods(pods_key(), Observed::Reset(all)));
    world.run(5);
    assert_eq!((world.holder(2), world.holder(3)), (Some(ip(2)), Some(ip(1))));
    world.nodes.remove("node-2");
    world.annotations.remove("node-2");
    let all = world.nodes.values().cloned().collect();
    world.observe(Input::Nodes(nodes_key(), Observed::Reset(all)));
    world.set_pod("e", 1, true);
    world.run(5);
    assert_eq!(world.holder(1), Some(ip(2)));
}

#[test]
fn nothing_is_done_before_the_pods_are_known() {
    let mut world = world();
    let (assigns, writes) = (world.assigns, world.status_writes);
    let annotations = world.annotations.clone();
    world.start_without_nodes();
    let all = world.nodes.values().cloned().collect();
    world.observe(Input::Nodes(nodes_key(), Observed::Reset(all)));
    world.hold_watches = true;
    world.run(60);
    assert_eq!((world.assigns, world.status_writes, &world.annotations), (assigns, writes, &annotations));
    world.hold_watches = false;
    world.run(60);
    assert_eq!((world.assigns, world.status_writes, &world.annotations), (assigns, writes, &annotations));
    world.set_pod("a", 1, false);
    world.set_pod("c", 3, true);
    world.run(5);
    assert_eq!(world.holder(3), Some(ip(1)));
}
