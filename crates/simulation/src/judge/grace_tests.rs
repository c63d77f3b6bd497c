//! Tests on grace: for each rule, a violation and a case that is just allowed.

use super::Process;
use super::requests_tests::{REQUEST, ask, last, tell};
use super::tests::{A, Court, IP, POOL, SET, cloud};
use crate::facts::Kind;
use crate::scene::ZONE;
use flipop_apiserver::{Key, PodSpec, Readiness};
use flipop_cloud::{Provider, RecordView};
use serde_json::{Value, json};

const LATER: Process = Process { replica: 0, incarnation: 2 };

/// A pool with this grace. Its address is on node-1, and its leader knows it from the start. node-1 fails at 10 s.
fn court(grace: &Value) -> Court {
    let mut court = Court::new(&json!({ "grace": grace }));
    lead_until(&mut court, 2_000, 10_000);
    fail(&mut court, 10_000, true);
    court
}

/// Renews the lease and reads everything again.
fn lead_until(court: &mut Court, from_ms: u64, to_ms: u64) {
    for at_ms in (from_ms..to_ms).step_by(4_000) {
        court.lead(at_ms, A, &[]);
    }
    court.lead(to_ms, A, &[]);
    court.rules();
}

fn fail(court: &mut Court, now_ms: u64, fails: bool) {
    court.api.set_node_ready("node-1", Readiness::of(!fails)).unwrap();
    court.hear(now_ms, false);
}

fn taint(court: &mut Court, now_ms: u64, key: &str) {
    court.api.set_node_taint("node-1", key, "", Some("NoSchedule")).unwrap();
    court.hear(now_ms, false);
}

/// The leader moves the address to node-2.
fn moves(court: &mut Court, now_ms: u64) -> Vec<&'static str> {
    lead_until(court, now_ms.saturating_sub(40_000).max(14_000), now_ms);
    court.send(now_ms, A, &court.assign(1));
    court.rules()
}

