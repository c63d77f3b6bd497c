//! What the picture tells, taken from what happened in the simulated world.
//!
//! Times are tenths of a second since the failure, rounded: what people read, and what the way of a single call does
//! not change. Invariant: every text is the operator's own.

use flipop::kube::objects::NodeSlim;
use flipop_cloud::{ChangeKind, RecordVerb};
use flipop_core::model::facts::{NodeFacts, Readiness};
use flipop_simulation::news::{News, What};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Milliseconds in a tenth of a second.
const TENTH_MS: i64 = 100;

/// Something that is true for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// Of which node or name.
    pub(super) of: String,
    /// What: an address.
    pub(super) what: String,
    /// Since when.
    pub(super) from: i64,
    /// Until when; absent: it still is.
    pub(super) to: Option<i64>,
}

/// A node, and since when it is ready or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) changes: Vec<(i64, bool)>,
}

/// An address that went from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) ip: String,
    pub(super) from: String,
    pub(super) to: String,
    /// When the provider took the request.
    pub(super) began: i64,
    /// When the address was there.
    pub(super) done: i64,
}

/// An Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) at: i64,
    /// The node or name that it mentions first.
    pub(super) of: String,
    pub(super) reason: String,
    pub(super) text: String,
}

/// A failover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tale {
    /// The node that failed.
    pub(super) failed: String,
    /// All nodes, by name.
    pub(super) nodes: Vec<Node>,
    /// The address that moved.
    pub(super) moved: Move,
    /// Which node held which address.
    pub(super) held: Vec<Span>,
    /// The name.
    pub(super) name: String,
    /// Which address stood at the name.
    pub(super) records: Vec<Span>,
    /// When the moved address stood at the name again.
    pub(super) published: i64,
    /// What the operator said since the failure.
    pub(super) said: Vec<Said>,
}

/// Reads the news one by one.
struct Reader {
    zero_ms: u64,
    nodes: BTreeMap<String, Vec<(i64, bool)>>,
    droplets: BTreeMap<u64, String>,
    began: BTreeMap<Ipv4Addr, i64>,
    moves: Vec<Move>,
    held: Vec<Span>,
    records: Vec<Span>,
    events: Vec<(i64, String, String)>,
}

/// A node as the operator reads it.
fn node(object: Option<&Value>) -> Option<NodeFacts> {
    let slim: NodeSlim = serde_json::from_value(object?.clone()).ok()?;
    Some(slim.into_facts())
}

/// When a node stopped being ready, and which.
fn failure(news: &News) -> Option<(u64, String)> {
    let What::Cluster(change) = &news.what else { return None };
    if change.storage.plural != "nodes" {
        return None;
    }
    let (before, after) = (node(change.before.as_deref())?, node(change.after.as_deref())?);
    let failed = before.ready == Readiness::Ready && after.ready != Readiness::Ready;
    failed.then_some((news.at_ms, after.name))
}

impl Tale {
    /// The first failover of these news; what is missing when there is none.
    pub(super) fn read(news: &[News]) -> Result<Self, &'static str> {
        let (zero_ms, failed) = news.iter().find_map(failure).ok_or("no node failed")?;
        let mut reader = Reader {
            zero_ms,
            nodes: BTreeMap::new(),
            droplets: BTreeMap::new(),
            began: BTreeMap::new(),
            moves: Vec::new(),
            held: Vec::new(),
            records: Vec::new(),
            events: Vec::new(),
        };
        for news in news {
            reader.hear(news);
        }
        let leaves = |moved: &&Move| moved.from == failed && moved.began >= 0;
        let moved = reader.moves.iter().find(leaves).cloned().ok_or("no address left the node")?;
        let back = |record: &&Span| record.what == moved.ip && record.from >= moved.done;
        let record = reader.records.iter().find(back).ok_or("the address was not published again")?;
        let (name, published) = (record.of.clone(), record.from);
        let nodes = reader.nodes.into_iter().map(|(name, changes)| Node { name, changes });
        let nodes: Vec<Node> = nodes.collect();
        let mut said = Vec::new();
        for (at, reason, text) in reader.events.into_iter().filter(|(at, ..)| *at >= 0) {
            let names = nodes.iter().map(|node| &node.name).chain([&name]);
            let first = names.filter_map(|name| Some((text.find(name.as_str())?, name))).min();
            let of = first.map(|(_, name)| name.clone()).ok_or("an Event mentions no node and no name")?;
            said.push(Said { at, of, reason, text });
        }
        let (held, records) = (reader.held, reader.records);
        Ok(Self { failed, nodes, moved, held, name, records, published, said })
    }

    /// The Events about a node or a name.
    pub(super) fn said_of(&self, of: &str) -> impl Iterator<Item = &Said> {
        self.said.iter().filter(move |said| said.of == of)
    }
}

