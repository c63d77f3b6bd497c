//! Grace in drawn plans: objects that tolerate failures for a while, and failures that pass, last, or are overruled.
//!
//! These have their own sequence of draws, so the rest of a seed's plan is the same with and without them.

use super::dice::Draw;
use super::plan::{Act, Step};
use super::scene::CHAOS_MS;
use super::workloads::at;
use serde_json::{Value, json};

/// Separates these draws from others of the seed.
const SALT: u64 = 90;

/// How many of a hundred plans have grace.
const PLANS: u64 = 50;

fn grace(draw: &mut Draw) -> Value {
    let mut seconds = |most: u64, percent: u64| if draw.chance(percent) { draw.below(most + 1) } else { 0 };
    let (pods, node, recovery) = (seconds(90, 70), seconds(90, 80), seconds(60, 40));
    json!({ "podSeconds": pods, "nodeSeconds": node, "recoverySeconds": recovery })
}

/// Gives objects of the plan a grace, and makes nodes and pods fail.
pub(super) fn add(seed: u64, (nodes, pods): (&[String], &[String]), replicas: usize, steps: &mut Vec<Step>) {
    let mut draw = Draw::new(seed, SALT);
    if !draw.chance(PLANS) {
        return;
    }
    let mut objects = Vec::new();
    for step in steps.iter_mut() {
        let Act::Create { kind, name, spec } = &mut step.act else { continue };
        if let Some(spec) = spec.as_object_mut().filter(|_| draw.chance(80)) {
            spec.insert("grace".to_owned(), grace(&mut draw));
            objects.push((kind.clone(), name.clone()));
        }
    }
    for _ in 0..draw.between(2, 5) {
        let at_ms = draw.between(30_000, CHAOS_MS - 200_000);
        steps.extend(story(&mut draw, (&numbers_of(nodes), pods), at_ms));
        if draw.chance(25) {
            let replica = usize::try_from(draw.below(u64::try_from(replicas).unwrap_or(1))).unwrap_or(0);
            let (after_ms, restart_ms) = (draw.below(60_000), draw.between(500, 10_000));
            steps.push(at(at_ms + after_ms, Act::Crash { replica, restart_ms }));
        }
        if draw.chance(15)
            && let Some((kind, name)) = objects.first().cloned()
        {
            let spec = json!({ "grace": grace(&mut draw) });
            steps.push(at(at_ms + draw.below(60_000), Act::Edit { kind, name, spec }));
        }
    }
}

/// Nodes that exist from the beginning come twice, so they fail more often.
fn numbers_of(nodes: &[String]) -> Vec<String> {
    nodes.iter().take(2).chain(nodes).cloned().collect()
}

/// A failure, and its end.
fn story(draw: &mut Draw, (nodes, pods): (&[String], &[String]), at_ms: u64) -> Vec<Step> {
    let (node, pod) = (draw.of(nodes).unwrap_or_default(), draw.of(pods).unwrap_or_default());
    let for_ms = draw.between(300, 120_000);
    let later_ms = draw.between(0, 60_000);
    let until_ms = at_ms + for_ms;
    let ready = |ready| Act::SetReady { node: node.clone(), ready };
    let pod_ready = |ready| Act::SetPodReady { pod: pod.clone(), ready };
    let taint =
        |key: &str, on| Act::SetTaint { node: node.clone(), key: format!("node.kubernetes.io/{key}"), on };
    match draw.below(7) {
        // A pod restarts.
        0 => vec![at(at_ms, pod_ready(false)), at(until_ms, pod_ready(true))],
        // It keeps crashing.
        1 => (0..for_ms / 5_000)
            .flat_map(|turn| {
                let at_ms = at_ms + turn * 5_000;
                [at(at_ms, pod_ready(false)), at(at_ms + 3_000, pod_ready(true))]
            })
            .collect(),
        // A kubelet restarts.
        2 => vec![at(at_ms, ready(false)), at(until_ms, ready(true))],
        // A reboot: the node becomes Ready before its pods do.
        3 => vec![
            at(at_ms, ready(false)),
            at(at_ms, taint("not-ready", true)),
            at(at_ms + 1_000, pod_ready(false)),
            at(until_ms, ready(true)),
            at(until_ms + 100, taint("not-ready", false)),
            at(until_ms + later_ms / 4, pod_ready(true)),
        ],
        // A kubelet reports its end, and falls silent.
        4 => vec![
            at(at_ms, ready(false)),
            at(at_ms + later_ms, Act::LoseContact { node: node.clone() }),
            at(until_ms + later_ms, ready(true)),
        ],
        // Somebody cordons the node meanwhile.
        5 => vec![
            at(at_ms, ready(false)),
            at(at_ms + later_ms, taint("unschedulable", true)),
            at(until_ms + later_ms, ready(true)),
            at(until_ms + later_ms + 2_000, taint("unschedulable", false)),
        ],
        _ => vec![at(at_ms, taint("disk-pressure", true)), at(until_ms, taint("disk-pressure", false))],
    }
}
