//! The firewalls of a rehearsal: as the providers show them, with the changes of the rehearsal.
//!
//! Owns the copy. The firewalls of an account that no client reads stay unknown and unchanged.

use crate::provider::{CallContext, Providers};
use flipop_core::firewalls::action::{Action, Call, Change, Outcome, Reply};
use flipop_core::firewalls::facts::{Firewall, Sight};
use flipop_core::mechanism::Request;
use flipop_core::model::{AccountId, CallFailure, Fault, Moment};
use std::collections::BTreeMap;

/// The prefix of the ids of firewalls that the rehearsal made.
const MADE: &str = "plan-";

/// The firewalls of all accounts.
#[derive(Default)]
pub(super) struct Walls {
    clients: Providers,
    sights: BTreeMap<AccountId, Result<Sight, Fault>>,
    /// The firewalls before the rehearsal, by account and id.
    first: BTreeMap<(AccountId, String), Firewall>,
    made: usize,
}

impl Walls {
    /// Firewalls that these clients can read.
    pub(super) fn read(clients: Providers) -> Self {
        Self { clients, ..Self::default() }
    }

    /// Whether the firewalls of an account are read.
    pub(super) fn knows(&self, id: &AccountId) -> bool {
        self.clients.firewalls.contains_key(id)
    }

    /// The answer to a call, and whether the call changed something.
    pub(super) async fn answer(
        &mut self,
        Request { epoch, owner, call }: Action,
        begun: Moment,
    ) -> (Outcome, bool) {
        let is_write = call.is_write();
        let sight = self.sight(&epoch.account_id).await;
        let reply = match call {
            Call::Look { machines } => Reply::Looked(sight.map(|sight| Sight {
                machines: sight.machines.clone().filter(|_| machines),
                ..sight.clone()
            })),
            Call::Find(id) => {
                let found = sight.map(|sight| sight.firewalls.iter().any(|firewall| firewall.id == id));
                Reply::Found(id, found)
            }
            Call::Create { name, rules, machines } => {
                self.made = self.made.saturating_add(1);
                let id = format!("{MADE}{}", self.made);
                let made = Firewall {
                    id: id.clone(),
                    name: name.clone(),
                    machines,
                    tags: std::collections::BTreeSet::new(),
                    rules,
                    pending: BTreeMap::new(),
                };
                let result = self.sight(&epoch.account_id).await.map(|sight| sight.firewalls.push(made));
                Reply::Created(name, result.map(|()| id))
            }
            Call::Change { name, id, change } => {
                let deleted = change == Change::Delete;
                Reply::Changed { name, deleted, result: sight.map(|sight| apply(sight, &id, change)) }
            }
        };
        (Outcome { epoch, owner, begun, reply }, is_write)
    }

    /// The present account. The first call reads it.
    async fn sight(&mut self, id: &AccountId) -> Result<&mut Sight, CallFailure> {
        let Some(client) = self.clients.firewalls.get(id).cloned() else { return Err(CallFailure::NotSent) };
        if !self.sights.contains_key(id) {
            let read = client.look(&CallContext::account_wide(), true).await;
            for firewall in read.iter().flat_map(|sight| &sight.firewalls) {
                self.first.insert((id.clone(), firewall.id.clone()), firewall.clone());
            }
            self.sights.insert(id.clone(), read);
        }
        match self.sights.get_mut(id) {
            Some(Ok(sight)) => Ok(sight),
            Some(Err(fault)) => Err(CallFailure::Fault(fault.clone())),
            None => Err(CallFailure::NotSent),
        }
    }

    /// Each changed firewall, before and after.
    pub(super) fn changed(&self) -> Vec<(&AccountId, Option<&Firewall>, Option<&Firewall>)> {
        let accounts = self.sights.iter().filter_map(|(id, read)| Some((id, read.as_ref().ok()?)));
        let now: BTreeMap<(&AccountId, &str), &Firewall> = accounts
            .flat_map(|(account, sight)| {
                sight.firewalls.iter().map(move |firewall| ((account, firewall.id.as_str()), firewall))
            })
            .collect();
        let first = self.first.iter().map(|((account, id), firewall)| ((account, id.as_str()), firewall));
        let first: BTreeMap<(&AccountId, &str), &Firewall> = first.collect();
        let gone = first.iter().filter(|(key, _)| !now.contains_key(*key));
        let gone = gone.map(|((account, _), firewall)| (*account, Some(*firewall), None));
        let others = now.iter().map(|(key, firewall)| (key.0, first.get(key).copied(), Some(*firewall)));
        gone.chain(others).filter(|(_, before, after)| before != after).collect()
    }

    /// The number of a firewall that the rehearsal made.
    pub(super) fn number(firewall: &Firewall) -> Option<&str> {
        firewall.id.strip_prefix(MADE)
    }

    /// The failed reads.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let failed = self.sights.iter().filter_map(|(id, read)| Some((id, read.as_ref().err()?)));
        failed.map(|(id, fault)| format!("the firewalls at {id}: {fault}"))
    }
}

fn apply(sight: &mut Sight, id: &str, change: Change) {
    if change == Change::Delete {
        sight.firewalls.retain(|firewall| firewall.id != id);
        return;
    }
    let Some(firewall) = sight.firewalls.iter_mut().find(|firewall| firewall.id == id) else { return };
    match change {
        Change::AddRules(rules) => firewall.rules.extend(rules),
        Change::AddMembers(machines) => firewall.machines.extend(machines),
        Change::RemoveRules(rules) => firewall.rules.retain(|rule| !rules.contains(rule)),
        Change::RemoveTags(tags) => firewall.tags.retain(|tag| !tags.contains(tag)),
        Change::RemoveMembers(machines) => firewall.machines.retain(|machine| !machines.contains(machine)),
        Change::Delete => {}
    }
}
