//! Objects from files. They replace installed objects, or join them.
//!
//! Owns their form: an object with a field that the schema lacks is refused, as by `kubectl`.

use crate::api::{
    Conditioned, FloatingIPPool, NodeDNSRecordSet, Seen, UNOBSERVED, Undecodable, crd, meta_of, object_of,
};
use crate::command::CommandError;
use crate::command::copy::Objects;
use flipop_core::model::words::nearest;
use flipop_core::model::{ObjectKind, ObjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::Resource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Largest file that is read. It exceeds any real set of objects by far.
const MAX_BYTES: u64 = 64 << 20;

/// The files of a directory that are read.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// The objects of the files.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pools: Vec<Seen<FloatingIPPool>>,
    record_sets: Vec<Seen<NodeDNSRecordSet>>,
    /// The names of both.
    pub(super) names: BTreeSet<(ObjectKind, ObjectName)>,
    /// The parts of the files that are ignored.
    pub(super) notes: Vec<String>,
}

/// Reads the files, and those of directories. `-` is standard input. `namespace`: that of objects which name none.
pub(super) fn read(files: &[PathBuf], namespace: Option<&str>) -> Result<Documents, CommandError> {
    let mut documents = Documents::default();
    for file in all_files(files)? {
        let shown = file.display().to_string();
        let wrong = |problem: String| CommandError::Usage(format!("failed to read {shown}: {problem}"));
        let text = text_of(&file).map_err(|error| wrong(error.to_string()))?;
        let values: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| wrong(error.to_string()))?;
        for value in values.into_iter().filter(|value| !value.is_null()) {
            for object in items(value) {
                documents.add(object, namespace, &shown)?;
            }
        }
    }
    Ok(documents)
}

/// The files, with those of a directory in its place, as `kubectl -f` finds them.
fn all_files(files: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut all = Vec::new();
    for file in files {
        if !file.is_dir() {
            all.push(file.clone());
            continue;
        }
        let wrong =
            |problem: &str| CommandError::Usage(format!("failed to read {}: {problem}", file.display()));
        let entries = std::fs::read_dir(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(|error| wrong(&error.to_string()))?;
        let paths = entries.iter().map(std::fs::DirEntry::path);
        let mut found: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|of| EXTENSIONS.iter().any(|known| of == *known)))
            .collect();
        if found.is_empty() {
            return Err(wrong("it has no file that ends in .json, .yaml or .yml"));
        }
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

fn text_of(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file)?.take(MAX_BYTES).read_to_string(&mut text)?;
    }
    Ok(text)
}

/// The objects of a list, or the object itself.
fn items(value: Value) -> Vec<Value> {
    if value.get("kind").and_then(Value::as_str) != Some("List") {
        return vec![value];
    }
    value.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
}

impl Documents {
    fn add(&mut self, mut object: Value, namespace: Option<&str>, file: &str) -> Result<(), CommandError> {
        let text = |object: &Value, path: &str| {
            object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (kind, version) = (text(&object, "/kind"), text(&object, "/apiVersion"));
        let name = text(&object, "/metadata/name");
        let known = ObjectKind::parse(&kind).filter(|_| version == FloatingIPPool::api_version(&()));
        let Some(kind) = known else {
            let kind = if kind.is_empty() { "an object without a kind".to_owned() } else { kind };
            self.notes.push(format!("{file}: {kind} {name} is ignored: it is not one of FLIPOP's kinds"));
            return Ok(());
        };
        if name.is_empty() {
            let kind = kind.as_str();
            return Err(CommandError::Usage(format!("failed to read {file}: a {kind} has no metadata.name")));
        }
        if text(&object, "/metadata/namespace").is_empty()
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace".to_owned(), namespace.unwrap_or("default").into());
        }
        self.names.insert((kind, ObjectName::new(text(&object, "/metadata/namespace"), name)));
        match kind {
            ObjectKind::Pool => self.pools.push(decoded(&object)),
            ObjectKind::RecordSet => self.record_sets.push(decoded(&object)),
        }
        Ok(())
    }

    /// The installed objects, with these in their places or added.
    pub(super) fn applied_to(&self, installed: &Objects, now: jiff::Timestamp) -> Objects {
        let mut wanted = installed.clone();
        for pool in &self.pools {
            put(&mut wanted.pools, pool, now, |pool, before| {
                pool.status = before.and_then(|before| before.status);
            });
        }
        for set in &self.record_sets {
            put(&mut wanted.record_sets, set, now, |set, before| {
                set.status = before.and_then(|before| before.status);
            });
        }
        wanted
    }
}

/// The object, or why the API server would refuse it.
fn decoded<K: Conditioned>(object: &Value) -> Seen<K> {
    let refused = |error: String| {
        let meta: ObjectMeta = object
            .get("metadata")
            .and_then(|metadata| serde_json::from_value(metadata.clone()).ok())
            .unwrap_or_default();
        let ObjectMeta { namespace, name, annotations, .. } = meta;
        let metadata = Box::new(ObjectMeta { namespace, name, annotations, ..ObjectMeta::default() });
        Undecodable { metadata, error }
    };
    let problems = against_schema::<K>(object);
    if !problems.is_empty() {
        return Err(refused(problems.join(", ")));
    }
    serde_json::from_value(object.clone()).map_err(|error| refused(error.to_string()))
}

