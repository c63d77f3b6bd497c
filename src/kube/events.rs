//! Events on our objects, for `kubectl describe`. Best effort: they never delay work.
//!
//! [`Events::emit`] puts a note into a bounded queue and returns. [`EventWriter::run`] publishes the notes one by one
//! with kube's recorder, which also merges repetitions into series. Notes with different texts are different Events, so
//! that no Event shows an outdated text. `hours` limits how many Events of one object and reason an hour may bring.
//!
//! A note is dropped if its permit is over or the queue is full. A refusal (403) is logged once and remembered for a
//! condition, per namespace and verb, because rights can be granted for some of them. The refused note is kept and
//! retried once a minute: otherwise a repaired role would be noticed only at the next Event. Each write carries the
//! permit of its note, so that the fence checks it again.

mod event_limits;

use super::trouble::{Trouble, TroubleKind};
use crate::clock::Clock;
use crate::permit::Permit;
use arc_swap::ArcSwapOption;
use event_limits::Hours;
pub use event_limits::MOST_PER_HOUR;
use fnv::FnvHasher;
use http::{Method, Request};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::client::Body;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

/// Most notes in the queue: several for each of a few hundred addresses at once. More notes would add little.
const QUEUE: usize = 1_000;

/// Longest wait for one note to be stored.
const PUBLISH_TIMEOUT_MS: u64 = 5_000;

/// Pause after a note could not be stored, so that a struggling server is not pressed.
const PAUSE_MS: u64 = 1_000;

/// Pause between retries of refused notes. As long as for other failures that an administrator must fix.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// A refusal not repeated for this long is forgotten as soon as any Event is written: its namespace may be gone.
const FORGET_AFTER: Duration = Duration::from_mins(10);

/// The API limits a note to 1 kB.
pub const MAX_NOTE_BYTES: usize = 1_000;

/// The API's limit for an action.
const MAX_ACTION_BYTES: usize = 128;

/// The field named in the API server's 403 if the namespace is being deleted (cause `NamespaceTerminating`).
const TERMINATING_FIELD: &str = "metadata.namespace";

/// The controller named in the Events.
pub const CONTROLLER: &str = "flipop";

/// Something that happened to an object.
#[derive(Debug, Clone)]
pub struct Note {
    /// The object.
    pub regarding: ObjectReference,
    /// How serious it is.
    pub severity: EventType,
    /// A word in `CamelCase`.
    pub reason: &'static str,
    /// The action and its target.
    pub action: String,
    /// A sentence. Repetitions of one text are counted in one Event, so the text must not contain what differs each
    /// time, such as a time or the ID of an action.
    pub text: String,
}

/// Makes the end of the process wait for a note, until it is dropped.
pub trait Guard: Send + Sync {
    /// The note was given up, but the write may still arrive.
    fn may_still_arrive(&self);
}

/// Makes the end of the process wait for one more note.
pub type Guards = Arc<dyn Fn() -> Box<dyn Guard> + Send + Sync>;

/// A note and the right to write it.
struct Permitted {
    permit: Permit,
    note: Note,
}

/// A permitted note and its guard.
struct Queued {
    permitted: Permitted,
    guard: Box<dyn Guard>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    /// The permit of the note that is being published.
    permit: ArcSwapOption<Permit>,
    /// Whether the latest request only counts a repetition of an existing Event.
    patches: AtomicBool,
    dropped: AtomicU64,
    forbidden: AtomicBool,
}

impl Shared {
    /// Sequentially consistent with the counting of guards: a guard that is counted before this call is waited for.
    fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// The right to one verb on Events in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    namespace: String,
    verb: &'static str,
}

/// The state of a missing right.
struct Denied {
    /// The time of the last try.
    tried: Instant,
    /// The note refused last. The end of the process waits for it only while it is being published.
    refused: Option<Permitted>,
}

/// The meaning of a failure for the right to make the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Granted,
    Denied,
    Unknown,
}

/// The callers' handle.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Queued>,
    guards: Guards,
    shared: Arc<Shared>,
}

