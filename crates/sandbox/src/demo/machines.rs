//! The machines under the nodes. Each answers checks on the port of the kubelet, and its kubelet renews a Lease, until
//! the machine dies.
//!
//! Each machine has a loopback address of its own. A dead one is silent: the kernel answers nobody while the queue of a
//! socket is full. Invariant: without such addresses, as on macOS, the nodes keep their invented ones, and no machine
//! can die.

use flipop::probe::connect::Sockets;
use flipop::probe::{Call, Probe};
use flipop_apiserver::{ApiServer, Key, ScenarioError};
use flipop_core::model::CheckOutcome;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The port of the kubelet.
const PORT: u16 = 10_250;

/// Connections that wait at a machine until it accepts them.
const QUEUE: u32 = 4;

/// The time in which a connection on loopback is accepted, unless the queue is full.
const ACCEPTED: Duration = Duration::from_millis(200);

/// The time between two renewals of a Lease.
const RENEWAL: Duration = Duration::from_secs(10);

/// Kubernetes waits this long for a kubelet before it marks the node (`node-monitor-grace-period`).
pub(super) const MARKED_AFTER: Duration = Duration::from_secs(40);

/// The first networks are in common use.
const NETWORKS: std::ops::RangeInclusive<u8> = 64..=127;

const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");
const LEASES: &str = "kube-node-lease";

/// The first byte of the addresses that the nodes report. FLIPOP checks no address of loopback.
const REPORTED: u8 = 10;

/// The address that a node reports for a machine on loopback.
fn of_machine(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let [_, b, c, d] = ip.octets();
            Ipv4Addr::new(REPORTED, b, c, d).into()
        }
        IpAddr::V6(_) => ip,
    }
}

/// Checks a machine on loopback by the address that its node reports.
#[derive(Default)]
pub(super) struct ToLoopback(Sockets);

impl Probe for ToLoopback {
    fn probe(&self, call: Call) -> BoxFuture<'static, CheckOutcome> {
        let address = match call.address.as_ip() {
            IpAddr::V4(ip) if ip.octets().first() == Some(&REPORTED) => {
                let [_, b, c, d] = ip.octets();
                Ipv4Addr::new(127, b, c, d).into()
            }
            IpAddr::V4(_) | IpAddr::V6(_) => call.address,
        };
        self.0.probe(Call { address, ..call })
    }
}

/// The machines by node, and the tasks that play them.
#[derive(Debug, Default)]
pub(super) struct Machines {
    network: Option<u8>,
    alive: BTreeMap<String, watch::Sender<bool>>,
    tasks: JoinSet<()>,
}

impl Machines {
    /// Puts a machine under a node, and its address into the node's status.
    pub(super) fn add(&mut self, api: &ApiServer, node: &str, number: u32) -> Result<(), ScenarioError> {
        let Some(listener) = self.listen(number) else { return Ok(()) };
        let Ok(at) = listener.local_addr() else { return Ok(()) };
        let key = Key::new("", node);
        let object = api.object("v1", "Node", &key).unwrap_or_default();
        let mut addresses = object.pointer("/status/addresses").cloned().unwrap_or_default();
        for entry in addresses.as_array_mut().into_iter().flatten() {
            if entry.get("type").and_then(Value::as_str) == Some("InternalIP") {
                *entry = json!({ "type": "InternalIP", "address": of_machine(at.ip()).to_string() });
            }
        }
        let patch = json!({ "status": { "addresses": addresses } });
        api.patch_object(("v1", "Node"), &key, "status", patch, "sandbox")?;
        let spec = json!({ "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now(api) });
        let lease = json!({ "metadata": { "name": node }, "spec": spec });
        api.create_object(LEASE.0, LEASE.1, LEASES, lease, "kubelet")?;
        let (alive, seen) = watch::channel(true);
        self.alive.insert(node.to_owned(), alive);
        self.tasks.spawn(play(listener, at, seen, api.clone(), node.to_owned()));
        Ok(())
    }

    /// A socket at the address of this number, in a network that no other sandbox uses.
    fn listen(&mut self, number: u32) -> Option<TcpListener> {
        let networks = self.network.map_or(NETWORKS, |network| network..=network);
        for network in networks {
            let ip = Ipv4Addr::from_bits(Ipv4Addr::new(127, network, 0, 0).to_bits().wrapping_add(number));
            let socket = TcpSocket::new_v4().ok()?;
            // A sandbox that has just ended leaves connections that are still closing.
            socket.set_reuseaddr(true).ok()?;
            let bound = socket.bind(SocketAddr::from((ip, PORT)));
            if let Ok(listener) = bound.and_then(|()| socket.listen(QUEUE)) {
                self.network = Some(network);
                return Some(listener);
            }
        }
        None
    }

    /// Kills a machine, or starts it again. Returns whether there is one under the node.
    pub(super) fn set_alive(&self, node: &str, alive: bool) -> bool {
        self.alive.get(node).is_some_and(|machine| machine.send(alive).is_ok())
    }
}

/// Plays one machine until its sender is gone.
async fn play(
    listener: TcpListener,
    at: SocketAddr,
    mut alive: watch::Receiver<bool>,
    api: ApiServer,
    node: String,
) {
    let mut renewals = tokio::time::interval(RENEWAL);
    loop {
        if !*alive.borrow_and_update() {
            let _full = fill(at).await;
            if alive.wait_for(|alive| *alive).await.is_err() {
                return;
            }
        }
        tokio::select! {
            // A check needs no more than an open connection.
            _checked = listener.accept() => {}
            _due = renewals.tick() => {
                let patch = json!({ "spec": { "renewTime": now(&api) } });
                // The Lease of a deleted node may be gone.
                let _renewed = api.patch_object(LEASE, &Key::new(LEASES, &node), "", patch, "kubelet");
            }
            changed = alive.changed() => if changed.is_err() { return },
        }
    }
}

/// Connects until the queue of a socket is full, and returns the connections.
async fn fill(at: SocketAddr) -> Vec<TcpStream> {
    let mut waiting = Vec::new();
    while let Ok(Ok(connection)) = tokio::time::timeout(ACCEPTED, TcpStream::connect(at)).await {
        waiting.push(connection);
    }
    waiting
}

fn now(api: &ApiServer) -> String {
    api.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
