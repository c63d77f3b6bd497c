//! Faults that last for minutes and hours of virtual time. The judge of the simulation sees every call. The tests check
//! the counts and times that users would hold us to.

use crate::support::play;
use flipop_cloud::Provider;
use flipop_simulation::Outcome;
use flipop_simulation::plan::{Act, Fault, Machines, Oddity, Plan, REST_MS, Side, Step, Weather, Which};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

pub(crate) const MINUTE_MS: u64 = 60_000;

const HOUR_MS: u64 = 60 * MINUTE_MS;

/// By this time nodes and objects exist and the addresses are assigned.
pub(crate) const QUIET_MS: u64 = 60_000;

/// How often the judge looks whether the run may end.
const LOOK_MS: u64 = 2_000;

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

fn node(number: u64) -> String {
    format!("node-{number:04}")
}

pub(crate) fn at(at_ms: u64, act: Act) -> Step {
    Step { at_ms, act }
}

pub(crate) fn ready(at_ms: u64, number: u64, ready: bool) -> Step {
    at(at_ms, Act::SetReady { node: node(number), ready })
}

fn create(kind: &str, name: &str, spec: Value) -> Step {
    at(1_000, Act::Create { kind: kind.to_owned(), name: name.to_owned(), spec })
}

fn record_set(provider: &str, zone: &str, name: &str) -> Value {
    json!({ "provider": provider, "zone": zone, "recordName": name })
}

/// Creates a pool of given addresses with a record set at `DigitalOcean`. The fields of `more` are added to its spec.
pub(crate) fn pool(ips: u8, more: &Value) -> Step {
    let mut spec = json!({
        "provider": "digitalocean", "region": "nyc3",
        "ips": (1..=ips).map(ip).collect::<Vec<_>>(),
        "match": { "nodeLabel": "role=edge" },
        "dnsRecordSet": record_set("digitalocean", "example.com", "edge"),
    });
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    create("FloatingIPPool", "pool", spec)
}

/// Creates a record set at Cloudflare with the nodes' own addresses.
pub(crate) fn node_set() -> Step {
    let spec = json!({
        "match": { "nodeLabel": "role=edge" },
        "dnsRecordSet": record_set("cloudflare", "example.net", "nodes"),
    });
    create("NodeDNSRecordSet", "nodes", spec)
}

pub(crate) fn plan(name: &str, (nodes, ips): (u64, u8), then: Vec<Step>, end_ms: u64) -> Plan {
    let mut steps: Vec<Step> = (1..=nodes).map(|number| at(0, Act::AddNode { node: node(number) })).collect();
    steps.extend((1..=ips).map(|last| at(0, Act::AddIp { ip: ip(last) })));
    steps.extend(then);
    steps.sort_by_key(|step| step.at_ms);
    Plan {
        name: name.to_owned(),
        seed: 7,
        replicas: 2,
        steps,
        weather: Vec::new(),
        triggers: Vec::new(),
        end_ms,
        staleness_ms: 5_000,
        rest_ms: REST_MS,
        skew_s: 0,
        machines: Machines::default(),
    }
}

pub(crate) fn weather((from_ms, to_ms): (u64, u64), which: Which, fault: Fault) -> Weather {
    Weather { from_ms, to_ms, which, percent: 100, fault }
}

pub(crate) fn calls_of(provider: Provider) -> Which {
    Which { provider: Some(provider), ..Which::default() }
}

pub(crate) fn text(text: &str) -> Which {
    Which { side: Some(Side::Cloud), text: Some(text.to_owned()), ..Which::default() }
}

/// Plays a plan. It must break no rule.
fn good(plan: &Plan) -> Outcome {
    let outcome = play(plan);
    assert_eq!(outcome.violations, [], "{}", plan.name);
    outcome
}

