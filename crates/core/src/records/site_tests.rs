use super::*;
use crate::model::{ObjectName, ObjectRef, Uid};
use crate::records::diff::{Target, TtlRule};

const T: fn(u64) -> Moment = Moment::from_millis;
const NOW: Moment = Moment::from_millis(0);

fn ip(last: u8) -> Address {
    Address::from([192, 0, 2, last])
}

fn wanted(addresses: &[u8]) -> Wanted {
    let target = Target::Exact(addresses.iter().map(|last| ip(*last)).collect());
    Wanted { target, undecided: BTreeSet::new(), ttl: TtlRule::Every(60) }
}

fn a(last: u8) -> Record {
    let data = ip(last).to_string();
    Record { id: last.to_string(), kind: "A".into(), data, ttl: 60, proxied: false }
}

fn fault(kind: FaultKind, outcome_unknown: bool) -> Fault {
    Fault { outcome_unknown, ..Fault::new(kind, "broken".into()) }
}

fn writer() -> Owner {
    let object = ObjectRef { uid: Uid("u".into()), name: ObjectName::new("ns", "n") };
    Owner::pool(object)
}

/// A site with one read, at time 0.
fn seen_once(addresses: &[u8]) -> Site {
    let mut site = Site::default();
    see(&mut site, addresses, 0);
    site
}

/// A site that was known before, read at time 0.
fn known(addresses: &[u8]) -> Site {
    let mut looks = Looks::default();
    looks.look(T(0), T(0), None, &[]);
    looks.trust(T(0), &[]);
    Site { looks, read_due: T(RESYNC_MS), ..seen_once(addresses) }
}

/// A read that is answered at once.
fn see(site: &mut Site, addresses: &[u8], now: u64) {
    site.reading(T(now));
    site.read(Ok(addresses.iter().map(|last| a(*last)).collect()), Context::exactly(T(now)));
}

fn next(site: &Site, addresses: &[u8], now: u64) -> Step {
    site.next(&wanted(addresses), NOW, true, T(now))
}

fn applies(step: Step) -> Vec<Change> {
    match step {
        Step::Apply(set) => set.changes,
        other @ (Step::Busy | Step::Rest(_) | Step::Wait(_) | Step::Read | Step::Reread) => {
            panic!("nothing to apply: {other:?}")
        }
    }
}

/// Sends the changes that lead to these addresses.
fn send(site: &mut Site, addresses: &[u8], now: u64) -> Vec<Change> {
    let changes = applies(next(site, addresses, now));
    site.applying(wanted(addresses), changes.clone(), 0, writer(), T(now));
    assert_eq!(next(site, addresses, now), Step::Busy);
    changes
}

fn answer(changes: &[Change]) -> Vec<Record> {
    let left = changes.iter().filter_map(|change| match change {
        Change::Update { id, ip, ttl } => Some((id.clone(), *ip, *ttl)),
        Change::Create { ip, ttl } => Some((ip.as_v4().unwrap().octets()[3].to_string(), *ip, *ttl)),
        Change::Delete { .. } => None,
    });
    let record = |(id, ip, ttl): (String, Address, u32)| Record { id, data: ip.to_string(), ttl, ..a(0) };
    left.map(record).collect()
}

#[test]
fn nothing_is_written_before_a_read_and_nothing_is_read_after_an_own_write() {
    let site = Site::default();
    assert_eq!(next(&site, &[1], 0), Step::Read);
    let mut site = known(&[]);
    let changes = send(&mut site, &[1], 10);
    assert_eq!(site.applied(Ok(answer(&changes)), Context::exactly(T(20))), Applied::Done);
    assert_eq!(next(&site, &[1], 30), Step::Rest(T(RESYNC_MS)));
    assert_eq!(next(&site, &[1], RESYNC_MS), Step::Reread);
    assert_eq!(applies(next(&site, &[1, 2], 40)).len(), 1);
}

