//! Proxies: which one leads to a target, and the form that each client needs.
//!
//! Variables of the environment or the kubeconfig name them. The choice is that of Go's `http.ProxyFromEnvironment`,
//! and is not left to the clients: kube honours `HTTPS_PROXY` only with a kubeconfig, compares `NO_PROXY` with the
//! proxy's own host, and fails on an empty entry there. A pod that needs a proxy for the internet usually reaches its
//! API server without one. Invariant: credentials of a proxy are in no output.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;
use std::fmt;
use std::net::IpAddr;

/// The forms of proxies that both clients know.
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// The port of a SOCKS5 proxy whose URL names none, as for client-go.
const SOCKS_PORT: u16 = 1_080;

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The variable or field that names it.
    named_by: &'static str,
    url: Url,
}

impl fmt::Display for Proxy {
    /// Its place and its source, without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.url.scheme(), self.url.host_str().unwrap_or_default())?;
        if let Some(port) = self.url.port() {
            write!(f, ":{port}")?;
        }
        write!(f, " ({})", self.named_by)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Proxy {
    /// Reads a URL. Without a scheme it is that of an HTTP proxy.
    ///
    /// # Errors
    /// If no client can use it. The text does not show it, since it may hold a password.
    pub fn parse(named_by: &'static str, text: &str) -> Result<Self, String> {
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let mut url = Url::parse(&text).map_err(|error| format!("it is not the URL of a proxy: {error}"))?;
        if !SCHEMES.contains(&url.scheme()) {
            return Err(format!("a proxy is reached with {}", SCHEMES.join(", ")));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err("it names no host".to_owned());
        }
        if is_socks(&url) && url.port().is_none() {
            // Cannot fail: the URL has a host.
            let _set = url.set_port(Some(SOCKS_PORT));
        }
        url.set_path("");
        Ok(Self { named_by, url })
    }

    /// In the form that kube needs: it knows neither `socks5h`, nor the credentials of a SOCKS5 proxy.
    ///
    /// # Errors
    /// If kube cannot use this proxy.
    pub(crate) fn for_kube(&self) -> Result<Uri, String> {
        let mut text = self.url.to_string();
        if is_socks(&self.url) {
            if !self.url.username().is_empty() || self.url.password().is_some() {
                return Err(format!(
                    "its SOCKS5 proxy {self} has a user name, which FLIPOP does not support there: name an http or \
                     https proxy, or one without a user name"
                ));
            }
            if let Some(rest) = text.strip_prefix("socks5h:") {
                text = format!("socks5:{rest}");
            }
        }
        text.parse().map_err(|_| format!("the URL of its proxy {self} is malformed"))
    }

    /// In the form that reqwest needs. Like kube, it then lets a SOCKS5 proxy resolve the names of hosts.
    pub(crate) fn for_reqwest(&self) -> Result<reqwest::Proxy, reqwest::Error> {
        reqwest::Proxy::all(self.resolving())
    }

    fn resolving(&self) -> String {
        let text = self.url.as_str();
        text.strip_prefix("socks5:").map_or_else(|| text.to_owned(), |rest| format!("socks5h:{rest}"))
    }
}

fn is_socks(url: &Url) -> bool {
    url.scheme().starts_with("socks")
}

/// The proxies of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// `HTTPS_PROXY`.
    pub https: Option<Proxy>,
    /// `HTTP_PROXY`.
    pub http: Option<Proxy>,
    /// `ALL_PROXY`.
    pub all: Option<Proxy>,
    /// `NO_PROXY`.
    pub no_proxy: Option<String>,
}

impl ProxySettings {
    /// The proxy for the API server. `None` means a direct connection.
    pub(crate) fn for_api_server(&self, target: &Uri) -> Option<&Proxy> {
        let proxy = if target.scheme_str() == Some("https") { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| self.applies(target))
    }