/// Plays a plan, and also returns the time and the description of each call.
pub(crate) fn told(plan: &Plan) -> (Outcome, Vec<(u64, String)>) {
    let outcome = flipop_simulation::run(plan, true).unwrap();
    assert_eq!(outcome.violations, [], "{}", plan.name);
    let call = |line: &str| {
        let (time, rest) = line.trim_start().split_once(' ')?;
        let (_, what) = rest.split_once(" > ")?;
        let (seconds, millis) = time.split_once('.')?;
        Some((seconds.parse::<u64>().ok()? * 1_000 + millis.parse::<u64>().ok()?, what.to_owned()))
    };
    let calls: Vec<(u64, String)> = outcome.story.lines().filter_map(call).collect();
    assert!(calls.len() > 20, "the story has only {} calls", calls.len());
    (outcome, calls)
}

/// How many calls with this text were sent in a span.
pub(crate) fn count(calls: &[(u64, String)], text: &str, (from_ms, to_ms): (u64, u64)) -> usize {
    calls.iter().filter(|(at_ms, what)| (from_ms..to_ms).contains(at_ms) && what.contains(text)).count()
}

/// When the first call with this text was sent, from a moment on.
pub(crate) fn first(calls: &[(u64, String)], text: &str, from_ms: u64) -> u64 {
    calls.iter().find(|(at_ms, what)| *at_ms >= from_ms && what.contains(text)).unwrap().0
}

pub(crate) fn assigns(outcome: &Outcome) -> usize {
    outcome.tally.assigns.values().sum()
}

#[test]
fn after_ten_minutes_without_an_api_server_all_is_right_within_ten_seconds() {
    let away = (QUIET_MS, QUIET_MS + 10 * MINUTE_MS);
    for fault in [Fault::HangBefore, Fault::ResetBefore, Fault::Refuse { status: 503, retry_after_s: None }] {
        let lost = ready(away.0 + MINUTE_MS, 1, false);
        let mut plan =
            plan("no API server for ten minutes", (3, 2), vec![pool(2, &json!({})), lost], away.1 + 10_000);
        plan.staleness_ms = 11 * MINUTE_MS;
        let which = Which { side: Some(Side::Kube), ..Which::default() };
        plan.weather.push(weather(away, which, fault.clone()));
        let (outcome, calls) = told(&plan);
        assert_eq!(assigns(&outcome), 3, "{fault:?}");
        // In an outage the permit lasts only for the rest of the lease.
        let unlicensed = (away.0 + 15_000, away.1);
        assert_eq!(count(&calls, "assign", unlicensed), 0, "{fault:?}");
        let late = outcome.ended_ms - plan.end_ms;
        assert!(late <= REST_MS + 2 * LOOK_MS, "{fault:?}: at rest {late} ms after the end");
    }
}

#[test]
fn nodes_that_flap_for_an_hour_cost_one_move_per_cool_off() {
    const COOL_OFF_S: u64 = 120;
    let mut then = vec![pool(1, &json!({ "assignmentCoolOffSeconds": COOL_OFF_S }))];
    for number in 1..=2 {
        // Each toggles every 1 to 120 s.
        let (mut at_ms, mut up) = (QUIET_MS, true);
        while at_ms < QUIET_MS + HOUR_MS {
            at_ms += 1_000 + at_ms * (number + 6) % 119_000;
            up = !up;
            then.push(ready(at_ms, number, up));
        }
    }
    let end_ms = QUIET_MS + HOUR_MS + 10 * MINUTE_MS;
    then.extend([ready(end_ms - 1_000, 1, true), ready(end_ms - 1_000, 2, true)]);
    let outcome = good(&plan("two nodes flap for an hour", (2, 1), then, end_ms));
    let most = usize::try_from((end_ms - QUIET_MS) / 1_000 / COOL_OFF_S).unwrap() + 2;
    assert!((5..=most).contains(&assigns(&outcome)), "{} assignments, at most {most}", assigns(&outcome));
}

