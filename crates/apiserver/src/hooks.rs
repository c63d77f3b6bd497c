//! Fault injection. An [`Interceptor`] sees each request before and after it takes effect, and each frame of a watch
//! before it is sent.
//!
//! An interceptor only returns data. The server does the waiting, on tokio's clock, so a simulation can pause it.

use super::error::ApiError;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// The connection broke. The client does not learn whether its request took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was reset")]
pub struct Disconnected;

/// The verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object (PUT).
    Update,
    /// Change parts of an object.
    Patch,
    /// Delete one object.
    Delete,
    /// Delete many objects.
    DeleteCollection,
    /// Anything but a request for a resource: discovery, schemas, health.
    Other,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    /// The verb.
    pub verb: Verb,
    /// API group. Empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural of the resource. Empty for [`Verb::Other`].
    pub resource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Query parameters. If one is repeated, its last value.
    pub query: BTreeMap<String, String>,
    /// Path of the URL.
    pub path: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The body as sent.
    pub body: Bytes,
}

/// One frame of a watch, as an interceptor sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFacts<'a> {
    /// The number of the frame on its watch, from 0.
    pub index: u64,
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'static str,
    /// The resource version of the frame.
    pub revision: u64,
    /// Namespace of the object.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

/// The fault of a frame of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFrame {
    /// Send it.
    Deliver,
    /// Send it and everything after it later.
    Delay(Duration),
    /// Send it twice.
    Duplicate,
    /// End the watch before it, as in a graceful shutdown.
    Close,
    /// Break the connection in the middle of it.
    Tear,
    /// Send nothing more, and keep the connection open.
    Stall,
    /// Send an ERROR frame with 410 instead, and end the watch.
    Expire,
    /// Like [`OnFrame::Expire`], after a silence.
    ExpireAfter(Duration),
}

/// Decides which faults to inject. Every method defaults to no fault.
pub trait Interceptor: Send + Sync {
    /// The answer to an access review: whether a user may use this verb on a resource, or on a subresource such as
    /// `pods/status`. An empty user is the caller.
    fn allows(&self, user: &str, verb: &str, resource: &str) -> bool {
        let _ = (user, verb, resource);
        true
    }

    /// Called before the request takes effect. An error refuses it.
    ///
    /// # Errors
    /// The refusal.
    fn before(&self, call: &Call) -> Result<(), ApiError> {
        let _ = call;
        Ok(())
    }

    /// Called after it took effect, with the status code of its answer.
    fn after(&self, call: &Call, code: u16) {
        let _ = (call, code);
    }

    /// Called before a frame of a watch is sent.
    fn frame(&self, call: &Call, frame: &FrameFacts<'_>) -> OnFrame {
        let _ = (call, frame);
        OnFrame::Deliver
    }
}

/// No faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct Undisturbed;

impl Interceptor for Undisturbed {}

/// How current the answers of one front are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Everything is current.
    #[default]
    Current,
    /// Watches and reads with `resourceVersion=0` (or an old enough version) show this revision. Other reads are
    /// current. This is an API server whose watch cache lags.
    CacheAt(u64),
    /// All reads and watches show this revision. This is an API server whose etcd member lags.
    AllAt(u64),
}