impl Events {
    /// Queues a note that follows from leadership under `permit`. Never blocks.
    pub fn emit(&self, permit: &Permit, note: Note) {
        let permitted = Permitted { permit: permit.clone(), note };
        let queued = Queued { permitted, guard: (self.guards)() };
        if self.shared.has_stopped() || self.queue.try_send(queued).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Starts no further note: the process is ending.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether some right to write Events is missing: one was refused, and none was written there since.
    pub fn forbidden(&self) -> bool {
        self.shared.forbidden.load(Ordering::Relaxed)
    }

    /// Number of notes lost so far.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

/// The side of the task.
pub struct EventWriter {
    queue: mpsc::Receiver<Queued>,
    guards: Guards,
    shared: Arc<Shared>,
    recorder: Recorder,
    /// For creating another recorder.
    client: Client,
    reporter: Reporter,
    clock: Clock,
    hours: Hours,
    /// The missing rights.
    denied: BTreeMap<Right, Denied>,
    /// When a refused note may be retried.
    retry_at: Instant,
}

/// A queue of notes and the task that empties it. `instance` names this replica.
pub fn events(client: Client, clock: Clock, instance: &str, guards: Guards) -> (Events, EventWriter) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let shared = Arc::new(Shared::default());
    let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(instance.to_owned()) };
    let client = with_permits(client, Arc::clone(&shared));
    let writer = EventWriter {
        queue,
        guards: Arc::clone(&guards),
        shared: Arc::clone(&shared),
        recorder: Recorder::new(client.clone(), reporter.clone()),
        client,
        reporter,
        clock,
        hours: Hours::default(),
        denied: BTreeMap::new(),
        retry_at: Instant::now(),
    };
    (Events { queue: sender, guards, shared }, writer)
}

/// A client whose requests carry the permit of the note being published.
fn with_permits(client: Client, shared: Arc<Shared>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        if let Some(permit) = shared.permit.load_full() {
            request.extensions_mut().insert(Permit::clone(&permit));
        }
        shared.patches.store(request.method() == Method::PATCH, Ordering::Relaxed);
        let client = client.clone();
        async move {
            match client.send(request).await {
                Ok(answer) => Ok(answer),
                Err(kube::Error::Service(cause)) => Err(cause),
                Err(error) => Err(BoxError::from(error)),
            }
        }
    });
    Client::new(service, namespace)
}

