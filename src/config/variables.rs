//! The complete list of the environment variables that affect the process.
//!
//! All code in this crate reads a [`Variable`], or the variables that a [`Provider`] names. The list also has the
//! variables that libraries read.

use super::{ConfigError, Environment};
use crate::provider::{PROVIDERS, Provider, Variables};
use crate::proxy::{Proxy, ProxySettings};

flipop_core::described! {
    /// An environment variable that is not a provider's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Variable {
        /// Kubeconfig files, separated by `:`, that are merged as by `kubectl`. Files that do not exist are skipped.
        /// `--kubeconfig` takes precedence.
        Kubeconfig = "KUBECONFIG",
        /// Home directory. Its file `.kube/config` is used where neither `--kubeconfig` nor `KUBECONFIG` is set.
        Home = "HOME",
        /// Namespace of the operator, in which its Lease is. A namespace in the context of the kubeconfig takes
        /// precedence.
        PodNamespace = "POD_NAMESPACE",
        /// Name of the node that the process runs on. Without it `nodeCheck` has no effect, since FLIPOP never checks
        /// its own node.
        NodeName = "NODE_NAME",
        /// Host of the API server. Kubernetes sets it in every pod. It is used with the pod's service account where no
        /// kubeconfig is found.
        KubernetesServiceHost = "KUBERNETES_SERVICE_HOST",
        /// Port of the API server. Kubernetes sets it in every pod.
        KubernetesServicePort = "KUBERNETES_SERVICE_PORT",
        /// Proxy for `https` URLs: those of the providers and that of the API server. It begins with `http`, `https`,
        /// `socks5` or `socks5h`. The addresses in `NO_PROXY` and loopback addresses are reached directly.
        HttpsProxy = "HTTPS_PROXY",
        /// Proxy for an API server with an `http` URL.
        HttpProxy = "HTTP_PROXY",
        /// Hosts, IP addresses and ranges such as `10.0.0.0/8`, separated by commas, that are reached without a proxy.
        NoProxy = "NO_PROXY",
        /// Proxy for the providers where `HTTPS_PROXY` is not set. It does not apply to the API server.
        AllProxy = "ALL_PROXY",
        /// File with the certificate authorities that are trusted for the providers.
        SslCertFile = "SSL_CERT_FILE",
        /// Folder with the certificate authorities that are trusted for the providers.
        SslCertDir = "SSL_CERT_DIR",
        /// If it is set, commands print without colors and symbols, as with `--no-color`.
        NoColor = "NO_COLOR",
    }
    /// Its name.
    fn name -> &'static str;
}

impl Variable {
    /// Another spelling. It counts if the name is not set.
    fn alias(self) -> Option<&'static str> {
        let aliases = [
            (Self::HttpsProxy, "https_proxy"),
            (Self::HttpProxy, "http_proxy"),
            (Self::NoProxy, "no_proxy"),
            (Self::AllProxy, "all_proxy"),
        ];
        aliases.into_iter().find(|(variable, _)| *variable == self).map(|(_, alias)| alias)
    }

    /// The value that counts if the variable is unset or empty.
    fn default_value(self) -> Option<&'static str> {
        let bundle = matches!(self, Self::SslCertFile | Self::SslCertDir);
        bundle.then_some("the CA bundle of the system")
    }

    /// Reads the variable. An empty one counts as unset.
    pub(super) fn read(self, env: Environment<'_>) -> Option<String> {
        self.find(env).map(|(_, value)| value)
    }

    /// Reads the variable, with the spelling in use. An empty one counts as unset.
    pub(super) fn find(self, env: Environment<'_>) -> Option<(&'static str, String)> {
        let spellings = std::iter::once(self.name()).chain(self.alias());
        spellings.filter_map(|name| Some((name, env(name)?))).find(|(_, value)| !value.is_empty())
    }
}

/// The names of the variables that say how to use a provider.
pub(super) fn of_provider(provider: &Provider) -> [&'static str; 4] {
    let Variables { token_file, url, user_agent } = provider.variables;
    [provider.descriptor.token_variable, token_file, url, user_agent]
}

