//! The machines under the nodes: which of them live, what the way to them loses, and the Leases that their kubelets renew.
//!
//! Invariant: what a machine does and what its way loses depends on the plan alone.

use super::bed::epoch;
use super::dice::roll;
use super::judge::Process;
use super::network::Network;
use flipop::probe::{Call, Probe};
use flipop_apiserver::{ApiServer, Key};
use flipop_core::model::node_check::CheckOutcome;
use futures::future::{BoxFuture, pending};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// What a kubelet leaves between two renewals.
const RENEWAL_MS: u64 = 10_000;

/// It is up to this much longer.
const RENEWAL_SPREAD_MS: u64 = 400;

/// How often a kubelet that cannot renew tries again.
const RETRY_MS: u64 = 500;

/// TCP sends again after this time, then after twice of it, and so on.
const RESEND_MS: u64 = 200;

/// A packet that is lost so many times in a row was never sent.
const MAX_RESENT: u32 = 7;

/// There and back, in milliseconds.
const ROUND_TRIP_MS: u64 = 8;

const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");

/// What happens to machines and on the ways to them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// Kubelets renew Leases.
    #[serde(default)]
    pub kubelets: bool,
    /// What is wrong, and when.
    #[serde(default)]
    pub ailments: Vec<Ailment>,
}

impl Machines {
    /// Nothing is said of machines.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Something that is wrong for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ailment {
    /// From when.
    pub from_ms: u64,
    /// Until when.
    pub to_ms: u64,
    /// Of which node; absent: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// As which replica sees it; absent: as all do. Kubelets have no replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<usize>,
    /// What.
    pub ail: Ail,
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ail {
    /// So many of a hundred packets are lost, of checks and of renewals.
    Loss {
        /// Percent.
        percent: u64,
    },
    /// Checks alone are lost.
    Deaf,
    /// Checks take up to so much longer.
    Late {
        /// Milliseconds.
        ms: u64,
    },
    /// The kubelet renews nothing.
    Idle,
    /// The kubelet renews this seldom.
    Slow {
        /// Milliseconds.
        every_ms: u64,
    },
    /// Checks fail on the side of the operator.
    OwnFault,
}

/// How the way to a machine is at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    loss: u64,
    late_ms: u64,
    deaf: bool,
    idle: bool,
    own_fault: bool,
    every_ms: Option<u64>,
}

/// The machines as they are.
#[derive(Debug, Default)]
pub(super) struct State {
    dead: BTreeSet<String>,
    /// Packets that dice were rolled for.
    packets: u64,
}

impl Network {
    /// The machine of a node dies, or comes back.
    pub(super) fn set_dead(&self, node: &str, dead: bool) {
        let mut machines = self.machines();
        if dead {
            machines.dead.insert(node.to_owned());
        } else {
            machines.dead.remove(node);
        }
    }

    fn is_dead(&self, node: &str) -> bool {
        self.machines().dead.contains(node)
    }

    /// A number of its own for each packet.
    fn next_packet(&self) -> u64 {
        let mut machines = self.machines();
        machines.packets += 1;
        machines.packets
    }

    /// A process has the answer to a check.
    fn probed(&self, process: Process, node: &str, passed: bool) {
        let now_ms = self.now_ms();
        self.judge(|judge| judge.probed(now_ms, process, node, passed));
    }

    /// Waits while a replica neither sends nor receives.
    pub(super) async fn until_awake(&self, replica: usize) {
        let Some(mut link) = self.link(replica) else { return };
        // The sender lives as long as the network.
        let _awake = link.wait_for(|link| !link.paused).await;
    }

    fn way(&self, node: &str, replica: Option<usize>) -> Way {
        let now_ms = self.now_ms();
        let mut way = Way::default();
        for Ailment { from_ms, to_ms, node: of, replica: seen, ail } in &self.plan().machines.ailments {
            let now = (*from_ms..*to_ms).contains(&now_ms);
            let here = of.as_deref().is_none_or(|of| of == node);
            if !now || !here || (seen.is_some() && *seen != replica) || self.faults_are_over() {
                continue;
            }
            match *ail {
                Ail::Loss { percent } => way.loss = way.loss.max(percent),
                Ail::Deaf => way.deaf = true,
                Ail::Late { ms } => way.late_ms = way.late_ms.max(ms),
                Ail::Idle => way.idle = true,
                Ail::Slow { every_ms } => way.every_ms = Some(every_ms),
                Ail::OwnFault => way.own_fault = true,
            }
        }
        way
    }

