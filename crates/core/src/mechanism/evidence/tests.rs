//! The evidence that is enough for a verdict, and the evidence that is not.

use super::leases::bear_out;
use super::*;
use crate::model::provider::examples::droplet;
use crate::model::{Address, NodeCheck, Uid};

const SECOND_MS: u64 = 1_000;

fn key(n: u8) -> CheckKey {
    CheckKey { node: Uid(format!("uid-{n}").into()), check: NodeCheck::default() }
}

fn lease(n: u8, renewed: u64, duration_s: u64) -> LeaseFacts {
    LeaseFacts {
        name: format!("n-{n}"),
        renewed_us: i64::try_from(renewed).ok(),
        duration_ms: duration_s * SECOND_MS,
    }
}

fn at(seconds: u64) -> Moment {
    Moment::from_millis(1_000_000 + seconds * SECOND_MS)
}

/// Two nodes that are checked from the start. Their Leases last this long.
fn evidence(duration_s: u64) -> Evidence {
    let mut evidence = Evidence::default();
    let target = |n: u8| CheckTarget {
        name: format!("n-{n}"),
        address: Address::from([10, 0, 0, n]),
        machine: Some(droplet(n.into())),
        period_ms: SECOND_MS,
        holds: true,
    };
    let targets: BTreeMap<_, _> = [1, 2].map(|n| (key(n), target(n))).into();
    evidence.follow(&targets.keys().cloned().collect(), &targets, at(0));
    evidence.leases(&Observed::Reset(vec![lease(1, 0, duration_s), lease(2, 0, duration_s)]), at(0));
    evidence
}

/// The other node stays alive, and the first one answers as `outcome` says at each second.
fn play(
    evidence: &mut Evidence,
    seconds: std::ops::Range<u64>,
    outcome: impl Fn(u64) -> bool,
) -> Option<u64> {
    for second in seconds {
        let passed = |passed: bool| if passed { CheckOutcome::Passed } else { CheckOutcome::Failed };
        evidence.checked(&Checked { key: key(1), outcome: passed(outcome(second)) }, at(second));
        evidence.checked(&Checked { key: key(2), outcome: CheckOutcome::Passed }, at(second));
        if second % 3 == 0 {
            evidence.leases(&Observed::Apply(lease(2, second + 1, 40)), at(second));
        }
        evidence.judge(at(second));
        if !evidence.take_verdicts().is_empty() {
            return Some(second);
        }
    }
    None
}

fn renew(evidence: &mut Evidence, second: u64) {
    evidence.leases(&Observed::Apply(lease(1, second, 40)), at(second));
}

#[test]
fn twelve_seconds_without_an_answer_and_without_a_renewal_are_enough() {
    let mut evidence = evidence(40);
    play(&mut evidence, 0..100, |_| true);
    renew(&mut evidence, 99);
    assert_eq!(play(&mut evidence, 100..200, |_| false), Some(111), "the last answer was at 99");
}

#[test]
fn five_have_to_fail_where_checks_are_rare_too() {
    let mut evidence = evidence(40);
    for second in 0..60 {
        if second % 10 == 0 {
            let outcome = if second == 0 { CheckOutcome::Passed } else { CheckOutcome::Failed };
            evidence.checked(&Checked { key: key(1), outcome }, at(second));
        }
        evidence.leases(&Observed::Apply(lease(2, second + 1, 40)), at(second));
        evidence.judge(at(second));
        assert_eq!(evidence.take_verdicts().len(), usize::from(second == 50), "{second}");
    }
}

#[test]
fn the_silence_and_the_missed_renewal_scale_with_the_duration_of_the_lease() {
    for (duration_s, dead) in [(1, 104), (10, 104), (20, 106), (40, 111), (80, 121), (160, 141)] {
        let mut evidence = evidence(duration_s);
        play(&mut evidence, 0..100, |_| true);
        evidence.leases(&Observed::Apply(lease(1, 99, duration_s)), at(99));
        assert_eq!(play(&mut evidence, 100..300, |_| false), Some(dead), "{duration_s}");
    }
}

#[test]
fn one_answer_in_twelve_seconds_is_enough_to_live() {
    let mut evidence = evidence(40);
    assert_eq!(play(&mut evidence, 0..600, |second| second % 12 == 0), None);
}

