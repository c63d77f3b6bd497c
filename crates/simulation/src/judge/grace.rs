//! I13: a failure that may pass costs nothing within `spec.grace`, and nothing at all if it ends within it.
//!
//! This is a second, naive opinion on grace, based on the true state of the cluster. Where the operator may have seen
//! less than the truth, the judge expects less, never more.

use super::blindness::Blindness;
use super::limits::{Asked, Limits};
use super::truth::{Fails, Node, Pool, Truth, items};
use super::validity::{self, text};
use super::{Judge, Process, ROUNDING_MS, dns};
use crate::scene::MACHINES;
use flipop_cloud::{Cloud, IpView};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// How far a leader may be off that was a standby when the failure began.
const HANDED_OVER_MS: u64 = 1_000;

/// A later process reads the beginning from the status, by the API server's clock, which counts whole seconds.
const TOLD_MS: u64 = 3_000;

/// How long a new process may take to see the cluster.
const START_MS: u64 = 5_000;

/// From a deadline to the assignment: one read of the operator, and one look of the judge.
const PROOF_MS: u64 = 3_000;

/// The moment from which a failure has no grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lost {
    at_ms: u64,
    /// Whether the operator must agree.
    surely: bool,
}

/// A span in which a node did not match.
#[derive(Debug, Clone, Default)]
struct Failing {
    began_ms: u64,
    of_pods: Option<u64>,
    of_node: Option<u64>,
    lost: Option<Lost>,
    ended_ms: Option<u64>,
    /// An earlier failure of the pods: its beginning and its end.
    before: Option<(u64, u64)>,
    /// The latest time at which a pod says that it stopped being Ready.
    pods_say: Option<String>,
    /// Whether a pod says that it served after the earlier failure.
    told_anew: bool,
}

impl Failing {
    /// The failure as seen by a process that began at `born_ms`, after the pods had recovered. A status may still tell
    /// of the earlier failure, and the pods that served in between may be gone.
    fn as_told(&self, born_ms: u64) -> Self {
        let before = self.before.filter(|_| !self.told_anew);
        let unseen = before.filter(|(_, ended_ms)| born_ms.saturating_add(START_MS) > *ended_ms);
        let of_pods = unseen.map(|(from_ms, _)| from_ms).or(self.of_pods);
        Self { of_pods, ..self.clone() }
    }

    fn ends_ms(&self, limits: Limits) -> u64 {
        let of_node = self.of_node.map(|at_ms| at_ms + limits.of_node);
        of_node.or(self.of_pods.map(|at_ms| at_ms + limits.of_pods)).unwrap_or(self.began_ms)
    }

    fn lose(&mut self, at_ms: u64, surely: bool) {
        let _first = self.lost.get_or_insert(Lost { at_ms, surely });
    }
}

/// The span in which a status said that a node serves.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    from_ms: Option<u64>,
    until_ms: Option<u64>,
    /// Whether somebody else ended it.
    wiped: bool,
}

/// One node of one object.
#[derive(Debug, Clone, Default)]
struct Case {
    node_uid: String,
    droplet: Option<u64>,
    /// Since when this node exists under its name.
    since_ms: u64,
    /// The last failure, over or not.
    failing: Option<Failing>,
    /// When it last had no grace.
    lost_ms: Option<u64>,
    told: Told,
}

/// The knowledge that a process can have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Knower {
    /// Its first call.
    pub(super) born_ms: u64,
    /// When it began to lead.
    pub(super) leads_ms: u64,
}

/// All failures.
#[derive(Debug, Default)]
pub(super) struct Graces {
    asked: BTreeMap<String, Asked>,
    /// By the object's uid and the node's name.
    cases: BTreeMap<(String, String), Case>,
    longest_ms: u64,
}

