//! Runs the decisions on a frozen copy, in simulated time, until nothing changes any more.
//!
//! It drives [`Fleet`] as the operator's loop does (`crate::reconcile`): facts in, one plan, actions out, outcomes
//! back. Every write is accepted, and takes effect only in the copy.

use super::world::World;
use crate::command::{CommandError, copy};
use crate::config::DecisionFlags;
use flipop_core::addresses::action as addresses;
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::firewalls::action as firewalls;
use flipop_core::fleet::action::{Action, NodeReading, Objects, Outcome as Answer};
use flipop_core::fleet::{Fleet, Input, Settings};
use flipop_core::mechanism::{Answer as ProviderAnswer, Effect, Request, StatusWrite, WrittenStatus};
use flipop_core::model::node_labels::{LabelChanges, SeenLabel};
use flipop_core::model::provider::Providers;
use flipop_core::model::{
    ActionId, ActionStatus, Address, Context, Moment, NodeFacts, ObjectRef, Observed, Uid, WatchKey,
};
use flipop_core::records::action as records;
use std::collections::{BTreeMap, BTreeSet};

/// The simulated clock at the start. Suspicions may have begun earlier.
const START: Moment = Moment::from_millis(86_400_000);

/// How long a rehearsal goes on beyond the longest wait among the objects.
const MARGIN_MS: u64 = 600_000;

/// A rehearsal without a change for this long has settled. It is longer than the pauses between reads of one fact.
const QUIET_MS: u64 = 60_000;

/// The delay of each answer, and of what a watch shows of it. Without a delay, nothing would count as under way.
const ANSWER_MS: u64 = 50;

/// The most plans of one rehearsal. It ends a rehearsal whose plans ask for ever to be made again at once.
const MAX_PLANS: usize = 1_000_000;

/// The result of a rehearsal.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Whether changes had ended.
    pub(super) settled: bool,
    /// The time of the last change, in milliseconds of simulated time since the start.
    pub(super) last_change_ms: u64,
    /// The simulated time of the rehearsal.
    pub(super) simulated_ms: u64,
    /// Events of type Warning that FLIPOP would write.
    pub(super) warnings: Vec<String>,
}

struct Rehearsal<'a> {
    world: &'a mut World,
    fleet: Fleet,
    now: Moment,
    queue: BTreeMap<(Moment, u64), Input>,
    serial: u64,
    running: BTreeSet<WatchKey>,
    last_change: Moment,
    warnings: BTreeSet<String>,
}

/// Runs a rehearsal. `now` is the time of day at its start.
pub(super) async fn run(
    world: &mut World,
    providers: &Providers,
    flags: DecisionFlags,
    now: jiff::Timestamp,
) -> Result<Outcome, CommandError> {
    let wall = u64::try_from(now.as_millisecond()).unwrap_or_default();
    let epoch_ms = wall.saturating_sub(START.as_millis());
    let limit = MARGIN_MS.saturating_add(longest_wait_ms(world, providers));
    let mut rehearsal = Rehearsal {
        world,
        fleet: Fleet::new(Settings {
            providers: providers.clone(),
            epoch_ms,
            zones: flags.zones,
            max_addresses: flags.max_addresses,
            own_node: Some(String::new()),
            // It decides about a condition alone, and a plan shows none.
            own_namespace: None,
            ..Settings::default()
        }),
        now: START,
        queue: BTreeMap::new(),
        serial: 0,
        running: BTreeSet::new(),
        last_change: START,
        warnings: BTreeSet::new(),
    };
    rehearsal.begin(epoch_ms);
    rehearsal.go_on(START.plus_millis(limit)).await;
    let faults = rehearsal.world.account.faults().into_iter();
    if let Some(fault) = faults.chain(rehearsal.world.walls.faults()).next() {
        return Err(CommandError::Missing(format!("failed to read {fault}")));
    }
    let quiet = rehearsal.now.millis_since(rehearsal.last_change);
    let never = rehearsal.last_change == START;
    let settled = (never || quiet >= QUIET_MS) && !rehearsal.world.is_under_way();
    Ok(Outcome {
        settled,
        last_change_ms: rehearsal.last_change.millis_since(START),
        simulated_ms: limit,
        warnings: rehearsal.warnings.into_iter().collect(),
    })
}

