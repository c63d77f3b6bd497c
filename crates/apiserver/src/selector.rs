//! Label and field selectors, with the grammar of apimachinery's `labels.Parse` and `fields.ParseSelector`.
//!
//! Written separately for this simulation, so that it cannot share a misunderstanding with the operator.

use super::meta::{at, text, text_at};
use super::resource::Resource;
use serde_json::Value;

/// A set of requirements. All must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selectors {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    /// Also holds if the key is absent.
    NotIn(String, Vec<String>),
    Greater(String, i64),
    Less(String, i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

impl Selectors {
    /// Parses both kinds of selectors. An empty text selects everything.
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        Ok(Self { labels: parse_labels(labels)?, fields: parse_fields(fields)? })
    }

    /// Also requires a name, for a watch of one object.
    pub(crate) fn require_name(&mut self, name: &str) {
        self.fields.push(FieldTerm { path: "metadata.name".to_owned(), value: name.to_owned(), equal: true });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The first field that does not support selection.
    pub(crate) fn unsupported_field(&self, resource: &Resource) -> Option<&str> {
        self.fields.iter().map(|term| term.path.as_str()).find(|path| !supports_field(resource, path))
    }

    /// Whether `object`, in the version served by `resource`, is selected.
    pub(crate) fn select(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(object))
            && self.fields.iter().all(|term| (field(object, &term.path) == term.value) == term.equal)
    }
}

