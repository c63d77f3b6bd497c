//! The operator's web page with buttons that cause faults.
//!
//! Owns the pages that the sandbox serves, an operator's state, the nodes, and the buttons' requests. Does not own
//! the effect of a button (`super::acts`). The operator contains nothing of this.
//!
//! Invariants: only a request with the token of the printed URL in its header changes anything. A web site that is
//! open in the same browser does not know the token, and may not send the header: no answer allows other origins.
//! Requests under another host get nothing, as at the operator.

use super::commands::Command;
use super::pools;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use flipop::admin::page;
use flipop_apiserver::ApiServer;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// The header with the token. A page can send such a header only to its own origin, unless another server allows it.
const HEADER: &str = "x-flipop-sandbox";

/// Files that the page loads besides its own.
const MORE: &str =
    "<link rel=\"stylesheet\" href=\"levers.css\">\n<script src=\"levers.js\" defer></script>\n";

/// The script of the buttons.
const SCRIPT: &str = include_str!("levers.js");

/// Their style.
const STYLE: &str = include_str!("levers.css");

/// The longest command: a word and the name of a node.
const MAX_COMMAND: usize = 512;

/// Commands that wait to be carried out.
const WAITING: usize = 8;

/// Longest wait for an operator, and for a command.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer of an operator.
const MAX_DEBUG: u64 = 32 << 20;

/// A command of a button, and the channel on which the page waits for the result.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) command: Command,
    /// The result: an error if the command was not carried out.
    pub(super) answer: oneshot::Sender<Result<String, String>>,
}

/// The facts that the page shows besides the operator's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scene {
    /// The addresses of the operators' endpoints.
    pub(super) operators: Vec<SocketAddr>,
    /// Whether the providers answer.
    pub(super) providers_up: bool,
}

/// The page's side of the sandbox.
pub(super) struct Web {
    token: String,
    scene: Arc<Mutex<Scene>>,
    asked: mpsc::Receiver<Asked>,
}

/// The part that the routes share.
#[derive(Clone)]
struct Served {
    token: Arc<str>,
    scene: Arc<Mutex<Scene>>,
    api: ApiServer,
    ask: mpsc::Sender<Asked>,
}

impl Web {
    /// The sandbox's side of the page, and its routes.
    pub(super) fn new(api: ApiServer) -> (Self, Router) {
        // Random bits from the operating system. Guessing them would only allow somebody to break a simulation on this
        // machine.
        let token = uuid::Uuid::new_v4().simple().to_string();
        let (ask, asked) = mpsc::channel(WAITING);
        let scene = Arc::new(Mutex::new(Scene::default()));
        let served = Served { token: token.as_str().into(), scene: Arc::clone(&scene), api, ask };
        let routes = Router::new()
            .route("/debug", get(debug))
            .route("/sandbox", get(nodes).post(act))
            .with_state(served)
            .route("/levers.css", page::file("text/css; charset=utf-8", STYLE))
            .route("/levers.js", page::file("text/javascript; charset=utf-8", SCRIPT))
            .merge(page::routes(MORE));
        (Self { token, scene, asked }, routes)
    }

    /// The URL that has the buttons. A browser keeps the part after `#` to itself.
    pub(super) fn url(&self, address: SocketAddr) -> String {
        format!("http://{address}/#token={}", self.token)
    }

    /// Shows this from now on.
    pub(super) fn show(&self, scene: Scene) {
        *self.scene.lock().unwrap_or_else(PoisonError::into_inner) = scene;
    }

    /// The next command. Waits for ever if none comes.
    pub(super) async fn next(&mut self) -> Asked {
        match self.asked.recv().await {
            Some(asked) => asked,
            None => std::future::pending().await,
        }
    }
}

