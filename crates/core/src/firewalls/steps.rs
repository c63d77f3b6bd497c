//! The next steps for the firewalls of one pool.
//!
//! The order is: remove members that would be isolated; add rules; add machines. Only after that, and while no address
//! is being moved, remove rules and machines, and delete empty firewalls.

use super::action::Change;
use super::cover::{Cover, Covers};
use super::exact;
use super::facts::{Firewall, Rule};
use super::looks::{FRESH_MS, Looks};
use super::place;
use super::set::Set;
use super::status::{Entry, name_of, number_of};
use super::wish::{Leave, Wish};
use crate::model::ids::AccountId;
use crate::model::machine::MachineId;
use crate::model::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};

/// How long a member stays after it is no longer wanted. A node that is recreated meanwhile finds its ports open.
pub const LEAVE_MS: u64 = 60_000;

/// How long an assignment waits for its machine.
pub const GATE_MS: u64 = 10_000;

/// Nodes often begin to match in a burst. They are added together, this long after the first one.
const GATHER_MS: u64 = 300;

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

fn sooner(slot: &mut Option<Moment>, at: Moment) {
    *slot = Some(slot.map_or(at, |before| before.min(at)));
}

impl Set {
    /// Notes which machines lack open ports, and when that began.
    pub fn note(&mut self, wish: &Wish, scene: &Scene<'_>) {
        if wish.leave == Leave::Guard {
            return;
        }
        let covers = scene.covers();
        let (mut unopened, mut lacking) = (BTreeMap::new(), BTreeMap::new());
        let (mut bare, mut denied) = (BTreeSet::new(), BTreeMap::<String, BTreeSet<String>>::new());
        for (machine, node) in wish.machines.iter().filter(|(machine, _)| wish.wants(machine)) {
            let first = self.unopened.get(machine).copied().unwrap_or(scene.now);
            let cover =
                covers.filter(|(begun, ..)| scene.counts && *begun >= first).map(|(.., c)| c.of(machine));
            let known = covers.filter(|_| scene.counts).map(|(.., covers)| covers.of(machine));
            if matches!(known, Some(Cover::Open | Cover::OnlyOurs)) {
                bare.insert(node.clone());
            }
            let rules = wish.rules.as_ref().filter(|_| scene.counts);
            if let Some((rules, (.., covers))) = rules.zip(covers)
                && let Some(by) = covers.denial(machine, rules)
            {
                denied.entry(by.name.clone()).or_default().insert(node.clone());
            }
            let elsewhere = matches!(cover, Some(Cover::Open | Cover::OnlyOurs | Cover::Unknown));
            if self.has_opened(machine, wish) {
                continue;
            }
            unopened.insert(machine.clone(), first);
            if !elsewhere {
                let since = self.lacking.get(machine).copied().unwrap_or(scene.now);
                lacking.insert(machine.clone(), since);
            }
        }
        self.unopened = unopened;
        self.lacking = lacking;
        self.bare = bare;
        self.denied = denied;
    }

    /// Whether the last look showed the ports of the pool open on a machine.
    fn has_opened(&self, machine: &MachineId, wish: &Wish) -> bool {
        let Some(rules) = &wish.rules else { return true };
        self.shown.values().any(|shown| {
            shown.machines.contains(machine)
                && !shown.pending.contains_key(machine)
                && exact::lacking(rules, &shown.rules).is_empty()
                && exact::denials(&shown.rules).is_empty()
        })
    }

    /// Machines to which no assignment should begin yet, each with the end of the wait.
    pub fn gates(&self, looks: &Looks, now: Moment) -> BTreeMap<MachineId, Moment> {
        // Firewalls from before this leadership are probably right, so no failover waits for the first look. One that was
        // only announced has opened nothing.
        let made = self.entries.iter().any(|entry| !entry.id.is_empty());
        let unseen = !looks.is_answered() && made;
        if unseen {
            return BTreeMap::new();
        }
        let until = self.lacking.iter().map(|(machine, since)| (machine.clone(), since.plus_millis(GATE_MS)));
        until.filter(|(_, until)| *until > now).collect()
    }

