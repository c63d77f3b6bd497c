//! The answers of `DigitalOcean`, reduced to the fields in use. Unknown fields are ignored, and null counts as absent,
//! except where an absence would be a claim: a missing list is not an empty list, and a droplet without an id is still
//! a droplet.

use super::droplet;
use crate::provider::call::Action;
use flipop_core::model::{ActionId, ActionStatus, ReservedIp, region_slug};
use serde::Deserialize;
use std::net::Ipv4Addr;

/// `GET /v2/reserved_ips`.
#[derive(Debug, Deserialize)]
pub(super) struct ReservedIpsBody {
    pub(super) reserved_ips: Vec<ReservedIpEntry>,
    #[serde(flatten)]
    pub(super) paging: Paging,
}

/// The paging of every list.
#[derive(Debug, Deserialize)]
pub(super) struct Paging {
    links: Option<Links>,
    meta: Option<Meta>,
}

impl Paging {
    /// Number of entries on all pages.
    pub(super) fn total(&self) -> Option<u64> {
        self.meta.as_ref()?.total
    }

    /// The URL of the next page, verbatim.
    pub(super) fn next(&self) -> Option<&str> {
        self.links.as_ref()?.pages.as_ref()?.next.as_deref().filter(|next| !next.is_empty())
    }
}

#[derive(Debug, Deserialize)]
struct Links {
    pages: Option<Pages>,
}

#[derive(Debug, Deserialize)]
struct Pages {
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    total: Option<u64>,
}

/// `GET /v2/reserved_ips/{ip}`.
#[derive(Debug, Deserialize)]
pub(super) struct ReservedIpBody {
    pub(super) reserved_ip: ReservedIpEntry,
}

/// A reserved IP.
#[derive(Debug, Deserialize)]
pub(super) struct ReservedIpEntry {
    ip: Ipv4Addr,
    region: Option<Region>,
    droplet: Option<Droplet>,
    locked: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Region {
    slug: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Droplet {
    pub(super) id: u64,
    pub(super) status: Option<String>,
}

/// `GET /v2/droplets/{id}`.
#[derive(Debug, Deserialize)]
pub(super) struct DropletBody {
    pub(super) droplet: Droplet,
}

impl ReservedIpEntry {
    pub(super) fn into_facts(self) -> ReservedIp {
        ReservedIp {
            ip: self.ip.into(),
            region: self
                .region
                .and_then(|region| region.slug)
                .map(|slug| region_slug(&slug))
                .unwrap_or_default(),
            machine: self.droplet.map(|found| droplet(found.id)),
            locked: self.locked.unwrap_or(false),
        }
    }
}

/// `POST /v2/reserved_ips`.
#[derive(Debug, Deserialize)]
pub(super) struct CreatedBody {
    pub(super) reserved_ip: Created,
}

/// The only field of a new address that is needed.
#[derive(Debug, Deserialize)]
pub(super) struct Created {
    pub(super) ip: Ipv4Addr,
}

/// `GET /v2/droplets`. It only has to be a list.
#[derive(Debug, Deserialize)]
pub(super) struct DropletsBody {
    #[serde(rename = "droplets")]
    _droplets: Vec<serde::de::IgnoredAny>,
}

/// `POST /v2/reserved_ips/{ip}/actions` and `GET …/{id}`.
#[derive(Debug, Deserialize)]
pub(super) struct ActionBody {
    pub(super) action: ActionEntry,
}

/// An action.
#[derive(Debug, Deserialize)]
pub(super) struct ActionEntry {
    id: u64,
    status: String,
}

impl ActionEntry {
    /// The action, or its unknown status.
    pub(super) fn into_action(self) -> Result<Action, String> {
        let status = match self.status.as_str() {
            "in-progress" => ActionStatus::InProgress,
            "completed" => ActionStatus::Completed,
            "errored" => ActionStatus::Errored,
            _ => return Err(self.status),
        };
        Ok(Action { id: ActionId(self.id), status })
    }
}

/// The body of an error. Its `request_id` is left out: it differs each time, and the message goes into a status, which
/// must not change without a reason.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default, deserialize_with = "text")]
    pub(super) id: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) message: String,
}

