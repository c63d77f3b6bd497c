//! Requests and replies of the simulated providers, in the form that both share.
//!
//! Owns requests and replies as plain data, the names of operations, queries and pages. Does not own any rule of a
//! provider. Invariant: no `Debug` output and no log entry holds an `authorization` header.

use std::fmt;

use bytes::Bytes;
use http::Method;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One of the two simulated providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The v2 API of `DigitalOcean`.
    DigitalOcean,
    /// The v4 API of Cloudflare.
    Cloudflare,
}

impl Provider {
    /// Both.
    pub const ALL: [Self; 2] = [Self::DigitalOcean, Self::Cloudflare];

    /// Its name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Self::DigitalOcean => "digitalocean",
            Self::Cloudflare => "cloudflare",
        }
    }

    /// The provider of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name() == name)
    }
}

/// How nodes refer to the machines of a provider, and the scope of a token that shows machines.
#[derive(Debug, Clone, Copy)]
pub struct Machines {
    scheme: &'static str,
    /// The scope.
    pub read_scope: &'static str,
}

/// The machines of `DigitalOcean`.
pub const DROPLETS: Machines = Machines { scheme: "digitalocean", read_scope: "droplet:read" };

impl Machines {
    /// The `spec.providerID` of a machine's node.
    pub fn provider_id(&self, id: u64) -> String {
        format!("{}://{id}", self.scheme)
    }

    /// The machine that a node's `spec.providerID` names.
    pub fn named(&self, provider_id: &str) -> Option<u64> {
        provider_id.strip_prefix(self.scheme)?.strip_prefix("://")?.parse().ok()
    }
}

/// The operation of a call, by the provider's own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each name says what the operation is; a sentence would repeat it")]
pub enum Op {
    GetAccount,
    ListDroplets,
    GetDroplet,
    ListReservedIps,
    CreateReservedIp,
    GetReservedIp,
    DeleteReservedIp,
    AssignIp,
    UnassignIp,
    ListActions,
    GetAction,
    ListDomains,
    CreateDomain,
    GetDomain,
    DeleteDomain,
    ListRecords,
    CreateRecord,
    GetRecord,
    PutRecord,
    PatchRecord,
    DeleteRecord,
    ListZones,
    GetZone,
    BatchRecords,
    VerifyToken,
    ListFirewalls,
    ListDropletFirewalls,
    CreateFirewall,
    GetFirewall,
    PutFirewall,
    DeleteFirewall,
    AddFirewallDroplets,
    RemoveFirewallDroplets,
    AddFirewallTags,
    RemoveFirewallTags,
    AddFirewallRules,
    RemoveFirewallRules,
    ListTags,
    GetTag,
    CreateTag,
    TagResources,
    UntagResources,
    Unknown,
}

/// A request as a provider receives it.
#[derive(Clone)]
pub struct Request {
    /// The provider that it was sent to.
    pub provider: Provider,
    /// HTTP method.
    pub method: Method,
    /// Path, still percent-encoded.
    pub path: String,
    /// The part after `?`, still percent-encoded.
    pub query: String,
    /// The whole `authorization` header.
    pub authorization: Option<String>,
    /// The whole `content-type` header.
    pub content_type: Option<String>,
    /// Scheme and host that the client used for the provider, for absolute links.
    pub base: String,
    /// The body.
    pub body: Bytes,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}?{}", self.method, self.path, self.query)
    }
}

impl Request {
    /// Takes an HTTP request apart. `base` is the scheme and host for absolute links.
    pub fn from_http(provider: Provider, base: &str, parts: &http::request::Parts, body: Bytes) -> Self {
        let header =
            |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Self {
            provider,
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            authorization: header("authorization"),
            content_type: header("content-type"),
            base: base.to_owned(),
            body,
        }
    }

    /// The bearer token of the `authorization` header.
    pub(super) fn bearer(&self) -> Option<&str> {
        self.authorization.as_deref()?.strip_prefix("Bearer ").map(str::trim)
    }

    /// The decoded segments of the path.
    pub(super) fn segments(&self) -> Vec<String> {
        let segments = self.path.split('/').filter(|segment| !segment.is_empty());
        segments.map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned()).collect()
    }

    /// The decoded value of one query parameter.
    pub(super) fn param(&self, name: &str) -> Option<String> {
        let mut params = form_urlencoded::parse(self.query.as_bytes());
        params.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The body as a JSON object. A body that is not declared as JSON counts as absent, as at the real providers.
    pub(super) fn object(&self) -> Result<Map<String, Value>, MalformedBody> {
        let json = self.content_type.as_deref().is_some_and(|kind| kind.starts_with("application/json"));
        if !json || self.body.is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) | Err(_) => Err(MalformedBody),
        }
    }
}

/// A body that is not a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedBody;

/// A provider's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// A reply with a JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())];
        Self { status, headers, body: Bytes::from(body.to_string()) }
    }

    /// A reply without a body.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// The same reply with one more header.
    pub fn with_header(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// The body as JSON. Null if it is not JSON.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// An operation with the variable parts of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// The operation.
    pub(super) op: Op,
    /// Variable segments of the path, in order.
    pub(super) args: Vec<String>,
}

impl Route {
    /// A variable segment of the path. Empty if there is none.
    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }
}

/// The requested part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    /// Number of the page, from 1.
    pub(super) page: usize,
    /// Entries on a page.
    pub(super) per_page: usize,
}

impl Page {
    /// Reads `page` and `per_page`. The error is the name of the one that is out of range.
    pub(super) fn read(request: &Request, default: usize, max: usize) -> Result<Self, &'static str> {
        let number = |name| match request.param(name) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some),
        };
        let page = number("page").ok().map(|n| n.unwrap_or(1)).filter(|&n| n >= 1).ok_or("page")?;
        let per_page = number("per_page")
            .ok()
            .map(|n| n.unwrap_or(default))
            .filter(|n| (1..=max).contains(n))
            .ok_or("per_page")?;
        Ok(Self { page, per_page })
    }

    /// The number of pages for this many entries, at least 1.
    pub(super) fn count(self, total: usize) -> usize {
        total.div_ceil(self.per_page).max(1)
    }

    /// The entries of this page.
    pub(super) fn cut<T>(self, entries: Vec<T>) -> Vec<T> {
        let skip = self.page.saturating_sub(1).saturating_mul(self.per_page);
        entries.into_iter().skip(skip).take(self.per_page).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cut_a_list_at_its_edges() {
        let page = Page { page: 2, per_page: 200 };
        assert_eq!(page.count(0), 1);
        assert_eq!(page.count(200), 1);
        assert_eq!(page.count(201), 2);
        assert_eq!(page.cut((0..201).collect()), vec![200]);
        assert_eq!(page.cut((0..200).collect::<Vec<u32>>()), Vec::<u32>::new());
    }
}
