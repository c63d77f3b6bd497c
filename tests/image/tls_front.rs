//! HTTPS in front of a server on loopback.

use flipop_envtest::tls::Certificates;
use flipop_envtest::{Failure, Outcome};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A listener that forwards TLS connections. Dropping it ends it.
pub(crate) struct TlsFront {
    port: u16,
    _accepting: JoinSet<()>,
}

impl TlsFront {
    /// Starts it in front of `http://host:port/`.
    pub(crate) async fn start(certificates: &Certificates, behind: &str) -> Outcome<Self> {
        let chain = vec![CertificateDer::from_pem_slice(certificates.certificate_pem.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(certificates.key_pem.as_bytes())?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let behind = behind.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(forward(acceptor.clone(), stream, behind.clone()));
            }
        });
        Ok(Self { port, _accepting: accepting })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// The client notices any kind of end.
async fn forward(acceptor: TlsAcceptor, stream: TcpStream, behind: String) -> Outcome {
    let mut outside = acceptor.accept(stream).await?;
    let mut inside =
        TcpStream::connect(&behind).await.map_err(|error| Failure::new(format!("{behind}: {error}")))?;
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await?;
    Ok(())
}
