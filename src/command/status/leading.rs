//! Facts that only the leader knows, from its `/debug`.

use super::model::FailingCheck;
use crate::command::leader::{Leader, Told};
use serde_json::Value;

/// The providers whose calls fail altogether, each with the time for which they do.
fn outages(debug: &Value) -> Vec<String> {
    let accounts = debug.get("accounts").and_then(Value::as_array);
    let out = |account: &Value| {
        let provider = account.get("provider").and_then(Value::as_str)?;
        let since = account.get("outSinceSeconds").and_then(Value::as_i64)?;
        let seconds = debug.get("nowSeconds").and_then(Value::as_i64)?.saturating_sub(since);
        Some(format!(
            "all calls to {provider} have failed for {seconds} s; FLIPOP tests it every 5 s, and continues once it \
             answers"
        ))
    };
    accounts.into_iter().flatten().filter_map(out).collect()
}

/// The leader's answer. Empty if the leader could not be asked.
pub(in crate::command) struct Leading {
    /// The leader.
    pub(super) leader: Option<Leader>,
    /// The missing facts, and why they are missing.
    pub(super) notes: Vec<String>,
    debug: Option<Value>,
}

impl Leading {
    pub(super) fn new(told: Told) -> Self {
        let Told { leader, debug, mut notes } = told;
        let leads = debug.as_ref().and_then(|debug| debug.get("leading")).and_then(Value::as_bool);
        if leads == Some(false) {
            notes
                .push("the replica that holds the Lease does not lead yet: ask again in a moment".to_owned());
        }
        let debug = debug.filter(|_| leads != Some(false));
        notes.extend(debug.as_ref().map(outages).unwrap_or_default());
        Self { leader, notes, debug }
    }

    /// Nodes of a pool without an address, in the order in which they get one, each with the thing that it waits
    /// for.
    pub(super) fn line(&self, namespace: &str, name: &str) -> Option<Vec<(String, String)>> {
        let pools = self.debug.as_ref()?.get("pools")?.as_array()?;
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let is = |pool: &&Value| {
            text(pool, "namespace").as_deref() == Some(namespace)
                && text(pool, "name").as_deref() == Some(name)
        };
        let waiting = pools.iter().find(is)?.get("nodesWithoutIP")?.as_array()?;
        let entry = |wait: &Value| Some((text(wait, "node")?, text(wait, "waitsFor").unwrap_or_default()));
        Some(waiting.iter().filter_map(entry).collect())
    }

    /// The checked nodes that do not answer.
    pub(super) fn failing_checks(&self) -> Vec<FailingCheck> {
        let checks = self.debug.as_ref().and_then(|debug| debug.get("checks")).and_then(Value::as_array);
        let failing = |check: &Value| {
            let text = |key: &str| check.get(key).and_then(Value::as_str).unwrap_or_default();
            let seconds = |key: &str| check.get(key).and_then(Value::as_u64).map(|ms| ms / 1_000);
            let standing = text("standing");
            if !["failing", "dead"].contains(&standing) {
                return None;
            }
            let last = seconds("lastPassedMs").map_or("never".to_owned(), |last| format!("{last} s ago"));
            let lease = seconds("leaseAgeMs").map_or("none".to_owned(), |age| format!("{age} s old"));
            let doubted = check.get("doubted").and_then(Value::as_bool).unwrap_or_default();
            let failures = check.get("failures").and_then(Value::as_u64).unwrap_or_default();
            let counts = if standing == "dead" {
                "counts as dead"
            } else if doubted {
                "fails, but its Lease is renewed, so it does not count as dead"
            } else {
                "fails"
            };
            let text = format!(
                "{} {counts}: last answer {last}, {failures} failures in a row, Lease {lease}",
                text("address")
            );
            let node = check.get("node").and_then(Value::as_str).unwrap_or_default().to_owned();
            Some(FailingCheck { node, text })
        };
        checks.into_iter().flatten().filter_map(failing).collect()
    }

    /// When an address arrived at its node, if the leader saw it.
    pub(super) fn since(&self, ip: &str, node: &str) -> Option<String> {
        let changes = self.debug.as_ref()?.get("changes")?.as_array()?;
        let last =
            changes.iter().rev().find(|change| change.get("ip").and_then(Value::as_str) == Some(ip))?;
        let came = last.get("to").and_then(Value::as_str) == Some(node);
        last.get("time").and_then(Value::as_str).filter(|_| came).map(str::to_owned)
    }
}
