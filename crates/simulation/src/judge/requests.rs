//! I15: a move by hand was requested, and is pending in the status before it is made. It is made at most once, by a
//! process that can have seen the pool without the request.

use super::truth::Pool;
use super::validity::text;
use super::{Judge, Process};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A request: the uid of its pool, and its text.
type Request = (String, String);

/// The requests and their results.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// When each request appeared.
    asked: BTreeMap<Request, u64>,
    /// When each process sent its first call.
    began: BTreeMap<Process, u64>,
    /// Requests whose assignment is on its way to the provider.
    sent: BTreeMap<(Ipv4Addr, u64), Request>,
    /// How often the provider accepted each request.
    made: BTreeMap<Request, usize>,
}

impl Requests {
    /// A process sends a call.
    pub(super) fn calls(&mut self, process: Process, now_ms: u64) {
        self.began.entry(process).or_insert(now_ms);
    }

    /// A user has changed a pool.
    pub(super) fn note(&mut self, pool: Option<&Pool>, now_ms: u64) {
        if let Some(pool) = pool.filter(|pool| !pool.asks.is_empty()) {
            self.asked.entry((pool.uid.clone(), pool.asks.clone())).or_insert(now_ms);
        }
    }

    /// Another assignment of the address is sent.
    pub(super) fn forget(&mut self, ip: Ipv4Addr) {
        self.sent.retain(|(other, _), _| *other != ip);
    }
}

impl Judge {
    /// Whether an address leaves a candidate because the status of its pool calls this move requested.
    pub(super) fn asked(&mut self, now_ms: u64, process: Process, to: (Ipv4Addr, u64)) -> bool {
        let from_ms = self.blindness.since(now_ms);
        let Some(request) = self.pools_since(from_ms).find_map(|pool| self.pending(pool, to)) else {
            return false;
        };
        let began_ms = self.requests.began.get(&process).copied().unwrap_or_default();
        match self.requests.asked.get(&request).copied() {
            None => self.blame(now_ms, "I15", format!("{process} moves {request:?}, for which nobody asks")),
            Some(asked_ms) if asked_ms < self.blindness.since(began_ms) => {
                let text = format!("{process}, begun at {began_ms} ms, moves {request:?} of {asked_ms} ms");
                self.blame(now_ms, "I15", text);
            }
            Some(_) => {}
        }
        self.requests.sent.insert(to, request);
        true
    }

    /// The request that a status calls pending, if it is to bring the address to the droplet.
    fn pending(&self, pool: &Pool, (ip, droplet): (Ipv4Addr, u64)) -> Option<Request> {
        let of = |field: &str| text(&pool.status, &format!("/lastMove/{field}"));
        let there = self.truth.nodes.get(of("to")).and_then(|node| node.droplet) == Some(droplet);
        let pending = of("outcome") == "Pending" && of("ip") == ip.to_string() && there;
        pending.then(|| (pool.uid.clone(), of("request").to_owned()))
    }

    /// Takes in an assignment that the provider accepted.
    pub(super) fn check_request(&mut self, now_ms: u64, to: (Ipv4Addr, u64)) {
        let Some(request) = self.requests.sent.remove(&to) else { return };
        let made = self.requests.made.entry(request.clone()).or_default();
        *made += 1;
        let made = *made;
        if made > 1 {
            self.blame(now_ms, "I15", format!("{request:?} is carried out {made} times"));
        }
    }
}

/// The request that a pool still has to answer.
pub(super) fn unanswered(pool: &Pool) -> Option<String> {
    let of = |field: &str| text(&pool.status, &format!("/lastMove/{field}"));
    let answered = pool.asks.is_empty() || of("request") == pool.asks && of("outcome") != "Pending";
    (!answered).then(|| format!("{}: nobody answers {:?}: {:?}", pool.name, pool.asks, of("outcome")))
}
