//! The parts of a write request that do not depend on the object.

use super::ownership::Writer;
use super::resource::Resource;
use jiff::Timestamp;
use std::sync::Arc;

/// How to treat fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// How a request writes, whatever it writes.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    pub(crate) resource: Arc<Resource>,
    pub(crate) writer: Writer,
    pub(crate) now: Timestamp,
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
}

impl Intent {
    pub(crate) fn is_status(&self) -> bool {
        self.writer.subresource == "status"
    }
}
