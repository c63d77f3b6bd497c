//! I9: the status of an object at rest is true: states, conditions, node lists, names and addresses. It mentions no
//! trouble that is over.
//!
//! The judge derives what a status must say from the world and docs/reference, with the reasons of the catalog in core.

use super::dns::{self, Place};
use super::grace::suspected;
use super::truth::{Node, Pool, Truth, items};
use super::validity::{self, Reach, text};
use crate::scene::MACHINES;
use flipop_cloud::{IpView, Provider, RecordView};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::Ipv4Addr;

/// Conditions about troubles that no plan makes permanent.
const OVER: [&str; 7] = [
    "ProviderReady",
    "Stalled",
    "WatchFailing",
    "AnnotationsDenied",
    "WriteDenied",
    "CRDsOutdated",
    // A node that serves nothing is checked every 10 s, and ten checks in a row have to pass.
    "ChecksDoubted",
];

/// The status and the reason of a condition.
type Says = (&'static str, &'static str);
const ASSIGNING: Says = ("False", "Assigning");
const ADDRESS_CLAIMED: Says = ("False", "AddressClaimed");
const ADDRESS_NOT_FOUND: Says = ("False", "AddressNotFound");
const NODES_CLAIMED: Says = ("False", "NodesClaimed");

/// How many addresses a message names.
const MAX_NAMED: usize = 5;

/// The world that a status is compared with.
pub(super) struct Scene<'a> {
    pub(super) truth: &'a Truth,
    pub(super) ips: &'a BTreeMap<Ipv4Addr, IpView>,
    pub(super) records: &'a BTreeMap<Provider, Vec<RecordView>>,
    /// The region where addresses can be bought.
    pub(super) region: &'a str,
    /// The token was refused a move or a purchase, and none was accepted since. So nobody can know whether it has the
    /// right.
    pub(super) refused: bool,
}

/// The complaints about one object.
struct Complaints<'a> {
    name: &'a str,
    all: &'a mut Vec<String>,
}

impl Complaints<'_> {
    fn add(&mut self, text: &str) {
        self.all.push(format!("{}: {text}", self.name));
    }

    /// Expects a value to be one of these.
    fn expect<T: Copy + Debug + PartialEq>(&mut self, what: &str, is: T, right: &[T]) {
        if !right.contains(&is) {
            self.add(&format!("{what} is {is:?}, not one of {right:?}"));
        }
    }
}

/// Whether a condition reports trouble.
pub(super) fn is_trouble(condition: &Value) -> bool {
    let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
    match kind {
        "Ready" | "RecordSetReady" => false,
        "SpecValid" | "ProviderReady" | "FirewallReady" => status == "False",
        _ => status == "True",
    }
}

