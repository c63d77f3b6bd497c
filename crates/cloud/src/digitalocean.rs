//! The v2 API of `DigitalOcean`: routes, authentication, limits, errors, lists, and the small resources.
//!
//! Reserved IPs are in `reserved_ips`, DNS in `domains`. Invariants: authentication comes before limits,
//! limits before scopes, scopes before the resource; every answer carries the `ratelimit-*` headers.

use serde_json::{Map, Value, json};

use super::faults::{Fault, Refusal};
use super::render;
use super::token::Token;
use super::wire::{MalformedBody, Op, Page, Reply, Request, Route};
use super::world::{Context, World};

/// Regions that exist.
pub(super) const REGIONS: [(&str, &str); 14] = [
    ("ams3", "Amsterdam 3"),
    ("atl1", "Atlanta 1"),
    ("blr1", "Bangalore 1"),
    ("fra1", "Frankfurt 1"),
    ("lon1", "London 1"),
    ("nyc1", "New York 1"),
    ("nyc2", "New York 2"),
    ("nyc3", "New York 3"),
    ("sfo1", "San Francisco 1"),
    ("sfo2", "San Francisco 2"),
    ("sfo3", "San Francisco 3"),
    ("sgp1", "Singapore 1"),
    ("syd1", "Sydney 1"),
    ("tor1", "Toronto 1"),
];

const PER_PAGE_DEFAULT: usize = 20;
const PER_PAGE_MAX: usize = 200;

/// An error in the provider's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(status: u16, message: &str) -> Self {
        Self { status, message: message.to_owned() }
    }

    pub(super) fn not_found() -> Self {
        Self::new(404, "The resource you were accessing could not be found.")
    }

    pub(super) fn unprocessable(message: &str) -> Self {
        Self::new(422, message)
    }

    fn id(&self) -> &'static str {
        match self.status {
            400 => "bad_request",
            401 => "unauthorized",
            403 => "forbidden",
            404 => "not_found",
            405 => "method_not_allowed",
            409 => "conflict",
            422 => "unprocessable_entity",
            429 => "too_many_requests",
            503 => "service_unavailable",
            _ => "server_error",
        }
    }
}

impl From<MalformedBody> for Problem {
    fn from(_: MalformedBody) -> Self {
        Self::new(400, "error parsing request body")
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::PendingEventOnIp => Self::unprocessable(super::reserved_ips::IP_PENDING),
            Refusal::PendingEventOnDroplet => Self::unprocessable(super::reserved_ips::DROPLET_PENDING),
            Refusal::NodeInUse => Self::unprocessable(super::reserved_ips::DROPLET_IN_USE),
            Refusal::WrongDatacenter => Self::unprocessable(super::reserved_ips::WRONG_DATACENTER),
            Refusal::NotFound => Self::not_found(),
            Refusal::Unauthorized => Self::new(401, "Unable to authenticate you"),
            Refusal::Forbidden => Self::new(403, "You are not authorized to perform this operation"),
            Refusal::Quota => Self::unprocessable(super::reserved_ips::QUOTA),
            Refusal::IdenticalRecord => Self::unprocessable("An identical record already exists."),
            Refusal::Status(status, message) => Self::new(*status, message),
        }
    }
}

/// Which operation a request asks for.
pub(super) fn route(request: &Request) -> Route {
    let segments = request.segments();
    let path: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = request.method.as_str();
    match *path.as_slice() {
        ["v2", "account"] if method == "GET" => Route::new(Op::GetAccount, &[]),
        ["v2", "droplets"] if method == "GET" => Route::new(Op::ListDroplets, &[]),
        ["v2", "droplets", id] if method == "GET" => Route::new(Op::GetDroplet, &[id]),
        ["v2", "reserved_ips"] if method == "GET" => Route::new(Op::ListReservedIps, &[]),
        ["v2", "reserved_ips"] if method == "POST" => Route::new(Op::CreateReservedIp, &[]),
        ["v2", "reserved_ips", ip] if method == "GET" => Route::new(Op::GetReservedIp, &[ip]),
        ["v2", "reserved_ips", ip] if method == "DELETE" => Route::new(Op::DeleteReservedIp, &[ip]),
        ["v2", "reserved_ips", ip, "actions"] if method == "GET" => Route::new(Op::ListActions, &[ip]),
        ["v2", "reserved_ips", ip, "actions"] if method == "POST" => Route::new(action_op(request), &[ip]),
        ["v2", "reserved_ips", ip, "actions", id] if method == "GET" => Route::new(Op::GetAction, &[ip, id]),
        ["v2", "domains"] if method == "GET" => Route::new(Op::ListDomains, &[]),
        ["v2", "domains"] if method == "POST" => Route::new(Op::CreateDomain, &[]),
        ["v2", "domains", name] if method == "GET" => Route::new(Op::GetDomain, &[name]),
        ["v2", "domains", name] if method == "DELETE" => Route::new(Op::DeleteDomain, &[name]),
        ["v2", "domains", name, "records"] if method == "GET" => Route::new(Op::ListRecords, &[name]),
        ["v2", "domains", name, "records"] if method == "POST" => Route::new(Op::CreateRecord, &[name]),
        ["v2", "domains", name, "records", id] if method == "GET" => Route::new(Op::GetRecord, &[name, id]),
        ["v2", "domains", name, "records", id] if method == "PUT" => Route::new(Op::PutRecord, &[name, id]),
        ["v2", "domains", name, "records", id] if method == "PATCH" => {
            Route::new(Op::PatchRecord, &[name, id])
        }
        ["v2", "domains", name, "records", id] if method == "DELETE" => {
            Route::new(Op::DeleteRecord, &[name, id])
        }
        _ => Route::new(Op::Unknown, &[]),
    }
}

