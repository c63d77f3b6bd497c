//! Checks of nodes, for pools and record sets: which nodes FLIPOP checks, how often, and which objects a verdict
//! concerns.
//!
//! Invariants: the objects alone determine the checks. FLIPOP does not check its own node. Without the right to
//! read Leases, or without the name of its own node, it checks nothing and no verdict holds.

use super::{Fleet, followers};
use crate::mechanism::effects::Notice;
use crate::mechanism::evidence::{CheckedNode, Evidence, Standing, Witness};
use crate::mechanism::follower::{CheckedNodes, Follower};
use crate::model::catalog::events::EventReason;
use crate::model::catalog::shared::{ChecksDoubted, ChecksUnavailable};
use crate::model::condition::Condition;
use crate::model::facts::{NodeFacts, Observed};
use crate::model::ids::AccountId;
use crate::model::matching::{NodeStore, WatchKey};
use crate::model::mismatch::Mismatch;
use crate::model::moment::Moment;
use crate::model::node_check::{CheckKey, CheckTarget, NodeCheck, target_of};
use crate::model::provider::Providers;
use crate::model::words::enumerate;
use std::collections::BTreeMap;

/// Most checks of nodes that serve nothing, for the objects of one namespace: those of the largest supported cluster.
const MAX_IDLE_CHECKS: usize = 5_000;

/// A node that serves nothing is checked at most this often, because its death moves no address.
const IDLE_PERIOD_MS: u64 = 10_000;

/// The checks to make, and their results.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) evidence: Evidence,
    /// The accounts that tell whether one of their machines is switched off.
    pub(super) witnesses: BTreeMap<AccountId, Witness>,
    wanted: BTreeMap<CheckKey, CheckTarget>,
    /// Counts changes of `wanted`.
    version: u64,
    /// The service account may not read Leases.
    denied: bool,
    /// The latest moment of the next judgement.
    due: Option<Moment>,
    /// Milliseconds from a node's last answer to its verdict, for each verdict since the last call.
    detections_ms: Vec<u64>,
}

impl Checks {
    pub(super) fn new(providers: &Providers) -> Self {
        let witnesses = providers.of_addresses().filter(|of| of.tells_power);
        let witnesses = witnesses.map(|of| (AccountId::from(of.name), Witness::default())).collect();
        Self { witnesses, ..Self::default() }
    }

    /// Empties all counts when leadership begins.
    pub(super) fn restart(&mut self) {
        self.evidence.restart();
        self.witnesses.values_mut().for_each(Witness::restart);
        self.wanted.clear();
        self.version += 1;
        self.due = None;
    }

    fn follow(&mut self, wanted: BTreeMap<CheckKey, CheckTarget>, now: Moment) {
        if self.wanted == wanted {
            return;
        }
        self.wanted = wanted;
        self.version += 1;
        self.evidence.follow(&self.wanted, now);
    }
}

impl Fleet {
    /// The checks to make. They are unchanged while the number is unchanged.
    pub const fn checks(&self) -> (u64, &BTreeMap<CheckKey, CheckTarget>) {
        (self.checks.version, &self.checks.wanted)
    }

    /// Whether the Leases of nodes have to be watched.
    pub fn wants_leases(&self) -> bool {
        self.leading && self.settings.own_node.is_some() && self.asks_for_checks()
    }

    /// The reason why nodes cannot be checked, if they cannot.
    pub(super) fn checks_unavailable(&self) -> Option<Condition> {
        if self.settings.own_node.is_none() {
            let message = "the environment variable NODE_NAME is not set; apply k8s/deployment.yaml";
            return Some(Condition::new(ChecksUnavailable::NodeNameMissing, message.to_owned()));
        }
        let message = "the service account may not list or watch leases in the namespace kube-node-lease; apply \
                       k8s/nodecheck";
        self.checks.denied.then(|| Condition::new(ChecksUnavailable::Forbidden, message.to_owned()))
    }

    pub(super) fn leases_denied(&mut self, denied: bool) {
        if self.checks.denied != denied {
            self.checks.denied = denied;
            self.concerns_all();
        }
    }

