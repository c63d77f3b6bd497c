//! One plan, one transcript.

use flipop_simulation::{self, Plan};

const PLAN: &str = "
name: one pool
seed: 7
replicas: 2
steps:
  - { at_ms: 0, act: { add_node: { node: node-1 } } }
  - { at_ms: 0, act: { add_node: { node: node-2 } } }
  - { at_ms: 0, act: { add_ip: { ip: 192.0.2.1 } } }
  - { at_ms: 0, act: { create: { kind: FloatingIPPool, name: pool, spec: { provider: digitalocean, region: nyc3, ips: [192.0.2.1], match: { nodeLabel: role=edge } } } } }
  - { at_ms: 30000, act: { set_ready: { node: node-1, ready: false } } }
  - { at_ms: 60000, act: { crash: { replica: 0, restart_ms: 2000 } } }
end_ms: 90000
staleness_ms: 5000
";

#[test]
fn the_same_plan_gives_the_same_transcript() {
    let plan = Plan::from_yaml(PLAN).unwrap();
    let (one, other) =
        (flipop_simulation::run(&plan, true).unwrap(), flipop_simulation::run(&plan, true).unwrap());
    assert_eq!(one.violations, [], "{}", one.story);
    differ(&one.story, &other.story);
    assert!(one.story.contains("assign 192.0.2.1"), "{}", one.story);
    assert!(one.story.contains("status.ips.192.0.2.1.state: in-progress → active"), "{}", one.story);
    assert!(one.story.contains("the lease goes from") && !one.story.contains("PUT leases"), "{}", one.story);
    assert_eq!(flipop_simulation::run(&plan, false).unwrap().fingerprint, one.fingerprint);
    let another = Plan { seed: 8, ..plan };
    assert_ne!(flipop_simulation::run(&another, true).unwrap().story, one.story, "the seed decides nothing");
}

/// Fails with the lines around the first difference, because whole transcripts are long.
fn differ(one: &str, other: &str) {
    let line = one.lines().zip(other.lines()).position(|(one, other)| one != other);
    let line = line.unwrap_or(one.lines().count().min(other.lines().count()));
    let around =
        |text: &str| text.lines().skip(line.saturating_sub(5)).take(8).collect::<Vec<_>>().join("\n");
    assert!(one == other, "line {line}:\n{}\n\n{}", around(one), around(other));
}
