//! A scrape of a leader that has one of everything, for tests about metrics.

use flipop::kube::trouble::TroubleKind;
use flipop::kube::watch::WatchHealth;
use flipop::metrics::Metrics;
use flipop::provider::CallContext;
use flipop::provider::observe::{Call, CallObserver as _, CallRecord, Outcome};
use flipop_core::addresses::pool::status::IpState;
use flipop_core::fleet::{
    AccountSnapshot, FailoverPhase, IpSnapshot, PoolSnapshot, RecordSetSnapshot, Snapshot,
};
use flipop_core::model::{Address, Condition, ObjectName, Uid};
use std::collections::BTreeMap;
use std::time::Duration;

/// The text of the scrape.
pub(crate) fn scrape() -> String {
    let health = WatchHealth::default();
    health.note_restart("nodes", TroubleKind::Expired);
    let metrics = Metrics::new(health, "0").unwrap();
    metrics.call_ended(CallRecord {
        provider: "digitalocean",
        call: Call::ListIps,
        context: &CallContext::default(),
        outcome: Outcome::Error,
        duration: Duration::from_secs(1),
    });
    metrics.publish(snapshot(), &[1], &[(FailoverPhase::Confirmed, 1)]);
    metrics.checks().observe_detections(&[12_500]);
    String::from_utf8(metrics.encode().unwrap()).unwrap()
}

/// The name and labels of a series, given a scrape's line without its value.
pub(crate) fn parts(series: &str) -> (&str, Vec<(&str, &str)>) {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.strip_suffix("\"}").unwrap_or(labels).split("\",");
    (name, labels.filter_map(|label| label.split_once("=\"")).collect())
}

fn snapshot() -> Snapshot {
    let name = ObjectName::new("team", "web");
    let condition = Condition {
        kind: "Ready".into(),
        status: "True".into(),
        reason: "Assigned".into(),
        message: String::new(),
    };
    let ip = IpSnapshot {
        ip: Address::from([192, 0, 2, 1]),
        state: IpState::Active.as_str().into(),
        node: "a".into(),
        lost: None,
        provider_id: "digitalocean://1".into(),
        assignments: 1,
        error: String::new(),
        errors: 1,
    };
    let provider = "digitalocean".to_owned();
    let pool = PoolSnapshot {
        uid: Uid::default(),
        name: name.clone(),
        provider: provider.clone(),
        dns: String::new(),
        available: 1,
        assigned: 1,
        unfulfilled: 1,
        ips: vec![ip],
        moves: BTreeMap::from([("NotReady", 1)]),
        pending_move: None,
        conditions: vec![condition.clone()],
        unready: Vec::new(),
        suspects: Vec::new(),
        published: Vec::new(),
    };
    let record_set = RecordSetSnapshot {
        uid: Uid::default(),
        name,
        provider: provider.clone(),
        dns: String::new(),
        records: 1,
        addresses: Vec::new(),
        state: String::new(),
        error: String::new(),
        conditions: vec![condition],
        unready: Vec::new(),
    };
    let accounts = vec![AccountSnapshot { provider, rate_remaining: Some(1), out_since_s: None }];
    Snapshot {
        leading: true,
        permit: true,
        pools: vec![pool.into()].into(),
        record_sets: vec![record_set.into()].into(),
        accounts,
        ..Snapshot::default()
    }
}