#[test]
fn a_known_site_is_written_while_it_is_read_again_and_that_read_tells_nothing() {
    let mut site = known(&[1]);
    assert_eq!(next(&site, &[1], RESYNC_MS), Step::Reread);
    site.reading(T(RESYNC_MS));
    assert_eq!(next(&site, &[1], RESYNC_MS), Step::Busy);
    let changes = send(&mut site, &[1, 2], RESYNC_MS + 10);
    site.read(Ok(vec![a(1)]), Context::exactly(T(RESYNC_MS + 20)));
    site.applied(Ok(answer(&changes)), Context::exactly(T(RESYNC_MS + 30)));
    assert_eq!(next(&site, &[1, 2], RESYNC_MS + 40), Step::Rest(T(RESYNC_MS + 30 + LAG_MS)));
}

#[test]
fn a_failed_read_of_what_is_known_puts_off_the_next_read_only() {
    let (mut site, mut now) = (known(&[1]), RESYNC_MS);
    for wait in [1_000, 1_000, 5_000, 5_000] {
        assert_eq!(next(&site, &[1], now), Step::Reread);
        site.reading(T(now));
        site.read(Err(CallFailure::Fault(fault(FaultKind::Transient, false))), Context::exactly(T(now)));
        assert_eq!(next(&site, &[1], now), Step::Wait(T(now + wait)));
        assert_eq!(applies(next(&site, &[1, 2], now)).len(), 1);
        assert!(!site.is_right(&wanted(&[1])), "it is told");
        now += wait;
    }
    let late = Fault { retry_after_ms: Some(90_000), ..fault(FaultKind::Throttled, false) };
    site.reading(T(now));
    site.read(Err(CallFailure::Fault(late)), Context::exactly(T(now)));
    let changes = send(&mut site, &[1, 2], now);
    site.applied(Ok(answer(&changes)), Context::exactly(T(now)));
    assert_eq!(next(&site, &[1, 2], now), Step::Rest(T(now + 90_000)), "the provider asked for so much time");
    assert!(site.is_right(&wanted(&[1, 2])));
}

#[test]
fn a_paced_site_begins_two_rounds_in_two_seconds_and_then_waits() {
    let mut site = known(&[]);
    for (now, addresses) in [(0, vec![1]), (100, vec![1, 2])] {
        let changes = send(&mut site, &addresses, now);
        site.applied(Ok(answer(&changes)), Context::exactly(T(now + 50)));
    }
    assert_eq!(next(&site, &[1, 2, 3], 200), Step::Wait(T(2_000)));
    assert_eq!(applies(site.next(&wanted(&[1, 2, 3]), NOW, false, T(200))).len(), 1);
    let changes = send(&mut site, &[1, 2, 3], 2_000);
    site.applied(Ok(answer(&changes)), Context::exactly(T(2_050)));
    assert_eq!(applies(next(&site, &[4], 2_100)).len(), 3);
}

#[test]
fn what_has_not_settled_waits_but_not_for_a_read() {
    let site = known(&[]);
    assert_eq!(site.next(&wanted(&[1]), T(300), false, T(100)), Step::Wait(T(300)));
    assert_eq!(Site::default().next(&wanted(&[1]), T(300), false, T(100)), Step::Read);
}

#[test]
fn after_a_refused_write_comes_one_read_when_it_is_due_and_at_once_for_something_new() {
    let mut site = known(&[]);
    send(&mut site, &[1], 0);
    let refusal = CallFailure::Fault(fault(FaultKind::Invalid, false));
    assert_eq!(site.applied(Err((0, refusal)), Context::exactly(T(0))), Applied::Failed(FaultKind::Invalid));
    assert_eq!(next(&site, &[1], 10), Step::Wait(T(60_000)));
    assert_eq!(next(&site, &[1], 60_000), Step::Read);
    assert_eq!(next(&site, &[2], 10), Step::Read);
    site.reading(T(20));
    site.read(Ok(vec![]), Context::exactly(T(20)));
    assert_eq!(applies(next(&site, &[2], 20)).len(), 1);
}

