//! The final report: where everything is, what moved and how fast, and how many calls it took.

use super::pools::{key, text};
use super::story::{Move, Story};
use super::teller::{brief, seconds};
use super::{pods, pools, records};
use serde_json::Value;
use std::collections::BTreeMap;

const ADDRESSES: [&str; 5] = ["ADDRESS", "POOL", "NODE", "STATE", "MOVES"];
const RECORD_SETS: [&str; 5] = ["RECORD SET", "PROVIDER", "TTL", "OBJECT", "ADDRESSES"];

/// The facts of a story.
#[derive(Debug, Default)]
struct Summary {
    /// Address, pool, node, state, and how often it moved from node to node.
    rows: Vec<[String; 5]>,
    /// Name, provider, TTL, object, addresses.
    record_sets: Vec<[String; 5]>,
    failovers: Vec<Move>,
    /// How many addresses were assigned that were on no node before.
    placed: usize,
    /// The calls to each provider, by operation.
    calls: BTreeMap<&'static str, BTreeMap<String, u64>>,
    took_ms: u64,
}

/// Shows the present state: nodes and their pods, addresses, records.
pub(super) fn show(story: &mut Story) {
    let api = &story.stage.api;
    let mut rows = Vec::new();
    for node in api.objects("v1", "Node") {
        let name = key(&node).name;
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let mut ready = conditions.filter(|condition| text(condition, "/type") == "Ready");
        let ready = ready.next().is_some_and(|condition| text(condition, "/status") == "True");
        let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
        let annotated = pools::annotation(&node).unwrap_or("-").to_owned();
        let pods: Vec<String> = pods::pods_on(api, &name).into_iter().map(|pod| pod.name).collect();
        let pods = if pods.is_empty() { "-".to_owned() } else { pods.join(", ") };
        let word = |is: bool, yes: &str, no: &str| if is { yes.to_owned() } else { no.to_owned() };
        let (ready, cordoned) = (word(ready, "Ready", "NotReady"), word(cordoned, "cordoned", "-"));
        rows.push([name, ready, cordoned, annotated, pods]);
    }
    let (addresses, record_sets) = (addresses(story), record_sets(story));
    let mut lines = vec![String::new()];
    table(&mut lines, ["NODE", "READY", "CORDONED", "ANNOTATION", "PODS"], &rows);
    table(&mut lines, ADDRESSES, &addresses);
    table(&mut lines, RECORD_SETS, &record_sets);
    for line in &lines {
        story.plain(line);
    }
}

/// A row per address of each pool.
fn addresses(story: &Story) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    for pool in pools::pools(&story.stage.api) {
        for (ip, status) in &pool.status.ips {
            let moves =
                story.moves.iter().filter(|done| done.ip.to_string() == *ip && done.from.is_some()).count();
            let node = if status.node_name.is_empty() { "-" } else { &status.node_name };
            let row =
                [ip.clone(), pool.name.to_string(), node.to_owned(), status.state.clone(), moves.to_string()];
            rows.push(row);
        }
    }
    rows
}

/// A row per record set.
fn record_sets(story: &Story) -> Vec<[String; 5]> {
    let sets = records::record_sets(&story.stage.api);
    sets.iter().filter_map(|set| set.row(story.stage.cloud.cloud(), &story.stage.zones)).collect()
}

/// Tells the summary.
pub(super) fn tell(story: &mut Story) {
    let mut summary = Summary { took_ms: story.now_ms(), ..Summary::default() };
    summary.rows = addresses(story);
    summary.record_sets = record_sets(story);
    summary.failovers = story.moves.iter().filter(|done| done.from.is_some()).cloned().collect();
    summary.placed = story.moves.len().saturating_sub(summary.failovers.len());
    let cloud = story.stage.cloud.cloud();
    for call in cloud.calls(0) {
        let of_provider = summary.calls.entry(call.provider.name()).or_default();
        let count = of_provider.entry(format!("{:?}", call.op)).or_default();
        *count = count.saturating_add(1);
    }
    story.plain("");
    summary.lines().iter().for_each(|line| story.plain(line));
}

