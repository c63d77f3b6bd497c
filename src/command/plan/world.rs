//! The frozen copy of the cluster that a rehearsal changes.

use super::account::{Account, NameKey};
use super::walls::Walls;
use crate::command::copy::Lists;
use crate::provider;
use flipop_core::addresses::pool::spec::PoolSpec;
use flipop_core::addresses::pool::status::{IpState, PoolObject};
use flipop_core::fleet::action::{MarkedNode, Sweep};
use flipop_core::model::catalog::records::UnderWay;
use flipop_core::model::provider::Providers;
use flipop_core::model::{
    Address, Condition, ConditionType, MachineId, NodeFacts, PodFacts, RESERVED_IP_ANNOTATION, ReservedIp,
    Status, Uid, WatchKey,
};
use flipop_core::records::diff::TtlRule;
use flipop_core::records::name::ZoneRef;
use flipop_core::records::spec::{NodeSetSpec, SetSpec};
use flipop_core::records::status::RecordSetObject;
use std::collections::{BTreeMap, BTreeSet};

/// The copy.
pub(super) struct World {
    /// The present pools, by uid.
    pub(super) pools: BTreeMap<Uid, PoolObject>,
    /// The present record sets, by uid.
    pub(super) sets: BTreeMap<Uid, RecordSetObject>,
    /// Nodes and pods.
    pub(super) lists: Lists,
    /// Accounts.
    pub(super) account: Account,
    /// Firewalls.
    pub(super) walls: Walls,
    /// Pools before the rehearsal.
    pub(super) first_pools: BTreeMap<Uid, PoolObject>,
    /// Annotations of nodes before the rehearsal.
    pub(super) first_marks: BTreeMap<(String, String), String>,
    version: u64,
}

impl World {
    /// A copy of these objects, nodes and accounts.
    pub(super) fn new(
        (pools, sets): (Vec<PoolObject>, Vec<RecordSetObject>),
        lists: Lists,
        (account, walls): (Account, Walls),
    ) -> Self {
        let versions = pools.iter().map(|pool| &pool.resource_version);
        let versions = versions.chain(sets.iter().map(|set| &set.resource_version));
        let newest = versions.filter_map(|version| version.parse::<u64>().ok()).max().unwrap_or_default();
        let pools: BTreeMap<Uid, PoolObject> =
            pools.into_iter().map(|pool| (pool.object.uid.clone(), pool)).collect();
        let mut world = Self {
            first_pools: pools.clone(),
            pools,
            sets: sets.into_iter().map(|set| (set.object.uid.clone(), set)).collect(),
            lists,
            account,
            walls,
            first_marks: BTreeMap::new(),
            version: newest,
        };
        world.first_marks = world.marks();
        world
    }

    /// Every node.
    pub(super) fn nodes(&self) -> &[NodeFacts] {
        let all = WatchKey::Nodes { selector: String::new() };
        self.lists.nodes.get(&all).map_or(&[], Vec::as_slice)
    }

    /// The annotations and labels of all nodes that FLIPOP may write, by node and by name of the annotation or
    /// label.
    pub(super) fn marks(&self) -> BTreeMap<(String, String), String> {
        let mut marks = BTreeMap::new();
        for node in self.nodes() {
            let mut note =
                |what: String, value: &String| marks.insert((node.name.clone(), what), value.clone());
            if let Some(value) = &node.annotation {
                note(format!("annotation {RESERVED_IP_ANNOTATION}"), value);
            }
            for (key, label) in &node.labels.0 {
                note(format!("label {}", key.as_str()), &label.value);
            }
        }
        marks
    }

    /// The same in the form in which a sweep finds them.
    pub(super) fn swept(&self) -> Sweep {
        let annotated = |node: &NodeFacts| {
            let (name, uid, value) = (node.name.clone(), node.uid.clone(), node.annotation.clone());
            let labels = node.labels.clone();
            (value.is_some() || !labels.is_empty()).then_some(MarkedNode {
                name,
                uid,
                value,
                ours: node.annotation_ours,
                labels,
            })
        };
        let nodes = self.nodes();
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        Sweep { names, marked: nodes.iter().filter_map(annotated).collect() }
    }

    /// Changes a node. Returns the node as each list now shows it. Returns nothing if there is no such node.
    pub(super) fn mark(
        &mut self,
        name: &str,
        uid: &Uid,
        change: impl Fn(&mut NodeFacts),
    ) -> Vec<(WatchKey, NodeFacts)> {
        let mut shown = Vec::new();
        for (key, nodes) in &mut self.lists.nodes {
            let found = nodes.iter_mut().find(|node| node.name == name && node.uid == *uid);
            if let Some(node) = found {
                change(node);
                shown.push((key.clone(), node.clone()));
            }
        }
        shown
    }

    /// A node and its pods, as a read of the node finds them.
    pub(super) fn node(
        &self,
        name: &str,
        nodes: &WatchKey,
        pods: Option<&WatchKey>,
    ) -> (Option<NodeFacts>, Vec<PodFacts>) {
        let found = self.lists.nodes.get(nodes).into_iter().flatten().find(|node| node.name == name);
        let pods = pods.and_then(|key| self.lists.pods.get(key)).into_iter().flatten();
        (found.cloned(), pods.filter(|pod| pod.node == name).cloned().collect())
    }

