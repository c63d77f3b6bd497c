//! Finds the machines that a firewall governs which no pool owns. Only these machines may enter ours.
//!
//! A machine with a firewall is closed to all traffic that none of its firewalls permits. So a machine that only our
//! firewalls govern is reachable only on the ports of pools.

use super::facts::{Firewall, Rule};
use super::spec::number_of;
use crate::model::MachineId;
use std::collections::{BTreeMap, BTreeSet};

/// The firewalls that govern a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// A firewall that no pool owns.
    Foreign,
    /// Only firewalls that are ours or named like ours.
    OnlyOurs,
    /// None, so all ports are open.
    Open,
    /// The list of machines leaves it out, and no firewall of others names it.
    Unknown,
}

/// Firewalls and machines from one look.
#[derive(Debug, Clone, Copy)]
pub struct Covers<'a> {
    /// Every firewall.
    pub firewalls: &'a [Firewall],
    /// Every machine with its tags.
    pub machines: &'a BTreeMap<MachineId, BTreeSet<String>>,
    /// Ids of the firewalls that pools own.
    pub owned: &'a BTreeSet<String>,
}

impl<'c> Covers<'c> {
    /// The firewalls that govern this machine.
    pub fn of(&self, machine: &MachineId) -> Cover {
        let tags = self.machines.get(machine);
        let mut governing = self.governing(machine).peekable();
        if governing.peek().is_none() {
            return if tags.is_some() { Cover::Open } else { Cover::Unknown };
        }
        if governing.any(|firewall| !self.owned.contains(&firewall.id) && number_of(&firewall.name).is_none())
        {
            Cover::Foreign
        } else if tags.is_some() {
            Cover::OnlyOurs
        } else {
            Cover::Unknown
        }
    }

    /// A firewall of others that denies this machine a part of what these rules permit.
    pub fn denial(&self, machine: &MachineId, rules: &BTreeSet<Rule>) -> Option<&'c Firewall> {
        let denies = |firewall: &Firewall| {
            firewall.rules.iter().any(|of| of.denies && rules.iter().any(|rule| rule.meets(of)))
        };
        self.governing(machine).find(|firewall| !self.owned.contains(&firewall.id) && denies(firewall))
    }

    fn governing<'a>(&'a self, machine: &'a MachineId) -> impl Iterator<Item = &'c Firewall> {
        let tags = self.machines.get(machine);
        let tagged = move |firewall: &Firewall| tags.is_some_and(|tags| !tags.is_disjoint(&firewall.tags));
        let leaves = move |firewall: &Firewall| firewall.pending.get(machine) == Some(&true);
        self.firewalls.iter().filter(move |firewall| {
            (firewall.machines.contains(machine) || tagged(firewall)) && !leaves(firewall)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::examples::droplet;

    fn firewall(name: &str, machines: &[u64], tags: &[&str]) -> Firewall {
        Firewall {
            id: format!("id-{name}"),
            name: name.to_owned(),
            machines: machines.iter().map(|id| droplet(*id)).collect(),
            tags: tags.iter().map(ToString::to_string).collect(),
            rules: BTreeSet::new(),
            pending: BTreeMap::new(),
        }
    }

    #[test]
    fn a_firewall_of_others_covers_by_id_and_by_tag_and_one_of_ours_or_an_orphan_does_not() {
        let mut firewalls = [
            firewall("base", &[1], &["k8s"]),
            firewall("flipop-0123abcd-1", &[1, 3], &[]),
            firewall("renamed", &[5], &[]),
        ];
        let tags = |tags: &[&str]| tags.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let machines =
            [(1, tags(&[])), (2, tags(&["k8s"])), (3, tags(&["x"])), (4, tags(&[])), (5, tags(&[]))];
        let machines = machines.into_iter().map(|(id, tags)| (droplet(id), tags)).collect();
        let owned = BTreeSet::from(["id-renamed".to_owned()]);
        let of = |firewalls: &[Firewall], id| {
            Covers { firewalls, machines: &machines, owned: &owned }.of(&droplet(id))
        };
        let right = [
            (1, Cover::Foreign),
            (2, Cover::Foreign),
            (3, Cover::OnlyOurs),
            (4, Cover::Open),
            (5, Cover::OnlyOurs),
            (6, Cover::Unknown),
        ];
        for (id, right) in right {
            assert_eq!(of(&firewalls, id), right, "{id}");
        }
        firewalls[0].pending.insert(droplet(1), true);
        assert_eq!(of(&firewalls, 1), Cover::OnlyOurs, "one that leaves it covers it no more");
    }
}
