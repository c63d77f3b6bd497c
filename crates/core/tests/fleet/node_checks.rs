//! `spec.nodeCheck`: which failures move an address and how soon, and which never do.

use crate::faults::nodes_key;
use crate::world::{World, ip};
use flipop_core::fleet::Input;
use flipop_core::mechanism::evidence::Standing;
use flipop_core::model::spec::RawGrace;
use flipop_core::model::{
    CheckKey, CheckOutcome, Checked, LeaseFacts, Moment, Observed, RawNodeCheck, WriteFailure,
};
use std::collections::{BTreeMap, BTreeSet};

/// The time between two turns of the small world.
const STEP_MS: u64 = 250;

/// Faults of machines, and of the view of them.
pub(crate) struct Clinic {
    /// How long a Lease lasts. A kubelet renews it in a quarter of that.
    pub(crate) duration_ms: u64,
    /// Machines that answer no check.
    pub(crate) silent: BTreeSet<u8>,
    /// Kubelets that renew nothing.
    idle: BTreeSet<u8>,
    /// Checks fail on our own side.
    pub(crate) own_fault: bool,
    /// The watch shows nothing.
    stalled: bool,
    pub(crate) due: BTreeMap<CheckKey, Moment>,
    listed: bool,
    renewals: u64,
}

pub(crate) fn name(n: u8) -> String {
    format!("node-{n}")
}

pub(crate) fn lease(n: u8, renewals: u64) -> LeaseFacts {
    LeaseFacts { name: name(n), renewed_us: i64::try_from(renewals).ok(), duration_ms: 40_000 }
}

impl Default for Clinic {
    fn default() -> Self {
        Self {
            duration_ms: 40_000,
            silent: BTreeSet::new(),
            idle: BTreeSet::new(),
            own_fault: false,
            stalled: false,
            due: BTreeMap::new(),
            listed: false,
            renewals: 0,
        }
    }
}

impl Clinic {
    pub(crate) fn dies(&mut self, n: u8) {
        self.silent.insert(n);
        self.idle.insert(n);
    }

    pub(crate) fn returns(&mut self, n: u8) {
        self.silent.remove(&n);
        self.idle.remove(&n);
    }

    pub(crate) fn list(&mut self, world: &mut World, nodes: u8) {
        for n in 1..=nodes {
            world.leases.insert(name(n), self.lease(n, 0));
        }
        self.listed = true;
        world.observe(Input::Leases(Observed::Reset(world.leases.values().cloned().collect())));
    }

    fn lease(&self, n: u8, renewals: u64) -> LeaseFacts {
        LeaseFacts { duration_ms: self.duration_ms, ..lease(n, renewals) }
    }

    /// Lets time pass, with checks and Leases.
    pub(crate) fn run(&mut self, world: &mut World, seconds: u64) {
        let end = world.now.plus_millis(seconds * 1_000);
        while world.now < end {
            self.turn(world);
        }
    }

    /// One turn, in which each check that is due is made.
    pub(crate) fn turn(&mut self, world: &mut World) {
        world.dead = self.silent.intersection(&self.idle).map(|n| name(*n)).collect();
        self.renew(world);
        let (_, wanted) = world.fleet.checks();
        let wanted: Vec<_> = wanted.iter().map(|(key, target)| (key.clone(), target.clone())).collect();
        for (key, target) in wanted {
            if self.due.get(&key).is_some_and(|due| *due > world.now) {
                continue;
            }
            let n: u8 = target.name.trim_start_matches("node-").parse().unwrap();
            let outcome = if self.own_fault {
                CheckOutcome::NoVerdict("too many open files".into())
            } else if self.silent.contains(&n) {
                CheckOutcome::Failed
            } else {
                CheckOutcome::Passed
            };
            // A check of a node that serves is repeated as soon as it is overdue.
            let hurries = target.holds && outcome == CheckOutcome::Failed;
            let wait_ms = if hurries { STEP_MS } else { target.period_ms };
            self.due.insert(key.clone(), world.now.plus_millis(wait_ms));
            world.observe(Input::Checked(Checked { key, outcome }));
        }
        world.run_until(world.now.plus_millis(STEP_MS));
    }

