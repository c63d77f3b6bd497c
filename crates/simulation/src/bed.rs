//! The simulated world of one run: a cluster, an account, replicas, and the faults that end later.
//!
//! Invariants: one thread, one paused clock, no I/O. Everything random follows from the plan's seed.

use super::judge::blindness::Blindness;
use super::judge::pauses::ANNOTATION;
use super::judge::{Judge, Violation, dns};
use super::network::Network;
use super::plan::{Plan, Side};
use super::replica::Replica;
use super::scene::{EPOCH_MS, TOKENS, epoch, zone_of};
use super::story::Story;
use super::{frames, furnish};
use flipop_apiserver::{ApiServer, View};
use flipop_cloud::{Cloud, Options, Provider, RecordView};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long an action of the provider takes unless the plan says otherwise.
const ACTION_MS: u64 = 900;

/// How long a change of a firewall takes to reach its droplets unless the plan says otherwise.
const FIREWALL_MS: u64 = 700;

/// Something that the bed does later: it ends a passing fault.
#[derive(Debug, Clone)]
pub(super) enum Undo {
    /// A replica that hung goes on.
    Wake { replica: usize },
    /// A replica is no longer cut off.
    Mend { replica: usize, side: Side },
    /// A replica sees the present again.
    CatchUp { replica: usize },
    /// Somebody else's record is deleted.
    Lift { provider: Provider, id: String },
    /// An object is resumed.
    Resume { kind: String, name: String },
    /// A token gets every scope again.
    LetIn { provider: Provider },
}

/// The world.
pub(super) struct Bed {
    pub(super) network: Network,
    pub(super) api: ApiServer,
    pub(super) cloud: Cloud,
    pub(super) fronts: Vec<ApiServer>,
    pub(super) stops: Vec<mpsc::UnboundedSender<u64>>,
    pub(super) droplets: BTreeMap<String, u64>,
    undos: BTreeMap<(u64, u64), Undo>,
    undone: u64,
    /// Other people's records.
    pub(super) foreign: BTreeMap<Provider, Vec<RecordView>>,
}

impl Bed {
    pub(super) fn new(plan: Plan, story: Story) -> Self {
        let epoch = epoch();
        let cloud = Cloud::new(Options { seed: plan.seed, epoch_ms: u64::try_from(EPOCH_MS).ok() });
        for (provider, secret) in Provider::ALL.into_iter().zip(TOKENS) {
            cloud.add_token(provider, provider.name(), secret, &["*"]);
        }
        dns::furnish(&cloud);
        let foreign = dns::records(&cloud);
        cloud.tune(|knobs| {
            knobs.action_ms = ACTION_MS;
            knobs.firewall_ms = FIREWALL_MS;
        });
        let api = ApiServer::simulated(plan.seed, epoch);
        let judge = Judge::new(cloud.clone(), TOKENS, Blindness::of(&plan));
        let replicas = plan.replicas;
        let network = Network::new(plan, judge, story, &api, &cloud);
        let (mut fronts, mut stops) = (Vec::new(), Vec::new());
        for number in 0..replicas {
            let frames = frames::Frames { network: network.clone(), api: api.clone() };
            let front = api.front().with_interceptor(Arc::new(frames));
            let (sender, receiver) = mpsc::unbounded_channel();
            let replica = Replica {
                number,
                network: network.clone(),
                front: front.clone(),
                cloud: cloud.clone(),
                epoch,
            };
            network.tracker().spawn(replica.run(receiver));
            fronts.push(front);
            stops.push(sender);
        }
        let (droplets, undos) = (BTreeMap::new(), BTreeMap::new());
        let bed = Self { network, api, cloud, fronts, stops, droplets, undos, undone: 0, foreign };
        if let Err(error) = furnish::install(&bed.api) {
            bed.blame(format!("the cluster cannot be made: {error}"));
        }
        bed
    }

    pub(super) fn blame(&self, text: String) {
        self.network.judge_now(|judge, now_ms| judge.blame(now_ms, "plan", text));
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.network.judge(|judge| judge.violations.clone())
    }

    /// Lets time pass, and ends the faults that are due on the way.
    pub(super) async fn wait_until(&mut self, at_ms: u64) {
        while let Some(entry) = self.undos.first_entry().filter(|entry| entry.key().0 <= at_ms) {
            let ((due_ms, _), undo) = entry.remove_entry();
            self.sleep_until(due_ms).await;
            self.undo(&undo);
        }
        self.sleep_until(at_ms).await;
    }

    async fn sleep_until(&self, at_ms: u64) {
        let left = at_ms.saturating_sub(self.network.now_ms());
        tokio::time::sleep(Duration::from_millis(left)).await;
    }

    pub(super) fn later(&mut self, for_ms: u64, undo: Undo) {
        self.undone += 1;
        self.undos.insert((self.network.now_ms().saturating_add(for_ms), self.undone), undo);
    }

    fn undo(&mut self, undo: &Undo) {
        self.network.tell("world", &format!("{undo:?}"));
        match undo.clone() {
            Undo::Wake { replica } => self.network.relink(replica, |link| link.paused = false),
            Undo::Mend { replica, side } => self.network.relink(replica, |link| link.set_cut(side, false)),
            Undo::CatchUp { replica } => self.show(replica, View::Current, None),
            Undo::Lift { provider, id } => {
                self.cloud.delete_record(provider, zone_of(provider), &id);
                for records in self.foreign.values_mut() {
                    records.retain(|record| record.id != id);
                }
                self.network.judge_now(|judge, now_ms| judge.others_wrote(now_ms, None));
            }
            Undo::Resume { kind, name } => {
                // The object may be gone by now.
                let _gone = self.annotate(&kind, &name, ANNOTATION, None);
            }
            Undo::LetIn { provider } => self.let_in(provider, &["*"]),
        }
        // The judge hears of this before it hears of the operator's next call.
        self.network.judge(|_judge| ());
    }

    /// From now on a replica's watches show this view, and its lists the state of a past revision, if any.
    pub(super) fn show(&self, replica: usize, view: View, past: Option<u64>) {
        self.network.show_past(replica, past);
        if let Some(front) = self.fronts.get(replica) {
            front.set_view(view);
        }
    }

    /// From now on the operator's token has these scopes.
    pub(super) fn let_in(&self, provider: Provider, scopes: &[&str]) {
        let secrets = Provider::ALL.into_iter().zip(TOKENS);
        for (_, secret) in secrets.filter(|(of, _)| *of == provider) {
            self.cloud.add_token(provider, provider.name(), secret, scopes);
        }
    }

    pub(super) fn end_faults(&mut self) {
        self.network.tell("world", "all faults are over");
        for undo in std::mem::take(&mut self.undos).into_values() {
            self.undo(&undo);
        }
        for replica in 0..self.fronts.len() {
            self.show(replica, View::Current, None);
        }
        for droplet in self.droplets.values() {
            self.cloud.power_droplet(*droplet, true);
        }
        self.cloud.tune(|knobs| {
            knobs.action_ms = ACTION_MS;
            knobs.list_lag_ms = 0;
            knobs.firewall_ms = FIREWALL_MS;
            knobs.reserved_ip_quota = 50;
        });
    }
}
