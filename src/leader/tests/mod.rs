//! Electors against one Lease, on a paused clock.

pub(crate) mod lease_api;

use super::elector::{Elector, ElectorSettings};
use super::{LeaderHandle, LeaderOutcome, LeaderState};
use crate::clock::Clock;
use crate::permit::{Permit, PermitEnded, PermitSource};
use crate::random::Random;
use lease_api::{LeaseApi, Network};
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// A running elector.
struct Replica {
    handle: LeaderHandle,
    cancel: CancellationToken,
    clock: Clock,
    tasks: JoinSet<LeaderOutcome>,
}

/// Starts an elector whose wall clock shows `year`.
fn start_in(api: &LeaseApi, name: &'static str, year: i16) -> Replica {
    let epoch = jiff::civil::date(year, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    let clock = Clock::simulated(epoch);
    let settings = ElectorSettings {
        identity: name.to_owned(),
        namespace: "flipop".to_owned(),
        clock: clock.clone(),
        random: Random::seeded(name.len().try_into().unwrap()),
        permits: PermitSource::new(clock.clone()),
        heartbeat: None,
    };
    let (elector, handle) = Elector::new(settings);
    let cancel = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(elector.run(api.client(name), api.client(name), cancel.clone()));
    Replica { handle, cancel, clock, tasks }
}

fn start(api: &LeaseApi, name: &'static str) -> Replica {
    start_in(api, name, 2024)
}

impl Replica {
    /// Waits until it leads. Returns its permit and how long that took.
    async fn leads_within(&self, limit_ms: u64) -> (Permit, u64) {
        let began = self.clock.now();
        let mut state = self.handle.state();
        let leading = state.wait_for(|state| state.permit().is_some_and(|permit| permit.may_start().is_ok()));
        let state = timeout(Duration::from_millis(limit_ms), leading).await.expect("leads in time").unwrap();
        let permit = state.permit().unwrap().clone();
        (permit, self.clock.now().millis_since(began))
    }

    fn leads(&self) -> bool {
        self.handle.state().borrow().permit().is_some_and(|permit| permit.may_start().is_ok())
    }

    fn state(&self) -> LeaderState {
        self.handle.state().borrow().clone()
    }

    async fn outcome(&mut self) -> LeaderOutcome {
        timeout(Duration::from_mins(1), self.tasks.join_next()).await.expect("ends").unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_elector_makes_the_lease_and_leads_at_once() {
    let api = LeaseApi::default();
    let a = start(&api, "a");
    let (_, waited) = a.leads_within(1_000).await;
    assert!(waited < 10, "{waited}");
    let spec = api.lease()["spec"].clone();
    assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("a"), &json!(0)));
    assert_eq!(spec["acquireTime"], "2024-01-01T00:00:00.000000Z");
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_every_two_seconds_and_its_permit_never_runs_out() {
    let api = LeaseApi::default();
    let a = start(&api, "a");
    let (permit, _) = a.leads_within(1_000).await;
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        assert_eq!(permit.may_start(), Ok(()));
    }
    assert!((30..=31).contains(&api.writes().len()), "{:?}", api.writes());
    let spec = api.lease()["spec"].clone();
    assert_eq!(spec["acquireTime"], "2024-01-01T00:00:00.000000Z");
    assert_eq!(spec["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_from_a_dead_leader_after_fifteen_seconds_whatever_the_clocks_say() {
    for (leaders_year, standbys_year) in [(2024, 2024), (1999, 2024), (2050, 2024)] {
        let api = LeaseApi::default();
        let mut a = start_in(&api, "a", leaders_year);
        a.leads_within(1_000).await;
        let b = start_in(&api, "b", standbys_year);
        sleep(Duration::from_mins(1)).await;
        assert!(!b.leads());
        a.cancel.cancel();
        assert_eq!(a.outcome().await, LeaderOutcome::Stopped);
        let (_, waited) = b.leads_within(30_000).await;
        assert!((13_000..=15_100).contains(&waited), "{waited}");
        assert_eq!(api.lease()["spec"]["leaseTransitions"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_may_not_watch_takes_over_from_a_dead_leader_by_polling() {
    let api = LeaseApi::default();
    api.set_network("b", Network::NoWatch);
    let mut a = start(&api, "a");
    a.leads_within(1_000).await;
    let b = start(&api, "b");
    sleep(Duration::from_mins(1)).await;
    a.cancel.cancel();
    a.outcome().await;
    let (_, waited) = b.leads_within(30_000).await;
    assert!((15_000..=19_500).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_begun_anew_without_a_pause() {
    let api = LeaseApi::default();
    api.set_network("a", Network::ShortWatches);
    let a = start(&api, "a");
    a.leads_within(1_000).await;
    let before = api.watches();
    sleep(Duration::from_secs(10)).await;
    let watches = api.watches() - before;
    assert!((4..=6).contains(&watches), "{watches}");
    assert!(a.leads());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_taken_over_at_once_and_ends_the_old_permit_first() {
    let api = LeaseApi::default();
    let mut a = start(&api, "a");
    let (old, _) = a.leads_within(1_000).await;
    let b = start(&api, "b");
    sleep(Duration::from_secs(30)).await;
    a.handle.stand_down();
    sleep(Duration::from_secs(30)).await;
    assert!(a.leads(), "a leader that stands down goes on renewing");
    a.handle.release();
    assert_eq!(a.outcome().await, LeaderOutcome::Released);
    assert_eq!(old.may_start(), Err(PermitEnded));
    let (_, waited) = b.leads_within(2_000).await;
    assert!(waited < 100, "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_stands_down_leaves_a_free_lease_alone() {
    let api = LeaseApi::default();
    let mut a = start(&api, "a");
    a.leads_within(1_000).await;
    let b = start(&api, "b");
    b.handle.stand_down();
    sleep(Duration::from_secs(5)).await;
    a.handle.release();
    a.outcome().await;
    sleep(Duration::from_mins(1)).await;
    assert!(!b.leads());
    assert_eq!(api.lease()["spec"]["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_leader_outlives_an_api_outage_in_a_new_epoch_of_the_same_term() {
    let api = LeaseApi::default();
    let a = start(&api, "a");
    let (old, _) = a.leads_within(1_000).await;
    let returns = a.handle.api_returns().latest();
    for network in [Network::Refused, Network::Silent] {
        sleep(Duration::from_secs(5)).await;
        api.set_network("a", network);
        sleep(Duration::from_millis(10_100)).await;
        assert!(!a.leads());
        sleep(Duration::from_mins(10)).await;
        assert!(matches!(a.state(), LeaderState::Lapsed { .. }));
        api.set_network("a", Network::Good);
        let (new, waited) = a.leads_within(10_000).await;
        assert!(waited <= 3_000, "{waited}");
        assert_ne!(new.epoch(), old.epoch());
        assert_eq!(old.may_start(), Err(PermitEnded));
    }
    assert_eq!(api.lease()["spec"]["leaseTransitions"], 0);
    assert_eq!(a.handle.api_returns().latest(), returns + 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_and_cannot_write_is_not_back_before_it_writes() {
    let api = LeaseApi::default();
    let a = start(&api, "a");
    a.leads_within(1_000).await;
    let returns = a.handle.api_returns().latest();
    api.set_network("a", Network::FailsWrites);
    sleep(Duration::from_mins(5)).await;
    assert!(matches!(a.state(), LeaderState::Lapsed { .. }));
    assert_eq!(a.handle.api_returns().latest(), returns);
    api.set_network("a", Network::Good);
    a.leads_within(3_000).await;
    assert_eq!(a.handle.api_returns().latest(), returns + 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_cut_off_has_no_permit_before_another_leads_and_ends_when_it_returns() {
    for network in [Network::Refused, Network::Silent] {
        let api = LeaseApi::default();
        let mut a = start(&api, "a");
        let (old, _) = a.leads_within(1_000).await;
        let b = start(&api, "b");
        sleep(Duration::from_secs(20)).await;
        api.set_network("a", network);
        let (_, waited) = tokio::select! {
            led = b.leads_within(30_000) => led,
            // Two leaders at once are the fault that this test looks for.
            () = async { while !(old.may_start().is_ok() && b.leads()) { sleep(Duration::from_millis(1)).await } } =>
                panic!("two leaders"),
        };
        assert!(waited > 10_000, "{waited}");
        assert_eq!(old.may_start(), Err(PermitEnded));
        api.set_network("a", Network::Good);
        assert_eq!(a.outcome().await, LeaderOutcome::Lost { holder: "b".to_owned() });
        assert!(b.leads());
    }
}

#[tokio::test(start_paused = true)]
async fn a_theft_is_noticed_at_once() {
    let api = LeaseApi::default();
    let mut a = start(&api, "a");
    let (old, _) = a.leads_within(1_000).await;
    sleep(Duration::from_millis(500)).await;
    api.put(|lease| lease["spec"]["holderIdentity"] = json!("stranger"));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(old.may_start(), Err(PermitEnded));
    assert_eq!(a.outcome().await, LeaderOutcome::Lost { holder: "stranger".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn a_write_that_does_not_change_the_holder_costs_a_leader_nothing() {
    let api = LeaseApi::default();
    let a = start(&api, "a");
    let (permit, _) = a.leads_within(1_000).await;
    for _ in 0..10 {
        api.put(|lease| lease["metadata"]["labels"] = json!({"touched": "yes"}));
        sleep(Duration::from_secs(3)).await;
        assert_eq!(permit.may_start(), Ok(()));
    }
    assert_eq!(api.lease()["metadata"]["labels"]["touched"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_by_its_holder_and_not_taken_while_that_one_may_write() {
    let api = LeaseApi::default();
    let mut a = start(&api, "a");
    let (permit, _) = a.leads_within(1_000).await;
    let b = start(&api, "b");
    sleep(Duration::from_secs(20)).await;
    api.delete();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(api.lease()["spec"]["holderIdentity"], "a");
    assert!(permit.may_start().is_ok() && !b.leads());
    a.cancel.cancel();
    a.outcome().await;
    api.delete();
    let (_, waited) = b.leads_within(30_000).await;
    assert!(waited > 10_000, "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_permit_has_ended_does_not_make_a_deleted_lease_anew_while_another_may_hold_it() {
    let api = LeaseApi::default();
    let mut a = start(&api, "a");
    a.leads_within(1_000).await;
    api.set_network("a", Network::Refused);
    sleep(Duration::from_mins(1)).await;
    // Someone else takes the lease and it is deleted, both unseen by a.
    api.put(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    api.delete();
    api.set_network("a", Network::Good);
    let (_, waited) = a.leads_within(30_000).await;
    assert!((15_000..=20_000).contains(&waited), "{waited}");
    api.put(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    assert_eq!(a.outcome().await, LeaderOutcome::Lost { holder: "b".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn a_standby_whose_knowledge_is_old_does_not_take_a_deleted_lease_at_once() {
    let api = LeaseApi::default();
    let a = start(&api, "a");
    a.leads_within(1_000).await;
    let b = start(&api, "b");
    sleep(Duration::from_secs(5)).await;
    api.set_network("b", Network::Refused);
    sleep(Duration::from_mins(1)).await;
    // The holder is alive and has not noticed the deletion.
    api.set_network("a", Network::Silent);
    api.delete();
    api.set_network("b", Network::Good);
    let (_, waited) = b.leads_within(40_000).await;
    assert!(waited >= 15_000, "{waited}");
    assert!(!a.leads());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_seen_long_ago_does_not_make_a_deleted_lease_free() {
    let api = LeaseApi::default();
    let a = start(&api, "a");
    a.leads_within(1_000).await;
    let b = start(&api, "b");
    sleep(Duration::from_secs(5)).await;
    b.handle.stand_down();
    a.handle.release();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(api.lease()["spec"]["holderIdentity"], "");
    // Another replica takes the lease and releases it. Then the lease is deleted.
    let mut c = start(&api, "c");
    c.leads_within(1_000).await;
    c.handle.release();
    c.outcome().await;
    sleep(Duration::from_secs(5)).await;
    api.delete();
    sleep(Duration::from_secs(30)).await;
    assert!(!b.leads() && api.lease().is_null());
    let d = start(&api, "d");
    let (_, waited) = d.leads_within(1_000).await;
    assert!(waited < 10, "a process that never saw a lease makes one: {waited}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_although_the_answer_was_lost_is_recognised() {
    let api = LeaseApi::default();
    api.set_network("a", Network::LosesReplies);
    let a = start(&api, "a");
    sleep(Duration::from_millis(500)).await;
    assert!(!a.leads());
    assert_eq!(api.lease()["spec"]["holderIdentity"], "a");
    api.set_network("a", Network::Good);
    a.leads_within(5_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_s_longer_lease_is_respected_and_a_shorter_one_is_not_cut() {
    for (seconds, earliest) in [(60, 60_000), (5, 15_000)] {
        let api = LeaseApi::default();
        api.put(|lease| {
            lease["spec"] = json!({"holderIdentity": "stranger", "leaseDurationSeconds": seconds});
        });
        let a = start(&api, "a");
        let (_, waited) = a.leads_within(90_000).await;
        assert!((earliest..earliest + 4_500).contains(&waited), "{waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_answered_leaves_the_lease_to_expire_within_a_second() {
    let api = LeaseApi::default();
    let mut a = start(&api, "a");
    a.leads_within(1_000).await;
    api.set_network("a", Network::Silent);
    sleep(Duration::from_millis(100)).await;
    let began = a.clock.now();
    a.handle.release();
    assert_eq!(a.outcome().await, LeaderOutcome::NotReleased);
    assert!(a.clock.now().millis_since(began) <= 1_000);
}
