//! The changes that give one of our firewalls exactly the wanted rules, and how a list shows their effect.

use super::action::Change;
use super::facts::{Firewall, Rule};
use std::collections::BTreeSet;

/// The wanted rules that the firewall lacks.
pub fn lacking(wished: &BTreeSet<Rule>, there: &BTreeSet<Rule>) -> Vec<Rule> {
    let there: BTreeSet<Rule> = there.iter().map(Rule::canonical).collect();
    wished.iter().filter(|rule| !there.contains(&rule.canonical())).cloned().collect()
}

/// The rules that are not wanted, as the provider writes them.
pub fn foreign(wished: &BTreeSet<Rule>, there: &BTreeSet<Rule>) -> Vec<Rule> {
    let wished: BTreeSet<Rule> = wished.iter().map(Rule::canonical).collect();
    there.iter().filter(|rule| !wished.contains(&rule.canonical())).cloned().collect()
}

/// The rules that deny something, as the provider writes them. No pool asks for any.
pub fn denials(there: &BTreeSet<Rule>) -> Vec<Rule> {
    there.iter().filter(|rule| rule.denies).cloned().collect()
}

/// Whether a list shows the effect of a change.
pub fn shows(change: &Change, found: &Firewall) -> bool {
    match change {
        Change::AddRules(rules) => lacking(&rules.iter().cloned().collect(), &found.rules).is_empty(),
        Change::RemoveRules(rules) => !rules.iter().any(|rule| found.rules.contains(rule)),
        Change::AddMembers(machines) => machines.iter().all(|machine| found.machines.contains(machine)),
        Change::RemoveMembers(machines) => !machines.iter().any(|machine| found.machines.contains(machine)),
        Change::RemoveTags(tags) => !tags.iter().any(|tag| found.tags.contains(tag)),
        Change::Delete => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewalls::facts::{Direction, Targets};

    #[test]
    fn a_rule_with_another_source_is_another_rule_and_one_spelt_otherwise_is_not() {
        let rule = |ports: &str, address: &str| Rule {
            denies: false,
            direction: Direction::Inbound,
            protocol: "tcp".into(),
            ports: ports.into(),
            targets: Targets { addresses: [address.to_owned()].into(), ..Targets::default() },
        };
        let wished = BTreeSet::from([rule("1", "192.0.2.1"), rule("2", "::/0")]);
        let there = BTreeSet::from([rule("1", "192.0.2.1/32"), rule("2", "0.0.0.0/0"), rule("3", "::/0")]);
        assert_eq!(lacking(&wished, &there), [rule("2", "::/0")]);
        assert_eq!(foreign(&wished, &there), [rule("2", "0.0.0.0/0"), rule("3", "::/0")]);
    }
}
