//! Buying addresses: exactly as many as desired, whatever is lost on the way.

use crate::faults::{fault, spec};
use crate::world::{PROVIDER, Trick, World, ip};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::fleet::Input;
use flipop_core::model::{Address, CallFailure, FaultKind, Moment, ObjectRef, Observed, WriteFailure};

impl World {
    /// Buys an address. Returns how long the answer takes, and the answer.
    pub(crate) fn create(&mut self, pool: &ObjectRef, region: &str) -> (u64, Result<Address, CallFailure>) {
        self.call(format!("create in {region}"));
        let memory = self.pools[&pool.name.name].status.memory.clone();
        assert!(
            memory.is_some_and(|memory| memory.intent.is_some()),
            "bought without an intent in the status"
        );
        let trick = self.tricks.pop_front().unwrap_or(Trick::Fine);
        let buys = !matches!(trick, Trick::Refused(_) | Trick::Lost(false));
        let mut result = Err(CallFailure::Fault(fault(FaultKind::Transient, true)));
        if let Trick::Refused(kind) = trick {
            result = Err(CallFailure::Fault(fault(kind, false)));
        }
        if buys {
            self.created += 1;
            let n = 200 + u8::try_from(self.created).unwrap();
            self.add_ip(n);
            if trick != Trick::Lost(true) {
                result = Ok(ip(n));
            }
        }
        let wait_ms = if let Trick::Slow(seconds) = trick { seconds * 1_000 } else { 50 };
        if wait_ms > self.call_timeout_ms {
            result = Err(CallFailure::Fault(fault(FaultKind::Transient, true)));
        }
        (wait_ms.min(self.call_timeout_ms), result)
    }
}

/// A world with three nodes and a pool that lacks this many addresses. No process runs yet.
pub(crate) fn buying(desired: i64) -> World {
    let mut world = World::bare(0, 3);
    // An address on a droplet outside the cluster proves the scope.
    world.add_foreign_ip(90, 90);
    world.add_pool("pool", RawPoolSpec { desired_ips: desired, ..spec() });
    world
}

/// The same world with a running process.
pub(crate) fn world(desired: i64) -> World {
    let mut world = buying(desired);
    world.start();
    world
}

fn spec_ips(world: &World) -> usize {
    world.pools["pool"].spec.as_ref().unwrap().ips.len()
}

#[test]
fn missing_addresses_are_created_written_into_the_spec_and_assigned() {
    let mut world = world(3);
    world.run(20);
    assert_eq!((world.created, spec_ips(&world)), (3, 3));
    assert!((1..=3).all(|n| world.holder(n).is_some()));
    world.start();
    world.run(60);
    assert_eq!(world.created, 3);
}

#[test]
fn a_bought_address_is_given_out_without_another_read() {
    let mut world = world(1);
    world.run_while(5, |world| world.created == 0);
    let from = world.now;
    world.run_while(5, |world| world.assigns == 0);
    assert_eq!((world.count(from, "list"), world.count(from, "get")), (0, 0), "{:?}", world.calls);
}

#[test]
fn a_status_that_is_refused_while_a_purchase_is_under_way_forgets_nothing_of_it() {
    for trick in [Trick::Slow(8), Trick::Lost(true), Trick::Lost(false)] {
        let mut world = world(2);
        world.tricks.push_back(trick);
        world.run_while(5, |world| world.total("create") == 0);
        let refused = WriteFailure::Invalid("no such field".into());
        world.faults.unwritten = Some(("pool", refused));
        world.set_node(4, true);
        world.run(5);
        world.faults.unwritten = None;
        world.run(700);
        assert_eq!((world.created, spec_ips(&world), world.cloud.len()), (2, 2, 3), "{trick:?}");
    }
}

#[test]
fn a_lost_reply_costs_no_second_purchase_and_loses_none() {
    for trick in [Trick::Lost(true), Trick::Lost(false)] {
        let mut world = world(2);
        world.tricks.push_back(trick);
        world.run(200);
        assert_eq!((world.created, spec_ips(&world)), (2, 2), "{trick:?}");
        assert_eq!(world.cloud.len(), 3);
    }
}

