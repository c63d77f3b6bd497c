//! Mistakes in our objects, and objects that contradict each other.

use super::Finding;
use crate::command::copy::{self, Objects};
use flipop_core::addresses::pool::spec::{PoolSpec, ReclaimPolicy};
use flipop_core::model::condition::{Condition, ConditionType};
use flipop_core::model::ids::ObjectName;
use flipop_core::records::spec::{AddressSource, NodeSetSpec};

/// The reason of conditions about limits.
const QUOTA: &str = "Quota";

/// One line for each mistake, or one line that there is none.
pub(super) fn check(objects: &Objects) -> Vec<Finding> {
    let providers = copy::every_provider(false);
    let (pools, sets) = objects.plain();
    let mut findings = Vec::new();
    let mut of_pools: Vec<(ObjectName, PoolSpec)> = Vec::new();
    for pool in &pools {
        let name = &pool.object.name;
        match (&pool.spec, copy::pool_spec(pool, &providers)) {
            (_, Some(spec)) => {
                let problems = spec.problems.iter().map(ToString::to_string);
                findings.extend(problems.map(|problem| mistake("FloatingIPPool", name, &problem)));
                if spec.reclaim == ReclaimPolicy::Delete {
                    let what = format!(
                        "FloatingIPPool {name} deletes addresses: the token needs reserved_ip:delete"
                    );
                    findings.push(Finding::doubtful(
                        what,
                        "no read proves that scope; its lack shows in ReclaimBlocked",
                    ));
                }
                of_pools.push((name.clone(), spec));
            }
            (Err(problem), None) => findings.push(mistake("FloatingIPPool", name, problem)),
            (Ok(_), None) => {}
        }
        findings.extend(told("FloatingIPPool", name, &pool.status.conditions));
    }
    for set in &sets {
        let name = &set.object.name;
        match (&set.spec, copy::set_spec(set, &providers)) {
            (_, Some(spec)) => {
                let problems = spec.problems.iter().map(ToString::to_string);
                findings.extend(problems.map(|problem| mistake("NodeDNSRecordSet", name, &problem)));
                findings.extend(contradictions(name, &spec, &of_pools));
            }
            (Err(problem), None) => findings.push(mistake("NodeDNSRecordSet", name, problem)),
            (Ok(_), None) => {}
        }
        findings.extend(told("NodeDNSRecordSet", name, &set.status.conditions));
    }
    if findings.is_empty() {
        let (pools, sets) = (pools.len(), sets.len());
        findings.push(Finding::good(format!(
            "{pools} FloatingIPPools and {sets} NodeDNSRecordSets are valid and agree with each other"
        )));
    }
    findings
}

fn mistake(kind: &str, name: &ObjectName, problem: &str) -> Finding {
    Finding::bad(format!("{kind} {name} is invalid"), problem)
}

/// Findings from an object's conditions: others that write its names, addresses that cannot be given back, and limits
/// that are reached.
fn told(kind: &str, name: &ObjectName, conditions: &[Condition]) -> Vec<Finding> {
    let finding = |condition: &Condition| {
        let message = condition.message.clone();
        if condition.kind.ends_with("ExternalDNS") {
            let what = format!("external-dns also writes to a name of {kind} {name}");
            return Some(Finding::doubtful(what, message));
        }
        if condition.kind == ConditionType::ReclaimBlocked.as_str() {
            let what = format!("{kind} {name} cannot give an address back");
            return Some(Finding::bad(what, message));
        }
        (condition.reason == QUOTA)
            .then(|| Finding::bad(format!("{kind} {name} has reached a limit of its account"), message))
    };
    conditions.iter().filter_map(finding).collect()
}

/// Finds sets whose rules contradict those of a pool. A set that publishes the addresses of pools would drop a
/// node, or keep it, at another time than the pool of that node.
fn contradictions(name: &ObjectName, set: &NodeSetSpec, pools: &[(ObjectName, PoolSpec)]) -> Vec<Finding> {
    let nodes = set.criteria.as_ref().map(flipop_core::model::matching::Criteria::node_watch);
    if set.source != Some(AddressSource::Annotation) || nodes.is_none() {
        return Vec::new();
    }
    let of_nodes =
        |spec: &PoolSpec| spec.criteria.as_ref().map(flipop_core::model::matching::Criteria::node_watch);
    let pools = pools.iter().filter(|(_, spec)| of_nodes(spec) == nodes && spec.grace != set.grace);
    pools
        .map(|(pool, _)| {
            Finding::doubtful(
                format!(
                    "NodeDNSRecordSet {name} publishes addresses of FloatingIPPool {pool} with another grace"
                ),
                "give both the same spec.grace: the shorter one takes the address out of the records first",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::output::Tone;

    #[test]
    fn an_address_that_cannot_be_given_back_is_bad() {
        let name = ObjectName::new("ns", "pool");
        let condition = |kind: ConditionType, reason: &str, message: &str| Condition {
            kind: kind.as_str().to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let conditions = [
            condition(ConditionType::ReclaimBlocked, "Unauthorised", "the token may not delete"),
            condition(ConditionType::ReclaimAtRisk, "OwnNamespace", "beside FLIPOP"),
        ];
        let found = told("FloatingIPPool", &name, &conditions);
        let found: Vec<_> = found.iter().map(|found| (found.tone, found.remedy.as_str())).collect();
        assert_eq!(found, [(Tone::Bad, "the token may not delete")]);
    }
}
