//! A condition of an object's status: its type, status and reason are those of the catalog.

use crate::model::catalog::Finding;
pub use crate::model::catalog::types::{ConditionType, Status};
use crate::model::ids::ObjectKind;

/// A condition without its times, which the shell adds. The fields are text, because another version or somebody else
/// may have written the condition on the server. This crate makes its own conditions from a [`Finding`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// Type in `CamelCase`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in `CamelCase`.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Condition {
    /// A condition from this finding.
    pub(crate) fn new(finding: impl Into<Finding>, message: String) -> Self {
        let finding = finding.into();
        Self::of(finding.kind(), finding, message)
    }

    /// A condition from this finding about the DNS records of an object of this kind.
    pub(crate) fn about_records(object: ObjectKind, finding: impl Into<Finding>, message: String) -> Self {
        let finding = finding.into();
        Self::of(finding.kind().about_records(object), finding, message)
    }

    fn of(kind: ConditionType, finding: Finding, message: String) -> Self {
        let (kind, status) = (kind.as_str().to_owned(), finding.status().as_str().to_owned());
        Self { kind, status, reason: finding.reason().to_owned(), message }
    }

    /// The same condition with another message.
    pub(crate) fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// Whether it is of this type.
    pub fn is(&self, kind: ConditionType) -> bool {
        self.kind == kind.as_str()
    }

    /// Whether it has this status.
    pub fn has(&self, status: Status) -> bool {
        self.status == status.as_str()
    }
}
