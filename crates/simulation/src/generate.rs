//! Plans drawn from a seed: a small cluster, things that happen to it, and faults.
//!
//! Every draw comes from one sequence, so a seed means the same plan as long as this file does not change; what a seed
//! found is therefore kept as a plan.

use super::dice::{Draw, roll};
use super::plan::{Act, Fault, Oddity, On, Plan, Side, Step, Then, Trigger, Weather, Which};
use super::scene::{self, CHAOS_MS, POOL, RECORD_SET};
use super::workloads::{at, pool_spec, set};
use super::{asks, firewalls, patient, workloads};
use flipop_cloud::Provider;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// How long the operator may see an outdated cluster while the API server fails. A silent watch takes 65 s, a list
/// older than the state already seen another 60 s, and the retries in between the rest.
const STALE_MS: u64 = 150_000;

/// A day.
const DAY_S: u64 = 86_400;

/// The parts of a drawn plan.
struct Cast {
    nodes: Vec<String>,
    pods: Vec<String>,
    ips: Vec<Ipv4Addr>,
    pools: Vec<Drawn>,
    record_sets: Vec<String>,
    replicas: usize,
}

/// A pool that exists from the beginning.
#[derive(Clone)]
struct Drawn {
    name: String,
    /// The addresses that its user wrote.
    given: Vec<Ipv4Addr>,
    spec: Value,
}

/// The plan of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut draw = Draw::new(seed, 77);
    let replicas = draw.of(&[1, 1, 2, 2, 3]).unwrap_or(1);
    let (cast, mut steps) = opening(&mut draw, replicas);
    for _ in 0..draw.between(6, 26) {
        let at_ms = draw.between(10_000, CHAOS_MS - 20_000);
        steps.extend(event(&mut draw, &cast, at_ms).unwrap_or_default());
    }
    let names: Vec<String> = cast.pools.iter().map(|pool| pool.name.clone()).collect();
    steps.extend(asks::drawn(seed, (&names, &cast.ips, &cast.nodes), CHAOS_MS));
    patient::add(seed, (&cast.nodes, &cast.pods), replicas, &mut steps);
    let weather: Vec<Weather> = (0..draw.below(6)).filter_map(|_| weather(&mut draw, replicas)).collect();
    let triggers: Vec<Trigger> =
        if draw.chance(25) { (0..3).filter_map(|_| trigger(&mut draw)).collect() } else { Vec::new() };
    let kube = !triggers.is_empty()
        || weather.iter().any(|weather| weather.which.side != Some(Side::Cloud))
        || steps.iter().any(|step| {
            matches!(
                step.act,
                Act::Pause { .. } | Act::Cut { .. } | Act::Lag { .. } | Act::CutWatches { .. } | Act::Compact
            )
        });
    let mut plan = Plan {
        seed,
        replicas,
        weather,
        triggers,
        end_ms: CHAOS_MS,
        staleness_ms: if kube { STALE_MS } else { scene::PROMPT_MS },
        skew_s: draw.of(&[0, 0, 5, DAY_S]).unwrap_or_default(),
        ..workloads::plan(&format!("seed {seed}"), steps, Vec::new())
    };
    firewalls::add(&mut plan, &cast.nodes);
    plan
}

/// The nodes, pods, addresses and objects that exist from the beginning.
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
        steps.push(at(2_000, Act::create(RECORD_SET, "nodes", spec)));
    }
    (Cast { nodes, pods, ips, pools, record_sets, replicas }, steps)
}

