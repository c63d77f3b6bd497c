//! The subresource `scale` of resources with replicas, as `autoscaling/v1`.

use super::ApiServer;
use super::error::ApiError;
use super::hooks::{Call, Verb};
use super::intent::Intent;
use super::meta::{Key, at, text};
use super::output::{Answer, json_response};
use super::patch::Patch;
use super::request::decode;
use super::write::Edit;
use serde_json::{Value, json};

/// The scale of an object.
fn scale(object: &Value) -> Value {
    let metadata = |field: &str| text(object, field);
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": { "name": metadata("name"), "namespace": metadata("namespace"), "uid": metadata("uid"),
                      "resourceVersion": metadata("resourceVersion"),
                      "creationTimestamp": metadata("creationTimestamp") },
        "spec": { "replicas": at(object, &["spec", "replicas"]).unwrap_or(&json!(1)) },
        "status": { "replicas": at(object, &["status", "replicas"]).unwrap_or(&json!(0)) },
    })
}

impl ApiServer {
    /// Reads or writes the scale of the call's object. A write sets the object's `spec.replicas`.
    pub(super) fn scale(&self, call: &Call, intent: &Intent) -> Answer {
        let key = Key::new(&call.namespace, &call.name);
        let object = self.read(|store| store.require(&intent.resource, &key))?;
        let wanted = match call.verb {
            Verb::Get => return Ok(json_response(200, scale(&object).to_string())),
            Verb::Update => decode(&call.body)?,
            Verb::Patch => Patch::Merge(decode(&call.body)?).apply(&scale(&object))?,
            Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection | Verb::Other => {
                return Err(ApiError::method_not_allowed());
            }
        };
        let replicas = at(&wanted, &["spec", "replicas"]).and_then(Value::as_u64);
        let replicas =
            replicas.ok_or_else(|| ApiError::bad_request("spec.replicas must be a number, 0 or more"))?;
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let outcome = self.write(|store| store.update(intent, &key, &Edit::Patch(patch)))?;
        Ok(json_response(200, scale(&outcome.object).to_string()))
    }
}
