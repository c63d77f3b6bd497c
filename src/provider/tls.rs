//! The one TLS implementation of the process.
//!
//! Roots come from the system: from the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, else from the
//! distribution's usual places. An image without a CA bundle needs one of the two variables or
//! `/etc/ssl/certs/ca-certificates.crt`.

/// Makes ring the TLS provider of this process. Call it first in `main` and in tests that use TLS. More than one call
/// is harmless. Without it reqwest panics, and kube and reqwest would not agree on a provider.
pub fn install_tls() {
    let installed = rustls::crypto::ring::default_provider().install_default();
    if installed.is_err() {
        tracing::trace!("a TLS provider is installed already");
    }
}