/// Assigning and unassigning share a path; the body tells them apart.
fn action_op(request: &Request) -> Op {
    let unassign = request.object().is_ok_and(|body| body.get("type") == Some(&json!("unassign")));
    if unassign { Op::UnassignIp } else { Op::AssignIp }
}

/// The scope that an operation needs; `None`: any token will do.
fn scope(op: Op) -> Option<&'static str> {
    match op {
        Op::GetAccount => Some("account:read"),
        Op::ListDroplets | Op::GetDroplet => Some("droplet:read"),
        Op::ListReservedIps | Op::GetReservedIp | Op::ListActions | Op::GetAction => Some("reserved_ip:read"),
        Op::CreateReservedIp => Some("reserved_ip:create"),
        Op::DeleteReservedIp => Some("reserved_ip:delete"),
        Op::AssignIp | Op::UnassignIp => Some("reserved_ip:update"),
        Op::ListDomains | Op::GetDomain | Op::ListRecords | Op::GetRecord => Some("domain:read"),
        Op::CreateDomain => Some("domain:create"),
        Op::DeleteDomain => Some("domain:delete"),
        // Either of two scopes is enough for these; `domain:update` is the one that covers all.
        Op::CreateRecord | Op::PutRecord | Op::PatchRecord | Op::DeleteRecord => Some("domain:update"),
        Op::ListZones | Op::GetZone | Op::BatchRecords | Op::VerifyToken | Op::Unknown => None,
    }
}

fn permitted(token: &Token, op: Op) -> Result<(), Problem> {
    let Some(scope) = scope(op) else { return Ok(()) };
    let other = if op == Op::CreateRecord {
        "domain:create"
    } else if op == Op::DeleteRecord {
        "domain:delete"
    } else {
        scope
    };
    if token.allows(scope) || token.allows(other) {
        return Ok(());
    }
    Err(Problem { status: 403, message: format!("You are missing the required permission {scope}") })
}

impl World {
    /// Answers a call to `DigitalOcean`.
    pub(super) fn digitalocean(&mut self, token: Option<&Token>, call: &Context<'_>) -> Reply {
        let name = token.map(|token| token.name.clone()).unwrap_or_default();
        let answer = match token {
            None => Err(Problem::new(401, "Unable to authenticate you")),
            Some(token) => self.digitalocean_authenticated(token, call),
        };
        let throttled = matches!(&answer, Err(problem) if problem.status == 429);
        let mut reply = answer.unwrap_or_else(|problem| self.problem(&problem));
        reply = reply.with_header("x-request-id", self.seed.uuid());
        let (limit, remaining, reset_ms) = {
            let window = self.limits.digitalocean(&name).tighter(call.now_ms);
            (window.limit(), window.remaining(call.now_ms), window.reset_ms(call.now_ms))
        };
        reply = reply
            .with_header("ratelimit-limit", limit)
            .with_header("ratelimit-remaining", remaining)
            .with_header("ratelimit-reset", self.epoch_second(reset_ms));
        if let Some(Fault::Throttle { retry_after_s }) = call.fault {
            return match retry_after_s {
                Some(seconds) => reply.with_header("retry-after", seconds),
                None => reply,
            };
        }
        if throttled && remaining == 0 && self.knobs.retry_after {
            let wait_ms = reset_ms.saturating_sub(call.now_ms);
            reply = reply.with_header("retry-after", wait_ms.div_ceil(1_000));
        }
        reply
    }

    fn problem(&mut self, problem: &Problem) -> Reply {
        let request_id = self.seed.uuid();
        let body = json!({"id": problem.id(), "message": problem.message, "request_id": request_id});
        Reply::json(problem.status, &body)
    }

