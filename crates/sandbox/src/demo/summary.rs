//! What is left to say at the end: where everything is, what moved and how fast, and what it cost in calls.

use super::pools;
use super::story::{Move, Story};
use super::teller::{brief, seconds};
use std::collections::BTreeMap;

/// Facts of a story.
#[derive(Debug, Default)]
struct Summary {
    /// Address, pool, node, state, how often it left a node for another one.
    rows: Vec<[String; 5]>,
    failovers: Vec<Move>,
    /// Assignments of addresses that stood nowhere.
    placed: usize,
    /// Calls of the provider, by operation.
    calls: BTreeMap<String, u64>,
    took_ms: u64,
}

/// Tells the summary.
pub(super) fn tell(story: &mut Story) {
    let mut summary = Summary { took_ms: story.now_ms(), ..Summary::default() };
    for pool in pools::pools(&story.stage.api) {
        for (ip, status) in &pool.status.ips {
            let moves =
                story.moves.iter().filter(|done| done.ip.to_string() == *ip && done.from.is_some()).count();
            let node = if status.node_name.is_empty() { "-" } else { &status.node_name };
            let row =
                [ip.clone(), pool.name.to_string(), node.to_owned(), status.state.clone(), moves.to_string()];
            summary.rows.push(row);
        }
    }
    summary.failovers = story.moves.iter().filter(|done| done.from.is_some()).cloned().collect();
    summary.placed = story.moves.len().saturating_sub(summary.failovers.len());
    for call in story.stage.cloud.cloud().calls(0) {
        let count = summary.calls.entry(format!("{:?}", call.op)).or_default();
        *count = count.saturating_add(1);
    }
    story.plain("");
    summary.lines().iter().for_each(|line| story.plain(line));
}

impl Summary {
    fn lines(&self) -> Vec<String> {
        let header = ["ADDRESS", "POOL", "NODE", "STATE", "MOVES"].map(str::to_owned);
        let mut lines = columns(std::iter::once(&header).chain(&self.rows));
        lines.push(String::new());
        for Move { ip, from, to, reason, lost_ms, began_ms, done_ms, confirmed_ms } in &self.failovers {
            let since = lost_ms.unwrap_or(*began_ms);
            lines.push(format!(
                "failover: {ip} from {} to {to} in {} (requested after {}, confirmed after {}): {reason}",
                from.as_deref().unwrap_or("-"),
                seconds(done_ms.saturating_sub(since)),
                brief(began_ms.saturating_sub(since)),
                seconds(confirmed_ms.unwrap_or(*done_ms).saturating_sub(since)),
            ));
        }
        let calls: Vec<String> = self.calls.iter().map(|(call, count)| format!("{call} {count}")).collect();
        let total: u64 = self.calls.values().sum();
        lines.push(format!("assignments: {} placed, {} moved", self.placed, self.failovers.len()));
        lines.push(format!("provider calls: {total} ({})", calls.join(", ")));
        lines.push(format!("everything went as expected, in {}", seconds(self.took_ms)));
        lines
    }
}

/// Rows with aligned columns, two blanks between them.
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
        };
        let rows = vec![["192.0.2.1", "ns/p", "b", "active", "1"].map(str::to_owned)];
        let calls = BTreeMap::from([("AssignIp".to_owned(), 1), ("GetAction".to_owned(), 2)]);
        let lines = Summary { rows, failovers: vec![failover], calls, placed: 0, took_ms: 9_000 }.lines();
        assert_eq!(
            lines,
            [
                "ADDRESS    POOL  NODE  STATE   MOVES",
                "192.0.2.1  ns/p  b     active  1",
                "",
                "failover: 192.0.2.1 from a to b in 1.11 s (requested after 4 ms, confirmed after 1.30 s): gone",
                "assignments: 0 placed, 1 moved",
                "provider calls: 3 (AssignIp 1, GetAction 2)",
                "everything went as expected, in 9.00 s",
            ]
        );
    }
}
