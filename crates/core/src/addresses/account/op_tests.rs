use super::*;
use crate::model::provider::examples::droplet;

const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

fn op() -> Op {
    Op::new(Uid("pool".into()), OpKind::Assign, droplet(7), (Uid("n".into()), "n".into()), None, T(0))
}

fn read(machine: u64, locked: bool) -> ReservedIp {
    let ip = "192.0.2.1".parse().unwrap();
    ReservedIp { ip, region: "nyc3".into(), machine: Some(droplet(machine)), locked }
}

fn fault(kind: FaultKind, outcome_unknown: bool) -> CallFailure {
    CallFailure::Fault(Fault { outcome_unknown, ..Fault::new(kind, "broken".into()) })
}

/// The polls of an action that lasts this long, in milliseconds after its acceptance.
fn polls(of_ms: u64) -> Vec<u64> {
    let mut op = op();
    op.answered(Ok((ActionId(1), ActionStatus::InProgress)), T(0));
    let mut polls = Vec::new();
    while let Some((_, at, _)) = op.poll_due(false) {
        polls.push(at.millis_since(T(0)));
        let ended = at.millis_since(T(0)) >= of_ms;
        let status = if ended { ActionStatus::Completed } else { ActionStatus::InProgress };
        if op.polled(Ok(status), Context::exactly(at)).is_some() {
            break;
        }
    }
    polls
}

#[test]
fn an_action_is_polled_after_a_quarter_of_a_second_and_then_of_the_time_that_has_passed() {
    assert_eq!(polls(1_500), [250, 500, 750, 1_000, 1_250, 1_562]);
    let waits: Vec<u64> = polls(120_000).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits.iter().max(), Some(&5_000));
    assert!(waits.len() < 40, "a long action costs few polls: {}", waits.len());
}

#[test]
fn the_end_of_an_action_is_noticed_late_by_a_quarter_of_its_duration_at_most() {
    for duration in (1..200).map(|step| step * 97) {
        let noticed = *polls(duration).last().unwrap();
        assert!(noticed - duration <= (duration / 4).max(250), "{duration} ms: noticed at {noticed} ms");
    }
}

#[test]
fn an_unknown_outcome_is_read_until_the_address_is_unlocked() {
    for (machine, end) in [(7, End::Done), (3, End::Failed(FaultKind::Transient, "broken".into()))] {
        let mut op = op();
        assert_eq!(op.answered(Err(fault(FaultKind::Transient, true)), T(1)), None);
        assert_eq!(op.read_due(), Some(T(1)));
        assert_eq!(op.read(Some(&read(machine, true)), T(1), T(1)), None);
        assert_eq!(op.read_due(), Some(T(2)));
        assert_eq!(op.read(Some(&read(machine, false)), T(2), T(2)), Some(end));
    }
}

#[test]
fn a_read_from_before_the_request_says_nothing_of_its_outcome() {
    let mut op = op();
    op.answered(Err(fault(FaultKind::Transient, true)), T(3));
    assert_eq!(op.read(Some(&read(3, false)), T(2), T(4)), None);
    assert_eq!(op.read_due(), Some(T(3)), "another one is due");
    assert_eq!(op.read(Some(&read(7, false)), T(4), T(5)), Some(End::Done));
}

#[test]
fn a_404_is_followed_by_a_read_that_tells_address_from_machine() {
    let mut one = op();
    assert_eq!(one.answered(Err(fault(FaultKind::NotFound, false)), T(1)), None);
    assert_eq!(one.read(None, T(1), T(1)), Some(End::AddressGone));
    let mut other = op();
    other.answered(Err(fault(FaultKind::NotFound, false)), T(1));
    assert_eq!(
        other.read(Some(&read(3, false)), T(1), T(1)),
        Some(End::Failed(FaultKind::NotFound, "broken".into()))
    );
}

