//! Clients of the providers for commands that read them. They use the tokens of the environment or of a file, and only
//! read.

use super::CommandError;
use crate::clock::Clock;
use crate::config::{Order, ProviderVariables};
use crate::provider::observe::{CallObserver, NoObserver};
use crate::provider::{self, Providers};
use crate::proxy::ProxySettings;
use std::path::Path;
use std::sync::Arc;

/// The variables of the file, or of the environment if there is none.
pub(super) fn variables(order: &Order, env_file: Option<&Path>) -> Result<ProviderVariables, CommandError> {
    let Some(path) = env_file else { return Ok(order.providers.clone()) };
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| CommandError::Usage(format!("failed to read {}: {error}", path.display())))?;
    Ok(ProviderVariables::from_lines(&text))
}

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