#[test]
fn an_action_that_the_provider_accepts_and_no_longer_knows_is_followed_by_reads_and_not_repeated() {
    for status in [404, 410] {
        let lost = ready(QUIET_MS, 1, false);
        let then = vec![pool(1, &json!({})), lost];
        let mut plan = plan("polls answer 404", (3, 1), then, QUIET_MS + 5 * MINUTE_MS);
        let always = (0, QUIET_MS + 4 * MINUTE_MS);
        plan.weather.push(weather(always, text("poll "), Fault::Refuse { status, retry_after_s: None }));
        plan.weather.push(weather(always, text("assign "), Fault::ActionTakes { ms: 20_000 }));
        let (outcome, calls) = told(&plan);
        assert_eq!(assigns(&outcome), 2, "{status}: one for each holder");
        assert_eq!(count(&calls, "assign ", (QUIET_MS, plan.end_ms)), 1, "{status}");
        let reads = count(&calls, "get 192.0.2.1", (QUIET_MS, QUIET_MS + 30_000));
        assert!((4..=9).contains(&reads), "{status}: {reads} reads in the 20 s of the action");
    }
}

#[test]
fn lists_that_contradict_their_total_for_ten_minutes_show_places_and_buy_nothing() {
    let odd = (QUIET_MS, QUIET_MS + 10 * MINUTE_MS);
    let more = Act::Edit {
        kind: "FloatingIPPool".to_owned(),
        name: "pool".to_owned(),
        spec: json!({ "desiredIPs": 3 }),
    };
    let then = vec![
        pool(2, &json!({})),
        ready(odd.0 + MINUTE_MS, 1, false),
        at(odd.0 + 2 * MINUTE_MS, more),
        ready(odd.0 + 3 * MINUTE_MS, 1, true),
    ];
    let mut plan = plan("lists contradict their total", (4, 2), then, odd.1 + 2 * MINUTE_MS);
    plan.staleness_ms = 10 * MINUTE_MS;
    plan.weather.push(weather(odd, text("list addresses"), Fault::Odd(Oddity::WrongTotal)));
    let (_, calls) = told(&plan);
    let moved = first(&calls, "assign ", odd.0 + MINUTE_MS);
    assert!(moved < odd.0 + MINUTE_MS + 1_000, "the address moves at once: {moved}");
    assert_eq!(count(&calls, "create an address", odd), 0, "nothing is bought meanwhile");
    assert_eq!(count(&calls, "create an address", (odd.1, plan.end_ms)), 1, "and once afterwards");
}

#[test]
fn an_action_that_takes_an_hour_is_polled_ever_less_often_told_after_five_minutes_and_holds_up_no_other() {
    let (lost_ms, other_ms) = (QUIET_MS, QUIET_MS + 2 * MINUTE_MS);
    let then = vec![
        pool(2, &json!({ "dnsRecordSet": null })),
        ready(lost_ms, 1, false),
        ready(other_ms, 2, false),
        ready(other_ms + MINUTE_MS, 2, true),
    ];
    let mut plan = plan("an action takes an hour", (4, 2), then, QUIET_MS + 2 * HOUR_MS);
    let stuck = text("assign 192.0.2.1 ");
    plan.weather.push(weather((lost_ms, lost_ms + 1_000), stuck, Fault::ActionTakes { ms: HOUR_MS }));
    let (outcome, calls) = told(&plan);
    let begun = first(&calls, "assign 192.0.2.1 ", lost_ms);
    assert_eq!(count(&calls, "assign 192.0.2.1 ", (lost_ms, plan.end_ms)), 1, "it is never repeated");
    assert!(first(&calls, "assign 192.0.2.2 ", other_ms) < other_ms + 1_000);
    assert_eq!(assigns(&outcome), 4);
    let polls = |from_s: u64, to_s: u64| {
        let span = (begun + from_s * 1_000, begun + to_s * 1_000);
        count(&calls, "poll 192.0.2.1", span) + count(&calls, "get 192.0.2.1", span)
    };
    let (at_first, later, stalled) = (polls(0, 10), polls(10, 290), polls(360, 3_560));
    assert!((11..=15).contains(&at_first) && (40..=60).contains(&later) && (40..=120).contains(&stalled));
    let told = |from_s: u64, to_s: u64| {
        count(&calls, "PUT floatingippools", (begun + from_s * 1_000, begun + to_s * 1_000))
    };
    assert_eq!((told(200, 299), told(365, 3_500)), (0, 0), "told once");
    assert!((1..=2).contains(&told(300, 365)), "{} writes of the status", told(300, 365));
}

