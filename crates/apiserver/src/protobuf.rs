//! Decodes request bodies in Kubernetes' protobuf, which `kubectl create namespace|secret|configmap|…` sends.
//!
//! It knows only the kinds and fields that these commands send. Answers are always JSON, which clients that send
//! protobuf accept too.

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

/// The first bytes of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Number,
    Flag,
    TextMap,
    BytesMap,
    One(&'static [Field]),
    Many(&'static [Field]),
}

use Kind::{BytesMap, Flag, Many, Number, One, Text, TextMap, Texts};

/// Number, JSON name and kind of a field.
type Field = (u64, &'static str, Kind);

const METADATA: Field = (
    1,
    "metadata",
    One(&[
        (1, "name", Text),
        (2, "generateName", Text),
        (3, "namespace", Text),
        (11, "labels", TextMap),
        (12, "annotations", TextMap),
        (14, "finalizers", Texts),
    ]),
);
const NAMESPACE: &[Field] = &[METADATA, (2, "spec", One(&[(1, "finalizers", Texts)]))];
const SECRET: &[Field] =
    &[METADATA, (2, "data", BytesMap), (3, "type", Text), (4, "stringData", TextMap), (5, "immutable", Flag)];
const CONFIG_MAP: &[Field] =
    &[METADATA, (2, "data", TextMap), (3, "binaryData", BytesMap), (4, "immutable", Flag)];
const SERVICE_ACCOUNT: &[Field] = &[METADATA];
const ROLE: &[Field] = &[
    METADATA,
    (
        2,
        "rules",
        Many(&[
            (1, "verbs", Texts),
            (2, "apiGroups", Texts),
            (3, "resources", Texts),
            (4, "resourceNames", Texts),
            (5, "nonResourceURLs", Texts),
        ]),
    ),
];
const BINDING: &[Field] = &[
    METADATA,
    (
        2,
        "subjects",
        Many(&[(1, "kind", Text), (2, "apiGroup", Text), (3, "name", Text), (4, "namespace", Text)]),
    ),
    (3, "roleRef", One(&[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)])),
];
const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Number),
    (2, "preconditions", One(&[(1, "uid", Text), (2, "resourceVersion", Text)])),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];
const EVICTION: &[Field] = &[METADATA, (2, "deleteOptions", One(DELETE_OPTIONS))];

/// Whether the body is protobuf.
pub(crate) fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// The object in the body. `None` if its kind is unknown or it does not parse.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let envelope = message(body.strip_prefix(MAGIC)?)?;
    let part = |number: u64| {
        envelope.iter().find_map(|(n, wire)| match wire {
            Wire::Bytes(bytes) if *n == number => Some(*bytes),
            Wire::Bytes(_) | Wire::Number(_) => None,
        })
    };
    let kind_of = [(1, "apiVersion", Text), (2, "kind", Text)];
    let mut object = object(part(1)?, &kind_of)?;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let fields: &[Field] = match kind {
        "Namespace" => NAMESPACE,
        "Secret" => SECRET,
        "ConfigMap" => CONFIG_MAP,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "Role" | "ClusterRole" => ROLE,
        "RoleBinding" | "ClusterRoleBinding" => BINDING,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        // The question does not matter, because the answer is always yes.
        "SelfSubjectAccessReview" | "SelfSubjectReview" => &[],
        _ => return None,
    };
    object.extend(self::object(part(2).unwrap_or_default(), fields)?);
    Some(Value::Object(object))
}

fn object(bytes: &[u8], fields: &[Field]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    for (number, wire) in message(bytes)? {
        let Some((_, name, kind)) = fields.iter().find(|(n, _, _)| *n == number) else { continue };
        put(&mut object, name, *kind, &wire)?;
    }
    Some(object)
}

fn put(object: &mut Map<String, Value>, name: &str, kind: Kind, wire: &Wire<'_>) -> Option<()> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    match (kind, wire) {
        // Go's encoder also writes empty texts, which mean absent.
        (Text, Wire::Bytes([])) => {}
        (Text, Wire::Bytes(bytes)) => {
            object.insert(name.to_owned(), json!(text(bytes)?));
        }
        (Number, Wire::Number(number)) => {
            object.insert(name.to_owned(), json!(i64::try_from(*number).ok()?));
        }
        (Flag, Wire::Number(number)) => {
            object.insert(name.to_owned(), json!(*number != 0));
        }
        (Texts, Wire::Bytes(bytes)) => append(object, name, json!(text(bytes)?)),
        (Many(fields), Wire::Bytes(bytes)) => {
            append(object, name, Value::Object(self::object(bytes, fields)?));
        }
        (One(fields), Wire::Bytes(bytes)) => {
            let inner = self::object(bytes, fields)?;
            if !inner.is_empty() {
                object.insert(name.to_owned(), Value::Object(inner));
            }
        }
        (TextMap | BytesMap, Wire::Bytes(bytes)) => {
            let mut entry = (String::new(), Value::Null);
            for (number, wire) in message(bytes)? {
                match (number, wire) {
                    (1, Wire::Bytes(key)) => entry.0 = text(key)?,
                    (2, Wire::Bytes(value)) if matches!(kind, TextMap) => entry.1 = json!(text(value)?),
                    (2, Wire::Bytes(value)) => {
                        entry.1 = serde_json::to_value(ByteString(value.to_vec())).ok()?;
                    }
                    (_, Wire::Bytes(_) | Wire::Number(_)) => {}
                }
            }
            let map = super::meta::as_map(object.entry(name.to_owned()).or_insert(Value::Null));
            map.insert(entry.0, entry.1);
        }
        (Text | Texts | TextMap | BytesMap | One(_) | Many(_), Wire::Number(_))
        | (Number | Flag, Wire::Bytes(_)) => return None,
    }
    Some(())
}

fn append(object: &mut Map<String, Value>, name: &str, value: Value) {
    match object.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new())) {
        Value::Array(list) => list.push(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {}
    }
}

/// A value on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
fn message(mut rest: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut rest)?),
            1 => Wire::Bytes(take(&mut rest, 8)?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Wire::Bytes(take(&mut rest, length)?)
            }
            5 => Wire::Bytes(take(&mut rest, 4)?),
            _ => return None,
        };
        fields.push((tag >> 3, wire));
    }
    Some(fields)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body that `kubectl create namespace x` sends.
    const CREATE_NAMESPACE: &[u8] =
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x19\x0a\x11\x0a\x01x\x12\0\x1a\0\"\0\
        *\x002\x008\0B\0\x12\0\x1a\x02\x0a\0\x1a\0\"\0";

    #[test]
    fn the_body_of_kubectl_create_namespace_is_understood() {
        let object = decode(CREATE_NAMESPACE).unwrap();
        assert_eq!(object, json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" } }));
    }

    #[test]
    fn torn_and_foreign_bodies_are_refused_without_harm() {
        for length in 0..CREATE_NAMESPACE.len() {
            if let Some(object) = CREATE_NAMESPACE.get(..length).and_then(decode) {
                assert!(object.is_object());
            }
        }
        assert_eq!(decode(b"{}"), None);
        assert_eq!(decode(b"k8s\0\x0a\x08\x12\x06Gadget"), None);
    }
}
