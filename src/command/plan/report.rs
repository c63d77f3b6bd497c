//! The changes of a rehearsal, as data and as text.

use super::account::Account;
use super::rehearsal::Outcome;
use super::walls::Walls;
use super::world::World;
use crate::command::copy;
use crate::command::matched::{LeftOut, Matched};
use crate::command::output::{Output, Tone, shown};
use crate::exit::Exit;
use flipop_core::addresses::pool::object::{FINALIZER, PoolObject};
use flipop_core::firewalls::facts::{Direction, Firewall, Rule, Targets};
use flipop_core::model::condition::Condition;
use flipop_core::model::facts::ReservedIp;
use flipop_core::model::ids::{Address, ObjectName, Uid};
use flipop_core::model::matching::Criteria;
use flipop_core::model::provider::Providers;
use flipop_core::records::dns::Record;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The most nodes that a line names. `-o wide` names all.
const MAX_NAMED: usize = 5;

/// Everything that is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    changes: Vec<Change>,
    invalid: Vec<Invalid>,
    objects: Vec<ObjectReport>,
    /// Events of type Warning that FLIPOP would write.
    warnings: Vec<String>,
    settled: bool,
    /// Seconds of simulated time from the start to the last change.
    last_change_seconds: u64,
    simulated_seconds: u64,
    notes: Vec<String>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Sign {
    /// `+`
    Add,
    /// `~`
    Change,
    /// `-`
    Remove,
    /// `x`: the change cannot be undone.
    Destroy,
}

/// One change.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Change {
    sign: Sign,
    /// The change in words.
    text: String,
    /// The object that causes the change. Empty if there is none.
    object: String,
}

/// An object with mistakes in its spec.
#[derive(Debug, Serialize)]
struct Invalid {
    kind: &'static str,
    namespace: String,
    name: String,
    problems: Vec<String>,
}

/// An object at the end of the rehearsal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReport {
    kind: &'static str,
    namespace: String,
    name: String,
    ready: String,
    reason: String,
    message: String,
    matching: Vec<String>,
    left_out: Vec<LeftOut>,
}

/// The report on a rehearsal.
pub(super) fn make(
    world: &World,
    outcome: &Outcome,
    providers: &Providers,
    mut notes: Vec<String>,
) -> Report {
    let mut changes = addresses(world);
    changes.extend(spec_ips(world));
    changes.extend(finalizers(world));
    changes.extend(records(world));
    changes.extend(marks(world));
    changes.extend(firewalls(world));
    let (mut invalid, mut objects) = (Vec::new(), Vec::new());
    for pool in world.pools.values() {
        let spec = copy::pool_spec(pool, providers);
        let problems = spec.as_ref().map(|spec| &spec.problems);
        let problems = problems.into_iter().flatten().map(ToString::to_string);
        let problems: Vec<String> = pool.spec.as_ref().err().cloned().into_iter().chain(problems).collect();
        let criteria = spec.as_ref().and_then(|spec| spec.criteria.as_ref());
        let (kind, name) = ("FloatingIPPool", &pool.object.name);
        invalid.extend(mistakes(kind, name, problems));
        objects.push(object(world, kind, name, &pool.status.conditions, criteria));
        notes.extend(refused_move(world, pool));
    }
    for set in world.sets.values() {
        let spec = copy::set_spec(set, providers);
        let problems = spec.as_ref().map(|spec| &spec.problems);
        let problems = problems.into_iter().flatten().map(ToString::to_string);
        let problems: Vec<String> = set.spec.as_ref().err().cloned().into_iter().chain(problems).collect();
        let criteria = spec.as_ref().and_then(|spec| spec.criteria.as_ref());
        let (kind, name) = ("NodeDNSRecordSet", &set.object.name);
        invalid.extend(mistakes(kind, name, problems));
        objects.push(object(world, kind, name, &set.status.conditions, criteria));
    }
    objects.sort_by(|a, b| (a.kind, &a.namespace, &a.name).cmp(&(b.kind, &b.namespace, &b.name)));
    Report {
        changes,
        invalid,
        objects,
        warnings: outcome.warnings.clone(),
        settled: outcome.settled,
        last_change_seconds: outcome.last_change_ms.div_ceil(1_000),
        simulated_seconds: outcome.simulated_ms / 1_000,
        notes,
    }
}

