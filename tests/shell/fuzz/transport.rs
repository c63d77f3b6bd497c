//! A provider in the same process that gives the same answer to every request.

use bytes::Bytes;
use flipop::clock::Clock;
use flipop::permit::{Permit, PermitSource};
use flipop::provider::http::{ApiConfig, Broken, MAX_MESSAGE_CHARS, Transport};
use flipop::provider::observe::NoObserver;
use flipop::provider::{CallError, install_tls};
use flipop::proxy::ProxySettings;
use flipop::token::TokenSource;
use flipop_core::model::Fault;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::HeaderMap;
use reqwest::{Request, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The token of every test. It must not appear in any output.
pub(crate) const TOKEN: &str = "dop_v1_0123456789abcdef";

/// More requests than any operation makes.
const MAX_REQUESTS: usize = 200;

/// The answer.
#[derive(Debug, Clone)]
pub(crate) struct Canned {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Canned {
    pub(crate) fn new(status: u16, body: &[u8]) -> Self {
        Self { status, headers: HeaderMap::new(), body: Bytes::copy_from_slice(body) }
    }
}

struct Always {
    answer: Canned,
    requests: AtomicUsize,
}

impl Transport for Always {
    fn send(&self, _request: Request) -> BoxFuture<'_, Result<Response, Broken>> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        assert!(number < MAX_REQUESTS, "no end to the requests");
        let Canned { status, headers, body } = self.answer.clone();
        let mut response = http::Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        *response.headers_mut() = headers;
        async move { Ok(Response::from(response)) }.boxed()
    }
}

/// The configuration of a client that gets this answer.
pub(crate) fn config(answer: Canned) -> ApiConfig {
    install_tls();
    ApiConfig {
        base_url: "https://api.example.com/".to_owned(),
        user_agent: None,
        token: TokenSource::Value(TOKEN.into()),
        proxies: ProxySettings::default(),
        clock: Clock::simulated(jiff::Timestamp::from_second(1_800_000_000).unwrap()),
        observer: Arc::new(NoObserver),
        transport: Some(Arc::new(Always { answer, requests: AtomicUsize::new(0) })),
    }
}

/// Runs on a clock without real waiting.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

/// A permit that lasts.
pub(crate) fn permit() -> (PermitSource, Permit) {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now().plus_millis(3_600_000));
    let permit = source.permit();
    (source, permit)
}

/// The rules for every fault.
pub(crate) fn decent(fault: &Fault) {
    let message = &fault.message;
    assert!(message.chars().count() <= MAX_MESSAGE_CHARS, "{message}");
    assert!(!message.contains(TOKEN), "{message}");
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(fault.retry_after_ms.is_none_or(|ms| ms <= 3_600_000), "{fault:?}");
}

/// A read that failed.
pub(crate) fn decent_read(fault: &Fault) {
    decent(fault);
    assert!(!fault.outcome_unknown, "a read changes nothing");
}

/// A failed change: unless it was refused, it may have taken effect.
pub(crate) fn decent_write(error: &CallError, status: u16) {
    let CallError::Fault(fault) = error else { panic!("{error}") };
    decent(fault);
    // An answer from something in between says nothing about the provider's action.
    let in_between = ["it is not in the API's format", "a proxy asks for"];
    let in_between = in_between.iter().any(|told| fault.message.contains(told));
    let refused = (400..500).contains(&status) && status != 408 && !in_between;
    assert_eq!(fault.outcome_unknown, !refused, "{status}: {fault:?}");
}
