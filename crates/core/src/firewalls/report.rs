//! The conditions about a pool's firewalls.

use super::read_trust::Looks;
use super::set::Set;
use super::steps::IntendedFirewall;
use crate::model::Condition;
use crate::model::catalog::firewalls::{FirewallReady, FirewallWouldIsolate};
use crate::model::words::{enumerate, name_all};
use std::collections::BTreeSet;

/// Whether something keeps the firewalls of a pool from being as wanted. If so, no assignment waits for them.
pub fn is_in_trouble(set: &Set, looks: &Looks) -> bool {
    looks.trouble().is_some()
        || !looks.missing().is_empty()
        || set.trouble().is_some()
        || set.doubt().is_some()
        || !set.denied.is_empty()
}

/// The conditions, or `None` while there is nothing to report. `noun` is the word for a machine. `unusable` says that
/// no entry of the spec is usable.
pub fn conditions(
    set: &Set,
    looks: &Looks,
    intended: &IntendedFirewall,
    (noun, unusable): (&str, bool),
) -> Option<Vec<Condition>> {
    if intended.rules.is_none() && set.firewalls.is_empty() && !unusable {
        return Some(Vec::new());
    }
    let ready = ready(set, looks, intended, unusable)?;
    let mut conditions = vec![ready];
    if !set.bare.is_empty() && intended.rules.is_some() {
        let message = format!(
            "no firewall of yours governs the {noun}s of these nodes, and the pool's firewall alone would close every \
             other port: {}; give them a firewall first",
            name_all(&set.bare)
        );
        conditions.push(Condition::new(FirewallWouldIsolate::NoOtherFirewall, message));
    }
    Some(conditions)
}

fn ready(set: &Set, looks: &Looks, intended: &IntendedFirewall, unusable: bool) -> Option<Condition> {
    if unusable {
        let message = "spec.firewall has no usable entry; open ports stay open, and FLIPOP opens no others";
        return Some(Condition::new(FirewallReady::InvalidSpec, message.to_owned()));
    }
    if !looks.missing().is_empty() {
        let scopes = enumerate(looks.missing().iter().map(ToString::to_string));
        let message = format!(
            "the token lacks {scopes}, so FLIPOP cannot tell which other firewalls govern a node; it changes no \
             firewall"
        );
        return Some(Condition::new(FirewallReady::ScopeMissing, message));
    }
    if let Some(doubt) = set.doubt() {
        let message = format!("{doubt}; FLIPOP changes no firewall until that is clear");
        return Some(Condition::new(FirewallReady::CoverageUnknown, message));
    }
    if let Some(trouble) = looks.trouble().or(set.trouble()) {
        return Some(Condition::new(FirewallReady::from(trouble.kind), trouble.message.clone()));
    }
    if intended.rules.is_none() {
        let message = "the pool no longer asks for ports; FLIPOP is removing its firewalls";
        return Some(Condition::new(FirewallReady::Leaving, message.to_owned()));
    }
    let new = set.firewalls.is_empty() && !intended.machines.is_empty();
    looks.whole().or(None.filter(|_| new))?;
    if !set.denied.is_empty() {
        let nodes: BTreeSet<&str> = set.denied.values().flatten().map(String::as_str).collect();
        let message = format!(
            "a rule of {} denies traffic to ports of the pool on {}, and a denial outweighs every permission; remove \
             it, or the port from spec.firewall",
            name_all(set.denied.keys().map(String::as_str)),
            name_all(nodes)
        );
        return Some(Condition::new(FirewallReady::DeniedByOther, message));
    }
    if set.lacking().next().is_some() || set.entries().any(|entry| entry.id.is_empty()) {
        let message = "the ports are being opened on some nodes";
        return Some(Condition::new(FirewallReady::Applying, message.to_owned()));
    }
    let members = set.members().len();
    let named = name_all(set.entries().map(|entry| entry.name.as_str()));
    let message = match set.firewalls.len() {
        0 => "no node needs a firewall of the pool".to_owned(),
        _ => format!("the ports are open on {members} of the nodes that the pool may use, by {named}"),
    };
    Some(Condition::new(FirewallReady::Applied, message))
}