fn mistakes(kind: &'static str, name: &ObjectName, problems: Vec<String>) -> Option<Invalid> {
    let ObjectName { namespace, name } = name.clone();
    (!problems.is_empty()).then_some(Invalid { kind, namespace, name, problems })
}

fn object(
    world: &World,
    kind: &'static str,
    name: &ObjectName,
    conditions: &[Condition],
    criteria: Option<&Criteria>,
) -> ObjectReport {
    let ready = conditions.iter().find(|condition| condition.kind == "Ready").cloned();
    let ready = ready.unwrap_or_else(|| Condition {
        kind: "Ready".to_owned(),
        status: "Unknown".to_owned(),
        reason: "NotLookedAt".to_owned(),
        message: String::new(),
    });
    let matched = criteria.map(|criteria| Matched::new(&world.lists, world.nodes(), criteria));
    ObjectReport {
        kind,
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        ready: ready.status,
        reason: ready.reason,
        message: ready.message,
        matching: matched.iter().flat_map(|matched| matched.matching.iter().cloned()).collect(),
        left_out: matched.as_ref().map(Matched::left_out).unwrap_or_default(),
    }
}

/// Why the pool's status refuses a request to move, if it does.
fn refused_move(world: &World, pool: &PoolObject) -> Option<String> {
    let last = pool.status.last_move.as_ref()?;
    let before = world.first_pools.get(&pool.object.uid).and_then(|pool| pool.status.last_move.as_ref());
    let fresh = before.map(|before| &before.request) != Some(&last.request);
    let refused = fresh && !last.message.is_empty();
    let (outcome, name) = (last.outcome.as_str(), &pool.object.name);
    refused.then(|| format!("the request {} of {name} would be {outcome}: {}", last.request, last.message))
}

/// The pool that names an address.
fn pool_of(world: &World, ip: Address) -> String {
    let text = ip.to_string();
    let names = |pool: &&PoolObject| {
        pool.status.ips.contains_key(&text) || pool.spec.as_ref().is_ok_and(|spec| spec.ips.contains(&text))
    };
    let pool = world.pools.values().find(names);
    pool.map(|pool| format!("FloatingIPPool {}", pool.object.name)).unwrap_or_default()
}

/// The pool that gave an address back.
fn gives_back(world: &World, ip: Address) -> String {
    let bought = |pool: &&PoolObject| {
        pool.status.memory.as_ref().is_some_and(|memory| memory.purchase_of(ip).is_some())
    };
    let pool = world.first_pools.values().find(bought);
    pool.map(|pool| format!("FloatingIPPool {}", pool.object.name)).unwrap_or_default()
}

fn named(ip: Address) -> String {
    let last = ip.as_v4().map(|ip| ip.octets()).filter(|_| Account::is_bought(ip));
    last.map_or_else(|| ip.to_string(), |[.., number]| format!("new address {number}"))
}

