//! The spec of a pool in a document, as the operator reads it.

use super::manifest::Document;
use super::pools::{POOL_KIND, parsed};
use flipop::api::FloatingIPPool;
use flipop::api::translate::pool::pool_object;
use flipop_core::addresses::pool::spec::{PoolSpec, RawPoolSpec};

/// The pool's spec; `None` for other objects and for unreadable ones, which the API server refuses.
pub(super) fn pool_spec(document: &Document) -> Option<PoolSpec> {
    raw_spec(document).filter(|_| document.is(POOL_KIND)).map(|raw| parsed(&raw))
}

/// The spec as written; `None` if the document cannot be read as a pool.
pub(super) fn raw_spec(document: &Document) -> Option<RawPoolSpec> {
    let pool: FloatingIPPool = serde_json::from_value(document.value.clone()).ok()?;
    pool_object(&Ok(pool)).spec.ok()
}
