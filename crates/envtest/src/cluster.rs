//! Objects of a cluster except nodes and pods: FLIPOP's two kinds and its installation, namespaces, the Lease.

use crate::kubectl::Kubectl;
use crate::{Failure, Outcome, wait};
use futures::future::try_join_all;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::Duration;

/// The namespace of the operator.
pub const NAMESPACE: &str = "flipop";

/// The service account that the operator runs as.
pub const SERVICE_ACCOUNT: &str = "flipop";

/// The account's name in logs and policies.
pub const USER: &str = "system:serviceaccount:flipop:flipop";

/// The Lease that decides which replica acts.
pub const LEASE: &str = "floating-ip-pool-controller-leader-election";

/// The time until a custom resource is served after its definition is applied, with a wide margin.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// FLIPOP's two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `FloatingIPPool`
    Pool,
    /// `NodeDNSRecordSet`
    RecordSet,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Pool, Self::RecordSet];

    /// The resource's name in URLs.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pool => "floatingippools",
            Self::RecordSet => "nodednsrecordsets",
        }
    }

    fn resource(self) -> ApiResource {
        let kind = match self {
            Self::Pool => "FloatingIPPool",
            Self::RecordSet => "NodeDNSRecordSet",
        };
        ApiResource {
            group: "flipop.digitalocean.com".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "flipop.digitalocean.com/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            plural: self.plural().to_owned(),
        }
    }
}