    fn lost(&self, way: Way) -> bool {
        way.loss > 0 && roll(self.plan().seed, self.next_packet(), 30, 100) < way.loss
    }

    /// How late a request is of which packets are lost.
    fn resent_ms(&self, way: Way) -> u64 {
        let lost = (0..MAX_RESENT).take_while(|_| self.lost(way)).count();
        RESEND_MS * ((1 << lost) - 1)
    }
}

/// The checks of one process.
pub(super) struct Checks {
    pub(super) network: Network,
    pub(super) process: Process,
}

impl Probe for Checks {
    fn probe(&self, call: Call) -> BoxFuture<'static, CheckOutcome> {
        let (network, process) = (self.network.clone(), self.process);
        Box::pin(async move {
            let timeout_ms = u64::try_from(call.timeout.as_millis()).unwrap_or(u64::MAX);
            let way = network.way(&call.node, Some(process.replica));
            let link = network.link(process.replica).map(|link| link.latest());
            let cut = link.is_none_or(|link| link.kube_cut && link.cloud_cut);
            if way.own_fault {
                return CheckOutcome::NoVerdict("too many open files".to_owned());
            }
            let late_ms = roll(network.plan().seed, network.next_packet(), 31, way.late_ms + 1);
            let takes_ms = ROUND_TRIP_MS + late_ms;
            // A packet to it, and one back.
            let lost = network.lost(way) || network.lost(way) || way.deaf || cut || takes_ms > timeout_ms;
            tokio::time::sleep(Duration::from_millis(if lost { timeout_ms } else { takes_ms })).await;
            if !network.lives(process) {
                return pending().await;
            }
            network.until_awake(process.replica).await;
            let passed = !lost && !network.is_dead(&call.node);
            if !passed {
                tokio::time::sleep(Duration::from_millis(if lost { 0 } else { timeout_ms - takes_ms })).await;
            }
            network.probed(process, &call.node, passed);
            if passed { CheckOutcome::Passed } else { CheckOutcome::Failed }
        })
    }
}

/// The kubelet of one node: it renews its Lease until the node is gone.
pub(super) async fn kubelet(network: Network, api: ApiServer, node: String) {
    let key = Key::new("kube-node-lease", &node);
    let here = |api: &ApiServer| {
        let object = api.object("v1", "Node", &Key::new("", &node));
        object.and_then(|object| object.pointer("/metadata/uid").cloned())
    };
    let uid = here(&api);
    let spec = json!({ "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": renewed(&network) });
    let lease = json!({ "metadata": { "name": node }, "spec": spec });
    // The Lease of a node that had the name before may be there.
    let _there = api.create_object(LEASE.0, LEASE.1, "kube-node-lease", lease, "kubelet");
    let first_ms = roll(network.plan().seed, network.next_packet(), 32, RENEWAL_MS);
    tokio::time::sleep(Duration::from_millis(first_ms)).await;
    while uid.is_some() && here(&api) == uid {
        let way = network.way(&node, None);
        if network.is_dead(&node) || way.idle {
            tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
            continue;
        }
        tokio::time::sleep(Duration::from_millis(network.resent_ms(way))).await;
        let patch = json!({ "spec": { "renewTime": renewed(&network) } });
        let _written = api.patch_object(LEASE, &key, "", patch, "kubelet");
        let spread_ms = roll(network.plan().seed, network.next_packet(), 33, RENEWAL_SPREAD_MS);
        let every_ms = way.every_ms.unwrap_or(RENEWAL_MS);
        tokio::time::sleep(Duration::from_millis(every_ms + spread_ms)).await;
    }
    if here(&api).is_none() {
        let _gone = api.delete_object(LEASE.0, LEASE.1, &key, true);
    }
}

fn renewed(network: &Network) -> String {
    let since = jiff::SignedDuration::from_millis(i64::try_from(network.now_ms()).unwrap_or_default());
    let now = epoch().checked_add(since).unwrap_or_default();
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