#[test]
fn a_region_in_capitals_costs_no_second_purchase_and_keeps_no_node_waiting() {
    let mut world = buying(1);
    world.edit("pool", |spec| spec.region = " NYC3\n".into());
    world.tricks.push_back(Trick::Lost(true));
    world.start();
    world.run(120);
    assert_eq!((world.created, spec_ips(&world), world.cloud.len()), (1, 1, 2), "{:?}", world.calls);
    assert!((1..=3).any(|n| world.holder(n).is_some()));
    assert_eq!(world.total("create in nyc3"), 1);
}

#[test]
fn a_crash_at_any_moment_leads_to_exactly_the_desired_number() {
    // Each step of the world takes at most 50 ms, so there is a crash after each.
    for crash_at_ms in (0..2_000).step_by(25) {
        let mut world = world(2);
        world.run_until(world.now.plus_millis(crash_at_ms));
        world.start();
        world.run(200);
        assert_eq!((world.created, spec_ips(&world)), (2, 2), "crash after {crash_at_ms} ms");
    }
}

#[test]
fn however_many_are_desired_a_crash_at_any_purchase_loses_none_and_buys_none_twice() {
    for desired in 1..=12_u8 {
        for number in 1..=usize::from(desired) {
            // The process dies as soon as the request was sent. The request has taken effect, and nobody knows of it.
            let mut world = world(i64::from(desired));
            world.run_while(5, |world| world.created < number);
            world.start();
            world.run(300);
            let wanted = usize::from(desired);
            assert_eq!((world.created, spec_ips(&world)), (wanted, wanted), "{desired}, crash at {number}");
        }
    }
}

#[test]
fn when_several_new_addresses_appear_only_the_user_can_tell() {
    let mut world = world(1);
    world.tricks.push_back(Trick::Lost(true));
    world.run(1);
    world.add_ip(150);
    world.run(120);
    let condition = |world: &World| world.message("pool", "CreationUncertain").map(str::to_owned);
    let message = condition(&world).unwrap();
    assert!(message.contains("192.0.2.150") && message.contains("192.0.2.201"), "{message}");
    assert_eq!((world.created, spec_ips(&world)), (1, 0));
    world.start();
    world.run(120);
    assert_eq!(world.created, 1, "a restart does not buy again");
    world.edit("pool", |spec| spec.ips = vec![ip(201).to_string()]);
    world.run(60);
    assert_eq!(condition(&world), None);
    assert_eq!(world.created, 1);
}

#[test]
fn gitops_that_reverts_the_spec_is_neither_fought_nor_fed() {
    let mut world = world(2);
    world.run(20);
    world.edit("pool", |spec| spec.ips.clear());
    world.run(200);
    assert_eq!((world.created, spec_ips(&world)), (2, 0));
    world.start();
    world.run(200);
    assert_eq!((world.created, spec_ips(&world)), (2, 0));
    assert!(world.holder(1).is_some() && world.holder(2).is_some());
}

#[test]
fn a_wiped_status_alone_creates_nothing() {
    let mut world = world(2);
    world.run(20);
    world.pools.get_mut("pool").unwrap().status = flipop_core::addresses::pool::status::PoolStatus::default();
    world.start();
    world.run(200);
    assert_eq!(world.created, 2);
}

#[test]
fn a_pool_that_goes_while_it_is_not_known_what_was_bought_for_it_says_so() {
    for (leads, lost) in [(true, true), (true, false), (false, true)] {
        let mut world = world(1);
        if lost {
            world.tricks.push_back(Trick::Lost(true));
        }
        world.run(10);
        if !leads {
            world.stand_by();
        }
        let pool = world.pools.remove("pool").unwrap();
        world.observe(Input::Pools(Observed::Delete(pool)));
        world.run(5);
        let told = world.events_of("CreatedWithoutPool").len();
        assert_eq!(told, usize::from(leads && lost), "{leads} {lost}");
    }
}

