//! The clients of the providers, by account.
//!
//! Owns which client serves which account. It does not make clients.

use crate::provider::addresses::IpProvider;
use crate::provider::call::Account;
use crate::provider::dns::DnsProvider;
use crate::provider::firewalls::FirewallProvider;
use flipop_core::model::ids::AccountId;
use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// Each account once.
    pub fn accounts(&self) -> impl Iterator<Item = (&AccountId, &dyn Account)> {
        let ips = self.ips.iter().map(|(id, client)| {
            let account: &dyn Account = client.as_ref();
            (id, account)
        });
        let dns = self.dns.iter().filter(|(id, _)| !self.ips.contains_key(*id)).map(|(id, client)| {
            let account: &dyn Account = client.as_ref();
            (id, account)
        });
        ips.chain(dns)
    }
}
