//! The next steps for the firewalls of one pool, which give it exactly the rules and the machines that it wants.
//!
//! The order is: remove members that would be isolated; add rules; add machines. Only after that, and while no address
//! is being moved, remove rules and machines, and delete empty firewalls. A machine stays in its firewall. New machines
//! fill gaps in order, and the others go into new firewalls.

use super::action::Change;
use super::cover::{Cover, Covers};
use super::facts::{Firewall, Rule, denials, foreign, lacking};
use super::read_trust::{FRESH_MS, Looks};
use super::set::{Existence, Ours, Set, Unopened};
use super::spec::{Entry, name_of, number_of};
use crate::model::{AccountId, MachineId, Moment, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};

/// How long a member stays after it is no longer wanted. A node that is recreated meanwhile finds its ports open.
pub const LEAVE_MS: u64 = 60_000;

/// How long an assignment waits for its machine.
pub const GATE_MS: u64 = 10_000;

/// Nodes often begin to match in a burst. They are added together, this long after the first one.
const GATHER_MS: u64 = 300;

/// The changes that FLIPOP may make for a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Only protect machines from isolation, because the pool is paused, frozen or not known well enough.
    Guard,
    /// All changes.
    Act,
}

/// The firewall that a pool intends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntendedFirewall {
    /// The pool.
    pub pool: ObjectRef,
    /// The rules. `None` for no firewall.
    pub rules: Option<BTreeSet<Rule>>,
    /// The machines, with the names of their nodes.
    pub machines: BTreeMap<MachineId, String>,
    /// The changes that FLIPOP may make.
    pub leave: Leave,
    /// An address is being moved. Nothing is removed meanwhile.
    pub moving: bool,
}

impl IntendedFirewall {
    /// Whether this machine is to be in a firewall.
    pub fn wants(&self, machine: &MachineId) -> bool {
        self.rules.is_some() && self.machines.contains_key(machine)
    }
}

/// The facts on which the steps rest.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The account.
    pub account_id: &'a AccountId,
    /// The number of machines that one firewall holds.
    pub capacity: usize,
    /// The looks at the account.
    pub looks: &'a Looks,
    /// Ids of the firewalls that pools own.
    pub owned: &'a BTreeSet<String>,
    /// Whether the looks leave nothing out and show the firewalls of all pools. Only then do they show which firewalls
    /// govern a machine.
    pub counts: bool,
    /// The entries in the pool's status on the server.
    pub remembered: &'a [Entry],
    /// Now.
    pub now: Moment,
}

impl Scene<'_> {
    fn covers(&self) -> Option<(Moment, Moment, Covers<'_>)> {
        let whole = self.looks.whole()?;
        let covers = Covers { firewalls: &whole.firewalls, machines: &whole.machines, owned: self.owned };
        Some((whole.begun, whole.arrived, covers))
    }
}

/// One call that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Find out whether this firewall exists.
    Find(Entry),
    /// Make the firewall of this name.
    Create(String, BTreeSet<Rule>, BTreeSet<MachineId>),
    /// Change this firewall.
    Change(Entry, Change),
}

/// The calls that are due, and when to look or decide again.
#[derive(Debug, Default)]
pub struct Steps {
    /// Calls.
    pub steps: Vec<Step>,
    /// Machines that are removed to prevent their isolation, with the name of the firewall.
    pub isolated: Vec<(String, MachineId)>,
    /// When a whole look is wanted.
    pub whole_by: Option<Moment>,
    /// When to decide again.
    pub wake: Option<Moment>,
}

impl Steps {
    fn changes(&self, entry: &Entry) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Change(of, _) if of.name == entry.name))
    }
}

fn sooner(slot: &mut Option<Moment>, at: Moment) {
    *slot = Some(slot.map_or(at, |before| before.min(at)));
}

