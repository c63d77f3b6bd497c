//! The API server's audit log: who wrote what.
//!
//! It contains only writes. The server appends an entry before its client gets the answer, so once a write's effect is
//! visible, its entry is here.

use crate::Outcome;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// Access to the log of one server.
#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The user.
    pub user: String,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Resource, with the subresource after a slash, if any.
    pub resource: String,
    /// Namespace; empty for cluster-wide objects.
    pub namespace: String,
    /// Name; empty if the server chose it.
    pub name: String,
    /// HTTP status of the answer.
    pub status: u64,
    /// When the request arrived, as the server wrote it (RFC 3339 with microseconds).
    pub received: String,
    /// When its answer was complete, in the same format by the same clock.
    pub completed: String,
}

impl Audit {
    pub(crate) const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
";

    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The number of entries so far, as a position to count from.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn position(&self) -> Outcome<usize> {
        Ok(self.text()?.lines().count())
    }

    /// The writes of one user since a position, without dry runs.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn writes_of(&self, user: &str, since: usize) -> Outcome<Vec<Write>> {
        let text = self.text()?;
        Ok(text.lines().skip(since).filter_map(parse).filter(|write| write.user == user).collect())
    }

    fn text(&self) -> Outcome<String> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            // Nothing has been written yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error.into()),
        }
    }
}

fn parse(line: &str) -> Option<Write> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("/requestURI").contains("dryRun=All") {
        return None;
    }
    let subresource = text("/objectRef/subresource");
    let resource = text("/objectRef/resource");
    Some(Write {
        user: text("/user/username"),
        verb: text("/verb"),
        resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        status: entry.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        received: text("/requestReceivedTimestamp"),
        completed: text("/stageTimestamp"),
    })
}
