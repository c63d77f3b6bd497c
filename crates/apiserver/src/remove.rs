//! Deletes objects, and does what follows from a write: served resources, emptied namespaces, node taints.
//!
//! Kubernetes leaves namespace deletion and node taints to controllers. Here they act within the same call, like very
//! fast controllers, so none needs a task.

use super::error::ApiError;
use super::intent::Intent;
use super::meta::{self, Key, set, text};
use super::ownership::{self, Writer};
use super::resource::Storage;
use super::store::{Store, seconds};
use super::{admission, crd};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

/// The field manager of what controllers write.
const CONTROLLER: &str = "kube-controller-manager";

/// Seconds that a pod gets to stop if neither the request nor the pod says otherwise.
const POD_GRACE_SECONDS: i64 = 30;

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) dry_run: bool,
}

/// The result of a deletion.
#[derive(Debug, Clone)]
pub(crate) enum Deleted {
    /// The object is gone. This was its last state.
    Gone(Arc<Value>),
    /// The object is marked, and waits for its finalizers or its kubelet.
    Marked(Arc<Value>),
}

impl Store {
    /// Deletes one object.
    pub(crate) fn delete(
        &mut self,
        intent: &Intent,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        let resource = &intent.resource;
        let existing = self.require(resource, key)?;
        for (what, wanted, found) in [
            ("UID", &options.uid, text(&existing, "uid")),
            ("ResourceVersion", &options.resource_version, text(&existing, "resourceVersion")),
        ] {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The \
                     object might have been deleted and then recreated"
                );
                return Err(ApiError::conflict(&resource.group, &resource.kind, &key.name, &why));
            }
        }
        if intent.dry_run || options.dry_run {
            return Ok(Deleted::Gone(existing));
        }
        let grace = grace(intent, &existing, options);
        let waits = meta::has_finalizers(&existing) || resource.is("", "namespaces");
        let mut last = existing;
        if (waits || grace > 0) && !meta::is_terminating(&last) {
            last = self.mark(intent, key, &last, grace);
        }
        if resource.is("", "namespaces") {
            self.empty_namespace(&key.name, &intent.writer.manager, intent.now);
            return Ok(match self.get(&resource.storage, key) {
                Some(namespace) => Deleted::Marked(Arc::clone(namespace)),
                None => Deleted::Gone(last),
            });
        }
        if waits {
            return Ok(Deleted::Marked(last));
        }
        self.remove_now(&resource.storage, key, &intent.writer.manager, intent.now);
        Ok(Deleted::Gone(last))
    }

    fn mark(&mut self, intent: &Intent, key: &Key, object: &Value, grace: i64) -> Arc<Value> {
        let mut marked = object.clone();
        let until = intent.now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(intent.now);
        set(&mut marked, "deletionTimestamp", Value::String(seconds(until)));
        set(&mut marked, "deletionGracePeriodSeconds", json!(grace));
        if intent.resource.generation {
            let generation = meta::at(object, &["metadata", "generation"]).and_then(Value::as_i64);
            set(&mut marked, "generation", json!(generation.unwrap_or_default().saturating_add(1)));
        }
        if intent.resource.is("", "namespaces") {
            meta::set_at(&mut marked, &["status", "phase"], json!("Terminating"));
        }
        let storage = &intent.resource.storage;
        self.commit(storage, key, Some(marked), &intent.writer.manager, intent.now).unwrap_or_default()
    }

    /// Removes an object for good, along with everything that depends on it.
    pub(crate) fn remove_now(&mut self, storage: &Storage, key: &Key, manager: &str, now: Timestamp) {
        if *storage == Storage::new(crd::GROUP, crd::PLURAL)
            && let Some(definition) = self.get(storage, key).cloned()
        {
            let instances = crd::storage(&definition);
            let keys: Vec<Key> = self.all(&instances).map(|(key, _)| key.clone()).collect();
            for instance in keys {
                self.commit(&instances, &instance, None, CONTROLLER, now);
            }
            self.registry.remove(&instances);
        }
        self.commit(storage, key, None, manager, now);
        if !key.namespace.is_empty() {
            self.finish_namespace(&key.namespace, now);
        }
    }

    /// Deletes everything in a namespace, then the namespace itself unless finalizers keep something.
    fn empty_namespace(&mut self, namespace: &str, manager: &str, now: Timestamp) {
        for (storage, key, object) in self.contents(namespace) {
            if !meta::has_finalizers(&object) {
                self.commit(&storage, &key, None, manager, now);
            } else if !meta::is_terminating(&object) {
                let mut marked = (*object).clone();
                set(&mut marked, "deletionTimestamp", Value::String(seconds(now)));
                set(&mut marked, "deletionGracePeriodSeconds", json!(0));
                self.commit(&storage, &key, Some(marked), manager, now);
            }
        }
        self.finish_namespace(namespace, now);
    }

    fn contents(&self, namespace: &str) -> Vec<(Storage, Key, Arc<Value>)> {
        let mut found = Vec::new();
        let storages: std::collections::BTreeSet<Storage> =
            self.registry.iter().filter(|r| r.namespaced).map(|r| r.storage.clone()).collect();
        for storage in storages {
            for (key, object) in self.all(&storage).filter(|(key, _)| key.namespace == namespace) {
                found.push((storage.clone(), key.clone(), Arc::clone(object)));
            }
        }
        found
    }

    /// Removes a namespace that is being deleted and is now empty.
    fn finish_namespace(&mut self, namespace: &str, now: Timestamp) {
        let (storage, key) = (Storage::new("", "namespaces"), Key::new("", namespace));
        let terminating = self.get(&storage, &key).is_some_and(|object| meta::is_terminating(object));
        if terminating && self.contents(namespace).is_empty() {
            self.commit(&storage, &key, None, CONTROLLER, now);
        }
    }

    /// Does what follows from a write to an existing object.
    pub(crate) fn follow_up(&mut self, storage: &Storage, key: &Key, now: Timestamp) {
        let Some(object) = self.get(storage, key).cloned() else { return };
        if *storage == Storage::new(crd::GROUP, crd::PLURAL) {
            self.registry.remove(&crd::storage(&object));
            for resource in crd::resources(&object) {
                self.registry.insert(resource);
            }
        }
        let is_node = *storage == Storage::new("", "nodes");
        let tainted = is_node.then(|| admission::with_condition_taints(&object, now)).flatten();
        if let (Some(mut node), Some(resource)) = (tainted, self.registry.stored(storage)) {
            let writer =
                Writer { manager: CONTROLLER.to_owned(), operation: "Update", subresource: String::new() };
            ownership::record_update(&resource, &writer, Some(&object), &mut node, &seconds(now));
            self.commit(storage, key, Some(node), CONTROLLER, now);
        }
    }
}

/// Seconds that the object may take to stop. Only pods bound to a node need any.
fn grace(intent: &Intent, object: &Value, options: &DeleteOptions) -> i64 {
    let bound = !meta::text_at(object, &["spec", "nodeName"]).is_empty();
    if !intent.resource.is("", "pods") || !bound {
        return 0;
    }
    let own = meta::at(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    options.grace_seconds.or(own).unwrap_or(POD_GRACE_SECONDS)
}
