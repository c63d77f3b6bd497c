//! Clients of the providers for commands that read them. They use the tokens of the environment, and only read.

use super::CommandError;
use crate::clock::Clock;
use crate::config::ProviderVariables;
use crate::provider::observe::{CallObserver, NoObserver};
use crate::provider::{self, Providers};
use crate::proxy::ProxySettings;
use std::sync::Arc;

/// The clients of the providers that have a token in these variables. They get no permit, so they cannot write.
pub(super) fn clients(
    variables: &ProviderVariables,
    proxies: &ProxySettings,
    clock: &Clock,
) -> Result<Providers, CommandError> {
    let configs = variables.read().map_err(|error| CommandError::Usage(error.to_string()))?;
    let observer: Arc<dyn CallObserver> = Arc::new(NoObserver);
    let clients = provider::connect(&configs, proxies, clock, &observer, None);
    clients.map_err(|error| CommandError::Usage(error.to_string()))
}
