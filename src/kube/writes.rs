//! Writes to Kubernetes that follow from leadership, and the reads that belong to them.
//!
//! Each function sends at most one mutating request, fenced by a [`Permit`]: the permit is checked right before the
//! request is handed over, and again by the fence inside the client ([`super::client`]), and the request is abandoned
//! when the permit ends. Nothing is retried here: the planner owns retries. The caller decides what to write.

use super::client::CALL_TIMEOUT_MS;
use super::objects::lease::{self, LeaseSlim};
use super::objects::{FIELD_MANAGER, NodeSlim, PodSlim};
use super::trouble::{Trouble, TroubleKind};
use super::watch::list_once;
use crate::permit::Permit;
use flipop_core::fleet::action::Sweep;
use flipop_core::model::node_labels::LabelChanges;
use flipop_core::model::{
    Address, LeaseFacts, NodeFacts, ObjectName, PodFacts, RESERVED_IP_ANNOTATION, Uid, WatchKey,
};
use kube::Client;
use kube::api::{GetParams, ListParams, ObjectList, Patch, PatchParams, PostParams, Resource};
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::Duration;

/// The annotation of nodes that only a dry run names.
pub const POLICY_PROBE_ANNOTATION: &str = "flipop.digitalocean.com/policy-probe";

/// Why a write has no known success.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There is no permit, or it ended while the call was under way. `unknown`: the call may have had its effect.
    #[error("failed to write: no longer the leader")]
    PermitEnded {
        /// The request had been handed to the connection.
        unknown: bool,
    },
    /// Someone else wrote first: read again, then decide again.
    #[error("failed to write: the object was changed meanwhile")]
    Conflict,
    /// The object is gone, or another one has its name now.
    #[error("failed to write: the object is gone")]
    NotFound,
    /// Our role lacks a rule, or somebody's policy objects.
    #[error("failed to write: the service account may not {verb} {resource}{why}; grant it as k8s/ does")]
    Forbidden {
        /// The verb that may not be used.
        verb: &'static str,
        /// The resource, with its group.
        resource: String,
        /// The server's words, bounded. Empty if they only say that the role lacks the right.
        why: String,
    },
    /// The server could not be reached, failed or was too slow.
    #[error("failed to write: {message}")]
    Transient {
        /// The write may have had its effect, although the answer is lost.
        unknown: bool,
        /// The failure in words, bounded.
        message: String,
        /// How long the server asked us to wait.
        retry_after_ms: Option<u64>,
    },
    /// The server refuses the request as it is.
    #[error("failed to write: {0}")]
    Invalid(String),
}

impl WriteError {
    /// Whether the write may have its effect although it failed.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::PermitEnded { unknown } | Self::Transient { unknown, .. } => *unknown,
            Self::Conflict | Self::NotFound | Self::Forbidden { .. } | Self::Invalid(_) => false,
        }
    }

    fn of(trouble: Trouble, call: &Call<'_>) -> Self {
        match trouble.kind {
            TroubleKind::PermitEnded => Self::PermitEnded { unknown: false },
            TroubleKind::Conflict => Self::Conflict,
            TroubleKind::NotFound => Self::NotFound,
            // The server refuses a patch like this if it names the uid of an object whose name another object has now.
            TroubleKind::Invalid if trouble.fields.iter().any(|field| field == "metadata.uid") => {
                Self::NotFound
            }
            TroubleKind::Invalid => Self::Invalid(trouble.message),
            TroubleKind::Forbidden => {
                let resource = call.resource.clone().into_owned();
                let role = trouble.message.contains(&format!("cannot {} resource", call.verb));
                // A role lacks a right for every object alike. A policy may object to some only.
                let why = if role { String::new() } else { format!(": {}", trouble.message) };
                Self::Forbidden { verb: call.verb, resource, why }
            }
            TroubleKind::Unauthorized
            | TroubleKind::Expired
            | TroubleKind::Throttled
            | TroubleKind::ServerError
            | TroubleKind::Unreachable
            | TroubleKind::Interrupted
            | TroubleKind::Undecodable => Self::Transient {
                unknown: call.mutates && trouble.outcome_unknown(),
                retry_after_ms: trouble.retry_after_ms,
                message: trouble.message,
            },
        }
    }
}