impl Set {
    /// Notes which machines lack open ports, and when that began.
    pub fn note(&mut self, intended: &IntendedFirewall, scene: &Scene<'_>) {
        if intended.leave == Leave::Guard {
            return;
        }
        let covers = scene.covers();
        let mut unopened = BTreeMap::new();
        let (mut bare, mut denied) = (BTreeSet::new(), BTreeMap::<String, BTreeSet<String>>::new());
        for (machine, node) in intended.machines.iter().filter(|(machine, _)| intended.wants(machine)) {
            let before = self.unopened.get(machine);
            let since = before.map_or(scene.now, |of| of.since);
            let cover =
                covers.filter(|(begun, ..)| scene.counts && *begun >= since).map(|(.., c)| c.of(machine));
            let known = covers.filter(|_| scene.counts).map(|(.., covers)| covers.of(machine));
            if matches!(known, Some(Cover::Open | Cover::OnlyOurs)) {
                bare.insert(node.clone());
            }
            let rules = intended.rules.as_ref().filter(|_| scene.counts);
            if let Some((rules, (.., covers))) = rules.zip(covers)
                && let Some(by) = covers.denial(machine, rules)
            {
                denied.entry(by.name.clone()).or_default().insert(node.clone());
            }
            let elsewhere = matches!(cover, Some(Cover::Open | Cover::OnlyOurs | Cover::Unknown));
            if self.has_opened(machine, intended) {
                continue;
            }
            let waits = before.and_then(|of| of.lacking).unwrap_or(scene.now);
            unopened.insert(machine.clone(), Unopened { since, lacking: (!elsewhere).then_some(waits) });
        }
        self.unopened = unopened;
        self.bare = bare;
        self.denied = denied;
    }

    /// Whether the last look showed the ports of the pool open on a machine.
    fn has_opened(&self, machine: &MachineId, intended: &IntendedFirewall) -> bool {
        let Some(rules) = &intended.rules else { return true };
        self.firewalls.iter().filter_map(|ours| ours.shown.as_ref()).any(|shown| {
            shown.machines.contains(machine)
                && !shown.pending.contains_key(machine)
                && lacking(rules, &shown.rules).is_empty()
                && denials(&shown.rules).is_empty()
        })
    }

    /// Machines to which no assignment should begin yet, each with the end of the wait.
    pub fn gates(&self, looks: &Looks, now: Moment) -> BTreeMap<MachineId, Moment> {
        // Firewalls from before this leadership are probably right, so no failover waits for the first look. One that
        // was only announced has opened nothing.
        let made = self.entries().any(|entry| !entry.id.is_empty());
        let unseen = !looks.is_answered() && made;
        if unseen {
            return BTreeMap::new();
        }
        let until = self.lacking().map(|(machine, since)| (machine.clone(), since.plus_millis(GATE_MS)));
        until.filter(|(_, until)| *until > now).collect()
    }

    /// Decides which calls are due.
    pub fn plan(&mut self, intended: &IntendedFirewall, scene: &Scene<'_>) -> Steps {
        let mut due = Steps::default();
        let waits = self.retry.due() > scene.now;
        if waits {
            sooner(&mut due.wake, self.retry.due());
        }
        let lost = self.firewalls.iter().filter(|ours| !waits && ours.existence == Existence::Lost(false));
        due.steps.extend(lost.map(|ours| Step::Find(ours.entry.clone())));
        if let Some(at) = self.agrees_at() {
            // A look that begins at exactly that moment is late enough.
            sooner(&mut due.whole_by, at.max(scene.now));
        }
        if let Some(at) = self.resolves_at(scene.now) {
            sooner(&mut due.whole_by, scene.looks.round_for(at));
        }
        self.keep_from_isolation(&mut due);
        if intended.leave == Leave::Guard {
            return due;
        }
        self.count_unwanted(intended, scene, &mut due);
        if !scene.counts || waits {
            return due;
        }
        let adding = self.additions(intended, scene, &mut due);
        if !adding && !intended.moving {
            self.removals(intended, scene, &mut due);
            // A change whose answer was lost may have worked. In that case no later change would clear the failure by
            // its success.
            let is_quiet = |ours: &Ours| !ours.busy && ours.adding.is_none();
            if due.steps.is_empty() && self.firewalls.iter().all(is_quiet) {
                self.succeeded();
            }
        }
        due
    }

    fn keep_from_isolation(&self, due: &mut Steps) {
        let isolated = |machine: &&MachineId| self.members.get(machine).is_some_and(|of| of.isolated);
        for (entry, shown) in self.idle() {
            let out: Vec<MachineId> = shown.machines.iter().filter(isolated).cloned().collect();
            if !out.is_empty() {
                due.isolated.extend(out.iter().map(|machine| (entry.name.clone(), machine.clone())));
                due.steps.push(Step::Change(entry.clone(), Change::RemoveMembers(out)));
            }
        }
    }

