//! I14: for each rule about pauses, a violation and a case that is just allowed.

use super::tests::{A, Court, IP, POOL, cloud};
use crate::facts::Kind;
use crate::scene::{API_VERSION, REGION};
use flipop_apiserver::Key;
use flipop_cloud::{Provider, RecordView};
use serde_json::{Value, json};

const SET: (&str, &str) = (API_VERSION, "NodeDNSRecordSet");

fn annotation(text: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { super::pauses::ANNOTATION: text } } })
}

/// A court whose only pool was paused at 20 s and may be so still.
fn court(spec: &Value, text: Option<&str>) -> Court {
    let mut court = Court::new(spec);
    court.patch(POOL, "pool", "", annotation(Some("before")), "user");
    court.hear(20_000, false);
    if text != Some("before") {
        court.patch(POOL, "pool", "", annotation(text), "user");
        court.hear(30_000, false);
    }
    court.lead(31_000, A, &[]);
    court.rules();
    court
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_at_the_provider_for_a_paused_pool() {
    let set_node = |court: &Court, ready| {
        court.api.set_node_ready("node-1", flipop_apiserver::Readiness::of(ready)).unwrap();
    };
    for (text, rules) in [(Some("before"), vec!["I14"]), (Some(""), vec!["I14"]), (None, vec![])] {
        let mut court = court(&json!({ "desiredIPs": 2 }), text);
        set_node(&court, false);
        court.hear(32_000, false);
        court.send(37_000, A, &court.assign(1));
        assert_eq!(court.rules(), rules, "{text:?}");
        court.send(37_000, A, &cloud("create an address", Kind::CreateIp));
        assert_eq!(court.rules(), rules, "{text:?}");
        court.patch(POOL, "pool", "", json!({ "spec": { "ips": [], "releasedIPs": [IP] } }), "user");
        court.patch(POOL, "pool", "", json!({ "spec": { "ips": ["192.0.2.2"] } }), "user");
        set_node(&court, true);
        court.hear(37_200, false);
        court.send(37_500, A, &cloud("unassign", Kind::Unassign { ip: IP }));
        assert_eq!(court.rules(), rules, "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_cannot_be_known_yet_binds_nobody() {
    for (at_ms, rules) in [(24_900, vec![]), (25_100, vec!["I14"])] {
        let mut court = Court::new(&json!({}));
        court.lead(19_000, A, &[]);
        court.patch(POOL, "pool", "", annotation(Some("x")), "user");
        court.api.set_node_ready("node-1", flipop_apiserver::Readiness::of(false)).unwrap();
        court.hear(20_000, false);
        court.send(at_ms, A, &court.assign(1));
        assert_eq!(court.rules(), rules, "{at_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_pool_of_the_address_or_of_the_account_may_act() {
    let mut court = court(&json!({ "desiredIPs": 2 }), Some("before"));
    let other = json!({ "provider": "digitalocean", "region": REGION, "desiredIPs": 1, "match": { "nodeLabel": "role=edge" } });
    court.create(POOL.1, "other", &other);
    court.hear(32_000, false);
    court.send(37_000, A, &cloud("create an address", Kind::CreateIp));
    assert_eq!(court.rules(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_the_account_is_listed_before_an_address_moves() {
    let list = || cloud("list addresses", Kind::ListIps);
    for (listed_ms, rules) in [(None, vec!["I14"]), (Some(39_000), vec!["I14"]), (Some(45_100), vec![])] {
        let mut court = court(&json!({}), Some("before"));
        court.api.set_node_ready("node-1", flipop_apiserver::Readiness::of(false)).unwrap();
        court.hear(32_000, false);
        court.patch(POOL, "pool", "", annotation(None), "user");
        court.hear(50_000, false);
        // The permit goes on, which requires no list.
        let lease =
            super::tests::kube("PUT leases x", Kind::Lease { write: Some(crate::facts::Hold::Taken) });
        for at_ms in [38_000, 45_000, 52_000] {
            court.call((at_ms, at_ms), A, &lease, Some(200));
        }
        if let Some(at_ms) = listed_ms {
            court.call((at_ms, at_ms), A, &list(), Some(200));
        }
        court.rules();
        court.send(52_500, A, &court.assign(1));
        assert_eq!(court.rules(), rules, "{listed_ms:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_of_a_paused_pool_change_only_with_a_move_that_was_sent() {
    let key = Key::new("", "node-1");
    let note = |court: &Court, value: Option<&str>| {
        let patch =
            json!({ "metadata": { "annotations": { "flipop.digitalocean.com/ipv4-reserved-ip": value } } });
        court.api.patch_object(("v1", "Node"), &key, "", patch, "flipop").unwrap();
    };
    let ip = IP.to_string();
    for (text, assigned_ms, rules) in
        [(Some("before"), None, vec!["I14"]), (Some("before"), Some(18_000), vec![]), (None, None, vec![])]
    {
        let mut court = court(&json!({}), text);
        if let Some(at_ms) = assigned_ms {
            let assign = court.assign(0);
            court.judge.took_effect(at_ms, &assign);
        }
        note(&court, Some(&ip));
        court.hear(60_000, true);
        assert_eq!(court.rules(), rules, "{text:?} {assigned_ms:?}");
        note(&court, None);
        court.hear(60_100, true);
        assert_eq!(court.rules(), rules, "{text:?} {assigned_ms:?}");
        // An address that no pool names does not concern the pool.
        note(&court, Some("192.0.2.99"));
        court.hear(60_200, true);
        assert_eq!(court.rules(), Vec::<&str>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn records_of_a_paused_object_change_only_with_a_move_that_was_sent() {
    let dns = json!({ "provider": "digitalocean", "zone": "example.com", "recordName": "edge" });
    let record = |data: &str| RecordView::new("edge.example.com", "A", data, 60);
    for (text, assigned_ms, rules) in
        [(Some("before"), None, vec!["I14"]), (Some("before"), Some(18_000), vec![]), (None, None, vec![])]
    {
        let mut court = court(&json!({ "dnsRecordSet": dns }), text);
        if let Some(at_ms) = assigned_ms {
            let assign = court.assign(0);
            court.judge.took_effect(at_ms, &assign);
        }
        let id =
            court.cloud.add_record(Provider::DigitalOcean, "example.com", &record(&IP.to_string())).unwrap();
        court.hear(60_000, true);
        assert_eq!(court.rules(), rules, "{text:?} {assigned_ms:?}");
        let _id = court.cloud.add_record(Provider::DigitalOcean, "example.com", &record("192.0.2.9"));
        court.hear(60_000, false);
        // No record is deleted.
        court.cloud.delete_record(Provider::DigitalOcean, "example.com", &id);
        court.hear(60_100, true);
        assert_eq!(court.rules(), if text.is_some() { vec!["I14"] } else { vec![] }, "{text:?}");
    }
    let mut court = Court::new(&json!({}));
    court.create(SET.1, "nodes", &json!({ "match": { "nodeLabel": "role=edge" }, "dnsRecordSet": dns }));
    court.patch(SET, "nodes", "", annotation(Some("")), "user");
    court.hear(20_000, false);
    let address = court.api.object("v1", "Node", &Key::new("", "node-1")).unwrap();
    let address = address.pointer("/status/addresses").and_then(Value::as_array).unwrap();
    let external = address.iter().find(|address| address["type"] == "ExternalIP").unwrap();
    let external = record(external["address"].as_str().unwrap());
    let _id = court.cloud.add_record(Provider::DigitalOcean, "example.com", &external);
    court.hear(60_000, true);
    assert_eq!(court.rules(), ["I14"]);
}
