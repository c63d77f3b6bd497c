//! Tokens that change, and tokens that nobody may see.

use crate::server::{Server, answer, json};
use crate::{TOKEN, account, client, config};
use flipop::provider::digitalocean::DigitalOcean;
use flipop::provider::http::BuildError;
use flipop::provider::{Account, IpProvider};
use flipop::token::TokenSource;
use flipop_core::fault::FaultKind;

/// A client whose token is in a file: `first` for now.
fn with_token_file(server: &Server) -> (tempfile::NamedTempFile, DigitalOcean) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let mut config = config(&server.url());
    config.token = TokenSource::File(file.path().to_owned());
    (file, DigitalOcean::new(config).unwrap())
}

#[tokio::test]
async fn a_token_that_was_replaced_in_its_file_is_used_after_the_first_refusal() {
    let server = Server::start(|request| match request.header("authorization") {
        Some("Bearer second") => json(200, r#"{"droplets": []}"#),
        _ => json(401, r#"{"id": "unauthorized", "message": "Unable to authenticate you"}"#),
    })
    .await;
    let (file, client) = with_token_file(&server);
    let mut generation = client.token_generation();
    assert_eq!(*generation.borrow_and_update(), 1);
    std::fs::write(file.path(), "second\n").unwrap();
    let fault = client.prove_droplet_read(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unauthorised, "looked at a moment ago");
    assert_eq!(client.prove_droplet_read(&account()).await, Ok(true));
    assert!(generation.has_changed().unwrap());
    assert_eq!(*generation.borrow_and_update(), 2);
    assert_eq!(client.rate().borrow().token_generation, 2);
}

#[tokio::test]
async fn another_token_is_not_bound_by_what_the_former_one_was_told_though_nothing_was_sent_with_it() {
    let server = Server::start(|_request| {
        let body = r#"{"id": "too_many_requests", "message": "API rate limit exceeded."}"#;
        answer(429, &[("retry-after", "600")], body)
    })
    .await;
    let (file, client) = with_token_file(&server);
    let fault = client.prove_droplet_read(&account()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Throttled);
    client.recheck_token();
    assert!(client.rate().borrow().blocked_until.is_some(), "it is the same token");
    std::fs::write(file.path(), "second\n").unwrap();
    let looked_at = async {
        while *client.token_generation().borrow() == 1 {
            client.recheck_token();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), looked_at).await.unwrap();
    let report = *client.rate().borrow();
    assert_eq!((report.token_generation, report.blocked_until, report.requests), (2, None, 0));
}

#[test]
fn a_client_shows_its_token_to_nobody() {
    let client = client("http://127.0.0.1:1/");
    let shown = format!("{client:?}");
    assert!(shown.contains("digitalocean") && !shown.contains(TOKEN), "{shown}");
}

#[test]
fn a_configuration_that_cannot_work_says_why() {
    let build = |change: &dyn Fn(&mut flipop::provider::http::ApiConfig)| {
        let mut config = config("http://127.0.0.1:1/");
        change(&mut config);
        DigitalOcean::new(config).unwrap_err()
    };
    let error = build(&|config| config.base_url = "http://api.digitalocean.com/".to_owned());
    assert!(error.to_string().contains("use https"), "{error}");
    for url in [
        "https://me@api.example/",
        "https://:secret@api.example/",
        "https://api.example/?a=b",
        "https://api.example/#c",
    ] {
        let error = build(&|config| config.base_url = url.to_owned());
        assert!(error.to_string().contains("only scheme, host, port and path"), "{url}: {error}");
    }
    let error = build(&|config| config.token = TokenSource::Value("".into()));
    assert!(matches!(error, BuildError::Token { provider: "digitalocean", .. }), "{error}");
    let error = build(&|config| config.user_agent = Some("two\nlines".to_owned()));
    assert!(matches!(error, BuildError::Client { .. }), "{error}");
}
