//! A bare HTTP/1.1 client for the tests of the simulated providers. One connection per call; it retries nothing,
//! follows nothing and hides nothing.

use bytes::Bytes;
use flipop_cloud::{CloudServer, Options, Provider};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Secrets of the tokens that [`start`] accepts.
pub(crate) const DO_TOKEN: &str = "dop_v1_sandbox";
pub(crate) const CF_TOKEN: &str = "cf-sandbox-token-0123456789abcdef0123456789";

/// An answer as the client received it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Both providers, each with a token that may do everything.
pub(crate) async fn start() -> CloudServer {
    let server = CloudServer::start(Options { seed: 1, epoch_ms: Some(1_800_000_000_000) }).await.unwrap();
    server.cloud().add_token(Provider::DigitalOcean, "do", DO_TOKEN, &["*"]);
    server.cloud().add_token(Provider::Cloudflare, "cf", CF_TOKEN, &["*"]);
    server
}

/// Sends one request. The error is that of the connection.
pub(crate) async fn send(
    method: &str,
    url: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> Result<Answer, hyper::Error> {
    let uri: http::Uri = url.parse().unwrap();
    let address = uri.authority().unwrap().as_str();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut request = http::Request::builder().method(method).uri(uri.path_and_query().unwrap().as_str());
    request = request.header("host", address);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let call = async {
        let response = sender.send_request(request.body(Full::new(bytes)).unwrap()).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    };
    tokio::pin!(call);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        answer = &mut call => answer,
        ended = &mut connection => match ended {
            Err(error) => Err(error),
            Ok(()) => call.await,
        },
    }
}

/// A call to `DigitalOcean` with the all-powerful token.
pub(crate) async fn digitalocean(
    server: &CloudServer,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> Answer {
    let url = format!("{}{}", server.digitalocean_url(), path.trim_start_matches('/'));
    send(method, &url, Some(DO_TOKEN), body.as_ref()).await.unwrap()
}

/// A call to Cloudflare with the all-powerful token.
pub(crate) async fn cloudflare(
    server: &CloudServer,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> Answer {
    let url = format!("{}{path}", server.cloudflare_url());
    send(method, &url, Some(CF_TOKEN), body.as_ref()).await.unwrap()
}
