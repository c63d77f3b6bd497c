//! The HTTP layer of every provider: one client per token, with limits on all input from outside.
//!
//! Owns the client, its deadlines, the token in each request, the permit check before the first byte, rate headers and
//! the record of each call. It does not interpret answers: a provider decodes [`Answer`] and maps a refusal to a
//! [`FaultKind`].
//!
//! Invariants: requests go only to the configured host (URLs are built from the base URL, redirects are not followed).
//! Nothing is sent twice. A body of more than [`MAX_BODY_BYTES`] is not read to its end. A call ends within
//! [`CALL_TIMEOUT`], or with its permit.

mod answer;
mod transport;

pub(crate) use answer::bounded;
pub use answer::{Answer, MAX_MESSAGE_CHARS, kind_of};
pub use transport::{Broken, Transport, install_tls};

use crate::clock::Clock;
use crate::permit::gate::{Gate, GatedBody};
use crate::permit::{Permit, PermitEnded};
use crate::provider::call::{CallContext, CallError};
use crate::provider::observe::{Call, CallObserver, CallRecord, Failure, Outcome};
use crate::provider::rate::{RateState, Refusals};
use crate::proxy::{Proxy, ProxySettings, is_loopback};
use crate::token::{Bearer, Token, TokenError, TokenSource};
use answer::{Origin, scrubbed};
use bytes::{Bytes, BytesMut};
use flipop_core::mechanism::RateReport;
use flipop_core::model::{Fault, FaultKind};
use http::{HeaderValue, Method, StatusCode, header};
use reqwest::Url;
use serde_json::{Map, Value};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use transport::Network;

/// Longest wait for a connection: name lookup, TCP, proxy and TLS. Usually milliseconds.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for one request and its answer. As long as a [permit](crate::permit), so a hung call cannot outlive the
/// right to send it.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A full page of 200 addresses with their droplets is about 2 MB.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// The default `User-Agent`.
const USER_AGENT: &str = concat!("flipop/", env!("CARGO_PKG_VERSION"));

/// The settings of a provider's client.
pub struct ApiConfig {
    /// Base URL of the API. Plain http is allowed only on loopback.
    pub base_url: String,
    /// Value of the header `User-Agent`. `None` means `flipop/<version>`.
    pub user_agent: Option<String>,
    /// Where the token comes from.
    pub token: TokenSource,
    /// The proxies of the environment.
    pub proxies: ProxySettings,
    /// The clock.
    pub clock: Clock,
    /// Gets a record of each call.
    pub observer: Arc<dyn CallObserver>,
    /// Carries the requests. `None` means over the network.
    pub transport: Option<Arc<dyn Transport>>,
}

/// Why a client could not be created.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The base URL is unusable.
    #[error("failed to use the API URL of {provider}: {reason}")]
    BaseUrl {
        /// The provider.
        provider: &'static str,
        /// Why it is unusable.
        reason: String,
    },
    /// There is no usable token.
    #[error("failed to get the token of {provider}: {source}")]
    Token {
        /// The provider.
        provider: &'static str,
        /// Why.
        source: TokenError,
    },
    /// The client could not be set up, for example because no CA certificates are trusted.
    #[error("failed to set up the HTTP client of {provider}: {reason}")]
    Client {
        /// The provider.
        provider: &'static str,
        /// Why.
        reason: String,
    },
}

/// The fields of a JSON object that are neither null nor an empty list.
pub(super) fn filled(object: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = object else { return Map::new() };
    fields.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
    fields
}

/// One HTTP request, relative to the base URL.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// Segments of the path below the base URL, unescaped.
    pub path: &'a [&'a str],
    /// The query, unescaped.
    pub query: &'a [(&'a str, &'a str)],
    /// A JSON body.
    pub body: Option<Bytes>,
}

