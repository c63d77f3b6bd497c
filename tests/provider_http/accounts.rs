//! What clients are as accounts: their names, each once, and the files of their tokens.

use crate::{client, config};
use flipop::provider::cloudflare::Cloudflare;
use flipop::provider::digitalocean::DigitalOcean;
use flipop::provider::{Account, Providers};
use flipop::token::TokenSource;
use std::sync::Arc;
use std::time::Duration;

const NOWHERE: &str = "http://127.0.0.1:1/";

#[test]
fn a_client_of_addresses_and_dns_is_one_account_under_the_name_of_its_provider() {
    let (digitalocean, cloudflare) =
        (Arc::new(client(NOWHERE)), Arc::new(Cloudflare::new(config(NOWHERE)).unwrap()));
    let mut providers = Providers::default();
    providers.ips.insert("digitalocean".to_owned(), digitalocean.clone());
    providers.dns.insert("digitalocean".to_owned(), digitalocean);
    providers.dns.insert("cloudflare".to_owned(), cloudflare);
    let accounts: Vec<_> =
        providers.accounts().map(|(name, account)| (name.as_str(), account.provider())).collect();
    assert_eq!(accounts, [("digitalocean", "digitalocean"), ("cloudflare", "cloudflare")]);
}

#[tokio::test]
async fn the_file_of_a_token_is_looked_at_without_a_call_of_either_provider() {
    for cloudflare in [false, true] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\n").unwrap();
        let mut config = config(NOWHERE);
        config.token = TokenSource::File(file.path().to_owned());
        let client: Box<dyn Account> = if cloudflare {
            Box::new(Cloudflare::new(config).unwrap())
        } else {
            Box::new(DigitalOcean::new(config).unwrap())
        };
        std::fs::write(file.path(), "second\n").unwrap();
        let looked_at = async {
            while *client.token_generation().borrow() == 1 {
                client.recheck_token();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), looked_at).await.unwrap();
        assert_eq!(client.rate().borrow().token_generation, 2, "{}", client.provider());
    }
}