#[test]
fn however_many_checks_fail_the_silence_has_to_last() {
    let mut evidence = evidence(10);
    play(&mut evidence, 0..100, |_| true);
    for ms in (99_250..=103_500).step_by(250) {
        let now = at(0).plus_millis(ms);
        evidence.checked(&Checked { key: key(1), outcome: CheckOutcome::Failed }, now);
        let later = evidence.judge(now);
        let enough = (100_250..103_500).contains(&ms);
        assert_eq!(later, enough.then(|| at(0).plus_millis(103_500)), "{ms}");
    }
    assert_eq!(evidence.take_verdicts().len(), 1);
}

#[test]
fn the_worse_the_way_was_before_the_more_failures_it_takes() {
    // Of 64 checks: how many fail before the machine dies. Then the seconds until its death is believed.
    for (lost, seconds) in
        [(0, 5), (1, 5), (2, 7), (4, 7), (5, 9), (8, 9), (9, 15), (13, 21), (21, 28), (29, 45)]
    {
        let mut evidence = evidence(10);
        play(&mut evidence, 0..128, |second| second % 64 >= 2 * lost || second % 2 == 0);
        evidence.leases(&Observed::Apply(lease(1, 127, 10)), at(127));
        assert_eq!(play(&mut evidence, 128..400, |_| false), Some(127 + seconds), "{lost}");
    }
}

#[test]
fn a_lease_that_is_renewed_less_often_than_it_says_is_missed_later() {
    for (every_s, missed_ms) in [(1, 4_500), (2, 4_500), (3, 5_000), (10, 12_000), (30, 32_000), (61, 52_000)]
    {
        let mut evidence = evidence(10);
        for turn in 1..=4 {
            evidence.leases(&Observed::Apply(lease(1, turn, 10)), at(turn * every_s));
        }
        // One long gap is no habit. A gap of more than a minute never is, and neither is one that hides a list.
        evidence.leases(&Observed::Apply(lease(1, 5, 10)), at(4 * every_s + 50));
        evidence.leases(&Observed::Reset(vec![lease(1, 6, 10)]), at(4 * every_s + 100));
        let missed = evidence.leases.missed_at("n-1").unwrap();
        assert_eq!(missed, (at(4 * every_s + 100).plus_millis(missed_ms), missed_ms), "{every_s}");
    }
}

#[test]
fn no_renewal_is_missed_within_its_own_time_after_a_list() {
    for (duration_s, dead) in [(10, 107), (20, 109), (40, 114)] {
        let mut evidence = evidence(duration_s);
        play(&mut evidence, 0..102, |second| second < 100);
        evidence.leases(&Observed::Reset(vec![lease(1, 0, duration_s), lease(2, 102, 40)]), at(102));
        assert_eq!(play(&mut evidence, 102..200, |_| false), Some(dead), "{duration_s}");
    }
}

#[test]
fn what_failed_in_a_death_says_nothing_of_the_way_after_it() {
    let mut evidence = evidence(40);
    assert_eq!(play(&mut evidence, 0..30, |_| false), Some(12));
    play(&mut evidence, 30..200, |second| second >= 100);
    renew(&mut evidence, 199);
    assert_eq!(play(&mut evidence, 200..300, |_| false), Some(211));
}

#[test]
fn a_node_that_never_answered_is_dead_twelve_seconds_after_its_first_check() {
    let mut evidence = evidence(40);
    assert_eq!(play(&mut evidence, 0..30, |_| false), Some(12));
}

#[test]
fn without_a_lease_nobody_is_judged() {
    let mut evidence = evidence(40);
    evidence.leases(&Observed::Delete(lease(1, 0, 40)), at(1));
    assert_eq!(play(&mut evidence, 1..300, |_| false), None);
    assert!(!evidence.is_unproven(&key(1), "n-1"));
}

#[test]
fn a_relist_keeps_the_time_of_what_did_not_change() {
    let mut evidence = evidence(40);
    play(&mut evidence, 0..100, |_| true);
    evidence.leases(&Observed::Reset(vec![lease(1, 0, 40), lease(2, 500, 40)]), at(100));
    let ages = |evidence: &Evidence| -> Vec<Option<u64>> {
        evidence.nodes(at(101)).map(|node| node.lease_ms).collect()
    };
    assert_eq!(ages(&evidence), [Some(101_000), Some(1_000)]);
}

