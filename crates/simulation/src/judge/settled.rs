//! Liveness: once the faults are over, the desired state comes true and stays true, and the writes end.
//!
//! Names of rules: I3 convergence and rest, I5 no address forgotten, I9 honest status.

use super::conditions::{Scene, is_trouble};
use super::truth::{Node, Pool, Truth};
use super::untouched::LABELS;
use super::validity::text;
use super::{Judge, dns, firewalls, labels, requests, supply};
use crate::scene::REGION;
use flipop_cloud::{Cloud, IpView, Provider, RecordView};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The time between two looks of the judge.
pub(crate) const LOOK_MS: u64 = 2_000;

/// How long after everything is right the last Events may follow, one after another.
const LAST_WORDS_MS: u64 = 5_000;

/// The same if a status says why nodes do not match. Such a reason is updated once a minute at most.
const LAST_REASONS_MS: u64 = 65_000;

/// The progress of a run's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settling {
    /// How long the right state has to last without a write.
    rest_ms: u64,
    right_since: Option<u64>,
    /// Whether some status says why nodes do not match.
    pub(crate) tells_reasons: bool,
}

/// The basis of all complaints. While it is unchanged, so are they.
#[derive(Debug, PartialEq)]
pub(crate) struct Sight {
    ips: BTreeMap<Ipv4Addr, IpView>,
    records: BTreeMap<Provider, Vec<RecordView>>,
    refused: bool,
    /// The number of changes of the cluster's truth and of the account.
    changes: u64,
}

impl Sight {
    pub(crate) fn of(
        judge: &Judge,
        ips: BTreeMap<Ipv4Addr, IpView>,
        records: BTreeMap<Provider, Vec<RecordView>>,
    ) -> Self {
        Self { ips, records, refused: judge.is_refused(), changes: judge.changes }
    }
}

/// The addresses of the account.
pub(crate) fn views(cloud: &Cloud) -> BTreeMap<Ipv4Addr, IpView> {
    cloud.ips().into_iter().map(|view| (view.ip, view)).collect()
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    Look,
    Rest,
    Blame(String),
}

impl Settling {
    pub(crate) const fn new(rest_ms: u64) -> Self {
        Self { rest_ms, right_since: None, tells_reasons: false }
    }

    fn last_words_ms(&self) -> u64 {
        if self.tells_reasons { LAST_REASONS_MS } else { LAST_WORDS_MS }
    }

    /// Judges one look. All times are absolute. From `seen_ms` on, no old state can come up. From `right_ms` on,
    /// everything has to be right.
    pub(crate) fn look(
        &mut self,
        now_ms: u64,
        (seen_ms, right_ms): (u64, u64),
        complaints: &[String],
        wrote_ms: u64,
    ) -> Next {
        match (self.right_since, complaints) {
            (None, []) => {
                self.right_since = Some(now_ms);
                Next::Look
            }
            (Some(since), []) => {
                let quiet_from = since.max(seen_ms).saturating_add(self.last_words_ms());
                if wrote_ms > quiet_from {
                    return Next::Blame(format!(
                        "all is right since {since} ms, and yet it writes at {wrote_ms} ms"
                    ));
                }
                let rested = now_ms.saturating_sub(since.max(wrote_ms)) >= self.rest_ms;
                if rested { Next::Rest } else { Next::Look }
            }
            (Some(since), wrong) if now_ms > since.max(seen_ms).saturating_add(LOOK_MS) => {
                Next::Blame(format!("it was right at {since} ms and is so no more: {}", wrong.join("; ")))
            }
            (_, wrong) if now_ms >= right_ms => Next::Blame(wrong.join("; ")),
            _ => {
                self.right_since = None;
                Next::Look
            }
        }
    }
}

impl Judge {
    /// Whether some status says why nodes do not match.
    pub(crate) fn tells_reasons(&self) -> bool {
        let objects = self.truth.pools.values().chain(self.truth.record_sets.values());
        objects.flat_map(Pool::conditions).any(|condition| {
            text(condition, "/type") == "AddressesIdle"
                || text(condition, "/message").contains("no node matches spec.match")
        })
    }

