//! Events on our objects, for `kubectl describe`: best effort, never in the way of work.
//!
//! [`Events::emit`] puts a note into a bounded queue and returns; [`EventWriter::run`] publishes them one by one
//! with kube's recorder, which also merges repetitions into series. A note whose permit is over is dropped, as is
//! one that finds the queue full. A refusal (403) is logged once and remembered for a condition, by namespace and verb,
//! because rights may be given for some of them. Each write carries its note's permit, so that the fence asks for it
//! again.

use super::trouble::{Trouble, TroubleKind};
use crate::leader::permit::Permit;
use arc_swap::ArcSwapOption;
use http::{Method, Request};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::client::Body;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::BoxError;

/// Notes that wait: several for each of a few hundred IPs at once; beyond that older ones say enough.
const QUEUE: usize = 1_000;

/// Longest wait for one note to be stored.
const PUBLISH_TIMEOUT_MS: u64 = 5_000;

/// Pause after a note that could not be stored, so that a server in trouble is not pressed.
const PAUSE_MS: u64 = 1_000;

/// A refusal that has not been repeated for this long is over, as soon as any event could be written: nobody may write
/// about its namespace any more.
const FORGET_AFTER: Duration = Duration::from_mins(10);

/// The API's bound of a note is 1 kB.
const MAX_NOTE_BYTES: usize = 1_000;

/// The API's bound of an action.
const MAX_ACTION_BYTES: usize = 128;

/// What the API server's 403 complains of where a namespace is being deleted (cause `NamespaceTerminating`).
const TERMINATING_FIELD: &str = "metadata.namespace";

/// Controller that the events name.
const CONTROLLER: &str = "flipop";

/// How serious a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Something happened as it should.
    Normal,
    /// A user should have a look.
    Warning,
}

/// What happened to an object.
#[derive(Debug, Clone)]
pub struct Note {
    /// The object.
    pub regarding: ObjectReference,
    /// How serious it is.
    pub severity: Severity,
    /// A word in `CamelCase`.
    pub reason: &'static str,
    /// What was done and to what. Events that share reason, action and object are one series, of which only the first
    /// text is kept: the action has to tell different happenings apart.
    pub action: String,
    /// A sentence.
    pub text: String,
}

/// What waits for a note, until it is dropped.
pub trait Guard: Send + Sync {
    /// The note was given up, and may still be written.
    fn may_still_arrive(&self);
}

/// A note, the right to write it, and what waits for it.
struct Queued {
    permit: Permit,
    note: Note,
    guard: Box<dyn Guard>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    /// Of the note that is being published.
    permit: ArcSwapOption<Permit>,
    /// Whether its latest request counts one more repetition of an event that is there.
    patches: AtomicBool,
    dropped: AtomicU64,
    forbidden: AtomicBool,
}

/// One right to write events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    namespace: String,
    verb: &'static str,
}

/// The callers' side.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
}

impl Events {
    /// Queues a note that follows from leadership under `permit`. Never waits.
    pub fn emit(&self, permit: &Permit, note: Note, guard: Box<dyn Guard>) {
        let queued = Queued { permit: permit.clone(), note, guard };
        if self.shared.stopped.load(Ordering::Relaxed) || self.queue.try_send(queued).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// No further note is begun: the process is to end.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
    }

    /// The service account may not write all events: somewhere one was refused, and none was written there since.
    #[must_use]
    pub fn forbidden(&self) -> bool {
        self.shared.forbidden.load(Ordering::Relaxed)
    }

    /// Notes that were lost so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

/// The task's side.
pub struct EventWriter {
    queue: mpsc::Receiver<Queued>,
    shared: Arc<Shared>,
    recorder: Recorder,
    /// The rights that are missing, and when that was last seen.
    denied: BTreeMap<Right, Instant>,
}

/// A queue of notes and the task that empties it. `instance` names this replica.
#[must_use]
pub fn events(client: Client, instance: &str) -> (Events, EventWriter) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let shared = Arc::new(Shared::default());
    let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(instance.to_owned()) };
    let recorder = Recorder::new(with_permits(client, Arc::clone(&shared)), reporter);
    let writer = EventWriter { queue, shared: Arc::clone(&shared), recorder, denied: BTreeMap::new() };
    (Events { queue: sender, shared }, writer)
}

