//! Tests of admission, and of what the budget knows of a quota.

use super::*;
use crate::model::provider::examples;
use proptest::prelude::*;

const LIMITS: Limits = examples::OF_BOTH.limits;
const PURPOSES: [Purpose; 5] =
    [Purpose::Create, Purpose::Assign, Purpose::Dns, Purpose::Poll, Purpose::Reread];

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn quota(remaining: u64, reset_at: u64, observed_at: u64) -> RateReport {
    let quota = Quota { limit: Some(5_000), remaining, reset_at: at(reset_at), observed_at: at(observed_at) };
    RateReport { quota: Some(quota), ..RateReport::default() }
}

/// Sends requests until one is refused, and counts them.
fn exhaust(budget: &mut Budget, purpose: Purpose, now: Moment) -> usize {
    let mut sent = 0;
    while budget.admit(purpose, now).is_ok() {
        budget.sent(purpose, now);
        sent += 1;
        assert!(sent <= 10_000, "no end to what is admitted");
    }
    sent
}

#[test]
fn polls_and_dns_leave_a_share_of_the_window_to_assignments() {
    let mut budget = Budget::new(LIMITS);
    assert_eq!(exhaust(&mut budget, Purpose::Reread, at(0)), 120);
    assert_eq!(exhaust(&mut budget, Purpose::Poll, at(0)), 24);
    assert_eq!(exhaust(&mut budget, Purpose::Dns, at(0)), 48);
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(0)), 48);
    assert_eq!(budget.admit(Purpose::Assign, at(0)), Err(at(65_000)));
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(65_000)), 240);
}

#[test]
fn while_others_wait_one_object_starts_a_quarter_of_the_window() {
    let object = |name: &str| Uid(name.into());
    let start = |budget: &mut Budget, name: &str, now| {
        let mut sent = 0;
        while budget.admit_for(&object(name), Purpose::Assign, now).is_ok() {
            budget.sent(Purpose::Assign, now);
            budget.started_for(&object(name), now);
            sent += 1;
        }
        sent
    };
    let mut budget = Budget::new(LIMITS);
    assert_eq!(start(&mut budget, "large", at(0)), 240, "nobody else waits");
    assert_eq!(start(&mut budget, "small", at(1)), 0);
    assert_eq!(start(&mut budget, "large", at(65_000)), 60, "the other one waits");
    assert_eq!(start(&mut budget, "small", at(65_000)), 60, "and so does this one");
    // The small one wants nothing more.
    let until = budget.admit_for(&object("large"), Purpose::Assign, at(65_000)).unwrap_err();
    assert_eq!((until, start(&mut budget, "large", at(131_100))), (at(130_000), 240));
}

#[test]
fn twelve_creations_a_minute_and_assignments_go_on_meanwhile() {
    let mut budget = Budget::new(LIMITS);
    assert_eq!(exhaust(&mut budget, Purpose::Create, at(0)), 12);
    assert_eq!(budget.admit(Purpose::Create, at(1)), Err(at(65_000)));
    assert_eq!(budget.admit(Purpose::Assign, at(1)), Ok(()));
}

#[test]
fn where_nothing_is_allowed_the_answer_is_always_later() {
    let mut budget = Budget::new(examples::OF_DNS.limits);
    assert_eq!(budget.admit(Purpose::Create, at(0)), Err(at(60_000)));
    assert_eq!(budget.admit(Purpose::Create, at(60_000)), Err(at(120_000)));
}

#[test]
fn a_low_quota_stops_polls_then_dns_then_all() {
    for (remaining, admitted) in [
        (501, [true; 5]),
        (500, [true, true, true, false, false]),
        (250, [true, true, false, false, false]),
        (1, [true, true, false, false, false]),
        (0, [false; 5]),
    ] {
        let mut budget = Budget::new(LIMITS);
        budget.observe(at(0), &quota(remaining, 600_000, 0));
        let found = PURPOSES.map(|purpose| budget.admit(purpose, at(1)).is_ok());
        assert_eq!(found, admitted, "{remaining} left");
    }
}

#[test]
fn what_was_sent_since_the_answer_counts_against_what_it_left() {
    let mut budget = Budget::new(LIMITS);
    budget.observe(at(0), &quota(2, 600_000, 0));
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(1)), 2);
    assert_eq!(budget.admit(Purpose::Assign, at(1)), Err(at(600_000)));
    assert_eq!(budget.remaining(), Some(0));
}

