//! Facts about nodes, pods and reserved IPs, reduced to those that decisions use.

use crate::model::ids::{Address, Uid};
use crate::model::machine::MachineId;
use crate::model::node_labels::NodeLabels;
use std::collections::BTreeMap;

/// The node annotation that carries the confirmed reserved IP.
pub const RESERVED_IP_ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";

/// The node label that names the region, which the cloud's controller manager writes.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// A region in the provider's spelling. Users and objects may write it with capitals and white space, which the
/// provider accepts but never returns.
pub fn region_slug(text: &str) -> String {
    text.trim().to_ascii_lowercase()
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Key of the taint.
    pub key: String,
    /// Value of the taint, empty when absent.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`, or any other text in the object.
    pub effect: String,
}

/// Status of the condition `Ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readiness {
    /// `True`.
    Ready,
    /// `False`, or absent.
    #[default]
    NotReady,
    /// `Unknown`, which Kubernetes writes when a kubelet stops reporting.
    Unknown,
}

impl Readiness {
    /// True for `True`.
    pub fn is_ready(self) -> bool {
        self == Self::Ready
    }
}

impl From<bool> for Readiness {
    fn from(ready: bool) -> Self {
        if ready { Self::Ready } else { Self::NotReady }
    }
}

/// The facts about a node that decisions need. Labels are not kept, because the server filters nodes by label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Name of the node.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.creationTimestamp`, in seconds since 1970.
    pub created_at_s: Option<i64>,
    /// `spec.providerID`, empty when it is not set.
    pub provider_id: String,
    /// The machine that it names, if the software knows that kind of machine.
    pub machine: Option<MachineId>,
    /// Condition `Ready`.
    pub ready: Readiness,
    /// `lastTransitionTime` of that condition, in seconds since 1970.
    pub ready_since_s: Option<i64>,
    /// `lastHeartbeatTime` of that condition, in seconds since 1970, as the kubelet reports it.
    pub heartbeat_s: Option<i64>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// The value of [`REGION_LABEL`].
    pub region: Option<String>,
    /// IPv4 addresses of type `ExternalIP`, in the order of the object.
    pub external_ips: Vec<Address>,
    /// IPv4 addresses of type `InternalIP`, in the order of the object.
    pub internal_ips: Vec<Address>,
    /// The value of [`RESERVED_IP_ANNOTATION`], verbatim.
    pub annotation: Option<String>,
    /// The annotation was last written by field manager `flipop`.
    pub annotation_ours: bool,
    /// The labels that have one of our keys.
    pub labels: NodeLabels,
}

impl NodeFacts {
    /// When the node began to fail, by its own condition `Ready`, in seconds since 1970.
    pub fn fails_since_s(&self) -> Option<i64> {
        self.ready_since_s.filter(|_| !self.ready.is_ready())
    }
}

/// The facts about a pod that decisions need. The server filters pods by namespace and label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodFacts {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// `spec.nodeName`, empty before it is scheduled.
    pub node: String,
    /// Phase `Running`, condition `Ready` is `True`, and no `metadata.deletionTimestamp`.
    pub serving: bool,
    /// `lastTransitionTime` of condition `Ready` while that is not `True`, in seconds since 1970.
    pub fails_since_s: Option<i64>,
}

/// One reserved IP, as a provider reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedIp {
    /// The address.
    pub ip: Address,
    /// Region slug.
    pub region: String,
    /// The machine that it is assigned to.
    pub machine: Option<MachineId>,
    /// An action on it is pending.
    pub locked: bool,
}

/// A list of an account's reserved IPs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReservedIpList {
    /// Every address on every page.
    pub ips: BTreeMap<Address, ReservedIp>,
    /// `None` if the list is complete. Otherwise the contradiction in it: the list then shows the places of its
    /// addresses, but the account may have others.
    pub contradiction: Option<String>,
}

/// The progress of a provider's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionStatus {
    /// Not done yet.
    InProgress,
    /// Done.
    Completed,
    /// It failed, and had no effect.
    Errored,
}

/// One step of a watch, for objects of one kind under one selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed<T> {
    /// The complete list. An object that is not in it is gone.
    Reset(Vec<T>),
    /// One object was added or changed.
    Apply(T),
    /// One object was deleted or no longer matches the filter.
    Delete(T),
}
