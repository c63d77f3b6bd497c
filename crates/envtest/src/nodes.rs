//! Nodes and pods as the API server would hold them if kubelets ran.

use crate::Outcome;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

/// A node to create.
#[derive(Debug, Clone, Default)]
pub struct NewNode {
    name: String,
    provider_id: Option<String>,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    taints: Vec<Value>,
    addresses: Vec<Value>,
    ready: bool,
}

impl NewNode {
    /// A Ready node without labels, taints or provider ID.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ready: true, ..Self::default() }
    }

    /// Puts it on this droplet.
    pub fn droplet(mut self, id: u64) -> Self {
        self.provider_id = Some(format!("digitalocean://{id}"));
        self
    }

    /// Adds this label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), json!(value));
        self
    }

    /// Adds this annotation, as written by the node's creator.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), json!(value));
        self
    }

    /// Adds this taint.
    pub fn taint(mut self, key: &str, effect: &str) -> Self {
        self.taints.push(json!({ "key": key, "effect": effect }));
        self
    }

    /// Adds this address, of type `ExternalIP` or `InternalIP`.
    pub fn address(mut self, kind: &str, address: &str) -> Self {
        self.addresses.push(json!({ "type": kind, "address": address }));
        self
    }

    /// Makes it not Ready.
    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.name, "labels": self.labels, "annotations": self.annotations },
            "spec": { "providerID": self.provider_id, "taints": self.taints },
        })
    }
}

/// A pod to create: running on a node, unless set otherwise.
#[derive(Debug, Clone)]
pub struct NewPod {
    namespace: String,
    name: String,
    node: String,
    labels: Map<String, Value>,
    ready: bool,
}

impl NewPod {
    /// A Ready pod without labels.
    pub fn new(namespace: &str, name: &str, node: &str) -> Self {
        let (namespace, name, node) = (namespace.to_owned(), name.to_owned(), node.to_owned());
        Self { namespace, name, node, labels: Map::new(), ready: true }
    }

    /// Adds this label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), json!(value));
        self
    }

    /// Makes it not Ready.
    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "namespace": self.namespace, "name": self.name, "labels": self.labels },
            "spec": {
                "nodeName": self.node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "main", "image": "none" }],
            },
        })
    }
}

/// Writes nodes and pods.
#[derive(Clone)]
pub struct Nodes {
    client: Client,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

impl Nodes {
    /// With the identity of this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates a node and writes its status.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn create(&self, node: &NewNode) -> Outcome {
        let object = serde_json::from_value(node.object())?;
        self.nodes().create(&PostParams::default(), &object).await?;
        let status = json!({ "conditions": [ready_condition(node.ready)], "addresses": node.addresses });
        self.patch_status(&node.name, &status).await
    }

    /// Sets the only address of a node, of type `ExternalIP`.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_external_ip(&self, name: &str, address: &str) -> Outcome {
        let addresses = json!([{ "type": "ExternalIP", "address": address }]);
        self.patch_status(name, &json!({ "addresses": addresses })).await
    }

    /// Creates a pod and writes its status.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn create_pod(&self, pod: &NewPod) -> Outcome {
        let object = serde_json::from_value(pod.object())?;
        self.pods(&pod.namespace).create(&PostParams::default(), &object).await?;
        self.set_pod_ready(&pod.namespace, &pod.name, pod.ready).await
    }

    /// Reads a node.
    ///
    /// # Errors
    /// If it does not exist.
    pub async fn get(&self, name: &str) -> Outcome<Node> {
        Ok(self.nodes().get(name).await?)
    }

    /// The value of a node's annotation.
    ///
    /// # Errors
    /// If the node does not exist.
    pub async fn annotation(&self, name: &str, key: &str) -> Outcome<Option<String>> {
        Ok(self.get(name).await?.metadata.annotations.unwrap_or_default().get(key).cloned())
    }

    /// Changes a node by merge patch.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn patch(&self, name: &str, patch: &Value) -> Outcome {
        Ok(self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)?)
    }

    /// Sets a label of a node, or removes it with `None`.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_label(&self, name: &str, key: &str, value: Option<&str>) -> Outcome {
        self.patch(name, &json!({ "metadata": { "labels": { key: value } } })).await
    }

    /// Sets an annotation of a node, or removes it with `None`.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_annotation(&self, name: &str, key: &str, value: Option<&str>) -> Outcome {
        self.patch(name, &json!({ "metadata": { "annotations": { key: value } } })).await
    }

    /// Replaces all taints of a node: (key, value, effect).
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_taints(&self, name: &str, taints: &[(&str, &str, &str)]) -> Outcome {
        let taints: Vec<Value> = taints
            .iter()
            .map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }))
            .collect();
        self.patch(name, &json!({ "spec": { "taints": taints } })).await
    }

    /// Sets whether a node is Ready.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_ready(&self, name: &str, ready: bool) -> Outcome {
        self.patch_status(name, &json!({ "conditions": [ready_condition(ready)] })).await
    }

    /// Changes a node's status by merge patch.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn patch_status(&self, name: &str, status: &Value) -> Outcome {
        let patch = json!({ "status": status });
        let nodes = self.nodes();
        Ok(nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)?)
    }

    /// Sets whether a running pod is Ready.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn set_pod_ready(&self, namespace: &str, name: &str, ready: bool) -> Outcome {
        let patch = json!({ "status": { "phase": "Running", "conditions": [ready_condition(ready)] } });
        let pods = self.pods(namespace);
        Ok(pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)?)
    }

    /// Puts a pod on a node, as a scheduler does.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn bind_pod(&self, namespace: &str, name: &str, node: &str) -> Outcome {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let pods = self.pods(namespace);
        let bound = pods.create_subresource("binding", name, &PostParams::default(), &binding).await;
        Ok(bound.map(|_: Value| ())?)
    }

    /// Deletes a node.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn delete(&self, name: &str) -> Outcome {
        Ok(self.nodes().delete(name, &DeleteParams::default()).await.map(drop)?)
    }

    /// Asks a pod to terminate. It stays in that state, as it would until a kubelet has stopped it.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn terminate_pod(&self, namespace: &str, name: &str) -> Outcome {
        let later = DeleteParams::default().grace_period(600);
        Ok(self.pods(namespace).delete(name, &later).await.map(drop)?)
    }

    /// Deletes a pod at once, as a kubelet does after it has stopped.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn delete_pod(&self, namespace: &str, name: &str) -> Outcome {
        let now = DeleteParams::default().grace_period(0);
        Ok(self.pods(namespace).delete(name, &now).await.map(drop)?)
    }
}

fn ready_condition(ready: bool) -> Value {
    json!({
        "type": "Ready",
        "status": if ready { "True" } else { "False" },
        "reason": "Test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}
