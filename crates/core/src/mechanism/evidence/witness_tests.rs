//! When a provider is asked, and about which machine first.

use super::*;
use crate::model::provider::examples::droplet;

const T: fn(u64) -> Moment = Moment::from_millis;

/// The last answers of the droplets with these numbers: the lowest number is silent for longest.
fn silent(numbers: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = Silent> {
    numbers.map(|n| Silent { machine: droplet(n), since: T(n) })
}

/// Asks everything that is due until the end, and answers each question after a while.
fn asked(witness: &mut Witness, silent: impl Fn() -> Vec<Silent>, (from, to): (u64, u64)) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for now in (from..to).step_by(100).map(T) {
        witness.follow(silent().into_iter(), now);
        while let Some(machine) = witness.next(now) {
            assert!(witness.due().is_some_and(|due| due <= now), "it is due when it is asked");
            witness.asked(&machine, now);
            assert!(!witness.answered(&machine, now));
            all.push((now.as_millis() - from, machine.id().parse().unwrap()));
        }
    }
    all
}

#[test]
fn a_machine_is_asked_about_at_once_and_after_two_five_and_nine_seconds() {
    let mut witness = Witness::default();
    let one = || silent(1..=1).collect();
    let expected = [(0, 1), (2_000, 1), (5_000, 1), (9_000, 1)];
    assert_eq!(asked(&mut witness, one, (10_000, 300_000)), expected);
    assert_eq!(witness.due(), None);
    // It answers, and falls silent again.
    witness.follow(std::iter::empty(), T(300_000));
    assert_eq!(asked(&mut witness, one, (310_000, 400_000)), expected);
}

#[test]
fn a_question_waits_for_the_answer_to_the_one_before() {
    let mut witness = Witness::default();
    witness.follow(silent(1..=1), T(0));
    witness.asked(&droplet(1), T(0));
    assert_eq!((witness.due(), witness.next(T(60_000))), (None, None));
    witness.answered(&droplet(1), T(1));
    assert_eq!(witness.next(T(60_000)), None, "that was the answer to another question");
    witness.answered(&droplet(1), T(0));
    assert_eq!(witness.next(T(60_000)), Some(droplet(1)));
}

#[test]
fn an_account_is_asked_twelve_times_a_minute_about_those_that_are_silent_for_longest() {
    let mut witness = Witness::default();
    let all = asked(&mut witness, || silent(1..=20).collect(), (10_000, 300_000));
    let first: Vec<(u64, u64)> = (1..=12).map(|n| (0, n)).collect();
    assert_eq!(all[..12], first);
    // The others come before anyone is asked about again.
    let second: Vec<(u64, u64)> = (13..=20).chain(1..=4).map(|n| (60_000, n)).collect();
    assert_eq!(all[12..24], second);
    assert_eq!((all.len(), all.last().map(|(at, _)| *at)), (60, Some(240_000)));
}
