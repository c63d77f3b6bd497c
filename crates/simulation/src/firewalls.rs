//! Firewalls in drawn plans: pools that ask for ports, firewalls of others that come and go, and people who edit those
//! of pools.
//!
//! These have their own sequence of draws, so the rest of a seed's plan is the same with and without them.

use super::dice::Draw;
use super::plan::{Act, Fault, Plan, Side, Step, Weather, Which};
use super::scene::{CHAOS_MS, POOL};
use super::workloads::at;
use flipop_cloud::Provider;
use serde_json::{Value, json};

/// Separates these draws from others of the seed.
const SALT: u64 = 95;

/// How many of a hundred plans have firewalls.
const PLANS: u64 = 40;

/// The name of the user's firewall.
const BASE: &str = "base";

/// The name of a firewall that another cluster left behind.
const ORPHAN: &str = "flipop-0123abcd-1";

fn opens(draw: &mut Draw) -> Value {
    let mut ports = vec![json!({ "protocol": "tcp", "port": draw.of(&["443", "80", "8443"]) })];
    if draw.chance(40) {
        ports.push(json!({ "protocol": "udp", "port": "30000-30100" }));
    }
    if draw.chance(20) {
        ports.push(json!({ "protocol": "icmp" }));
    }
    let all = [json!(["0.0.0.0/0", "::/0"]), json!(["198.51.100.0/24"])];
    json!({ "ports": ports, "sources": draw.of(&all) })
}

/// Gives pools of the plan firewalls, and adds events that affect them.
pub(super) fn add(plan: &mut Plan, nodes: &[String]) {
    let mut draw = Draw::new(plan.seed, SALT);
    if !draw.chance(PLANS) {
        return;
    }
    let mut pools = Vec::new();
    for step in &mut plan.steps {
        let Act::Create { kind, name, spec } = &mut step.act else { continue };
        let asks = kind == POOL && draw.chance(80);
        if let Some(spec) = spec.as_object_mut().filter(|_| asks) {
            spec.insert("firewall".to_owned(), opens(&mut draw));
            pools.push(name.clone());
        }
    }
    // A firewall that no status names any more, and that no pool asks for, is nobody's.
    let wiped = plan.steps.iter().any(|step| matches!(step.act, Act::WipeStatus { .. }));
    let by_id = draw.chance(30);
    let named = if by_id { nodes.iter().filter(|_| draw.chance(70)).cloned().collect() } else { Vec::new() };
    let base = Act::AddFirewall { name: BASE.to_owned(), nodes: named, tagged: !by_id };
    if draw.chance(85) {
        plan.steps.push(at(0, base.clone()));
    }
    if draw.chance(20) {
        let nodes = nodes.iter().filter(|_| draw.chance(50)).cloned().collect();
        plan.steps.push(at(0, Act::AddFirewall { name: ORPHAN.to_owned(), nodes, tagged: false }));
    }
    if draw.chance(40) {
        plan.steps.push(at(0, Act::FirewallTime { ms: draw.of(&[0, 3_000, 30_000]).unwrap_or_default() }));
    }
    for _ in 0..draw.between(1, 6) {
        let at_ms = draw.between(10_000, CHAOS_MS - 100_000);
        plan.steps.extend(event(&mut draw, (nodes, &pools), &base, wiped, at_ms));
    }
    if draw.chance(40) {
        plan.weather.push(weather(&mut draw));
    }
    plan.steps.sort_by_key(|step| step.at_ms);
}

fn event(
    draw: &mut Draw,
    (nodes, pools): (&[String], &[String]),
    base: &Act,
    wiped: bool,
    at_ms: u64,
) -> Vec<Step> {
    let later_ms = at_ms + draw.between(300, 90_000);
    let (node, pool) = (draw.of(nodes).unwrap_or_default(), draw.of(pools).unwrap_or_default());
    let edit = |firewall: Value| Act::edit(POOL, &pool, json!({ "firewall": firewall }));
    let tag = |on| Act::SetTag { node: node.clone(), on };
    let scope =
        draw.of(&["tag:read", "firewall:read", "firewall:create", "firewall:update", "firewall:delete"]);
    match draw.below(8) {
        // Somebody deletes the last other firewall, for good or for a while.
        0 | 1 => {
            let back = Some(at(later_ms, base.clone())).filter(|_| draw.chance(70));
            let drop = at(at_ms, Act::DropFirewall { name: BASE.to_owned() });
            [drop].into_iter().chain(back).collect()
        }
        2 => vec![at(at_ms, tag(false)), at(later_ms, tag(true))],
        3 => {
            let port = draw.of(&["22", "443", "80"]).unwrap_or_default().to_owned();
            vec![at(at_ms, Act::EditFirewalls { pool, port, open: draw.chance(50) })]
        }
        4 => vec![at(at_ms, Act::DropFirewallsOf { pool })],
        5 => vec![at(at_ms, edit(opens(draw)))],
        6 if !wiped => vec![at(at_ms, edit(Value::Null)), at(later_ms, edit(opens(draw)))],
        _ => {
            let without = scope.unwrap_or_default().to_owned();
            vec![at(at_ms, Act::NarrowToken { without, for_ms: later_ms - at_ms })]
        }
    }
}

/// Firewalls are refused, or fail, for a while.
fn weather(draw: &mut Draw) -> Weather {
    let from_ms = draw.between(0, CHAOS_MS - 100_000);
    let refuse = |status| Fault::Refuse { status, retry_after_s: None };
    let faults = [refuse(422), refuse(403), refuse(500), Fault::ResetAfter, Fault::HangAfter, Fault::Garble];
    let calls = ["CreateFirewall", "AddFirewall", "RemoveFirewall", "ListFirewalls", "Firewall"];
    Weather {
        from_ms,
        to_ms: from_ms + draw.between(2_000, 60_000),
        which: Which {
            side: Some(Side::Cloud),
            provider: Some(Provider::DigitalOcean),
            text: draw.of(&calls).map(str::to_owned),
            ..Which::default()
        },
        percent: draw.of(&[30, 80, 100]).unwrap_or(100),
        fault: draw.of(&faults).unwrap_or(Fault::ResetBefore),
    }
}
