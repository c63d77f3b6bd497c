//! Changes that scenario code makes to the cluster without HTTP: nodes, pods and applied YAML.
//!
//! The same rules apply as for requests (schemas, generations, field managers).

use super::error::ApiError;
use super::intent::{FieldValidation, Intent};
use super::meta::{self, Key, list_at, text, type_of};
use super::ownership::Writer;
use super::patch::Patch;
use super::remove::DeleteOptions;
use super::resource::{Resource, Storage};
use super::store::{Change, seconds};
use super::write::Edit;
use super::{ApiServer, codec};
use flipop::latest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The field manager of scenario code.
const SCENARIO: &str = "sandbox";
/// The field manager of kubelets.
const KUBELET: &str = "kubelet";

/// A scenario step that failed.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text is not YAML.
    #[error("failed to read YAML: {0}")]
    Yaml(String),
    /// No resource has this version and kind.
    #[error("failed to find a resource for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// `apiVersion` of the object.
        api_version: String,
        /// `kind` of the object.
        kind: String,
    },
    /// The API server refuses it.
    #[error("failed to write {kind} {name:?}")]
    Refused {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// Why.
        source: Box<ApiError>,
    },
}

/// A node to create.
#[derive(Debug, Clone, Default)]
pub struct NodeSpec {
    /// Name.
    pub name: String,
    /// `spec.providerID`, for example `digitalocean://123`. Empty means none.
    pub provider_id: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// `InternalIP`. Empty means none.
    pub internal_ip: String,
    /// `ExternalIP`. Empty means none.
    pub external_ip: String,
    /// Whether the node is ready from the start.
    pub ready: bool,
}

/// A pod to create.
#[derive(Debug, Clone, Default)]
pub struct PodSpec {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The node that the pod runs on. Empty if it has none yet.
    pub node: String,
    /// Whether the pod is running and ready from the start.
    pub ready: bool,
    /// The `ReplicaSet` in the same namespace that controls the pod. Empty means none.
    pub set: String,
}

/// The result of applying an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its kind.
    pub kind: String,
    /// Its namespace and name.
    pub key: Key,
    /// The server's warnings.
    pub warnings: Vec<String>,
}

/// The status of a Ready condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// `True`
    Ready,
    /// `False`
    NotReady,
    /// `Unknown`: nobody has heard from the object.
    Unknown,
}

impl Readiness {
    /// From a flag.
    pub fn of(ready: bool) -> Self {
        if ready { Self::Ready } else { Self::NotReady }
    }
}

/// All changes of the cluster, in order.
#[derive(Debug)]
pub struct Changes {
    server: ApiServer,
    cursor: u64,
    revisions: latest::Receiver<u64>,
}

impl Changes {
    /// The changes since the last call. Waits until there is one. Skips changes that the log no longer holds.
    pub async fn next(&mut self) -> Vec<Arc<Change>> {
        loop {
            self.revisions.mark_seen();
            let news = self.drain();
            if !news.is_empty() || self.revisions.changed().await.is_err() {
                return news;
            }
        }
    }

    /// The changes since the last call. Does not wait.
    pub fn drain(&mut self) -> Vec<Arc<Change>> {
        let (news, revision) = self.server.read(|store| {
            let from = self.cursor.max(store.oldest());
            let news = store.changes_after(from).map(|changes| changes.cloned().collect());
            (news.unwrap_or_default(), store.revision())
        });
        self.cursor = revision;
        news
    }
}

/// Adds the object of a call to its error.
fn refused(kind: &str, name: &str) -> impl FnOnce(ApiError) -> ScenarioError {
    move |error| ScenarioError::Refused {
        kind: kind.to_owned(),
        name: name.to_owned(),
        source: Box::new(error),
    }
}

impl ApiServer {
    /// All changes from now on, for a narrator.
    pub fn subscribe(&self) -> Changes {
        Changes {
            server: self.clone(),
            cursor: self.revision(),
            revisions: self.cluster.revisions.subscribe(),
        }
    }