impl<'a> Request<'a> {
    /// A `GET`.
    pub fn get(path: &'a [&'a str], query: &'a [(&'a str, &'a str)]) -> Self {
        Self { method: Method::GET, path, query, body: None }
    }

    /// A `POST` with a JSON body.
    pub fn post(path: &'a [&'a str], body: &Value) -> Self {
        Self { method: Method::POST, path, query: &[], body: Some(Bytes::from(body.to_string())) }
    }

    /// A `PUT` with a JSON body.
    pub fn put(path: &'a [&'a str], body: &Value) -> Self {
        Self { method: Method::PUT, ..Self::post(path, body) }
    }

    /// A `DELETE`.
    pub fn delete(path: &'a [&'a str]) -> Self {
        Self { method: Method::DELETE, path, query: &[], body: None }
    }

    /// A `DELETE` with a JSON body, which says what to delete there.
    pub fn delete_with(path: &'a [&'a str], body: &Value) -> Self {
        Self { method: Method::DELETE, ..Self::post(path, body) }
    }
}

/// The client of one token at one provider.
pub struct Api {
    provider: &'static str,
    transport: Arc<dyn Transport>,
    proxy: Option<Proxy>,
    user_agent: HeaderValue,
    base: Url,
    token: Token,
    rate: RateState,
    refusals: Refusals,
    clock: Clock,
    observer: Arc<dyn CallObserver>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("provider", &self.provider)
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Sets up a client. `refusals` says how this provider refuses requests.
    ///
    /// # Errors
    /// If the configuration cannot work: see [`BuildError`].
    pub fn new(provider: &'static str, refusals: Refusals, config: ApiConfig) -> Result<Self, BuildError> {
        let base = base_url(&config.base_url).map_err(|reason| BuildError::BaseUrl { provider, reason })?;
        let token = Token::new(config.token, config.clock.clone())
            .map_err(|source| BuildError::Token { provider, source })?;
        let unusable = |error: &dyn Error| BuildError::Client { provider, reason: root_cause(error) };
        let target = base.as_str().parse().map_err(|e| unusable(&e))?;
        let proxy = config.proxies.for_provider(&target).cloned();
        let user_agent = config.user_agent.as_deref();
        let user_agent = HeaderValue::from_str(user_agent.unwrap_or(USER_AGENT)).map_err(|e| unusable(&e))?;
        let transport = match config.transport {
            Some(transport) => transport,
            None => Arc::new(Network::new(&base, proxy.as_ref()).map_err(|e| unusable(&e))?),
        };
        let rate = RateState::new(config.clock.clone(), refusals.block_ms, *token.generation().borrow());
        let (clock, observer) = (config.clock, config.observer);
        Ok(Self { provider, transport, proxy, user_agent, base, token, rate, refusals, clock, observer })
    }

