//! Where faults come in: an [`Interceptor`] sees each request before and after it takes effect, and each frame of a
//! watch before it is sent.
//!
//! Its answers are data; the waiting is done by the server on tokio's clock, so a simulation can pause it.

use super::error::ApiError;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// The connection broke; the client does not learn whether its request took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was reset")]
pub struct Disconnected;

/// What a request wants.
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
    /// Anything that is no request for a resource: discovery, schemas, health.
    Other,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    /// The number of this request on its front, from 1.
    pub number: u64,
    /// What it wants.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural of the resource; empty for [`Verb::Other`].
    pub resource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Query parameters; of repeated ones the last.
    pub query: BTreeMap<String, String>,
    /// Path of the URL.
    pub path: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The body as sent.
    pub body: Bytes,
}

/// What happens before a request takes effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Before {
    /// It goes on.
    Proceed,
    /// It goes on after a while.
    Delay(Duration),
    /// It is refused, without effect.
    Fail(ApiError),
    /// It is never answered, without effect.
    Hang,
    /// The connection breaks, without effect.
    Disconnect,
}

/// What happens after a request took effect.
#[derive(Debug, Clone, PartialEq)]
pub enum After {
    /// The answer is sent.
    Deliver,
    /// The answer is sent after a while.
    Delay(Duration),
    /// Another answer is sent, although the effect is there.
    Fail(ApiError),
    /// It is never answered, although the effect is there.
    Hang,
    /// The connection breaks, although the effect is there.
    Disconnect,
}

/// One frame of a watch, as an interceptor sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFacts<'a> {
    /// The number of the frame on its watch, from 0.
    pub index: u64,
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'static str,
    /// The resource version that it carries.
    pub revision: u64,
    /// Namespace of the object.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

/// What happens to a frame of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFrame {
    /// It is sent.
    Deliver,
    /// It and what follows is sent after a while.
    Delay(Duration),
    /// It is left out; the watch goes on.
    Hide,
    /// It is sent twice.
    Duplicate,
    /// The watch ends before it, as on a graceful shutdown.
    Close,
    /// The connection breaks in the middle of it.
    Tear,
    /// Nothing comes any more, and the connection stays open.
    Stall,
    /// An ERROR frame with 410 is sent instead, and the watch ends.
    Expire,
    /// The same after a while in which nothing comes.
    ExpireAfter(Duration),
}

/// Decides about faults. All methods default to none.
pub trait Interceptor: Send + Sync {
    /// Before the request takes effect.
    fn before(&self, call: &Call) -> Before {
        let _ = call;
        Before::Proceed
    }

    /// After it took effect, with the status code of its answer.
    fn after(&self, call: &Call, code: u16) -> After {
        let _ = (call, code);
        After::Deliver
    }

    /// Before a frame of a watch is sent.
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
    /// Watches and reads with `resourceVersion=0` (or one that is old enough) show this revision; other reads are
    /// current, as on an API server whose watch cache lags.
    CacheAt(u64),
    /// All reads and watches show this revision, as on an API server whose etcd member lags.
    AllAt(u64),
}
