//! A check over the network: a TCP connection and nothing more.
//!
//! Invariants: nothing that is sent identifies FLIPOP. Any answer of the kernel is enough, even a refusal. A fault
//! of this machine is no verdict on another one.

use super::{Call, Probe};
use crate::provider::install_tls;
use flipop_core::model::{CheckOutcome, KUBELET_PORT};
use futures::future::BoxFuture;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, Error, NamedGroup, SignatureScheme,
    SupportedCipherSuite,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// A kubelet logs each connection that ends before its handshake does. So the check waits this long for the
/// handshake, and ignores its result.
const HANDSHAKE: Duration = Duration::from_secs(1);

/// Checks over the network.
pub struct Sockets {
    tls: TlsConnector,
}

impl Default for Sockets {
    fn default() -> Self {
        install_tls();
        let config = ClientConfig::builder_with_provider(Arc::new(cheap()))
            .with_safe_default_protocol_versions()
            .unwrap_or_else(|_unusable| ClientConfig::builder())
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone));
        let mut config = config.with_no_client_auth();
        // The kubelet's tickets come after the connection was closed.
        config.resumption = Resumption::disabled();
        Self { tls: TlsConnector::from(Arc::new(config)) }
    }
}

/// The cryptography with the cheapest handshake: its secrets protect nothing. Each TLS 1.3 server has to know the only
/// suite and the first group (RFC 8446, section 9.1), and both are in assembly here.
fn cheap() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    let wanted = |suite: &SupportedCipherSuite| {
        suite.tls13().is_none() || suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256
    };
    provider.cipher_suites.retain(wanted);
    provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::secp256r1);
    provider
}

impl Probe for Sockets {
    fn probe(&self, call: Call) -> BoxFuture<'static, CheckOutcome> {
        let tls = self.tls.clone();
        Box::pin(async move {
            let address = SocketAddr::new(call.address.as_ip(), call.port);
            match timeout(call.timeout, TcpStream::connect(address)).await {
                Err(_) => CheckOutcome::Failed,
                Ok(Ok(stream)) => {
                    if call.port == KUBELET_PORT {
                        let _result = timeout(HANDSHAKE, finish(&tls, address, stream)).await;
                    }
                    CheckOutcome::Passed
                }
                Ok(Err(error)) => outcome(&error),
            }
        })
    }
}

/// Finishes the handshake, and says that the connection ends, as TLS requires.
async fn finish(tls: &TlsConnector, address: SocketAddr, stream: TcpStream) -> io::Result<()> {
    let mut stream = tls.connect(ServerName::from(address.ip()), stream).await?;
    stream.get_mut().1.send_close_notify();
    // Dropping it closes the socket, so it needs no shutdown of its own.
    stream.flush().await
}

/// The verdict that an error gives about the other machine.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else there may be is no answer of another machine"
)]
fn outcome(error: &io::Error) -> CheckOutcome {
    match error.kind() {
        // The kernel of the other machine has answered.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => CheckOutcome::Passed,
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable => CheckOutcome::Failed,
        // Descriptors, routes, rights and ports are our own, and so are all other causes.
        _ => CheckOutcome::NoVerdict(error.to_string()),
    }
}

/// Accepts any certificate: nothing is sent, and the answer does not count.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        use SignatureScheme as S;
        vec![
            S::RSA_PKCS1_SHA256,
            S::RSA_PKCS1_SHA384,
            S::RSA_PKCS1_SHA512,
            S::ECDSA_NISTP256_SHA256,
            S::ECDSA_NISTP384_SHA384,
            S::ECDSA_NISTP521_SHA512,
            S::RSA_PSS_SHA256,
            S::RSA_PSS_SHA384,
            S::RSA_PSS_SHA512,
            S::ED25519,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipop_core::model::Address;
    use tokio::net::TcpListener;

    fn call(port: u16) -> Call {
        let address = Address::from([127, 0, 0, 1]);
        Call { node: "node".to_owned(), address, port, timeout: Duration::from_millis(500) }
    }

    #[tokio::test]
    async fn a_machine_that_accepts_or_refuses_lives() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(Sockets::default().probe(call(port)).await, CheckOutcome::Passed);
        drop(listener);
        assert_eq!(Sockets::default().probe(call(port)).await, CheckOutcome::Passed);
    }

    /// A kubelet that serves TLS on its port, at a loopback address that nothing else uses.
    #[tokio::test]
    async fn a_kubelet_sees_a_whole_handshake_and_an_orderly_end() {
        install_tls();
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(["kubelet".to_owned()]).unwrap().self_signed(&key).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.77.10.250", KUBELET_PORT)).await.unwrap();
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.expect("a whole handshake");
            let suite = stream.get_ref().1.negotiated_cipher_suite().unwrap().suite();
            let group = stream.get_ref().1.negotiated_key_exchange_group().unwrap().name();
            assert_eq!((suite, group), (CipherSuite::TLS13_AES_128_GCM_SHA256, NamedGroup::secp256r1));
            let mut rest = Vec::new();
            // Without a close_notify this is an error.
            tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await.expect("an orderly end");
            rest
        };
        let kubelet = Call { address: Address::from([127, 77, 10, 250]), ..call(KUBELET_PORT) };
        let sockets = Sockets::default();
        let (outcome, said) = tokio::join!(sockets.probe(kubelet), serve);
        assert_eq!((outcome, said), (CheckOutcome::Passed, Vec::new()));
    }

    #[test]
    fn each_error_is_about_the_other_machine_or_about_our_own() {
        use rustix::io::Errno;
        for (errno, expected) in [
            (Errno::CONNREFUSED, Some(true)),
            (Errno::CONNRESET, Some(true)),
            (Errno::TIMEDOUT, Some(false)),
            (Errno::HOSTUNREACH, Some(false)),
            (Errno::MFILE, None),
            (Errno::NFILE, None),
            (Errno::NETUNREACH, None),
            (Errno::PERM, None),
            (Errno::ACCESS, None),
            (Errno::ADDRNOTAVAIL, None),
        ] {
            let found = match outcome(&io::Error::from_raw_os_error(errno.raw_os_error())) {
                CheckOutcome::Passed => Some(true),
                CheckOutcome::Failed => Some(false),
                CheckOutcome::NoVerdict(_) => None,
            };
            assert_eq!(found, expected, "{errno}");
        }
    }
}
