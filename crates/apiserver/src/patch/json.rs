//! JSON patch (RFC 6902). An operation that does not fit, or a `test` that fails, fails the whole patch.

use super::super::error::ApiError;
use json_patch::PatchOperation;
use serde::Deserialize as _;
use serde_json::Value;
use std::fmt::Display;

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
    operations.iter().try_for_each(|operation| step(object, operation))
}

fn step(object: &mut Value, operation: &Value) -> Result<(), ApiError> {
    let operation = PatchOperation::deserialize(operation).map_err(|error| rejected(&error))?;
    // As in apiserver, an absent value equals null.
    if let PatchOperation::Test(test) = &operation
        && test.value.is_null()
        && test.path.resolve(&*object).is_err()
    {
        return Ok(());
    }
    json_patch::patch_unsafe(object, &[operation]).map_err(|error| rejected(&error))
}

fn rejected(why: &impl Display) -> ApiError {
    // As in apiserver, the client does not learn the reason.
    tracing::debug!(%why, "a JSON patch does not fit");
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
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
