//! Tracks which manager wrote which field (`metadata.managedFields`), and server-side apply on top of it.
//!
//! A field is a path of steps. Maps are walked; lists with a key are walked element by element; any other list is one
//! field. The existence of a map (`.`) is recorded only for labels and annotations. It matters to readers there: a
//! writer without a remaining annotation stays listed while others use the map that it created.

use super::error::{ApiError, Cause};
use super::meta::{as_map, at, list_at, text_at};
use super::patch;
use super::resource::Resource;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// `f:name`
    Field(String),
    /// `k:{"key":"value"}`
    Key(String),
    /// `v:"value"`, an element of a set.
    Element(String),
}

type Path = Vec<Step>;
type Paths = BTreeSet<Path>;

/// The fields of one writer.
#[derive(Debug, Clone, PartialEq)]
struct Share {
    writer: Writer,
    api_version: String,
    time: String,
    paths: Paths,
}

/// The writer, and its kind of write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) manager: String,
    /// `Apply` or `Update`.
    pub(crate) operation: &'static str,
    /// `status`, or empty for the main resource.
    pub(crate) subresource: String,
}

/// How the elements of a list are identified.
enum ListKind {
    Atomic,
    Set,
    Keyed(Vec<String>),
}

/// Fields that the server itself owns.
const OF_THE_SERVER: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
];

/// Records in `new` what `writer` changed in `old`. `None` means that it created the object.
pub(crate) fn record_update(
    resource: &Resource,
    writer: &Writer,
    old: Option<&Value>,
    new: &mut Value,
    time: &str,
) {
    // As in apiserver, updates do not track fields that nobody has owned so far.
    if old.is_some_and(|object| at(object, &["metadata", "managedFields"]).is_none()) {
        return;
    }
    let before = old.map(|object| leaves(resource, object)).unwrap_or_default();
    let after = leaves(resource, new);
    let changed: Paths = after
        .iter()
        .filter(|(path, value)| before.get(*path) != Some(*value))
        .map(|(p, _)| p.clone())
        .collect();
    let mut shares = read(new);
    for share in &mut shares {
        share.paths.retain(|path| after.contains_key(path));
        if share.writer != *writer {
            share.paths.retain(|path| !changed.contains(path));
        }
    }
    if !changed.is_empty() {
        let index = share_of(&mut shares, writer, &resource.api_version());
        if let Some(share) = shares.get_mut(index) {
            time.clone_into(&mut share.time);
            share.paths.extend(changed);
        }
    }
    write(new, shares);
}

/// Server-side apply: adds to `current` what `applied` contains, and removes what the same manager no longer applies.
pub(crate) fn apply(
    resource: &Resource,
    writer: &Writer,
    current: &Value,
    applied: &Value,
    force: bool,
    time: &str,
) -> Result<Value, ApiError> {
    let mut wanted = applied.clone();
    if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !OF_THE_SERVER.contains(&field.as_str()));
    }
    let mut says = leaves(resource, &wanted);
    says.retain(|path, _| !is_map_itself(path));
    let is_so = leaves(resource, current);
    let mut shares = read(current);
    if !force {
        refuse_conflicts(writer, &shares, &says, &is_so)?;
    }
    let mut result = current.clone();
    merge_applied(resource, &mut result, &wanted, &mut Vec::new());

    let index = share_of(&mut shares, writer, &resource.api_version());
    let said: Paths = shares.get(index).map(|share| share.paths.clone()).unwrap_or_default();
    let (names, fields): (Vec<&Path>, Vec<&Path>) = said
        .iter()
        .filter(|path| !says.contains_key(*path))
        .filter(|path| !shares.iter().enumerate().any(|(i, share)| i != index && share.paths.contains(*path)))
        .partition(|path| names_element(path));
    // Remove the key of an element last: without it the rest of the element could not be found.
    for path in fields.into_iter().chain(names) {
        remove_path(&mut result, path);
    }
    let stands = leaves(resource, &result);
    for (i, share) in shares.iter_mut().enumerate() {
        if i == index {
            let mine: Paths = says.keys().cloned().collect();
            if share.paths != mine {
                time.clone_into(&mut share.time);
            }
            share.paths = mine;
        } else {
            share.paths.retain(|path| {
                stands.contains_key(path) && (!says.contains_key(path) || says.get(path) == is_so.get(path))
            });
        }
    }
    write(&mut result, shares);
    Ok(result)
}

/// Whether the path leads to the whole map of labels or annotations.
fn is_map_itself(path: &[Step]) -> bool {
    match path {
        [Step::Field(metadata), Step::Field(map)] => {
            metadata == "metadata" && (map == "labels" || map == "annotations")
        }
        _ => false,
    }
}

