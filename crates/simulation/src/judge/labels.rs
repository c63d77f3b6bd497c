//! In the end a node carries the labels of `spec.nodeLabels` exactly where the pool of its annotation asks for them.

use super::Judge;
use super::truth::{Node, Pool};
use super::untouched::LABELS;
use std::collections::BTreeMap;

/// What is wrong with the labels of nodes. That their annotations are right is judged elsewhere.
pub(super) fn check(judge: &Judge, all: &mut Vec<String>) {
    let pools = || judge.truth.pools.values().filter(|pool| !pool.deleting);
    // Of a frozen pool what was confirmed stays.
    if pools().any(|pool| pool.is_frozen() && asks(pool, "enabled")) {
        return;
    }
    for node in judge.truth.nodes.values() {
        let want = wanted(judge, node);
        let have: BTreeMap<&str, &str> = LABELS
            .iter()
            .filter_map(|key| node.labels.get(*key).map(|value| (*key, value.as_str())))
            .collect();
        let want: BTreeMap<&str, &str> = want.iter().map(|(key, value)| (*key, value.as_str())).collect();
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
