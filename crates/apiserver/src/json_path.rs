//! The part of Kubernetes' `JSONPath` that printer columns use: `.a.b`, `['a']`, `[0]`, `[*]` and
//! `[?(@.type=="Ready")]`.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
    All,
    /// Elements whose value at the path equals (or differs from) the text.
    Filter(Vec<String>, String, bool),
}

/// All values at `path`. Empty if the path does not parse.
pub(crate) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    steps
        .iter()
        .fold(vec![object], |values, step| values.into_iter().flat_map(|value| follow(value, step)).collect())
}

fn follow<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    let elements = || -> Vec<&'a Value> {
        match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        }
    };
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => value.get(*index).into_iter().collect(),
        Step::All => elements(),
        Step::Filter(path, wanted, equal) => elements()
            .into_iter()
            .filter(|element| {
                let found = path.iter().try_fold(*element, |v, name| v.get(name));
                let text = found.map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
                (text.as_deref() == Some(wanted.as_str())) == *equal
            })
            .collect(),
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let end = closing(bracket)?;
            let (inner, tail) = bracket.split_at_checked(end)?;
            steps.push(bracket_step(inner)?);
            rest = tail.strip_prefix(']')?;
        } else {
            let field = rest.strip_prefix('.').unwrap_or(rest);
            let (name, tail) = field_name(field);
            if name == "*" {
                steps.push(Step::All);
            } else if !name.is_empty() {
                steps.push(Step::Field(name));
            } else if !tail.is_empty() && !tail.starts_with('[') {
                return None;
            }
            rest = tail;
        }
    }
    Some(steps)
}

/// The position of the closing bracket, outside quotes and inner brackets.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ']') => return Some(index),
            (Some(_) | None, _) => {}
        }
    }
    None
}

fn bracket_step(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|c| c.strip_suffix(')')) {
        let (left, right, equal) = match condition.split_once("!=") {
            Some((left, right)) => (left, right, false),
            None => condition.split_once("==").map(|(left, right)| (left, right, true))?,
        };
        let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
        return Some(Step::Filter(path, unquoted(right.trim()).to_owned(), equal));
    }
    match inner.parse() {
        Ok(index) => Some(Step::Index(index)),
        Err(_) => Some(Step::Field(unquoted(inner).to_owned())),
    }
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

/// The name up to the next dot or bracket. A backslash makes the next character part of the name.
fn field_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((index, c)) = characters.next() {
        match c {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, text.get(index..).unwrap_or_default()),
            _ => name.push(c),
        }
    }
    (name, "")
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
