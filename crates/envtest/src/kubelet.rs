//! A kubelet that does one thing: it forwards ports of pods, which are ports of this machine.
//!
//! The API server passes a port-forward on to the kubelet of the pod's node.

use crate::tls::{self, Certificates};
use crate::{Failure, Outcome};
use flipop_apiserver::forward;
use http::HeaderValue;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

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
        port = request.uri().query().and_then(forward::asked);
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(forward::PROTOCOL));
        Ok(response)
    };
    let stream = accept_hdr_async(acceptor.accept(stream).await?, agree).await?;
    let port = port.ok_or_else(|| Failure::new("no port was asked for"))?;
    Ok(forward::carry(stream, port).await?)
}
