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

/// A token of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Operator(&'static str),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        let punctuation = [
            ("==", Token::Operator("=")),
            ("!=", Token::Operator("!=")),
            ("=", Token::Operator("=")),
            ("!", Token::Operator("!")),
            (">", Token::Operator(">")),
            ("<", Token::Operator("<")),
            (",", Token::Comma),
            ("(", Token::Open),
            (")", Token::Close),
        ];
        if let Some((spelled, token)) = punctuation.into_iter().find(|(spelled, _)| rest.starts_with(spelled))
        {
            found.push(token);
            rest = rest.strip_prefix(spelled).unwrap_or_default();
            continue;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        if word.is_empty() {
            return Err(format!("unable to parse requirement: found {first:?} in {text:?}"));
        }
        found.push(Token::Word(word.to_owned()));
        rest = tail;
    }
    Ok(found)
}

fn parse_labels(selector: &str) -> Result<Vec<Requirement>, String> {
    let all = tokens(selector)?;
    let mut parser = Parser { tokens: all.into_iter().peekable(), selector };
    let mut requirements = Vec::new();
    if parser.tokens.peek().is_none() {
        return Ok(requirements);
    }
    loop {
        requirements.push(parser.requirement()?);
        match parser.tokens.next() {
            None => return Ok(requirements),
            Some(Token::Comma) => {}
            Some(other) => return Err(parser.unexpected(Some(&other), "',' or the end")),
        }
    }
}

struct Parser<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    selector: &'a str,
}

impl Parser<'_> {
    fn unexpected(&self, found: Option<&Token>, wanted: &str) -> String {
        format!("unable to parse requirement: found {found:?}, expected {wanted} in {:?}", self.selector)
    }

    fn word(&mut self, wanted: &str) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(self.unexpected(other.as_ref(), wanted)),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.tokens.next_if_eq(&Token::Operator("!")).is_some() {
            return Ok(Requirement::Absent(self.word("a key")?));
        }
        let key = self.word("a key")?;
        match self.tokens.peek().cloned() {
            None | Some(Token::Comma) => Ok(Requirement::Exists(key)),
            Some(Token::Operator(operator)) => {
                self.tokens.next();
                self.comparison(key, operator)
            }
            Some(Token::Word(operator)) if operator == "in" || operator == "notin" => {
                self.tokens.next();
                let values = self.values()?;
                Ok(if operator == "in" {
                    Requirement::In(key, values)
                } else {
                    Requirement::NotIn(key, values)
                })
            }
            other @ Some(Token::Word(_) | Token::Open | Token::Close) => {
                Err(self.unexpected(other.as_ref(), "an operator"))
            }
        }
    }

    fn comparison(&mut self, key: String, operator: &str) -> Result<Requirement, String> {
        let value = match self.tokens.peek() {
            None | Some(Token::Comma) => String::new(),
            Some(Token::Word(_) | Token::Open | Token::Close | Token::Operator(_)) => self.word("a value")?,
        };
        let number =
            || value.parse::<i64>().map_err(|_| format!("for {operator} the value must be an integer"));
        match operator {
            "=" => Ok(Requirement::In(key, vec![value])),
            "!=" => Ok(Requirement::NotIn(key, vec![value])),
            ">" => Ok(Requirement::Greater(key, number()?)),
            "<" => Ok(Requirement::Less(key, number()?)),
            _ => Err(self.unexpected(None, "=, ==, !=, > or <")),
        }
    }

    /// `(a, b, c)`. An empty place is an empty value, as in `(a,)`.
    fn values(&mut self) -> Result<Vec<String>, String> {
        if self.tokens.next() != Some(Token::Open) {
            return Err(self.unexpected(None, "'('"));
        }
        let mut values = Vec::new();
        loop {
            let value = match self.tokens.peek() {
                Some(Token::Word(_)) => self.word("a value")?,
                Some(Token::Comma | Token::Close) => String::new(),
                Some(Token::Open | Token::Operator(_)) | None => {
                    return Err(self.unexpected(None, "a value, ',' or ')'"));
                }
            };
            values.push(value);
            match self.tokens.next() {
                Some(Token::Comma) => {}
                Some(Token::Close) => return Ok(values),
                other => return Err(self.unexpected(other.as_ref(), "',' or ')'")),
            }
        }
    }
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