#[test]
fn after_the_reset_a_used_up_quota_is_tried_one_request_at_a_time() {
    let mut budget = Budget::new(LIMITS);
    budget.observe(at(0), &quota(0, 1_000, 0));
    assert_eq!(budget.admit(Purpose::Assign, at(999)), Err(at(1_000)));
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(1_000)), 1);
    assert_eq!(budget.admit(Purpose::Assign, at(1_001)), Err(at(11_000)));
    // The answer to the probe: one request left the sliding window, and the probe used it up.
    budget.observe(at(1_050), &quota(0, 1_040, 1_050));
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(1_050)), 1);
    budget.observe(at(1_100), &quota(30, 1_090, 1_100));
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(1_100)), 31, "thirty and the next probe");
}

#[test]
fn pages_that_were_not_announced_count_too() {
    let mut budget = Budget::new(LIMITS);
    budget.sent(Purpose::Poll, at(0));
    budget.observe(at(1), &RateReport { requests: 41, ..RateReport::default() });
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(1)), 199);
}

#[test]
fn a_call_that_was_not_sent_hides_no_page() {
    let mut budget = Budget::new(LIMITS);
    budget.sent(Purpose::Assign, at(0));
    budget.not_sent();
    budget.observe(at(1), &RateReport { requests: 1, ..RateReport::default() });
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(1)), 238, "the one withdrawn and the one seen");
}

/// Reserves up to `most` requests of one round beside its first, and counts them.
fn reserve(budget: &mut Budget, most: usize, now: Moment) -> usize {
    (0..most).take_while(|_| budget.reserve(Purpose::Dns, now)).count()
}

#[test]
fn what_a_round_may_still_send_counts_until_it_ends_and_then_as_sent_at_its_end() {
    let mut budget = Budget::new(LIMITS);
    budget.sent(Purpose::Dns, at(0));
    assert_eq!(reserve(&mut budget, 24, at(0)), 24);
    let left = |budget: &Budget, ms| exhaust(&mut budget.clone(), Purpose::Assign, at(ms));
    assert_eq!([left(&budget, 1), left(&budget, 65_000), left(&budget, 200_000)], [215, 216, 216]);
    budget.release(24, 10, at(200_000));
    assert_eq!([left(&budget, 200_000), left(&budget, 264_999), left(&budget, 265_000)], [230, 230, 240]);
}

#[test]
fn what_a_round_never_sent_leaves_windows_and_quota() {
    let mut budget = Budget::new(LIMITS);
    budget.observe(at(0), &quota(1_000, 600_000, 0));
    budget.sent(Purpose::Dns, at(0));
    reserve(&mut budget, 24, at(0));
    assert_eq!(budget.remaining(), Some(975));
    budget.release(24, 0, at(100));
    assert_eq!(budget.remaining(), Some(999));
    // After the release, pages that were not announced count again.
    budget.observe(at(200), &RateReport { requests: 5, ..quota(1_000, 600_000, 0) });
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(200)), 235);
}

#[test]
fn rounds_reserve_a_fifth_of_the_window_together_and_send_on_one_by_one() {
    let mut budget = Budget::new(LIMITS);
    assert_eq!([(); 3].map(|()| reserve(&mut budget, 24, at(0))), [24, 24, 0]);
    assert_eq!(exhaust(&mut budget.clone(), Purpose::Poll, at(0)), 96);
    assert_eq!(exhaust(&mut budget.clone(), Purpose::Dns, at(0)), 144);
    budget.release(24, 24, at(1_000));
    assert_eq!(reserve(&mut budget, 30, at(1_000)), 24);
    assert_eq!(exhaust(&mut budget, Purpose::Assign, at(1_000)), 168);
    assert!(!budget.reserve(Purpose::Dns, at(1_000)));
}

#[test]
fn another_token_is_not_bound_by_the_old_one_s_quota_and_block() {
    let mut budget = Budget::new(LIMITS);
    let mut report = quota(0, 600_000, 0);
    report.blocked_until = Some(at(300_000));
    budget.observe(at(0), &report);
    assert_eq!(budget.admit(Purpose::Poll, at(1)), Err(at(600_000)));
    budget.observe(at(1), &RateReport { token_generation: 1, ..RateReport::default() });
    assert_eq!(budget.admit(Purpose::Poll, at(1)), Ok(()));
}

fn purpose() -> impl Strategy<Value = Purpose> {
    prop::sample::select(PURPOSES.to_vec())
}

/// Limit, requests left and time to the reset.
type Given = (Option<u64>, u64, u64);

fn report() -> impl Strategy<Value = (Option<Given>, Option<u64>)> {
    let limit = prop_oneof![Just(None), Just(Some(5_000)), any::<u64>().prop_map(Some)];
    let remaining = prop_oneof![0..6_000_u64, Just(0), any::<u64>()];
    (prop::option::of((limit, remaining, 0..3_600_000_u64)), prop::option::of(0..3_600_000_u64))
}