    fn digitalocean_authenticated(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        if self.knobs.rate_limits {
            let windows = self.limits.digitalocean(&token.name);
            if windows.tighter(call.now_ms).remaining(call.now_ms) == 0 {
                return Err(Problem::new(429, "API Rate limit exceeded."));
            }
            windows.hour.count(call.now_ms);
            windows.minute.count(call.now_ms);
        }
        match call.fault {
            Some(Fault::Throttle { .. }) => return Err(Problem::new(429, "API Rate limit exceeded.")),
            Some(Fault::Refuse(refusal)) => return Err(refusal.into()),
            _ => {}
        }
        permitted(token, call.route.op)?;
        match call.route.op {
            Op::GetAccount => Ok(self.account_reply()),
            Op::ListDroplets => self.list_droplets(call),
            Op::GetDroplet => self.get_droplet(call),
            Op::ListReservedIps
            | Op::CreateReservedIp
            | Op::GetReservedIp
            | Op::DeleteReservedIp
            | Op::AssignIp
            | Op::UnassignIp
            | Op::ListActions
            | Op::GetAction => self.reserved_ips(token, call),
            Op::ListDomains
            | Op::CreateDomain
            | Op::GetDomain
            | Op::DeleteDomain
            | Op::ListRecords
            | Op::CreateRecord
            | Op::GetRecord
            | Op::PutRecord
            | Op::PatchRecord
            | Op::DeleteRecord => self.domain_call(call),
            Op::ListZones | Op::GetZone | Op::BatchRecords | Op::VerifyToken | Op::Unknown => {
                Err(Problem::not_found())
            }
        }
    }

    fn account_reply(&self) -> Reply {
        let account = json!({
            "droplet_limit": 100,
            "floating_ip_limit": self.knobs.reserved_ip_quota,
            "reserved_ip_limit": self.knobs.reserved_ip_quota,
            "volume_limit": 100,
            "name": "Sandbox",
            "email": "sandbox@example.com",
            "uuid": "b6fr89dbf6d9156cace5f3c78dc9851d957381ef",
            "email_verified": true,
            "status": "active",
            "status_message": "",
            "team": {"uuid": "5df3e3004a17e242b7c20ca6c9fc25b701a47ece", "name": "Sandbox"},
        });
        Reply::json(200, &json!({ "account": account }))
    }

    fn list_droplets(&self, call: &Context<'_>) -> Result<Reply, Problem> {
        let droplets = self.droplets.values().map(|droplet| render::droplet(self, droplet)).collect();
        list(call, "droplets", droplets)
    }

    fn get_droplet(&self, call: &Context<'_>) -> Result<Reply, Problem> {
        let id: u64 = call.route.arg(0).parse().map_err(|_| Problem::not_found())?;
        let droplet = self.droplets.get(&id).ok_or_else(Problem::not_found)?;
        Ok(Reply::json(200, &json!({"droplet": render::droplet(self, droplet)})))
    }
}

/// One page of a list, with its links and its total.
pub(super) fn list(call: &Context<'_>, key: &str, entries: Vec<Value>) -> Result<Reply, Problem> {
    let page = Page::read(call.request, PER_PAGE_DEFAULT, PER_PAGE_MAX)
        .map_err(|name| Problem { status: 400, message: format!("{name} is out of range") })?;
    let total = entries.len();
    let mut body = Map::new();
    body.insert(key.to_owned(), Value::Array(page.cut(entries)));
    body.insert("links".to_owned(), links(call, page, total));
    body.insert("meta".to_owned(), json!({ "total": total }));
    Ok(Reply::json(200, &Value::Object(body)))
}

fn links(call: &Context<'_>, page: Page, total: usize) -> Value {
    let last = page.count(total);
    let base = match call.fault {
        Some(Fault::ForeignNext { base }) => base.trim_end_matches('/'),
        _ => call.request.base.trim_end_matches('/'),
    };
    let kept: String = call
        .request
        .query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("page=") && !pair.starts_with("per_page="))
        .flat_map(|pair| [pair, "&"])
        .collect();
    let url = |number: usize| {
        let (path, per_page) = (&call.request.path, page.per_page);
        Value::String(format!("{base}{path}?{kept}page={number}&per_page={per_page}"))
    };
    let mut pages = Map::new();
    if page.page > 1 {
        pages.insert("first".to_owned(), url(1));
        pages.insert("prev".to_owned(), url(page.page.saturating_sub(1).min(last)));
    }
    if page.page < last {
        pages.insert("next".to_owned(), url(page.page.saturating_add(1)));
        pages.insert("last".to_owned(), url(last));
    }
    if pages.is_empty() { json!({}) } else { json!({ "pages": pages }) }
}
