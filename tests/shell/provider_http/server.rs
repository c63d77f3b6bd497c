//! A server that sends exactly the bytes that a test wants, and remembers its requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Method and target.
    pub(crate) line: String,
    /// The head, with all headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// A query parameter.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let target = self.line.split(' ').nth(1)?;
        let (_, query) = target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The reaction to a request.
pub(crate) enum Reply {
    /// Writes these bytes and keeps the connection.
    Bytes(Vec<u8>),
    /// Writes these bytes and closes.
    Close(Vec<u8>),
    /// Writes a head, then as many bytes of `x` as the client accepts.
    Flood(&'static str),
    /// Writes a head, then one byte per second.
    Drip(&'static str),
    /// Never answers.
    Hang,
}

/// An answer with a JSON body.
pub(crate) fn json(status: u16, body: &str) -> Reply {
    answer(status, &[("content-type", "application/json")], body)
}

/// An answer with a content length.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut text = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    text.push_str("\r\n");
    text.push_str(body);
    Reply::Bytes(text.into_bytes())
}

type Handler = dyn Fn(&Received) -> Reply + Send + Sync;

/// The server. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(handler, None, Duration::ZERO).await
    }

    /// Starts a server. If `tls` is given, it waits before it answers a handshake.
    pub(crate) async fn start_with(
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
        tls: Option<tokio_rustls::TlsAcceptor>,
        before_handshake: Duration,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let handler: Arc<Handler> = Arc::new(handler);
        let mut tasks = JoinSet::new();
        let (log, count) = (Arc::clone(&received), Arc::clone(&connections));
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *count.lock().unwrap() += 1;
                let (log, handler, tls) = (Arc::clone(&log), Arc::clone(&handler), tls.clone());
                open.spawn(async move {
                    match tls {
                        None => serve(stream, &log, &*handler).await,
                        Some(tls) => {
                            tokio::time::sleep(before_handshake).await;
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &log, &*handler).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, received, connections, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// Waits until this many requests have arrived.
    pub(crate) async fn has_received(&self, count: usize) {
        let waiting = async {
            while self.received.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("requests in time");
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    log: &Mutex<Vec<Received>>,
    handler: &Handler,
) {
    while let Some(request) = read_request(&mut stream).await {
        log.lock().unwrap().push(request.clone());
        match handler(&request) {
            Reply::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Close(bytes) => {
                let _gone = stream.write_all(&bytes).await;
                let _gone = stream.shutdown().await;
                return;
            }
            Reply::Flood(head) => {
                let _gone = stream.write_all(head.as_bytes()).await;
                while stream.write_all(&[b'x'; 8_192]).await.is_ok() {}
                return;
            }
            Reply::Drip(head) => {
                let _gone = stream.write_all(head.as_bytes()).await;
                while stream.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                return;
            }
            Reply::Hang => std::future::pending().await,
        }
    }
}

/// The next request, or `None` if the connection ends before it is complete.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let line = head.lines().next().unwrap().to_owned();
    let mut request = Received { line, head, body: String::new() };
    let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    request.body = String::from_utf8(bytes[end..].to_vec()).unwrap();
    Some(request)
}

/// A port on which nothing listens.
pub(crate) async fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Copies bytes both ways until either side ends.
pub(crate) async fn splice(mut one: TcpStream, mut other: TcpStream) {
    let _ended = tokio::io::copy_bidirectional(&mut one, &mut other).await;
}