#[test]
fn after_a_write_that_may_have_had_an_effect_come_two_reads_five_seconds_apart() {
    let unknown = || CallFailure::Fault(fault(FaultKind::Transient, true));
    let halfway = || CallFailure::Fault(fault(FaultKind::Transient, false));
    for failure in [(0, unknown()), (1, halfway()), (1, unknown())] {
        let mut site = known(&[]);
        send(&mut site, &[1, 2], 0);
        site.applied(Err(failure), Context::exactly(T(0)));
        assert_eq!(next(&site, &[1, 2], 1_000), Step::Read);
        site.reading(T(1_050));
        site.read(Ok(vec![]), Context::exactly(T(1_050)));
        assert_eq!(next(&site, &[1, 2], 2_000), Step::Wait(T(6_050)));
        assert_eq!(next(&site, &[1, 2], 6_050), Step::Read);
        site.reading(T(6_100));
        site.read(Ok(vec![a(1)]), Context::exactly(T(6_100)));
        assert_eq!(applies(next(&site, &[1, 2], 6_100)).len(), 1);
    }
}

#[test]
fn a_write_that_fails_again_and_again_is_tried_ever_less_often() {
    let (mut site, mut now) = (known(&[]), 100_000);
    for wait in [1_000, 1_000, 5_000, 5_000, 10_000] {
        send(&mut site, &[1], now);
        let failure = CallFailure::Fault(fault(FaultKind::Transient, false));
        site.applied(Err((0, failure)), Context::exactly(T(now)));
        assert_eq!(next(&site, &[1], now), Step::Wait(T(now + wait)));
        now += wait;
        assert_eq!(next(&site, &[1], now), Step::Read);
        site.reading(T(now));
        site.read(Ok(vec![]), Context::exactly(T(now)));
    }
}

#[test]
fn a_time_that_the_provider_names_is_kept() {
    let mut site = Site::default();
    site.reading(NOW);
    let throttled = Fault { retry_after_ms: Some(30_000), ..fault(FaultKind::Throttled, false) };
    site.read(Err(CallFailure::Fault(throttled)), Context::exactly(T(0)));
    assert_eq!(next(&site, &[1], 1_000), Step::Wait(T(30_000)));
    site.forgive();
    assert_eq!(next(&site, &[1], 1_000), Step::Read);
}

#[test]
fn an_answer_that_is_not_what_was_asked_for_does_not_loop() {
    let mut site = known(&[]);
    let mut refusals = 0;
    let mut now = 0;
    while now < 600_000 {
        match next(&site, &[1], now) {
            Step::Apply(set) => {
                site.applying(wanted(&[1]), set.changes.clone(), 0, writer(), T(now));
                let clamped = answer(&set.changes).into_iter().map(|record| Record { ttl: 300, ..record });
                site.applied(Ok(clamped.collect()), Context::exactly(T(now)));
                refusals += 1;
            }
            Step::Read => {
                site.reading(T(now));
                site.read(Ok(vec![Record { ttl: 300, ..a(1) }]), Context::exactly(T(now)));
            }
            Step::Wait(at) => now = at.as_millis(),
            other @ (Step::Busy | Step::Rest(_) | Step::Reread) => panic!("{other:?}"),
        }
    }
    assert!(refusals <= 4, "{refusals}");
    assert!(site.failure().is_some());
}

#[test]
fn an_incomplete_answer_is_followed_by_a_read() {
    let mut site = known(&[]);
    send(&mut site, &[1, 2], 0);
    assert_eq!(site.applied(Ok(vec![a(1)]), Context::exactly(T(10))), Applied::Done);
    assert_eq!(next(&site, &[1, 2], 20), Step::Read);
}

