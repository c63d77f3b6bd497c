//! The existing resources: the built-in ones from a table, and those of applied `CustomResourceDefinition`s.
//!
//! A [`Resource`] is one served (group, version, plural). Several can share one [`Storage`]: the versions of a custom
//! resource, and the two forms of events.

use super::error::{ApiError, Cause};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where objects are stored: group and plural, whatever the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Storage {
    /// API group. Empty for the core group.
    pub group: String,
    /// Plural name, lower case.
    pub plural: String,
}

impl Storage {
    /// From group (empty for the core group) and plural.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.to_owned(), plural: plural.to_owned() }
    }
}

/// How a create request's `status` is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusOnCreate {
    /// Stored as sent. A kubelet registers its node with a status.
    Keep,
    /// Dropped: only the status subresource may write it.
    Drop,
    /// Replaced by this phase.
    Phase(&'static str),
}

/// One column of `kubectl get`, as an `additionalPrinterColumns` entry defines it and as a table shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    /// 0: always shown. 1: shown by `-o wide`.
    pub(crate) priority: i64,
    #[serde(skip_serializing)]
    pub(crate) json_path: String,
}

/// One served (group, version, plural) and everything known about it.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as columns of a table")]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether there is a `status` subresource. If so, the main resource does not write the status.
    pub(crate) status: bool,
    pub(crate) status_on_create: StatusOnCreate,
    /// Whether `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
    /// Whether a PUT without a resource version is accepted.
    pub(crate) unconditional_update: bool,
    /// Whether a PUT creates a missing object.
    pub(crate) create_on_update: bool,
    pub(crate) storage: Storage,
    /// The version in which objects are stored.
    pub(crate) storage_version: String,
    /// Present for custom resources only.
    pub(crate) custom: Option<Arc<Custom>>,
}

/// The parts that only custom resources have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Custom {
    /// `openAPIV3Schema`, or null.
    pub(crate) schema: Value,
    pub(crate) columns: Vec<PrinterColumn>,
    /// `selectableFields`, as JSON paths.
    pub(crate) selectable_fields: Vec<String>,
}

impl Resource {
    /// A namespaced resource without a status subresource.
    pub(crate) fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            status: false,
            status_on_create: StatusOnCreate::Keep,
            generation: false,
            unconditional_update: true,
            create_on_update: false,
            storage: Storage::new(group, plural),
            storage_version: version.to_owned(),
            custom: None,
        }
    }

    /// The columns that a custom resource defines for itself.
    pub(crate) fn columns(&self) -> Option<&[PrinterColumn]> {
        let columns = self.custom.as_ref().map(|custom| custom.columns.as_slice());
        columns.filter(|columns| !columns.is_empty())
    }

    /// `v1` or `group/v1`.
    pub(crate) fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// The `apiVersion` in which objects are stored.
    pub(crate) fn stored_api_version(&self) -> String {
        join_api_version(&self.storage.group, &self.storage_version)
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.storage.group == group && self.storage.plural == plural
    }

    /// Whether the resource has the subresource `scale`.
    pub(crate) fn has_scale(&self) -> bool {
        self.is("apps", "deployments") || self.is("apps", "replicasets")
    }

    /// The refusal of an invalid object of this kind.
    pub(crate) fn invalid(&self, name: &str, causes: &[Cause]) -> ApiError {
        ApiError::invalid(&self.group, &self.kind, name, causes)
    }
}

fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// All served resources.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    served: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Registry {
    /// A registry with the built-in resources.
    pub(crate) fn builtin() -> Self {
        let mut registry = Self::default();
        for resource in builtin() {
            registry.insert(resource);
        }
        registry
    }

    pub(crate) fn insert(&mut self, resource: Resource) {
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.served.insert(key, Arc::new(resource));
    }

    /// Stops serving every version of a storage.
    pub(crate) fn remove(&mut self, storage: &Storage) {
        self.served.retain(|_, resource| resource.storage != *storage || resource.custom.is_none());
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.served.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    /// Finds a resource by `apiVersion` and `kind`, as written in manifests.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.served.values().find(|r| r.kind == kind && r.api_version() == api_version).cloned()
    }

    /// The resource in the version that `storage` stores.
    pub(crate) fn stored(&self, storage: &Storage) -> Option<Arc<Resource>> {
        self.served
            .values()
            .find(|r| r.storage == *storage && r.group == storage.group && r.version == r.storage_version)
            .cloned()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.served.values()
    }

    /// Each (group, version) pair once, the core group first.
    pub(crate) fn group_versions(&self) -> Vec<(String, String)> {
        let mut pairs: Vec<_> = self.served.keys().map(|(g, v, _)| (g.clone(), v.clone())).collect();
        pairs.dedup();
        pairs
    }
}

/// The parts of the table of built-in resources.
impl Resource {
    fn short(mut self, short: &[&str]) -> Self {
        self.short_names = short.iter().map(|&name| name.to_owned()).collect();
        self
    }

    fn in_all(mut self) -> Self {
        self.categories.push("all".to_owned());
        self
    }

    fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    fn status(mut self, on_create: StatusOnCreate) -> Self {
        (self.status, self.status_on_create) = (true, on_create);
        self
    }

    fn generation(mut self) -> Self {
        self.generation = true;
        self
    }

    /// A PUT must name the resource version that it replaces.
    fn conditional_update(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    fn create_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    /// Both forms of events share one storage, in the core form.
    fn stored_in_core(mut self) -> Self {
        self.storage.group.clear();
        self
    }
}

fn builtin() -> Vec<Resource> {
    use StatusOnCreate::{Drop, Keep, Phase};
    const RBAC: &str = "rbac.authorization.k8s.io";
    const ADMISSION: &str = "admissionregistration.k8s.io";
    let row = |group: &str, kind: &str, plural: &str| Resource::new(group, "v1", kind, plural);
    vec![
        row("", "Namespace", "namespaces").short(&["ns"]).cluster().status(Phase("Active")),
        row("", "Node", "nodes").short(&["no"]).cluster().status(Keep),
        row("", "Pod", "pods").short(&["po"]).in_all().status(Phase("Pending")).generation(),
        row("", "Event", "events").short(&["ev"]).create_on_update(),
        row("", "ServiceAccount", "serviceaccounts").short(&["sa"]),
        row("", "Secret", "secrets"),
        row("", "ConfigMap", "configmaps").short(&["cm"]),
        row("", "Service", "services").short(&["svc"]).in_all().status(Drop),
        row("events.k8s.io", "Event", "events").short(&["ev"]).create_on_update().stored_in_core(),
        row("coordination.k8s.io", "Lease", "leases").conditional_update().create_on_update(),
        row("apps", "Deployment", "deployments").short(&["deploy"]).in_all().status(Drop).generation(),
        row("apps", "DaemonSet", "daemonsets").short(&["ds"]).status(Drop).generation(),
        row("apps", "ReplicaSet", "replicasets").short(&["rs"]).status(Drop).generation(),
        row("policy", "PodDisruptionBudget", "poddisruptionbudgets")
            .short(&["pdb"])
            .status(Drop)
            .conditional_update()
            .generation(),
        row("scheduling.k8s.io", "PriorityClass", "priorityclasses").short(&["pc"]).cluster().generation(),
        row("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")
            .short(&["crd", "crds"])
            .cluster()
            .conditional_update()
            .status(Drop)
            .generation(),
        row(RBAC, "ClusterRole", "clusterroles").cluster().create_on_update(),
        row(RBAC, "ClusterRoleBinding", "clusterrolebindings").cluster().create_on_update(),
        row(RBAC, "Role", "roles").create_on_update(),
        row(RBAC, "RoleBinding", "rolebindings").create_on_update(),
        row(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
            .cluster()
            .status(Drop)
            .generation(),
        row(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings")
            .cluster()
            .generation(),
    ]
}
