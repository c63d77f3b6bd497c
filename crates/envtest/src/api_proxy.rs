//! An HTTP proxy on loopback in front of the API server. It applies faults to chosen requests.
//!
//! It speaks TLS on both sides, with its own certificate towards clients, and passes credentials on, so the API server
//! knows the user. Requests without a [`Rule`] pass through, including watches. For network faults that know nothing of
//! requests, see [`crate::proxy`]. Invariant: dropping the proxy closes every connection.

use crate::Outcome;
use crate::apiserver::kubeconfig_with;
use crate::tls::{self, Certificates};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::request::Parts;
use http::{Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use std::convert::Infallible;
use std::fmt::{self, Debug};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// An answer of the proxy itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    status: u16,
    retry_after_s: Option<u32>,
    body: String,
}

impl Answer {
    /// A failure in the API server's format.
    pub fn failure(status: u16) -> Self {
        Self { status, retry_after_s: None, body: failure(status, None) }
    }

    /// The same with a retry time, in the header and in the body.
    pub fn retry_after(status: u16, seconds: u32) -> Self {
        Self { status, retry_after_s: Some(seconds), body: failure(status, Some(seconds)) }
    }

    /// The same with this body, unchanged.
    pub fn with_body(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }

    fn response(&self) -> Response<Payload> {
        let mut response = Response::new(own(self.body.clone()));
        *response.status_mut() =
            http::StatusCode::from_u16(self.status).unwrap_or(http::StatusCode::BAD_GATEWAY);
        let kind = if self.body.starts_with('{') { "application/json" } else { "text/plain; charset=utf-8" };
        response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn failure(status: u16, retry_after_s: Option<u32>) -> String {
    let reason = match status {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let details = json!({ "retryAfterSeconds": retry_after_s.unwrap_or_default() });
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "injected",
        "reason": reason, "details": details, "code": status,
    })
    .to_string()
}

/// The fate of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meet {
    /// It never arrives, and gets this answer.
    Instead(Answer),
    /// It takes effect, but gets this answer.
    After(Answer),
    /// It never arrives, and gets no answer.
    Swallow,
    /// It takes effect, but gets no answer.
    Mute,
    /// It is answered, but the answer's body never arrives.
    Stall,
    /// Its connection breaks after this many bytes of the answer's body.
    Break(usize),
}

/// Which requests meet a fault, which one, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    verb: Option<&'static str>,
    part: String,
    times: Option<u64>,
    meet: Meet,
}

impl Rule {
    /// For requests with this verb and this text in path or query. Verbs: `get` (also for lists), `watch`, `create`,
    /// `update`, `patch`, `delete`; empty for any.
    pub fn new(verb: &'static str, part: &str, meet: Meet) -> Self {
        Self { verb: Some(verb).filter(|verb| !verb.is_empty()), part: part.to_owned(), times: None, meet }
    }

    /// Limits the rule to this many requests.
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    fn is_for(&self, verb: &str, target: &str) -> bool {
        self.times != Some(0) && self.verb.is_none_or(|one| one == verb) && target.contains(&self.part)
    }
}

/// Identifies a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId(usize);

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// Its verb, as in [`Rule::new`].
    pub verb: &'static str,
    /// Path and query.
    pub target: String,
    /// Whether a rule applied to it.
    pub met: bool,
}

struct Shared {
    client: Client,
    rules: Mutex<Vec<(Rule, u64)>>,
    seen: Mutex<Vec<Seen>>,
}

/// The proxy.
pub struct ApiProxy {
    address: SocketAddr,
    authority_pem: String,
    shared: Arc<Shared>,
    cuts: watch::Sender<u64>,
    // Dropping it ends every task, and with them every connection.
    _tasks: JoinSet<()>,
}

impl Debug for ApiProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiProxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ApiProxy {
    /// Starts a proxy on a free port, without rules, in front of the server in a kubeconfig file.
    ///
    /// # Errors
    /// If no port is free, or the file is invalid.
    pub async fn start(kubeconfig: &Path) -> Outcome<Self> {
        let certificates = Certificates::for_host("127.0.0.1")?;
        let acceptor = tls::acceptor(&certificates)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let client = anonymous(kubeconfig).await?;
        let shared = Arc::new(Shared { client, rules: Mutex::default(), seen: Mutex::default() });
        let cuts = watch::Sender::new(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::clone(&shared), cuts.subscribe()));
        Ok(Self { address, authority_pem: certificates.authority_pem, shared, cuts, _tasks: tasks })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writes a copy of a kubeconfig file beside it that goes through the proxy.
    ///
    /// # Errors
    /// If the file is invalid, or the copy cannot be written.
    pub fn kubeconfig(&self, original: &Path) -> Outcome<PathBuf> {
        let cluster = json!({
            "server": format!("https://{}", self.address),
            "certificate-authority-data": ByteString(self.authority_pem.clone().into_bytes()),
        });
        kubeconfig_with(original, self.address, "/clusters/0/cluster", cluster)
    }

