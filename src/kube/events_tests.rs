//! The Event queue, with an API server that the test answers by hand, on a paused clock.

use super::*;
use crate::kube::stub::{self, Calls};
use crate::permit::PermitSource;
use serde_json::json;
use tokio::task::JoinSet;

impl Guard for Arc<()> {
    fn may_still_arrive(&self) {}
}

/// Guards that are counted as clones of `counted`.
fn guards(counted: &Arc<()>) -> Guards {
    let counted = Arc::clone(counted);
    Arc::new(move || Box::new(Arc::clone(&counted)))
}

fn note() -> Note {
    note_in("ns")
}

fn note_in(namespace: &str) -> Note {
    let (action, text) = ("Assigned:192.0.2.1".to_owned(), "assigned".to_owned());
    let regarding = ObjectReference { namespace: Some(namespace.to_owned()), ..ObjectReference::default() };
    Note { regarding, severity: EventType::Normal, reason: "Assigned", action, text }
}

#[tokio::test(start_paused = true)]
async fn a_note_carries_its_permit_is_waited_for_and_none_is_begun_after_the_end() {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now());
    let (client, mut calls) = stub::by_hand();
    let waiting = Arc::new(());
    let (events, writer) = events(client, clock.clone(), "one", guards(&waiting));
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.run(CancellationToken::new()));
    let idle = Arc::strong_count(&waiting);
    events.emit(&source.permit(), note());
    events.emit(&source.permit(), note());
    let call = calls.next().await;
    assert!(call.request.extensions().get::<Permit>().is_some_and(|permit| permit.may_start().is_ok()));
    assert_eq!(Arc::strong_count(&waiting), idle + 2);
    events.stop();
    call.answer(stub::object(&json!({"metadata": {"name": "e", "namespace": "ns"}, "eventTime": null})));
    events.emit(&source.permit(), note());
    while Arc::strong_count(&waiting) > idle {
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
    let (events, writer) = events(client, clock.clone(), "one", guards(&Arc::new(())));
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.run(CancellationToken::new()));
    let cause =
        json!({"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "it ends"});
    for (causes, forbidden) in [(json!([cause]), false), (json!([]), true)] {
        source.extend(clock.now());
        events.emit(&source.permit(), note());
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
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let (events, mut writer) = events(client, clock.clone(), "one", guards(&Arc::new(())));
    let source = PermitSource::new(clock.clone());
    // Minutes that pass, the namespace, whether the right is granted, whether an Event exists already, and the
    // resulting number of missing rights.
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
        events.emit(&source.permit(), note_in(namespace));
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
        assert_eq!(writer.denied.len(), lacking, "{namespace}: {:?}", writer.denied.keys());
        assert_eq!(events.forbidden(), lacking > 0, "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_longer_than_the_api_admits_is_cut_between_characters() {
    let (client, mut calls) = stub::by_hand();
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let (_events, mut writer) = events(client, clock.clone(), "one", guards(&Arc::new(())));
    let long = Note { action: "é".repeat(300), text: "€".repeat(2_000), ..note() };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { writer.publish(&long).await });
    let call = calls.next().await;
    let body: serde_json::Value = serde_json::from_slice(call.request.body()).unwrap();
    let length = |field: &str| body[field].as_str().unwrap().len();
    assert_eq!((length("action"), length("note")), (127, 999));
    call.answer(stub::object(&json!({"metadata": {"name": "e", "namespace": "ns"}, "eventTime": null})));
    assert!(tasks.join_next().await.unwrap().unwrap().is_ok());
    assert_eq!(cut("short".to_owned(), 128), "short");
}

/// A running writer, under a permit that is renewed unless `late`.
struct Bench {
    events: Events,
    calls: Calls,
    source: PermitSource,
    late: Arc<AtomicBool>,
    waiting: Arc<()>,
    idle: usize,
    _tasks: JoinSet<()>,
}

fn start() -> Bench {
    let (client, calls) = stub::by_hand();
    let waiting = Arc::new(());
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let (events, writer) = events(client, clock.clone(), "one", guards(&waiting));
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now());
    let (late, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    let (elector, is_late) = (source.clone(), Arc::clone(&late));
    tasks.spawn(async move {
        loop {
            if !is_late.load(Ordering::Relaxed) {
                elector.extend(clock.now());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    tasks.spawn(writer.run(CancellationToken::new()));
    let idle = Arc::strong_count(&waiting);
    Bench { events, calls, source, late, waiting, idle, _tasks: tasks }
}

fn stored() -> stub::Answer {
    stub::object(&json!({"metadata": {"name": "e", "namespace": "ns"}, "eventTime": null}))
}

impl Bench {
    fn emit(&self) {
        self.events.emit(&self.source.permit(), note());
    }

    /// Answers the next request. Returns its method and how many seconds it took to come.
    async fn answer(&mut self, answer: stub::Answer) -> (Method, u64) {
        let since = Instant::now();
        let call = self.calls.next().await;
        assert!(self.counted() > 0, "what is under way is waited for");
        let method = call.request.method().clone();
        call.answer(answer);
        tokio::time::sleep(Duration::from_millis(10)).await;
        (method, since.elapsed().as_secs())
    }

    fn counted(&self) -> usize {
        Arc::strong_count(&self.waiting) - self.idle
    }

    async fn is_quiet_for(&mut self, minutes: u64) -> bool {
        tokio::time::sleep(Duration::from_mins(minutes)).await;
        self.calls.is_quiet()
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_note_is_tried_again_each_minute_and_meanwhile_nothing_waits_for_it() {
    let mut bench = start();
    bench.emit();
    assert_eq!(bench.answer(stub::refusal(403, "Forbidden")).await, (Method::POST, 0));
    for refusal in [
        stub::refusal(403, "Forbidden"),
        stub::refusal(401, "Unauthorized"),
        stub::refusal(500, "InternalError"),
        stub::broken(),
        stub::refusal(403, "Forbidden"),
    ] {
        assert_eq!((bench.events.forbidden(), bench.counted()), (true, 0));
        let (method, seconds) = bench.answer(refusal).await;
        assert!(method == Method::POST && (59..=61).contains(&seconds), "{method} after {seconds} s");
    }
    bench.answer(stored()).await;
    assert!(!bench.events.forbidden(), "a role was mended");
    assert!(bench.is_quiet_for(5).await);
}

#[tokio::test(start_paused = true)]
async fn a_refused_note_about_a_namespace_that_is_gone_is_not_tried_again() {
    let mut bench = start();
    bench.emit();
    bench.answer(stub::refusal(403, "Forbidden")).await;
    bench.answer(stub::refusal(404, "NotFound")).await;
    assert!(!bench.events.forbidden());
    assert!(bench.is_quiet_for(5).await);
}

#[tokio::test(start_paused = true)]
async fn refused_notes_take_turns_and_do_not_hold_up_others() {
    let mut bench = start();
    for namespace in ["a", "b"] {
        bench.events.emit(&bench.source.permit(), note_in(namespace));
        bench.answer(stub::refusal(403, "Forbidden")).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let (busy, refused) = ((500, "InternalError"), (403, "Forbidden"));
    for (namespace, (code, reason)) in [("a", busy), ("b", refused), ("a", refused), ("b", refused)] {
        let call = bench.calls.next().await;
        assert!(call.uri().contains(&format!("/namespaces/{namespace}/")), "{}", call.uri());
        call.answer(stub::refusal(code, reason));
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    bench.emit();
    assert_eq!(bench.answer(stored()).await.1, 0);
    assert!(bench.events.forbidden());
}

#[tokio::test(start_paused = true)]
async fn a_refused_note_is_not_tried_again_after_the_end_or_with_a_permit_that_is_over() {
    for end in [|bench: &Bench| bench.events.stop(), |bench: &Bench| bench.source.revoke()] {
        let mut bench = start();
        bench.emit();
        bench.answer(stub::refusal(403, "Forbidden")).await;
        end(&bench);
        assert!(bench.is_quiet_for(5).await);
        assert_eq!(bench.counted(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_note_outlives_a_renewal_that_is_late() {
    let mut bench = start();
    bench.emit();
    bench.answer(stub::refusal(403, "Forbidden")).await;
    tokio::time::sleep(Duration::from_millis(52_500)).await;
    bench.late.store(true, Ordering::Relaxed);
    // At the end of the minute, 2 s of the permit are left.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(bench.calls.is_quiet());
    bench.late.store(false, Ordering::Relaxed);
    assert_eq!(bench.answer(stored()).await, (Method::POST, 59));
    assert!(!bench.events.forbidden());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_deleted_by_hand_is_written_anew() {
    let mut bench = start();
    let gone = || stub::refusal(404, "NotFound");
    for (answer, method) in [
        (stored(), Method::POST),
        (stored(), Method::PATCH),
        (gone(), Method::PATCH),
        (stored(), Method::POST),
        (gone(), Method::PATCH),
        (gone(), Method::POST),
        (stored(), Method::POST),
    ] {
        // The second request of a note comes by itself.
        if bench.counted() == 0 {
            bench.emit();
        }
        assert_eq!(bench.answer(answer).await.0, method);
    }
    assert_eq!(bench.events.dropped(), 1, "the one that was answered so twice");
    assert!(!bench.events.forbidden() && bench.is_quiet_for(5).await);
}

#[tokio::test(start_paused = true)]
async fn a_note_that_may_not_be_counted_once_more_is_over_when_it_is_written_anew() {
    let mut bench = start();
    bench.emit();
    bench.answer(stored()).await;
    bench.emit();
    assert_eq!(bench.answer(stub::refusal(403, "Forbidden")).await.0, Method::PATCH);
    assert!(bench.events.forbidden());
    assert_eq!(bench.answer(stub::refusal(404, "NotFound")).await.0, Method::PATCH);
    assert_eq!(bench.answer(stored()).await.0, Method::POST);
    assert!(!bench.events.forbidden() && bench.is_quiet_for(5).await);
}

#[tokio::test(start_paused = true)]
async fn another_text_is_another_event_and_the_same_text_is_counted() {
    let mut bench = start();
    for (droplet, method) in [(2, Method::POST), (3, Method::POST), (2, Method::PATCH), (3, Method::PATCH)] {
        let text = format!("192.0.2.1 was moved by others: it is on droplet {droplet} now");
        bench.events.emit(&bench.source.permit(), Note { text: text.clone(), ..note() });
        let call = bench.calls.next().await;
        let body: serde_json::Value = serde_json::from_slice(call.request.body()).unwrap();
        assert_eq!((call.request.method(), &body["note"]), (&method, &json!(text)));
        call.answer(stub::object(&body));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn twenty_notes_of_a_reason_become_events_within_an_hour_and_one_counts_the_others() {
    let mut bench = start();
    let emit = |bench: &Bench, turn: u32| {
        let text = format!("moved for the {turn}th time");
        bench.events.emit(&bench.source.permit(), Note { text, ..note() });
    };
    for round in 0..2 {
        for turn in 0..25 {
            emit(&bench, turn);
            tokio::time::sleep(Duration::from_secs(1)).await;
            // The note that reports the first hour counts for the second.
            if turn + round < 20 {
                bench.calls.next().await.answer(stored());
            }
            assert!(bench.calls.is_quiet(), "turn {turn} of round {round}");
        }
        assert!(bench.is_quiet_for(59).await);
        let call = bench.calls.next().await;
        let body: serde_json::Value = serde_json::from_slice(call.request.body()).unwrap();
        let text = body["note"].as_str().unwrap();
        assert!(text.starts_with(&format!("{} more Events", 5 + round)), "{text}");
        assert_eq!((&body["reason"], &body["type"]), (&json!("Assigned"), &json!("Normal")));
        call.answer(stored());
    }
    assert!(bench.is_quiet_for(120).await, "an hour of which nothing was left out ends without a word");
    assert_eq!(bench.events.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_hour_is_told_of_neither_after_the_end_nor_with_a_permit_that_is_over() {
    for end in [|bench: &Bench| bench.events.stop(), |bench: &Bench| bench.source.revoke()] {
        let mut bench = start();
        for turn in 0..21 {
            bench.emit();
            if turn < 20 {
                bench.answer(stored()).await;
            }
        }
        end(&bench);
        assert!(bench.is_quiet_for(120).await);
        assert_eq!(bench.counted(), 0);
    }
}