#[test]
fn a_quota_is_an_error_that_is_tried_again_slowly() {
    let mut world = world(1);
    world.tricks.push_back(Trick::Refused(FaultKind::Quota));
    world.run(30);
    assert!(world.status("pool").error.contains("Quota"), "{}", world.status("pool").error);
    assert_eq!(world.total("create"), 1);
    world.run(60);
    assert_eq!(world.created, 1);
    assert_eq!(world.status("pool").error, "");
}

#[test]
fn with_the_go_operators_crds_nothing_is_bought_and_the_status_says_why() {
    let mut world = world(2);
    world.go_crds = true;
    world.run(60);
    assert_eq!(world.created, 0);
    assert!(world.status("pool").error.contains("CRDs"), "{}", world.status("pool").error);
    world.go_crds = false;
    world.run(700);
    assert_eq!(world.created, 2);
}

#[test]
fn a_released_address_is_let_go_and_replaced() {
    let mut world = world(1);
    world.run(20);
    assert_eq!(world.holder(1), Some(ip(201)));
    world.edit("pool", |spec| {
        spec.ips.clear();
        spec.released_ips = vec![ip(201).to_string()];
    });
    world.moved.insert(ip(201));
    world.run(60);
    assert_eq!(world.created, 2);
    let on_nodes = (1..=3).filter(|n| world.holder(*n) == Some(ip(202))).count();
    assert_eq!(on_nodes, 1);
}

#[test]
fn an_address_that_the_user_wrote_and_removed_is_let_go() {
    let mut world = World::with(2, 2);
    world.run(20);
    world.edit("pool", |spec| spec.ips.truncate(1));
    world.run(20);
    assert!(!world.status("pool").ips.contains_key(&ip(2).to_string()));
    assert_eq!(world.holder(2), Some(ip(2)), "it stays where it is");
    assert_eq!(world.annotations.len(), 1);
}

#[test]
fn a_created_address_that_is_gone_for_good_is_forgotten_but_not_at_once() {
    let mut world = world(2);
    world.run(20);
    world.edit("pool", |spec| spec.ips.clear());
    world.cloud.remove(&ip(201));
    world.run(55);
    assert_eq!(world.created, 2);
    world.run(120);
    assert_eq!(world.created, 3, "replaced, because desiredIPs says so");
}

#[test]
fn two_pools_buy_one_after_the_other() {
    let mut world = world(2);
    world.add_pool("other", RawPoolSpec { desired_ips: 2, ..spec() });
    world.tricks.push_back(Trick::Lost(true));
    world.run(10);
    assert_eq!(world.created, 1, "nobody buys before the outcome of the first purchase is known");
    world.run(200);
    assert_eq!(world.created, 4);
}

#[test]
fn nothing_is_bought_while_a_write_that_forgets_its_intent_is_on_its_way() {
    let mut world = world(1);
    world.tricks.push_back(Trick::Refused(FaultKind::Transient));
    world.run_while(5, |world| world.calls.iter().all(|(_, call)| !call.starts_with("create")));
    // After the refusal a status without the intent is written, which takes long to arrive.
    world.faults.held_status_writes = Some(Vec::new());
    let from = world.now.plus_millis(1);
    for n in 4..=6 {
        world.run(3);
        world.set_node(n, true);
    }
    assert_eq!((world.count(from, "create"), world.created), (0, 0), "{:?}", world.calls);
    assert_eq!(world.faults.held_status_writes.as_ref().map(Vec::len), Some(1));
    world.release_status_writes();
    world.run(20);
    assert_eq!((world.created, spec_ips(&world)), (1, 1));
}