fn pools(draw: &mut Draw, ips: &[Ipv4Addr], served: bool) -> (Vec<Drawn>, Vec<Step>) {
    let (mut pools, mut steps) = (Vec::new(), Vec::new());
    for n in 0..draw.between(1, 2) {
        let name = format!("pool-{n}");
        // A pool that buys all of its addresses, one that buys what is missing, one that buys none.
        let (buys, all) = (n == 0 && draw.chance(60), n == 0 && draw.chance(25));
        let given: Vec<Ipv4Addr> =
            ips.iter().filter(|_| !(buys && all) && (n == 0 || draw.chance(50))).copied().collect();
        let mut spec = pool_spec(&given, buys.then(|| draw.between(1, 5)));
        let mut criteria = json!({ "nodeLabel": "role=edge" });
        if served {
            set(&mut criteria, "podLabel", json!("app=web"));
        }
        if draw.chance(20) {
            set(&mut criteria, "tolerations", json!([{ "key": "drain", "operator": "Exists" }]));
        }
        set(&mut spec, "match", criteria);
        if draw.seed.is_multiple_of(4) {
            // The seed decides this without a draw, so the plans of other seeds stay the same.
            set(&mut spec, "reclaimPolicy", json!("Delete"));
        }
        if let Some(minimum) = minimum(draw.seed, n) {
            set(&mut spec, "minActive", json!(minimum));
        }
        if let Some(labels) = node_labels(draw.seed, n) {
            set(&mut spec, "nodeLabels", labels);
        }
        if draw.chance(20) {
            set(&mut spec, "assignmentCoolOffSeconds", json!(draw.between(1, 20)));
        }
        if draw.chance(40) {
            set(&mut spec, "dnsRecordSet", dns(draw, &name));
        }
        steps.push(at(1_000 + n * 1_500, Act::create(POOL, &name, spec.clone())));
        pools.push(Drawn { name, given, spec });
    }
    (pools, steps)
}

/// How many addresses of a pool have to be active. The seed decides this without a draw, so the rest of its plan stays
/// the same.
fn minimum(seed: u64, pool: u64) -> Option<u64> {
    (roll(seed, pool, 78, 100) < 30).then(|| 1 + roll(seed, pool, 79, 4))
}

/// Which labels the nodes of a pool get, also without a draw.
fn node_labels(seed: u64, pool: u64) -> Option<Value> {
    let legacy = roll(seed, pool, 83, 100) < 50;
    (roll(seed, pool, 82, 100) < 30).then(|| json!({ "enabled": true, "legacy": legacy }))
}

fn dns(draw: &mut Draw, name: &str) -> Value {
    if draw.chance(50) {
        json!({ "provider": "digitalocean", "zone": scene::ZONE, "recordName": name })
    } else {
        json!({ "provider": "cloudflare", "zone": scene::CLOUDFLARE_ZONE, "recordName": name })
    }
}

fn record_set_spec(draw: &mut Draw) -> Value {
    let types = ["ExternalIP", "InternalIP", "flipop.digitalocean.com/ipv4-reserved-ip"];
    let mut records = dns(draw, "nodes");
    if draw.chance(25) {
        set(&mut records, "whenEmpty", json!("Keep"));
    }
    json!({
        "match": { "nodeLabel": "role=edge" },
        "addressType": draw.of(&types),
        "dnsRecordSet": records,
    })
}

/// An event, with the later steps that belong to it.
fn event(draw: &mut Draw, cast: &Cast, at_ms: u64) -> Option<Vec<Step>> {
    let act = match draw.below(10) {
        0..=4 => on_cluster(draw, cast)?,
        5 => on_account(draw, cast)?,
        6 => on_names(draw, cast)?,
        7 => match draw.below(4) {
            0 => return mistake(draw, cast, at_ms),
            1 => return again(draw, cast, at_ms),
            2 => pause(draw, cast)?,
            _ => edit(draw, cast)?,
        },
        8 => on_memory(draw, cast)?,
        _ => on_replicas(draw, cast)?,
    };
    Some(vec![at(at_ms, act)])
}

/// Nodes and pods come, change and go.
fn on_cluster(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let (node, pod) = (draw.of(&cast.nodes)?, draw.of(&cast.pods)?);
    let yes = draw.chance(50);
    Some(match draw.below(17) {
        0..=3 => Act::AddNode { node },
        4 => Act::DeleteNode { node },
        5 => Act::DestroyDroplet { node },
        6..=9 => Act::SetReady { node, ready: yes },
        10 => Act::Drain { node, drained: yes },
        11 => Act::SetRole { node, role: yes.then(|| "edge".to_owned()) },
        12 | 13 => Act::AddPod { pod, app: "web".to_owned(), node },
        14 => Act::DeletePod { pod },
        15 => Act::SetPodReady { pod, ready: yes },
        _ => Act::PowerOff { node, off: yes },
    })
}

