//! Record sets under faults: lost replies, lagging lists, refusals, aliases, missing permits.

use crate::dns::pool;
use crate::faults::fault;
use crate::world::{PROVIDER, World, ip};
use crate::zones::{CLOUDFLARE, DnsTrick, record_set, set_spec};
use flipop_core::fleet::Input;
use flipop_core::model::FaultKind;
use flipop_core::model::spec::RawRecordSet;

const WWW: &str = "www.example.com";

#[test]
fn every_kind_of_failed_write_is_repaired_without_duplicates() {
    let kinds = [
        FaultKind::Transient,
        FaultKind::Throttled,
        FaultKind::InProgress,
        FaultKind::Invalid,
        FaultKind::NotFound,
        FaultKind::Permanent,
        FaultKind::Quota,
        FaultKind::Unauthorized,
    ];
    let refused = kinds.into_iter().flat_map(|kind| (0..4).map(move |done| DnsTrick::Refused(done, kind)));
    for trick in refused.chain((0..6).map(DnsTrick::Lost)).chain([DnsTrick::NotSent]) {
        let mut world = World::with_set(5);
        world.run_until(world.now.plus_millis(200));
        world.dns.tricks.push_back(trick);
        world.run(100);
        assert_eq!(world.published(WWW), [1, 2, 3, 4, 5], "{trick:?}");
        assert_eq!(
            (world.set_status("set").state.as_str(), world.set_status("set").error.as_str()),
            ("active", "")
        );
        assert!(world.dns.emptied.is_empty());
    }
}

#[test]
fn after_a_lost_reply_two_reads_five_seconds_apart_come_before_any_write() {
    let mut world = World::with_set(3);
    world.run_until(world.now.plus_millis(200));
    world.dns.tricks.push_back(DnsTrick::Lost(3));
    // The provider's lists are three seconds behind.
    world.dns.lag_ms = 3_000;
    world.run(60);
    assert_eq!(world.published(WWW), [1, 2, 3], "no duplicates");
    assert_eq!((world.dns.applies.len(), world.dns.reads), (1, 4), "and one when lists have caught up");
}

#[test]
fn a_list_that_lags_does_not_make_an_own_write_be_done_again() {
    let mut world = World::with_set(3);
    world.dns.lag_ms = 20_000;
    world.run(5);
    for n in 4..=8 {
        world.set_node(n, true);
        world.run(3);
    }
    assert_eq!((world.published(WWW), world.dns.reads), ((1..=8).collect(), 1));
    // The next look at the name falls right after a write.
    world.run(572);
    world.set_node(9, true);
    world.run(60);
    assert_eq!(world.published(WWW), (1..=9).collect::<Vec<_>>());
    assert_eq!(world.dns.changes, 9);
}

#[test]
fn a_reply_that_is_lost_while_addresses_leave_never_empties_the_set() {
    for done in 0..4 {
        let mut world = World::with_set(4);
        world.run(10);
        world.dns.tricks.push_back(DnsTrick::Lost(done));
        (1..=3).for_each(|n| world.set_node(n, false));
        (5..=6).for_each(|n| world.set_node(n, true));
        world.run(100);
        assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![4, 5, 6], 0));
    }
}

#[test]
fn a_crash_during_a_write_is_repaired_at_the_next_start() {
    for done in 0..4 {
        let mut world = pool(4, 4);
        world.run(20);
        world.dns.tricks.push_back(DnsTrick::Lost(done));
        world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
        world.run(580);
        world.set_node(1, false);
        world.run_until(world.now.plus_millis(10));
        let changes = world.dns.changes;
        world.start();
        world.run(60);
        assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![2, 3, 4], 0), "{done}");
        assert!(world.dns.changes - changes <= 2, "{done}: no record is made twice");
    }
}

