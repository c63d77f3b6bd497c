//! What is told to the outside about each call: the hook for metrics.

use crate::provider::CallContext;
use std::time::Duration;

/// How a call ended, as the metric's label has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It succeeded, or the provider is still at work on it.
    Success,
    /// It failed.
    Error,
}

impl Outcome {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// One finished call.
#[derive(Debug, Clone, Copy)]
pub struct CallRecord<'a> {
    /// Name of the provider.
    pub provider: &'static str,
    /// Name of the operation, such as `AssignIP`: one operation may be several HTTP requests.
    pub call: &'static str,
    /// For which object.
    pub context: &'a CallContext,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// Hears of each finished call. Called on the caller's task: must not block.
pub trait CallObserver: Send + Sync {
    /// A call has ended. Calls that were never sent for want of a permit are no calls.
    fn call_ended(&self, record: CallRecord<'_>);
}

/// An observer that drops what it hears.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl CallObserver for NoObserver {
    fn call_ended(&self, _record: CallRecord<'_>) {}
}