impl Served {
    fn scene(&self) -> Scene {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The state of the leading operator. If none leads, the state of any other.
async fn debug(State(served): State<Served>, request: Request<Body>) -> Response {
    if let Err(refusal) = page::admit(&request) {
        return refusal.into_response();
    }
    let mut said = None;
    for address in served.scene().operators {
        let Ok(Some(debug)) = tokio::time::timeout(PATIENCE, ask(address)).await else { continue };
        let leads = debug.get("leading") == Some(&json!(true));
        said = Some(debug);
        if leads {
            break;
        }
    }
    match said {
        Some(debug) => page::guarded(Json(debug).into_response()),
        None => (StatusCode::SERVICE_UNAVAILABLE, "no operator runs\n").into_response(),
    }
}

/// Asks one operator, over its own endpoint.
async fn ask(address: SocketAddr) -> Option<Value> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /debug HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    // It closes the connection after one answer.
    stream.take(MAX_DEBUG).read_to_end(&mut answer).await.ok()?;
    let head_end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let (head, body) = answer.split_at_checked(head_end.saturating_add(4))?;
    head.starts_with(b"HTTP/1.1 200").then(|| serde_json::from_slice(body).ok())?
}

/// The nodes, the nodes of which more can be added, and whether the providers answer.
async fn nodes(State(served): State<Served>, request: Request<Body>) -> Response {
    if let Err(refusal) = page::admit(&request) {
        return refusal.into_response();
    }
    let nodes: Vec<Value> = served.api.objects("v1", "Node").iter().map(node).collect();
    let answer = json!({ "nodes": nodes, "providersUp": served.scene().providers_up });
    page::guarded(Json(answer).into_response())
}

fn node(node: &Value) -> Value {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition.get("type") == Some(&json!("Ready")));
    json!({
        "name": node.pointer("/metadata/name"),
        "ready": ready.next().is_some_and(|condition| condition.get("status") == Some(&json!("True"))),
        "cordoned": node.pointer("/spec/unschedulable") == Some(&json!(true)),
        "address": pools::annotation(node),
    })
}

/// Carries out the command of a button.
async fn act(State(served): State<Served>, request: Request<Body>) -> Response {
    if let Err(refusal) = page::admit(&request) {
        return refusal.into_response();
    }
    let token = request.headers().get(HEADER).and_then(|token| token.to_str().ok());
    if token != Some(&*served.token) {
        let text = "open the page by the URL that the sandbox printed\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let Ok(body) = axum::body::to_bytes(request.into_body(), MAX_COMMAND).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "too long for a command\n").into_response();
    };
    match Command::parse(&String::from_utf8_lossy(&body)) {
        Ok(Some(command)) if is_of_a_button(&command) => carry_out(&served, command).await,
        Ok(_) => (StatusCode::BAD_REQUEST, "no button does that\n").into_response(),
        Err(problem) => (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
    }
}

async fn carry_out(served: &Served, command: Command) -> Response {
    let (answer, answered) = oneshot::channel();
    let told = async {
        served.ask.send(Asked { command, answer }).await.ok()?;
        answered.await.ok()
    };
    let (status, text) = match tokio::time::timeout(PATIENCE, told).await {
        Ok(Some(Ok(text))) => (StatusCode::OK, text),
        Ok(Some(Err(problem))) => (StatusCode::CONFLICT, problem),
        Ok(None) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the sandbox is about to end".to_owned()),
    };
    page::guarded((status, format!("{text}\n")).into_response())
}

fn is_of_a_button(command: &Command) -> bool {
    matches!(
        command,
        Command::Kill(_)
            | Command::Drain(_)
            | Command::Heal(_)
            | Command::Add(_)
            | Command::Providers(_)
            | Command::Lease
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_buttons_name_no_other_place_and_parse_nothing() {
        for text in [SCRIPT, STYLE, MORE] {
            for other in ["http:", "https:", "url(", "@import", "innerHTML", "document.write", "eval("] {
                assert!(!text.contains(other), "{other}");
            }
        }
        assert!(SCRIPT.contains(HEADER));
    }
}
