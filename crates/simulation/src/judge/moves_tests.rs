//! Tests on moves, their preconditions, and rest: for each rule, a violation and a case that is just allowed.

use super::supply;
use super::tests::{A, Court, IP, POOL, cloud, kube};
use crate::facts::Kind;
use crate::scene::REGION;
use flipop_cloud::Provider;
use serde_json::json;
use std::net::Ipv4Addr;

const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// A pool whose only address is on the first of two nodes, and another address that it does not hold yet.
fn court() -> Court {
    let mut court = Court::new(&json!({}));
    court.cloud.add_ip(Some(OTHER), REGION);
    court.lead(20_000, A, &[]);
    court
}

#[tokio::test(start_paused = true)]
async fn an_address_is_taken_off_only_where_it_is_used_no_more_and_in_the_way_of_another() {
    let unassign = cloud("unassign", Kind::Unassign { ip: IP });
    for (spec, rules) in [
        (json!({}), vec!["I1"]),
        (json!({ "ips": [OTHER] }), vec!["I1"]),
        (json!({ "ips": [OTHER], "releasedIPs": [IP] }), vec![]),
        (json!({ "ips": [OTHER, IP], "desiredIPs": 1 }), vec![]),
        (json!({ "ips": [], "releasedIPs": [IP], "desiredIPs": 0 }), vec!["I1"]),
        (json!({ "ips": [OTHER], "releasedIPs": [IP], "match": { "nodeLabel": "role=none" } }), vec!["I1"]),
    ] {
        let mut court = court();
        court.patch(POOL, "pool", "", json!({ "spec": spec }), "user");
        court.hear(21_000, false);
        court.lead(40_000, A, &[]);
        court.rules();
        court.send(41_000, A, &unassign);
        assert_eq!(court.rules(), rules, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_moves_before_the_token_is_known_to_see_droplets() {
    let droplets = cloud("ListDroplets", Kind::Read);
    for (scope, stands, status, rules) in [
        ("droplet:read", true, None, vec![]),
        ("droplet:read", false, None, vec!["I7"]),
        ("domain:read", true, None, vec!["I7"]),
        ("droplet:read", false, Some(200), vec![]),
        ("domain:read", true, Some(403), vec!["I7"]),
    ] {
        let mut court = Court::new(&json!({}));
        court.cloud.add_token(Provider::DigitalOcean, "ours", "secret-one", &[scope]);
        court.cloud.move_ip(IP, stands.then(|| court.droplets[1])).unwrap();
        court.lead(20_000, A, &[]);
        if status.is_some() {
            court.call((20_000, 20_000), A, &droplets, status);
        }
        court.send(21_000, A, &cloud("create an address", Kind::CreateIp));
        assert_eq!(court.rules(), rules, "{scope} {stands} {status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_or_is_refused_is_no_rest() {
    for facts in [
        kube("PUT floatingippools pool status", Kind::Write { resource: "floatingippools".to_owned() }),
        kube("POST events", Kind::Event),
        cloud("CreateRecord x", Kind::Record),
    ] {
        let mut court = court();
        court.call((30_000, 30_001), A, &facts, Some(422));
        assert_eq!(court.judge.last_write_ms, 30_000, "{}", facts.what);
        court.call((31_000, 31_001), A, &cloud("addresses", Kind::ListIps), Some(200));
        assert_eq!(court.judge.last_write_ms, 30_000, "a read is no write");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_held_up_by_what_is_under_way_on_its_own_nodes_only() {
    let waits = |court: &Court| {
        let ips = super::settled::views(&court.cloud);
        supply::waits(&court.judge.truth, &ips, |_| false).len()
    };
    for (label, cool_off_s, late) in [("role=other", 20, 1), ("role=edge", 20, 0), ("role=edge", 0, 1)] {
        let mut court = Court::new(&json!({}));
        court.cloud.move_ip(IP, None).unwrap();
        assert_eq!(waits(&court), 1);
        let spec = json!({
            "provider": "digitalocean", "ips": ["192.0.2.77"], "assignmentCoolOffSeconds": cool_off_s,
            "match": { "nodeLabel": label },
        });
        court.create(POOL.1, "second", &spec);
        court.hear(2_000, false);
        assert_eq!(waits(&court), late, "{label} {cool_off_s}");
        court.cloud.lock_ip(IP, 60_000);
        assert_eq!(waits(&court), 0, "it is under way");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_annotated_only_by_a_process_that_has_listed_nodes() {
    let annotate = kube("PATCH nodes node-1", Kind::Write { resource: "nodes".to_owned() });
    let mut court = Court::new(&json!({}));
    court.lead(20_000, A, &["nodes"]);
    court.send(21_000, A, &annotate);
    assert_eq!(court.rules(), ["I7"]);
    court.lead(40_000, A, &[]);
    court.send(41_000, A, &annotate);
    assert_eq!(court.rules(), [""; 0]);
    court.lead(60_000, A, &["nodes"]);
    court.send(61_000, A, &annotate);
    assert_eq!(court.rules(), ["I7"], "lists of the former term do not count");
}
