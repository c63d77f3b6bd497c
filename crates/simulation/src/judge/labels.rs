//! I1 for labels: they leave a node before the address does. In the end a node carries the labels of
//! `spec.nodeLabels` exactly where the pool of its annotation asks for them.

use super::truth::{Node, Pool};
use super::untouched::LABELS;
use super::{Judge, Process};
use crate::facts::{Facts, Kind};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// How long a move waits for the answer to the removal, with a margin for clocks of processes that start at
/// fractions of a millisecond.
const WAIT_MS: u64 = 498;

/// When each process last asked for the removal of labels, by node, and whether that call has ended.
#[derive(Debug, Default)]
pub(super) struct Removals(BTreeMap<(Process, String), Removal>);

#[derive(Debug)]
struct Removal {
    sent_ms: u64,
    seq: u64,
    ended: bool,
}

impl Removals {
    /// A process sends a call.
    pub(super) fn sent(&mut self, now_ms: u64, seq: u64, process: Process, facts: &Facts) {
        let [_, ip, ..] = LABELS;
        let removes = || facts.scope.replace(' ', "").contains(&format!("\"{ip}\":null"));
        if let Some(node) = facts.what.strip_prefix("PATCH nodes ").filter(|_| removes()) {
            let removal = Removal { sent_ms: now_ms, seq, ended: false };
            self.0.insert((process, node.to_owned()), removal);
        }
    }

    /// A call is over for its process.
    pub(super) fn ended(&mut self, seq: u64) {
        self.0.values_mut().filter(|removal| removal.seq == seq).for_each(|removal| removal.ended = true);
    }
}

impl Judge {
    /// While a healthy node carries labels that name an address, the address moves elsewhere only after a request
    /// to remove them. That request was answered, or was sent 500 ms ago.
    pub(super) fn check_labels(&mut self, now_ms: u64, process: Process, facts: &Facts) {
        let Kind::Assign { ip, droplet } = facts.kind else { return };
        let from_ms = self.blindness.since(now_ms);
        if !self.truth.owner(ip).is_some_and(|pool| asks(pool, "enabled") && !pool.is_frozen()) {
            return;
        }
        if !self.former_since(from_ms).filter(|pool| pool.held(ip)).all(|pool| asks(pool, "enabled")) {
            return;
        }
        let nodes = self.truth.nodes.values();
        let mut labelled = nodes.filter(|node| node.droplet != Some(droplet) && bears(node, ip));
        let hasty = labelled.find(|node| {
            // A process that has not seen this yet need not wait.
            let mut lately = self.truth.nodes_since(from_ms).filter(|was| was.uid == node.uid);
            let well = lately.all(|was| bears(was, ip) && was.is_well());
            let removal = self.removals.0.get(&(process, node.name.clone()));
            let waited = removal.is_some_and(|of| of.ended || of.sent_ms + WAIT_MS <= now_ms);
            well && !waited
        });
        if let Some(name) = hasty.map(|node| node.name.clone()) {
            self.blame(now_ms, "I1", format!("{process} moves {ip}, and {name} is still labelled with it"));
        }
    }
}

fn bears(node: &Node, ip: Ipv4Addr) -> bool {
    let [_, key, ..] = LABELS;
    node.labels.get(key).is_some_and(|value| *value == ip.to_string())
}

/// The mistakes in the labels of nodes. Another rule judges their annotations.
pub(super) fn check(judge: &Judge, all: &mut Vec<String>) {
    let pools = || judge.truth.pools.values().filter(|pool| !pool.deleting);
    // A frozen pool keeps its confirmed labels.
    if pools().any(|pool| pool.is_frozen() && asks(pool, "enabled")) {
        return;
    }
    for node in judge.truth.nodes.values() {
        let label = |key: &'static str| Some((key, node.labels.get(key)?.clone()));
        let have: BTreeMap<&str, String> = LABELS.into_iter().filter_map(label).collect();
        let want = wanted(judge, node);
        if have != want {
            all.push(format!("{} is labelled {have:?}, not {want:?}", node.name));
        }
    }
}

fn wanted(judge: &Judge, node: &Node) -> BTreeMap<&'static str, String> {
    let [active, ip, legacy_ip, legacy_enabled] = LABELS;
    let mut want = BTreeMap::new();
    let pools = || judge.truth.pools.values().filter(|pool| !pool.deleting);
    if let Some(address) = &node.annotation {
        let owner = address.parse().ok().and_then(|address| judge.truth.owner(address));
        if let Some(pool) = owner.filter(|pool| asks(pool, "enabled")) {
            want.insert(active, "true".to_owned());
            want.insert(ip, address.clone());
            if asks(pool, "legacy") {
                want.insert(legacy_ip, address.clone());
                want.insert(legacy_enabled, "true".to_owned());
            }
        }
        return want;
    }
    let matches = |pool: &&Pool| judge.truth.candidates(pool).any(|found| found.uid == node.uid);
    if pools().filter(|pool| asks(pool, "enabled") && asks(pool, "legacy")).any(|pool| matches(&pool)) {
        want.insert(legacy_enabled, "false".to_owned());
    }
    want
}

fn asks(pool: &Pool, field: &str) -> bool {
    pool.spec.pointer(&format!("/nodeLabels/{field}")).and_then(serde_json::Value::as_bool) == Some(true)
}
