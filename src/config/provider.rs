//! The environment variables of the providers: token, API URL, user agent.

use super::{ConfigError, Env, Variable};
use crate::kube::kubeconfig::is_loopback;
use crate::provider::{cloudflare, digitalocean};
use crate::token::TokenSource;
use reqwest::Url;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How to use one provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The source of the token.
    pub token: TokenSource,
    /// Base URL of the API: https, or http on loopback.
    pub base_url: String,
    /// The `User-Agent`, if it is not the default.
    pub user_agent: Option<String>,
}

/// The providers' variables. They are checked only when they are needed, because most commands work without a token.
#[derive(Clone, Default)]
pub struct ProviderVariables(BTreeMap<Variable, String>);

impl std::fmt::Debug for ProviderVariables {
    /// Shows only names: a value may be a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl ProviderVariables {
    pub(super) fn of(env: Env<'_>) -> Self {
        let of_providers = Variable::ALL.iter().filter(|variable| variable.is_of_provider());
        Self(of_providers.filter_map(|variable| Some((*variable, env(*variable)?))).collect())
    }

    /// Parses lines `NAME=VALUE`. Other lines, and variables that are not of a provider, are ignored.
    #[must_use]
    pub fn from_lines(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.trim().split_once('='));
        let named = |name: &str| {
            let name = name.trim().strip_prefix("export ").unwrap_or(name.trim());
            Variable::ALL.iter().find(|variable| variable.name() == name && variable.is_of_provider())
        };
        let value = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        let lines = lines.filter_map(|(name, text)| Some((*named(name)?, value(text))));
        Self(lines.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// How to use each provider that has a token.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(&self) -> Result<ProviderConfigs, ConfigError> {
        let env = |variable: Variable| self.0.get(&variable).cloned();
        Ok(ProviderConfigs { digitalocean: digitalocean(&env)?, cloudflare: cloudflare(&env)? })
    }
}

/// How to use each provider. `None` if it has no token.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfigs {
    /// `DigitalOcean`.
    pub digitalocean: Option<ProviderConfig>,
    /// Cloudflare.
    pub cloudflare: Option<ProviderConfig>,
}

/// The variables of one provider.
struct Variables {
    token: Variable,
    token_file: Variable,
    url: Variable,
    user_agent: Variable,
    default_url: &'static str,
}

pub(super) fn digitalocean(env: Env<'_>) -> Result<Option<ProviderConfig>, ConfigError> {
    Variables {
        token: Variable::DigitaloceanAccessToken,
        token_file: Variable::DigitaloceanAccessTokenFile,
        url: Variable::DigitaloceanApiUrl,
        user_agent: Variable::DigitaloceanUserAgent,
        default_url: digitalocean::DEFAULT_URL,
    }
    .read(env)
}

pub(super) fn cloudflare(env: Env<'_>) -> Result<Option<ProviderConfig>, ConfigError> {
    Variables {
        token: Variable::CloudflareToken,
        token_file: Variable::CloudflareTokenFile,
        url: Variable::CloudflareApiUrl,
        user_agent: Variable::CloudflareUserAgent,
        default_url: cloudflare::DEFAULT_URL,
    }
    .read(env)
}

impl Variables {
    fn read(&self, env: Env<'_>) -> Result<Option<ProviderConfig>, ConfigError> {
        let Some(token) = self.token(env)? else { return Ok(None) };
        let base_url = match env(self.url) {
            None => self.default_url.to_owned(),
            Some(url) => self.checked(&url)?,
        };
        let user_agent = env(self.user_agent);
        if user_agent.as_deref().is_some_and(|agent| http::HeaderValue::from_str(agent).is_err()) {
            return Err(ConfigError::invalid(self.user_agent.name(), "it cannot be sent as an HTTP header"));
        }
        Ok(Some(ProviderConfig { token, base_url, user_agent }))
    }

    fn token(&self, env: Env<'_>) -> Result<Option<TokenSource>, ConfigError> {
        match (env(self.token), env(self.token_file)) {
            (Some(_), Some(_)) => Err(ConfigError::invalid(
                self.token.name(),
                format!("{} is set too; unset one", self.token_file.name()),
            )),
            // Secrets created with `echo` end in a newline.
            (Some(token), None) if token.trim().is_empty() => Ok(None),
            (Some(token), None) => Ok(Some(TokenSource::Value(SecretString::from(token.trim())))),
            (None, Some(path)) => {
                let path = PathBuf::from(path);
                // A file missing at the start is a mistake in the manifest. A file that changes later is read again.
                std::fs::metadata(&path).map_err(|error| {
                    let named = path.to_str().filter(|path| path.contains('/'));
                    let named =
                        named.unwrap_or("it names no file (the value is not shown: it may be the token)");
                    ConfigError::invalid(self.token_file.name(), format!("{named}: {error}"))
                })?;
                Ok(Some(TokenSource::File(path)))
            }
            (None, None) => Ok(None),
        }
    }

