//! Outages of a whole account: what waits is sent soon after the end, and the account is not overrun meanwhile.

use crate::lasting::{
    MINUTE_MS, QUIET_MS, assigns, at, calls_of, count, first, node_set, plan, pool, ready, text, told,
    weather,
};
use flipop_cloud::Provider;
use flipop_simulation::plan::{Act, Fault, Plan, Side, Weather, Which};
use serde_json::json;
use std::collections::BTreeSet;

/// From the end of an outage to the request.
const SOON_MS: u64 = 6_000;

/// The same where calls hang.
const HUNG_MS: u64 = 10_000;

const fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after_s: None }
}

/// A pool whose first node fails a second after the weather begins.
fn under(name: &str, weather: Vec<Weather>) -> Plan {
    let begins = weather.iter().map(|weather| weather.from_ms).min().unwrap();
    let over = weather.iter().map(|weather| weather.to_ms).max().unwrap();
    let lost = ready(begins + 1_000, 1, false);
    let mut plan = plan(name, (3, 2), vec![pool(2, &json!({})), lost], over);
    plan.weather = weather;
    plan
}

/// How long after the end of the plan's weather the address that waits is sent to its node.
fn waited(plan: &Plan) -> u64 {
    let (outcome, calls) = told(plan);
    assert_eq!(assigns(&outcome), 3, "{}", plan.name);
    let sent =
        calls.iter().filter(|(_, what)| what.starts_with("assign ")).map(|(at_ms, _)| *at_ms).max().unwrap();
    let waited_ms = sent.checked_sub(plan.end_ms).unwrap();
    println!("{}: the assignment is sent {waited_ms} ms after the end", plan.name);
    waited_ms
}

#[test]
fn an_assignment_is_sent_within_six_seconds_of_the_end_of_an_outage_and_within_ten_if_calls_hang() {
    let faults = [(refuse(503), SOON_MS), (Fault::ResetBefore, SOON_MS), (Fault::HangBefore, HUNG_MS)];
    for for_ms in [12_000, 33_000, MINUTE_MS, 6 * MINUTE_MS] {
        for (fault, most_ms) in faults.clone() {
            let name = format!("{fault:?} for {for_ms} ms");
            let down = (QUIET_MS, QUIET_MS + for_ms);
            let plan = under(&name, vec![weather(down, calls_of(Provider::DigitalOcean), fault)]);
            let waited_ms = waited(&plan);
            assert!(waited_ms <= most_ms, "{name}: {waited_ms} ms");
        }
    }
}

#[test]
fn an_account_that_is_out_for_six_minutes_is_tested_every_five_seconds_and_asked_little_else() {
    let down = (QUIET_MS, QUIET_MS + 6 * MINUTE_MS);
    let plan = under("six minutes", vec![weather(down, calls_of(Provider::DigitalOcean), refuse(503))]);
    let (_, calls) = told(&plan);
    assert_eq!(count(&calls, "assign ", down), 1, "its outcome is unknown");
    let gets = count(&calls, "get 192.0.2.", down);
    assert!((65..=90).contains(&gets), "{gets} reads of an address");
    let lists = count(&calls, "list addresses", down);
    assert!(lists <= 15, "{lists} lists");
}

#[test]
fn a_provider_that_flaps_is_followed_each_time_and_nothing_is_sent_twice() {
    for (down_ms, up_ms) in [(8_000, 400), (20_000, 3_000), (45_000, 12_000)] {
        let begins: Vec<u64> = (0..6).map(|n| QUIET_MS + n * (down_ms + up_ms)).collect();
        let over = |begins: u64| begins + down_ms;
        // In each outage the node that has the address fails, and another one becomes ready.
        let waits = (1..).zip(&begins).flat_map(|(number, begins)| {
            [ready(begins + 1_000, number, false), ready(begins + 1_000, number + 1, true)]
        });
        let others = (2..=7).map(|number| ready(0, number, false));
        let steps = [pool(1, &json!({}))].into_iter().chain(others).chain(waits).collect();
        let name = format!("down {down_ms} ms, up {up_ms} ms");
        let mut plan = plan(&name, (7, 1), steps, over(begins[5]));
        let down =
            |begins: &u64| weather((*begins, over(*begins)), calls_of(Provider::DigitalOcean), refuse(502));
        plan.weather = begins.iter().map(down).collect();
        let (_, calls) = told(&plan);
        for begins in &begins {
            assert!(count(&calls, "assign ", (*begins, over(*begins))) <= 1, "{name}: from {begins} ms on");
        }
        let accepted = |(at_ms, what): &&(u64, String)| {
            *at_ms > QUIET_MS && what.starts_with("assign ") && !what.contains("!!")
        };
        let accepted: Vec<&(u64, String)> = calls.iter().filter(accepted).collect();
        println!("{name}: {accepted:?}");
        for (at_ms, _) in &accepted {
            let end = begins.iter().copied().map(over).rfind(|end| end <= at_ms).unwrap();
            assert!(at_ms - end <= SOON_MS, "{name}: sent at {at_ms} ms, {} ms after an end", at_ms - end);
        }
        let targets = accepted.iter().filter_map(|(_, what)| what.split(' ').nth(3)).collect::<BTreeSet<_>>();
        assert_eq!(targets.len(), accepted.len(), "{name}: {accepted:?}");
        assert!(accepted.last().unwrap().0 >= plan.end_ms, "{name}: nothing waited at the end");
        // A return that is long enough is always used.
        assert!(up_ms < SOON_MS || accepted.len() == begins.len(), "{name}: {accepted:?}");
    }
}

