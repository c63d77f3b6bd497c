//! The operator's own log lines, heard on the simulation's thread.
//!
//! Spans are not kept, because the story says which replica does what. Invariant: a line that contains a token, and any
//! line of level ERROR, is a violation. For one seed in [`ALL_LEVELS_EVERY`], the lines of all levels are searched for
//! tokens, including those of libraries. They do not enter the story, so it stays the same.

use super::judge::Violation;
use super::story::Story;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Searching all levels makes a run take twice as long.
const ALL_LEVELS_EVERY: u64 = 16;

/// The subscriber.
pub(super) struct Listener {
    pub(super) seed: u64,
    pub(super) story: Story,
    pub(super) started: Instant,
    pub(super) secrets: [&'static str; 2],
    pub(super) wrong: Arc<Mutex<Vec<Violation>>>,
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string cannot fail.
        let _infallible = if field.name() == "message" {
            write!(self.0, "{value:?} ")
        } else {
            write!(self.0, "{}={value:?} ", field.name())
        };
    }
}

impl Listener {
    fn lowest(&self) -> Level {
        if self.seed.is_multiple_of(ALL_LEVELS_EVERY) { Level::TRACE } else { Level::INFO }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.lowest()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.lowest().into())
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let level = *event.metadata().level();
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if level <= Level::INFO {
            self.story.tell(now_ms, "log", &format!("{level} {}", text.0.trim_end()));
        }
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if level == Level::ERROR {
            let text = format!("an error was logged: {}", text.0);
            wrong.push(Violation { at_ms: now_ms, rule: "I11", text });
        }
        if self.secrets.iter().any(|secret| text.0.contains(secret)) {
            let text = "a log line holds a token".to_owned();
            wrong.push(Violation { at_ms: now_ms, rule: "I10", text });
        }
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_heard_at_every_level_and_only_what_a_user_sees_is_told() {
        for (seed, level, heard, told) in [
            (ALL_LEVELS_EVERY, "trace", 1, 0),
            (ALL_LEVELS_EVERY, "debug", 1, 0),
            (ALL_LEVELS_EVERY, "info", 1, 1),
            (1, "debug", 0, 0),
            (1, "info", 1, 1),
        ] {
            let (story, wrong) = (Story::new(true), Arc::new(Mutex::new(Vec::new())));
            let (started, secrets) = (Instant::now(), ["secret-one", "secret-two"]);
            let listener =
                Listener { seed, story: story.clone(), started, secrets, wrong: Arc::clone(&wrong) };
            tracing::subscriber::with_default(listener, || {
                for value in ["harmless", "Bearer secret-two"] {
                    match level {
                        "trace" => tracing::trace!(value, "sends"),
                        "debug" => tracing::debug!(value, "sends"),
                        _ => tracing::info!(value, "sends"),
                    }
                }
            });
            let wrong: Vec<&str> = wrong.lock().unwrap().iter().map(|wrong| wrong.rule).collect();
            assert_eq!(wrong, vec!["I10"; heard], "{seed} {level}");
            assert_eq!(story.text().matches("harmless").count(), told, "{seed} {level}");
        }
    }
}