    pub(super) fn create_first_namespaces(&self) {
        for name in ["default", "kube-system", "kube-node-lease"] {
            let namespace = json!({ "metadata": { "name": name } });
            if let Err(error) = self.create_object("v1", "Namespace", "", namespace, "kube-apiserver") {
                tracing::error!(name, %error, "a fresh cluster refused its own namespace");
            }
        }
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Arc<Resource>, ScenarioError> {
        self.read(|store| store.registry.find_kind(api_version, kind)).ok_or_else(|| {
            ScenarioError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
        })
    }

    fn intent_of(&self, resource: &Arc<Resource>, manager: &str, subresource: &str) -> Intent {
        let writer =
            Writer { manager: manager.to_owned(), operation: "Update", subresource: subresource.to_owned() };
        Intent {
            resource: Arc::clone(resource),
            writer,
            now: self.now(),
            dry_run: false,
            validation: FieldValidation::Ignore,
        }
    }

    /// Creates an object. `manager` is the recorded field manager.
    ///
    /// # Errors
    /// If the kind is unknown or the server refuses the object.
    pub fn create_object(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        object: Value,
        manager: &str,
    ) -> Result<Arc<Value>, ScenarioError> {
        let resource = self.resource(api_version, kind)?;
        let name = text(&object, "name").to_owned();
        let intent = self.intent_of(&resource, manager, "");
        let outcome =
            self.write(|store| store.create(&intent, namespace, object)).map_err(refused(kind, &name))?;
        Ok(outcome.object)
    }

    /// Merges `patch` into an object (`subresource` is `status` or empty).
    ///
    /// # Errors
    /// If the kind or the object is unknown or the server refuses the change.
    pub fn patch_object(
        &self,
        (api_version, kind): (&str, &str),
        key: &Key,
        subresource: &str,
        patch: Value,
        manager: &str,
    ) -> Result<Arc<Value>, ScenarioError> {
        let resource = self.resource(api_version, kind)?;
        let intent = self.intent_of(&resource, manager, subresource);
        let patch = if resource.custom.is_some() { Patch::Merge(patch) } else { Patch::Strategic(patch) };
        let outcome = self
            .write(|store| store.update(&intent, key, &Edit::Patch(patch)))
            .map_err(refused(kind, &key.name))?;
        Ok(outcome.object)
    }

    /// Deletes an object. `now` bypasses the grace period of pods.
    ///
    /// # Errors
    /// If the kind or the object is unknown.
    pub fn delete_object(
        &self,
        api_version: &str,
        kind: &str,
        key: &Key,
        now: bool,
    ) -> Result<(), ScenarioError> {
        let resource = self.resource(api_version, kind)?;
        let intent = self.intent_of(&resource, SCENARIO, "");
        let options = DeleteOptions { grace_seconds: now.then_some(0), ..DeleteOptions::default() };
        self.write(|store| store.delete(&intent, key, &options)).map(drop).map_err(refused(kind, &key.name))
    }

    /// One object in its current state.
    pub fn object(&self, api_version: &str, kind: &str, key: &Key) -> Option<Value> {
        let resource = self.resource(api_version, kind).ok()?;
        self.read(|store| store.get(&resource.storage, key).cloned())
            .map(|stored| codec::to_served(&resource, &stored).into_owned())
    }

    /// All objects of a kind in their current state, ordered by namespace and name.
    pub fn objects(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let Ok(resource) = self.resource(api_version, kind) else { return Vec::new() };
        self.read(|store| {
            store
                .all(&resource.storage)
                .map(|(_, stored)| codec::to_served(&resource, stored).into_owned())
                .collect()
        })
    }

    /// Applies YAML documents in order, like `kubectl apply -n NAMESPACE`. Returns kind and key of each.
    ///
    /// # Errors
    /// If a document cannot be read or is refused. Earlier documents stay applied.
    pub fn apply_yaml(&self, yaml: &str, namespace: &str) -> Result<Vec<(String, Key)>, ScenarioError> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(yaml).map_err(|error| ScenarioError::Yaml(error.to_string()))?;
        let mut applied = Vec::new();
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let Applied { kind, key, .. } =
                self.apply_document(document, namespace, FieldValidation::Ignore)?;
            applied.push((kind, key));
        }
        Ok(applied)
    }

    /// Applies one object like `kubectl apply -n NAMESPACE`. Refuses unknown fields.
    ///
    /// # Errors
    /// If the kind is unknown or the server refuses the object.
    pub fn apply_strictly(&self, object: Value, namespace: &str) -> Result<Applied, ScenarioError> {
        self.apply_document(object, namespace, FieldValidation::Strict)
    }

    fn apply_document(
        &self,
        document: Value,
        namespace: &str,
        validation: FieldValidation,
    ) -> Result<Applied, ScenarioError> {
        let (api_version, kind) = type_of(&document);
        let (kind, resource) = (kind.to_owned(), self.resource(api_version, kind)?);
        let place = match text(&document, "namespace") {
            _ if !resource.namespaced => String::new(),
            "" => namespace.to_owned(),
            stated => stated.to_owned(),
        };
        let key = Key::new(&place, text(&document, "name"));
        let mut intent = Intent { validation, ..self.intent_of(&resource, SCENARIO, "") };
        intent.writer.operation = "Apply";
        let edit = Edit::Apply { configuration: document, force: true };
        let outcome =
            self.write(|store| store.update(&intent, &key, &edit)).map_err(refused(&kind, &key.name))?;
        Ok(Applied { kind, key, warnings: outcome.warnings })
    }

    /// The storage of a kind's objects, to filter [`Change`]s.
    ///
    /// # Errors
    /// If the kind is unknown.
    pub fn storage_of(&self, api_version: &str, kind: &str) -> Result<Storage, ScenarioError> {
        self.resource(api_version, kind).map(|resource| resource.storage.clone())
    }

    /// Creates a node, as its kubelet and the cloud controller would.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn create_node(&self, node: &NodeSpec) -> Result<Arc<Value>, ScenarioError> {
        let mut addresses = vec![json!({ "type": "Hostname", "address": node.name })];
        for (kind, address) in [("InternalIP", &node.internal_ip), ("ExternalIP", &node.external_ip)] {
            if !address.is_empty() {
                addresses.push(json!({ "type": kind, "address": address }));
            }
        }
        let mut labels = json!({ "kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux" });
        for (key, value) in &node.labels {
            meta::set_at(&mut labels, &[key], json!(value));
        }
        let mut object = json!({
            "metadata": { "name": node.name, "labels": labels },
            "spec": {},
            "status": {
                "addresses": addresses,
                "nodeInfo": { "kubeletVersion": "v1.33.1", "osImage": "Simulated", "kernelVersion": "6.12",
                              "containerRuntimeVersion": "containerd://2.1", "operatingSystem": "linux",
                              "architecture": "amd64", "machineID": "", "systemUUID": "", "bootID": "",
                              "kubeProxyVersion": "" },
                "conditions": [self.ready_condition(Readiness::of(node.ready), "Kubelet")],
            },
        });
        if !node.provider_id.is_empty() {
            meta::set_at(&mut object, &["spec", "providerID"], json!(node.provider_id));
        }
        self.create_object("v1", "Node", "", object, KUBELET)
    }

    fn ready_condition(&self, readiness: Readiness, prefix: &str) -> Value {
        let now = seconds(self.now());
        let (status, reason, message) = match readiness {
            Readiness::Ready => ("True", format!("{prefix}Ready"), "it reports that it is ready"),
            Readiness::NotReady => ("False", format!("{prefix}NotReady"), "it reports that it is not ready"),
            Readiness::Unknown => ("Unknown", "NodeStatusUnknown".to_owned(), "it stopped reporting"),
        };
        json!({ "type": "Ready", "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now })
    }

    /// The Ready condition that replaces the object's current one. Its transition time stays if the status does.
    fn next_ready(&self, (kind, key): (&str, &Key), readiness: Readiness, prefix: &str) -> Value {
        let object = self.object("v1", kind, key).unwrap_or_default();
        let mut ready = self.ready_condition(readiness, prefix);
        let same = |was: &&Value| ["type", "status"].iter().all(|field| was.get(field) == ready.get(field));
        let was = list_at(&object, &["status", "conditions"]).iter().find(same);
        let since = was.and_then(|was| was.get("lastTransitionTime")).cloned();
        if let Some((ready, since)) = ready.as_object_mut().zip(since) {
            ready.insert("lastTransitionTime".to_owned(), since);
        }
        ready
    }

    /// Sets a node's Ready condition.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn set_node_ready(&self, name: &str, readiness: Readiness) -> Result<(), ScenarioError> {
        let ready = self.next_ready(("Node", &Key::new("", name)), readiness, "Kubelet");
        let patch = json!({ "status": { "conditions": [ready] } });
        self.patch_object(("v1", "Node"), &Key::new("", name), "status", patch, KUBELET).map(drop)
    }

    /// Deletes a node. Its pods stay, because there is no garbage collector.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn delete_node(&self, name: &str) -> Result<(), ScenarioError> {
        self.delete_object("v1", "Node", &Key::new("", name), false)
    }

    /// Cordons or uncordons a node.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn set_node_unschedulable(&self, name: &str, unschedulable: bool) -> Result<(), ScenarioError> {
        let value = if unschedulable { json!(true) } else { Value::Null };
        let patch = json!({ "spec": { "unschedulable": value } });
        self.patch_object(("v1", "Node"), &Key::new("", name), "", patch, SCENARIO).map(drop)
    }

    /// Sets or removes a label of a node.
    ///
    /// # Errors
    /// If there is no such node or the label is malformed.
    pub fn set_node_label(&self, name: &str, label: &str, value: Option<&str>) -> Result<(), ScenarioError> {
        let patch = json!({ "metadata": { "labels": { label: value } } });
        self.patch_object(("v1", "Node"), &Key::new("", name), "", patch, SCENARIO).map(drop)
    }

    /// Adds a taint to a node. Without an effect, removes all taints with that key.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn set_node_taint(
        &self,
        name: &str,
        taint: &str,
        value: &str,
        effect: Option<&str>,
    ) -> Result<(), ScenarioError> {
        let key = Key::new("", name);
        let node = self.object("v1", "Node", &key).unwrap_or_default();
        let mut taints = list_at(&node, &["spec", "taints"]).to_vec();
        taints.retain(|t| meta::text_at(t, &["key"]) != taint);
        if let Some(effect) = effect {
            taints.push(json!({ "key": taint, "value": value, "effect": effect }));
        }
        let patch = json!({ "spec": { "taints": taints } });
        self.patch_object(("v1", "Node"), &key, "", patch, SCENARIO).map(drop)
    }

    /// Creates a pod. If requested, it is running and ready.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn create_pod(&self, pod: &PodSpec) -> Result<(), ScenarioError> {
        let mut object = json!({
            "metadata": { "name": pod.name, "labels": pod.labels },
            "spec": { "containers": [{ "name": "app", "image": "example.invalid/app" }] },
        });
        if !pod.node.is_empty() {
            meta::set_at(&mut object, &["spec", "nodeName"], json!(pod.node));
        }
        if let Some(set) = self.object("apps/v1", "ReplicaSet", &Key::new(&pod.namespace, &pod.set)) {
            let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": pod.set,
                                 "uid": text(&set, "uid"), "controller": true, "blockOwnerDeletion": true }]);
            meta::set(&mut object, "ownerReferences", owner);
        }
        self.create_object("v1", "Pod", &pod.namespace, object, SCENARIO)?;
        if pod.ready { self.set_pod_ready(&Key::new(&pod.namespace, &pod.name), true) } else { Ok(()) }
    }

    /// Makes a pod run, ready or not.
    ///
    /// # Errors
    /// If there is no such pod.
    pub fn set_pod_ready(&self, pod: &Key, ready: bool) -> Result<(), ScenarioError> {
        let patch = json!({ "status": {
            "phase": "Running",
            "conditions": [self.next_ready(("Pod", pod), Readiness::of(ready), "Containers")],
            "containerStatuses": [{ "name": "app", "ready": ready, "restartCount": 0, "image": "example.invalid/app",
                                    "imageID": "", "state": { "running": { "startedAt": seconds(self.now()) } } }],
        } });
        self.patch_object(("v1", "Pod"), pod, "status", patch, KUBELET).map(drop)
    }
}
