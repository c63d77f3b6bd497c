//! Tests on requested moves: for each rule, a violation and a case that is just allowed.

use super::requests::unanswered;
use super::tests::{A, Court, IP, POOL};
use serde_json::{Value, json};

pub(super) const REQUEST: &str = "192.0.2.1=node-2#1";

pub(super) fn ask(court: &mut Court, now_ms: u64, request: &str) {
    let annotations = json!({ "flipop.digitalocean.com/move": request });
    court.patch(POOL, "pool", "", json!({ "metadata": { "annotations": annotations } }), "user");
    court.hear(now_ms, false);
}

pub(super) fn tell(court: &mut Court, now_ms: u64, last: &Value) {
    court.patch(POOL, "pool", "status", json!({ "status": { "lastMove": last } }), "flipop");
    court.hear(now_ms, true);
}

pub(super) fn last(request: &str, outcome: &str) -> Value {
    json!({ "request": request, "ip": IP, "from": "node-1", "to": "node-2", "outcome": outcome })
}

#[tokio::test(start_paused = true)]
async fn an_address_leaves_a_node_that_matches_only_if_the_status_says_that_this_is_asked_for() {
    for (request, told, rules) in [
        (REQUEST, Some(last(REQUEST, "Pending")), vec![]),
        (REQUEST, None, vec!["I1"]),
        (REQUEST, Some(last(REQUEST, "Refused")), vec!["I1"]),
        (REQUEST, Some(last("192.0.2.1=node-2#2", "Pending")), vec!["I15"]),
        ("", Some(last(REQUEST, "Pending")), vec!["I15"]),
    ] {
        let mut court = Court::new(&json!({}));
        court.lead(20_000, A, &[]);
        ask(&mut court, 21_000, request);
        if let Some(told) = &told {
            tell(&mut court, 22_000, told);
        }
        court.rules();
        let assign = court.assign(1);
        court.send(23_000, A, &assign);
        assert_eq!(court.rules(), rules, "{request} {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_carried_out_once_and_by_nobody_who_came_later() {
    let mut court = Court::new(&json!({}));
    court.lead(20_000, A, &[]);
    ask(&mut court, 21_000, REQUEST);
    tell(&mut court, 22_000, &last(REQUEST, "Pending"));
    court.rules();
    let assign = court.assign(1);
    for (at_ms, effect, rules) in
        [(23_000, false, vec![]), (24_000, true, vec![]), (25_000, true, vec!["I15"])]
    {
        court.send(at_ms, A, &assign);
        if effect {
            court.judge.took_effect(at_ms, &assign);
        }
        assert_eq!(court.rules(), rules, "{at_ms}");
    }
    let mut court = Court::new(&json!({}));
    ask(&mut court, 2_000, REQUEST);
    tell(&mut court, 3_000, &last(REQUEST, "Pending"));
    court.lead(20_000, A, &[]);
    court.rules();
    court.send(23_000, A, &assign);
    assert_eq!(court.rules(), ["I15"]);
}

#[tokio::test(start_paused = true)]
async fn in_the_end_each_request_has_an_answer() {
    for (request, told, open) in [
        ("", None, false),
        (REQUEST, None, true),
        (REQUEST, Some(last(REQUEST, "Pending")), true),
        (REQUEST, Some(last("192.0.2.1=node-2#2", "Done")), true),
        (REQUEST, Some(last(REQUEST, "Ignored")), false),
    ] {
        let mut court = Court::new(&json!({}));
        ask(&mut court, 2_000, request);
        if let Some(told) = &told {
            tell(&mut court, 3_000, told);
        }
        let pool = court.judge.truth.pools.values().next().unwrap();
        assert_eq!(unanswered(pool).is_some(), open, "{request} {told:?}");
    }
}
