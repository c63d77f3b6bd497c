//! Kubernetes' `JSONPath`, as printer columns use it: `.a.b`, `['a']`, `[0]`, `[*]` and `[?(@.type=="Ready")]`.

use jsonpath_rust::JsonPath as _;
use regex::{Captures, Regex};
use serde_json::Value;
use std::sync::LazyLock;

/// A quoted text, or a name after a dot. A backslash makes the next character part of the name.
static PARTS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""[^"]*"|'[^']*'|\.((?:\\.|[^\\.\[\]()*\s=!<>'"])+)"#).ok());

/// All values at `path`. Empty if the path does not parse.
pub(crate) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}');
    // RFC 9535 has neither backslashes nor dashes in names after a dot, but every character in quotes.
    let in_quotes = |part: &Captures<'_>| match (part.get(1), part.get(0)) {
        (Some(name), _) => format!("[{}]", Value::from(name.as_str().replace('\\', ""))),
        (None, whole) => whole.map_or("", |whole| whole.as_str()).to_owned(),
    };
    let Some(parts) = &*PARTS else { return Vec::new() };
    object.query(&format!("${}", parts.replace_all(path, in_quotes))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn printer_column_paths_find_their_values() {
        let object = json!({
            "metadata": { "annotations": { "example.com/ip": "1.2.3.4" } },
            "spec": { "ips": ["a", "b"], "n": 3 },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Other", "status": "X" }] },
        });
        let cases = [
            (".spec.n", vec![json!(3)]),
            ("{.spec.n}", vec![json!(3)]),
            (".spec.ips[1]", vec![json!("b")]),
            (".spec.ips[*]", vec![json!("a"), json!("b")]),
            (".spec.ips", vec![json!(["a", "b"])]),
            (r".metadata.annotations.example\.com/ip", vec![json!("1.2.3.4")]),
            (".metadata.annotations['example.com/ip']", vec![json!("1.2.3.4")]),
            (r#".status.conditions[?(@.type=="Ready")].status"#, vec![json!("True")]),
            (".status.conditions[?(@.type!='Ready')].status", vec![json!("X")]),
            (".spec.nothing.here", vec![]),
        ];
        for (path, expected) in cases {
            let found: Vec<Value> = find(&object, path).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
    }
}