    /// Adds a rule. The first rule that applies to a request wins.
    pub fn meet(&self, rule: Rule) -> RuleId {
        let mut rules = locked(&self.shared.rules);
        rules.push((rule, 0));
        RuleId(rules.len().saturating_sub(1))
    }

    /// How many requests a rule has applied to.
    pub fn met(&self, id: RuleId) -> u64 {
        locked(&self.shared.rules).get(id.0).map_or(0, |(_, met)| *met)
    }

    /// Ends a rule.
    pub fn lift(&self, id: RuleId) {
        if let Some((rule, _)) = locked(&self.shared.rules).get_mut(id.0) {
            rule.times = Some(0);
        }
    }

    /// Closes every connection. New ones are served.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts = cuts.saturating_add(1));
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        locked(&self.shared.seen).clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client without credentials; those of the requests pass through it.
async fn anonymous(kubeconfig: &Path) -> Outcome<Client> {
    let mut content = Kubeconfig::read_from(kubeconfig)?;
    for user in &mut content.auth_infos {
        user.auth_info = Some(AuthInfo::default());
    }
    let mut config = Config::from_custom_kubeconfig(content, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    shared: Arc<Shared>,
    mut cuts: watch::Receiver<u64>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            cut = cuts.changed() => {
                connections.abort_all();
                if cut.is_err() {
                    return;
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(converse(stream, acceptor.clone(), Arc::clone(&shared)));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection until either side ends it.
async fn converse(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.respond(request).await) }
    });
    // The client notices how it ends.
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>) -> Response<Payload> {
        let (parts, body) = request.into_parts();
        let meet = self.take(verb(&parts), &parts.uri.to_string());
        match &meet {
            Some(Meet::Instead(answer)) => return answer.response(),
            Some(Meet::Swallow) => return std::future::pending().await,
            Some(Meet::After(_) | Meet::Mute | Meet::Stall | Meet::Break(_)) | None => {}
        }
        let Ok(body) = body.collect().await else { return Answer::failure(400).response() };
        let request = Request::from_parts(parts, Body::from(body.to_bytes()));
        let Ok(response) = self.client.send(request).await else { return Answer::failure(502).response() };
        let (mut head, body) = response.into_parts();
        // Each connection decides for itself how the body is framed.
        for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        let body = match meet {
            Some(Meet::After(answer)) => {
                let _effect = body.collect().await;
                return answer.response();
            }
            Some(Meet::Mute | Meet::Swallow) => {
                let _effect = body.collect().await;
                return std::future::pending().await;
            }
            Some(Meet::Instead(answer)) => return answer.response(),
            Some(Meet::Stall) => StreamBody::new(stream::pending().chain(beginning(body, 0))).boxed_unsync(),
            Some(Meet::Break(after)) => StreamBody::new(beginning(body, after)).boxed_unsync(),
            None => return Response::from_parts(head, body.map_err(|_| Failed).boxed_unsync()),
        };
        head.headers.remove(header::CONTENT_LENGTH);
        Response::from_parts(head, body)
    }

    /// The fate of a request, by the first rule that applies.
    fn take(&self, verb: &'static str, target: &str) -> Option<Meet> {
        let meet =
            locked(&self.rules).iter_mut().find(|(rule, _)| rule.is_for(verb, target)).map(|(rule, met)| {
                *met = met.saturating_add(1);
                rule.times = rule.times.map(|times| times.saturating_sub(1));
                rule.meet.clone()
            });
        let seen = Seen { at: Instant::now(), verb, target: target.to_owned(), met: meet.is_some() };
        locked(&self.seen).push(seen);
        meet
    }
}

fn verb(parts: &Parts) -> &'static str {
    let query = parts.uri.query().unwrap_or_default();
    let watches = query.split('&').any(|one| one.starts_with("watch="));
    match parts.method {
        Method::GET if watches => "watch",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

type Payload = UnsyncBoxBody<Bytes, Failed>;

fn own(body: String) -> Payload {
    Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync()
}

/// This many bytes of a body, then a failure.
fn beginning(body: Body, bytes: usize) -> impl Stream<Item = Result<Frame<Bytes>, Failed>> {
    let pieces = body.into_data_stream().map_err(|_| Failed);
    stream::try_unfold((pieces, bytes), |(mut pieces, left)| async move {
        if left == 0 {
            // One more turn, so that pending data is sent before the failure.
            tokio::task::yield_now().await;
            return Err(Failed);
        }
        let Some(piece) = pieces.try_next().await? else { return Ok(None) };
        let part = piece.slice(..piece.len().min(left));
        let left = left.saturating_sub(part.len());
        Ok(Some((Frame::data(part), (pieces, left))))
    })
}

/// The connection to the API server broke, or this one has to.
#[derive(Debug, thiserror::Error)]
#[error("the body breaks off")]
struct Failed;
