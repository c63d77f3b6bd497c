//! The environment variables of the providers: token, API URL, user agent.

use super::{ConfigError, Environment, variables};
use crate::provider::{PROVIDERS, Provider, ProviderConfig, ProviderConfigs, http};
use crate::token::TokenSource;
use ::http::HeaderValue;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The variables that are set, by name.
type Values = BTreeMap<&'static str, String>;

/// The providers' variables. They are checked only when they are needed, because most commands work without a token.
#[derive(Clone, Default)]
pub struct ProviderVariables(Values);

impl std::fmt::Debug for ProviderVariables {
    /// Shows only names: a value may be a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl ProviderVariables {
    pub(super) fn of(env: Environment<'_>) -> Self {
        let read = |name: &'static str| Some((name, env(name).filter(|value| !value.is_empty())?));
        Self(names().filter_map(read).collect())
    }

    /// Parses lines `NAME=VALUE`. Other lines, and variables that are not of a provider, are ignored.
    pub fn from_lines(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.trim().split_once('='));
        let named = |name: &str| {
            let name = name.trim().strip_prefix("export ").unwrap_or(name.trim());
            names().find(|known| *known == name)
        };
        let value = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        let lines = lines.filter_map(|(name, text)| Some((named(name)?, value(text))));
        Self(lines.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// How to use each provider that has a token.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(&self) -> Result<ProviderConfigs, ConfigError> {
        let mut configs = ProviderConfigs::new();
        for provider in &PROVIDERS {
            if let Some(config) = config(provider, &self.0)? {
                configs.insert(provider.descriptor.name, config);
            }
        }
        Ok(configs)
    }
}

/// The names of the variables of all providers.
fn names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().flat_map(variables::of_provider)
}

/// The variables with the tokens, for a message.
pub(super) fn token_variables() -> String {
    let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.descriptor.token_variable).collect();
    names.join(" or ")
}

/// The variables with the files of the tokens, for a message.
pub(super) fn token_file_variables() -> String {
    let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.variables.token_file).collect();
    names.join(", ")
}

/// How to use one provider. `None` if it has no token.
fn config(provider: &Provider, set: &Values) -> Result<Option<ProviderConfig>, ConfigError> {
    let Some(token) = token(provider, set)? else { return Ok(None) };
    let (url, user_agent) = (provider.variables.url, provider.variables.user_agent);
    let base_url = set.get(url).map_or(provider.default_url, String::as_str).to_owned();
    http::base_url(&base_url).map_err(|problem| ConfigError::invalid(url, problem))?;
    let agent = set.get(user_agent).cloned();
    if agent.as_deref().is_some_and(|agent| HeaderValue::from_str(agent).is_err()) {
        return Err(ConfigError::invalid(user_agent, "it cannot be sent as an HTTP header"));
    }
    Ok(Some(ProviderConfig { token, base_url, user_agent: agent }))
}

fn token(provider: &Provider, set: &Values) -> Result<Option<TokenSource>, ConfigError> {
    let (token, file) = (provider.descriptor.token_variable, provider.variables.token_file);
    match (set.get(token), set.get(file)) {
        (Some(_), Some(_)) => Err(ConfigError::invalid(token, format!("{file} is set too; unset one"))),
        // Secrets created with `echo` end in a newline.
        (Some(token), None) if token.trim().is_empty() => Ok(None),
        (Some(token), None) => Ok(Some(TokenSource::Value(SecretString::from(token.trim())))),
        (None, Some(path)) => {
            let path = PathBuf::from(path);
            // A file missing at the start is a mistake in the manifest. A file that changes later is read again.
            std::fs::metadata(&path).map_err(|error| {
                let named = path.to_str().filter(|path| path.contains('/'));
                let named = named.unwrap_or("it names no file (the value is not shown: it may be the token)");
                ConfigError::invalid(file, format!("{named}: {error}"))
            })?;
            Ok(Some(TokenSource::File(path)))
        }
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn read(env: &[(&str, &str)]) -> Result<Option<ProviderConfig>, ConfigError> {
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        ProviderVariables::of(&env).read().map(|mut configs| configs.remove("digitalocean"))
    }

    const TOKEN: (&str, &str) = ("DIGITALOCEAN_ACCESS_TOKEN", "very-s3cret\n");

    #[test]
    fn each_provider_is_used_as_its_own_variables_say() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        for Provider { descriptor, variables, default_url, .. } in &PROVIDERS {
            let read = |set: &[(&str, &str)]| {
                let env = |name: &str| {
                    set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
                };
                let mut configs = ProviderVariables::of(&env).read().unwrap();
                let config = configs.remove(descriptor.name).unwrap();
                assert!(configs.is_empty(), "{}: {configs:?}", descriptor.name);
                config
            };
            let plain = read(&[(descriptor.token_variable, "t0ken")]);
            assert!(matches!(plain.token, TokenSource::Value(token) if token.expose_secret() == "t0ken"));
            assert_eq!((plain.base_url.as_str(), plain.user_agent), (*default_url, None));
            let all =
                [(variables.token_file, path), (variables.url, "https://x"), (variables.user_agent, "a")];
            let full = read(&all);
            assert!(matches!(full.token, TokenSource::File(found) if found == file.path()));
            assert_eq!((full.base_url.as_str(), full.user_agent.as_deref()), ("https://x", Some("a")));
        }
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
        assert_eq!(configs.into_keys().collect::<Vec<_>>(), ["digitalocean"]);
        assert_eq!(variables.0.len(), 1);
    }
}