    /// Lets time pass turn by turn while something holds, for at most a minute.
    pub(crate) fn run_while(&mut self, world: &mut World, holds: impl Fn(&World) -> bool) {
        let end = world.now.plus_millis(60_000);
        while holds(world) {
            assert!(world.now < end, "the awaited event does not happen");
            self.turn(world);
        }
    }

    fn renew(&mut self, world: &mut World) {
        let names: Vec<String> = world.leases.keys().cloned().collect();
        for name in names {
            let n: u8 = name.trim_start_matches("node-").parse().unwrap();
            let phase = u64::from(n) * 1_250;
            let due = world.now.plus_millis(phase).as_millis() % (self.duration_ms / 4) < STEP_MS;
            if due && !self.idle.contains(&n) {
                self.renewal(world, n);
            }
        }
    }

    pub(crate) fn renewal(&mut self, world: &mut World, n: u8) {
        self.renewals += 1;
        let lease = self.lease(n, self.renewals);
        world.leases.insert(name(n), lease.clone());
        if !self.stalled {
            world.observe(Input::Leases(Observed::Apply(lease)));
        }
    }
}

pub(crate) fn standing(world: &World, n: u8) -> Option<Standing> {
    world
        .fleet
        .checked_nodes(world.now)
        .into_iter()
        .find(|node| node.name == name(n))
        .map(|node| node.standing)
}

/// A pool with this many addresses on this many checked nodes, after a minute. The first addresses are on the first
/// nodes.
pub(crate) fn world(addresses: u8, nodes: u8) -> (World, Clinic) {
    world_with(addresses, nodes, Clinic::default())
}

fn world_with(addresses: u8, nodes: u8, mut clinic: Clinic) -> (World, Clinic) {
    let mut world = World::with(addresses, nodes);
    world.run(5);
    world.edit("pool", |spec| spec.node_check = Some(RawNodeCheck::default()));
    world.run(1);
    clinic.list(&mut world, nodes);
    clinic.run(&mut world, 60);
    assert_eq!(world.holder(1), Some(ip(1)));
    (world, clinic)
}

/// From a moment to the first assignment after it, in milliseconds.
pub(crate) fn moved_after(world: &World, from: Moment) -> Option<u64> {
    let moved = world.calls.iter().find(|(at, call)| *at >= from && call.starts_with("assign"));
    moved.map(|(at, _)| at.millis_since(from))
}

#[test]
fn a_dead_machine_loses_its_address_once_it_has_been_silent_and_missed_a_renewal() {
    let times = [(10_000, 4_500), (20_000, 7_000), (40_000, 12_000)];
    for (wait, (duration_ms, expected_ms)) in (0..10).flat_map(|wait| times.map(|times| (wait, times))) {
        let (mut world, mut clinic) = world_with(1, 3, Clinic { duration_ms, ..Clinic::default() });
        clinic.run(&mut world, wait);
        let died = world.now;
        clinic.dies(1);
        clinic.run(&mut world, 20);
        let after = moved_after(&world, died).expect("no move");
        let expected = expected_ms - 1_000..=expected_ms + 500;
        assert!(expected.contains(&after), "after {after} ms, {wait}, {duration_ms}");
        assert_eq!((world.assigns, world.holder(1)), (2, None));
        assert_eq!(world.events_of("MatchLost").len(), 1);
        let [unreachable] = world.events_of("NodeUnreachable").try_into().unwrap();
        let begins = "node-1 (10.0.0.1:10250) has answered no check for ";
        assert!(unreachable.starts_with(begins), "{unreachable}");
        assert!(unreachable.contains("in a row), and its Lease in kube-node-lease was not renewed for "));
        let grace = world.fleet.grace_counts();
        assert_eq!((grace.expired, world.events_of("FailoverDelayed").len()), (0, 0));
        assert_eq!(world.fleet.take_detections_ms().len(), 1);
    }
}

