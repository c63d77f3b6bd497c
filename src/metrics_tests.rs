//! Conditions in a scrape.

use super::*;
use flipop_core::model::Uid;
use std::collections::BTreeMap;

fn condition(kind: &str, status: &str, reason: &str) -> Condition {
    let [kind, status, reason] = [kind, status, reason].map(str::to_owned);
    Condition { kind, status, reason, message: "never to be shown".to_owned() }
}

fn pool(name: &str, conditions: Vec<Condition>) -> PoolSnapshot {
    PoolSnapshot {
        uid: Uid(name.into()),
        name: ObjectName::new("team", name),
        provider: "digitalocean".to_owned(),
        dns: String::new(),
        available: 0,
        assigned: 0,
        unfulfilled: 0,
        ips: Vec::new(),
        moves: BTreeMap::new(),
        pending_move: None,
        suspects: Vec::new(),
        published: Vec::new(),
        conditions,
        unready: Vec::new(),
    }
}

fn record_set(name: &str, conditions: Vec<Condition>) -> RecordSetSnapshot {
    RecordSetSnapshot {
        uid: Uid(name.into()),
        name: ObjectName::new("team", name),
        provider: "cloudflare".to_owned(),
        dns: String::new(),
        records: 0,
        state: String::new(),
        error: String::new(),
        addresses: Vec::new(),
        conditions,
        unready: Vec::new(),
    }
}

/// The condition series in a scrape.
fn conditions(metrics: &Metrics) -> BTreeMap<String, String> {
    let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("flipop_condition")?.rsplit_once(' '));
    lines.map(|(labels, value)| (labels.to_owned(), value.to_owned())).collect()
}

fn series(kind: &str, name: &str, rest: [&str; 3]) -> (String, String) {
    let [type_, status, reason] = rest;
    let labels = format!(
        r#"{{kind="{kind}",name="{name}",namespace="team",reason="{reason}",status="{status}",type="{type_}"}}"#
    );
    (labels, "1".to_owned())
}

#[test]
fn each_condition_of_an_object_is_a_series_of_the_leader_and_goes_with_it() {
    let metrics = Metrics::new(WatchHealth::default(), "0").unwrap();
    let show = |pools: Vec<PoolSnapshot>, record_sets: Vec<RecordSetSnapshot>, leading: bool| {
        metrics.publish(
            Snapshot {
                leading,
                permit: leading,
                pools: Arc::new(pools.into_iter().map(Into::into).collect()),
                record_sets: Arc::new(record_sets.into_iter().map(Into::into).collect()),
                ..Snapshot::default()
            },
            &[],
            &[],
        );
        conditions(&metrics)
    };
    let ready = condition("Ready", "False", "NoMatchingNode");
    let pools = vec![pool("web", vec![ready.clone(), condition("SpecValid", "True", "Valid")])];
    let sets = vec![record_set("web", vec![condition("Ready", "True", "Published")])];
    let right = [
        series("FloatingIPPool", "web", ["Ready", "False", "NoMatchingNode"]),
        series("FloatingIPPool", "web", ["SpecValid", "True", "Valid"]),
        series("NodeDNSRecordSet", "web", ["Ready", "True", "Published"]),
    ];
    assert_eq!(show(pools.clone(), sets.clone(), true), BTreeMap::from(right));

    let now = series("FloatingIPPool", "web", ["Ready", "True", "Assigned"]);
    let mended = vec![pool("web", vec![condition("Ready", "True", "Assigned")])];
    assert_eq!(show(mended, Vec::new(), true), BTreeMap::from([now]), "nothing of before stays");

    assert_eq!(show(Vec::new(), Vec::new(), true), BTreeMap::new());
    assert_eq!(show(pools, sets, false), BTreeMap::new(), "a standby may be wrong");
}

#[tokio::test(start_paused = true)]
async fn details_are_made_on_demand_and_a_busy_process_shows_old_ones_with_their_age() {
    let metrics = Metrics::new(WatchHealth::default(), "0").unwrap();
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let began = tokio::time::Instant::now();
    let took = || u64::try_from(began.elapsed().as_millis()).unwrap();
    assert_eq!((metrics.describe(&clock).await.details_age_ms, took()), (None, 200), "nobody has made any");
    let making = async {
        metrics.details_asked().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        metrics.publish_details(Details::default(), clock.now());
    };
    let (view, ()) = futures::join!(metrics.describe(&clock), making);
    assert_eq!((view.details_age_ms, took()), (Some(0), 250));
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(
        (metrics.describe(&clock).await.details_age_ms, took()),
        (Some(100), 350),
        "they are new enough"
    );
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!((metrics.describe(&clock).await.details_age_ms, took()), (Some(5_300), 5_550));
}
