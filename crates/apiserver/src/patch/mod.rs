//! The patch formats: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch.
//!
//! Server-side apply is not here, because it needs to know the owner of each field (see `ownership`).

mod json;
mod strategic;

use strategic::strategic_merge;
pub(crate) use strategic::{is_set as list_is_set, merge_key as list_key};

use super::error::ApiError;
use json_patch::merge;
use serde_json::Value;

/// A patch as received, by content type.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Merge(Value),
    Json(Value),
    Strategic(Value),
}

impl Patch {
    /// `object` with the patch applied.
    pub(crate) fn apply(&self, object: &Value) -> Result<Value, ApiError> {
        let mut result = object.clone();
        match self {
            Self::Merge(patch) => merge(&mut result, patch),
            Self::Json(patch) => json::apply(&mut result, patch)?,
            Self::Strategic(patch) => strategic_merge(&mut result, patch),
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_merges_maps_replaces_lists_and_removes_by_null() {
        let mut object = json!({ "a": { "b": 1, "c": [1, 2] }, "d": 1 });
        merge(&mut object, &json!({ "a": { "b": null, "c": [3], "e": { "f": null, "g": 1 } } }));
        assert_eq!(object, json!({ "a": { "c": [3], "e": { "g": 1 } }, "d": 1 }));
    }
}
