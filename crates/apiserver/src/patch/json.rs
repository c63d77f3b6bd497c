//! JSON patch (RFC 6902). An operation that does not fit, or a `test` that fails, fails the whole patch.

use super::super::error::ApiError;
use serde_json::Value;

/// Most operations in one patch, as in apiserver.
const OPERATIONS_MAX: usize = 10_000;

pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let operations = patch
        .as_array()
        .ok_or_else(|| ApiError::bad_request("error decoding patch: a JSON patch is a list of operations"))?;
    if operations.len() > OPERATIONS_MAX {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                operations.len()
            ),
        ));
    }
    operations.iter().try_for_each(|operation| step(object, operation).map_err(|why| rejected(&why)))
}

fn rejected(why: &str) -> ApiError {
    // As in apiserver, the client does not learn the reason.
    tracing::debug!(why, "a JSON patch does not fit");
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
}

fn step(object: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str);
    let value = || operation.get("value").cloned().ok_or_else(|| "operation without value".to_owned());
    let path = text("path").ok_or("operation without path")?;
    match text("op").ok_or("operation without op")? {
        "add" => add(object, path, value()?),
        "remove" => remove(object, path).map(drop),
        "replace" => {
            let place = object.pointer_mut(path).ok_or_else(|| missing(path))?;
            *place = value()?;
            Ok(())
        }
        "move" => {
            let moved = remove(object, text("from").ok_or("move without from")?)?;
            add(object, path, moved)
        }
        "copy" => {
            let from = text("from").ok_or("copy without from")?;
            let copied = object.pointer(from).cloned().ok_or_else(|| missing(from))?;
            add(object, path, copied)
        }
        "test" => {
            let expected = value()?;
            if object.pointer(path).unwrap_or(&Value::Null) == &expected {
                Ok(())
            } else {
                Err(format!("testing value {path} failed"))
            }
        }
        other => Err(format!("unknown operation {other:?}")),
    }
}

fn missing(path: &str) -> String {
    format!("the path {path} does not exist")
}

/// The place that holds `path`'s last step, and that step.
fn parent<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (head, last) = path.rsplit_once('/').ok_or_else(|| missing(path))?;
    let place = object.pointer_mut(head).ok_or_else(|| missing(head))?;
    Ok((place, last.replace("~1", "/").replace("~0", "~")))
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    match parent(object, path)? {
        (Value::Object(map), last) => {
            map.insert(last, value);
            Ok(())
        }
        (Value::Array(list), step) if step == "-" => {
            list.push(value);
            Ok(())
        }
        (Value::Array(list), step) => match step.parse::<usize>() {
            Ok(index) if index <= list.len() => {
                list.insert(index, value);
                Ok(())
            }
            Ok(_) | Err(_) => Err(missing(path)),
        },
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => Err(missing(path)),
    }
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    match parent(object, path)? {
        (Value::Object(map), last) => map.remove(&last).ok_or_else(|| missing(path)),
        (Value::Array(list), step) => match step.parse::<usize>() {
            Ok(index) if index < list.len() => Ok(list.remove(index)),
            Ok(_) | Err(_) => Err(missing(path)),
        },
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => Err(missing(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_six_operations_do_what_the_rfc_says() {
        let mut object = json!({ "a": { "x/y": 1 }, "l": [1, 2] });
        let patch = json!([
            { "op": "test", "path": "/a/x~1y", "value": 1 },
            { "op": "add", "path": "/l/-", "value": 3 },
            { "op": "add", "path": "/l/0", "value": 0 },
            { "op": "remove", "path": "/l/1" },
            { "op": "replace", "path": "/a/x~1y", "value": 5 },
            { "op": "copy", "from": "/a", "path": "/b" },
            { "op": "move", "from": "/a/x~1y", "path": "/c" },
        ]);
        apply(&mut object, &patch).unwrap();
        assert_eq!(object, json!({ "a": {}, "b": { "x/y": 5 }, "c": 5, "l": [0, 2, 3] }));
    }

    #[test]
    fn an_operation_that_does_not_fit_is_refused_as_invalid() {
        for operation in [
            json!({ "op": "remove", "path": "/nope" }),
            json!({ "op": "replace", "path": "/nope", "value": 1 }),
            json!({ "op": "test", "path": "/a", "value": 2 }),
            json!({ "op": "add", "path": "/l/9", "value": 2 }),
            json!({ "op": "add", "path": "/a/b/c", "value": 2 }),
            json!({ "op": "spin", "path": "/a" }),
        ] {
            let error = apply(&mut json!({ "a": 1, "l": [] }), &json!([operation.clone()])).unwrap_err();
            assert_eq!(error.code, 422, "{operation}");
        }
    }
}
