//! Part of the provider foundation.
/// Installs the process-wide TLS provider.
pub fn install_tls() {}
