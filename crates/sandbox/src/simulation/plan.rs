//! What happens in a simulation, as data: a plan can be written by hand, drawn from a seed, shrunk and committed.
//!
//! Invariant: a plan decides a run completely. Latencies and dice come from its seed, everything else stands in it.

use crate::cloud::Provider;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::Ipv4Addr;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is about, for people.
    pub name: String,
    /// Decides latencies, dice and identifiers.
    pub seed: u64,
    /// Replicas of the operator.
    #[serde(default = "one")]
    pub replicas: usize,
    /// What users, machines and the cloud do, in order of time.
    pub steps: Vec<Step>,
    /// Faults that last for a while.
    #[serde(default)]
    pub weather: Vec<Weather>,
    /// Faults at one certain call or event.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// When steps and faults are over: from here on everything has to come right.
    pub end_ms: u64,
    /// For how long the operator may rest on what is true no more. It follows from the faults of the plan.
    #[serde(default)]
    pub staleness_ms: u64,
}

fn one() -> usize {
    1
}

/// Something that happens at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, in milliseconds from the beginning.
    pub at_ms: u64,
    /// What.
    pub act: Act,
}

/// What can happen beside the operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// A droplet boots and joins as a ready node; a node of that name is replaced, as after a rebuild.
    AddNode {
        /// Name of node and droplet.
        node: String,
    },
    /// The node object goes; the droplet stays.
    DeleteNode {
        /// Its name.
        node: String,
    },
    /// The droplet goes, and the node with it.
    DestroyDroplet {
        /// Its name.
        node: String,
    },
    /// The Ready condition changes.
    SetReady {
        /// The node.
        node: String,
        /// The new value.
        ready: bool,
    },
    /// The node is cordoned and tainted against everything, or no more.
    Drain {
        /// The node.
        node: String,
        /// Whether it is.
        drained: bool,
    },
    /// The label `role` changes.
    SetRole {
        /// The node.
        node: String,
        /// Its value; absent removes the label.
        role: Option<String>,
    },
    /// A pod (label `app`) starts on a node and is ready; one of that name is moved there.
    AddPod {
        /// Its name.
        pod: String,
        /// Value of its label `app`.
        app: String,
        /// Where it runs.
        node: String,
    },
    /// A pod goes.
    DeletePod {
        /// Its name.
        pod: String,
    },
    /// A pod becomes ready or not.
    SetPodReady {
        /// Its name.
        pod: String,
        /// Whether it is.
        ready: bool,
    },
    /// An address is reserved in the account, unassigned.
    AddIp {
        /// The address.
        ip: Ipv4Addr,
    },
    /// Somebody moves an address by hand.
    MoveIp {
        /// The address.
        ip: Ipv4Addr,
        /// The node whose droplet it goes to; absent: none.
        node: Option<String>,
    },
    /// Somebody releases an address.
    DeleteIp {
        /// The address.
        ip: Ipv4Addr,
    },
    /// Something else keeps an address busy.
    LockIp {
        /// The address.
        ip: Ipv4Addr,
        /// For how long.
        for_ms: u64,
    },
    /// Something else keeps a droplet busy.
    BusyDroplet {
        /// Its node.
        node: String,
        /// For how long.
        for_ms: u64,
    },
    /// An object of ours is created.
    Create {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Its spec.
        spec: Value,
    },
    /// An object of ours is edited.
    Edit {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Merged into the spec.
        spec: Value,
    },
    /// An object of ours is deleted.
    Delete {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// GitOps writes the addresses back to what the user once wrote.
    RevertIps {
        /// The pool.
        name: String,
        /// These.
        ips: Vec<Ipv4Addr>,
    },
    /// The status is lost, as in a restore from a backup.
    WipeStatus {
        /// The pool.
        name: String,
    },
    /// How long actions of the provider take from now on.
    ActionTime {
        /// Milliseconds.
        ms: u64,
    },
    /// How many reserved IPs the account may have from now on.
    Quota {
        /// So many.
        addresses: usize,
    },
    /// Lists of the provider show what was true so long ago.
    ListLag {
        /// Milliseconds.
        ms: u64,
    },
    /// A replica dies, as by SIGKILL.
    Crash {
        /// Which.
        replica: usize,
        /// How long until it starts again.
        restart_ms: u64,
    },
    /// A replica is told to end, as by SIGTERM.
    Stop {
        /// Which.
        replica: usize,
        /// How long after its end it starts again.
        restart_ms: u64,
    },
    /// Nothing that a replica sends leaves, and nothing reaches it, as when its machine hangs.
    Pause {
        /// Which.
        replica: usize,
        /// For how long.
        for_ms: u64,
    },
    /// A replica is cut off.
    Cut {
        /// Which.
        replica: usize,
        /// From whom.
        side: Side,
        /// For how long.
        for_ms: u64,
    },
    /// The API server of a replica shows its watches what was true when this began.
    Lag {
        /// Which.
        replica: usize,
        /// For how long.
        for_ms: u64,
    },
    /// All watches of a replica break.
    CutWatches {
        /// Which.
        replica: usize,
    },
    /// The API server forgets its history.
    Compact,
}

