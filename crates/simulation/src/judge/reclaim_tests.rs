//! Tests of the rule about deletions: violations, and cases that are just allowed.

use super::tests::{A, Court, IP, POOL, cloud};
use crate::facts::Kind;
use flipop_cloud::{Provider, RecordView};
use serde_json::{Value, json};

/// A pool that gives its only address back: bought for it, off its droplet, marked, and in no record.
fn court() -> Court {
    let mut court =
        Court::new(&json!({ "desiredIPs": 1, "ips": [], "reclaimPolicy": "Delete", "releasedIPs": [IP] }));
    court.judge.created.insert(IP);
    court.cloud.move_ip(IP, None).unwrap();
    court.mark(true);
    court.hear(2_000, false);
    court.lead(2_000, A, &[]);
    court
}

impl Court {
    fn mark(&mut self, deleting: bool) {
        let pool = self.api.object(
            POOL.0,
            POOL.1,
            &flipop_apiserver::Key::new(crate::scene::USER_NAMESPACE, "pool"),
        );
        let uid = pool.unwrap().pointer("/metadata/uid").cloned().unwrap();
        let name = json!({ "provider": "digitalocean", "zone": "example.com", "fqdn": "edge.example.com" });
        let bought = json!({
            "ip": IP, "provider": "digitalocean", "uid": uid, "deleting": deleting, "names": [name],
        });
        self.patch(POOL, "pool", "status", json!({ "status": { "purchasedIPs": [bought] } }), "user");
    }

    fn deletes(mut self, at_ms: u64) -> Vec<&'static str> {
        self.hear(at_ms - 60_000, false);
        self.judge.violations.clear();
        self.send(at_ms, A, &cloud("delete 192.0.2.1", Kind::DeleteIp { ip: IP }));
        self.judge.violations.iter().map(|violation| violation.rule).filter(|rule| *rule == "I18").collect()
    }
}

#[test]
fn what_was_bought_and_is_nobodys_may_be_deleted() {
    assert_eq!(court().deletes(200_000), Vec::<&str>::new());
}

#[test]
fn what_is_in_use_or_not_marked_or_not_given_back_may_not() {
    type Change = fn(&mut Court);
    let spec =
        |court: &mut Court, spec: Value| court.patch(POOL, "pool", "", json!({ "spec": spec }), "user");
    let changes: [(&str, Change); 5] = [
        ("it was not bought", |court| court.judge.created.clear()),
        ("it is not marked", |court| court.mark(false)),
        ("it stands on a droplet", |court| {
            let droplet = court.droplets[1];
            court.cloud.move_ip(IP, Some(droplet)).unwrap();
        }),
        ("a record holds it", |court| {
            let record = RecordView::new("edge.example.com", "A", "192.0.2.1", 30);
            court.cloud.add_record(Provider::DigitalOcean, "example.com", &record);
        }),
        ("another pool names it", |court| {
            let other =
                json!({ "provider": "digitalocean", "ips": [IP], "match": { "nodeLabel": "role=edge" } });
            court.create(POOL.1, "other", &other);
        }),
    ];
    for (what, change) in changes {
        let mut court = court();
        change(&mut court);
        assert_eq!(court.deletes(200_000), ["I18"], "{what}");
    }
    for other in [json!({ "reclaimPolicy": "Retain" }), json!({ "releasedIPs": null })] {
        let mut court = court();
        spec(&mut court, other);
        assert_eq!(court.deletes(200_000), ["I18"]);
    }
}

#[test]
fn what_changed_after_the_last_look_could_not_be_known() {
    let mut moved = court();
    let droplet = moved.droplets[1];
    moved.cloud.move_ip(IP, Some(droplet)).unwrap();
    moved.hear(100_000, false);
    moved.judge.moved_by_hand(180_000, IP);
    assert_eq!(moved.deletes(200_000), Vec::<&str>::new());
}

#[test]
fn purchases_and_deletions_take_turns() {
    let buy = || cloud("create an address", Kind::CreateIp);
    let delete = || cloud("delete 192.0.2.1", Kind::DeleteIp { ip: IP });
    for (first, then) in [(buy(), delete()), (delete(), buy())] {
        let mut court = court();
        court.hear(100_000, false);
        court.judge.violations.clear();
        court.send(200_000, A, &first);
        court.judge.violations.clear();
        court.send(200_001, A, &then);
        assert!(court.judge.violations.iter().any(|violation| violation.rule == "I18"));
    }
}
