//! A kubelet that does one thing: it forwards ports of pods, which are ports of this machine.
//!
//! The API server passes a port-forward on to the kubelet of the pod's node. The client speaks WebSocket with the
//! subprotocol `v4.channel.k8s.io`: for each port two channels, data and errors, and in each the first frame of the
//! server names the port.

use crate::tls::{self, Certificates};
use crate::{Failure, Outcome};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::HeaderValue;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

const PROTOCOL: HeaderValue = HeaderValue::from_static("v4.channel.k8s.io");

/// The channels of the only port.
const DATA: u8 = 0;
const ERRORS: u8 = 1;

/// A read from the port.
const CHUNK: usize = 16 << 10;

/// The kubelet. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct Kubelet {
    port: u16,
    _tasks: JoinSet<()>,
}

impl Kubelet {
    /// Starts it on a free loopback port.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let acceptor = tls::acceptor(&Certificates::for_host("localhost")?)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, acceptor.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, _tasks: tasks })
    }

    /// The status of a node by which the API server finds it.
    pub fn node_status(&self) -> Value {
        json!({
            "addresses": [{ "type": "InternalIP", "address": Ipv4Addr::LOCALHOST.to_string() }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": self.port } },
        })
    }
}

/// The API server notices how a connection ends.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor) {
    let _ended = forward(stream, acceptor).await;
}

async fn forward(stream: TcpStream, acceptor: TlsAcceptor) -> Outcome {
    let mut port = None;
    #[expect(clippy::result_large_err, reason = "the type is the library's")]
    let agree = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        port = request.uri().query().and_then(asked);
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
        Ok(response)
    };
    let stream = accept_hdr_async(acceptor.accept(stream).await?, agree).await?;
    let port = port.ok_or_else(|| Failure::new("no port was asked for"))?;
    let (mut to_client, mut from_client) = stream.split();
    let [low, high] = port.to_le_bytes();
    for channel in [DATA, ERRORS] {
        to_client.send(Message::binary(vec![channel, low, high])).await?;
    }
    let pod = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (mut from_pod, mut to_pod) = pod.into_split();
    let mut chunk = vec![DATA; CHUNK];
    loop {
        let (_, room) = chunk.split_at_mut(1);
        tokio::select! {
            read = from_pod.read(room) => match read? {
                0 => return Ok(to_client.close().await?),
                length => {
                    let frame = chunk.get(..=length).unwrap_or_default();
                    to_client.send(Message::Binary(Bytes::copy_from_slice(frame))).await?;
                }
            },
            message = from_client.next() => match message.transpose()? {
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

/// The port in the query of a request.
fn asked(query: &str) -> Option<u16> {
    query.split('&').find_map(|pair| pair.strip_prefix("port="))?.parse().ok()
}