/// Whom a replica talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The API server.
    Kube,
    /// The provider.
    Cloud,
}

/// Which calls a fault is for. What is absent matches everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Calls of this replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<usize>,
    /// Calls to this side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Calls to this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Calls whose description contains this text, for example `assign` or `PUT leases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A fault that lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weather {
    /// From when.
    pub from_ms: u64,
    /// Until when.
    pub to_ms: u64,
    /// For which calls.
    #[serde(default)]
    pub which: Which,
    /// For how many of a hundred of them.
    pub percent: u64,
    /// What happens.
    pub fault: Fault,
}

/// What can happen to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// It takes longer, before and after it takes effect.
    Delay {
        /// At most so long each way.
        ms: u64,
    },
    /// The connection is reset before it takes effect.
    ResetBefore,
    /// The connection is reset after it took effect.
    ResetAfter,
    /// It never arrives, and nothing comes back.
    HangBefore,
    /// It takes effect, and nothing comes back.
    HangAfter,
    /// It is refused with this status, without effect.
    Refuse {
        /// HTTP status.
        status: u16,
        /// `Retry-After` in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u64>,
    },
    /// It takes effect, and the answer is this status all the same.
    RefuseAfter {
        /// HTTP status.
        status: u16,
    },
    /// It takes effect, and the answer cannot be read.
    Garble,
    /// The action that it starts fails.
    ActionFails,
    /// The action that it starts takes so long.
    ActionTakes {
        /// Milliseconds.
        ms: u64,
    },
    /// 422: something is pending on the address.
    Pending,
    /// 422: the account may not have more addresses.
    QuotaReached,
}

/// A fault at one call or event, counted over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Where.
    pub on: On,
    /// What.
    pub then: Then,
}

/// The place of a trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum On {
    /// The n-th call, from 1, of those that are neither renewals of the lease nor Events.
    Call(u64),
    /// The n-th frame, from 1, that shows a change on a watch of nodes, pods or objects of ours.
    Frame(u64),
}

/// What a trigger does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Then {
    /// The process dies when it is about to send the call, and starts again after a while.
    CrashBefore {
        /// Milliseconds.
        restart_ms: u64,
    },
    /// It dies when the call has taken effect, before it learns of it.
    CrashAfterEffect {
        /// Milliseconds.
        restart_ms: u64,
    },
    /// It dies when it has dealt with the answer.
    CrashAfterReply {
        /// Milliseconds.
        restart_ms: u64,
    },
    /// The call meets this fault.
    Meet(Fault),
    /// The watch shows nothing for so long, and then 410: what happened meanwhile is seen as its end state only.
    Hide {
        /// Milliseconds.
        for_ms: u64,
    },
    /// The watch goes silent for ever.
    Stall,
    /// The watch breaks off in the middle of the frame.
    Tear,
    /// The watch ends before it, as when an API server shuts down.
    End,
    /// The watch ends with 410 instead.
    Expire,
    /// The watch breaks off in the middle of the frame, and the API server has forgotten all history.
    Forget,
    /// The frame and all that follow come so much later.
    Late {
        /// Milliseconds.
        ms: u64,
    },
    /// The frame comes twice.
    Twice,
}

/// Why a plan cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the plan: {0}")]
pub struct PlanError(String);

impl Plan {
    /// From YAML.
    ///
    /// # Errors
    /// When the text is no plan.
    pub fn from_yaml(text: &str) -> Result<Self, PlanError> {
        serde_saphyr::from_str(text).map_err(|error| PlanError(error.to_string()))
    }

    /// As YAML.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to_yaml(&self) -> Result<String, PlanError> {
        serde_saphyr::to_string(self).map_err(|error| PlanError(error.to_string()))
    }
}
