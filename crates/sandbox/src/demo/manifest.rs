//! The YAML to apply: the repository's examples, or the user's own files.
//!
//! This module reads and sorts documents. The API server and the operator decide what a document means.

use super::pools::{API_VERSION, POOL_KIND, RECORD_SET_KIND, key, text};
use flipop_apiserver::Key;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

/// The namespace of an object that names none, as with `kubectl apply`.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// The repository's examples.
const EXAMPLES: [(&str, &str); 3] = [
    ("examples/floatingippool.yaml", include_str!("../../../../examples/floatingippool.yaml")),
    (
        "examples/floatingippool-created.yaml",
        include_str!("../../../../examples/floatingippool-created.yaml"),
    ),
    ("examples/nodednsrecordset.yaml", include_str!("../../../../examples/nodednsrecordset.yaml")),
];

/// The name for standard input in place of a file.
const STANDARD_INPUT: &str = "-";

/// How many objects are named if none is one of FLIPOP's.
const FOUND_MAX: usize = 5;

/// A fault of the files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    /// A file cannot be opened.
    #[error("failed to read {}: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is no YAML.
    #[error("failed to read {source_name} as YAML: {problem}")]
    Malformed {
        /// The file.
        source_name: String,
        /// Where and why.
        problem: String,
    },
    /// A document is no Kubernetes object.
    #[error(
        "failed to use document {position} of {source_name}: it needs apiVersion, kind and metadata.name, \
         as for kubectl apply"
    )]
    NoObject {
        /// The file.
        source_name: String,
        /// The number of the document, from 1.
        position: usize,
    },
    /// There is nothing to show.
    #[error(
        "failed to find a FloatingIPPool or a NodeDNSRecordSet of {API_VERSION} in {sources}, which {found}: there is \
         nothing to show without one"
    )]
    Nothing {
        /// The files.
        sources: String,
        /// Their contents.
        found: String,
    },
}

/// One object to apply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    /// The file that it comes from.
    pub(super) source: String,
    /// `apiVersion`.
    pub(super) api_version: String,
    /// `kind`.
    pub(super) kind: String,
    /// Namespace as written, and name.
    pub(super) key: Key,
    /// The object.
    pub(super) value: Value,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.kind, self.key.name, self.api_version)
    }
}

impl Document {
    fn new(source: &str, value: Value) -> Option<Self> {
        let (api_version, kind) = (text(&value, "/apiVersion").to_owned(), text(&value, "/kind").to_owned());
        let key = key(&value);
        let complete = ![&api_version, &kind, &key.name].iter().any(|text| text.is_empty());
        complete.then(|| Self { source: source.to_owned(), api_version, kind, key, value })
    }

    /// Whether it is in FLIPOP's API group, even if its kind is mistyped.
    pub(super) fn is_ours(&self) -> bool {
        let group = |api_version: &str| api_version.split('/').next().map(str::to_owned);
        group(&self.api_version) == group(API_VERSION)
    }

    /// Whether it is one of FLIPOP's kinds.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.api_version == API_VERSION && self.kind == kind
    }
}

/// The objects of these files and directories, in order. Without any, the objects of the repository's examples.
pub(super) fn load(paths: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    if paths.is_empty() {
        for (source, text) in EXAMPLES {
            documents.extend(parse(source, text)?);
        }
        return Ok(documents);
    }
    for path in paths {
        for file in files(path)? {
            let text = read(&file)
                .map_err(|source| ManifestError::Unreadable { path: PathBuf::from(name(&file)), source })?;
            documents.extend(parse(&name(&file), &text)?);
        }
    }
    if documents.iter().any(|document| document.is(POOL_KIND) || document.is(RECORD_SET_KIND)) {
        Ok(documents)
    } else {
        let names: Vec<String> = paths.iter().map(|path| name(path)).collect();
        Err(ManifestError::Nothing { sources: names.join(", "), found: found(&documents) })
    }
}

/// The objects that were found instead.
fn found(documents: &[Document]) -> String {
    if documents.is_empty() {
        return "holds no object".to_owned();
    }
    let mut objects: Vec<String> = documents.iter().take(FOUND_MAX).map(Document::to_string).collect();
    let more = documents.len().saturating_sub(FOUND_MAX);
    if more > 0 {
        objects.push(format!("{more} more"));
    }
    format!("holds {}", objects.join(", "))
}

/// The name of a path: `-` is standard input, as for kubectl.
fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) { "standard input".to_owned() } else { path.display().to_string() }
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new(STANDARD_INPUT) {
        return std::io::read_to_string(std::io::stdin().lock());
    }
    std::fs::read_to_string(file)
}

/// The file itself, or the YAML files of a directory sorted by name, as `kubectl apply -f` takes them.
fn files(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let unreadable = |source| ManifestError::Unreadable { path: path.to_owned(), source };
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn parse(source: &str, text: &str) -> Result<Vec<Document>, ManifestError> {
    let values: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| ManifestError::Malformed {
        source_name: source.to_owned(),
        problem: error.to_string(),
    })?;
    let mut documents = Vec::new();
    for (index, value) in values.into_iter().enumerate().filter(|(_, value)| !value.is_null()) {
        for object in items(value) {
            let no_object = || ManifestError::NoObject {
                source_name: source.to_owned(),
                position: index.saturating_add(1),
            };
            documents.push(Document::new(source, cleaned(object)).ok_or_else(no_object)?);
        }
    }
    Ok(documents)
}

/// `kubectl get -o yaml` prints several objects as one list.
fn items(mut value: Value) -> Vec<Value> {
    let is_list = text(&value, "/kind") == "List";
    match value.get_mut("items").and_then(Value::as_array_mut).filter(|_| is_list) {
        Some(items) => std::mem::take(items),
        None => vec![value],
    }
}

/// Removes the fields that another cluster wrote.
fn cleaned(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        for field in
            ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"]
        {
            metadata.remove(field);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        parse("x", text).unwrap().into_iter().map(|document| document.key.name).collect()
    }

    #[test]
    fn the_examples_of_the_repository_hold_both_kinds() {
        let documents = load(&[]).unwrap();
        assert_eq!(documents.iter().filter(|document| document.is(POOL_KIND)).count(), 2);
        assert_eq!(documents.iter().filter(|document| document.is(RECORD_SET_KIND)).count(), 1);
    }

    #[test]
    fn documents_lists_and_empty_documents_are_taken_apart() {
        let one = |name: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n");
        assert_eq!(names(&format!("{}---\n---\n{}", one("a"), one("b"))), ["a", "b"]);
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c", "uid": "1"}, "status": {}}]}"#;
        let documents = parse("x", list).unwrap();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].value.pointer("/metadata/uid"), None);
        assert_eq!(documents[0].value.get("status"), None);
    }

    #[test]
    fn what_is_no_object_is_refused_by_file_and_position() {
        let error = parse("my.yaml", "a: 1\n").unwrap_err().to_string();
        assert!(error.contains("document 1 of my.yaml"), "{error}");
        let error = parse("my.yaml", "a: [1\n").unwrap_err().to_string();
        assert!(error.contains("my.yaml as YAML"), "{error}");
    }
}
