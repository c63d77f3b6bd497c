//! Clients of the providers for commands that read them. They use the tokens of the environment, and only read.

use super::CommandError;
use crate::clock::Clock;
use crate::config::{ProviderConfig, ProviderVariables};
use crate::provider::Providers;
use crate::provider::cloudflare::{self, Cloudflare};
use crate::provider::digitalocean::{self, DigitalOcean};
use crate::provider::http::ApiConfig;
use crate::provider::observe::NoObserver;
use std::sync::Arc;

/// The clients of the providers that have a token in these variables. They get no permit, so they cannot write.
pub(super) fn clients(variables: &ProviderVariables, clock: &Clock) -> Result<Providers, CommandError> {
    let configs = variables.read().map_err(|error| CommandError::Usage(error.to_string()))?;
    let api = |ProviderConfig { token, base_url, user_agent }: ProviderConfig| ApiConfig {
        base_url,
        user_agent,
        token,
        clock: clock.clone(),
        observer: Arc::new(NoObserver),
        transport: None,
    };
    let unusable = |error: crate::provider::http::BuildError| CommandError::Usage(error.to_string());
    let mut providers = Providers::default();
    if let Some(config) = configs.digitalocean {
        let client = Arc::new(DigitalOcean::new(api(config)).map_err(unusable)?);
        providers.ips.insert(digitalocean::NAME.into(), Arc::<DigitalOcean>::clone(&client));
        providers.firewalls.insert(digitalocean::NAME.into(), Arc::<DigitalOcean>::clone(&client));
        providers.dns.insert(digitalocean::NAME.into(), client);
    }
    if let Some(config) = configs.cloudflare {
        let client = Arc::new(Cloudflare::new(api(config)).map_err(unusable)?);
        providers.dns.insert(cloudflare::NAME.into(), client);
    }
    Ok(providers)
}