/// Somebody changes the account, or the provider gets slow or lowers the quota.
fn on_account(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let (node, ip) = (draw.of(&cast.nodes)?, draw.of(&cast.ips)?);
    let for_ms = draw.between(1_000, 90_000);
    let provider = draw.of(&Provider::ALL)?;
    let scopes =
        ["droplet:read", "reserved_ip:read", "reserved_ip:update", "reserved_ip:create", "domain:update"];
    Some(match draw.below(14) {
        0..=3 => Act::MoveIp { ip, node: draw.chance(50).then_some(node) },
        4 => Act::DeleteIp { ip },
        5 => Act::LockIp { ip, for_ms },
        6 => Act::BusyDroplet { node, for_ms },
        7 | 8 => Act::ActionTime { ms: draw.of(&[200, 900, 5_000, 30_000])? },
        9 => Act::Quota { addresses: usize::try_from(draw.between(1, 8)).unwrap_or(1) },
        // A creation is resolved by two lists 30 s apart: a list that lags further behind can hide it from both.
        10 | 11 => Act::ListLag { ms: draw.of(&[0, 2_000, 10_000, 20_000])? },
        12 => Act::RevokeToken { provider, for_ms },
        _ => Act::NarrowToken { without: draw.of(&scopes)?.to_owned(), for_ms },
    })
}

/// Somebody changes records at a name of ours.
fn on_names(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let provider = draw.of(&Provider::ALL)?;
    let pools = cast.pools.iter().map(|pool| pool.name.clone());
    let names: Vec<String> = pools.chain(cast.record_sets.iter().cloned()).collect();
    let name = draw.of(&names)?;
    let last = u8::try_from(draw.between(1, 9)).unwrap_or(1);
    let data = Some(Ipv4Addr::new(203, 0, 113, last)).filter(|_| draw.chance(60));
    let for_ms = draw.between(5_000, 120_000);
    let mark = "\"heritage=external-dns,external-dns/owner=other\"";
    let (beside, rtype, content) = draw.of(&[
        ("", "CNAME", "elsewhere.example.org."),
        ("", "TXT", mark),
        // external-dns has put its mark here since version 0.18.
        ("a-", "TXT", mark),
        ("", "AAAA", "2001:db8::7"),
    ])?;
    if draw.chance(60) {
        return Some(Act::EditRecord { provider, name, data });
    }
    let name = format!("{beside}{name}");
    Some(Act::PlaceRecord { provider, name, rtype: rtype.to_owned(), data: content.to_owned(), for_ms })
}

/// A fault of the operator's own processes or of their path to the API server.
fn on_replicas(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let replica = usize::try_from(draw.below(u64::try_from(cast.replicas).unwrap_or(1))).unwrap_or(0);
    let for_ms = draw.between(1_000, 90_000);
    let side = if draw.chance(50) { Side::Kube } else { Side::Cloud };
    Some(match draw.below(9) {
        0..=2 => Act::Crash { replica, restart_ms: draw.between(500, 30_000) },
        3 => Act::Stop { replica, restart_ms: draw.between(500, 10_000) },
        4 => Act::Pause { replica, for_ms: for_ms / 3 },
        5 => Act::Cut { replica, side, for_ms },
        6 => Act::Lag { replica, for_ms, lists: false },
        // After a minute the operator believes a list of the past.
        7 => Act::Lag { replica, for_ms: for_ms.min(55_000), lists: true },
        _ => draw.of(&[Act::CutWatches { replica }, Act::Compact])?,
    })
}

