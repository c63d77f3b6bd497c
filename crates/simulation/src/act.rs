//! What can happen beside the operator: what users, machines and the cloud do, and what befalls its processes.

use flipop_cloud::Provider;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::Ipv4Addr;

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
    /// The node's kubelet is heard of no more: its Ready condition becomes Unknown.
    LoseContact {
        /// The node.
        node: String,
    },
    /// The node gets a taint, or loses it.
    SetTaint {
        /// The node.
        node: String,
        /// Key of the taint.
        key: String,
        /// Whether it has it.
        on: bool,
    },
    /// The node is cordoned and tainted against everything, or no more.
    Drain {
        /// The node.
        node: String,
        /// Whether it is.
        drained: bool,
    },
    /// The droplet is switched off, and its node is heard of no more; or on again.
    PowerOff {
        /// The node.
        node: String,
        /// Whether it is off.
        off: bool,
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
    /// Somebody asks for a move of an address by the annotation on its pool.
    Ask {
        /// The pool.
        name: String,
        /// The address.
        ip: Ipv4Addr,
        /// The node that is to get it.
        node: String,
        /// What tells it from other requests.
        nonce: u64,
    },
    /// An object of ours is deleted.
    Delete {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// Somebody pauses an object of ours by its annotation, and resumes it later.
    PauseObject {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The text of the annotation.
        text: String,
        /// For how long.
        for_ms: u64,
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
    /// A user lets go the address that a pool created last, and wants one fewer.
    Release {
        /// The pool.
        name: String,
    },
    /// Somebody edits an address record of a name by hand.
    EditRecord {
        /// The provider of the zone.
        provider: Provider,
        /// The name, relative to the zone.
        name: String,
        /// What the first record shows then; absent: it is deleted.
        data: Option<Ipv4Addr>,
    },
    /// A record of somebody else stands at a name for a while.
    PlaceRecord {
        /// The provider of the zone.
        provider: Provider,
        /// The name, relative to the zone.
        name: String,
        /// Its type, for example `CNAME`.
        rtype: String,
        /// Its content.
        data: String,
        /// For how long.
        for_ms: u64,
    },
    /// The provider lets the operator's token in no more, for a while.
    RevokeToken {
        /// The provider.
        provider: Provider,
        /// For how long.
        for_ms: u64,
    },
    /// The operator's token at `DigitalOcean` lacks a scope for a while.
    NarrowToken {
        /// The scope, for example `droplet:read`.
        without: String,
        /// For how long.
        for_ms: u64,
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
        /// Whether it shows the same in its lists, which a healthy one never does, to a process that has seen more:
        /// one that starts meanwhile, and reads of single objects, leases and writes, meet the present.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lists: bool,
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
