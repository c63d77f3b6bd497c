//! Lossy networks at the pace of real checks and renewals: no living machine is judged dead, and a dead one soon is.

use super::*;
use crate::model::{Address, NodeCheck, Uid};
use std::collections::VecDeque;

/// The time between two turns. A check that is overdue is repeated after this long.
const STEP_MS: u64 = 250;

/// A check without an answer fails after so many turns, and a node that answers is checked so often.
const STEPS: u64 = 4;

/// The most repeated checks in a row, as the schedule of the checks has it.
const MAX_HURRIED: u32 = 16;

/// TCP sends a lost packet again after this time, and then after twice as long each time.
const RESEND_MS: u64 = 200;

const HOUR_MS: u64 = 3_600_000;

/// Nodes of one cluster, each of which serves.
const NODES: u8 = 10;

/// Numbers of a sequence (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn loses(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// How much later a packet arrives whose copies may be lost.
    fn resent_ms(&mut self, percent: u64) -> u64 {
        let lost = (0..7).take_while(|_| self.loses(percent)).count();
        RESEND_MS * ((1 << lost) - 1)
    }
}

/// One machine, its kubelet, and the checks of it that are under way.
#[derive(Default)]
struct Machine {
    dead: bool,
    check_ms: u64,
    /// When each lost check fails.
    lost_ms: VecDeque<u64>,
    hurried: u32,
    renew_ms: u64,
    /// When each renewal that was sent is seen.
    seen_ms: VecDeque<u64>,
    renewals: u64,
}

struct Cluster {
    evidence: Evidence,
    dice: Dice,
    machines: Vec<Machine>,
    percent: u64,
    duration_ms: u64,
    /// The most checks in a row that are repeated as soon as they are overdue.
    most_hurried: u32,
    now_ms: u64,
}

fn key(n: u8) -> CheckKey {
    CheckKey { node: Uid(format!("uid-{n}").into()), check: NodeCheck::default() }
}

impl Cluster {
    fn new(duration_ms: u64, percent: u64, most_hurried: u32) -> Self {
        let mut dice = Dice(duration_ms * 100 + percent);
        let mut evidence = Evidence::default();
        let target = |n| CheckTarget {
            name: format!("n-{n}"),
            address: Address::from([10, 0, 0, n]),
            machine: None,
            period_ms: 1_000,
            holds: true,
        };
        let targets: BTreeMap<_, _> = (0..NODES).map(|n| (key(n), target(n))).collect();
        evidence.follow(&targets.keys().cloned().collect(), &targets, Moment::from_millis(0));
        let mut machine = || Machine {
            check_ms: dice.below(STEPS) * STEP_MS,
            renew_ms: dice.below(duration_ms / 4),
            ..Machine::default()
        };
        let machines = (0..NODES).map(|_| machine()).collect();
        let mut cluster = Self { evidence, dice, machines, percent, duration_ms, most_hurried, now_ms: 0 };
        let leases = (0..NODES).map(|n| cluster.lease(n, 0)).collect();
        cluster.evidence.leases(&Observed::Reset(leases), Moment::from_millis(0));
        cluster
    }

    fn lease(&self, n: u8, renewals: u64) -> LeaseFacts {
        LeaseFacts {
            name: format!("n-{n}"),
            renewed_us: i64::try_from(renewals).ok(),
            duration_ms: self.duration_ms,
        }
    }