    /// Takes in the reports of nodes about themselves, before their store does. A new heartbeat proves that a node
    /// lives, even if its checks fail. A new address is checked from now on.
    pub(super) fn hear_of_nodes(&mut self, key: &WatchKey, observed: &Observed<NodeFacts>, now: Moment) {
        if !self.asks_for_checks() {
            return;
        }
        let seen = match observed {
            Observed::Reset(nodes) => nodes.as_slice(),
            Observed::Apply(node) => std::slice::from_ref(node),
            Observed::Delete(_) => return,
        };
        let Some(store) = self.nodes.get(key) else { return };
        for node in seen {
            let Some(known) = store.get(&node.name).filter(|known| known.uid == node.uid) else { continue };
            if known.heartbeat_s != node.heartbeat_s {
                self.checks.evidence.reported(&node.name, now);
            }
            self.dirty |= known.internal_ips.first() != node.internal_ips.first();
        }
    }

    /// Judges the failing nodes. An object matches a node again if the node's verdict for it has changed.
    pub(super) fn weigh_checks(&mut self, now: Moment) {
        let clocks = self.clocks(now);
        let available = self.checks_unavailable().is_none();
        self.checks.due = self.checks.evidence.judge(now);
        let verdicts = self.checks.evidence.take_verdicts();
        self.checks.detections_ms.extend(verdicts.iter().map(|verdict| verdict.took_ms));
        self.follow_silent(now);
        if !self.checks.evidence.take_touched() && !self.dirty {
            return;
        }
        let own = self.settings.own_node.as_deref();
        let evidence = &self.checks.evidence;
        let mut told = Vec::new();
        for uid in self.in_order(&self.concerned(now)) {
            let watched = (&self.nodes, &self.pods);
            let Some((follower, stores)) =
                followers::following(&mut self.pools, &mut self.record_sets, watched, &uid)
            else {
                continue;
            };
            let check = follower.node_check().filter(|_| available);
            let found = check.map(|check| thought_of((evidence, own), check, (follower, stores.0), now));
            let found = found.unwrap_or_default();
            let owner = follower.owner();
            let concerned = verdicts.iter().filter(|verdict| {
                Some(verdict.key.check) == check && follower.member(&verdict.name).is_some()
            });
            told.extend(concerned.map(|verdict| {
                Notice::on(&owner, true, EventReason::NodeUnreachable, &verdict.name, verdict.text.clone())
            }));
            let checked = &mut follower.nodes_mut().checked;
            let mut again = checked.differ(&found);
            self.dirty |=
                !again.is_empty() || checked.unproven != found.unproven || checked.doubted != found.doubted;
            // Whether a dead node counts as dead also depends on whether another node lives, which may have changed.
            again.extend(found.dead.keys().cloned());
            *checked = found;
            if !again.is_empty() {
                self.dirty |= follower.rematch(Some(&again), stores, clocks);
            }
        }
        self.outbox.extend(told.into_iter().filter(|_| self.permit));
    }

    /// Decides which nodes are checked from now on. Returns when to judge them again.
    pub(super) fn plan_checks(&mut self, now: Moment) -> Option<Moment> {
        let (mut wanted, mut idle) = (BTreeMap::new(), BTreeMap::new());
        if self.checks_unavailable().is_none() {
            for follower in self.due_followers() {
                self.want((&mut wanted, &mut idle), follower);
            }
        }
        self.checks.follow(wanted, now);
        self.checks_due(now)
    }

    fn want(
        &self,
        (wanted, idle): (&mut BTreeMap<CheckKey, CheckTarget>, &mut BTreeMap<String, usize>),
        follower: &dyn Follower,
    ) {
        let Some((check, (nodes, _))) = follower.node_check().zip(self.stores_of(follower)) else { return };
        let idle = idle.entry(follower.owner().object.name.namespace).or_default();
        for (name, uid, holds) in follower.checks() {
            let Some(node) = nodes.get(name).filter(|node| node.uid == *uid) else { continue };
            let Some(Ok(address)) = target_of(node) else { continue };
            if self.settings.own_node.as_deref() == Some(name) {
                continue;
            }
            let period_ms = if holds { check.period_ms } else { check.period_ms.max(IDLE_PERIOD_MS) };
            let key = CheckKey { node: uid.clone(), check };
            if !holds && !wanted.contains_key(&key) {
                if *idle >= MAX_IDLE_CHECKS {
                    continue;
                }
                *idle += 1;
            }
            let machine = node.machine.clone();
            let target = CheckTarget { name: name.to_owned(), address, machine, period_ms, holds };
            let of = wanted.entry(key).or_insert(target);
            of.period_ms = of.period_ms.min(period_ms);
            of.holds |= holds;
        }
    }

