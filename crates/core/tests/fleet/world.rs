//! A small world for the decisions: a cluster, an account and an executor, with invariants checked at each action.

use crate::catalogued;
use crate::faults::{Faults, fault, fleet, limited, spec_of, whole};
pub(crate) use crate::faults::{Trick, droplet_of};
use crate::twins::Twins;
use crate::walls::Walls;
use crate::zones::{self, Dns};
use flipop_core::addresses::action::{self as addresses, Call, Reply};
use flipop_core::addresses::pool::status::PoolObject;
use flipop_core::fleet::action::{Action, NodeReading, Outcome};
use flipop_core::fleet::{Input, PoolDetails};
use flipop_core::mechanism::{Answer, Effect, Epoch, Notice, Request};
use flipop_core::model::node_labels::NodeLabels;
use flipop_core::model::{
    ActionId, ActionStatus, Address, CallFailure, Context, Fault, FaultKind, LeaseFacts, MachineId, Moment,
    NodeFacts, Observed, PodFacts, ReservedIp, Uid, WatchKey,
};
use flipop_core::records::name::Zones;
use flipop_core::records::status::RecordSetObject;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) const PROVIDER: &str = "digitalocean";

/// A label that no node has. Every other label selects all nodes.
pub(crate) const NO_NODE: &str = "pool=egde";

#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) ip: Address,
    pub(crate) target: Option<MachineId>,
    pub(crate) ends: Moment,
    errored: bool,
    pub(crate) over: bool,
}

/// The world.
pub(crate) struct World {
    pub(crate) fleet: Twins,
    pub(crate) now: Moment,
    pub(crate) nodes: BTreeMap<String, NodeFacts>,
    pub(crate) pods: BTreeMap<String, PodFacts>,
    pub(crate) pools: BTreeMap<String, PoolObject>,
    pub(crate) record_sets: BTreeMap<String, RecordSetObject>,
    pub(crate) dns: Dns,
    pub(crate) walls: Walls,
    pub(crate) cloud: BTreeMap<Address, ReservedIp>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, NodeLabels>,
    /// When an address may move away although labels name it, because their removal was refused or had time.
    pub(crate) labels_go: BTreeMap<Address, Moment>,
    pub(crate) tricks: VecDeque<Trick>,
    pub(crate) calls: Vec<(Moment, String)>,
    pub(crate) epoch: Epoch,
    /// A creation that takes longer is given up, as the clients do. Its effect stays.
    pub(crate) call_timeout_ms: u64,
    pub(crate) events: Vec<Notice>,
    pub(crate) created: usize,
    /// The flags --zones and --max-addresses of the next process.
    pub(crate) zones: Zones,
    pub(crate) max_addresses: Option<usize>,
    /// Addresses that a pool names beyond the bound of its list.
    pub(crate) hidden: BTreeMap<String, BTreeSet<Address>>,
    pub(crate) assigns: usize,
    pub(crate) status_writes: usize,
    /// The installed CRDs drop our fields.
    pub(crate) go_crds: bool,
    /// Addresses that somebody has moved by hand lately. FLIPOP may move them back.
    pub(crate) moved: BTreeSet<Address>,
    /// When FLIPOP last got the permit to write.
    pub(crate) permitted: Moment,
    /// Nodes whose annotation another field manager wrote.
    pub(crate) foreign: BTreeSet<String>,
    /// Pools whose status may not be written.
    pub(crate) denied: BTreeSet<String>,
    /// The faults besides those of provider calls that change something.
    pub(crate) faults: Faults,
    pub(crate) pending: BTreeMap<ActionId, Pending>,
    pub(crate) inputs: Vec<(Moment, Input)>,
    /// When each node was created, in seconds.
    pub(crate) born: BTreeMap<Uid, i64>,
    /// Nodes whose machine is dead, whatever their objects say.
    pub(crate) dead: BTreeSet<String>,
    /// The Leases of nodes, as a consistent read finds them.
    pub(crate) leases: BTreeMap<String, LeaseFacts>,
    pub(crate) running: BTreeSet<WatchKey>,
    /// No watch starts.
    pub(crate) hold_watches: bool,
    /// The watches that the last plan wanted.
    pub(crate) wanted: BTreeSet<WatchKey>,
    /// Nodes that no watch shows, whose labels no pool asks for.
    pub(crate) unlabelled: u64,
    pub(crate) version: u64,
    serial: u64,
}

