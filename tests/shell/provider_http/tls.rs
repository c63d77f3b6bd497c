//! TLS and proxies. A process's environment configures both, so each test runs its client in a child: this test binary
//! again, with one test selected and the environment set.

use super::server::{Received, Reply, Server, answer, json, splice};
use super::{TOKEN, account, config};
use flipop::clock::Clock;
use flipop::config::Invocation;
use flipop::permit::{MIN_REMAINING_MS, PERMIT_MS, PermitSource};
use flipop::provider::digitalocean::DigitalOcean;
use flipop::provider::http::ApiConfig;
use flipop::provider::{IpProvider, install_tls};
use flipop::proxy::ProxySettings;
use flipop_core::model::Moment;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Tells a child which API to call. Unset in the parent.
const CHILD_URL: &str = "FLIPOP_TEST_CHILD_URL";

/// A host that no resolver knows, so only a proxy can reach it.
const BEHIND_PROXY: &str = "api.flipop.invalid";

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "flipop test CA");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn acceptor(authority: &CertifiedIssuer<'static, KeyPair>) -> tokio_rustls::TlsAcceptor {
    install_tls();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), BEHIND_PROXY.to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, authority).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

fn bundle(authority: &CertifiedIssuer<'static, KeyPair>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(authority.pem().as_bytes()).unwrap();
    file
}

