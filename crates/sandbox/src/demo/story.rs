//! What happens, told as it happens: changes of the account beside those of the cluster, each with its reason.
//!
//! It reads, it never acts. Where an address goes is told when the simulated account takes the request and when it has
//! done it; why, by the operator's own rule applied to the objects as they are at that moment; what the operator says
//! of it, by its Events, annotations and conditions.

use super::DemoError;
use super::pools::{self, Cluster, POOL_KIND, Pool, RECORD_SET_KIND, Standing, Standings};
use super::records::{self, RecordSet};
use super::stage::Stage;
use super::teller::{Teller, brief, seconds};
use super::zones::provider_name;
use flipop::api::Condition;
use flipop_core::facts::RESERVED_IP_ANNOTATION;
use flipop_core::ids::ObjectName;
use flipop_sandbox::apiserver::{Change, Changes, Storage};
use flipop_sandbox::cloud::{Change as AccountChange, ChangeKind, RecordVerb};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Field manager of the operator.
const OPERATOR: &str = "flipop";

/// A completed assignment of an address to a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Move {
    pub(super) ip: Ipv4Addr,
    /// Where it stood before.
    pub(super) from: Option<String>,
    pub(super) to: String,
    pub(super) reason: String,
    /// When the node that it left stopped matching.
    pub(super) lost_ms: Option<u64>,
    /// When the account took the request.
    pub(super) began_ms: u64,
    /// When it stood there.
    pub(super) done_ms: u64,
    /// When the operator had confirmed it and annotated the node.
    pub(super) confirmed_ms: Option<u64>,
    /// When the pool's record set had the address again.
    pub(super) published_ms: Option<u64>,
}

/// The narrator.
pub(super) struct Story {
    pub(super) stage: Stage,
    teller: Teller,
    /// Assignments that succeeded, in order.
    pub(super) moves: Vec<Move>,
    /// Assignments that the account has taken and not done yet.
    open: BTreeMap<Ipv4Addr, Move>,
    standings: Standings,
    /// When nodes stopped matching.
    lost: BTreeMap<(ObjectName, String), u64>,
    /// The node that last lost an address from its annotation.
    unannotated: BTreeMap<Ipv4Addr, String>,
    /// When the record set of a pool was last changed.
    pub(super) rounds: BTreeMap<ObjectName, u64>,
    cluster: Changes,
    account: Receiver<AccountChange>,
}

/// Something that happened, and when.
enum News {
    Cluster(Arc<Change>),
    Account(ChangeKind),
}

impl Story {
    pub(super) fn new(stage: Stage, teller: Teller) -> Self {
        let (cluster, account) = (stage.api.subscribe(), stage.cloud.cloud().changes());
        Self {
            stage,
            teller,
            moves: Vec::new(),
            open: BTreeMap::new(),
            standings: Standings::new(),
            lost: BTreeMap::new(),
            unannotated: BTreeMap::new(),
            rounds: BTreeMap::new(),
            cluster,
            account,
        }
    }

    /// The story's clock.
    pub(super) fn now_ms(&self) -> u64 {
        self.stage.cloud.cloud().now_ms()
    }

    /// Tells something that the sandbox itself does or finds.
    pub(super) fn tell(&mut self, who: &str, text: &str) {
        self.tell_news(Vec::new());
        let now_ms = self.now_ms();
        self.teller.line(now_ms, who, text);
    }

    /// Tells something that has no time.
    pub(super) fn plain(&mut self, text: &str) {
        self.teller.plain(text);
    }

    /// Assignments that have begun, done or not.
    pub(super) fn begun(&self) -> usize {
        self.moves.len().saturating_add(self.open.len())
    }

    /// Whether a node matches a pool.
    pub(super) fn matches(&self, pool: &ObjectName, node: &str) -> bool {
        self.standings.get(&(pool.clone(), node.to_owned())) == Some(&Standing::Matches)
    }

