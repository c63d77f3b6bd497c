//! The variables of proxies.
//!
//! Invariant: an error names the variable as it is spelt in the environment, and never shows its value.

use super::{ConfigError, Environment, Variable};
use crate::proxy::{Proxy, ProxySettings};

/// Reads and checks them.
pub(super) fn read(env: Environment<'_>) -> Result<ProxySettings, ConfigError> {
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
