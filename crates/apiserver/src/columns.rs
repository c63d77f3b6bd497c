//! The output of `kubectl get`: columns and cells of the built-in kinds and of custom resources.

use super::json_path;
use super::meta::{at, text, text_at};
use super::resource::{PrinterColumn, Resource};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    /// 0: always shown. 1: shown by `-o wide`.
    pub(crate) priority: i64,
}

/// Name and priority of each column after the name column.
type Short = (&'static str, i64);

const AGE: Short = ("Age", 0);
const NODES: &[Short] = &[
    ("Status", 0),
    ("Roles", 0),
    AGE,
    ("Version", 0),
    ("Internal-IP", 1),
    ("External-IP", 1),
    ("OS-Image", 1),
    ("Kernel-Version", 1),
    ("Container-Runtime", 1),
];
const PODS: &[Short] = &[
    ("Ready", 0),
    ("Status", 0),
    ("Restarts", 0),
    AGE,
    ("IP", 1),
    ("Node", 1),
    ("Nominated Node", 1),
    ("Readiness Gates", 1),
];
const DEPLOYMENTS: &[Short] = &[("Ready", 0), ("Up-to-date", 0), ("Available", 0), AGE];
const SERVICES: &[Short] = &[("Type", 0), ("Cluster-IP", 0), ("External-IP", 0), ("Port(s)", 0), AGE];
const EVENTS: [Short; 10] = [
    ("Last Seen", 0),
    ("Type", 0),
    ("Reason", 0),
    ("Object", 0),
    ("Subobject", 1),
    ("Source", 1),
    ("Message", 0),
    ("First Seen", 1),
    ("Count", 1),
    ("Name", 1),
];

/// The columns of a resource.
pub(crate) fn columns(resource: &Resource) -> Vec<Column> {
    if resource.is("", "events") {
        return EVENTS.iter().map(plain).collect();
    }
    let mut all = vec![Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name must be unique within a namespace.".to_owned(),
        priority: 0,
    }];
    match &resource.custom {
        Some(custom) if !custom.columns.is_empty() => all.extend(custom.columns.iter().map(|c| Column {
            name: c.name.clone(),
            kind: c.kind.clone(),
            format: c.format.clone(),
            description: c.description.clone(),
            priority: c.priority,
        })),
        Some(_) | None => all.extend(short(resource).iter().map(plain)),
    }
    all
}

fn plain((name, priority): &Short) -> Column {
    let kind = if *name == "Count" { "integer" } else { "string" };
    Column {
        name: (*name).to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: *priority,
    }
}

fn short(resource: &Resource) -> &'static [Short] {
    match resource.plural.as_str() {
        "nodes" => NODES,
        "pods" => PODS,
        "deployments" => DEPLOYMENTS,
        "services" => SERVICES,
        "namespaces" => &[("Status", 0), AGE],
        "leases" => &[("Holder", 0), AGE],
        "secrets" => &[("Type", 0), ("Data", 0), AGE],
        "configmaps" => &[("Data", 0), AGE],
        "customresourcedefinitions" => &[("Created At", 0)],
        "rolebindings" | "clusterrolebindings" => &[("Role", 0), AGE],
        _ => &[AGE],
    }
}

/// The cells of an object in its stored form, one per column.
pub(crate) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    if resource.is("", "events") {
        return event(object, now);
    }
    let mut cells = vec![json!(text(object, "name"))];
    match &resource.custom {
        Some(custom) if !custom.columns.is_empty() => {
            cells.extend(custom.columns.iter().map(|column| custom_cell(column, object, now)));
        }
        Some(_) | None => cells.extend(builtin(resource, object, now)),
    }
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