    /// Tells what happens until `until` holds (true) or the time is over (false).
    ///
    /// # Errors
    /// When the operator ends.
    pub(super) async fn follow(
        &mut self,
        time: Duration,
        until: impl Fn(&Self) -> bool,
    ) -> Result<bool, DemoError> {
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        let mut first = Vec::new();
        loop {
            self.tell_news(first);
            if until(self) {
                // What made it hold may have come after the last telling.
                self.tell_news(Vec::new());
                return Ok(true);
            }
            first = tokio::select! {
                biased;
                changes = self.cluster.next() => changes.into_iter().map(|change| self.dated(change)).collect(),
                change = self.account.recv() => match change {
                    Ok(AccountChange { at_ms, kind }) => vec![(at_ms, News::Account(kind))],
                    Err(RecvError::Lagged(_)) => Vec::new(),
                    Err(RecvError::Closed) => return Ok(false),
                },
                error = self.stage.operator_end() => return Err(error),
                () = &mut end => return Ok(false),
            };
        }
    }

    fn dated(&self, change: Arc<Change>) -> (u64, News) {
        let since = change.time.duration_since(self.stage.epoch).as_millis();
        (u64::try_from(since).unwrap_or_default(), News::Cluster(change))
    }

    /// Tells these and whatever else is there by now, in the order of time.
    fn tell_news(&mut self, mut news: Vec<(u64, News)>) {
        let changes = self.cluster.drain();
        news.extend(changes.into_iter().map(|change| self.dated(change)));
        loop {
            match self.account.try_recv() {
                Ok(AccountChange { at_ms, kind }) => news.push((at_ms, News::Account(kind))),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        // Stable: at the same instant the cluster's side comes first, since that is where reasons come from.
        news.sort_by_key(|(at_ms, _)| *at_ms);
        for (at_ms, news) in news {
            match news {
                News::Cluster(change) => self.tell_change(at_ms, &change),
                News::Account(kind) => self.tell_account(at_ms, &kind),
            }
        }
    }

    fn tell_change(&mut self, at_ms: u64, change: &Change) {
        let Storage { group, plural } = &change.storage;
        match (group.as_str(), plural.as_str()) {
            ("", "nodes") => {
                self.tell_standings(at_ms, change);
                self.tell_annotation(at_ms, change);
            }
            ("", "pods") => self.tell_standings(at_ms, change),
            ("", "events") => self.tell_event(at_ms, change),
            ("flipop.digitalocean.com", "floatingippools") => {
                self.tell_standings(at_ms, change);
                self.tell_pool(at_ms, change);
            }
            ("flipop.digitalocean.com", "nodednsrecordsets") => self.tell_record_set(at_ms, change),
            _ => {}
        }
    }

    /// Which nodes match now that did not, and the other way round, with the reason.
    fn tell_standings(&mut self, at_ms: u64, change: &Change) {
        if change.manager == OPERATOR {
            return;
        }
        let now = pools::standings(&self.stage.api);
        let before = std::mem::replace(&mut self.standings, now);
        self.lost.retain(|key, _| self.standings.contains_key(key));
        let mut lines: BTreeMap<(ObjectName, bool, Standing), Vec<String>> = BTreeMap::new();
        for (key, standing) in &self.standings {
            let old = before.get(key).unwrap_or(&Standing::NotSelected);
            if old == standing {
                continue;
            }
            let matched = *old == Standing::Matches;
            if *standing == Standing::Matches {
                self.lost.remove(key);
            } else if matched {
                self.lost.insert(key.clone(), at_ms);
            }
            let (pool, node) = key.clone();
            lines.entry((pool, matched, standing.clone())).or_default().push(node);
        }
        for ((pool, matched, standing), nodes) in lines {
            let one = nodes.len() == 1;
            let verb = match (&standing, matched, one) {
                (Standing::Matches, _, true) => "matches",
                (Standing::Matches, _, false) => "match",
                (_, true, true) => "no longer matches",
                (_, true, false) => "no longer match",
                (_, false, true) => "does not match",
                (_, false, false) => "do not match",
            };
            let reason = match standing {
                Standing::Matches => String::new(),
                Standing::Fails(reason) => format!(": {reason}"),
                Standing::NotSelected => ": spec.match.nodeLabel asks for other labels".to_owned(),
            };
            self.teller.line(at_ms, "match", &format!("{} {verb} {pool}{reason}", nodes.join(", ")));
        }
    }

    fn tell_annotation(&mut self, at_ms: u64, change: &Change) {
        let (before, after) = (annotation(change.before.as_deref()), annotation(change.after.as_deref()));
        let node = &change.key.name;
        match after {
            _ if before == after => {}
            Some(ip) => {
                let here = |done: &&mut Move| done.to == *node && done.ip.to_string() == ip;
                if let Some(done) = self.moves.iter_mut().rev().find(here) {
                    done.confirmed_ms.get_or_insert(at_ms);
                }
                self.teller.line(at_ms, "node", &format!("{node} is annotated with {ip}"));
            }
            None => {
                if let Some(ip) = before.and_then(|ip| ip.parse().ok()) {
                    self.unannotated.insert(ip, node.clone());
                }
                self.teller.line(at_ms, "node", &format!("{node} loses its annotation"));
            }
        }
    }

    fn tell_event(&mut self, at_ms: u64, change: &Change) {
        let Some(event) = change.after.as_deref() else { return };
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let ours = matches!(text("/involvedObject/kind"), POOL_KIND | RECORD_SET_KIND);
        // Changes of records are told one by one.
        if ours && text("/reason") != "RecordsChanged" {
            let (namespace, name) = (text("/involvedObject/namespace"), text("/involvedObject/name"));
            let (kind, reason, message) = (text("/type"), text("/reason"), text("/message"));
            self.teller.line(at_ms, "event", &format!("{kind} {reason} {namespace}/{name}: {message}"));
        }
    }

    /// What has changed in the conditions of a pool.
    fn tell_pool(&mut self, at_ms: u64, change: &Change) {
        let read = |object: &Option<Arc<Value>>| object.as_deref().and_then(Pool::read);
        let Some(after) = read(&change.after) else {
            let name = ObjectName::new(&change.key.namespace, &change.key.name);
            self.teller.line(at_ms, "pool", &format!("{name} is gone; its addresses stay where they are"));
            return;
        };
        let before = read(&change.before).map(|pool| pool.status.conditions).unwrap_or_default();
        self.tell_conditions(at_ms, "pool", &after.name, (&before, &after.status.conditions));
    }

    /// What has changed in the conditions of a record set.
    fn tell_record_set(&mut self, at_ms: u64, change: &Change) {
        let read = |object: &Option<Arc<Value>>| object.as_deref().and_then(RecordSet::read);
        let Some(after) = read(&change.after) else {
            let name = ObjectName::new(&change.key.namespace, &change.key.name);
            self.teller.line(at_ms, "set", &format!("{name} is gone; its records stay as they are"));
            return;
        };
        let before = read(&change.before).map(|set| set.conditions().to_vec()).unwrap_or_default();
        self.tell_conditions(at_ms, "set", &after.object, (&before, after.conditions()));
    }

    fn tell_conditions(
        &mut self,
        at_ms: u64,
        who: &str,
        name: &ObjectName,
        (before, after): (&[Condition], &[Condition]),
    ) {
        let find = |conditions: &[Condition], kind: &str| {
            conditions.iter().find(|condition| condition.type_ == kind).cloned()
        };
        for condition in after {
            let Condition { type_: kind, status, reason, message, .. } = condition;
            let known = find(before, kind);
            let normal = !pools::is_abnormal(kind, status) && (kind != "Ready" || who == "set");
            let same = |known: &Condition| {
                known.status == *status && known.reason == *reason && known.message == *message
            };
            if known.as_ref().map_or(normal, same) || is_told_otherwise(condition, known.as_ref()) {
                continue;
            }
            let colon = if message.is_empty() { "" } else { ": " };
            self.teller.line(at_ms, who, &format!("{name} {kind}={status} {reason}{colon}{message}"));
        }
        let gone = before.iter().filter(|old| find(after, &old.type_).is_none());
        for old in gone.filter(|old| !is_told_otherwise(old, None)) {
            self.teller.line(at_ms, who, &format!("{name} {} is over", old.type_));
        }
    }

    fn tell_account(&mut self, at_ms: u64, kind: &ChangeKind) {
        match kind {
            ChangeKind::IpReserved(ip) => {
                self.teller.line(at_ms, "account", &format!("{ip} is created"));
            }
            ChangeKind::AssignStarted { ip, droplet } => self.begin(at_ms, *ip, *droplet),
            ChangeKind::Assigned { ip, droplet, from } => self.finish(at_ms, *ip, *droplet, *from),
            ChangeKind::Unassigned { ip, from } => {
                let node = self.node(*from);
                self.teller.line(at_ms, "account", &format!("{ip} is taken off {node}"));
            }
            ChangeKind::ActionErrored(ip) => {
                self.open.remove(ip);
                self.teller.line(at_ms, "account", &format!("the move of {ip} failed"));
            }
            ChangeKind::IpReleased(ip) => self.teller.line(at_ms, "account", &format!("{ip} is released")),
            ChangeKind::Record { provider, verb, fqdn, rtype, data, replaced, id: _ } => {
                let verb = match (verb, replaced) {
                    (RecordVerb::Created, _) => "created".to_owned(),
                    (RecordVerb::Deleted, _) => "deleted".to_owned(),
                    (RecordVerb::Updated, Some(old)) if old != data => format!("put in the place of {old}"),
                    (RecordVerb::Updated, _) => "updated".to_owned(),
                };
                let provider = provider_name(*provider);
                let reason = self.record_reason(at_ms, provider, (fqdn, data), verb != "deleted");
                self.teller.line(
                    at_ms,
                    "record",
                    &format!("{fqdn} {rtype} {data} {verb} at {provider}{reason}"),
                );
            }
            ChangeKind::DropletAdded(_) | ChangeKind::DropletDestroyed(_) => {}
        }
    }

    /// Why a record came or went, as far as the cluster and the account show it.
    fn record_reason(
        &mut self,
        at_ms: u64,
        provider: &str,
        (fqdn, data): (&str, &str),
        came: bool,
    ) -> String {
        let Ok(ip) = data.parse::<Ipv4Addr>() else { return String::new() };
        let zones = &self.stage.zones;
        let here = |set: &RecordSet| {
            let located = set.located(zones);
            located.is_some_and(|(zone, name)| name == fqdn && provider_name(zone.provider) == provider)
        };
        let sets = records::record_sets(&self.stage.api);
        // The others of this name write nothing.
        let Some(owner) = sets.into_iter().filter(here).min_by_key(RecordSet::has_failed) else {
            return String::new();
        };
        if owner.kind == RECORD_SET_KIND {
            return match self.unannotated.get(&ip).filter(|_| !came && owner.follows_annotations()) {
                Some(node) => format!(": {node} has lost the annotation"),
                None => owner.reason(ip, &Cluster::now(&self.stage.api)),
            };
        }
        let object = &owner.object;
        self.rounds.insert(object.clone(), at_ms);
        if came {
            let last = self.moves.iter_mut().rev().find(|done| done.ip == ip);
            if let Some(done) = last {
                done.published_ms.get_or_insert(at_ms);
            }
            let droplet = self.stage.cloud.cloud().ip(ip).and_then(|view| view.droplet);
            return droplet
                .map_or_else(String::new, |droplet| format!(": it is on {} now", self.node(droplet)));
        }
        let leaves = self.open.get(&ip).and_then(|open| open.from.clone());
        let place = self.stage.cloud.cloud().ip(ip).and_then(|view| view.droplet);
        match leaves.or_else(|| place.map(|droplet| self.node(droplet))) {
            Some(node) if self.matches(object, &node) => format!(": it leaves {node}"),
            Some(node) => format!(": {node} no longer matches {object}"),
            None => ": it is on no node".to_owned(),
        }
    }

    fn begin(&mut self, at_ms: u64, ip: Ipv4Addr, droplet: u64) {
        let to = self.node(droplet);
        let view = self.stage.cloud.cloud().ip(ip);
        let from =
            view.and_then(|view| view.droplet).filter(|from| *from != droplet).map(|from| self.node(from));
        let (reason, lost_ms) = self.reason(ip, from.as_deref(), &to);
        let text = match (&from, lost_ms) {
            (Some(from), Some(lost_ms)) => {
                let after = brief(at_ms.saturating_sub(lost_ms));
                format!(
                    "{ip} begins to move from {from} to {to}, {after} after {from} stopped matching: {reason}"
                )
            }
            (Some(from), None) => format!("{ip} begins to move from {from} to {to}: {reason}"),
            (None, _) => format!("{ip} begins to move to {to}: {reason}"),
        };
        self.teller.line(at_ms, "account", &text);
        let begun = Move {
            ip,
            from,
            to,
            reason,
            lost_ms,
            began_ms: at_ms,
            done_ms: at_ms,
            confirmed_ms: None,
            published_ms: None,
        };
        self.open.insert(ip, begun);
    }

    /// Why an address leaves a node for another one, and since when.
    fn reason(&self, ip: Ipv4Addr, from: Option<&str>, to: &str) -> (String, Option<u64>) {
        let pools = pools::pools(&self.stage.api);
        let owner = pools.iter().find(|pool| pool.names(ip)).map(|pool| &pool.name);
        let Some(owner) = owner else {
            return ("no pool names it".to_owned(), None);
        };
        let Some(from) = from else {
            return (format!("it is free, and {to} matches {owner} and has none"), None);
        };
        let key = (owner.clone(), from.to_owned());
        let reason = match self.standings.get(&key) {
            Some(Standing::Fails(reason)) => reason.clone(),
            Some(Standing::NotSelected) | None => format!("{from} is none of the nodes of {owner}"),
            Some(Standing::Matches) => format!("{from} matches {owner}, so this move is needless"),
        };
        (reason, self.lost.get(&key).copied())
    }

    fn finish(&mut self, at_ms: u64, ip: Ipv4Addr, droplet: u64, from: Option<u64>) {
        let to = self.node(droplet);
        let Some(open) = self.open.remove(&ip) else {
            let from = from.map(|from| format!(" (from {})", self.node(from))).unwrap_or_default();
            self.teller.line(at_ms, "account", &format!("{ip} is on {to}{from}, moved by hand"));
            return;
        };
        let done = Move { done_ms: at_ms, ..open };
        let took = match (done.lost_ms, &done.from) {
            (Some(lost_ms), Some(from)) => {
                format!("{} after {from} stopped matching", seconds(at_ms.saturating_sub(lost_ms)))
            }
            _ => format!("after {}", seconds(at_ms.saturating_sub(done.began_ms))),
        };
        self.teller.line(at_ms, "account", &format!("{ip} is on {to}, {took}"));
        self.moves.push(done);
    }

    /// The node on a droplet.
    fn node(&self, droplet: u64) -> String {
        self.stage.nodes.get(&droplet).cloned().unwrap_or_else(|| format!("droplet {droplet}"))
    }
}

/// Whether the lines about records, annotations and nodes tell this already: what a record set holds, and which nodes
/// have nothing for it. A failure and its end are always told.
fn is_told_otherwise(condition: &Condition, known: Option<&Condition>) -> bool {
    let normal = |condition: &Condition| {
        matches!(
            condition.reason.as_str(),
            "InProgress" | "Published" | "Empty" | "Kept" | "NodeWithoutAddress"
        )
    };
    normal(condition) && known.is_none_or(normal)
}

fn annotation(node: Option<&Value>) -> Option<&str> {
    node?.get("metadata")?.get("annotations")?.get(RESERVED_IP_ANNOTATION)?.as_str()
}
