//! Changes in the cluster: which nodes match and why others do not, annotations, Events, conditions.

use super::super::pools::{self, POOL_KIND, Pool, RECORD_SET_KIND, Standing};
use super::super::records::RecordSet;
use super::super::teller::Line;
use super::{Move, OPERATOR, Story};
use flipop::api::Condition;
use flipop_apiserver::{Change, Storage};
use flipop_core::model::spec::Grace;
use flipop_core::model::{Mismatch, ObjectName};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Story {
    pub(super) fn tell_change(&mut self, at_ms: u64, change: &Change) {
        let Storage { group, plural } = &change.storage;
        match (group.as_str(), plural.as_str()) {
            ("", "nodes") => {
                self.tell_standings(at_ms, change);
                self.tell_annotation(at_ms, change);
                self.tell_labels(at_ms, change);
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

    /// Tells which nodes began or ceased to match, with the reason.
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
        let graces: BTreeMap<ObjectName, Grace> =
            pools::pools(&self.stage.api).into_iter().map(|pool| (pool.name, pool.spec.grace)).collect();
        for ((pool, matched, standing), nodes) in lines {
            let one = nodes.len() == 1;
            let verb = match (&standing, matched, one) {
                (Standing::Matches, _, true) => "matches",
                (Standing::Matches, _, false) => "match",
                // The node may keep its match for a while.
                (Standing::Fails(why), true, _) if has_grace(&graces, &pool, why) && one => {
                    "fails the rules of"
                }
                (Standing::Fails(why), true, _) if has_grace(&graces, &pool, why) => "fail the rules of",
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
            self.teller.line(at_ms, Line::Match, &format!("{} {verb} {pool}{reason}", nodes.join(", ")));
        }
    }

    fn tell_annotation(&mut self, at_ms: u64, change: &Change) {
        let (before, after) = (
            change.before.as_deref().and_then(pools::annotation),
            change.after.as_deref().and_then(pools::annotation),
        );
        let node = &change.key.name;
        match after {
            _ if before == after => {}
            Some(ip) => {
                let here = |done: &&mut Move| done.to == *node && done.ip.to_string() == ip;
                if let Some(done) = self.moves.iter_mut().rev().find(here) {
                    done.confirmed_ms.get_or_insert(at_ms);
                }
                self.teller.line(at_ms, Line::Node, &format!("{node} is annotated with {ip}"));
            }
            None => {
                if let Some(ip) = before.and_then(|ip| ip.parse().ok()) {
                    self.unannotated.insert(ip, node.clone());
                }
                self.teller.line(at_ms, Line::Node, &format!("{node} loses its annotation"));
            }
        }
    }

    /// Tells which labels the operator gave a node, or took from it.
    fn tell_labels(&mut self, at_ms: u64, change: &Change) {
        let read = |object: &Option<Arc<Value>>| object.as_deref().map(pools::ip_labels).unwrap_or_default();
        let (before, after, node) = (read(&change.before), read(&change.after), &change.key.name);
        if change.manager != OPERATOR || before == after {
            return;
        }
        let text = if after.is_empty() {
            format!("{node} loses its labels {}", before.join(", "))
        } else {
            format!("{node} is labelled {}", after.join(", "))
        };
        self.teller.line(at_ms, Line::Node, &text);
    }

    fn tell_event(&mut self, at_ms: u64, change: &Change) {
        let Some(event) = change.after.as_deref() else { return };
        let text = |pointer: &str| pools::text(event, pointer);
        let ours = matches!(text("/involvedObject/kind"), POOL_KIND | RECORD_SET_KIND);
        // Changes of records are told one by one.
        if ours && text("/reason") != "RecordsChanged" {
            let (namespace, name) = (text("/involvedObject/namespace"), text("/involvedObject/name"));
            let (kind, reason, message) = (text("/type"), text("/reason"), text("/message"));
            self.teller.line(at_ms, Line::Event, &format!("{kind} {reason} {namespace}/{name}: {message}"));
        }
    }

    /// Tells what changed in a pool's conditions.
    fn tell_pool(&mut self, at_ms: u64, change: &Change) {
        let read = |object: &Option<Arc<Value>>| object.as_deref().and_then(Pool::read);
        let Some(after) = read(&change.after) else {
            let name = ObjectName::new(&change.key.namespace, &change.key.name);
            let text = format!("{name} is gone; its addresses stay where they are");
            return self.teller.line(at_ms, Line::Pool, &text);
        };
        let before = read(&change.before).map(|pool| pool.status.conditions).unwrap_or_default();
        self.tell_conditions(at_ms, Line::Pool, &after.name, (&before, &after.status.conditions));
    }

    /// Tells what changed in a record set's conditions.
    fn tell_record_set(&mut self, at_ms: u64, change: &Change) {
        let read = |object: &Option<Arc<Value>>| object.as_deref().and_then(RecordSet::read);
        let Some(after) = read(&change.after) else {
            let name = ObjectName::new(&change.key.namespace, &change.key.name);
            let text = format!("{name} is gone; its records stay as they are");
            return self.teller.line(at_ms, Line::Set, &text);
        };
        let before = read(&change.before).map(|set| set.conditions().to_vec()).unwrap_or_default();
        self.tell_conditions(at_ms, Line::Set, &after.object, (&before, after.conditions()));
    }

    fn tell_conditions(
        &mut self,
        at_ms: u64,
        who: Line,
        name: &ObjectName,
        (before, after): (&[Condition], &[Condition]),
    ) {
        let find = |conditions: &[Condition], kind: &str| {
            conditions.iter().find(|condition| condition.type_ == kind).cloned()
        };
        for condition in after {
            let Condition { type_: kind, status, reason, message, .. } = condition;
            let known = find(before, kind);
            let normal = !pools::is_abnormal(kind, status) && (kind != "Ready" || who == Line::Set);
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
}

fn has_grace(graces: &BTreeMap<ObjectName, Grace>, pool: &ObjectName, why: &Mismatch) -> bool {
    graces.get(pool).is_some_and(|grace| grace.limit_ms(why.class()) > 0)
}

/// Whether the lines about records, annotations and nodes already tell this: the content of a record set, and the
/// nodes that have no address for it. A failure and its end are always told.
fn is_told_otherwise(condition: &Condition, known: Option<&Condition>) -> bool {
    let normal = |condition: &Condition| {
        matches!(
            condition.reason.as_str(),
            "InProgress" | "Published" | "Empty" | "Kept" | "NodeWithoutAddress"
        )
    };
    normal(condition) && known.is_none_or(normal)
}
