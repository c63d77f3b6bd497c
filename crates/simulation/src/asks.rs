//! Requests to move addresses by hand, drawn from a seed.
//!
//! They have their own sequence of draws, so the rest of a seed's plan is the same with and without them.

use super::dice::roll;
use super::plan::{Act, Step};
use super::workloads::at;
use std::net::Ipv4Addr;

/// Separates these draws from others of the seed.
const SALT: u64 = 80;

/// How many of a hundred seeds have requests.
const SEEDS: usize = 60;

/// No request comes before the pools exist, or in the last seconds.
const MARGIN_MS: u64 = 10_000;

/// Up to four requests, in a world of these pools, addresses and nodes.
pub(super) fn drawn(
    seed: u64,
    (pools, ips, nodes): (&[String], &[Ipv4Addr], &[String]),
    until_ms: u64,
) -> Vec<Step> {
    let below = |number: u64, limit: usize| {
        let limit = u64::try_from(limit).unwrap_or(1);
        usize::try_from(roll(seed, number, SALT, limit)).unwrap_or_default()
    };
    let requests = if below(0, 100) < SEEDS { 1 + below(1, 4) } else { 0 };
    let ask = |nonce: u64| {
        let name = pools.get(below(10 * nonce, pools.len()))?.clone();
        let ip = *ips.get(below(10 * nonce + 1, ips.len()))?;
        let node = nodes.get(below(10 * nonce + 2, nodes.len()))?.clone();
        let at_ms = MARGIN_MS + roll(seed, 10 * nonce + 3, SALT, until_ms.saturating_sub(3 * MARGIN_MS));
        Some(at(at_ms, Act::Ask { name, ip, node, nonce }))
    };
    (1..).take(requests).filter_map(ask).collect()
}
