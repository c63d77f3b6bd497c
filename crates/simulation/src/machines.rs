//! The machines under the nodes: their answers to checks, and the Leases that their kubelets renew.
//!
//! Invariant: the behaviour of a machine and the losses on the path to it depend only on the plan.

use super::ailments::Way;
use super::dice::roll;
use super::judge::Process;
use super::network::Network;
use super::scene::epoch;
use flipop::probe::{Call, Probe};
use flipop_apiserver::{ApiServer, Key};
use flipop_core::model::CheckOutcome;
use futures::future::{BoxFuture, pending};
use serde_json::json;
use std::time::Duration;

/// A kubelet renews its Lease every such part of the Lease's duration.
const RENEWALS: u64 = 4;

/// The most that chance adds to the time between two renewals is this part of it.
const SPREAD: u64 = 25;

/// How often a kubelet that cannot renew tries again.
const RETRY_MS: u64 = 500;

/// TCP resends a lost packet after this time, then after twice as long, and so on.
const RESEND_MS: u64 = 200;

/// The most losses of a packet in a row. The next try always arrives.
const MAX_RESENT: u32 = 7;

/// The round trip of a check, in milliseconds.
const ROUND_TRIP_MS: u64 = 8;

const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");

impl Network {
    /// The machine of a node dies, or comes back.
    pub(super) fn set_dead(&self, node: &str, dead: bool) {
        if dead {
            self.machines().dead.insert(node.to_owned());
        } else {
            self.machines().dead.remove(node);
        }
        self.judge(|judge| judge.machine_is_dead(node, dead));
    }

    fn is_dead(&self, node: &str) -> bool {
        self.machines().dead.contains(node)
    }

    /// The number of the next packet.
    fn next_packet(&self) -> u64 {
        let mut machines = self.machines();
        machines.packets += 1;
        machines.packets
    }

    /// Waits while a replica neither sends nor receives.
    pub(super) async fn until_awake(&self, replica: usize) {
        let Some(mut link) = self.link(replica) else { return };
        // The sender lives as long as the network.
        let _awake = link.wait_for(|link| !link.paused).await;
    }

    fn way(&self, node: &str, replica: Option<usize>) -> Way {
        if self.faults_are_over() {
            return Way::default();
        }
        self.plan().machines.way(self.now_ms(), node, replica)
    }

    fn lost(&self, way: Way) -> bool {
        way.loss > 0 && roll(self.plan().seed, self.next_packet(), 30, 100) < way.loss
    }

    /// The delay of a request whose packets may be lost.
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
            network.judge_now(|judge, now_ms| judge.probing(now_ms, process, &call.node));
            let late_ms = roll(network.plan().seed, network.next_packet(), 31, way.late_ms + 1);
            let takes_ms = ROUND_TRIP_MS + late_ms;
            // One packet to the machine, and one back.
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
            network.judge_now(|judge, now_ms| judge.probed(now_ms, process, &call.node, passed));
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
    let lease_s = network.plan().machines.lease_s(network.plan().seed, &node);
    let renewal_ms = lease_s * 1_000 / RENEWALS;
    let spec =
        json!({ "holderIdentity": node, "leaseDurationSeconds": lease_s, "renewTime": renewed(&network) });
    let lease = json!({ "metadata": { "name": node }, "spec": spec });
    // The Lease of a node that had the name before may be there, with the same duration.
    let _there = api.create_object(LEASE.0, LEASE.1, "kube-node-lease", lease, "kubelet");
    let first_ms = roll(network.plan().seed, network.next_packet(), 32, renewal_ms);
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
        let spread_ms = roll(network.plan().seed, network.next_packet(), 33, renewal_ms / SPREAD);
        let every_ms = way.every_ms.unwrap_or(renewal_ms);
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