#[test]
fn one_kind_of_evidence_alone_condemns_nobody() {
    type Half = fn(&mut Clinic);
    let halves: [Half; 2] = [
        |clinic| {
            clinic.silent.insert(1);
        },
        |clinic| {
            clinic.idle.insert(1);
        },
    ];
    for half in halves {
        let (mut world, mut clinic) = world(1, 3);
        half(&mut clinic);
        clinic.run(&mut world, 600);
        assert_eq!((world.assigns, world.holder(1)), (1, Some(ip(1))));
        assert_eq!(world.events_of("NodeUnreachable"), [""; 0]);
    }
}

#[test]
fn faults_of_our_own_are_no_verdict() {
    let (mut world, mut clinic) = world(1, 3);
    clinic.own_fault = true;
    clinic.idle.insert(1);
    clinic.run(&mut world, 600);
    assert_eq!((world.assigns, standing(&world, 1)), (1, Some(Standing::Deprioritized)));
}

#[test]
fn while_most_leases_stand_still_nothing_is_concluded_from_any() {
    let (mut world, mut clinic) = world(1, 5);
    clinic.idle.extend([2, 3, 4]);
    clinic.run(&mut world, 15);
    clinic.dies(1);
    clinic.run(&mut world, 300);
    assert_eq!(world.assigns, 1);
    let (_, reason, message) = world.told("pool", "ChecksDoubted");
    assert!(
        reason == "LeasesStandStill"
            && message.starts_with("1 of 5 nodes answers no check, and its Lease is not renewed"),
        "{message}"
    );
    // Renewals of two of the four others are enough.
    clinic.idle.remove(&2);
    clinic.run(&mut world, 20);
    assert_eq!((world.assigns, world.message("pool", "ChecksDoubted")), (2, None));
}

#[test]
fn leases_of_nodes_that_no_longer_exist_keep_no_address_on_a_dead_node() {
    let (mut world, mut clinic) = world(1, 3);
    world.leases.extend((7..=9).map(|n| (name(n), lease(n, 0))));
    world.observe(Input::Leases(Observed::Reset(world.leases.values().cloned().collect())));
    clinic.idle.extend([7, 8, 9]);
    clinic.run(&mut world, 15);
    clinic.dies(1);
    clinic.run(&mut world, 20);
    assert_eq!(world.assigns, 2, "{:?}", world.message("pool", "ChecksDoubted"));
}

#[test]
fn the_only_lease_of_a_cluster_proves_nothing() {
    let (mut world, mut clinic) = world(1, 2);
    world.leases.remove("node-2");
    world.observe(Input::Leases(Observed::Delete(lease(2, 0))));
    clinic.dies(1);
    clinic.run(&mut world, 300);
    assert_eq!(world.assigns, 1);
}

#[test]
fn soon_after_a_list_no_renewal_counts_as_missed() {
    let (mut world, mut clinic) = world(1, 3);
    clinic.dies(1);
    clinic.run(&mut world, 8);
    world.observe(Input::Leases(Observed::Reset(world.leases.values().cloned().collect())));
    let listed = world.now;
    clinic.run(&mut world, 30);
    let after = moved_after(&world, listed).unwrap();
    assert!((12_000..=12_500).contains(&after), "{after}");
}

#[test]
fn failures_during_which_the_lease_is_renewed_are_not_believed_and_told() {
    let (mut world, mut clinic) = world(1, 3);
    clinic.silent.insert(1);
    clinic.run(&mut world, 20);
    assert_eq!(world.message("pool", "ChecksDoubted"), None, "it may be over at once");
    clinic.run(&mut world, 40);
    let (_, reason, message) = world.told("pool", "ChecksDoubted");
    assert_eq!(reason, "LeasesRenewed");
    assert!(
        message
            .starts_with("1 of 3 nodes answers no check of port 10250 while the Lease is renewed (node-1): ")
    );
    // The kubelet is restarted, which takes longer than a renewal may.
    clinic.idle.insert(1);
    clinic.run(&mut world, 35);
    clinic.idle.remove(&1);
    clinic.run(&mut world, 20);
    assert_eq!((world.assigns, world.has("pool", "ChecksDoubted")), (1, true));
    clinic.silent.remove(&1);
    clinic.run(&mut world, 9);
    assert!(world.has("pool", "ChecksDoubted"), "nine passed checks");
    clinic.run(&mut world, 3);
    assert_eq!(world.message("pool", "ChecksDoubted"), None);
    clinic.dies(1);
    clinic.run(&mut world, 54);
    assert_eq!(world.assigns, 2, "a machine that answered again can die");
}

