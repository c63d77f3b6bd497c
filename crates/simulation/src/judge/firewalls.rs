//! I19: the ports that firewalls of pools open and close, and the droplets that they govern.
//!
//! While an address is on a droplet, no port that its pool asks for is closed there. No port opens that no pool
//! asks for. No droplet enters unless another firewall governs it. Firewalls of others stay unchanged. In the end
//! the ports are open exactly where they are asked for. The judge reads all of this from the account and the specs.

use super::Judge;
use super::selector::selects;
use super::since::Since;
use super::truth::{Node, Pool, items};
use super::validity::{field, text};
use crate::facts::{Facts, Kind};
use crate::scene::{HOME, POOLS, firewall_prefix};
use flipop_cloud::FirewallView;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// From the sending of a call to its effect.
const LATE_MS: u64 = 11_000;

/// A change may rest on a read of the account that is this old: a look of several slow pages, 3 s in which it
/// counts, the change itself, and a list that lags.
const SEEN_MS: u64 = 60_000;

/// The same for the place of an address, if people move addresses.
const PLACE_MS: u64 = 600_000;

/// How long an assignment waits for its firewall, with a margin for the judge's clock.
const GATE_MS: u64 = 9_500;

/// The judge's knowledge of firewalls.
#[derive(Debug, Default)]
pub(super) struct Walls {
    /// Firewalls that the operator made.
    ours: BTreeSet<String>,
    views: BTreeMap<String, FirewallView>,
    /// Whether a firewall that is not ours governs a droplet, or did.
    covered: BTreeMap<u64, Since>,
    /// Whether an address is on a droplet, or was.
    stood: BTreeMap<(Ipv4Addr, u64), Since>,
    /// Since when each pool asks for ports on each droplet.
    asked: BTreeMap<(String, u64), u64>,
}

/// The rules that a pool asks for, as `protocol/port/source`. The specs of plans have no mistakes in this field.
pub(super) fn rules(spec: &Value) -> BTreeSet<String> {
    let ports = items(spec, "/firewall/ports").map(|port| match text(port, "/port") {
        "" => format!("{}/0", text(port, "/protocol")),
        number => format!("{}/{number}", text(port, "/protocol")),
    });
    let sources: Vec<&str> = items(spec, "/firewall/sources").filter_map(Value::as_str).collect();
    ports.flat_map(|port| sources.iter().map(move |source| format!("{port}/{source}"))).collect()
}

/// Whether the status of a pool says that its ports are being opened. An assignment may wait for that.
pub(super) fn opens(pool: &Pool) -> bool {
    pool.condition("FirewallReady").is_some_and(|told| text(told, "/reason") == "Applying")
}

/// Whether a name has the form of the operator's names, in any cluster.
fn is_named_like_ours(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    matches!(parts.as_slice(), ["flipop", uid, number] if uid.len() == 8 && number.parse::<u64>().is_ok())
}

fn has_label(pool: &Pool, node: &Node) -> bool {
    selects(text(&pool.spec, "/match/nodeLabel"), &node.labels)
}

impl Judge {
    /// An address came to a droplet, or left one.
    pub(super) fn note_place(&mut self, now_ms: u64, ip: Ipv4Addr, from: Option<u64>, to: Option<u64>) {
        for (droplet, stands) in [(from, false), (to, true)] {
            if let Some(droplet) = droplet {
                self.walls.stood.entry((ip, droplet)).or_default().set(stands, now_ms);
            }
        }
    }

    /// Somebody else changed firewalls, or tags.
    pub(crate) fn firewalls_by_hand(&mut self, now_ms: u64) {
        let views = self.cloud.firewalls().into_iter().map(|view| (view.id.clone(), view));
        self.walls.views = views.collect();
        self.note_cover(now_ms);
    }

    /// Whether a firewall that no pool owns or owned governs a droplet.
    fn others(&self, droplet: u64) -> bool {
        self.cloud.governing(droplet).iter().any(|id| {
            let named = self.walls.views.get(id).is_some_and(|view| is_named_like_ours(&view.name));
            !self.walls.ours.contains(id) && !named
        })
    }

