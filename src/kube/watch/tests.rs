//! The list-then-watch loop, with an API server that the test answers by hand, on a paused clock.

mod aside;
mod bursts;
mod dedupe;

use super::*;
use crate::kube::stub::{self, Call, Calls};
use crate::kube::trouble::TroubleKind;
use crate::watches::{Step, Watches};
use messages::Reported;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

struct Bench {
    calls: Calls,
    steps: mpsc::Receiver<((), News<NodeFacts>)>,
    health: WatchHealth,
    reset: latest::Sender<u64>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

fn context(client: Client) -> (WatchContext, latest::Sender<u64>) {
    let reset = latest::Sender::new(0);
    let context = WatchContext {
        client,
        clock: Clock::simulated(jiff::Timestamp::UNIX_EPOCH),
        random: Random::seeded(1),
        reset: reset.subscribe(),
        health: WatchHealth::default(),
    };
    (context, reset)
}

fn start() -> Bench {
    start_with(WatchHealth::default())
}

/// A watch with the name of earlier watches that `health` knows.
fn start_with(health: WatchHealth) -> Bench {
    let (client, calls) = stub::by_hand();
    let (context, reset) = context(client);
    let context = WatchContext { health: health.clone(), ..context };
    let (sink, steps) = mpsc::channel(16);
    let cancel = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let target = Target { selector: "role=web".to_owned(), ..Target::default() };
    tasks.spawn(watch_nodes(context, target, (), sink, cancel.clone()));
    Bench { calls, steps, health, reset, cancel, tasks }
}

fn node(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}})
}