#[test]
fn a_verdict_that_rests_on_another_lease_is_dropped_and_failures_are_not_believed_until_one_passes() {
    for (lease_read, same_heartbeat) in
        [(Some(lease(1, 7, 40)), true), (None, true), (Some(lease(1, 0, 40)), false)]
    {
        let mut evidence = evidence(40);
        assert_eq!(play(&mut evidence, 0..30, |_| false), Some(12));
        let dead = Some(Err(Mismatch::CheckFailed));
        assert_eq!(evidence.bear_out(&key(1), (Some(&lease(1, 0, 40)), true), at(12)), dead);
        let found = (lease_read.as_ref(), same_heartbeat);
        assert!(evidence.is_unproven(&key(1), "n-1"));
        assert_eq!(evidence.bear_out(&key(1), found, at(12)), Some(Ok(())));
        assert!(!evidence.is_unproven(&key(1), "n-1"));
        assert_eq!(evidence.standing(&key(1), at(13)), Standing::Deprioritized);
        assert_eq!(play(&mut evidence, 13..100, |_| false), None);
    }
}

#[test]
fn a_read_proves_nothing_once_the_machine_answers_or_while_the_other_leases_stand_still() {
    let mut evidence = evidence(40);
    assert_eq!(play(&mut evidence, 0..30, |_| false), Some(12));
    let same = lease(1, 0, 40);
    let read = |evidence: &mut Evidence, second| evidence.bear_out(&key(1), (Some(&same), true), at(second));
    assert_eq!(read(&mut evidence, 24), None, "the other one was renewed at 12");
    evidence.leases(&Observed::Apply(lease(2, 500, 40)), at(25));
    assert_eq!(read(&mut evidence, 25), Some(Err(Mismatch::CheckFailed)));
    play(&mut evidence, 25..26, |_| true);
    assert_eq!(read(&mut evidence, 26), None);
    play(&mut evidence, 26..27, |_| false);
    assert_eq!(read(&mut evidence, 27), Some(Err(Mismatch::CheckFailed)));
}

#[test]
fn a_node_is_behind_from_its_first_failure_on_and_when_no_check_has_passed_lately() {
    let mut evidence = evidence(40);
    assert_eq!(evidence.standing(&key(1), at(0)), Standing::Unknown);
    play(&mut evidence, 0..2, |_| true);
    assert_eq!(evidence.standing(&key(1), at(26)), Standing::Alive);
    assert_eq!(evidence.standing(&key(1), at(27)), Standing::Deprioritized);
    play(&mut evidence, 2..3, |_| false);
    assert_eq!(evidence.standing(&key(1), at(2)), Standing::Deprioritized);
}

#[test]
fn half_of_the_others_have_to_bear_a_missed_renewal_out() {
    for (others, fresh, expected) in [
        (0, 0, false),
        (1, 0, false),
        (1, 1, true),
        (2, 1, true),
        (3, 1, false),
        (4, 2, true),
        (4_999, 2_499, false),
    ] {
        assert_eq!(bear_out(others, fresh), expected, "{fresh} of {others}");
    }
}

#[test]
fn a_lease_that_was_never_seen_to_change_and_whose_node_does_not_exist_speaks_for_nothing() {
    let with_orphans = || {
        let mut evidence = evidence(40);
        evidence.leases(&Observed::Reset([1, 2, 7, 8, 9].map(|n| lease(n, 0, 40)).to_vec()), at(0));
        evidence
    };
    let names = |numbers: &[u8]| numbers.iter().map(|n| format!("n-{n}")).collect::<BTreeSet<_>>();
    for (listed, verdict) in
        [(None, None), (Some(names(&[1, 2, 7, 8, 9])), None), (Some(names(&[1, 2])), Some(12))]
    {
        let mut evidence = with_orphans();
        let text = format!("{listed:?}");
        if let Some(names) = listed {
            evidence.nodes_listed(names);
        }
        assert_eq!(play(&mut evidence, 0..60, |_| false), verdict, "{text}");
        assert_eq!(evidence.is_stalled(&key(1)), verdict.is_none(), "{text}");
    }
    // Nodes that joined after the list renew their Leases, and all stop.
    let mut joined = with_orphans();
    joined.nodes_listed(names(&[1, 2]));
    for n in [7, 8, 9] {
        joined.leases(&Observed::Apply(lease(n, 1, 40)), at(1));
    }
    play(&mut joined, 2..40, |_| true);
    assert_eq!(play(&mut joined, 40..100, |_| false), None);
}

