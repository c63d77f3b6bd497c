//! Grace in drawn plans: objects that bear failures for a while, and failures that pass, last, or are overruled.
//!
//! Asked beside the sequence of draws, so that all else in the plan of a seed is as it is without.

use super::dice::roll;
use super::generate::CHAOS_MS;
use super::plan::{Act, Step};
use super::workloads::at;
use serde_json::{Value, json};

/// Which numbers these are, among those of a seed.
const SALT: u64 = 90;

/// For how many of a hundred plans.
const PLANS: u64 = 50;

/// Numbers of one seed, one after the other.
struct Numbers {
    seed: u64,
    asked: u64,
}

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.asked += 1;
        roll(self.seed, self.asked, SALT, limit)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    fn of(&mut self, names: &[String]) -> String {
        let index = self.below(u64::try_from(names.len()).unwrap_or_default());
        usize::try_from(index).ok().and_then(|index| names.get(index)).cloned().unwrap_or_default()
    }

    fn grace(&mut self) -> Value {
        let mut seconds =
            |most: u64, percent: u64| if self.below(100) < percent { self.below(most + 1) } else { 0 };
        let (pods, node, recovery) = (seconds(90, 70), seconds(90, 80), seconds(60, 40));
        json!({ "podSeconds": pods, "nodeSeconds": node, "recoverySeconds": recovery })
    }
}

/// Gives objects of the plan a grace, and lets nodes and pods fail.
pub(super) fn add(seed: u64, (nodes, pods): (&[String], &[String]), replicas: usize, steps: &mut Vec<Step>) {
    let mut numbers = Numbers { seed, asked: 0 };
    if numbers.below(100) >= PLANS {
        return;
    }
    let mut objects = Vec::new();
    for step in steps.iter_mut() {
        let Act::Create { kind, name, spec } = &mut step.act else { continue };
        if let Some(spec) = spec.as_object_mut().filter(|_| numbers.below(100) < 80) {
            spec.insert("grace".to_owned(), numbers.grace());
            objects.push((kind.clone(), name.clone()));
        }
    }
    for _ in 0..numbers.between(2, 5) {
        let at_ms = numbers.between(30_000, CHAOS_MS - 200_000);
        steps.extend(story(&mut numbers, (&numbers_of(nodes), pods), at_ms));
        if numbers.below(100) < 25 {
            let replica = usize::try_from(numbers.below(u64::try_from(replicas).unwrap_or(1))).unwrap_or(0);
            let (after_ms, restart_ms) = (numbers.below(60_000), numbers.between(500, 10_000));
            steps.push(at(at_ms + after_ms, Act::Crash { replica, restart_ms }));
        }
        if numbers.below(100) < 15
            && let Some((kind, name)) = objects.first().cloned()
        {
            let spec = json!({ "grace": numbers.grace() });
            steps.push(at(at_ms + numbers.below(60_000), Act::Edit { kind, name, spec }));
        }
    }
}

/// Those that are there from the beginning come first: they fail more often.
fn numbers_of(nodes: &[String]) -> Vec<String> {
    nodes.iter().take(2).chain(nodes).cloned().collect()
}

/// A failure, and its end.
fn story(numbers: &mut Numbers, (nodes, pods): (&[String], &[String]), at_ms: u64) -> Vec<Step> {
    let (node, pod) = (numbers.of(nodes), numbers.of(pods));
    let for_ms = numbers.between(300, 120_000);
    let later_ms = numbers.between(0, 60_000);
    let until_ms = at_ms + for_ms;
    let ready = |ready| Act::SetReady { node: node.clone(), ready };
    let pod_ready = |ready| Act::SetPodReady { pod: pod.clone(), ready };
    let taint =
        |key: &str, on| Act::SetTaint { node: node.clone(), key: format!("node.kubernetes.io/{key}"), on };
    match numbers.below(7) {
        // A pod restarts.
        0 => vec![at(at_ms, pod_ready(false)), at(until_ms, pod_ready(true))],
        // It crashes time and again.
        1 => (0..for_ms / 5_000)
            .flat_map(|turn| {
                let at_ms = at_ms + turn * 5_000;
                [at(at_ms, pod_ready(false)), at(at_ms + 3_000, pod_ready(true))]
            })
            .collect(),
        // A kubelet restarts.
        2 => vec![at(at_ms, ready(false)), at(until_ms, ready(true))],
        // A reboot: the node is Ready before its pods are.
        3 => vec![
            at(at_ms, ready(false)),
            at(at_ms, taint("not-ready", true)),
            at(at_ms + 1_000, pod_ready(false)),
            at(until_ms, ready(true)),
            at(until_ms + 100, taint("not-ready", false)),
            at(until_ms + later_ms / 4, pod_ready(true)),
        ],
        // A kubelet says that it ends, and is heard of no more.
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
