//! The v2 API of `DigitalOcean`: authentication, limits, scopes, and the small resources.
//!
//! Reserved IPs are in `reserved_ips`, DNS in `domains`. Invariants: authentication comes before limits, limits
//! before scopes, and scopes before the resource. Every answer carries the `ratelimit-*` headers.

use serde_json::json;

use super::do_answers::{Problem, list};
use super::faults::Fault;
use super::render;
use super::token::Token;
use super::wire::{Op, Reply};
use super::world::{Context, World};

fn permitted(token: &Token, op: Op) -> Result<(), Problem> {
    let scope = op.scope();
    let other = if op == Op::CreateRecord {
        "domain:create"
    } else if op == Op::DeleteRecord {
        "domain:delete"
    } else {
        scope
    };
    if scope.is_empty() || token.allows(scope) || token.allows(other) {
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
        let told = throttled && remaining == 0 && self.knobs.retry_after;
        let wait_s = told.then(|| reset_ms.saturating_sub(call.now_ms).div_ceil(1_000));
        call.with_retry_after(reply, wait_s)
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
        let family = call.route.op.scope().split(':').next().unwrap_or_default();
        match (call.route.op, family) {
            (Op::GetAccount, _) => Ok(self.account_reply()),
            (Op::ListDroplets, _) => self.list_droplets(token, call),
            (Op::GetDroplet, _) => self.get_droplet(token, call),
            (_, "reserved_ip") => self.reserved_ips(token, call),
            (_, "domain") => self.domain_call(call),
            (_, "firewall") => self.firewall_call(token, call),
            (_, "tag") => self.tag_call(token, call),
            _ => Err(Problem::not_found()),
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

    fn list_droplets(&self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let tag = call.request.param("tag_name");
        let shown = self.droplets.values().filter(|droplet| {
            tag.as_ref().is_none_or(|tag| token.allows("tag:read") && droplet.tags.contains(tag))
        });
        list(call, "droplets", shown.map(|droplet| render::droplet(self, token, droplet)).collect())
    }

    fn get_droplet(&self, token: &Token, call: &Context<'_>) -> Result<Reply, Problem> {
        let id: u64 = call.route.arg(0).parse().map_err(|_| Problem::not_found())?;
        let droplet = self.droplets.get(&id).ok_or_else(Problem::not_found)?;
        Ok(Reply::json(200, &json!({"droplet": render::droplet(self, token, droplet)})))
    }
}