#[test]
fn an_answer_that_was_lost_before_an_outage_is_settled_after_it() {
    let (begins, ends) = (QUIET_MS, QUIET_MS + MINUTE_MS);
    for lost in [Fault::ResetAfter, Fault::HangAfter, Fault::RefuseAfter { status: 504 }] {
        let weather = vec![
            weather((begins, begins + 2_000), text("assign "), lost.clone()),
            weather((begins + 2_000, ends), calls_of(Provider::DigitalOcean), refuse(503)),
        ];
        let (_, calls) = told(&under(&format!("{lost:?} before an outage"), weather));
        assert_eq!(count(&calls, "assign ", (begins, u64::MAX)), 1, "{lost:?}: it had its effect");
        let name = first(&calls, "Record", ends);
        assert!(name <= ends + HUNG_MS, "{lost:?}: the name follows {} ms after the end", name - ends);
    }
}

#[test]
fn a_throttled_token_is_left_alone_though_its_provider_is_back() {
    let (begins, back, ends) = (QUIET_MS, QUIET_MS + 40_000, QUIET_MS + 50_000);
    let provider = || calls_of(Provider::DigitalOcean);
    let throttled = Fault::Refuse { status: 429, retry_after_s: Some(30) };
    let plan = under(
        "429 after 503",
        vec![weather((begins, back), provider(), refuse(503)), weather((back, ends), provider(), throttled)],
    );
    let (_, calls) = told(&plan);
    let account = |what: &str| ["192.0.2.", "addresses", "Record"].iter().any(|part| what.contains(part));
    let mut later = calls.iter().filter(|(at_ms, what)| *at_ms >= back && account(what));
    let told_at = later.next().unwrap().0;
    let next = later.find(|(at_ms, _)| *at_ms > told_at + 1_000).unwrap().0;
    assert!(next >= told_at + 30_000, "{told_at}, {next}");
    let sent = first(&calls, "assign ", back);
    assert!(sent <= next + SOON_MS, "{next}, {sent}");
}

#[test]
fn another_leader_during_an_outage_resumes_as_soon() {
    let (begins, ends) = (QUIET_MS, QUIET_MS + 90_000);
    for act in [Act::Crash { replica: 0, restart_ms: 1_000 }, Act::Stop { replica: 0, restart_ms: 1_000 }] {
        let down = weather((begins, ends), calls_of(Provider::DigitalOcean), refuse(503));
        let mut plan = under(&format!("{act:?}"), vec![down]);
        plan.steps.push(at(begins + 30_000, act));
        plan.steps.sort_by_key(|step| step.at_ms);
        plan.staleness_ms = 30_000;
        assert!(waited(&plan) <= SOON_MS, "{}", plan.name);
    }
}

#[test]
fn records_follow_after_an_outage_of_dns_alone_and_addresses_never_wait() {
    for (provider, what) in [(None, "Record"), (Some(Provider::Cloudflare), "")] {
        for fault in [refuse(503), Fault::HangBefore] {
            let (begins, ends) = (QUIET_MS, QUIET_MS + 2 * MINUTE_MS);
            let which =
                Which { provider, side: Some(Side::Cloud), text: Some(what.to_owned()), replica: None };
            let then = vec![pool(2, &json!({})), node_set(), ready(begins + 20_000, 1, false)];
            let mut plan = plan(&format!("DNS alone: {provider:?}, {fault:?}"), (3, 2), then, ends);
            plan.weather.push(weather((begins, ends), which, fault));
            let (outcome, calls) = told(&plan);
            assert_eq!(assigns(&outcome), 3);
            let moved = first(&calls, "assign ", begins);
            assert!(moved <= begins + 21_000, "{}: {moved}", plan.name);
            let changes = ["CreateRecord", "PutRecord", "PatchRecord", "DeleteRecord", "BatchRecords"];
            let changed = changes.iter().filter(|kind| count(&calls, kind, (ends, u64::MAX)) > 0);
            let changed = changed.map(|kind| first(&calls, kind, ends)).min().unwrap();
            // After a change of unknown outcome two reads 5 s apart come first.
            assert!(changed <= ends + HUNG_MS + 6_000, "{}: {} ms", plan.name, changed - ends);
        }
    }
}
