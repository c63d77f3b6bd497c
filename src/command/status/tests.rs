//! Reports of small clusters, as people see them.

use super::leading::Leading;
use super::model::Report;
use super::{Facts, make, table};
use crate::api::FloatingIPPool;
use crate::command::copy::{Lists, Objects};
use crate::command::leader::{Leader, LeaderReport};
use crate::command::output::Output;
use crate::config::cli_args::Format;
use crate::kube::objects::NodeSlim;
use flipop_core::model::{NodeFacts, WatchKey};
use serde_json::{Value, json};

const PLAIN: Output = Output { format: Format::Table, coloured: false, width: None };

fn node(number: usize, ready: &str) -> NodeFacts {
    let node: NodeSlim = serde_json::from_value(json!({
        "metadata": {"name": format!("edge-{number}"), "uid": format!("uid-{number}")},
        "spec": {"providerID": format!("digitalocean://{number}")},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }))
    .unwrap();
    node.into_facts()
}

/// A pool whose only address has this entry in the status. `more` changes the pool.
fn pool(entry: &Value, more: impl FnOnce(&mut Value)) -> FloatingIPPool {
    let mut pool = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "uid-web", "generation": 1},
        "spec": {"provider": "digitalocean", "ips": ["192.0.2.1"], "match": {}},
        "status": {"ips": {"192.0.2.1": entry}, "observedGeneration": 1, "usedIPs": 1, "assignableNodes": ["edge-2"]},
    });
    more(&mut pool);
    serde_json::from_value(pool).unwrap()
}

/// The answer of a leader that knows this of the address.
fn reported(ip: &Value) -> LeaderReport {
    let mut known = json!({"ip": "192.0.2.1"});
    for (field, value) in ip.as_object().unwrap() {
        known[field] = value.clone();
    }
    let line = json!([{"node": "edge-2", "waitsFor": "no address of the pool is free"}]);
    let debug = json!({
        "leading": true, "detailsAgeMs": 0, "unknownToThisVersion": [1],
        "pools": [{"namespace": "ns", "name": "web", "ips": [known], "nodesWithoutIP": line}],
    });
    let leader = Leader { holder: "a_1".into(), pod: "a".into(), ..Leader::default() };
    LeaderReport {
        leader: Some(leader),
        debug: Some(serde_json::from_value(debug).unwrap()),
        notes: Vec::new(),
    }
}

/// Nobody could be asked.
fn unreported() -> LeaderReport {
    LeaderReport { leader: None, debug: None, notes: vec!["the leader is unknown".into()] }
}

/// On edge-1, which is not Ready, and edge-2, which is.
fn report(pool: FloatingIPPool, reported: LeaderReport) -> Report {
    let nodes = vec![node(1, "False"), node(2, "True")];
    let mut lists = Lists::default();
    lists.nodes.insert(WatchKey::Nodes { selector: String::new() }, nodes);
    let objects = Objects { pools: vec![Ok(pool)], ..Objects::default() };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    make(&Facts::new(&objects, Leading::new(reported), now).with(&lists), &[])
}

fn address(report: &Report) -> Value {
    serde_json::to_value(report).unwrap()["pools"][0]["addresses"][0].clone()
}

#[test]
fn a_move_that_is_not_finished_shows_where_the_address_was_last_seen() {
    let entry = json!({"state": "in-progress", "nodeName": "edge-2", "providerID": "digitalocean://2", "error": "503"});
    let next = "outcome unknown (503), read again at 10:49:42 UTC";
    let known =
        json!({"state": "in-progress", "providerID": "digitalocean://1", "target": "edge-2", "next": next});
    let shown = report(pool(&entry, |_| {}), reported(&known));
    let of = address(&shown);
    assert_eq!((&of["node"], &of["target"]), (&json!("edge-1"), &json!("edge-2")), "{of:#}");
    assert_eq!(
        (&of["error"], &of["next"], &of["health"]),
        (&json!("503"), &json!(next), &json!("is not Ready"))
    );
    let text = table::text(&shown, PLAIN);
    assert!(text.contains("edge-1 → edge-2") && text.contains(next), "{text}");
    // Without the leader nobody knows where it is, but no progress is claimed.
    let of = address(&report(pool(&entry, |_| {}), unreported()));
    assert_eq!(
        (&of["node"], &of["next"]),
        (&json!(""), &json!("outcome unknown (503), read again until it is known"))
    );
    // A leader that knows of a later state adds nothing to an earlier one.
    let later =
        report(pool(&entry, |_| {}), reported(&json!({"state": "active", "node": "edge-2", "next": "x"})));
    assert_eq!(address(&later)["next"], json!("outcome unknown (503), read again until it is known"));
}