#[test]
fn a_renewal_soon_after_the_first_failure_does_not_hold_the_verdict_up() {
    let (mut world, mut clinic) = world(1, 3);
    let died = world.now;
    clinic.dies(1);
    let failure = world.now.plus_millis(3 * STEP_MS);
    clinic.due.values_mut().for_each(|due| *due = failure);
    clinic.run(&mut world, 1);
    clinic.renewal(&mut world, 1);
    clinic.run(&mut world, 20);
    let after = moved_after(&world, died).unwrap();
    assert!((12_900..=14_500).contains(&after), "{after}");
}

#[test]
fn before_the_move_a_consistent_read_has_to_bear_the_verdict_out() {
    // The watch is behind: on the server the Lease goes on.
    let (mut world, mut clinic) = world(1, 4);
    let (from, before) = (world.now, world.calls.len());
    clinic.silent.insert(1);
    clinic.idle.insert(1);
    clinic.run(&mut world, 3);
    world.leases.insert(name(1), lease(1, 999));
    clinic.run(&mut world, 30);
    assert_eq!((world.assigns, world.count(from, "read node-1")), (1, 1), "{:?}", &world.calls[before..]);
    clinic.run(&mut world, 300);
    assert_eq!((world.assigns, world.count(from, "read node-1")), (1, 1), "until a check passes");
    assert_eq!(world.events_of("MatchLost"), [""; 0]);
}

#[test]
fn a_heartbeat_of_the_node_speaks_for_it_as_its_lease_does() {
    let heartbeat = |world: &mut World, at_s: i64, seen: bool| {
        let node = world.nodes.get_mut("node-1").unwrap();
        node.heartbeat_s = Some(at_s);
        let node = node.clone();
        if seen {
            world.observe(Input::Nodes(nodes_key(), Observed::Apply(node)));
        }
    };
    for seen in [true, false] {
        let (mut world, mut clinic) = world(1, 3);
        heartbeat(&mut world, 5, true);
        clinic.dies(1);
        clinic.run(&mut world, 5);
        heartbeat(&mut world, 6, seen);
        clinic.run(&mut world, 300);
        assert_eq!(world.assigns, 1, "{seen}");
    }
}

/// The whole network stands still, and when it is back the API server answers before any kubelet has renewed.
#[test]
fn an_outage_of_the_whole_network_moves_nothing() {
    for seconds in 3..12 {
        let clinic = Clinic { duration_ms: 10_000, ..Clinic::default() };
        let (mut world, mut clinic) = world_with(3, 5, clinic);
        let assigns = world.assigns;
        (1..=5).for_each(|n| clinic.dies(n));
        world.faults.node_reads = Some(WriteFailure::Transient("no answer".into()));
        clinic.run(&mut world, seconds);
        world.faults.node_reads = None;
        (1..=5).for_each(|n| {
            clinic.silent.remove(&n);
        });
        for n in [4, 5, 2, 1, 3] {
            clinic.run(&mut world, 1);
            clinic.idle.remove(&n);
            clinic.renewal(&mut world, n);
        }
        clinic.run(&mut world, 60);
        assert_eq!(world.assigns, assigns, "{seconds} s");
    }
}

#[test]
fn while_the_read_fails_nothing_moves() {
    let (mut world, mut clinic) = world(1, 3);
    world.faults.node_reads = Some(WriteFailure::Transient("no answer".into()));
    clinic.dies(1);
    clinic.run(&mut world, 120);
    assert_eq!(world.assigns, 1);
    world.faults.node_reads = None;
    clinic.run(&mut world, 6);
    assert_eq!(world.assigns, 2);
}