fn builtin(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let age = json!(age(text(object, "creationTimestamp"), now));
    let field = |path: &[&str]| json!(or_none(text_at(object, path)));
    let size =
        |path: &str| json!(object.get(path).and_then(Value::as_object).map_or(0, serde_json::Map::len));
    match resource.plural.as_str() {
        "nodes" => node(object, age),
        "pods" => pod(object, age),
        "deployments" => {
            let count = |path: &[&str]| at(object, path).and_then(Value::as_i64).unwrap_or_default();
            let wanted = at(object, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
            vec![
                json!(format!("{}/{wanted}", count(&["status", "readyReplicas"]))),
                json!(count(&["status", "updatedReplicas"])),
                json!(count(&["status", "availableReplicas"])),
                age,
            ]
        }
        "services" => {
            vec![field(&["spec", "type"]), field(&["spec", "clusterIP"]), json!("<none>"), ports(object), age]
        }
        "namespaces" => vec![field(&["status", "phase"]), age],
        "leases" => vec![json!(text_at(object, &["spec", "holderIdentity"])), age],
        "secrets" => vec![field(&["type"]), size("data"), age],
        "configmaps" => vec![size("data"), age],
        "customresourcedefinitions" => vec![json!(text(object, "creationTimestamp"))],
        "rolebindings" | "clusterrolebindings" => {
            let role = |part: &str| text_at(object, &["roleRef", part]);
            vec![json!(format!("{}/{}", role("kind"), role("name"))), age]
        }
        _ => vec![age],
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

fn ports(service: &Value) -> Value {
    let list = at(service, &["spec", "ports"]).and_then(Value::as_array);
    let shown: Vec<String> = list
        .into_iter()
        .flatten()
        .map(|port| {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
            format!("{number}/{protocol}")
        })
        .collect();
    json!(or_none(&shown.join(",")))
}

fn node(object: &Value, age: Value) -> Vec<Value> {
    let conditions = at(object, &["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|c| text_at(c, &["type"]) == "Ready");
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
        let list = at(object, &["status", "addresses"]).and_then(Value::as_array);
        let found = list.into_iter().flatten().find(|a| text_at(a, &["type"]) == kind);
        json!(or_none(found.map_or("", |a| text_at(a, &["address"]))))
    };
    let software = |field: &str| text_at(object, &["status", "nodeInfo", field]);
    let known = |field: &str| match software(field) {
        "" => json!("<unknown>"),
        value => json!(value),
    };
    vec![
        json!(status),
        json!(or_none(&roles.join(","))),
        age,
        json!(software("kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        known("kernelVersion"),
        known("containerRuntimeVersion"),
    ]
}

fn pod(object: &Value, age: Value) -> Vec<Value> {
    let list = |path: &[&str]| at(object, path).and_then(Value::as_array).cloned().unwrap_or_default();
    let statuses = list(&["status", "containerStatuses"]);
    let ready = statuses.iter().filter(|s| s.get("ready") == Some(&Value::Bool(true))).count();
    let restarts: i64 = statuses.iter().filter_map(|s| s.get("restartCount").and_then(Value::as_i64)).sum();
    let mut state = text_at(object, &["status", "phase"]);
    let reason = text_at(object, &["status", "reason"]);
    if !reason.is_empty() {
        state = reason;
    }
    for status in &statuses {
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
    let field = |path: &[&str]| json!(or_none(text_at(object, path)));
    vec![
        json!(format!("{ready}/{}", list(&["spec", "containers"]).len())),
        json!(state),
        json!(restarts.to_string()),
        age,
        field(&["status", "podIP"]),
        field(&["spec", "nodeName"]),
        field(&["status", "nominatedNodeName"]),
        json!("<none>"),
    ]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let field = |path: &[&str]| text_at(object, path);
    let first_of = |paths: &[&[&str]]| paths.iter().map(|path| field(path)).find(|t| !t.is_empty());
    let created = text(object, "creationTimestamp");
    let seen = |paths: &[&[&str]]| json!(age(first_of(paths).unwrap_or(created), now));
    let count = at(object, &["series", "count"]).or_else(|| object.get("count")).and_then(Value::as_i64);
    let kind = field(&["involvedObject", "kind"]).to_lowercase();
    vec![
        seen(&[&["series", "lastObservedTime"], &["lastTimestamp"], &["eventTime"]]),
        json!(field(&["type"])),
        json!(field(&["reason"])),
        json!(format!("{kind}/{}", field(&["involvedObject", "name"]))),
        json!(field(&["involvedObject", "fieldPath"])),
        json!(first_of(&[&["source", "component"], &["reportingComponent"]]).unwrap_or_default()),
        json!(field(&["message"]).trim()),
        seen(&[&["firstTimestamp"], &["eventTime"]]),
        json!(count.unwrap_or(1)),
        json!(text(object, "name")),
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
