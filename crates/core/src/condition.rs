//! A condition of an object's status.

/// A condition without its times, which the shell adds.
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
    /// One of this type, with status, reason and message.
    pub(crate) fn new(kind: &str, status: &str, reason: &str, message: String) -> Self {
        Self { kind: kind.to_owned(), status: status.to_owned(), reason: reason.to_owned(), message }
    }
}
