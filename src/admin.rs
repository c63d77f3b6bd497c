//! HTTP endpoints of a process: `/metrics`, `/healthz`, `/readyz`, and, for this machine only, `/debug` with the web
//! page.
//!
//! Owns the listener and its limits. The content comes from closures that never wait.
//!
//! Invariants: no client can block another, or the work: the endpoints have a thread of their own, and take no lock
//! that the work holds. A connection carries one request and lasts a few seconds. Where there are too many connections,
//! one that has sent no request makes room, and nothing ends an answer that has begun. However many clients scrape, the
//! metrics are rendered once a second.

pub mod page;

use crate::config::BindAddress;
use crate::liveness::Liveness;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::BoxFuture;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most refusals that are being sent at a time. Beyond them a connection is just closed.
const MAX_REFUSALS: usize = 64;

/// Longest wait for a client to take its refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Most answers with metrics at a time. They share one text, and slow clients hold only buffers of the kernel.
const MAX_SCRAPES: usize = 16;

/// How long a rendering of the metrics is served.
const RENDERING_LASTS: Duration = Duration::from_secs(1);

/// Longest wait for a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Memory per connection. Heads are short, and hyper's default would let slow clients take 100 MiB together.
const MAX_BUFFER: usize = 16 << 10;

/// Longest life of a connection. A scrape takes milliseconds.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// Pause after `accept` failed (too many open files). An immediate retry would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The content of the endpoints. Each closure returns at once, and `debug` within a part of a second.
#[derive(Clone)]
pub struct Endpoints {
    /// The text of `/metrics`.
    pub metrics: Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>,
    /// Why the process is not ready. Empty if it is.
    pub not_ready: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Whether the loops are alive.
    pub liveness: Liveness,
    /// The value of `/debug`, if it is served.
    pub debug: Option<Arc<dyn Fn() -> BoxFuture<'static, serde_json::Value> + Send + Sync>>,
}

/// The endpoints, with what their answers share.
#[derive(Clone)]
struct Shared {
    endpoints: Endpoints,
    /// The last rendering of the metrics, and when it was made.
    rendered: Arc<Mutex<Option<(Instant, Bytes)>>>,
    scrapes: Arc<Semaphore>,
}

/// Kept until the answer to a request is sent, or its client is gone.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

/// Failed to listen.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address} (--metrics-bind-addr): {source}")]
pub struct BindError {
    address: String,
    source: std::io::Error,
}

/// Listens on `--metrics-bind-addr`. Without a host, listens on IPv6 and IPv4, or only on IPv4 if the machine has no
/// IPv6.
///
/// # Errors
/// [`BindError`].
pub async fn bind(address: &BindAddress) -> Result<TcpListener, BindError> {
    let failed = |source| BindError { address: format!("{}:{}", address.host, address.port), source };
    if !address.host.is_empty() {
        return TcpListener::bind((address.host.as_str(), address.port)).await.map_err(failed);
    }
    listen(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port)
        .or_else(|_| listen(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port))
        .map_err(failed)
}

fn listen(ip: IpAddr, port: u16) -> std::io::Result<TcpListener> {
    let socket = match ip {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            // The machine's default (bindv6only) may differ.
            rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(ip, port))?;
    socket.listen(BACKLOG)
}

/// The endpoints without the web page.
pub fn routes(endpoints: Endpoints) -> Router {
    let mut routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(ready));
    if endpoints.debug.is_some() {
        routes = routes.route("/debug", get(debug));
    }
    let scrapes = Arc::new(Semaphore::new(MAX_SCRAPES));
    routes.with_state(Shared { endpoints, rendered: Arc::default(), scrapes })
}

/// Starts a thread that serves these routes until it is cancelled. The receiver hears of its end.
///
/// # Errors
/// If there can be no thread.
pub fn spawn(
    listener: TcpListener,
    router: Router,
    cancel: CancellationToken,
) -> std::io::Result<oneshot::Receiver<()>> {
    let listener = listener.into_std()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, ended) = oneshot::channel();
    std::thread::Builder::new().name("endpoints".to_owned()).spawn(move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => serve(listener, router, cancel).await,
                Err(error) => tracing::error!("failed to serve the endpoints: {error}"),
            }
        });
        // If nobody listens, the process is ending.
        let _unheard = sender.send(());
    })?;
    Ok(ended)
}

/// Serves these routes until it is cancelled, then closes every connection. Each request carries the address of its
/// peer as an extension.
pub async fn serve(listener: TcpListener, router: Router, cancel: CancellationToken) {
    let tracker = TaskTracker::new();
    let mut connections = Connections::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(admitted) = connections.admit(peer.ip(), &cancel) {
                    tracker.spawn(converse(stream, peer, router.clone(), admitted));
                } else if tracker.len() < MAX_CONNECTIONS + MAX_REFUSALS {
                    tracker.spawn(tokio::time::timeout(REFUSAL_TIMEOUT, refuse(stream)));
                }
            }
            Err(error) => {
                tracing::debug!("failed to accept a connection: {error}");
                connections.make_room(|_| true);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    tracker.close();
    tracker.wait().await;
}

