//! Our objects: mistakes in their specs, trouble in their conditions, and objects that contradict each other.

use super::Finding;
use crate::api::{Condition, Conditioned, Seen};
use crate::command::copy::{self, Judged, Objects};
use crate::command::output::Tone;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::model::catalog::{self, pool, records};
use flipop_core::model::{Address, ConditionType, Criteria, FaultKind, ObjectKind, ObjectName};
use flipop_core::records::spec::{AddressSource, NodeSetSpec};

/// Conditions that deserve a look while addresses and records are as wanted.
const NOTICES: [ConditionType; 12] = [
    ConditionType::AddressesIdle,
    ConditionType::Reclaiming,
    ConditionType::ReclaimKept,
    ConditionType::ReclaimAtRisk,
    ConditionType::Suspect,
    ConditionType::ChecksDoubted,
    ConditionType::Paused,
    ConditionType::AddressMissing,
    ConditionType::TTLRaised,
    ConditionType::ExternalDNS,
    ConditionType::RecordSetTTLRaised,
    ConditionType::RecordSetExternalDNS,
];

/// One line for each mistake and for each condition that reports trouble, or one line that there is none.
pub(super) fn check(objects: &Objects) -> Vec<Finding> {
    let providers = copy::every_provider(false);
    let (pools, sets) = objects.plain();
    let judged = copy::judged(&pools, &sets, &providers);
    let of_sets = objects.record_sets.iter().map(conditions);
    let conditions = objects.pools.iter().map(conditions).chain(of_sets);
    let mut findings: Vec<Finding> =
        judged.iter().zip(conditions).flat_map(|(object, condition)| of(object, condition)).collect();
    let failing = pools.iter().flat_map(failing_addresses);
    let unnamed: Vec<Finding> = failing
        .filter(|(ip, _)| !findings.iter().any(|found| found.what.contains(ip)))
        .map(|(_, found)| found)
        .collect();
    findings.extend(unnamed);
    let of_pools: Vec<_> = pools
        .iter()
        .filter_map(|pool| Some((&pool.object.name, copy::pool_spec(pool, &providers)?)))
        .collect();
    for set in &sets {
        if let Some(spec) = copy::set_spec(set, &providers) {
            findings.extend(contradictions(&set.object.name, &spec, &of_pools));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::good(match (pools.len(), sets.len()) {
            (0, 0) => "there is no FloatingIPPool and no NodeDNSRecordSet".to_owned(),
            (pools, sets) => format!(
                "no mistake is in {pools} FloatingIPPools and {sets} NodeDNSRecordSets, and none reports trouble"
            ),
        }));
    }
    findings
}

fn conditions<K: Conditioned>(seen: &Seen<K>) -> &[Condition] {
    seen.as_ref().map_or(&[], K::conditions)
}

/// The mistakes of an object, and the trouble that its conditions report.
fn of(object: &Judged<'_>, conditions: &[Condition]) -> Vec<Finding> {
    let Judged { kind, name, problems, is_current, .. } = object;
    let shown = format!("{} {name}", kind.as_str());
    let mut findings: Vec<Finding> =
        problems.iter().map(|problem| Finding::bad(format!("{shown} is invalid"), problem)).collect();
    if !is_current && problems.is_empty() {
        findings.push(Finding::doubtful(
            format!("the status of {shown} does not describe its present spec"),
            "wait for the leader, which writes it",
        ));
    }
    let repeats = |condition: &&Condition| {
        !problems.is_empty()
            && (condition.reason == pool::Ready::InvalidSpec.as_str()
                || condition.type_ == ConditionType::SpecValid.as_str())
    };
    let trouble = conditions.iter().filter(|one| ConditionType::is_trouble(&one.type_, &one.status));
    findings.extend(trouble.filter(|condition| !repeats(condition)).map(|condition| {
        let Condition { type_, status, reason, message, last_transition_time: since, .. } = condition;
        let since = since.as_ref().map(|since| format!(" since {:.0}", since.0)).unwrap_or_default();
        let notice = ConditionType::parse(type_).is_some_and(|kind| NOTICES.contains(&kind));
        Finding {
            tone: if notice || passes(reason) { Tone::Doubtful } else { Tone::Bad },
            what: format!("{shown}: {type_}={status} {reason}{since}: {message}"),
            remedy: remedy(*kind, condition),
        }
    }));
    findings
}