impl Graces {
    /// Takes in the present world. `ours`: whether the operator changed it.
    pub(super) fn look(
        &mut self,
        (truth, cloud): (&Truth, &Cloud),
        blind: &Blindness,
        now_ms: u64,
        ours: bool,
    ) {
        let from_ms = blind.since(now_ms);
        self.expire(from_ms, now_ms);
        let mut cases = std::mem::take(&mut self.cases);
        let pools = truth.pools.values().map(|pool| (pool, true));
        let sets = truth.record_sets.values().map(|set| (set, false));
        let ips = cloud.ips();
        for (object, is_pool) in pools.chain(sets).filter(|(object, _)| !object.deleting) {
            let frozen = if is_pool { object.is_frozen() } else { !validity::of_record_set(&object.spec) };
            let asked = self.asked.entry(object.uid.clone()).or_default();
            asked.update(object, frozen, now_ms);
            let most = asked.most();
            self.longest_ms = self.longest_ms.max(most.of_pods + most.of_node + most.to_recover);
            if most == Limits::default() {
                continue;
            }
            for node in truth.nodes.values() {
                let key = (object.uid.clone(), node.name.clone());
                let known = cases
                    .remove(&key)
                    .filter(|known| known.node_uid == node.uid && known.droplet == node.droplet);
                let is_new = known.is_none();
                let mut case = known.unwrap_or_else(|| Case { since_ms: now_ms, ..Case::default() });
                (case.node_uid, case.droplet) = (node.uid.clone(), node.droplet);
                case.told.note(told(object, is_pool, node), now_ms, ours);
                let fails = truth.failure(object, node);
                let pods_say = truth.pods_fail_since(object, node);
                let edited = asked.edited_ms.is_some_and(|at_ms| at_ms >= from_ms);
                case.note(fails, is_new || edited || frozen, blind, now_ms);
                case.hear(pods_say);
                let holds = || {
                    if is_pool {
                        stands(truth, &ips, object, node)
                    } else {
                        shown(truth, cloud, object, node)
                    }
                };
                if fails.is_some()
                    && case.failing.as_ref().is_some_and(|failing| failing.lost.is_none())
                    && !holds()
                {
                    case.lose(now_ms, false);
                }
                self.cases.insert(key, case);
            }
        }
    }

    /// Ends the grace of failures that have lasted as long as it allows.
    fn expire(&mut self, from_ms: u64, now_ms: u64) {
        for ((uid, _), case) in &mut self.cases {
            let Some(asked) = self.asked.get(uid) else { continue };
            let Some(failing) = case.failing.as_mut().filter(|failing| failing.ended_ms.is_none()) else {
                continue;
            };
            if failing.ends_ms(asked.least(from_ms)) <= now_ms {
                failing.lose(now_ms, true);
            }
            if failing.lost.is_some() {
                case.lost_ms = Some(now_ms);
            }
        }
    }

    /// Why a node has to keep its address or records, if so. A failure without grace since `lost_from_ms` may still
    /// be acted on.
    fn keeps(
        &self,
        (object, node): (&Pool, &str),
        knower: Knower,
        blind: &Blindness,
        (lost_from_ms, now_ms): (u64, u64),
    ) -> Option<String> {
        let case = self.cases.get(&(object.uid.clone(), node.to_owned()))?;
        let asked = self.asked.get(&object.uid)?;
        let failing = case.failing.as_ref().filter(|failing| failing.lost.is_none())?;
        let from_ms = blind.since(now_ms);
        let until_ms = failing.ended_ms.unwrap_or(now_ms);
        if until_ms < from_ms || case.lost_ms.is_some_and(|at_ms| at_ms >= lost_from_ms) {
            return None;
        }
        let led = knower.leads_ms <= failing.began_ms;
        if !led && !case.told.bears_out(blind.since(knower.leads_ms), knower.leads_ms) {
            return None;
        }
        let early_ms = if led {
            ROUNDING_MS
        } else if knower.born_ms + START_MS < failing.began_ms {
            HANDED_OVER_MS
        } else {
            TOLD_MS
        };
        let seen = if led { failing.clone() } else { failing.as_told(knower.born_ms) };
        let ends_ms = seen.ends_ms(asked.least(from_ms));
        let recovered = if failing.ended_ms.is_some() { ", and has recovered" } else { "" };
        (until_ms + early_ms < ends_ms).then(|| {
            format!("{node} fails since {} ms with grace until {ends_ms} ms{recovered}", failing.began_ms)
        })
    }

    /// Whether a status said that the node serves before it failed. Records whose write was not answered do not count.
    fn is_told_to_serve(&self, object: &Pool, node: &Node) -> bool {
        let case = self.cases.get(&(object.uid.clone(), node.name.clone()));
        let Some((failing, told_ms)) = case.and_then(|case| case.failing.as_ref().zip(case.told.from_ms))
        else {
            return false;
        };
        told_ms <= failing.began_ms
    }

    /// Whether the operator may hold something of an object back: for a node to recover, or to prove stable.
    pub(super) fn is_open(&self, uid: &str, blind: &Blindness, now_ms: u64) -> bool {
        let Some(asked) = self.asked.get(uid) else { return false };
        let (most, least) = (asked.most(), asked.least(blind.since(now_ms)));
        let cases = self.cases.iter().filter(|((of, _), _)| of == uid);
        cases.filter_map(|(_, case)| case.failing.as_ref()).any(|failing| {
            let until_ms = match (failing.ended_ms, failing.lost) {
                (Some(ended_ms), _) => ended_ms + most.to_recover,
                (None, Some(Lost { at_ms, surely: true })) => at_ms,
                (None, Some(_)) => failing.began_ms + most.of_pods + most.of_node,
                (None, None) => failing.ends_ms(most.with(least, u64::max)),
            };
            now_ms < until_ms + PROOF_MS
        })
    }