/// The first machine falls silent, and its provider says at the sixth failure that it is off or gone.
fn condemned(gone: bool) -> Evidence {
    let mut evidence = evidence(40);
    play(&mut evidence, 0..100, |_| true);
    renew(&mut evidence, 99);
    assert_eq!(play(&mut evidence, 100..106, |_| false), None);
    evidence.shown(&[droplet(1)].into(), at(90));
    evidence.shown(&[droplet(2)].into(), at(105));
    testify(&mut evidence, gone, 105);
    assert_eq!(evidence.standing(&key(1), at(105)), Standing::Dead);
    assert_eq!(evidence.take_verdicts().len(), 1);
    evidence
}

fn testify(evidence: &mut Evidence, gone: bool, second: u64) {
    if gone {
        assert!(evidence.is_gone(&droplet(1), at(second), at(second)));
    } else {
        evidence.is_off(&droplet(1), at(second), at(second));
    }
}

#[test]
fn the_word_of_a_provider_ends_with_a_report_of_the_kubelet_and_counts_no_more_until_a_check_passes() {
    let reports: [fn(&mut Evidence); 4] = [
        |evidence| renew(evidence, 106),
        |evidence| evidence.reported("n-1", at(106)),
        |evidence| {
            let found = (Some(&lease(1, 106, 40)), true);
            assert_eq!(evidence.bear_out(&key(1), found, at(106)), Some(Ok(())));
        },
        |evidence| {
            let found = (Some(&lease(1, 99, 40)), false);
            assert_eq!(evidence.bear_out(&key(1), found, at(106)), Some(Ok(())));
        },
    ];
    for (gone, report) in [false, true].into_iter().flat_map(|gone| reports.map(|report| (gone, report))) {
        let mut evidence = condemned(gone);
        evidence.take_touched();
        report(&mut evidence);
        assert_eq!(evidence.standing(&key(1), at(106)), Standing::Deprioritized);
        assert!(evidence.take_touched());
        testify(&mut evidence, gone, 107);
        assert_eq!(play(&mut evidence, 107..200, |_| false), None);
        testify(&mut evidence, gone, 200);
        assert_eq!(
            (evidence.standing(&key(1), at(200)), evidence.silent().count()),
            (Standing::Deprioritized, 0)
        );
        play(&mut evidence, 200..300, |_| true);
        assert_eq!(play(&mut evidence, 300..306, |_| false), None);
        evidence.shown(&[droplet(2)].into(), at(305));
        testify(&mut evidence, gone, 305);
        assert_eq!(evidence.standing(&key(1), at(305)), Standing::Dead);
    }
}

#[test]
fn the_word_of_a_provider_needs_neither_a_lease_nor_other_leases_that_go_on() {
    for gone in [false, true] {
        let why = if gone { Mismatch::MachineGone } else { Mismatch::MachineOff };
        let mut evidence = condemned(gone);
        let same = lease(1, 99, 40);
        // Long after the last renewal of the other one.
        assert_eq!(evidence.bear_out(&key(1), (Some(&same), true), at(300)), Some(Err(why.clone())));
        evidence.checked(&Checked { key: key(1), outcome: CheckOutcome::Passed }, at(301));
        assert_eq!(evidence.bear_out(&key(1), (Some(&same), true), at(301)), None, "it answers");
    }
}

#[test]
fn nobody_asks_the_provider_once_the_kubelet_has_reported_after_a_verdict_by_its_lease() {
    let mut evidence = evidence(40);
    assert_eq!(play(&mut evidence, 0..30, |_| false), Some(12));
    assert_eq!(evidence.silent().count(), 1);
    renew(&mut evidence, 13);
    assert_eq!(evidence.silent().count(), 0);
}

#[test]
fn nobody_asks_the_provider_while_a_report_of_the_kubelet_would_go_unseen() {
    let mut evidence = evidence(40);
    assert_eq!(play(&mut evidence, 0..6, |_| false), None);
    assert_eq!(evidence.silent().count(), 1);
    evidence.leases = Leases::default();
    assert_eq!(evidence.silent().count(), 0);
}