fn strings(value: &Value, field: &str) -> Vec<String> {
    items(value, &format!("/{field}")).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The addresses that a text names.
fn addresses_in(text: &str) -> BTreeSet<Ipv4Addr> {
    text.split(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .filter_map(|word| word.trim_end_matches('.').parse().ok())
        .collect()
}

impl Scene<'_> {
    fn named(&self, ip: Ipv4Addr) -> bool {
        self.truth.pools.values().any(|pool| !pool.deleting && pool.effective().contains(&ip))
    }

    /// Checks the status of a pool.
    pub(super) fn check_pool(&self, pool: &Pool, all: &mut Vec<String>) {
        let mut wrong = Complaints { name: &pool.name, all };
        let mistakes = validity::of_pool(&pool.spec);
        Self::check_common(pool, &mut wrong);
        let spec_valid = mistakes.first().map_or(("True", "Valid"), |reach| ("False", reach.reason()));
        wrong.expect("SpecValid", pool.says("SpecValid"), &[spec_valid]);
        for kind in OVER {
            let refused = self.refused && pool.says(kind) == ("False", "Unauthorized");
            if pool.condition(kind).is_some_and(is_trouble) && !refused {
                wrong.add(&format!("{kind} still stands: {:?}", pool.says(kind)));
            }
        }
        let lost = pool.effective().into_iter().any(|ip| !self.truth.owns(pool, ip));
        let conflict = if lost { ("True", "AddressClaimed") } else { ("", "") };
        wrong.expect("Conflict", pool.says("Conflict"), &[conflict]);
        let failed = pool.says("CreationFailed").0 == "True";
        if failed && self.can_buy(pool) {
            wrong.add("CreationFailed still stands");
        }
        let error = text(&pool.status, "/error");
        if error.is_empty() != (mistakes.is_empty() && !failed) {
            wrong.add(&format!("status.error is {error:?} with {mistakes:?}"));
        }
        self.check_uncertain(pool, &mut wrong);
        if validity::is_frozen(&mistakes) {
            wrong.expect("Ready", pool.says("Ready"), &[("False", "InvalidSpec")]);
        } else {
            self.check_addresses(pool, &mut wrong);
            self.check_waiting(pool, &mut wrong);
            self.check_ready(pool, &mut wrong);
            self.check_idle(pool, &mut wrong);
            self.check_records(pool, "RecordSet", mistakes.contains(&Reach::RecordSet), &mut wrong);
        }
    }

    /// Checks what both kinds have in common.
    fn check_common(object: &Pool, wrong: &mut Complaints<'_>) {
        if object.observed() != object.generation {
            wrong.add(&format!("generation {} is not observed", object.generation));
        }
        let kinds: Vec<&str> = object.conditions().map(|condition| text(condition, "/type")).collect();
        let unique: BTreeSet<&str> = kinds.iter().copied().collect();
        if unique.len() != kinds.len() {
            wrong.add(&format!("conditions are repeated: {kinds:?}"));
        }
        if kinds.contains(&"Suspect") || !suspected(object).is_empty() {
            wrong.add("nodes are suspected for good");
        }
    }

    /// Whether an address that this pool lacks can be bought.
    pub(super) fn can_buy(&self, pool: &Pool) -> bool {
        let mistakes = validity::of_pool(&pool.spec);
        let stopped = validity::is_frozen(&mistakes) || mistakes.contains(&Reach::Creation);
        !stopped && text(&pool.spec, "/region") == self.region
    }

    /// `CreationUncertain` names addresses that may be the pool's and that no pool names.
    fn check_uncertain(&self, pool: &Pool, wrong: &mut Complaints<'_>) {
        let Some(found) = pool.condition("CreationUncertain").filter(|c| text(c, "/status") == "True") else {
            return;
        };
        let named = addresses_in(text(found, "/message"));
        let several = text(found, "/reason") == "SeveralNewAddresses";
        // An address that was on a candidate is watched until it leaves its droplet, even if that node is no candidate
        // any more.
        let fits = |ip: &Ipv4Addr| {
            self.ips.get(ip).is_some_and(|view| view.droplet.is_none() == several) && !self.named(*ip)
        };
        if named.len() < if several { 2 } else { 1 } || !named.iter().all(fits) {
            wrong.add(&format!("CreationUncertain still stands and names {named:?}"));
        }
    }

    fn check_addresses(&self, pool: &Pool, wrong: &mut Complaints<'_>) {
        let entries = pool.status.get("ips").and_then(Value::as_object).cloned().unwrap_or_default();
        let (expected, used) = (pool.entries(), pool.used());
        let told: BTreeSet<String> = entries.keys().cloned().collect();
        if expected != told {
            wrong.add(&format!("status.ips names {told:?}, not {expected:?}"));
            return;
        }
        let absent = Value::Null;
        let mut active = 0;
        for ip in pool.effective() {
            let name = ip.to_string();
            let entry = entries.get(&name).unwrap_or(&absent);
            let right = self.right_entry(pool, ip, used.contains(&ip));
            active += i64::from(right.state == "active");
            Self::check_entry(&name, entry, &right, wrong);
        }
        for name in validity::bad_entries(&pool.spec) {
            let entry = entries.get(&name).unwrap_or(&absent);
            Self::check_entry(&name, entry, &Right { state: "error", ..Right::default() }, wrong);
        }
        let count = pool.status.get("activeIPs").and_then(Value::as_i64).unwrap_or_default();
        if count != active {
            wrong.add(&format!("activeIPs is {count}, not {active}"));
        }
        let goal = i64::try_from(if pool.desired() > 0 { pool.desired() } else { used.len() });
        let told = pool.status.get("usedIPs").and_then(Value::as_i64);
        if told != goal.ok() {
            wrong.add(&format!("usedIPs is {told:?}, not {goal:?}"));
        }
    }

    fn right_entry(&self, pool: &Pool, ip: Ipv4Addr, used: bool) -> Right {
        let Some(view) = self.ips.get(&ip).filter(|_| self.truth.owns(pool, ip)) else {
            return Right { state: "error", ..Right::default() };
        };
        let provider_id = view.droplet.map(|droplet| MACHINES.provider_id(droplet)).unwrap_or_default();
        let node =
            self.truth.candidates(pool).find(|node| node.droplet.is_some() && node.droplet == view.droplet);
        let (state, node) = match (used, view.droplet, node) {
            (false, ..) => ("disabled", ""),
            (true, None, _) => ("unassigned", ""),
            (true, Some(_), Some(node)) => ("active", node.name.as_str()),
            (true, Some(_), None) => ("no-match", ""),
        };
        Right { state, node: node.to_owned(), provider_id }
    }

    fn check_entry(name: &str, entry: &Value, right: &Right, wrong: &mut Complaints<'_>) {
        let (state, error) = (text(entry, "/state"), text(entry, "/error"));
        let told = (text(entry, "/nodeName"), text(entry, "/providerID"));
        // After a failed action, an address is in state `error` until the next action.
        let failed = state == "error" && ["unassigned", "no-match"].contains(&right.state);
        let state_right = state == right.state || failed;
        let error_right = error.is_empty() == (state != "error");
        if !state_right || !error_right || told != (right.node.as_str(), right.provider_id.as_str()) {
            wrong.add(&format!("{name} is {right:?} and called {entry}"));
        }
    }

    /// Every candidate without an address is waiting or blocked. The two lists name nothing else.
    fn check_waiting(&self, pool: &Pool, wrong: &mut Complaints<'_>) {
        let used = pool.used();
        let (mut waits, mut blocked, mut either) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for node in self.truth.candidates(pool) {
            let holds = self.ips.values().find(|view| node.holds(view));
            let name = node.name.clone();
            match holds {
                None => waits.insert(name),
                Some(view) if used.contains(&view.ip) && self.truth.owns(pool, view.ip) => continue,
                Some(view) => match self.truth.owner(view.ip).filter(|owner| owner.used().contains(&view.ip))
                {
                    // The other pool serves it.
                    Some(owner) if self.truth.candidates(owner).any(|other| other.name == name) => {
                        waits.insert(name)
                    }
                    // The frozen pool may have served it before it froze.
                    Some(owner) if owner.is_frozen() => either.insert(name),
                    // An address that the pool once held is not foreign.
                    None if self.truth.was_named(&pool.name, view.ip) => either.insert(name),
                    Some(_) | None => blocked.insert(name),
                },
            };
        }
        blocked.extend(self.truth.shadowed(pool).map(|node| node.name.clone()));
        let told = |field: &str| strings(&pool.status, field);
        let (waiting, errors) = (told("assignableNodes"), told("nodeErrors"));
        let surely = |list: &[String]| -> BTreeSet<String> {
            list.iter().filter(|name| !either.contains(*name)).cloned().collect()
        };
        // A list of more than 500 is cut, with the whole number beside it.
        let right = |listed: &[String], sure: &BTreeSet<String>, count: &str| {
            let Some(count) = pool.status.get(count).and_then(Value::as_u64) else {
                return surely(listed) == *sure;
            };
            let count = usize::try_from(count).unwrap_or_default();
            let shown = sure.iter().filter(|name| Some(*name) <= listed.last()).cloned().collect();
            listed.len() == 500
                && (sure.len()..=sure.len() + either.len()).contains(&count)
                && surely(listed) == shown
        };
        let listed =
            right(&waiting, &waits, "assignableNodeCount") && right(&errors, &blocked, "nodeErrorCount");
        if !listed || !waiting.is_sorted() || !errors.is_sorted() {
            wrong.add(&format!(
                "{waiting:?} are said to wait, not {waits:?}; {errors:?} to be blocked, not {blocked:?}"
            ));
        }
        let stands = pool.says("NodesBlocked").0 == "True";
        if stands == errors.is_empty() {
            wrong.add(&format!("NodesBlocked is {stands} with nodeErrors {errors:?}"));
        }
    }

    fn check_ready(&self, pool: &Pool, wrong: &mut Complaints<'_>) {
        let droplets: BTreeSet<u64> = self.truth.candidates(pool).filter_map(|node| node.droplet).collect();
        let used = pool.used();
        let stands = |ip: &&Ipv4Addr| {
            let droplet = self.ips.get(*ip).and_then(|view| view.droplet);
            self.truth.owns(pool, **ip) && droplet.is_some_and(|droplet| droplets.contains(&droplet))
        };
        let active = used.iter().filter(stands).count();
        let goal = if pool.desired() > 0 { pool.desired() } else { used.len() };
        let right = if goal == 0 {
            vec![("False", "NoAddresses")]
        } else if droplets.is_empty() {
            vec![("False", "NoMatchingNode")]
        } else if active >= goal.min(droplets.len()) {
            let enough = active >= validity::minimum(&pool.spec).unwrap_or_default();
            vec![if enough { ("True", "Assigned") } else { ("False", "BelowMinimum") }]
        } else {
            let missing = (used.len() < goal).then_some(("False", "MissingAddresses"));
            missing.into_iter().chain(self.blocked(pool, &used)).collect()
        };
        wrong.expect("Ready", pool.says("Ready"), &right);
    }

    /// The reasons of `Ready` while a matching node lacks an address that the pool could give it.
    fn blocked(&self, pool: &Pool, used: &[Ipv4Addr]) -> Vec<Says> {
        let idle = self.idle(pool).into_iter().filter(|ip| used.contains(ip));
        let lost = used.iter().any(|ip| !self.truth.owns(pool, *ip));
        let (absent, usable): (Vec<_>, Vec<_>) = idle.partition(|ip| !self.ips.contains_key(ip));
        let unusable = if absent.is_empty() { ADDRESS_CLAIMED } else { ADDRESS_NOT_FOUND };
        let stopped = lost || !absent.is_empty();
        if stopped && usable.is_empty() {
            return vec![unusable];
        }
        let claimed = |node: &Node| {
            let holder = self.ips.values().find(|view| node.holds(view));
            let owner = holder.and_then(|view| self.truth.owner(view.ip));
            (holder.is_some(), owner.is_some_and(|owner| owner.uid != pool.uid))
        };
        let ours = |node: &&Node| {
            let holds = |ip: &Ipv4Addr| self.ips.get(ip).is_some_and(|view| view.droplet == node.droplet);
            !used.iter().any(|ip| self.truth.owns(pool, *ip) && holds(ip))
        };
        let mut waiting = self.truth.candidates(pool).filter(ours).peekable();
        let all_claimed = waiting.peek().is_some() && waiting.all(|node| claimed(node) == (true, true));
        let otherwise = if all_claimed { NODES_CLAIMED } else { ASSIGNING };
        // Which of the two is reported depends on whether a node could take one of the other addresses.
        if stopped { vec![unusable, otherwise] } else { vec![otherwise] }
    }

    /// The pool's idle addresses: used ones on no matching node, and surplus created ones.
    fn idle(&self, pool: &Pool) -> BTreeSet<Ipv4Addr> {
        let used = pool.used();
        let droplets: BTreeSet<u64> = self.truth.candidates(pool).filter_map(|node| node.droplet).collect();
        let created = pool.remembered();
        let is_idle = |ip: &Ipv4Addr| match (self.ips.get(ip), used.contains(ip)) {
            (Some(view), true) => view.droplet.is_none_or(|droplet| !droplets.contains(&droplet)),
            (None, true) => true,
            (Some(_), false) => created.contains(ip),
            (None, false) => false,
        };
        pool.effective().into_iter().filter(|ip| self.truth.owns(pool, *ip) && is_idle(ip)).collect()
    }

    /// `AddressesIdle` is present exactly while an address is idle, and names it.
    fn check_idle(&self, pool: &Pool, wrong: &mut Complaints<'_>) {
        let idle = self.idle(pool);
        let message = pool.condition("AddressesIdle").map(|condition| text(condition, "/message"));
        let named = message.map(addresses_in).unwrap_or_default();
        let all_named = idle.len() > MAX_NAMED || named.is_superset(&idle);
        if message.is_some() == idle.is_empty() || !all_named {
            wrong.add(&format!("{idle:?} are idle, and AddressesIdle says {message:?}"));
        }
    }

    /// Checks the status of a record set.
    pub(super) fn check_record_set(&self, set: &Pool, all: &mut Vec<String>) {
        let mut wrong = Complaints { name: &set.name, all };
        let good = validity::of_record_set(&set.spec);
        Self::check_common(set, &mut wrong);
        let valid = if good { ("True", "Valid") } else { ("False", "RecordSetIgnored") };
        wrong.expect("SpecValid", set.says("SpecValid"), &[valid]);
        let ready = set.says("Ready");
        let (state, error) = (text(&set.status, "/state"), text(&set.status, "/error"));
        let active = ready.0 == "True" || ready.1 == "NoMatchingNode";
        wrong.expect("state", state, &[if active { "active" } else { "error" }]);
        if error.is_empty() != (state == "active") {
            wrong.add(&format!("error is {error:?} in state {state:?}"));
        }
        let mut nodes = self.truth.candidates(set);
        let lacking = good && nodes.any(|node| dns::address_of(set, node).is_empty());
        let missing = set.says("AddressMissing");
        if good && lacking != (missing.0 == "True") {
            wrong.add(&format!("AddressMissing is {missing:?}, and that is {lacking}"));
        }
        self.check_records(set, "", !good, &mut wrong);
    }

    /// Checks the conditions about records, which have this prefix.
    fn check_records(&self, object: &Pool, prefix: &str, mistaken: bool, wrong: &mut Complaints<'_>) {
        let summary = format!("{prefix}Ready");
        let says = object.says(&summary);
        let remark = |kind: &str| object.says(&format!("{prefix}{kind}")).0 == "True";
        let asks = prefix.is_empty() || validity::record_set(&object.spec).is_some();
        let absent = vec![("", "")];
        let right = if asks { self.right_reasons(object, prefix.is_empty(), mistaken) } else { absent };
        wrong.expect(&summary, says, &right);
        let place = dns::place(object).filter(|_| !mistaken);
        let owned = place.as_ref().is_some_and(|place| self.has_place(object, place));
        let expected = [
            ("Conflict", place.is_some() && !owned && !mistaken),
            ("TTLRaised", owned && place.as_ref().is_some_and(|place| dns::is_raised(object, place.site.0))),
            ("ExternalDNS", owned && place.as_ref().is_some_and(|place| self.is_marked(place))),
        ];
        for (kind, right) in expected {
            if place.as_ref().is_none_or(|place| place.found) && remark(kind) != right {
                wrong.add(&format!("{prefix}{kind} is {}, not {right}", remark(kind)));
            }
        }
        let Some(place) = place.filter(|place| place.found) else { return };
        let published = if prefix.is_empty() { "" } else { "/dnsRecordSet" };
        let fqdn = text(&object.status, &format!("{published}/fqdn"));
        wrong.expect("fqdn", fqdn, &[&place.site.1]);
        let told = object.status.pointer(published).map(|set| strings(set, "addresses")).unwrap_or_default();
        let stands = if owned { self.a_records(&place) } else { Vec::new() };
        // Records of others, where the object has none any more, are not the object's.
        if told != stands && !(told.is_empty() && ["Empty", "NoMatchingNode"].contains(&says.1)) {
            wrong.add(&format!("addresses are said to be {told:?}, not {stands:?}"));
        }
    }

    fn has_place(&self, object: &Pool, place: &Place) -> bool {
        dns::owner(self.truth, &place.site).is_some_and(|owner| owner.uid == object.uid)
    }

    fn at<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = &'a RecordView> {
        let records = self.records.get(&place.site.0).into_iter().flatten();
        records.filter(|record| record.fqdn == place.site.1)
    }

    /// The mark is at the name up to external-dns 0.17, and at `a-<name>` since 0.18.
    fn is_marked(&self, place: &Place) -> bool {
        let (provider, fqdn) = &place.site;
        let beside = format!("a-{fqdn}");
        let may_stand_beside = *fqdn != place.zone && !fqdn.starts_with("*.");
        let at = |record: &RecordView| record.fqdn == *fqdn || may_stand_beside && record.fqdn == beside;
        let mut records = self.records.get(provider).into_iter().flatten();
        records.any(|record| {
            at(record) && record.rtype == "TXT" && record.data.contains("heritage=external-dns")
        })
    }

    fn a_records(&self, place: &Place) -> Vec<String> {
        let addresses = self.at(place).filter(|record| record.rtype == "A");
        let mut addresses: Vec<Ipv4Addr> = addresses.filter_map(|record| record.data.parse().ok()).collect();
        addresses.sort();
        addresses.iter().map(ToString::to_string).collect()
    }

    fn right_reasons(&self, object: &Pool, set: bool, mistaken: bool) -> Vec<Says> {
        let Some(place) = dns::place(object).filter(|_| !mistaken) else {
            return vec![("False", "InvalidSpec")];
        };
        if !place.found {
            return vec![("False", "NotFound")];
        }
        if !self.has_place(object, &place) {
            return vec![("False", "NameClaimed")];
        }
        if self.at(&place).any(|record| record.rtype == "CNAME") {
            return vec![("False", "CNAME")];
        }
        let views: Vec<IpView> = self.ips.values().cloned().collect();
        let wanted = dns::wanted(self.truth, &views);
        match wanted.get(&place.site) {
            Some(wanted) if !wanted.addresses.is_empty() => vec![("True", "Published")],
            _ if set && self.truth.candidates(object).count() == 0 => vec![("False", "NoMatchingNode")],
            _ if self.a_records(&place).is_empty() => vec![("True", "Empty")],
            _ => vec![("True", "Kept"), ("True", "Empty")],
        }
    }
}

/// The right entry for an address.
#[derive(Debug, Clone, Default)]
struct Right {
    state: &'static str,
    node: String,
    provider_id: String,
}