fn refuse_conflicts(
    writer: &Writer,
    shares: &[Share],
    says: &BTreeMap<Path, Value>,
    is_so: &BTreeMap<Path, Value>,
) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    for share in shares.iter().filter(|share| share.writer != *writer) {
        for path in &share.paths {
            if says.get(path).is_some_and(|value| is_so.get(path) != Some(value)) {
                let version = &share.api_version;
                let how = if share.writer.operation == "Update" {
                    format!(" using {version}")
                } else {
                    String::new()
                };
                let message = format!("conflict with {:?}{how}", share.writer.manager);
                causes.push(Cause { reason: "FieldManagerConflict", field: show(path), message });
            }
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let text = match causes.as_slice() {
        [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        many => {
            let fields: Vec<String> = many.iter().map(|c| format!("{}: {}", c.message, c.field)).collect();
            format!("Apply failed with {} conflicts: {}", many.len(), fields.join(", "))
        }
    };
    let mut error = ApiError::new(409, "Conflict", text);
    error.set_causes(json!(causes));
    Err(error)
}

/// The index of the writer's share, created if absent.
fn share_of(shares: &mut Vec<Share>, writer: &Writer, api_version: &str) -> usize {
    if let Some(index) = shares.iter().position(|share| share.writer == *writer) {
        return index;
    }
    shares.push(Share {
        writer: writer.clone(),
        api_version: api_version.to_owned(),
        time: String::new(),
        paths: Paths::new(),
    });
    shares.len().saturating_sub(1)
}

fn list_kind(resource: &Resource, path: &[Step], list: &[Value]) -> ListKind {
    let Some(Step::Field(field)) = path.last() else { return ListKind::Atomic };
    let sample = list.first().unwrap_or(&Value::Null);
    let in_metadata = matches!(path.first(), Some(Step::Field(first)) if first == "metadata");
    if let (Some(custom), false) = (&resource.custom, in_metadata) {
        let Some(schema) = schema_at(&custom.schema, path) else { return ListKind::Atomic };
        return match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => {
                let keys = list_at(schema, &["x-kubernetes-list-map-keys"]).iter().filter_map(Value::as_str);
                ListKind::Keyed(keys.map(str::to_owned).collect())
            }
            Some(_) | None => ListKind::Atomic,
        };
    }
    match patch::list_key(field, sample) {
        Some(key) if sample.is_object() => ListKind::Keyed(vec![key.to_owned()]),
        Some(_) | None if patch::list_is_set(field) => ListKind::Set,
        Some(_) | None => ListKind::Atomic,
    }
}

fn schema_at<'a>(schema: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(schema, |schema, step| match step {
        Step::Field(name) => at(schema, &["properties", name]).or_else(|| schema.get("additionalProperties")),
        Step::Key(_) | Step::Element(_) => schema.get("items"),
    })
}

/// `{"type":"Ready"}`: identifies an element of a keyed list.
fn element_key(element: &Value, keys: &[String]) -> String {
    let identity: Map<String, Value> =
        keys.iter().filter_map(|key| element.get(key).map(|value| (key.clone(), value.clone()))).collect();
    Value::Object(identity).to_string()
}

/// Every field with its value.
fn leaves(resource: &Resource, object: &Value) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        if name == "apiVersion" || name == "kind" {
            continue;
        }
        let mut path = vec![Step::Field(name.clone())];
        if name == "metadata" {
            for (field, value) in value.as_object().into_iter().flatten() {
                if !OF_THE_SERVER.contains(&field.as_str()) {
                    path.push(Step::Field(field.clone()));
                    if field == "labels" || field == "annotations" {
                        found.insert(path.clone(), Value::Null);
                    }
                    collect(resource, value, &mut path, &mut found);
                    path.pop();
                }
            }
        } else if value.as_object().is_none_or(|fields| !fields.is_empty()) {
            collect(resource, value, &mut path, &mut found);
        }
    }
    found
}

fn collect(resource: &Resource, value: &Value, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                path.push(Step::Field(name.clone()));
                collect(resource, value, path, found);
                path.pop();
            }
        }
        Value::Array(list) => match list_kind(resource, path, list) {
            ListKind::Keyed(keys) => {
                for element in list {
                    path.push(Step::Key(element_key(element, &keys)));
                    collect(resource, element, path, found);
                    path.pop();
                }
            }
            ListKind::Set => {
                for element in list {
                    path.push(Step::Element(element.to_string()));
                    found.insert(path.clone(), element.clone());
                    path.pop();
                }
            }
            ListKind::Atomic => {
                found.insert(path.clone(), value.clone());
            }
        },
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.insert(path.clone(), value.clone());
        }
    }
}