#[test]
fn actions_that_fail_for_ten_minutes_are_tried_by_the_schedule_on_other_nodes_first_and_told() {
    let failing = (QUIET_MS, QUIET_MS + 10 * MINUTE_MS);
    let then = vec![pool(2, &json!({})), ready(QUIET_MS, 1, false)];
    let mut plan = plan("actions fail for ten minutes", (4, 2), then, failing.1);
    plan.weather.push(weather(failing, text("assign 192.0.2.1 "), Fault::ActionFails));
    let (outcome, calls) = told(&plan);
    let tries: Vec<(u64, &str)> = calls
        .iter()
        .filter_map(|(at_ms, what)| {
            let droplet = what.strip_prefix("assign 192.0.2.1 to ")?.split(' ').next()?;
            (*at_ms >= failing.0).then_some((*at_ms, droplet))
        })
        .collect();
    let schedule_s = [1, 1, 5, 5, 10, 10, 10, 60, 60, 60, 60, 60, 300];
    assert_eq!(tries.len(), schedule_s.len() + 1, "{tries:?}");
    for (tries, wait_s) in tries.windows(2).zip(schedule_s) {
        let [(before_ms, failed), (after_ms, next)] = tries else { unreachable!() };
        // This includes jitter and the failed action itself.
        let wait_ms = wait_s * 1_000..=wait_s * 1_100 + 1_500;
        assert!(wait_ms.contains(&(after_ms - before_ms)), "{wait_s} s: {tries:?}");
        assert_ne!(failed, next, "the next try goes to the other node");
    }
    assert!(outcome.story.contains("Event AssignmentFailed"), "{}", outcome.story);
}

#[test]
fn a_token_that_is_told_to_wait_is_silent_for_as_long_and_others_go_on() {
    // The rest of an hour's quota.
    let wait_ms = 40 * MINUTE_MS;
    let lost = ready(QUIET_MS + 5 * MINUTE_MS, 1, false);
    let end_ms = QUIET_MS + HOUR_MS;
    let then = vec![pool(2, &json!({})), node_set(), lost];
    let mut plan = plan("the quota of an hour is used up", (3, 2), then, end_ms);
    let fault = Fault::Refuse { status: 429, retry_after_s: Some(wait_ms / 1_000) };
    plan.weather.push(weather((QUIET_MS, QUIET_MS + 2 * MINUTE_MS), calls_of(Provider::DigitalOcean), fault));
    let (outcome, calls) = told(&plan);
    let told_at = first(&calls, "list addresses", QUIET_MS);
    assert_eq!(count(&calls, "addresses", (told_at + 1, told_at + wait_ms)), 0);
    let moved_at = first(&calls, "assign", QUIET_MS);
    assert!((told_at + wait_ms..told_at + wait_ms + 10_000).contains(&moved_at), "{told_at}, {moved_at}");
    // The node's own address left its name at Cloudflare at once.
    let lost_ms = QUIET_MS + 5 * MINUTE_MS;
    assert!(count(&calls, "BatchRecords", (lost_ms, lost_ms + 2_000)) == 1);
    assert_eq!(assigns(&outcome), 3);
}