impl ErrorBody {
    /// Reads as much of an error's body as is readable.
    pub(super) fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

/// Whether a body has the form of every refusal of this API: `id` and `message`, as texts.
pub(super) fn is_refusal(body: &[u8]) -> bool {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    ["id", "message"].iter().all(|field| body.get(field).is_some_and(serde_json::Value::is_string))
}

fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(serde_json::Value::deserialize(deserializer)?.as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_entry_is_read_and_unknown_fields_are_ignored() {
        let body = r#"{"reserved_ips": [
            {"ip": "45.55.96.47", "droplet": {"id": 3164444, "name": "example.com", "region": {"slug": "nyc3"}},
             "region": {"name": "New York 3", "slug": "nyc3", "sizes": ["s-1vcpu-1gb"]}, "locked": true,
             "project_id": "746c6152-2fa2-11ed-92d3-27aaa54e4988", "new_thing": [1, {"a": null}]}],
            "links": {"pages": {"next": "https://api.digitalocean.com/v2/reserved_ips?page=2", "last": null}},
            "meta": {"total": 1}}"#;
        let list: ReservedIpsBody = serde_json::from_str(body).unwrap();
        assert_eq!(list.paging.total(), Some(1));
        assert_eq!(list.paging.next(), Some("https://api.digitalocean.com/v2/reserved_ips?page=2"));
        let facts: Vec<ReservedIp> = list.reserved_ips.into_iter().map(ReservedIpEntry::into_facts).collect();
        let expected = ReservedIp {
            ip: "45.55.96.47".parse().unwrap(),
            region: "nyc3".to_owned(),
            machine: Some(droplet(3_164_444)),
            locked: true,
        };
        assert_eq!(facts, [expected]);
    }

    #[test]
    fn null_and_missing_fields_are_absent() {
        for body in [
            r#"{"reserved_ip": {"ip": "45.55.96.47"}}"#,
            r#"{"reserved_ip": {"ip": "45.55.96.47", "droplet": null, "region": null, "locked": null}}"#,
            r#"{"reserved_ip": {"ip": "45.55.96.47", "region": {"slug": null}}}"#,
        ] {
            let facts = serde_json::from_str::<ReservedIpBody>(body).unwrap().reserved_ip.into_facts();
            assert_eq!((facts.region.as_str(), facts.machine, facts.locked), ("", None, false), "{body}");
        }
    }

    #[test]
    fn what_would_make_believe_something_false_is_malformed() {
        for body in [
            "{}",
            r#"{"reserved_ips": null}"#,
            r#"{"reserved_ips": {}}"#,
            r#"{"reserved_ips": [{"ip": null}]}"#,
            r#"{"reserved_ips": [{"ip": "45.55.96"}]}"#,
            r#"{"reserved_ips": [{"ip": "2604:a880::1"}]}"#,
            r#"{"reserved_ips": [{"ip": "45.55.96.47", "droplet": {}}]}"#,
            r#"{"reserved_ips": [{"ip": "45.55.96.47", "droplet": {"id": -1}}]}"#,
            r#"{"reserved_ips": [{"ip": "45.55.96.47", "droplet": {"id": 1.5}}]}"#,
            r#"{"reserved_ips": [{"ip": "45.55.96.47"}, null]}"#,
        ] {
            assert!(serde_json::from_str::<ReservedIpsBody>(body).is_err(), "{body}");
        }
    }

    #[test]
    fn a_region_is_in_lower_case_and_without_white_space_around_it() {
        let body = r#"{"reserved_ip": {"ip": "45.55.96.47", "region": {"slug": " NYC3 "}}}"#;
        let read: ReservedIpBody = serde_json::from_str(body).unwrap();
        assert_eq!(read.reserved_ip.into_facts().region, "nyc3");
    }

    #[test]
    fn of_a_new_address_nothing_else_is_needed() {
        for body in [
            r#"{"reserved_ip": {"ip": "45.55.96.47"}}"#,
            r#"{"reserved_ip": {"ip": "45.55.96.47", "region": 7, "droplet": "x", "locked": "no"}, "links": []}"#,
        ] {
            assert_eq!(
                serde_json::from_str::<CreatedBody>(body).unwrap().reserved_ip.ip,
                Ipv4Addr::new(45, 55, 96, 47)
            );
        }
    }

    #[test]
    fn the_three_statuses_of_an_action_are_known_and_no_others() {
        let read = |status: &str| {
            let body = format!(r#"{{"action": {{"id": 18446744073709551615, "status": "{status}"}}}}"#);
            serde_json::from_str::<ActionBody>(&body).unwrap().action.into_action()
        };
        let known = [
            ("in-progress", ActionStatus::InProgress),
            ("completed", ActionStatus::Completed),
            ("errored", ActionStatus::Errored),
        ];
        for (status, expected) in known {
            assert_eq!(read(status), Ok(Action { id: ActionId(u64::MAX), status: expected }));
        }
        assert_eq!(read("cancelled"), Err("cancelled".to_owned()));
    }

    #[test]
    fn an_error_is_read_as_far_as_it_goes() {
        let table = [
            (r#"{"id": "not_found", "message": "gone", "request_id": "1"}"#, ("not_found", "gone")),
            (r#"{"id": 404, "message": ["gone"]}"#, ("", "")),
            (r#"{"id": null, "message": "gone"}"#, ("", "gone")),
            ("<html>502 Bad Gateway</html>", ("", "")),
            ("", ("", "")),
            ("[]", ("", "")),
        ];
        for (body, expected) in table {
            let read = ErrorBody::read(body.as_bytes());
            assert_eq!((read.id.as_str(), read.message.as_str()), expected, "{body}");
        }
    }

    /// JSON that almost fits: the right names, with values of any type.
    fn nearly() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>()
                .prop_filter("JSON has no such number", |n| n.is_finite())
                .prop_map(|n| n.to_string()),
            "[a-z0-9.:-]{0,12}".prop_map(|text| format!("\"{text}\"")),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            let name = prop::sample::select(vec![
                "reserved_ips",
                "reserved_ip",
                "ip",
                "droplet",
                "id",
                "region",
                "slug",
                "locked",
                "links",
                "pages",
                "next",
                "meta",
                "total",
                "action",
                "status",
                "message",
                "droplets",
            ]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::btree_map(name, inner, 0..6).prop_map(|fields| {
                    let fields: Vec<String> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                    format!("{{{}}}", fields.join(","))
                }),
            ]
        })
    }

    fn read_all(bytes: &[u8]) {
        let list = serde_json::from_slice::<ReservedIpsBody>(bytes);
        if let Ok(list) = list {
            let _read = (list.paging.total(), list.paging.next().map(str::to_owned));
            list.reserved_ips.into_iter().for_each(|entry| drop(entry.into_facts()));
        }
        if let Ok(body) = serde_json::from_slice::<ReservedIpBody>(bytes) {
            drop(body.reserved_ip.into_facts());
        }
        if let Ok(body) = serde_json::from_slice::<ActionBody>(bytes) {
            drop(body.action.into_action());
        }
        drop(serde_json::from_slice::<CreatedBody>(bytes));
        drop(serde_json::from_slice::<DropletsBody>(bytes));
        drop(serde_json::from_slice::<DropletBody>(bytes));
        drop(ErrorBody::read(bytes));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            read_all(&bytes);
        }

        #[test]
        fn no_json_makes_a_decoder_panic(text in nearly()) {
            read_all(text.as_bytes());
        }
    }
}
