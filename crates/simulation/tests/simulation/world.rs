//! Every act and fault of a plan really happens. Each leaves its mark in the transcript, and the operator repairs what
//! it can.

use flipop_cloud::Provider;
use flipop_simulation::Outcome;
use flipop_simulation::plan::{
    Act, Fault, Machines, Oddity, On, Plan, REST_MS, Side, Step, Then, Trigger, Weather, Which,
};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// By this time everything exists and the addresses are assigned.
const QUIET_MS: u64 = 30_000;

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

fn at(at_ms: u64, act: Act) -> Step {
    Step { at_ms, act }
}

fn pool(more: &Value) -> Act {
    let mut spec = json!({
        "provider": "digitalocean", "region": "nyc3", "ips": [ip(1), ip(2)], "match": { "nodeLabel": "role=edge" },
        "dnsRecordSet": { "provider": "cloudflare", "zone": "example.net", "recordName": "edge" },
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Act::Create { kind: "FloatingIPPool".to_owned(), name: "pool".to_owned(), spec }
}

/// A plan with three nodes, two addresses, a pool of these, and further steps.
fn plan(name: &str, then: Vec<Step>) -> Plan {
    with_pool(name, &json!({}), then)
}

fn with_pool(name: &str, more: &Value, then: Vec<Step>) -> Plan {
    let nodes = (1..=3).map(|number| at(0, Act::AddNode { node: format!("node-{number}") }));
    let mut steps: Vec<Step> = nodes.chain((1..=2).map(|last| at(0, Act::AddIp { ip: ip(last) }))).collect();
    steps.push(at(1_000, pool(more)));
    steps.extend(then);
    Plan {
        name: name.to_owned(),
        seed: 3,
        replicas: 1,
        steps,
        weather: Vec::new(),
        triggers: Vec::new(),
        end_ms: QUIET_MS + 120_000,
        staleness_ms: 150_000,
        rest_ms: REST_MS,
        skew_s: 0,
        machines: Machines::default(),
    }
}

fn ready(at_ms: u64, node: &str, ready: bool) -> Step {
    at(at_ms, Act::SetReady { node: node.to_owned(), ready })
}

/// Plays a plan. It must break no rule, and its story must contain these texts in this order.
fn tells(plan: &Plan, texts: &[&str]) -> Outcome {
    let outcome = flipop_simulation::run(plan, true).unwrap();
    assert_eq!(outcome.violations, [], "{}:\n{}", plan.name, outcome.story);
    let mut rest = outcome.story.as_str();
    for text in texts {
        let found = rest.find(text);
        assert!(found.is_some(), "{}: no {text:?} in its place in\n{}", plan.name, outcome.story);
        rest = rest.split_at(found.unwrap() + text.len()).1;
    }
    outcome
}

#[test]
fn an_object_that_is_paused_rests_until_its_time_is_over() {
    let (kind, name) = ("FloatingIPPool".to_owned(), "pool".to_owned());
    let pause = Act::PauseObject { kind, name, text: "incident 7".to_owned(), for_ms: 40_000 };
    let mut plan = plan("a pause", vec![at(QUIET_MS, pause), ready(QUIET_MS + 5_000, "node-1", false)]);
    plan.staleness_ms = 5_000;
    let outcome = tells(
        &plan,
        &["pause_object", "incident 7", "node-1", "Resume {", "assign 192.0.2.1 to", "PATCH nodes"],
    );
    assert_eq!(outcome.tally.assigns.values().sum::<usize>(), 3);
}

/// Steps after which everything is listed again.
fn relist(at_ms: u64) -> [Step; 2] {
    [at(at_ms, Act::Compact), at(at_ms + 1, Act::CutWatches { replica: 0 })]
}

#[test]
fn a_list_that_shows_the_past_is_ignored_by_who_knows_better() {
    let mut then = vec![ready(QUIET_MS, "node-3", false)];
    then.extend(relist(QUIET_MS + 10_000));
    let quiet = plan("lists are read again", then);
    let outcome = flipop_simulation::run(&quiet, true).unwrap();
    let sorts = (1..).zip(&outcome.sorts);
    let lists: Vec<u64> =
        sorts.filter(|(_, sort)| **sort == flipop_simulation::Sort::ClusterList).map(|(n, _)| n).collect();
    assert!(lists.len() > 6, "{lists:?} in\n{}", outcome.story);
    // Pools, record sets and nodes, listed again.
    for list in lists.iter().rev().take(3) {
        let mut plan = quiet.clone();
        plan.triggers.push(Trigger { on: On::Call(*list), then: Then::Older { ms: 40_000, for_ms: 20_000 } });
        // It asks again and again until the list is no older than what it has seen.
        let known = tells(&plan, &["!! Older", "> LIST", "> LIST", "> LIST", "> LIST"]);
        assert_eq!((known.end, known.tally.assigns), (outcome.end.clone(), outcome.tally.assigns.clone()));
    }
}

#[test]
fn a_server_that_lags_shows_the_past_in_lists_too_and_nothing_is_moved_for_it() {
    let lag = |lists| {
        let mut then = vec![
            at(QUIET_MS, Act::Lag { replica: 0, for_ms: 40_000, lists }),
            // Nobody sees this while the server lags.
            ready(QUIET_MS + 5_000, "node-3", false),
        ];
        then.extend(relist(QUIET_MS + 10_000));
        then.push(ready(QUIET_MS + 20_000, "node-3", true));
        plan(&format!("an API server lags, lists too: {lists}"), then)
    };
    let truthful = tells(&lag(false), &["\"lag\"", "> LIST nodes", "CatchUp"]);
    let past = tells(&lag(true), &["\"lists\":true", "> LIST nodes", "CatchUp"]);
    let moves = |outcome: &Outcome| outcome.tally.assigns.values().sum::<usize>();
    assert_eq!((moves(&truthful), moves(&past)), (2, 2));
}

#[test]
fn a_new_process_that_meets_the_past_buys_nothing_twice() {
    let buys = json!({ "ips": [], "desiredIPs": 3 });
    let crash = vec![at(12_000, Act::Crash { replica: 0, restart_ms: 500 })];
    let quiet = with_pool("a new process meets the past", &buys, crash);
    let outcome = flipop_simulation::run(&quiet, true).unwrap();
    let sorts = (1..).zip(&outcome.sorts);
    let lists: Vec<u64> =
        sorts.filter(|(_, sort)| **sort == flipop_simulation::Sort::ClusterList).map(|(n, _)| n).collect();
    for (list, ms) in
        lists.iter().rev().take(4).flat_map(|list| [20_000, 25_000, 30_000].map(|ms| (list, ms)))
    {
        let mut plan = quiet.clone();
        plan.triggers.push(Trigger { on: On::Call(*list), then: Then::Older { ms, for_ms: 50_000 } });
        let outcome = tells(&plan, &["dies", "!! Older"]);
        assert_eq!(outcome.tally.creates, 3, "{}", outcome.story);
    }
}

/// Refuses calls whose description has this text, until `to_ms`.
fn refused(text: &str, to_ms: u64) -> Weather {
    let which = Which { text: Some(text.to_owned()), ..Which::default() };
    let fault = Fault::Refuse { status: 503, retry_after_s: None };
    Weather { from_ms: QUIET_MS, to_ms, which, percent: 100, fault }
}

#[test]
fn a_new_process_that_sees_no_nodes_yet_publishes_and_moves_nothing() {
    let spec = json!({
        "match": { "nodeLabel": "role=edge" }, "addressType": "ExternalIP",
        "dnsRecordSet": { "provider": "cloudflare", "zone": "example.net", "recordName": "nodes" },
    });
    let (kind, name) = ("NodeDNSRecordSet".to_owned(), "nodes".to_owned());
    let then = vec![
        at(1_000, Act::Create { kind, name, spec }),
        at(QUIET_MS, Act::Crash { replica: 0, restart_ms: 500 }),
    ];
    let mut plan = plan("a new process sees no nodes", then);
    plan.weather.push(refused("LIST nodes", QUIET_MS + 40_000));
    let outcome = tells(&plan, &["dies", "r0.2   starts", "> LIST nodes", "< 503", "> ListRecords"]);
    let moves: usize = outcome.tally.assigns.values().sum();
    // One round at the name of the nodes and one after each assignment, all before the crash.
    assert_eq!((moves, outcome.tally.records), (2, 3), "{}", outcome.story);
}

#[test]
fn what_was_known_of_nodes_before_a_gap_in_the_leadership_is_no_ground_for_a_move() {
    let node = None;
    let then = vec![
        ready(QUIET_MS + 15_000, "node-1", false),
        ready(QUIET_MS + 15_000, "node-3", false),
        at(QUIET_MS + 16_000, Act::MoveIp { ip: ip(1), node }),
    ];
    let mut plan = plan("the leadership has a gap", then);
    plan.weather.push(refused("leases", QUIET_MS + 30_000));
    plan.weather.push(refused("nodes", QUIET_MS + 60_000));
    let outcome = tells(&plan, &["> PUT leases", "< 503", "> LIST nodes", "< 503", "> list addresses"]);
    let moves: usize = outcome.tally.assigns.values().sum();
    assert_eq!(moves, 2, "{}", outcome.story);
}

#[test]
fn an_address_of_somebody_else_on_a_matching_node_stays_there() {
    let foreign = ip(9);
    let node = Some("node-3".to_owned());
    let then = vec![
        at(500, Act::AddIp { ip: foreign }),
        at(QUIET_MS, Act::MoveIp { ip: foreign, node }),
        // Its address has nowhere else to go.
        ready(QUIET_MS + 70_000, "node-1", false),
    ];
    let mut plan = plan("an address of somebody else", then);
    plan.steps.sort_by_key(|step| step.at_ms);
    let outcome = tells(&plan, &["move_ip", "NodesBlocked", "status.nodeErrors", "node-3"]);
    assert_eq!(outcome.tally.unassigns, 0, "{}", outcome.story);
}

#[test]
fn addresses_that_git_ops_takes_out_of_a_spec_are_not_written_again() {
    let revert = Act::RevertIps { name: "pool".to_owned(), ips: Vec::new() };
    let plan =
        with_pool("a spec is put back", &json!({ "ips": [], "desiredIPs": 2 }), vec![at(QUIET_MS, revert)]);
    let outcome = tells(&plan, &["create an address", "spec.ips", "revert_ips"]);
    assert_eq!(outcome.tally.creates, 2);
}

#[test]
fn an_assignment_whose_answer_is_lost_is_looked_into_and_not_sent_again() {
    let odd = [Oddity::Html, Oddity::Empty, Oddity::Null, Oddity::Oversized].map(Fault::Odd);
    let lost = [Fault::ResetAfter, Fault::HangAfter, Fault::RefuseAfter { status: 502 }, Fault::Garble];
    for fault in odd.into_iter().chain(lost) {
        let mut plan = plan(&format!("answers are lost: {fault:?}"), Vec::new());
        let which = Which { text: Some("assign".to_owned()), ..Which::default() };
        plan.weather.push(Weather { from_ms: 0, to_ms: 60_000, which, percent: 100, fault });
        let outcome = tells(&plan, &["> assign", "!! ", "> get 192.0.2.1", "in-progress → active"]);
        assert!(outcome.tally.assigns.values().all(|assigns| *assigns == 1), "{}", outcome.story);
    }
}

#[test]
fn a_watch_that_falls_silent_at_any_of_the_last_changes_is_noticed() {
    let quiet = plan("a watch falls silent", vec![ready(QUIET_MS, "node-1", false)]);
    let frames = tells(&quiet, &[]).busy_frames;
    let late = (frames - 9..=frames).filter(|frame| {
        let mut plan = quiet.clone();
        plan.triggers.push(Trigger { on: On::Frame(*frame), then: Then::Stall });
        let story = tells(&plan, &["!! Stall"]).story;
        story.find("!! Stall") < story.find("nodeName: node-1 → node-3")
    });
    assert!(late.count() > 0, "none of the last of {frames} frames shows the node");
}

#[test]
fn a_node_that_is_deleted_while_nobody_watches_loses_its_address_to_another() {
    let delete = Act::DeleteNode { node: "node-1".to_owned() };
    let lag = Act::Lag { replica: 0, for_ms: 40_000, lists: false };
    let mut then = vec![at(QUIET_MS, lag), at(QUIET_MS + 1_000, delete)];
    then.extend(relist(QUIET_MS + 2_000));
    tells(
        &plan("a node goes unseen", then),
        &["node-1 deleted", "> LIST nodes", "nodeName: node-1 → node-3"],
    );
}

#[test]
fn the_addresses_of_a_pool_that_is_deleted_while_nobody_watches_move_no_more() {
    let lag = Act::Lag { replica: 0, for_ms: 40_000, lists: false };
    let delete = Act::Delete { kind: "FloatingIPPool".to_owned(), name: "pool".to_owned() };
    let mut then = vec![at(QUIET_MS, lag), at(QUIET_MS + 1_000, delete)];
    then.extend(relist(QUIET_MS + 2_000));
    then.push(ready(QUIET_MS + 60_000, "node-1", false));
    let outcome = tells(&plan("a pool goes unseen", then), &["pool deleted", "> LIST floatingippools"]);
    assert_eq!(outcome.tally.assigns.values().sum::<usize>(), 2);
}

#[test]
fn a_record_that_is_edited_by_hand_is_made_right_again() {
    let other = Ipv4Addr::new(203, 0, 113, 9);
    for data in [Some(other), None] {
        let edit = Act::EditRecord { provider: Provider::Cloudflare, name: "edge".to_owned(), data };
        let outcome = tells(
            &plan("a record is edited", vec![at(QUIET_MS, edit)]),
            &["edit_record", "cloud  Record", "> "],
        );
        assert!(outcome.tally.records >= 2, "{:?}", outcome.tally);
    }
}

#[test]
fn a_record_of_somebody_else_that_stands_in_the_way_is_waited_for() {
    let place = |at_ms, name: &str, rtype: &str, data: &str| {
        let (name, rtype, data) = (name.to_owned(), rtype.to_owned(), data.to_owned());
        at(at_ms, Act::PlaceRecord { provider: Provider::Cloudflare, name, rtype, data, for_ms: 60_000 })
    };
    let cname = plan("a CNAME stands there", vec![place(0, "edge", "CNAME", "elsewhere.example.org")]);
    let mut cname = cname;
    cname.steps.sort_by_key(|step| step.at_ms);
    tells(&cname, &["place_record", "CNAME", "Lift", "> BatchRecords"]);
    let owner = "\"heritage=external-dns,external-dns/owner=other\"";
    for name in ["edge", "a-edge"] {
        let claim = plan("external-dns claims it", vec![place(500, name, "TXT", owner)]);
        let (stands, gone) = (format!("has a TXT record at {name}.example.net"), "RecordSetExternalDNS gone");
        tells(&claim, &["place_record", "RecordSetExternalDNS = True", &stands, "Lift", gone]);
    }
}

#[test]
fn tokens_that_are_let_in_no_more_or_lack_a_scope_are_refused_and_work_again_later() {
    let provider = Provider::DigitalOcean;
    let revoked = vec![
        at(QUIET_MS, Act::RevokeToken { provider, for_ms: 60_000 }),
        ready(QUIET_MS + 5_000, "node-1", false),
    ];
    tells(&plan("a token is revoked", revoked), &["revoke_token", "< 401", "LetIn", "< 200"]);
    for (scope, text) in [("reserved_ip:update", "< 403"), ("droplet:read", "> list addresses")] {
        let narrow = Act::NarrowToken { without: scope.to_owned(), for_ms: 60_000 };
        let then = vec![at(500, narrow), ready(QUIET_MS + 5_000, "node-1", false)];
        let mut plan = plan(&format!("a token lacks {scope}"), then);
        plan.steps.sort_by_key(|step| step.at_ms);
        tells(&plan, &["narrow_token", text, "LetIn", "> assign", "status.ips.192.0.2.1.state"]);
    }
}

#[test]
fn a_droplet_that_is_off_loses_its_address_to_another() {
    let off = |off| Act::PowerOff { node: "node-1".to_owned(), off };
    let plan = plan("a droplet is off", vec![at(QUIET_MS, off(true)), at(QUIET_MS + 60_000, off(false))]);
    let outcome = tells(&plan, &["power_off", "status.conditions.Ready", "> assign"]);
    assert_eq!(outcome.tally.assigns.values().sum::<usize>(), 3);
}

#[test]
fn an_address_that_is_let_go_is_taken_from_no_node_and_another_is_bought_only_when_wanted() {
    let spec = json!({ "ips": [], "desiredIPs": 2 });
    let name = "pool".to_owned();
    let more = json!({ "desiredIPs": 2 });
    let edit = Act::Edit { kind: "FloatingIPPool".to_owned(), name: name.clone(), spec: more };
    let then = vec![at(QUIET_MS, Act::Release { name }), at(QUIET_MS + 60_000, edit)];
    let outcome = tells(
        &with_pool("an address is let go", &spec, then),
        &["release", "releasedIPs = ", "create an address"],
    );
    assert_eq!(outcome.tally.creates, 3);
}

#[test]
fn odd_answers_and_records_that_exist_already_are_made_good() {
    let faults = [
        Fault::Odd(Oddity::Html),
        Fault::Odd(Oddity::Empty),
        Fault::Odd(Oddity::Null),
        Fault::Odd(Oddity::UnknownFields),
        Fault::Odd(Oddity::Oversized),
        Fault::RecordExists { identical: true },
        Fault::RecordExists { identical: false },
    ];
    for fault in faults {
        let which = Which { side: Some(Side::Cloud), text: Some("Record".to_owned()), ..Which::default() };
        let mut plan = plan(&format!("{fault:?}"), vec![ready(QUIET_MS, "node-1", false)]);
        plan.weather.push(Weather { from_ms: 0, to_ms: 20_000, which, percent: 100, fault });
        tells(&plan, &[" !! ", "> BatchRecords"]);
    }
}

#[test]
fn a_process_dies_at_a_renewal_of_the_lease_and_at_an_event() {
    let outcome = flipop_simulation::run(&plan("undisturbed", Vec::new()), false).unwrap();
    assert!(outcome.busy_clockwork > 30, "{}", outcome.busy_clockwork);
    for number in [1, 3, outcome.busy_clockwork / 2] {
        let then = Then::CrashAfterEffect { restart_ms: 1_000 };
        let mut plan = plan("a process dies at a renewal", Vec::new());
        plan.triggers.push(Trigger { on: On::Clockwork(number), then });
        tells(&plan, &["!! CrashAfterEffect", "dies", "r0.2   starts"]);
    }
}

#[test]
fn what_people_do_to_firewalls_is_seen_and_put_right_and_isolates_nobody() {
    // Two ports, because the API refuses to remove the last rule of a firewall.
    let opens = json!({ "firewall": {
        "ports": [{ "protocol": "tcp", "port": "443" }, { "protocol": "tcp", "port": "80" }],
        "sources": ["0.0.0.0/0"],
    } });
    let (name, pool) = ("base".to_owned(), "pool".to_owned());
    let base = || Act::AddFirewall { name: name.clone(), nodes: Vec::new(), tagged: true };
    let edit = |port: &str, open| Act::EditFirewalls { pool: pool.clone(), port: port.to_owned(), open };
    let tag = |on| Act::SetTag { node: "node-2".to_owned(), on };
    let acts = vec![
        at(0, base()),
        at(0, Act::FirewallTime { ms: 2_000 }),
        at(60_000, edit("22", true)),
        at(180_000, edit("443", false)),
        at(300_000, Act::DropFirewallsOf { pool: pool.clone() }),
        at(420_000, tag(false)),
        at(540_000, tag(true)),
        at(660_000, Act::DropFirewall { name: name.clone() }),
        at(780_000, Act::AddFirewall { name: name.clone(), nodes: vec!["node-1".to_owned()], tagged: false }),
    ];
    let mut plan = with_pool("firewalls", &opens, acts);
    plan.end_ms = 840_000;
    plan.staleness_ms = 5_000;
    let outcome = tells(
        &plan,
        &[
            "> CreateFirewall flipop-",
            "> assign 192.0.2.1 to",
            "edit_firewalls",
            "> RemoveFirewallRules",
            "edit_firewalls",
            "> AddFirewallRules",
            "drop_firewalls_of",
            "> CreateFirewall flipop-",
            "set_tag",
            "> RemoveFirewallDroplets",
            "set_tag",
            "> AddFirewallDroplets",
            "drop_firewall",
            "> RemoveFirewallDroplets",
            "add_firewall",
            "> CreateFirewall flipop-",
        ],
    );
    assert_eq!(outcome.tally.assigns.values().sum::<usize>(), 2, "no address moves for any of it");
}
