//! Nodes that cannot hold an address, and whether their checks can work.

use super::Finding;
use super::rights::Account;
use crate::command::copy::{self, Objects};
use crate::command::session::Session;
use crate::config::Variable;
use crate::debug::{CheckView, View};
use crate::kube::watch::list_once;
use crate::provider::descriptors;
use flipop_core::addresses::pool::status::{IpEntry, PoolObject};
use flipop_core::model::provider::{Descriptor, ManagedNodes};
use flipop_core::model::{MachineKind, NodeCheck, NodeFacts, Taint};
use futures::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};

/// The most nodes that a line names.
const MAX_NAMED: usize = 5;

/// The effect of taints that only discourage pods.
const SOFT: &str = "PreferNoSchedule";

/// One line for each kind of doubt.
pub(super) async fn check(session: &Session, objects: &Objects) -> Vec<Finding> {
    let managed: Vec<(Descriptor, ManagedNodes)> =
        descriptors().filter_map(|of| Some((of, of.managed_nodes?))).collect();
    let workers = managed.iter().map(|(_, nodes)| list_once::nodes(&session.client, nodes.label));
    let (all, workers) = futures::join!(list_once::nodes(&session.client, ""), try_join_all(workers));
    let (all, workers) = match (all, workers) {
        (Ok(all), Ok(workers)) => (all, workers),
        (Err(trouble), _) | (_, Err(trouble)) => {
            return vec![Finding::unknown("the nodes cannot be read", trouble, "list nodes", None)];
        }
    };
    let mut findings = Vec::new();
    let without: Vec<&NodeFacts> = all.iter().filter(|node| node.provider_id.is_empty()).collect();
    let foreign: Vec<&NodeFacts> =
        all.iter().filter(|node| !node.provider_id.is_empty() && node.machine.is_none()).collect();
    if !without.is_empty() {
        let remedy = of_each(|of, machines| {
            format!("run the cloud controller manager of {}, or set it: {}", of.title, machines.form())
        });
        findings.push(Finding::bad(
            format!("{} no spec.providerID, and can hold no address", counted(&without, "has", "have")),
            remedy,
        ));
    }
    if !foreign.is_empty() {
        let machines = of_each(|of, machines| format!("{}s of {}", machines.noun, of.title));
        findings.push(Finding::doubtful(
            format!(
                "{} a spec.providerID that belongs to no provider of addresses",
                counted(&foreign, "has", "have")
            ),
            format!("only {machines} can have addresses"),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::good(format!("each of the {} nodes has a usable spec.providerID", all.len())));
    }
    for ((of, nodes), workers) in managed.iter().zip(workers) {
        if !workers.is_empty() && !objects.pools.is_empty() {
            findings.push(managed_workers(of.title, nodes.product, &workers));
        }
    }
    findings.extend(soft_taints(&objects.plain().0, &all));
    findings
}

/// Holders of addresses with taints that only discourage pods. They end the match like any other.
fn soft_taints(pools: &[PoolObject], nodes: &[NodeFacts]) -> Vec<Finding> {
    let providers = copy::every_provider(false);
    let mut tainted: BTreeMap<(String, &str), BTreeMap<&str, &NodeFacts>> = BTreeMap::new();
    for pool in pools {
        let Some(criteria) = copy::pool_spec(pool, &providers).and_then(|spec| spec.criteria) else {
            continue;
        };
        let holds = |node: &&NodeFacts| {
            let stands = |entry: &IpEntry| entry.provider_id == node.provider_id;
            !node.provider_id.is_empty() && pool.status.ips.values().any(|entry| stands(entry))
        };
        for node in nodes.iter().filter(holds) {
            let counts = |taint: &&Taint| {
                taint.effect == SOFT && !criteria.tolerations.iter().any(|of| of.tolerates(taint))
            };
            for taint in node.taints.iter().filter(counts) {
                let of = (pool.object.name.to_string(), taint.key.as_str());
                tainted.entry(of).or_default().insert(&node.name, node);
            }
        }
    }
    let finding = |((pool, key), nodes): ((String, &str), BTreeMap<&str, &NodeFacts>)| {
        let nodes: Vec<&NodeFacts> = nodes.into_values().collect();
        Finding::doubtful(
            format!(
                "{} an address of FloatingIPPool {pool} and the taint {key}, which counts although its effect is \
                 PreferNoSchedule",
                counted(&nodes, "has", "have")
            ),
            "the address moves to another node; tolerate the taint in spec.match.tolerations to keep it",
        )
    };
    tainted.into_iter().map(finding).collect()
}

/// A part of a message for each provider of addresses.
fn of_each(part: impl Fn(&Descriptor, &MachineKind) -> String) -> String {
    let parts: Vec<String> = descriptors().filter_map(|of| Some(part(&of, of.machines?))).collect();
    parts.join(" or ")
}

/// Nodes whose provider does not support addresses on them.
fn managed_workers(title: &str, product: &str, workers: &[NodeFacts]) -> Finding {
    let workers: Vec<&NodeFacts> = workers.iter().collect();
    Finding::doubtful(
        format!(
            "{} of {title}'s managed Kubernetes ({product})",
            counted(&workers, "is a worker", "are workers")
        ),
        format!("{title} does not support reserved IPs on them: ask {title} before you rely on it"),
    )
}

fn counted(nodes: &[&NodeFacts], one: &str, many: &str) -> String {
    if let [only] = nodes {
        return format!("node {} {one}", only.name);
    }
    let named: Vec<&str> = nodes.iter().take(MAX_NAMED).map(|node| node.name.as_str()).collect();
    let more = if nodes.len() > named.len() { " …" } else { "" };
    format!("{} nodes ({}{more}) {many}", nodes.len(), named.join(", "))
}

/// The checks that objects ask for.
pub(super) fn checks_of(objects: &Objects) -> BTreeSet<NodeCheck> {
    let providers = copy::every_provider(false);
    let (pools, sets) = objects.plain();
    let of_pools = pools.iter().filter_map(|pool| copy::pool_spec(pool, &providers)?.check);
    let of_sets = sets.iter().filter_map(|set| copy::set_spec(set, &providers)?.check);
    of_pools.chain(of_sets).collect()
}

/// One line for the node's name, and one for the port of each check.
pub(super) fn checked(account: &Account, checks: &BTreeSet<NodeCheck>, view: Option<&View>) -> Vec<Finding> {
    if checks.is_empty() {
        return Vec::new();
    }
    let ports: BTreeSet<u16> = checks.iter().map(|check| check.port).collect();
    let reported = view.map(|view| view.checks.as_slice()).unwrap_or_default();
    let mut findings = vec![knows_its_node(account)];
    findings.extend(ports.into_iter().map(|port| is_open(port, reported)));
    findings
}

fn knows_its_node(account: &Account) -> Finding {
    let name = Variable::NodeName.name();
    if let Some(why) = &account.assumed {
        let what = format!("it is unknown whether the Deployment sets {name}, which spec.nodeCheck needs");
        return Finding::doubtful(what, why);
    }
    let variables =
        account.installed.pod.containers.iter().flat_map(|container| container.env.iter().flatten());
    if variables.into_iter().any(|variable| variable.name == name) {
        Finding::good(format!("the Deployment sets {name}, which spec.nodeCheck needs"))
    } else {
        Finding::bad(
            format!("the Deployment does not set {name}, so spec.nodeCheck has no effect"),
            "apply k8s/deployment.yaml",
        )
    }
}

/// The leader's results for a port.
fn is_open(port: u16, reported: &[CheckView]) -> Finding {
    let suffix = format!(":{port}");
    let nodes: Vec<&CheckView> = reported.iter().filter(|node| node.address.ends_with(&suffix)).collect();
    let answer = nodes.iter().filter(|node| node.last_passed_ms.is_some()).count();
    match (nodes.len(), answer) {
        (0, _) => Finding::doubtful(
            format!("the leader reports no check of port {port}"),
            "if it cannot be asked, make sure that the port is open from its pods to the InternalIP of each node",
        ),
        (all, answer) if all == answer => {
            Finding::good(format!("port {port} of each of the {all} checked nodes has answered"))
        }
        (all, answer) => Finding::bad(
            format!("port {port} has answered on {answer} of {all} checked nodes"),
            "allow this port from the pods of the operator to the InternalIP of each node",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FloatingIPPool;
    use crate::api::translate::pool::pool_object;
    use crate::command::output::Tone;
    use crate::kube::objects::NodeSlim;
    use serde_json::{Value, json};

    fn node(number: usize, effect: &str) -> NodeFacts {
        let node: Result<NodeSlim, _> = serde_json::from_value(json!({
            "metadata": {"name": format!("node-{number}"), "uid": number.to_string()},
            "spec": {
                "providerID": format!("digitalocean://{number}"),
                "taints": [{"key": "DeletionCandidate", "value": "1", "effect": effect}],
            },
        }));
        node.unwrap().into_facts()
    }

    /// A pool whose two addresses are on the first two nodes.
    fn pool(name: &str, tolerations: &Value) -> PoolObject {
        let entry =
            |number: usize| json!({"state": "active", "providerID": format!("digitalocean://{number}")});
        let pool: Result<FloatingIPPool, _> = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "provider": "digitalocean", "ips": ["192.0.2.1", "192.0.2.2"],
                "match": {"nodeLabel": "a", "tolerations": tolerations},
            },
            "status": {"ips": {"192.0.2.1": entry(1), "192.0.2.2": entry(2)}},
        }));
        pool_object(&Ok(pool.unwrap()))
    }

    #[test]
    fn a_soft_taint_that_takes_an_address_off_its_node_is_named_and_no_other() {
        let nodes = [node(1, SOFT), node(2, SOFT), node(3, SOFT)];
        let tolerant = json!([{"key": "DeletionCandidate", "operator": "Exists"}]);
        let found = soft_taints(&[pool("web", &json!([])), pool("tolerant", &tolerant)], &nodes);
        let texts: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        let right = "2 nodes (node-1, node-2) have an address of FloatingIPPool ns/web and the taint \
                     DeletionCandidate, which counts although its effect is PreferNoSchedule";
        assert_eq!(texts, [right]);
        assert!(soft_taints(&[pool("web", &json!([]))], &[node(1, "NoSchedule")]).is_empty());
    }

    #[test]
    fn a_port_is_open_where_each_checked_node_has_answered_once() {
        let node = |port: u16, last_passed_ms| CheckView {
            address: format!("10.0.0.1:{port}"),
            last_passed_ms,
            ..CheckView::default()
        };
        let tone = |reported: &[CheckView]| is_open(10_250, reported).tone;
        assert_eq!(tone(&[]), Tone::Doubtful);
        assert_eq!(tone(&[node(22, Some(5))]), Tone::Doubtful);
        assert_eq!(tone(&[node(10_250, Some(5)), node(10_250, Some(90_000))]), Tone::Good);
        assert_eq!(tone(&[node(10_250, Some(5)), node(10_250, None)]), Tone::Bad);
    }
}
