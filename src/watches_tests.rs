//! Many selectors, with an API server that the test answers by hand, on a paused clock.

use super::*;
use crate::clock::Clock;
use crate::kube::stub::{self, Call, Calls};
use crate::latest;
use crate::random::Random;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

struct Bench {
    watches: Watches,
    calls: Calls,
    _kept: (latest::Sender<u64>, Vec<Call>),
}

async fn start() -> Bench {
    let (client, mut calls) = stub::by_hand();
    let reset = latest::Sender::new(0);
    let context = WatchContext {
        client,
        clock: Clock::simulated(jiff::Timestamp::UNIX_EPOCH),
        random: Random::seeded(1),
        reset: reset.subscribe(),
        health: WatchHealth::default(),
    };
    let mut watches = Watches::new(context, TaskTracker::new(), CancellationToken::new());
    watches.restart();
    let own_kinds = vec![calls.next().await, calls.next().await];
    Bench { watches, calls, _kept: (reset, own_kinds) }
}

fn key(number: usize) -> WatchKey {
    WatchKey::Nodes { selector: format!("pool=n{number}") }
}

fn keys(count: usize) -> BTreeSet<WatchKey> {
    (0..count).map(key).collect()
}

fn node(name: &str, pool: usize, version: u64) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string(),
        "labels": {"pool": format!("n{pool}")}}})
}

fn page(version: u64, nodes: &[Value]) -> stub::Answer {
    stub::object(&json!({"kind": "NodeList", "apiVersion": "v1", "items": nodes,
        "metadata": {"resourceVersion": version.to_string()}}))
}

/// The number in the label selector of a request for nodes. `None` if it asks for all.
fn asked_for(call: &Call) -> Option<usize> {
    let uri = call.uri();
    assert!(uri.contains("/nodes?"), "{uri}");
    let (_, selector) = uri.split_once("labelSelector=pool%3Dn")?;
    selector.split('&').next().unwrap().parse().ok()
}

impl Bench {
    /// The next step of nodes: the number in its selector, what happened, and the names of its nodes.
    async fn step(&mut self) -> (usize, &'static str, Vec<String>) {
        let wait = Duration::from_secs(1);
        let step = tokio::time::timeout(wait, self.watches.next()).await.expect("a step");
        let Step::Nodes(WatchKey::Nodes { selector }, step) = step else { panic!("{step:?}") };
        let number = selector.trim_start_matches("pool=n").parse().unwrap();
        match step {
            Observed::Reset(all) => (number, "reset", all.into_iter().map(|node| node.name).collect()),
            Observed::Apply(node) => (number, "apply", vec![node.name]),
            Observed::Delete(node) => (number, "delete", vec![node.name]),
        }
    }

    /// Answers the lists of so many selectors at a version. Returns the senders of the events that follow, by selector.
    async fn serve(&mut self, count: usize, version: u64) -> BTreeMap<Option<usize>, UnboundedSender<Value>> {
        let mut pens = BTreeMap::new();
        while pens.len() < count {
            let call = self.calls.next().await;
            let number = asked_for(&call);
            if call.uri().contains("watch=true") {
                let (pen, lines) = mpsc::unbounded_channel();
                call.answer(stub::events(lines));
                pens.insert(number, pen);
            } else {
                call.answer(page(version, &[]));
            }
        }
        pens
    }

    async fn is_quiet(&mut self) -> bool {
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.calls.is_quiet()
    }
}

#[tokio::test(start_paused = true)]
async fn many_selectors_are_served_by_one_watch_and_each_key_gets_its_own_nodes() {
    let mut bench = start().await;
    bench.watches.follow(&keys(9));
    let list = bench.calls.next().await;
    assert_eq!(asked_for(&list), None);
    assert!(bench.is_quiet().await, "there is no other");
    list.answer(page(5, &[node("a", 3, 4), node("b", 77, 4)]));
    for number in 0..9 {
        let names = if number == 3 { vec!["a".to_owned()] } else { Vec::new() };
        assert_eq!(bench.step().await, (number, "reset", names));
    }
    let (pen, lines) = mpsc::unbounded_channel();
    bench.calls.next().await.answer(stub::events(lines));
    for (name, pool) in [("b", 78), ("a", 4)] {
        pen.send(json!({"type": "MODIFIED", "object": node(name, pool, 6)})).unwrap();
    }
    assert_eq!(bench.step().await, (3, "delete", vec!["a".to_owned()]));
    assert_eq!(bench.step().await, (4, "apply", vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_of_all_nodes_leaves_the_filtered_ones_and_every_other_key_gets_one() {
    let mut bench = start().await;
    bench.watches.follow(&keys(8));
    let pens = bench.serve(8, 5).await;
    for _ in 0..8 {
        bench.step().await;
    }
    bench.watches.follow(&keys(9));
    let all = bench.calls.next().await;
    assert_eq!(asked_for(&all), None);
    all.answer(stub::refusal(403, "Forbidden"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(bench.watches.troubles().keys().eq([&key(8)]), "{:?}", bench.watches.troubles());
    bench.watches.look_after();
    let own = bench.serve(1, 6).await;
    assert!(own.contains_key(&Some(8)));
    assert_eq!(bench.step().await, (8, "reset", vec![]));
    pens[&Some(2)].send(json!({"type": "ADDED", "object": node("a", 2, 7)})).unwrap();
    assert_eq!(bench.step().await, (2, "apply", vec!["a".to_owned()]));
    bench.watches.look_after();
    assert!(bench.watches.troubles().is_empty() && bench.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_to_replace_others_takes_each_key_over_once_it_is_as_new() {
    let mut bench = start().await;
    bench.watches.follow(&keys(8));
    let mut pens = bench.serve(8, 5).await;
    for _ in 0..8 {
        bench.step().await;
    }
    bench.watches.follow(&keys(9));
    let all = bench.calls.next().await;
    pens[&Some(2)].send(json!({"type": "ADDED", "object": node("a", 2, 9)})).unwrap();
    assert_eq!(bench.step().await, (2, "apply", vec!["a".to_owned()]));
    all.answer(page(7, &[]));
    for number in [8, 0, 1, 3, 4, 5, 6, 7] {
        assert_eq!(bench.step().await, (number, "reset", vec![]), "all but the one that has seen more");
    }
    let (pen, lines) = mpsc::unbounded_channel();
    bench.calls.next().await.answer(stub::events(lines));
    tokio::time::sleep(Duration::from_millis(1)).await;
    pens.retain(|_, pen| !pen.is_closed());
    assert!(pens.keys().eq([&Some(2)]), "{:?}", pens.keys());
    pen.send(json!({"type": "ADDED", "object": node("a", 2, 9)})).unwrap();
    assert_eq!(bench.step().await, (2, "reset", vec!["a".to_owned()]));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(pens[&Some(2)].is_closed());
    // Eight more selectors: another watch of all nodes begins, and the present one serves until that has a list.
    bench.watches.follow(&keys(17));
    let again = bench.calls.next().await;
    pen.send(json!({"type": "ADDED", "object": node("b", 1, 10)})).unwrap();
    assert_eq!(bench.step().await, (1, "apply", vec!["b".to_owned()]));
    again.answer(page(11, &[node("a", 2, 9), node("b", 1, 10)]));
    for _ in 0..17 {
        assert_eq!(bench.step().await.1, "reset");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(pen.is_closed());
}
