//! The firewalls of the small world, with the rules for every change of them.

use crate::faults::fault;
use crate::world::{World, droplet};
use flipop_core::addresses::pool::spec::RawPoolSpec;
use flipop_core::firewalls::action::{Action, Call, Change, Outcome, Reply};
use flipop_core::firewalls::facts::{Direction, Firewall, Rule, Sight, Targets};
use flipop_core::firewalls::spec::{RawFirewall, RawPort, number_of};
use flipop_core::mechanism::Request;
use flipop_core::model::{CallFailure, FaultKind, MachineId, Moment};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How the next change of a firewall goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slip {
    /// Refused with this kind.
    Refused(FaultKind),
    /// The answer is lost; `true`: after the effect.
    Lost(bool),
}

/// The firewalls of the account.
#[derive(Debug, Default)]
pub(crate) struct Walls {
    pub(crate) all: Vec<Firewall>,
    /// Tags of droplets.
    pub(crate) tags: BTreeMap<MachineId, BTreeSet<String>>,
    /// How long changes take to arrive.
    pub(crate) pending_ms: u64,
    arrives: Vec<(Moment, String, MachineId)>,
    pub(crate) missing: BTreeSet<&'static str>,
    /// Names that lists leave out.
    pub(crate) hidden: BTreeSet<String>,
    /// Lists show no members.
    pub(crate) memberless: bool,
    /// How long a look takes.
    pub(crate) look_ms: u64,
    /// Every look fails like this.
    pub(crate) looks: Option<FaultKind>,
    pub(crate) slips: VecDeque<Slip>,
    /// The firewalls that belong to no pool, in their original state.
    foreign: Vec<Firewall>,
    /// The state that lists show instead of the present one.
    pub(crate) stale: Option<Vec<Firewall>>,
    serial: u64,
}

/// A spec that opens these TCP ports to everybody.
#[expect(clippy::unnecessary_wraps, reason = "that is how a spec holds it")]
pub(crate) fn opens(ports: &[&str]) -> Option<RawFirewall> {
    let port = |port: &&str| RawPort { protocol: "tcp".into(), port: (*port).to_owned() };
    Some(RawFirewall { ports: ports.iter().map(port).collect(), sources: vec!["0.0.0.0/0".into()] })
}

impl Walls {
    /// A firewall that somebody made, which governs these droplets.
    pub(crate) fn add(&mut self, name: &str, machines: &[u8], tags: &[&str]) {
        self.serial += 1;
        let made = Firewall {
            id: format!("id-{}", self.serial),
            name: name.to_owned(),
            machines: machines.iter().map(|n| droplet(*n)).collect(),
            tags: tags.iter().map(ToString::to_string).collect(),
            rules: BTreeSet::new(),
            pending: BTreeMap::new(),
        };
        self.by_hand(|all| all.push(made));
    }

    /// Somebody changes the foreign firewalls, or ours.
    pub(crate) fn by_hand(&mut self, change: impl FnOnce(&mut Vec<Firewall>)) {
        change(&mut self.all);
        self.foreign = self.all.iter().filter(|wall| number_of(&wall.name).is_none()).cloned().collect();
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Firewall> {
        self.all.iter().find(|wall| wall.name.ends_with(name))
    }

    /// The firewalls that pools own.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Firewall> {
        self.all.iter().filter(|wall| number_of(&wall.name).is_some())
    }

    /// The droplets in ours, as numbers.
    pub(crate) fn members(&self) -> BTreeSet<u64> {
        let ours = self.ours().flat_map(|wall| &wall.machines);
        ours.map(|machine| machine.id().parse::<u64>().unwrap() - 100).collect()
    }

    /// The ports that our firewalls open on a droplet, once their changes have arrived.
    pub(crate) fn open(&self, n: u8) -> BTreeSet<String> {
        let machine = droplet(n);
        let here =
            |wall: &&Firewall| wall.machines.contains(&machine) && !wall.pending.contains_key(&machine);
        let rules = |denies| {
            let of = self
                .ours()
                .filter(here)
                .flat_map(|wall| &wall.rules)
                .filter(move |rule| rule.denies == denies);
            of.map(|rule| rule.ports.clone()).collect::<BTreeSet<String>>()
        };
        rules(false).difference(&rules(true)).cloned().collect()
    }

    fn is_covered(&self, machine: &MachineId) -> bool {
        let tags = self.tags.get(machine).cloned().unwrap_or_default();
        self.foreign.iter().any(|wall| wall.machines.contains(machine) || !wall.tags.is_disjoint(&tags))
    }
}

