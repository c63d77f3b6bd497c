//! The simulated providers on loopback, each on its own port, and a trap on a third port.
//!
//! Owns listeners, connections, and a fault's effect on a connection. Answers belong to `exchange`. Invariants: `stop`
//! awaits every task. A reset is a real TCP reset.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::exchange::Fate;
use super::garble::first_half;
use super::handle::{Cloud, Options};
use super::wire::{Provider, Reply, Request};

/// Largest request body that is read: far more than any client needs.
const REQUEST_BODY_MAX: usize = 4 * 1024 * 1024;

/// The body of an answer.
type Payload = UnsyncBoxBody<Bytes, io::Error>;

/// The simulated providers, listening.
#[derive(Debug)]
pub struct CloudServer {
    cloud: Cloud,
    digitalocean: SocketAddr,
    cloudflare: SocketAddr,
    trap: SocketAddr,
    trapped: Arc<Mutex<Vec<Trapped>>>,
}

/// A request that reached the trap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trapped {
    /// HTTP method.
    pub method: String,
    /// Path and query. Empty if they contain a token.
    pub target: String,
    /// Whether any part of the request contains a token that a provider knows.
    pub carried_token: bool,
    /// Whether there was an `authorization` header.
    pub authorization: bool,
}

#[derive(Debug, Clone)]
enum Role {
    Provider(Provider),
    Trap(Arc<Mutex<Vec<Trapped>>>),
}

impl CloudServer {
    /// Starts both providers and the trap on free ports of 127.0.0.1.
    ///
    /// # Errors
    /// If no port is available.
    pub async fn start(options: Options) -> io::Result<Self> {
        let cloud = Cloud::new(options);
        let trapped = Arc::new(Mutex::new(Vec::new()));
        let digitalocean = listen(&cloud, Role::Provider(Provider::DigitalOcean)).await?;
        let cloudflare = listen(&cloud, Role::Provider(Provider::Cloudflare)).await?;
        let trap = listen(&cloud, Role::Trap(trapped.clone())).await?;
        cloud.tracker().spawn(cloud.clone().run());
        Ok(Self { cloud, digitalocean, cloudflare, trap, trapped })
    }

    /// The handle to the simulated world.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Base URL of `DigitalOcean`. Append `v2/…`.
    pub fn digitalocean_url(&self) -> String {
        format!("http://{}/", self.digitalocean)
    }

    /// Base URL of Cloudflare. Append `/zones…`.
    pub fn cloudflare_url(&self) -> String {
        format!("http://{}/client/v4", self.cloudflare)
    }

    /// Base URL of the trap.
    pub fn trap_url(&self) -> String {
        format!("http://{}/", self.trap)
    }

    /// The requests that reached the trap.
    pub fn trapped(&self) -> Vec<Trapped> {
        self.trapped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes all connections and waits for every task.
    pub async fn stop(self) {
        self.cloud.stop().await;
    }
}

async fn listen(cloud: &Cloud, role: Role) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let cloud = cloud.clone();
    let tracker = cloud.tracker().clone();
    tracker.spawn(async move {
        loop {
            tokio::select! {
                biased;
                () = cloud.cancel().cancelled() => return,
                // A failed accept affects only that client.
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    let connection = serve(cloud.clone(), role.clone(), stream, address);
                    cloud.tracker().spawn(connection);
                },
            }
        }
    });
    Ok(address)
}

/// Serves one connection until it ends, is reset, or the server stops.
async fn serve(cloud: Cloud, role: Role, stream: TcpStream, address: SocketAddr) {
    // Small answers must not wait for acknowledgements. On failure they still arrive.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(Notify::new());
    let service = service_fn(|request: http::Request<Incoming>| {
        let (cloud, role, reset) = (cloud.clone(), role.clone(), reset.clone());
        async move { Ok::<_, Infallible>(respond(cloud, role, request, address, reset).await) }
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = cloud.cancel().cancelled() => {}
        () = reset.notified() => {
            // With lingering off, closing sends a reset.
            let _ = connection.into_parts().io.into_inner().set_zero_linger();
        }
        // Only the client needs to notice how the connection ends.
        _ = &mut connection => {}
    }
}

async fn respond(
    cloud: Cloud,
    role: Role,
    request: http::Request<Incoming>,
    address: SocketAddr,
    reset: Arc<Notify>,
) -> http::Response<Payload> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, REQUEST_BODY_MAX).collect().await else {
        return whole(&Reply::empty(413));
    };
    let body = body.to_bytes();
    let provider = match role {
        Role::Provider(provider) => provider,
        Role::Trap(trapped) => {
            let seen = trap(&cloud, &parts, &body);
            trapped.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
            return whole(&Reply::json(200, &serde_json::json!({})));
        }
    };
    let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let base = host.map_or_else(|| format!("http://{address}"), |host| format!("http://{host}"));
    let request = Request::from_http(provider, &base, &parts, body);
    match cloud.deliver(request).await {
        Fate::Answer(reply) => whole(&reply),
        Fate::Truncate(reply) => half(&reply),
        Fate::Reset => {
            reset.notify_one();
            std::future::pending().await
        }
        Fate::Hang => std::future::pending().await,
    }
}

fn trap(cloud: &Cloud, parts: &http::request::Parts, body: &Bytes) -> Trapped {
    let target = parts.uri.to_string();
    let leaked = cloud.leaks(&target);
    let headers = parts.headers.values().filter_map(|value| value.to_str().ok());
    let carried_token = leaked
        || headers.into_iter().any(|value| cloud.leaks(value))
        || cloud.leaks(&String::from_utf8_lossy(body));
    Trapped {
        method: parts.method.to_string(),
        target: if leaked { String::new() } else { target },
        carried_token,
        authorization: parts.headers.contains_key(http::header::AUTHORIZATION),
    }
}

fn response(reply: &Reply, body: Payload) -> http::Response<Payload> {
    let mut response = http::Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(reply.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &reply.headers {
        let pair = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value));
        if let (Ok(name), Ok(value)) = pair {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn whole(reply: &Reply) -> http::Response<Payload> {
    let body = Full::new(reply.body.clone()).map_err(|never| match never {});
    response(reply, body.boxed_unsync())
}

/// Announces the whole body, but sends half of it. The failure after it makes the server cut the connection.
fn half(reply: &Reply) -> http::Response<Payload> {
    let sent = stream::iter([Ok(Frame::data(first_half(&reply.body)))]);
    let failure = stream::once(async {
        // Without this turn, the failure would overtake the data.
        tokio::task::yield_now().await;
        Err(io::Error::other("the body breaks off"))
    });
    let mut response = response(reply, StreamBody::new(sent.chain(failure)).boxed_unsync());
    response.headers_mut().insert(http::header::CONTENT_LENGTH, reply.body.len().into());
    response
}
