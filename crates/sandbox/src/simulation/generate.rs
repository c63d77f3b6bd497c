//! Plans drawn from a seed: a small cluster, things that happen to it, and faults.
//!
//! Every draw comes from one sequence, so a seed means the same plan as long as this file does not change; what a seed
//! found is therefore kept as a plan.

use super::dice::roll;
use super::plan::{Act, Fault, Plan, Side, Step, Weather, Which};
use super::workloads::{self, at, pool_spec};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// How long steps and faults go on.
const CHAOS_MS: u64 = 600_000;

/// For how long a world whose API server fails may be seen as it was: a silent watch (65 s), and a list that is older
/// than what was seen (60 s), with the retries between them.
const STALE_MS: u64 = 150_000;

struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.drawn += 1;
        roll(self.seed, self.drawn, 77, limit)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> Option<T> {
        let index = self.below(u64::try_from(choices.len()).unwrap_or_default());
        usize::try_from(index).ok().and_then(|index| choices.get(index)).cloned()
    }
}

/// What a drawn plan consists of.
struct Cast {
    nodes: Vec<String>,
    pods: Vec<String>,
    ips: Vec<Ipv4Addr>,
    pools: Vec<(String, Vec<Ipv4Addr>)>,
    record_sets: Vec<String>,
    replicas: usize,
}

/// The plan of a seed.
#[must_use]
pub fn plan(seed: u64) -> Plan {
    let mut draw = Draw { seed, drawn: 0 };
    let replicas = draw.of(&[1, 1, 2, 2, 3]).unwrap_or(1);
    let (cast, mut steps) = opening(&mut draw, replicas);
    for _ in 0..draw.between(6, 24) {
        let at_ms = draw.between(10_000, CHAOS_MS - 20_000);
        steps.extend(event(&mut draw, &cast).map(|act| Step { at_ms, act }));
    }
    steps.sort_by_key(|step| step.at_ms);
    let weather: Vec<Weather> = (0..draw.below(6)).filter_map(|_| weather(&mut draw, replicas)).collect();
    let kube = weather.iter().any(|weather| weather.which.side != Some(Side::Cloud))
        || steps.iter().any(|step| {
            matches!(
                step.act,
                Act::Pause { .. } | Act::Cut { .. } | Act::Lag { .. } | Act::CutWatches { .. } | Act::Compact
            )
        });
    Plan {
        name: format!("seed {seed}"),
        seed,
        replicas,
        steps,
        weather,
        triggers: Vec::new(),
        end_ms: CHAOS_MS,
        staleness_ms: if kube { STALE_MS } else { workloads::PROMPT_MS },
    }
}

/// Nodes, pods, addresses and objects of the beginning.
fn opening(draw: &mut Draw, replicas: usize) -> (Cast, Vec<Step>) {
    let name = |kind: &str, n: u64| format!("{kind}-{n}");
    let nodes: Vec<String> = (1..=draw.between(2, 6)).map(|n| name("node", n)).collect();
    let present = draw.between(1, u64::try_from(nodes.len()).unwrap_or(1));
    let mut steps: Vec<Step> = nodes
        .iter()
        .take(usize::try_from(present).unwrap_or(1))
        .map(|node| at(0, Act::AddNode { node: node.clone() }))
        .collect();
    let pods: Vec<String> = (1..=3).map(|n| name("web", n)).collect();
    let served = draw.chance(40);
    if served {
        for pod in &pods {
            let node = draw.of(&nodes).unwrap_or_default();
            steps.push(at(0, Act::AddPod { pod: pod.clone(), app: "web".to_owned(), node }));
        }
    }
    let last = u8::try_from(draw.between(1, 4)).unwrap_or(1);
    let ips: Vec<Ipv4Addr> = (1..=last).map(|n| Ipv4Addr::new(192, 0, 2, n)).collect();
    steps.extend(ips.iter().map(|ip| at(0, Act::AddIp { ip: *ip })));
    let (pools, mut objects) = pools(draw, &ips, served);
    steps.append(&mut objects);
    let mut record_sets = Vec::new();
    if draw.chance(40) {
        record_sets.push("nodes".to_owned());
        let spec = record_set_spec(draw);
        steps.push(at(
            2_000,
            Act::Create { kind: "NodeDNSRecordSet".to_owned(), name: "nodes".to_owned(), spec },
        ));
    }
    (Cast { nodes, pods, ips, pools, record_sets, replicas }, steps)
}

type Pools = Vec<(String, Vec<Ipv4Addr>)>;

fn pools(draw: &mut Draw, ips: &[Ipv4Addr], served: bool) -> (Pools, Vec<Step>) {
    let (mut pools, mut steps) = (Vec::new(), Vec::new());
    for n in 0..draw.between(1, 2) {
        let name = format!("pool-{n}");
        let given: Vec<Ipv4Addr> = ips.iter().filter(|_| n == 0 || draw.chance(50)).copied().collect();
        let mut spec = pool_spec(&given, draw.chance(50).then(|| draw.between(1, 5)).filter(|_| n == 0));
        let fields = spec.as_object_mut();
        if let Some(fields) = fields {
            if served {
                fields.insert("match".to_owned(), json!({ "nodeLabel": "role=edge", "podLabel": "app=web" }));
            }
            if draw.chance(20) {
                fields.insert("assignmentCoolOffSeconds".to_owned(), json!(draw.between(1, 20)));
            }
            if draw.chance(40) {
                fields.insert("dnsRecordSet".to_owned(), dns(draw, &name));
            }
        }
        let kind = "FloatingIPPool".to_owned();
        steps.push(at(1_000 + n * 1_500, Act::Create { kind, name: name.clone(), spec }));
        pools.push((name, given));
    }
    (pools, steps)
}

