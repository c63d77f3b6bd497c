//! The simulated accounts: the whole state of the two providers, in one value with one owner.
//!
//! Owns the state. Does not own a clock, a socket, a lock (`handle`, `server`), the rules of addresses
//! (`addresses`), the path of a call (`exchange`), or the endpoints (`digitalocean`, `cloudflare`). Invariants: the
//! same seed and the same calls at the same times give the same answers; time never runs backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::actions::{Action, ActionPlan};
use super::calls::CallLog;
use super::change::{Change, ChangeKind};
use super::faults::{Fault, FaultQueue};
use super::firewalls::Firewall;
use super::history::History;
use super::limits::Limits;
use super::seed::Seed;
use super::token::Token;
use super::wire::{Reply, Request, Route};
use super::zones::{Domain, Zone};

/// The tags of the droplets of a cluster.
pub(super) const CLUSTER_TAGS: [&str; 2] = ["k8s", "k8s:worker"];

/// The providers' behaviour while no fault is injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// Milliseconds between the effect of a call and its answer.
    pub latency_ms: u64,
    /// Milliseconds that an action takes.
    pub action_ms: u64,
    /// Milliseconds until a change of a firewall has reached its droplets.
    pub firewall_ms: u64,
    /// Lists show the state of this many milliseconds ago.
    pub list_lag_ms: u64,
    /// Reserved IPs that the account may have. Additions from outside the API ignore it.
    pub reserved_ip_quota: usize,
    /// Whether the number of requests is limited, creations included.
    pub rate_limits: bool,
    /// Whether a 429 carries `retry-after`.
    pub retry_after: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            action_ms: 0,
            firewall_ms: 0,
            list_lag_ms: 0,
            // The real default is 3, but most tests are about something else.
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
    pub(super) tags: Vec<String>,
    pub(super) created_ms: u64,
    /// Until this time an event is pending that is no action of ours.
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
    /// Until this time something else keeps the address locked.
    pub(super) busy_until_ms: u64,
    /// Position in lists.
    pub(super) order: u64,
}

/// A call, and the moment at which it takes effect.
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

    /// The reply with the time after which to retry, if there is one. An injected throttle sets its own.
    pub(super) fn with_retry_after(&self, reply: Reply, wait_s: Option<u64>) -> Reply {
        let injected =
            if let Some(Fault::Throttle { retry_after_s }) = self.fault { *retry_after_s } else { wait_s };
        injected.into_iter().fold(reply, |reply, seconds| reply.with_header("retry-after", seconds))
    }
}

/// The whole state of the simulated providers.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) epoch_ms: u64,
    pub(super) now_ms: u64,
    pub(super) seed: Seed,
    pub(super) knobs: Knobs,
    /// By the secret itself.
    pub(super) tokens: BTreeMap<String, Token>,
    pub(super) limits: Limits,
    pub(super) droplets: BTreeMap<u64, Droplet>,
    pub(super) ips: History<BTreeMap<Ipv4Addr, ReservedIp>>,
    pub(super) firewalls: History<BTreeMap<String, Firewall>>,
    /// Tags that exist.
    pub(super) tags: BTreeSet<String>,
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
        let tags = CLUSTER_TAGS.map(str::to_owned).into();
        Self { epoch_ms, seed: Seed::new(seed), tags, next_id: 1, ..Self::default() }
    }

    /// A number that no object has had yet.
    pub(super) fn fresh_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = self.next_id.saturating_add(1);
        id
    }

    /// Notes a change for those who tell the story.
    pub(super) fn note(&mut self, kind: ChangeKind) {
        self.changes.push(Change { at_ms: self.now_ms, kind });
    }

    /// When the next event happens by itself.
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
}
