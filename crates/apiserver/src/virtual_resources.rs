//! Requests for resources that store nothing: access reviews and evictions.

use super::error::ApiError;
use super::hooks::{Call, Interceptor, Verb};
use super::meta::{at, text_at};
use super::remove::DeleteOptions;
use super::request::decode;
use serde_json::{Value, json};

/// Answers a review. `None` if the request is for something else.
pub(crate) fn review(call: &Call, rights: &dyn Interceptor) -> Result<Option<Value>, ApiError> {
    let of_rights = match (call.group.as_str(), call.resource.as_str()) {
        ("authorization.k8s.io", "selfsubjectaccessreviews" | "subjectaccessreviews") => true,
        ("authentication.k8s.io", "selfsubjectreviews") => false,
        _ => return Ok(None),
    };
    if call.verb != Verb::Create {
        return Err(ApiError::method_not_allowed());
    }
    let mut answer = decode(&call.body)?;
    let status = if of_rights {
        let asked = |name: &str| text_at(&answer, &["spec", "resourceAttributes", name]);
        let resource = match asked("subresource") {
            "" => asked("resource").to_owned(),
            sub => format!("{}/{sub}", asked("resource")),
        };
        json!({ "allowed": rights.allows(text_at(&answer, &["spec", "user"]), asked("verb"), &resource) })
    } else {
        json!({ "userInfo": { "username": "sandbox", "groups": ["system:masters", "system:authenticated"] } })
    };
    super::meta::set_at(&mut answer, &["status"], status);
    Ok(Some(answer))
}

/// The deletion that an eviction requests.
pub(crate) fn eviction_options(eviction: &Value) -> DeleteOptions {
    let option = |path: &[&str]| at(eviction, path).and_then(Value::as_str).map(str::to_owned);
    DeleteOptions {
        uid: option(&["deleteOptions", "preconditions", "uid"]),
        resource_version: option(&["deleteOptions", "preconditions", "resourceVersion"]),
        grace_seconds: at(eviction, &["deleteOptions", "gracePeriodSeconds"]).and_then(Value::as_i64),
        dry_run: false,
    }
}
