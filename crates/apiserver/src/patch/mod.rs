//! The patch formats: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch.
//!
//! Server-side apply is not here, because it needs to know the owner of each field (see `ownership`).

mod json;
mod strategic;

use strategic::strategic_merge;
pub(crate) use strategic::{is_set as list_is_set, merge_key as list_key};

use super::error::ApiError;
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
            Self::Merge(patch) => json_patch::merge(&mut result, patch),
            Self::Json(patch) => json::apply(&mut result, patch)?,
            Self::Strategic(patch) => strategic_merge(&mut result, patch),
        }
        Ok(result)
    }
}
