//! Tests on purchases: which pools have to name them, and until when.

use super::settled;
use super::tests::{Court, IP, POOL};
use crate::scene::{REGION, USER_NAMESPACE};
use flipop_apiserver::Key;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

const BOUGHT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 40);
const SECOND: &str = "second";

/// Two pools that buy, and have bought nothing yet.
fn court() -> Court {
    let mut court = Court::new(&json!({ "desiredIPs": 3 }));
    court.create(POOL.1, SECOND, &json!({ "provider": "digitalocean", "region": REGION, "desiredIPs": 3 }));
    court.hear(2_000, false);
    court
}

fn buy(court: &mut Court, ip: Ipv4Addr, now_ms: u64) {
    court.cloud.add_ip(Some(ip), REGION);
    court.hear(now_ms, true);
}

fn tell(court: &mut Court, pool: &str, status: &Value) {
    court.patch(POOL, pool, "status", json!({ "status": status }), "flipop");
    court.hear(3_000, true);
}

fn delete(court: &mut Court, pool: &str, now_ms: u64) {
    court.api.delete_object(POOL.0, POOL.1, &Key::new(USER_NAMESPACE, pool), true).unwrap();
    court.hear(now_ms, false);
}

fn unnamed(court: &Court) -> Vec<String> {
    let mut all = Vec::new();
    settled::check_created(&court.judge, &settled::views(&court.cloud), &mut all);
    all
}

#[tokio::test(start_paused = true)]
async fn what_was_bought_is_named_somewhere_and_a_longer_address_is_another() {
    for (status, named) in [
        (json!({ "createdIPs": [{ "ip": BOUGHT }] }), true),
        (json!({ "ips": { "192.0.2.40": {} } }), true),
        (json!({ "error": "put one of 192.0.2.39, 192.0.2.40 into spec.ips" }), true),
        (json!({ "error": "which of them is it: 192.0.2.40." }), true),
        (json!({ "createdIPs": [{ "ip": "192.0.2.4" }, { "ip": "192.0.2.140" }] }), false),
        (json!({ "error": "192.0.2.40.1 is no address" }), false),
    ] {
        let mut court = court();
        buy(&mut court, BOUGHT, 2_500);
        assert_eq!(unnamed(&court), [format!("{BOUGHT} was bought and nobody names it")]);
        tell(&mut court, SECOND, &status);
        assert_eq!(unnamed(&court).is_empty(), named, "{status}");
    }
    assert_eq!(unnamed(&Court::new(&json!({}))), [""; 0], "{IP} was there before");
}

#[tokio::test(start_paused = true)]
async fn only_what_was_bought_for_a_pool_that_was_deleted_needs_no_name() {
    let forget = json!({ "createdIPs": null });
    let mut court = court();
    buy(&mut court, BOUGHT, 2_500);
    tell(&mut court, SECOND, &json!({ "createdIPs": [{ "ip": BOUGHT }] }));
    delete(&mut court, "pool", 4_000);
    tell(&mut court, SECOND, &forget);
    assert_eq!(unnamed(&court).len(), 1, "it was bought for the pool that stays");
    tell(&mut court, SECOND, &json!({ "createdIPs": [{ "ip": BOUGHT }] }));
    delete(&mut court, SECOND, 5_000);
    assert_eq!(unnamed(&court), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_sent_before_its_pool_was_deleted_may_buy_and_no_later_one() {
    let late = Ipv4Addr::new(192, 0, 2, 41);
    let mut court = court();
    delete(&mut court, SECOND, 100_000);
    let since = court.judge.blindness.since(200_000);
    let forgiven_ms = 100_000 + (200_000 - since) + super::PERMIT_MS;
    buy(&mut court, BOUGHT, forgiven_ms);
    assert_eq!(unnamed(&court), [""; 0]);
    buy(&mut court, late, forgiven_ms + 1);
    assert_eq!(unnamed(&court), [format!("{late} was bought and nobody names it")]);
}
