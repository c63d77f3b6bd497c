//! Reads one node and its pods as they are now. A watch may lag behind.

use super::objects::lease::{self, LeaseSlim};
use super::objects::{NodeSlim, PodSlim};
use super::writes::{Call, WriteError, send};
use flipop_core::model::{LeaseFacts, NodeFacts, PodFacts, WatchKey};
use kube::Client;
use kube::api::{ListParams, ObjectList, Resource};
use kube::core::Request;
use serde::de::DeserializeOwned;

/// Reads a node, if it has the labels of `nodes`, and its pods that match `pods`. Lists without a version are
/// consistent reads.
///
/// # Errors
/// See [`WriteError`].
pub async fn read_node(
    client: &Client,
    node: &str,
    nodes: &WatchKey,
    pods: Option<&WatchKey>,
) -> Result<(Option<NodeFacts>, Vec<PodFacts>), WriteError> {
    let found = list::<NodeSlim>(client, nodes, format!("metadata.name={node}"));
    let on_it = async {
        match pods {
            Some(pods) => list::<PodSlim>(client, pods, format!("spec.nodeName={node}")).await,
            None => Ok(Vec::new()),
        }
    };
    let (found, on_it) = futures::try_join!(found, on_it)?;
    let found = found.into_iter().map(NodeSlim::into_facts).find(|facts| facts.name == node);
    Ok((found, on_it.into_iter().map(PodSlim::into_facts).collect()))
}

/// The Lease that the kubelet of a node renews, by a consistent read.
///
/// # Errors
/// See [`WriteError`].
pub async fn read_lease(client: &Client, node: &str) -> Result<Option<LeaseFacts>, WriteError> {
    let params = ListParams::default().fields(&format!("metadata.name={node}"));
    let request = Request::new(LeaseSlim::url_path(&(), Some(lease::NAMESPACE))).list(&params);
    let page: ObjectList<LeaseSlim> =
        send(client, None, &Call::new::<LeaseSlim>("list", ""), request).await?;
    Ok(page.items.into_iter().map(LeaseSlim::into_facts).find(|facts| facts.name == node))
}

async fn list<K>(client: &Client, key: &WatchKey, fields: String) -> Result<Vec<K>, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
{
    let (namespace, selector) = match key {
        WatchKey::Nodes { selector } => (None, selector),
        WatchKey::Pods { namespace, selector } => {
            (Some(namespace.as_str()).filter(|name| !name.is_empty()), selector)
        }
    };
    let params = ListParams::default().labels(selector).fields(&fields);
    let request = Request::new(K::url_path(&(), namespace)).list(&params);
    let page: ObjectList<K> = send(client, None, &Call::new::<K>("list", ""), request).await?;
    Ok(page.items)
}