/// A client whose requests carry the permit of the note that is being published.
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
    /// Publishes until cancelled or until nobody can emit any more.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.publish_all() => {}
        }
    }

    async fn publish_all(&mut self) {
        while let Some(Queued { permit, note, guard }) = self.queue.recv().await {
            if self.shared.stopped.load(Ordering::Relaxed) || permit.may_start().is_err() {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
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
            match result {
                Ok(()) => self.may(&right),
                Err(trouble) => {
                    self.failed(right, &trouble);
                    tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
                }
            }
        }
    }

    async fn publish(&self, note: Note) -> Result<(), Trouble> {
        let event = Event {
            type_: match note.severity {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: note.reason.to_owned(),
            action: cut(note.action, MAX_ACTION_BYTES),
            note: Some(cut(note.text, MAX_NOTE_BYTES)),
            secondary: None,
        };
        let call = self.recorder.publish(&event, &note.regarding);
        match tokio::time::timeout(Duration::from_millis(PUBLISH_TIMEOUT_MS), call).await {
            Ok(result) => result.map_err(Trouble::from),
            Err(_elapsed) => Err(Trouble::timed_out(PUBLISH_TIMEOUT_MS)),
        }
    }

    /// The right is there. Where it was missing a role was mended, probably for every namespace: those that still lack
    /// it will say so again. What was refused long ago may have been mended too, or its namespace be gone.
    fn may(&mut self, right: &Right) {
        let mended = self.denied.remove(right).is_some();
        self.forget_old();
        self.denied.retain(|other, _| !mended || other.verb != right.verb);
        self.shared.forbidden.store(!self.denied.is_empty(), Ordering::Relaxed);
    }

    fn forget_old(&mut self) {
        self.denied.retain(|_, seen| seen.elapsed() < FORGET_AFTER);
    }

    fn failed(&mut self, right: Right, trouble: &Trouble) {
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        // In a namespace that is being deleted nobody may create anything: that says nothing of our rights.
        let terminating = trouble.fields.iter().any(|field| field == TERMINATING_FIELD);
        if trouble.kind != TroubleKind::Forbidden || terminating {
            tracing::debug!("failed to publish an event: {trouble}");
            return;
        }
        self.shared.forbidden.store(true, Ordering::Relaxed);
        let Right { namespace, verb } = right.clone();
        if self.denied.is_empty() {
            tracing::warn!(
                namespace,
                "the service account may not {verb} events in events.k8s.io: {trouble}"
            );
        } else {
            tracing::debug!(namespace, "may not {verb} events: {trouble}");
        }
        self.forget_old();
        self.denied.insert(right, Instant::now());
    }
}

/// Cuts a text to what the API admits, at a character's boundary.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::kube::stub;
    use crate::leader::permit::PermitSource;
    use serde_json::json;
    use tokio::task::JoinSet;

    impl Guard for Arc<()> {
        fn may_still_arrive(&self) {}
    }

    fn note() -> Note {
        note_in("ns")
    }

    fn note_in(namespace: &str) -> Note {
        let (action, text) = ("Assigned:192.0.2.1".to_owned(), "assigned".to_owned());
        let regarding =
            ObjectReference { namespace: Some(namespace.to_owned()), ..ObjectReference::default() };
        Note { regarding, severity: Severity::Normal, reason: "Assigned", action, text }
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_carries_its_permit_is_waited_for_and_none_is_begun_after_the_end() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        let source = PermitSource::new(clock.clone());
        source.extend(clock.now());
        let (client, mut calls) = stub::by_hand();
        let (events, writer) = events(client, "one");
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(CancellationToken::new()));
        let waiting = Arc::new(());
        events.emit(&source.permit(), note(), Box::new(Arc::clone(&waiting)));
        events.emit(&source.permit(), note(), Box::new(Arc::clone(&waiting)));
        let call = calls.next().await;
        assert!(call.request.extensions().get::<Permit>().is_some_and(|permit| permit.may_start().is_ok()));
        assert_eq!(Arc::strong_count(&waiting), 3);
        events.stop();
        call.answer(stub::object(&json!({"metadata": {"name": "e", "namespace": "ns"}, "eventTime": null})));
        events.emit(&source.permit(), note(), Box::new(Arc::clone(&waiting)));
        while Arc::strong_count(&waiting) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(calls.is_quiet(), "nothing is begun after the end");
        assert_eq!(events.dropped(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_by_a_namespace_that_is_being_deleted_is_no_want_of_rights() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        let source = PermitSource::new(clock.clone());
        let (client, mut calls) = stub::by_hand();
        let (events, writer) = events(client, "one");
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(CancellationToken::new()));
        let cause =
            json!({"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "it ends"});
        for (causes, forbidden) in [(json!([cause]), false), (json!([]), true)] {
            source.extend(clock.now());
            events.emit(&source.permit(), note(), Box::new(Arc::new(())));
            let refusal = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "events is forbidden", "reason": "Forbidden", "code": 403, "details": {"causes": causes}});
            let dropped = events.dropped();
            calls.next().await.answer(stub::raw(403, refusal.to_string().into_bytes()));
            while events.dropped() == dropped {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(events.forbidden(), forbidden, "{refusal}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rights_that_differ_by_namespace_and_verb_are_known_apart() {
        let (client, mut calls) = stub::by_hand();
        let (events, mut writer) = events(client, "one");
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        let source = PermitSource::new(clock.clone());
        // Minutes that pass, namespace, whether it is granted, whether an event exists already; then how many rights are
        // known to lack.
        let steps = [
            (0, "a", false, false, 1),
            (0, "b", true, false, 1),
            (0, "a", false, false, 1),
            (0, "b", false, true, 2),
            (0, "c", false, false, 3),
            (0, "c", true, false, 1),
            (0, "c", true, true, 1),
            (0, "b", true, true, 0),
            (0, "d", false, false, 1),
            (9, "e", true, false, 1),
            (1, "f", true, false, 0),
        ];
        for (minutes, namespace, granted, again, lacking) in steps {
            tokio::time::advance(Duration::from_mins(minutes)).await;
            source.extend(clock.now());
            events.emit(&source.permit(), note_in(namespace), Box::new(Arc::new(())));
            tokio::select! {
                biased;
                () = writer.publish_all() => panic!("it goes on"),
                () = async {
                    let call = calls.next().await;
                    assert_eq!(call.request.method() == Method::PATCH, again, "{namespace}");
                    let event = json!({"metadata": {"name": "e", "namespace": namespace}, "eventTime": null});
                    call.answer(if granted { stub::object(&event) } else { stub::refusal(403, "Forbidden") });
                    tokio::time::sleep(Duration::from_millis(10)).await;
                } => {}
            }
            assert_eq!(writer.denied.len(), lacking, "{namespace}: {:?}", writer.denied);
            assert_eq!(events.forbidden(), lacking > 0, "{namespace}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_longer_than_the_api_admits_is_cut_between_characters() {
        let (client, mut calls) = stub::by_hand();
        let (_events, writer) = events(client, "one");
        let long = Note { action: "é".repeat(300), text: "€".repeat(2_000), ..note() };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { writer.publish(long).await });
        let call = calls.next().await;
        let body: serde_json::Value = serde_json::from_slice(call.request.body()).unwrap();
        let length = |field: &str| body[field].as_str().unwrap().len();
        assert_eq!((length("action"), length("note")), (128, 999));
        call.answer(stub::object(&json!({"metadata": {"name": "e", "namespace": "ns"}, "eventTime": null})));
        assert!(tasks.join_next().await.unwrap().unwrap().is_ok());
        assert_eq!(cut("short".to_owned(), 128), "short");
    }
}