    fn note_cover(&mut self, now_ms: u64) {
        let mut droplets: BTreeSet<u64> = self.truth.nodes.values().filter_map(|node| node.droplet).collect();
        droplets.extend(self.walls.covered.keys());
        droplets.extend(self.walls.views.values().flat_map(|view| &view.droplets));
        for droplet in droplets {
            let covered = self.others(droplet);
            self.walls.covered.entry(droplet).or_default().set(covered, now_ms);
        }
    }

    /// A firewall was made, changed or deleted.
    pub(super) fn firewall_changed(&mut self, now_ms: u64, id: &str, by_operator: bool) {
        let before = std::mem::take(&mut self.walls.views);
        if by_operator && !before.contains_key(id) {
            self.walls.ours.insert(id.to_owned());
        }
        self.firewalls_by_hand(now_ms);
        if !by_operator {
            return;
        }
        let mut wrong = Vec::new();
        let after = &self.walls.views;
        let foreign = before.iter().filter(|(id, _)| !self.walls.ours.contains(*id));
        for (other, view) in foreign {
            if after.get(other).map(|now| &now.whole) != Some(&view.whole) {
                wrong.push(format!("the firewall {} of others was changed", view.name));
            }
        }
        let (old, new) = (before.get(id), after.get(id));
        self.check_change(now_ms, old, new, &mut wrong);
        for text in wrong {
            self.blame(now_ms, "I19", text);
        }
    }

    fn check_change(
        &self,
        now_ms: u64,
        old: Option<&FirewallView>,
        new: Option<&FirewallView>,
        wrong: &mut Vec<String>,
    ) {
        let Some(name) = new.or(old).map(|view| view.name.as_str()) else { return };
        let from_ms = self.blindness.since(now_ms).saturating_sub(LATE_MS);
        let of = |pool: &&Pool| !pool.uid.is_empty() && name.starts_with(&firewall_prefix(&pool.uid));
        let pools: Vec<&Pool> = self.pools_since(from_ms).filter(of).collect();
        let Some(pool) = pools.first() else {
            wrong.push(format!("{name} is made, changed or deleted, and no pool owns it"));
            return;
        };
        let nothing = FirewallView::default();
        let (old, new) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
        let asked: BTreeSet<String> = pools.iter().flat_map(|pool| rules(&pool.spec)).collect();
        for rule in new.inbound.difference(&old.inbound).filter(|rule| !asked.contains(*rule)) {
            wrong.push(format!("{name} opens {rule}, which no pool asks for"));
        }
        let out = |view: &FirewallView| field(&view.whole, "/outbound_rules").cloned().unwrap_or_default();
        if out(new) != out(old) && out(new).as_array().is_some_and(|rules| !rules.is_empty()) {
            wrong.push(format!("{name} lets something out"));
        }
        if !new.tags.is_subset(&old.tags) {
            wrong.push(format!("{name} governs by a tag"));
        }
        for droplet in new.droplets.difference(&old.droplets) {
            if !pools.iter().any(|pool| self.is_wanted(pool, *droplet, from_ms)) {
                wrong.push(format!("{droplet} is put into {name}, and the pool does not use it"));
            }
            let covered = self.walls.covered.get(droplet);
            if !covered.is_some_and(|covered| covered.held(now_ms.saturating_sub(SEEN_MS))) {
                wrong.push(format!("{droplet} is put into {name}, and no other firewall governs it"));
            }
        }
        let left: BTreeSet<u64> = old.droplets.difference(&new.droplets).copied().collect();
        let isolated = !left.is_empty() && left.iter().all(|droplet| self.is_bare(*droplet, now_ms));
        if self.pauses.held(POOLS, &pool.name, from_ms).is_some() && !isolated {
            wrong.push(format!("{name} changes for a paused pool"));
        }
        self.check_closed(now_ms, from_ms, (old, new), wrong);
    }

