//! The output of `kubectl get`: columns and cells of the built-in kinds and of custom resources.

use super::json_path;
use super::meta::{at, list_at, text, text_at};
use super::resource::{PrinterColumn, Resource};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A cell, with its column.
struct Cell {
    column: &'static str,
    /// Whether only `-o wide` shows it.
    wide: bool,
    value: Value,
}

fn cell(column: &'static str, value: impl Into<Value>) -> Cell {
    Cell { column, wide: false, value: value.into() }
}

fn wide(column: &'static str, value: impl Into<Value>) -> Cell {
    Cell { column, wide: true, value: value.into() }
}

/// The columns of a resource.
pub(crate) fn columns(resource: &Resource) -> Vec<PrinterColumn> {
    let mut all = vec![PrinterColumn {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name must be unique within a namespace.".to_owned(),
        ..PrinterColumn::default()
    }];
    if let Some(own) = resource.columns() {
        all.extend_from_slice(own);
        return all;
    }
    if resource.is("", "events") {
        all.clear();
    }
    let cells = builtin(resource, &Value::Null, Timestamp::UNIX_EPOCH).into_iter();
    all.extend(cells.map(|Cell { column, wide, .. }| PrinterColumn {
        name: column.to_owned(),
        kind: if column == "Count" { "integer" } else { "string" }.to_owned(),
        priority: wide.into(),
        ..PrinterColumn::default()
    }));
    all
}

/// The cells of an object in its stored form, one per column.
pub(crate) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![json!(text(object, "name"))];
    if let Some(own) = resource.columns() {
        cells.extend(own.iter().map(|column| custom_cell(column, object, now)));
        return cells;
    }
    if resource.is("", "events") {
        cells.clear();
    }
    cells.extend(builtin(resource, object, now).into_iter().map(|cell| cell.value));
    cells
}

fn custom_cell(column: &PrinterColumn, object: &Value, now: Timestamp) -> Value {
    let Some(value) = json_path::find(object, &column.json_path).into_iter().next() else {
        return Value::Null;
    };
    match (column.kind.as_str(), value) {
        ("date", Value::String(time)) => json!(age(time, now)),
        ("string", Value::String(text)) => json!(text),
        // Go's templates print this for nil.
        ("string", Value::Null) => json!("<no value>"),
        ("string", other) => json!(other.to_string()),
        (_, other) => other.clone(),
    }
}