/// A variable as documents describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedVariable {
    /// Its name, and then other spellings, which count if the name is not set.
    pub names: Vec<String>,
    /// The value that counts if the variable is unset or empty.
    pub default: Option<&'static str>,
    /// Plain text, with code between backquotes.
    pub meaning: String,
}

/// Every variable: those of the providers, then the others.
pub fn described_variables() -> Vec<DescribedVariable> {
    let others = Variable::ALL.iter().map(|variable| DescribedVariable {
        names: std::iter::once(variable.name()).chain(variable.alias()).map(str::to_owned).collect(),
        default: variable.default_value(),
        meaning: variable.meaning().to_owned(),
    });
    PROVIDERS.iter().flat_map(described).chain(others).collect()
}

/// The variables of a provider. What holds for the URL of each provider is said once, at the first.
fn described(provider: &Provider) -> [DescribedVariable; 4] {
    let [token, token_file, url, user_agent] = of_provider(provider);
    let (title, paths) = (provider.descriptor.title, provider.paths);
    let first = PROVIDERS.first().map_or(url, |first| first.variables.url);
    let rules = if url == first {
        "It must be an `https` URL; `http` is accepted for loopback addresses only. It may hold no credentials, \
         query or fragment."
            .to_owned()
    } else {
        format!("The rules are those of `{first}`.")
    };
    let row =
        |name: &str, default, meaning| DescribedVariable { names: vec![name.to_owned()], default, meaning };
    [
        row(token, None, format!("{title} API token. It is read when the process starts.")),
        row(
            token_file,
            None,
            format!(
                "Path of a file that holds the {title} API token. The file is read again every 2 s, so a new token \
                 needs no restart. It must exist when the process starts. Setting `{token}` as well is an error."
            ),
        ),
        row(
            url,
            Some(provider.default_url),
            format!("Base URL of the {title} API, to which `{paths}` is appended. {rules}"),
        ),
        row(
            user_agent,
            Some("flipop/<version>"),
            format!("Value of the `User-Agent` header in requests to {title}."),
        ),
    ]
}

/// Reads and checks the variables of proxies. An error names the variable as it is spelt, and never shows its value.
pub(super) fn proxies(env: Environment<'_>) -> Result<ProxySettings, ConfigError> {
    let read = |variable: Variable| {
        let found = variable.find(env);
        let parse = |(name, url): (&'static str, String)| {
            Proxy::parse(name, &url).map_err(|problem| ConfigError::invalid(name, problem))
        };
        found.map(parse).transpose()
    };
    let https = read(Variable::HttpsProxy)?;
    // Desktops set it to URLs that few programs know, beside others that all know.
    let all = if https.is_none() { read(Variable::AllProxy)? } else { None };
    Ok(ProxySettings { https, http: read(Variable::HttpProxy)?, all, no_proxy: Variable::NoProxy.read(env) })
}

#[cfg(test)]
mod tests {
    use super::super::Invocation;
    use super::*;

    const TOKEN: (&str, &str) = ("DIGITALOCEAN_ACCESS_TOKEN", "t0ken");

    #[test]
    fn a_proxy_that_no_client_can_use_ends_the_start_with_its_variable_and_without_its_password() {
        let bad = "socks9://u:s3cret@p";
        let read = |words: &[&str], set: &[(&str, &str)]| {
            let env = |name: &str| {
                let found = set.iter().chain([&TOKEN]).find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Invocation::from_parts(std::iter::once(&"flipop").chain(words), &env)
        };
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
            for words in [&["--debug"][..], &["agent", "--node-name", "a"]] {
                let error = read(words, &[(name, bad)]).unwrap_err();
                assert!(matches!(error, ConfigError::Invalid { .. }), "{words:?}: {error:?}");
                let text = error.to_string();
                assert!(
                    text.contains(&format!("failed to use {name}: ")) && !text.contains("s3cret"),
                    "{text}"
                );
            }
            let error = read(&["status"], &[(name, bad)]).unwrap_err();
            assert!(matches!(error, ConfigError::CommandVariable(_)), "{error:?}");
            assert!(read(&["crd"], &[(name, bad)]).is_ok(), "it connects to nothing");
        }
        assert!(read(&["--debug"], &[("HTTPS_PROXY", "socks5h://p"), ("ALL_PROXY", bad)]).is_ok());
    }
}