/// A rule that opens a TCP port.
pub(crate) fn rule(port: &str, from: &str) -> Rule {
    Rule {
        denies: false,
        direction: Direction::Inbound,
        protocol: "tcp".into(),
        ports: port.into(),
        targets: Targets { addresses: [from.to_owned()].into(), ..Targets::default() },
    }
}

impl World {
    /// A world with this many addresses and nodes; a firewall of the user governs all nodes, and the pool opens 443.
    pub(crate) fn walled(addresses: u8, nodes: u8) -> Self {
        let mut world = Self::with(addresses, nodes);
        world.tag_all("k8s");
        world.walls.add("base", &[], &["k8s"]);
        world.edit("pool", |spec: &mut RawPoolSpec| spec.firewall = opens(&["443"]));
        world
    }

    pub(crate) fn tag_all(&mut self, tag: &str) {
        for n in 1..=120 {
            self.walls.tags.insert(droplet(n), [tag.to_owned()].into());
        }
    }

    fn arrive(&mut self) {
        let now = self.now;
        let (due, later) =
            std::mem::take(&mut self.walls.arrives).into_iter().partition(|(at, ..)| *at <= now);
        self.walls.arrives = later;
        let due: Vec<(Moment, String, MachineId)> = due;
        for (_, id, machine) in due {
            for wall in self.walls.all.iter_mut().filter(|wall| wall.id == id) {
                wall.pending.remove(&machine);
            }
        }
    }

    fn sight(&self, machines: bool) -> Result<Sight, CallFailure> {
        let walls = &self.walls;
        if let Some(kind) = walls.looks {
            return Err(CallFailure::Fault(fault(kind, false)));
        }
        let all = walls.stale.as_ref().unwrap_or(&walls.all);
        // The provider leaves parts out silently.
        let blind = |scope| walls.missing.contains(scope);
        let shown = all.iter().filter(|wall| !walls.hidden.contains(&wall.name)).cloned().map(|mut wall| {
            if walls.memberless || blind("droplet:read") {
                wall.machines.clear();
            }
            if blind("tag:read") {
                wall.tags.clear();
            }
            wall
        });
        let existing = machines && !blind("droplet:read");
        let machines = existing.then(|| {
            let nodes = self.nodes.values().filter_map(|node| node.machine.clone());
            nodes.map(|on| (on.clone(), walls.tags.get(&on).cloned().unwrap_or_default())).collect()
        });
        Ok(Sight { firewalls: shown.collect(), machines, missing: walls.missing.clone() })
    }

    pub(crate) fn execute_firewalls(&mut self, Request { epoch, owner, call }: Action) {
        self.arrive();
        let (begun, mut wait_ms) = (self.now, 50);
        let reply = match call {
            Call::Look { machines } => {
                self.call(if machines { "look at all" } else { "look" });
                wait_ms = self.walls.look_ms.max(50);
                Reply::Looked(self.sight(machines))
            }
            Call::Find(id) => {
                self.call("find firewall");
                let found = self.walls.all.iter().any(|wall| wall.id == id);
                Reply::Found(id, Ok(found))
            }
            Call::Create { name, rules, machines } => {
                self.call(format!("create {name}"));
                let object = &self.pools[&owner.as_ref().unwrap().object.name.name];
                let told = object.status.firewalls.iter().any(|entry| entry.name == name);
                assert!(told, "{name} is not in the status on the server");
                assert!(
                    object.spec.as_ref().is_ok_and(|spec| spec.firewall.is_some()),
                    "nobody asks for {name}"
                );
                let result = self.slip(|world| {
                    if world.walls.all.iter().any(|wall| wall.name == name) {
                        return Err(fault(FaultKind::InProgress, false));
                    }
                    world.walls.serial += 1;
                    let id = format!("id-{}", world.walls.serial);
                    let made = Firewall {
                        id: id.clone(),
                        name: name.clone(),
                        machines: BTreeSet::new(),
                        tags: BTreeSet::new(),
                        rules,
                        pending: BTreeMap::new(),
                    };
                    world.walls.all.push(made);
                    world.change_firewall(&id, Change::AddMembers(machines.into_iter().collect()));
                    Ok(id)
                });
                Reply::Created(name, result)
            }
            Call::Change { name, id, change } => {
                let what = match &change {
                    Change::AddRules(_) => "add rules",
                    Change::AddMembers(_) => "add members",
                    Change::RemoveRules(_) => "remove rules",
                    Change::RemoveTags(_) => "remove tags",
                    Change::RemoveMembers(_) => "remove members",
                    Change::Delete => "delete",
                };
                self.call(format!("{what} {name}"));
                self.check_closing(&id, &change);
                let deleted = change == Change::Delete;
                let result = self.slip(|world| {
                    if !world.walls.all.iter().any(|wall| wall.id == id) {
                        return Err(fault(FaultKind::NotFound, false));
                    }
                    world.change_firewall(&id, change);
                    Ok(())
                });
                Reply::Changed { name, deleted, result }
            }
        };
        self.answer_after(wait_ms, Outcome { epoch, owner, begun, reply });
        let foreign: Vec<&Firewall> =
            self.walls.all.iter().filter(|wall| number_of(&wall.name).is_none()).collect();
        assert_eq!(foreign, self.walls.foreign.iter().collect::<Vec<_>>(), "a foreign firewall was changed");
    }