pub(crate) fn ip(last: u8) -> Address {
    Address::from([192, 0, 2, last])
}

pub(crate) fn droplet(number: u8) -> MachineId {
    droplet_of(100 + u64::from(number))
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            fleet: fleet(),
            now: Moment::from_millis(1_000_000),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            pools: BTreeMap::new(),
            record_sets: BTreeMap::new(),
            dns: zones::dns(),
            walls: Walls::default(),
            cloud: BTreeMap::new(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            labels_go: BTreeMap::new(),
            tricks: VecDeque::new(),
            calls: Vec::new(),
            epoch: Epoch::first(PROVIDER.into()),
            call_timeout_ms: u64::MAX,
            events: Vec::new(),
            created: 0,
            zones: Zones::default(),
            max_addresses: None,
            hidden: BTreeMap::new(),
            assigns: 0,
            status_writes: 0,
            go_crds: false,
            moved: BTreeSet::new(),
            permitted: Moment::default(),
            foreign: BTreeSet::new(),
            denied: BTreeSet::new(),
            faults: Faults::default(),
            pending: BTreeMap::new(),
            inputs: Vec::new(),
            born: BTreeMap::new(),
            dead: BTreeSet::new(),
            leases: BTreeMap::new(),
            running: BTreeSet::new(),
            hold_watches: false,
            wanted: BTreeSet::new(),
            unlabelled: 0,
            version: 1,
            serial: 0,
        }
    }

    /// A world with this many addresses and ready nodes, and a pool of all the addresses.
    pub(crate) fn with(addresses: u8, nodes: u8) -> Self {
        let mut world = Self::bare(addresses, nodes);
        world.add_pool("pool", spec_of(1..=addresses));
        world.start();
        world
    }

    /// A world with this many addresses and ready nodes, in which nothing runs yet.
    pub(crate) fn bare(addresses: u8, nodes: u8) -> Self {
        let mut world = Self::new();
        (1..=addresses).for_each(|n| world.add_ip(n));
        (1..=nodes).for_each(|n| world.set_node(n, true));
        world
    }

    /// Adds an address that somebody has put on a droplet long ago.
    pub(crate) fn add_foreign_ip(&mut self, n: u8, on: u8) {
        self.add_ip(n);
        self.move_by_hand(n, Some(on));
        self.moved.remove(&ip(n));
    }

    pub(crate) fn add_ip(&mut self, n: u8) {
        let read = ReservedIp { ip: ip(n), region: "nyc3".into(), machine: None, locked: false };
        self.cloud.insert(ip(n), read);
    }

    /// The details of the first pool, as people see them.
    pub(crate) fn details(&self) -> PoolDetails {
        self.fleet.details(self.now).pools.into_values().next().unwrap()
    }

    /// The nodes of the first pool that wait for an address, in their order, each with the reason.
    pub(crate) fn waits(&self) -> Vec<(String, String)> {
        self.details().line.into_iter().map(|(node, why, _)| (node, why)).collect()
    }

    /// Somebody moves an address by hand.
    pub(crate) fn move_by_hand(&mut self, n: u8, to: Option<u8>) {
        let to =
            to.map(droplet).filter(|to| !self.cloud.values().any(|read| read.machine.as_ref() == Some(to)));
        if let Some(read) = self.cloud.get_mut(&ip(n)).filter(|read| !read.locked) {
            read.machine = to;
            self.moved.insert(ip(n));
        }
    }

    pub(crate) fn holder(&self, n: u8) -> Option<Address> {
        self.cloud.values().find(|read| read.machine == Some(droplet(n))).map(|read| read.ip)
    }

    /// The process starts, or restarts after a crash. It loses everything in flight.
    pub(crate) fn start(&mut self) {
        self.start_without_nodes();
        self.begin_watches();
    }

    /// Another process starts, and does not lead.
    pub(crate) fn stand_by(&mut self) {
        self.fleet = limited(self.zones.clone(), self.max_addresses);
        self.inputs.clear();
        self.running.clear();
        self.observe(Input::Pools(Observed::Reset(self.pools.values().cloned().collect())));
        self.observe(Input::RecordSets(Observed::Reset(self.record_sets.values().cloned().collect())));
        self.begin_watches();
    }

    /// The process starts, and no list of nodes comes.
    pub(crate) fn start_without_nodes(&mut self) {
        self.fleet = limited(self.zones.clone(), self.max_addresses);
        self.inputs.clear();
        self.running.clear();
        self.observe(Input::Leading);
        self.observe(Input::Permit(true));
        self.observe(Input::Pools(Observed::Reset(self.pools.values().cloned().collect())));
        self.observe(Input::RecordSets(Observed::Reset(self.record_sets.values().cloned().collect())));
    }

    /// The same process leads again after a gap. Everything is listed anew.
    pub(crate) fn lead_again(&mut self) {
        self.observe(Input::Leading);
        self.observe(Input::Pools(Observed::Reset(self.pools.values().cloned().collect())));
        self.observe(Input::RecordSets(Observed::Reset(self.record_sets.values().cloned().collect())));
        self.running.clear();
        self.begin_watches();
    }

    pub(crate) fn observe(&mut self, input: Input) {
        if matches!(input, Input::Permit(true)) {
            self.permitted = self.now;
        }
        self.fleet.observe(input, Context::exactly(self.now));
    }

    /// Lets this many seconds pass.
    pub(crate) fn run(&mut self, seconds: u64) {
        self.run_until(self.now.plus_millis(seconds * 1_000));
    }

    /// Lets time pass until `end`.
    pub(crate) fn run_until(&mut self, end: Moment) {
        for _ in 0..100_000 {
            let plan = self.fleet.plan(self.now);
            for effect in plan.effects {
                self.execute(effect);
            }
            let again = self.fleet.plan(self.now);
            assert!(again.effects.is_empty(), "planning twice does more: {:?}", again.effects);
            self.wanted = again.watches.or(plan.watches).unwrap_or_else(|| std::mem::take(&mut self.wanted));
            if self.follow() {
                continue;
            }
            let outcome = self.inputs.iter().map(|(at, _)| *at).min();
            let Some(next) = [outcome, again.wake].into_iter().flatten().min().filter(|next| *next <= end)
            else {
                self.now = end;
                self.complete_actions();
                return;
            };
            assert!(next > self.now || outcome == Some(next), "a wake time that has passed already");
            self.now = self.now.max(next);
            self.complete_actions();
            let (due, later) =
                std::mem::take(&mut self.inputs).into_iter().partition(|(at, _)| *at <= self.now);
            self.inputs = later;
            let due: Vec<(Moment, Input)> = due;
            for (_, input) in due {
                if let Some(input) = self.in_order(input) {
                    self.observe(input);
                }
            }
        }
        panic!("the decisions do not come to rest");
    }

    fn progress(&self, action: ActionId) -> Result<ActionStatus, Fault> {
        if let Some(kind) = self.faults.reads.or(self.faults.polls) {
            return Err(fault(kind, false));
        }
        match self.pending.get(&action) {
            None => Err(fault(FaultKind::NotFound, false)),
            Some(pending) if pending.ends > self.now => Ok(ActionStatus::InProgress),
            Some(pending) if pending.errored => Ok(ActionStatus::Errored),
            Some(_) => Ok(ActionStatus::Completed),
        }
    }

    fn complete_actions(&mut self) {
        for pending in self.pending.values_mut().filter(|pending| !pending.over && pending.ends <= self.now) {
            pending.over = true;
            let others = self.cloud.values().filter(|read| read.ip != pending.ip);
            let taken = pending.target.is_some() && others.clone().any(|read| read.machine == pending.target);
            pending.errored |= taken;
            if let Some(read) = self.cloud.get_mut(&pending.ip) {
                read.locked = false;
                if !pending.errored {
                    read.machine.clone_from(&pending.target);
                }
            }
        }
    }

    /// The provider loses track of every action.
    pub(crate) fn forget_actions(&mut self) {
        for pending in std::mem::take(&mut self.pending).into_values() {
            if let Some(read) = self.cloud.get_mut(&pending.ip) {
                read.locked = false;
            }
        }
    }

    /// A watch event arrives a little before the answer to the write that made it.
    pub(crate) fn show(&mut self, input: Input) {
        if self.faults.mute {
            return;
        }
        self.inputs.push((self.now.plus_millis(40), input));
    }

    pub(crate) fn answer(&mut self, outcome: impl Into<Outcome>) {
        self.answer_after(50, outcome);
    }

    pub(crate) fn answer_after(&mut self, ms: u64, outcome: impl Into<Outcome>) {
        self.inputs.push((self.now.plus_millis(ms), Input::Outcome(outcome.into())));
    }

    fn execute(&mut self, effect: Effect<Action>) {
        match effect {
            Effect::Do(Action::Addresses(action)) => self.execute_addresses(action),
            Effect::Do(Action::Records(action)) => self.execute_dns(action),
            Effect::Do(Action::Firewalls(action)) => self.execute_firewalls(action),
            Effect::Do(Action::WriteStatus(write)) => {
                self.write_status(&write.object, &write.resource_version, write.status);
            }
            Effect::Do(Action::WriteIps { pool, add, remove }) => self.write_ips(pool, add, remove),
            Effect::Do(Action::WriteFinalizer { pool, present }) => self.write_finalizer(&pool, present),
            Effect::Do(Action::ListObjects { asked, sought }) => self.list_objects(asked, &sought),
            Effect::Do(Action::WriteRecordSetStatus(write)) => {
                self.write_set_status(&write.object, &write.resource_version, write.status);
            }
            Effect::Do(Action::Annotate { node, uid, value }) => self.annotate_checked(node, uid, value),
            Effect::Do(Action::Label { node, uid, changes }) => self.label(node, uid, changes),
            Effect::Do(Action::CountNodes) => {
                self.call("count nodes");
                self.answer(Outcome::NodesCounted(Ok(self.unlabelled)));
            }
            Effect::Do(Action::SweepAnnotations) => self.sweep(),
            Effect::Do(Action::ReadNode { object, node, asked, nodes, pods, lease }) => {
                self.call(format!("read {node}"));
                let result = self.read_node(&node);
                let lease = self.leases.get(&node).filter(|_| lease).cloned();
                let read = NodeReading { node, asked, nodes, pods, result, lease };
                self.answer(Outcome::NodeRead(object.uid, Box::new(read)));
            }
            Effect::Tell(notice) => {
                catalogued::check_notice(&notice);
                self.events.push(notice);
            }
        }
    }

    fn execute_addresses(&mut self, Request { epoch, owner, call }: addresses::Action) {
        let pool = owner.as_ref().map(|owner| owner.object.clone()).unwrap_or_default();
        let (begun, mut wait_ms) = (self.now, 50);
        let reply = match call {
            Call::List => {
                self.call("list");
                self.epoch = epoch.clone();
                wait_ms += self.faults.late_lists_ms;
                Reply::Listed(self.faults.list(&self.cloud))
            }
            Call::Get(ip) => {
                self.call(format!("get {ip}"));
                Reply::Got(ip, self.faults.get(&self.cloud, ip))
            }
            Call::Test(ip) => {
                self.call("test");
                Reply::Tested(match ip {
                    Some(ip) => self.faults.get(&self.cloud, ip).map(|_| ()),
                    None => self.faults.proof().map(|_| ()),
                })
            }
            Call::ProveMachineRead => {
                self.call("prove");
                Reply::Proved(self.faults.proof())
            }
            Call::ReadMachine(machine, asked) => {
                self.call(format!("read {machine}"));
                let (result, late_ms) = self.faults.machine(&machine);
                wait_ms += late_ms;
                Reply::MachineRead(machine, asked, result)
            }
            Call::Poll(ip, action) => {
                self.call(format!("poll {ip}"));
                let result = self.progress(action).map_err(CallFailure::Fault);
                wait_ms += self.faults.late_polls_ms;
                Reply::Polled(ip, self.faults.out().map_or(result, Err))
            }
            Call::Assign { ip, machine: droplet, node } => {
                self.check_assignment(&pool, ip, &droplet, &node);
                self.check_labels(&pool.name.name, ip, &node);
                self.call(format!("assign {ip} {node}"));
                self.assigns += 1;
                Reply::Changed(ip, self.change(ip, Some(droplet)))
            }
            Call::Unassign(ip, droplet) => {
                self.check_unassignment(&pool, ip, &droplet);
                self.call(format!("unassign {ip}"));
                Reply::Changed(ip, self.change(ip, None))
            }
            Call::Create(region) => {
                self.check_pause(&pool);
                let (ms, result) = self.create(&pool, &region);
                wait_ms = ms;
                Reply::Created(result)
            }
            Call::Delete(ip) => {
                let (ms, result) = self.delete_checked(&pool, ip);
                wait_ms = ms;
                Reply::Deleted(ip, result)
            }
        };
        self.answer_after(wait_ms, Answer { epoch, owner, begun, reply });
    }

    fn change(
        &mut self,
        ip: Address,
        target: Option<MachineId>,
    ) -> Result<(ActionId, ActionStatus), CallFailure> {
        let broken = self.faults.broken.filter(|(broken, _)| *broken == ip).map(|(_, trick)| trick);
        let broken = broken.or_else(|| self.faults.broken_droplets.get(target.as_ref()?).copied());
        let trick = broken.or_else(|| self.tricks.pop_front()).unwrap_or(Trick::Fine);
        let taken =
            target.is_some() && self.cloud.values().any(|read| read.machine == target && read.ip != ip);
        let busy = target.is_some()
            && self.pending.values().any(|pending| !pending.over && pending.target == target);
        if let Some(out) = self.faults.out() {
            return Err(self.faults.of_change(out));
        }
        match (self.cloud.get_mut(&ip), trick) {
            (_, Trick::Refused(kind)) => Err(CallFailure::Fault(fault(kind, false))),
            (_, Trick::Lost(false)) => Err(whole(0)),
            (None, _) => Err(CallFailure::Fault(fault(FaultKind::NotFound, false))),
            (Some(read), _) if read.locked || busy => {
                Err(CallFailure::Fault(fault(FaultKind::InProgress, false)))
            }
            (Some(_), _) if taken => Err(CallFailure::Fault(fault(FaultKind::NodeInUse, false))),
            (Some(read), Trick::Fine | Trick::Errored | Trick::Slow(_) | Trick::Lost(true)) => {
                read.locked = true;
                self.serial += 1;
                let wait = if let Trick::Slow(seconds) = trick { seconds * 1_000 } else { 900 };
                let ends = self.now.plus_millis(wait);
                let id = ActionId(self.serial);
                self.pending
                    .insert(id, Pending { ip, target, ends, errored: trick == Trick::Errored, over: false });
                if trick == Trick::Lost(true) { Err(whole(0)) } else { Ok((id, ActionStatus::InProgress)) }
            }
        }
    }

    pub(crate) fn call(&mut self, what: impl Into<String>) {
        self.calls.push((self.now, what.into()));
    }
}
