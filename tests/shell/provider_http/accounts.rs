//! Clients as accounts: their names, each once.

use super::{NOWHERE, client, config};
use flipop::provider::Providers;
use flipop::provider::cloudflare::Cloudflare;
use std::sync::Arc;

#[test]
fn a_client_of_addresses_and_dns_is_one_account_under_the_name_of_its_provider() {
    let (digitalocean, cloudflare) =
        (Arc::new(client(NOWHERE)), Arc::new(Cloudflare::new(config(NOWHERE)).unwrap()));
    let mut providers = Providers::default();
    providers.ips.insert("digitalocean".into(), digitalocean.clone());
    providers.dns.insert("digitalocean".into(), digitalocean);
    providers.dns.insert("cloudflare".into(), cloudflare);
    let accounts: Vec<_> =
        providers.accounts().map(|(name, account)| (name.provider.as_str(), account.provider())).collect();
    assert_eq!(accounts, [("digitalocean", "digitalocean"), ("cloudflare", "cloudflare")]);
}