async fn converse(stream: TcpStream, peer: SocketAddr, router: Router, admitted: Admitted) {
    let (kept, asked) = (Kept::default(), Arc::clone(&admitted.asked));
    let service = tower::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(kept.clone());
        let router = router.clone();
        async move { tower::ServiceExt::oneshot(router, request.map(Body::new)).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::select! {
        biased;
        () = admitted.end.cancelled() => {}
        // A client's error does not matter to us.
        _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection) => {}
    }
}

async fn metrics(State(shared): State<Shared>, request: Request<Body>) -> Response {
    if let Err(refusal) = page::admit_name(&request) {
        return refusal.into_response();
    }
    let Ok(scrape) = Arc::clone(&shared.scrapes).try_acquire_owned() else {
        let wait = [(header::RETRY_AFTER, "1")];
        return (StatusCode::SERVICE_UNAVAILABLE, wait, "too many scrapes at once\n").into_response();
    };
    if let Some(Kept(kept)) = request.extensions().get() {
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(scrape);
    }
    match shared.rendered() {
        Ok(text) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        Err(problem) => (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response(),
    }
}

impl Shared {
    /// The metrics as they were at most a second ago.
    fn rendered(&self) -> Result<Bytes, String> {
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((made, text)) = &*rendered
            && now.duration_since(*made) < RENDERING_LASTS
        {
            return Ok(text.clone());
        }
        let text = Bytes::from((self.endpoints.metrics)()?);
        *rendered = Some((now, text.clone()));
        Ok(text)
    }
}

async fn health(State(shared): State<Shared>) -> Response {
    verdict(&shared.endpoints.liveness.stalled())
}

async fn ready(State(shared): State<Shared>, request: Request<Body>) -> Response {
    match page::admit_name(&request) {
        Ok(()) => verdict(&(shared.endpoints.not_ready)()),
        Err(refusal) => refusal.into_response(),
    }
}

fn verdict(problems: &[String]) -> Response {
    if problems.is_empty() {
        return (StatusCode::OK, "ok\n").into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", problems.join("\n"))).into_response()
}

async fn debug(State(shared): State<Shared>, request: Request<Body>) -> Response {
    match (page::admit(&request), &shared.endpoints.debug) {
        (Ok(()), Some(debug)) => page::guarded(Json(debug().await).into_response()),
        (Ok(()), None) => StatusCode::NOT_FOUND.into_response(),
        (Err(refusal), _) => refusal.into_response(),
    }
}

/// Most connections at a time. Probes and scrapes need a handful; the others are slow or hostile. Well below the usual
/// limit of 1,024 open files.
const MAX_CONNECTIONS: usize = 256;

/// Most connections of one address at a time. A browser opens six.
const MAX_OF_PEER: usize = 8;

/// The answer to a connection too many.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 53\r\n\r\n\
    too many connections at once, from one address or all";

/// The open connections, oldest first.
#[derive(Default)]
struct Connections(VecDeque<Open>);

struct Open {
    peer: IpAddr,
    end: CancellationToken,
    /// Its request has arrived.
    asked: Arc<AtomicBool>,
}

impl Connections {
    /// Adds a connection, unless there are too many of its address, or of all, and none of them makes room.
    fn admit(&mut self, peer: IpAddr, parent: &CancellationToken) -> Option<Admitted> {
        let peer = peer.to_canonical();
        self.0.retain(|open| !open.end.is_cancelled());
        let of_peer = self.0.iter().filter(|open| open.peer == peer).count();
        if of_peer >= MAX_OF_PEER && !self.make_room(|open| open.peer == peer)
            || self.0.len() >= MAX_CONNECTIONS && !self.make_room(|_| true)
        {
            return None;
        }
        let (end, asked) = (parent.child_token(), Arc::default());
        self.0.push_back(Open { peer, end: end.clone(), asked: Arc::clone(&asked) });
        Some(Admitted { end, asked })
    }

    /// Closes the oldest of these connections that has sent no request.
    fn make_room(&mut self, of: impl Fn(&Open) -> bool) -> bool {
        let idle = |open: &Open| of(open) && !open.asked.load(Ordering::Relaxed);
        let oldest = self.0.iter().position(idle).and_then(|place| self.0.remove(place));
        oldest.map(|oldest| oldest.end.cancel()).is_some()
    }
}

/// An open connection. Marks it as closed when dropped.
struct Admitted {
    end: CancellationToken,
    asked: Arc<AtomicBool>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Refuses a connection. What its client has sent is read, because closing before that would destroy the answer.
async fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(REFUSAL).await?;
    stream.shutdown().await?;
    let mut sent = [0; 1_024];
    while stream.read(&mut sent).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;