fn merge_applied(resource: &Resource, target: &mut Value, applied: &Value, path: &mut Path) {
    match applied {
        Value::Object(fields) => {
            let map = as_map(target);
            for (name, value) in fields {
                path.push(Step::Field(name.clone()));
                merge_applied(resource, map.entry(name.clone()).or_insert(Value::Null), value, path);
                path.pop();
            }
        }
        Value::Array(elements) => {
            let kind = list_kind(resource, path, elements);
            match (kind, target) {
                (ListKind::Keyed(keys), Value::Array(list)) => {
                    for element in elements {
                        let key = element_key(element, &keys);
                        path.push(Step::Key(key.clone()));
                        match list.iter_mut().find(|e| element_key(e, &keys) == key) {
                            Some(present) => merge_applied(resource, present, element, path),
                            None => list.push(element.clone()),
                        }
                        path.pop();
                    }
                }
                (ListKind::Set, Value::Array(list)) => {
                    let fresh: Vec<Value> = elements.iter().filter(|e| !list.contains(e)).cloned().collect();
                    list.extend(fresh);
                }
                (ListKind::Atomic | ListKind::Set | ListKind::Keyed(_), place) => *place = applied.clone(),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => *target = applied.clone(),
    }
}

/// Whether the path leads to a key field, which identifies its element in the list.
fn names_element(path: &[Step]) -> bool {
    match path {
        [.., Step::Key(key), Step::Field(name)] => {
            serde_json::from_str::<Value>(key).is_ok_and(|key| key.get(name).is_some())
        }
        _ => false,
    }
}

/// Removes a field, and the maps, elements and lists that become empty.
fn remove_path(value: &mut Value, path: &[Step]) {
    let Some((step, rest)) = path.split_first() else { return };
    match (step, value) {
        (Step::Field(name), Value::Object(map)) => {
            if rest.is_empty() {
                map.remove(name);
            } else if let Some(inner) = map.get_mut(name) {
                remove_path(inner, rest);
                if is_hollow(inner) {
                    map.remove(name);
                }
            }
        }
        (Step::Key(key), Value::Array(list)) => {
            let key: Value = serde_json::from_str(key).unwrap_or_default();
            let Some(position) = list.iter().position(|element| is_part_of(&key, element)) else { return };
            let Some(element) = list.get_mut(position) else { return };
            match rest {
                // A key stays while its element has other fields.
                [Step::Field(name)] if key.get(name).is_some() => {
                    if is_part_of(element, &key) {
                        list.remove(position);
                    }
                }
                _ => remove_path(element, rest),
            }
        }
        (Step::Element(text), Value::Array(list)) => {
            let gone: Value = serde_json::from_str(text).unwrap_or_default();
            list.retain(|element| *element != gone);
        }
        (Step::Field(_) | Step::Key(_) | Step::Element(_), _) => {}
    }
}

fn is_part_of(key: &Value, element: &Value) -> bool {
    key.as_object().is_some_and(|map| map.iter().all(|(name, value)| element.get(name) == Some(value)))
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// `.spec.ips`, `.status.conditions[type="Ready"].status`
fn show(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Key(key) => format!("[{}]", key.trim_matches(['{', '}'])),
            Step::Element(value) => format!("[={value}]"),
        })
        .collect()
}

fn read(object: &Value) -> Vec<Share> {
    list_at(object, &["metadata", "managedFields"])
        .iter()
        .filter_map(|entry| {
            let text = |field: &str| text_at(entry, &[field]).to_owned();
            let mut paths = Paths::new();
            parse_paths(entry.get("fieldsV1")?, &mut Vec::new(), &mut paths);
            let operation = if text("operation") == "Apply" { "Apply" } else { "Update" };
            let writer = Writer { manager: text("manager"), operation, subresource: text("subresource") };
            Some(Share { writer, api_version: text("apiVersion"), time: text("time"), paths })
        })
        .collect()
}

fn parse_paths(tree: &Value, path: &mut Path, paths: &mut Paths) {
    let Some(map) = tree.as_object() else { return };
    if (map.is_empty() || map.contains_key(".")) && !path.is_empty() {
        paths.insert(path.clone());
    }
    for (name, inner) in map {
        let step = match name.split_once(':') {
            Some(("f", field)) => Step::Field(field.to_owned()),
            Some(("k", key)) => Step::Key(key.to_owned()),
            Some(("v", value)) => Step::Element(value.to_owned()),
            Some(_) | None => continue,
        };
        path.push(step);
        parse_paths(inner, path, paths);
        path.pop();
    }
}

fn write(object: &mut Value, shares: Vec<Share>) {
    let entries: Vec<Value> = shares
        .into_iter()
        .filter(|share| !share.paths.is_empty())
        .map(|share| {
            let mut tree = Value::Object(Map::new());
            for path in &share.paths {
                let mut place = &mut tree;
                for step in path {
                    let name = match step {
                        Step::Field(name) => format!("f:{name}"),
                        Step::Key(key) => format!("k:{key}"),
                        Step::Element(value) => format!("v:{value}"),
                    };
                    place = as_map(place).entry(name).or_insert_with(|| Value::Object(Map::new()));
                }
                if is_map_itself(path) {
                    as_map(place).insert(".".to_owned(), Value::Object(Map::new()));
                }
            }
            let mut entry = json!({
                "manager": share.writer.manager, "operation": share.writer.operation,
                "apiVersion": share.api_version, "time": share.time,
                "fieldsType": "FieldsV1", "fieldsV1": tree,
            });
            if !share.writer.subresource.is_empty() {
                as_map(&mut entry).insert("subresource".to_owned(), Value::String(share.writer.subresource));
            }
            entry
        })
        .collect();
    let value = if entries.is_empty() { Value::Null } else { Value::Array(entries) };
    super::meta::set(object, "managedFields", value);
}
