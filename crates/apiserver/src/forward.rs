//! Forwards ports of pods, which are ports of this machine.
//!
//! The client speaks WebSocket with the subprotocol `v4.channel.k8s.io`: for each port two channels, data and errors,
//! and in each the first frame of the server names the port.

use super::error::ApiError;
use super::hooks::Call;
use super::output::Answer;
use axum::body::Body;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::Ipv4Addr;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

/// The only subprotocol that is spoken.
pub const PROTOCOL: &str = "v4.channel.k8s.io";

/// The channels of the only port.
const DATA: u8 = 0;
const ERRORS: u8 = 1;

/// A read from the port.
const CHUNK: usize = 16 << 10;

/// The port in the query of a request.
pub fn asked(query: &str) -> Option<u16> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix("port=").or_else(|| pair.strip_prefix("ports=")))?
        .parse()
        .ok()
}

/// The answer that ends HTTP on the connection.
pub(crate) fn agree(call: &Call, headers: &HeaderMap) -> Answer {
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let spoken = protocols.flat_map(|list| list.split(',')).any(|protocol| protocol.trim() == PROTOCOL);
    let key = headers.get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let accept = key.and_then(|key| HeaderValue::try_from(key).ok()).filter(|_| spoken);
    let Some(accept) = accept else {
        let name = &call.name;
        return Err(ApiError::bad_request(format!(
            "ports of {name} are forwarded by WebSocket with {PROTOCOL}"
        )));
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// A connection that has left HTTP.
pub(crate) async fn agreed(upgrade: OnUpgrade) -> hyper::Result<WebSocketStream<TokioIo<Upgraded>>> {
    let stream = TokioIo::new(upgrade.await?);
    Ok(WebSocketStream::from_raw_socket(stream, Role::Server, None).await)
}

/// Carries a connection to a port of this machine until one of the two ends it. The client has agreed to the protocol.
///
/// # Errors
/// If nothing listens on the port, or if a connection breaks.
pub async fn carry<S>(stream: WebSocketStream<S>, port: u16) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut to_client, mut from_client) = stream.split();
    let [low, high] = port.to_le_bytes();
    for channel in [DATA, ERRORS] {
        to_client.send(Message::binary(vec![channel, low, high])).await.map_err(broken)?;
    }
    let pod = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (mut from_pod, mut to_pod) = pod.into_split();
    let mut chunk = vec![DATA; CHUNK];
    loop {
        let (_, room) = chunk.split_at_mut(1);
        tokio::select! {
            read = from_pod.read(room) => match read? {
                0 => return to_client.close().await.map_err(broken),
                length => {
                    let frame = chunk.get(..=length).unwrap_or_default();
                    to_client.send(Message::Binary(Bytes::copy_from_slice(frame))).await.map_err(broken)?;
                }
            },
            message = from_client.next() => match message.transpose().map_err(broken)? {
                Some(Message::Binary(frame)) => {
                    if let Some((&DATA, data)) = frame.split_first() {
                        to_pod.write_all(data).await?;
                    }
                }
                Some(Message::Close(_)) | None => return Ok(()),
                Some(Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            },
        }
    }
}

fn broken(error: Error) -> io::Error {
    io::Error::other(error)
}