fn edit(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let Drawn { name, given, .. } = draw.of(&cast.pools)?;
    if let Some(name) = draw.of(&cast.record_sets).filter(|_| draw.chance(40)) {
        return Some(Act::edit(RECORD_SET, &name, record_set_spec(draw)));
    }
    let spec = match draw.below(6) {
        0 => json!({ "desiredIPs": draw.between(1, 5) }),
        1 => {
            json!({ "match": { "nodeLabel": draw.of(&["role=edge", "role!=none", "kubernetes.io/os=linux"])? } })
        }
        2 => json!({ "dnsRecordSet": dns(draw, &name) }),
        3 => json!({ "dnsRecordSet": null }),
        4 => json!({ "match": { "tolerations": [{ "key": "drain", "operator": "Exists" }] } }),
        _ if reverts(cast) && !given.is_empty() => {
            json!({ "assignmentCoolOffSeconds": draw.between(0, 15), "ips": given })
        }
        _ => json!({ "assignmentCoolOffSeconds": draw.between(0, 15) }),
    };
    Some(Act::edit(POOL, &name, spec))
}

/// A spec becomes invalid, and valid again before the end, because nobody can tell from outside what a frozen object
/// must leave alone.
fn mistake(draw: &mut Draw, cast: &Cast, at_ms: u64) -> Option<Vec<Step>> {
    let right_ms = (at_ms + draw.between(1_000, 90_000)).min(CHAOS_MS - 10_000);
    let (kind, name, wrong, right) = if let Some(name) =
        draw.of(&cast.record_sets).filter(|_| draw.chance(40))
    {
        let wrong = draw.of(&[
            json!({ "addressType": "PublicIP" }),
            json!({ "match": { "nodeLabel": "role in (edge" } }),
            json!({ "dnsRecordSet": { "ttl": -5 } }),
        ])?;
        let right = json!({
            "addressType": "ExternalIP", "match": { "nodeLabel": "role=edge" }, "dnsRecordSet": { "ttl": null },
        });
        (RECORD_SET, name, wrong, right)
    } else {
        let Drawn { name, .. } = draw.of(&cast.pools)?;
        // The whole record set, because it may have been removed meanwhile.
        let set = dns(draw, &name);
        let with_ttl =
            |ttl: Value| json!({ "dnsRecordSet": workloads::with(set.clone(), &json!({ "ttl": ttl })) });
        let (wrong, right) = draw.of(&[
            (
                json!({ "match": { "nodeLabel": "role in (edge" } }),
                json!({ "match": { "nodeLabel": "role=edge" } }),
            ),
            (json!({ "region": "" }), json!({ "region": scene::REGION })),
            (json!({ "provider": "nobody" }), json!({ "provider": "digitalocean" })),
            (with_ttl(json!(-5)), with_ttl(Value::Null)),
        ])?;
        (POOL, name, wrong, right)
    };
    Some(vec![at(at_ms, Act::edit(kind, &name, wrong)), at(right_ms, Act::edit(kind, &name, right))])
}

/// An object is paused for a while.
fn pause(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let (kind, name) = match draw.of(&cast.record_sets).filter(|_| draw.chance(40)) {
        Some(name) => (RECORD_SET, name),
        None => (POOL, draw.of(&cast.pools)?.name),
    };
    let text = draw.of(&["incident 7", "", "false"])?.to_owned();
    let for_ms = draw.of(&[2_000, 20_000, 90_000, 200_000])?;
    Some(Act::PauseObject { kind: kind.to_owned(), name, text, for_ms })
}

/// An object is deleted and, in three of four cases, created again under its name.
fn again(draw: &mut Draw, cast: &Cast, at_ms: u64) -> Option<Vec<Step>> {
    let back_ms = (at_ms + draw.of(&[50, 2_000, 30_000, 90_000])?).min(CHAOS_MS - 10_000);
    let (kind, name, spec) = if let Some(name) = draw.of(&cast.record_sets).filter(|_| draw.chance(40)) {
        (RECORD_SET, name, record_set_spec(draw))
    } else {
        let Drawn { name, spec, .. } = draw.of(&cast.pools)?;
        (POOL, name, spec)
    };
    let delete = at(at_ms, Act::Delete { kind: kind.to_owned(), name: name.clone() });
    let create = at(back_ms, Act::create(kind, &name, spec));
    Some([delete].into_iter().chain(Some(create).filter(|_| draw.chance(75))).collect())
}