    fn checked(&self, text: &str) -> Result<String, ConfigError> {
        let invalid = |problem: &str| ConfigError::invalid(self.url.name(), problem);
        let url = Url::parse(text).map_err(|error| invalid(&format!("it is not a URL: {error}")))?;
        let host =
            url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| invalid("it names no host"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it must not hold credentials"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it must end with the path"));
        }
        match url.scheme() {
            "https" => Ok(text.to_owned()),
            "http" if is_loopback(host) => Ok(text.to_owned()),
            "http" => {
                Err(invalid("plain http would send the token unencrypted; it is accepted for loopback only"))
            }
            _ => Err(invalid("it must be an https URL")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn read(env: &[(&str, &str)]) -> Result<Option<ProviderConfig>, ConfigError> {
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        digitalocean(&|variable| variable.read(&env))
    }

    const TOKEN: (&str, &str) = ("DIGITALOCEAN_ACCESS_TOKEN", "very-s3cret\n");

    #[test]
    fn providers_describe_the_variables_that_are_read() {
        let read = [Variable::DigitaloceanAccessToken, Variable::CloudflareToken].map(Variable::name);
        assert_eq!(crate::provider::DESCRIPTORS.map(|descriptor| descriptor.token_variable), read);
    }

    #[test]
    fn a_provider_exists_only_with_a_token() {
        assert!(read(&[("DIGITALOCEAN_API_URL", "https://x.example/")]).unwrap().is_none());
        assert!(read(&[("DIGITALOCEAN_ACCESS_TOKEN", " \n")]).unwrap().is_none());
        let config = read(&[TOKEN]).unwrap().unwrap();
        assert_eq!(config.base_url, "https://api.digitalocean.com/");
        let TokenSource::Value(token) = &config.token else { panic!("a value") };
        assert_eq!(token.expose_secret(), "very-s3cret");
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn plain_http_is_for_loopback_only() {
        for good in ["http://127.0.0.1:8080/", "http://localhost/v", "http://[::1]:1/", "https://do.example"]
        {
            assert_eq!(read(&[TOKEN, ("DIGITALOCEAN_API_URL", good)]).unwrap().unwrap().base_url, good);
        }
        for bad in [
            "http://api.digitalocean.com/",
            "http://127.0.0.1.example/",
            "ftp://localhost/",
            "api.digitalocean.com",
            "https://user:very-s3cret@do.example/",
            "https://do.example/?a=b",
        ] {
            let error = read(&[TOKEN, ("DIGITALOCEAN_API_URL", bad)]).expect_err(bad).to_string();
            assert!(error.contains("DIGITALOCEAN_API_URL") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_token_file_must_be_there_and_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let config = read(&[("DIGITALOCEAN_ACCESS_TOKEN_FILE", path)]).unwrap().unwrap();
        assert!(matches!(config.token, TokenSource::File(found) if found == file.path()));
        let missing = read(&[("DIGITALOCEAN_ACCESS_TOKEN_FILE", "/nonexistent/token")]).unwrap_err();
        let missing = missing.to_string();
        assert!(missing.contains("DIGITALOCEAN_ACCESS_TOKEN_FILE: /nonexistent/token"), "{missing}");
        let token = read(&[("DIGITALOCEAN_ACCESS_TOKEN_FILE", "very-s3cret")]).unwrap_err().to_string();
        assert!(token.contains("DIGITALOCEAN_ACCESS_TOKEN_FILE") && !token.contains("s3cret"), "{token}");
        let both = read(&[TOKEN, ("DIGITALOCEAN_ACCESS_TOKEN_FILE", path)]).unwrap_err().to_string();
        assert!(both.contains("DIGITALOCEAN_ACCESS_TOKEN_FILE") && !both.contains("s3cret"), "{both}");
    }

    #[test]
    fn a_file_of_variables_gives_those_of_providers_alone() {
        let lines = "# tokens\nexport DIGITALOCEAN_ACCESS_TOKEN=\"t0ken\"\nKUBECONFIG=/a\n CLOUDFLARE_TOKEN = '' \nnonsense\n";
        let variables = ProviderVariables::from_lines(lines);
        let configs = variables.read().unwrap();
        assert!(configs.digitalocean.is_some() && configs.cloudflare.is_none());
        assert_eq!(variables.0.len(), 1);
    }
}