/// An operation whose action was accepted at 1 s, and was unknown to the provider at 2 s.
fn forgotten() -> Op {
    let mut op = op();
    op.answered(Ok((ActionId(1), ActionStatus::InProgress)), T(1));
    assert_eq!(op.polled(Err(fault(FaultKind::NotFound, false)), Context::exactly(T(2))), None);
    op
}

fn unassigned() -> ReservedIp {
    ReservedIp { machine: None, ..read(0, false) }
}

#[test]
fn an_accepted_action_that_is_no_longer_known_may_take_effect_for_a_minute() {
    let mut op = forgotten();
    let mut now = T(2);
    while now < T(61) {
        assert_eq!(op.read_due(), Some(now), "on the schedule of polls");
        assert_eq!(op.read(Some(&unassigned()), now, now), None, "{now:?}");
        now = op.read_due().unwrap();
    }
    assert_eq!(op.read(Some(&unassigned()), T(60), now), None, "begun too early");
    assert_eq!(op.read(Some(&unassigned()), T(61), now), None, "one read is not enough");
    let end = op.read(Some(&unassigned()), T(66), T(66));
    assert!(matches!(end, Some(End::Failed(FaultKind::NotFound, _))), "{end:?}");
}

#[test]
fn polls_that_something_in_between_answers_are_given_up_for_reads_once_the_action_is_stalled() {
    let mut op = op();
    op.answered(Ok((ActionId(1), ActionStatus::InProgress)), T(1));
    op.polled(Err(fault(FaultKind::Permanent, false)), Context::exactly(T(60)));
    assert_eq!(op.read_due(), None);
    op.polled(Err(fault(FaultKind::Permanent, false)), Context::exactly(T(301)));
    assert_eq!(op.read_due(), Some(T(301)));
    assert_eq!(op.read(Some(&read(7, false)), T(302), T(302)), Some(End::Done));
}

#[test]
fn an_action_that_is_no_longer_known_ends_where_a_read_shows_the_address_elsewhere() {
    assert_eq!(forgotten().read(Some(&read(7, false)), T(3), T(3)), Some(End::Done));
    assert!(matches!(forgotten().read(Some(&read(9, false)), T(3), T(3)), Some(End::Failed(..))));
    assert_eq!(forgotten().read(None, T(3), T(3)), Some(End::AddressGone));
    assert_eq!(forgotten().read(Some(&read(7, true)), T(3), T(3)), None, "locked");
}

#[test]
fn a_refusal_ends_it_at_once() {
    let refused = End::Refused(FaultKind::NodeInUse, "broken".into());
    assert_eq!(op().answered(Err(fault(FaultKind::NodeInUse, false)), T(1)), Some(refused));
}

#[test]
fn after_five_minutes_it_is_stalled_and_waits_for_the_lock_to_go() {
    let mut op = op();
    op.answered(Ok((ActionId(1), ActionStatus::InProgress)), T(0));
    assert!(!op.is_stalled(T(299)));
    assert_eq!(op.polled(Ok(ActionStatus::InProgress), Context::exactly(T(300))), None);
    assert!(op.is_stalled(T(300)) && op.trouble().is_some());
    assert_eq!(op.read_due(), Some(T(360)));
    assert_eq!(op.read(Some(&read(3, true)), T(360), T(360)), None);
    assert!(matches!(
        op.read(Some(&read(3, false)), T(420), T(420)),
        Some(End::Failed(FaultKind::InProgress, _))
    ));
}

#[test]
fn a_list_can_confirm_but_only_a_poll_can_deny() {
    let mut op = op();
    op.answered(Ok((ActionId(1), ActionStatus::InProgress)), T(1));
    assert_eq!(op.listed(Some(&read(3, false)), T(2), T(2)), None);
    assert!(op.poll_due(false).is_some_and(|(_, _, directly)| directly));
    assert_eq!(op.listed(Some(&read(7, false)), T(3), T(3)), Some(End::Done));
}