/// The cells of a built-in kind. Only those of events include the name.
fn builtin(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Cell> {
    let age = cell("Age", age(text(object, "creationTimestamp"), now));
    let field = |path: &[&str]| or_none(text_at(object, path));
    let size = || object.get("data").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    match resource.plural.as_str() {
        _ if resource.is("", "events") => event(object, now),
        "nodes" => node(object, age),
        "pods" => pod(object, age),
        "deployments" => {
            let count = |path: &[&str]| at(object, path).and_then(Value::as_i64).unwrap_or_default();
            let wanted = at(object, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
            vec![
                cell("Ready", format!("{}/{wanted}", count(&["status", "readyReplicas"]))),
                cell("Up-to-date", count(&["status", "updatedReplicas"])),
                cell("Available", count(&["status", "availableReplicas"])),
                age,
            ]
        }
        "services" => vec![
            cell("Type", field(&["spec", "type"])),
            cell("Cluster-IP", field(&["spec", "clusterIP"])),
            cell("External-IP", "<none>"),
            cell("Port(s)", ports(object)),
            age,
        ],
        "namespaces" => vec![cell("Status", field(&["status", "phase"])), age],
        "leases" => vec![cell("Holder", text_at(object, &["spec", "holderIdentity"])), age],
        "secrets" => vec![cell("Type", field(&["type"])), cell("Data", size()), age],
        "configmaps" => vec![cell("Data", size()), age],
        "customresourcedefinitions" => vec![cell("Created At", text(object, "creationTimestamp"))],
        "rolebindings" | "clusterrolebindings" => {
            let role = |part: &str| text_at(object, &["roleRef", part]);
            vec![cell("Role", format!("{}/{}", role("kind"), role("name"))), age]
        }
        _ => vec![age],
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

fn ports(service: &Value) -> String {
    let shown: Vec<String> = list_at(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
            format!("{number}/{protocol}")
        })
        .collect();
    or_none(&shown.join(",")).to_owned()
}

fn node(object: &Value, age: Cell) -> Vec<Cell> {
    let conditions = list_at(object, &["status", "conditions"]);
    let ready = conditions.iter().find(|c| text_at(c, &["type"]) == "Ready");
    let mut status = match ready.map(|c| text_at(c, &["status"])) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if at(object, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = at(object, &["metadata", "labels"]).and_then(Value::as_object);
    let roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            Some(_) | None => None,
        })
        .collect();
    let address = |kind: &str| {
        let found = list_at(object, &["status", "addresses"]).iter().find(|a| text_at(a, &["type"]) == kind);
        or_none(found.map_or("", |a| text_at(a, &["address"])))
    };
    let software = |field: &str| text_at(object, &["status", "nodeInfo", field]);
    let known = |field: &str| match software(field) {
        "" => "<unknown>",
        value => value,
    };
    vec![
        cell("Status", status),
        cell("Roles", or_none(&roles.join(","))),
        age,
        cell("Version", software("kubeletVersion")),
        wide("Internal-IP", address("InternalIP")),
        wide("External-IP", address("ExternalIP")),
        wide("OS-Image", known("osImage")),
        wide("Kernel-Version", known("kernelVersion")),
        wide("Container-Runtime", known("containerRuntimeVersion")),
    ]
}

fn pod(object: &Value, age: Cell) -> Vec<Cell> {
    let statuses = list_at(object, &["status", "containerStatuses"]);
    let ready = statuses.iter().filter(|s| s.get("ready") == Some(&Value::Bool(true))).count();
    let restarts: i64 = statuses.iter().filter_map(|s| s.get("restartCount").and_then(Value::as_i64)).sum();
    let mut state = text_at(object, &["status", "phase"]);
    let reason = text_at(object, &["status", "reason"]);
    if !reason.is_empty() {
        state = reason;
    }
    for status in statuses {
        for kind in ["waiting", "terminated"] {
            let reason = text_at(status, &["state", kind, "reason"]);
            if !reason.is_empty() {
                state = reason;
            }
        }
    }
    if super::meta::is_terminating(object) {
        state = "Terminating";
    }
    let field = |path: &[&str]| or_none(text_at(object, path));
    vec![
        cell("Ready", format!("{ready}/{}", list_at(object, &["spec", "containers"]).len())),
        cell("Status", state),
        cell("Restarts", restarts.to_string()),
        age,
        wide("IP", field(&["status", "podIP"])),
        wide("Node", field(&["spec", "nodeName"])),
        wide("Nominated Node", field(&["status", "nominatedNodeName"])),
        wide("Readiness Gates", "<none>"),
    ]
}

fn event(object: &Value, now: Timestamp) -> Vec<Cell> {
    let field = |path: &[&str]| text_at(object, path);
    let first_of = |paths: &[&[&str]]| paths.iter().map(|path| field(path)).find(|t| !t.is_empty());
    let created = text(object, "creationTimestamp");
    let seen = |paths: &[&[&str]]| age(first_of(paths).unwrap_or(created), now);
    let count = at(object, &["series", "count"]).or_else(|| object.get("count")).and_then(Value::as_i64);
    let kind = field(&["involvedObject", "kind"]).to_lowercase();
    vec![
        cell("Last Seen", seen(&[&["series", "lastObservedTime"], &["lastTimestamp"], &["eventTime"]])),
        cell("Type", field(&["type"])),
        cell("Reason", field(&["reason"])),
        cell("Object", format!("{kind}/{}", field(&["involvedObject", "name"]))),
        wide("Subobject", field(&["involvedObject", "fieldPath"])),
        wide("Source", first_of(&[&["source", "component"], &["reportingComponent"]]).unwrap_or_default()),
        cell("Message", field(&["message"]).trim()),
        wide("First Seen", seen(&[&["firstTimestamp"], &["eventTime"]])),
        wide("Count", count.unwrap_or(1)),
        wide("Name", text(object, "name")),
    ]
}

/// The age of `time` in kubectl's format.
pub(crate) fn age(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second().saturating_sub(time.as_second())),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// `duration.HumanDuration` of apimachinery.
fn human(seconds: i64) -> String {
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{small}{small_unit}")
        }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..=119 => format!("{seconds}s"),
        120..=599 => two(minutes, "m", seconds % 60, "s"),
        600..=10_799 => format!("{minutes}m"),
        10_800..=28_799 => two(hours, "h", minutes % 60, "m"),
        28_800..=172_799 => format!("{hours}h"),
        172_800..=691_199 => two(hours / 24, "d", hours % 24, "h"),
        691_200..=63_071_999 => format!("{}d", hours / 24),
        63_072_000..=252_287_999 => two(hours / 8760, "y", hours / 24 % 365, "d"),
        252_288_000.. => format!("{}y", hours / 8760),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        let cases = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (660, "11m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (70_000_000, "2y80d"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }
}
