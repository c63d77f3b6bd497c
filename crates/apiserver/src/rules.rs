//! Schema rules in CEL (`x-kubernetes-validations`), limited to the forms that FLIPOP's definitions use.
//!
//! Two forms are known: `self in ['a', 'b']` and `self.matches('expression')`. Any other rule counts as met. A test
//! ensures that FLIPOP's definitions use only these two.

use super::meta::{list_at, text_at};
use regex::Regex;
use serde_json::Value;

/// A rule that this server can judge.
enum Rule {
    OneOf(Vec<String>),
    Matches(Regex),
}

fn parse(rule: &str) -> Option<Rule> {
    let rule = rule.trim();
    if let Some(pattern) = rule.strip_prefix("self.matches('").and_then(|rest| rest.strip_suffix("')")) {
        // The two escapes that patterns need, as written in a CEL string.
        let pattern = pattern.replace("\\\\", "\\");
        return Regex::new(&pattern).ok().map(Rule::Matches);
    }
    let list = rule.strip_prefix("self in [")?.strip_suffix(']')?;
    let text = |item: &str| Some(item.trim().strip_prefix('\'')?.strip_suffix('\'')?.to_owned());
    list.split(',').map(text).collect::<Option<Vec<_>>>().map(Rule::OneOf)
}

/// The messages of this schema's rules that a value breaks.
pub(crate) fn broken<'a>(value: &Value, schema: &'a Value) -> Vec<&'a str> {
    let is_broken = |rule: &&Value| match (parse(text_at(rule, &["rule"])), value.as_str()) {
        (Some(Rule::OneOf(known)), Some(value)) => !known.iter().any(|one| one == value),
        (Some(Rule::Matches(regex)), Some(value)) => !regex.is_match(value),
        (Some(_), None) | (None, _) => false,
    };
    let rules = list_at(schema, &["x-kubernetes-validations"]).iter().filter(is_broken);
    rules.map(|rule| text_at(rule, &["message"])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// All rules in a schema.
    fn rules(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(map) => {
                for (name, value) in map {
                    let list = value.as_array().filter(|_| name == "x-kubernetes-validations");
                    let own = list.into_iter().flatten().filter_map(|rule| rule["rule"].as_str());
                    found.extend(own.map(str::to_owned));
                    rules(value, found);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| rules(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_rule_of_our_definitions_is_understood() {
        let mut found = Vec::new();
        for crd in flipop::api::crd::all() {
            rules(&crd, &mut found);
        }
        assert!(found.len() >= 3, "{found:?}");
        let unknown: Vec<&String> = found.iter().filter(|rule| parse(rule).is_none()).collect();
        assert!(unknown.is_empty(), "the sandbox would accept values that these rules refuse: {unknown:?}");
    }

    #[test]
    fn a_broken_rule_tells_its_message() {
        let schema = json!({ "x-kubernetes-validations": [
            { "rule": "self in ['', 'Keep']", "message": "write Keep" },
            { "rule": "self.matches('^K\\\\w+$')", "message": "begin with K" },
        ] });
        assert_eq!(broken(&json!("Keep"), &schema), Vec::<&str>::new());
        assert_eq!(broken(&json!("Kept"), &schema), ["write Keep"]);
        assert_eq!(broken(&json!("keep"), &schema), ["write Keep", "begin with K"]);
    }
}