impl Reader {
    fn hear(&mut self, news: &News) {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let since_ms = signed(news.at_ms).saturating_sub(signed(self.zero_ms));
        let at = since_ms.saturating_add(TENTH_MS / 2).div_euclid(TENTH_MS);
        match &news.what {
            What::Account(kind) => self.hear_account(at, kind),
            What::Cluster(change) => match change.storage.plural.as_str() {
                "nodes" => self.hear_node(at, node(change.after.as_deref())),
                "events" => self.hear_event(at, change.after.as_deref()),
                _ => {}
            },
        }
    }

    fn hear_node(&mut self, at: i64, node: Option<NodeFacts>) {
        let Some(node) = node else { return };
        if let Some(droplet) = node.machine.and_then(|machine| machine.id().parse().ok()) {
            self.droplets.insert(droplet, node.name.clone());
        }
        let (changes, ready) = (self.nodes.entry(node.name).or_default(), node.ready == Readiness::Ready);
        if changes.last().is_none_or(|(_, was)| *was != ready) {
            changes.push((at, ready));
        }
    }

    fn hear_event(&mut self, at: i64, event: Option<&Value>) {
        let text = |field: &str| event.and_then(|event| event.get(field)).and_then(Value::as_str);
        if let (Some(reason), Some(message)) = (text("reason"), text("message")) {
            self.events.push((at, reason.to_owned(), message.to_owned()));
        }
    }

    fn hear_account(&mut self, at: i64, kind: &ChangeKind) {
        match kind {
            ChangeKind::AssignStarted { ip, .. } => {
                self.began.insert(*ip, at);
                // It serves there no more: the node failed, or it leaves.
                end(&mut self.held, &ip.to_string(), at);
            }
            ChangeKind::Assigned { ip, droplet, from } => self.assigned(at, *ip, *droplet, *from),
            ChangeKind::Unassigned { ip, .. } => end(&mut self.held, &ip.to_string(), at),
            ChangeKind::Record { verb, fqdn, rtype, data, replaced, .. } if rtype == "A" => {
                match verb {
                    RecordVerb::Created => {}
                    RecordVerb::Updated => end(&mut self.records, replaced.as_deref().unwrap_or(data), at),
                    RecordVerb::Deleted => return end(&mut self.records, data, at),
                }
                let (of, what) = (fqdn.clone(), data.clone());
                self.records.push(Span { of, what, from: at, to: None });
            }
            ChangeKind::Record { .. }
            | ChangeKind::DropletAdded(_)
            | ChangeKind::DropletDestroyed(_)
            | ChangeKind::IpReserved(_)
            | ChangeKind::IpReleased(_)
            | ChangeKind::Firewall(_)
            | ChangeKind::ActionErrored(_) => {}
        }
    }

    fn assigned(&mut self, at: i64, ip: Ipv4Addr, droplet: u64, from: Option<u64>) {
        let name = |droplet: u64| self.droplets.get(&droplet).cloned().unwrap_or_default();
        let (of, what) = (name(droplet), ip.to_string());
        if let Some(from) = from {
            let (from, began) = (name(from), self.began.get(&ip).copied().unwrap_or(at));
            self.moves.push(Move { ip: what.clone(), from, to: of.clone(), began, done: at });
        }
        self.held.push(Span { of, what, from: at, to: None });
    }
}

/// What was true of an address is no more.
fn end(spans: &mut [Span], what: &str, at: i64) {
    if let Some(span) = spans.iter_mut().rev().find(|span| span.what == what && span.to.is_none()) {
        span.to = Some(at);
    }
}
