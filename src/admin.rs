//! HTTP endpoints of a process: `/metrics`, `/healthz`, `/readyz`, and, for this machine only, `/debug` with the web
//! page.
//!
//! Owns the listener and its limits. The content comes from closures that never wait.
//!
//! Invariants: no client can block another. A connection carries one request and lasts a few seconds, and the oldest
//! connection is closed when there are too many. Nothing here takes a lock that the work holds.

pub mod page;

use crate::config::BindAddress;
use crate::liveness::Liveness;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most connections at a time. Probes and scrapes need a handful; the others are slow or hostile. At this number each
/// new connection closes the oldest. Well below the usual limit of 1,024 open files.
const MAX_CONNECTIONS: usize = 256;

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

/// The content of the endpoints. Each closure returns at once.
#[derive(Clone)]
pub struct Endpoints {
    /// The text of `/metrics`.
    pub metrics: Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>,
    /// Why the process is not ready. Empty if it is.
    pub not_ready: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Whether the loops are alive.
    pub liveness: Liveness,
    /// The value of `/debug`.
    pub debug: Arc<dyn Fn() -> serde_json::Value + Send + Sync>,
}

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
    listen_on_all(address.port)
        .or_else(|_| listen(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port))
        .map_err(failed)
}

fn listen_on_all(port: u16) -> std::io::Result<TcpListener> {
    listen(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
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
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/debug", get(debug))
        .with_state(endpoints)
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
                let closed = connections.admit(&cancel);
                tracker.spawn(converse(stream, peer, router.clone(), closed));
            }
            Err(error) => {
                tracing::debug!("failed to accept a connection: {error}");
                connections.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    tracker.close();
    tracker.wait().await;
}

/// The open connections, oldest first.
#[derive(Default)]
struct Connections(VecDeque<CancellationToken>);

impl Connections {
    /// Adds a connection. Closes the oldest if there are too many.
    fn admit(&mut self, parent: &CancellationToken) -> ConnectionEnd {
        self.0.retain(|closed| !closed.is_cancelled());
        if self.0.len() >= MAX_CONNECTIONS {
            self.make_room();
        }
        let closed = parent.child_token();
        self.0.push_back(closed.clone());
        ConnectionEnd(closed)
    }

    fn make_room(&mut self) {
        if let Some(oldest) = self.0.pop_front() {
            oldest.cancel();
        }
    }
}

/// Marks its connection as closed when dropped.
struct ConnectionEnd(CancellationToken);

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn converse(stream: TcpStream, peer: SocketAddr, router: Router, end: ConnectionEnd) {
    let service = tower::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
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
        () = end.0.cancelled() => {}
        // A client's error does not matter to us.
        _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection) => {}
    }
}