#[test]
fn an_alias_blocks_with_a_condition_and_no_write_until_it_is_gone() {
    let mut world = World::with_set(1);
    world.add_record_set("blocked", set_spec("alias"));
    let id = world.dns.add(PROVIDER, "example.com", "alias.example.com", "CNAME", "elsewhere.org");
    world.run(300);
    let status = world.set_status("blocked");
    assert!(status.state == "error" && status.error.contains("CNAME"), "{status:?}");
    assert!(status.error.contains("elsewhere.org"));
    assert_eq!((world.dns.applies.len(), world.published(WWW)), (1, vec![1]));
    assert!(world.dns.reads <= 4, "{} reads", world.dns.reads);
    let warned: Vec<&str> =
        world.events.iter().filter(|notice| notice.warning).map(|notice| notice.reason.as_str()).collect();
    assert_eq!(warned, ["CNAME", "NotReady"], "one at once, and one because it lasts");
    let key = (PROVIDER.to_owned(), "example.com".to_owned());
    world.dns.records.get_mut(&key).unwrap().retain(|(_, record)| record.id != id);
    world.run(700);
    assert_eq!(world.published("alias.example.com"), [1]);
    assert_eq!((world.set_status("blocked").state.as_str(), world.has("blocked", "Ready")), ("active", true));
}

#[test]
fn while_the_provider_is_down_addresses_move_on_and_dns_catches_up_in_one_round() {
    let mut world = pool(3, 4);
    world.run(20);
    let applies = world.dns.applies.len();
    world.dns.read_fault = Some(FaultKind::Transient);
    world.dns.tricks.extend([DnsTrick::Refused(0, FaultKind::Transient); 1]);
    world.set_node(1, false);
    world.run(10);
    assert_eq!(world.holder(4), Some(ip(1)), "addresses do not wait for DNS");
    world.set_node(2, false);
    world.run(3_600);
    let reads = world.dns.reads;
    assert!(reads < 40, "{reads} reads in an hour");
    assert!(
        world.status("pool").conditions.iter().any(|c| c.kind == "RecordSetReady" && c.reason == "Transient")
    );
    world.dns.read_fault = None;
    world.run(400);
    assert_eq!(world.published(WWW), [1, 3]);
    assert_eq!(world.dns.applies.len(), applies + 2);
    // Neither do they wait for a token that may not change records.
    world.dns.tricks.extend([DnsTrick::Refused(0, FaultKind::Unauthorized); 9]);
    world.set_node(1, true);
    world.run(10);
    assert_eq!((world.holder(1), world.published(WWW)), (Some(ip(2)), vec![1, 3]));
    world.set_node(4, false);
    world.set_node(2, true);
    world.run(10);
    assert_eq!(world.holder(2), Some(ip(1)));
}

#[test]
fn a_zone_that_the_account_does_not_have_is_asked_for_ever_more_slowly_and_found_when_it_comes() {
    for provider in [PROVIDER, CLOUDFLARE] {
        let mut world = World::with_set(1);
        world.edit_set("set", |spec| {
            spec.provider = provider.into();
            spec.record_set.as_mut().unwrap().zone = "absent.org".into();
        });
        world.run(1_200);
        let calls = world.dns.lookups + world.dns.reads;
        assert!((2..=5).contains(&calls), "{provider}: {calls}");
        let error = &world.set_status("set").error;
        assert!(error.contains("spec.dnsRecordSet.zone") && error.contains("absent.org"), "{error}");
    }
}

#[test]
fn a_refused_token_is_tried_once_a_minute_for_all_its_sets_together() {
    let mut world = World::with_set(1);
    for n in 0..10 {
        world.add_record_set(&format!("set-{n}"), set_spec(&format!("n{n}")));
    }
    world.dns.read_fault = Some(FaultKind::Unauthorized);
    world.run(5);
    let first = world.dns.reads;
    assert!(first <= 11);
    world.run(600);
    assert!(world.dns.reads - first <= 11, "{} reads in ten minutes", world.dns.reads - first);
    let error = &world.set_status("set-3").error;
    assert!(error.contains("the zone example.com (spec.dnsRecordSet.zone)"), "{error}");
    world.dns.read_fault = None;
    world.run(70);
    assert!((0..10).all(|n| world.set_status(&format!("set-{n}")).state == "active"));
    world.dns.read_fault = Some(FaultKind::Unauthorized);
    world.run(700);
    world.dns.read_fault = None;
    world.observe(Input::TokenChanged(PROVIDER.into()));
    world.run(2);
    assert!((0..10).all(|n| world.set_status(&format!("set-{n}")).state == "active"));
}