#[test]
fn a_purchase_for_a_pool_that_is_gone_is_told() {
    for (trick, told) in [(Trick::Fine, "192.0.2.201"), (Trick::Lost(true), "unknown")] {
        let mut world = world(1);
        world.tricks.push_back(trick);
        world.run_while(5, |world| world.calls.iter().all(|(_, call)| !call.starts_with("create")));
        world.delete_pool("pool");
        world.run(5);
        let told_of =
            |event: &&flipop_core::mechanism::effects::Notice| event.reason.as_str() == "CreatedWithoutPool";
        let events: Vec<_> = world.events.iter().filter(told_of).collect();
        assert!(events.len() == 1 && events[0].warning && events[0].subject == told, "{:?}", world.events);
    }
}

#[test]
fn a_creation_is_resolved_by_the_provider_that_was_asked_and_holds_up_the_others_until_then() {
    let mut world = world(1);
    world.tricks.push_back(Trick::Lost(true));
    world.run_while(5, |world| world.calls.iter().all(|(_, call)| !call.starts_with("create")));
    world.edit("pool", |spec| spec.provider = "nowhere".into());
    world.add_pool("other", RawPoolSpec { desired_ips: 1, ..spec() });
    let from = world.now.plus_millis(1);
    world.run(25);
    assert_eq!((world.count(from, "create"), world.created), (0, 1), "{:?}", world.calls);
    world.run(100);
    assert_eq!((world.count(from, "create"), world.created), (1, 2), "{:?}", world.calls);
    let created = |pool: &str| world.status(pool).memory.as_ref().map_or(0, |memory| memory.created.len());
    assert_eq!((created("pool"), created("other")), (1, 1));
}

/// Both pools had announced a purchase when the leadership began anew, so either may have bought the addresses that the
/// list shows.
#[test]
fn what_was_bought_goes_to_one_of_two_pools_that_both_name_another_provider_by_now() {
    let mut world = buying(1);
    world.add_pool("second", RawPoolSpec { desired_ips: 1, ..spec() });
    world.start();
    world.tricks.push_back(Trick::Lost(true));
    // The intent of the first pool has to be written again. Meanwhile the other one writes its own.
    world.faults.status_writes.push_back(WriteFailure::Conflict);
    world.run(2);
    world.lead_again();
    for pool in ["pool", "second"] {
        world.edit(pool, |spec| spec.provider = "elsewhere".into());
    }
    world.run(31);
    for pool in ["pool", "second"] {
        world.edit(pool, |spec| spec.provider = PROVIDER.into());
    }
    world.run(300);
    let owned = |pool: &str| world.status(pool).ips.clone().into_keys().collect::<Vec<_>>();
    assert_eq!((world.created, owned("pool").len(), owned("second").len()), (2, 1, 1));
    assert_ne!(owned("pool"), owned("second"));
}

#[test]
fn a_purchase_is_recorded_at_the_end_of_the_process_though_another_token_made_the_account_unknown() {
    let mut world = world(1);
    world.run_while(5, |world| world.calls.iter().all(|(_, call)| !call.starts_with("create")));
    world.observe(Input::TokenChanged(PROVIDER.into()));
    world.observe(Input::Draining);
    world.run(3);
    assert_eq!(world.status("pool").memory.as_ref().map(|memory| memory.created.len()), Some(1));
}

#[test]
fn of_one_account_only_one_request_is_under_way_even_when_its_pool_goes_meanwhile() {
    for finalised in [false, true] {
        let mut world = world(1);
        world.add_pool("other", RawPoolSpec { desired_ips: 1, ..spec() });
        world.tricks.push_back(Trick::Slow(20));
        let start = world.now;
        world.run_while(10, |world| world.count(start, "create") == 0);
        if finalised {
            let mut pool = world.pools["pool"].clone();
            pool.deleting = true;
            world.put_pool(pool);
        } else {
            world.delete_pool("pool");
        }
        let sent = world.calls.iter().rev().find(|(_, call)| call.starts_with("create")).unwrap().0;
        world.run(60);
        let second = world.calls.iter().rev().find(|(_, call)| call.starts_with("create")).unwrap().0;
        assert_eq!(world.count(start, "create"), 2);
        assert!(second.millis_since(sent) >= 20_000, "{} ms, {finalised}", second.millis_since(sent));
        assert_eq!(world.events_of("CreatedWithoutPool").len(), 1);
        assert_eq!(world.pools["other"].spec.as_ref().unwrap().ips.len(), 1);
    }
}

