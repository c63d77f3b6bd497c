//! The providers that are compiled in, and what follows from their list.
//!
//! Owns the only list of providers. Its order is that of documents, logs and errors.

use crate::clock::Clock;
use crate::provider::entry::{Provider, ProviderConfig, ProviderConfigs, Providers};
use crate::provider::http::{ApiConfig, BuildError, Transport};
use crate::provider::observe::CallObserver;
use crate::provider::{cloudflare, digitalocean};
use crate::proxy::ProxySettings;
use flipop_core::model::MachineId;
use flipop_core::model::provider::Descriptor;
use std::sync::Arc;

/// All providers.
pub static PROVIDERS: [Provider; 2] = [digitalocean::PROVIDER, cloudflare::PROVIDER];

/// The facts about each provider.
pub fn descriptors() -> impl Iterator<Item = Descriptor> {
    PROVIDERS.iter().map(|provider| provider.descriptor)
}

/// The machine that a node's `spec.providerID` names, if it belongs to one of the providers.
pub fn machine(provider_id: &str) -> Option<MachineId> {
    PROVIDERS.iter().find_map(|provider| provider.descriptor.machines?.named(provider_id))
}

/// Sets up a client of each provider that may be used. `transport` carries the requests; `None` means over the network,
/// through one of the proxies if there are any.
///
/// # Errors
/// If a configuration cannot work: see [`BuildError`].
pub fn connect(
    configs: &ProviderConfigs,
    proxies: &ProxySettings,
    clock: &Clock,
    observer: &Arc<dyn CallObserver>,
    transport: Option<&Arc<dyn Transport>>,
) -> Result<Providers, BuildError> {
    let mut clients = Providers::default();
    for provider in &PROVIDERS {
        let name = provider.descriptor.name;
        if let Some(ProviderConfig { token, base_url, user_agent }) = configs.get(name).cloned() {
            let (clock, observer, transport) = (clock.clone(), Arc::clone(observer), transport.cloned());
            let proxies = proxies.clone();
            let config = ApiConfig { base_url, user_agent, token, proxies, clock, observer, transport };
            clients.add(name.into(), (provider.connect)(config)?);
        }
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::install_tls;
    use crate::provider::observe::NoObserver;
    use crate::token::TokenSource;
    use flipop_core::model::AccountId;
    use std::collections::BTreeSet;

    #[test]
    fn each_provider_has_a_name_and_variables_of_its_own() {
        let names: BTreeSet<&str> = descriptors().map(|descriptor| descriptor.name).collect();
        assert_eq!(names.len(), PROVIDERS.len());
        let variables = PROVIDERS.iter().flat_map(|Provider { descriptor, variables, .. }| {
            [descriptor.token_variable, variables.token_file, variables.url, variables.user_agent]
        });
        assert_eq!(variables.collect::<BTreeSet<_>>().len(), 4 * PROVIDERS.len());
    }

    #[test]
    fn a_provider_serves_under_its_name_what_its_descriptor_says() {
        install_tls();
        let observer: Arc<dyn CallObserver> = Arc::new(NoObserver);
        for provider in &PROVIDERS {
            let of = provider.descriptor;
            let config = ProviderConfig {
                token: TokenSource::Value("token".into()),
                base_url: "http://127.0.0.1:1/".to_owned(),
                user_agent: None,
            };
            let configs = ProviderConfigs::from([(of.name, config)]);
            let clients =
                connect(&configs, &ProxySettings::default(), &Clock::system(), &observer, None).unwrap();
            let id = AccountId::from(of.name);
            assert_eq!(clients.ips.contains_key(&id), of.machines.is_some(), "{id}");
            assert_eq!(clients.dns.contains_key(&id), of.dns.is_some(), "{id}");
            assert_eq!(clients.firewalls.contains_key(&id), of.firewalls.is_some(), "{id}");
            let accounts: Vec<_> = clients.accounts().map(|(id, client)| (id, client.provider())).collect();
            assert_eq!(accounts, [(&id, of.name)]);
        }
    }
}