async fn metrics(State(endpoints): State<Endpoints>) -> Response {
    match (endpoints.metrics)() {
        Ok(text) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        Err(problem) => (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response(),
    }
}

async fn health(State(endpoints): State<Endpoints>) -> Response {
    verdict(&endpoints.liveness.stalled())
}

async fn ready(State(endpoints): State<Endpoints>) -> Response {
    verdict(&(endpoints.not_ready)())
}

fn verdict(problems: &[String]) -> Response {
    if problems.is_empty() {
        return (StatusCode::OK, "ok\n").into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", problems.join("\n"))).into_response()
}

async fn debug(State(endpoints): State<Endpoints>, request: Request<Body>) -> Response {
    match page::admit(&request) {
        Ok(()) => page::guarded(Json((endpoints.debug)()).into_response()),
        Err(refusal) => refusal.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinSet;

    struct Server {
        port: u16,
        liveness: Liveness,
        cancel: CancellationToken,
        tasks: JoinSet<()>,
    }

    async fn start(host: &str) -> Server {
        let listener = bind(&BindAddress { host: host.to_owned(), port: 0 }).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let liveness = Liveness::new(Clock::system());
        let endpoints = Endpoints {
            metrics: Arc::new(|| Ok(b"flipop_up 1\n".to_vec())),
            not_ready: Arc::new(|| vec!["nodes: the first list is not complete".to_owned()]),
            liveness: liveness.clone(),
            debug: Arc::new(|| serde_json::json!({"pools": []})),
        };
        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let router = routes(endpoints).merge(page::routes(""));
        tasks.spawn(serve(listener, router, cancel.clone()));
        Server { port, liveness, cancel, tasks }
    }

    async fn fetch(ip: &str, port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect((ip, port)).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(Duration::from_secs(3), stream.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        answer
    }

    #[tokio::test]
    async fn the_endpoints_answer_on_both_families() {
        let server = start("").await;
        for ip in ["127.0.0.1", "::1"] {
            let metrics = fetch(ip, server.port, "/metrics").await;
            assert!(metrics.starts_with("HTTP/1.1 200") && metrics.ends_with("flipop_up 1\n"), "{metrics}");
            assert!(fetch(ip, server.port, "/healthz").await.starts_with("HTTP/1.1 200"));
            let ready = fetch(ip, server.port, "/readyz").await;
            assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("first list"), "{ready}");
            assert!(fetch(ip, server.port, "/debug").await.ends_with("{\"pools\":[]}"));
            assert!(fetch(ip, server.port, "/other").await.starts_with("HTTP/1.1 404"));
        }
    }

    #[tokio::test]
    async fn a_loop_that_stands_still_fails_the_health_check() {
        let server = start("127.0.0.1").await;
        let heartbeat = server.liveness.register("lease", 0);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let answer = fetch("127.0.0.1", server.port, "/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("lease"), "{answer}");
        drop(heartbeat);
    }

    #[tokio::test]
    async fn debug_is_for_this_machine_only() {
        for (peer, status) in [
            ("10.0.0.7:1", StatusCode::FORBIDDEN),
            ("[::ffff:10.0.0.7]:1", StatusCode::FORBIDDEN),
            ("[::ffff:127.0.0.1]:1", StatusCode::OK),
        ] {
            let endpoints = Endpoints {
                metrics: Arc::new(|| Ok(Vec::new())),
                not_ready: Arc::new(Vec::new),
                liveness: Liveness::new(Clock::system()),
                debug: Arc::new(|| serde_json::json!({})),
            };
            let mut request = Request::new(Body::empty());
            request.headers_mut().insert(header::HOST, header::HeaderValue::from_static("localhost"));
            request.extensions_mut().insert(peer.parse::<SocketAddr>().unwrap());
            assert_eq!(debug(State(endpoints), request).await.status(), status, "{peer}");
        }
    }

    #[tokio::test]
    async fn the_page_and_its_data_are_for_a_browser_that_meant_this_machine() {
        let server = start("127.0.0.1").await;
        for path in ["/", "/page.css", "/page.js", "/debug"] {
            let answer = fetch("127.0.0.1", server.port, path).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
            assert!(
                head.contains("content-security-policy: default-src 'none'; script-src 'self'"),
                "{head}"
            );
            assert!(!head.contains("access-control") && !head.contains("set-cookie"), "{head}");
            for host in ["evil.example", "localhost.evil.example:8080", "10.0.0.7"] {
                let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
                let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 421"), "{path} as {host}: {answer}");
            }
        }
        assert!(fetch("127.0.0.1", server.port, "/page.js").await.contains("text/javascript"));
    }

    #[tokio::test]
    async fn hundreds_of_half_open_connections_keep_nobody_out() {
        let server = start("127.0.0.1").await;
        let mut half_open = Vec::new();
        for number in 0..600 {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
            if number % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").await.unwrap();
            }
            half_open.push(stream);
        }
        for _ in 0..20 {
            assert!(fetch("127.0.0.1", server.port, "/metrics").await.starts_with("HTTP/1.1 200"));
        }
        // The oldest connections were closed for newer ones.
        let mut oldest = half_open.remove(1);
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(1), oldest.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "still open");
    }

    #[tokio::test]
    async fn cancelling_closes_everything_at_once() {
        let mut server = start("127.0.0.1").await;
        let mut idle = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        fetch("127.0.0.1", server.port, "/metrics").await;
        server.cancel.cancel();
        tokio::time::timeout(Duration::from_secs(1), server.tasks.join_next()).await.unwrap();
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(1), idle.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "still open");
    }
}
