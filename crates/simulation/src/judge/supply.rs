//! Addresses and nodes that wait for each other.

use super::truth::{Pool, Truth};
use flipop_cloud::IpView;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The addresses that a pool may use: the used ones that it owns and that exist.
pub(super) fn usable<'a>(truth: &Truth, pool: &Pool, ips: &'a BTreeMap<Ipv4Addr, IpView>) -> Vec<&'a IpView> {
    pool.used().iter().filter(|ip| truth.owns(pool, **ip)).filter_map(|ip| ips.get(ip)).collect()
}

/// An address of the pool that is on no candidate, and a candidate that could have it.
pub(super) fn pair<'a>(
    truth: &'a Truth,
    pool: &'a Pool,
    ips: &BTreeMap<Ipv4Addr, IpView>,
) -> Option<(Ipv4Addr, &'a str)> {
    let candidates: BTreeMap<u64, &str> =
        truth.candidates(pool).filter_map(|node| Some((node.droplet?, node.name.as_str()))).collect();
    let usable = usable(truth, pool, ips);
    let mut idle =
        usable.iter().filter(|view| view.droplet.is_none_or(|droplet| !candidates.contains_key(&droplet)));
    let idle = idle.next()?;
    // A node can get another address if it holds one that the pool does not use any more.
    let holds = |view: &&IpView| !truth.owns(pool, view.ip) || usable.iter().any(|used| used.ip == view.ip);
    let taken: BTreeSet<u64> = ips.values().filter(holds).filter_map(|view| view.droplet).collect();
    let (_, node) = candidates.iter().find(|(droplet, _)| !taken.contains(droplet))?;
    Some((idle.ip, node))
}

/// Assignments that nothing holds up: neither their pool nor another pool of its nodes cools off or has an
/// operation under way. `rests`: whether nothing is expected from a pool now.
pub(super) fn waits(
    truth: &Truth,
    ips: &BTreeMap<Ipv4Addr, IpView>,
    rests: impl Fn(&Pool) -> bool,
) -> Vec<String> {
    let locked: Vec<Ipv4Addr> = ips.values().filter(|view| view.locked).map(|view| view.ip).collect();
    // Nobody can tell where an address goes that no pool names.
    if locked.iter().any(|ip| truth.owner(*ip).is_none()) {
        return Vec::new();
    }
    let live = || truth.pools.values().filter(|pool| !pool.deleting);
    let cools = |pool: &Pool| {
        let seconds = pool.spec.get("assignmentCoolOffSeconds").and_then(serde_json::Value::as_f64);
        seconds.is_some_and(|seconds| seconds > 0.0)
    };
    let busy = |pool: &&Pool| cools(pool) || rests(pool) || locked.iter().any(|ip| pool.held(*ip));
    let nodes = |pool| truth.candidates(pool).filter_map(|node| node.droplet);
    let of_busy: BTreeSet<u64> = live().filter(busy).flat_map(nodes).collect();
    let free = live().filter(|pool| !busy(pool) && !pool.is_frozen());
    let free = free.filter(|pool| nodes(pool).all(|droplet| !of_busy.contains(&droplet)));
    let pairs = free.filter_map(|pool| Some((pool, pair(truth, pool, ips)?)));
    pairs.map(|(pool, (ip, node))| format!("{}: {ip} is idle and {node} has none", pool.name)).collect()
}
