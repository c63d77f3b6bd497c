//! Tests of the judge itself: for each rule, a violation and a case that is just allowed.

use super::blindness::Blindness;
use super::calm::Calm;
use super::conditions::Scene;
use super::settled::{self, Next, Settling};
use super::{Ending, Judge, Process, dns};
use crate::facts::{Facts, Hold, Kind};
use crate::plan::{Plan, REST_MS, Side};
use crate::scene::{API_VERSION, CLOUDFLARE_ZONE, REGION, USER_NAMESPACE, ZONE};
use crate::{furnish, workloads};
use flipop_apiserver::{ApiServer, Changes, Key, Readiness};
use flipop_cloud::{Cloud, Options, Provider, RecordView};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use tokio::sync::broadcast;

pub(super) const IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const POOL: (&str, &str) = (API_VERSION, "FloatingIPPool");
pub(super) const SET: (&str, &str) = (API_VERSION, "NodeDNSRecordSet");
pub(super) const A: Process = Process { replica: 0, incarnation: 1 };
const B: Process = Process { replica: 1, incarnation: 1 };

/// A world without an operator, and a judge that is told of an operator's acts.
pub(super) struct Court {
    pub(super) judge: Judge,
    pub(super) api: ApiServer,
    changes: Changes,
    pub(super) cloud: Cloud,
    cloud_changes: broadcast::Receiver<flipop_cloud::Change>,
    pub(super) droplets: Vec<u64>,
    seq: u64,
}

fn quiet() -> Plan {
    workloads::all().into_iter().next().unwrap()
}

impl Court {
    /// Two nodes of role edge. The first one holds the pool's only address.
    pub(super) fn new(spec: &Value) -> Self {
        let cloud = Cloud::new(Options { seed: 1, epoch_ms: Some(0) });
        dns::furnish(&cloud);
        cloud.add_token(Provider::DigitalOcean, "ours", "secret-one", &["*"]);
        let api = ApiServer::simulated(1, jiff::Timestamp::UNIX_EPOCH);
        furnish::install(&api).unwrap();
        let judge = Judge::new(cloud.clone(), ["secret-one", "secret-two"], Blindness::of(&quiet()));
        let (changes, cloud_changes) = (api.subscribe(), cloud.changes());
        let mut court = Self { judge, api, changes, cloud, cloud_changes, droplets: Vec::new(), seq: 0 };
        for number in 1..=2 {
            let name = format!("node-{number}");
            let droplet = court.cloud.add_droplet(&name, REGION);
            court.droplets.push(droplet);
            let labels = [("role".to_owned(), "edge".to_owned())].into();
            furnish::add_node(&court.api, &name, droplet, labels, number).unwrap();
        }
        court.cloud.add_ip(Some(IP), REGION);
        court.cloud.move_ip(IP, Some(court.droplets[0])).unwrap();
        let mut all = json!({ "provider": "digitalocean", "region": REGION, "ips": [IP], "match": { "nodeLabel": "role=edge" } });
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        court.create(POOL.1, "pool", &all);
        court.hear(1_000, false);
        court
    }

    pub(super) fn create(&self, kind: &str, name: &str, spec: &Value) {
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        self.api.create_object(API_VERSION, kind, USER_NAMESPACE, object, "user").unwrap();
    }

    pub(super) fn patch(
        &self,
        kind: (&str, &str),
        name: &str,
        subresource: &str,
        patch: Value,
        manager: &str,
    ) {
        self.api.patch_object(kind, &Key::new(USER_NAMESPACE, name), subresource, patch, manager).unwrap();
    }

    pub(super) fn hear(&mut self, now_ms: u64, by_operator: bool) {
        for change in self.changes.drain() {
            self.judge.changed(now_ms, &change);
        }
        while let Ok(change) = self.cloud_changes.try_recv() {
            self.judge.cloud_changed(now_ms, &change, by_operator);
        }
    }

    pub(super) fn send(&mut self, now_ms: u64, process: Process, facts: &Facts) -> u64 {
        self.seq += 1;
        self.judge.sent(now_ms, self.seq, process, facts, b"");
        self.seq
    }

