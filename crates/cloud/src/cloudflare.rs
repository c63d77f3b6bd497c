//! The v4 API of Cloudflare: authentication, limits, and zones.
//!
//! Records are in `cf_records`. Invariants: every answer is the envelope with `success`, `errors`, `messages` and
//! `result`. A token that may not see a zone gets the same answer as for a zone that does not exist.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cf_answers::{Problem, listing, page, success};
use super::faults::Fault;
use super::limits::{CF_REQUESTS, CF_WINDOW_MS};
use super::token::Token;
use super::wire::{Op, Reply};
use super::world::{Context, World};
use super::zones::{Plan, Zone};

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
        let told = throttled && blocked_ms > 0 && self.knobs.retry_after;
        call.with_retry_after(reply, told.then_some(reset))
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

    fn list_zones(&self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let page = page(call, 20, 50)?;
        // The filter accepts a name in either form.
        let name = call.request.param("name").map(|name| {
            idna::domain_to_ascii(&name).unwrap_or_else(|_unconvertible| name.to_ascii_lowercase())
        });
        // Without the permission, the list is empty instead of refused.
        let zones = self.zones.now().values().filter(|_| token.allows("zone:read"));
        let mut zones: Vec<&Zone> =
            zones.filter(|zone| name.as_deref().is_none_or(|name| name == zone.name)).collect();
        zones.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing(page, zones.into_iter().map(Zone::render).collect()))
    }

    /// Adds a zone and returns its ID. Invents the ID unless one is given.
    pub(super) fn add_zone(&mut self, id: Option<&str>, name: &str, plan: Plan) -> String {
        let id = id.map_or_else(|| self.seed.hex32(), str::to_owned);
        let zone = Zone { id: id.clone(), name: name.to_owned(), plan, records: BTreeMap::new() };
        self.zones.change(self.now_ms, self.knobs.list_lag_ms).insert(id.clone(), zone);
        id
    }
}

impl Zone {
    fn render(&self) -> Value {
        // Zone names are shown in their native script, unlike record names.
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

/// The refusal of a call without a valid token.
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
