//! Faults that an interceptor injects into requests and watches, in process and on a socket.

use crate::support::{Frames, node, server};
use flipop_apiserver::{ApiError, ApiServer, Call, FrameFacts, Interceptor, OnFrame, Verb, kubeconfig_yaml};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Config, Error, ResourceExt};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A refusal of a verb, and a fault of the frame with the given index.
struct Fault {
    refusal: Option<(Verb, ApiError)>,
    frame: Option<(u64, OnFrame)>,
}

impl Interceptor for Fault {
    fn before(&self, call: &Call) -> Result<(), ApiError> {
        match &self.refusal {
            Some((verb, refusal)) if *verb == call.verb => Err(refusal.clone()),
            Some(_) | None => Ok(()),
        }
    }

    fn frame(&self, _: &Call, frame: &FrameFacts<'_>) -> OnFrame {
        match self.frame {
            Some((index, fault)) if index == frame.index => fault,
            Some(_) | None => OnFrame::Deliver,
        }
    }
}

fn faulty(server: &ApiServer, fault: Fault) -> ApiServer {
    server.front().with_interceptor(Arc::new(fault))
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_has_no_effect_and_carries_retry_after() {
    let server = server();
    node(&server, "n", &[]);
    let mut refusal = ApiError::new(429, "TooManyRequests", "later");
    refusal.details = json!({ "retryAfterSeconds": 9 });
    let front = faulty(&server, Fault { refusal: Some((Verb::Delete, refusal)), frame: None });
    let request = |method: &str| {
        http::Request::builder().method(method).uri("/api/v1/nodes/n").body(bytes::Bytes::new()).unwrap()
    };
    let response = front.answer(&request("DELETE"));
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"9".parse().unwrap())
    );
    assert_eq!(front.answer(&request("GET")).status(), 200);
}

/// The frames of a watch of three nodes, with a fault at the second.
async fn frames_with(fault: OnFrame) -> Vec<String> {
    let server = server();
    for name in ["a", "b", "c"] {
        node(&server, name, &[]);
    }
    let front = faulty(&server, Fault { refusal: None, frame: Some((1, fault)) });
    let mut watch = Frames::open(&front, "/api/v1/nodes?watch=1");
    let mut seen = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_mins(1), watch.try_next()).await {
            Ok(Ok(Some(frame))) => {
                let text = |value: &serde_json::Value| value.as_str().unwrap_or("410").to_owned();
                seen.push(text(&frame["object"]["metadata"]["name"]));
            }
            Ok(Ok(None)) => {
                seen.push("end".to_owned());
                return seen;
            }
            Ok(Err(_)) => {
                seen.push("broken".to_owned());
                return seen;
            }
            Err(_) => {
                seen.push("silent".to_owned());
                return seen;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn frames_of_a_watch_can_be_torn_stalled_ended_and_expired() {
    assert_eq!(frames_with(OnFrame::Deliver).await, ["a", "b", "c", "silent"]);
    assert_eq!(frames_with(OnFrame::Close).await, ["a", "end"]);
    assert_eq!(frames_with(OnFrame::Tear).await, ["a", "broken"]);
    assert_eq!(frames_with(OnFrame::Stall).await, ["a", "silent"]);
    assert_eq!(frames_with(OnFrame::Expire).await, ["a", "410", "end"]);
}

#[tokio::test(start_paused = true)]
async fn cutting_the_watches_of_one_front_leaves_those_of_another() {
    let server = server();
    let (cut, spared) = (server.front(), server.front());
    let mut broken = Frames::open(&cut, "/api/v1/nodes?watch=1");
    let mut whole = Frames::open(&spared, "/api/v1/nodes?watch=1");
    cut.cut_watches();
    node(&server, "a", &[]);
    assert!(broken.try_next().await.is_err());
    assert_eq!(whole.next_named().await.1, "a");
}

/// A client of a front served on a socket.
async fn on_socket(front: &ApiServer, stop: &CancellationToken) -> (Client, tokio::task::JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = tokio::task::JoinSet::new();
    let (front, stop) = (front.clone(), stop.clone());
    serving.spawn(async move { front.serve(listener, stop).await.unwrap() });
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig_yaml(&url, "default")).unwrap();
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await;
    (Client::try_from(config.unwrap()).unwrap(), serving)
}

#[tokio::test]
async fn the_same_server_answers_on_a_socket() {
    let server = server();
    let stop = CancellationToken::new();
    let (client, mut serving) = on_socket(&server, &stop).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let watch = kube::runtime::watcher(nodes.clone(), kube::runtime::watcher::Config::default());
    let mut events = Box::pin(watch);
    let mut next = async || futures::StreamExt::next(&mut events).await.unwrap().unwrap();
    for _ in 0..2 {
        next().await;
    }
    let sent: Node = serde_json::from_value(json!({ "metadata": { "name": "n" } })).unwrap();
    nodes.create(&PostParams::default(), &sent).await.unwrap();
    let kube::runtime::watcher::Event::Apply(seen) = next().await else { panic!("no creation seen") };
    assert_eq!(seen.name_any(), "n");
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert_eq!(client.apiserver_version().await.unwrap().minor, "33");
    stop.cancel();
    serving.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_torn_watch_on_a_socket_is_an_error_of_the_transport() {
    let server = server();
    node(&server, "n", &[]);
    let stop = CancellationToken::new();
    let front = faulty(&server, Fault { refusal: None, frame: Some((0, OnFrame::Tear)) });
    let (client, _serving) = on_socket(&front, &stop).await;
    let watch = http::Request::get("/api/v1/nodes?watch=1").body(Vec::new()).unwrap();
    let error = client.request_text(watch).await.unwrap_err();
    assert!(matches!(error, Error::HyperError(_) | Error::Service(_)), "{error:?}");
    stop.cancel();
}