#[test]
fn however_many_addresses_wait_a_token_that_lacks_a_scope_is_tried_once_a_minute() {
    let (from_ms, for_ms) = (QUIET_MS + MINUTE_MS, 10 * MINUTE_MS);
    let narrow = Act::NarrowToken { without: "reserved_ip:update".to_owned(), for_ms };
    let mut then = vec![pool(4, &json!({})), at(QUIET_MS, narrow)];
    then.extend((1..=4).map(|number| ready(from_ms, number, false)));
    let plan = plan("the token may assign no more", (8, 4), then, QUIET_MS + 20 * MINUTE_MS);
    let (outcome, calls) = told(&plan);
    // After the first tries, one address is tried each minute.
    let tried = count(&calls, "assign 192", (from_ms + 1, QUIET_MS + for_ms));
    assert!((7..=9).contains(&tried), "{tried} times in nine minutes");
    assert_eq!(assigns(&outcome), 8);
}

#[test]
fn a_change_of_records_that_is_refused_for_an_hour_is_tried_ever_less_often() {
    let lost_ms = QUIET_MS + MINUTE_MS;
    let then = vec![pool(2, &json!({})), node_set(), ready(lost_ms, 1, false)];
    let mut plan = plan("Cloudflare refuses a change", (3, 2), then, lost_ms + HOUR_MS + MINUTE_MS);
    let fault = Fault::Refuse { status: 400, retry_after_s: None };
    plan.weather.push(weather((QUIET_MS, lost_ms + HOUR_MS), text("BatchRecords"), fault));
    let (_, calls) = told(&plan);
    let tried = count(&calls, "BatchRecords", (lost_ms, lost_ms + HOUR_MS));
    assert!((3..=30).contains(&tried), "{tried} times in an hour");
}

#[test]
fn cloudflares_block_of_five_minutes_is_kept_to_and_holds_up_no_address() {
    let lost_ms = QUIET_MS + MINUTE_MS;
    let then = vec![pool(2, &json!({ "dnsRecordSet": null })), node_set(), ready(lost_ms, 1, false)];
    let mut plan = plan("Cloudflare blocks the token", (3, 2), then, QUIET_MS + 20 * MINUTE_MS);
    let fault = Fault::Refuse { status: 429, retry_after_s: Some(300) };
    plan.weather.push(weather((QUIET_MS, lost_ms + MINUTE_MS), calls_of(Provider::Cloudflare), fault));
    let (_, calls) = told(&plan);
    let refused_at = first(&calls, "Record", lost_ms);
    let next_at = first(&calls, "Record", refused_at + 1);
    assert!((300_000..330_000).contains(&(next_at - refused_at)), "{} ms", next_at - refused_at);
    let moved_at = first(&calls, "assign", lost_ms);
    assert!(moved_at < lost_ms + 1_000, "the other token is not held up: {} ms", moved_at - lost_ms);
}

#[test]
fn dns_that_is_down_for_an_hour_holds_up_no_address_and_catches_up_with_one_round() {
    for fault in [Fault::HangBefore, Fault::Refuse { status: 500, retry_after_s: None }] {
        let losses: Vec<u64> = (0..4).map(|number| QUIET_MS + 10 * MINUTE_MS * (number + 1)).collect();
        let mut then = vec![pool(2, &json!({}))];
        for (number, lost_ms) in (1..).zip(&losses) {
            then.extend([ready(*lost_ms, number, false), ready(lost_ms + 5 * MINUTE_MS, number, true)]);
        }
        let down = (QUIET_MS, QUIET_MS + HOUR_MS);
        let mut plan = plan("DNS is down for an hour", (4, 2), then, down.1 + 10 * MINUTE_MS);
        plan.weather.push(weather(down, text("Record"), fault.clone()));
        let (outcome, calls) = told(&plan);
        let moves = assigns(&outcome) - 2;
        assert!(moves >= 2, "{fault:?}: {moves} moves");
        let late: Vec<u64> = losses
            .iter()
            .filter(|lost_ms| count(&calls, "assign", (**lost_ms, **lost_ms + MINUTE_MS)) > 0)
            .map(|lost_ms| first(&calls, "assign", *lost_ms) - lost_ms)
            .collect();
        assert!(late.len() == moves && late.iter().all(|late| *late < 1_000), "{fault:?}: {late:?}");
        // One read every 5 s tests whether DNS answers again.
        let (calls_of_dns, tests) = (count(&calls, "Record", down), 60 * 60 / 5);
        assert!(calls_of_dns < 100 + tests, "{fault:?}: {calls_of_dns} calls");
        // In the end the name differs by at most two addresses from its state an hour before.
        let after = (down.1, plan.end_ms);
        let changes = ["CreateRecord", "PutRecord", "PatchRecord", "DeleteRecord"];
        let changes: usize = changes.iter().map(|kind| count(&calls, kind, after)).sum();
        assert!(changes <= 4, "{fault:?}: {changes} changes");
    }
}

