//! Many pools and record sets, with an account and an API server that do at once whatever they are told.

use flipop_core::addresses::action as addresses;
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::addresses::pool::status::{PoolObject, PoolStatus};
use flipop_core::fleet::action::{Action, Outcome, Sweep};
use flipop_core::fleet::{Fleet, Input, Settings, Snapshot};
use flipop_core::mechanism::{Answer, Effect, Request, WrittenStatus};
use flipop_core::model::label_mode::RawNodeLabels;
use flipop_core::model::provider::{Descriptor, Limits, Providers, Rules, ZoneForm};
use flipop_core::model::spec::{RawMatch, RawRecordSet};
use flipop_core::model::{
    ActionId, ActionStatus, Address, CheckOutcome, Checked, Context, MachineId, MachineKind, Moment,
    NodeFacts, ObjectName, ObjectRef, Observed, PodFacts, RawNodeCheck, Readiness, ReservedIp,
    ReservedIpList, Uid, WatchKey,
};
use flipop_core::records::action as records;
use flipop_core::records::dns::{ADDRESS_KIND, Change, Record};
use flipop_core::records::spec::RawRecordSetSpec;
use flipop_core::records::status::{RecordSetObject, RecordSetStatus};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

pub(super) const PROVIDER: &str = "digitalocean";

/// The pool's addresses, unless it has fewer nodes to spare.
const ADDRESSES: u16 = 10;

/// The number of an address that no pool names, and of its machine. Each plan looks for such addresses.
const STRAY: u16 = u16::MAX;

static MACHINES: MachineKind = MachineKind {
    noun: "droplet",
    scheme: PROVIDER,
    read_scope: "droplet:read",
    id: |id| Some(id.to_owned()),
};

const DESCRIPTOR: Descriptor = Descriptor {
    name: PROVIDER,
    title: "DigitalOcean",
    token_variable: "TOKEN",
    // The budget is not measured: it must not end.
    limits: Limits { requests: 1_000_000, window_ms: 1_000, creations: 0, creation_window_ms: 1_000 },
    machines: Some(&MACHINES),
    tells_power: true,
    managed_nodes: None,
    dns: Some(Rules {
        zone_form: ZoneForm::Name,
        ttl_floor: 30,
        ttl_ceiling: 86_400,
        ttl_automatic: None,
        changes_per_request: 1_000,
    }),
    firewalls: None,
};

pub(super) fn address(number: u16) -> Address {
    let [high, low] = number.to_be_bytes();
    Address::from([198, 18, high, low])
}

pub(super) fn machine(number: u16) -> MachineId {
    MACHINES.machine(number.to_string())
}

pub(super) fn nodes(pool: u16) -> WatchKey {
    WatchKey::Nodes { selector: format!("pool={pool}") }
}

pub(super) fn pods(pool: u16) -> WatchKey {
    WatchKey::Pods { namespace: "web".into(), selector: format!("app={pool}") }
}

pub(super) fn node(number: u16, ready: Readiness) -> NodeFacts {
    NodeFacts {
        name: format!("node-{number:05}"),
        uid: Uid(format!("uid-{number}").into()),
        provider_id: machine(number).provider_id(),
        machine: Some(machine(number)),
        ready,
        region: Some("nyc3".into()),
        external_ips: vec![address(number)],
        internal_ips: vec![address(number)],
        ..NodeFacts::default()
    }
}

pub(super) fn pod(number: u16, serving: bool) -> PodFacts {
    PodFacts {
        namespace: "web".into(),
        name: format!("pod-{number:05}"),
        node: format!("node-{number:05}"),
        serving,
        fails_since_s: None,
    }
}

/// The criteria of the object with this number.
pub(super) fn matching(number: u16) -> RawMatch {
    RawMatch {
        node_label: format!("pool={number}"),
        pod_namespace: "web".into(),
        pod_label: format!("app={number}"),
        ..RawMatch::default()
    }
}

