//! The v4 API of Cloudflare: routes, authentication, limits, the envelope, and zones.
//!
//! Records are in `cf_records`. Invariants: every answer is the envelope with `success`, `errors`,
//! `messages` and `result`; who may not see a zone gets the same answer as for one that does not exist.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cf_records::CfRecord;
use super::faults::{Fault, Refusal};
use super::limits::{CF_REQUESTS, CF_WINDOW_MS};
use super::token::Token;
use super::wire::{MalformedBody, Op, Page, Reply, Request, Route};
use super::world::{Context, World};

/// What a zone's owner pays for; it decides on limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// TTL from 60 s, 200 changes in a batch, no tags.
    Free,
    /// TTL from 30 s, 3,500 changes in a batch, tags.
    Enterprise,
}

impl Plan {
    /// Least TTL but for 1, which means automatic.
    pub(super) fn ttl_min(self) -> u64 {
        match self {
            Self::Free => 60,
            Self::Enterprise => 30,
        }
    }

    /// Changes in one batch.
    pub(super) fn batch_max(self) -> usize {
        match self {
            Self::Free => 200,
            Self::Enterprise => 3_500,
        }
    }

    /// Tags on one record.
    pub(super) fn tags_max(self) -> usize {
        match self {
            Self::Free => 0,
            Self::Enterprise => 20,
        }
    }

    fn legacy_id(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Enterprise => "enterprise",
        }
    }
}

/// A zone.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    pub(super) id: String,
    /// In ASCII.
    pub(super) name: String,
    pub(super) plan: Plan,
    pub(super) records: BTreeMap<String, CfRecord>,
}

/// An error in the provider's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) code: u32,
    pub(super) message: String,
    /// The particular error behind a general one.
    pub(super) chain: Option<(u32, String)>,
}

impl Problem {
    pub(super) fn new(status: u16, code: u32, message: &str) -> Self {
        Self { status, code, message: message.to_owned(), chain: None }
    }

    /// A record that breaks a rule.
    pub(super) fn validation(code: u32, message: &str) -> Self {
        let chain = Some((code, message.to_owned()));
        Self { status: 400, code: 1004, message: "DNS Validation Error".to_owned(), chain }
    }

    pub(super) fn no_record() -> Self {
        Self::new(404, 81044, "Record does not exist.")
    }

    pub(super) fn identical() -> Self {
        Self::new(400, 81058, "An identical record already exists.")
    }

    fn forbidden() -> Self {
        Self::new(403, 10000, "Authentication error")
    }

    fn render(&self) -> Reply {
        let mut error = json!({"code": self.code, "message": self.message});
        if let (Some((code, message)), Some(error)) = (&self.chain, error.as_object_mut()) {
            error.insert("error_chain".to_owned(), json!([{"code": code, "message": message}]));
        }
        let body = json!({"success": false, "errors": [error], "messages": [], "result": null});
        Reply::json(self.status, &body)
    }
}

impl From<MalformedBody> for Problem {
    fn from(_: MalformedBody) -> Self {
        Self::new(400, 9207, "Request body is invalid.")
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::no_record(),
            Refusal::Unauthorized => Self::new(401, 10000, "Authentication error"),
            Refusal::Forbidden => Self::forbidden(),
            Refusal::IdenticalRecord => Self::identical(),
            Refusal::Quota => Self::new(400, 81045, "Record quota exceeded."),
            Refusal::PendingEventOnIp | Refusal::PendingEventOnDroplet => {
                Self::new(409, 1105, "Please retry: another change is in progress.")
            }
            Refusal::NodeInUse | Refusal::WrongDatacenter => {
                Self::validation(9005, "Content for A record must be a valid IPv4 address.")
            }
            Refusal::Status(status, message) => Self::new(*status, 10001, message),
        }
    }
}

/// A successful answer.
pub(super) fn success(result: &Value) -> Reply {
    Reply::json(200, &json!({"success": true, "errors": [], "messages": [], "result": result}))
}

/// One page of a list.
pub(super) fn listing(page: Page, entries: Vec<Value>) -> Reply {
    let total = entries.len();
    let entries = page.cut(entries);
    // An empty list has no pages at all here, unlike at the other provider.
    let total_pages = total.div_ceil(page.per_page);
    let body = json!({
        "success": true,
        "errors": [],
        "messages": [],
        "result_info": {
            "page": page.page, "per_page": page.per_page, "count": entries.len(),
            "total_count": total, "total_pages": total_pages,
        },
        "result": entries,
    });
    Reply::json(200, &body)
}

