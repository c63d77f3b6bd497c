//! The state of the cluster: all objects, one revision counter, and the log of changes.
//!
//! A mutex in [`super::ApiServer`] guards it and is never held across an await. Time and seed are handed in, and
//! nothing waits here. So equal calls in equal order give equal states.
//!
//! Invariants: revision `n` is the `n`-th change. The log holds each revision after `trimmed` exactly once, in order.
//! Objects are never changed in place, so a reader's copy stays unchanged.

use super::error::ApiError;
use super::ids::Ids;
use super::meta::Key;
use super::resource::{Registry, Resource, Storage};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One write to one object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The revision of this change.
    pub revision: u64,
    /// When it was made, by the server's clock.
    pub time: Timestamp,
    /// The storage of the object.
    pub storage: Storage,
    /// The object's namespace and name.
    pub key: Key,
    /// The object before the change. `None` for a creation.
    pub before: Option<Arc<Value>>,
    /// The object after the change. `None` for a deletion.
    pub after: Option<Arc<Value>>,
    /// The field manager that made the change.
    pub manager: String,
}

/// The behaviour of Kubernetes components other than the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    /// How many changes the log keeps.
    pub(crate) history: usize,
    /// The warnings of admission policies for a custom resource.
    pub(crate) advice: fn(&Value) -> Vec<String>,
}

/// The state, as described in the module.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    objects: BTreeMap<Storage, BTreeMap<Key, Arc<Value>>>,
    log: VecDeque<Arc<Change>>,
    /// The newest revision that is no longer in the log.
    trimmed: u64,
    /// Reads and new watches before this revision are refused, as after a compaction in etcd.
    compacted: u64,
    pub(crate) registry: Registry,
    pub(crate) ids: Ids,
    pub(crate) behaviour: Behaviour,
}

impl Store {
    pub(crate) fn new(seed: u64, behaviour: Behaviour) -> Self {
        Self {
            // A fresh cluster starts at 1, because 0 has a special meaning in requests.
            revision: 1,
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            trimmed: 1,
            compacted: 0,
            registry: Registry::builtin(),
            ids: Ids::new(seed),
            behaviour,
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision after which the log is complete.
    pub(crate) fn oldest(&self) -> u64 {
        self.trimmed
    }

    /// The stored form of one object.
    pub(crate) fn get(&self, storage: &Storage, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(storage).and_then(|table| table.get(key))
    }

    /// Like [`Self::get`], but refuses if the object is missing.
    pub(crate) fn require(&self, resource: &Resource, key: &Key) -> Result<Arc<Value>, ApiError> {
        self.get(&resource.storage, key)
            .cloned()
            .ok_or_else(|| ApiError::not_found(&resource.group, &resource.plural, &key.name))
    }

    /// All objects of a storage, ordered by namespace and name.
    pub(crate) fn all(&self, storage: &Storage) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.get(storage).into_iter().flatten()
    }

    /// All objects of a storage as they were at `revision`.
    pub(crate) fn snapshot(
        &self,
        storage: &Storage,
        revision: u64,
    ) -> Result<BTreeMap<Key, Arc<Value>>, ApiError> {
        self.check_known(revision)?;
        let mut table = self.objects.get(storage).cloned().unwrap_or_default();
        for change in self.log.iter().rev().take_while(|change| change.revision > revision) {
            if change.storage != *storage {
                continue;
            }
            match &change.before {
                Some(before) => table.insert(change.key.clone(), Arc::clone(before)),
                None => table.remove(&change.key),
            };
        }
        Ok(table)
    }

    /// Refuses a read or a new watch from before the oldest known revision.
    pub(crate) fn check_known(&self, revision: u64) -> Result<(), ApiError> {
        let oldest = self.compacted.max(self.trimmed);
        if revision < oldest { Err(ApiError::expired(revision, oldest)) } else { Ok(()) }
    }

    /// The changes after `revision`. An error if the log no longer holds all of them.
    pub(crate) fn changes_after(
        &self,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>>, ApiError> {
        if revision < self.trimmed {
            return Err(ApiError::expired(revision, self.trimmed));
        }
        let known = usize::try_from(revision.saturating_sub(self.trimmed)).unwrap_or(usize::MAX);
        Ok(self.log.iter().skip(known))
    }

    /// Forgets everything before `revision`: older reads and new watches are refused. Open watches are not affected.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Writes one change and sets the object's new resource version. Returns the stored object, or for a deletion its
    /// last state.
    pub(crate) fn commit(
        &mut self,
        storage: &Storage,
        key: &Key,
        after: Option<Value>,
        manager: &str,
        now: Timestamp,
    ) -> Option<Arc<Value>> {
        self.revision = self.revision.saturating_add(1);
        let table = self.objects.entry(storage.clone()).or_default();
        let after = after.map(|object| Arc::new(super::meta::with_revision(&object, self.revision)));
        let before = match &after {
            Some(object) => table.insert(key.clone(), Arc::clone(object)),
            None => table.remove(key),
        };
        let result = after.clone().or_else(|| before.clone());
        self.log.push_back(Arc::new(Change {
            revision: self.revision,
            time: now,
            storage: storage.clone(),
            key: key.clone(),
            before,
            after,
            manager: manager.to_owned(),
        }));
        while self.log.len() > self.behaviour.history {
            if let Some(oldest) = self.log.pop_front() {
                self.trimmed = oldest.revision;
            }
        }
        result
    }
}

/// Whole seconds, as in `creationTimestamp`.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