pub(super) fn object(number: u16) -> ObjectRef {
    ObjectRef {
        uid: Uid(format!("uid-{number}").into()),
        name: ObjectName::new(format!("team-{number}"), "pool"),
    }
}

/// A record set with the addresses of its nodes.
pub(super) fn record_set(number: u16) -> RecordSetObject {
    RecordSetObject {
        object: object(number),
        created_at_s: 0,
        generation: 1,
        resource_version: "1".into(),
        deleting: false,
        paused: None,
        spec: Ok(RawRecordSetSpec {
            matching: matching(number),
            record_set: Some(RawRecordSet {
                zone: "example.com".into(),
                record_name: format!("set-{number}"),
                ttl: 60,
                ..RawRecordSet::default()
            }),
            address_type: "ExternalIP".into(),
            ..RawRecordSetSpec::default()
        }),
        status: RecordSetStatus::default(),
    }
}

/// A pool whose nodes are these. It may ask for labels and checks of nodes.
pub(super) fn pool(number: u16, nodes: Range<u16>, extras: bool) -> PoolObject {
    let used = ADDRESSES.min((nodes.end - nodes.start) / 2);
    let ips = nodes.take(used.into()).map(|number| address(number).to_string()).collect();
    PoolObject {
        object: object(number),
        created_at_s: 0,
        generation: 1,
        resource_version: "1".into(),
        deleting: false,
        guarded: false,
        paused: None,
        spec: Ok(RawPoolSpec {
            provider: PROVIDER.into(),
            region: "nyc3".into(),
            ips,
            matching: matching(number),
            node_labels: RawNodeLabels { enabled: extras, legacy: false },
            node_check: extras.then(RawNodeCheck::default),
            ..RawPoolSpec::default()
        }),
        move_request: None,
        status: PoolStatus::default(),
    }
}

/// An account and an API server that do at once whatever they are told.
pub(super) struct World {
    pub(super) fleet: Fleet,
    now: Moment,
    places: BTreeMap<Address, MachineId>,
    pub(super) names: BTreeMap<String, Vec<Record>>,
    version: u64,
    /// The version of the checks that have passed.
    checks: u64,
    /// The last snapshot, which metrics hold.
    shown: Snapshot,
}

impl World {
    /// Pools with as many nodes each.
    pub(super) fn new(pools: u16, size: u16, extras: bool) -> Self {
        let of = |number: u16| pool(number, number * size..(number + 1) * size, extras);
        Self::of((0..pools).map(of).collect(), Vec::new(), size)
    }

    /// Pools and record sets with as many nodes each.
    pub(super) fn of(objects: Vec<PoolObject>, sets: Vec<RecordSetObject>, size: u16) -> Self {
        let all = u16::try_from(objects.len() + sets.len()).unwrap_or(u16::MAX);
        let rounds = if sets.is_empty() { 2 } else { 60 };
        let providers = Providers::new([(DESCRIPTOR, true)], false);
        let fleet = Fleet::new(Settings {
            providers,
            epoch_ms: 0,
            own_node: Some("flipop".into()),
            own_namespace: None,
            ..Settings::default()
        });
        let of = |number: u16| number * size..(number + 1) * size;
        let used = objects.iter().filter_map(|pool| pool.spec.as_ref().ok()).map(|spec| spec.ips.len());
        let standing = (0..all).zip(used).flat_map(|(number, used)| of(number).take(used));
        let standing = standing.chain([STRAY]);
        let places = standing.map(|number| (address(number), machine(number))).collect();
        let (now, names) = (Moment::from_millis(1_000_000), BTreeMap::new());
        let mut world = Self { fleet, now, places, names, version: 1, checks: 0, shown: Snapshot::default() };
        world.observe(Input::Leading);
        world.observe(Input::Permit(true));
        world.observe(Input::RecordSets(Observed::Reset(sets)));
        world.observe(Input::Pools(Observed::Reset(objects)));
        for number in 0..all {
            let all = of(number).map(|number| node(number, Readiness::Ready)).collect();
            world.observe(Input::Nodes(nodes(number), Observed::Reset(all)));
            let all = of(number).map(|number| pod(number, true)).collect();
            world.observe(Input::Pods(pods(number), Observed::Reset(all)));
        }
        // For some minutes after a start, each record is read again several times.
        (0..rounds).for_each(|_| world.settle());
        world
    }

