//! The answers of Cloudflare, reduced to the fields in use. Unknown fields are ignored, and null counts as absent. The
//! exception is a missing list, which is not an empty one.

use flipop_core::records::dns::Record;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The envelope of every answer.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<T> {
    pub(super) success: bool,
    pub(super) result: Option<T>,
    pub(super) result_info: Option<ResultInfo>,
}

/// The information of a list about its pages.
#[derive(Debug, Deserialize)]
pub(super) struct ResultInfo {
    pub(super) per_page: Option<u64>,
    pub(super) total_count: Option<u64>,
}

/// `GET /zones` and `GET /zones/{id}`.
#[derive(Debug, Deserialize)]
pub(super) struct ZoneEntry {
    pub(super) id: String,
    /// In ASCII and in lower case.
    #[serde(deserialize_with = "ascii_name")]
    pub(super) name: String,
    pub(super) status: Option<String>,
    plan: Option<Plan>,
}

#[derive(Debug, Deserialize)]
struct Plan {
    legacy_id: Option<String>,
}

/// Converts a name to its `xn--` form. Cloudflare returns zone names in their native script; records and specs use
/// `xn--`.
fn ascii_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(idna::domain_to_ascii(&name).unwrap_or_else(|_unconvertible| name.to_ascii_lowercase()))
}

impl ZoneEntry {
    /// Whether the zone's plan is the one with the lower TTL floor.
    pub(super) fn is_enterprise(&self) -> bool {
        let plan = self.plan.as_ref().and_then(|plan| plan.legacy_id.as_deref());
        plan.is_some_and(|plan| plan.eq_ignore_ascii_case("enterprise"))
    }
}

/// A record. Types that we do not use may lack fields.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RecordEntry {
    pub(super) id: String,
    #[serde(rename = "type")]
    kind: String,
    /// Fully qualified.
    pub(super) name: String,
    content: Option<String>,
    ttl: Option<u32>,
    proxied: Option<bool>,
}

impl RecordEntry {
    pub(super) fn is_of(&self, fqdn: &str) -> bool {
        self.name.strip_suffix('.').unwrap_or(&self.name).eq_ignore_ascii_case(fqdn)
    }

    pub(super) fn into_record(self) -> Record {
        Record {
            id: self.id,
            kind: self.kind.to_ascii_uppercase(),
            data: self.content.unwrap_or_default(),
            ttl: self.ttl.unwrap_or_default(),
            proxied: self.proxied.unwrap_or(false),
        }
    }
}

/// `POST /zones/{id}/dns_records/batch`.
#[derive(Debug, Deserialize)]
pub(super) struct BatchResult {
    pub(super) patches: Option<Vec<RecordEntry>>,
    pub(super) posts: Option<Vec<RecordEntry>>,
}

/// More errors than any answer has. Limits the message.
const MAX_ERRORS: usize = 8;

/// Whether a body has the form of every refusal of this API: a list `errors`.
pub(super) fn is_refusal(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body.get("errors").is_some_and(Value::is_array)
}

/// The codes and messages of a refusal. Each error is followed by the details chained to it.
pub(super) fn errors(body: &[u8]) -> Vec<(u64, String)> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let entry = |error: &Value| {
        let code = error.get("code").and_then(Value::as_u64).unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        (code, message.to_owned())
    };
    let mut errors = Vec::new();
    for error in list(&body, "errors") {
        errors.push(entry(&error));
        errors.extend(list(&error, "error_chain").iter().map(entry));
    }
    errors.truncate(MAX_ERRORS);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_record_is_read_and_null_is_absent() {
        let body = r#"{"id": "023e", "name": "WWW.example.com", "type": "a", "content": "192.0.2.1", "ttl": 1,
            "proxied": true, "proxiable": true, "settings": {}, "meta": {}, "comment": null, "tags": ["a:b"],
            "created_on": "2014-01-01T05:20:00.12345Z", "modified_on": null}"#;
        let entry: RecordEntry = serde_json::from_str(body).unwrap();
        assert!(entry.is_of("www.example.com") && !entry.is_of("example.com"));
        let record = entry.into_record();
        assert_eq!((record.kind.as_str(), record.ttl, record.proxied), ("A", 1, true));
        assert_eq!(record.address(), Some("192.0.2.1".parse().unwrap()));
        let bare =
            r#"{"id": "1", "name": "a.", "type": "SRV", "content": null, "proxied": null, "ttl": null}"#;
        let entry: RecordEntry = serde_json::from_str(bare).unwrap();
        assert!(entry.is_of("a"));
        assert_eq!((entry.into_record().data.as_str(),), ("",));
    }

    #[test]
    fn a_zone_s_name_is_in_ascii_and_in_lower_case() {
        for (answered, name) in [
            ("Example.COM", "example.com"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("B\u{dc}CHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("_a.example.com", "_a.example.com"),
            ("", ""),
            // A name that cannot be converted is only lowercased.
            ("XN--\u{fc}.example", "xn--\u{fc}.example"),
        ] {
            let entry: ZoneEntry =
                serde_json::from_value(serde_json::json!({"id": "1", "name": answered})).unwrap();
            assert_eq!(entry.name, name, "{answered}");
        }
    }

    #[test]
    fn an_answer_that_does_not_say_it_succeeded_is_none() {
        for body in ["{}", r#"{"result": []}"#, r#"{"success": null}"#, "[]", r#"{"success": "true"}"#] {
            assert!(serde_json::from_str::<Envelope<Value>>(body).is_err(), "{body}");
        }
    }

    #[test]
    fn errors_are_read_as_far_as_they_go() {
        let body = r#"{"success": false, "errors": [{"code": 1004, "message": "DNS Validation Error",
            "error_chain": [{"code": 9021, "message": "TTL"}]}, {"code": "x", "message": 7}, null]}"#;
        let expected = [(1004, "DNS Validation Error"), (9021, "TTL"), (0, ""), (0, "")];
        assert_eq!(errors(body.as_bytes()), expected.map(|(code, text)| (code, text.to_owned())));
        for body in ["", "<html>", "[]", r#"{"errors": null}"#, r#"{"errors": {"code": 1}}"#] {
            assert_eq!(errors(body.as_bytes()), [], "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            drop(errors(&bytes));
            drop(serde_json::from_slice::<Envelope<Vec<RecordEntry>>>(&bytes));
            drop(serde_json::from_slice::<Envelope<Vec<ZoneEntry>>>(&bytes));
            drop(serde_json::from_slice::<Envelope<BatchResult>>(&bytes));
        }
    }
}