    fn slip<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, flipop_core::model::fault::Fault>,
    ) -> Result<T, CallFailure> {
        match self.walls.slips.pop_front() {
            Some(Slip::Refused(kind)) => Err(CallFailure::Fault(fault(kind, false))),
            Some(Slip::Lost(done)) => {
                if done {
                    let _lost = act(self);
                }
                Err(CallFailure::Fault(fault(FaultKind::Transient, true)))
            }
            None => act(self).map_err(CallFailure::Fault),
        }
    }

    fn change_firewall(&mut self, id: &str, change: Change) {
        let until = self.now.plus_millis(self.walls.pending_ms);
        if let Change::AddMembers(new) = &change {
            for machine in new {
                assert!(self.walls.is_covered(machine), "{machine} is isolated");
            }
        }
        if change == Change::Delete {
            self.walls.all.retain(|wall| wall.id != id);
            return;
        }
        let Some(wall) = self.walls.all.iter_mut().find(|wall| wall.id == id) else { return };
        let mut touched: BTreeSet<MachineId> = BTreeSet::new();
        match change {
            Change::AddRules(rules) => {
                wall.rules.extend(rules);
                touched.extend(wall.machines.iter().cloned());
            }
            Change::RemoveRules(rules) => {
                wall.rules.retain(|rule| !rules.contains(rule));
                touched.extend(wall.machines.iter().cloned());
            }
            Change::AddMembers(new) => {
                wall.machines.extend(new.iter().cloned());
                touched.extend(new);
                assert!(wall.machines.len() <= 10, "{} has too many members", wall.name);
            }
            Change::RemoveMembers(out) => wall.machines.retain(|machine| !out.contains(machine)),
            Change::RemoveTags(tags) => wall.tags.retain(|tag| !tags.contains(tag)),
            Change::Delete => {}
        }
        assert!(!wall.rules.is_empty() && wall.rules.len() <= 50, "rules of {}", wall.name);
        if self.walls.pending_ms > 0 {
            for machine in touched {
                wall.pending.insert(machine.clone(), false);
                self.walls.arrives.push((until, id.to_owned(), machine));
            }
        }
    }

    /// Checks that a port that a pool asks for is not closed on a holder while the address is there.
    fn check_closing(&self, id: &str, change: &Change) {
        let Some(wall) = self.walls.all.iter().find(|wall| wall.id == id) else { return };
        let closes = match change {
            Change::RemoveMembers(out) => out.clone(),
            Change::Delete => wall.machines.iter().cloned().collect(),
            Change::RemoveRules(rules) => {
                let asked = self.pools.values().filter_map(|pool| pool.spec.as_ref().ok()?.firewall.as_ref());
                let asked: BTreeSet<&String> =
                    asked.flat_map(|raw| raw.ports.iter().map(|port| &port.port)).collect();
                let open = |rule: &&Rule| {
                    !rule.denies
                        && asked.contains(&rule.ports)
                        && rule.targets.addresses.contains("0.0.0.0/0")
                };
                assert_eq!(rules.iter().filter(open).count(), 0, "a port is closed that is asked for");
                return;
            }
            Change::AddRules(_) | Change::AddMembers(_) | Change::RemoveTags(_) => return,
        };
        for machine in closes.iter().filter(|machine| self.walls.is_covered(machine)) {
            let held = self.cloud.values().find(|read| read.machine.as_ref() == Some(machine));
            let asks = self.pools.values().any(|pool| {
                let spec = pool.spec.as_ref().ok();
                let owns = wall.name.contains(&pool.object.uid.0.chars().take(8).collect::<String>());
                let named =
                    |spec: &&RawPoolSpec| held.is_some_and(|read| spec.ips.contains(&read.ip.to_string()));
                owns && spec.filter(named).is_some_and(|spec| spec.firewall.is_some())
            });
            assert!(!asks, "{machine} is taken out of {} while its address stands there", wall.name);
        }
    }
}
