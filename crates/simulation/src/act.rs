//! Everything besides the operator's own work: acts of users, machines and the cloud, and faults of its processes.

use flipop_cloud::Provider;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::Ipv4Addr;

/// An event besides the operator's own work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// A droplet boots and joins as a ready node. It replaces a node of that name, as after a rebuild.
    AddNode {
        /// Name of node and droplet.
        node: String,
    },
    /// Somebody registers a ready node on the droplet of another node.
    ShareDroplet {
        /// Its name.
        node: String,
        /// The other node.
        of: String,
    },
    /// The node object is deleted; the droplet stays.
    DeleteNode {
        /// Its name.
        node: String,
    },
    /// The droplet is destroyed, and its node deleted.
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
    /// The machine of the node dies, or comes back. A dead one answers no check and renews no Lease. Its objects stay.
    Die {
        /// The node.
        node: String,
        /// Whether it is dead.
        dead: bool,
    },
    /// The provider shows the droplet as switched off, or as running again, whatever its machine does.
    ShowOff {
        /// The node.
        node: String,
        /// Whether it is shown as off.
        off: bool,
    },
    /// The droplet is destroyed, and nobody deletes its node.
    LoseDroplet {
        /// The node.
        node: String,
    },
    /// The node's kubelet falls silent: the Ready condition becomes Unknown.
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
    /// The node is cordoned and tainted against everything, or released again.
    Drain {
        /// The node.
        node: String,
        /// Whether it is drained.
        drained: bool,
    },
    /// The droplet is switched off and its node falls silent, or it is switched on again.
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
        /// The new value; absent removes the label.
        role: Option<String>,
    },
    /// A pod (label `app`) starts on a node and is ready. A pod of that name moves there.
    AddPod {
        /// Its name.
        pod: String,
        /// Value of its label `app`.
        app: String,
        /// The node that it runs on.
        node: String,
    },
    /// A pod is deleted.
    DeletePod {
        /// Its name.
        pod: String,
    },
    /// A pod becomes ready or not.
    SetPodReady {
        /// Its name.
        pod: String,
        /// Whether it is ready.
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
        /// The node whose droplet gets it; absent: none.
        node: Option<String>,
    },
    /// Somebody releases an address.
    DeleteIp {
        /// The address.
        ip: Ipv4Addr,
    },
    /// Something else locks an address.
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
    /// One of our objects is created.
    Create {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Its spec.
        spec: Value,
    },
    /// One of our objects is edited.
    Edit {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Merged into the spec.
        spec: Value,
    },
    /// Somebody requests a move of an address with the annotation on its pool.
    Ask {
        /// The pool.
        name: String,
        /// The address.
        ip: Ipv4Addr,
        /// The node that is to get it.
        node: String,
        /// Distinguishes the request from others.
        nonce: u64,
    },
    /// One of our objects is deleted.
    Delete {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// Somebody pauses one of our objects by its annotation, and resumes it later.
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
    /// GitOps resets the addresses to what the user once wrote.
    RevertIps {
        /// The pool.
        name: String,
        /// The addresses.
        ips: Vec<Ipv4Addr>,
    },
    /// The status is lost, as after a restore from a backup.
    WipeStatus {
        /// The pool.
        name: String,
    },
    /// A user releases the address that a pool created last, and wants one fewer.
    Release {
        /// The pool.
        name: String,
    },
    /// Users exchange the addresses that two pools created last: each pool names the other's and releases its own.
    Trade {
        /// A pool.
        one: String,
        /// The other one.
        other: String,
    },
    /// Somebody edits an address record of a name by hand.
    EditRecord {
        /// The provider of the zone.
        provider: Provider,
        /// The name, relative to the zone.
        name: String,
        /// The new content of the first record; absent: the record is deleted.
        data: Option<Ipv4Addr>,
    },
    /// Somebody else's record exists at a name for a while.
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
    /// The provider rejects the operator's token for a while.
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
    /// How long the provider's actions take from now on.
    ActionTime {
        /// Milliseconds.
        ms: u64,
    },
    /// How many reserved IPs the account may have from now on.
    Quota {
        /// The number of addresses.
        addresses: usize,
    },
    /// The provider's lists lag behind by this much.
    ListLag {
        /// Milliseconds.
        ms: u64,
    },
    /// Somebody makes a firewall that lets in SSH.
    AddFirewall {
        /// Its name.
        name: String,
        /// The nodes whose droplets it governs by their ids.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<String>,
        /// Whether it governs all droplets with the tag that droplets of nodes have.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tagged: bool,
    },
    /// Somebody deletes a firewall.
    DropFirewall {
        /// Its name.
        name: String,
    },
    /// Somebody takes the tag off the droplet of a node, or gives it back.
    SetTag {
        /// The node.
        node: String,
        /// Whether the droplet has it from now on.
        on: bool,
    },
    /// Somebody opens a TCP port for everybody in the firewalls of a pool, or closes it.
    EditFirewalls {
        /// The pool.
        pool: String,
        /// The port.
        port: String,
        /// Whether it is opened.
        open: bool,
    },
    /// Somebody deletes the firewalls of a pool.
    DropFirewallsOf {
        /// The pool.
        pool: String,
    },
    /// How long it takes from now on until a change of a firewall has reached its droplets.
    FirewallTime {
        /// Milliseconds.
        ms: u64,
    },
    /// A replica dies, as after SIGKILL.
    Crash {
        /// The replica.
        replica: usize,
        /// How long until it restarts.
        restart_ms: u64,
    },
    /// A replica is told to stop, as by SIGTERM.
    Stop {
        /// The replica.
        replica: usize,
        /// How long after its end it restarts.
        restart_ms: u64,
    },
    /// A replica neither sends nor receives anything, as when its machine hangs.
    Pause {
        /// The replica.
        replica: usize,
        /// For how long.
        for_ms: u64,
    },
    /// A replica is cut off.
    Cut {
        /// The replica.
        replica: usize,
        /// From which side.
        side: Side,
        /// For how long.
        for_ms: u64,
    },
    /// A replica's API server shows its watches the state from before this act.
    Lag {
        /// The replica.
        replica: usize,
        /// For how long.
        for_ms: u64,
        /// Whether its lists show that state too. A healthy API server never does this to a process that has seen newer
        /// state. A process that starts meanwhile sees the present, and so do reads of single objects, leases and
        /// writes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lists: bool,
    },
    /// All watches of a replica break.
    CutWatches {
        /// The replica.
        replica: usize,
    },
    /// The API server forgets its history.
    Compact,
}

/// The servers that a replica talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The API server.
    Kube,
    /// The provider.
    Cloud,
}
