//! A cluster on a paused clock, requests without a client, and a definition for testing custom resources.

use bytes::Bytes;
use flipop_apiserver::{ApiServer, NodeSpec};
use http::Request;
use http_body_util::BodyExt;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const WIDGETS_YAML: &str = include_str!("widgets.yaml");

/// The resource that `widgets.yaml` defines, for typed access.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "sandbox.example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
pub(crate) struct WidgetSpec {
    pub(crate) size: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) colour: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WidgetStatus {
    #[serde(default)]
    pub(crate) phase: String,
}

pub(crate) fn server() -> ApiServer {
    ApiServer::simulated(42, "2026-03-01T12:00:00Z".parse().unwrap())
}

pub(crate) fn server_with_widgets() -> ApiServer {
    let server = server();
    server.apply_yaml(WIDGETS_YAML, "default").unwrap();
    server
}

pub(crate) fn node(server: &ApiServer, name: &str, labels: &[(&str, &str)]) -> Arc<Value> {
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let provider_id = format!("digitalocean://{name}");
    let spec = NodeSpec { name: name.to_owned(), provider_id, labels, ready: true, ..NodeSpec::default() };
    server.create_node(&spec).unwrap()
}

/// Sends one request with headers. Returns the status code and the JSON of the answer.
pub(crate) async fn request(
    server: &ApiServer,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Bytes::from(body.to_owned())).unwrap();
    let response = server.answer(&request);
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

pub(crate) async fn get(server: &ApiServer, uri: &str) -> Value {
    let (code, answer) = request(server, "GET", uri, &[], "").await;
    assert_eq!(code, 200, "{uri}: {answer}");
    answer
}

/// The body of a watch, frame by frame.
pub(crate) struct Frames(axum::body::Body);

impl Frames {
    pub(crate) fn open(server: &ApiServer, uri: &str) -> Self {
        let request =
            Request::builder().uri(uri).header("accept", "application/json").body(Bytes::new()).unwrap();
        let response = server.answer(&request);
        assert_eq!(response.status(), 200, "{uri}");
        Self(response.into_body())
    }

    /// The next frame. `None` at the end. `Err` if the connection broke.
    pub(crate) async fn try_next(&mut self) -> Result<Option<Value>, String> {
        match self.0.frame().await {
            None => Ok(None),
            Some(Ok(frame)) => {
                let bytes = frame.into_data().unwrap();
                serde_json::from_slice(&bytes).map(Some).map_err(|error| error.to_string())
            }
            Some(Err(error)) => Err(error.to_string()),
        }
    }

    pub(crate) async fn next(&mut self) -> Value {
        self.try_next().await.unwrap().expect("the watch ended")
    }

    /// Type and name of the next frame's object.
    pub(crate) async fn next_named(&mut self) -> (String, String) {
        let frame = self.next().await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&frame["type"]), text(&frame["object"]["metadata"]["name"]))
    }
}