fn good(_: &Received) -> Reply {
    json(200, r#"{"reserved_ips": [{"ip": "45.55.0.1"}], "meta": {"total": 1}}"#)
}

/// The proxies of the environment, as the operator reads them.
fn proxies() -> ProxySettings {
    let token = |name: &str| (name == "DIGITALOCEAN_ACCESS_TOKEN").then(|| TOKEN.to_owned());
    match Invocation::from_parts(["flipop"], &|name| token(name).or_else(|| std::env::var(name).ok())) {
        Ok(Invocation::Run(config)) => config.cluster.proxy,
        other => panic!("{other:?}"),
    }
}

/// The child's part: lists the addresses and prints the result. False in the parent.
async fn was_child() -> bool {
    let Ok(url) = std::env::var(CHILD_URL) else { return false };
    match DigitalOcean::new(ApiConfig { proxies: proxies(), ..config(&url) }) {
        Err(error) => println!("RESULT build: {error}"),
        Ok(client) => match client.list_reserved_ips(&account()).await {
            Ok(list) => println!("RESULT listed {}", list.ips.len()),
            Err(fault) => println!("RESULT {}: {fault}", fault.kind),
        },
    }
    true
}

/// Runs one test of this binary as a child, and returns its result line.
fn child(test: &str, url: &str, environment: &[(&str, &Path)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD_URL, url);
    for name in [
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    let output = tokio::task::block_in_place(|| command.output()).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!printed.contains(TOKEN) && !String::from_utf8_lossy(&output.stderr).contains(TOKEN));
    let line =
        printed.lines().find_map(|line| line.split_once("RESULT ").map(|(_, result)| result.to_owned()));
    line.unwrap_or_else(|| panic!("no result: {printed}\n{}", String::from_utf8_lossy(&output.stderr)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ca_is_trusted_through_ssl_cert_file_and_refused_without() {
    if was_child().await {
        return;
    }
    let test = "provider_http::tls::a_ca_is_trusted_through_ssl_cert_file_and_refused_without";
    let ours = authority();
    let server = Server::start_with(good, Some(acceptor(&ours)), Duration::ZERO).await;
    let url = format!("https://localhost:{}/", server.address.port());
    let (bundle, other) = (bundle(&ours), bundle(&authority()));
    assert_eq!(child(test, &url, &[("SSL_CERT_FILE", bundle.path())]), "listed 1");
    assert_eq!(server.received().len(), 1);
    let refused = child(test, &url, &[("SSL_CERT_FILE", other.path())]);
    assert!(
        refused
            .starts_with("Transient: no answer from localhost: failed to connect: invalid peer certificate"),
        "{refused}"
    );
    let nothing = child(test, &url, &[("SSL_CERT_FILE", Path::new("/nonexistent.pem"))]);
    assert!(nothing.starts_with("build: failed to set up the HTTP client of digitalocean: "), "{nothing}");
    assert!(nothing.contains("CA certificates"), "{nothing}");
    assert_eq!(server.received().len(), 1, "an untrusted server sees no request");
}

/// Greets a client as an HTTP or a SOCKS5 proxy without credentials does. Returns everything that the client said.
async fn greet(stream: &mut TcpStream, scheme: &str) -> String {
    let mut said = Vec::new();
    if scheme == "http" {
        while !said.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut said).await.unwrap(), 0);
        }
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
    } else {
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(greeting, [5, 1, 0], "one method: no credentials");
        stream.write_all(&[5, 0]).await.unwrap();
        // The kind of a name, its length, the name, and the port.
        said = vec![0; 5 + BEHIND_PROXY.len() + 2];
        stream.read_exact(&mut said).await.unwrap();
        stream.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).await.unwrap();
    }
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_goes_through_the_proxy_and_the_proxy_sees_a_name_and_no_token() {
    if was_child().await {
        return;
    }
    let test = "provider_http::tls::https_goes_through_the_proxy_and_the_proxy_sees_a_name_and_no_token";
    let ours = authority();
    let server = Server::start_with(good, Some(acceptor(&ours)), Duration::ZERO).await;
    let bundle = bundle(&ours);
    let target = server.address;
    for (variable, scheme) in [("HTTPS_PROXY", "http"), ("HTTPS_PROXY", "socks5"), ("all_proxy", "socks5h")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("{scheme}://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heads);
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let said = greet(&mut stream, scheme).await;
            log.lock().unwrap().push(said);
            splice(stream, TcpStream::connect(target).await.unwrap()).await;
        });
        let environment = [("SSL_CERT_FILE", bundle.path()), (variable, Path::new(&proxy))];
        assert_eq!(child(test, &format!("https://{BEHIND_PROXY}/"), &environment), "listed 1", "{proxy}");
        let heads = heads.lock().unwrap();
        assert!(heads[0].contains(BEHIND_PROXY), "{heads:?}");
        assert!(
            scheme != "http" || heads[0].starts_with(&format!("CONNECT {BEHIND_PROXY}:443 HTTP/1.1\r\n"))
        );
        assert!(!heads[0].to_lowercase().contains("authorization"), "{heads:?}");
    }
    assert!(server.received().iter().all(|request| request.header("host") == Some(BEHIND_PROXY)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_asks_for_credentials_is_named_with_its_variable_and_without_its_password() {
    if was_child().await {
        return;
    }
    let test = "provider_http::tls::a_proxy_that_asks_for_credentials_is_named_with_its_variable_and_without_its_password";
    let ours = authority();
    let bundle = bundle(&ours);
    let server = Server::start(|_| answer(407, &[], "")).await;
    let (place, url) = (server.url(), format!("http://u:s3cret@{}", server.address));
    let environment = [("SSL_CERT_FILE", bundle.path()), ("https_proxy", Path::new(&url))];
    let refused = child(test, &format!("https://{BEHIND_PROXY}/"), &environment);
    let place = place.trim_end_matches('/');
    let says =
        format!("no answer from {BEHIND_PROXY} through the proxy {place} (https_proxy): failed to connect: ");
    assert!(refused.starts_with(&format!("Transient: {says}")), "{refused}");
    assert!(refused.contains("proxy authorization required") && !refused.contains("s3cret"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waited_too_long_for_its_connection_is_not_sent() {
    if let Ok(url) = std::env::var(CHILD_URL) {
        let clock = Clock::system();
        let source = PermitSource::new(clock.clone());
        // Enough to start, but too little after the handshake.
        let ends_at = clock.now().plus_millis(MIN_REMAINING_MS + 700);
        source.extend(Moment::from_millis(ends_at.as_millis() - PERMIT_MS));
        let client = DigitalOcean::new(config(&url)).unwrap();
        let result = client.create_reserved_ip(&account(), &source.permit(), "nyc3").await;
        println!("RESULT {result:?}");
        return;
    }
    let test = "provider_http::tls::a_request_that_waited_too_long_for_its_connection_is_not_sent";
    let ours = authority();
    let server = Server::start_with(good, Some(acceptor(&ours)), Duration::from_millis(1_500)).await;
    let url = format!("https://localhost:{}/", server.address.port());
    let bundle = bundle(&ours);
    assert_eq!(child(test, &url, &[("SSL_CERT_FILE", bundle.path())]), "Err(NotSent(PermitEnded))");
    assert_eq!((server.connections(), server.received().len()), (1, 0));
}