#[test]
fn a_node_whose_own_word_is_that_it_fails_waits_for_no_proof() {
    let (mut world, mut clinic) = world(1, 3);
    world.faults.node_reads = Some(WriteFailure::Transient("no answer".into()));
    clinic.dies(1);
    clinic.run(&mut world, 30);
    world.set_node(1, false);
    world.run(1);
    assert_eq!(world.assigns, 2);
}

#[test]
fn where_every_matching_node_is_dead_none_of_them_loses_its_match() {
    let (mut world, mut clinic) = world(1, 2);
    world.leases.extend((3..=6).map(|n| (name(n), lease(n, 0))));
    clinic.run(&mut world, 15);
    let died = world.now;
    clinic.dies(1);
    clinic.run(&mut world, 3);
    clinic.dies(2);
    clinic.run(&mut world, 60);
    // Nobody knew of the death of the second one when the first one died.
    assert_eq!((moved_after(&world, died).is_some(), world.holder(2)), (true, Some(ip(1))));
    let standings = [1, 2].map(|n| standing(&world, n));
    assert_eq!(standings, [Some(Standing::Dead); 2]);
    let matching = |world: &World| -> usize {
        let pools = world.fleet.details(world.now).pools;
        pools.values().flat_map(|pool| &pool.left_out).map(|left| left.count).sum()
    };
    assert_eq!((matching(&world), world.assigns), (0, 2), "nobody is left out, and nothing moves");
    clinic.returns(1);
    clinic.run(&mut world, 30);
    assert_eq!(
        (matching(&world), world.holder(1)),
        (1, Some(ip(1))),
        "the second one is no longer the last one"
    );
}

#[test]
fn the_other_node_that_fails_in_its_grace_is_none_that_could_take_over() {
    let (mut world, mut clinic) = world(1, 2);
    world.leases.extend((3..=6).map(|n| (name(n), lease(n, 0))));
    world.edit("pool", |spec| spec.grace = RawGrace { node_seconds: 600, ..RawGrace::default() });
    clinic.dies(1);
    world.set_node(2, false);
    clinic.run(&mut world, 60);
    assert_eq!((world.holder(1), world.assigns), (Some(ip(1)), 1));
}

#[test]
fn grace_of_nodes_applies_and_the_read_at_its_end_reads_the_lease_too() {
    let (mut world, mut clinic) = world(1, 3);
    world.edit("pool", |spec| spec.grace = RawGrace { node_seconds: 30, ..RawGrace::default() });
    let died = world.now;
    clinic.dies(1);
    clinic.run(&mut world, 60);
    let after = moved_after(&world, died).unwrap();
    assert!((41_000..=43_500).contains(&after), "{after}");
    assert_eq!(world.fleet.grace_counts().expired, 1);
    let [delayed] = world.events_of("FailoverDelayed").try_into().unwrap();
    assert!(
        delayed.starts_with("node-1 answers no check and missed a renewal of its Lease (since "),
        "{delayed}"
    );
}

#[test]
fn a_verdict_ends_after_ten_passed_checks_or_a_renewal_and_a_passed_check() {
    for renews in [false, true] {
        let (mut world, mut clinic) = world(1, 3);
        clinic.dies(1);
        clinic.run(&mut world, 20);
        assert_eq!(standing(&world, 1), Some(Standing::Dead));
        // A node that holds nothing is checked every 10 s.
        if renews {
            clinic.renewal(&mut world, 1);
            clinic.run(&mut world, 15);
            assert_eq!(standing(&world, 1), Some(Standing::Dead), "a renewal alone");
        }
        clinic.silent.remove(&1);
        clinic.run(&mut world, 12);
        assert_eq!(standing(&world, 1) == Some(Standing::Dead), !renews);
        clinic.run(&mut world, 70);
        assert_eq!(standing(&world, 1) == Some(Standing::Dead), !renews, "fewer than ten");
        clinic.run(&mut world, 30);
        assert_eq!(standing(&world, 1), Some(Standing::Alive));
    }
}