/// Which operation a request asks for.
pub(super) fn route(request: &Request) -> Route {
    let segments = request.segments();
    let path: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = request.method.as_str();
    let ["client", "v4", rest @ ..] = path.as_slice() else { return Route::new(Op::Unknown, &[]) };
    match *rest {
        ["user", "tokens", "verify"] if method == "GET" => Route::new(Op::VerifyToken, &[]),
        ["zones"] if method == "GET" => Route::new(Op::ListZones, &[]),
        ["zones", zone] if method == "GET" => Route::new(Op::GetZone, &[zone]),
        ["zones", zone, "dns_records"] if method == "GET" => Route::new(Op::ListRecords, &[zone]),
        ["zones", zone, "dns_records"] if method == "POST" => Route::new(Op::CreateRecord, &[zone]),
        ["zones", zone, "dns_records", "batch"] if method == "POST" => Route::new(Op::BatchRecords, &[zone]),
        ["zones", zone, "dns_records", id] if method == "GET" => Route::new(Op::GetRecord, &[zone, id]),
        ["zones", zone, "dns_records", id] if method == "PUT" => Route::new(Op::PutRecord, &[zone, id]),
        ["zones", zone, "dns_records", id] if method == "PATCH" => Route::new(Op::PatchRecord, &[zone, id]),
        ["zones", zone, "dns_records", id] if method == "DELETE" => Route::new(Op::DeleteRecord, &[zone, id]),
        _ => Route::new(Op::Unknown, &[]),
    }
}

impl World {
    /// Answers a call to Cloudflare.
    pub(super) fn cloudflare(&mut self, token: Option<&Token>, call: &Context<'_>) -> Reply {
        let name = token.map(|token| token.name.clone()).unwrap_or_default();
        let answer = match token {
            None => Err(refused(call)),
            Some(token) => self.cloudflare_authenticated(token, call),
        };
        let throttled = matches!(&answer, Err(problem) if problem.status == 429);
        let mut reply = answer.unwrap_or_else(|problem| problem.render());
        let now_ms = call.now_ms;
        let limit = self.limits.cloudflare(&name);
        let blocked_ms = limit.blocked_until_ms.saturating_sub(now_ms);
        let (remaining, reset_ms) = if blocked_ms > 0 {
            (0, blocked_ms)
        } else {
            (limit.window.remaining(now_ms), limit.window.reset_ms(now_ms).saturating_sub(now_ms))
        };
        let (window, reset) = (CF_WINDOW_MS / 1_000, reset_ms.div_ceil(1_000));
        reply = reply
            .with_header("ratelimit", format!("\"default\";r={remaining};t={reset}"))
            .with_header("ratelimit-policy", format!("\"default\";q={CF_REQUESTS};w={window}"));
        if let Some(Fault::Throttle { retry_after_s }) = call.fault {
            return match retry_after_s {
                Some(seconds) => reply.with_header("retry-after", seconds),
                None => reply,
            };
        }
        if throttled && blocked_ms > 0 && self.knobs.retry_after {
            reply = reply.with_header("retry-after", reset);
        }
        reply
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other operation belongs to another resource")]
    fn cloudflare_authenticated(&mut self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let slow_down = || Problem::new(429, 971, "Please wait and consider throttling your request speed");
        if self.knobs.rate_limits {
            let now_ms = call.now_ms;
            let limit = self.limits.cloudflare(&token.name);
            if limit.blocked_until_ms <= now_ms && limit.window.remaining(now_ms) == 0 {
                limit.blocked_until_ms = now_ms.saturating_add(CF_WINDOW_MS);
            }
            if limit.blocked_until_ms > now_ms {
                return Err(slow_down());
            }
            limit.window.count(now_ms);
        }
        match call.fault {
            Some(Fault::Throttle { .. }) => return Err(slow_down()),
            Some(Fault::Refuse(refusal)) => return Err(refusal.into()),
            _ => {}
        }
        match call.route.op {
            Op::VerifyToken => Ok(verified()),
            Op::ListZones => self.list_zones(token, call),
            Op::GetZone => {
                let zone = self.zone(call)?;
                if !token.allows("zone:read") {
                    return Err(Problem::new(403, 9109, "Unauthorized to access requested resource"));
                }
                Ok(success(&zone.render()))
            }
            Op::ListRecords | Op::GetRecord => {
                let reads = token.allows("dns:read") || token.allows("dns:edit");
                if reads { self.read_records(call) } else { Err(Problem::forbidden()) }
            }
            Op::CreateRecord | Op::PutRecord | Op::PatchRecord | Op::DeleteRecord | Op::BatchRecords => {
                if token.allows("dns:edit") {
                    self.write_records(call)
                } else {
                    Err(Problem::forbidden())
                }
            }
            _ => Err(Problem::new(404, 7000, "No route for that URI")),
        }
    }

    /// The zone whose id is the first segment.
    pub(super) fn zone(&self, call: &Context<'_>) -> Result<&Zone, Problem> {
        let id = call.route.arg(0);
        // Documents of the field hold ids that no real zone has: one that was added is found.
        if let Some(zone) = self.zones.now().get(id) {
            return Ok(zone);
        }
        if id.len() != 32 || !id.chars().all(|c| c.is_ascii_hexdigit()) {
            let path = &call.request.path;
            let message = format!("Could not route to {path}, perhaps your object identifier is invalid?");
            return Err(Problem { status: 400, code: 7003, message, chain: None });
        }
        Err(Problem::forbidden())
    }

    fn list_zones(&self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let page = page(call, 20, 50)?;
        // The filter takes a name in either form.
        let name = call.request.param("name").map(|name| {
            idna::domain_to_ascii(&name).unwrap_or_else(|_unconvertible| name.to_ascii_lowercase())
        });
        // Without the permission the list is not refused: it is empty.
        let zones = self.zones.now().values().filter(|_| token.allows("zone:read"));
        let mut zones: Vec<&Zone> =
            zones.filter(|zone| name.as_deref().is_none_or(|name| name == zone.name)).collect();
        zones.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing(page, zones.into_iter().map(Zone::render).collect()))
    }