    fn observe(&mut self, input: Input) {
        self.fleet.observe(input, Context::exactly(self.now));
    }

    /// Plans and executes for ten simulated seconds.
    fn settle(&mut self) {
        let end = self.now.plus_millis(10_000);
        loop {
            let plan = self.fleet.plan(self.now);
            if plan.fresh {
                self.shown = self.fleet.snapshot();
            }
            let (checks, targets) = self.fleet.checks();
            let asked: Vec<_> = targets.keys().filter(|_| checks != self.checks).cloned().collect();
            self.checks = checks;
            for key in asked {
                self.observe(Input::Checked(Checked { key, outcome: CheckOutcome::Passed }));
            }
            let idle = plan.effects.is_empty();
            plan.effects.into_iter().for_each(|effect| self.execute(effect));
            if idle {
                match plan.wake.filter(|wake| *wake <= end) {
                    Some(wake) => self.now = wake.max(self.now),
                    None => break self.now = end,
                }
            }
        }
    }

    fn execute(&mut self, effect: Effect<Action>) {
        let outcome = match effect {
            Effect::Do(Action::Addresses(action)) => self.execute_addresses(action).into(),
            Effect::Do(Action::Records(action)) => self.execute_records(action).into(),
            Effect::Do(Action::WriteRecordSetStatus(write)) => {
                self.version += 1;
                let kept = WrittenStatus { resource_version: self.version.to_string(), status: write.status };
                Outcome::RecordSetStatusWritten(write.object.uid, Ok(Box::new(kept)))
            }
            Effect::Do(Action::WriteStatus(write)) => {
                self.version += 1;
                let kept = WrittenStatus { resource_version: self.version.to_string(), status: write.status };
                Outcome::StatusWritten(write.object.uid, Ok(Box::new(kept)))
            }
            Effect::Do(Action::Annotate { node, uid, value }) => {
                Outcome::Annotated { node, uid, value, result: Ok(()) }
            }
            Effect::Do(Action::Label { node, uid, changes }) => {
                Outcome::Labelled { node, uid, changes, result: Ok(()) }
            }
            Effect::Do(Action::CountNodes) => Outcome::NodesCounted(Ok(0)),
            Effect::Do(Action::SweepAnnotations) => Outcome::Swept(Ok(Sweep::default())),
            Effect::Do(other) => unreachable!("nobody asked for {other:?}"),
            Effect::Tell(_) => return,
        };
        self.observe(Input::Outcome(outcome));
    }

    fn execute_records(&mut self, Request { epoch, owner, call }: records::Action) -> records::Outcome {
        use records::{Call, Reply};
        let reply = match call {
            Call::ReadRecords { zone, fqdn, mark_of } => {
                let result = Ok(self.names.get(&fqdn).cloned().unwrap_or_default());
                Reply::RecordsRead { zone: zone.id, fqdn, mark_of, result }
            }
            Call::ApplyRecords { zone, fqdn, set } => {
                let records = self.names.entry(fqdn.clone()).or_default();
                let mut left = Vec::new();
                for change in set.changes {
                    let gone = match &change {
                        Change::Update { id, .. } | Change::Delete { id } => Some(id.clone()),
                        Change::Create { .. } => None,
                    };
                    records.retain(|record| Some(&record.id) != gone.as_ref());
                    if let Change::Update { ip, ttl, .. } | Change::Create { ip, ttl } = change {
                        self.version += 1;
                        let id = gone.unwrap_or_else(|| self.version.to_string());
                        left.push(record(id, ip, ttl));
                    }
                }
                records.extend(left.iter().cloned());
                Reply::RecordsApplied { zone: zone.id, fqdn, result: Ok(left) }
            }
            Call::Test { .. } | Call::FindZone(_) => unreachable!("nobody asked for it"),
        };
        Answer { epoch, owner, begun: self.now, reply }
    }