#[test]
fn without_a_permit_names_are_read_but_not_written() {
    let mut world = World::with_set(2);
    world.observe(Input::Permit(false));
    world.run(60);
    assert_eq!((world.dns.reads, world.dns.applies.len(), world.status_writes), (1, 0, 0));
    world.observe(Input::Permit(true));
    world.run(1);
    assert_eq!(world.published(WWW), [1, 2]);
}

#[test]
fn what_was_not_sent_of_a_round_follows_without_a_read() {
    for done in 1..5 {
        let mut world = World::with_set(5);
        world.run_until(world.now.plus_millis(200));
        world.dns.tricks.push_back(DnsTrick::Stopped(done));
        world.run(3);
        assert_eq!(world.published(WWW), [1, 2, 3, 4, 5], "{done}");
        assert_eq!((world.dns.reads, world.dns.applies.len(), world.dns.changes), (1, 2, 5), "{done}");
        world.dns.tricks.push_back(DnsTrick::Stopped(done));
        (1..=3).for_each(|n| world.set_node(n, false));
        world.set_node(6, true);
        world.run(3);
        assert_eq!((world.published(WWW), world.dns.reads), (vec![4, 5, 6], 1), "{done}");
        assert!(world.dns.emptied.is_empty());
    }
}

#[test]
fn a_draining_process_starts_nothing() {
    let mut world = World::with_set(2);
    world.run(5);
    world.set_node(3, true);
    world.observe(Input::Draining);
    let (reads, applies) = (world.dns.reads, world.dns.applies.len());
    world.run(1_000);
    assert_eq!((world.dns.reads, world.dns.applies.len()), (reads, applies));
}

#[test]
fn a_new_term_of_leadership_reads_again_before_it_writes() {
    let mut world = World::with_set(2);
    world.run(5);
    // Somebody else led meanwhile and wrote something.
    world.dns.add(PROVIDER, "example.com", WWW, "A", "198.51.100.9");
    world.lead_again();
    world.run(10);
    assert_eq!((world.published(WWW), world.dns.reads), (vec![1, 2], 3));
}

#[test]
fn a_name_is_not_emptied_by_a_leader_whose_first_look_shows_the_time_before_its_predecessors_last_change() {
    let mut world = World::with_set(3);
    world.run(60);
    world.dns.lag_ms = 5_000;
    world.set_node(1, false);
    world.run(2);
    assert_eq!(world.published(WWW), [2, 3]);
    // The only record that should stay is the one that was just deleted.
    world.set_node(1, true);
    world.set_node(2, false);
    world.set_node(3, false);
    world.start();
    world.run(15);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![1], 0));
    // A record that the list does not show at all is found soon.
    world.set_node(2, true);
    world.run(1);
    world.set_node(2, false);
    world.start();
    world.run(60);
    assert_eq!((world.published(WWW), world.dns.emptied.len()), (vec![1], 0));
}

#[test]
fn a_set_without_nodes_is_deleted_whole_although_the_first_look_shows_only_a_part_of_it() {
    for shown in [1, 0] {
        let mut world = World::with_set(shown);
        world.run(60);
        world.dns.lag_ms = 3_000;
        world.set_node(2, true);
        world.run(1);
        (1..=2).for_each(|n| world.set_node(n, false));
        world.start();
        world.run(660);
        assert_eq!(world.published(WWW), [0; 0], "{shown} of them");
        assert_eq!(world.set_status("set").conditions[0].reason, "NoMatchingNode");
    }
}

#[test]
fn what_the_first_look_did_not_show_yet_goes_although_all_that_it_showed_was_written_since() {
    let mut world = World::with_set(0);
    world.run(60);
    world.dns.lag_ms = 3_000;
    world.set_node(1, true);
    world.run(1);
    world.set_node(1, false);
    world.set_node(2, true);
    world.start();
    world.run(2);
    assert_eq!(world.published(WWW), [1, 2], "the new leader does not know the former one's records yet");
    world.run(30);
    assert_eq!(world.published(WWW), [2]);
}

