//! One provider as a value: everything that the rest of the program has to know about it.
//!
//! Owns the form of that value, and of the settings with which a provider is used. Each provider's folder has one
//! value, and [`super::PROVIDERS`] lists them. Decisions, configuration and commands ask the value, and name no
//! provider.

use crate::provider::addresses::{FirewallProvider, IpProvider};
use crate::provider::dns::DnsProvider;
use crate::provider::http::{Api, ApiConfig, BuildError};
use crate::token::TokenSource;
use flipop_core::model::AccountId;
use flipop_core::model::provider::Descriptor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A provider.
#[derive(Debug)]
pub struct Provider {
    /// The facts for decisions, messages and documents. They include the variable with the token.
    pub descriptor: Descriptor,
    /// The other variables of the environment that say how to use it.
    pub variables: Variables,
    /// The base URL of its API, unless the environment names another.
    pub default_url: &'static str,
    /// The scopes that only a write proves.
    pub write_scopes: WriteScopes,
    /// How paths below that URL begin, for documents.
    pub paths: &'static str,
    /// Sets up its client. Fails if the configuration cannot work.
    pub connect: fn(ApiConfig) -> Result<Services, BuildError>,
}

/// The scopes with which a token may write, in the provider's words. Empty: the provider has no such service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteScopes {
    /// To assign addresses.
    pub assign: &'static str,
    /// To create addresses.
    pub create: &'static str,
    /// To delete addresses.
    pub delete: &'static str,
    /// To change firewalls.
    pub firewalls: &'static str,
    /// To change records.
    pub records: &'static str,
}

/// The names of variables of the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variables {
    /// A file with the token.
    pub token_file: &'static str,
    /// Base URL of the API.
    pub url: &'static str,
    /// The `User-Agent`.
    pub user_agent: &'static str,
}

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

/// How to use each provider that has a token, by its name in specs.
pub type ProviderConfigs = BTreeMap<&'static str, ProviderConfig>;

/// The clients of one account. A provider of several services has the same client in each of their places: one token,
/// one budget.
#[derive(Clone, Default)]
pub struct Services {
    /// Of addresses.
    pub ips: Option<Arc<dyn IpProvider>>,
    /// Of DNS.
    pub dns: Option<Arc<dyn DnsProvider>>,
    /// Of firewalls, at providers of addresses.
    pub firewalls: Option<Arc<dyn FirewallProvider>>,
}

/// The clients of this process, by account.
#[derive(Clone, Default)]
pub struct Providers {
    /// Of addresses.
    pub ips: BTreeMap<AccountId, Arc<dyn IpProvider>>,
    /// Of DNS.
    pub dns: BTreeMap<AccountId, Arc<dyn DnsProvider>>,
    /// Of firewalls, at providers of addresses.
    pub firewalls: BTreeMap<AccountId, Arc<dyn FirewallProvider>>,
}

impl Providers {
    /// Adds those of one account.
    pub(super) fn add(&mut self, id: AccountId, services: Services) {
        let Services { ips, dns, firewalls } = services;
        self.ips.extend(ips.map(|client| (id.clone(), client)));
        self.firewalls.extend(firewalls.map(|client| (id.clone(), client)));
        self.dns.extend(dns.map(|client| (id, client)));
    }

    /// The client of each account.
    pub fn accounts(&self) -> impl Iterator<Item = (&AccountId, &Api)> {
        let ips = self.ips.iter().map(|(id, client)| (id, client.api()));
        let others = self.dns.iter().filter(|(id, _)| !self.ips.contains_key(*id));
        ips.chain(others.map(|(id, client)| (id, client.api())))
    }
}