#[test]
fn nothing_is_good_or_promised_while_nobody_leads_and_an_unknown_leader_is_no_absent_one() {
    let entry = json!({"state": "active", "nodeName": "edge-2", "providerID": "digitalocean://2"});
    let ready = |pool: &mut Value| {
        pool["status"]["conditions"] =
            json!([{"type": "Ready", "status": "True", "reason": "Assigned", "message": "1 of 1"}]);
    };
    let vacant = Leader { vacant_since: Some("2026-01-01T00:00:07Z".into()), ..Leader::default() };
    let shown =
        report(pool(&entry, ready), LeaderReport { leader: Some(vacant), debug: None, notes: Vec::new() });
    assert_eq!(serde_json::to_value(&shown).unwrap()["stale"], json!(true));
    assert_eq!(address(&shown)["next"], json!("nothing: no replica leads"));
    let text = table::text(&shown, PLAIN);
    assert!(
        text.starts_with("x No replica leads since 2026-01-01T00:00:07Z: FLIPOP changes nothing"),
        "{text}"
    );
    assert!(text.contains("! Ready=True Assigned, 1 of 1 addresses active (stale)"), "{text}");
    assert!(text.contains("active (stale)") && !text.contains("ok "), "{text}");
    for reported in [unreported(), reported(&json!({"state": "active"}))] {
        let shown = report(pool(&entry, ready), reported);
        assert_eq!(serde_json::to_value(&shown).unwrap()["stale"], json!(false));
        let text = table::text(&shown, PLAIN);
        assert!(text.contains("ok Ready=True") && !text.contains("stale"), "{text}");
    }
}

#[test]
fn an_address_waits_for_a_token_that_works() {
    let refused = |pool: &mut Value| {
        pool["status"]["conditions"] =
            json!([{"type": "ProviderReady", "status": "False", "reason": "Unauthorized", "message": "401"}]);
    };
    for (entry, next) in [
        (
            json!({"state": "no-match", "providerID": "digitalocean://1"}),
            "moves to edge-2 when the token works",
        ),
        (
            json!({"state": "in-progress", "nodeName": "edge-2", "error": "503"}),
            "outcome unknown (503), read again when the token works",
        ),
    ] {
        assert_eq!(address(&report(pool(&entry, refused), unreported()))["next"], json!(next));
    }
}

#[test]
fn a_pause_and_a_move_by_hand_that_waits_have_a_line_each_with_their_start() {
    let entry = json!({"state": "active", "nodeName": "edge-2", "providerID": "digitalocean://2"});
    let shown = |reported: LeaderReport, message: &str| {
        let asks = |pool: &mut Value| {
            pool["metadata"]["annotations"] = json!({
                "flipop.digitalocean.com/paused": "incident 7",
                "flipop.digitalocean.com/move": "192.0.2.1=edge-1#7",
            });
            pool["status"]["conditions"] = json!([{
                "type": "Paused", "status": "True", "reason": "Annotation", "message": "paused",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
            if !message.is_empty() {
                pool["status"]["lastMove"] = json!({
                    "request": "192.0.2.1=edge-1#7", "ip": "192.0.2.1", "from": "edge-2", "to": "edge-1",
                    "outcome": "Pending", "time": "2026-01-01T00:00:05Z", "message": message,
                });
            }
        };
        table::text(&report(pool(&entry, asks), reported), PLAIN)
    };
    let text = shown(unreported(), "the cool-off, until 00:01:00 UTC");
    assert!(text.contains("! Paused since 2026-01-01T00:00:00Z: incident 7\n"), "{text}");
    let line = "! The move 192.0.2.1=edge-1 from edge-2 is pending since 2026-01-01T00:00:05Z: the cool-off, until 00:01:00 UTC\n";
    assert!(text.contains(line), "{text}");
    assert!(shown(unreported(), "").contains("is pending: the leader has not read the request yet\n"));
    let vacant = Leader { vacant_since: Some("then".into()), ..Leader::default() };
    let text = shown(LeaderReport { leader: Some(vacant), debug: None, notes: Vec::new() }, "");
    assert!(text.contains("! The move 192.0.2.1=edge-1 is pending: no replica leads\n"), "{text}");
}

#[test]
fn a_condition_is_a_warning_while_its_status_reports_trouble() {
    let shown = |kind: &str, status: &str| {
        let condition = json!({"type": kind, "status": status, "reason": "Reason", "message": "because"});
        let reported = |pool: &mut Value| pool["status"]["conditions"] = json!([condition]);
        table::text(&report(pool(&json!({"state": "active"}), reported), unreported()), PLAIN)
            .contains("because")
    };
    for kind in ["SpecValid", "ProviderReady", "FirewallReady", "RecordSetReady"] {
        assert_eq!((shown(kind, "True"), shown(kind, "False")), (false, true), "{kind}");
    }
    assert_eq!((shown("Stalled", "True"), shown("Stalled", "False")), (true, false));
}

#[test]
fn objects_with_the_same_criteria_are_matched_once() {
    let entry = json!({"state": "unassigned"});
    let pools = vec![Ok(pool(&entry, |_| {})); 1_000];
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let facts = Facts::new(&Objects { pools, ..Objects::default() }, Leading::default(), now);
    let facts = facts.with(&Lists::default());
    assert_eq!((facts.pools.len(), facts.matched.len()), (1_000, 1));
}
