//! Failing holders that keep their address for now: which nodes they are, the text for users, and when they lose it.

use super::Pool;
use crate::addresses::account::Account;
use crate::addresses::account::belief::Place;
use crate::mechanism::effects::Notice;
use crate::mechanism::suspects::Ended;
use crate::mechanism::suspicion::Suspicion;
use crate::model::catalog::events::EventReason;
use crate::model::condition::Condition;
use crate::model::ids::Address;
use crate::model::machine::MachineId;
use crate::model::matching::NodeStore;
use crate::model::moment::Moment;
use crate::model::words::enumerate;
use std::collections::BTreeSet;

impl Pool {
    /// Drops the match of failing nodes that hold nothing, and of holders whose grace is over.
    ///
    /// A node is a holder if a used address is on it or is being moved to it. For an address that is not read yet, the
    /// last confirmed node counts.
    pub(crate) fn settle_suspects(&mut self, account: &Account, now: Moment) {
        if self.suspects.iter().next().is_none() {
            self.suspects.forget_quiet(now);
            return;
        }
        let mut used = self.used();
        used.retain(|ip| !self.report.claimed.contains_key(ip));
        let on = |ip: &Address| {
            let moves_to = account.op(*ip).map(|op| &op.machine);
            account.place(*ip).machine().into_iter().chain(moves_to)
        };
        let machines: BTreeSet<&MachineId> = used.iter().flat_map(on).collect();
        let unread: Vec<&Address> = used.iter().filter(|ip| *account.place(**ip) == Place::Unknown).collect();
        let serves = |node: &str| {
            let Some(candidate) = self.candidates.get(node) else { return false };
            let holds = candidate.node.machine.as_ref().is_some_and(|machine| machines.contains(machine));
            let held = |ip: &&Address| {
                self.report.active.get(ip).is_some_and(|active| active == node)
                    || self.on_server.is_serving(**ip, &candidate.node.provider_id)
            };
            holds || unread.iter().any(held)
        };
        for (name, why) in self.suspects.settle(serves, &self.spec.grace, now) {
            if self.drop_candidate(&name, why, now) {
                self.changed_at = now;
            }
        }
    }

    /// The nodes that have recovered for long enough to count again, and when the next one is due. A node that still
    /// has an address of the pool counts at once. So does every node while none matches.
    pub(crate) fn recovered(
        &mut self,
        account: &Account,
        nodes: &NodeStore,
        now: Moment,
    ) -> (BTreeSet<String>, Option<Moment>) {
        let none_matches = self.candidates.is_empty();
        let used = self.used();
        let has_address = |node: &str| {
            let machine = nodes.get(node).and_then(|node| node.machine.as_ref());
            machine.is_some_and(|on| used.iter().any(|ip| account.place(*ip).machine() == Some(on)))
        };
        self.suspects.recovered(|node| none_matches || has_address(node), &self.spec.grace, now)
    }

    /// The suspicion of a node with an active address, once it is reported.
    pub(super) fn suspicion(&self, node: &str) -> Option<&Suspicion> {
        self.suspects.of(node).filter(|suspicion| suspicion.is_told())
    }

    /// The condition about holders that fail and keep their address for now.
    pub(super) fn suspect_condition(&self) -> Option<Condition> {
        let told: Vec<(&String, &Suspicion)> = self.suspects.told().collect();
        let (_, first) = told.first()?;
        let texts = told.iter().map(|(node, suspicion)| self.suspicion_text(node, suspicion));
        Some(Condition::new(first.finding(), enumerate(texts)))
    }

    fn suspicion_text(&self, node: &str, suspicion: &Suspicion) -> String {
        let on_node = |(_, name): &(&Address, &String)| name.as_str() == node;
        let address = self.report.active.iter().find(on_node).map(|(ip, _)| ip.to_string());
        let address = address.unwrap_or_else(|| "its address".to_owned());
        suspicion.text(node, &format!("{address} moves"), &self.spec.grace)
    }

    /// The Events of suspicions that are due to be reported now, and when the next one is.
    pub(crate) fn tell_suspicions(&mut self, now: Moment) -> (Vec<Notice>, Option<Moment>) {
        let (told, later) = self.suspects.tell(now);
        let told = told.iter().map(|(node, suspicion)| {
            self.notice(true, EventReason::FailoverDelayed, node, self.suspicion_text(node, suspicion))
        });
        (told.collect(), later)
    }

    /// The Event of a suspicion that ended, if it was reported and the node keeps its address.
    pub(crate) fn tell_avoided(&self, ended: &Ended) -> Option<Notice> {
        let message = ended.avoided("keeps its address")?;
        Some(self.notice(false, EventReason::FailoverAvoided, &ended.node, message))
    }
}
