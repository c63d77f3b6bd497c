//! Liveness: once the faults are over, what is desired comes true, stays true, and nothing is written any more.
//!
//! Names of rules: I3 convergence and rest, I5 no address forgotten, I9 honest status.

use super::conditions::{Scene, is_trouble};
use super::dns;
use super::requests;
use super::supply;
use super::truth::{Node, Pool, Truth};
use super::untouched::LABELS;
use super::validity::text;
use super::{Judge, firewalls, labels};
use crate::scene::REGION;
use flipop_cloud::{Cloud, IpView, Provider, RecordView};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// How long it has to stay so, without one write.
const REST_MS: u64 = 600_000;

/// How often one looks.
pub(crate) const LOOK_MS: u64 = 2_000;

/// How long after all is right the last word of it may be written: Events, one after the other.
const LAST_WORDS_MS: u64 = 5_000;

/// The same where a status says why nodes do not match, which is told anew once a minute at most.
const LAST_REASONS_MS: u64 = 65_000;

/// How far the end of a run has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settling {
    right_since: Option<u64>,
    /// Some status says why nodes do not match.
    pub(crate) tells_reasons: bool,
}

/// All that complaints are made from: while it stays the same, so do they.
#[derive(Debug, PartialEq)]
pub(crate) struct Sight {
    ips: BTreeMap<Ipv4Addr, IpView>,
    records: BTreeMap<Provider, Vec<RecordView>>,
    refused: bool,
    /// So many changes of the cluster's truth and of the account were heard of.
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

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    Look,
    Rest,
    Blame(String),
}

impl Settling {
    fn last_words_ms(&self) -> u64 {
        if self.tells_reasons { LAST_REASONS_MS } else { LAST_WORDS_MS }
    }

    /// Judges one look. All times are absolute: `seen_ms` when nothing old can come up any more, `right_ms` when all has
    /// to be right.
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
                let rested = now_ms.saturating_sub(since.max(wrote_ms)) >= REST_MS;
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
            let text =
                |field: &str| condition.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
            text("type") == "AddressesIdle" || text("message").contains("no node matches spec.match")
        })
    }

    /// I9: where nothing can have kept an Event away, each trouble has had one.
    pub(crate) fn check_events(&mut self, now_ms: u64) {
        if self.blindness.hides_nothing() {
            for untold in self.tellings.untold() {
                self.blame(now_ms, "I9", untold);
            }
        }
    }
}

/// What is not as it should be. `foreign`: the records of others.
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

/// A pool has what it asks for, and what it has stands on nodes that match.
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

/// A node is annotated exactly while a used address stands on it and it is a candidate.
fn check_annotations(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    for pool in judge.truth.pools.values().filter(|pool| !pool.deleting) {
        if pool.is_frozen() {
            continue;
        }
        let used = supply::usable(&judge.truth, pool, ips);
        for node in judge.truth.candidates(pool) {
            if let Some(view) =
                used.iter().find(|view| view.droplet.is_some() && view.droplet == node.droplet)
            {
                wanted.insert(node.name.clone(), view.ip.to_string());
            }
        }
    }
    // Of a frozen pool what was confirmed stays.
    let frozen = |node: &Node| {
        let stands = ips.values().find(|view| view.droplet.is_some() && view.droplet == node.droplet);
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

/// I5: every address that was bought is named by a pool, or said to be uncertain, unless its pool was deleted.
pub(super) fn check_created(judge: &Judge, ips: &BTreeMap<Ipv4Addr, IpView>, all: &mut Vec<String>) {
    for ip in judge.created.difference(&judge.nobodys).filter(|ip| ips.contains_key(*ip)) {
        if !judge.truth.pools.values().any(|pool| pool.mentions(*ip)) {
            all.push(format!("{ip} was bought and nobody names it"));
        }
    }
}

/// What a pool gives back is gone and forgotten, or a condition says why not.
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

/// A created address that the account has no more is forgotten, as soon as another that pools name is there: where none
/// is, its absence says nothing.
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

/// I4: the records of others are as they were.
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

/// The end state, without what differs between equally good runs: which address stands on which of the
/// nodes that match.
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
        let holds = ips.values().any(|view| view.droplet.is_some() && view.droplet == node.droplet);
        let labels = LABELS.iter().filter(|key| node.labels.contains_key(**key)).count();
        *nodes.entry((holds, node.annotation.is_some(), labels)).or_default() += 1;
    }
    for ((holds, annotated, labels), count) in nodes {
        lines.push(format!("{count} nodes: with an address {holds}, annotated {annotated}, {labels} labels"));
    }
    for firewall in judge.cloud.firewalls() {
        lines.push(format!(
            "a firewall of {} droplets that lets in {:?}",
            firewall.droplets.len(),
            firewall.inbound
        ));
    }
    // How many, not which: those that are bought are others in each run. Names that are asked for no more stay as
    // they are, complete or not.
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