impl Summary {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        table(&mut lines, ADDRESSES, &self.rows);
        table(&mut lines, RECORD_SETS, &self.record_sets);
        for Move { ip, from, to, reason, lost_ms, began_ms, done_ms, confirmed_ms, published_ms } in
            &self.failovers
        {
            let since = lost_ms.unwrap_or(*began_ms);
            let published = published_ms.map(|at_ms| seconds(at_ms.saturating_sub(since)));
            let published = published.map(|after| format!(", in DNS after {after}")).unwrap_or_default();
            lines.push(format!(
                "failover: {ip} from {} to {to} in {} (requested after {}, confirmed after {}{published}): {reason}",
                from.as_deref().unwrap_or("-"),
                seconds(done_ms.saturating_sub(since)),
                brief(began_ms.saturating_sub(since)),
                seconds(confirmed_ms.unwrap_or(*done_ms).saturating_sub(since)),
            ));
        }
        if !self.rows.is_empty() {
            lines.push(format!("assignments: {} placed, {} moved", self.placed, self.failovers.len()));
        }
        for (provider, calls) in &self.calls {
            let total: u64 = calls.values().sum();
            let calls: Vec<String> = calls.iter().map(|(call, count)| format!("{call} {count}")).collect();
            lines.push(format!("calls of {provider}: {total} ({})", calls.join(", ")));
        }
        lines.push(format!("✓ everything went as expected, in {}", seconds(self.took_ms)));
        lines
    }
}

/// A table, followed by an empty line. Nothing without rows.
fn table(lines: &mut Vec<String>, header: [&str; 5], rows: &[[String; 5]]) {
    if !rows.is_empty() {
        lines.extend(columns(std::iter::once(&header.map(str::to_owned)).chain(rows)));
        lines.push(String::new());
    }
}

/// Rows with aligned columns, separated by two blanks.
fn columns<'a>(rows: impl Iterator<Item = &'a [String; 5]> + Clone) -> Vec<String> {
    let mut widths = [0_usize; 5];
    for row in rows.clone() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    rows.map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_counted_from_the_moment_its_node_stopped_matching() {
        let failover = Move {
            ip: "192.0.2.1".parse().unwrap(),
            from: Some("a".to_owned()),
            to: "b".to_owned(),
            reason: "gone".to_owned(),
            lost_ms: Some(1_000),
            began_ms: 1_004,
            done_ms: 2_110,
            confirmed_ms: Some(2_300),
            published_ms: Some(2_450),
        };
        let rows = vec![["192.0.2.1", "ns/p", "b", "active", "1"].map(str::to_owned)];
        let sets =
            vec![["a.example", "cloudflare", "60", "NodeDNSRecordSet ns/s", "192.0.2.1"].map(str::to_owned)];
        let calls = BTreeMap::from([("AssignIp".to_owned(), 1), ("GetAction".to_owned(), 2)]);
        let calls = BTreeMap::from([("digitalocean", calls)]);
        let (failovers, took_ms) = (vec![failover], 9_000);
        let lines = Summary { rows, record_sets: sets, failovers, calls, placed: 0, took_ms }.lines();
        assert_eq!(
            lines,
            [
                "ADDRESS    POOL  NODE  STATE   MOVES",
                "192.0.2.1  ns/p  b     active  1",
                "",
                "RECORD SET  PROVIDER    TTL  OBJECT                 ADDRESSES",
                "a.example   cloudflare  60   NodeDNSRecordSet ns/s  192.0.2.1",
                "",
                "failover: 192.0.2.1 from a to b in 1.11 s (requested after 4 ms, confirmed after 1.30 s, in DNS after \
                 1.45 s): gone",
                "assignments: 0 placed, 1 moved",
                "calls of digitalocean: 3 (AssignIp 1, GetAction 2)",
                "✓ everything went as expected, in 9.00 s",
            ]
        );
    }
}