#[tokio::test(start_paused = true)]
async fn an_address_leaves_a_node_that_fails_no_sooner_than_its_grace_is_over() {
    for (at_ms, rules) in [(10_500, vec!["I13"]), (39_900, vec!["I13"]), (40_000, vec![])] {
        let mut court = court(&json!({ "nodeSeconds": 30 }));
        assert_eq!(moves(&mut court, at_ms), rules, "{at_ms}");
    }
    // Without grace, or with grace for pods only, the address may go at once.
    for grace in [json!(null), json!({ "podSeconds": 30 })] {
        assert_eq!(moves(&mut court(&grace), 11_000), [""; 0], "{grace}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_leaves_a_node_that_fails_when_a_user_asks_for_that() {
    for (outcome, rules) in [("Pending", vec![]), ("Refused", vec!["I13"])] {
        let mut court = court(&json!({ "nodeSeconds": 60 }));
        ask(&mut court, 20_000, REQUEST);
        tell(&mut court, 21_000, &last(REQUEST, outcome));
        assert_eq!(moves(&mut court, 30_000), rules, "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_does_not_leave_a_node_that_recovered_in_time() {
    for (recovers_ms, rules) in [(39_000, vec!["I13"]), (40_000, vec![])] {
        let mut court = court(&json!({ "nodeSeconds": 30 }));
        fail(&mut court, recovers_ms, false);
        assert_eq!(moves(&mut court, recovers_ms + 2_000), rules, "{recovers_ms}");
    }
    let mut court = court(&json!({ "nodeSeconds": 30 }));
    fail(&mut court, 30_000, false);
    fail(&mut court, 38_000, true);
    assert_eq!(moves(&mut court, 60_000), ["I13"], "a later failure counts anew");
    assert_eq!(moves(&mut court, 68_000), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_decided_ends_grace_and_what_kubernetes_says_does_not() {
    for (key, rules) in [
        ("node.kubernetes.io/unschedulable", vec![]),
        ("node.kubernetes.io/out-of-service", vec![]),
        ("drain", vec![]),
        ("node.kubernetes.io/not-ready", vec!["I13"]),
        ("node.kubernetes.io/disk-pressure", vec!["I13"]),
    ] {
        let mut court = court(&json!({ "nodeSeconds": 30 }));
        taint(&mut court, 20_000, key);
        assert_eq!(moves(&mut court, 20_100), rules, "{key}");
    }
    let mut court = court(&json!({ "nodeSeconds": 30 }));
    court.patch(POOL, "pool", "", json!({ "spec": { "match": { "nodeLabel": "role!=none" } } }), "user");
    court.hear(20_000, false);
    assert_eq!(moves(&mut court, 20_100), [""; 0], "the criteria were edited");
}

#[tokio::test(start_paused = true)]
async fn a_grace_that_is_edited_counts_from_the_same_start() {
    for (seconds, at_ms, rules) in
        [(60, 45_000, vec!["I13"]), (60, 70_000, vec![]), (12, 21_900, vec!["I13"]), (12, 22_000, vec![])]
    {
        let mut court = court(&json!({ "nodeSeconds": 30 }));
        court.patch(POOL, "pool", "", json!({ "spec": { "grace": { "nodeSeconds": seconds } } }), "user");
        court.hear(20_000, false);
        assert_eq!(moves(&mut court, at_ms), rules, "{seconds} {at_ms}");
    }
    let mut court = court(&json!({ "nodeSeconds": 5 }));
    court.hear(16_000, false);
    court.patch(POOL, "pool", "", json!({ "spec": { "grace": { "nodeSeconds": 60 } } }), "user");
    court.hear(16_000, false);
    assert_eq!(moves(&mut court, 30_000), [""; 0], "a grace that is over stays over");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_node_counts_until_it_matches_again_and_each_class_has_its_own_start() {
    let mut court = Court::new(&json!({
        "match": { "nodeLabel": "role=edge", "podLabel": "app=web" },
        "grace": { "podSeconds": 5, "nodeSeconds": 30 },
    }));
    let pod = Key::new("default", "web-1");
    court
        .api
        .create_pod(&PodSpec {
            namespace: "default".to_owned(),
            name: "web-1".to_owned(),
            labels: [("app".to_owned(), "web".to_owned())].into(),
            node: "node-1".to_owned(),
            ready: true,
            set: String::new(),
        })
        .unwrap();
    court.hear(3_000, false);
    lead_until(&mut court, 3_000, 10_000);
    court.api.set_pod_ready(&pod, false).unwrap();
    court.hear(10_000, false);
    fail(&mut court, 12_000, true);
    fail(&mut court, 20_000, false);
    let node_2 = court.assign(1);
    for (at_ms, rules) in [(41_900, vec!["I13"]), (42_000, vec![])] {
        lead_until(&mut court, 14_000, at_ms);
        court.send(at_ms, A, &node_2);
        let found: Vec<_> = court.rules().into_iter().filter(|rule| *rule == "I13").collect();
        assert_eq!(found, rules, "{at_ms}: the grace of the node covers its pods");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_with_what_the_status_says() {
    let active = |court: &Court| {
        let entry = json!({ "state": "active", "nodeName": "node-1",
            "providerID": format!("digitalocean://{}", court.droplets[0]) });
        json!({ "status": { "ips": { (IP.to_string()): entry } } })
    };
    for (told, at_ms, rules) in [
        (true, 30_000, vec!["I13"]),
        (true, 36_900, vec!["I13"]),
        (true, 37_100, vec![]),
        (false, 30_000, vec![]),
    ] {
        let mut court = court(&json!({ "nodeSeconds": 30 }));
        if told {
            let status = active(&court);
            court.patch(POOL, "pool", "status", status, "flipop");
        }
        court.hear(12_000, true);
        court.rules();
        court.lead(26_000, LATER, &[]);
        court.lead(34_000, LATER, &[]);
        court.send(at_ms, LATER, &court.assign(1));
        let found: Vec<_> = court.rules().into_iter().filter(|rule| *rule == "I13").collect();
        assert_eq!(found, rules, "{told} {at_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_suspects_no_node_that_has_matched_for_long() {
    for (at_ms, wrong) in [(30_000, false), (44_000, false), (46_000, true)] {
        let mut court = court(&json!({ "nodeSeconds": 60 }));
        fail(&mut court, 40_000, false);
        if at_ms < 40_000 {
            fail(&mut court, 40_000, true);
        }
        let entry = json!({ "state": "active", "nodeName": "node-1", "suspectReason": "NotReady",
            "suspectSince": "2026-11-26T15:00:00Z" });
        let status = json!({ "status": { "ips": { (IP.to_string()): entry } } });
        court.patch(POOL, "pool", "status", status, "flipop");
        court.judge.violations.clear();
        court.hear(at_ms.max(40_000), true);
        let told = court.judge.violations.iter().any(|found| found.text.contains("called suspect"));
        assert_eq!(told, wrong, "{at_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_waits_for_grace_and_no_longer() {
    // Long after the start, when work is expected to be prompt.
    let failed_ms = 200_000;
    for (grace, for_ms, late) in [
        (json!({ "nodeSeconds": 30 }), 36_000, false),
        (json!({ "nodeSeconds": 30 }), 44_000, true),
        (json!(null), 8_000, true),
    ] {
        let mut court = Court::new(&json!({ "grace": grace }));
        lead_until(&mut court, 2_000, failed_ms);
        fail(&mut court, failed_ms, true);
        for now_ms in (failed_ms..=failed_ms + for_ms).step_by(1_000) {
            court.judge.look_for_work(now_ms);
        }
        assert_eq!(court.rules().contains(&"I6"), late, "{grace} {for_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_node_that_fails_stays_for_as_long() {
    // A record whose write was never answered is in no status, and gives its node no grace.
    for (seconds, is_told, rules) in [(30, true, vec!["I13"]), (5, true, vec![]), (30, false, vec![])] {
        let mut court = Court::new(&json!({}));
        let set = json!({
            "match": { "nodeLabel": "role=edge" },
            "dnsRecordSet": { "provider": "digitalocean", "zone": ZONE, "recordName": "nodes" },
            "grace": { "nodeSeconds": seconds },
        });
        court.create("NodeDNSRecordSet", "nodes", &set);
        court.hear(2_000, false);
        let ids = ["198.18.0.1", "198.18.0.2"].map(|data| {
            let record = RecordView::new(&format!("nodes.{ZONE}"), "A", data, 60);
            court.cloud.add_record(Provider::DigitalOcean, ZONE, &record).unwrap()
        });
        if is_told {
            let status = json!({ "status": { "addresses": ["198.18.0.1", "198.18.0.2"] } });
            court.patch(SET, "nodes", "status", status, "flipop");
        }
        court.hear(3_000, true);
        lead_until(&mut court, 4_000, 10_000);
        fail(&mut court, 10_000, true);
        lead_until(&mut court, 12_000, 20_000);
        court.send(20_000, A, &cloud("DeleteRecord", Kind::Record));
        court.cloud.delete_record(Provider::DigitalOcean, ZONE, &ids[0]);
        court.hear(20_000, true);
        assert_eq!(court.rules(), rules, "{seconds} s, {is_told}");
    }
}