    pub(super) fn call(
        &mut self,
        (sent_ms, ended_ms): (u64, u64),
        process: Process,
        facts: &Facts,
        status: Option<u16>,
    ) {
        let seq = self.send(sent_ms, process, facts);
        self.judge.ended(ended_ms, seq, Some(Ending { status, retry_after_s: Some(7) }));
    }

    /// A process takes the lease and reads everything except these.
    pub(super) fn lead(&mut self, now_ms: u64, process: Process, but: &[&str]) {
        let lease = kube("PUT leases x", Kind::Lease { write: Some(Hold::Taken) });
        self.call((now_ms, now_ms), process, &lease, Some(200));
        for resource in ["floatingippools", "nodednsrecordsets", "nodes"] {
            if !but.contains(&resource) {
                self.call((now_ms, now_ms), process, &page(resource, 500, false), Some(200));
            }
        }
        for (name, kind) in [("addresses", Kind::ListIps), ("records", Kind::ReadRecords)] {
            if !but.contains(&name) {
                self.call((now_ms, now_ms), process, &cloud(name, kind), Some(200));
            }
        }
    }

    pub(super) fn rules(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.judge.violations).into_iter().map(|found| found.rule).collect()
    }

    pub(super) fn assign(&self, node: usize) -> Facts {
        let droplet = self.droplets[node];
        cloud(&format!("assign {IP} to {droplet}"), Kind::Assign { ip: IP, droplet })
    }
}

pub(super) fn kube(what: &str, kind: Kind) -> Facts {
    Facts { side: Side::Kube, account: None, what: what.to_owned(), scope: String::new(), kind }
}

pub(super) fn cloud(what: &str, kind: Kind) -> Facts {
    let account = Some(Provider::DigitalOcean);
    Facts { side: Side::Cloud, account, what: what.to_owned(), scope: String::new(), kind }
}

fn page(resource: &str, limit: u64, goes_on: bool) -> Facts {
    let kind = Kind::List { resource: resource.to_owned(), limit, goes_on, selector: String::new() };
    kube(&format!("LIST {resource}"), kind)
}