/// The beginning of a problem that names a field which the schema lacks.
const UNKNOWN: &str = "unknown field ";

/// Fields of the spec that the schema lacks or has with another type.
fn against_schema<K: Resource<DynamicType = ()>>(object: &Value) -> Vec<String> {
    let kind = K::kind(&());
    let all = crd::all();
    let of_kind =
        |crd: &&Value| crd.pointer("/spec/names/kind").and_then(Value::as_str) == Some(kind.as_ref());
    let schema = all
        .iter()
        .find(of_kind)
        .and_then(|crd| crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec"));
    let mut problems = Vec::new();
    if let Some((schema, spec)) = schema.zip(object.get("spec")) {
        look(schema, spec, "spec", &mut problems);
        let mut known = Vec::new();
        paths(schema, "spec", &mut known);
        for problem in &mut problems {
            if let Some(meant) = problem.strip_prefix(UNKNOWN).and_then(|path| meant(path, &known)) {
                *problem = format!("{problem} (did you mean {meant}?)");
            }
        }
    }
    problems
}

/// The path of every field below a schema.
fn paths(schema: &Value, path: &str, known: &mut Vec<String>) {
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in fields.into_iter().flatten() {
        let path = format!("{path}.{name}");
        paths(schema, &path, known);
        known.push(path);
    }
    if let Some(schema) = schema.get("items") {
        paths(schema, &format!("{path}[]"), known);
    }
}

/// The field that an unknown one stands for: of those with the nearest name, the one in the same place, if any.
fn meant<'a>(unknown: &str, known: &'a [String]) -> Option<&'a str> {
    let (place, typed) = unknown.rsplit_once('.')?;
    let split = || known.iter().filter_map(|path| Some((path.as_str(), path.rsplit_once('.')?)));
    let name = nearest(typed, split().map(|(_, (_, name))| name))?;
    let named = split().filter(|(_, (_, other))| *other == name);
    named.min_by_key(|(_, (other, _))| *other != place).map(|(path, _)| path)
}

fn look(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    let wanted = schema.get("type").and_then(Value::as_str);
    if let Some(wanted) = wanted.filter(|wanted| !has_type(value, wanted)) {
        problems.push(format!("{path} must be of type {wanted}"));
        return;
    }
    match value {
        Value::Object(fields) => {
            let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match known.get(name) {
                    Some(schema) => look(schema, value, &path, problems),
                    None => problems.push(format!("{UNKNOWN}{path}")),
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                look(schema, item, &format!("{path}[{index}]"), problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a value has this type of a schema. The API server drops `null`.
fn has_type(value: &Value, wanted: &str) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => wanted == "boolean",
        Value::Number(number) => wanted == "number" || (wanted == "integer" && !number.is_f64()),
        Value::String(_) => wanted == "string",
        Value::Array(_) => wanted == "array",
        Value::Object(_) => wanted == "object",
    }
}

/// Replaces the object of the same name, or adds the new one. `inherit` takes over the status.
fn put<K>(all: &mut Vec<Seen<K>>, object: &Seen<K>, now: jiff::Timestamp, inherit: impl Fn(&mut K, Option<K>))
where
    K: Resource<DynamicType = ()> + Clone,
{
    let name = |seen: &Seen<K>| object_of(meta_of(seen)).name;
    let named = name(object);
    let mut before = None;
    if let Some(place) = all.iter().position(|seen| name(seen) == named) {
        before = all.swap_remove(place).ok();
    }
    let mut object = object.clone();
    match &mut object {
        Ok(object) => {
            let annotations = object.meta().annotations.clone();
            let meta = match &before {
                Some(before) => {
                    let mut meta = before.meta().clone();
                    meta.generation = meta.generation.map(|generation| generation.saturating_add(1));
                    // `kubectl apply` keeps annotations that the file does not name.
                    meta.annotations.get_or_insert_default().extend(annotations.unwrap_or_default());
                    meta
                }
                None => ObjectMeta {
                    // The start of a uid is part of the names of firewalls.
                    uid: Some(format!("new-{:04}:{named}", all.len())),
                    generation: Some(1),
                    resource_version: Some(UNOBSERVED.abs().to_string()),
                    creation_timestamp: Some(Time(now)),
                    annotations,
                    name: Some(named.name.clone()),
                    namespace: Some(named.namespace.clone()),
                    ..ObjectMeta::default()
                },
            };
            *object.meta_mut() = meta;
            inherit(object, before);
        }
        Err(undecodable) => {
            let known = before.and_then(|before| before.meta().uid.clone());
            undecodable.metadata.uid = Some(known.unwrap_or_else(|| format!("new:{named}")));
        }
    }
    all.push(object);
}