impl EventWriter {
    /// Publishes until it is cancelled or all [`Events`] are dropped.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.publish_all() => {}
        }
    }

    async fn publish_all(&mut self) {
        loop {
            let retries = self.denied.values().any(|denied| denied.refused.is_some());
            let (clock, hour) = (self.clock.clone(), self.hours.next_end());
            tokio::select! {
                biased;
                queued = self.queue.recv() => match queued {
                    Some(queued) => self.take(queued).await,
                    None => return,
                },
                () = tokio::time::sleep_until(self.retry_at), if retries => self.try_again().await,
                () = clock.sleep_until(hour.unwrap_or_default()), if hour.is_some() => self.tell_left_out().await,
            }
        }
    }

    async fn take(&mut self, queued: Queued) {
        // Report an hour that is over before the next one begins.
        self.tell_left_out().await;
        let over = self.shared.has_stopped() || queued.permitted.permit.may_start().is_err();
        if !over && !self.hours.admit(&queued.permitted, self.clock.now()) {
            return;
        }
        if over || self.write(queued).await.is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Publishes how many notes were left out in hours that are over.
    async fn tell_left_out(&mut self) {
        while let Some(permitted) = self.hours.take_ended(self.clock.now()) {
            // Count the guard before asking whether the process is ending, so that the end waits for this note.
            let guard = (self.guards)();
            if self.shared.has_stopped() || self.write(Queued { permitted, guard }).await.is_err() {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Republishes the refused note whose last try is the oldest.
    async fn try_again(&mut self) {
        self.retry_at = Instant::now() + RETRY_AFTER;
        // Count the guard before asking whether the process is ending, so that the end waits for this note.
        let guard = (self.guards)();
        let stopped = self.shared.has_stopped();
        for denied in self.denied.values_mut() {
            denied.refused.take_if(|refused| stopped || refused.permit.ends_at().is_none());
        }
        let refused = self.denied.iter_mut().filter(|(_, denied)| denied.refused.is_some());
        let Some((right, denied)) = refused.min_by_key(|(_, denied)| denied.tried) else { return };
        denied.tried = Instant::now();
        let Some(Permitted { permit, note }) = &denied.refused else { return };
        // A late renewal may still come.
        if permit.may_start().is_err() {
            return;
        }
        let permitted = Permitted { permit: permit.clone(), note: note.clone() };
        let right = right.clone();
        match self.write(Queued { permitted, guard }).await {
            // The verb may be another one, but this note needs no further right.
            Ok(()) | Err(Verdict::Granted) => {
                self.denied.remove(&right);
                self.tell();
            }
            Err(Verdict::Denied | Verdict::Unknown) => {}
        }
    }

    /// Publishes a note and records what the result says about our rights. Pauses after a failure.
    async fn write(&mut self, Queued { permitted, guard }: Queued) -> Result<(), Verdict> {
        let Permitted { permit, note } = &permitted;
        self.shared.permit.store(Some(Arc::new(permit.clone())));
        let namespace = note.regarding.namespace.clone().unwrap_or_default();
        let result = tokio::select! {
            biased;
            () = permit.ended() => Err(Trouble::new(TroubleKind::Interrupted, "no longer the leader")),
            result = self.publish(note) => result,
        };
        if result.as_ref().is_err_and(Trouble::outcome_unknown) {
            guard.may_still_arrive();
        }
        drop(guard);
        let verb = if self.shared.patches.load(Ordering::Relaxed) { "patch" } else { "create" };
        let right = Right { namespace, verb };
        let Err(trouble) = result else {
            self.may(&right);
            return Ok(());
        };
        let verdict = verdict_of(&trouble);
        match verdict {
            Verdict::Granted => self.may(&right),
            Verdict::Denied => self.may_not(right, &trouble, permitted),
            Verdict::Unknown => {}
        }
        tracing::debug!("failed to publish an event: {trouble}");
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        Err(verdict)
    }

    async fn publish(&mut self, note: &Note) -> Result<(), Trouble> {
        let text = cut(note.text.clone(), MAX_NOTE_BYTES);
        let event = Event {
            type_: note.severity,
            reason: note.reason.to_owned(),
            action: action_of(&note.action, &text),
            note: Some(text),
            secondary: None,
        };
        let call = self.record(&event, &note.regarding);
        match tokio::time::timeout(Duration::from_millis(PUBLISH_TIMEOUT_MS), call).await {
            Ok(result) => result,
            Err(_elapsed) => Err(Trouble::timed_out(PUBLISH_TIMEOUT_MS)),
        }
    }

    /// Publishes an Event. If the recorder counts repetitions of an Event that was deleted, it is replaced and
    /// publishes anew.
    async fn record(&mut self, event: &Event, regarding: &ObjectReference) -> Result<(), Trouble> {
        let result = self.recorder.publish(event, regarding).await.map_err(Trouble::from);
        let gone = result.as_ref().is_err_and(|trouble| trouble.kind == TroubleKind::NotFound);
        if !gone || !self.shared.patches.load(Ordering::Relaxed) {
            return result;
        }
        self.recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        self.recorder.publish(event, regarding).await.map_err(Trouble::from)
    }

    /// The right exists. If it was missing, a role was repaired, probably for every namespace: those that still lack
    /// the right will refuse again. Old refusals are forgotten too, since they may be fixed or their namespace gone.
    fn may(&mut self, right: &Right) {
        let mended = self.denied.remove(right).is_some();
        self.forget_old();
        self.denied.retain(|other, _| !mended || other.verb != right.verb);
        self.tell();
    }

    fn tell(&self) {
        self.shared.forbidden.store(!self.denied.is_empty(), Ordering::Relaxed);
    }

    fn forget_old(&mut self) {
        self.denied.retain(|_, denied| denied.tried.elapsed() < FORGET_AFTER);
    }

    fn may_not(&mut self, right: Right, trouble: &Trouble, refused: Permitted) {
        let Right { namespace, verb } = &right;
        if self.denied.is_empty() {
            tracing::warn!(
                namespace,
                "the service account may not {verb} events in events.k8s.io: {trouble}"
            );
            self.retry_at = Instant::now() + RETRY_AFTER;
        }
        self.forget_old();
        self.denied.insert(right, Denied { tried: Instant::now(), refused: Some(refused) });
        self.tell();
    }
}

/// The API server checks rights before anything else, so other errors show that the right exists.
fn verdict_of(trouble: &Trouble) -> Verdict {
    match trouble.kind {
        // Nobody may create anything in a namespace that is being deleted.
        TroubleKind::Forbidden if trouble.fields.iter().any(|field| field == TERMINATING_FIELD) => {
            Verdict::Granted
        }
        TroubleKind::Forbidden => Verdict::Denied,
        TroubleKind::NotFound | TroubleKind::Conflict | TroubleKind::Expired | TroubleKind::Invalid => {
            Verdict::Granted
        }
        TroubleKind::PermitEnded
        | TroubleKind::Unauthorized
        | TroubleKind::Throttled
        | TroubleKind::ServerError
        | TroubleKind::Unreachable
        | TroubleKind::Interrupted
        | TroubleKind::Undecodable => Verdict::Unknown,
    }
}

/// The action as stored. Events with the same reason, action and object form one series, which keeps only its first
/// text. A hash of the text keeps different texts apart.
fn action_of(action: &str, text: &str) -> String {
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    let hash = format!(":{:016x}", hasher.finish());
    cut(action.to_owned(), MAX_ACTION_BYTES - hash.len()) + &hash
}

/// Cuts a text to the API's limit, at a character boundary.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