fn addresses(world: &World) -> Vec<Change> {
    let now: BTreeMap<Address, &ReservedIp> = world.account.addresses().map(|read| (read.ip, read)).collect();
    let (mut changes, mut bought) = (Vec::new(), BTreeMap::<(String, &str), (usize, bool)>::new());
    for (ip, read) in now {
        let before = world.account.first_addresses.get(&ip);
        if before.is_none() && Account::is_bought(ip) {
            let (count, used) = bought.entry((pool_of(world, ip), &read.region)).or_default();
            *count = count.saturating_add(1);
            *used |= read.machine.is_some();
        }
        let from = before.and_then(|read| read.machine.as_ref()).map(|machine| world.node_on(machine));
        let to = read.machine.as_ref().map(|machine| world.node_on(machine));
        let (sign, text) = match (from, to) {
            (None, Some(to)) => (Sign::Add, format!("assign {} to {to}", named(ip))),
            (Some(from), Some(to)) if from != to => {
                (Sign::Change, format!("move {} from {from} to {to}", named(ip)))
            }
            (Some(from), None) => (Sign::Remove, format!("unassign {} from {from}", named(ip))),
            (None, None) | (Some(_), Some(_)) => continue,
        };
        changes.push(Change { sign, text, object: pool_of(world, ip) });
    }
    let gone = world
        .account
        .first_addresses
        .keys()
        .filter(|ip| !world.account.addresses().any(|read| read.ip == **ip));
    changes.extend(gone.map(|ip| Change {
        sign: Sign::Destroy,
        text: format!("delete address {ip}, which cannot be undone"),
        object: gives_back(world, *ip),
    }));
    let created = bought.into_iter().map(|((object, region), (count, used))| {
        let noun = if count == 1 { "address" } else { "addresses" };
        let unused = if used { "" } else { " although no node can use it now" };
        Change {
            sign: Sign::Add,
            text: format!("create {count} {noun} in {region}, which costs money{unused}"),
            object,
        }
    });
    created.chain(changes).collect()
}

fn spec_ips(world: &World) -> Vec<Change> {
    let mut changes = Vec::new();
    for (uid, pool) in &world.pools {
        let before = world.first_pools.get(uid).and_then(|pool| pool.spec.as_ref().ok());
        let known = before.map(|spec| spec.ips.as_slice()).unwrap_or_default();
        let ips = pool.spec.as_ref().map(|spec| spec.ips.as_slice()).unwrap_or_default();
        let object = format!("FloatingIPPool {}", pool.object.name);
        let mut differ = |sign, of: &[String], without: &[String]| {
            let differing = of.iter().filter(|ip| !without.contains(ip));
            let differing = differing.filter_map(|ip| Address::v4(ip)).map(named);
            changes.extend(differing.map(|ip| Change {
                sign,
                text: format!("spec.ips: {ip}"),
                object: object.clone(),
            }));
        };
        differ(Sign::Add, ips, known);
        differ(Sign::Remove, known, ips);
    }
    changes
}

/// The finalizer of pools that give back what was bought for them.
fn finalizers(world: &World) -> Vec<Change> {
    let change = |(uid, pool): (&Uid, &PoolObject)| {
        let before = world.first_pools.get(uid).is_some_and(|pool| pool.guarded);
        let sign = if pool.guarded { Sign::Add } else { Sign::Remove };
        (pool.guarded != before).then(|| Change {
            sign,
            text: format!("finalizer {FINALIZER}"),
            object: format!("FloatingIPPool {}", pool.object.name),
        })
    };
    world.pools.iter().filter_map(change).collect()
}

fn records(world: &World) -> Vec<Change> {
    let mut changes = Vec::new();
    for key @ (provider, fqdn) in world.names() {
        let none = Vec::new();
        let before = world.account.first_records.get(key).unwrap_or(&none);
        let now = world.account.records_now(key);
        let is_address = |record: &&Record| record.address().is_some();
        let ttls = |records: &[Record]| -> BTreeMap<String, BTreeSet<u32>> {
            let mut ttls = BTreeMap::<String, BTreeSet<u32>>::new();
            for record in records.iter().filter(is_address) {
                ttls.entry(record.data.clone()).or_default().insert(record.ttl);
            }
            ttls
        };
        let (before, now) = (ttls(before), ttls(now));
        let text = |ip: &str, rest: &str| {
            let ip = Address::v4(ip).map_or(ip.to_owned(), named);
            format!("record {fqdn} A {ip} at {provider}{rest}")
        };
        let object = owner(world, fqdn);
        for (ip, ttl) in &now {
            let (sign, text) = match before.get(ip) {
                None => (Sign::Add, text(ip, "")),
                Some(known) if known != ttl => {
                    let seconds = |ttls: &BTreeSet<u32>| ttls.iter().next().copied().unwrap_or_default();
                    (Sign::Change, text(ip, &format!(": TTL {} s to {} s", seconds(known), seconds(ttl))))
                }
                Some(_) => continue,
            };
            changes.push(Change { sign, text, object: object.clone() });
        }
        let gone = before.keys().filter(|ip| !now.contains_key(*ip));
        changes.extend(gone.map(|ip| Change {
            sign: Sign::Remove,
            text: text(ip, ""),
            object: object.clone(),
        }));
    }
    changes
}