#[test]
fn an_acceptance_for_a_pool_that_went_meanwhile_lets_the_other_pools_buy_at_once() {
    let mut world = world(1);
    world.add_pool("other", RawPoolSpec { desired_ips: 1, ..spec() });
    world.tricks.extend([Trick::Refused(FaultKind::Unauthorized), Trick::Slow(20)]);
    let start = world.now;
    world.run_while(90, |world| world.count(start, "create") < 2);
    world.delete_pool("pool");
    world.run(25);
    assert_eq!(world.events_of("CreatedWithoutPool").len(), 1);
    assert_eq!(world.count(start, "create"), 3, "the account's token was accepted: {:?}", world.calls);
    assert_eq!(world.pools["other"].spec.as_ref().unwrap().ips.len(), 1);
}

#[test]
fn what_was_announced_for_another_region_is_not_bought() {
    let mut world = world(1);
    world.faults.held_status_writes = Some(Vec::new());
    world.run(5);
    world.edit("pool", |spec| spec.region = "fra1".into());
    world.release_status_writes();
    world.run(60);
    let start = Moment::default();
    assert_eq!(world.count(start, "create in nyc3"), 0, "{:?}", world.calls);
    assert_eq!(world.count(start, "create in fra1"), 1, "{:?}", world.calls);
}

#[test]
fn addresses_that_were_invisible_for_a_while_are_not_bought_again_while_they_come_back() {
    let mut world = world(3);
    world.run(30);
    assert_eq!(world.created, 3);
    world.edit("pool", |spec| spec.ips.clear());
    world.run(10);
    // The token now sees somebody else's account, or none at all.
    let mut account = std::mem::take(&mut world.cloud);
    world.run(300);
    let first = account.remove(&ip(201)).unwrap();
    world.cloud.insert(first.ip, first);
    let state = |world: &World| world.entry("pool", 201).state.clone();
    world.run_while(70, |world| state(world) != "active");
    world.run(5);
    world.cloud.append(&mut account);
    world.run(300);
    assert_eq!((world.created, world.assigns), (3, 3), "{:?}", world.calls);
    let memory = world.status("pool").memory.clone().unwrap();
    assert_eq!(memory.created.len(), 3, "{memory:?}");
}

#[test]
fn addresses_of_unknown_origin_are_looked_for_anew_when_the_first_purchase_came_to_nothing() {
    let mut world = World::bare(0, 2);
    world.add_ip(7);
    world.move_by_hand(7, Some(1));
    world.tricks.push_back(Trick::Refused(FaultKind::Invalid));
    world.add_pool("pool", RawPoolSpec { desired_ips: 1, region: "nyc9".into(), ..spec() });
    world.start();
    world.run(30);
    assert_eq!(world.total("create"), 1);
    world.edit("pool", |spec| spec.region = "nyc3".into());
    world.run(120);
    assert_eq!(world.created, 0, "{:?}", world.calls);
    assert!(world.has("pool", "CreationUncertain"));
}

#[test]
fn a_purchase_for_which_no_node_has_matched_for_a_minute_is_a_warning_that_says_how_to_give_it_back() {
    for (seconds, warning) in [(58, false), (62, true)] {
        let mut world = world(1);
        world.run(20);
        (1..=3).for_each(|n| world.set_node(n, false));
        world.run(seconds);
        world.events.clear();
        world.edit("pool", |spec| spec.desired_ips = 2);
        world.run(1);
        let events = world.events.iter().filter(|event| event.reason.as_str() == "Created");
        let told: Vec<(bool, bool)> =
            events.map(|event| (event.warning, event.message.contains("releasedIPs"))).collect();
        assert_eq!(told, [(warning, warning)], "{seconds} s: {:?}", world.events);
    }
}