impl Requirement {
    fn holds(&self, object: &Value) -> bool {
        let label = |key: &str| at(object, &["metadata", "labels", key]).and_then(Value::as_str);
        let number = |key: &str| label(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists(key) => label(key).is_some(),
            Self::Absent(key) => label(key).is_none(),
            Self::In(key, values) => label(key).is_some_and(|value| values.iter().any(|v| v == value)),
            Self::NotIn(key, values) => label(key).is_none_or(|value| values.iter().all(|v| v != value)),
            Self::Greater(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Less(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

/// The value of a selectable field as text. Empty if absent.
fn field(object: &Value, path: &str) -> String {
    let steps: Vec<&str> = path.split('.').collect();
    match (path, at(object, &steps)) {
        ("source", _) => text_at(object, &["source", "component"]).to_owned(),
        ("spec.unschedulable" | "spec.hostNetwork", None) => "false".to_owned(),
        (_, Some(Value::String(value))) => value.clone(),
        (_, Some(value @ (Value::Bool(_) | Value::Number(_)))) => value.to_string(),
        (_, Some(Value::Null | Value::Array(_) | Value::Object(_)) | None) => match path {
            "metadata.name" => text(object, "name").to_owned(),
            _ => String::new(),
        },
    }
}

fn supports_field(resource: &Resource, path: &str) -> bool {
    if path == "metadata.name" || path == "metadata.namespace" {
        return true;
    }
    if let Some(custom) = &resource.custom {
        return custom.selectable_fields.iter().any(|f| f.trim_start_matches('.') == path);
    }
    let fields: &[&str] = match resource.plural.as_str() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "events" if resource.group.is_empty() => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "events" => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "reason",
            "reportingController",
            "type",
        ],
        _ => &[],
    };
    fields.contains(&path)
}

fn parse_fields(selector: &str) -> Result<Vec<FieldTerm>, String> {
    let mut terms = Vec::new();
    for part in selector.split(',').filter(|part| !part.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (path, value, true)
        } else {
            return Err(format!("invalid selector: '{selector}'; can't understand '{part}'"));
        };
        terms.push(FieldTerm { path: path.to_owned(), value: value.replace('\\', ""), equal });
    }
    Ok(terms)
}

fn parse_labels(selector: &str) -> Result<Vec<Requirement>, String> {
    if selector.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut in_list = false;
    let parts = selector.split(|c| {
        in_list = c == '(' || (in_list && c != ')');
        c == ',' && !in_list
    });
    let parsed = |part| {
        requirement(part)
            .ok_or_else(|| format!("unable to parse requirement: found {part:?} in {selector:?}"))
    };
    parts.map(parsed).collect()
}

fn requirement(text: &str) -> Option<Requirement> {
    let text = text.trim();
    if let Some(key) = text.strip_prefix('!') {
        return Some(Requirement::Absent(key_in(key)?));
    }
    if let Some((head, list)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let (key, operator) = head.trim_end().rsplit_once(char::is_whitespace)?;
        // An empty place is an empty value, as in `(a,)`.
        let (key, values) = (key_in(key)?, list.split(',').map(word).collect::<Option<_>>()?);
        return match operator {
            "in" => Some(Requirement::In(key, values)),
            "notin" => Some(Requirement::NotIn(key, values)),
            _ => None,
        };
    }
    let (key, comparison) = text.split_at(text.find(['=', '!', '<', '>']).unwrap_or(text.len()));
    let value = comparison.trim_start_matches(['=', '!', '<', '>']);
    let (key, operator, value) = (key_in(key)?, comparison.strip_suffix(value)?, word(value)?);
    match operator {
        "" => Some(Requirement::Exists(key)),
        "=" | "==" => Some(Requirement::In(key, vec![value])),
        "!=" => Some(Requirement::NotIn(key, vec![value])),
        ">" => Some(Requirement::Greater(key, value.parse().ok()?)),
        "<" => Some(Requirement::Less(key, value.parse().ok()?)),
        _ => None,
    }
}

fn key_in(text: &str) -> Option<String> {
    word(text).filter(|key| !key.is_empty())
}

/// A key or a value, which may be empty.
fn word(text: &str) -> Option<String> {
    let word = text.trim();
    let fits = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    fits.then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(selector: &str, labels: &Value) -> bool {
        Selectors::parse(selector, "").unwrap().select(&json!({ "metadata": { "labels": labels } }))
    }

    #[test]
    fn label_selectors_follow_the_grammar_of_apimachinery() {
        let cases = [
            ("", json!({}), true),
            ("a=b", json!({ "a": "b" }), true),
            ("a==b", json!({ "a": "c" }), false),
            ("a!=b", json!({}), true),
            ("a in (b, c)", json!({ "a": "c" }), true),
            ("a notin (b,c)", json!({}), true),
            ("a notin (b,c)", json!({ "a": "b" }), false),
            ("a", json!({ "a": "" }), true),
            ("!a", json!({ "a": "x" }), false),
            ("a=b,c!=d,e in (f,g),h,!i", json!({ "a": "b", "e": "g", "h": "" }), true),
            ("a>3", json!({ "a": "4" }), true),
            ("a<3", json!({ "a": "x" }), false),
            ("a=", json!({ "a": "" }), true),
            ("example.com/pool=edge", json!({ "example.com/pool": "edge" }), true),
            ("a in (,b)", json!({ "a": "" }), true),
        ];
        for (selector, labels, expected) in cases {
            assert_eq!(selects(selector, &labels), expected, "{selector} on {labels}");
        }
    }

    #[test]
    fn malformed_label_selectors_are_refused() {
        for selector in ["a in b", "a in (b", "=b", "a=b,", "a b", "a$b", "a>x", "in (a)"] {
            assert!(Selectors::parse(selector, "").is_err(), "{selector}");
        }
    }

    #[test]
    fn field_selectors_compare_values_and_default_absent_ones() {
        let pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n" }, "status": { "phase": "Running" } });
        for (selector, expected) in [
            ("spec.nodeName=n,status.phase!=Failed,status.phase!=Succeeded", true),
            ("metadata.name==q", false),
            ("spec.hostNetwork=false", true),
        ] {
            assert_eq!(Selectors::parse("", selector).unwrap().select(&pod), expected, "{selector}");
        }
        assert!(Selectors::parse("", "spec.nodeName").is_err());
    }
}
