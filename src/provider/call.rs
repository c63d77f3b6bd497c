//! The parts of every call to a provider: the object that it is for, and maybe no result.
//!
//! Owns the types that the HTTP layer and all services of the providers share. So it imports none of these.

use crate::permit::PermitEnded;
use flipop_core::model::{ActionId, ActionStatus, Fault};
use futures::future::BoxFuture;

/// The object that a call is made for. Its fields label metrics and log lines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CallContext {
    /// Kind of the object. Empty for calls that serve the whole account.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl CallContext {
    /// The context of calls that serve every object of an account.
    pub fn account_wide() -> Self {
        Self::default()
    }

    /// The context of calls for one object.
    pub fn object(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// A call under way that changes nothing.
pub(super) type Reading<'a, T> = BoxFuture<'a, Result<T, Fault>>;

/// A call under way that may change something.
pub(super) type Changing<'a, T> = BoxFuture<'a, Result<T, CallError>>;

/// Why a mutating call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No byte of the request was written, because the leadership was over, or nearly so.
    #[error("failed to start the call: {0}")]
    NotSent(PermitEnded),
    /// The request was made and failed.
    #[error("{0}")]
    Fault(Fault),
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<PermitEnded> for CallError {
    fn from(ended: PermitEnded) -> Self {
        Self::NotSent(ended)
    }
}

/// A provider's asynchronous operation on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Its id, unique in the account.
    pub id: ActionId,
    /// Its progress.
    pub status: ActionStatus,
}
