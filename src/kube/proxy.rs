//! Chooses the proxy for the API server from the environment, as Go's `http.ProxyFromEnvironment` does.
//!
//! kube's own choice is not used: it honours `HTTPS_PROXY` only with a kubeconfig, compares `NO_PROXY` with the proxy's
//! own host, and fails on an empty entry there. A pod that needs a proxy for the internet usually reaches its API
//! server without one.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use std::net::IpAddr;

/// The proxy variables of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// `HTTPS_PROXY` or `https_proxy`.
    pub https: Option<String>,
    /// `HTTP_PROXY` or `http_proxy`.
    pub http: Option<String>,
    /// `NO_PROXY` or `no_proxy`.
    pub no_proxy: Option<String>,
}

impl ProxySettings {
    /// The proxy for `target` as written. `None` means a direct connection.
    pub(super) fn for_target(&self, target: &Uri) -> Option<String> {
        let proxy = if target.scheme_str() == Some("https") { &self.https } else { &self.http };
        let proxy = proxy.as_deref().filter(|proxy| !proxy.is_empty())?;
        let host = target.host()?;
        if is_loopback(host) {
            return None;
        }
        let rules = Matcher::builder().all(proxy.to_owned());
        let rules = rules.no(self.no_proxy.clone().unwrap_or_default()).build();
        rules.intercept(target)?;
        Some(if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") })
    }
}

/// Whether the host of a URL is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy_for(target: &'static str, no_proxy: &str) -> Option<String> {
        let settings = ProxySettings {
            https: Some("proxy.example:3128".into()),
            http: None,
            no_proxy: Some(no_proxy.to_owned()),
        };
        settings.for_target(&Uri::from_static(target))
    }

    #[test]
    fn the_proxy_is_used_unless_the_target_is_excluded_or_local() {
        let used = Some("http://proxy.example:3128".to_owned());
        assert_eq!(proxy_for("https://10.0.0.1:443", ""), used);
        assert_eq!(proxy_for("https://10.0.0.1:443", "10.0.0.0/8,.svc"), None);
        assert_eq!(proxy_for("https://kubernetes.default.svc", "localhost, .svc"), None);
        assert_eq!(proxy_for("https://api.example", "*"), None);
        assert_eq!(proxy_for("https://api.example", ",a,,.example,"), None);
        assert_eq!(proxy_for("https://api.example", "a,, ,"), used);
        assert_eq!(proxy_for("https://[::1]:6443", ""), None);
        assert_eq!(proxy_for("https://127.0.0.1:6443", ""), None);
        assert_eq!(proxy_for("http://10.0.0.1", ""), None);
    }
}
