//! The list-then-watch loop.
//!
//! Built on its own lists ([`page`]) and events ([`events`]) instead of `kube::runtime::watcher`. The watcher hides the
//! version of a list, which is needed to recognise an outdated one. It has no deadline for lists and for the start of a
//! watch, loops on a 410 that comes as an HTTP status, and drops an event that it cannot decode.

use super::events::{self, Event};
use super::health::Registration;
use super::messages::Teller;
use super::page::{self, Form, MAX_PAGES, PAGE_SIZE, Page};
use super::{Sink, Target, WatchContext, WatchHealth, WatchName};
use crate::kube::objects::protobuf::Wire;
use crate::kube::trouble::{Trouble, TroubleKind};
use flipop_core::model::{Moment, Observed};
use futures::{FutureExt as _, Stream, StreamExt};
use kube::Api;
use kube::api::{ListParams, WatchParams};
use kube::core::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest wait for one page. A page of a large cluster takes a second; a hung server never answers.
const PAGE_TIMEOUT_MS: u64 = 30_000;

/// How often a page is tried before everything read so far is discarded.
const PAGE_TRIES: u32 = 4;
const PAGE_PAUSE_MS: u64 = 1_000;

/// Longest wait for a watch to start: the server answers at once or not at all. If the next pooled connection is dead
/// too, this limit and [`SILENCE_MS`] add up to 60 s. docs/concepts/health.md promises 65 s.
const START_TIMEOUT_MS: u64 = 5_000;

/// The server ends a watch after this long. Longer silence means a dead connection.
const SERVER_TIMEOUT_S: u32 = 50;

/// A watch that says nothing for this long, not even its end, is dead.
const SILENCE_MS: u64 = 55_000;

/// A watch that ends sooner than this counts as a failure, so that nothing spins.
const SHORTEST_WATCH_MS: u64 = 1_000;

/// A watch resumes where it was only if the server was heard this recently. After a longer gap, the server may have
/// been restored from a backup, and a watch would wait for a version that the server has not reached.
const RESUME_MS: u64 = 30_000;

/// Limits of the backoff. Each wait is drawn from the upper half of its step.
const BACKOFF_FIRST_MS: u64 = 1_000;
const BACKOFF_MAX_MS: u64 = 5_000;

/// Longest wait that a server may request with `Retry-After`.
const RETRY_AFTER_MAX_MS: u64 = 30_000;

/// How long a kind must be unknown to count as empty. A starting server may not know it yet.
const ABSENT_MS: u64 = 3_000;

/// A list that is older than what was seen is ignored for this long, then believed.
const STALE_LIST_MS: u64 = 60_000;

/// The meaning of a 404 on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// The server has a problem. Keep waiting.
    Waited,
    /// The CRD is not installed, so no such objects exist.
    CountsAsEmpty,
}

/// The objects to watch, and how to reduce each of them.
pub(super) struct Source<K: Clone, T> {
    pub(super) api: Api<K>,
    pub(super) name: WatchName,
    pub(super) label_selector: String,
    pub(super) field_selector: Option<String>,
    pub(super) absent: Absent,
    /// Reads them as protobuf, if the API has that for these objects.
    pub(super) wire: Option<Wire<K>>,
    /// Reduces an object to its facts.
    pub(super) cut: Box<dyn Fn(K) -> T + Send + Sync>,
    /// Where the watch reports its state until its first list is complete, if it is to replace others that still run.
    pub(super) aside: Option<WatchHealth>,
    /// The pause before it waits for more events. Meanwhile they gather on the connection, and are read together.
    pub(super) pause: Duration,
}

impl<K: Clone, T> Source<K, T> {
    /// All objects of an API, as JSON.
    pub(super) fn all(api: Api<K>, name: WatchName, cut: impl Fn(K) -> T + Send + Sync + 'static) -> Self {
        Self {
            api,
            name,
            label_selector: String::new(),
            field_selector: None,
            absent: Absent::Waited,
            wire: None,
            cut: Box::new(cut),
            aside: None,
            pause: Duration::ZERO,
        }
    }

