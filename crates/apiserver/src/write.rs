//! Creates and changes objects: the checks, defaults, stored parts and records of the API server.

use super::codec::{to_served, to_stored};
use super::error::{ApiError, Cause};
use super::intent::{FieldValidation, Intent};
use super::meta::{self, Key, set, text};
use super::patch::Patch;
use super::resource::{Resource, StatusOnCreate};
use super::store::{Store, seconds};
use super::{admission, object_meta, ownership, schema};
use serde_json::{Value, json};
use std::sync::Arc;

/// Field manager of the operator. Admission policies skip its writes.
const OPERATOR: &str = "flipop";

/// The change that a request makes.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    Replace(Value),
    Patch(Patch),
    Apply { configuration: Value, force: bool },
}

/// The result of a write.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// The stored form.
    pub(crate) object: Arc<Value>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

impl Store {
    /// Creates an object from the body of a request.
    pub(crate) fn create(
        &mut self,
        intent: &Intent,
        namespace: &str,
        sent: Value,
    ) -> Result<Outcome, ApiError> {
        let resource = &intent.resource;
        let mut object = to_stored(resource, sent);
        let key = self.name_new(intent, namespace, &mut object)?;
        self.check_namespace(resource, &key)?;
        if self.get(&resource.storage, &key).is_some() {
            return Err(ApiError::already_exists(&resource.group, &resource.plural, &key.name));
        }
        if !text(&object, "resourceVersion").is_empty() {
            return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let uid = self.ids.uid();
        set(&mut object, "uid", Value::String(uid));
        set(&mut object, "creationTimestamp", Value::String(seconds(intent.now)));
        for field in
            ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generation"]
        {
            set(&mut object, field, Value::Null);
        }
        if resource.generation {
            set(&mut object, "generation", json!(1));
        }
        admission::complete(resource, &mut object);
        // An apply owns what it contains; a create also owns the defaults. Nobody owns what the server adds later.
        let applied = (intent.writer.operation == "Apply").then(|| object.clone());
        let mut warnings = check(intent, None, &mut object)?;
        warnings.extend(self.advice(intent, &object));
        let mut owned = applied.unwrap_or_else(|| object.clone());
        if resource.status {
            meta::remove(&mut owned, "status");
        }
        ownership::record_update(resource, &intent.writer, None, &mut owned, &seconds(intent.now));
        let managed = meta::at(&owned, &["metadata", "managedFields"]).cloned().unwrap_or_default();
        set(&mut object, "managedFields", managed);
        initial_status(resource, &mut object);
        admission::settle(resource, &mut object, intent.now);
        let object = self.finish(intent, &key, object);
        Ok(Outcome { object, created: true, warnings })
    }

    /// Changes an object. A PUT or apply may also create it.
    pub(crate) fn update(&mut self, intent: &Intent, key: &Key, edit: &Edit) -> Result<Outcome, ApiError> {
        let resource = &intent.resource;
        let Some(existing) = self.get(&resource.storage, key).cloned() else {
            return self.create_by_update(intent, key, edit);
        };
        let served = to_served(resource, &existing);
        let candidate = candidate(intent, &served, edit)?;
        check_identity(key, &candidate)?;
        check_versions(intent, key, &existing, &candidate, edit)?;
        let mut object = combine(intent, &existing, to_stored(resource, candidate));
        admission::complete(resource, &mut object);
        let mut warnings = check(intent, Some(&existing), &mut object)?;
        warnings.extend(self.advice(intent, &object));
        if resource.generation && !intent.is_status() && spec_differs(resource, &existing, &object) {
            let generation = meta::at(&existing, &["metadata", "generation"]).and_then(Value::as_i64);
            set(&mut object, "generation", json!(generation.unwrap_or_default().saturating_add(1)));
        }
        if !matches!(edit, Edit::Apply { .. }) {
            let time = seconds(intent.now);
            ownership::record_update(resource, &intent.writer, Some(&existing), &mut object, &time);
        }
        admission::settle(resource, &mut object, intent.now);
        if object == *existing {
            return Ok(Outcome { object: existing, created: false, warnings });
        }
        let object = if meta::is_terminating(&object) && !meta::has_finalizers(&object) && !intent.dry_run {
            self.remove_now(&resource.storage, key, &intent.writer.manager, intent.now);
            Arc::new(object)
        } else {
            self.finish(intent, key, object)
        };
        Ok(Outcome { object, created: false, warnings })
    }

    fn create_by_update(&mut self, intent: &Intent, key: &Key, edit: &Edit) -> Result<Outcome, ApiError> {
        let resource = &intent.resource;
        let mut sent = match edit {
            Edit::Replace(value) if resource.create_on_update => value.clone(),
            Edit::Apply { configuration, .. } if !intent.is_status() => configuration.clone(),
            Edit::Replace(_) | Edit::Patch(_) | Edit::Apply { .. } => {
                return Err(ApiError::not_found(&resource.group, &resource.plural, &key.name));
            }
        };
        check_identity(key, &sent)?;
        if !text(&sent, "uid").is_empty() {
            let why = "uid mismatch: the provided object specified a uid, and no existing object was found";
            return Err(ApiError::conflict(&resource.group, &resource.plural, &key.name, why));
        }
        set(&mut sent, "name", Value::String(key.name.clone()));
        set(&mut sent, "resourceVersion", Value::Null);
        self.create(intent, &key.namespace, sent)
    }

    /// The key of a new object. Generates the name if requested.
    fn name_new(&mut self, intent: &Intent, namespace: &str, object: &mut Value) -> Result<Key, ApiError> {
        let stated = text(object, "namespace");
        let (wanted, fits) = if intent.resource.namespaced {
            (namespace, stated.is_empty() || stated == namespace)
        } else {
            ("", stated.is_empty())
        };
        if !fits {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let prefix = text(object, "generateName").to_owned();
        let mut name = text(object, "name").to_owned();
        if name.is_empty() && !prefix.is_empty() {
            name = format!("{prefix}{}", self.ids.name_tail());
        }
        if name.is_empty() {
            let mut cause = Cause::required("metadata.name");
            "Required value: name or generateName is required".clone_into(&mut cause.message);
            return Err(intent.resource.invalid("", &[cause]));
        }
        if !admission::is_name(&intent.resource, &name) {
            let cause = Cause::invalid("metadata.name", &json!(name), admission::NAME_RULE);
            return Err(intent.resource.invalid(&name, &[cause]));
        }
        set(object, "name", Value::String(name.clone()));
        if intent.resource.namespaced {
            set(object, "namespace", Value::String(wanted.to_owned()));
        }
        Ok(Key::new(wanted, &name))
    }

    fn check_namespace(&self, resource: &Resource, key: &Key) -> Result<(), ApiError> {
        if !resource.namespaced {
            return Ok(());
        }
        let storage = super::resource::Storage::new("", "namespaces");
        match self.get(&storage, &Key::new("", &key.namespace)) {
            None => Err(ApiError::not_found("", "namespaces", &key.namespace)),
            Some(namespace) if meta::is_terminating(namespace) => {
                let why = format!(
                    "unable to create new content in namespace {} because it is being terminated",
                    key.namespace
                );
                let mut error = ApiError::forbidden(&resource.group, &resource.plural, &key.name, &why);
                let message = format!("namespace {} is being terminated", key.namespace);
                let field = "metadata.namespace".to_owned();
                error.set_causes(json!([Cause { reason: "NamespaceTerminating", field, message }]));
                Err(error)
            }
            Some(_) => Ok(()),
        }
    }

    /// The warnings of admission policies, unless the operator writes.
    fn advice(&self, intent: &Intent, object: &Value) -> Vec<String> {
        let asked =
            intent.resource.custom.is_some() && !intent.is_status() && intent.writer.manager != OPERATOR;
        if asked { (self.behaviour.advice)(object) } else { Vec::new() }
    }

    /// Stores the object unless this is a dry run.
    fn finish(&mut self, intent: &Intent, key: &Key, object: Value) -> Arc<Value> {
        if intent.dry_run {
            return Arc::new(object);
        }
        let storage = &intent.resource.storage;
        let stored = self.commit(storage, key, Some(object), &intent.writer.manager, intent.now);
        self.follow_up(storage, key, intent.now);
        stored.unwrap_or_default()
    }
}

/// The object that the request would produce, in the version of the request.
fn candidate(intent: &Intent, served: &Value, edit: &Edit) -> Result<Value, ApiError> {
    match edit {
        Edit::Replace(value) => Ok(value.clone()),
        Edit::Patch(patch) => patch.apply(served),
        Edit::Apply { configuration, force } => {
            let mut configuration = configuration.clone();
            if intent.is_status() {
                meta::as_map(&mut configuration).retain(|field, _| field == "status" || field == "metadata");
            } else if intent.resource.status {
                meta::remove(&mut configuration, "status");
            }
            let time = seconds(intent.now);
            ownership::apply(&intent.resource, &intent.writer, served, &configuration, *force, &time)
        }
    }
}

fn initial_status(resource: &Resource, object: &mut Value) {
    if !resource.status {
        return;
    }
    match resource.status_on_create {
        StatusOnCreate::Keep => {}
        StatusOnCreate::Drop => {
            meta::remove(object, "status");
            // A real server adds the default of an absent status whenever it reads the object.
            if let Some(custom) = &resource.custom {
                schema::set_defaults(object, &custom.schema);
            }
        }
        StatusOnCreate::Phase(phase) => meta::set_at(object, &["status"], json!({ "phase": phase })),
    }
}

/// Checks schema, names and labels. Returns warnings for the client.
fn check(intent: &Intent, old: Option<&Value>, object: &mut Value) -> Result<Vec<String>, ApiError> {
    let resource = &intent.resource;
    let name = text(object, "name").to_owned();
    let mut warnings = Vec::new();
    if let Some(custom) = &resource.custom {
        object_meta::check(resource, object)?;
        let mut unknown = schema::prune(object, &custom.schema);
        unknown.extend(object_meta::prune(object));
        if old.is_none() && resource.status && !intent.is_status() {
            // The status is not stored, so its values do not matter.
            meta::remove(object, "status");
        }
        match intent.validation {
            FieldValidation::Strict if !unknown.is_empty() => {
                let listed: Vec<String> = unknown.iter().map(|f| format!("unknown field \"{f}\"")).collect();
                let message = format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                    resource.kind,
                    resource.version,
                    resource.kind,
                    listed.join(", ")
                );
                return Err(ApiError::bad_request(message));
            }
            FieldValidation::Warn => {
                warnings.extend(unknown.iter().map(|f| format!("unknown field \"{f}\"")));
            }
            FieldValidation::Strict | FieldValidation::Ignore => {}
        }
        schema::set_defaults(object, &custom.schema);
        let causes = schema::validate(object, old, &custom.schema);
        if !causes.is_empty() {
            return Err(resource.invalid(&name, &causes));
        }
    }
    admission::validate(resource, object)?;
    Ok(warnings)
}

fn check_identity(key: &Key, candidate: &Value) -> Result<(), ApiError> {
    for (what, of_url) in [("name", &key.name), ("namespace", &key.namespace)] {
        let stated = text(candidate, what);
        if !stated.is_empty() && stated != of_url {
            let why = format!(
                "the {what} of the object ({stated}) does not match the {what} on the URL ({of_url})"
            );
            return Err(ApiError::bad_request(why));
        }
    }
    Ok(())
}

/// Checks optimistic concurrency and the identity of the object.
fn check_versions(
    intent: &Intent,
    key: &Key,
    existing: &Value,
    candidate: &Value,
    edit: &Edit,
) -> Result<(), ApiError> {
    let resource = &intent.resource;
    let (sent_uid, uid) = (text(candidate, "uid"), text(existing, "uid"));
    let is_put = matches!(edit, Edit::Replace(_));
    if is_put && !sent_uid.is_empty() && sent_uid != uid {
        let why = format!("Precondition failed: UID in precondition: {sent_uid}, UID in object meta: {uid}");
        return Err(ApiError::conflict(&resource.group, &resource.plural, &key.name, &why));
    }
    let sent = text(candidate, "resourceVersion");
    if sent.is_empty() && is_put && !resource.unconditional_update {
        let why = "must be specified for an update";
        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
        return Err(ApiError::invalid(&resource.group, &resource.plural, &key.name, &[cause]));
    }
    // An apply does not carry over the existing version: only a version in the configuration itself counts.
    let sent = match edit {
        Edit::Apply { configuration, .. } => text(configuration, "resourceVersion"),
        Edit::Replace(_) | Edit::Patch(_) => sent,
    };
    if !sent.is_empty() && sent != text(existing, "resourceVersion") {
        return Err(ApiError::modified(&resource.group, &resource.plural, &key.name));
    }
    let sent_uid = match edit {
        Edit::Apply { configuration, .. } => text(configuration, "uid"),
        Edit::Replace(_) | Edit::Patch(_) => sent_uid,
    };
    if !sent_uid.is_empty() && sent_uid != uid {
        let cause = Cause::invalid("metadata.uid", &json!(sent_uid), "field is immutable");
        return Err(resource.invalid(&key.name, &[cause]));
    }
    Ok(())
}

/// The existing object with the parts of the candidate that this request may write.
fn combine(intent: &Intent, existing: &Value, candidate: Value) -> Value {
    let resource = &intent.resource;
    let managed = meta::at(&candidate, &["metadata", "managedFields"]).filter(|m| m.is_array()).cloned();
    let take = |object: &mut Value, field: &str, from: &Value| match from.get(field) {
        Some(value) => meta::set_at(object, &[field], value.clone()),
        None => meta::remove(object, field),
    };
    let mut object = if intent.is_status() && resource.custom.is_some() {
        let mut object = existing.clone();
        take(&mut object, "status", &candidate);
        object
    } else if intent.is_status() {
        let mut object = candidate;
        take(&mut object, "spec", existing);
        object
    } else {
        let mut object = candidate;
        if resource.status {
            take(&mut object, "status", existing);
        }
        object
    };
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    ] {
        let kept = meta::at(existing, &["metadata", field]).cloned().unwrap_or_default();
        set(&mut object, field, kept);
    }
    let managed =
        managed.or_else(|| meta::at(existing, &["metadata", "managedFields"]).cloned()).unwrap_or_default();
    set(&mut object, "managedFields", managed);
    object
}

/// Whether anything changed except metadata, and except the status if it is a subresource.
fn spec_differs(resource: &Resource, old: &Value, new: &Value) -> bool {
    let skip = |field: &str| field == "metadata" || (field == "status" && resource.status);
    let part = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(field, _)| !skip(field))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    part(old) != part(new)
}