/// The object that owns the records at a name.
fn owner(world: &World, fqdn: &str) -> String {
    let of_pool = |pool: &&PoolObject| pool.status.record_set.as_ref().is_some_and(|set| set.fqdn == fqdn);
    let pool = world.pools.values().find(of_pool).map(|pool| format!("FloatingIPPool {}", pool.object.name));
    let set = || world.sets.values().find(|set| set.status.fqdn == fqdn);
    pool.or_else(|| set().map(|set| format!("NodeDNSRecordSet {}", set.object.name))).unwrap_or_default()
}

fn marks(world: &World) -> Vec<Change> {
    let (before, now) = (&world.first_marks, world.marks());
    let keys: BTreeSet<&(String, String)> = before.keys().chain(now.keys()).collect();
    let mut changes = Vec::new();
    for key in keys {
        let (node, what) = key;
        let shown = |text: &String| Address::v4(text).map_or(text.clone(), named);
        let (sign, value) = match (before.get(key), now.get(key)) {
            (None, Some(value)) => (Sign::Add, value),
            (Some(known), Some(value)) if known != value => (Sign::Change, value),
            (Some(known), None) => (Sign::Remove, known),
            (None, None) | (Some(_), Some(_)) => continue,
        };
        let text = format!("{what}={} on {node}", shown(value));
        changes.push(Change { sign, text, object: String::new() });
    }
    changes
}

fn firewalls(world: &World) -> Vec<Change> {
    let mut changes = Vec::new();
    for (account, before, now) in world.walls.changed() {
        let Some(some) = now.or(before) else { continue };
        let owns = |pool: &&PoolObject| pool.status.firewalls.iter().any(|entry| entry.name == some.name);
        let owner = world.pools.values().chain(world.first_pools.values()).find(owns);
        let object = owner.map(|pool| format!("FloatingIPPool {}", pool.object.name)).unwrap_or_default();
        let name = match Walls::number(some) {
            Some(number) => format!("new firewall {number}"),
            None => format!("firewall {}", some.name),
        };
        let mut note = |sign, text: String| changes.push(Change { sign, text, object: object.clone() });
        match (before, now) {
            (None, Some(_)) => note(Sign::Add, format!("create {name} at {account}")),
            (Some(_), None) => note(Sign::Remove, format!("delete {name} at {account}")),
            (None, None) | (Some(_), Some(_)) => {}
        }
        let parts = |wall: Option<&Firewall>| wall.map(|wall| parts(world, wall)).unwrap_or_default();
        let (before, now) = (parts(before), parts(now));
        now.difference(&before).for_each(|part| note(Sign::Add, format!("{part} in {name}")));
        before.difference(&now).for_each(|part| note(Sign::Remove, format!("{part} in {name}")));
    }
    changes
}

/// The rules, members and tags of a firewall, each as text.
fn parts(world: &World, wall: &Firewall) -> BTreeSet<String> {
    let rule = |rule: &Rule| {
        let Targets { addresses, machines, balancers, clusters, tags } = &rule.targets;
        let targets = [addresses, machines, balancers, clusters, tags].into_iter().flatten();
        let targets: Vec<&str> = targets.map(String::as_str).collect();
        let towards = match rule.direction {
            Direction::Inbound => "from",
            Direction::Outbound => "to",
        };
        // ICMP has no ports.
        let ports = if rule.ports == "0" { String::new() } else { format!("/{}", rule.ports) };
        format!("rule {}{ports} {towards} {}", rule.protocol, targets.join(", "))
    };
    let members = wall.machines.iter().map(|machine| format!("member {}", world.node_on(machine)));
    let tags = wall.tags.iter().map(|tag| format!("tag {tag}"));
    wall.rules.iter().map(rule).chain(members).chain(tags).collect()
}