    /// I9: each trouble has had an Event, if no fault can have kept one away.
    pub(crate) fn check_events(&mut self, now_ms: u64) {
        if self.blindness.hides_nothing() {
            for untold in self.tellings.untold() {
                self.blame(now_ms, "I9", untold);
            }
        }
    }
}

/// Everything that is wrong. `foreign`: the records of others.
pub(crate) fn complaints(
    judge: &Judge,
    sight: &Sight,
    foreign: &BTreeMap<Provider, Vec<RecordView>>,
) -> Vec<String> {
    let Sight { ips, records, refused, .. } = sight;
    let mut all = Vec::new();
    let scene = Scene { truth: &judge.truth, ips, records, region: REGION, refused: *refused };
    for pool in judge.truth.pools.values().filter(|pool| !pool.deleting) {
        if !pool.is_frozen() {
            check_pool(judge, &scene, pool, &mut all);
            all.extend(requests::unanswered(pool));
        }
        scene.check_pool(pool, &mut all);
    }
    for set in judge.truth.record_sets.values().filter(|set| !set.deleting) {
        scene.check_record_set(set, &mut all);
    }
    check_annotations(judge, ips, &mut all);
    labels::check(judge, &mut all);
    firewalls::check(judge, &mut all);
    check_created(judge, ips, &mut all);
    check_given_back(judge, ips, &mut all);
    check_gone(&judge.truth, ips, &mut all);
    check_foreign(judge, foreign, records, &mut all);
    let views: Vec<IpView> = ips.values().cloned().collect();
    let wanted = dns::wanted(&judge.truth, &views);
    all.extend(wanted.values().filter_map(|wanted| wanted.complaint(&judge.cloud, &judge.touched)));
    all
}

/// A pool has the addresses that it asks for, and they are on matching nodes.
fn check_pool(judge: &Judge, scene: &Scene<'_>, pool: &Pool, all: &mut Vec<String>) {
    let name = &pool.name;
    let uncertain = pool.condition("CreationUncertain").is_some_and(is_trouble);
    let known = pool.effective().len();
    if known < pool.desired() && !uncertain && scene.can_buy(pool) {
        all.push(format!("{name}: {known} of {} addresses", pool.desired()));
    }
    if let Some((ip, node)) = supply::pair(&judge.truth, pool, scene.ips) {
        all.push(format!("{name}: {ip} is idle and {node} has none"));
    }
}

/// A node is annotated exactly while it is a candidate and a used address is on it.
fn check_annotations(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    for pool in judge.truth.pools.values().filter(|pool| !pool.deleting && !pool.is_frozen()) {
        let used = supply::usable(&judge.truth, pool, ips);
        for node in judge.truth.candidates(pool) {
            let stands = used.iter().find(|view| node.holds(view));
            wanted.extend(stands.map(|view| (node.name.clone(), view.ip.to_string())));
        }
    }
    // A frozen pool keeps its confirmed annotations.
    let frozen = |node: &Node| {
        let stands = ips.values().find(|view| node.holds(view));
        let view = stands.filter(|view| Some(view.ip.to_string()) == node.annotation);
        view.and_then(|view| judge.truth.owner(view.ip)).is_some_and(Pool::is_frozen)
    };
    for node in judge.truth.nodes.values() {
        let want = wanted.get(&node.name);
        if node.annotation.as_ref() != want && !frozen(node) {
            all.push(format!("{} is annotated {:?}, not {want:?}", node.name, node.annotation));
        }
    }
}

/// I5: a pool names each bought address or calls it uncertain, unless the address's own pool was deleted.
pub(super) fn check_created(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    for ip in judge.created.difference(&judge.nobodys).filter(|ip| ips.contains_key(*ip)) {
        if !judge.truth.pools.values().any(|pool| pool.mentions(*ip)) {
            all.push(format!("{ip} was bought and nobody names it"));
        }
    }
}