    /// Nodes or pods.
    pub(super) fn of(
        api: Api<K>,
        wire: Wire<K>,
        (kind, target): (&str, Target),
        cut: impl Fn(K) -> T + Send + Sync + 'static,
    ) -> Self {
        let Target { namespace, selector, aside, .. } = target;
        let name = WatchName::new(kind, namespace, &selector);
        Self { label_selector: selector, wire: Some(wire), aside, ..Self::all(api, name, cut) }
    }
}

/// Why a round ended.
enum Stop {
    /// Nobody listens any more.
    Closed,
    /// The request `verb` failed. `relist` says that the place in the event stream is lost.
    Failed { verb: &'static str, relist: bool, trouble: Trouble },
}

impl Stop {
    fn list(trouble: Trouble) -> Self {
        Self::Failed { verb: "list", relist: true, trouble }
    }
}

/// One running watch.
pub(super) struct Follow<K: Clone, T, G, W: Teller<T>> {
    context: WatchContext,
    source: Source<K, T>,
    teller: W,
    tag: G,
    sink: Sink<G, W::Message>,
    health: Registration,
    /// Where to resume the watch.
    version: Option<String>,
    /// When the watch last heard the server.
    heard_at: Moment,
    /// Newest version seen, also by earlier watches of this name. Only set if versions are numbers.
    newest: Option<u64>,
    failures: u32,
    stale_since: Option<Moment>,
    absent_since: Option<Moment>,
    reported_absent: bool,
}

impl<K, T, G, W> Follow<K, T, G, W>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    G: Clone + Send,
    W: Teller<T>,
{
    pub(super) fn new(
        context: WatchContext,
        source: Source<K, T>,
        teller: W,
        (tag, sink): (G, Sink<G, W::Message>),
    ) -> Self {
        let health = source.aside.as_ref().unwrap_or(&context.health).register(&source.name);
        let newest = context.health.newest(&source.name);
        let heard_at = context.clock.now();
        Self {
            context,
            source,
            teller,
            tag,
            sink,
            health,
            version: None,
            heard_at,
            newest,
            failures: 0,
            stale_since: None,
            absent_since: None,
            reported_absent: false,
        }
    }

    /// Runs until it is cancelled or nobody listens.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        loop {
            // A return of the API server before this try does not explain a failure of the try.
            self.context.reset.mark_seen();
            match self.round().await {
                Ok(()) => {}
                Err(Stop::Closed) => return,
                Err(Stop::Failed { verb, relist, trouble }) => {
                    if relist {
                        self.version = None;
                    }
                    self.health.restarted(trouble.kind);
                    if trouble.kind == TroubleKind::Expired && self.failures == 0 {
                        // Routine: the server forgot our place, and a new list finds it.
                        self.failures = 1;
                        continue;
                    }
                    self.health.failed(verb, &trouble);
                    if self.tell_absence(&trouble).await.is_err() {
                        return;
                    }
                    self.back_off(&trouble).await;
                }
            }
        }
    }

    /// Lists if necessary, then watches until the watch ends.
    async fn round(&mut self) -> Result<(), Stop> {
        let resumable = self.context.clock.now().millis_since(self.heard_at) <= RESUME_MS;
        let version = match self.version.take().filter(|_| resumable) {
            Some(version) => version,
            None => self.list().await?,
        };
        self.version = Some(version.clone());
        self.watch(&version).await
    }

    /// Reads and delivers the complete list. Returns its version.
    async fn list(&mut self) -> Result<String, Stop> {
        let mut params = ListParams {
            label_selector: Some(self.source.label_selector.clone()).filter(|selector| !selector.is_empty()),
            field_selector: self.source.field_selector.clone(),
            limit: Some(PAGE_SIZE),
            ..ListParams::default()
        };
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.page(&mut params).await.map_err(Stop::list)?;
            all.extend(page.items.into_iter().filter(W::keeps));
            if page.more.is_some() {
                params.continue_token = page.more;
                continue;
            }
            let Some(version) = page.version else { break };
            self.check_age(&version)?;
            self.absent_since = None;
            self.reported_absent = false;
            self.heard_at = self.context.clock.now();
            self.deliver(version.parse().ok(), Observed::Reset(all)).await?;
            if self.source.aside.take().is_some() {
                self.health = self.context.health.register(&self.source.name);
                self.health.saw(self.newest);
            }
            self.health.synced();
            return Ok(version);
        }
        Err(Stop::list(Trouble::new(TroubleKind::Undecodable, "the list has no version or no end")))
    }

    /// Reads a page. A passing failure does not discard the pages before it: the continue token stays valid.
    async fn page(&self, params: &mut ListParams) -> Result<Page<T>, Trouble> {
        let mut tries: u32 = 0;
        loop {
            let Source { api, wire, cut, .. } = &self.source;
            let form = wire.as_ref().map_or(Form::Json, |wire| Form::Protobuf(wire.item));
            let page = page::read(api, params, &form, cut);
            let trouble = match within(PAGE_TIMEOUT_MS, page).await {
                Ok(page) => return Ok(page),
                Err(trouble) => trouble,
            };
            tries = tries.saturating_add(1);
            let passes = matches!(
                trouble.kind,
                TroubleKind::Throttled
                    | TroubleKind::ServerError
                    | TroubleKind::Interrupted
                    | TroubleKind::Unreachable
            );
            if params.continue_token.is_none() || !passes || tries >= PAGE_TRIES {
                return Err(trouble);
            }
            let asked = trouble.retry_after_ms.unwrap_or_default().min(RETRY_AFTER_MAX_MS);
            let wait = asked.max(PAGE_PAUSE_MS / 2 + self.context.random.below(PAGE_PAUSE_MS / 2));
            tracing::debug!(watch = %self.source.name, "failed to read a page, and retries: {trouble}");
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }

    /// Refuses a list that is older than what was seen, for up to [`STALE_LIST_MS`].
    fn check_age(&mut self, version: &str) -> Result<(), Stop> {
        let number: Option<u64> = version.parse().ok();
        let now = self.context.clock.now();
        if let (Some(number), Some(newest)) = (number, self.newest)
            && number < newest
        {
            let since = *self.stale_since.get_or_insert(now);
            if now.millis_since(since) < STALE_LIST_MS {
                let text = format!("the server answered with version {number} after {newest} was seen");
                return Err(Stop::list(Trouble::new(TroubleKind::ServerError, text)));
            }
            tracing::warn!(
                watch = %self.source.name, version = number, seen = newest,
                "the API server keeps returning an older state; FLIPOP accepts it (was a backup restored?)"
            );
        }
        self.stale_since = None;
        self.newest = number;
        self.health.saw(self.newest);
        Ok(())
    }

    async fn watch(&mut self, version: &str) -> Result<(), Stop> {
        let params = WatchParams {
            label_selector: Some(self.source.label_selector.clone()).filter(|selector| !selector.is_empty()),
            field_selector: self.source.field_selector.clone(),
            timeout: Some(SERVER_TIMEOUT_S),
            bookmarks: true,
            send_initial_events: false,
        };
        let started_at = self.context.clock.now();
        let decode = self.source.wire.as_ref().map(|wire| wire.object);
        let start = within(START_TIMEOUT_MS, events::open(&self.source.api, &params, version, decode)).await;
        let stream = start.map_err(|trouble| {
            // The place in the stream stays valid only if the server may simply be restarting.
            let relist = trouble.answered()
                && !matches!(trouble.kind, TroubleKind::Throttled | TroubleKind::ServerError);
            Stop::Failed { verb: "watch", relist, trouble }
        })?;
        self.heard_at = self.context.clock.now();
        self.health.well();
        let mut lines = self.read(pin!(stream)).await?;
        // The server ended the watch as expected.
        self.heard_at = self.context.clock.now();
        if self.heard_at.millis_since(started_at) >= SHORTEST_WATCH_MS {
            lines = lines.max(1);
        }
        if lines == 0 {
            let trouble = Trouble::new(TroubleKind::Interrupted, "the watch ended at once");
            return Err(Stop::Failed { verb: "watch", relist: false, trouble });
        }
        self.failures = 0;
        Ok(())
    }

    /// Delivers events until the stream ends. Returns their number.
    async fn read(
        &mut self,
        mut stream: std::pin::Pin<&mut impl Stream<Item = kube::Result<Event<K>>>>,
    ) -> Result<u64, Stop> {
        let failed = |relist, trouble| Err(Stop::Failed { verb: "watch", relist, trouble });
        let mut lines: u64 = 0;
        loop {
            let next = if let Some(next) = stream.next().now_or_never() {
                next
            } else {
                if !self.source.pause.is_zero() {
                    tokio::time::sleep(self.source.pause).await;
                }
                let next = tokio::time::timeout(Duration::from_millis(SILENCE_MS), stream.next()).await;
                let Ok(next) = next else { return failed(true, Trouble::timed_out(SILENCE_MS)) };
                next
            };
            let event = match next {
                None => return Ok(lines),
                Some(Ok(Event::Failed(trouble))) => return failed(true, trouble),
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    let trouble = Trouble::from(error);
                    // An unreadable event is a missed event.
                    return failed(trouble.kind != TroubleKind::Interrupted, trouble);
                }
            };
            self.failures = 0;
            lines = lines.saturating_add(1);
            self.heard_at = self.context.clock.now();
            match event {
                Event::Seen(object) => {
                    let version = self.saw(object.resource_version());
                    self.deliver(version, Observed::Apply((self.source.cut)(object))).await?;
                }
                Event::Gone(object) => {
                    let version = self.saw(object.resource_version());
                    self.deliver(version, Observed::Delete((self.source.cut)(object))).await?;
                }
                Event::Bookmark(version) => {
                    let version = self.saw(version);
                    let message = self.teller.bookmark(version);
                    self.send(message).await?;
                }
                Event::Failed(_) => {}
            }
        }
    }

    /// Remembers the place in the event stream. Returns it as a number.
    fn saw(&mut self, version: Option<String>) -> Option<u64> {
        let version = version.filter(|version| !version.is_empty())?;
        let number = version.parse().ok();
        self.newest = self.newest.max(number);
        self.health.saw(self.newest);
        self.version = Some(version);
        number
    }

    async fn deliver(&mut self, version: Option<u64>, step: Observed<T>) -> Result<(), Stop> {
        let message = self.teller.tell(version, step);
        self.send(message).await
    }

    async fn send(&self, message: Option<W::Message>) -> Result<(), Stop> {
        let Some(message) = message else { return Ok(()) };
        self.sink.send((self.tag.clone(), message)).await.map_err(|_| Stop::Closed)
    }

    /// Reports once that a kind without a CRD has no objects.
    async fn tell_absence(&mut self, trouble: &Trouble) -> Result<(), Stop> {
        if trouble.kind != TroubleKind::NotFound || self.source.absent == Absent::Waited {
            self.absent_since = None;
            return Ok(());
        }
        let now = self.context.clock.now();
        let since = *self.absent_since.get_or_insert(now);
        if !self.reported_absent && now.millis_since(since) >= ABSENT_MS {
            self.reported_absent = true;
            self.deliver(None, Observed::Reset(Vec::new())).await?;
            self.health.synced();
        }
        Ok(())
    }

    /// Waits before the next try, or until the API server is known to be back.
    async fn back_off(&mut self, trouble: &Trouble) {
        self.failures = self.failures.saturating_add(1);
        let doublings = self.failures.saturating_sub(1).min(10);
        let step = BACKOFF_FIRST_MS.saturating_mul(1 << doublings).min(BACKOFF_MAX_MS);
        let jittered = step / 2 + self.context.random.below(step / 2);
        let asked = trouble.retry_after_ms.unwrap_or_default().min(RETRY_AFTER_MAX_MS);
        let mut wait = jittered.max(asked);
        if trouble.kind == TroubleKind::Throttled {
            // An overloaded server's wait is honoured even though the server is up.
            tokio::time::sleep(Duration::from_millis(asked)).await;
            wait = jittered.saturating_sub(asked);
        }
        let reset = &mut self.context.reset;
        let back = async {
            if reset.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = back => self.failures = 0,
            () = tokio::time::sleep(Duration::from_millis(wait)) => {}
        }
    }
}

async fn within<T>(limit_ms: u64, call: impl Future<Output = kube::Result<T>>) -> Result<T, Trouble> {
    match tokio::time::timeout(Duration::from_millis(limit_ms), call).await {
        Ok(answer) => answer.map_err(Trouble::from),
        Err(_elapsed) => Err(Trouble::timed_out(limit_ms)),
    }
}