/// Whether this plan reverts specs. If not, it may wipe statuses. After both losses nobody could know of an address
/// that was bought but is on no droplet.
fn reverts(cast: &Cast) -> bool {
    cast.ips.len().is_multiple_of(2)
}

/// The memory that the operator keeps in specs and statuses is lost, or an address is let go.
fn on_memory(draw: &mut Draw, cast: &Cast) -> Option<Act> {
    let Drawn { name, given: ips, .. } = draw.of(&cast.pools)?;
    Some(match draw.below(3) {
        0 => Act::Release { name },
        _ if reverts(cast) => Act::RevertIps { name, ips },
        _ => Act::WipeStatus { name },
    })
}

/// A fault at one call or event.
fn trigger(draw: &mut Draw) -> Option<Trigger> {
    let restart_ms = draw.between(500, 20_000);
    let crashes = [
        Then::CrashBefore { restart_ms },
        Then::CrashAfterEffect { restart_ms },
        Then::CrashAfterReply { restart_ms },
    ];
    let faults = [Fault::ResetBefore, Fault::ResetAfter, Fault::HangBefore, Fault::HangAfter];
    let (on, then) = match draw.below(4) {
        0 => {
            let then = [crashes.to_vec(), faults.map(Then::Meet).to_vec()].concat();
            (On::Call(draw.between(5, 300)), draw.of(&then)?)
        }
        1 => (On::Clockwork(draw.between(5, 500)), draw.of(&crashes)?),
        _ => {
            let ms = draw.between(500, 40_000);
            let then = [
                Then::Hide { for_ms: ms },
                Then::Late { ms },
                Then::Stall,
                Then::Tear,
                Then::End,
                Then::Expire,
                Then::Forget,
                Then::Twice,
            ];
            (On::Frame(draw.between(1, 80)), draw.of(&then)?)
        }
    };
    Some(Trigger { on, then })
}

fn weather(draw: &mut Draw, replicas: usize) -> Option<Weather> {
    let from_ms = draw.between(0, CHAOS_MS - 60_000);
    let to_ms = from_ms + draw.between(2_000, 100_000);
    let side = draw.of(&[Side::Kube, Side::Cloud])?;
    let replica = usize::try_from(draw.below(u64::try_from(replicas).unwrap_or(1))).ok();
    let mut which =
        Which { replica: replica.filter(|_| draw.chance(30)), side: Some(side), ..Which::default() };
    let percent = draw.of(&[3, 10, 30, 80])?;
    let refuse = |status, retry_after_s| Fault::Refuse { status, retry_after_s };
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
            refuse(429, Some(2)),
            refuse(500, None),
            refuse(503, None),
            Fault::RefuseAfter { status: 504 },
            refuse(409, None),
        ])?
    } else {
        let oddities = [Oddity::Html, Oddity::Empty, Oddity::Null, Oddity::UnknownFields, Oddity::Oversized];
        let odd = Fault::Odd(draw.of(&oddities)?);
        let exists = Fault::RecordExists { identical: draw.chance(50) };
        draw.of(&[
            refuse(429, Some(5)),
            refuse(429, None),
            refuse(500, None),
            Fault::RefuseAfter { status: 502 },
            Fault::Garble,
            odd,
            Fault::ActionFails,
            Fault::ActionTakes { ms: 45_000 },
            Fault::Pending,
            Fault::QuotaReached,
            exists,
        ])?
    };
    // A fault at one provider must not hold up the other.
    if matches!(fault, Fault::ActionFails | Fault::ActionTakes { .. } | Fault::Pending | Fault::QuotaReached)
    {
        which.provider = Some(Provider::DigitalOcean);
    } else if side == Side::Cloud && draw.chance(50) {
        which.provider = draw.of(&Provider::ALL);
    }
    if matches!(fault, Fault::RecordExists { .. }) {
        which.provider = Some(Provider::Cloudflare);
        which.text = draw.of(&["CreateRecord", "PatchRecord", "BatchRecords"]).map(str::to_owned);
    }
    Some(Weather { from_ms, to_ms: to_ms.min(CHAOS_MS), which, percent, fault })
}