/// The objects of one server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// With the identity of this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn objects(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
    }

    /// Creates a namespace unless it exists. `enforce` is the Pod Security level that it enforces and warns about.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn namespace(&self, name: &str, enforce: Option<&str>) -> Outcome {
        let labels = match enforce {
            Some(level) => {
                json!({ "pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": level })
            }
            None => json!({}),
        };
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } }))?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Creates an object of either kind as it is, or only checks it with `dry_run`. Returns the server's warnings.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn create_object(
        &self,
        namespace: &str,
        object: &Value,
        dry_run: bool,
    ) -> Outcome<Vec<String>> {
        self.post(namespace, object, if dry_run { "?dryRun=All" } else { "" }).await
    }

    /// Checks an object of either kind as `kubectl apply` does: an unknown field is refused. Creates nothing, and
    /// returns the server's warnings.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn create_strictly(&self, namespace: &str, object: &Value) -> Outcome<Vec<String>> {
        self.post(namespace, object, "?dryRun=All&fieldValidation=Strict").await
    }

    async fn post(&self, namespace: &str, object: &Value, query: &str) -> Outcome<Vec<String>> {
        let kind = if object.get("kind").is_some_and(|kind| kind == "FloatingIPPool") {
            Kind::Pool
        } else {
            Kind::RecordSet
        };
        let path = format!("/apis/{}/namespaces/{namespace}/{}", kind.resource().api_version, kind.plural());
        let request = http::Request::post(format!("{path}{query}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Body::from(object.to_string().into_bytes()))?;
        let response = self.client.send(request).await?;
        let (status, warnings) = (response.status(), warnings(response.headers()));
        if status.is_success() {
            return Ok(warnings);
        }
        let body = String::from_utf8_lossy(&response.into_body().collect_bytes().await?).into_owned();
        Err(Failure::new(format!("{status}: {body}")))
    }

    /// Creates an object with this spec.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn create(&self, kind: Kind, namespace: &str, name: &str, spec: &Value) -> Outcome {
        let ApiResource { api_version, kind, .. } = kind.resource();
        let object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": { "name": name, "namespace": namespace },
            "spec": spec,
        });
        self.create_object(namespace, &object, false).await.map(drop)
    }

    /// Reads an object.
    ///
    /// # Errors
    /// If it does not exist.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Outcome<Value> {
        Ok(serde_json::to_value(self.objects(kind, namespace).get(name).await?)?)
    }

    /// All objects of one kind.
    ///
    /// # Errors
    /// If the kind is not installed.
    pub async fn list(&self, kind: Kind) -> Outcome<Vec<Value>> {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource());
        let objects = all.list(&ListParams::default()).await?.items;
        Ok(objects.iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
    }

    /// Changes an object's spec by merge patch; `null` removes a field.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn patch_spec(&self, kind: Kind, namespace: &str, name: &str, spec: &Value) -> Outcome {
        let patch = json!({ "spec": spec });
        let objects = self.objects(kind, namespace);
        Ok(objects.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)?)
    }

    /// Replaces an object's whole status, as the Go operator and a restored backup do.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn replace_status(&self, kind: Kind, namespace: &str, name: &str, status: &Value) -> Outcome {
        let objects = self.objects(kind, namespace);
        let mut object = objects.get(name).await?;
        if let Some(data) = object.data.as_object_mut() {
            data.insert("status".to_owned(), status.clone());
        }
        Ok(objects.replace_status(name, &PostParams::default(), &object).await.map(drop)?)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Outcome {
        Ok(self.objects(kind, namespace).delete(name, &DeleteParams::default()).await.map(drop)?)
    }

    /// The Events about an object, as `Reason: note`.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn events(&self, namespace: &str, about: &str) -> Outcome<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let about = ListParams::default().fields(&format!("involvedObject.name={about}"));
        let found = events.list(&about).await?.items;
        Ok(found
            .into_iter()
            .map(|event| {
                format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect())
    }

    /// The operator's Lease, if there is one.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn lease(&self) -> Outcome<Option<Lease>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        Ok(leases.get_opt(LEASE).await?)
    }

    /// Writes the operator's Lease as a stranger, whoever holds it.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn put_lease(&self, spec: LeaseSpec) -> Outcome {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut lease = Lease { spec: Some(spec), ..Lease::default() };
        lease.metadata.name = Some(LEASE.to_owned());
        let patch = Patch::Apply(&lease);
        Ok(leases.patch(LEASE, &PatchParams::apply("stranger").force(), &patch).await.map(drop)?)
    }

    /// Deletes the operator's Lease, so that no operator waits for a dead holder.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn delete_lease(&self) -> Outcome {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        match leases.delete(LEASE, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Waits until both kinds are served.
    ///
    /// # Errors
    /// If they are not.
    pub async fn kinds_established(&self) -> Outcome {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        wait::eventually("both kinds are served", ESTABLISHED_TIMEOUT, || async {
            for kind in Kind::ALL {
                let definition =
                    definitions.get(&format!("{}.{}", kind.plural(), kind.resource().group)).await?;
                let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
                if !conditions.iter().any(|one| one.type_ == "Established" && one.status == "True") {
                    return Err(Failure::new(format!("{} is not established", kind.plural())));
                }
                self.list(kind).await?;
            }
            Ok(())
        })
        .await
    }

    /// Installs FLIPOP as in docs/operations/install.md: the namespace (enforcing `restricted`), then a folder's
    /// manifests.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn install(&self, kubectl: &Kubectl, manifests: &str) -> Outcome {
        self.namespace(NAMESPACE, Some("restricted")).await?;
        kubectl.run(&["apply", "-n", NAMESPACE, "-f", manifests]).await?;
        self.kinds_established().await
    }

    /// Deletes all objects that tests and operators create. The installation and namespaces stay.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn wipe(&self) -> Outcome {
        for kind in Kind::ALL {
            self.wipe_kind(kind).await?;
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let names = namespaces.list_metadata(&ListParams::default()).await?;
        let names = names.items.into_iter().filter_map(|namespace| namespace.metadata.name);
        try_join_all(names.map(|namespace| async move {
            self.wipe_namespaced::<Pod>(&namespace).await?;
            self.wipe_namespaced::<Event>(&namespace).await
        }))
        .await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        self.delete_lease().await
    }

    async fn wipe_kind(&self, kind: Kind) -> Outcome {
        for object in self.list(kind).await? {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            if object.pointer("/metadata/finalizers").is_some() {
                // Its operator is gone.
                let patch = json!({ "metadata": { "finalizers": null } });
                let objects = self.objects(kind, namespace);
                let freed = objects.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                if freed.metadata.deletion_timestamp.is_some() {
                    continue;
                }
            }
            self.delete(kind, namespace, name).await?;
        }
        Ok(())
    }

    async fn wipe_namespaced<K>(&self, namespace: &str) -> Outcome
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + serde::de::DeserializeOwned,
    {
        let objects: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let now = DeleteParams::default().grace_period(0);
        objects.delete_collection(&now, &ListParams::default()).await?;
        Ok(())
    }
}

/// The texts of `Warning: 299 - "text"` headers, in which quotes and backslashes are escaped.
fn warnings(headers: &http::HeaderMap) -> Vec<String> {
    // Read as bytes, because a warning may quote a user's text.
    let values = headers.get_all(http::header::WARNING).into_iter();
    values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .filter_map(|value| Some(value.split_once('"')?.1.rsplit_once('"')?.0.to_owned()))
        .map(|text| text.replace("\\\"", "\"").replace("\\\\", "\\"))
        .collect()
}