proptest! {
    #[test]
    fn no_window_ever_holds_more_than_its_limit(
        steps in prop::collection::vec((purpose(), 0..3_000_u64, 1..40_usize), 1..200),
    ) {
        let mut budget = Budget::new(LIMITS);
        let (mut now, mut sends, mut creations) = (at(0), Vec::new(), Vec::new());
        for (purpose, pause, burst) in steps {
            now = now.plus_millis(pause);
            for _ in 0..burst {
                if budget.admit(purpose, now).is_ok() {
                    budget.sent(purpose, now);
                    sends.push(now);
                    if purpose == Purpose::Create {
                        creations.push(now);
                    }
                }
            }
            let within = |times: &[Moment]| times.iter().filter(|t| now.millis_since(**t) < 60_000).count();
            prop_assert!(within(&sends) <= 240);
            prop_assert!(within(&creations) <= 12);
        }
    }

    #[test]
    fn rounds_that_send_late_overfill_no_window(
        steps in prop::collection::vec((0..4_u8, 0..20_000_u64, 1..60_usize), 1..200),
    ) {
        let mut budget = Budget::new(LIMITS);
        let (mut now, mut sends) = (at(0), Vec::new());
        // The requests that each round under way has reserved, and how many of those it has sent.
        let mut rounds: VecDeque<(usize, usize)> = VecDeque::new();
        for (act, pause, many) in steps {
            now = now.plus_millis(pause);
            match act {
                0 => sends.extend(vec![now; exhaust(&mut budget, Purpose::Assign, now)]),
                1 if budget.admit(Purpose::Dns, now).is_ok() => {
                    budget.sent(Purpose::Dns, now);
                    sends.push(now);
                    rounds.push_back((reserve(&mut budget, many, now), 0));
                }
                2 => for (reserved, sent) in &mut rounds {
                    let more = many.min(*reserved - *sent);
                    *sent += more;
                    sends.extend(vec![now; more]);
                },
                _ => if let Some((reserved, sent)) = rounds.pop_front() {
                    budget.release(reserved, sent, now);
                },
            }
            prop_assert!(sends.iter().filter(|t| now.millis_since(**t) < 60_000).count() <= 240);
        }
    }

    #[test]
    fn nothing_goes_out_before_a_block_s_end_and_assignments_pass_whatever_polls_do(
        (quota, block) in report(), purpose in purpose(), asked in 0..3_700_000_u64, polls in 0..500_usize,
    ) {
        let mut budget = Budget::new(LIMITS);
        for _ in 0..polls {
            if budget.admit(Purpose::Poll, at(0)).is_ok() {
                budget.sent(Purpose::Poll, at(0));
            }
        }
        let quota = quota.map(|(limit, remaining, reset)| Quota {
            limit, remaining, reset_at: at(reset), observed_at: at(0),
        });
        let blocked_until = block.map(at);
        budget.observe(at(0), &RateReport { quota, blocked_until, ..RateReport::default() });
        let now = at(asked);
        let admitted = budget.admit(purpose, now);
        if blocked_until.is_some_and(|end| now < end) {
            prop_assert!(admitted.is_err());
        }
        let free = blocked_until.is_none_or(|end| now >= end) && quota.is_none_or(|quota| quota.remaining > 0);
        if free {
            prop_assert_eq!(budget.admit(Purpose::Assign, now), Ok(()));
        }
    }

    #[test]
    fn whoever_asks_again_when_told_is_admitted_in_the_end(
        sends in prop::collection::vec((purpose(), 0..2_000_u64), 0..400), (quota, block) in report(),
        purpose in purpose(), extra in 0..1_000_u64,
    ) {
        let mut budget = Budget::new(LIMITS);
        let mut now = at(0);
        for (purpose, pause) in sends {
            now = now.plus_millis(pause);
            // Sent without being admitted, like pages and the requests of other users of the token.
            budget.sent(purpose, now);
        }
        let quota = quota.map(|(limit, remaining, reset)| Quota {
            limit, remaining, reset_at: now.plus_millis(reset), observed_at: now,
        });
        let blocked_until = block.map(|ms| now.plus_millis(ms));
        budget.observe(now, &RateReport { quota, blocked_until, requests: extra, ..RateReport::default() });
        let mut asked = 0;
        while let Err(again) = budget.admit(purpose, now) {
            prop_assert!(again > now, "an answer that is not later spins");
            now = again;
            asked += 1;
            prop_assert!(asked < 10, "still refused after asking ten times");
        }
    }
}
