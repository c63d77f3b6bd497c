//! Checks of nodes, for pools and record sets: which nodes FLIPOP checks, how often, and which objects a verdict
//! concerns.
//!
//! Invariants: the objects alone determine the checks. FLIPOP does not check its own node. Without the right to
//! read Leases, or without the name of its own node, it checks nothing and no verdict holds.

use super::{Fleet, followers};
use crate::mechanism::evidence::{CheckedNode, Evidence, Standing, Witness};
use crate::mechanism::{CheckedNodes, Follower, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::catalog::shared::{ChecksDoubted, ChecksUnavailable};
use crate::model::provider::Providers;
use crate::model::words::enumerate;
use crate::model::{
    AccountId, CheckKey, CheckTarget, Condition, Mismatch, Moment, NodeCheck, NodeFacts, NodeStore, Observed,
    Uid, WatchKey, target_of,
};
use std::collections::{BTreeMap, BTreeSet};

/// Most checks of nodes that serve nothing, for the objects of one namespace: those of the largest supported cluster.
const MAX_IDLE_CHECKS: usize = 5_000;

/// A node that serves nothing is checked at most this often, because its death moves no address.
const IDLE_PERIOD_MS: u64 = 10_000;

/// A pool or a record set (true). Pools come first.
type Asker = (bool, Uid);

/// The checks that one object asks for.
type Part = BTreeMap<CheckKey, CheckTarget>;

/// Adds a check to those that other objects ask for.
fn add(wanted: &mut Part, key: &CheckKey, target: &CheckTarget) {
    let of = wanted.entry(key.clone()).or_insert_with(|| target.clone());
    of.period_ms = of.period_ms.min(target.period_ms);
    of.holds |= target.holds;
}

/// The checks to make, and their results.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) evidence: Evidence,
    /// The accounts that tell whether one of their machines is switched off.
    pub(super) witnesses: BTreeMap<AccountId, Witness>,
    /// The checks of each object, whatever the others ask for, with its namespace.
    parts: BTreeMap<Asker, (String, Part)>,
    askers: BTreeSet<(CheckKey, Asker)>,
    /// How many nodes that serve nothing the parts name, by namespace.
    idle: BTreeMap<String, usize>,
    /// Parts have changed for these nodes.
    changed: BTreeSet<CheckKey>,
    /// Everything has to be put together again.
    stale: bool,
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
        self.replace_all(|_| false);
        self.wanted.clear();
        self.version += 1;
        self.due = None;
    }

    /// Forgets what other objects ask for.
    fn replace_all(&mut self, is_kept: impl Fn(&Uid) -> bool) {
        let gone: Vec<Asker> = self.parts.keys().filter(|(_, uid)| !is_kept(uid)).cloned().collect();
        for asker in gone {
            self.replace(asker, (String::new(), Part::new()));
        }
    }

    /// Replaces what an object asks for.
    fn replace(&mut self, asker: Asker, part: (String, Part)) {
        let of_none = (String::new(), Part::new());
        let (namespace, old) = self.parts.get(&asker).unwrap_or(&of_none);
        if part.1 == *old {
            return;
        }
        let idle = |part: &Part| part.values().filter(|target| !target.holds).count();
        *self.idle.entry(part.0.clone()).or_default() += idle(&part.1);
        if let Some(count) = self.idle.get_mut(namespace) {
            *count -= idle(old);
        }
        for key in old.keys().filter(|key| !part.1.contains_key(*key)) {
            self.changed.insert(key.clone());
            self.askers.remove(&(key.clone(), asker.clone()));
        }
        for (key, _) in part.1.iter().filter(|(key, target)| old.get(*key) != Some(*target)) {
            self.changed.insert(key.clone());
            if self.askers.insert((key.clone(), asker.clone())) {
                self.evidence.asked_for(key);
            }
        }
        if part.1.is_empty() {
            self.parts.remove(&asker);
        } else {
            self.parts.insert(asker, part);
        }
    }

    /// The objects that ask for a check.
    fn askers(&self, key: &CheckKey) -> impl Iterator<Item = &Asker> {
        let from = (key.clone(), Asker::default());
        let key = key.clone();
        self.askers.range(from..).take_while(move |(asked, _)| *asked == key).map(|(_, asker)| asker)
    }

    /// Puts together what all objects ask for. A namespace has a limit.
    fn together(&self) -> BTreeMap<CheckKey, CheckTarget> {
        let (mut wanted, mut idle) = (Part::new(), BTreeMap::<&String, usize>::new());
        for (namespace, part) in self.parts.values() {
            let idle = idle.entry(namespace).or_default();
            let mut part: Vec<(&CheckKey, &CheckTarget)> = part.iter().collect();
            part.sort_by_key(|(_, target)| &target.name);
            for (key, target) in part {
                if !target.holds && !wanted.contains_key(key) {
                    if *idle >= MAX_IDLE_CHECKS {
                        continue;
                    }
                    *idle += 1;
                }
                add(&mut wanted, key, target);
            }
        }
        wanted
    }

    /// Makes the checks that objects ask for now.
    fn follow(&mut self, now: Moment) {
        self.idle.retain(|_, count| *count > 0);
        let limited = self.idle.values().any(|count| *count > MAX_IDLE_CHECKS);
        let mut changed = std::mem::take(&mut self.changed);
        if std::mem::replace(&mut self.stale, limited) || limited {
            let wanted = self.together();
            let differ = |one: &Part, two: &Part| -> Vec<CheckKey> {
                let only = one.iter().filter(|(key, target)| two.get(*key) != Some(*target));
                only.map(|(key, _)| key.clone()).collect()
            };
            changed =
                differ(&wanted, &self.wanted).into_iter().chain(differ(&self.wanted, &wanted)).collect();
            self.wanted = wanted;
        } else {
            changed.retain(|key| {
                let mut now = Part::new();
                let parts = self.askers(key).filter_map(|asker| self.parts.get(asker)?.1.get(key));
                parts.for_each(|target| add(&mut now, key, target));
                let (now, before) = (now.remove(key), self.wanted.remove(key));
                let differs = now != before;
                self.wanted.extend(now.map(|target| (key.clone(), target)));
                differs
            });
        }
        if !changed.is_empty() {
            self.version += 1;
            self.evidence.follow(&changed, &self.wanted, now);
        }
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
        let Some(store) = self.watched.nodes(key) else { return };
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
        if self.dirty {
            // A node whose address has changed is not judged by the answers of its former one.
            self.ask_for_checks(&self.concerned(now), now);
        }
        self.checks.due = self.checks.evidence.judge(now);
        let verdicts = self.checks.evidence.take_verdicts();
        self.checks.detections_ms.extend(verdicts.iter().map(|verdict| verdict.took_ms));
        self.follow_silent(now);
        if !self.checks.evidence.take_touched() && !self.dirty {
            return;
        }
        match self.checks.evidence.take_news() {
            Some(keys) => {
                for (_, uid) in keys.iter().flat_map(|key| self.checks.askers(key)) {
                    self.attention.touch(uid);
                }
            }
            None => self.checks.parts.keys().for_each(|(_, uid)| self.attention.touch(uid)),
        }
        let own = self.settings.own_node.as_deref();
        let evidence = &self.checks.evidence;
        let mut notices = Vec::new();
        for uid in self.in_order(&self.concerned(now)) {
            let Some((follower, stores)) =
                followers::following(&mut self.pools, &mut self.record_sets, &self.watched, &uid)
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
            notices.extend(concerned.map(|verdict| {
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
        self.outbox.extend(notices.into_iter().filter(|_| self.permit));
    }

    /// Decides which nodes are checked from now on. Returns when to judge them again.
    pub(super) fn plan_checks(&mut self, now: Moment) -> Option<Moment> {
        self.checks.stale |= self.settings.thorough;
        let due = std::mem::take(&mut self.attention.due);
        self.ask_for_checks(&due, now);
        self.attention.due = due;
        self.checks_due(now)
    }

    /// Makes the checks that these objects ask for now.
    fn ask_for_checks(&mut self, uids: &BTreeSet<Uid>, now: Moment) {
        let available = self.checks_unavailable().is_none();
        if uids.len() == self.pools.len() + self.record_sets.len() {
            self.checks.replace_all(|uid| uids.contains(uid));
        }
        for uid in uids {
            let follower = followers::get(&mut self.pools, &mut self.record_sets, uid);
            let asks = |follower: &&mut dyn Follower| {
                available && follower.node_check().is_some() && follower.is_following()
            };
            let part = follower.filter(asks).map(|follower| {
                let stores = self.watched.stores(follower);
                let own = self.settings.own_node.as_deref();
                let part = stores.map(|(nodes, _)| asked_by(follower, nodes, own)).unwrap_or_default();
                (follower.owner().object.name.namespace, part)
            });
            let asker = (self.record_sets.contains_key(uid), uid.clone());
            self.checks.replace(asker, part.unwrap_or_default());
        }
        self.checks.follow(now);
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

/// The checks that an object asks for.
fn asked_by(follower: &dyn Follower, nodes: &NodeStore, own: Option<&str>) -> Part {
    let Some(check) = follower.node_check() else { return Part::new() };
    let target = |(name, uid, holds): (&str, &Uid, bool)| {
        let node = nodes.get(name).filter(|node| node.uid == *uid && own != Some(name))?;
        let address = target_of(node)?.ok()?;
        let period_ms = if holds { check.period_ms } else { check.period_ms.max(IDLE_PERIOD_MS) };
        let machine = node.machine.clone();
        let target = CheckTarget { name: name.to_owned(), address, machine, period_ms, holds };
        Some((CheckKey { node: uid.clone(), check }, target))
    };
    follower.checks().filter_map(target).collect()
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
