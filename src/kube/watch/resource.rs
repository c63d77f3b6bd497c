//! Objects of our own kinds as a watch shows them, including those that cannot be decoded.

use flipop_core::model::ids::{ObjectName, Uid};
use kube::core::{DeserializeGuard, Resource};
use std::collections::BTreeMap;

/// An object, or the fact that it exists but cannot be decoded.
pub type Seen<K> = Result<K, Undecodable>;

/// An object that the API server accepted, but that our types cannot decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable {
    /// Namespace and name.
    pub name: ObjectName,
    /// Its uid.
    pub uid: Uid,
    /// Its version, for a status write.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `metadata.creationTimestamp`, which orders claims.
    pub created: Option<jiff::Timestamp>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Why it cannot be decoded.
    pub error: String,
}

/// Longest decoding error that is kept, because it goes into a status.
const MAX_ERROR_CHARS: usize = 300;

/// Takes an object out of its guard, without the field ownership, which nobody reads.
#[expect(clippy::result_large_err, reason = "it is the rare case, and moved once")]
pub(super) fn seen<K: Resource>(guard: DeserializeGuard<K>) -> Seen<K> {
    match guard.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Ok(object)
        }
        Err(invalid) => {
            let meta = invalid.metadata;
            Err(Undecodable {
                name: ObjectName::new(meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default()),
                uid: Uid(meta.uid.unwrap_or_default()),
                resource_version: meta.resource_version.unwrap_or_default(),
                generation: meta.generation,
                created: meta.creation_timestamp.map(|time| time.0),
                deleting: meta.deletion_timestamp.is_some(),
                annotations: meta.annotations.unwrap_or_default(),
                error: invalid.error.chars().take(MAX_ERROR_CHARS).collect(),
            })
        }
    }
}