#[test]
fn a_change_of_what_is_wanted_is_tried_at_once_and_the_rest_waits_for_its_time() {
    let mut world = World::with_set(2);
    world.run_until(world.now.plus_millis(200));
    world.dns.tricks.push_back(DnsTrick::Refused(0, FaultKind::Invalid));
    world.run(20);
    assert_eq!(world.dns.applies.len(), 1, "not due yet");
    assert_eq!(world.set_status("set").state, "error");
    let before = world.now;
    world.set_node(3, true);
    world.run(5);
    assert_eq!(world.published(WWW), [1, 2, 3]);
    assert!(world.dns.applies.last().unwrap().millis_since(before) < 1_000);
}

#[test]
fn many_records_keep_to_the_budget_and_leave_room_for_assignments() {
    let mut world = World::with_set(0);
    world.run(5);
    (1..=250).for_each(|n| world.set_node(n, true));
    world.run(30);
    let sent = world.dns.changes + world.dns.reads;
    assert!(sent <= 192, "{sent} requests within the window");
    assert_eq!(world.set_status("set").state, "in-progress");
    world.run(60);
    assert_eq!(world.published(WWW).len(), 250);
    assert_eq!(world.set_status("set").state, "active");
    assert!(world.dns.applies.len() >= 250 / 25);
}

#[test]
fn with_the_go_operators_crds_the_state_is_kept_and_nothing_is_written_over_and_over() {
    let mut world = World::with_set(1);
    world.go_crds = true;
    world.run(20);
    assert_eq!((world.published(WWW), world.set_status("set").state.as_str()), (vec![1], "active"));
    let writes = world.status_writes;
    assert!(writes <= 2, "{writes}");
    world.run(3_600);
    assert!(world.status_writes <= writes + 9, "{}", world.status_writes);
    world.go_crds = false;
    world.run(700);
    assert_eq!(world.set_status("set").fqdn, WWW);
}

#[test]
fn a_set_whose_nodes_cannot_be_watched_says_so() {
    let mut world = World::with_set(1);
    world.run(5);
    let trouble =
        |message: Option<&str>| Input::WatchTrouble(crate::faults::nodes_key(), message.map(str::to_owned));
    world.observe(trouble(Some("nodes is forbidden")));
    world.run(5);
    assert_eq!(world.message("set", "WatchFailing"), Some("nodes is forbidden"));
    world.observe(trouble(None));
    world.run(5);
    assert_eq!(world.message("set", "WatchFailing"), None);
}

/// A set at Cloudflare whose records are right, in a zone that is given by name.
fn at_cloudflare() -> World {
    let mut world = World::with_set(2);
    world.edit_set("set", |spec| spec.provider = CLOUDFLARE.into());
    world.run(60);
    assert_eq!(world.dns.addresses(CLOUDFLARE, WWW).len(), 2);
    world
}

#[test]
fn a_zone_that_was_made_anew_under_its_name_is_found_by_itself() {
    // The change of the zone shows when records are read, and when they are written.
    for (write, within) in [(false, 700), (true, 200)] {
        let mut world = at_cloudflare();
        world.dns.renew_zone("0123456789abcdef0123456789abcdef");
        if write {
            world.set_node(3, true);
        }
        world.run(within);
        assert_eq!(world.dns.addresses(CLOUDFLARE, WWW).len(), 2 + usize::from(write), "{write}");
        assert_eq!(world.set_status("set").state, "active", "{write}");
        assert_eq!(world.dns.lookups, 2, "{write}");
    }
}

#[test]
fn a_zone_that_went_away_is_told_and_found_when_it_comes_again() {
    let mut world = at_cloudflare();
    world.dns.drop_zone();
    world.run(800);
    let status = world.set_status("set");
    assert!(status.error.contains("spec.dnsRecordSet.zone example.com: NotFound"), "{}", status.error);
    assert!((2..=4).contains(&world.dns.lookups), "{}", world.dns.lookups);
    world.dns.renew_zone("0123456789abcdef0123456789abcdef");
    world.run(700);
    assert_eq!(
        (world.dns.addresses(CLOUDFLARE, WWW).len(), world.set_status("set").state.as_str()),
        (2, "active")
    );
}

