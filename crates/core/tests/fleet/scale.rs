//! As many objects as Kubernetes admits. Changes cost bounded work, and objects that do not concern FLIPOP cost none.

use crate::faults::{OF_BOTH, droplet_of, fault, fleet, pods_key, spec};
use crate::twins::Twins;
use flipop_core::addresses::account::op::MAX_OPS;
use flipop_core::addresses::action::{self as addresses, Call, Reply};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::addresses::pool::status::{PoolObject, PoolStatus};
use flipop_core::fleet::Input;
use flipop_core::fleet::action::{Action, Outcome, Sweep};
use flipop_core::mechanism::{Answer, Effect, Request, WrittenStatus};
use flipop_core::model::provider::Limits;
use flipop_core::model::spec::RawMatch;
use flipop_core::model::{
    ActionId, ActionStatus, Address, Context, FaultKind, MachineId, Moment, NodeFacts, ObjectName, ObjectRef,
    Observed, PodFacts, Readiness, ReservedIp, ReservedIpList, Uid, WatchKey,
};
use std::collections::BTreeMap;

const NODES: u64 = 5_000;
const POOLS: u16 = 200;
const ADDRESSES: u16 = 500;

fn address(number: u16) -> Address {
    let [high, low] = number.to_be_bytes();
    Address::from([198, 18, high, low])
}

fn node(number: u64) -> NodeFacts {
    NodeFacts {
        name: format!("node-{number}"),
        uid: Uid(format!("uid-{number}").into()),
        provider_id: droplet_of(number).provider_id(),
        machine: Some(droplet_of(number)),
        ready: Readiness::Ready,
        region: Some("nyc3".into()),
        ..NodeFacts::default()
    }
}

fn pod(number: u64, serving: bool) -> PodFacts {
    PodFacts {
        namespace: "ns".into(),
        name: format!("pod-{number}"),
        node: format!("node-{number}"),
        serving,
        fails_since_s: None,
    }
}

/// Each pool has nodes of its own.
fn selector(pool: u16) -> String {
    format!("pool={pool}")
}

/// Every 200th address belongs to one pool.
fn pool(number: u16) -> PoolObject {
    let ips = (number..ADDRESSES).step_by(usize::from(POOLS)).map(|n| address(n).to_string()).collect();
    let node_label = selector(number);
    let matching = RawMatch { node_label, pod_namespace: "ns".into(), ..RawMatch::default() };
    PoolObject {
        object: ObjectRef {
            uid: Uid(format!("uid-pool-{number}").into()),
            name: ObjectName::new("ns", format!("pool-{number}")),
        },
        created_at_s: i64::from(number),
        generation: 1,
        resource_version: "1".into(),
        deleting: false,
        guarded: false,
        paused: None,
        spec: Ok(RawPoolSpec { ips, matching, ..spec() }),
        move_request: None,
        status: PoolStatus::default(),
    }
}

/// An account whose actions end at once, and an API server that takes everything.
struct Large {
    fleet: Twins,
    now: Moment,
    places: BTreeMap<Address, Option<MachineId>>,
    version: u64,
    /// Each call, with the address that it assigns, if any.
    calls: Vec<(Moment, Option<Address>)>,
    /// Addresses whose actions all fail.
    broken: fn(Address) -> bool,
}

impl Large {
    fn new(broken: fn(Address) -> bool) -> Self {
        let places = (0..ADDRESSES).map(|number| (address(number), None)).collect();
        let now = Moment::from_millis(1_000_000);
        let (calls, fleet) = (Vec::new(), fleet());
        let mut large = Self { fleet, now, places, version: 1, calls, broken };
        large.observe(Input::Leading);
        large.observe(Input::Permit(true));
        large.observe(Input::RecordSets(Observed::Reset(Vec::new())));
        large.observe(Input::Pools(Observed::Reset((0..POOLS).map(pool).collect())));
        for pool in 0..POOLS {
            let nodes = (u64::from(pool) + 1..=NODES).step_by(usize::from(POOLS)).map(node).collect();
            let key = WatchKey::Nodes { selector: selector(pool) };
            large.observe(Input::Nodes(key, Observed::Reset(nodes)));
        }
        let pods = (1..=NODES).map(|number| pod(number, true)).collect();
        large.observe(Input::Pods(pods_key(), Observed::Reset(pods)));
        large
    }

    fn observe(&mut self, input: Input) {
        self.fleet.observe(input, Context::exactly(self.now));
    }

    /// Lets time pass until nothing is left to do before `end`.
    fn run_until(&mut self, end: Moment) {
        loop {
            let plan = self.fleet.plan(self.now);
            let assigns = |effect: &&Effect<Action>| {
                matches!(effect, Effect::Do(Action::Addresses(Request { call: Call::Assign { .. }, .. })))
            };
            let moves = plan.effects.iter().filter(assigns).count();
            assert!(moves <= MAX_OPS, "{moves} assignments at a time");
            if plan.effects.is_empty() {
                match plan.wake.filter(|wake| *wake <= end) {
                    Some(wake) => self.now = wake,
                    None => break self.now = end,
                }
            }
            plan.effects.into_iter().for_each(|effect| self.execute(effect));
        }
    }