    /// Whether the operator may hold something of any object back.
    pub(super) fn is_any_open(&self, blind: &Blindness, now_ms: u64) -> bool {
        !self.cases.is_empty() && self.asked.keys().any(|uid| self.is_open(uid, blind, now_ms))
    }

    /// How much longer than without grace something may stay unchanged.
    pub(super) fn longest_ms(&self) -> u64 {
        self.longest_ms
    }

    /// Nodes that a status calls suspect although they have matched for long.
    pub(super) fn wrongly_suspected(&self, object: &Pool, blind: &Blindness, now_ms: u64) -> Vec<String> {
        let from_ms = blind.since(now_ms);
        let matched = |node: &&str| {
            let case = self.cases.get(&(object.uid.clone(), (*node).to_owned()));
            case.is_some_and(|case| {
                let matches_ms = match &case.failing {
                    // The node that failed may have been another one.
                    None => Some(case.since_ms),
                    Some(failing) => failing.ended_ms,
                };
                matches_ms.is_some_and(|at_ms| at_ms < from_ms)
            })
        };
        let wrong = suspected(object).into_iter().filter(matched);
        wrong.map(|node| format!("{node} is called suspect, and matches")).collect()
    }
}

impl Told {
    fn note(&mut self, says: bool, now_ms: u64, ours: bool) {
        if says && (self.from_ms.is_none() || self.until_ms.is_some()) {
            *self = Self { from_ms: Some(now_ms), until_ms: None, wiped: false };
        } else if !says && self.from_ms.is_some() && self.until_ms.is_none() {
            (self.until_ms, self.wiped) = (Some(now_ms), !ours);
        }
    }

    /// Whether a process that began to lead at `leads_ms` must have read it.
    fn bears_out(&self, since_ms: u64, leads_ms: u64) -> bool {
        let reads_ms = if self.wiped { leads_ms + START_MS } else { leads_ms };
        self.from_ms.is_some_and(|from_ms| from_ms <= since_ms)
            && self.until_ms.is_none_or(|until_ms| until_ms > reads_ms)
    }
}

impl Case {
    fn lose(&mut self, now_ms: u64, surely: bool) {
        if let Some(failing) = &mut self.failing {
            failing.lose(now_ms, surely);
            self.lost_ms = Some(now_ms);
        }
    }

    /// Takes in when a pod of the node says that it stopped being Ready.
    fn hear(&mut self, pods_say: Option<String>) {
        let Some(failing) = self.failing.as_mut().filter(|failing| failing.ended_ms.is_none()) else {
            return;
        };
        if pods_say > failing.pods_say {
            failing.told_anew = failing.before.is_some();
            failing.pods_say = pods_say;
        }
    }

    /// `doubtful`: a process that sees the node now need not know that it ever matched.
    fn note(&mut self, fails: Option<Fails>, doubtful: bool, blind: &Blindness, now_ms: u64) {
        let Some(fails) = fails else {
            if let Some(failing) = self.failing.as_mut().filter(|failing| failing.ended_ms.is_none()) {
                failing.ended_ms = Some(now_ms);
                self.lost_ms = failing.lost.map(|_| now_ms).or(self.lost_ms);
            }
            return;
        };
        if self.failing.as_ref().is_none_or(|failing| failing.ended_ms.is_some()) {
            let last = self.failing.as_ref().filter(|last| last.of_node.is_none());
            let before = last.and_then(|last| last.of_pods.zip(last.ended_ms));
            let pods_say = last.and_then(|last| last.pods_say.clone());
            let mut new = Failing { began_ms: now_ms, before, pods_say, ..Failing::default() };
            let from_ms = blind.since(now_ms);
            // A blind operator does not see that the node recovered in between.
            if let Some(last) = self
                .failing
                .take()
                .filter(|last| blind.is_blind(now_ms) && last.ended_ms.is_some_and(|at_ms| at_ms >= from_ms))
            {
                new = Failing { ended_ms: None, of_node: None, ..last };
            }
            self.failing = Some(new);
        }
        if let Some(failing) = &mut self.failing {
            match fails {
                Fails::Pods => _ = failing.of_pods.get_or_insert(now_ms),
                Fails::Node => _ = failing.of_node.get_or_insert(now_ms),
                Fails::ForGood => {}
            }
        }
        if fails == Fails::ForGood || doubtful {
            self.lose(now_ms, fails == Fails::ForGood);
        }
    }
}

/// Whether a used address of the pool is on the node.
fn stands(truth: &Truth, ips: &[IpView], pool: &Pool, node: &Node) -> bool {
    let used = pool.used();
    ips.iter().any(|view| node.holds(view) && used.contains(&view.ip) && truth.owns(pool, view.ip))
}