/// The request, for errors.
struct Call<'a> {
    verb: &'static str,
    resource: Cow<'a, str>,
    mutates: bool,
}

impl Call<'_> {
    fn new<K: Resource<DynamicType = ()>>(verb: &'static str, subresource: &str) -> Self {
        let (group, plural) = (K::group(&()), K::plural(&()));
        let dot = if group.is_empty() { "" } else { "." };
        let resource = Cow::Owned(format!("{plural}{subresource}{dot}{group}"));
        Self { verb, resource, mutates: verb != "get" && verb != "list" }
    }
}

/// The object, and the version of it, that a status belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Namespace and name.
    pub name: ObjectName,
    /// Its uid, so that a later object of the same name is not meant.
    pub uid: Uid,
    /// The version that the write replaces.
    pub resource_version: String,
}

/// A status in a request, with the version that it replaces.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replacement<'a, S> {
    api_version: Cow<'static, str>,
    kind: Cow<'static, str>,
    metadata: Replaced<'a>,
    status: &'a S,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replaced<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    resource_version: &'a str,
}

/// The parts of an answer to a status that are needed.
#[derive(Deserialize)]
struct Stored<S> {
    #[serde(default)]
    metadata: StoredMeta,
    status: Option<S>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StoredMeta {
    resource_version: String,
}

/// Replaces the status of one object of kind `K`. Returns the object's new version, and the status as the server stored
/// it: an older CRD leaves out fields.
///
/// # Errors
/// See [`WriteError`]. [`WriteError::Conflict`] if the object has another version by now.
pub async fn replace_status<K, S>(
    client: &Client,
    permit: &Permit,
    object: &ObjectVersion,
    status: &S,
) -> Result<(String, S), WriteError>
where
    K: Resource<DynamicType = ()>,
    S: Serialize + DeserializeOwned + Default,
{
    let ObjectVersion { name: ObjectName { namespace, name }, uid, resource_version } = object;
    let metadata = Replaced { namespace, name, uid: &uid.0, resource_version };
    let body = Replacement { api_version: K::api_version(&()), kind: K::kind(&()), metadata, status };
    let body = serde_json::to_vec(&body).map_err(|error| WriteError::Invalid(error.to_string()))?;
    let request = Request::new(K::url_path(&(), Some(namespace))).replace_subresource(
        "status",
        name,
        &post_params(),
        body,
    );
    let call = Call::new::<K>("update", "/status");
    let stored: Stored<S> = send(client, Some(permit), &call, request).await?;
    Ok((stored.metadata.resource_version, stored.status.unwrap_or_default()))
}

/// Reads one object afresh, lets `edit` compute a new list of `spec.ips`, and writes the object back with nothing else
/// changed. `edit` returns `None` if there is nothing to do. Returns the object as the server stored it.
///
/// If the process begins to end during the read, nothing is written. The core then decides anew on a purchase that is
/// recorded nowhere else, since that must still be written.
///
/// # Errors
/// See [`WriteError`]. [`WriteError::NotFound`] also if the name belongs to another object now.
pub async fn replace_spec_ips<K, F>(
    client: &Client,
    permit: &Permit,
    name: &ObjectName,
    uid: &Uid,
    edit: F,
) -> Result<Option<Value>, WriteError>
where
    K: Resource<DynamicType = ()>,
    F: FnOnce(&[String]) -> Option<Vec<String>>,
{
    let ending = !permit.may_go_on();
    rewrite::<K>(client, permit, (name, uid), |object| {
        let current: Vec<String> = object
            .pointer("/spec/ips")
            .and_then(Value::as_array)
            .map(|ips| ips.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let Some(ips) = edit(&current) else { return Ok(false) };
        if !ending && !permit.may_go_on() {
            return Err(WriteError::PermitEnded { unknown: false });
        }
        set_spec_ips(object, &ips);
        Ok(true)
    })
    .await
}

/// Reads one object afresh, sets or removes a finalizer, and writes the object back with nothing else changed.
///
/// # Errors
/// See [`WriteError`]. [`WriteError::NotFound`] also if the name belongs to another object now.
pub async fn replace_finalizer<K: Resource<DynamicType = ()>>(
    client: &Client,
    permit: &Permit,
    (name, uid): (&ObjectName, &Uid),
    (finalizer, present): (&str, bool),
) -> Result<(), WriteError> {
    let rewritten = rewrite::<K>(client, permit, (name, uid), |object| {
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        let mut finalizers = finalizers.cloned().unwrap_or_default();
        let stands = finalizers.iter().any(|other| other == finalizer);
        if present {
            finalizers.push(json!(finalizer));
        } else {
            finalizers.retain(|other| other != finalizer);
        }
        if let Some(meta) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            meta.insert("finalizers".to_owned(), json!(finalizers));
        }
        Ok(stands != present)
    });
    rewritten.await.map(drop)
}

/// Reads one object afresh, lets `edit` change it, and writes it back with nothing else changed. Returns the object as
/// the server stored it, or `None` if `edit` says that there is nothing to do.
async fn rewrite<K: Resource<DynamicType = ()>>(
    client: &Client,
    permit: &Permit,
    (name, uid): (&ObjectName, &Uid),
    edit: impl FnOnce(&mut Value) -> Result<bool, WriteError>,
) -> Result<Option<Value>, WriteError> {
    let path = K::url_path(&(), Some(&name.namespace));
    let read = Request::new(&path).get(&name.name, &GetParams::default());
    let mut object: Value = send(client, None, &Call::new::<K>("get", ""), read).await?;
    if object.pointer("/metadata/uid").and_then(Value::as_str) != Some(&*uid.0) {
        return Err(WriteError::NotFound);
    }
    if !edit(&mut object)? {
        return Ok(None);
    }
    let body = object.to_string().into_bytes();
    let request = Request::new(&path).replace(&name.name, &post_params(), body);
    send(client, Some(permit), &Call::new::<K>("update", ""), request).await.map(Some)
}

fn set_spec_ips(object: &mut Value, ips: &[String]) {
    if let Some(fields) = object.as_object_mut() {
        let spec = fields.entry("spec").or_insert_with(|| json!({}));
        if !spec.is_object() {
            *spec = json!({});
        }
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("ips".to_owned(), json!(ips));
        }
    }
}