#[test]
fn what_did_not_fit_into_one_call_follows_at_once_within_the_same_round() {
    let mut site = known(&[]);
    for now in [0, 10] {
        let changes = send(&mut site, &[1], now);
        site.applied(Err((0, CallFailure::NotSent)), Context::exactly(T(now)));
        assert_eq!(changes.len(), 1);
    }
    // Two rounds were begun, so only a round that continues may start.
    assert_eq!(next(&site, &[1, 2, 3], 20), Step::Wait(T(2_000)));
    let changes = applies(next(&site, &[1, 2, 3], 2_000));
    let first: Vec<Change> = changes.iter().take(1).cloned().collect();
    site.applying(wanted(&[1, 2, 3]), first.clone(), 2, writer(), T(2_000));
    assert_eq!(site.applied(Ok(answer(&first)), Context::exactly(T(2_001))), Applied::Partly);
    assert_eq!(applies(next(&site, &[1, 2, 3], 2_001)).len(), 2);
}

#[test]
fn what_was_begun_before_a_restart_tells_nothing() {
    let mut site = Site::default();
    site.reading(NOW);
    site.restart();
    assert_eq!(next(&site, &[1], 0), Step::Busy, "still one call at a time");
    site.read(Ok(vec![a(1)]), Context::exactly(T(1)));
    assert_eq!(next(&site, &[1], 2), Step::Read);
    let mut site = known(&[]);
    let changes = send(&mut site, &[1], 0);
    site.restart();
    site.applied(Ok(answer(&changes)), Context::exactly(T(1)));
    assert_eq!(next(&site, &[1], 2), Step::Read);
}

#[test]
fn a_write_that_fails_again_and_again_backs_off_however_the_reads_between_go() {
    let mut site = known(&[]);
    let throttled = || Fault::new(FaultKind::Throttled, "429".into());
    let (mut now, mut writes, mut reads) = (0, Vec::new(), 0);
    while now < 600_000 {
        match next(&site, &[1], now) {
            Step::Apply(set) => {
                writes.push(now);
                site.applying(wanted(&[1]), set.changes, 0, writer(), T(now));
                site.applied(Err((0, CallFailure::Fault(throttled()))), Context::exactly(T(now)));
            }
            Step::Read => {
                reads += 1;
                site.reading(T(now));
                let answer =
                    if reads % 2 == 0 { Ok(Vec::new()) } else { Err(CallFailure::Fault(throttled())) };
                site.read(answer, Context::exactly(T(now)));
            }
            Step::Wait(at) => now = at.as_millis(),
            other @ (Step::Busy | Step::Rest(_) | Step::Reread) => panic!("{other:?}"),
        }
    }
    // 1, 1, 5, 5, 10, 10, 10 s, and then minutes: never faster than the schedule.
    let waits: Vec<u64> = writes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let schedule = [1_000, 1_000, 5_000, 5_000, 10_000, 10_000, 10_000, 60_000, 60_000];
    assert!(waits.iter().zip(schedule).all(|(wait, least)| *wait >= least), "{waits:?}");
    assert!(waits.len() >= 9, "it goes on: {waits:?}");
}

#[test]
fn the_first_look_is_confirmed_by_a_second_one_five_seconds_later() {
    let mut site = seen_once(&[1]);
    assert_eq!(next(&site, &[1], 10), Step::Rest(T(5_000)));
    assert_eq!(next(&site, &[1], 5_000), Step::Reread);
    see(&mut site, &[1], 5_000);
    assert_eq!(next(&site, &[1], 5_010), Step::Rest(T(5_000 + RESYNC_MS)));
    // The first look did not show one record yet.
    let mut site = seen_once(&[2]);
    see(&mut site, &[1], 5_000);
    assert_eq!(applies(next(&site, &[2], 5_010)).len(), 1);
}

#[test]
fn what_was_seen_once_is_not_relied_on_by_a_change_that_only_deletes() {
    let mut site = seen_once(&[1, 2]);
    assert_eq!(next(&site, &[1], 10), Step::Wait(T(5_000)));
    assert_eq!(next(&site, &[1], 5_000), Step::Read);
    site.reading(T(5_000));
    assert_eq!(next(&site, &[1], 5_010), Step::Wait(T(5_000 + 30_000)), "also while the look is under way");
    assert_eq!(next(&site, &[1, 2], 5_010), Step::Busy);
    site.read(Err(CallFailure::Fault(fault(FaultKind::Transient, false))), Context::exactly(T(5_010)));
    assert_eq!(next(&site, &[1], 5_020), Step::Wait(T(6_010)));
    let mut gone = seen_once(&[1, 2]);
    see(&mut site, &[1, 2], 6_010);
    assert_eq!(applies(next(&site, &[1], 6_020)), [Change::Delete { id: "2".into() }]);
    see(&mut gone, &[2], 5_000);
    assert_eq!(applies(next(&gone, &[1], 5_010)), [Change::Update { id: "2".into(), ip: ip(1), ttl: 60 }]);
}

