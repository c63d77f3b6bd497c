//! A record set as the watch shows it.

use super::spec::RawRecordSetSpec;
use super::status::RecordSetStatus;
use crate::model::ids::ObjectRef;

/// A record set as the watch shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordSetObject {
    /// The record set's name and uid.
    pub object: ObjectRef,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch. It decides which object is older.
    pub created_at_s: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The text of the pause annotation, if it is present.
    pub paused: Option<String>,
    /// The spec, or why it cannot be read.
    pub spec: Result<RawRecordSetSpec, String>,
    /// The status.
    pub status: RecordSetStatus,
}
