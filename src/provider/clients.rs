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

/// The clients of this process, by account. A provider of several services has the same client in each of their maps:
/// one token, one budget.
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