/// Sets or removes the reserved-IP annotation of one node. Returns the node's facts as stored.
///
/// # Errors
/// See [`WriteError`]. [`WriteError::NotFound`] also if another node has that name now.
pub async fn annotate_node(
    client: &Client,
    permit: &Permit,
    node: &str,
    uid: &Uid,
    value: Option<Address>,
) -> Result<NodeSlim, WriteError> {
    let annotations = json!({RESERVED_IP_ANNOTATION: value.map(|ip| ip.to_string())});
    let body = json!({"metadata": {"uid": *uid.0, "annotations": annotations}});
    patch(client, permit, node, body, false).await
}

/// Sets and removes labels of one node. Returns the node's facts as stored.
///
/// # Errors
/// See [`WriteError`]. [`WriteError::NotFound`] also if another node has that name now.
pub async fn label_node(
    client: &Client,
    permit: &Permit,
    node: &str,
    uid: &Uid,
    changes: &LabelChanges,
) -> Result<NodeSlim, WriteError> {
    let labels: serde_json::Map<String, Value> =
        changes.iter().map(|(key, value)| (key.as_str().to_owned(), json!(value))).collect();
    let body = json!({"metadata": {"uid": *uid.0, "labels": labels}});
    patch(client, permit, node, body, false).await
}

