//! From watches that come and go to one complete store for each key.
//!
//! Each key is served by one watch at a time. A younger watch that also covers the key follows the API server beside
//! it, and takes the key over.
//!
//! Invariants: the steps of a key begin with a list, and are always those of one watch. Another watch takes a key over
//! only once it has reached the newest version that was passed on for that key, so no key ever goes back in time. It
//! begins with its own list, so nothing of the former watch remains.

use crate::kube::watch::messages::{News, Reported};
use flipop_core::model::{NodeFacts, Observed, PodFacts, WatchKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of a watch. Younger watches have larger ones.
pub(super) type SourceId = u64;

/// Tells apart the objects of a watch: namespace and name.
type Identity = (String, String);

/// The facts about an object.
pub(super) trait Facts: Clone {
    fn identity(&self) -> Identity;
}

impl Facts for NodeFacts {
    fn identity(&self) -> Identity {
        (String::new(), self.name.clone())
    }
}

impl Facts for PodFacts {
    fn identity(&self) -> Identity {
        (self.namespace.clone(), self.name.clone())
    }
}

/// The steps for a key.
pub(super) type Passed<T> = Vec<(WatchKey, Observed<T>)>;

struct Source<T> {
    keys: Arc<[WatchKey]>,
    /// The keys that it may take over. One that was not wanted for a while is not among them.
    meant: BTreeSet<WatchKey>,
    version: Option<u64>,
    /// The objects that it shows for keys that an older watch still serves.
    waiting: BTreeMap<WatchKey, BTreeMap<Identity, T>>,
}

/// Who serves a key, and the newest version that was passed on.
#[derive(Clone, Copy)]
struct Served {
    by: SourceId,
    version: Option<u64>,
}

/// The watches of one kind, and the keys that they serve.
pub(super) struct Handover<T> {
    sources: BTreeMap<SourceId, Source<T>>,
    /// Every wanted key.
    served: BTreeMap<WatchKey, Option<Served>>,
    /// A watch may have taken keys over, so another may have become needless.
    taken_over: bool,
}

impl<T: Facts> Handover<T> {
    pub(super) const fn new() -> Self {
        Self { sources: BTreeMap::new(), served: BTreeMap::new(), taken_over: false }
    }

    /// Sets the wanted keys.
    pub(super) fn want(&mut self, wanted: &BTreeSet<WatchKey>) {
        self.served.retain(|key, _| wanted.contains(key));
        for key in wanted {
            self.served.entry(key.clone()).or_default();
        }
        for source in self.sources.values_mut() {
            source.meant.retain(|key| wanted.contains(key));
            source.waiting.retain(|key, _| wanted.contains(key));
        }
    }

    /// A watch of these keys begins.
    pub(super) fn begin(&mut self, id: SourceId, keys: Arc<[WatchKey]>) {
        let meant = keys.iter().filter(|key| self.served.contains_key(key)).cloned().collect();
        self.sources.insert(id, Source { keys, meant, version: None, waiting: BTreeMap::new() });
    }

    /// A watch takes over no further keys. It goes on serving those that it has.
    pub(super) fn retire(&mut self, id: SourceId) {
        if let Some(source) = self.sources.get_mut(&id) {
            source.meant.clear();
            source.waiting.clear();
        }
    }

    /// Who serves a key.
    pub(super) fn server(&self, key: &WatchKey) -> Option<SourceId> {
        self.served.get(key).copied().flatten().map(|served| served.by)
    }

    /// Whether a watch, or a younger one, serves all keys that it is meant for.
    pub(super) fn is_settled(&self, id: SourceId) -> bool {
        self.sources.get(&id).is_some_and(|source| {
            source.meant.iter().all(|key| self.server(key).is_some_and(|server| server >= id))
        })
    }

    /// The keys that a watch serves, and those that nobody serves yet and that it is meant for.
    pub(super) fn concerned(&self, id: SourceId) -> impl Iterator<Item = &WatchKey> {
        let of = self
            .sources
            .get(&id)
            .into_iter()
            .flat_map(|source| source.keys.iter().map(move |key| (source, key)));
        let concerned = of.filter(move |(source, key)| match self.server(key) {
            Some(server) => server == id,
            None => source.meant.contains(*key),
        });
        concerned.map(|(_, key)| key)
    }

    /// Forgets the watches that serve no key and will take none over, and returns them.
    pub(super) fn take_ended(&mut self) -> Vec<SourceId> {
        let meant = self.sources.iter().flat_map(|(id, source)| source.meant.iter().map(|key| (key, *id)));
        let youngest: BTreeMap<&WatchKey, SourceId> = meant.collect();
        let awaited =
            youngest.into_iter().filter(|(key, id)| self.server(key).is_none_or(|server| server <= *id));
        let mut needed: BTreeSet<SourceId> = awaited.map(|(_, id)| id).collect();
        needed.extend(self.served.values().flatten().map(|served| served.by));
        let ended: Vec<_> = self.sources.keys().filter(|id| !needed.contains(id)).copied().collect();
        self.sources.retain(|id, _| needed.contains(id));
        ended
    }

    /// Whether a watch may have taken a key over since this was last asked.
    pub(super) const fn has_taken_over(&mut self) -> bool {
        std::mem::replace(&mut self.taken_over, false)
    }

    /// Takes in a message of a watch, and returns what the keys are told.
    pub(super) fn observe(&mut self, id: SourceId, News { version, reported }: News<T>) -> Passed<T> {
        let Some(source) = self.sources.get_mut(&id) else { return Vec::new() };
        let keys = Arc::clone(&source.keys);
        let is_list = matches!(reported, Reported::List(_) | Reported::Whole(Observed::Reset(_)));
        source.version = if is_list { version } else { source.version.max(version) };
        let mut passed = Vec::new();
        match reported {
            Reported::Whole(step) => {
                if let Some(key) = keys.first() {
                    match step {
                        Observed::Reset(all) => self.list(id, key, all, &mut passed),
                        step @ (Observed::Apply(_) | Observed::Delete(_)) => {
                            self.change(id, key, step, &mut passed);
                        }
                    }
                }
            }
            Reported::List(all) => {
                let mut lists: Vec<Vec<T>> = keys.iter().map(|_| Vec::new()).collect();
                for (facts, of) in &all {
                    for place in of.iter() {
                        lists.get_mut(*place).into_iter().for_each(|list| list.push(facts.clone()));
                    }
                }
                for (key, list) in keys.iter().zip(lists) {
                    self.list(id, key, list, &mut passed);
                }
                self.taken_over = true;
            }
            Reported::Change { facts, present, left } => {
                // The keys that still select an object have the last word about it.
                for key in left.iter().filter_map(|place| keys.get(*place)) {
                    self.change(id, key, Observed::Delete(facts.clone()), &mut passed);
                }
                for key in present.iter().filter_map(|place| keys.get(*place)) {
                    self.change(id, key, Observed::Apply(facts.clone()), &mut passed);
                }
            }
            Reported::Nothing => {}
        }
        self.take_over(id, &mut passed);
        passed
    }

    fn list(&mut self, id: SourceId, key: &WatchKey, all: Vec<T>, passed: &mut Passed<T>) {
        let Some(served) = self.served.get_mut(key) else { return };
        let Some(source) = self.sources.get_mut(&id) else { return };
        let is_meant = source.meant.contains(key);
        if served.is_none() && is_meant || served.is_some_and(|served| served.by == id) {
            *served = Some(Served { by: id, version: source.version });
            passed.push((key.clone(), Observed::Reset(all)));
        } else if served.is_some_and(|served| served.by < id) && is_meant {
            let shown = all.into_iter().map(|facts| (facts.identity(), facts));
            source.waiting.insert(key.clone(), shown.collect());
        }
    }

    fn change(&mut self, id: SourceId, key: &WatchKey, step: Observed<T>, passed: &mut Passed<T>) {
        let Some(Some(served)) = self.served.get_mut(key) else { return };
        let Some(source) = self.sources.get_mut(&id) else { return };
        if served.by == id {
            served.version = source.version;
            passed.push((key.clone(), step));
        } else if let Some(shown) = source.waiting.get_mut(key) {
            match step {
                Observed::Apply(facts) => drop(shown.insert(facts.identity(), facts)),
                Observed::Delete(facts) => drop(shown.remove(&facts.identity())),
                Observed::Reset(_) => {}
            }
        }
    }

    /// Gives a watch the keys whose newest version it has reached.
    fn take_over(&mut self, id: SourceId, passed: &mut Passed<T>) {
        let Some(source) = self.sources.get_mut(&id) else { return };
        let (reached, served) = (source.version, &mut self.served);
        let ready = |key: &WatchKey| {
            let served = served.get(key).copied().flatten();
            served.is_some_and(|served| match (served.version, reached) {
                (Some(version), Some(reached)) => version <= reached,
                // Where versions are no numbers, a complete list is as new as it gets.
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            })
        };
        let ready: BTreeSet<WatchKey> = source.waiting.keys().filter(|key| ready(key)).cloned().collect();
        if ready.is_empty() {
            return;
        }
        self.taken_over = true;
        for key in &ready {
            let shown = source.waiting.remove(key).unwrap_or_default();
            served.insert(key.clone(), Some(Served { by: id, version: reached }));
            passed.push((key.clone(), Observed::Reset(shown.into_values().collect())));
        }
        for (_, older) in self.sources.range_mut(..id) {
            older.waiting.retain(|key, _| !ready.contains(key));
        }
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
