//! The simulated world of one run: a cluster, an account, replicas, and the plan that happens to them.
//!
//! Invariants: one thread, one paused clock, no I/O; everything invented follows from the plan's seed.

use super::judge::blindness::Blindness;
use super::judge::{Judge, Violation, dns, settled};
use super::network::{Busy, Network};
use super::plan::{Act, Plan, Side};
use super::replica::{NAMESPACE, Replica, TOKENS};
use super::story::Story;
use super::{Outcome, frames, logs, panics, workloads};
use crate::news::{Feed, News};
use flipop_apiserver::{ApiServer, ScenarioError, View};
use flipop_cloud::{Cloud, Options, Provider, RecordView};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// The wall clock at the beginning of every run, in milliseconds since 1970.
const EPOCH_MS: i64 = 1_790_000_000_000;

/// Where all addresses and droplets are.
pub(super) const REGION: &str = "nyc3";

/// Where the objects of users are.
pub(super) const USER_NAMESPACE: &str = "default";

/// The group and version of our kinds.
pub(super) const API_VERSION: &str = "flipop.digitalocean.com/v1alpha1";

/// How long an action of the provider takes unless the plan says otherwise.
const ACTION_MS: u64 = 900;

/// Something that the bed itself does later: the end of a passing trouble.
#[derive(Debug, Clone)]
pub(super) enum Undo {
    Wake {
        replica: usize,
    },
    Mend {
        replica: usize,
        side: Side,
    },
    CatchUp {
        replica: usize,
    },
    /// A record of somebody else goes.
    Lift {
        provider: Provider,
        id: String,
    },
    /// A token is let in with every scope.
    LetIn {
        provider: Provider,
    },
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
    /// The records of others.
    pub(super) foreign: BTreeMap<Provider, Vec<RecordView>>,
    busy: Busy,
}

/// When the world begins.
fn epoch() -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(EPOCH_MS).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// Runs a plan on the paused clock of the runtime that calls it, and gathers what happens if that is wanted.
pub(super) async fn run(plan: Plan, wanted: bool, gathered: Option<&mut Vec<News>>) -> Outcome {
    let story = Story::new(wanted);
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let listener = logs::Listener {
        seed: plan.seed,
        story: story.clone(),
        started: tokio::time::Instant::now(),
        secrets: TOKENS,
        wrong: Arc::clone(&wrong),
    };
    let _listening = tracing::subscriber::set_default(listener);
    panics::listen();
    let mut bed = Bed::new(plan, story.clone());
    let feed = gathered.is_some().then(|| Feed::new(&bed.api, &bed.cloud, epoch()));
    bed.play().await;
    if let Some((mut feed, gathered)) = feed.zip(gathered) {
        feed.complete(gathered);
    }
    bed.network.judge(|judge| {
        let mut wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        judge.violations.append(&mut wrong);
    });
    for panic in panics::seen() {
        let now_ms = bed.network.now_ms();
        bed.network.judge(|judge| judge.blame(now_ms, "I11", panic.clone()));
    }
    let (violations, tally) = bed.network.judge(|judge| (judge.violations.clone(), judge.tally.clone()));
    let ended_ms = bed.network.now_ms();
    let end = settled::summary(&bed);
    let Busy { sorts, frames: busy_frames, clockwork: busy_clockwork, moments } = bed.busy.clone();
    let (busy_calls, moments) =
        (u64::try_from(sorts.len()).unwrap_or(u64::MAX), moments.into_iter().collect());
    let (fingerprint, story) = (story.fingerprint(), story.text());
    Outcome {
        violations,
        tally,
        busy_calls,
        busy_frames,
        busy_clockwork,
        sorts,
        moments,
        ended_ms,
        end,
        fingerprint,
        story,
    }
}

/// What the simulated account calls the operator's token.
pub(super) fn token_name(provider: Provider) -> &'static str {
    match provider {
        Provider::DigitalOcean => "operator at DigitalOcean",
        Provider::Cloudflare => "operator at Cloudflare",
    }
}