#[test]
fn addresses_that_cannot_be_moved_for_an_hour_hold_up_no_names() {
    let down = (QUIET_MS, QUIET_MS + HOUR_MS);
    let lost_ms = QUIET_MS + 10 * MINUTE_MS;
    let then = vec![
        pool(2, &json!({})),
        node_set(),
        ready(lost_ms, 1, false),
        ready(lost_ms + 10 * MINUTE_MS, 1, true),
    ];
    let mut plan = plan("addresses cannot be moved for an hour", (3, 2), then, down.1 + 10 * MINUTE_MS);
    for what in ["address", "assign", "poll", "get "] {
        plan.weather.push(weather(down, text(what), Fault::Refuse { status: 500, retry_after_s: None }));
    }
    let (_, calls) = told(&plan);
    for changed_ms in [lost_ms, lost_ms + 10 * MINUTE_MS] {
        assert_eq!(count(&calls, "BatchRecords", (changed_ms, changed_ms + 3_000)), 1);
    }
}

#[test]
fn a_thousand_nodes_that_fail_at_once_and_come_back_cost_nothing() {
    const NODES: u64 = 1_000;
    let back_ms = QUIET_MS + 10 * MINUTE_MS;
    // The holders of addresses come first by name. They fail last and come back first, so no state in between needs a
    // move.
    let down = (1..=NODES).rev().map(|number| ready(QUIET_MS, number, false));
    let up = (1..=NODES).map(|number| ready(back_ms, number, true));
    let quiet = |then: Vec<Step>| {
        let mut begin = vec![pool(5, &json!({}))];
        begin.extend(then);
        plan("a thousand nodes fail at once", (NODES, 5), begin, back_ms + MINUTE_MS)
    };
    let undisturbed = good(&quiet(Vec::new()));
    let disturbed = good(&quiet(down.chain(up).collect()));
    assert_eq!((assigns(&undisturbed), assigns(&disturbed), disturbed.tally.unassigns), (5, 5, 0));
    assert_eq!(undisturbed.tally.records, disturbed.tally.records, "nothing may leave the name");
    let more = disturbed.tally.writes - undisturbed.tally.writes;
    assert!(more <= 4 * 5, "{more} writes");
}

#[test]
fn a_hundred_nodes_that_flap_for_an_hour_bring_twenty_events_of_each_reason() {
    const NODES: u64 = 100;
    // `MatchLost`, `Assigned`, `RecordsChanged`, and the reason of `Ready`.
    const REASONS: usize = 4;
    let mut then = vec![pool(3, &json!({}))];
    for number in 1..=NODES {
        // The addresses move among the first few nodes, which come first by name. They flap faster than the others.
        let few = number <= 6;
        let pause_ms = if few { 2 * MINUTE_MS + 7_000 * number } else { 25 * MINUTE_MS - 7_000 * number };
        let (mut at_ms, mut up) = (QUIET_MS + 17 * number, true);
        while at_ms < QUIET_MS + HOUR_MS {
            at_ms += pause_ms;
            up = !up;
            then.push(ready(at_ms, number, up));
        }
    }
    let end_ms = QUIET_MS + HOUR_MS + 10 * MINUTE_MS;
    then.extend((1..=NODES).map(|number| ready(end_ms - 1_000, number, true)));
    let outcome = good(&plan("a hundred nodes flap for an hour", (NODES, 3), then, end_ms));
    // Without a bound each move would bring three Events: the lost match, the assignment, and the changed record.
    assert!(assigns(&outcome) > 30, "{} moves", assigns(&outcome));
    assert!(outcome.tally.events <= REASONS * (20 + 20), "{} Events", outcome.tally.events);
}