    /// Notes when each unwanted member ceased to be wanted.
    fn count_unwanted(&mut self, intended: &IntendedFirewall, scene: &Scene<'_>, due: &mut Steps) {
        for (machine, member) in &mut self.members {
            member.unwanted = (!intended.wants(machine)).then(|| member.unwanted.unwrap_or(scene.now));
            if let Some(at) = member.unwanted.map(|since| since.plus_millis(LEAVE_MS))
                && at > scene.now
            {
                sooner(&mut due.wake, at);
            }
        }
    }

    /// Adds missing rules and machines, and removes denials, which close ports. Returns whether some are missing that
    /// can be added.
    fn additions(&mut self, intended: &IntendedFirewall, scene: &Scene<'_>, due: &mut Steps) -> bool {
        let Some(rules) = &intended.rules else {
            self.firewalls.retain(|ours| !ours.may_be_made());
            return false;
        };
        let mut lacks = BTreeSet::new();
        for (entry, shown) in self.idle().filter(|(entry, _)| !due.changes(entry)).collect::<Vec<_>>() {
            let (lacking, denials) = (lacking(rules, &shown.rules), denials(&shown.rules));
            let change = match (lacking.is_empty(), denials.is_empty()) {
                (false, _) => Change::AddRules(lacking),
                (true, false) => Change::RemoveRules(denials),
                (true, true) => continue,
            };
            lacks.insert(entry.name.clone());
            due.steps.push(Step::Change(entry.clone(), change));
        }
        let (new, unjudged) = self.to_put_in(intended, scene);
        if let Some(since) = unjudged {
            sooner(&mut due.whole_by, scene.looks.round_for(since.plus_millis(GATHER_MS)));
        }
        // A machine without a judgement may be added later.
        let more = !new.is_empty() || unjudged.is_some();
        self.put_in(new, intended, &lacks, scene, due);
        let is_adding = |ours: &Ours| ours.adding.as_ref().is_some_and(|adding| !adding.is_empty());
        let under_way = self.firewalls.iter().any(|ours| ours.busy || is_adding(ours));
        more || under_way || !lacks.is_empty()
    }

    /// The machines that may be added now, and when others began to wait for a look that judges them.
    fn to_put_in(
        &self,
        intended: &IntendedFirewall,
        scene: &Scene<'_>,
    ) -> (BTreeSet<MachineId>, Option<Moment>) {
        let members = self.members();
        let mut new = BTreeSet::new();
        let mut unjudged = None;
        for machine in
            intended.machines.keys().filter(|machine| intended.wants(machine) && !members.contains(*machine))
        {
            let since = self.unopened.get(machine).and_then(|of| of.lacking);
            let seen_since = |moment: Moment| since.is_none_or(|since| moment >= since);
            match scene.covers().map(|(begun, _, covers)| (begun, covers.of(machine))) {
                // A firewall that governed it a moment ago is enough. The absence of one proves nothing, since the
                // machine may be new.
                Some((begun, Cover::Foreign)) if seen_since(begun.plus_millis(FRESH_MS)) => {
                    new.insert(machine.clone());
                }
                Some((begun, _)) if seen_since(begun) => {}
                Some(_) | None => sooner(&mut unjudged, since.unwrap_or(scene.now)),
            }
        }
        (new, unjudged)
    }

    /// Puts machines into firewalls with room, and the rest into new ones.
    fn put_in(
        &mut self,
        new: BTreeSet<MachineId>,
        intended: &IntendedFirewall,
        lacks: &BTreeSet<String>,
        scene: &Scene<'_>,
        due: &mut Steps,
    ) {
        let (wanted, rules) = (!new.is_empty(), intended.rules.clone().unwrap_or_default());
        let room = |ours: &Ours| {
            let shown = ours.shown.as_ref().map_or(0, |shown| shown.machines.len());
            let adding = ours.adding.as_ref().map_or(0, BTreeSet::len);
            scene.capacity.saturating_sub(shown.saturating_add(adding))
        };
        let rooms = self.firewalls.iter().map(|ours| (&ours.entry.name, room(ours)));
        let (placed, left) = fill(new, rooms);
        let is_fresh =
            scene.covers().is_some_and(|(_, arrived, _)| scene.now.millis_since(arrived) <= FRESH_MS);
        self.firewalls.retain(|ours| !ours.may_be_made() || placed.contains_key(&ours.entry.name));
        for ours in &self.firewalls {
            let (entry, name) = (&ours.entry, &ours.entry.name);
            let Some(here) = placed.get(name).filter(|_| is_fresh) else { continue };
            if ours.may_be_made() && scene.remembered.iter().any(|entry| entry.name == *name) {
                due.steps.push(Step::Create(name.clone(), rules.clone(), here.clone()));
            } else if ours.idle().is_some() && !lacks.contains(name) && !due.changes(entry) {
                due.steps
                    .push(Step::Change(entry.clone(), Change::AddMembers(here.iter().cloned().collect())));
            }
        }
        for number in new_numbers(&self.numbers(), left.len(), scene.capacity) {
            self.announce(name_of(&intended.pool.uid, number), scene.account_id.clone());
        }
        if wanted && !is_fresh {
            sooner(&mut due.whole_by, scene.looks.round_for(scene.now));
        }
    }

