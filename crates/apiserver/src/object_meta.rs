//! `metadata` as the API server decodes it: the known fields and their types.

use super::error::ApiError;
use super::meta::at;
use super::resource::Resource;
use serde_json::Value;

/// The fields of `ObjectMeta`, each with its type.
const FIELDS: [(&str, Type); 15] = [
    ("name", Type::Text),
    ("generateName", Type::Text),
    ("namespace", Type::Text),
    ("selfLink", Type::Text),
    ("uid", Type::Text),
    ("resourceVersion", Type::Text),
    ("generation", Type::Number),
    ("creationTimestamp", Type::Text),
    ("deletionTimestamp", Type::Text),
    ("deletionGracePeriodSeconds", Type::Number),
    ("labels", Type::Texts),
    ("annotations", Type::Texts),
    ("ownerReferences", Type::List),
    ("finalizers", Type::List),
    ("managedFields", Type::List),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Number,
    Texts,
    List,
}

impl Type {
    fn fits(self, value: &Value) -> bool {
        match (self, value) {
            // As in Go, null is the zero value of every type.
            (_, Value::Null) => true,
            (Self::Text, value) => value.is_string(),
            (Self::Number, value) => value.is_i64(),
            (Self::List, value) => value.is_array(),
            (Self::Texts, Value::Object(map)) => {
                map.values().all(|value| value.is_string() || value.is_null())
            }
            (Self::Texts, _) => false,
        }
    }
}

/// Removes unknown fields of `metadata`. Returns their paths.
pub(crate) fn prune(object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            let known = FIELDS.iter().any(|(field, _)| field == name);
            if !known {
                unknown.push(format!("metadata.{name}"));
            }
            known
        });
    }
    unknown
}

/// Refuses metadata that cannot be decoded.
pub(crate) fn check(resource: &Resource, object: &Value) -> Result<(), ApiError> {
    let refused = |field: &str| {
        let kind = &resource.kind;
        ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: cannot decode {field}: wrong type",
            resource.version
        ))
    };
    match object.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(refused("metadata"));
        }
    }
    let mut fields = FIELDS.iter();
    let wrong = fields.find(|(name, kind)| !at(object, &["metadata", name]).is_none_or(|v| kind.fits(v)));
    wrong.map_or(Ok(()), |(name, _)| Err(refused(&format!("metadata.{name}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_that_metadata_does_not_have_is_removed_and_named() {
        let mut object =
            json!({ "metadata": { "name": "a", "lables": { "x": "y" }, "labels": { "x": "y" } } });
        assert_eq!(prune(&mut object), ["metadata.lables"]);
        assert_eq!(object, json!({ "metadata": { "name": "a", "labels": { "x": "y" } } }));
    }
}
