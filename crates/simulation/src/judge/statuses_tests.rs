use super::tests::{A, Court, IP, POOL, SET, complaints};
use crate::scene::{REGION, ZONE};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

fn status(generation: i64, spec_valid: (&str, &str), ips: &Value) -> Value {
    let condition = json!({ "type": "SpecValid", "status": spec_valid.0, "reason": spec_valid.1 });
    json!({ "status": { "observedGeneration": generation, "conditions": [condition], "ips": ips } })
}

const GOOD: (&str, &str) = ("True", "Valid");

fn on(droplet: u64) -> Value {
    json!({ "state": "active", "providerID": format!("digitalocean://{droplet}") })
}

/// The rules broken when the operator writes this.
fn blamed(court: &mut Court, name: &str, status: Value) -> Vec<&'static str> {
    court.lead(2_000, A, &[]);
    court.rules();
    court.patch(POOL, name, "status", status, "flipop");
    court.hear(3_000, false);
    court.rules()
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_about_the_newest_spec_says_what_that_one_is() {
    let bad = json!({ "match": { "nodeLabel": "role in (" } });
    for (spec, generation, spec_valid, ips, rules) in [
        (json!({}), 1, GOOD, json!({ IP.to_string(): on(1) }), vec![]),
        (json!({}), 1, GOOD, json!({}), vec![]),
        (json!({}), 1, ("False", "PoolFrozen"), json!({}), vec!["I9"]),
        (json!({}), 1, GOOD, json!({ "192.0.2.9": on(1) }), vec!["I9"]),
        (json!({}), 2, GOOD, json!({}), vec!["I9"]),
        (bad.clone(), 1, GOOD, json!({}), vec!["I9"]),
        (bad.clone(), 1, ("False", "PoolFrozen"), json!({}), vec![]),
        // About the previous spec.
        (bad, 0, GOOD, json!({ "192.0.2.9": on(1) }), vec![]),
        (
            json!({ "ips": [IP, "192.0.2.2"] }),
            1,
            GOOD,
            json!({ IP.to_string(): on(1), "192.0.2.2": on(1) }),
            vec!["I9"],
        ),
    ] {
        let mut court = Court::new(&spec);
        let text = format!("{spec} {generation} {spec_valid:?} {ips}");
        assert_eq!(blamed(&mut court, "pool", status(generation, spec_valid, &ips)), rules, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_two_statuses_put_an_address_in_two_places() {
    let entry = |droplet| json!({ IP.to_string(): on(droplet) });
    for (droplet, generation, rules) in [(1, 1, vec![]), (2, 1, vec!["I9"]), (2, 0, vec![])] {
        let mut court = Court::new(&json!({}));
        let spec = json!({ "provider": "digitalocean", "ips": [IP], "match": { "nodeLabel": "role=edge" } });
        court.create(POOL.1, "other", &spec);
        assert_eq!(blamed(&mut court, "pool", status(1, GOOD, &entry(1))), [""; 0]);
        let told = blamed(&mut court, "other", status(generation, GOOD, &entry(droplet)));
        assert_eq!(told, rules, "{droplet} {generation}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_addresses_are_in_one_place_only_while_one_that_is_not_there_was_told_before() {
    let elsewhere = [
        |court: &Court| assert!(court.cloud.delete_ip(IP)),
        |court: &Court| court.cloud.move_ip(IP, None).unwrap(),
        |court: &Court| court.cloud.move_ip(IP, Some(court.droplets[1])).unwrap(),
        |_: &Court| {},
    ];
    for (nth, go) in elsewhere.iter().enumerate() {
        for (told, allowed) in [(Some(0), true), (Some(1), false), (None, false)] {
            let mut court = Court::new(&json!({ "ips": [IP, "192.0.2.2"] }));
            court.cloud.add_ip(Some(Ipv4Addr::new(192, 0, 2, 2)), REGION);
            let place = on(court.droplets[0]);
            let before = told.map_or(json!({}), |node| json!({ IP.to_string(): on(court.droplets[node]) }));
            assert_eq!(blamed(&mut court, "pool", status(1, GOOD, &before)), [""; 0]);
            go(&court);
            let both = json!({ IP.to_string(): place, "192.0.2.2": place });
            let rules = if allowed && nth < 3 { vec![] } else { vec!["I9"] };
            assert_eq!(blamed(&mut court, "pool", status(1, GOOD, &both)), rules, "{nth} {told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_no_user_can_look_up_is_seen() {
    for (kind, status, reason, rules) in [
        ("Ready", "True", "Assigned", vec![]),
        ("Ready", "True", "Assigning", vec!["I9"]),
        ("Ready", "False", "NoCandidates", vec!["I9"]),
        ("RecordSetReady", "Unknown", "NodesUnread", vec!["I9"]),
        ("RecordSetReady", "False", "InProgress", vec![]),
        ("AddressMissing", "True", "NodeWithoutAddress", vec!["I9"]),
    ] {
        // The generation of the status does not matter.
        for generation in [0, 1] {
            let mut court = Court::new(&json!({}));
            let conditions = json!([
                { "type": "SpecValid", "status": "True", "reason": "Valid" },
                { "type": kind, "status": status, "reason": reason }
            ]);
            let status = json!({ "status": { "observedGeneration": generation, "conditions": conditions } });
            assert_eq!(blamed(&mut court, "pool", status.clone()), rules, "{status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_set_is_not_ready_exactly_while_no_node_matches() {
    for (role, status, reason, wrong) in [
        ("none", "True", "Empty", true),
        ("none", "False", "NoMatchingNode", false),
        ("edge", "False", "NoMatchingNode", true),
    ] {
        let (mut court, label) = (Court::new(&json!({})), format!("role={role}"));
        let place = json!({ "zone": ZONE, "recordName": "n" });
        court.create(SET.1, "nodes", &json!({ "match": { "nodeLabel": label }, "dnsRecordSet": place }));
        let ready = json!([{ "type": "Ready", "status": status, "reason": reason }]);
        court.patch(SET, "nodes", "status", json!({ "status": { "conditions": ready } }), "flipop");
        court.hear(2_000, false);
        let told = complaints(&court);
        assert_eq!(told.iter().any(|text| text.starts_with("nodes: Ready is")), wrong, "{role}: {told:?}");
    }
}
