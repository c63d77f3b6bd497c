//! Everything besides the operator's own work: acts of users, machines and the cloud, and faults of its processes.

use flipop_cloud::Provider;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::Ipv4Addr;

/// An event besides the operator's own work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the name of a field, or the sentence about its act, says what it is")]
pub enum Act {
    /// A droplet boots and joins as a ready node. It replaces a node of that name, as after a rebuild.
    AddNode { node: String },
    /// Somebody registers a ready node on the droplet of another node.
    ShareDroplet { node: String, of: String },
    /// The node object is deleted; the droplet stays.
    DeleteNode { node: String },
    /// The droplet is destroyed, and its node deleted.
    DestroyDroplet { node: String },
    /// The Ready condition changes.
    SetReady { node: String, ready: bool },
    /// The machine of the node dies, or comes back. A dead one answers no check and renews no Lease. Its objects stay.
    Die { node: String, dead: bool },
    /// The provider shows the droplet as switched off, or as running again, whatever its machine does.
    ShowOff { node: String, off: bool },
    /// The droplet is destroyed, and nobody deletes its node.
    LoseDroplet { node: String },
    /// The node's kubelet falls silent: the Ready condition becomes Unknown.
    LoseContact { node: String },
    /// The node gets a taint, or loses it.
    SetTaint { node: String, key: String, on: bool },
    /// The node is cordoned and tainted against everything, or released again.
    Drain { node: String, drained: bool },
    /// The droplet is switched off and its node falls silent, or it is switched on again.
    PowerOff { node: String, off: bool },
    /// The label `role` changes, or goes if `role` is absent.
    SetRole { node: String, role: Option<String> },
    /// A pod (label `app`) starts on a node and is ready. A pod of that name moves there.
    AddPod { pod: String, app: String, node: String },
    /// A pod is deleted.
    DeletePod { pod: String },
    /// A pod becomes ready or not.
    SetPodReady { pod: String, ready: bool },
    /// An address is reserved in the account, unassigned.
    AddIp { ip: Ipv4Addr },
    /// Somebody moves an address by hand, to the droplet of a node, or off every droplet if `node` is absent.
    MoveIp { ip: Ipv4Addr, node: Option<String> },
    /// Somebody releases an address.
    DeleteIp { ip: Ipv4Addr },
    /// Something else locks an address.
    LockIp { ip: Ipv4Addr, for_ms: u64 },
    /// Something else keeps a droplet busy.
    BusyDroplet { node: String, for_ms: u64 },
    /// One of our objects is created.
    Create { kind: String, name: String, spec: Value },
    /// One of our objects is edited: `spec` is merged into its spec.
    Edit { kind: String, name: String, spec: Value },
    /// Somebody requests a move of an address with the annotation on its pool. `nonce` tells requests apart.
    Ask { name: String, ip: Ipv4Addr, node: String, nonce: u64 },
    /// One of our objects is deleted.
    Delete { kind: String, name: String },
    /// Somebody pauses one of our objects by its annotation, which holds `text`, and resumes it later.
    PauseObject { kind: String, name: String, text: String, for_ms: u64 },
    /// GitOps resets the addresses to what the user once wrote.
    RevertIps { name: String, ips: Vec<Ipv4Addr> },
    /// The status is lost, as after a restore from a backup.
    WipeStatus { name: String },
    /// A user releases the address that a pool created last, and wants one fewer.
    Release { name: String },
    /// Users exchange the addresses that two pools created last: each pool names the other's and releases its own.
    Trade { one: String, other: String },
    /// Somebody edits the first address record of a name by hand, or deletes it if `data` is absent. The name is
    /// relative to the zone.
    EditRecord { provider: Provider, name: String, data: Option<Ipv4Addr> },
    /// Somebody else's record exists at a name for a while. The name is relative to the zone, the type for example
    /// `CNAME`.
    PlaceRecord { provider: Provider, name: String, rtype: String, data: String, for_ms: u64 },
    /// The provider rejects the operator's token for a while.
    RevokeToken { provider: Provider, for_ms: u64 },
    /// The operator's token at `DigitalOcean` lacks a scope for a while, for example `droplet:read`.
    NarrowToken { without: String, for_ms: u64 },
    /// How long the provider's actions take from now on.
    ActionTime { ms: u64 },
    /// How many reserved IPs the account may have from now on.
    Quota { addresses: usize },
    /// The provider's lists lag behind by this much.
    ListLag { ms: u64 },
    /// Somebody makes a firewall that lets in SSH. It governs the droplets of `nodes` by their ids, and with `tagged`
    /// all droplets with the tag that droplets of nodes have.
    AddFirewall {
        name: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tagged: bool,
    },
    /// Somebody deletes a firewall.
    DropFirewall { name: String },
    /// Somebody takes the tag off the droplet of a node, or gives it back.
    SetTag { node: String, on: bool },
    /// Somebody opens a TCP port for everybody in the firewalls of a pool, or closes it.
    EditFirewalls { pool: String, port: String, open: bool },
    /// Somebody deletes the firewalls of a pool.
    DropFirewallsOf { pool: String },
    /// How long it takes from now on until a change of a firewall has reached its droplets.
    FirewallTime { ms: u64 },
    /// A replica dies, as after SIGKILL, and restarts after a while.
    Crash { replica: usize, restart_ms: u64 },
    /// A replica is told to stop, as by SIGTERM, and restarts a while after its end.
    Stop { replica: usize, restart_ms: u64 },
    /// A replica neither sends nor receives anything, as when its machine hangs.
    Pause { replica: usize, for_ms: u64 },
    /// A replica is cut off from one side.
    Cut { replica: usize, side: Side, for_ms: u64 },
    /// A replica's API server shows its watches the state from before this act. With `lists`, its lists show that state
    /// too. A healthy API server never does this to a process that has seen newer state. A process that starts
    /// meanwhile sees the present, and so do reads of single objects, leases and writes.
    Lag {
        replica: usize,
        for_ms: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lists: bool,
    },
    /// All watches of a replica break.
    CutWatches { replica: usize },
    /// The API server forgets its history.
    Compact,
}

impl Act {
    /// One of our objects is created.
    pub(crate) fn create(kind: &str, name: &str, spec: Value) -> Self {
        Self::Create { kind: kind.to_owned(), name: name.to_owned(), spec }
    }

    /// One of our objects is edited.
    pub(crate) fn edit(kind: &str, name: &str, spec: Value) -> Self {
        Self::Edit { kind: kind.to_owned(), name: name.to_owned(), spec }
    }
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
