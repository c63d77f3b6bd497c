//! Which requests may still arrive after their outcome. The test plays the API server by hand.

use super::underway::MAX_STATUSES;
use super::*;
use crate::kube::events;
use crate::kube::stub::{self, Answer, Call, Calls};
use crate::kube::watch::WatchHealth;
use crate::leader::record::LEASE_DURATION_MS;
use crate::metrics::Metrics;
use crate::permit::PermitSource;
use flipop_core::addresses::pool::status::PoolStatus;
use flipop_core::mechanism::StatusWrite;
use flipop_core::model::catalog::events::EventReason;
use flipop_core::model::{ObjectName, ObjectRef};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

struct Bench {
    executor: Executor,
    calls: Calls,
    done: Receiver<Done>,
    source: PermitSource,
    _tasks: JoinSet<()>,
}

fn start() -> Bench {
    let (client, calls) = stub::by_hand();
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now());
    let (sender, done) = mpsc::channel(8);
    let underway = Arc::new(Underway::new(clock.clone()));
    let (events, writer) = events::events(client.clone(), clock.clone(), "one", underway.guards());
    let (tracker, mut tasks) = (TaskTracker::new(), JoinSet::new());
    tasks.spawn(writer.run(CancellationToken::new()));
    let executor = Executor {
        providers: Arc::default(),
        client,
        permit: source.permit(),
        clock,
        events,
        done: sender,
        tracker,
        underway,
    };
    Bench { executor, calls, done, source, _tasks: tasks }
}

impl Bench {
    fn is_over(&self) -> bool {
        self.executor.underway.is_over()
    }

    /// Annotates a node and answers with `answer`. Returns whether no request may still arrive after its outcome.
    async fn annotate(&mut self, answer: Answer) -> bool {
        let action = Action::Annotate { node: "a".to_owned(), uid: Uid("u1".into()), value: None };
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
        let outcome = format!("{:?}", answer.as_ref().map(http::Response::status));
        assert_eq!(bench.annotate(answer).await, over, "{outcome}");
        tokio::time::advance(Duration::from_millis(LEASE_DURATION_MS)).await;
        assert!(bench.is_over(), "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_foreign_annotation_that_is_accepted_shows_that_no_policy_limits_us() {
    let node = serde_json::json!({"metadata": {"name": "a", "uid": "u1"}});
    for (answer, unlimited) in [
        (stub::object(&node), true),
        (stub::refusal(422, "Invalid"), false),
        (stub::refusal(403, "Forbidden"), false),
        (stub::refusal(500, "InternalError"), false),
    ] {
        let mut bench = start();
        let metrics = Metrics::new(WatchHealth::default(), "1").unwrap();
        bench.executor.probe_node_policy("a".to_owned(), Arc::clone(&metrics));
        let call = bench.calls.next().await;
        assert_eq!(call.request.method(), http::Method::PATCH);
        assert_eq!(call.uri(), "/api/v1/nodes/a?&dryRun=All&fieldManager=flipop");
        let annotations = serde_json::json!({"flipop.digitalocean.com/policy-probe": "true"});
        assert_eq!(call.body(), serde_json::json!({"metadata": {"annotations": annotations}}));
        call.answer(answer);
        bench.executor.tracker.close();
        bench.executor.tracker.wait().await;
        let outcome = metrics.describe(&bench.executor.clock).await;
        assert_eq!(outcome.unlimited, unlimited, "{outcome:?}");
    }
    let mut bench = start();
    bench.source.revoke();
    let metrics = Metrics::new(WatchHealth::default(), "1").unwrap();
    bench.executor.probe_node_policy("a".to_owned(), metrics);
    bench.executor.tracker.close();
    bench.executor.tracker.wait().await;
    assert!(bench.calls.is_quiet(), "a process that may not write asks nothing");
}

fn notice() -> Notice {
    let object = ObjectRef { name: ObjectName::new("ns", "pool"), uid: Uid("u1".into()) };
    Notice {
        kind: ObjectKind::Pool,
        object,
        warning: false,
        reason: EventReason::Assigned,
        subject: "192.0.2.1".to_owned(),
        message: "assigned".to_owned(),
    }
}

impl Bench {
    /// Writes an Event that ends as `answer` says. Returns whether it is over a moment later.
    async fn report(&mut self, answer: impl AsyncFnOnce(Call, &PermitSource)) -> bool {
        self.executor.tell(notice());
        let call = self.calls.next().await;
        assert!(!self.is_over(), "it is under way");
        answer(call, &self.source).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.is_over()
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_answered_is_over() {
    let event = serde_json::json!({"metadata": {"name": "e", "namespace": "ns"}, "eventTime": null});
    for answer in
        [stub::object(&event), stub::refusal(403, "Forbidden"), stub::refusal(429, "TooManyRequests")]
    {
        assert!(start().report(async |call, _| call.answer(answer)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_clear_answer_counts_for_a_lease_longer() {
    let unanswered = async |call: Call, _: &PermitSource| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(call);
    };
    let mut bench = start();
    assert!(!bench.report(unanswered).await);
    tokio::time::sleep(Duration::from_millis(LEASE_DURATION_MS)).await;
    assert!(bench.is_over());
    for answer in [stub::refusal(500, "InternalError"), stub::broken()] {
        assert!(!start().report(async |call, _| call.answer(answer)).await);
    }
    let without_a_permit = async |call: Call, source: &PermitSource| {
        source.revoke();
        tokio::task::yield_now().await;
        drop(call);
    };
    assert!(!start().report(without_a_permit).await);
}

#[tokio::test(start_paused = true)]
async fn so_many_statuses_are_written_at_once_and_the_next_one_when_one_has_ended() {
    let mut bench = start();
    for number in 0..MAX_STATUSES + 2 {
        let uid = Uid(number.to_string().into());
        bench.executor.start(
            Action::WriteStatus(Box::new(StatusWrite {
                object: ObjectRef { name: ObjectName::new("ns", &*uid.0), uid },
                resource_version: "1".to_owned(),
                generation: 1,
                status: PoolStatus::default(),
            })),
            &[],
        );
    }
    let mut written = Vec::new();
    for _ in 0..MAX_STATUSES {
        written.push(bench.calls.next().await);
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(bench.calls.is_quiet(), "the others wait");
    let address = Action::Annotate { node: "a".to_owned(), uid: Uid("u1".into()), value: None };
    bench.executor.start(address, &[]);
    assert!(bench.calls.next().await.uri().contains("/nodes/a"), "what moves an address waits for no status");
    for call in written.into_iter().take(2) {
        call.answer(stub::refusal(409, "Conflict"));
        bench.done.recv().await.unwrap();
        assert!(bench.calls.next().await.uri().contains("/status"));
    }
}