    /// Decides which calls are due.
    pub fn plan(&mut self, wish: &Wish, scene: &Scene<'_>) -> Steps {
        let mut due = Steps::default();
        let waits = self.retry.due() > scene.now;
        if waits {
            sooner(&mut due.wake, self.retry.due());
        }
        let lost = self.entries.iter().filter(|entry| !waits && self.lost.get(&entry.name) == Some(&false));
        due.steps.extend(lost.cloned().map(Step::Find));
        if let Some(at) = self.agrees_at() {
            // A look that begins at exactly that moment is late enough.
            sooner(&mut due.whole_by, at.max(scene.now));
        }
        if let Some(at) = self.resolves_at(scene.now) {
            sooner(&mut due.whole_by, scene.looks.round_for(at));
        }
        self.keep_from_isolation(&mut due);
        if wish.leave == Leave::Guard {
            return due;
        }
        self.count_unwanted(wish, scene, &mut due);
        if !scene.counts || waits {
            return due;
        }
        let adding = self.additions(wish, scene, &mut due);
        if !adding && !wish.moving {
            self.removals(wish, scene, &mut due);
            // A change whose answer was lost may have worked. In that case no later change would clear the failure by
            // its success.
            if due.steps.is_empty() && self.busy.is_empty() && self.adding.is_empty() {
                self.succeeded();
            }
        }
        due
    }

    fn keep_from_isolation(&self, due: &mut Steps) {
        for entry in &self.entries {
            let Some(shown) = self.idle(entry) else { continue };
            let out: Vec<MachineId> = shown.machines.intersection(&self.isolated).cloned().collect();
            if !out.is_empty() {
                due.isolated.extend(out.iter().map(|machine| (entry.name.clone(), machine.clone())));
                due.steps.push(Step::Change(entry.clone(), Change::RemoveMembers(out)));
            }
        }
    }

    /// Notes when each unwanted member ceased to be wanted.
    fn count_unwanted(&mut self, wish: &Wish, scene: &Scene<'_>, due: &mut Steps) {
        let members: BTreeSet<&MachineId> = self.shown.values().flat_map(|shown| &shown.machines).collect();
        let unwanted: BTreeMap<MachineId, Moment> = members
            .into_iter()
            .filter(|machine| !wish.wants(machine))
            .map(|machine| (machine.clone(), self.unwanted.get(machine).copied().unwrap_or(scene.now)))
            .collect();
        for since in unwanted.values() {
            let at = since.plus_millis(LEAVE_MS);
            if at > scene.now {
                sooner(&mut due.wake, at);
            }
        }
        self.unwanted = unwanted;
    }

    fn is_taken(&self, entry: &Entry, due: &Steps) -> bool {
        due.steps.iter().any(|step| matches!(step, Step::Change(of, _) if of.name == entry.name))
            || self.idle(entry).is_none()
    }

    /// Adds missing rules and machines, and removes denials, which close ports. Returns whether some are missing that
    /// can be added.
    fn additions(&mut self, wish: &Wish, scene: &Scene<'_>, due: &mut Steps) -> bool {
        let Some(rules) = &wish.rules else {
            self.drop_unsent();
            return false;
        };
        let mut lacks = BTreeSet::new();
        for entry in
            self.entries.iter().filter(|entry| !self.is_taken(entry, due)).cloned().collect::<Vec<_>>()
        {
            let Some(shown) = self.idle(&entry) else { continue };
            let (lacking, denials) = (exact::lacking(rules, &shown.rules), exact::denials(&shown.rules));
            let change = match (lacking.is_empty(), denials.is_empty()) {
                (false, _) => Change::AddRules(lacking),
                (true, false) => Change::RemoveRules(denials),
                (true, true) => continue,
            };
            lacks.insert(entry.name.clone());
            due.steps.push(Step::Change(entry, change));
        }
        let (new, unjudged) = self.to_put_in(wish, scene);
        if let Some(since) = unjudged {
            sooner(&mut due.whole_by, scene.looks.round_for(since.plus_millis(GATHER_MS)));
        }
        // A machine without a judgement may be added later.
        let more = !new.is_empty() || unjudged.is_some();
        self.put_in(new, wish, &lacks, scene, due);
        let under_way = self.entries.iter().any(|entry| {
            self.busy.contains(&entry.name) || self.adding.get(&entry.name).is_some_and(|add| !add.is_empty())
        });
        more || under_way || !lacks.is_empty()
    }

    /// Forgets firewalls that were announced but certainly never made. They are no longer wanted.
    fn drop_unsent(&mut self) {
        let never_made = |entry: &&Entry| {
            entry.id.is_empty() && self.unsent.contains(&entry.name) && !self.busy.contains(&entry.name)
        };
        let names: Vec<String> =
            self.entries.iter().filter(never_made).map(|entry| entry.name.clone()).collect();
        for name in &names {
            self.drop_intent(name);
        }
    }