#[test]
fn what_leaves_a_record_that_certainly_is_there_waits_for_no_second_look() {
    let site = seen_once(&[1, 2]);
    for addresses in [&[1, 2, 3][..], &[1, 3], &[3]] {
        let changes = applies(next(&site, addresses, 10));
        assert!(!matches!(changes.first(), Some(Change::Delete { .. })), "{changes:?}");
    }
    let empty = Wanted { target: Target::Empty, ..wanted(&[]) };
    assert_eq!(applies(site.next(&empty, NOW, true, T(10))).len(), 2, "nothing shall be left");
    let mut site = seen_once(&[1, 2]);
    let changes = send(&mut site, &[1, 2, 3, 4], 10);
    site.applied(Ok(answer(&changes)), Context::exactly(T(20)));
    assert_eq!(applies(site.next(&wanted(&[1, 3]), NOW, false, T(30))).len(), 2, "3 was just written");
    assert_eq!(site.next(&wanted(&[1, 2]), NOW, false, T(30)), Step::Wait(T(5_000)), "3 and 4 shall go");
    assert_eq!(next(&site, &[1, 2, 3, 4], 30), Step::Rest(T(5_000)));
    // So soon after the write, the second look only confirms that 1 and 2 exist.
    see(&mut site, &[1, 2], 5_000);
    assert_eq!(applies(next(&site, &[1, 2], 5_010)).len(), 2);
    assert_eq!(next(&site, &[1, 2, 3, 4], 5_010), Step::Rest(T(20 + LAG_MS)));
    see(&mut site, &[1, 2], 20 + LAG_MS);
    assert_eq!(applies(next(&site, &[1, 2, 3, 4], 60_000)).len(), 2, "then all that it shows is believed");
}

#[test]
fn a_name_that_was_just_made_is_read_again_when_it_would_show() {
    let mut site = seen_once(&[]);
    let changes = send(&mut site, &[1, 2], 10);
    site.applied(Ok(answer(&changes)), Context::exactly(T(20)));
    assert_eq!(next(&site, &[1, 2], 30), Step::Rest(T(20 + LAG_MS)));
    assert_eq!(applies(next(&site, &[1], 30)).len(), 1);
    assert_eq!(next(&site, &[1, 2], 20 + LAG_MS), Step::Reread);
}

#[test]
fn what_a_refused_write_leads_to_is_a_first_look_if_it_is_soon_after_another_write() {
    let mut site = known(&[1, 2, 3]);
    let changes = send(&mut site, &[1, 3], 0);
    site.applied(Ok(answer(&changes)), Context::exactly(T(10)));
    send(&mut site, &[1, 3, 4], 20);
    let refusal = CallFailure::Fault(fault(FaultKind::Throttled, false));
    site.applied(Err((0, refusal)), Context::exactly(T(30)));
    see(&mut site, &[1, 2, 3], 2_000);
    let changes = applies(site.next(&wanted(&[2]), NOW, false, T(2_010)));
    assert_eq!(changes[0], Change::Update { id: "1".into(), ip: ip(2), ttl: 60 }, "2 was deleted");
    assert_eq!(site.next(&wanted(&[3]), NOW, false, T(2_010)), Step::Wait(T(10 + LAG_MS)), "3 may be gone");
    see(&mut site, &[1, 3], 10 + LAG_MS);
    assert_eq!(applies(next(&site, &[3], 60_000)), [Change::Delete { id: "1".into() }]);
}

