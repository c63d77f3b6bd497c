//! Watches. Each is a cursor into the log of changes, and is turned into frames on demand.
//!
//! Nothing is pushed and no task runs: the body of the answer pulls from the store when the revision has moved. So an
//! unread watch costs nothing, and a slow reader gets 410 once the log has moved on.

use super::ApiServer;
use super::codec::to_served;
use super::error::ApiError;
use super::hooks::{Call, FrameFacts, OnFrame};
use super::meta::{revision as revision_of, text, with_revision};
use super::output::Rendering;
use super::selector::Selectors;
use super::store::Change;
use bytes::Bytes;
use flipop::latest;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a watch that allows bookmarks gets one, as in apiserver's watch cache.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// A watch gets a last bookmark this long before its end.
const LAST_BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch lasts if the client sets no timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// One frame, not yet encoded.
#[derive(Debug, Clone, Default)]
struct Frame {
    event: &'static str,
    object: Value,
    revision: u64,
    namespace: String,
    name: String,
}

/// The parameters of a watch.
#[derive(Debug, Clone)]
pub(super) struct WatchSpec {
    pub(super) rendering: Rendering,
    pub(super) namespace: String,
    pub(super) selectors: Selectors,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<u64>,
    /// Changes after this revision are sent.
    pub(super) start: u64,
    /// Objects to send first, as ADDED.
    pub(super) initial: Vec<Arc<Value>>,
    /// Whether a marked bookmark follows the initial objects.
    pub(super) mark_initial_end: bool,
    /// Why the watch cannot be served. It is then the only frame.
    pub(super) refusal: Option<ApiError>,
}

pub(super) struct Watcher {
    front: ApiServer,
    call: Call,
    spec: WatchSpec,
    cursor: u64,
    queue: VecDeque<Frame>,
    index: u64,
    ended: bool,
    stalled: bool,
    torn: bool,
    revisions: latest::Receiver<u64>,
    views: latest::Receiver<super::View>,
    cuts: latest::Receiver<u64>,
    end: Instant,
    next_bookmark: Instant,
}

