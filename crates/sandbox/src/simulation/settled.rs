//! Liveness: once the faults are over, what is desired comes true, stays true, and nothing is written any more.
//!
//! Names of rules: I3 convergence and rest, I5 no address forgotten, I9 honest status.

use super::bed::Bed;
use super::dns;
use super::judge::Judge;
use super::truth::Pool;
use crate::cloud::{IpView, RecordView};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// How long everything may take to come right: two steps of the slowest schedule of retries, and a sweep.
const CONVERGENCE_MS: u64 = 1_500_000;

/// How long it has to stay so, without one write.
const REST_MS: u64 = 600_000;

/// How often one looks.
const LOOK_MS: u64 = 2_000;

/// Waits until the world is as desired, and then watches that nothing is written.
pub(super) async fn await_rest(bed: &mut Bed) {
    let begin_ms = bed.network.now_ms();
    let deadline_ms = begin_ms + CONVERGENCE_MS;
    let mut right_since = None;
    loop {
        let now_ms = bed.network.now_ms();
        if !bed.violations().is_empty() {
            return;
        }
        let complaints = complaints(bed);
        let last_write_ms = bed.network.judge(|judge| judge.last_write_ms);
        if complaints.is_empty() {
            let since: u64 = *right_since.get_or_insert(now_ms);
            if now_ms.saturating_sub(since.max(last_write_ms).max(begin_ms)) >= REST_MS {
                return;
            }
        } else {
            right_since = None;
        }
        if now_ms >= deadline_ms {
            let what = if complaints.is_empty() {
                format!("it does not come to rest; the last write was at {last_write_ms} ms")
            } else {
                complaints.join("; ")
            };
            bed.network.judge(|judge| judge.blame(now_ms, "I3", what));
            return;
        }
        bed.wait_until(now_ms + LOOK_MS).await;
    }
}

/// What is not as it should be.
fn complaints(bed: &Bed) -> Vec<String> {
    let ips: BTreeMap<Ipv4Addr, IpView> = bed.cloud.ips().into_iter().map(|view| (view.ip, view)).collect();
    bed.network.judge(|judge| {
        let mut all = Vec::new();
        for pool in judge.truth.pools.values().filter(|pool| !pool.deleting) {
            check_pool(judge, pool, &ips, &mut all);
        }
        check_annotations(judge, &ips, &mut all);
        check_created(judge, &ips, &mut all);
        let views: Vec<IpView> = ips.values().cloned().collect();
        dns::complaints(&judge.truth, &bed.cloud, &views, &mut all);
        check_foreign(judge, bed, &mut all);
        all
    })
}

/// The addresses that a pool may use: its own by age, and there.
fn usable<'a>(judge: &Judge, pool: &Pool, ips: &'a BTreeMap<Ipv4Addr, IpView>) -> Vec<&'a IpView> {
    let own = |ip: &Ipv4Addr| judge.truth.owner(*ip).is_some_and(|owner| owner.uid == pool.uid);
    pool.used().iter().filter(|ip| own(ip)).filter_map(|ip| ips.get(ip)).collect()
}

fn check_pool(judge: &Judge, pool: &Pool, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    let name = &pool.name;
    if pool.condition("SpecValid") == "False" {
        return;
    }
    let observed = pool.status.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default();
    if observed != pool.generation {
        all.push(format!("{name}: generation {} is not observed", pool.generation));
    }
    let uncertain = pool.condition("CreationUncertain") == "True";
    let known = pool.spec_ips().len().max(pool.used().len());
    if known < pool.desired() && !uncertain {
        all.push(format!("{name}: {known} of {} addresses", pool.desired()));
    }
    let candidates: BTreeMap<u64, &str> =
        judge.truth.candidates(pool).filter_map(|n| Some((n.droplet?, n.name.as_str()))).collect();
    let states = pool.states();
    let usable = usable(judge, pool, ips);
    let idle: Vec<_> = usable
        .iter()
        .filter(|view| view.droplet.is_none_or(|droplet| !candidates.contains_key(&droplet)))
        .collect();
    let taken: BTreeSet<u64> = ips.values().filter_map(|view| view.droplet).collect();
    let free = candidates.iter().find(|(droplet, _)| !taken.contains(droplet));
    if let (Some(view), Some((_, node))) = (idle.first(), free) {
        all.push(format!("{name}: {} is idle and {node} has no address", view.ip));
    }
    for view in usable {
        let state = states.get(&view.ip.to_string()).map_or("", String::as_str);
        let right = match view.droplet {
            None => "unassigned",
            Some(droplet) if candidates.contains_key(&droplet) => "active",
            Some(_) => "no-match",
        };
        // An address whose last action failed is called so until the next one.
        if state != right && (right == "active" || state != "error") {
            all.push(format!("{name}: {} is {right} and called {state:?}", view.ip));
        }
    }
}