    /// Adds a zone, under an invented id unless one is given, and gives its id.
    pub(super) fn add_zone(&mut self, id: Option<&str>, name: &str, plan: Plan) -> String {
        let id = id.map_or_else(|| self.seed.hex32(), str::to_owned);
        let zone = Zone { id: id.clone(), name: name.to_owned(), plan, records: BTreeMap::new() };
        self.zones.change(self.now_ms, self.knobs.list_lag_ms).insert(id.clone(), zone);
        id
    }
}

impl Zone {
    fn render(&self) -> Value {
        // Zones are shown in the scripts of their languages, unlike records.
        let (name, _) = idna::domain_to_unicode(&self.name);
        json!({
            "id": self.id,
            "name": name,
            "status": "active",
            "paused": false,
            "type": "full",
            "development_mode": 0,
            "name_servers": ["ada.ns.cloudflare.com", "bob.ns.cloudflare.com"],
            "original_name_servers": null,
            "original_registrar": null,
            "original_dnshost": null,
            "created_on": "2024-01-01T00:00:00.000000Z",
            "modified_on": "2024-01-01T00:00:00.000000Z",
            "activated_on": "2024-01-01T00:00:00.000000Z",
            "meta": {"step": 2, "custom_certificate_quota": 0, "page_rule_quota": 3, "phishing_detected": false},
            "owner": {"id": null, "type": "user", "email": null},
            "account": {"id": "01a7362d577a6c3019a474fd6f485823", "name": "Sandbox"},
            "permissions": ["#dns_records:edit", "#dns_records:read", "#zone:read"],
            "plan": {
                "id": "0feeeeeeeeeeeeeeeeeeeeeeeeeeeeee", "name": "Website", "price": 0, "currency": "USD",
                "frequency": "", "is_subscribed": false, "can_subscribe": false, "externally_managed": false,
                "legacy_id": self.plan.legacy_id(), "legacy_discount": false,
            },
        })
    }
}

/// The page that was asked for.
pub(super) fn page(call: &Context<'_>, default: usize, max: usize) -> Result<Page, Problem> {
    Page::read(call.request, default, max).map_err(|name| Problem {
        status: 400,
        code: 1004,
        message: "Validation error".to_owned(),
        chain: Some((9001, format!("{name} is out of range"))),
    })
}

/// How a call without a valid token is refused.
fn refused(call: &Context<'_>) -> Problem {
    match (call.request.authorization.as_deref(), call.request.bearer(), call.route.op) {
        (None, _, _) => Problem::new(400, 9106, "Missing X-Auth-Key, X-Auth-Email or Authorization headers"),
        (Some(_), None, _) => {
            let mut problem = Problem::new(400, 6003, "Invalid request headers");
            problem.chain = Some((6111, "Invalid format for Authorization header".to_owned()));
            problem
        }
        (Some(_), Some(_), Op::VerifyToken) => Problem::new(401, 1000, "Invalid API Token"),
        (Some(_), Some(_), _) => Problem::new(403, 9109, "Invalid access token"),
    }
}

fn verified() -> Reply {
    let message = json!({"code": 10000, "message": "This API Token is valid and active", "type": null});
    let result = json!({"id": "ed17574386854bf78a67040be0a770b0", "status": "active"});
    Reply::json(200, &json!({"success": true, "errors": [], "messages": [message], "result": result}))
}