    /// The proxy for a provider. `None` means a direct connection.
    pub(crate) fn for_provider(&self, target: &Uri) -> Option<&Proxy> {
        self.https.as_ref().or(self.all.as_ref()).filter(|_| self.applies(target))
    }

    fn applies(&self, target: &Uri) -> bool {
        // The matcher compares the target with NO_PROXY only if it knows a proxy.
        let rules = Matcher::builder().all("http://proxy").no(self.no_proxy.clone().unwrap_or_default());
        !target.host().is_none_or(is_loopback) && rules.build().intercept(target).is_some()
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

    fn parse(text: &str) -> Result<Proxy, String> {
        Proxy::parse("HTTPS_PROXY", text)
    }

    fn proxy_for(target: &'static str, no_proxy: &str) -> Option<String> {
        let settings = ProxySettings {
            https: Some(parse("proxy.example:3128").unwrap()),
            no_proxy: Some(no_proxy.to_owned()),
            ..ProxySettings::default()
        };
        settings.for_api_server(&Uri::from_static(target)).map(ToString::to_string)
    }

    #[test]
    fn the_proxy_is_used_unless_the_target_is_excluded_or_local() {
        let used = Some("http://proxy.example:3128 (HTTPS_PROXY)".to_owned());
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

    #[test]
    fn all_proxy_is_for_providers_alone_and_only_without_https_proxy() {
        let all = Proxy::parse("ALL_PROXY", "socks5h://all").unwrap();
        let mut settings = ProxySettings { all: Some(all.clone()), ..ProxySettings::default() };
        let target = Uri::from_static("https://api.digitalocean.com/");
        assert_eq!(settings.for_provider(&target), Some(&all));
        assert_eq!(settings.for_api_server(&target), None);
        let https = parse("http://https").unwrap();
        settings.https = Some(https.clone());
        assert_eq!(settings.for_provider(&target), Some(&https));
        settings.no_proxy = Some("digitalocean.com".to_owned());
        assert_eq!(settings.for_provider(&target), None);
    }

    #[test]
    fn each_client_gets_a_form_that_it_can_use_and_nobody_sees_the_password() {
        for (text, place, kube) in [
            ("proxy:3128", "http://proxy:3128", Some("http://proxy:3128/")),
            ("http://u:s3cret@proxy:3128/x", "http://proxy:3128", Some("http://u:s3cret@proxy:3128/")),
            ("https://proxy", "https://proxy", Some("https://proxy/")),
            ("socks5://proxy", "socks5://proxy:1080", Some("socks5://proxy:1080/")),
            ("socks5h://[::1]:1081", "socks5h://[::1]:1081", Some("socks5://[::1]:1081/")),
            ("socks5://u:s3cret@proxy", "socks5://proxy:1080", None),
            ("http://socks5:3128", "http://socks5:3128", Some("http://socks5:3128/")),
            ("socks5://socks5h:1081", "socks5://socks5h:1081", Some("socks5://socks5h:1081/")),
        ] {
            let proxy = parse(text).unwrap();
            assert_eq!(format!("{proxy:?}"), format!("{place} (HTTPS_PROXY)"), "{text}");
            let found = proxy.for_kube();
            assert_eq!(found.clone().ok().map(|url| url.to_string()).as_deref(), kube, "{text}");
            if let Err(refused) = found {
                assert!(refused.contains("has a user name") && !refused.contains("s3cret"), "{refused}");
            }
            assert!(proxy.for_reqwest().is_ok(), "{text}");
        }
        for (text, resolving) in
            [("socks5://socks5:1", "socks5h://socks5:1"), ("http://socks5:3128", "http://socks5:3128/")]
        {
            assert_eq!(parse(text).unwrap().resolving(), resolving);
        }
        for bad in
            ["ftp://u:s3cret@proxy", "socks4://s3cret", "http://s3cret:99999", "http://", "http://s3cret x"]
        {
            let refused = parse(bad).unwrap_err();
            assert!(!refused.contains("s3cret"), "{bad}: {refused}");
        }
    }
}
