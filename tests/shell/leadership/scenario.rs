//! The troubles of a few replicas in some minutes, all drawn from one seed. Then everything heals.

use super::judge::{Judge, LEASES, Sums, lease_key};
use super::network::Fault;
use super::replica::{NODE, Parts, Replica};
use flipop::clock::Clock;
use flipop::random::Random;
use flipop_apiserver::{ApiServer, NodeSpec, View};
use flipop_core::model::Uid;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

/// How long the faults go on.
const TROUBLE: Duration = Duration::from_secs(110);

/// The time until a replica leads and writes after everything has healed: a lease that has to expire, by the slowest
/// clock, and a silent watch.
const RECOVERY: Duration = Duration::from_secs(75);

/// How many writes mean that work has resumed.
const RESUMED: u64 = 4;

/// The tick of the world's clock.
const TICK: Duration = Duration::from_millis(250);

/// One of this many ticks brings a new fault in stormy runs. In calm runs it is up to eight times as many.
const RARITY: u64 = 8;

/// The longest fault.
const FAULT_MS: u64 = 40_000;

/// The longest time until an ended or crashed process is restarted.
const RESTART_MS: u64 = 8_000;

/// How much faster the fastest clock of a run may be than the slowest, in thousandths: with 1.4, 10 s of one are 14 s
/// of the other.
const DRIFT: u64 = 400;

/// For this long after a deletion no process starts. A process that finds no lease cannot know that there was a holder;
/// client-go's elector cannot either.
const UNKNOWN: Duration = Duration::from_secs(20);

/// The result of a run.
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<String>,
    pub(crate) transcript: Vec<String>,
    pub(crate) sums: Sums,
}

enum Heal {
    Network(String),
    Thaw(String),
    View(String),
    Start,
}

struct World {
    server: ApiServer,
    node: Uid,
    random: Random,
    judge: Judge,
    tracker: TaskTracker,
    replicas: Vec<Replica>,
    heals: Vec<(Instant, Heal)>,
    started: u64,
    /// No process starts before this time.
    unknown_until: Instant,
}

/// Runs a seed from beginning to end, on tokio's paused clock.
pub(crate) async fn run(seed: u64) -> Verdict {
    let mut world = World::new(seed);
    for _ in 0..2 + world.random.below(2) {
        world.start();
    }
    let (end, rarity) = (Instant::now() + TROUBLE, RARITY << world.random.below(4));
    while Instant::now() < end {
        sleep(TICK).await;
        world.tick();
        if world.random.below(rarity) == 0 {
            world.disturb();
        }
    }
    world.recover().await;
    let (wrong, transcript, sums) = world.judge.verdict();
    Verdict { wrong, transcript, sums }
}

impl World {
    fn new(seed: u64) -> Self {
        let server = ApiServer::simulated(seed, "2026-03-01T12:00:00Z".parse().unwrap());
        let node = NodeSpec { name: NODE.to_owned(), ready: true, ..NodeSpec::default() };
        let node = server.create_node(&node).unwrap();
        let node = Uid(node["metadata"]["uid"].as_str().unwrap().into());
        server
            .create_object("v1", "Namespace", "", json!({ "metadata": { "name": "flipop" } }), "test")
            .unwrap();
        Self {
            judge: Judge::new(&server),
            server,
            node,
            random: Random::seeded(seed),
            tracker: TaskTracker::new(),
            replicas: Vec::new(),
            heals: Vec::new(),
            started: 0,
            unknown_until: Instant::now(),
        }
    }

    fn start(&mut self) {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        // Wall clocks are decades apart, and none runs at the right speed.
        let epoch = jiff::Timestamp::from_second(i64::try_from(self.random.below(4_000_000_000)).unwrap());
        let clock = Clock::drifting(epoch.unwrap(), 1_000 + self.random.below(DRIFT + 1));
        self.judge.note(&format!("{name} starts"));
        self.replicas.push(Replica::start(Parts {
            name,
            server: &self.server,
            node: self.node.clone(),
            clock,
            seed: self.random.next_u64(),
            judge: self.judge.clone(),
            tracker: self.tracker.clone(),
        }));
    }

    fn after(&self, longest_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(self.random.below(longest_ms))
    }

