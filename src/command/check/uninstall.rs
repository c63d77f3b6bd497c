//! The things that an uninstallation would leave behind, and how to remove them.

use super::agents;
use crate::api::{meta_of, object_of};
use crate::command::CommandError;
use crate::command::copy::{self, Objects};
use crate::command::output::{Output, Tone, shown};
use crate::command::session::Session;
use crate::config::Egress;
use crate::kube::watch::list_once;
use crate::provider::descriptors;
use flipop_core::addresses::pool::spec::{PoolSpec, ReclaimPolicy};
use flipop_core::model::{ObjectName, RESERVED_IP_ANNOTATION};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use std::collections::BTreeSet;

/// For an address that is in the account.
const STAYS: &str = "it stays in the account and is billed: delete it there if you do not need it";

/// For an address that FLIPOP created for a pool with `reclaimPolicy: Delete`.
const GIVEN_BACK: &str = "FLIPOP deletes it with its pool while the operator still runs";

/// One thing that stays behind.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Left {
    /// Its place.
    place: String,
    /// The thing.
    what: String,
    /// How to remove it.
    remedy: String,
}

/// Everything that stays behind.
pub(super) async fn list(session: &Session, objects: &Objects) -> Result<Vec<Left>, CommandError> {
    let nodes = list_once::nodes(&session.client, "").await;
    let nodes = nodes.map_err(|trouble| CommandError::read("nodes", trouble))?;
    let mut left = BTreeSet::new();
    for node in nodes {
        // Labels that others wrote stay in use. The annotation is FLIPOP's own, whoever wrote it.
        for (key, label) in node.labels.0.iter().filter(|(_, label)| label.ours) {
            let key = key.as_str();
            left.insert(Left {
                what: format!("label {key}={}", label.value),
                remedy: format!("kubectl label node {} {key}-", node.name),
                place: format!("node {}", node.name),
            });
        }
        if let Some(value) = node.annotation {
            left.insert(Left {
                what: format!("annotation {RESERVED_IP_ANNOTATION}={value}"),
                remedy: format!("kubectl annotate node {} {RESERVED_IP_ANNOTATION}-", node.name),
                place: format!("node {}", node.name),
            });
        }
    }
    let agents = agents::pods(session).await.map_err(|trouble| CommandError::read("pods", trouble))?;
    left.extend(agents.iter().filter_map(of_agent));
    left.extend(objects.pools.iter().map(meta_of).flat_map(finalizers));
    let providers = copy::every_provider(false);
    let (pools, sets) = objects.plain();
    for pool in &pools {
        let place = format!("FloatingIPPool {}", pool.object.name);
        let spec = copy::pool_spec(pool, &providers);
        let purchased = pool.status.memory.iter().flat_map(|memory| &memory.purchased);
        let purchased: BTreeSet<String> = purchased.map(|purchased| purchased.ip.to_string()).collect();
        let nowhere = format!("no {}", machine(spec.as_ref()));
        for (ip, entry) in &pool.status.ips {
            let ours = purchased.contains(ip);
            let bought = if ours { ", created by FLIPOP" } else { "" };
            let given_back = ours && spec.as_ref().is_some_and(|spec| spec.reclaim == ReclaimPolicy::Delete);
            let on = if entry.provider_id.is_empty() { &nowhere } else { &entry.provider_id };
            left.insert(Left {
                place: place.clone(),
                what: format!("address {ip} on {on}{bought}"),
                remedy: if given_back { GIVEN_BACK } else { STAYS }.to_owned(),
            });
        }
        for firewall in &pool.status.firewalls {
            left.insert(Left {
                place: place.clone(),
                what: format!("firewall {} at {}", firewall.name, firewall.account_id),
                remedy: "remove spec.firewall while the operator still runs, or delete the firewall there"
                    .to_owned(),
            });
        }
        if let Some(set) = &pool.status.record_set {
            let provider = spec.and_then(|spec| spec.record_set).map(|set| set.provider).unwrap_or_default();
            left.extend(records(&place, &set.fqdn, &provider, set.addresses.iter().map(ToString::to_string)));
        }
    }
    for set in &sets {
        let place = format!("NodeDNSRecordSet {}", set.object.name);
        let provider = copy::set_spec(set, &providers).map(|spec| spec.set.provider).unwrap_or_default();
        let addresses = set.status.addresses.iter().map(ToString::to_string);
        left.extend(records(&place, &set.status.fqdn, &provider, addresses));
    }
    Ok(left.into_iter().collect())
}

/// The settings that an agent leaves on its node, unless it runs with `--egress=None` first.
fn of_agent(pod: &Pod) -> Option<Left> {
    let sets = agents::flags(pod).is_none_or(|flags| flags.egress == Egress::Pods);
    sets.then(|| Left {
        place: format!("node {}", agents::node(pod).unwrap_or_default()),
        what: "routes, rules and the table inet flipop of the agent".to_owned(),
        remedy: "roll out the agent with --egress=None, and wait, before you delete its DaemonSet".to_owned(),
    })
}

/// The machines that an address of a pool can be on. Of a pool whose provider is unknown: the machines of all
/// providers.
fn machine(spec: Option<&PoolSpec>) -> String {
    if let Some(machines) = spec.and_then(|spec| spec.machines) {
        return machines.noun.to_owned();
    }
    let all: Vec<&str> = descriptors().filter_map(|of| Some(of.machines?.noun)).collect();
    all.join(" or ")
}

/// FLIPOP's own finalizer of a pool. Other finalizers are not read.
fn finalizers(pool: &ObjectMeta) -> impl Iterator<Item = Left> {
    let ObjectName { namespace, name } = object_of(pool).name;
    pool.finalizers.iter().flatten().map(move |finalizer| Left {
        place: format!("FloatingIPPool {namespace}/{name}"),
        what: format!("finalizer {finalizer}"),
        remedy: format!(
            "delete the object while the operator still runs: kubectl delete fipool {name} -n {namespace}"
        ),
    })
}

fn records(place: &str, fqdn: &str, provider: &str, addresses: impl Iterator<Item = String>) -> Vec<Left> {
    let record = |ip: String| Left {
        place: place.to_owned(),
        what: format!("record {fqdn} A {ip} at {provider}"),
        remedy: "FLIPOP leaves records in place: delete it at the provider if you do not need it".to_owned(),
    };
    addresses.map(record).collect()
}

/// The list as text.
pub(super) fn text(left: &[Left], output: Output) -> String {
    if left.is_empty() {
        return format!("{} nothing would stay behind\n", output.mark(Tone::Good));
    }
    let line = |left: &Left| {
        let Left { place, what, remedy } = left;
        format!("{} {}\n", output.mark(Tone::Doubtful), shown(&format!("{place}: {what}: {remedy}")))
    };
    left.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_leaves_its_settings_unless_it_was_told_to_remove_them() {
        let agent = |arguments: &[&str]| -> Pod {
            let arguments = [&["/app/flipop", "agent", "--node-name=$(NODE_NAME)"][..], arguments].concat();
            let containers = json!([{ "name": "agent", "args": arguments }]);
            serde_json::from_value(json!({ "spec": { "nodeName": "a", "containers": containers } })).unwrap()
        };
        let left = of_agent(&agent(&["--egress=Pods"])).unwrap();
        assert_eq!(left.place, "node a");
        assert!(left.remedy.contains("--egress=None"), "{}", left.remedy);
        assert_eq!(of_agent(&agent(&["--egress=None"])), None);
        assert!(of_agent(&agent(&["--egress=Off"])).is_some(), "flags of another version");
    }
}
