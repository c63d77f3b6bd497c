//! The changes of a rehearsal, each as data and in words.

use super::account::Account;
use super::walls::Walls;
use super::world::World;
use flipop_core::addresses::pool::status::{FINALIZER, PoolObject};
use flipop_core::firewalls::facts::{Direction, Firewall, Rule, Targets};
use flipop_core::model::{Address, ObjectKind, ObjectName, ReservedIp, Uid};
use flipop_core::records::dns::Record;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sign {
    /// `+`
    Add,
    /// `~`
    Change,
    /// `-`
    Remove,
    /// `x`: the change cannot be undone.
    Destroy,
}

/// The kind of thing that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// The node that has an address.
    Address,
    /// Addresses of an account, which are created or deleted.
    Account,
    /// The field `spec.ips` of a pool.
    Spec,
    Finalizer,
    Record,
    Annotation,
    Label,
    Firewall,
}

/// One change.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    pub(super) sign: Sign,
    kind: Kind,
    /// The change in words.
    pub(super) text: String,
    /// The object that causes the change. Empty if there is none.
    pub(super) object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// The node that loses the address, annotation or label.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The node that gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The fully qualified name of a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
}

impl Change {
    fn new(sign: Sign, kind: Kind, text: String, object: String) -> Self {
        Self { sign, kind, text, object, address: None, from: None, to: None, record: None }
    }
}

/// Every change, in the order in which it is shown.
pub(super) fn all(world: &World) -> Vec<Change> {
    let mut changes = addresses(world);
    changes.extend(spec_ips(world));
    changes.extend(finalizers(world));
    changes.extend(records(world));
    changes.extend(marks(world));
    changes.extend(firewalls(world));
    changes
}

/// An object as the changes name it.
pub(super) fn named_object(kind: ObjectKind, name: &ObjectName) -> String {
    format!("{} {name}", kind.as_str())
}

fn named_pool(pool: &PoolObject) -> String {
    named_object(ObjectKind::Pool, &pool.object.name)
}

/// The text with the names that the rehearsal gave to new addresses and firewalls in the words of the changes.
pub(super) fn with_new_things_named(world: &World, text: &str) -> String {
    let addresses = world.account.addresses().map(|read| read.ip).filter(|ip| Account::is_bought(*ip));
    let mut names: Vec<(String, String)> = addresses.map(|ip| (ip.to_string(), named(ip))).collect();
    for (_, _, now) in world.walls.changed() {
        names.extend(now.and_then(|wall| Some((wall.name.clone(), new_firewall(wall)?))));
    }
    // One name may begin with another.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names.iter().fold(text.to_owned(), |text, (name, words)| text.replace(name, words))
}

fn new_firewall(wall: &Firewall) -> Option<String> {
    Walls::number(wall).map(|number| format!("new firewall {number}"))
}

/// The pool that names an address.
fn pool_of(world: &World, ip: Address) -> String {
    let text = ip.to_string();
    let names = |pool: &&PoolObject| {
        pool.status.ips.contains_key(&text) || pool.spec.as_ref().is_ok_and(|spec| spec.ips.contains(&text))
    };
    let pool = world.pools.values().find(names);
    pool.map(named_pool).unwrap_or_default()
}

/// The pool that gave an address back.
fn gives_back(world: &World, ip: Address) -> String {
    let bought = |pool: &&PoolObject| {
        pool.status.memory.as_ref().is_some_and(|memory| memory.purchase_of(ip).is_some())
    };
    let pool = world.first_pools.values().find(bought);
    pool.map(named_pool).unwrap_or_default()
}

fn named(ip: Address) -> String {
    let last = ip.as_v4().map(|ip| ip.octets()).filter(|_| Account::is_bought(ip));
    last.map_or_else(|| ip.to_string(), |[.., number]| format!("new address {number}"))
}

/// An address in text, by the name that [`named`] gives it. Other text stays.
fn shown_address(text: &str) -> String {
    Address::v4(text).map_or_else(|| text.to_owned(), named)
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
        let (sign, text) = match (&from, &to) {
            (None, Some(to)) => (Sign::Add, format!("assign {} to {to}", named(ip))),
            (Some(from), Some(to)) if from != to => {
                (Sign::Change, format!("move {} from {from} to {to}", named(ip)))
            }
            (Some(from), None) => (Sign::Remove, format!("unassign {} from {from}", named(ip))),
            (None, None) | (Some(_), Some(_)) => continue,
        };
        let change = Change::new(sign, Kind::Address, text, pool_of(world, ip));
        changes.push(Change { address: Some(named(ip)), from, to, ..change });
    }
    let gone = world
        .account
        .first_addresses
        .keys()
        .filter(|ip| !world.account.addresses().any(|read| read.ip == **ip));
    changes.extend(gone.map(|ip| {
        let text = format!("delete address {ip}, which cannot be undone");
        let change = Change::new(Sign::Destroy, Kind::Account, text, gives_back(world, *ip));
        Change { address: Some(ip.to_string()), ..change }
    }));
    let created = bought.into_iter().map(|((object, region), (count, used))| {
        let noun = if count == 1 { "address" } else { "addresses" };
        let unused = if used { "" } else { " although no node can use it now" };
        let text = format!("create {count} {noun} in {region}, which costs money{unused}");
        Change::new(Sign::Add, Kind::Account, text, object)
    });
    created.chain(changes).collect()
}

