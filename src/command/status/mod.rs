//! `flipop status`: which node has which address and why, which nodes wait, and which are left out.
//!
//! The core matches the nodes here, over lists that are read once. The leader adds the facts that only it knows.

mod leading;
mod model;
mod objects;
mod table;

use super::copy::{self, Lists, Objects};
use super::matched::Matched;
use super::output::Output;
use super::session::Session;
use super::steer::Named;
use super::{CommandError, leader};
use crate::api::{Condition, Conditioned, Seen, object_of};
use crate::config::cli_args::StatusArgs;
use crate::exit::Exit;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::model::{ConditionType, Criteria, NodeFacts, ObjectKind, ObjectName, WatchKey};
use flipop_core::records::spec::NodeSetSpec;
use flipop_core::records::status::RecordSetObject;
use leading::Leading;
use model::Report;
use std::collections::{BTreeMap, BTreeSet};

/// The facts for a report.
pub(super) struct Facts {
    /// The pools, each with its spec if it can be read.
    pub(super) pools: Vec<(PoolObject, Option<PoolSpec>)>,
    /// The record sets, each with its spec if it can be read.
    pub(super) record_sets: Vec<(RecordSetObject, Option<NodeSetSpec>)>,
    /// Since when objects are paused.
    pub(super) paused: BTreeMap<(ObjectKind, ObjectName), String>,
    /// The nodes that match each object's criteria. Many objects share some.
    pub(super) matched: BTreeMap<Criteria, Matched>,
    /// Every node of the cluster.
    pub(super) nodes: Vec<NodeFacts>,
    /// Their names, by provider ID.
    pub(super) machines: BTreeMap<String, String>,
    /// The leader's answer.
    pub(super) leading: Leading,
    /// The time by the API server's clock.
    pub(super) now: jiff::Timestamp,
}

/// Runs the command.
pub(super) async fn run(
    session: &Session,
    arguments: &StatusArgs,
    output: Output,
) -> Result<Exit, CommandError> {
    let read = async || report(session, &arguments.names).await;
    output.keep_showing(arguments.watch, read, |report| table::text(report, output)).await?;
    Ok(Exit::Success)
}

/// Reads everything once.
pub(super) async fn report(session: &Session, names: &[String]) -> Result<Report, CommandError> {
    let names: Vec<Named> = names.iter().map(|text| Named::parse(text)).collect::<Result<_, _>>()?;
    let (objects, report) =
        futures::join!(Objects::read(session, session.namespace.as_deref()), leader::ask(session));
    let objects = objects?;
    let absent = objects.absent.clone();
    let facts = Facts::new(&objects, Leading::new(report), session.now());
    let lists = Lists::read(session, facts.keys()).await?;
    let mut report = make(&facts.with(&lists), &names);
    let kinds = absent.iter().map(|kind| format!("the kind {kind} is not installed"));
    report.notes.extend(kinds);
    if report.pools.is_empty() && report.record_sets.is_empty() {
        session.find_namespace().await?;
    }
    if let Some(missing) = names.iter().find(|named| !report.has(named)) {
        return Err(session.lacks(&missing.name));
    }
    Ok(report)
}

impl Facts {
    /// The facts without nodes and pods.
    fn new(objects: &Objects, leading: Leading, now: jiff::Timestamp) -> Self {
        let providers = copy::every_provider(false);
        let (pools, sets) = objects.plain();
        let pools = pools.into_iter().map(|pool| {
            let spec = copy::pool_spec(&pool, &providers);
            (pool, spec)
        });
        let record_sets = sets.into_iter().map(|set| {
            let spec = copy::set_spec(&set, &providers);
            (set, spec)
        });
        Self {
            pools: pools.collect(),
            record_sets: record_sets.collect(),
            paused: paused_since(&objects.pools).chain(paused_since(&objects.record_sets)).collect(),
            matched: BTreeMap::new(),
            nodes: Vec::new(),
            machines: BTreeMap::new(),
            leading,
            now,
        }
    }

    fn criteria(&self) -> impl Iterator<Item = &Criteria> {
        let of_pools = self.pools.iter().filter_map(|(_, spec)| spec.as_ref()?.criteria.as_ref());
        of_pools.chain(self.record_sets.iter().filter_map(|(_, spec)| spec.as_ref()?.criteria.as_ref()))
    }

    /// The lists that the objects need, and that of all nodes.
    fn keys(&self) -> BTreeSet<WatchKey> {
        let mut keys = copy::keys(self.criteria());
        keys.insert(all_nodes());
        keys
    }

    /// The same facts with these lists.
    fn with(self, lists: &Lists) -> Self {
        let nodes = lists.nodes.get(&all_nodes()).cloned().unwrap_or_default();
        let asked: BTreeSet<&Criteria> = self.criteria().collect();
        let matched = asked.into_iter();
        let matched = matched.map(|asked| (asked.clone(), Matched::new(lists, &nodes, asked))).collect();
        let named = nodes.iter().map(|node| (node.provider_id.clone(), node.name.clone()));
        let machines = named.filter(|(machine, _)| !machine.is_empty()).collect();
        Self { matched, nodes, machines, ..self }
    }
}

fn all_nodes() -> WatchKey {
    WatchKey::Nodes { selector: String::new() }
}

/// Since when each of these objects is paused, as far as the operator has confirmed it.
fn paused_since<K: Conditioned>(
    objects: &[Seen<K>],
) -> impl Iterator<Item = ((ObjectKind, ObjectName), String)> {
    objects.iter().flatten().filter_map(|object| {
        let paused = |condition: &&Condition| condition.type_ == ConditionType::Paused.as_str();
        let since = object.conditions().iter().find(paused)?.last_transition_time.as_ref()?;
        Some(((K::KIND, object_of(object.meta()).name), format!("{:.0}", since.0)))
    })
}

/// The report on the objects with these names, or on all.
fn make(facts: &Facts, names: &[Named]) -> Report {
    let asked = |kind, name: &str| names.is_empty() || names.iter().any(|named| named.is(kind, name));
    let published = objects::published(facts);
    let pools = facts.pools.iter().filter(|(pool, _)| asked(ObjectKind::Pool, &pool.object.name.name));
    let record_sets =
        facts.record_sets.iter().filter(|(set, _)| asked(ObjectKind::RecordSet, &set.object.name.name));
    Report {
        time: format!("{:.0}", facts.now),
        leader: facts.leading.leader.clone(),
        stale: facts.leading.is_stale(),
        notes: facts.leading.notes.clone(),
        failing_checks: facts.leading.failing_checks(),
        pools: pools.map(|(pool, spec)| objects::pool(facts, &published, pool, spec.as_ref())).collect(),
        record_sets: record_sets.map(|(set, spec)| objects::record_set(facts, set, spec.as_ref())).collect(),
    }
}

#[cfg(test)]
mod tests;