#[test]
fn a_status_that_is_wiped_again_and_again_buys_nothing() {
    let wipes = (1..=6_u64)
        .map(|number| at(QUIET_MS * number + 777 * number, Act::WipeStatus { name: "pool".into() }));
    let mut then = vec![pool(0, &json!({ "desiredIPs": 3 }))];
    then.extend(wipes);
    let outcome = good(&plan("a status is wiped again and again", (4, 0), then, 8 * MINUTE_MS));
    assert_eq!((outcome.tally.creates, assigns(&outcome)), (3, 3));
}

/// A large object of somebody else: its kind, its spec, and a change of that spec.
fn stranger(number: u64) -> (&'static str, Value, fn(u64) -> Value) {
    let pool = |spec: Value| {
        let change: fn(u64) -> Value = |round| json!({ "minActive": 1 + round % 2 });
        ("FloatingIPPool", spec, change)
    };
    let set = |matching: Value, zone: String| {
        let record_set =
            json!({ "provider": "digitalocean", "zone": zone, "recordName": format!("of-{number}") });
        let spec = json!({ "match": matching, "dnsRecordSet": record_set });
        let change: fn(u64) -> Value = |round| json!({ "dnsRecordSet": { "ttl": 60 + round % 2 } });
        ("NodeDNSRecordSet", spec, change)
    };
    let few = json!({ "nodeLabel": "role=strange" });
    let tolerant = json!({ "nodeLabel": "role=strange", "tolerations": vec![json!({}); 1_500] });
    let long = json!({ "nodeLabel": format!("role in ({})", vec!["strange"; 1_500].join(",")) });
    match (number % 40, number % 3) {
        (0, _) => pool(json!({ "provider": "digitalocean", "ips": vec!["bad"; 1_500], "match": few })),
        (1, _) => pool(json!({ "provider": "digitalocean", "match": tolerant })),
        (2, _) => set(tolerant, "example.com".to_owned()),
        (_, 0) => pool(json!({ "provider": "digitalocean", "match": long })),
        (_, 1) => pool(json!({ "provider": "x".repeat(1_500), "match": few })),
        _ => set(few, "x".repeat(1_500)),
    }
}

#[test]
fn two_hundred_large_objects_that_are_rewritten_each_second_hold_up_no_failover() {
    const ROUNDS: u64 = 8;
    let lost_ms = QUIET_MS + ROUNDS / 2 * 1_000 + 500;
    let took_ms = [0, 200].map(|strangers| {
        let mut then = vec![pool(1, &json!({})), ready(lost_ms, 1, false)];
        for number in 0..strangers {
            let (kind, spec, change) = stranger(number);
            let name = format!("stranger-{number}");
            then.push(create(kind, &name, spec));
            then.extend((0..ROUNDS).map(|round| {
                let (kind, name, spec) = (kind.to_owned(), name.clone(), change(round));
                at(QUIET_MS + 1_000 * round + 5 * number, Act::Edit { kind, name, spec })
            }));
        }
        let name = format!("{strangers} large objects of others");
        let (outcome, calls) = told(&plan(&name, (3, 1), then, lost_ms + 2 * MINUTE_MS));
        assert_eq!(assigns(&outcome), 2, "{name}");
        first(&calls, "assign ", lost_ms) - lost_ms
    });
    assert!(took_ms.iter().all(|took_ms| *took_ms < 1_000), "{took_ms:?}");
}