/// Asks, by a dry run, whether the API server would accept an annotation that FLIPOP never writes. Then no admission
/// policy limits our changes of nodes.
///
/// # Errors
/// See [`WriteError`]. [`WriteError::Invalid`] or [`WriteError::Forbidden`] where a policy or RBAC refuses it.
pub async fn probe_node_policy(client: &Client, permit: &Permit, node: &str) -> Result<(), WriteError> {
    let body = json!({"metadata": {"annotations": {POLICY_PROBE_ANNOTATION: "true"}}});
    patch(client, permit, node, body, true).await.map(drop)
}

async fn patch(
    client: &Client,
    permit: &Permit,
    node: &str,
    body: Value,
    dry_run: bool,
) -> Result<NodeSlim, WriteError> {
    let call = Call::new::<NodeSlim>("patch", "");
    let field_manager = Some(FIELD_MANAGER.to_owned());
    let params = PatchParams { field_manager, dry_run, ..PatchParams::default() };
    let request = Request::new(NodeSlim::url_path(&(), None)).patch(node, &params, &Patch::Merge(&body));
    send(client, Some(permit), &call, request).await
}

/// Lists every node of the cluster, with those that carry the annotation or one of our labels. The list is consistent,
/// and reads only the metadata of the nodes.
///
/// # Errors
/// See [`WriteError`].
pub async fn sweep_nodes(client: &Client) -> Result<Sweep, WriteError> {
    let listed = list_once::sweep(client).await;
    listed.map_err(|trouble| WriteError::of(trouble, &Call::new::<NodeSlim>("list", "")))
}

/// Counts the objects of a kind in a namespace (empty: in the cluster), by a list of one.
///
/// # Errors
/// See [`WriteError`].
pub async fn count<K>(client: &Client, namespace: &str) -> Result<u64, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
{
    let call = Call::new::<K>("list", "");
    let params = ListParams::default().limit(1);
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let request = Request::new(K::url_path(&(), namespace)).list_metadata(&params);
    let page: ObjectList<K> = send(client, None, &call, request).await?;
    let shown = u64::try_from(page.items.len()).unwrap_or(u64::MAX);
    let more = page.metadata.continue_.is_some_and(|token| !token.is_empty());
    match page.metadata.remaining_item_count.map(u64::try_from) {
        Some(Ok(remaining)) => Ok(shown.saturating_add(remaining)),
        None if !more => Ok(shown),
        None | Some(Err(_)) => {
            let message = format!("a list of {} does not say how many remain", K::plural(&()));
            Err(WriteError::Transient { unknown: false, message, retry_after_ms: None })
        }
    }
}

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

fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Sends one request, fenced by `permit` if there is one, and decodes the answer.
async fn send<T: DeserializeOwned>(
    client: &Client,
    permit: Option<&Permit>,
    call: &Call<'_>,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<T, WriteError> {
    let mut request = request.map_err(|error| WriteError::Invalid(error.to_string()))?;
    if let Some(permit) = permit {
        request.extensions_mut().insert(permit.clone());
        permit.may_start().map_err(|_| WriteError::PermitEnded { unknown: false })?;
    }
    let ended = async {
        match permit {
            Some(permit) => permit.ended().await,
            None => std::future::pending().await,
        }
    };
    let answer = tokio::time::timeout(Duration::from_millis(CALL_TIMEOUT_MS), client.request::<T>(request));
    tokio::select! {
        biased;
        answer = answer => match answer {
            Ok(answer) => answer.map_err(|error| WriteError::of(Trouble::from(error), call)),
            Err(_elapsed) => Err(WriteError::of(Trouble::timed_out(CALL_TIMEOUT_MS), call)),
        },
        () = ended => Err(WriteError::PermitEnded { unknown: call.mutates }),
    }
}

#[cfg(test)]
#[path = "writes_tests.rs"]
mod tests;