    /// A version that no object has had.
    pub(super) fn next_version(&mut self) -> String {
        self.version = self.version.saturating_add(1);
        self.version.to_string()
    }

    /// Fills the accounts that are not read, from the statuses of the installed objects.
    pub(super) fn assume(
        &mut self,
        installed: &(Vec<PoolObject>, Vec<RecordSetObject>),
        providers: &Providers,
        notes: &mut Vec<String>,
    ) {
        let (pools, sets) = installed;
        for pool in pools {
            self.assume_pool(pool, providers, notes);
        }
        for set in sets {
            let Some(raw) = set.spec.as_ref().ok() else { continue };
            let spec = NodeSetSpec::parse(raw, providers);
            let published = (set.status.fqdn.as_str(), set.status.addresses.as_slice());
            self.assume_set(&spec.set, published);
        }
        // An address that only the files name is assumed to be in the account, on no machine.
        let wanted: Vec<PoolObject> = self.pools.values().cloned().collect();
        for pool in &wanted {
            self.assume_pool(pool, providers, &mut Vec::new());
        }
    }

    fn assume_pool(&mut self, pool: &PoolObject, providers: &Providers, notes: &mut Vec<String>) {
        let Some(raw) = pool.spec.as_ref().ok() else { return };
        let spec = PoolSpec::parse(raw, providers);
        let status = &pool.status;
        for (ip, entry) in &status.ips {
            let Some(ip) = Address::v4(ip) else { continue };
            if entry.state == IpState::InProgress.as_str() {
                notes.push(format!("{ip} is being moved: the plan assumes that it has arrived"));
            }
            let machine = provider::machine(&entry.provider_id);
            let region = self.region(&entry.provider_id, &spec);
            let read = ReservedIp { ip, region, machine, locked: false };
            self.account.assume_address(&spec.account_id, read);
        }
        let created = status.memory.iter().flat_map(|memory| &memory.created).map(|created| created.ip);
        let unplaced: BTreeSet<Address> = spec.ips.iter().copied().chain(created).collect();
        let region = self.region("", &spec);
        for ip in unplaced {
            let read = ReservedIp { ip, region: region.clone(), machine: None, locked: false };
            self.account.assume_address(&spec.account_id, read);
        }
        if let Some(set) = &spec.record_set {
            let published = status.record_set.clone().unwrap_or_default();
            self.assume_set(set, (&published.fqdn, &published.addresses));
        }
    }

    fn assume_set(&mut self, set: &SetSpec, (fqdn, addresses): (&str, &[Address])) {
        let Some(place) = set.place.as_ref().filter(|_| !fqdn.is_empty()) else { return };
        // Records of pools without a TTL have the TTL of new records. Those of record sets may have any TTL.
        let (TtlRule::Every(ttl) | TtlRule::New(ttl)) = set.ttl;
        self.account.assume_records(&place.account_id, fqdn, addresses, ttl);
        if let ZoneRef::Id(_) = place.zone {
            let relative = place.record_name.trim_end_matches('.').to_ascii_lowercase();
            let zone = fqdn.strip_prefix(&relative).and_then(|rest| rest.strip_prefix('.'));
            self.account.assume_zone(&place.account_id, &place.zone, zone.unwrap_or(fqdn));
        }
    }

    /// The region of an address: that of its node, else that of the spec, else that of any node.
    fn region(&self, provider_id: &str, spec: &PoolSpec) -> String {
        let holder =
            self.nodes().iter().find(|node| !provider_id.is_empty() && node.provider_id == provider_id);
        let matching =
            spec.criteria.as_ref().and_then(|criteria| self.lists.nodes.get(criteria.node_watch()));
        let some = matching.into_iter().flatten().find_map(|node| node.region.clone());
        let region = holder.and_then(|node| node.region.clone()).or_else(|| spec.region.clone());
        region.or(some).unwrap_or_default()
    }

    /// The node on a machine. If there is none, the machine.
    pub(super) fn node_on(&self, machine: &MachineId) -> String {
        let provider_id = machine.provider_id();
        let node = self.nodes().iter().find(|node| node.provider_id == provider_id);
        node.map_or(provider_id, |node| node.name.clone())
    }

    /// Whether some object waits only for time. A paused object waits for a person.
    pub(super) fn is_under_way(&self) -> bool {
        let waits = |conditions: &[Condition]| {
            let of_ready = conditions.iter().find(|condition| condition.is(ConditionType::Ready));
            let reason = of_ready.filter(|ready| !ready.has(Status::True)).map(|ready| ready.reason.as_str());
            reason.is_some_and(|reason| reason == "Assigning" || UnderWay::is_reason(reason))
        };
        let pools = self.pools.values().filter(|pool| pool.paused.is_none());
        let sets = self.sets.values().filter(|set| set.paused.is_none());
        pools
            .map(|pool| &pool.status.conditions)
            .chain(sets.map(|set| &set.status.conditions))
            .any(|all| waits(all))
    }

    /// The names whose records the rehearsal knows.
    pub(super) fn names(&self) -> impl Iterator<Item = &NameKey> {
        self.account.first_records.keys()
    }
}