impl Report {
    /// The exit code.
    pub(super) fn exit(&self) -> Exit {
        if !self.invalid.is_empty() {
            Exit::Invalid
        } else if !self.settled {
            Exit::Unsettled
        } else if self.changes.is_empty() {
            Exit::Success
        } else {
            Exit::Changes
        }
    }

    /// The report as text.
    pub(super) fn text(&self, output: Output) -> String {
        let mut text = String::new();
        for Change { sign, text: what, object } in &self.changes {
            let (sign, tone) = match sign {
                Sign::Add => ("+", Tone::Good),
                Sign::Change => ("~", Tone::Doubtful),
                Sign::Remove => ("-", Tone::Bad),
                Sign::Destroy => ("x", Tone::Bad),
            };
            let object = if object.is_empty() { String::new() } else { format!("   ({object})") };
            let _infallible =
                writeln!(text, "{} {}", output.tinted(tone, sign), shown(&format!("{what}{object}")));
        }
        for Invalid { kind, namespace, name, problems } in &self.invalid {
            for problem in problems {
                let line = format!("{kind} {namespace}/{name} is invalid: {problem}");
                let _infallible = writeln!(text, "{} {}", output.mark(Tone::Bad), shown(&line));
            }
        }
        let _infallible = writeln!(text, "{}", self.summary());
        let most = if output.is_wide() { usize::MAX } else { MAX_NAMED };
        for object in &self.objects {
            text.push('\n');
            text.push_str(&object.text(output, most));
        }
        if !self.notes.is_empty() || !self.warnings.is_empty() {
            text.push('\n');
        }
        for warning in &self.warnings {
            let _infallible =
                writeln!(text, "{} {}", output.tinted(Tone::Doubtful, "Warning:"), shown(warning));
        }
        for note in &self.notes {
            let _infallible = writeln!(text, "{} {}", output.tinted(Tone::Doubtful, "Note:"), shown(note));
        }
        text
    }

    fn summary(&self) -> String {
        let changes = match self.changes.len() {
            0 => "Nothing to do".to_owned(),
            1 => "1 change".to_owned(),
            many => format!("{many} changes"),
        };
        let when = if !self.settled {
            format!("; it did not settle within {} s of simulated time", self.simulated_seconds)
        } else if self.changes.is_empty() {
            String::new()
        } else {
            format!(", the last one after {} s", self.last_change_seconds)
        };
        let invalid = match self.invalid.len() {
            0 => String::new(),
            1 => "; 1 object is invalid".to_owned(),
            many => format!("; {many} objects are invalid"),
        };
        format!("{changes}{when}{invalid}. Nothing was written.")
    }
}

impl ObjectReport {
    fn text(&self, output: Output, most: usize) -> String {
        let Self { kind, namespace, name, ready, reason, message, matching, left_out } = self;
        let tone = match ready.as_str() {
            "True" => Tone::Good,
            "False" => Tone::Bad,
            _ => Tone::Doubtful,
        };
        let mut text = format!(
            "{}   {} then Ready={} {}\n",
            output.bold(&shown(&format!("{kind} {namespace}/{name}"))),
            output.mark(tone),
            output.tinted(tone, &shown(ready)),
            shown(reason),
        );
        if !message.is_empty() {
            let _infallible = writeln!(text, "  {}", shown(message));
        }
        let named: Vec<&str> = matching.iter().take(most).map(String::as_str).collect();
        let more = matching.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let all = if named.is_empty() { "no node".to_owned() } else { named.join(", ") };
        let _infallible = writeln!(text, "  Match: {}{more}", shown(&all));
        for left_out in left_out {
            let _infallible = writeln!(text, "  Left out: {}", left_out.text(most));
        }
        text
    }
}