impl Watcher {
    pub(super) fn new(front: ApiServer, call: Call, mut spec: WatchSpec) -> Self {
        let timeout = spec.timeout.filter(|s| *s > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let end = Instant::now() + timeout;
        let mut queue: VecDeque<Frame> = std::mem::take(&mut spec.initial)
            .iter()
            .map(|stored| frame(&spec.rendering, "ADDED", stored, revision_of(stored)))
            .collect();
        if spec.mark_initial_end && spec.refusal.is_none() {
            queue.push_back(bookmark(&spec, spec.start, true));
        }
        let ended = spec.refusal.is_some();
        queue.extend(spec.refusal.as_ref().map(error_frame));
        let mut watcher = Self {
            revisions: front.cluster.revisions.subscribe(),
            views: front.views.subscribe(),
            cuts: front.cuts.subscribe(),
            front,
            call,
            cursor: spec.start,
            spec,
            queue,
            index: 0,
            ended,
            stalled: false,
            torn: false,
            end,
            next_bookmark: end,
        };
        watcher.plan_bookmark();
        watcher
    }

    /// The bytes of the next frame. `None` if the watch is over.
    pub(super) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.torn || self.cuts.has_changed() {
                self.cuts.mark_seen();
                self.torn = false;
                self.ended = true;
                self.queue.clear();
                return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
            }
            if self.stalled {
                std::future::pending::<()>().await;
            }
            if let Some(next) = self.queue.pop_front() {
                if let Some(bytes) = self.send(next).await {
                    return Some(bytes);
                }
                continue;
            }
            if self.ended {
                return None;
            }
            self.pull();
            if self.queue.is_empty() && !self.ended {
                self.wait().await;
            }
        }
    }

    /// Waits for a change, the next bookmark, or the end.
    async fn wait(&mut self) {
        tokio::select! {
            biased;
            _ = self.cuts.changed() => self.torn = true,
            _ = self.revisions.changed() => {}
            _ = self.views.changed() => {}
            // Checked before bookmarks: a reader that slept past the end gets none of the missed ones.
            () = tokio::time::sleep_until(self.end) => self.ended = true,
            () = tokio::time::sleep_until(self.next_bookmark), if self.spec.bookmarks => {
                self.queue.push_back(bookmark(&self.spec, self.cursor, false));
                self.plan_bookmark();
            }
        }
    }

    fn plan_bookmark(&mut self) {
        let now = Instant::now();
        let last = self.end.checked_sub(LAST_BOOKMARK_BEFORE_END).filter(|last| *last > now);
        let regular = now + BOOKMARK_PERIOD;
        self.next_bookmark = last.map_or(self.end + BOOKMARK_PERIOD, |last| regular.min(last));
    }

    /// Takes over the changes since the last call.
    fn pull(&mut self) {
        self.revisions.mark_seen();
        self.views.mark_seen();
        self.spec.rendering.now = self.front.now();
        let news = self.front.changes(self.cursor, &self.spec.rendering.resource);
        let (changes, upto, served) = match news {
            Ok(news) => news,
            Err(error) => {
                self.queue.push_back(error_frame(&error));
                self.ended = true;
                return;
            }
        };
        for change in changes {
            if let Some(frame) = self.transition(&change) {
                self.queue.push_back(frame);
            }
        }
        self.cursor = upto;
        self.ended = !served;
    }

    /// The meaning of a change for this watch: an object that enters the selection is ADDED, one that leaves it is
    /// DELETED.
    fn transition(&self, change: &Change) -> Option<Frame> {
        if !self.spec.namespace.is_empty() && change.key.namespace != self.spec.namespace {
            return None;
        }
        let resource = &self.spec.rendering.resource;
        let selected = |object: &Option<Arc<Value>>| {
            object.as_ref().filter(|o| self.spec.selectors.select(&to_served(resource, o))).cloned()
        };
        let rendering = &self.spec.rendering;
        match (selected(&change.before), selected(&change.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(frame(rendering, "ADDED", &after, change.revision)),
            (Some(_), Some(after)) => Some(frame(rendering, "MODIFIED", &after, change.revision)),
            // The last selected state, with the revision at which it left.
            (Some(before), None) => {
                let left = with_revision(&before, change.revision);
                Some(frame(rendering, "DELETED", &left, change.revision))
            }
        }
    }

    /// The bytes of a frame, subject to the interceptor.
    async fn send(&mut self, next: Frame) -> Option<io::Result<Bytes>> {
        let facts = FrameFacts {
            index: self.index,
            event: next.event,
            revision: next.revision,
            namespace: &next.namespace,
            name: &next.name,
        };
        let decision = self.front.interceptor.frame(&self.call, &facts);
        self.index = self.index.saturating_add(1);
        let bytes = encode(&next);
        match decision {
            OnFrame::Deliver => Some(Ok(bytes)),
            OnFrame::Delay(time) => {
                tokio::time::sleep(time).await;
                Some(Ok(bytes))
            }
            OnFrame::Duplicate => Some(Ok([bytes.clone(), bytes].concat().into())),
            OnFrame::Close => {
                self.queue.clear();
                self.ended = true;
                None
            }
            OnFrame::Tear => {
                self.torn = true;
                Some(Ok(bytes.slice(..bytes.len() / 2)))
            }
            OnFrame::Stall => {
                self.stalled = true;
                None
            }
            OnFrame::Expire | OnFrame::ExpireAfter(_) => {
                if let OnFrame::ExpireAfter(time) = decision {
                    tokio::time::sleep(time).await;
                }
                self.queue.clear();
                self.ended = true;
                Some(Ok(encode(&error_frame(&ApiError::expired(self.cursor, next.revision)))))
            }
        }
    }
}

fn frame(rendering: &Rendering, event: &'static str, stored: &Value, revision: u64) -> Frame {
    Frame {
        event,
        object: rendering.object(stored),
        revision,
        namespace: text(stored, "namespace").to_owned(),
        name: text(stored, "name").to_owned(),
    }
}

fn bookmark(spec: &WatchSpec, revision: u64, initial_events_end: bool) -> Frame {
    let object = spec.rendering.bookmark(revision, initial_events_end);
    Frame { event: "BOOKMARK", object, revision, ..Frame::default() }
}

fn error_frame(error: &ApiError) -> Frame {
    Frame { event: "ERROR", object: error.status(), ..Frame::default() }
}

fn encode(frame: &Frame) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{}\",\"object\":{}}}\n", frame.event, frame.object))
}