fn dns(draw: &mut Draw, name: &str) -> Value {
    if draw.chance(50) {
        json!({ "provider": "digitalocean", "zone": workloads::ZONE, "recordName": name })
    } else {
        json!({ "provider": "cloudflare", "zone": workloads::CLOUDFLARE_ZONE, "recordName": name })
    }
}

fn record_set_spec(draw: &mut Draw) -> Value {
    let types = ["ExternalIP", "InternalIP", "flipop.digitalocean.com/ipv4-reserved-ip"];
    json!({
        "match": { "nodeLabel": "role=edge" },
        "addressType": draw.of(&types),
        "dnsRecordSet": dns(draw, "nodes"),
    })
}

/// Something that happens.
fn event(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let node = draw.of(&cast.nodes)?;
    let pod = draw.of(&cast.pods)?;
    let ip = draw.of(&cast.ips)?;
    let replica = usize::try_from(draw.below(u64::try_from(cast.replicas).unwrap_or(1))).unwrap_or(0);
    let yes = draw.chance(50);
    let for_ms = draw.between(1_000, 90_000);
    Some(match draw.below(30) {
        0..=3 => Act::AddNode { node },
        4 => Act::DeleteNode { node },
        5 => Act::DestroyDroplet { node },
        6..=9 => Act::SetReady { node, ready: yes },
        10 => Act::Drain { node, drained: yes },
        11 => Act::SetRole { node, role: yes.then(|| "edge".to_owned()) },
        12 | 13 => Act::AddPod { pod, app: "web".to_owned(), node },
        14 => Act::DeletePod { pod },
        15 => Act::SetPodReady { pod, ready: yes },
        16 | 17 => Act::MoveIp { ip, node: yes.then_some(node) },
        18 => Act::LockIp { ip, for_ms },
        19 => Act::BusyDroplet { node, for_ms },
        20 | 21 => edit(draw, cast)?,
        22 => revert_or_wipe(draw, cast)?,
        23 => Act::ActionTime { ms: draw.of(&[200, 900, 5_000, 30_000])? },
        24 | 25 => Act::Crash { replica, restart_ms: draw.between(500, 30_000) },
        26 => Act::Stop { replica, restart_ms: draw.between(500, 10_000) },
        27 => Act::Pause { replica, for_ms: for_ms / 3 },
        28 => Act::Cut { replica, side: if yes { Side::Kube } else { Side::Cloud }, for_ms },
        _ => draw.of(&[Act::Lag { replica, for_ms }, Act::CutWatches { replica }, Act::Compact])?,
    })
}

fn edit(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let (name, given) = draw.of(&cast.pools)?;
    if let Some(name) = draw.of(&cast.record_sets).filter(|_| draw.chance(40)) {
        return Some(Act::Edit { kind: "NodeDNSRecordSet".to_owned(), name, spec: record_set_spec(draw) });
    }
    let spec = match draw.below(5) {
        0 => json!({ "desiredIPs": draw.between(1, 5) }),
        1 => {
            json!({ "match": { "nodeLabel": draw.of(&["role=edge", "role!=none", "kubernetes.io/os=linux"])? } })
        }
        2 => json!({ "dnsRecordSet": dns(draw, &name) }),
        3 => json!({ "dnsRecordSet": null }),
        _ if reverts(cast) => json!({ "assignmentCoolOffSeconds": draw.between(0, 15), "ips": given }),
        _ => json!({ "assignmentCoolOffSeconds": draw.between(0, 15) }),
    };
    Some(Act::Edit { kind: "FloatingIPPool".to_owned(), name, spec })
}

/// One loss alone: in a plan either the spec is put back or the status is lost. After both nobody can know what was
/// bought and stands nowhere.
fn reverts(cast: &Cast) -> bool {
    cast.ips.len().is_multiple_of(2)
}

fn revert_or_wipe(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let (name, ips) = draw.of(&cast.pools)?;
    Some(if reverts(cast) { Act::RevertIps { name, ips } } else { Act::WipeStatus { name } })
}

fn weather(draw: &mut Draw, replicas: usize) -> Option<Weather> {
    let from_ms = draw.between(0, CHAOS_MS - 60_000);
    let to_ms = from_ms + draw.between(2_000, 100_000);
    let side = draw.of(&[Side::Kube, Side::Cloud])?;
    let replica = usize::try_from(draw.below(u64::try_from(replicas).unwrap_or(1))).ok();
    let which = Which { replica: replica.filter(|_| draw.chance(30)), side: Some(side), ..Which::default() };
    let percent = draw.of(&[3, 10, 30, 80])?;
    let common = [
        Fault::Delay { ms: 3_000 },
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::HangBefore,
        Fault::HangAfter,
    ];
    let fault = if draw.chance(50) {
        draw.of(&common)?
    } else if side == Side::Kube {
        draw.of(&[
            Fault::Refuse { status: 429, retry_after_s: Some(2) },
            Fault::Refuse { status: 500, retry_after_s: None },
            Fault::Refuse { status: 503, retry_after_s: None },
            Fault::RefuseAfter { status: 504 },
            Fault::Refuse { status: 409, retry_after_s: None },
        ])?
    } else {
        draw.of(&[
            Fault::Refuse { status: 429, retry_after_s: Some(5) },
            Fault::Refuse { status: 429, retry_after_s: None },
            Fault::Refuse { status: 500, retry_after_s: None },
            Fault::RefuseAfter { status: 502 },
            Fault::Garble,
            Fault::ActionFails,
            Fault::ActionTakes { ms: 45_000 },
            Fault::Pending,
            Fault::QuotaReached,
        ])?
    };
    Some(Weather { from_ms, to_ms: to_ms.min(CHAOS_MS), which, percent, fault })
}