    /// Removes rules, machines and firewalls that are no longer wanted.
    fn removals(&self, intended: &IntendedFirewall, scene: &Scene<'_>, due: &mut Steps) {
        let mut seen: BTreeSet<&MachineId> = BTreeSet::new();
        for (entry, shown) in self.idle() {
            let twice: Vec<MachineId> =
                shown.machines.iter().filter(|machine| !seen.insert(machine)).cloned().collect();
            if !due.changes(entry)
                && let Some(change) = self.removal(shown, twice, intended, scene.now)
            {
                due.steps.push(Step::Change(entry.clone(), change));
            }
        }
        let last = self.firewalls.iter().max_by_key(|ours| number_of(&ours.entry.name));
        if let Some(Ours { entry, .. }) = last.filter(|last| !due.changes(&last.entry))
            && last
                .and_then(Ours::idle)
                .is_some_and(|shown| shown.machines.is_empty() && shown.tags.is_empty())
        {
            due.steps.push(Step::Change(entry.clone(), Change::Delete));
        }
    }

    fn removal(
        &self,
        shown: &Firewall,
        twice: Vec<MachineId>,
        intended: &IntendedFirewall,
        now: Moment,
    ) -> Option<Change> {
        if let Some(rules) = &intended.rules {
            let foreign = foreign(rules, &shown.rules);
            if !foreign.is_empty() {
                return Some(Change::RemoveRules(foreign));
            }
        }
        if !shown.tags.is_empty() {
            return Some(Change::RemoveTags(shown.tags.iter().cloned().collect()));
        }
        let wait_ms = if intended.rules.is_some() { LEAVE_MS } else { 0 };
        let over = |machine: &&MachineId| {
            let unwanted = self.members.get(machine).and_then(|of| of.unwanted);
            unwanted.is_some_and(|since| since.plus_millis(wait_ms) <= now)
        };
        let mut out: BTreeSet<MachineId> = shown.machines.iter().filter(over).cloned().collect();
        out.extend(twice);
        (!out.is_empty()).then(|| Change::RemoveMembers(out.into_iter().collect()))
    }
}

/// Places machines into firewalls that have room. `room` has, in order, the number of machines that each one takes.
/// Also returns the machines that are left.
fn fill<'a>(
    mut machines: BTreeSet<MachineId>,
    room: impl Iterator<Item = (&'a String, usize)>,
) -> (BTreeMap<String, BTreeSet<MachineId>>, BTreeSet<MachineId>) {
    let mut placed = BTreeMap::new();
    for (name, room) in room {
        let here: BTreeSet<MachineId> = machines.iter().take(room).cloned().collect();
        machines.retain(|machine| !here.contains(machine));
        if !here.is_empty() {
            placed.insert(name.clone(), here);
        }
    }
    (placed, machines)
}

/// The lowest free numbers for the new firewalls that so many machines need, with at most `each` machines in one.
fn new_numbers(taken: &BTreeSet<u64>, machines: usize, each: usize) -> Vec<u64> {
    (1..).filter(|number| !taken.contains(number)).take(machines.div_ceil(each.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::examples::droplet;

    #[test]
    fn gaps_are_filled_in_order_and_the_rest_is_left() {
        let machines: BTreeSet<MachineId> = (1..=5).map(droplet).collect();
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let (placed, left) = fill(machines, names.iter().zip([2, 0, 1]));
        assert_eq!(placed["a"], [droplet(1), droplet(2)].into());
        assert_eq!(placed.get("b"), None);
        assert_eq!(placed["c"], [droplet(3)].into());
        assert_eq!(left, [droplet(4), droplet(5)].into());
        assert_eq!(new_numbers(&[1, 3].into(), 21, 10), [2, 4, 5]);
        assert_eq!(new_numbers(&BTreeSet::new(), 0, 10), Vec::<u64>::new());
    }
}