fn spec_ips(world: &World) -> Vec<Change> {
    let mut changes = Vec::new();
    for (uid, pool) in &world.pools {
        let before = world.first_pools.get(uid).and_then(|pool| pool.spec.as_ref().ok());
        let known = before.map(|spec| spec.ips.as_slice()).unwrap_or_default();
        let ips = pool.spec.as_ref().map(|spec| spec.ips.as_slice()).unwrap_or_default();
        let mut differ = |sign, of: &[String], without: &[String]| {
            let differing = of.iter().filter(|ip| !without.contains(ip));
            let differing = differing.filter_map(|ip| Address::v4(ip)).map(named);
            changes.extend(differing.map(|ip| {
                let change = Change::new(sign, Kind::Spec, format!("spec.ips: {ip}"), named_pool(pool));
                Change { address: Some(ip), ..change }
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
        let text = format!("finalizer {FINALIZER}");
        (pool.guarded != before).then(|| Change::new(sign, Kind::Finalizer, text, named_pool(pool)))
    };
    world.pools.iter().filter_map(change).collect()
}

fn records(world: &World) -> Vec<Change> {
    let mut changes = Vec::new();
    for key @ (provider, fqdn) in world.names() {
        let before = world.account.first_records.get(key).map(Vec::as_slice).unwrap_or_default();
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
        let object = owner(world, fqdn);
        let mut note = |sign, ip: &str, rest: &str| {
            let ip = shown_address(ip);
            let text = format!("record {fqdn} A {ip} at {provider}{rest}");
            let change = Change::new(sign, Kind::Record, text, object.clone());
            changes.push(Change { address: Some(ip), record: Some(fqdn.clone()), ..change });
        };
        for (ip, ttl) in &now {
            match before.get(ip) {
                None => note(Sign::Add, ip, ""),
                Some(known) if known != ttl => {
                    let seconds = |ttls: &BTreeSet<u32>| ttls.iter().next().copied().unwrap_or_default();
                    note(Sign::Change, ip, &format!(": TTL {} s to {} s", seconds(known), seconds(ttl)));
                }
                Some(_) => {}
            }
        }
        for ip in before.keys().filter(|ip| !now.contains_key(*ip)) {
            note(Sign::Remove, ip, "");
        }
    }
    changes
}

/// The object that owns the records at a name.
fn owner(world: &World, fqdn: &str) -> String {
    let of_pool = |pool: &&PoolObject| pool.status.record_set.as_ref().is_some_and(|set| set.fqdn == fqdn);
    let pool = world.pools.values().find(of_pool).map(named_pool);
    let set = || world.sets.values().find(|set| set.status.fqdn == fqdn);
    pool.or_else(|| set().map(|set| named_object(ObjectKind::RecordSet, &set.object.name)))
        .unwrap_or_default()
}

fn marks(world: &World) -> Vec<Change> {
    let (before, now) = (&world.first_marks, world.marks());
    let keys: BTreeSet<&(String, String)> = before.keys().chain(now.keys()).collect();
    let mut changes = Vec::new();
    for key in keys {
        let (node, what) = key;
        let (sign, value) = match (before.get(key), now.get(key)) {
            (None, Some(value)) => (Sign::Add, value),
            (Some(known), Some(value)) if known != value => (Sign::Change, value),
            (Some(known), None) => (Sign::Remove, known),
            (None, None) | (Some(_), Some(_)) => continue,
        };
        let value = shown_address(value);
        let (kind, address) = if what.starts_with("label ") {
            (Kind::Label, None)
        } else {
            (Kind::Annotation, Some(value.clone()))
        };
        let change = Change::new(sign, kind, format!("{what}={value} on {node}"), String::new());
        let place = Some(node.clone());
        let (from, to) = if sign == Sign::Remove { (place, None) } else { (None, place) };
        changes.push(Change { address, from, to, ..change });
    }
    changes
}

fn firewalls(world: &World) -> Vec<Change> {
    let mut changes = Vec::new();
    for (account, before, now) in world.walls.changed() {
        let Some(some) = now.or(before) else { continue };
        let owns = |pool: &&PoolObject| pool.status.firewalls.iter().any(|entry| entry.name == some.name);
        let owner = world.pools.values().chain(world.first_pools.values()).find(owns);
        let object = owner.map(named_pool).unwrap_or_default();
        let name = new_firewall(some).unwrap_or_else(|| format!("firewall {}", some.name));
        let mut note = |sign, text| changes.push(Change::new(sign, Kind::Firewall, text, object.clone()));
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
