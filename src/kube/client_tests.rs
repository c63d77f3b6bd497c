//! The clients on real local sockets.

use super::*;
use crate::clock::Clock;
use crate::kube::objects::NodeSlim;
use crate::kube::trouble::{Trouble, TroubleKind};
use crate::permit::PermitSource;
use crate::token::{Token, TokenSource};
use kube::Api;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server that answers each request head with `answer`, or never. It records the heads.
struct Server {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

async fn serve(answer: Option<&'static str>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let seen = Arc::clone(&seen);
            connections.spawn(async move {
                let mut head = vec![0; 16 << 10];
                while let Ok(length @ 1..) = stream.read(&mut head).await {
                    seen.lock().unwrap().push(String::from_utf8_lossy(&head[..length]).into_owned());
                    if let Some(answer) = answer {
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    Server { port, heads, _tasks: tasks }
}

fn cluster(url: &str) -> Cluster {
    Cluster {
        config: Config::new(url.parse().unwrap()),
        token: None,
        namespace: "flipop".to_owned(),
        origin: "a test".to_owned(),
    }
}

impl Server {
    fn cluster(&self) -> Cluster {
        cluster(&format!("http://127.0.0.1:{}", self.port))
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn get(client: Client) -> Result<NodeSlim, Trouble> {
    Api::<NodeSlim>::all(client).get("a").await.map_err(Trouble::from)
}

type Maker = fn(&Cluster) -> Result<Client, ClientError>;

/// The constructor of each client of the process.
fn makers() -> [Maker; 3] {
    [|cluster| requests(cluster, None), |cluster| watches(cluster, None), lease]
}

#[tokio::test]
async fn a_busy_server_is_asked_once_and_told_who_asks() {
    let server = serve(Some("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")).await;
    for make in makers() {
        let trouble = get(make(&server.cluster()).unwrap()).await.unwrap_err();
        assert_eq!(trouble.kind, TroubleKind::ServerError);
    }
    let heads = server.heads();
    assert_eq!(heads.len(), 3);
    let agent = concat!("user-agent: flipop/", env!("CARGO_PKG_VERSION"));
    assert!(heads.iter().all(|head| head.contains(agent)), "{heads:?}");
}

#[tokio::test]
async fn how_long_a_server_asks_to_wait_is_known_however_it_says_so() {
    let text =
        "HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nbusy\n";
    let status = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 113\r\n\r\n\
        {\"kind\":\"Status\",\"status\":\"Failure\",\"code\":503,\"message\":\"busy\",\
        \"details\":{\"kind\":\"nodes\",\"retryAfterSeconds\":7}}";
    let bare = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 64\r\n\r\n\
        {\"kind\":\"Status\",\"status\":\"Failure\",\"code\":503,\"message\":\"busy\"}";
    let date =
        "HTTP/1.1 429 Busy\r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: 4\r\n\r\nbusy";
    let silent = "HTTP/1.1 429 Busy\r\nContent-Length: 4\r\n\r\nbusy";
    let answers =
        [(text, Some(7_000)), (status, Some(7_000)), (bare, Some(7_000)), (date, None), (silent, None)];
    for (answer, asked) in answers {
        let server = serve(Some(answer)).await;
        for make in makers() {
            let trouble = get(make(&server.cluster()).unwrap()).await.unwrap_err();
            let busy = [TroubleKind::Throttled, TroubleKind::ServerError].contains(&trouble.kind);
            assert!(busy && trouble.message.ends_with(" busy"), "{answer}: {trouble:?}");
            assert_eq!(trouble.retry_after_ms, asked, "{answer}");
        }
    }
}

#[tokio::test]
async fn a_refusal_in_protobuf_is_read_like_any_other() {
    // Message "old", reason "Expired", details with retryAfterSeconds 3.
    let status = "\x12\x07Failure\x1a\x03old\x22\x07Expired\x2a\x02\x28\x03";
    let body = format!("k8s\0\x12{}{status}", char::from(u8::try_from(status.len()).unwrap()));
    let head = "Content-Type: application/vnd.kubernetes.protobuf";
    let answer = |body: &str, more: &str| {
        let length = body.len();
        format!("HTTP/1.1 410 Gone\r\n{head}\r\n{more}Content-Length: {length}\r\n\r\n{body}")
    };
    for (body, more, says, asked) in [
        (body.as_str(), "", "410 old", Some(3_000)),
        (body.as_str(), "Retry-After: 9\r\n", "410 old", Some(3_000)),
        ("k8s\0\x12", "", "410 k8s", None),
        ("", "Retry-After: 9\r\n", "410 Gone", Some(9_000)),
    ] {
        let server = serve(Some(answer(body, more).leak())).await;
        let trouble = get(requests(&server.cluster(), None).unwrap()).await.unwrap_err();
        assert_eq!(trouble.kind, TroubleKind::Expired, "{trouble:?}");
        assert!(trouble.message.starts_with(says), "{trouble:?}");
        assert_eq!(trouble.retry_after_ms, asked, "{trouble:?}");
    }
}

#[tokio::test]
async fn a_refusal_in_json_that_is_no_status_keeps_the_answer_s_code() {
    for (code, body, kind, says) in [
        (403, r#"{"error":"denied"}"#, TroubleKind::Forbidden, r#"403 {"error":"denied"}"#),
        (401, r#"{"message":"who are you?"}"#, TroubleKind::Unauthorized, "401 who are you?"),
        (502, "[]", TroubleKind::ServerError, "502 []"),
        (404, "{}", TroubleKind::NotFound, "404 {}"),
        (403, r#"{"code":7,"message":"permission denied"}"#, TroubleKind::Forbidden, "403 permission denied"),
        (429, r#"{"code":0,"reason":"Busy"}"#, TroubleKind::Throttled, "429 Busy"),
        (500, r#"{"code":409,"message":"changed"}"#, TroubleKind::Conflict, "409 changed"),
    ] {
        for more in ["", "Retry-After: 7\r\n"] {
            let length = body.len();
            let answer = format!("HTTP/1.1 {code} No\r\n{more}Content-Length: {length}\r\n\r\n{body}");
            let server = serve(Some(answer.leak())).await;
            let trouble = get(requests(&server.cluster(), None).unwrap()).await.unwrap_err();
            assert_eq!((trouble.kind, trouble.message.as_str()), (kind, says));
            assert_eq!(trouble.retry_after_ms.is_some(), !more.is_empty(), "{trouble:?}");
        }
    }
}

#[tokio::test]
async fn a_lease_call_ends_after_three_seconds_and_idle_time_does_not_count() {
    let node = "HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n{\"metadata\":{\"name\":\"a\"} }   ";
    let server = serve(Some(node)).await;
    let client = lease(&server.cluster()).unwrap();
    get(client.clone()).await.unwrap();
    let hung = serve(None).await;
    let clock = Clock::system();
    let began = clock.now();
    let trouble = get(lease(&hung.cluster()).unwrap()).await.unwrap_err();
    assert_eq!(trouble.kind, TroubleKind::Interrupted, "{trouble}");
    let waited = clock.now().millis_since(began);
    assert!((2_900..4_500).contains(&waited), "{waited}");
    // The first connection has been idle for three seconds.
    get(client).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_and_has_seen_nothing() {
    // Nothing else in a test listens on this address of loopback.
    let trouble = get(requests(&cluster("http://127.9.9.9:1"), None).unwrap()).await.unwrap_err();
    assert_eq!(trouble.kind, TroubleKind::Unreachable, "{trouble}");
    assert!(!trouble.outcome_unknown());
}

/// A server that speaks TLS with this certificate, and the error of a client that trusts `trusted`.
async fn handshake(leaf: &rcgen::Certificate, key: &rcgen::KeyPair, trusted: &rcgen::Certificate) -> Trouble {
    crate::provider::install_tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut cluster = cluster(&format!("https://localhost:{}", listener.local_addr().unwrap().port()));
    cluster.config.root_cert = Some(vec![trusted.der().to_vec()]);
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![leaf.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let client = requests(&cluster, None).unwrap();
    let server = async { acceptor.accept(listener.accept().await.unwrap().0).await.map(drop) };
    let (result, _refused) = tokio::join!(get(client), server);
    result.unwrap_err()
}

#[tokio::test]
async fn a_server_s_own_certificate_in_the_place_of_its_authority_is_refused_with_the_remedy() {
    let params = || rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = || rcgen::KeyPair::generate().unwrap();
    let mut of_authority = params();
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    of_authority.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
    let authority = rcgen::CertifiedIssuer::self_signed(of_authority, key()).unwrap();
    let leaf_key = key();
    let leaf = params().signed_by(&leaf_key, &authority).unwrap();
    let own = handshake(&leaf, &leaf_key, &leaf).await;
    assert_eq!(own.kind, TroubleKind::Unreachable, "{own}");
    assert!(own.message.contains("UnknownIssuer: name the authority that signed"), "{own}");
    let of_authority = handshake(authority.as_ref(), authority.key(), authority.as_ref()).await;
    assert!(of_authority.message.contains("an authority has signed, without CA:TRUE"), "{of_authority}");
    let good = handshake(&leaf, &leaf_key, authority.as_ref()).await;
    assert!(!good.message.contains("certificate"), "{good}");
}

#[tokio::test]
async fn a_server_behind_a_proxy_is_asked_for_by_name() {
    let proxy = serve(Some("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")).await;
    let mut cluster = cluster("https://api.example:6443");
    cluster.config.proxy_url = Some(format!("http://127.0.0.1:{}", proxy.port).parse().unwrap());
    let trouble = get(requests(&cluster, None).unwrap()).await.unwrap_err();
    assert_eq!(trouble.kind, TroubleKind::Unreachable, "{trouble}");
    assert!(proxy.heads()[0].starts_with("CONNECT api.example:6443 "), "{:?}", proxy.heads());
}

/// Sends a write under a permit through a proxy. If `ends`, the permit ends before the proxy reports the connection.
/// Returns the bytes that arrived behind the proxy, and the failure.
async fn write_behind_a_proxy(ends: bool) -> (String, Trouble) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut cluster = cluster("http://api.example:6443");
    let port = listener.local_addr().unwrap().port();
    cluster.config.proxy_url = Some(format!("http://127.0.0.1:{port}").parse().unwrap());
    let clock = Clock::system();
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now());
    let request = Request::patch("/api/v1/nodes/a").extension(source.permit());
    let request = request.body(Body::from(b"{}".to_vec())).unwrap();
    let proxy = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0);
        }
        if ends {
            source.revoke();
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut arrived = Vec::new();
        while stream.read_buf(&mut arrived).await.unwrap() > 0 && !arrived.ends_with(b"\r\n\r\n{}") {}
        String::from_utf8(arrived).unwrap()
    };
    let client = requests(&cluster, None).unwrap();
    let (result, arrived) = tokio::join!(client.send(request), proxy);
    (arrived, Trouble::from(result.unwrap_err()))
}

#[tokio::test]
async fn a_write_whose_permit_ends_while_its_connection_comes_up_leaves_not_a_byte() {
    let (arrived, trouble) = write_behind_a_proxy(true).await;
    assert_eq!((arrived.as_str(), trouble.kind), ("", TroubleKind::PermitEnded), "{trouble}");
    assert!(!trouble.outcome_unknown());
}

#[tokio::test]
async fn a_write_under_a_permit_goes_out_with_its_length() {
    let (arrived, trouble) = write_behind_a_proxy(false).await;
    assert!(arrived.starts_with("PATCH /api/v1/nodes/a HTTP/1.1\r\n"), "{arrived}");
    assert!(arrived.contains("content-length: 2\r\n") && arrived.ends_with("\r\n\r\n{}"), "{arrived}");
    assert_eq!(trouble.kind, TroubleKind::Interrupted, "{trouble}");
}

/// A SOCKS5 proxy that asks for no credentials and answers on behalf of the server behind it. Returns the target that
/// the client named.
async fn socks(mut stream: TcpStream) -> (String, u16) {
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(greeting, [5, 1, 0], "one method: no credentials");
    stream.write_all(&[5, 0]).await.unwrap();
    let mut head = [0; 5];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[..4], [5, 1, 0, 3], "connect to a name");
    let mut rest = vec![0; usize::from(head[4]) + 2];
    stream.read_exact(&mut rest).await.unwrap();
    stream.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
    }
    stream.write_all(b"HTTP/1.1 404 Behind\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    let (name, port) = rest.split_at(rest.len() - 2);
    (String::from_utf8(name.to_vec()).unwrap(), u16::from_be_bytes([port[0], port[1]]))
}

#[tokio::test]
async fn a_server_behind_a_socks5_proxy_is_asked_for_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut cluster = cluster("http://api.example:6443");
    let port = listener.local_addr().unwrap().port();
    cluster.config.proxy_url = Some(format!("socks5://127.0.0.1:{port}").parse().unwrap());
    let client = requests(&cluster, None).unwrap();
    let proxy = async { socks(listener.accept().await.unwrap().0).await };
    let (result, asked) = tokio::join!(get(client), proxy);
    assert_eq!(asked, ("api.example".to_owned(), 6443));
    assert_eq!(result.unwrap_err().kind, TroubleKind::NotFound);
}

#[tokio::test]
async fn the_service_account_s_token_is_sent_and_read_again_once_it_is_refused() {
    let server = serve(Some("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let token = Token::new(TokenSource::File(file.path().to_owned()), Clock::system()).unwrap();
    let cluster = Cluster { token: Some(Arc::new(token)), ..server.cluster() };
    let client = requests(&cluster, None).unwrap();
    let refused = get(client.clone()).await.unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Unauthorized, "{refused}");
    std::fs::write(file.path(), "second\n").unwrap();
    let _refused = get(client).await.unwrap_err();
    let heads = server.heads();
    let sent = |head: &str, token: &str| head.contains(&format!("authorization: Bearer {token}\r\n"));
    assert!(sent(&heads[0], "first") && sent(&heads[1], "second"), "{heads:?}");
}