/// Whether the set's records contain an address of the node.
fn shown(truth: &Truth, cloud: &Cloud, set: &Pool, node: &Node) -> bool {
    let address = dns::address_of(set, node);
    let Some(place) = dns::place(set).filter(|_| !address.is_empty()) else { return false };
    dns::owner(truth, &place.site).is_some_and(|owner| owner.uid == set.uid)
        && cloud.a_records(place.site.0, &place.zone, &place.site.1).iter().any(|data| data == address)
}

/// Whether the status says that the node serves.
fn told(object: &Pool, is_pool: bool, node: &Node) -> bool {
    if is_pool {
        let id = node.droplet.map(|droplet| MACHINES.provider_id(droplet));
        return object.addresses().any(|(_, entry)| {
            text(entry, "/state") == "active" && id.as_deref() == Some(text(entry, "/providerID"))
        });
    }
    let address = dns::address_of(object, node);
    !address.is_empty() && items(&object.status, "/addresses").any(|shown| shown.as_str() == Some(address))
}

/// The nodes that a status calls suspect.
pub(super) fn suspected(object: &Pool) -> Vec<&str> {
    let of_pool = object.addresses().filter(|(_, entry)| !text(entry, "/suspectSince").is_empty());
    let of_pool = of_pool.map(|(_, entry)| text(entry, "/nodeName"));
    let of_set = items(&object.status, "/suspects").map(|entry| text(entry, "/node"));
    of_pool.chain(of_set).collect()
}

impl Judge {
    /// Takes in the failures of nodes.
    pub(super) fn look_at_failures(&mut self, now_ms: u64, ours: bool) {
        self.graces.look((&self.truth, &self.cloud), &self.blindness, now_ms, ours);
    }

    fn knower(&self, process: Process) -> Option<Knower> {
        let known = self.known.get(&process)?;
        Some(Knower { born_ms: known.born_ms?, leads_ms: known.leads_ms? })
    }

    /// I13: an address leaves a failing node only after its grace.
    pub(super) fn check_patience(&mut self, now_ms: u64, process: Process, ip: Ipv4Addr, droplet: u64) {
        let Some(old) = self.cloud.ip(ip).and_then(|view| view.droplet).filter(|old| *old != droplet) else {
            return;
        };
        // A user may have an address moved off a failing node.
        if let Some(text) = self.keeps(now_ms, process, ip, old)
            && !self.asked(now_ms, process, (ip, droplet))
        {
            self.blame(now_ms, "I13", format!("{process} takes {ip} off {old}: {text}"));
        }
    }

    fn keeps(&self, now_ms: u64, process: Process, ip: Ipv4Addr, droplet: u64) -> Option<String> {
        let from_ms = self.blindness.since(now_ms);
        let [name] = self.truth.owners(ip, from_ms).try_into().ok()?;
        let pool = self.truth.pools.get(&name)?;
        let moved_ms = self.by_hand.get(&ip).map(|at| self.blindness.unnoticed_until(*at));
        if moved_ms.is_some_and(|until_ms| until_ms + self.graces.longest_ms >= now_ms) {
            return None;
        }
        let node = self.truth.nodes.values().find(|node| node.droplet == Some(droplet))?;
        let knower = self.knower(process)?;
        self.graces.keeps((pool, &node.name), knower, &self.blindness, (from_ms, now_ms))
    }

    /// I13: the same for an address in records.
    pub(super) fn check_removal(&mut self, now_ms: u64, site: &dns::Site, address: &str) {
        if let Some(text) = self.keeps_record(now_ms, site, address) {
            self.blame(now_ms, "I13", format!("{address} leaves {}: {text}", site.1));
        }
    }

    fn keeps_record(&self, now_ms: u64, site: &dns::Site, address: &str) -> Option<String> {
        let from_ms = self.blindness.since_of_records(now_ms);
        let object = dns::owner(&self.truth, site)?;
        // If somebody edited the object, another round may be under way.
        let edited = self.former_since(from_ms).next().is_some();
        let zone = dns::place(object)?.zone;
        let stays = self.cloud.a_records(site.0, &zone, &site.1).iter().any(|data| data == address);
        if edited || stays || self.touched.contains_key(site) {
            return None;
        }
        let mut writers = self.open.values().filter(|open| open.facts.kind == crate::facts::Kind::Record);
        let process = writers.next()?.process;
        if let Some(ip) = address.parse().ok().filter(|ip| object.used().contains(ip)) {
            return self.keeps(now_ms, process, ip, self.cloud.ip(ip)?.droplet?);
        }
        let of_node = |node: &&Node| dns::address_of(object, node) == address;
        let node = self.truth.nodes.values().find(of_node)?;
        if !self.graces.is_told_to_serve(object, node) {
            return None;
        }
        self.graces.keeps((object, &node.name), self.knower(process)?, &self.blindness, (from_ms, now_ms))
    }
}
