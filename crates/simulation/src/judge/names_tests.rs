//! Tests on names and their records: for each rule, a violation and a case that is just allowed.

use super::tests::{Court, IP};
use crate::scene::ZONE;
use flipop_apiserver::Readiness;
use flipop_cloud::{Provider, RecordView};
use serde_json::{Value, json};

fn dns(more: &Value) -> Value {
    let mut set = json!({ "provider": "digitalocean", "zone": ZONE, "recordName": "edge" });
    set.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "dnsRecordSet": set })
}

#[tokio::test(start_paused = true)]
async fn a_name_holds_what_was_asked_for_and_is_emptied_only_when_it_may_be() {
    let record = |data: &str| RecordView::new(&format!("edge.{ZONE}"), "A", data, 60);
    let add = |court: &mut Court, at_ms, record: &RecordView, by_operator| {
        let id = court.cloud.add_record(Provider::DigitalOcean, ZONE, record).unwrap();
        court.hear(at_ms, by_operator);
        id
    };
    for (more, any_node, goes) in [
        (json!({}), false, false),
        (json!({ "whenEmpty": "Delete" }), false, true),
        (json!({ "whenEmpty": "Delete" }), true, false),
    ] {
        let mut court = Court::new(&dns(&more));
        let id = add(&mut court, 20_000, &record("192.0.2.1"), true);
        assert_eq!(court.rules(), [""; 0]);
        let strange = add(&mut court, 20_000, &record("192.0.2.7"), true);
        assert_eq!(court.rules(), ["I4"]);
        court.cloud.delete_record(Provider::DigitalOcean, ZONE, &strange);
        court.hear(20_000, true);
        for node in ["node-1", "node-2"] {
            court.api.set_node_ready(node, Readiness::of(any_node)).unwrap();
        }
        court.cloud.move_ip(IP, None).unwrap();
        court.hear(21_000, false);
        court.cloud.delete_record(Provider::DigitalOcean, ZONE, &id);
        court.hear(22_000, true);
        assert_eq!(court.rules(), if goes { vec![] } else { vec!["I4"] }, "{more} {any_node}");
    }
    let mut court = Court::new(&dns(&json!({})));
    for (name, rtype) in [("edge", "TXT"), ("www", "A")] {
        add(&mut court, 20_000, &RecordView::new(&format!("{name}.{ZONE}"), rtype, "192.0.2.1", 60), true);
        assert!(court.rules().contains(&"I4"), "{name} {rtype}");
    }
    add(&mut court, 20_000, &RecordView::new(&format!("b.{ZONE}"), "A", "192.0.2.5", 60), false);
    add(&mut court, 20_000, &record("192.0.2.1"), true);
    assert_eq!(court.rules(), [""; 0], "others may write what they like");
}
