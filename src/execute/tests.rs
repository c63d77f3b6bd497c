//! What may still arrive of what was carried out, with an API server that the test answers by hand.

use super::*;
use crate::kube::events;
use crate::kube::stub::{self, Answer, Calls};
use crate::leader::permit::PermitSource;
use crate::leader::record::LEASE_DURATION_MS;
use crate::provider::observe::NoObserver;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

struct Bench {
    executor: Executor,
    calls: Calls,
    done: Receiver<Done>,
    clock: Clock,
    _source: PermitSource,
}

fn start() -> Bench {
    let (client, calls) = stub::by_hand();
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now());
    let (sender, done) = mpsc::channel(8);
    let (events, _writer) = events::events(client.clone(), "one");
    let tracker = TaskTracker::new();
    let executor = Executor {
        providers: Providers::default(),
        observer: Arc::new(NoObserver),
        client,
        permit: source.permit(),
        clock: clock.clone(),
        events,
        done: sender,
        tracker,
        underway: Arc::default(),
    };
    Bench { executor, calls, done, clock, _source: source }
}

impl Bench {
    fn is_over(&self) -> bool {
        self.executor.underway.is_over(self.clock.now())
    }

    /// Annotates a node and answers so; whether that is over when its outcome is there.
    async fn annotate(&mut self, answer: Answer) -> bool {
        let action = Action::Annotate { node: "a".to_owned(), uid: Uid("u1".to_owned()), value: None };
        self.executor.start(action, &[]);
        self.calls.next().await.answer(answer);
        self.done.recv().await.unwrap();
        self.executor.tracker.close();
        self.executor.tracker.wait().await;
        self.is_over()
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_was_refused_is_over_and_one_without_a_clear_answer_counts_for_a_lease_longer() {
    for (answer, over) in [
        (stub::object(&serde_json::json!({"metadata": {"name": "a", "uid": "u1"}})), true),
        (stub::refusal(401, "Unauthorized"), true),
        (stub::refusal(403, "Forbidden"), true),
        (stub::refusal(409, "Conflict"), true),
        (stub::refusal(429, "TooManyRequests"), true),
        (stub::throttled(429, 3), true),
        (stub::refusal(500, "InternalError"), false),
        (stub::throttled(503, 3), false),
        (stub::broken(), false),
    ] {
        let mut bench = start();
        let told = format!("{:?}", answer.as_ref().map(http::Response::status));
        assert_eq!(bench.annotate(answer).await, over, "{told}");
        tokio::time::advance(Duration::from_millis(LEASE_DURATION_MS)).await;
        assert!(bench.is_over(), "{told}");
    }
}
