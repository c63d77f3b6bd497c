//! A call from its arrival to its answer: the log, the choice of a fault, and the fault's effect on the answer.

use super::calls::Call;
use super::faults::{Fault, Garble, Subject, When};
use super::garble::spoil;
use super::token::Token;
use super::wire::{Provider, Reply, Request, Route};
use super::world::{Context, World};

/// A call on its way through the provider.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) seq: u64,
    pub(super) request: Request,
    pub(super) route: Route,
    pub(super) token: Option<Token>,
    pub(super) fault: Option<Fault>,
    /// Milliseconds until the call takes effect.
    pub(super) before_ms: u64,
    /// Milliseconds from the effect to the answer.
    pub(super) after_ms: u64,
}

/// The result that the client receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Answer(Reply),
    /// The announced length is that of the reply, but the connection ends half-way.
    Truncate(Reply),
    Reset,
    Hang,
}

impl World {
    /// Accepts a call: logs it and decides its course.
    pub(super) fn admit(&mut self, now_us: u64, request: Request) -> Ticket {
        self.advance(now_us / 1_000);
        let route = request.route();
        let known = request.bearer().and_then(|secret| self.tokens.get(secret));
        let token = known.filter(|token| token.provider == request.provider && !token.revoked).cloned();
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let fault = self.faults.take(&Subject {
            provider: request.provider,
            op: route.op,
            path: &request.path,
            query: &request.query,
            body: &body,
            token: token.as_ref().map_or("", |token| token.name.as_str()),
        });
        let (before_ms, after_ms) = match &fault {
            Some(Fault::Delay { before_ms, after_ms }) => (*before_ms, *after_ms),
            _ => (0, 0),
        };
        let seq = self.calls.enter(Call {
            seq: 0,
            at_ms: self.now_ms,
            at_us: now_us,
            ended_ms: None,
            provider: request.provider,
            op: route.op,
            method: request.method.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            token: token.as_ref().map(|token| token.name.clone()).unwrap_or_default(),
            status: None,
            effect: false,
            fault: fault.as_ref().map(ToString::to_string),
            body,
        });
        let after_ms = after_ms.saturating_add(self.knobs.latency_ms);
        Ticket { seq, request, route, token, fault, before_ms, after_ms }
    }

    /// Lets a call take effect.
    pub(super) fn serve(&mut self, now_ms: u64, ticket: &Ticket) -> Fate {
        self.advance(now_ms);
        match &ticket.fault {
            Some(Fault::Reset(When::Before)) => return Fate::Reset,
            Some(Fault::Hang(When::Before)) => return Fate::Hang,
            Some(Fault::Answer { status, headers, body }) => {
                let body = bytes::Bytes::from(body.clone());
                return Fate::Answer(Reply { status: *status, headers: headers.clone(), body });
            }
            _ => {}
        }
        let context = Context {
            now_ms: self.now_ms,
            request: &ticket.request,
            route: &ticket.route,
            fault: ticket.fault.as_ref(),
        };
        let token = ticket.token.as_ref();
        let reply = match ticket.request.provider {
            Provider::DigitalOcean => self.digitalocean(token, &context),
            Provider::Cloudflare => self.cloudflare(token, &context),
        };
        if ticket.route.op.mutates() && (200..300).contains(&reply.status) {
            self.calls.took_effect(ticket.seq);
        }
        match &ticket.fault {
            Some(Fault::Reset(_)) => Fate::Reset,
            Some(Fault::Hang(_)) => Fate::Hang,
            Some(Fault::Garble(Garble::Truncated)) => Fate::Truncate(reply),
            Some(Fault::Garble(garble)) => Fate::Answer(spoil(reply, garble)),
            _ => Fate::Answer(reply),
        }
    }

    /// Records the end of a call. Without a status, its connection was cut.
    pub(super) fn close(&mut self, now_ms: u64, seq: u64, status: Option<u16>) {
        self.advance(now_ms);
        self.calls.close(seq, self.now_ms, status);
    }
}
