//! Structural schemas of custom resources: pruning, defaulting, validation.
//!
//! Evaluates types, required, enum, bounds, lengths, pattern, list types, the Kubernetes extensions
//! `preserve-unknown-fields`, `int-or-string` and `nullable`, and a few forms of CEL rules ([`rules`]). As on a real
//! API server, an update is not refused for a value that was already wrong and is unchanged.

use super::error::Cause;
use super::meta::{list_at, text_at};
use super::rules;
use serde_json::{Map, Value};

/// Removes fields that the schema does not know. Returns their paths.
pub(crate) fn prune(object: &mut Value, schema: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_value(object, schema, "", &mut unknown);
    unknown
}

fn is_envelope(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn prune_value(value: &mut Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").filter(|a| a.is_object());
            let keeps_all = flag(schema, "x-kubernetes-preserve-unknown-fields")
                || schema.get("additionalProperties") == Some(&Value::Bool(true))
                || additional.is_some()
                || !schema.is_object();
            let exempt = |name: &str| path.is_empty() && is_envelope(name);
            map.retain(|name, _| {
                let known = keeps_all || exempt(name) || properties.is_some_and(|p| p.contains_key(name));
                if !known {
                    unknown.push(join(path, name));
                }
                known
            });
            for (name, value) in map.iter_mut().filter(|(name, _)| !exempt(name)) {
                if let Some(schema) = properties.and_then(|p| p.get(name)).or(additional) {
                    prune_value(value, schema, &join(path, name), unknown);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (index, value) in list.iter_mut().enumerate() {
                    prune_value(value, items, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        // Whole numbers lose their fraction, as in Go's output.
        Value::Number(number) => {
            let whole = number.as_f64().filter(|_| number.is_f64()).and_then(whole_number);
            if let Some(whole) = whole {
                *value = Value::from(whole);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The integer that a float stands for. `None` if it has a fraction or is too large to be exact.
fn whole_number(float: f64) -> Option<i64> {
    let exact = float.fract() == 0.0 && float.abs() < 9e15;
    exact.then(|| format!("{float:.0}").parse().ok()).flatten()
}

/// Sets the defaults of absent fields, and of nulls where null is not allowed.
pub(crate) fn set_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let absent = map.get(name).is_none_or(|v| v.is_null() && !flag(schema, "nullable"));
                if let (true, Some(default)) = (absent, schema.get("default")) {
                    map.insert(name.clone(), default.clone());
                }
                if let Some(value) = map.get_mut(name) {
                    set_defaults(value, schema);
                }
            }
            if let Some(schema) = schema.get("additionalProperties") {
                map.values_mut().for_each(|value| set_defaults(value, schema));
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for value in list {
                    set_defaults(value, items);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The errors in `object`. Values that equal those in `old` are not reported.
pub(crate) fn validate(object: &Value, old: Option<&Value>, schema: &Value) -> Vec<Cause> {
    let mut check = Check { causes: Vec::new() };
    if let Some(map) = object.as_object() {
        check.required(map, schema, "");
        for (name, value) in map.iter().filter(|(name, _)| !is_envelope(name)) {
            let before = old.and_then(|o| o.get(name));
            if let Some(schema) = schema.get("properties").and_then(|p| p.get(name)) {
                check.value(value, before, schema, name);
            }
        }
    }
    check.causes
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}

struct Check {
    causes: Vec<Cause>,
}

impl Check {
    fn wrong(&mut self, path: &str, value: &Value, why: &str) {
        self.causes.push(Cause::invalid(path, value, &format!("{path} in body {why}")));
    }

    fn required(&mut self, map: &Map<String, Value>, schema: &Value, path: &str) {
        for name in list_at(schema, &["required"]).iter().filter_map(Value::as_str) {
            if !map.contains_key(name) {
                self.causes.push(Cause::required(join(path, name)));
            }
        }
    }

    fn value(&mut self, value: &Value, old: Option<&Value>, schema: &Value, path: &str) {
        if old == Some(value) || (value.is_null() && flag(schema, "nullable")) {
            return;
        }
        if !self.has_type(value, schema, path) {
            return;
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
            let message = format!("Unsupported value: {value}: supported values: {}", names.join(", "));
            self.causes.push(Cause { reason: "FieldValueNotSupported", field: path.to_owned(), message });
        }
        for message in rules::broken(value, schema) {
            self.causes.push(Cause::invalid(path, value, message));
        }
        match value {
            Value::Object(map) => self.object(map, old, schema, path),
            Value::Array(list) => self.list(list, old, schema, path),
            Value::String(text) => self.string(value, text, schema, path),
            Value::Number(_) => self.number(value, schema, path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn has_type(&mut self, value: &Value, schema: &Value, path: &str) -> bool {
        if flag(schema, "x-kubernetes-int-or-string") && (value.is_i64() || value.is_string()) {
            return true;
        }
        let Some(wanted) = schema.get("type").and_then(Value::as_str) else { return true };
        let fits = match wanted {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0),
            "number" => value.is_number(),
            _ => true,
        };
        if !fits {
            let found = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(n) if n.is_f64() => "number",
                Value::Number(_) => "integer",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            let why = format!("{path} in body must be of type {wanted}: \"{found}\"");
            let mut cause = Cause::invalid(path, &Value::from(found), &why);
            cause.reason = "FieldValueTypeInvalid";
            self.causes.push(cause);
        }
        fits
    }

    fn object(&mut self, map: &Map<String, Value>, old: Option<&Value>, schema: &Value, path: &str) {
        self.required(map, schema, path);
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let size = u64::try_from(map.len()).unwrap_or(u64::MAX);
        if count("maxProperties").is_some_and(|max| size > max) {
            self.wrong(path, &Value::Object(map.clone()), "has too many properties");
        }
        if count("minProperties").is_some_and(|min| size < min) {
            self.wrong(path, &Value::Object(map.clone()), "has too few properties");
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties").filter(|a| a.is_object());
        for (name, value) in map {
            let Some(inner) = properties.and_then(|p| p.get(name)).or(additional) else { continue };
            let required = list_at(schema, &["required"]).iter().any(|required| required == name);
            if value.is_null() && !flag(inner, "nullable") && required {
                self.causes.push(Cause::required(join(path, name)));
                continue;
            }
            self.value(value, old.and_then(|o| o.get(name)), inner, &join(path, name));
        }
    }

    fn list(&mut self, list: &[Value], old: Option<&Value>, schema: &Value, path: &str) {
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let size = u64::try_from(list.len()).unwrap_or(u64::MAX);
        if let Some(max) = count("maxItems").filter(|max| size > *max) {
            let message = format!("Too many: {size}: must have at most {max} items");
            self.causes.push(Cause { reason: "FieldValueTooMany", field: path.to_owned(), message });
        }
        if let Some(min) = count("minItems").filter(|min| size < *min) {
            self.wrong(path, &Value::from(size), &format!("should have at least {min} items"));
        }
        self.unique(list, schema, path);
        let Some(items) = schema.get("items") else { return };
        for (index, value) in list.iter().enumerate() {
            // An element that existed before counts as unchanged, wherever it was.
            let before = old.and_then(Value::as_array).and_then(|old| old.iter().find(|o| *o == value));
            self.value(value, before, items, &format!("{path}[{index}]"));
        }
    }

    fn unique(&mut self, list: &[Value], schema: &Value, path: &str) {
        let identity = |value: &Value| match text_at(schema, &["x-kubernetes-list-type"]) {
            "set" => Some(value.clone()),
            "map" => {
                let keys = list_at(schema, &["x-kubernetes-list-map-keys"]).iter().filter_map(Value::as_str);
                let named = keys.filter_map(|key| Some((key.to_owned(), value.get(key)?.clone())));
                Some(Value::Object(named.collect()))
            }
            _ => None,
        };
        let mut seen = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let Some(id) = identity(value) else { return };
            if seen.contains(&id) {
                self.causes.push(Cause {
                    reason: "FieldValueDuplicate",
                    field: format!("{path}[{index}]"),
                    message: format!("Duplicate value: {id}"),
                });
            }
            seen.push(id);
        }
    }

    fn string(&mut self, value: &Value, text: &str, schema: &Value, path: &str) {
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if let Some(max) = count("maxLength").filter(|max| length > *max) {
            let message = format!("Too long: may not be more than {max} bytes");
            self.causes.push(Cause { reason: "FieldValueTooLong", field: path.to_owned(), message });
        }
        if let Some(min) = count("minLength").filter(|min| length < *min) {
            self.wrong(path, value, &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && !regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(text))
        {
            self.wrong(path, value, &format!("should match '{pattern}'"));
        }
        let fits = match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => text.parse::<jiff::Timestamp>().is_ok(),
            Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_ok(),
            Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_ok(),
            Some(_) | None => true,
        };
        if !fits {
            let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
            self.wrong(path, value, &format!("must be of type {format}: {value}"));
        }
    }

    fn number(&mut self, value: &Value, schema: &Value, path: &str) {
        let Some(number) = value.as_f64() else { return };
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let shown = |name: &str| schema.get(name).map(Value::to_string).unwrap_or_default();
        let exclusive = flag(schema, "exclusiveMinimum");
        if bound("minimum").is_some_and(|min| number < min || (exclusive && number <= min)) {
            let relation = if exclusive { "greater than" } else { "greater than or equal to" };
            self.wrong(path, value, &format!("should be {relation} {}", shown("minimum")));
        }
        let exclusive = flag(schema, "exclusiveMaximum");
        if bound("maximum").is_some_and(|max| number > max || (exclusive && number >= max)) {
            let relation = if exclusive { "less than" } else { "less than or equal to" };
            self.wrong(path, value, &format!("should be {relation} {}", shown("maximum")));
        }
        let in_range = f64::from(i32::MIN) <= number && number <= f64::from(i32::MAX);
        if schema.get("format").and_then(Value::as_str) == Some("int32") && !in_range {
            self.wrong(path, value, "must be of type int32");
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({ "type": "object", "required": ["spec"], "properties": {
            "spec": { "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 5 },
                "count": { "type": "integer", "minimum": 0, "default": 3 },
                "mode": { "type": "string", "enum": ["A", "B"], "nullable": true },
                "any": { "x-kubernetes-int-or-string": true },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                "parts": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                           "items": { "type": "object", "properties": { "k": { "type": "string" } } } },
            } },
        } })
    }

    #[test]
    fn unknown_fields_are_pruned_and_named() {
        let mut object = json!({ "kind": "K", "extra": 1, "spec": { "name": "a", "free": { "x": 1 }, "y": 1,
            "labels": { "l": "v" }, "parts": [{ "k": "a", "z": 1 }] } });
        let mut unknown = prune(&mut object, &schema());
        unknown.sort();
        assert_eq!(unknown, ["extra", "spec.parts[0].z", "spec.y"]);
        assert_eq!(
            object,
            json!({ "kind": "K", "spec": { "name": "a", "free": { "x": 1 }, "labels": { "l": "v" },
                    "parts": [{ "k": "a" }] } })
        );
    }

    #[test]
    fn defaults_fill_absent_fields_only() {
        let mut object = json!({ "spec": { "name": "a" } });
        set_defaults(&mut object, &schema());
        assert_eq!(object, json!({ "spec": { "name": "a", "count": 3 } }));
    }

    #[test]
    fn each_broken_rule_names_its_field() {
        let cases = [
            (json!({}), "spec"),
            (json!({ "spec": {} }), "spec.name"),
            (json!({ "spec": { "name": "A" } }), "spec.name"),
            (json!({ "spec": { "name": "abcdef" } }), "spec.name"),
            (json!({ "spec": { "name": 1 } }), "spec.name"),
            (json!({ "spec": { "name": null } }), "spec.name"),
            (json!({ "spec": { "name": "a", "count": -1 } }), "spec.count"),
            (json!({ "spec": { "name": "a", "count": 1.5 } }), "spec.count"),
            (json!({ "spec": { "name": "a", "mode": "C" } }), "spec.mode"),
            (json!({ "spec": { "name": "a", "any": true } }), "spec.any"),
            (json!({ "spec": { "name": "a", "labels": { "l": 1 } } }), "spec.labels.l"),
            (json!({ "spec": { "name": "a", "parts": [{ "k": "x" }, { "k": "x" }] } }), "spec.parts[1]"),
        ];
        for (object, field) in cases {
            let mut schema = schema();
            schema["properties"]["spec"]["properties"]["any"]["type"] = json!("string");
            let fields: Vec<String> = validate(&object, None, &schema).into_iter().map(|c| c.field).collect();
            assert_eq!(fields, [field], "{object}");
        }
        let mut fine = json!({ "spec": { "name": "a", "count": 2.0, "mode": null, "any": 1 } });
        assert_eq!(validate(&fine, None, &schema()), []);
        prune(&mut fine, &schema());
        assert_eq!(fine["spec"]["count"].to_string(), "2");
    }

    #[test]
    fn an_old_fault_that_is_not_touched_is_no_fault() {
        let old = json!({ "spec": { "name": "TOO-LONG", "count": 1 } });
        let new = json!({ "spec": { "name": "TOO-LONG", "count": 2 } });
        assert_eq!(validate(&new, Some(&old), &schema()), []);
        assert_eq!(validate(&new, None, &schema()).len(), 2);
    }
}
