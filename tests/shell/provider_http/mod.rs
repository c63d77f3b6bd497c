//! The real provider clients over real sockets, against misbehaving servers and against the simulated cloud.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test fails by panicking, reads real time, and is no place for the operator's own rules"
)]

mod accounts;
mod answers;
mod cloud;
mod cloudflare;
mod cloudflare_answers;
mod dns;
mod dns_support;
mod domains;
mod firewalls;
mod in_between;
mod lists;
mod permits;
mod rates;
mod server;
mod tls;
mod tokens;
mod writes;

use flipop::clock::Clock;
use flipop::permit::{Permit, PermitSource};
use flipop::provider::digitalocean::DigitalOcean;
use flipop::provider::http::ApiConfig;
use flipop::provider::observe::{CallObserver, CallRecord, NoObserver};
use flipop::provider::{CallContext, install_tls};
use flipop::proxy::ProxySettings;
use flipop::token::TokenSource;
use std::sync::{Arc, Mutex};

/// The token of every test. It must not appear in any output.
const TOKEN: &str = "dop_v1_0123456789abcdef";

/// A URL where nothing listens, for clients that make no calls.
const NOWHERE: &str = "http://127.0.0.1:1/";

fn config(base_url: &str) -> ApiConfig {
    install_tls();
    ApiConfig {
        base_url: base_url.to_owned(),
        user_agent: None,
        token: TokenSource::Value(TOKEN.into()),
        proxies: ProxySettings::default(),
        clock: Clock::system(),
        observer: Arc::new(NoObserver),
        transport: None,
    }
}

fn client(base_url: &str) -> DigitalOcean {
    DigitalOcean::new(config(base_url)).expect("a usable configuration")
}

fn account() -> CallContext {
    CallContext::account_wide()
}

fn ip(text: &str) -> std::net::Ipv4Addr {
    text.parse().unwrap()
}

/// A leadership under a test's control.
struct Leadership {
    source: PermitSource,
    permit: Permit,
}

impl Leadership {
    fn held() -> Self {
        let clock = Clock::system();
        let source = PermitSource::new(clock.clone());
        // Longer than any call. The tests end it themselves.
        source.extend(clock.now().plus_millis(600_000));
        let permit = source.permit();
        Self { source, permit }
    }
}

/// Remembers each call as one line.
#[derive(Default)]
struct Calls(Mutex<Vec<String>>);

impl CallObserver for Calls {
    fn call_ended(&self, record: CallRecord<'_>) {
        let CallRecord { provider, call, context, outcome, duration: _ } = record;
        let CallContext { kind, namespace, name } = context;
        let line = format!("{provider} {} {} [{kind}|{namespace}|{name}]", call.as_str(), outcome.as_str());
        self.0.lock().unwrap().push(line);
    }
}