/// A node is annotated exactly while a used address stands on it and it is a candidate.
fn check_annotations(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    for pool in judge.truth.pools.values().filter(|pool| !pool.deleting) {
        let used = usable(judge, pool, ips);
        for node in judge.truth.candidates(pool) {
            if let Some(view) =
                used.iter().find(|view| view.droplet.is_some() && view.droplet == node.droplet)
            {
                wanted.insert(node.name.clone(), view.ip.to_string());
            }
        }
    }
    for node in judge.truth.nodes.values() {
        let want = wanted.get(&node.name);
        if node.annotation.as_ref() != want {
            all.push(format!("{} is annotated {:?}, not {want:?}", node.name, node.annotation));
        }
    }
}

/// I5: every address that was bought is named by a pool, or said to be uncertain.
fn check_created(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    if judge.pools_deleted {
        return;
    }
    for ip in judge.created.iter().filter(|ip| ips.contains_key(*ip)) {
        let text = ip.to_string();
        let named = judge.truth.pools.values().any(|pool| {
            pool.spec_ips().contains(ip)
                || pool.remembered().contains(ip)
                || pool.status.to_string().contains(&text)
        });
        if !named {
            all.push(format!("{ip} was bought and nobody names it"));
        }
    }
}

/// I4: the records of others are as they were.
fn check_foreign(judge: &Judge, bed: &Bed, all: &mut Vec<String>) {
    for (provider, now) in dns::records(&bed.cloud) {
        let ours = |record: &RecordView| {
            record.rtype == "A" && judge.sites.contains(&(provider, record.fqdn.clone()))
        };
        let others: Vec<_> = now.into_iter().filter(|record| !ours(record)).collect();
        let before = bed.foreign.get(&provider).into_iter().flatten().filter(|record| !ours(record));
        if !before.eq(others.iter()) {
            all.push(format!("records of others have changed at {provider:?}: {others:?}"));
        }
    }
}

/// The end state, without what differs between equally good runs: which address stands on which of the
/// nodes that match.
pub(super) fn summary(bed: &Bed) -> Vec<String> {
    let ips: BTreeMap<Ipv4Addr, IpView> = bed.cloud.ips().into_iter().map(|view| (view.ip, view)).collect();
    bed.network.judge(|judge| {
        let mut lines = Vec::new();
        for pool in judge.truth.pools.values() {
            let mut states: BTreeMap<String, usize> = BTreeMap::new();
            for state in pool.states().into_values() {
                *states.entry(state).or_default() += 1;
            }
            lines.push(format!("pool {}: {} addresses {states:?}", pool.name, pool.used().len()));
        }
        lines.push(format!("account: {} addresses", ips.len()));
        let mut nodes: BTreeMap<(bool, bool), usize> = BTreeMap::new();
        for node in judge.truth.nodes.values() {
            let holds = ips.values().any(|view| view.droplet.is_some() && view.droplet == node.droplet);
            *nodes.entry((holds, node.annotation.is_some())).or_default() += 1;
        }
        for ((holds, annotated), count) in nodes {
            lines.push(format!("{count} nodes: with an address {holds}, annotated {annotated}"));
        }
        lines
    })
}
