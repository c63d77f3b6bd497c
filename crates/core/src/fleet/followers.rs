//! Pools and record sets as followers of nodes, and the nodes and pods that their watches show.

use super::Fleet;
use crate::addresses::pool::Pool;
use crate::mechanism::{Follower, Stores};
use crate::model::{NodeFacts, NodeStore, PodStore, Uid, WatchKey};
use crate::records::node_set::NodeSet;
use std::collections::{BTreeMap, BTreeSet};

/// The content of a watch before its first list.
static NO_NODES: NodeStore = NodeStore::unread();
static NO_PODS: PodStore = PodStore::unread();

/// The nodes and pods for a follower, if it has criteria.
pub(super) fn stores<'a>(
    nodes: &'a BTreeMap<WatchKey, NodeStore>,
    pods: &'a BTreeMap<WatchKey, PodStore>,
    follower: &dyn Follower,
) -> Option<Stores<'a>> {
    let criteria = follower.criteria()?;
    let pods = criteria.pod_watch().map(|key| pods.get(key).unwrap_or(&NO_PODS));
    Some((nodes.get(criteria.node_watch()).unwrap_or(&NO_NODES), pods))
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
    (nodes, pods): (&'b BTreeMap<WatchKey, NodeStore>, &'b BTreeMap<WatchKey, PodStore>),
    uid: &Uid,
) -> Option<(&'a mut dyn Follower, Stores<'b>)> {
    let follower = get(pools, record_sets, uid).filter(|follower| follower.is_following())?;
    let stores = stores(nodes, pods, follower)?;
    Some((follower, stores))
}

/// Which watches show a node of a name.
#[derive(Debug, Default)]
pub(super) struct Shown(BTreeSet<(String, WatchKey)>);

impl Shown {
    /// Notes that a watch shows other nodes than before.
    pub(super) fn note(&mut self, key: &WatchKey, store: &NodeStore, touched: &BTreeSet<String>) {
        for name in touched {
            let entry = (name.clone(), key.clone());
            if store.get(name).is_some() {
                self.0.insert(entry);
            } else {
                self.0.remove(&entry);
            }
        }
    }

    /// Forgets a watch.
    pub(super) fn forget(&mut self, key: &WatchKey, store: &NodeStore) {
        for node in store.iter() {
            self.0.remove(&(node.name.clone(), key.clone()));
        }
    }
}

impl Fleet {
    /// Looks again at which watches show which nodes.
    pub(super) fn find_nodes(&mut self) {
        let shown = |(key, store): (&WatchKey, &NodeStore)| {
            store.iter().map(|node| (node.name.clone(), key.clone())).collect::<Vec<_>>()
        };
        self.shown_by = Shown(self.nodes.iter().flat_map(shown).collect());
    }

    /// A node, as the first watch that has it shows it.
    pub(super) fn node_named(&self, name: &str, uid: &Uid) -> Option<&NodeFacts> {
        let first = WatchKey::Nodes { selector: String::new() };
        let shown = self.shown_by.0.range((name.to_owned(), first)..).take_while(|(shown, _)| shown == name);
        let mut nodes = shown.filter_map(|(_, key)| self.nodes.get(key)?.get(name));
        nodes.find(|node| node.uid == *uid)
    }

    /// The nodes and pods for a follower, if it has criteria.
    pub(super) fn stores_of(&self, follower: &dyn Follower) -> Option<Stores<'_>> {
        stores(&self.nodes, &self.pods, follower)
    }

    /// The objects in the order in which they are looked at: pools first, then record sets.
    pub(super) fn in_order(&self, uids: &BTreeSet<Uid>) -> Vec<Uid> {
        let (pools, sets): (Vec<Uid>, Vec<Uid>) =
            uids.iter().cloned().partition(|uid| self.pools.contains_key(uid));
        pools.into_iter().chain(sets).collect()
    }
}
