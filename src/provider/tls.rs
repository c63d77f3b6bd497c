//! The one TLS implementation of the process.
//!
//! Roots come from the system: the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, else the distribution's usual
//! places. An image without a CA bundle needs one of the two variables or `/etc/ssl/certs/ca-certificates.crt`.

/// Makes ring the TLS provider of this process. Call it first in `main` and in tests that use TLS; more than once is
/// harmless. reqwest panics without it, and kube and reqwest would not agree on one by themselves.
pub fn install_tls() {
    let installed = rustls::crypto::ring::default_provider().install_default();
    if installed.is_err() {
        tracing::trace!("a TLS provider is installed already");
    }
}
