//! The simulated accounts: everything that the two providers know, in one value with one owner.
//!
//! Owns: the state, the passing of (handed-in) time, tokens, the choice of faults, the log. Does not own: a
//! clock, a socket, a lock (see `cloud` and `server`), nor what each endpoint does (`digitalocean`,
//! `domains`, `cloudflare`). Invariants: the same seed and the same calls at the same times give the same
//! answers; time never runs backwards; a droplet holds at most one reserved IP.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::actions::{Action, ActionOutcome, ActionPlan};
use super::calls::{Call, CallLog};
use super::change::{Change, ChangeKind};
use super::cloudflare::Zone;
use super::domains::Domain;
use super::faults::{Fault, FaultQueue, Garble, Subject, When};
use super::history::History;
use super::limits::Limits;
use super::seed::Seed;
use super::token::Token;
use super::wire::{Op, Provider, Reply, Request, Route};

/// How the providers behave while nothing is injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// Milliseconds between the effect of a call and its answer.
    pub latency_ms: u64,
    /// Milliseconds that an action takes.
    pub action_ms: u64,
    /// How actions end.
    pub action_outcome: ActionOutcome,
    /// Lists show what was true so many milliseconds ago.
    pub list_lag_ms: u64,
    /// Reserved IPs that the account may have; out-of-band additions ignore it.
    pub reserved_ip_quota: usize,
    /// Whether requests are limited in number (creations included).
    pub rate_limits: bool,
    /// Whether a 429 says when to come back.
    pub retry_after: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            action_ms: 0,
            action_outcome: ActionOutcome::Completed,
            list_lag_ms: 0,
            // The real default is 3; most tests are about something else.
            reserved_ip_quota: 50,
            rate_limits: true,
            retry_after: true,
        }
    }
}

/// A virtual machine.
#[derive(Debug, Clone)]
pub(super) struct Droplet {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) region: String,
    pub(super) powered_on: bool,
    pub(super) public: Ipv4Addr,
    pub(super) private: Ipv4Addr,
    pub(super) created_ms: u64,
    /// An event that is no action of ours is pending until then.
    pub(super) busy_until_ms: u64,
}

/// A reserved IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReservedIp {
    pub(super) ip: Ipv4Addr,
    pub(super) region: String,
    pub(super) droplet: Option<u64>,
    /// The action that is in progress.
    pub(super) pending: Option<u64>,
    /// Something else keeps the address locked until then.
    pub(super) busy_until_ms: u64,
    /// False: a GET finds it, a list does not show it.
    pub(super) listed: bool,
    /// Position in lists.
    pub(super) order: u64,
}

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
    /// Milliseconds from then to the answer.
    pub(super) after_ms: u64,
}

/// What the client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Answer(Reply),
    /// The announced length is that of the reply, but the connection ends after half of it.
    Truncate(Reply),
    Reset,
    Hang,
}

/// A call together with the moment at which it takes effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) now_ms: u64,
    pub(super) request: &'a Request,
    pub(super) route: &'a Route,
    pub(super) fault: Option<&'a Fault>,
}

impl Context<'_> {
    /// The plan for the action that this call starts, if one was injected.
    pub(super) fn action_plan(&self) -> Option<ActionPlan> {
        if let Some(Fault::Action(plan)) = self.fault { Some(*plan) } else { None }
    }
}

/// Everything that the simulated providers know.
#[derive(Debug)]
pub(super) struct World {
    pub(super) epoch_ms: u64,
    pub(super) now_ms: u64,
    pub(super) seed: Seed,
    pub(super) knobs: Knobs,
    /// By the token itself.
    pub(super) tokens: BTreeMap<String, Token>,
    pub(super) limits: Limits,
    pub(super) droplets: BTreeMap<u64, Droplet>,
    pub(super) ips: History<BTreeMap<Ipv4Addr, ReservedIp>>,
    pub(super) actions: BTreeMap<u64, Action>,
    /// Actions in progress that will end, by due time.
    pub(super) due: BTreeSet<(u64, u64)>,
    pub(super) domains: History<BTreeMap<String, Domain>>,
    pub(super) zones: History<BTreeMap<String, Zone>>,
    pub(super) faults: FaultQueue,
    pub(super) calls: CallLog,
    pub(super) changes: Vec<Change>,
    next_id: u64,
}

impl World {
    pub(super) fn new(seed: u64, epoch_ms: u64) -> Self {
        Self {
            epoch_ms,
            now_ms: 0,
            seed: Seed::new(seed),
            knobs: Knobs::default(),
            tokens: BTreeMap::new(),
            limits: Limits::default(),
            droplets: BTreeMap::new(),
            ips: History::default(),
            actions: BTreeMap::new(),
            due: BTreeSet::new(),
            domains: History::default(),
            zones: History::default(),
            faults: FaultQueue::default(),
            calls: CallLog::default(),
            changes: Vec::new(),
            next_id: 1,
        }
    }

    /// A number that no object had yet.
    pub(super) fn fresh_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = self.next_id.saturating_add(1);
        id
    }

    /// Notes a change for those who follow the story.
    pub(super) fn note(&mut self, kind: ChangeKind) {
        self.changes.push(Change { at_ms: self.now_ms, kind });
    }

    /// When something will happen by itself.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.due.first().map(|&(due_ms, _)| due_ms)
    }

    /// The wall clock's time at `at_ms`, as both providers write it, to the second.
    pub(super) fn timestamp(&self, at_ms: u64) -> String {
        let seconds = i64::try_from(self.epoch_ms.saturating_add(at_ms) / 1_000).unwrap_or(i64::MAX);
        jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
    }

    /// The wall clock's second at `at_ms`, rounded up.
    pub(super) fn epoch_second(&self, at_ms: u64) -> u64 {
        self.epoch_ms.saturating_add(at_ms).div_ceil(1_000)
    }

    /// Takes a call in: logs it, and decides what will become of it.
    pub(super) fn admit(&mut self, now_us: u64, request: Request) -> Ticket {
        self.advance(now_us / 1_000);
        let route = match request.provider {
            Provider::DigitalOcean => super::digitalocean::route(&request),
            Provider::Cloudflare => super::cloudflare::route(&request),
        };
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
            Some(Fault::Garble(garble)) => Fate::Answer(super::garble::spoil(reply, garble)),
            _ => Fate::Answer(reply),
        }
    }

    /// Closes a call; without a status its connection was cut.
    pub(super) fn close(&mut self, now_ms: u64, seq: u64, status: Option<u16>) {
        self.advance(now_ms);
        self.calls.close(seq, self.now_ms, status);
    }

    /// Moves time on and ends the actions that are due.
    pub(super) fn advance(&mut self, now_ms: u64) {
        while let Some((due_ms, id)) = self.due.first().copied().filter(|&(due_ms, _)| due_ms <= now_ms) {
            self.due.remove(&(due_ms, id));
            self.now_ms = self.now_ms.max(due_ms);
            self.end_action(id);
        }
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// How many calls of this kind there were.
    pub(super) fn count(&self, provider: Provider, op: Op) -> u64 {
        self.calls.count(provider, op)
    }
}