/// The longest grace, cool-off and TTL among the objects.
fn longest_wait_ms(world: &World, providers: &Providers) -> u64 {
    let of_pool = |pool| copy::pool_spec(pool, providers).map(|spec| (spec.grace, spec.cool_off_ms));
    let of_set = |set| copy::set_spec(set, providers).map(|spec| (spec.grace, 0));
    let pools = world.pools.values().filter_map(of_pool);
    let waits = pools.chain(world.sets.values().filter_map(of_set));
    let waits = waits.map(|(grace, cool_off)| {
        grace.pod_ms.max(grace.node_ms).saturating_add(grace.recovery_ms).max(cool_off)
    });
    let ttls = world.pools.values().filter_map(|pool| pool.spec.as_ref().ok()?.record_set.as_ref());
    let ttls = ttls.chain(world.sets.values().filter_map(|set| set.spec.as_ref().ok()?.record_set.as_ref()));
    let ttls = ttls.filter_map(|set| u64::try_from(set.ttl).ok()).map(|ttl| ttl.min(86_400) * 1_000);
    waits.chain(ttls).max().unwrap_or_default()
}

impl Rehearsal<'_> {
    /// Begins as a new leader: everything is read before anything is decided.
    fn begin(&mut self, epoch_ms: u64) {
        self.observe(Input::ServerEpoch(epoch_ms));
        self.observe(Input::Leading);
        self.observe(Input::Permit(true));
        // A request to move counts only if the pool was seen without it. The real leader has seen the pool that
        // way.
        let asks = self.world.pools.values().filter(|pool| pool.move_request.is_some()).cloned();
        let asks: Vec<_> = asks.collect();
        let first = self.world.pools.values().cloned().map(|mut pool| {
            let met = pool.status.last_move.as_ref().map(|last| &last.request);
            if pool.move_request.as_ref() != met {
                pool.move_request = None;
            }
            pool
        });
        let first = first.collect();
        self.observe(Input::Pools(Observed::Reset(first)));
        let sets = self.world.sets.values().cloned().collect();
        self.observe(Input::RecordSets(Observed::Reset(sets)));
        for pool in asks {
            self.later(ANSWER_MS, Input::Pools(Observed::Apply(pool)));
        }
    }

    fn observe(&mut self, input: Input) {
        self.fleet.observe(input, Context::exactly(self.now));
    }

    fn later(&mut self, ms: u64, input: Input) {
        self.serial = self.serial.saturating_add(1);
        self.queue.insert((self.now.plus_millis(ms), self.serial), input);
    }

    fn answer(&mut self, answer: impl Into<Answer>) {
        self.later(ANSWER_MS, Input::Outcome(answer.into()));
    }

    /// Notes a change outside the statuses.
    fn changes(&mut self) {
        self.last_change = self.now;
    }

    async fn go_on(&mut self, end: Moment) {
        for _ in 0..MAX_PLANS {
            let plan = self.fleet.plan(self.now);
            let idle = plan.effects.is_empty();
            for effect in plan.effects {
                match effect {
                    Effect::Do(action) => self.execute(action).await,
                    Effect::Tell(notice) if notice.warning => {
                        let (kind, name) = (notice.kind.as_str(), &notice.object.name);
                        let warning = format!("{kind} {name} {}: {}", notice.reason.as_str(), notice.message);
                        self.warnings.insert(warning);
                    }
                    Effect::Tell(_) => {}
                }
            }
            if self.follow(plan.watches) || !idle {
                continue;
            }
            let answer = self.queue.keys().next().map(|(at, _)| *at);
            let Some(next) = [answer, plan.wake].into_iter().flatten().min().filter(|next| *next <= end)
            else {
                break;
            };
            self.now = self.now.max(next);
            let later = self.queue.split_off(&(self.now.plus_millis(1), 0));
            for (_, input) in std::mem::replace(&mut self.queue, later) {
                self.observe(input);
            }
        }
        self.now = end;
    }

    /// Lists for the watches that did not run before. Returns whether there were any.
    fn follow(&mut self, wanted: Option<BTreeSet<WatchKey>>) -> bool {
        let Some(wanted) = wanted else { return false };
        self.running.retain(|key| wanted.contains(key));
        let mut fresh = false;
        for key in wanted {
            if !self.running.insert(key.clone()) {
                continue;
            }
            fresh = true;
            let input = match &key {
                WatchKey::Nodes { .. } => {
                    let nodes = self.world.lists.nodes.get(&key).cloned().unwrap_or_default();
                    Input::Nodes(key, Observed::Reset(nodes))
                }
                WatchKey::Pods { .. } => {
                    let pods = self.world.lists.pods.get(&key).cloned().unwrap_or_default();
                    Input::Pods(key, Observed::Reset(pods))
                }
            };
            self.observe(input);
        }
        fresh
    }

    async fn execute(&mut self, action: Action) {
        match action {
            Action::Addresses(call) => self.addresses(call).await,
            Action::Records(call) => self.records(call).await,
            Action::WriteStatus(write) => {
                let StatusWrite { object, status, .. } = *write;
                let resource_version = self.change_pool(&object.uid, |pool| pool.status.clone_from(&status));
                let kept = Box::new(WrittenStatus { resource_version, status });
                self.answer(Answer::StatusWritten(object.uid, Ok(kept)));
            }
            Action::WriteRecordSetStatus(write) => {
                let resource_version = self.world.next_version();
                let Some(object) = self.world.sets.get_mut(&write.object.uid) else { return };
                object.resource_version.clone_from(&resource_version);
                object.status.clone_from(&write.status);
                let seen = object.clone();
                self.later(ANSWER_MS, Input::RecordSets(Observed::Apply(seen)));
                let kept = Box::new(WrittenStatus { resource_version, status: write.status });
                self.answer(Answer::RecordSetStatusWritten(write.object.uid, Ok(kept)));
            }
            Action::WriteIps { pool, add, remove } => self.write_ips(pool, add, remove),
            Action::WriteFinalizer { pool, present } => {
                self.changes();
                self.change_pool(&pool.uid, |object| object.guarded = present);
                self.answer(Answer::FinalizerWritten { pool: pool.uid, present, result: Ok(()) });
            }
            Action::ListObjects { asked, .. } => {
                let pools = self.world.pools.values().cloned().collect();
                let record_sets = self.world.sets.values().cloned().collect();
                let result = Ok(Box::new(Objects { pools, record_sets }));
                self.answer(Answer::ObjectsListed(asked, result));
            }
            Action::Annotate { node, uid, value } => {
                self.changes();
                self.mark(&node, &uid, |node| {
                    node.annotation = value.as_ref().map(ToString::to_string);
                    node.annotation_ours = true;
                });
                self.answer(Answer::Annotated { node, uid, value, result: Ok(()) });
            }
            Action::Label { node, uid, changes } => self.label(node, uid, changes),
            Action::Firewalls(call) => self.firewalls(call).await,
            Action::SweepAnnotations => {
                let found = self.world.swept();
                self.answer(Answer::Swept(Ok(found)));
            }
            Action::CountNodes => {
                let count = u64::try_from(self.world.nodes().len()).unwrap_or(u64::MAX);
                self.answer(Answer::NodesCounted(Ok(count)));
            }
            Action::ReadNode { object, node, asked, nodes, pods, lease: _ } => {
                let result = Ok(self.world.node(&node, &nodes, pods.as_ref()));
                let read = Box::new(NodeReading { node, asked, nodes, pods, result, lease: None });
                self.answer(Answer::NodeRead(object.uid, read));
            }
        }
    }

    fn mark(&mut self, node: &str, uid: &Uid, change: impl Fn(&mut NodeFacts)) {
        for (key, node) in self.world.mark(node, uid, change) {
            self.later(ANSWER_MS, Input::Nodes(key, Observed::Apply(node)));
        }
    }

    async fn firewalls(&mut self, call: firewalls::Action) {
        let (answer, changed) = self.world.walls.answer(call, self.now).await;
        if changed {
            self.changes();
        }
        self.answer(answer);
    }

    fn label(&mut self, node: String, uid: Uid, changes: LabelChanges) {
        self.changes();
        self.mark(&node, &uid, |node| {
            for (key, value) in &changes {
                match value.clone() {
                    Some(value) => node.labels.0.insert(*key, SeenLabel { value, ours: true }),
                    None => node.labels.0.remove(key),
                };
            }
        });
        self.answer(Answer::Labelled { node, uid, changes, result: Ok(()) });
    }

    /// Changes a pool as the API server does, and shows it to the watch. Returns its new version.
    fn change_pool(&mut self, uid: &Uid, change: impl FnOnce(&mut PoolObject)) -> String {
        let resource_version = self.world.next_version();
        if let Some(object) = self.world.pools.get_mut(uid) {
            object.resource_version.clone_from(&resource_version);
            change(object);
            let seen = object.clone();
            self.later(ANSWER_MS, Input::Pools(Observed::Apply(seen)));
        }
        resource_version
    }

    fn write_ips(&mut self, pool: ObjectRef, add: Vec<Address>, remove: BTreeSet<Address>) {
        self.changes();
        self.change_pool(&pool.uid, |object| {
            let Ok(spec) = &mut object.spec else { return };
            let new = add.iter().map(ToString::to_string).filter(|ip| !spec.ips.contains(ip));
            let new: Vec<String> = new.collect();
            spec.ips.extend(new);
            spec.ips.retain(|ip| Address::v4(ip).is_none_or(|ip| !remove.contains(&ip)));
            object.generation = object.generation.saturating_add(1);
        });
        self.answer(Answer::IpsWritten { pool: pool.uid, add, remove, result: Ok(()) });
    }

    async fn addresses(&mut self, Request { epoch, owner, call }: addresses::Action) {
        use addresses::{Call, Reply};
        let (begun, is_write) = (self.now, call.is_write());
        let (account, id) = (&mut self.world.account, &epoch.account_id);
        let completed = |()| (ActionId(begun.as_millis()), ActionStatus::Completed);
        let reply = match call {
            Call::List => Reply::Listed(account.list(id).await),
            Call::Get(ip) => Reply::Got(ip, account.get(id, ip).await),
            Call::Test(_) => Reply::Tested(Ok(())),
            Call::ProveMachineRead => Reply::Proved(account.may_read_machines(id).await),
            // A rehearsal checks no node.
            Call::ReadMachine(machine, asked) => Reply::MachineRead(machine, asked, Ok(false)),
            Call::Poll(ip, _) => Reply::Polled(ip, Ok(ActionStatus::Completed)),
            Call::Assign { ip, machine, .. } => {
                Reply::Changed(ip, account.place(id, ip, Some(machine)).map(completed))
            }
            Call::Unassign(ip, _) => Reply::Changed(ip, account.place(id, ip, None).map(completed)),
            Call::Delete(ip) => Reply::Deleted(ip, account.delete(id, ip)),
            Call::Create(region) => Reply::Created(account.buy(id, &region)),
        };
        if is_write {
            self.changes();
        }
        self.answer(ProviderAnswer { epoch, owner, begun, reply });
    }

    async fn records(&mut self, Request { epoch, owner, call }: records::Action) {
        use records::{Call, Reply};
        let (begun, account, id) = (self.now, &mut self.world.account, &epoch.account_id);
        let reply = match call {
            Call::Test { .. } => Reply::Tested(Ok(())),
            Call::FindZone(zone) => {
                let result = account.find_zone(id, &zone).await;
                Reply::ZoneFound(zone, result)
            }
            Call::ReadRecords { zone, fqdn, mark_of } => {
                let result = account.records(id, &zone, &fqdn).await;
                Reply::RecordsRead { zone: zone.id, fqdn, mark_of, result }
            }
            Call::ApplyRecords { zone, fqdn, set } => {
                let left = account.change(id, &fqdn, &set.changes);
                self.last_change = begun;
                Reply::RecordsApplied { zone: zone.id, fqdn, result: Ok(left) }
            }
        };
        self.answer(ProviderAnswer { epoch, owner, begun, reply });
    }
}
