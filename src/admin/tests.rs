//! Tests of the endpoints over real sockets.

use super::*;
use crate::clock::Clock;
use std::sync::atomic::AtomicUsize;
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
        debug: Some(Arc::new(|| Box::pin(async { serde_json::json!({"pools": []}) }))),
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
    tokio::time::timeout(Duration::from_secs(3), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
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
            debug: Some(Arc::new(|| Box::pin(async { serde_json::json!({}) }))),
        };
        let scrapes = Arc::new(Semaphore::new(MAX_SCRAPES));
        let shared = Shared { endpoints, rendered: Arc::default(), scrapes };
        let mut request = Request::new(Body::empty());
        request.headers_mut().insert(header::HOST, header::HeaderValue::from_static("localhost"));
        request.extensions_mut().insert(peer.parse::<SocketAddr>().unwrap());
        assert_eq!(debug(State(shared), request).await.status(), status, "{peer}");
    }
}

#[tokio::test]
async fn the_page_and_its_data_are_for_a_browser_that_meant_this_machine() {
    let server = start("127.0.0.1").await;
    for path in ["/", "/page.css", "/page.js", "/debug"] {
        let answer = fetch("127.0.0.1", server.port, path).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
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

/// A connection from this address of loopback.
async fn connect(from: [u8; 4], port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap()
}

async fn ask(mut stream: TcpStream, path: &str, host: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn hundreds_of_half_open_connections_keep_nobody_out_and_end_no_answer() {
    let server = start("127.0.0.1").await;
    let mut half_open = Vec::new();
    for number in 0..600_u16 {
        let [high, low] = (number / 2).to_be_bytes();
        let mut stream = connect([127, 0, 1 + high, low], server.port).await;
        if number % 2 == 0 {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").await.unwrap();
        }
        half_open.push(stream);
    }
    for _ in 0..20 {
        assert!(fetch("127.0.0.1", server.port, "/metrics").await.starts_with("HTTP/1.1 200"));
    }
    // The oldest connections were closed for newer ones.
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(1), half_open[1].read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "still open");
}

#[test]
fn a_connection_whose_request_has_arrived_makes_no_room() {
    let (mut connections, parent) = (Connections::default(), CancellationToken::new());
    let peer = |n: u8| IpAddr::from([10, 0, 0, n]);
    let mut admit = |n| connections.admit(peer(n), &parent);
    let mut of_one: Vec<_> = (0..MAX_OF_PEER).map(|_| admit(1).unwrap()).collect();
    of_one[0].asked.store(true, Ordering::Relaxed);
    let next = admit(1).unwrap();
    assert!(!of_one[0].end.is_cancelled() && of_one[1].end.is_cancelled(), "the oldest that waits");
    of_one.push(next);
    for open in &of_one {
        open.asked.store(true, Ordering::Relaxed);
    }
    assert!(admit(1).is_none(), "eight of one address");
    assert!(admit(2).is_some(), "others are let in");
    of_one.pop();
    assert!(admit(1).is_some(), "one has ended");
}

#[tokio::test]
async fn a_connection_too_many_is_refused_with_a_reason() {
    let server = start("127.0.0.1").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let slow = get({
        let asked = Arc::clone(&asked);
        async move || {
            asked.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
    });
    let listener = bind(&BindAddress { host: "127.0.0.1".to_owned(), port: 0 }).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(listener, Router::new().route("/slow", slow), server.cancel.clone()));
    let mut held = Vec::new();
    for number in 1..=MAX_OF_PEER {
        let mut stream = connect([127, 0, 0, 7], port).await;
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        held.push(stream);
        while asked.load(Ordering::Relaxed) < number {
            tokio::task::yield_now().await;
        }
    }
    let refused = ask(connect([127, 0, 0, 7], port).await, "/slow", "localhost").await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.ends_with("from one address or all"), "{refused}");
    let length = refused.split("\r\n\r\n").nth(1).unwrap().len();
    assert!(refused.contains(&format!("Content-Length: {length}\r\n")), "{length}");
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_rendered_once_a_second_and_answered_sixteen_at_a_time() {
    let rendered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&rendered);
    let router = routes(Endpoints {
        metrics: Arc::new(move || Ok(format!("{}\n", count.fetch_add(1, Ordering::Relaxed)).into())),
        not_ready: Arc::new(Vec::new),
        liveness: Liveness::new(Clock::system()),
        debug: None,
    });
    let scrape = async || {
        let (mut request, kept) = (Request::new(Body::empty()), Kept::default());
        *request.uri_mut() = "/metrics".parse().unwrap();
        request.extensions_mut().insert(kept.clone());
        (tower::ServiceExt::oneshot(router.clone(), request).await.unwrap(), kept)
    };
    let mut held = Vec::new();
    for _ in 0..MAX_SCRAPES {
        let (answer, kept) = scrape().await;
        assert_eq!(answer.status(), StatusCode::OK);
        held.push(kept);
    }
    let (refused, _) = scrape().await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    held.clear();
    assert_eq!((scrape().await.0.status(), rendered.load(Ordering::Relaxed)), (StatusCode::OK, 1));
    tokio::time::advance(RENDERING_LASTS).await;
    scrape().await;
    assert_eq!(rendered.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_browser_that_was_led_here_by_a_name_reads_nothing() {
    let server = start("127.0.0.1").await;
    for (path, host, status) in [
        ("/metrics", "evil.example", "421"),
        ("/readyz", "evil.example:8080", "421"),
        ("/healthz", "evil.example", "200"),
        ("/metrics", "localhost:9", "200"),
        ("/metrics", "10.0.0.7:8080", "200"),
        ("/metrics", "[fd00::7]:8080", "200"),
        ("/readyz", "127.0.0.1", "503"),
    ] {
        let answer = ask(connect([127, 0, 0, 1], server.port).await, path, host).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} as {host}: {answer}");
    }
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
