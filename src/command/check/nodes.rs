//! Nodes that cannot hold an address.

use super::Finding;
use crate::command::copy::Objects;
use crate::command::leader;
use crate::command::reach::Reach;
use crate::kube::watch::once;
use flipop_core::model::facts::NodeFacts;

/// The most nodes that a line names.
const MAX_NAMED: usize = 5;

/// The label that `DigitalOcean` gives to the worker nodes of its managed Kubernetes.
const DOKS_LABEL: &str = "doks.digitalocean.com/node-id";

/// One line for each kind of doubt.
pub(super) async fn check(reach: &Reach, objects: &Objects) -> Vec<Finding> {
    let (all, workers) =
        futures::join!(once::nodes(&reach.client, ""), once::nodes(&reach.client, DOKS_LABEL));
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
        findings.push(Finding::bad(
            format!("{} no spec.providerID, and can hold no address", counted(&without, "has", "have")),
            "run the cloud controller manager of DigitalOcean, or set it: digitalocean://<droplet id>",
        ));
    }
    if !foreign.is_empty() {
        findings.push(Finding::doubtful(
            format!(
                "{} a spec.providerID that belongs to no provider of addresses",
                counted(&foreign, "has", "have")
            ),
            "only droplets of DigitalOcean can have addresses",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::good(format!("each of the {} nodes has a usable spec.providerID", all.len())));
    }
    if !workers.is_empty() && !objects.pools.is_empty() {
        let workers: Vec<&NodeFacts> = workers.iter().collect();
        findings.push(Finding::doubtful(
            format!(
                "{} of DigitalOcean's managed Kubernetes (DOKS)",
                counted(&workers, "is a worker", "are workers")
            ),
            "DigitalOcean does not support reserved IPs on them: ask DigitalOcean before you rely on it",
        ));
    }
    findings
}

fn counted(nodes: &[&NodeFacts], one: &str, many: &str) -> String {
    if let [only] = nodes {
        return format!("node {} {one}", only.name);
    }
    let named: Vec<&str> = nodes.iter().take(MAX_NAMED).map(|node| node.name.as_str()).collect();
    let more = if nodes.len() > named.len() { " …" } else { "" };
    format!("{} nodes ({}{more}) {many}", nodes.len(), named.join(", "))
}
