//! Pools and record sets as followers of nodes, and the nodes and pods that their watches show.

use super::Fleet;
use crate::addresses::pool::Pool;
use crate::mechanism::{Follower, Stores};
use crate::model::{MachineId, NodeFacts, NodeStore, Observed, PodFacts, PodStore, Uid, WatchKey};
use crate::records::node_set::NodeSet;
use std::collections::{BTreeMap, BTreeSet};

/// The content of a watch before its first list.
static NO_NODES: NodeStore = NodeStore::unread();
static NO_PODS: PodStore = PodStore::unread();

/// The nodes and pods that the watches show.
#[derive(Debug, Default)]
pub(super) struct Watched {
    nodes: BTreeMap<WatchKey, NodeStore>,
    pods: BTreeMap<WatchKey, PodStore>,
    /// Which watches show a node of a name.
    shown_by: BTreeSet<(String, WatchKey)>,
    /// The watches that fail, and why.
    pub(super) trouble: BTreeMap<WatchKey, String>,
}

impl Watched {
    /// Takes in a step of a watch. Returns the nodes that it touches, and whether it is the first list.
    pub(super) fn observe_nodes(
        &mut self,
        key: &WatchKey,
        observed: Observed<NodeFacts>,
    ) -> (BTreeSet<String>, bool) {
        let store = self.nodes.entry(key.clone()).or_default();
        let first = !store.is_complete();
        let touched = store.observe(observed);
        for name in &touched {
            let entry = (name.clone(), key.clone());
            if store.get(name).is_some() {
                self.shown_by.insert(entry);
            } else {
                self.shown_by.remove(&entry);
            }
        }
        (touched, first)
    }

    /// Takes in a step of a watch. Returns the nodes whose pods it touches, and whether it is the first list.
    pub(super) fn observe_pods(
        &mut self,
        key: &WatchKey,
        observed: Observed<PodFacts>,
    ) -> (BTreeSet<String>, bool) {
        let store = self.pods.entry(key.clone()).or_default();
        let first = !store.is_complete();
        (store.observe(observed), first)
    }

    /// Waits for new lists, because leadership begins.
    pub(super) fn distrust(&mut self) {
        self.nodes.values_mut().for_each(NodeStore::distrust);
        self.pods.values_mut().for_each(PodStore::distrust);
    }

    /// Forgets the content of all other watches.
    pub(super) fn keep(&mut self, wanted: &BTreeSet<WatchKey>) {
        let shown_by = &mut self.shown_by;
        for (key, store) in self.nodes.extract_if(.., |key, _| !wanted.contains(key)) {
            for node in store.iter() {
                shown_by.remove(&(node.name.clone(), key.clone()));
            }
        }
        self.pods.retain(|key, _| wanted.contains(key));
        self.trouble.retain(|key, _| wanted.contains(key));
    }

    /// Looks again at which watches show which nodes.
    pub(super) fn find_nodes(&mut self) {
        let shown = |(key, store): (&WatchKey, &NodeStore)| {
            store.iter().map(|node| (node.name.clone(), key.clone())).collect::<Vec<_>>()
        };
        self.shown_by = self.nodes.iter().flat_map(shown).collect();
    }

    /// The nodes of a watch.
    pub(super) fn nodes(&self, key: &WatchKey) -> Option<&NodeStore> {
        self.nodes.get(key)
    }

    /// A node on a machine.
    pub(super) fn node_on(&self, machine: &MachineId) -> Option<&NodeFacts> {
        self.nodes.values().flat_map(NodeStore::iter).find(|node| node.machine.as_ref() == Some(machine))
    }

    /// A node, as the first watch that has it shows it.
    pub(super) fn node_named(&self, name: &str, uid: &Uid) -> Option<&NodeFacts> {
        let first = WatchKey::Nodes { selector: String::new() };
        let shown = self.shown_by.range((name.to_owned(), first)..).take_while(|(shown, _)| shown == name);
        let mut nodes = shown.filter_map(|(_, key)| self.nodes.get(key)?.get(name));
        nodes.find(|node| node.uid == *uid)
    }

    /// The nodes and pods for a follower, if it has criteria.
    pub(super) fn stores(&self, follower: &dyn Follower) -> Option<Stores<'_>> {
        let criteria = follower.criteria()?;
        let pods = criteria.pod_watch().map(|key| self.pods.get(key).unwrap_or(&NO_PODS));
        Some((self.nodes.get(criteria.node_watch()).unwrap_or(&NO_NODES), pods))
    }
}

/// The object with this uid.
pub(super) fn get<'a>(
    pools: &'a mut BTreeMap<Uid, Box<Pool>>,
    record_sets: &'a mut BTreeMap<Uid, NodeSet>,
    uid: &Uid,
) -> Option<&'a mut dyn Follower> {
    if let Some(pool) = pools.get_mut(uid) {
        return Some(&mut **pool);
    }
    let set: &mut dyn Follower = record_sets.get_mut(uid)?;
    Some(set)
}

/// The object with this uid, if it acts and knows its nodes completely, and its nodes and pods.
pub(super) fn following<'a, 'b>(
    pools: &'a mut BTreeMap<Uid, Box<Pool>>,
    record_sets: &'a mut BTreeMap<Uid, NodeSet>,
    watched: &'b Watched,
    uid: &Uid,
) -> Option<(&'a mut dyn Follower, Stores<'b>)> {
    let follower = get(pools, record_sets, uid).filter(|follower| follower.is_following())?;
    let stores = watched.stores(follower)?;
    Some((follower, stores))
}

impl Fleet {
    /// The objects in the order in which they are looked at: pools first, then record sets.
    pub(super) fn in_order(&self, uids: &BTreeSet<Uid>) -> Vec<Uid> {
        let (pools, sets): (Vec<Uid>, Vec<Uid>) =
            uids.iter().cloned().partition(|uid| self.pools.contains_key(uid));
        pools.into_iter().chain(sets).collect()
    }
}
