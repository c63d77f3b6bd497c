//! I12: the operator writes only the status of an object, our own elements of a pool's `spec.ips`, and our
//! annotation and labels of a node. Everything else is the user's.

use super::validity::text;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const FINALIZER: &str = "flipop.digitalocean.com/reclaim";

const ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";

/// The labels of `spec.nodeLabels`.
pub(super) const LABELS: [&str; 4] = [
    "flipop.digitalocean.com/reserved-ip-active",
    "flipop.digitalocean.com/reserved-ip",
    "do-outbound-floating-ip",
    "do-outbound-floating-ip-enabled",
];

/// Fields of the metadata that the API server writes.
const SERVERS_OWN: [&str; 3] = ["resourceVersion", "managedFields", "generation"];

/// The addresses that were written into the spec of their pool. Each is written once.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeSet<(String, Ipv4Addr)>);

/// Whether the status marks an address that the spec gives back.
fn is_deleted(pool: &Value, ip: &Value) -> bool {
    let bought = pool.pointer("/status/purchasedIPs").and_then(Value::as_array).into_iter().flatten();
    let mut marked = bought.filter(|entry| entry.get("deleting") == Some(&Value::Bool(true)));
    let released = pool.pointer("/spec/releasedIPs").and_then(Value::as_array);
    text(pool, "/spec/reclaimPolicy") == "Delete"
        && released.is_some_and(|released| released.contains(ip))
        && marked.any(|entry| entry.get("ip") == Some(ip))
}

/// The object without its status, the server's own fields, and these fields.
fn rest(object: &Value, ours: &[&str]) -> Value {
    let mut object = object.clone();
    let mut take = |pointer: &str| {
        let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
        let fields = object.pointer_mut(parent).and_then(Value::as_object_mut);
        fields.and_then(|fields| fields.remove(field)).unwrap_or_default()
    };
    let _status = take("/status");
    for field in SERVERS_OWN {
        let _written = take(&format!("/metadata/{field}"));
    }
    for pointer in ours {
        let _ours = take(pointer);
    }
    // The last annotation may take the field with it.
    let annotations = object.pointer_mut("/metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = annotations
        && metadata.get("annotations").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
    {
        metadata.remove("annotations");
    }
    object
}

fn ips(object: &Value) -> Vec<&Value> {
    object.pointer("/spec/ips").and_then(Value::as_array).into_iter().flatten().collect()
}

/// Whether the status says that the address is still to be written. A process that died in between could say
/// nothing else.
fn is_unwritten(pool: &Value, ip: Ipv4Addr) -> bool {
    let created = pool.pointer("/status/createdIPs").and_then(Value::as_array);
    let about = |entry: &&Value| text(entry, "/ip") == ip.to_string();
    let entry = created.into_iter().flatten().find(about);
    entry.is_some_and(|entry| entry.get("written").and_then(Value::as_bool) != Some(true))
}

impl Written {
    /// Judges a write of the operator. `created`: the addresses that it bought. Returns the change that it should
    /// not have made.
    pub(super) fn check(
        &mut self,
        kind: &str,
        (before, after): (&Value, &Value),
        created: &BTreeSet<Ipv4Addr>,
    ) -> Option<String> {
        let same = match kind {
            "floatingippools" => {
                let (mut old, new) = (ips(before), ips(after));
                // An address that was deleted leaves the spec.
                old.retain(|ip| new.contains(ip) || !is_deleted(before, ip));
                let added: Vec<Ipv4Addr> =
                    new.iter().skip(old.len()).filter_map(|ip| ip.as_str()?.parse().ok()).collect();
                let uid = text(before, "/metadata/uid");
                let ours = added.iter().all(|ip| {
                    let first = self.0.insert((uid.to_owned(), *ip));
                    created.contains(ip) && (first || is_unwritten(before, *ip))
                });
                let appended = new.starts_with(&old) && new.len() == old.len() + added.len();
                let others = |pool: &Value| {
                    let finalizers = pool.pointer("/metadata/finalizers").and_then(Value::as_array);
                    let others = finalizers.into_iter().flatten().filter(|other| *other != FINALIZER);
                    others.cloned().collect::<Vec<Value>>()
                };
                let fields = ["/spec/ips", "/metadata/finalizers"];
                let same = others(before) == others(after) && rest(before, &fields) == rest(after, &fields);
                ours && appended && same
            }
            "nodes" => rest_of_node(before) == rest_of_node(after),
            "nodednsrecordsets" => rest(before, &[]) == rest(after, &[]),
            _ => true,
        };
        (!same).then(|| format!("the operator turned {} into {}", rest(before, &[]), rest(after, &[])))
    }
}

fn rest_of_node(node: &Value) -> Value {
    let mut node = node.clone();
    let annotations = node.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove(ANNOTATION);
    }
    if let Some(labels) = node.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !LABELS.contains(&key.as_str()));
    }
    rest(&node, &[])
}