    /// Whether no other firewall governs a droplet, or none did a moment ago.
    fn is_bare(&self, droplet: u64, now_ms: u64) -> bool {
        let covered = self.walls.covered.get(&droplet);
        covered.is_none_or(|covered| covered.lapsed(now_ms.saturating_sub(SEEN_MS)))
    }

    /// Whether a pool uses a droplet, or did. It does by the labels of the droplet's node, or by an address of the
    /// pool there.
    fn is_wanted(&self, pool: &Pool, droplet: u64, from_ms: u64) -> bool {
        let mut nodes = self.truth.nodes_since(from_ms);
        let labelled = nodes.any(|node| node.droplet == Some(droplet) && has_label(pool, node));
        let place_ms = from_ms.saturating_sub(PLACE_MS);
        let mut stood = self.walls.stood.iter();
        labelled || stood.any(|((ip, on), since)| *on == droplet && since.held(place_ms) && pool.held(*ip))
    }

    /// No port that the pool of an address asks for is closed on the droplet of that address.
    fn check_closed(
        &self,
        now_ms: u64,
        from_ms: u64,
        (old, new): (&FirewallView, &FirewallView),
        wrong: &mut Vec<String>,
    ) {
        for droplet in &old.droplets {
            let kept = new.droplets.contains(droplet);
            let lost = old.inbound.iter().filter(|rule| !kept || !new.inbound.contains(*rule));
            let governing = self.cloud.governing(*droplet);
            for rule in lost {
                let views = governing.iter().filter_map(|id| self.walls.views.get(id));
                if views.into_iter().any(|view| view.inbound.contains(rule)) || self.is_bare(*droplet, now_ms)
                {
                    continue;
                }
                let stood = self.walls.stood.iter();
                for ((ip, _), since) in
                    stood.filter(|((_, on), since)| on == droplet && !since.lapsed(from_ms))
                {
                    let surely = since.is_old(from_ms) && !self.is_moved_lately(*ip, now_ms);
                    if surely && self.asks_throughout(*ip, rule, from_ms) {
                        wrong.push(format!("{rule} is closed on {droplet}, where {ip} stands"));
                    }
                }
            }
        }
    }

    fn is_moved_lately(&self, ip: Ipv4Addr, now_ms: u64) -> bool {
        self.by_hand.get(&ip).is_some_and(|at_ms| self.blindness.is_unnoticed(*at_ms, now_ms))
    }

    /// Whether the pool of an address has asked for a port at all times since `from_ms`.
    fn asks_throughout(&self, ip: Ipv4Addr, rule: &str, from_ms: u64) -> bool {
        let Some(owner) = self.truth.owner(ip).filter(|owner| !owner.is_frozen()) else { return false };
        let mut all = self.former_since(from_ms).filter(|pool| pool.uid == owner.uid).chain([owner]);
        all.all(|pool| rules(&pool.spec).contains(rule) && pool.effective().contains(&ip))
    }

    /// An assignment waits for the ports of its droplet, within its limit.
    pub(super) fn check_gate(&mut self, now_ms: u64, facts: &Facts) {
        let Kind::Assign { ip, droplet } = facts.kind else { return };
        if !self.blindness.calm.is_calm(HOME, now_ms) {
            return;
        }
        let Some(pool) = self.truth.owner(ip) else { return };
        let asked = rules(&pool.spec);
        let missing = self.cloud.lets_in(droplet).is_some_and(|open| !asked.is_subset(&open));
        // Of a new pool nothing is told yet. Its first assignment waits like every other.
        let ready = pool.condition("FirewallReady").is_none_or(|told| text(told, "/status") != "False");
        let lately = now_ms.saturating_sub(GATE_MS);
        let key = (pool.uid.clone(), droplet);
        let since_ms = self.walls.asked.get(&key).copied();
        let covered = self.walls.covered.get(&droplet).is_some_and(|covered| !covered.lapsed(lately));
        if missing && ready && covered && since_ms.is_some_and(|at_ms| at_ms > lately) {
            self.blame(now_ms, "I19", format!("{ip} goes to {droplet} before its ports are open there"));
        }
    }

