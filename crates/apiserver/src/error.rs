//! Failures in the API's format: `metav1.Status` with code, reason and details.
//!
//! Owns the wording that clients match on: client-go looks at reasons and codes, people read the messages.

use super::meta::set_at;
use serde::Serialize;
use serde_json::{Value, json};

/// A request that the API server refuses.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound`. Empty if there is none.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    /// `details` of the Status. `Value::Null` if there are none.
    pub details: Value,
}

/// One wrong field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Machine-readable reason, for example `FieldValueInvalid`.
    pub reason: &'static str,
    /// Path of the field, for example `spec.ips[0]`.
    pub field: String,
    /// Text for people.
    pub message: String,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    /// Nothing is served at this path. The answer is plain text without a Status, which is how clients tell a missing
    /// resource from a missing object.
    pub fn no_route() -> Self {
        Self::new(404, "", "404 page not found")
    }

    /// Whether the answer is plain text.
    pub fn is_plain(&self) -> bool {
        self.code == 404 && self.reason.is_empty()
    }

    /// Options that contradict each other.
    pub fn invalid_options(kind: &str, cause: &Cause) -> Self {
        Self::invalid("meta.k8s.io", kind, "", std::slice::from_ref(cause))
    }

    /// An error about one object.
    fn about(
        code: u16,
        reason: &'static str,
        group: &str,
        plural: &str,
        name: &str,
        message: String,
    ) -> Self {
        Self { code, reason, message, details: json!({ "name": name, "group": group, "kind": plural }) }
    }

    /// The object does not exist.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(group, plural));
        Self::about(404, "NotFound", group, plural, name, message)
    }

    /// The name is taken.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(group, plural));
        Self::about(409, "AlreadyExists", group, plural, name, message)
    }

    /// Someone else wrote first, or the object is not the expected one.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, plural));
        Self::about(409, "Conflict", group, plural, name, message)
    }

    /// The standard text for a lost update.
    pub fn modified(group: &str, plural: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, plural, name, why)
    }

    /// The object breaks its schema.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let all = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {all}", qualified(group, kind));
        let mut error = Self::about(422, "Invalid", group, kind, name, message);
        error.set_causes(json!(causes));
        error
    }

    /// Adds the causes to the details.
    pub(crate) fn set_causes(&mut self, causes: Value) {
        set_at(&mut self.details, &["causes"], causes);
    }

    /// The request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The requested resource version is no longer known.
    pub fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// The page token refers to a state that is no longer known.
    pub fn continue_expired() -> Self {
        let text = "The provided continue parameter is too old to display a consistent list result. You must \
                    start a new list without the continue parameter.";
        Self::new(410, "Expired", text)
    }

    /// The requested resource version is in the future.
    pub fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = json!({ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" });
        let details = json!({ "causes": [cause], "retryAfterSeconds": 1 });
        Self { details, ..Self::new(504, "Timeout", message) }
    }

    /// Not allowed.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", qualified(group, plural));
        Self::about(403, "Forbidden", group, plural, name, message)
    }

    /// The verb does not exist here.
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// The body is in an unsupported format.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// None of the requested answer formats is supported.
    pub fn not_acceptable() -> Self {
        Self::new(406, "NotAcceptable", "only the following media types are accepted: application/json")
    }

    /// The number of seconds in the answer's `Retry-After` header.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The body of the answer.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        let Some(map) = status.as_object_mut() else { return status };
        // Empty strings are left out, as by Go's `omitempty`.
        let told = |value: &Value| value.as_str() != Some("");
        map.retain(|_, value| told(value));
        if let Some(details) = self.details.as_object() {
            let details = details.iter().filter(|(_, value)| told(value));
            let details = details.map(|(name, value)| (name.clone(), value.clone())).collect();
            map.insert("details".to_owned(), Value::Object(details));
        }
        status
    }
}

impl Cause {
    /// A value that is not allowed.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let shown = match value {
            Value::Object(_) => "\"object\"".to_owned(),
            Value::Array(_) => "\"array\"".to_owned(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        };
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {shown}: {why}"),
        }
    }

    /// An option that must be absent.
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.to_owned(), message: format!("Forbidden: {why}") }
    }

    /// A missing value.
    pub fn required(field: impl Into<String>) -> Self {
        Self { reason: "FieldValueRequired", field: field.into(), message: "Required value".to_owned() }
    }
}

fn qualified(group: &str, what: &str) -> String {
    if group.is_empty() { what.to_owned() } else { format!("{what}.{group}") }
}