    fn execute_addresses(&mut self, Request { epoch, owner, call }: addresses::Action) -> addresses::Outcome {
        use addresses::{Call, Reply};
        let reply = match call {
            Call::List => {
                let read = |(ip, machine): (&Address, &MachineId)| {
                    let region = "nyc3".into();
                    (*ip, ReservedIp { ip: *ip, region, machine: Some(machine.clone()), locked: false })
                };
                let ips = self.places.iter().map(read).collect();
                Reply::Listed(Ok(ReservedIpList { ips, contradiction: None }))
            }
            Call::Assign { ip, machine, .. } => {
                self.places.insert(ip, machine);
                Reply::Changed(ip, Ok((ActionId(1), ActionStatus::Completed)))
            }
            Call::ProveMachineRead => Reply::Proved(Ok(true)),
            Call::Get(_)
            | Call::Test(_)
            | Call::ReadMachine(..)
            | Call::Poll(..)
            | Call::Unassign(..)
            | Call::Create(_)
            | Call::Delete(_) => unreachable!("nobody asked for it"),
        };
        Answer { epoch, owner, begun: self.now, reply }
    }

    /// The number of the node that has the first address.
    fn holder(&self) -> u16 {
        let machine = self.places.get(&address(0)).map(MachineId::provider_id).unwrap_or_default();
        machine.rsplit('/').next().and_then(|id| id.parse().ok()).unwrap_or_default()
    }

    /// The time of one event, of the plan that answers it, and of the data for metrics. Everything that follows is not
    /// measured.
    pub(super) fn answer(&mut self, input: Input) -> (Duration, usize) {
        let at = Instant::now();
        self.observe(black_box(input));
        let plan = black_box(self.fleet.plan(self.now));
        if plan.fresh {
            self.shown = self.fleet.snapshot();
        }
        let took = at.elapsed();
        let effects = plan.effects.len();
        plan.effects.into_iter().for_each(|effect| self.execute(effect));
        self.settle();
        (took, effects)
    }

    /// The time of a pod of the first pool that decides nothing.
    pub(super) fn ignore(&mut self, pod: PodFacts) -> Duration {
        let (took, effects) = self.answer(Input::Pods(pods(0), Observed::Apply(pod)));
        assert_eq!(effects, 0);
        took
    }

    /// The time of the next list of the account, changed by `change`, together with the plan that follows.
    pub(super) fn list(&mut self, change: impl Fn(&mut addresses::Reply)) -> Duration {
        loop {
            let plan = self.fleet.plan(self.now);
            let mut list = None;
            for effect in plan.effects {
                match effect {
                    Effect::Do(Action::Addresses(action)) if action.call == addresses::Call::List => {
                        list = Some(self.execute_addresses(action));
                    }
                    other @ (Effect::Do(_) | Effect::Tell(_)) => self.execute(other),
                }
            }
            if let Some(mut answer) = list {
                change(&mut answer.reply);
                return self.answer(Input::Outcome(answer.into())).0;
            }
            self.now = plan.wake.map_or(self.now, |wake| wake.max(self.now));
        }
    }

    /// The time of a failure of the node that has the first address. Then the node is ready again.
    pub(super) fn fail_over(&mut self) -> Duration {
        let holder = self.holder();
        let failed = node(holder, Readiness::NotReady);
        let (took, _) = self.answer(Input::Nodes(nodes(0), Observed::Apply(failed)));
        assert_ne!(self.holder(), holder);
        self.answer(Input::Nodes(nodes(0), Observed::Apply(node(holder, Readiness::Ready))));
        took
    }
}

pub(super) fn record(id: String, ip: Address, ttl: u32) -> Record {
    Record { id, kind: ADDRESS_KIND.to_owned(), data: ip.to_string(), ttl, proxied: false }
}
