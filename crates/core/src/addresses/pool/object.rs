//! A pool as the watch shows it.

use super::spec::RawPoolSpec;
use super::status::PoolStatus;
use crate::model::ids::ObjectRef;

/// The finalizer that keeps a pool until the addresses that it gives back are gone.
pub const FINALIZER: &str = "flipop.digitalocean.com/reclaim";

/// A pool as the watch shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolObject {
    /// The pool's name and uid.
    pub object: ObjectRef,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch. It decides which object is older.
    pub created_at_s: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The object has [`FINALIZER`].
    pub guarded: bool,
    /// The text of the pause annotation, if it is present.
    pub paused: Option<String>,
    /// The spec, or why it cannot be read.
    pub spec: Result<RawPoolSpec, String>,
    /// The annotation that asks for a move, if there is one. Unknown if the object cannot be read.
    pub move_request: Option<String>,
    /// The status, including what the operator remembers there.
    pub status: PoolStatus,
}