/// An address that a pool gives back is gone and forgotten, or a condition says why not.
pub(super) fn check_given_back(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    for pool in judge.truth.pools.values().filter(|pool| pool.deleting || !pool.is_frozen()) {
        if pool.condition("ReclaimBlocked").is_some() {
            continue;
        }
        if pool.deleting {
            all.push(format!("{}: it is being deleted and is still there", pool.name));
        }
        for ip in ips.keys().filter(|ip| pool.gives_back(**ip)) {
            all.push(format!("{}: {ip} is to be given back and is still there", pool.name));
        }
        if pool.condition("Reclaiming").is_some() {
            all.push(format!("{}: it still gives something back", pool.name));
        }
    }
}

/// A created address that is missing in the account is forgotten, if the account has another address that pools
/// name. If it has none, the absence proves nothing.
pub(super) fn check_gone(truth: &Truth, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    let live = || truth.pools.values().filter(|pool| !pool.deleting);
    if !live().flat_map(Pool::effective).any(|ip| ips.contains_key(&ip)) {
        return;
    }
    for pool in live().filter(|pool| !pool.is_frozen()) {
        for ip in pool.remembered().into_iter().filter(|ip| !ips.contains_key(ip)) {
            all.push(format!("{}: {ip} is gone and still remembered as created", pool.name));
        }
    }
}

/// I4: the records of others are unchanged.
fn check_foreign(
    judge: &Judge,
    foreign: &BTreeMap<Provider, Vec<RecordView>>,
    records: &BTreeMap<Provider, Vec<RecordView>>,
    all: &mut Vec<String>,
) {
    for (provider, now) in records {
        let ours = |record: &&RecordView| {
            record.rtype == "A" && judge.sites.contains(&(*provider, record.fqdn.clone()))
        };
        let others: Vec<_> = now.iter().filter(|record| !ours(record)).collect();
        let before = foreign.get(provider).into_iter().flatten().filter(|record| !ours(record));
        if !before.eq(others.iter().copied()) {
            all.push(format!("records of others have changed at {provider:?}: {others:?}"));
        }
    }
}

/// The end state, without the differences between equally good runs: which address is on which of the matching
/// nodes.
pub(crate) fn summary(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>) -> Vec<String> {
    let mut lines = Vec::new();
    for pool in judge.truth.pools.values() {
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for state in pool.states().into_values() {
            *states.entry(state).or_default() += 1;
        }
        lines.push(format!("pool {}: {} addresses {states:?}", pool.name, pool.used().len()));
    }
    lines.push(format!("account: {} addresses", ips.len()));
    let mut nodes: BTreeMap<(bool, bool, usize), usize> = BTreeMap::new();
    for node in judge.truth.nodes.values() {
        let holds = ips.values().any(|view| node.holds(view));
        let labels = LABELS.iter().filter(|key| node.labels.contains_key(**key)).count();
        *nodes.entry((holds, node.annotation.is_some(), labels)).or_default() += 1;
    }
    for ((holds, annotated, labels), count) in nodes {
        lines.push(format!("{count} nodes: with an address {holds}, annotated {annotated}, {labels} labels"));
    }
    for firewall in judge.cloud.firewalls() {
        let (droplets, rules) = (firewall.droplets.len(), firewall.inbound);
        lines.push(format!("a firewall of {droplets} droplets that lets in {rules:?}"));
    }
    // The number of records, and not the records themselves, since each run buys other addresses. Names that are no
    // longer asked for stay as they are, complete or not.
    let records = dns::records(&judge.cloud);
    for (provider, name) in BTreeSet::from_iter(dns::sites(&judge.truth)) {
        let of_name = records.get(&provider).into_iter().flatten().filter(|record| record.fqdn == name);
        let addresses = of_name.filter(|record| record.rtype == "A").count();
        lines.push(format!("{provider:?}: {addresses} addresses at {name}"));
    }
    for object in judge.truth.pools.values().chain(judge.truth.record_sets.values()) {
        let troubles: BTreeSet<&str> = object
            .conditions()
            .filter(|condition| is_trouble(condition))
            .map(|condition| text(condition, "/type"))
            .collect();
        lines.push(format!("{} tells of {troubles:?}", object.name));
    }
    lines
}