/// Whether time, or the person who paused the object, ends what has this reason.
fn passes(reason: &str) -> bool {
    reason == pool::Ready::Assigning.as_str() || records::UnderWay::is_reason(reason)
}

/// The remedy that the reference names for a condition, as plain text.
fn remedy(kind: ObjectKind, condition: &Condition) -> String {
    let remedy = catalog::remedy(kind, &condition.type_, &condition.reason).unwrap_or_default();
    // The failures of calls have remedies of their own.
    let fault = FaultKind::ALL.iter().find(|fault| fault.reason() == condition.reason);
    let fault = fault.filter(|_| remedy.contains("(#kinds-of-failure)"));
    let markdown = fault.map_or(remedy, |fault| fault.remedy());
    let mut plain = String::new();
    for (number, part) in markdown.split("](").enumerate() {
        let (target, rest) = if number == 0 { ("", part) } else { part.split_once(')').unwrap_or_default() };
        if let Some(page) = target.strip_prefix("../") {
            plain.extend([" (docs/", page, ")"]);
        }
        plain.extend(rest.chars().filter(|c| !matches!(c, '`' | '[')));
    }
    plain
}

/// The addresses whose entry in the status has an error.
fn failing_addresses(pool: &PoolObject) -> impl Iterator<Item = (&str, Finding)> {
    let failing =
        pool.status.ips.iter().filter(|(ip, entry)| !entry.error.is_empty() && Address::v4(ip).is_some());
    failing.map(|(ip, entry)| {
        let what = format!("{ip} of FloatingIPPool {} has an error", pool.object.name);
        (ip.as_str(), Finding::bad(what, &entry.error))
    })
}