impl Bed {
    fn new(plan: Plan, story: Story) -> Self {
        let epoch = epoch();
        let cloud = Cloud::new(Options { seed: plan.seed, epoch_ms: u64::try_from(EPOCH_MS).ok() });
        let [digitalocean, cloudflare] = TOKENS;
        cloud.add_token(Provider::DigitalOcean, token_name(Provider::DigitalOcean), digitalocean, &["*"]);
        cloud.add_token(Provider::Cloudflare, token_name(Provider::Cloudflare), cloudflare, &["*"]);
        dns::furnish(&cloud);
        let foreign = dns::records(&cloud);
        cloud.tune(|knobs| knobs.action_ms = ACTION_MS);
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
        let mut bed = Self {
            network,
            api,
            cloud,
            fronts,
            stops,
            droplets,
            undos,
            undone: 0,
            foreign,
            busy: Busy::default(),
        };
        if let Err(error) = bed.install() {
            bed.blame(format!("the cluster cannot be made: {error}"));
        }
        bed
    }

    fn install(&mut self) -> Result<(), ScenarioError> {
        for crd in flipop::api::crd::all() {
            self.api.apply_yaml(&crd.to_string(), "")?;
        }
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        self.api.create_object("v1", "Namespace", "", namespace, "bed").map(drop)
    }

    pub(super) fn blame(&self, text: String) {
        let now_ms = self.network.now_ms();
        self.network.judge(|judge| judge.blame(now_ms, "plan", text));
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.network.judge(|judge| judge.violations.clone())
    }

    /// The plan, then the time in which everything has to come right.
    async fn play(&mut self) {
        let plan = self.network.plan().clone();
        for step in plan.steps.iter().filter(|step| step.at_ms <= plan.end_ms) {
            self.wait_until(step.at_ms).await;
            if !self.violations().is_empty() {
                return;
            }
            self.act(&step.act);
        }
        self.wait_until(plan.end_ms).await;
        self.busy = self.network.busy();
        self.end_faults();
        settled::await_rest(self).await;
    }

    /// Lets time pass, with what the bed has to undo on the way.
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
            Undo::Mend { replica, side } => self.network.relink(replica, |link| match side {
                Side::Kube => link.kube_cut = false,
                Side::Cloud => link.cloud_cut = false,
            }),
            Undo::CatchUp { replica } => {
                self.network.show_past(replica, None);
                if let Some(front) = self.fronts.get(replica) {
                    front.set_view(View::Current);
                }
            }
            Undo::Lift { provider, id } => {
                self.cloud.delete_record(provider, workloads::zone_of(provider), &id);
                for records in self.foreign.values_mut() {
                    records.retain(|record| record.id != id);
                }
                let now_ms = self.network.now_ms();
                self.network.judge(|judge| judge.others_wrote(now_ms, None));
            }
            Undo::LetIn { provider } => self.let_in(provider, &["*"]),
        }
        // It hears of this before it hears of what the operator does next.
        self.network.judge(|_judge| ());
    }

    /// The operator's token has these scopes from now on.
    pub(super) fn let_in(&self, provider: Provider, scopes: &[&str]) {
        let [digitalocean, cloudflare] = TOKENS;
        let secret = match provider {
            Provider::DigitalOcean => digitalocean,
            Provider::Cloudflare => cloudflare,
        };
        self.cloud.add_token(provider, token_name(provider), secret, scopes);
    }

    fn end_faults(&mut self) {
        self.network.tell("world", "all faults are over");
        for undo in std::mem::take(&mut self.undos).into_values() {
            self.undo(&undo);
        }
        for (replica, front) in self.fronts.iter().enumerate() {
            self.network.show_past(replica, None);
            front.set_view(View::Current);
        }
        for droplet in self.droplets.values() {
            self.cloud.power_droplet(*droplet, true);
        }
        self.cloud.tune(|knobs| {
            knobs.action_ms = ACTION_MS;
            knobs.list_lag_ms = 0;
            knobs.reserved_ip_quota = 50;
        });
    }

    fn act(&mut self, act: &Act) {
        self.network.tell("world", &serde_json::to_string(act).unwrap_or_default());
        if let Err(error) = self.try_act(act) {
            // A step may meet a world in which it makes no sense (a drawn plan, or one that was shrunk).
            self.network.tell("world", &format!("which makes no sense now: {error}"));
        }
        self.network.judge(|_judge| ());
    }
}