fn page(version: u64, nodes: &[Value], more: Option<&str>) -> stub::Answer {
    stub::object(&json!({"kind": "NodeList", "apiVersion": "v1", "items": nodes,
        "metadata": {"resourceVersion": version.to_string(), "continue": more}}))
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(version: u64) -> Value {
    event(
        "BOOKMARK",
        &json!({"kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}}),
    )
}

/// Starts a watch. Returns the sender of its events.
fn begin(call: Call) -> UnboundedSender<Value> {
    assert!(call.uri().contains("watch=true"), "{}", call.uri());
    let (pen, lines) = mpsc::unbounded_channel();
    call.answer(stub::events(lines));
    pen
}

impl Bench {
    async fn step(&mut self) -> Observed<String> {
        let wait = Duration::from_mins(5);
        let step = loop {
            let ((), News { reported, .. }) =
                timeout(wait, self.steps.recv()).await.expect("a step").unwrap();
            if let Reported::Whole(step) = reported {
                break step;
            }
        };
        match step {
            Observed::Reset(nodes) => {
                Observed::Reset(nodes.into_iter().map(|node| node.name).collect::<Vec<_>>())
            }
            Observed::Apply(node) => Observed::Apply(node.name),
            Observed::Delete(node) => Observed::Delete(node.name),
        }
    }

    async fn list(&mut self) -> Call {
        let call = self.calls.next().await;
        assert!(!call.uri().contains("watch=true"), "{}", call.uri());
        call
    }

    /// Answers a list of `nodes` at `version` and starts the watch.
    async fn sync(&mut self, version: u64, nodes: &[&str]) -> UnboundedSender<Value> {
        let objects: Vec<Value> = nodes.iter().map(|name| node(name, version)).collect();
        self.list().await.answer(page(version, &objects, None));
        assert_eq!(self.step().await, Observed::Reset(nodes.iter().map(ToString::to_string).collect()));
        begin(self.calls.next().await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_delivered_only_when_its_last_page_is_there() {
    let mut bench = start();
    let first = bench.list().await;
    assert!(first.uri().contains("labelSelector=role%3Dweb"), "{}", first.uri());
    assert!(!first.uri().contains("resourceVersion"), "a consistent read: {}", first.uri());
    first.answer(page(5, &[node("a", 1)], Some("next")));
    let second = bench.list().await;
    assert!(second.uri().contains("continue=next"), "{}", second.uri());
    assert!(bench.steps.try_recv().is_err());
    assert!(!bench.health.reasons_not_ready().is_empty());
    second.answer(page(5, &[node("b", 2)], None));
    assert_eq!(bench.step().await, Observed::Reset(vec!["a".to_owned(), "b".to_owned()]));
    let call = bench.calls.next().await;
    assert!(call.uri().contains("resourceVersion=5"), "{}", call.uri());
    assert_eq!(bench.health.reasons_not_ready(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn lists_and_events_are_asked_for_in_protobuf_and_lists_read_as_they_come() {
    let mut bench = start();
    let first = bench.list().await;
    assert_eq!(first.request.headers()[http::header::ACCEPT], crate::kube::protobuf::ACCEPT);
    // A list of one node, "b", at version 5, in the protobuf envelope.
    let item: &[u8] = b"\x0a\x03\x0a\x01b";
    let list = [b"\x0a\x03\x12\x015\x12\x05", item].concat();
    let body = [b"k8s\0\x0a\x00\x12\x0c", list.as_slice()].concat();
    first.answer(stub::raw(200, body));
    assert_eq!(bench.step().await, Observed::Reset(vec!["b".to_owned()]));
    let watch = bench.calls.next().await;
    assert!(watch.uri().contains("resourceVersion=5"), "{}", watch.uri());
    assert_eq!(watch.request.headers()[http::header::ACCEPT], crate::kube::protobuf::ACCEPT);
    watch.answer(stub::refusal(410, "Expired"));
    bench.list().await.answer(stub::raw(200, b"k8s\0\x12\xff".to_vec()));
    let again = bench.list().await;
    let status = bench.health.snapshot().into_values().next().unwrap();
    assert!(status.message.contains("could not be decoded"), "{}", status.message);
    again.answer(page(6, &[node("c", 6)], None));
    assert_eq!(bench.step().await, Observed::Reset(vec!["c".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn events_follow_the_list_and_a_watch_that_ends_is_resumed_where_it_stood() {
    let mut bench = start();
    let pen = bench.sync(5, &["a"]).await;
    pen.send(event("ADDED", &node("b", 6))).unwrap();
    pen.send(event("DELETED", &node("a", 7))).unwrap();
    pen.send(bookmark(9)).unwrap();
    assert_eq!(bench.step().await, Observed::Apply("b".to_owned()));
    assert_eq!(bench.step().await, Observed::Delete("a".to_owned()));
    drop(pen);
    let call = bench.calls.next().await;
    assert!(call.uri().contains("watch=true") && call.uri().contains("resourceVersion=9"), "{}", call.uri());
    assert_eq!(bench.health.restarts().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_answered_by_a_list_at_once_however_it_is_said() {
    let mut bench = start();
    let pen = bench.sync(5, &["a"]).await;
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    pen.send(event("ERROR", &gone)).unwrap();
    let before = Instant::now();
    let pen = bench.sync(8, &["a", "b"]).await;
    pen.send(bookmark(9)).unwrap();
    drop(pen);
    bench.calls.next().await.answer(stub::refusal(410, "Expired"));
    bench.sync(12, &["b"]).await;
    assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
    assert_eq!(bench.health.restarts().get(&("nodes".to_owned(), "expired")), Some(&2));
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_noticed_within_65_seconds_even_if_the_next_connection_is_dead_too() {
    let mut bench = start();
    let pen = bench.sync(5, &["a"]).await;
    let silent_since = Instant::now();
    let unanswered = bench.list().await;
    assert!(silent_since.elapsed() < Duration::from_mins(1));
    let _pens = (pen, unanswered);
    assert_eq!(bench.health.restarts().get(&("nodes".to_owned(), "interrupted")), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn a_list_or_a_watch_that_is_never_answered_is_asked_for_again() {
    let mut bench = start();
    let _hung = bench.list().await;
    bench.list().await.answer(page(5, &[], None));
    assert_eq!(bench.step().await, Observed::Reset(Vec::new()));
    let hung = bench.calls.next().await;
    let began = Instant::now();
    begin(bench.calls.next().await);
    assert!(began.elapsed() <= Duration::from_secs(7), "{:?}", began.elapsed());
    drop(hung);
}

#[tokio::test(start_paused = true)]
async fn an_older_list_is_ignored_for_a_minute_and_then_believed() {
    let mut bench = start();
    let pen = bench.sync(50, &["a"]).await;
    pen.send(event("ADDED", &node("b", 60))).unwrap();
    assert_eq!(bench.step().await, Observed::Apply("b".to_owned()));
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    pen.send(event("ERROR", &gone)).unwrap();
    let since = Instant::now();
    loop {
        bench.list().await.answer(page(55, &[node("a", 50)], None));
        tokio::time::sleep(Duration::from_millis(1)).await;
        if !bench.steps.is_empty() {
            break;
        }
    }
    assert_eq!(bench.step().await, Observed::Reset(vec!["a".to_owned()]));
    assert!((60..66).contains(&since.elapsed().as_secs()), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_what_a_former_watch_of_its_name_saw_is_ignored_too() {
    let mut bench = start();
    let pen = bench.sync(50, &["a"]).await;
    pen.send(bookmark(60)).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let Bench { health, cancel, mut tasks, .. } = bench;
    cancel.cancel();
    tasks.join_next().await.unwrap().unwrap();
    assert!(health.snapshot().is_empty());
    let mut bench = start_with(health);
    for _ in 0..3 {
        bench.list().await.answer(page(55, &[], None));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(bench.steps.is_empty());
    }
    bench.sync(60, &["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_is_asked_for_again_and_those_before_it_are_not() {
    let refusals = [stub::throttled(429, 7), stub::refusal(500, "InternalError"), stub::broken()];
    let cuts = [b"k8s\0\x12\x7f\x12\x05\x0a\x03".as_slice(), b"{\"kind\":"].map(stub::cut);
    for refusal in refusals.into_iter().chain(cuts) {
        let mut bench = start();
        bench.list().await.answer(page(5, &[node("a", 1)], Some("next")));
        let since = Instant::now();
        let mut call = bench.list().await;
        call.answer(refusal);
        for _ in 0..2 {
            call = bench.list().await;
            assert!(call.uri().contains("continue=next"), "{}", call.uri());
            call.answer(stub::refusal(503, "ServiceUnavailable"));
        }
        bench.list().await.answer(page(5, &[node("b", 1)], None));
        assert_eq!(bench.step().await, Observed::Reset(vec!["a".to_owned(), "b".to_owned()]));
        assert!(since.elapsed().as_secs() < 20);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_again_and_again_or_for_good_begins_the_list_anew() {
    for (refusals, code, reason) in [(4, 500, "InternalError"), (1, 410, "Expired"), (1, 403, "Forbidden")] {
        let mut bench = start();
        bench.list().await.answer(page(5, &[node("a", 1)], Some("next")));
        for _ in 0..refusals {
            let call = bench.list().await;
            assert!(call.uri().contains("continue=next"), "{}", call.uri());
            call.answer(stub::refusal(code, reason));
        }
        let anew = bench.list().await;
        assert!(!anew.uri().contains("continue"), "{code}: {}", anew.uri());
    }
}

#[tokio::test(start_paused = true)]
async fn the_return_of_the_api_server_ends_the_wait_that_a_server_asked_for_which_was_down() {
    for (code, waits) in [(503, 0..5), (429, 20..26)] {
        let mut bench = start();
        bench.list().await.answer(stub::throttled(code, 20));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let since = Instant::now();
        bench.reset.send_modify(|count| *count += 1);
        bench.list().await;
        assert!(waits.contains(&(since.elapsed().as_secs() + 1)), "{code}: {:?}", since.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_catches_up_ends_the_wait() {
    let mut bench = start();
    let pen = bench.sync(50, &["a"]).await;
    pen.send(event("ERROR", &json!({"kind": "Status", "code": 410}))).unwrap();
    bench.list().await.answer(page(49, &[], None));
    bench.sync(50, &["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_line_that_cannot_be_read_leads_to_a_list_and_a_cut_line_to_a_resumption() {
    let mut bench = start();
    let pen = bench.sync(5, &["a"]).await;
    pen.send(json!("{\"type\":\"ADDED\",\"object\":17}\n")).unwrap();
    let pen = bench.sync(6, &["a", "b"]).await;
    pen.send(bookmark(7)).unwrap();
    pen.send(json!("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"na")).unwrap();
    drop(pen);
    let call = bench.calls.next().await;
    assert!(call.uri().contains("resourceVersion=7"), "{}", call.uri());
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_verb_is_named_and_retried_without_haste() {
    let mut bench = start();
    bench.list().await.answer(stub::refusal(403, "Forbidden"));
    let mut waits = Vec::new();
    for _ in 0..10 {
        let since = Instant::now();
        bench.list().await.answer(stub::refusal(403, "Forbidden"));
        waits.push(since.elapsed().as_millis());
    }
    assert!(waits.iter().all(|wait| (500..=5_000).contains(wait)), "{waits:?}");
    assert!(waits.iter().skip(4).all(|wait| *wait >= 2_500), "{waits:?}");
    let reasons = bench.health.reasons_not_ready();
    assert!(reasons[0].contains("may not list nodes selected by role=web"), "{reasons:?}");
    bench.list().await.answer(page(1, &[], None));
    bench.step().await;
    bench.calls.next().await.answer(stub::refusal(403, "Forbidden"));
    bench.list().await.answer(page(1, &[], None));
    let reasons = bench.health.reasons_not_ready();
    assert!(reasons[0].contains("may not watch nodes"), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn the_return_of_the_api_server_ends_a_backoff() {
    let mut bench = start();
    for _ in 0..8 {
        bench.list().await.answer(stub::broken());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(bench.calls.is_quiet());
    let since = Instant::now();
    bench.reset.send_modify(|count| *count += 1);
    bench.list().await;
    assert!(since.elapsed() < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_again_and_again_does_not_spin() {
    let mut bench = start();
    drop(bench.sync(5, &["a"]).await);
    let since = Instant::now();
    for _ in 0..10 {
        drop(begin(bench.calls.next().await));
    }
    assert!(since.elapsed() > Duration::from_secs(15), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_watch_and_its_entry() {
    let mut bench = start();
    bench.sync(5, &["a"]).await;
    bench.cancel.cancel();
    bench.tasks.join_next().await.unwrap().unwrap();
    assert!(bench.health.snapshot().is_empty());
}

mod resources {
    use super::*;
    use crate::api::{FloatingIPPool, object_of};

    type Step = Observed<Seen<FloatingIPPool>>;

    async fn step(steps: &mut mpsc::Receiver<((), Step)>) -> Step {
        timeout(Duration::from_mins(5), steps.recv()).await.expect("a step").unwrap().1
    }

    fn run() -> (Calls, mpsc::Receiver<((), Step)>, WatchHealth, JoinSet<()>) {
        let (client, calls) = stub::by_hand();
        let (context, reset) = context(client);
        let health = context.health.clone();
        let (sink, steps) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _kept = reset;
            watch_resources::<FloatingIPPool, ()>(context, (), sink, CancellationToken::new()).await;
        });
        (calls, steps, health, tasks)
    }

    fn pool(name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool", "spec": spec,
            "metadata": {"namespace": "web", "name": name, "uid": "u", "resourceVersion": "4", "generation": 2}})
    }

    fn list(items: &[Value]) -> stub::Answer {
        stub::object(&json!({"apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPoolList",
            "metadata": {"resourceVersion": "9"}, "items": items}))
    }

    #[tokio::test(start_paused = true)]
    async fn an_undecodable_object_is_an_item_of_its_own_and_harms_no_other() {
        let (mut calls, mut steps, _health, _tasks) = run();
        let good = json!({"provider": "digitalocean", "ips": ["192.0.2.1"]});
        calls.next().await.answer(list(&[pool("good", &good), pool("bad", &json!({"ips": 17}))]));
        let Observed::Reset(seen) = step(&mut steps).await else { panic!("a list") };
        assert!(seen[0].is_ok());
        let bad = seen[1].as_ref().unwrap_err();
        let object = object_of(&bad.metadata);
        assert_eq!((object.name.to_string(), &*object.uid.0), ("web/bad".to_owned(), "u"));
        assert_eq!((bad.metadata.generation, bad.metadata.resource_version.as_deref()), (Some(2), Some("4")));
        assert!(!bad.error.is_empty());
        let pen = begin(calls.next().await);
        pen.send(event("MODIFIED", &pool("bad", &json!({"ips": {}})))).unwrap();
        pen.send(event("MODIFIED", &pool("bad", &good))).unwrap();
        assert!(matches!(step(&mut steps).await, Observed::Apply(Err(_))));
        assert!(matches!(step(&mut steps).await, Observed::Apply(Ok(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_crd_counts_as_empty_after_a_while_and_is_waited_for() {
        let (mut calls, mut steps, health, _tasks) = run();
        let since = Instant::now();
        while steps.is_empty() {
            calls.next().await.answer(stub::refusal(404, "NotFound"));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(since.elapsed() >= Duration::from_secs(3), "{:?}", since.elapsed());
        assert!(matches!(step(&mut steps).await, Observed::Reset(pools) if pools.is_empty()));
        let status = health.snapshot().into_values().next().unwrap();
        assert_eq!(status.trouble, Some(TroubleKind::NotFound));
        assert!(status.message.contains("CRDs are not installed"), "{}", status.message);
        for _ in 0..5 {
            calls.next().await.answer(stub::refusal(404, "NotFound"));
        }
        calls.next().await.answer(list(&[pool("new", &json!({}))]));
        assert!(matches!(step(&mut steps).await, Observed::Reset(pools) if pools.len() == 1));
    }
}

/// Answers the next list of each of our kinds, in whatever order they come. There is one pool, named `pool`.
async fn list_both(calls: &mut Calls, pool: &str) {
    for _kind in 0..2 {
        let call = calls.next().await;
        let name = call.uri();
        let (kind, items) = if name.contains("floatingippools") {
            let metadata = json!({"name": pool, "namespace": "ns", "uid": pool, "resourceVersion": "1"});
            ("FloatingIPPool", vec![json!({"metadata": metadata, "spec": {}})])
        } else {
            ("NodeDNSRecordSet", Vec::new())
        };
        let api = "flipop.digitalocean.com/v1alpha1";
        call.answer(stub::object(&json!({"kind": format!("{kind}List"), "apiVersion": api, "items": items,
            "metadata": {"resourceVersion": "1"}})));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_of_before_a_restart_showed_is_not_let_through() {
    let (client, mut calls) = stub::by_hand();
    let (context, _reset) = context(client);
    let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
    let mut watches = Watches::new(context, tracker.clone(), cancel.clone());
    watches.restart();
    list_both(&mut calls, "old").await;
    // Each watch begins when its list waits to be consumed.
    let _watches = [calls.next().await, calls.next().await];
    watches.restart();
    list_both(&mut calls, "new").await;
    let shown = loop {
        if let Step::Pools(Observed::Reset(pools)) = watches.next().await {
            break pools;
        }
    };
    let names: Vec<_> = shown.into_iter().map(|seen| seen.unwrap().metadata.name.unwrap()).collect();
    assert_eq!(names, ["new"]);
    cancel.cancel();
    tracker.close();
    tracker.wait().await;
}
