//! Nodes that cannot hold an address.

use super::Finding;
use crate::command::copy::Objects;
use crate::command::leader;
use crate::command::reach::Reach;
use crate::kube::watch::once;
use crate::provider::descriptors;
use flipop_core::model::facts::NodeFacts;
use flipop_core::model::machine::MachineKind;
use flipop_core::model::provider::{Descriptor, ManagedNodes};
use futures::future::try_join_all;

/// The most nodes that a line names.
const MAX_NAMED: usize = 5;

/// One line for each kind of doubt.
pub(super) async fn check(reach: &Reach, objects: &Objects) -> Vec<Finding> {
    let managed: Vec<(Descriptor, ManagedNodes)> =
        descriptors().filter_map(|of| Some((of, of.managed_nodes?))).collect();
    let workers = managed.iter().map(|(_, nodes)| once::nodes(&reach.client, nodes.label));
    let (all, workers) = futures::join!(once::nodes(&reach.client, ""), try_join_all(workers));
    let (all, workers) = match (all, workers) {
        (Ok(all), Ok(workers)) => (all, workers),
        (Err(trouble), _) | (_, Err(trouble)) => {
            let why = leader::missing_right(&trouble, "list", "nodes", None);
            return vec![Finding::doubtful("the nodes cannot be read", why)];
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
    findings
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