    /// The provider's name in specs and metric labels.
    pub fn provider(&self) -> &'static str {
        self.provider
    }

    /// Counts the changes of the token. A change ends the proofs of the old token's scopes.
    pub fn token_generation(&self) -> watch::Receiver<u64> {
        self.token.generation()
    }

    /// Checks whether a token file has changed. Calls do this too, so it is needed only at times without calls.
    pub fn recheck_token(&self) {
        self.token.recheck();
        self.rate.renewed(*self.token.generation().borrow());
    }

    /// The latest known rate limits of the token.
    pub fn rate(&self) -> watch::Receiver<RateReport> {
        self.rate.subscribe()
    }

    /// Runs one operation of a provider and records it. `call` is its name in the metrics.
    ///
    /// # Errors
    /// Those of the operation.
    pub async fn operation<T, E: Failure>(
        &self,
        call: Call,
        context: &CallContext,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (provider, begun) = (self.provider, self.clock.now());
        let result = work.await;
        let duration = Duration::from_millis(self.clock.now().millis_since(begun));
        let fault = match &result {
            Ok(_) => None,
            Err(error) => match error.fault() {
                Some(fault) => Some(fault),
                None => return result,
            },
        };
        let outcome = match fault.map(|fault| fault.kind) {
            None | Some(FaultKind::InProgress) => Outcome::Success,
            Some(_) => Outcome::Error,
        };
        tracing::debug!(
            provider,
            call = call.as_str(),
            kind = context.kind,
            namespace = context.namespace,
            name = context.name,
            outcome = outcome.as_str(),
            duration_ms = duration.as_millis(),
            fault = fault.map(tracing::field::display),
            "provider call"
        );
        self.observer.call_ended(CallRecord { provider, call, context, outcome, duration });
        result
    }

    /// Sends a request that changes nothing.
    ///
    /// # Errors
    /// A fault if there is no answer. An answer of any status is `Ok`.
    pub async fn read(&self, request: Request<'_>) -> Result<Answer, Fault> {
        let bearer = self.bearer()?;
        self.exchange(request, &bearer, None).await
    }

    /// Sends a request that may change something, under a permit.
    ///
    /// # Errors
    /// [`CallError::NotSent`] if the permit prevented every byte, otherwise a fault if there is no answer. An answer of
    /// any status is `Ok`.
    pub async fn write(&self, permit: &Permit, request: Request<'_>) -> Result<Answer, CallError> {
        permit.may_start()?;
        let bearer = self.bearer()?;
        let gate = Gate::new(permit.clone());
        tokio::select! {
            biased;
            () = permit.ended() => Err(if gate.passed() {
                let message = "stopped waiting for the answer: the leadership ended".to_owned();
                CallError::Fault(Fault { outcome_unknown: true, ..Fault::new(FaultKind::Transient, message) })
            } else {
                CallError::NotSent(PermitEnded)
            }),
            result = self.exchange(request, &bearer, Some(&gate)) => match result {
                Ok(answer) => Ok(answer),
                Err(_) if gate.refused() => Err(CallError::NotSent(PermitEnded)),
                Err(fault) => Err(CallError::Fault(fault)),
            },
        }
    }

    /// Whether a series of requests may continue: the process is not ending, and the token is not blocked.
    pub fn may_go_on(&self, permit: &Permit) -> bool {
        permit.may_go_on() && self.blocked_ms().is_none()
    }

    /// For how long the token must not be used, if it is blocked.
    pub fn blocked_ms(&self) -> Option<u64> {
        self.rate.blocked_ms()
    }

    fn bearer(&self) -> Result<Bearer, Fault> {
        self.token.bearer().map_err(|error| Fault::new(FaultKind::Unauthorized, error.to_string()))
    }

    /// Sends one request. Returns its answer, whatever the status.
    async fn exchange(
        &self,
        request: Request<'_>,
        bearer: &Bearer,
        gate: Option<&Gate>,
    ) -> Result<Answer, Fault> {
        self.rate.began(bearer.generation);
        let talk = self.talk(request, bearer, gate);
        match tokio::time::timeout(CALL_TIMEOUT, talk).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Broken { connecting: true, cause })) => {
                Err(self.no_answer(&format!("failed to connect: {cause}"), bearer, false))
            }
            Ok(Err(Broken { connecting: false, cause })) => {
                Err(self.no_answer(&cause, bearer, gate.is_some_and(Gate::passed)))
            }
            Err(_elapsed) => {
                let seconds = CALL_TIMEOUT.as_secs();
                let sent = gate.is_some_and(Gate::passed);
                Err(self.no_answer(&format!("timed out after {seconds} s"), bearer, sent))
            }
        }
    }

    async fn talk(
        &self,
        request: Request<'_>,
        bearer: &Bearer,
        gate: Option<&Gate>,
    ) -> Result<Answer, Broken> {
        let response = self.transport.send(self.outgoing(request, bearer, gate)).await?;
        let status = response.status();
        let headers = response.headers().clone();
        let mut retry_after_ms = self.rate.learn(bearer.generation, status, &headers);
        if status == StatusCode::UNAUTHORIZED {
            self.token.doubt();
        }
        let origin = Origin {
            provider: self.provider,
            is_own: self.refusals.is_own,
            host: self.host(),
            proxy: self.proxy.clone(),
            secret: bearer.secret.clone(),
            mutating: gate.is_some(),
            content_type: headers
                .get(header::CONTENT_TYPE)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
        };
        let encoded = headers
            .get(header::CONTENT_ENCODING)
            .is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
        let body = match read_body(response).await {
            Ok(body) => body,
            // That it is a refusal matters more than its text.
            Err(_lost) if status.is_client_error() => Err(answer::Unread::CutOff),
            Err(error) => return Err(error.into()),
        };
        if body.as_ref().is_ok_and(|body| (self.refusals.says_excess)(status, body)) {
            retry_after_ms = self.rate.learn(bearer.generation, StatusCode::TOO_MANY_REQUESTS, &headers);
        }
        Ok(Answer { status, body, encoded, retry_after_ms, origin })
    }

    fn outgoing(&self, request: Request<'_>, bearer: &Bearer, gate: Option<&Gate>) -> reqwest::Request {
        let mut outgoing = reqwest::Request::new(request.method, self.url(request.path, request.query));
        let headers = outgoing.headers_mut();
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        headers.insert(header::AUTHORIZATION, bearer.header.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if request.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        *outgoing.body_mut() = match (request.body, gate) {
            (body, Some(gate)) => {
                Some(reqwest::Body::wrap(GatedBody::new(body.unwrap_or_default(), gate.clone())))
            }
            (body, None) => body.map(reqwest::Body::from),
        };
        outgoing
    }

    fn no_answer(&self, cause: &str, bearer: &Bearer, sent: bool) -> Fault {
        let via = self.proxy.as_ref().map_or_else(String::new, |proxy| format!(" through the proxy {proxy}"));
        Fault {
            outcome_unknown: sent,
            whole: true,
            ..Fault::new(
                FaultKind::Transient,
                scrubbed(&format!("no answer from {}{via}: {cause}", self.host()), &bearer.secret),
            )
        }
    }

    fn host(&self) -> String {
        self.base.host_str().unwrap_or_default().to_owned()
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

/// The services of one account, which share its token.
pub trait Account: Send + Sync {
    /// The client of that token.
    fn api(&self) -> &Api;
}

/// The body, or an inner `Err` if it exceeds the limit.
async fn read_body(mut response: reqwest::Response) -> Result<Result<Bytes, answer::Unread>, reqwest::Error> {
    let limit = u64::try_from(MAX_BODY_BYTES).unwrap_or(u64::MAX);
    if response.content_length().is_some_and(|length| length > limit) {
        return Ok(Err(answer::Unread::TooLarge));
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len().saturating_add(chunk.len()) > MAX_BODY_BYTES {
            return Ok(Err(answer::Unread::TooLarge));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Ok(body.freeze()))
}

/// Parses a base URL.
///
/// # Errors
/// Why it is unusable.
pub(crate) fn base_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    let problem = match (url.scheme(), url.host_str().unwrap_or_default()) {
        (_, "") => "it names no host",
        _ if !url.username().is_empty() || url.password().is_some() => "it must not hold credentials",
        _ if url.query().is_some() || url.fragment().is_some() => "it must end with the path",
        ("https", _) => return Ok(url),
        ("http", host) if is_loopback(host) => return Ok(url),
        ("http", _) => "plain http would send the token unencrypted; it is accepted for loopback only",
        (_, _) => "it must be an https URL",
    };
    Err(problem.to_owned())
}

/// The innermost error. reqwest's outer layers say only that something failed, and may repeat the URL.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_accepted_on_loopback_only() {
        for good in [
            "https://api.digitalocean.com/",
            "https://api.cloudflare.com/client/v4",
            "http://127.0.0.1:8080",
            "http://localhost:1/do/",
            "http://[::1]:1",
        ] {
            assert!(base_url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://api.digitalocean.com/",
            "http://localhost.example.com/",
            "http://10.0.0.1/",
            "https://user:pass@api.digitalocean.com/",
            "https://api.digitalocean.com/?x=1",
            "ftp://127.0.0.1/",
            "api.digitalocean.com",
            "",
        ] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refused_url_is_not_repeated_with_its_password() {
        let error = base_url("https://user:hunter2@api.digitalocean.com/").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
