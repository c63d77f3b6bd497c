//! Tests of the judge's rule that labels leave a node before the address does.

use super::tests::{A, Court, IP, kube};
use super::untouched::LABELS;
use crate::facts::{Facts, Kind};
use flipop_apiserver::Readiness;
use serde_json::{Value, json};

/// The request that removes our labels from a node.
fn removal(node: &str) -> Facts {
    let [active, ip, ..] = LABELS;
    let scope = format!(r#"{{"metadata":{{"labels":{{"{active}":null,"{ip}":null}}}}}}"#);
    Facts { scope, ..kube(&format!("PATCH nodes {node}"), Kind::Write { resource: "nodes".to_owned() }) }
}

/// The first node has the address and its labels, and is drained.
fn court(spec: &Value) -> Court {
    let mut court = Court::new(spec);
    let [_, ip, ..] = LABELS;
    court.api.set_node_label("node-1", ip, Some(&IP.to_string())).unwrap();
    court.hear(2_000, false);
    court.api.set_node_taint("node-1", "drain", "", Some("NoExecute")).unwrap();
    court.hear(20_000, false);
    court.lead(29_000, A, &[]);
    court.rules();
    court
}

fn enabled() -> Value {
    json!({ "nodeLabels": { "enabled": true } })
}

#[tokio::test(start_paused = true)]
async fn an_address_moves_only_after_its_labels_were_asked_to_go_and_there_was_time_to_answer() {
    for (sent_ms, answered, rules) in [
        (None, false, vec!["I1"]),
        (Some(29_600), false, vec!["I1"]),
        (Some(29_500), false, vec![]),
        (Some(29_900), true, vec![]),
    ] {
        let mut court = court(&enabled());
        if let Some(sent_ms) = sent_ms {
            let seq = court.send(sent_ms, A, &removal("node-1"));
            if answered {
                let ending = super::Ending { status: Some(500), retry_after_s: None };
                court.judge.ended(29_950, seq, Some(ending));
            }
        }
        court.send(30_000, A, &court.assign(1));
        assert_eq!(court.rules(), rules, "{sent_ms:?} {answered}");
    }
    let mut court = court(&enabled());
    court.send(29_100, A, &removal("node-2"));
    court.send(30_000, A, &court.assign(1));
    assert_eq!(court.rules(), ["I1"], "another node was asked");
}

#[tokio::test(start_paused = true)]
async fn a_move_waits_for_no_labels_of_a_node_that_fails_and_for_none_where_nobody_asks_for_labels() {
    let mut unasked = court(&json!({}));
    unasked.send(30_000, A, &unasked.assign(1));
    assert_eq!(unasked.rules(), [""; 0]);
    let mut failed = court(&enabled());
    failed.api.set_node_ready("node-1", Readiness::of(false)).unwrap();
    failed.hear(29_500, false);
    failed.send(30_000, A, &failed.assign(1));
    assert_eq!(failed.rules(), [""; 0]);
    let mut late = Court::new(&enabled());
    late.api.set_node_taint("node-1", "drain", "", Some("NoExecute")).unwrap();
    late.hear(20_000, false);
    let [_, ip, ..] = LABELS;
    late.api.set_node_label("node-1", ip, Some(&IP.to_string())).unwrap();
    late.hear(28_000, false);
    late.lead(29_000, A, &[]);
    late.rules();
    late.send(30_000, A, &late.assign(1));
    assert_eq!(late.rules(), [""; 0], "a process that has not seen the labels need not wait");
}
