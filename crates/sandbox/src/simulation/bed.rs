//! The simulated world of one run: a cluster, an account, replicas, and the plan that happens to them.
//!
//! Invariants: one thread, one paused clock, no I/O; everything invented follows from the plan's seed.

use super::blindness::Blindness;
use super::judge::{Judge, Violation};
use super::network::Network;
use super::plan::{Act, Plan, Side};
use super::replica::{NAMESPACE, Replica, TOKENS};
use super::story::Story;
use super::{Outcome, dns, frames, logs, panics, settled};
use crate::apiserver::{ApiServer, Key, NodeSpec, PodSpec, Readiness, ScenarioError, View};
use crate::cloud::{Cloud, Options, Provider, RecordView};
use flipop_core::ids::DropletId;
use serde_json::{Value, json};
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
enum Undo {
    Wake { replica: usize },
    Mend { replica: usize, side: Side },
    CatchUp { replica: usize },
}

/// The world.
pub(super) struct Bed {
    pub(super) network: Network,
    pub(super) api: ApiServer,
    pub(super) cloud: Cloud,
    fronts: Vec<ApiServer>,
    stops: Vec<mpsc::UnboundedSender<u64>>,
    droplets: BTreeMap<String, u64>,
    undos: BTreeMap<(u64, u64), Undo>,
    undone: u64,
    /// The records of others.
    pub(super) foreign: BTreeMap<Provider, Vec<RecordView>>,
    busy: (u64, u64),
}

/// Runs a plan on the paused clock of the runtime that calls it.
pub(super) async fn run(plan: Plan, wanted: bool) -> Outcome {
    let story = Story::new(wanted);
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let listener = logs::Listener {
        story: story.clone(),
        started: tokio::time::Instant::now(),
        secrets: TOKENS,
        wrong: Arc::clone(&wrong),
    };
    let _listening = tracing::subscriber::set_default(listener);
    panics::listen();
    let mut bed = Bed::new(plan, story.clone());
    bed.play().await;
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
    let (busy_calls, busy_frames) = bed.busy;
    let (fingerprint, story) = (story.fingerprint(), story.text());
    Outcome { violations, tally, busy_calls, busy_frames, ended_ms, end, fingerprint, story }
}

