//! Events that change no fact are left out.

use super::*;

fn pod(name: &str, version: u64, ready: &str, restarts: u64) -> Value {
    json!({
        "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": version.to_string()},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"restartCount": restarts}]},
    })
}

fn pods(version: u64, pods: &[Value]) -> stub::Answer {
    stub::object(&json!({"kind": "PodList", "apiVersion": "v1", "items": pods,
        "metadata": {"resourceVersion": version.to_string()}}))
}

/// The steps of a watch of pods: a list of `a`, these events, a second list of the same, and these events again.
async fn steps_of(events: &[Value]) -> Vec<Observed<(String, bool)>> {
    let (client, mut calls) = stub::by_hand();
    let (context, _reset) = context(client);
    let (sink, mut steps) = mpsc::channel(64);
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_pods(context, Target::default(), (), sink, CancellationToken::new()));
    // The server does not go back to an older version.
    for version in [5, 20] {
        calls.next().await.answer(pods(version, &[pod("a", version, "True", 0)]));
        let pen = begin(calls.next().await);
        for event in events {
            pen.send(event.clone()).unwrap();
        }
        // The place in the stream is lost, so the next request is a list.
        pen.send(json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}))
            .unwrap();
    }
    let mut told = Vec::new();
    calls.next().await;
    while let Ok(((), News { reported: Reported::Whole(step), .. })) = steps.try_recv() {
        let facts = |pod: PodFacts| (pod.name, pod.serving);
        told.push(match step {
            Observed::Reset(all) => Observed::Reset(all.into_iter().map(facts).collect()),
            Observed::Apply(one) => Observed::Apply(facts(one)),
            Observed::Delete(one) => Observed::Delete(facts(one)),
        });
    }
    told
}

#[tokio::test(start_paused = true)]
async fn an_event_that_changes_no_fact_is_left_out_and_every_other_one_is_told() {
    let serves = |name: &str, serves| (name.to_owned(), serves);
    let told = steps_of(&[
        event("MODIFIED", &pod("a", 6, "True", 1)),
        event("MODIFIED", &pod("a", 7, "False", 1)),
        event("MODIFIED", &pod("a", 8, "False", 2)),
        event("MODIFIED", &pod("a", 9, "True", 2)),
        event("ADDED", &pod("b", 10, "True", 0)),
        event("DELETED", &pod("b", 11, "True", 0)),
        event("ADDED", &pod("b", 12, "True", 0)),
    ])
    .await;
    let once = [
        Observed::Reset(vec![serves("a", true)]),
        Observed::Apply(serves("a", false)),
        Observed::Apply(serves("a", true)),
        Observed::Apply(serves("b", true)),
        Observed::Delete(serves("b", true)),
        Observed::Apply(serves("b", true)),
    ];
    assert_eq!(told, [once.clone(), once].concat(), "a list counts as all that was told");
}