    /// Notes since when each pool asks for ports on which droplets, and whether others' firewalls govern these.
    pub(super) fn note_asked(&mut self, now_ms: u64) {
        let mut asked = BTreeMap::new();
        for pool in self.truth.pools.values().filter(|pool| !pool.deleting && !rules(&pool.spec).is_empty()) {
            for node in self.truth.nodes.values().filter(|node| has_label(pool, node)) {
                let Some(droplet) = node.droplet else { continue };
                let key = (pool.uid.clone(), droplet);
                let since_ms = self.walls.asked.get(&key).copied().unwrap_or(now_ms);
                asked.insert(key, since_ms);
            }
        }
        if asked.keys().ne(self.walls.asked.keys()) {
            self.note_cover(now_ms);
        }
        self.walls.asked = asked;
    }
}

/// The mistakes in firewalls once everything is quiet.
pub(super) fn check(judge: &Judge, all: &mut Vec<String>) {
    let views: Vec<&FirewallView> = judge.walls.views.values().collect();
    if views.is_empty() && judge.walls.asked.is_empty() {
        return;
    }
    for pool in judge.truth.pools.values().filter(|pool| !pool.deleting && !pool.is_frozen()) {
        check_pool(judge, pool, all);
    }
}

fn check_pool(judge: &Judge, pool: &Pool, all: &mut Vec<String>) {
    let name = &pool.name;
    let asked = rules(&pool.spec);
    let prefix = firewall_prefix(&pool.uid);
    let own: Vec<&FirewallView> =
        judge.walls.views.values().filter(|view| view.name.starts_with(&prefix)).collect();
    let told: BTreeSet<(&str, &str)> =
        items(&pool.status, "/firewalls").map(|entry| (text(entry, "/id"), text(entry, "/name"))).collect();
    let there: BTreeSet<(&str, &str)> =
        own.iter().map(|view| (view.id.as_str(), view.name.as_str())).collect();
    if told != there {
        all.push(format!("{name}: status.firewalls names {told:?}, and there are {there:?}"));
    }
    let labelled =
        judge.truth.nodes.values().filter(|node| has_label(pool, node)).filter_map(|node| node.droplet);
    let owned = |ip: &Ipv4Addr| judge.truth.owns(pool, *ip);
    let held = pool.effective().into_iter().filter(owned).filter_map(|ip| judge.cloud.ip(ip)?.droplet);
    let wanted: BTreeSet<u64> =
        if asked.is_empty() { BTreeSet::new() } else { labelled.chain(held).collect() };
    let (covered, bare): (BTreeSet<u64>, BTreeSet<u64>) =
        wanted.iter().partition(|droplet| judge.others(**droplet));
    let members: Vec<u64> = own.iter().flat_map(|view| view.droplets.iter().copied()).collect();
    let mut sorted = members.clone();
    sorted.sort_unstable();
    if sorted != covered.iter().copied().collect::<Vec<_>>() {
        all.push(format!("{name}: its firewalls hold {members:?}, not {covered:?}"));
    }
    for view in &own {
        if view.inbound != asked || !view.tags.is_empty() {
            all.push(format!(
                "{name}: {} lets in {:?} and has {:?}, not {asked:?}",
                view.name, view.inbound, view.tags
            ));
        }
    }
    let ready = pool.says("FirewallReady");
    let right = match (asked.is_empty(), wanted.is_empty()) {
        (true, _) => ready == ("", ""),
        (false, true) => [("", ""), ("True", "Applied")].contains(&ready),
        (false, false) => ready == ("True", "Applied"),
    };
    if !right {
        all.push(format!("{name}: FirewallReady is {ready:?}, and it asks for {asked:?}"));
    }
    if pool.condition("FirewallWouldIsolate").is_some() == bare.is_empty() {
        all.push(format!(
            "{name}: no other firewall governs {bare:?}, and FirewallWouldIsolate says otherwise"
        ));
    }
}