impl Bed {
    fn new(plan: Plan, story: Story) -> Self {
        let epoch = jiff::Timestamp::from_millisecond(EPOCH_MS).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let cloud = Cloud::new(Options { seed: plan.seed, epoch_ms: u64::try_from(EPOCH_MS).ok() });
        let [digitalocean, cloudflare] = TOKENS;
        cloud.add_token(Provider::DigitalOcean, "operator", digitalocean, &["*"]);
        cloud.add_token(Provider::Cloudflare, "operator", cloudflare, &["*"]);
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
        let mut bed =
            Self { network, api, cloud, fronts, stops, droplets, undos, undone: 0, foreign, busy: (0, 0) };
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
        self.busy = self.network.judge(|judge| (judge.tally.calls, judge.tally.frames));
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

    fn later(&mut self, for_ms: u64, undo: Undo) {
        self.undone += 1;
        self.undos.insert((self.network.now_ms().saturating_add(for_ms), self.undone), undo);
    }

    fn undo(&self, undo: &Undo) {
        self.network.tell("world", &format!("{undo:?}"));
        match *undo {
            Undo::Wake { replica } => self.network.relink(replica, |link| link.paused = false),
            Undo::Mend { replica, side } => self.network.relink(replica, |link| match side {
                Side::Kube => link.kube_cut = false,
                Side::Cloud => link.cloud_cut = false,
            }),
            Undo::CatchUp { replica } => {
                if let Some(front) = self.fronts.get(replica) {
                    front.set_view(View::Current);
                }
            }
        }
    }

    fn end_faults(&mut self) {
        self.network.tell("world", "all faults are over");
        for undo in std::mem::take(&mut self.undos).into_values() {
            self.undo(&undo);
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

    fn try_act(&mut self, act: &Act) -> Result<(), ScenarioError> {
        match act {
            Act::AddNode { .. }
            | Act::DeleteNode { .. }
            | Act::DestroyDroplet { .. }
            | Act::SetReady { .. }
            | Act::Drain { .. }
            | Act::SetRole { .. }
            | Act::AddPod { .. }
            | Act::DeletePod { .. }
            | Act::SetPodReady { .. } => self.act_on_nodes(act),
            Act::Create { .. }
            | Act::Edit { .. }
            | Act::Delete { .. }
            | Act::RevertIps { .. }
            | Act::WipeStatus { .. } => self.act_on_objects(act),
            Act::AddIp { .. }
            | Act::MoveIp { .. }
            | Act::DeleteIp { .. }
            | Act::LockIp { .. }
            | Act::BusyDroplet { .. }
            | Act::ActionTime { .. }
            | Act::Quota { .. }
            | Act::ListLag { .. } => {
                self.act_on_account(act);
                Ok(())
            }
            Act::Crash { .. }
            | Act::Stop { .. }
            | Act::Pause { .. }
            | Act::Cut { .. }
            | Act::Lag { .. }
            | Act::CutWatches { .. }
            | Act::Compact => {
                self.act_on_replicas(act);
                Ok(())
            }
        }
    }

    fn add_node(&mut self, name: &str) -> Result<(), ScenarioError> {
        let droplet = self.cloud.add_droplet(name, REGION);
        self.droplets.insert(name.to_owned(), droplet);
        if self.api.object("v1", "Node", &Key::new("", name)).is_some() {
            self.api.delete_node(name)?;
        }
        let low = droplet % 250 + 1;
        self.api.create_node(&NodeSpec {
            name: name.to_owned(),
            provider_id: DropletId(droplet).provider_id(),
            labels: [("role".to_owned(), "edge".to_owned())].into(),
            internal_ip: format!("10.120.0.{low}"),
            external_ip: format!("198.18.0.{low}"),
            ready: true,
        })?;
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_nodes(&mut self, act: &Act) -> Result<(), ScenarioError> {
        let pod_key = |pod: &str| Key::new(USER_NAMESPACE, pod);
        match act {
            Act::AddNode { node } => self.add_node(node),
            Act::DeleteNode { node } => self.api.delete_node(node),
            Act::DestroyDroplet { node } => {
                if let Some(droplet) = self.droplets.remove(node) {
                    self.note_by_hand(droplet);
                    self.cloud.destroy_droplet(droplet);
                }
                self.api.delete_node(node)
            }
            Act::SetReady { node, ready } => self.api.set_node_ready(node, Readiness::of(*ready)),
            Act::Drain { node, drained } => {
                self.api.set_node_taint(node, "drain", "", drained.then_some("NoExecute"))
            }
            Act::SetRole { node, role } => self.api.set_node_label(node, "role", role.as_deref()),
            Act::AddPod { pod, app, node } => {
                if self.api.object("v1", "Pod", &pod_key(pod)).is_some() {
                    self.api.delete_object("v1", "Pod", &pod_key(pod), true)?;
                }
                self.api.create_pod(&PodSpec {
                    namespace: USER_NAMESPACE.to_owned(),
                    name: pod.clone(),
                    labels: [("app".to_owned(), app.clone())].into(),
                    node: node.clone(),
                    ready: true,
                })
            }
            Act::DeletePod { pod } => self.api.delete_object("v1", "Pod", &pod_key(pod), true),
            Act::SetPodReady { pod, ready } => self.api.set_pod_ready(&pod_key(pod), *ready),
            _ => Ok(()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_objects(&mut self, act: &Act) -> Result<(), ScenarioError> {
        let key = |name: &str| Key::new(USER_NAMESPACE, name);
        let edit = |kind: &str, name: &str, subresource: &str, patch: Value| {
            self.api.patch_object((API_VERSION, kind), &key(name), subresource, patch, "user").map(drop)
        };
        match act {
            Act::Create { kind, name, spec } => {
                let object = json!({ "metadata": { "name": name }, "spec": spec });
                self.api.create_object(API_VERSION, kind, USER_NAMESPACE, object, "user").map(drop)
            }
            Act::Edit { kind, name, spec } => edit(kind, name, "", json!({ "spec": spec })),
            Act::Delete { kind, name } => self.api.delete_object(API_VERSION, kind, &key(name), false),
            Act::RevertIps { name, ips } => {
                edit("FloatingIPPool", name, "", json!({ "spec": { "ips": ips } }))
            }
            Act::WipeStatus { name } => {
                edit("FloatingIPPool", name, "status", json!({ "status": Value::Null }))
            }
            _ => Ok(()),
        }
    }

    fn note_by_hand(&self, droplet: u64) {
        let now_ms = self.network.now_ms();
        let held = self.cloud.ips().into_iter().find(|view| view.droplet == Some(droplet));
        if let Some(view) = held {
            self.network.judge(|judge| judge.moved_by_hand(now_ms, view.ip));
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_account(&mut self, act: &Act) {
        let now_ms = self.network.now_ms();
        match act {
            Act::AddIp { ip } => {
                self.cloud.add_ip(Some(*ip), REGION);
            }
            Act::MoveIp { ip, node } => {
                let droplet = node.as_ref().and_then(|node| self.droplets.get(node)).copied();
                if self.cloud.move_ip(*ip, droplet).is_ok() {
                    self.network.judge(|judge| judge.moved_by_hand(now_ms, *ip));
                }
            }
            Act::DeleteIp { ip } => {
                self.cloud.delete_ip(*ip);
            }
            Act::LockIp { ip, for_ms } => self.cloud.lock_ip(*ip, *for_ms),
            Act::BusyDroplet { node, for_ms } => {
                if let Some(droplet) = self.droplets.get(node) {
                    self.cloud.busy_droplet(*droplet, *for_ms);
                }
            }
            Act::ActionTime { ms } => self.cloud.tune(|knobs| knobs.action_ms = *ms),
            Act::Quota { addresses } => self.cloud.tune(|knobs| knobs.reserved_ip_quota = *addresses),
            Act::ListLag { ms } => self.cloud.tune(|knobs| knobs.list_lag_ms = *ms),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other act is for another part of the world")]
    fn act_on_replicas(&mut self, act: &Act) {
        match *act {
            Act::Crash { replica, restart_ms } => {
                let incarnation = self.network.link(replica).map(|link| link.latest().incarnation);
                if let Some(incarnation) = incarnation.filter(|incarnation| *incarnation > 0) {
                    self.network.kill(super::judge::Process { replica, incarnation }, restart_ms);
                }
            }
            Act::Stop { replica, restart_ms } => {
                if let Some(stops) = self.stops.get(replica) {
                    // A replica that is not running has nothing to end.
                    let _unheard = stops.send(restart_ms);
                }
            }
            Act::Pause { replica, for_ms } => {
                self.network.relink(replica, |link| link.paused = true);
                self.later(for_ms, Undo::Wake { replica });
            }
            Act::Cut { replica, side, for_ms } => {
                self.network.relink(replica, |link| match side {
                    Side::Kube => link.kube_cut = true,
                    Side::Cloud => link.cloud_cut = true,
                });
                self.later(for_ms, Undo::Mend { replica, side });
            }
            Act::Lag { replica, for_ms } => {
                if let Some(front) = self.fronts.get(replica) {
                    front.set_view(View::CacheAt(self.api.revision()));
                }
                self.later(for_ms, Undo::CatchUp { replica });
            }
            Act::CutWatches { replica } => {
                if let Some(front) = self.fronts.get(replica) {
                    front.cut_watches();
                }
            }
            Act::Compact => self.api.compact(),
            _ => {}
        }
    }
}
