//! Watches: kube's watcher, objects entering and leaving a selection, bookmarks, ends.

use crate::support::{Frames, node, server, server_with_widgets};
use flipop_apiserver::Key;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

fn shown(event: &Event<Node>) -> String {
    match event {
        Event::Init => "init".to_owned(),
        Event::InitDone => "done".to_owned(),
        Event::InitApply(node) => format!("had {}", node.name_any()),
        Event::Apply(node) => format!("set {}", node.name_any()),
        Event::Delete(node) => format!("gone {}", node.name_any()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_kube_watcher_lists_follows_and_relists_after_410() {
    let server = server();
    for name in ["a", "b"] {
        node(&server, name, &[]);
    }
    let nodes: Api<Node> = Api::all(server.client("default"));
    let stream = kube::runtime::watcher(nodes, watcher::Config::default()).default_backoff();
    let mut events = Box::pin(stream.filter_map(|event| async { event.ok() }));
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(shown(&events.next().await.unwrap()));
    }
    node(&server, "c", &[]);
    seen.push(shown(&events.next().await.unwrap()));
    server.delete_object("v1", "Node", &Key::new("", "a"), false).unwrap();
    seen.push(shown(&events.next().await.unwrap()));
    assert_eq!(seen, ["init", "had a", "had b", "done", "set c", "gone a"]);

    server.cut_watches();
    server.delete_object("v1", "Node", &Key::new("", "b"), false).unwrap();
    server.compact();
    let mut again = Vec::new();
    for _ in 0..3 {
        again.push(shown(&events.next().await.unwrap()));
    }
    assert_eq!(again, ["init", "had c", "done"], "a deleted object is missing from the new list");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_begins_with_the_state_and_a_marked_bookmark() {
    let server = server();
    node(&server, "a", &[]);
    let nodes: Api<Node> = Api::all(server.client("default"));
    let config = watcher::Config::default().streaming_lists();
    let mut events = Box::pin(kube::runtime::watcher(nodes, config));
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(shown(&events.try_next().await.unwrap().unwrap()));
    }
    assert_eq!(seen, ["init", "had a", "done"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_enters_a_selection_is_added_and_one_that_leaves_is_deleted() {
    let server = server();
    let mut watch =
        Frames::open(&server, "/api/v1/nodes?watch=1&labelSelector=pool%3Dedge&resourceVersion=1");
    node(&server, "other", &[]);
    node(&server, "n", &[]);
    server.set_node_label("n", "pool", Some("edge")).unwrap();
    let entered = watch.next().await;
    assert_eq!((&entered["type"], &entered["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("n")));
    server.set_node_label("n", "zone", Some("x")).unwrap();
    assert_eq!(watch.next().await["type"], "MODIFIED");
    server.set_node_label("n", "pool", Some("core")).unwrap();
    let left = watch.next().await;
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["pool"], "edge", "the last state that was selected");
    let current = server.revision().to_string();
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        json!(current),
        "with the revision at which it left"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_pods_of_one_node_follows_their_binding() {
    let server = server();
    let uri = "/api/v1/namespaces/default/pods?watch=1&fieldSelector=spec.nodeName%3Dn1&resourceVersion=1";
    let mut watch = Frames::open(&server, uri);
    for (name, node) in [("p1", "n1"), ("p2", "n2"), ("p3", "")] {
        let pod = flipop_apiserver::PodSpec {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            node: node.to_owned(),
            ..flipop_apiserver::PodSpec::default()
        };
        server.create_pod(&pod).unwrap();
    }
    assert_eq!(watch.next_named().await, ("ADDED".to_owned(), "p1".to_owned()));
    let binding = json!({ "target": { "kind": "Node", "name": "n1" } }).to_string();
    let uri = "/api/v1/namespaces/default/pods/p3/binding";
    let (code, answer) = crate::support::request(&server, "POST", uri, &[], &binding).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(watch.next_named().await, ("ADDED".to_owned(), "p3".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_before_the_end_and_the_watch_ends_on_time() {
    let server = server();
    let start = Instant::now();
    let uri = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=100&resourceVersion=1";
    let mut watch = Frames::open(&server, uri);
    let mut seen = Vec::new();
    while let Some(frame) = watch.try_next().await.unwrap() {
        seen.push((frame["type"].as_str().unwrap().to_owned(), start.elapsed().as_secs()));
        assert_eq!(frame["object"]["kind"], "Node");
    }
    assert_eq!(seen, [("BOOKMARK".to_owned(), 60), ("BOOKMARK".to_owned(), 98)]);
    assert_eq!(start.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_forgotten_revision_is_refused_and_an_open_one_goes_on() {
    let server = server();
    let old = server.revision();
    let mut open = Frames::open(&server, &format!("/api/v1/nodes?watch=1&resourceVersion={old}"));
    node(&server, "a", &[]);
    node(&server, "b", &[]);
    server.compact();
    assert_eq!(open.next_named().await, ("ADDED".to_owned(), "a".to_owned()));
    let mut late = Frames::open(&server, &format!("/api/v1/nodes?watch=1&resourceVersion={old}"));
    let frame = late.next().await;
    assert_eq!((&frame["type"], &frame["object"]["reason"]), (&json!("ERROR"), &json!("Expired")));
    assert_eq!(late.try_next().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_the_log_gets_an_error_frame_with_410() {
    let epoch: jiff::Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let server = flipop_apiserver::ApiServer::builder(1, move || epoch).history(3).build();
    let mut watch =
        Frames::open(&server, &format!("/api/v1/nodes?watch=1&resourceVersion={}", server.revision()));
    for name in ["a", "b", "c", "d", "e"] {
        node(&server, name, &[]);
    }
    let frame = watch.next().await;
    assert_eq!((&frame["type"], &frame["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.try_next().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_can_be_listed_and_watched() {
    let server = server();
    node(&server, "a", &[("k", "v")]);
    let nodes: Api<Node> = Api::all(server.client("default"));
    let listed = nodes.list_metadata(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].labels()["k"], "v");
    let metadata: Api<PartialObjectMeta<Node>> = Api::all(server.client("default"));
    let mut events = Box::pin(kube::runtime::watcher(metadata, watcher::Config::default()));
    let mut seen: Vec<Event<PartialObjectMeta<Node>>> = Vec::new();
    for _ in 0..3 {
        seen.push(events.try_next().await.unwrap().unwrap());
    }
    server.set_node_label("a", "k", None).unwrap();
    let Event::Apply(changed) = events.try_next().await.unwrap().unwrap() else { panic!("no change seen") };
    assert!(!changed.labels().contains_key("k"));
}

#[tokio::test(start_paused = true)]
async fn watches_of_a_custom_resource_end_with_its_definition() {
    let server = server_with_widgets();
    let widget = json!({ "metadata": { "name": "w" }, "spec": { "size": 1 } });
    server.create_object("sandbox.example.com/v1", "Widget", "default", widget, "t").unwrap();
    let uri = "/apis/sandbox.example.com/v1/widgets?watch=1";
    let mut watch = Frames::open(&server, uri);
    assert_eq!(watch.next_named().await.0, "ADDED");
    let definition = Key::new("", "widgets.sandbox.example.com");
    server.delete_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition, false).unwrap();
    assert_eq!(watch.next_named().await, ("DELETED".to_owned(), "w".to_owned()));
    assert_eq!(watch.try_next().await.unwrap(), None);
    let (code, _) = crate::support::request(&server, "GET", uri, &[], "").await;
    assert_eq!(code, 404);
}

#[tokio::test(start_paused = true)]
async fn subscribers_see_every_change_with_its_writer() {
    let server = server();
    let mut changes = server.subscribe();
    node(&server, "a", &[]);
    let later = tokio::time::timeout(Duration::from_secs(5), changes.next()).await.unwrap();
    assert_eq!((later[0].key.name.as_str(), later[0].manager.as_str()), ("a", "kubelet"));
    assert!(later[0].before.is_none() && later[0].after.is_some());
    server.set_node_unschedulable("a", true).unwrap();
    let managers: Vec<String> = changes.drain().iter().map(|change| change.manager.clone()).collect();
    assert_eq!(managers, ["sandbox", "kube-controller-manager"], "the taint follows the cordon");
}
