//! Tests of the judge's rules about firewalls.

use super::tests::{A, Court, IP, POOL, cloud};
use super::{firewalls, pauses};
use crate::facts::Kind;
use crate::furnish;
use crate::scene::{REGION, firewall_prefix};
use serde_json::{Value, json};

const ALL: &str = "0.0.0.0/0";

fn opens(port: &str) -> Value {
    json!({ "firewall": { "ports": [{ "protocol": "tcp", "port": port }], "sources": [ALL] } })
}

/// A firewall of the user and one of the pool, which opens port 443, govern the droplets of both nodes. The first node
/// has the address.
struct Walled {
    court: Court,
    base: String,
    ours: String,
}

impl Walled {
    fn new() -> Self {
        let mut court = Court::new(&opens("443"));
        let droplets = court.droplets.clone();
        let base = court.cloud.add_firewall("base", &droplets, &[]).unwrap();
        court.hear(2_000, false);
        court.judge.firewalls_by_hand(2_000);
        let uid = court.judge.truth.pools["pool"].uid.clone();
        let name = format!("{}1", firewall_prefix(&uid));
        let ours = court.cloud.add_firewall(&name, &droplets, &[]).unwrap();
        court.cloud.open_port(&ours, "tcp", "443", ALL);
        court.cloud.close_port(&ours, "tcp", "22");
        court.hear(3_000, true);
        court.rules();
        Self { court, base, ours }
    }

