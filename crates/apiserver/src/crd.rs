//! `CustomResourceDefinition`s: their required content, and the resources they define.

use super::error::{ApiError, Cause};
use super::meta::{as_map, at, list_at, set_at, text, text_at};
use super::resource::{Custom, PrinterColumn, Resource, StatusOnCreate, Storage};
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";

/// Refuses a definition whose outline a real API server would refuse.
pub(crate) fn validate(definition: &Value) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    for path in [["group", ""], ["scope", ""], ["names", "plural"], ["names", "kind"]] {
        let steps: Vec<&str> = path.into_iter().filter(|step| !step.is_empty()).collect();
        if text_at(spec, &steps).is_empty() {
            causes.push(Cause::required(format!("spec.{}", steps.join("."))));
        }
    }
    let name = text(definition, "name");
    let expected = format!("{}.{}", text_at(spec, &["names", "plural"]), text_at(spec, &["group"]));
    if name != expected {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &Value::from(name), why));
    }
    let versions = list_at(spec, &["versions"]);
    let stored = versions.iter().filter(|version| is_stored(version)).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &Value::from(versions.len()), why));
    }
    for (index, version) in versions.iter().enumerate() {
        if at(version, &["schema", "openAPIV3Schema"]).is_none() {
            causes.push(Cause::required(format!("spec.versions[{index}].schema.openAPIV3Schema")));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(GROUP, "CustomResourceDefinition", name, &causes))
}

/// Fills in the derived names and the conversion.
pub(crate) fn complete(definition: &mut Value) {
    let kind = text_at(definition, &["spec", "names", "kind"]).to_owned();
    if text_at(definition, &["spec", "names", "singular"]).is_empty() {
        set_at(definition, &["spec", "names", "singular"], Value::String(kind.to_lowercase()));
    }
    if text_at(definition, &["spec", "names", "listKind"]).is_empty() {
        set_at(definition, &["spec", "names", "listKind"], Value::String(format!("{kind}List")));
    }
    if at(definition, &["spec", "conversion"]).is_none() {
        set_at(definition, &["spec", "conversion"], json!({ "strategy": "None" }));
    }
}

/// The status of an accepted definition.
pub(crate) fn accept(definition: &mut Value, now: &str) {
    let names = at(definition, &["spec", "names"]).cloned().unwrap_or_default();
    let stored = list_at(definition, &["spec", "versions"]).iter().filter(|version| is_stored(version));
    let stored: Vec<Value> = stored.filter_map(|version| version.get("name").cloned()).collect();
    let since = match at(definition, &["status", "conditions"]).and_then(|c| c.get(0)) {
        Some(condition) => text_at(condition, &["lastTransitionTime"]).to_owned(),
        None => now.to_owned(),
    };
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since });
    let status = json!({
        "acceptedNames": names,
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
    as_map(definition).insert("status".to_owned(), status);
}

/// The storage of a definition's objects.
pub(crate) fn storage(definition: &Value) -> Storage {
    Storage::new(text_at(definition, &["spec", "group"]), text_at(definition, &["spec", "names", "plural"]))
}

/// The resources of a definition: one for each served version.
pub(crate) fn resources(definition: &Value) -> Vec<Resource> {
    let versions = list_at(definition, &["spec", "versions"]);
    let stored = versions.iter().find(|version| is_stored(version)).unwrap_or(&Value::Null);
    let served = versions.iter().filter(|version| version.get("served") == Some(&Value::Bool(true)));
    served.map(|version| resource(definition, version, text_at(stored, &["name"]))).collect()
}

fn is_stored(version: &Value) -> bool {
    version.get("storage") == Some(&Value::Bool(true))
}

fn resource(definition: &Value, version: &Value, storage_version: &str) -> Resource {
    let spec = |path: &[&str]| text_at(definition, &[&["spec"], path].concat());
    let names = |field: &str| {
        let list = list_at(definition, &["spec", "names", field]).iter();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let version_name = text_at(version, &["name"]);
    Resource {
        list_kind: spec(&["names", "listKind"]).to_owned(),
        singular: spec(&["names", "singular"]).to_owned(),
        short_names: names("shortNames"),
        categories: names("categories"),
        namespaced: spec(&["scope"]) == "Namespaced",
        status: at(version, &["subresources", "status"]).is_some(),
        status_on_create: StatusOnCreate::Drop,
        generation: true,
        unconditional_update: false,
        storage_version: storage_version.to_owned(),
        custom: Some(Arc::new(custom(version))),
        ..Resource::new(spec(&["group"]), version_name, spec(&["names", "kind"]), spec(&["names", "plural"]))
    }
}

fn custom(version: &Value) -> Custom {
    let columns = list_at(version, &["additionalPrinterColumns"]).iter();
    let fields = list_at(version, &["selectableFields"]).iter();
    Custom {
        schema: at(version, &["schema", "openAPIV3Schema"]).cloned().unwrap_or_default(),
        columns: columns.map(|column| PrinterColumn::deserialize(column).unwrap_or_default()).collect(),
        selectable_fields: fields.map(|field| text_at(field, &["jsonPath"]).to_owned()).collect(),
    }
}