/// Finds sets whose rules contradict those of a pool. A set that publishes the addresses of pools would drop a
/// node, or keep it, at another time than the pool of that node.
fn contradictions(name: &ObjectName, set: &NodeSetSpec, pools: &[(&ObjectName, PoolSpec)]) -> Vec<Finding> {
    let nodes = |criteria: &Option<Criteria>| criteria.as_ref().map(|of| of.node_watch().clone());
    let own = nodes(&set.criteria);
    if set.source != Some(AddressSource::Annotation) || own.is_none() {
        return Vec::new();
    }
    let pools = pools.iter().filter(|(_, spec)| nodes(&spec.criteria) == own && spec.grace != set.grace);
    pools
        .map(|(pool, _)| {
            Finding::doubtful(
                format!(
                    "NodeDNSRecordSet {name} publishes addresses of FloatingIPPool {pool} with another grace period"
                ),
                "give both the same spec.grace: the shorter one takes the address out of the records first",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FloatingIPPool;
    use serde_json::{Value, json};

    fn with(conditions: &Value, ips: &Value) -> Objects {
        let pool: Result<FloatingIPPool, _> = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "ns", "uid": "u", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "provider": "digitalocean", "ips": ["192.0.2.1"], "match": {} },
            "status": { "observedGeneration": 2, "conditions": conditions, "ips": ips },
        }));
        Objects { pools: vec![Ok(pool.unwrap())], ..Objects::default() }
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:07Z",
        })
    }

    #[test]
    fn each_condition_that_reports_trouble_is_a_line_and_one_that_passes_is_a_doubt() {
        for (kind, status, reason, tone, remedy) in [
            ("Ready", "False", "AddressNotFound", Tone::Bad, "Correct spec.ips. "),
            ("Ready", "False", "NodesClaimed", Tone::Bad, "Narrow spec.match "),
            (
                "Ready",
                "False",
                "NoMatchingNode",
                Tone::Bad,
                "Correct what the message names: see No node matches \
                 (docs/operations/troubleshooting.md#no-node-matches).",
            ),
            ("Ready", "False", "NewInAnotherVersion", Tone::Bad, ""),
            ("Ready", "Unknown", "NodesUnread", Tone::Bad, "See WatchFailing and /readyz. "),
            ("Ready", "False", "Assigning", Tone::Doubtful, "Wait. "),
            ("RecordSetReady", "False", "NotFound", Tone::Bad, "Create the zone, "),
            ("RecordSetReady", "False", "InProgress", Tone::Doubtful, "Wait."),
            ("FirewallReady", "False", "ScopeMissing", Tone::Bad, "Give the token the scopes "),
            ("RecordSetReady", "False", "Transient", Tone::Bad, "Wait."),
            ("NodesBlocked", "True", "ForeignAddress", Tone::Bad, "Add the address to spec.ips, "),
            ("Conflict", "True", "AddressClaimed", Tone::Bad, "Remove the address "),
            ("CreationFailed", "True", "Quota", Tone::Bad, "Ask DigitalOcean for more, "),
            ("ReclaimBlocked", "True", "Locked", Tone::Bad, ""),
            ("Paused", "True", "Annotation", Tone::Doubtful, "Resume the object: see "),
            ("RecordSetExternalDNS", "True", "OwnershipRecord", Tone::Doubtful, "Let only one "),
            ("OfAnotherVersion", "True", "New", Tone::Bad, ""),
        ] {
            let found = check(&with(&json!([condition(kind, status, reason)]), &json!({})));
            let [found] = found.as_slice() else { panic!("{kind} {reason}: {found:?}") };
            let what =
                format!("FloatingIPPool ns/p: {kind}={status} {reason} since 2026-01-01T00:00:07Z: why");
            assert_eq!((found.what.as_str(), found.tone), (what.as_str(), tone));
            assert!(found.remedy.starts_with(remedy), "{kind} {reason}: {}", found.remedy);
        }
    }

    #[test]
    fn an_object_without_trouble_is_good_only_if_its_status_is_about_its_spec() {
        let well =
            json!([condition("Ready", "True", "Assigned"), condition("FirewallReady", "True", "Applied")]);
        let found = check(&with(&well, &json!({})));
        assert_eq!((found.len(), found[0].tone), (1, Tone::Good), "{found:?}");
        let mut stale = with(&well, &json!({}));
        stale.pools[0].as_mut().unwrap().metadata.generation = Some(3);
        let found = check(&stale);
        assert_eq!((found.len(), found[0].tone), (1, Tone::Doubtful), "{found:?}");
        assert!(found[0].what.starts_with("the status of FloatingIPPool ns/p "), "{found:?}");
    }

    #[test]
    fn an_address_with_an_error_is_named_once() {
        let ips =
            json!({ "192.0.2.1": { "state": "error", "error": "the account does not have this address" } });
        let found = check(&with(&json!([condition("Ready", "True", "Assigned")]), &ips));
        assert_eq!(found[0].what, "192.0.2.1 of FloatingIPPool ns/p has an error");
        let mut absent = condition("Ready", "False", "AddressNotFound");
        absent["message"] = json!("192.0.2.1 is not in the account");
        assert_eq!(check(&with(&json!([absent]), &ips)).len(), 1);
    }

    #[test]
    fn a_mistake_is_not_repeated_by_the_conditions_that_report_it() {
        let conditions = json!([
            condition("Ready", "False", "InvalidSpec"),
            condition("SpecValid", "False", "PoolFrozen")
        ]);
        let mut objects = with(&conditions, &json!({}));
        assert_eq!(check(&objects).len(), 2, "a mistake that only the operator sees");
        objects.pools[0].as_mut().unwrap().spec.provider = Some("nonsense".to_owned());
        let found = check(&objects);
        assert_eq!((found.len(), found[0].what.as_str()), (1, "FloatingIPPool ns/p is invalid"), "{found:?}");
    }
}