    /// The operator changed something.
    fn rules(&mut self, now_ms: u64) -> Vec<&'static str> {
        self.court.hear(now_ms, true);
        self.court.rules()
    }

    fn by_user(&mut self, now_ms: u64) {
        self.court.hear(now_ms, false);
        self.court.judge.firewalls_by_hand(now_ms);
        self.court.rules();
    }

    fn hold(&self, droplets: &[usize]) {
        let droplets: Vec<u64> = droplets.iter().map(|n| self.court.droplets[*n]).collect();
        assert!(self.court.cloud.set_firewall_droplets(&self.ours, &droplets));
    }

    fn edit(&mut self, now_ms: u64, spec: &Value) {
        self.court.patch(POOL, "pool", "", json!({ "spec": spec }), "user");
        self.by_user(now_ms);
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_is_not_closed_where_an_address_stands_whose_pool_asks_for_it() {
    let mut rule = Walled::new();
    rule.court.cloud.close_port(&rule.ours, "tcp", "443");
    assert_eq!(rule.rules(60_000), ["I19"]);
    let mut member = Walled::new();
    member.hold(&[0]);
    assert_eq!(member.rules(60_000), [""; 0], "no address stands on the other one");
    member.hold(&[]);
    assert_eq!(member.rules(61_000), ["I19"]);
    let mut whole = Walled::new();
    whole.court.cloud.delete_firewall(&whole.ours);
    assert_eq!(whole.rules(60_000), ["I19"]);
    let mut left = Walled::new();
    left.court.cloud.move_ip(IP, Some(left.court.droplets[1])).unwrap();
    left.by_user(50_000);
    left.hold(&[1]);
    assert_eq!(left.rules(60_000), [""; 0], "the address has left");
}

#[tokio::test(start_paused = true)]
async fn a_port_may_be_closed_that_is_not_asked_for_any_more_or_is_open_by_another_firewall() {
    let mut edited = Walled::new();
    edited.edit(20_000, &opens("80"));
    edited.court.cloud.open_port(&edited.ours, "tcp", "80", ALL);
    edited.court.cloud.close_port(&edited.ours, "tcp", "443");
    assert_eq!(edited.rules(60_000), [""; 0]);
    let mut other = Walled::new();
    other.court.cloud.open_port(&other.base, "tcp", "443", ALL);
    other.by_user(20_000);
    other.hold(&[]);
    assert_eq!(other.rules(60_000), [""; 0]);
    let mut bare = Walled::new();
    bare.court.cloud.delete_firewall(&bare.base);
    bare.by_user(50_000);
    bare.hold(&[]);
    assert_eq!(bare.rules(60_000), [""; 0], "it would be isolated");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_opened_that_no_pool_asks_for() {
    let mut walled = Walled::new();
    walled.court.cloud.open_port(&walled.ours, "tcp", "80", ALL);
    assert_eq!(walled.rules(30_000), ["I19"]);
    let mut asked = Walled::new();
    asked.edit(20_000, &opens("80"));
    asked.court.cloud.open_port(&asked.ours, "tcp", "80", ALL);
    assert_eq!(asked.rules(30_000), [""; 0]);
    asked.court.cloud.open_port(&asked.ours, "tcp", "80", "::/0");
    assert_eq!(asked.rules(31_000), ["I19"], "another source");
    asked.court.cloud.open_port(&asked.ours, "tcp", "22", ALL);
    asked.by_user(32_000);
    assert_eq!(asked.court.rules(), [""; 0], "that was the user");
}

#[tokio::test(start_paused = true)]
async fn only_droplets_that_the_pool_uses_and_another_firewall_governs_are_put_in() {
    let mut walled = Walled::new();
    walled.hold(&[0]);
    walled.rules(20_000);
    walled.court.cloud.set_firewall_droplets(&walled.base, &walled.court.droplets[..1]);
    walled.by_user(21_000);
    walled.hold(&[0, 1]);
    assert_eq!(walled.rules(60_000), [""; 0], "it was governed a moment ago");
    walled.hold(&[0]);
    walled.rules(61_000);
    walled.hold(&[0, 1]);
    assert_eq!(walled.rules(90_000), ["I19"]);
    let stranger = walled.court.cloud.add_droplet("elsewhere", REGION);
    walled.court.droplets.push(stranger);
    walled.court.cloud.set_firewall_droplets(&walled.base, &walled.court.droplets);
    walled.by_user(100_000);
    walled.hold(&[0, 2]);
    assert_eq!(walled.rules(101_000), ["I19"], "no node of it has the labels");
    walled.hold(&[0]);
    walled.rules(102_000);
    walled.court.cloud.move_ip(IP, Some(stranger)).unwrap();
    walled.by_user(103_000);
    walled.hold(&[0, 2]);
    assert_eq!(walled.rules(104_000), [""; 0], "an address of the pool stands there");
}

#[tokio::test(start_paused = true)]
async fn firewalls_of_others_and_of_no_pool_are_left_alone() {
    let mut walled = Walled::new();
    walled.court.cloud.open_port(&walled.base, "tcp", "443", ALL);
    assert_eq!(walled.rules(30_000), ["I19", "I19"], "it is changed, and no pool owns it");
    walled.court.cloud.open_port(&walled.base, "tcp", "80", ALL);
    walled.by_user(31_000);
    walled.court.cloud.add_firewall("flipop-0123abcd-1", &[], &[]).unwrap();
    assert_eq!(walled.rules(32_000), ["I19"]);
    let mut gone = Walled::new();
    gone.court
        .api
        .delete_object(
            POOL.0,
            POOL.1,
            &flipop_apiserver::Key::new(crate::scene::USER_NAMESPACE, "pool"),
            false,
        )
        .unwrap();
    gone.by_user(20_000);
    gone.hold(&[0]);
    assert_eq!(gone.rules(60_000), ["I19"], "a pool that is gone leaves its firewalls");
}

#[tokio::test(start_paused = true)]
async fn the_firewall_of_a_paused_pool_changes_only_to_isolate_nobody() {
    let pause = json!({ "metadata": { "annotations": { pauses::ANNOTATION: "x" } } });
    let mut paused = Walled::new();
    paused.court.patch(POOL, "pool", "", pause.clone(), "user");
    paused.by_user(20_000);
    paused.hold(&[0]);
    assert_eq!(paused.rules(30_000), [""; 0], "it may have been sent before");
    paused.hold(&[0, 1]);
    assert_eq!(paused.rules(60_000), ["I19"]);
    paused.court.cloud.delete_firewall(&paused.base);
    paused.by_user(61_000);
    paused.hold(&[]);
    assert_eq!(paused.rules(62_000), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_assignment_waits_ten_seconds_for_the_ports_of_a_new_node_while_firewalls_are_ready() {
    // By then everything that disturbs the court's plan is long over.
    for (at_ms, ready, open, rules) in [
        (935_000, "True", false, vec!["I19"]),
        (935_000, "", false, vec!["I19"]),
        (940_000, "True", false, vec![]),
        (940_000, "", false, vec![]),
        (935_000, "False", false, vec![]),
        (935_000, "True", true, vec![]),
    ] {
        let mut walled = Walled::new();
        let court = &mut walled.court;
        court.cloud.move_ip(IP, None).unwrap();
        let droplet = court.cloud.add_droplet("node-3", REGION);
        court.droplets.push(droplet);
        court.cloud.set_firewall_droplets(&walled.base, &court.droplets);
        court.hear(910_000, false);
        court.judge.firewalls_by_hand(910_000);
        furnish::add_node(&court.api, "node-3", droplet, [("role".to_owned(), "edge".to_owned())].into(), 3)
            .unwrap();
        let told = match ready {
            "" => json!([]),
            _ => json!([{ "type": "FirewallReady", "status": ready, "reason": "Applying" }]),
        };
        court.patch(POOL, "pool", "status", json!({ "status": { "conditions": told } }), "flipop");
        court.hear(930_000, false);
        if open {
            let droplets = court.droplets.clone();
            court.cloud.set_firewall_droplets(&walled.ours, &droplets);
        }
        court.hear(930_100, true);
        court.lead(at_ms - 1_000, A, &[]);
        let droplets = cloud("ListDroplets", Kind::Read);
        court.call((at_ms - 1_000, at_ms - 1_000), A, &droplets, Some(200));
        court.rules();
        court.send(at_ms, A, &court.assign(2));
        assert_eq!(court.rules(), rules, "{at_ms} {ready} {open}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_end_the_ports_are_open_exactly_where_they_are_asked_for() {
    let complaints = |walled: &Walled| {
        let mut all = Vec::new();
        firewalls::check(&walled.court.judge, &mut all);
        all.len()
    };
    let told = |walled: &mut Walled, conditions: Value| {
        let uid = walled.court.judge.truth.pools["pool"].uid.clone();
        let entry = json!([{ "id": walled.ours, "name": format!("{}1", firewall_prefix(&uid)) }]);
        let status = json!({ "firewalls": entry, "conditions": conditions });
        walled.court.patch(POOL, "pool", "status", json!({ "status": Value::Null }), "flipop");
        walled.court.patch(POOL, "pool", "status", json!({ "status": status }), "flipop");
        walled.by_user(10_000);
    };
    let condition =
        |kind: &str, status: &str, reason: &str| json!({ "type": kind, "status": status, "reason": reason });
    let applied = json!([condition("FirewallReady", "True", "Applied")]);
    let mut walled = Walled::new();
    assert_eq!(complaints(&walled), 2, "nothing is told");
    told(&mut walled, applied.clone());
    assert_eq!(complaints(&walled), 0);
    told(&mut walled, json!([condition("FirewallReady", "True", "Applying")]));
    assert_eq!(complaints(&walled), 1);
    let bare = condition("FirewallWouldIsolate", "True", "NoOtherFirewall");
    told(&mut walled, json!([condition("FirewallReady", "True", "Applied"), bare]));
    assert_eq!(complaints(&walled), 1, "every droplet has another firewall");
    told(&mut walled, applied);
    walled.hold(&[0]);
    walled.by_user(11_000);
    assert_eq!(complaints(&walled), 1, "one droplet lacks");
    walled.hold(&[0, 1]);
    walled.court.cloud.open_port(&walled.ours, "tcp", "80", ALL);
    walled.by_user(12_000);
    assert_eq!(complaints(&walled), 1, "more is open");
    walled.court.cloud.close_port(&walled.ours, "tcp", "80");
    walled.court.cloud.delete_firewall(&walled.base);
    walled.by_user(13_000);
    assert_eq!(complaints(&walled), 2, "both are isolated, which is not told");
    let mut unasked = Walled::new();
    unasked.edit(10_000, &json!({ "firewall": null }));
    assert_eq!(complaints(&unasked), 3, "it stands, it is not named, and it holds droplets");
}