    fn execute(&mut self, effect: Effect<Action>) {
        let outcome = match effect {
            Effect::Do(Action::Addresses(action)) => self.execute_addresses(action).into(),
            Effect::Do(Action::WriteStatus(write)) => {
                self.version += 1;
                let kept = WrittenStatus { resource_version: self.version.to_string(), status: write.status };
                Outcome::StatusWritten(write.object.uid, Ok(Box::new(kept)))
            }
            Effect::Do(Action::Annotate { node, uid, value }) => {
                Outcome::Annotated { node, uid, value, result: Ok(()) }
            }
            Effect::Do(Action::CountNodes) => Outcome::NodesCounted(Ok(0)),
            Effect::Do(Action::SweepAnnotations) => Outcome::Swept(Ok(Sweep::default())),
            Effect::Do(other) => panic!("nobody asked for {other:?}"),
            Effect::Tell(_) => return,
        };
        self.observe(Input::Outcome(outcome));
    }

    fn execute_addresses(&mut self, Request { epoch, owner, call }: addresses::Action) -> addresses::Outcome {
        let begun = self.now;
        let read = |ip: Address, droplet: Option<MachineId>| ReservedIp {
            ip,
            region: "nyc3".into(),
            machine: droplet,
            locked: false,
        };
        let reply = match call {
            Call::List => {
                self.calls.push((self.now, None));
                let ips = self.places.iter().map(|(ip, droplet)| (*ip, read(*ip, droplet.clone()))).collect();
                Reply::Listed(Ok(ReservedIpList { ips, contradiction: None }))
            }
            Call::Get(ip) => {
                self.calls.push((self.now, None));
                Reply::Got(ip, Ok(read(ip, self.places[&ip].clone())))
            }
            Call::Test(_) => Reply::Tested(Ok(())),
            Call::ProveMachineRead => Reply::Proved(Ok(true)),
            Call::Assign { ip, machine: droplet, .. } => {
                self.calls.push((self.now, Some(ip)));
                if (self.broken)(ip) {
                    let failure =
                        flipop_core::model::fault::CallFailure::Fault(fault(FaultKind::Transient, false));
                    Reply::Changed(ip, Err(failure))
                } else {
                    let taken = self.places.values().any(|held| held.as_ref() == Some(&droplet));
                    assert!(!taken, "{droplet} has an address already");
                    self.places.insert(ip, Some(droplet));
                    Reply::Changed(ip, Ok((ActionId(1), ActionStatus::Completed)))
                }
            }
            other => panic!("nobody asked for {other:?}"),
        };
        Answer { epoch, owner, begun, reply }
    }

    fn standing(&self) -> usize {
        self.places.values().flatten().count()
    }
}

#[test]
fn hundreds_of_addresses_keep_to_the_limits_of_the_account_and_those_that_fail_hold_up_no_other() {
    let broken = |ip: Address| {
        ip.as_v4().unwrap().octets()[3].is_multiple_of(200) && ip.as_v4().unwrap().octets()[2] == 0
    };
    let mut large = Large::new(broken);
    large.run_until(large.now.plus_millis(300_000));
    let failing = large.places.keys().filter(|ip| broken(**ip)).count();
    assert_eq!((failing, large.standing()), (2, usize::from(ADDRESSES) - 2));
    let good = large.calls.iter().filter_map(|(_, ip)| *ip).filter(|ip| !broken(*ip));
    assert_eq!(good.count(), large.standing(), "each once");
    let Limits { requests: most, window_ms, .. } = OF_BOTH.limits;
    for (from, _) in &large.calls {
        let within = |at: &Moment| *at >= *from && at.millis_since(*from) < window_ms;
        let count = large.calls.iter().filter(|(at, _)| within(at)).count();
        assert!(count <= most, "{count} calls within {window_ms} ms");
    }
}

#[test]
fn pods_that_come_and_go_by_the_thousand_cost_nothing_while_they_decide_nothing() {
    let mut large = Large::new(|_| false);
    large.run_until(large.now.plus_millis(1_000));
    for number in 0..10_000_u64 {
        // Second pods on nodes that already have one. They start and become ready.
        let on = number % NODES + 1;
        let pod = PodFacts { name: format!("other-{number}"), ..pod(on, number % 2 == 0) };
        large.observe(Input::Pods(pods_key(), Observed::Apply(pod)));
        let plan = large.fleet.plan(large.now);
        assert!(plan.effects.is_empty() && !plan.fresh, "pod {number}: {:?}", plan.effects);
    }
}