    /// Ends faults that are over, and restarts ended processes.
    fn tick(&mut self) {
        let ended: Vec<String> =
            self.replicas.iter().filter(|one| one.has_ended()).map(|one| one.name.clone()).collect();
        for name in ended {
            self.remove(&name);
        }
        let now = Instant::now();
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.heals).into_iter().partition(|(at, _)| *at <= now);
        self.heals = rest;
        for (_, heal) in due {
            match heal {
                Heal::Start if now < self.unknown_until => self.heals.push((self.unknown_until, heal)),
                Heal::Start => self.start(),
                Heal::Network(name) => self.with(&name, |replica| replica.network(Fault::Nothing)),
                Heal::Thaw(name) => self.with(&name, |replica| replica.freezer.set(false)),
                Heal::View(name) => self.with(&name, |replica| replica.view(View::Current)),
            }
        }
    }

    fn with(&self, name: &str, act: impl FnOnce(&Replica)) {
        if let Some(replica) = self.replicas.iter().find(|one| one.name == name) {
            self.judge.note(&format!("{name} is healed"));
            act(replica);
        }
    }

    /// The process is gone, and another one will start.
    fn remove(&mut self, name: &str) {
        self.replicas.retain(|one| one.name != name);
        let at = self.after(RESTART_MS);
        self.heals.push((at, Heal::Start));
    }

    /// The leader, half of the time.
    fn victim(&self) -> Option<&Replica> {
        let holder = self.judge.holder().filter(|_| self.random.below(2) == 0);
        let leader = self.replicas.iter().find(|one| Some(&one.name) == holder.as_ref());
        let count = u64::try_from(self.replicas.len()).unwrap();
        let other = usize::try_from(self.random.below(count)).unwrap();
        leader.or_else(|| self.replicas.get(other))
    }

    /// Causes a fault.
    fn disturb(&mut self) {
        let Some(victim) = self.victim() else { return };
        let (name, until) = (victim.name.clone(), self.after(FAULT_MS));
        let network = match self.random.below(4) {
            0 => Fault::Refused,
            1 => Fault::Silent,
            2 => Fault::LosesReplies,
            _ => Fault::Slow,
        };
        match self.random.below(20) {
            0..7 => {
                self.judge.note(&format!("{name}: {network:?}"));
                victim.network(network);
                self.heals.push((until, Heal::Network(name)));
            }
            7..9 => {
                self.judge.note(&format!("everybody: {network:?}"));
                for replica in &self.replicas {
                    replica.network(network);
                    self.heals.push((until, Heal::Network(replica.name.clone())));
                }
            }
            9..13 => {
                self.judge.note(&format!("{name} is stopped"));
                victim.freezer.set(true);
                self.heals.push((until, Heal::Thaw(name)));
            }
            13 => {
                self.judge.note(&format!("{name}: watches are cut"));
                victim.cut_watches();
            }
            14 => {
                self.judge.note(&format!("{name} sees an old cache"));
                victim.view(View::CacheAt(self.server.revision()));
                self.heals.push((until, Heal::View(name)));
            }
            15 => {
                self.judge.note(&format!("{name} is killed"));
                self.remove(&name);
            }
            16..18 => {
                self.judge.note(&format!("{name} is terminated"));
                victim.terminate();
            }
            18 => self.touch_lease(),
            _ => self.delete_lease(),
        }
    }

    /// Somebody writes the lease without taking it.
    fn touch_lease(&self) {
        let label = json!({ "metadata": { "labels": { "touched": self.random.next_u64().to_string() } } });
        if self.server.patch_object(LEASES, &lease_key(), "", label, "kubectl").is_ok() {
            self.judge.note("the lease is labelled");
        }
    }

    /// Somebody deletes the lease, after every living process has seen it.
    fn delete_lease(&mut self) {
        if self.replicas.iter().all(Replica::has_looked)
            && self.server.delete_object(LEASES.0, LEASES.1, &lease_key(), true).is_ok()
        {
            self.judge.note("the lease was deleted");
            self.unknown_until = Instant::now() + UNKNOWN;
        }
    }

    /// Heals everything. Then a replica has to lead and write again.
    async fn recover(&mut self) {
        self.judge.note("everything heals");
        for replica in &self.replicas {
            replica.network(Fault::Nothing);
            replica.view(View::Current);
            replica.freezer.set(false);
        }
        let (end, before) = (Instant::now() + RECOVERY, self.judge.writes());
        while self.judge.writes() < before + RESUMED {
            if Instant::now() >= end {
                return self
                    .judge
                    .fault(format!("nobody writes within {RECOVERY:?} after everything has healed"));
            }
            sleep(TICK).await;
            self.tick();
        }
    }
}
