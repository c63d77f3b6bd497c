//! `flipop status`: which node has which address and why, which nodes wait, and which are left out.
//!
//! The core matches the nodes here, over lists that are read once. The leader adds the facts that only it knows.

mod leading;
mod model;
mod pools;
mod record_sets;
mod table;

use super::CommandError;
use super::copy::{self, Lists, Objects};
use super::leader;
use super::output::{self, Output};
use super::reach::Reach;
use crate::config::words::StatusArgs;
use crate::exit::Exit;
use flipop_core::addresses::pool::object::PoolObject;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::model::facts::NodeFacts;
use flipop_core::model::matching::WatchKey;
use flipop_core::records::object::RecordSetObject;
use flipop_core::records::spec::NodeSetSpec;
use leading::Leading;
use model::Report;
use std::time::Duration;

/// The time between two prints of `--watch`.
const PERIOD: Duration = Duration::from_secs(2);

/// Clears a terminal, and moves to its first line.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// The facts for a report.
pub(super) struct Facts {
    /// The pools, each with its spec if it can be read.
    pub(super) pools: Vec<(PoolObject, Option<PoolSpec>)>,
    /// The record sets, each with its spec if it can be read.
    pub(super) record_sets: Vec<(RecordSetObject, Option<NodeSetSpec>)>,
    /// Nodes and pods.
    pub(super) lists: Lists,
    /// Every node of the cluster.
    pub(super) nodes: Vec<NodeFacts>,
    /// The leader's answer.
    pub(super) leading: Leading,
    /// The time by the API server's clock.
    pub(super) now: jiff::Timestamp,
}

/// Runs the command.
pub(super) async fn run(reach: &Reach, arguments: &StatusArgs, output: Output) -> Result<Exit, CommandError> {
    loop {
        let report = report(reach, &arguments.names).await?;
        if arguments.watch && output.coloured {
            output::print(CLEAR)?;
        }
        output.show(&report, || table::text(&report, output))?;
        if !arguments.watch {
            return Ok(Exit::Success);
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Reads everything once.
pub(super) async fn report(reach: &Reach, names: &[String]) -> Result<Report, CommandError> {
    let (objects, told) =
        futures::join!(Objects::read(reach, reach.namespace.as_deref()), leader::ask(reach));
    let objects = objects?;
    let absent = objects.absent.clone();
    let facts = facts(reach, &objects, Leading::new(told)).await?;
    let mut report = make(&facts, names);
    let kinds = absent.iter().map(|kind| format!("the kind {kind} is not installed"));
    report.notes.extend(kinds);
    if let Some(missing) = names.iter().find(|name| !report.has(name)) {
        let place =
            reach.namespace.as_deref().map_or("any namespace".to_owned(), |name| format!("namespace {name}"));
        return Err(CommandError::Missing(format!(
            "failed to find a pool or record set {missing} in {place}; name another one with -n, or use -A"
        )));
    }
    Ok(report)
}

async fn facts(reach: &Reach, objects: &Objects, leading: Leading) -> Result<Facts, CommandError> {
    let providers = copy::every_provider(false);
    let (pools, sets) = objects.plain();
    let pools: Vec<_> = pools
        .into_iter()
        .map(|pool| {
            let spec = copy::pool_spec(&pool, &providers);
            (pool, spec)
        })
        .collect();
    let record_sets: Vec<_> = sets
        .into_iter()
        .map(|set| {
            let spec = copy::set_spec(&set, &providers);
            (set, spec)
        })
        .collect();
    let of_pools = pools.iter().filter_map(|(_, spec)| spec.as_ref()?.criteria.as_ref());
    let of_sets = record_sets.iter().filter_map(|(_, spec)| spec.as_ref()?.criteria.as_ref());
    let mut keys = copy::keys(of_pools.chain(of_sets));
    let all = WatchKey::Nodes { selector: String::new() };
    keys.insert(all.clone());
    let lists = Lists::read(reach, keys).await?;
    let nodes = lists.nodes.get(&all).cloned().unwrap_or_default();
    Ok(Facts { pools, record_sets, lists, nodes, leading, now: reach.now() })
}

/// The report on the objects with these names, or on all.
fn make(facts: &Facts, names: &[String]) -> Report {
    let asked = |name: &str| names.is_empty() || names.iter().any(|asked| asked == name);
    let published = pools::published(facts);
    let pools = facts.pools.iter().filter(|(pool, _)| asked(&pool.object.name.name));
    let record_sets = facts.record_sets.iter().filter(|(set, _)| asked(&set.object.name.name));
    Report {
        time: format!("{:.0}", facts.now),
        leader: facts.leading.leader.clone(),
        notes: facts.leading.notes.clone(),
        failing_checks: facts.leading.failing_checks(),
        pools: pools.map(|(pool, spec)| pools::report(facts, &published, pool, spec.as_ref())).collect(),
        record_sets: record_sets.map(|(set, spec)| record_sets::report(facts, set, spec.as_ref())).collect(),
    }
}
