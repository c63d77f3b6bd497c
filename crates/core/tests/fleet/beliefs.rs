//! How reads of one address change the belief about it, and how they do not.

use crate::faults::droplet_of;
use flipop_core::addresses::account::belief::{Belief, Learned, Place};
use flipop_core::mechanism::{Pace, Schedule};
use flipop_core::model::{Context, Moment, ReservedIp};

const T: fn(u64) -> Moment = |seconds| Moment::from_millis(seconds * 1_000);

fn on(droplet: u64) -> ReservedIp {
    let ip = crate::world::ip(1);
    ReservedIp { ip, region: "nyc3".into(), machine: Some(droplet_of(droplet)), locked: false }
}

fn listed_on(droplet: u64) -> Belief {
    let mut belief = Belief::default();
    belief.listed(Some(&on(droplet)), T(0), T(0));
    belief
}

#[test]
fn an_address_on_no_list_stays_one_when_our_own_action_ends() {
    let mut belief = Belief::default();
    belief.listed(None, T(0), T(0));
    belief.read(Some(&on(1)), T(0), T(0));
    belief.settle(Place::of(&on(2)), T(10));
    assert!(belief.is_unlisted());
    assert_eq!(belief.listed(None, T(100), T(100)), Learned::Nothing, "it is read by itself");
}

#[test]
fn only_what_a_list_lacked_counts_as_on_no_list() {
    let mut unknown = Belief::default();
    unknown.read(Some(&on(1)), T(0), T(0));
    assert!(!unknown.is_unlisted());
    let mut known = listed_on(1);
    known.read(Some(&on(1)), T(5), T(5));
    assert!(!known.is_unlisted());
    known.listed(None, T(50), T(50));
    known.read(Some(&on(1)), T(51), T(51));
    assert!(known.is_unlisted());
}

#[test]
fn a_list_refreshes_when_a_lock_comes_or_a_doubt_ends_and_not_when_it_says_the_same() {
    let mut belief = listed_on(1);
    assert_eq!(belief.listed(Some(&on(1)), T(50), T(50)), Learned::Nothing);
    let locked = ReservedIp { locked: true, ..on(1) };
    assert_eq!(belief.listed(Some(&locked), T(100), T(100)), Learned::Refreshed);
    assert_eq!(belief.listed(Some(&on(1)), T(150), T(150)), Learned::Refreshed);
    belief.listed(Some(&on(2)), T(200), T(200));
    assert_eq!(belief.listed(Some(&on(1)), T(250), T(250)), Learned::Refreshed);
    assert!(!belief.is_doubted());
}

#[test]
fn a_contradiction_that_is_heard_again_keeps_to_the_schedule_of_its_second_read() {
    let mut belief = listed_on(1);
    belief.listed(Some(&on(2)), T(50), T(50));
    belief.read_failed(Pace::by(Schedule::Unauthorized), Context::exactly(T(50)));
    assert_eq!(belief.read_due(false), Some(T(110)));
    assert_eq!(belief.listed(Some(&on(2)), T(100), T(100)), Learned::Nothing);
    assert_eq!(belief.read_due(false), Some(T(110)));
}

#[test]
fn a_read_that_failed_between_two_answers_of_404_puts_the_second_off() {
    for failed in [false, true] {
        let mut belief = Belief::default();
        belief.listed(None, T(0), T(0));
        belief.read(None, T(0), T(0));
        if failed {
            belief.read_failed(Pace::by(Schedule::Fast), Context::exactly(T(30)));
        }
        belief.read(None, T(61), T(61));
        assert_eq!(belief.is_gone(), !failed);
        belief.read_failed(Pace::by(Schedule::Fast), Context::exactly(T(70)));
        belief.read(None, T(91), T(91));
        assert_eq!(belief.is_gone(), !failed, "21 s after the failure");
        belief.read(None, T(130), T(130));
        assert!(belief.is_gone());
    }
}
