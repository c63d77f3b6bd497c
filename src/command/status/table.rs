//! The report as tables of text.

use super::model::{AddressReport, PoolReport, Records, Report, SetReport, State};
use crate::command::leader::Leader;
use crate::command::matched::LeftOut;
use crate::command::output::{Output, Table, Tone, shown};
use std::fmt::Write as _;

/// The most nodes that a line names. `-o wide` names all.
const MAX_NAMED: usize = 5;

/// The most waiting nodes that are shown. `-o wide` shows all.
const MAX_LINE: usize = 10;

/// The report.
pub(super) fn text(report: &Report, output: Output) -> String {
    let mut text = String::new();
    let leader = match &report.leader {
        Some(Leader { vacant_since: Some(since), .. }) => format!(
            "{} No replica leads since {since}: FLIPOP changes nothing, and the statuses below are stale.",
            output.mark(Tone::Bad)
        ),
        Some(leader) => format!("Leader: {}.", shown(&leader.pod)),
        None => "Leader: unknown.".to_owned(),
    };
    let ready = |state: &State| state.ready == "True";
    let pools = report.pools.iter().filter(|pool| ready(&pool.state)).count();
    let sets = report.record_sets.iter().filter(|set| ready(&set.state)).count();
    let _infallible = writeln!(
        text,
        "{leader} Ready: {pools} of {} FloatingIPPools, {sets} of {} NodeDNSRecordSets.",
        report.pools.len(),
        report.record_sets.len()
    );
    for note in &report.notes {
        let _infallible = writeln!(text, "{} {}", output.tinted(Tone::Doubtful, "Note:"), shown(note));
    }
    for check in &report.failing_checks {
        let line = format!("Check of {} at {}", check.node, check.text);
        let _infallible = writeln!(text, "{} {}", output.mark(Tone::Doubtful), shown(&line));
    }
    for pool in &report.pools {
        text.push('\n');
        text.push_str(&self::pool(pool, report, output));
    }
    for set in &report.record_sets {
        text.push('\n');
        text.push_str(&self::set(set, report.stale, output));
    }
    text
}

/// The first lines of an object. `counts`: more text for the first one.
fn head(
    kind: &str,
    (namespace, name): (&str, &str),
    (state, is_stale): (&State, bool),
    counts: &str,
    output: Output,
) -> String {
    let tone = believed(Tone::of_ready(&state.ready), is_stale);
    let outdated = match (is_stale, state.current) {
        (true, _) => " (stale)",
        (false, false) => " (the status describes an earlier spec)",
        (false, true) => "",
    };
    let mut text = format!(
        "{} {}   {} Ready={} {}{counts}{outdated}\n",
        output.bold(kind),
        output.bold(&shown(&format!("{namespace}/{name}"))),
        output.mark(tone),
        output.tinted(tone, &shown(&state.ready)),
        shown(&state.reason),
    );
    if !state.message.is_empty() {
        let _infallible = writeln!(text, "  {}", shown(&state.message));
    }
    if let Some(reason) = &state.paused {
        let reason = if reason.trim().is_empty() { "no reason is given" } else { reason };
        let since = state.paused_since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        let line = format!("Paused{since}: {reason}");
        let _infallible = writeln!(text, "  {} {}", output.mark(Tone::Doubtful), shown(&line));
    }
    for warning in state.warnings.iter().filter(|warning| warning.kind != "Paused") {
        let line = format!("{} {}: {}", warning.kind, warning.reason, warning.message);
        let _infallible = writeln!(text, "  {} {}", output.mark(Tone::Doubtful), shown(&line));
    }
    text
}

/// Nothing counts as good while no replica leads.
fn believed(tone: Tone, stale: bool) -> Tone {
    if stale { tone.max(Tone::Doubtful) } else { tone }
}

fn pool(pool: &PoolReport, report: &Report, output: Output) -> String {
    let counts = format!(", {} of {} addresses active", pool.active, pool.used);
    let (name, state) = ((pool.namespace.as_str(), pool.name.as_str()), (&pool.state, report.stale));
    let mut text = head("FloatingIPPool", name, state, &counts, output);
    if !pool.addresses.is_empty() {
        text.push_str(&addresses(&pool.addresses, report.stale, output));
    }
    if let Some(pending) = &pool.pending_move {
        let since = pending.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        let from = if pending.from.is_empty() { String::new() } else { format!(" from {}", pending.from) };
        let why =
            if pending.waits_for.is_empty() { String::new() } else { format!(": {}", pending.waits_for) };
        let line = format!("The move {}{from} is pending{since}{why}", pending.request);
        let _infallible = writeln!(text, "  {} {}", output.mark(Tone::Doubtful), shown(&line));
    }
    if !pool.line.is_empty() {
        text.push_str(&line(pool, report, output));
    }
    text.push_str(&left_out(&pool.left_out, output));
    if let Some(records) = &pool.records {
        text.push_str(&self::records(records, report.stale, output));
    }
    text
}

