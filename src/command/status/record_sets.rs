//! A `NodeDNSRecordSet` in the report.

use super::Facts;
use super::model::{Published, Records, SetReport, state};
use crate::command::matched::Matched;
use flipop_core::model::facts::NodeFacts;
use flipop_core::model::ids::ObjectKind;
use flipop_core::records::object::RecordSetObject;
use flipop_core::records::spec::NodeSetSpec;
use std::collections::BTreeMap;

/// One record set in the report.
pub(super) fn report(facts: &Facts, set: &RecordSetObject, spec: Option<&NodeSetSpec>) -> SetReport {
    let status = &set.status;
    let since = facts.paused.get(&(ObjectKind::RecordSet, set.object.name.clone()));
    let generations = (status.observed_generation, set.generation);
    let state = state(&status.conditions, (set.paused.as_ref(), since), generations);
    let matched = spec.and_then(|spec| facts.matched.get(spec.criteria.as_ref()?));
    let raw = set.spec.as_ref().ok().and_then(|raw| raw.record_set.as_ref());
    let written = raw.map(|raw| raw.record_name.clone()).unwrap_or_default();
    SetReport {
        namespace: set.object.name.namespace.clone(),
        name: set.object.name.name.clone(),
        records: Records {
            name: if status.fqdn.is_empty() { written } else { status.fqdn.clone() },
            provider: spec.map(|spec| spec.set.provider.clone()).unwrap_or_default(),
            ttl: raw.map(|raw| raw.ttl).filter(|ttl| *ttl > 0),
            addresses: status.addresses.iter().map(ToString::to_string).collect(),
            ready: state.ready.clone(),
            reason: state.reason.clone(),
        },
        state,
        nodes: matched.map(|matched| nodes(facts, set, spec, matched)).unwrap_or_default(),
        left_out: matched.map(Matched::left_out).unwrap_or_default(),
    }
}

/// Nodes that match, and nodes that keep their place for a while.
fn nodes(
    facts: &Facts,
    set: &RecordSetObject,
    spec: Option<&NodeSetSpec>,
    matched: &Matched,
) -> Vec<Published> {
    let suspects = set.status.suspects.keys().filter(|node| !matched.matching.contains(*node));
    let known: BTreeMap<&str, &NodeFacts> =
        facts.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let published = |node: &String| {
        let found = known.get(node.as_str()).copied();
        let addresses = found.zip(spec.and_then(|spec| spec.source)).map(|(node, source)| source.of(node));
        let addresses = addresses.unwrap_or_default().iter().map(ToString::to_string).collect();
        Published { node: node.clone(), addresses, health: matched.health(node) }
    };
    matched.matching.iter().chain(suspects).map(published).collect()
}
