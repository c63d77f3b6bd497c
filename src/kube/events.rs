//! Events on our objects, for `kubectl describe`: best effort, never in the way of work.
//!
//! [`Events::emit`] puts a note into a bounded queue and returns; [`EventWriter::run`] publishes them one by one
//! with kube's recorder, which also merges repetitions into series. A note whose permit is over is dropped, as is
//! one that finds the queue full. A refusal (403) is said once and remembered for a condition.

use super::trouble::{Trouble, TroubleKind};
use crate::leader::permit::Permit;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Notes that wait: several for each of a few hundred IPs at once; beyond that older ones say enough.
const QUEUE: usize = 1_000;

/// Longest wait for one note to be stored.
const PUBLISH_TIMEOUT_MS: u64 = 5_000;

/// Pause after a note that could not be stored, so that a server in trouble is not pressed.
const PAUSE_MS: u64 = 1_000;

/// The API's bounds: 1 kB of note, 128 characters of reason and action.
const MAX_NOTE_BYTES: usize = 1_000;

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

#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    forbidden: AtomicBool,
}

/// The callers' side.
#[derive(Debug, Clone)]
pub struct Events {
    queue: mpsc::Sender<(Permit, Note)>,
    shared: Arc<Shared>,
}

impl Events {
    /// Queues a note that follows from leadership under `permit`. Never waits.
    pub fn emit(&self, permit: &Permit, note: Note) {
        if self.queue.try_send((permit.clone(), note)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The service account may not write events (as of the last try).
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
    queue: mpsc::Receiver<(Permit, Note)>,
    shared: Arc<Shared>,
    recorder: Recorder,
}

/// A queue of notes and the task that empties it. `instance` names this replica.
#[must_use]
pub fn events(client: Client, instance: &str) -> (Events, EventWriter) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let shared = Arc::new(Shared::default());
    let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(instance.to_owned()) };
    let recorder = Recorder::new(client, reporter);
    (Events { queue: sender, shared: Arc::clone(&shared) }, EventWriter { queue, shared, recorder })
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
        while let Some((permit, note)) = self.queue.recv().await {
            if permit.may_start().is_err() {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let result = tokio::select! {
                biased;
                () = permit.ended() => continue,
                result = self.publish(note) => result,
            };
            match result {
                Ok(()) => self.shared.forbidden.store(false, Ordering::Relaxed),
                Err(trouble) => {
                    self.failed(&trouble);
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
            action: note.action,
            note: Some(cut(note.text)),
            secondary: None,
        };
        let call = self.recorder.publish(&event, &note.regarding);
        match tokio::time::timeout(Duration::from_millis(PUBLISH_TIMEOUT_MS), call).await {
            Ok(result) => result.map_err(Trouble::from),
            Err(_elapsed) => Err(Trouble::timed_out(PUBLISH_TIMEOUT_MS)),
        }
    }

    fn failed(&self, trouble: &Trouble) {
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        if trouble.kind == TroubleKind::Forbidden {
            if !self.shared.forbidden.swap(true, Ordering::Relaxed) {
                tracing::warn!("the service account may not create events in events.k8s.io: {trouble}");
            }
        } else {
            tracing::debug!("failed to publish an event: {trouble}");
        }
    }
}

/// Cuts a text to what the API admits, at a character's boundary.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_NOTE_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_note_is_cut_between_characters() {
        let text = cut("é".repeat(2_000));
        assert_eq!(text.len(), 1_000);
        assert_eq!(cut("short".to_owned()), "short");
    }
}
