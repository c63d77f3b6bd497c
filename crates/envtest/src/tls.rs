//! Keys and certificates for servers that tests start.

use crate::Outcome;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Makes ring the process's TLS provider. Calling it again does nothing.
pub fn install_provider() {
    // Fails only if one is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A key pair in PEM, private key first. The API server signs service accounts' tokens with it.
pub(crate) fn signing_keys_pem() -> Outcome<(String, String)> {
    let keys = KeyPair::generate()?;
    Ok((keys.serialize_pem(), keys.public_key_pem()))
}

/// Accepts TLS connections with a certificate.
///
/// # Errors
/// If the certificate or its key cannot be read.
pub fn acceptor(certificates: &Certificates) -> Outcome<TlsAcceptor> {
    install_provider();
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(certificates.certificate_pem.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(certificates.key_pem.as_bytes())?;
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain?, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A new certificate authority, and a server certificate that it signed.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The authority's certificate, which clients must trust.
    pub authority_pem: String,
    /// The server's certificate.
    pub certificate_pem: String,
    /// The server's key.
    pub key_pem: String,
}

impl Certificates {
    /// Certificates for a server of this host name.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn for_host(host: &str) -> Outcome<Self> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "Test authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let mut server = CertificateParams::new(vec![host.to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, host);
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Self {
            authority_pem: authority.pem(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}