#[tokio::test(start_paused = true)]
async fn a_write_needs_three_seconds_of_permit_and_nobody_else_at_work() {
    for (at_ms, rules) in [(9_000, vec![]), (9_010, vec!["I2"])] {
        let mut court = Court::new(&json!({}));
        court.lead(2_000, A, &[]);
        court.cloud.move_ip(IP, None).unwrap();
        court.send(at_ms, A, &court.assign(0));
        assert_eq!(court.rules(), rules, "{at_ms}");
    }
    let mut court = Court::new(&json!({}));
    court.lead(2_000, A, &[]);
    court.lead(2_000, B, &[]);
    let write =
        kube("PUT floatingippools pool status", Kind::Write { resource: "floatingippools".to_owned() });
    let first = court.send(3_000, A, &write);
    court.send(3_001, B, &write);
    assert_eq!(court.rules(), ["I2"]);
    court.judge.ended(12_100, first, None);
    assert_eq!(court.rules(), ["I2"], "it waited longer than its permit");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_before_what_it_rests_on_is_read() {
    let record = || cloud("CreateRecord x", Kind::Record);
    for (but, assigned, recorded) in [
        (vec![], vec![], vec![]),
        (vec!["nodes"], vec!["I7"], vec!["I7"]),
        (vec!["floatingippools"], vec!["I7"], vec!["I7"]),
        (vec!["addresses"], vec!["I7"], vec![]),
        (vec!["records"], vec![], vec!["I7"]),
    ] {
        let mut court = Court::new(&json!({}));
        court.lead(2_000, A, &but);
        court.cloud.move_ip(IP, None).unwrap();
        court.send(3_000, A, &court.assign(0));
        assert_eq!(court.rules(), assigned, "{but:?}");
        court.send(3_000, A, &record());
        assert_eq!(court.rules(), recorded, "{but:?}");
    }
    let mut court = Court::new(&json!({ "match": { "nodeLabel": "role=edge", "podLabel": "app=web" } }));
    court.lead(2_000, A, &[]);
    court.send(3_000, A, &record());
    assert_eq!(court.rules(), ["I7"], "the pool asks for pods, which were not read");
    let mut court = Court::new(&json!({}));
    court.lead(2_000, A, &["nodes"]);
    for (goes_on, rules) in [(false, vec!["I7"]), (true, vec![])] {
        court.call((2_500, 2_500), A, &page("nodes", 1, goes_on), Some(200));
        court.send(3_000, A, &record());
        assert_eq!(court.rules(), rules, "there are two nodes, one a page");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_goes_to_nodes_that_match_and_off_no_other() {
    let mut court = Court::new(&json!({}));
    court.lead(20_000, A, &[]);
    court.send(21_000, A, &court.assign(1));
    assert_eq!(court.rules(), ["I1"], "it stands on a node that matches");
    court.api.set_node_ready("node-1", Readiness::of(false)).unwrap();
    court.hear(22_000, false);
    court.send(22_000, A, &court.assign(1));
    assert_eq!(court.rules(), [""; 0]);
    court.send(28_000, A, &court.assign(0));
    assert!(court.rules().contains(&"I1"), "node-1 no longer matches");
    let stranger =
        cloud("assign", Kind::Assign { ip: Ipv4Addr::new(192, 0, 2, 9), droplet: court.droplets[1] });
    court.lead(30_000, A, &[]);
    court.rules();
    court.send(30_000, A, &stranger);
    assert_eq!(court.rules(), ["I1"]);
    court.patch(POOL, "pool", "", json!({ "spec": { "provider": "aws" } }), "user");
    court.hear(31_000, false);
    court.lead(37_000, A, &[]);
    court.rules();
    court.send(37_000, A, &court.assign(1));
    assert_eq!(court.rules(), ["I1"], "the pool is frozen");
}

#[tokio::test(start_paused = true)]
async fn retries_keep_to_their_schedule_and_to_what_they_were_told() {
    for (status, after_ms, rules) in [
        (Some(500), 990, vec!["I8"]),
        (Some(500), 1_000, vec![]),
        (None, 500, vec!["I8"]),
        (Some(429), 6_900, vec!["I8"]),
        (Some(429), 7_000, vec![]),
    ] {
        let mut court = Court::new(&json!({}));
        court.lead(2_000, A, &[]);
        for write in [
            kube("PUT floatingippools pool status", Kind::Write { resource: "floatingippools".to_owned() }),
            cloud("CreateRecord x", Kind::Record),
        ] {
            court.call((2_000, 2_000), A, &write, status);
            court.lead(2_000 + after_ms, A, &["addresses", "records"]);
            court.send(2_000 + after_ms, A, &write);
            assert_eq!(court.rules(), rules, "{} after {status:?} and {after_ms} ms", write.what);
        }
    }
    let mut court = Court::new(&json!({}));
    for number in 0..8 {
        court.call((3_000 + number, 3_000 + number), A, &page("nodes", 500, false), Some(503));
    }
    assert_eq!(court.rules(), ["I8", "I8"]);
    for number in 0..8 {
        let at_ms = 10_000 + number * 500;
        court.call((at_ms, at_ms), A, &page("pods", 500, false), Some(503));
    }
    assert_eq!(court.rules(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn of_an_object_only_what_is_ours_is_written() {
    let spec =
        json!({ "match": { "nodeLabel": "role=edge" }, "dnsRecordSet": { "zone": ZONE, "recordName": "n" } });
    let bought = Ipv4Addr::new(192, 0, 2, 40);
    for (kind, name, subresource, patch, rules) in [
        (POOL, "pool", "status", json!({ "status": { "error": "x" } }), vec![]),
        (POOL, "pool", "", json!({ "spec": { "region": "ams3" } }), vec!["I12"]),
        (POOL, "pool", "", json!({ "spec": { "ips": [IP, bought] } }), vec![]),
        (POOL, "pool", "", json!({ "spec": { "ips": [bought, IP] } }), vec!["I12"]),
        (POOL, "pool", "", json!({ "spec": { "ips": [IP, "192.0.2.41"] } }), vec!["I12"]),
        (POOL, "pool", "", json!({ "metadata": { "labels": { "a": "b" } } }), vec!["I12"]),
        (SET, "nodes", "", json!({ "spec": { "addressType": "InternalIP" } }), vec!["I12"]),
        (SET, "nodes", "", json!({ "metadata": { "finalizers": ["flipop.example/x"] } }), vec!["I12"]),
        (SET, "nodes", "status", json!({ "status": { "state": "active" } }), vec![]),
    ] {
        let mut court = Court::new(&json!({}));
        court.create(SET.1, "nodes", &spec);
        court.hear(2_000, false);
        court.judge.created.insert(bought);
        court.patch(kind, name, subresource, patch.clone(), "flipop");
        court.hear(3_000, false);
        assert_eq!(court.rules(), rules, "{patch}");
    }
    let mut court = Court::new(&json!({}));
    court.judge.created.insert(bought);
    for (ips, manager, rules) in [
        (json!([IP, bought]), "flipop", vec![]),
        (json!([IP]), "user", vec![]),
        (json!([IP, bought]), "flipop", vec!["I12"]),
    ] {
        court.patch(POOL, "pool", "", json!({ "spec": { "ips": ips } }), manager);
        court.hear(3_000, false);
        assert_eq!(court.rules(), rules, "what GitOps reverts stays reverted");
    }
}

#[test]
fn all_has_to_be_right_in_time_and_to_stay_so_without_a_write() {
    let wrong = ["x".to_owned()];
    let limits = (110_000, 130_000);
    let look = |looks: &[(u64, &[String], u64)]| {
        let mut settling = Settling::new(REST_MS);
        let mut last = Next::Look;
        for (now_ms, complaints, wrote_ms) in looks {
            last = settling.look(*now_ms, limits, complaints, *wrote_ms);
        }
        last
    };
    let blamed = |next: Next| matches!(next, Next::Blame(_));
    assert!(!blamed(look(&[(129_999, &wrong, 0)])));
    assert!(blamed(look(&[(130_000, &wrong, 0)])));
    assert!(!blamed(look(&[(100_000, &[], 0), (110_000, &wrong, 0)])), "unseen state may still come up");
    assert!(blamed(look(&[(100_000, &[], 0), (114_000, &wrong, 0)])), "it was right");
    assert!(!blamed(look(&[(112_000, &[], 0), (200_000, &[], 116_000)])), "the last words");
    assert!(blamed(look(&[(112_000, &[], 0), (200_000, &[], 118_000)])));
    let rests = |ms| look(&[(112_000, &[], 0), (112_000 + ms, &[], 0)]) == Next::Rest;
    assert!(!rests(REST_MS - 1) && rests(REST_MS));
    let mut reasons = Settling::new(REST_MS);
    reasons.tells_reasons = true;
    reasons.look(112_000, limits, &[], 0);
    assert!(!blamed(reasons.look(300_000, limits, &[], 176_000)), "a new reason for a mismatch may follow");
    assert!(blamed(reasons.look(300_000, limits, &[], 178_000)));
    assert_eq!(look(&[(112_000, &[], 0), (711_999, &[], 0)]), Next::Look);
    assert_eq!(look(&[(112_000, &[], 0), (712_000, &[], 0)]), Next::Rest);
}

/// A status without a mistake.
fn right_status(droplet: u64) -> Value {
    let condition = |kind: &str, status: &str, reason: &str| json!({ "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    json!({
        "ips": { "192.0.2.1": {
            "state": "active", "nodeName": "node-1", "providerID": format!("digitalocean://{droplet}"),
        } },
        "activeIPs": 1,
        "usedIPs": 1,
        "assignableNodes": ["node-2"],
        "observedGeneration": 1,
        "dnsRecordSet": { "fqdn": format!("edge.{CLOUDFLARE_ZONE}"), "addresses": ["192.0.2.1"] },
        "conditions": [
            condition("Ready", "True", "Assigned"),
            condition("RecordSetReady", "True", "Published"),
            condition("SpecValid", "True", "Valid"),
        ],
    })
}

/// Applies a merge patch.
fn merge(value: &mut Value, change: &Value) {
    let Some(fields) = change.as_object() else {
        value.clone_from(change);
        return;
    };
    for (name, change) in fields {
        merge(&mut value[name.as_str()], change);
    }
}

pub(super) fn complaints(court: &Court) -> Vec<String> {
    let (ips, records) = (settled::views(&court.cloud), dns::records(&court.cloud));
    let (truth, refused) = (&court.judge.truth, court.judge.is_refused());
    let scene = Scene { truth, ips: &ips, records: &records, region: REGION, refused };
    let mut all = Vec::new();
    truth.pools.values().for_each(|pool| scene.check_pool(pool, &mut all));
    truth.record_sets.values().for_each(|set| scene.check_record_set(set, &mut all));
    all
}

#[tokio::test(start_paused = true)]
async fn a_status_is_compared_with_the_world_field_by_field() {
    let set = json!({ "provider": "cloudflare", "zone": CLOUDFLARE_ZONE, "recordName": "edge" });
    let mut court = Court::new(&json!({ "dnsRecordSet": set }));
    let record = RecordView::new(&format!("edge.{CLOUDFLARE_ZONE}"), "A", "192.0.2.1", 60);
    court.cloud.add_record(Provider::Cloudflare, CLOUDFLARE_ZONE, &record).unwrap();
    let right = right_status(court.droplets[0]);
    let told = |court: &mut Court, change: &Value| {
        let mut status = right.clone();
        merge(&mut status, change);
        court.patch(POOL, "pool", "status", json!({ "status": Value::Null }), "flipop");
        court.patch(POOL, "pool", "status", json!({ "status": status }), "flipop");
        court.hear(2_000, false);
        complaints(court)
    };
    assert_eq!(told(&mut court, &json!({})), [""; 0]);
    let trouble = |kind: &str, status: &str, reason: &str| {
        let mut conditions = right["conditions"].as_array().unwrap().clone();
        conditions.retain(|condition| condition["type"] != kind);
        conditions.push(json!({ "type": kind, "status": status, "reason": reason, "message": "192.0.2.7",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }));
        json!({ "conditions": conditions })
    };
    for change in [
        json!({ "observedGeneration": 0 }),
        json!({ "activeIPs": 0 }),
        json!({ "usedIPs": 2 }),
        json!({ "error": "x" }),
        json!({ "assignableNodes": [] }),
        json!({ "assignableNodes": ["node-1", "node-2"] }),
        json!({ "assignableNodes": [], "nodeErrors": ["node-2"] }),
        json!({ "ips": { "192.0.2.1": { "state": "unassigned" } } }),
        json!({ "ips": { "192.0.2.1": { "nodeName": "node-2" } } }),
        json!({ "ips": { "192.0.2.1": { "providerID": "digitalocean://1" } } }),
        json!({ "ips": { "192.0.2.1": { "error": "x" } } }),
        json!({ "ips": { "192.0.2.9": { "state": "unassigned" } } }),
        json!({ "dnsRecordSet": { "fqdn": "x" } }),
        json!({ "dnsRecordSet": { "addresses": [] } }),
        trouble("Ready", "False", "Assigning"),
        trouble("Ready", "False", "BelowMinimum"),
        trouble("SpecValid", "False", "EntryIgnored"),
        trouble("ProviderReady", "False", "Transient"),
        trouble("Conflict", "True", "AddressClaimed"),
        trouble("NodesBlocked", "True", "ForeignAddress"),
        trouble("CreationUncertain", "True", "UnknownAddressesOnNodes"),
        trouble("CreationFailed", "True", "Quota"),
        trouble("Stalled", "True", "ActionPending"),
        trouble("RecordSetReady", "False", "Transient"),
        trouble("RecordSetReady", "True", "Kept"),
        trouble("RecordSetConflict", "True", "NameClaimed"),
        trouble("RecordSetTTLRaised", "True", "BelowFloor"),
    ] {
        assert_ne!(told(&mut court, &change), [""; 0], "{change}");
    }
    let mark = "heritage=external-dns,external-dns/owner=other";
    let marked = trouble("RecordSetExternalDNS", "True", "OwnershipRecord");
    for (beside, right) in [("b-", false), ("", true), ("a-", true)] {
        let record = RecordView::new(&format!("{beside}edge.{CLOUDFLARE_ZONE}"), "TXT", mark, 300);
        let id = court.cloud.add_record(Provider::Cloudflare, CLOUDFLARE_ZONE, &record).unwrap();
        assert_eq!(told(&mut court, &marked).is_empty(), right, "{beside}");
        assert_eq!(told(&mut court, &json!({})).is_empty(), !right, "{beside}");
        court.cloud.delete_record(Provider::Cloudflare, CLOUDFLARE_ZONE, &id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_fewer_active_addresses_than_it_asks_for_is_not_ready() {
    let mut court = Court::new(&json!({ "minActive": 2 }));
    let mut right = right_status(court.droplets[0]);
    right["dnsRecordSet"] = Value::Null;
    let ready = |status: &str, reason: &str| {
        json!([{ "type": "SpecValid", "status": "True", "reason": "Valid" },
               { "type": "Ready", "status": status, "reason": reason }])
    };
    for (conditions, wrong) in [(ready("True", "Assigned"), 1), (ready("False", "BelowMinimum"), 0)] {
        right["conditions"] = conditions;
        court.patch(POOL, "pool", "status", json!({ "status": right }), "flipop");
        court.hear(2_000, false);
        assert_eq!(complaints(&court).len(), wrong, "{:?}", complaints(&court));
    }
}

#[tokio::test(start_paused = true)]
async fn a_created_address_that_is_gone_is_to_be_forgotten_while_another_is_there() {
    let mut court = Court::new(&json!({ "desiredIPs": 2 }));
    let status = json!({ "status": { "createdIPs": [{ "ip": "192.0.2.7" }] } });
    court.patch(POOL, "pool", "status", status, "flipop");
    court.hear(2_000, false);
    let gone = |court: &Court| {
        let mut all = Vec::new();
        settled::check_gone(&court.judge.truth, &settled::views(&court.cloud), &mut all);
        all
    };
    assert_eq!(gone(&court), ["pool: 192.0.2.7 is gone and still remembered as created"]);
    assert!(court.cloud.delete_ip(IP));
    assert_eq!(gone(&court), [""; 0]);
}

#[test]
fn work_waits_for_nothing_that_is_broken_elsewhere() {
    let mut plan = quiet();
    plan.weather.push(crate::plan::Weather {
        from_ms: 30_000,
        to_ms: 900_000,
        which: crate::plan::Which { provider: Some(Provider::DigitalOcean), ..crate::plan::Which::default() },
        percent: 100,
        fault: crate::plan::Fault::HangBefore,
    });
    for (provider, late) in [(Provider::Cloudflare, true), (Provider::DigitalOcean, false)] {
        let mut calm = Calm::of(&plan);
        let mut look = |now_ms| calm.look(now_ms, std::iter::once((provider, "a name".to_owned())));
        assert_eq!((look(100_000).len(), look(106_000).len()), (0, 0));
        assert_eq!(look(106_001).len(), usize::from(late), "{provider:?}");
    }
    let mut calm = Calm::of(&quiet());
    let mut look =
        |now_ms, name: &str| calm.look(now_ms, std::iter::once((Provider::Cloudflare, name.to_owned())));
    assert_eq!((look(100_000, "a").len(), look(105_000, "b").len(), look(107_000, "a").len()), (0, 0, 0));
}