#[test]
fn two_reads_in_doubt_are_counted_anew_after_a_restart() {
    let mut site = known(&[]);
    send(&mut site, &[1, 2], 0);
    site.applied(Err((0, CallFailure::Fault(fault(FaultKind::Transient, true)))), Context::exactly(T(0)));
    see(&mut site, &[], 1_000);
    site.restart();
    see(&mut site, &[], 6_000);
    assert_eq!(next(&site, &[1, 2], 6_010), Step::Wait(T(11_000)));
    see(&mut site, &[1], 11_000);
    assert_eq!(applies(next(&site, &[1, 2], 11_010)).len(), 1);
}

#[test]
fn a_second_look_counts_from_when_it_was_begun_and_anew_after_a_restart() {
    let mut site = seen_once(&[1, 2]);
    site.reading(T(4_999));
    site.read(Ok(vec![a(1), a(2)]), Context::exactly(T(14_000)));
    assert_eq!(next(&site, &[1], 14_000), Step::Read);
    see(&mut site, &[1, 2], 14_000);
    let changes = send(&mut site, &[1, 2, 3], 14_010);
    site.applied(Ok(answer(&changes)), Context::exactly(T(14_020)));
    site.restart();
    see(&mut site, &[1, 2, 3], 20_000);
    assert_eq!(next(&site, &[1, 3], 20_010), Step::Wait(T(25_000)), "3 was written before");
}

#[test]
fn two_looks_after_a_write_that_may_have_had_an_effect_are_enough() {
    let mut site = seen_once(&[1, 2]);
    send(&mut site, &[1, 2, 3], 10);
    site.applied(Err((0, CallFailure::Fault(fault(FaultKind::Transient, true)))), Context::exactly(T(20)));
    see(&mut site, &[1, 2], 1_020);
    see(&mut site, &[1, 2], 6_020);
    assert_eq!(applies(next(&site, &[1], 6_030)), [Change::Delete { id: "2".into() }]);
}

/// The changes sent after the second look has failed for half a minute: 1 was seen once and stays, 2 is deleted.
fn impatient() -> (Site, Vec<Change>, u64) {
    let mut site = seen_once(&[1, 2]);
    let mut now = 5_000;
    while next(&site, &[1], now) == Step::Read {
        site.reading(T(now));
        let throttled = Fault { retry_after_ms: Some(20_000), ..fault(FaultKind::Throttled, false) };
        site.read(Err(CallFailure::Fault(throttled)), Context::exactly(T(now)));
        let Step::Wait(due) = next(&site, &[1], now) else { panic!("nothing to wait for at {now}") };
        now = due.as_millis();
    }
    let changes = send(&mut site, &[1], now);
    (site, changes, now)
}

#[test]
fn a_second_look_that_fails_and_fails_is_not_waited_for_longer_than_half_a_minute() {
    let (mut site, changes, now) = impatient();
    assert_eq!(now, 35_000);
    let (proof, deletion) =
        (Change::Update { id: "1".into(), ip: ip(1), ttl: 60 }, Change::Delete { id: "2".into() });
    assert_eq!(changes, [proof, deletion], "that 1 is there is shown first");
    site.applied(Ok(answer(&changes)), Context::exactly(T(now)));
    assert!(matches!(next(&site, &[1], now), Step::Rest(_)), "all is right");
}

#[test]
fn nothing_is_deleted_where_the_address_that_would_stay_is_gone() {
    let (mut site, _, now) = impatient();
    let gone = CallFailure::Fault(fault(FaultKind::NotFound, false));
    site.applied(Err((0, gone)), Context::exactly(T(now)));
    // No record is believed until the name is read again.
    let Step::Wait(due) = next(&site, &[1], now) else { panic!("not put off") };
    assert_eq!(next(&site, &[1], due.as_millis()), Step::Read);
    see(&mut site, &[2], due.as_millis());
    let changes = applies(next(&site, &[1], due.as_millis() + 10));
    assert_eq!(changes, [Change::Update { id: "2".into(), ip: ip(1), ttl: 60 }]);
}