    /// One machine is checked, and its kubelet renews, as far as packets arrive.
    fn turn(&mut self, n: u8, machine: &mut Machine) {
        let (now_ms, percent) = (self.now_ms, self.percent);
        let now = Moment::from_millis(now_ms);
        let mut ended = Vec::new();
        while machine.lost_ms.front().is_some_and(|at_ms| *at_ms <= now_ms) {
            machine.lost_ms.pop_front();
            ended.push(CheckOutcome::Failed);
        }
        if machine.check_ms <= now_ms {
            // One packet there, and one back.
            if machine.dead || self.dice.loses(percent) || self.dice.loses(percent) {
                machine.lost_ms.push_back(now_ms + STEPS * STEP_MS);
                let hurries = machine.hurried < self.most_hurried;
                machine.hurried += 1;
                machine.check_ms = now_ms + if hurries { STEP_MS } else { STEPS * STEP_MS };
            } else {
                ended.extend(machine.lost_ms.drain(..).map(|_| CheckOutcome::Failed));
                ended.push(CheckOutcome::Passed);
                (machine.hurried, machine.check_ms) = (0, now_ms + STEPS * STEP_MS);
            }
        }
        for outcome in ended {
            self.evidence.checked(&Checked { key: key(n), outcome }, now);
        }
        if machine.renew_ms <= now_ms && !machine.dead {
            // From the kubelet to the API server, and from there to FLIPOP.
            let there_ms = self.dice.resent_ms(percent);
            let here_ms = now_ms + there_ms + self.dice.resent_ms(percent);
            machine.seen_ms.push_back(machine.seen_ms.back().map_or(here_ms, |before| here_ms.max(*before)));
            let quarter_ms = self.duration_ms / 4;
            machine.renew_ms = now_ms + there_ms + quarter_ms + self.dice.below(quarter_ms / 25 + 1);
        }
        while machine.seen_ms.front().is_some_and(|at_ms| *at_ms <= now_ms) {
            machine.seen_ms.pop_front();
            machine.renewals += 1;
            let lease = self.lease(n, machine.renewals);
            self.evidence.leases(&Observed::Apply(lease), now);
        }
    }

    /// Lets time pass. Returns the verdicts.
    fn run(&mut self, hours: u64) -> Vec<(String, u64)> {
        let (mut found, end_ms) = (Vec::new(), self.now_ms + hours * HOUR_MS);
        while self.now_ms < end_ms {
            let mut machines = std::mem::take(&mut self.machines);
            for (n, machine) in (0..).zip(&mut machines) {
                self.turn(n, machine);
            }
            self.machines = machines;
            self.evidence.judge(Moment::from_millis(self.now_ms));
            let verdicts = self.evidence.take_verdicts();
            found.extend(verdicts.into_iter().map(|verdict| (verdict.name, self.now_ms)));
            self.now_ms += STEP_MS;
        }
        found
    }
}

/// The time that is played with each duration and loss. Ten days were played when the numbers were chosen.
const HOURS: u64 = 3;

#[test]
fn no_lossy_network_kills_a_machine_and_a_dead_one_is_noticed_in_the_time_of_its_lease() {
    for (duration_s, quiet_ms) in [(10, 4_500), (20, 7_000), (40, 12_000)] {
        // On a lossy way more failures are needed, and the last renewal may be late.
        for (percent, later_ms) in [(0, 0), (1, 1_000), (5, 2_000), (10, 8_000), (20, 45_000)] {
            let mut cluster = Cluster::new(duration_s * 1_000, percent, MAX_HURRIED);
            assert_eq!(cluster.run(HOURS), [], "{duration_s} s, {percent} %");
            let died_ms = cluster.now_ms;
            for machine in cluster.machines.iter_mut().take(1) {
                machine.dead = true;
            }
            let found = cluster.run(1);
            let [(name, at_ms)] = found.as_slice() else { panic!("{duration_s} s, {percent} %: {found:?}") };
            let took_ms = at_ms - died_ms;
            assert_eq!(name, "n-0");
            assert!(took_ms <= quiet_ms + later_ms, "{duration_s} s, {percent} %: {took_ms} ms");
        }
    }
}

/// Where many nodes are silent at once, most of their checks are not repeated sooner, and chance has fewer to lose.
#[test]
fn without_repeated_checks_no_lossy_network_kills_a_machine_either() {
    // The shorter the silence, the likelier is chance.
    for (duration_s, hours) in [(10, 16 * HOURS), (20, 4 * HOURS), (40, HOURS)] {
        for percent in [1, 5, 10, 20] {
            let mut cluster = Cluster::new(duration_s * 1_000, percent, 0);
            assert_eq!(cluster.run(hours), [], "{duration_s} s, {percent} %");
        }
    }
}