    /// The latest moment at which to judge again, or to ask a provider.
    pub(super) fn checks_due(&self, now: Moment) -> Option<Moment> {
        // A question that is due and was not sent waits for the budget or for a list.
        let asks = self.checks.witnesses.values().filter_map(Witness::due).filter(|due| *due > now);
        asks.chain(self.checks.due).min()
    }

    /// Every checked node, for the metrics.
    pub fn checked_nodes(&self, now: Moment) -> Vec<CheckedNode> {
        self.checks.evidence.nodes(now).collect()
    }

    /// For each verdict since the last call: the milliseconds from the node's last answer to the verdict that it is
    /// dead.
    pub fn take_detections_ms(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.checks.detections_ms)
    }
}

/// The results of the checks for the nodes of one object.
fn thought_of(
    (evidence, own): (&Evidence, Option<&str>),
    check: NodeCheck,
    (follower, nodes): (&dyn Follower, &NodeStore),
    now: Moment,
) -> CheckedNodes {
    let mut found = CheckedNodes::default();
    let (mut judged, mut doubted, mut refused) = (0_usize, Vec::new(), Vec::new());
    let mut stalled = Vec::new();
    for (name, uid, _) in follower.checks() {
        let Some(node) = nodes.get(name).filter(|node| node.uid == *uid) else { continue };
        match target_of(node) {
            Some(Ok(_)) if own != Some(name) => {}
            Some(Err(address)) => {
                refused.push(format!("{name} ({address})"));
                continue;
            }
            Some(Ok(_)) | None => continue,
        }
        judged += 1;
        let key = CheckKey { node: uid.clone(), check };
        match evidence.standing(&key, now) {
            Standing::Dead => {
                let why = evidence.why_dead(&key).cloned().unwrap_or(Mismatch::CheckFailed);
                found.dead.insert(name.to_owned(), (uid.clone(), why));
            }
            Standing::Deprioritized => {
                found.deprioritized.insert(uid.clone());
            }
            Standing::Alive | Standing::Unknown => {}
        }
        if evidence.is_unproven(&key, name) {
            found.unproven.insert(uid.clone());
        }
        if evidence.is_doubted(&key) {
            doubted.push(name.to_owned());
        }
        if evidence.is_stalled(&key) {
            stalled.push(name.to_owned());
        }
    }
    found.doubted = (!doubted.is_empty()).then(|| {
        let (count, port) = (doubted.len(), check.port);
        let verb = if count == 1 { "answers" } else { "answer" };
        let message = format!(
            "{count} of {judged} nodes {verb} no check of port {port} while the Lease is renewed ({}): a firewall or \
             FLIPOP's own network drops the packets",
            enumerate(doubted.iter().cloned())
        );
        Condition::new(ChecksDoubted::LeasesRenewed, message)
    });
    if found.doubted.is_none() && !stalled.is_empty() {
        let (answers, leases) =
            if stalled.len() == 1 { ("answers", "its Lease is") } else { ("answer", "their Leases are") };
        let message = format!(
            "{} of {judged} nodes {answers} no check, and {leases} not renewed ({}), but too few other Leases in \
             kube-node-lease are renewed to conclude anything: check the API server and the other nodes, and \
             delete the Leases of nodes that no longer exist",
            stalled.len(),
            enumerate(stalled.iter().cloned())
        );
        found.doubted = Some(Condition::new(ChecksDoubted::LeasesStandStill, message));
    }
    if found.doubted.is_none() && !refused.is_empty() {
        let message = format!(
            "the InternalIP of {} nodes is not the address of a machine, so they are not checked: {}",
            refused.len(),
            enumerate(refused.into_iter())
        );
        found.doubted = Some(Condition::new(ChecksDoubted::AddressRefused, message));
    }
    found
}
