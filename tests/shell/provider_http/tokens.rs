//! Tokens that change, and tokens that must stay secret.

use super::server::{Server, answer, json};
use super::{NOWHERE, TOKEN, account, client, config};
use flipop::provider::cloudflare::Cloudflare;
use flipop::provider::digitalocean::DigitalOcean;
use flipop::provider::http::{ApiConfig, BuildError};
use flipop::provider::{Account, IpProvider};
use flipop::token::TokenSource;
use flipop_core::model::FaultKind;
use std::time::Duration;

/// A configuration with its token in a file, which contains `first` for now.
fn token_file(url: &str) -> (tempfile::NamedTempFile, ApiConfig) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let token = TokenSource::File(file.path().to_owned());
    (file, ApiConfig { token, ..config(url) })
}

fn with_token_file(server: &Server) -> (tempfile::NamedTempFile, DigitalOcean) {
    let (file, config) = token_file(&server.url());
    (file, DigitalOcean::new(config).unwrap())
}

/// Rechecks the token file, without a call, until the change is noticed.
async fn second_token(client: &dyn Account) {
    let looked_at = async {
        while *client.api().token_generation().borrow() == 1 {
            client.api().recheck_token();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looked_at).await.unwrap();
}

#[tokio::test]
async fn a_token_that_was_replaced_in_its_file_is_used_after_the_first_refusal() {
    let server = Server::start(|request| match request.header("authorization") {
        Some("Bearer second") => json(200, r#"{"droplets": []}"#),
        _ => json(401, r#"{"id": "unauthorized", "message": "Unable to authenticate you"}"#),
    })
    .await;
    let (file, client) = with_token_file(&server);
    let mut generation = client.api().token_generation();
    assert_eq!(*generation.borrow_and_update(), 1);
    std::fs::write(file.path(), "second\n").unwrap();
    let fault = client.prove_machine_read(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unauthorized, "looked at a moment ago");
    assert_eq!(client.prove_machine_read(&account()).await, Ok(true));
    assert!(generation.has_changed().unwrap());
    assert_eq!(*generation.borrow_and_update(), 2);
    assert_eq!(client.api().rate().borrow().token_generation, 2);
}

#[tokio::test]
async fn another_token_is_not_bound_by_what_the_former_one_was_told_though_nothing_was_sent_with_it() {
    let server = Server::start(|_request| {
        let body = r#"{"id": "too_many_requests", "message": "API rate limit exceeded."}"#;
        answer(429, &[("retry-after", "600")], body)
    })
    .await;
    let (file, client) = with_token_file(&server);
    let fault = client.prove_machine_read(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Throttled);
    client.api().recheck_token();
    assert!(client.api().rate().borrow().blocked_until.is_some(), "it is the same token");
    std::fs::write(file.path(), "second\n").unwrap();
    second_token(&client).await;
    let report = *client.api().rate().borrow();
    assert_eq!((report.token_generation, report.blocked_until, report.requests), (2, None, 0));
}

#[tokio::test]
async fn the_file_of_a_token_is_looked_at_without_a_call_of_either_provider() {
    let (digitalocean, cloudflare) = (token_file(NOWHERE), token_file(NOWHERE));
    let clients: [Box<dyn Account>; 2] = [
        Box::new(DigitalOcean::new(digitalocean.1).unwrap()),
        Box::new(Cloudflare::new(cloudflare.1).unwrap()),
    ];
    for (file, client) in [digitalocean.0, cloudflare.0].iter().zip(&clients) {
        std::fs::write(file.path(), "second\n").unwrap();
        second_token(client.as_ref()).await;
        assert_eq!(client.api().rate().borrow().token_generation, 2, "{}", client.api().provider());
    }
}

#[test]
fn a_client_shows_its_token_to_nobody() {
    let client = client(NOWHERE);
    let shown = format!("{client:?}");
    assert!(shown.contains("digitalocean") && !shown.contains(TOKEN), "{shown}");
}

#[test]
fn a_configuration_that_cannot_work_says_why() {
    let build = |change: &dyn Fn(&mut ApiConfig)| {
        let mut config = config(NOWHERE);
        change(&mut config);
        DigitalOcean::new(config).unwrap_err()
    };
    let error = build(&|config| config.base_url = "http://api.digitalocean.com/".to_owned());
    assert!(error.to_string().contains("loopback only"), "{error}");
    for (url, problem) in [
        ("https://me@api.example/", "it must not hold credentials"),
        ("https://:secret@api.example/", "it must not hold credentials"),
        ("https://api.example/?a=b", "it must end with the path"),
        ("https://api.example/#c", "it must end with the path"),
    ] {
        let error = build(&|config| config.base_url = url.to_owned());
        assert!(error.to_string().contains(problem), "{url}: {error}");
    }
    let error = build(&|config| config.token = TokenSource::Value("".into()));
    assert!(matches!(error, BuildError::Token { provider: "digitalocean", .. }), "{error}");
    let error = build(&|config| config.user_agent = Some("two\nlines".to_owned()));
    assert!(matches!(error, BuildError::Client { .. }), "{error}");
}