    /// The machines that may be added now, and when others began to wait for a look that judges them.
    fn to_put_in(&self, wish: &Wish, scene: &Scene<'_>) -> (BTreeSet<MachineId>, Option<Moment>) {
        let members = self.members();
        let mut new = BTreeSet::new();
        let mut unjudged = None;
        for machine in
            wish.machines.keys().filter(|machine| wish.wants(machine) && !members.contains(*machine))
        {
            let since = self.lacking.get(machine).copied();
            let seen_since = |moment: Moment| since.is_none_or(|since| moment >= since);
            match scene.covers().map(|(begun, _, covers)| (begun, covers.of(machine))) {
                // A firewall that governed it a moment ago is enough. The absence of one proves nothing, since the
                // machine may be new.
                Some((begun, Cover::Foreign)) if seen_since(begun.plus_millis(FRESH_MS)) => {
                    if !self.isolated.contains(machine) {
                        new.insert(machine.clone());
                    }
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
        wish: &Wish,
        lacks: &BTreeSet<String>,
        scene: &Scene<'_>,
        due: &mut Steps,
    ) {
        let (wanted, rules) = (!new.is_empty(), wish.rules.clone().unwrap_or_default());
        let room = |entry: &Entry| {
            let shown = self.shown.get(&entry.name).map_or(0, |shown| shown.machines.len());
            let adding = self.adding.get(&entry.name).map_or(0, BTreeSet::len);
            scene.capacity.saturating_sub(shown.saturating_add(adding))
        };
        let room: Vec<(String, usize)> =
            self.entries.iter().map(|entry| (entry.name.clone(), room(entry))).collect();
        let (placed, left) = place::fill(new, room.iter().map(|(name, room)| (name, *room)));
        let is_fresh =
            scene.covers().is_some_and(|(_, arrived, _)| scene.now.millis_since(arrived) <= FRESH_MS);
        for entry in self.entries.clone() {
            let here = placed.get(&entry.name).cloned().unwrap_or_default();
            if entry.id.is_empty() {
                let may = self.unsent.contains(&entry.name) && !self.busy.contains(&entry.name);
                let on_server = scene.remembered.iter().any(|told| told.name == entry.name);
                if may && here.is_empty() {
                    self.drop_intent(&entry.name);
                } else if may && on_server && is_fresh {
                    due.steps.push(Step::Create(entry.name.clone(), rules.clone(), here));
                }
            } else if !here.is_empty()
                && is_fresh
                && !lacks.contains(&entry.name)
                && !self.is_taken(&entry, due)
            {
                due.steps.push(Step::Change(entry, Change::AddMembers(here.into_iter().collect())));
            }
        }
        for number in place::new_numbers(&self.numbers(), left.len(), scene.capacity) {
            let name = name_of(&wish.pool.uid, number);
            self.unsent.insert(name.clone());
            self.entries.push(Entry { id: String::new(), name, account_id: scene.account_id.clone() });
        }
        if wanted && !is_fresh {
            sooner(&mut due.whole_by, scene.looks.round_for(scene.now));
        }
    }

    /// Removes rules, machines and firewalls that are no longer wanted.
    fn removals(&self, wish: &Wish, scene: &Scene<'_>, due: &mut Steps) {
        let mut seen: BTreeSet<&MachineId> = BTreeSet::new();
        for entry in &self.entries {
            let Some(shown) = self.idle(entry) else { continue };
            let twice: Vec<MachineId> =
                shown.machines.iter().filter(|machine| !seen.insert(machine)).cloned().collect();
            if !self.is_taken(entry, due)
                && let Some(change) = self.removal(shown, twice, wish, scene.now)
            {
                due.steps.push(Step::Change(entry.clone(), change));
            }
        }
        let last = self.entries.iter().max_by_key(|entry| number_of(&entry.name));
        if let Some(last) = last.filter(|last| !self.is_taken(last, due))
            && self.idle(last).is_some_and(|shown| shown.machines.is_empty() && shown.tags.is_empty())
        {
            due.steps.push(Step::Change(last.clone(), Change::Delete));
        }
    }

    fn removal(&self, shown: &Firewall, twice: Vec<MachineId>, wish: &Wish, now: Moment) -> Option<Change> {
        if let Some(rules) = &wish.rules {
            let foreign = exact::foreign(rules, &shown.rules);
            if !foreign.is_empty() {
                return Some(Change::RemoveRules(foreign));
            }
        }
        if !shown.tags.is_empty() {
            return Some(Change::RemoveTags(shown.tags.iter().cloned().collect()));
        }
        let wait_ms = if wish.rules.is_some() { LEAVE_MS } else { 0 };
        let over = |machine: &&MachineId| {
            self.unwanted.get(*machine).is_some_and(|since| since.plus_millis(wait_ms) <= now)
        };
        let mut out: BTreeSet<MachineId> = shown.machines.iter().filter(over).cloned().collect();
        out.extend(twice);
        (!out.is_empty()).then(|| Change::RemoveMembers(out.into_iter().collect()))
    }
}