fn addresses(addresses: &[AddressReport], stale: bool, output: Output) -> String {
    let mut headers = vec!["ADDRESS", "NODE", "STATE", "SINCE", "DNS", "HEALTH", "NEXT"];
    if output.is_wide() {
        headers.push("PROVIDER ID");
    }
    let mut table = Table::new(headers);
    for address in addresses {
        let tone = match address.state.as_str() {
            "active" if address.health == "matches" => Tone::Good,
            "active" | "disabled" => Tone::Doubtful,
            "in-progress" if address.error.is_empty() => Tone::Doubtful,
            _ => Tone::Bad,
        };
        let node = match address.target.as_str() {
            "" => address.node.clone(),
            target => format!("{} → {target}", shown(&address.node)),
        };
        let text = if stale { format!("{} (stale)", address.state) } else { address.state.clone() };
        let dns = address.dns.join(",");
        let mut cells = vec![
            (address.address.clone(), None),
            (node, None),
            (text, Some(believed(tone, stale))),
            (address.since.clone().unwrap_or_default(), None),
            (dns, None),
            (address.health.clone(), (address.health != "matches").then_some(Tone::Doubtful)),
            (address.next.clone(), None),
        ];
        if output.is_wide() {
            cells.push((address.provider_id.clone(), None));
        }
        table.row(cells);
    }
    table.text(output, "  ")
}

fn line(pool: &PoolReport, report: &Report, output: Output) -> String {
    let known = pool.line.iter().any(|waiting| waiting.waits_for.is_some());
    let most = if output.is_wide() { usize::MAX } else { MAX_LINE };
    let mut table = Table::new(["QUEUE", "NODE", "WAITS FOR"]);
    for (place, waiting) in pool.line.iter().take(most).enumerate() {
        let place = if known { place.saturating_add(1).to_string() } else { String::new() };
        let waits_for = waiting.waits_for.clone().unwrap_or_default();
        table.row([(place, None), (waiting.node.clone(), None), (waits_for, None)]);
    }
    let mut text = table.text(output, "  ");
    let more = pool.line.len().saturating_sub(most);
    if more > 0 {
        let _infallible = writeln!(text, "  … and {more} more (-o wide shows them)");
    }
    if !known && report.notes.is_empty() && !report.stale {
        text.push_str("  The leader did not report the order.\n");
    }
    text
}

fn left_out(left_out: &[LeftOut], output: Output) -> String {
    let mut text = String::new();
    let most = if output.is_wide() { usize::MAX } else { MAX_NAMED };
    for left_out in left_out {
        let _infallible = writeln!(text, "  Not matching: {}", left_out.text(most));
    }
    text
}

fn records(records: &Records, stale: bool, output: Output) -> String {
    let ttl = records.ttl.map_or("the default".to_owned(), |ttl| format!("{ttl} s"));
    let addresses =
        if records.addresses.is_empty() { "no address".to_owned() } else { records.addresses.join(", ") };
    format!(
        "  DNS: {} {} (at {}, TTL {ttl}): {} {}\n",
        output.mark(believed(Tone::of_ready(&records.ready), stale)),
        shown(&records.name),
        shown(&records.provider),
        shown(&addresses),
        if records.ready == "True" { String::new() } else { format!("[{}]", shown(&records.reason)) },
    )
    .replace(" \n", "\n")
}

fn set(set: &SetReport, stale: bool, output: Output) -> String {
    let name = (set.namespace.as_str(), set.name.as_str());
    let mut text = head("NodeDNSRecordSet", name, (&set.state, stale), "", output);
    text.push_str(&records(&set.records, stale, output));
    if !set.nodes.is_empty() {
        let mut table = Table::new(["NODE", "ADDRESSES", "HEALTH"]);
        for node in &set.nodes {
            let tone = (node.health != "matches").then_some(Tone::Doubtful);
            table.row([
                (node.node.clone(), None),
                (node.addresses.join(","), None),
                (node.health.clone(), tone),
            ]);
        }
        text.push_str(&table.text(output, "  "));
    }
    text.push_str(&left_out(&set.left_out, output));
    text
}