#[test]
fn another_token_looks_a_zone_up_again_and_its_records_stay_known_meanwhile() {
    let mut world = at_cloudflare();
    let reads = world.dns.reads;
    world.observe(Input::TokenChanged(CLOUDFLARE.into()));
    world.run(5);
    assert_eq!((world.dns.lookups, world.dns.reads), (2, reads), "it is the same zone");
    world.dns.renew_zone("0123456789abcdef0123456789abcdef");
    world.observe(Input::TokenChanged(CLOUDFLARE.into()));
    world.run(5);
    assert_eq!((world.dns.lookups, world.dns.addresses(CLOUDFLARE, WWW).len()), (3, 2));
    assert_eq!(world.set_status("set").state, "active");
}

#[test]
fn a_zone_that_refuses_the_token_costs_one_call_a_minute_lookups_included() {
    let mut world = at_cloudflare();
    world.dns.read_fault = Some(FaultKind::Unauthorized);
    world.run(1_200);
    let from = world.dns.reads + world.dns.lookups;
    world.run(1_200);
    let calls = world.dns.reads + world.dns.lookups - from;
    assert!((15..=20).contains(&calls), "{calls} calls in 20 minutes");
    assert!(world.set_status("set").error.contains("the zone example.com (spec.dnsRecordSet.zone)"));
    world.dns.read_fault = None;
    world.run(140);
    assert_eq!(world.set_status("set").state, "active");
}

#[test]
fn a_full_name_outside_of_a_zone_whose_name_only_showed_is_an_error_of_the_spec_and_is_never_completed() {
    let mut world = World::with_set(2);
    let hidden = |name: &str| {
        let place = record_set(name);
        Some(RawRecordSet { provider: CLOUDFLARE.into(), zone: "hidden".into(), ..place })
    };
    world.run(5);
    let applies = world.dns.applies.len();
    world.dns.tricks.push_back(DnsTrick::Refused(0, FaultKind::Invalid));
    world.dns.name_shows_later("hidden", "hidden.org");
    world.edit_set("set", |spec| spec.record_set = hidden("www.example.com"));
    world.run(5);
    let status = world.set_status("set").clone();
    for text in ["spec.dnsRecordSet.recordName", "www.example.com", "zone hidden.org", "Zone > Zone > Read"] {
        assert!(status.error.contains(text), "{text}: {}", status.error);
    }
    let reason = |kind: &str| status.conditions.iter().find(|c| c.kind == kind).map(|c| c.reason.as_str());
    assert_eq!((reason("Ready"), reason("SpecValid")), (Some("InvalidSpec"), Some("RecordSetIgnored")));
    world.run(7_200);
    assert_eq!(world.dns.applies.len(), applies + 1, "nothing more was sent");
    assert!(world.dns.addresses(CLOUDFLARE, "www.example.com.hidden.org").is_empty());
    for name in ["www", "www.hidden.org"] {
        world.edit_set("set", |spec| spec.record_set = hidden(name));
        world.run(5);
        assert_eq!(world.set_status("set").state == "active", name.contains('.'), "{name}");
    }
    assert_eq!(world.dns.addresses(CLOUDFLARE, "www.hidden.org").len(), 2);
}

#[test]
fn what_a_change_waits_for_again_and_again_is_told() {
    let mut world = World::with_set(2);
    world.run_until(world.now.plus_millis(200));
    world.dns.tricks.extend([DnsTrick::Refused(0, FaultKind::InProgress); 8]);
    world.run(30);
    let status = world.set_status("set");
    assert_eq!((status.state.as_str(), status.error.as_str()), ("in-progress", ""));
    let waits = world.message("set", "Ready").unwrap();
    assert_eq!(waits, fault(FaultKind::InProgress, false).message);
    assert!(world.events.iter().all(|notice| !notice.warning));
    world.run(300);
    assert_eq!(world.set_status("set").state, "active");
}

#[test]
fn a_write_that_another_token_overtakes_is_not_done_twice_where_lists_lag() {
    let mut world = World::with_set(1);
    world.dns.lag_ms = 4_000;
    world.dns.tricks.push_back(DnsTrick::Slow(1_000));
    world.run_while(20, |world| world.dns.applies.is_empty());
    world.observe(Input::TokenChanged(PROVIDER.into()));
    world.run(60);
    assert_eq!((world.published(WWW), world.dns.applies.len()), (vec![1], 1));
}
