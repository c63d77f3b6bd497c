//! Where the addresses of a pool are, as far as known. Each plan works this out once, for status, records and
//! annotations.
//!
//! Invariant: for an unknown place, the last confirmed node is kept. Status, records and annotations each decide how
//! they use it.

use super::Pool;
use crate::addresses::account::Account;
use crate::addresses::account::belief::{Belief, Place};
use crate::model::{Address, MachineId};
use std::collections::BTreeSet;

/// Where one address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// On this matching node.
    Here {
        /// Name of the node.
        node: String,
        /// Its machine, as last read.
        machine: Option<MachineId>,
    },
    /// On a machine that is not a matching node, or on none.
    Elsewhere {
        /// The machine.
        machine: Option<MachineId>,
        /// An action on it is pending.
        locked: bool,
    },
    /// The account does not have it.
    Absent {
        /// It seems to have come back.
        doubted: bool,
        /// The matching node on which it was last confirmed.
        last: Option<String>,
    },
    /// Not read yet.
    Unknown {
        /// The matching node on which it was last confirmed.
        last: Option<String>,
    },
}

/// Where one address is, and whether it is about to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Where it is.
    pub whereabouts: Whereabouts,
    /// It is about to serve elsewhere.
    pub moves: bool,
}

impl Placement {
    fn of(ip: Address, node: Option<&String>, account: Option<&Account>, moves: bool) -> Self {
        let node = node.cloned();
        let whereabouts = match (account.map_or(&Place::Unknown, |account| account.place(ip)), node) {
            (Place::Unknown, last) => Whereabouts::Unknown { last },
            (Place::Absent, last) => {
                let belief = account.and_then(|account| account.belief(ip));
                Whereabouts::Absent { doubted: belief.is_some_and(Belief::is_doubted), last }
            }
            (Place::Present { machine, .. }, Some(node)) => {
                Whereabouts::Here { node, machine: machine.clone() }
            }
            (Place::Present { machine, locked, .. }, None) => {
                Whereabouts::Elsewhere { machine: machine.clone(), locked: *locked }
            }
        };
        Self { whereabouts, moves }
    }

    /// The matching node on which it is, or was last confirmed. `None` if it is about to move.
    pub fn node(&self) -> Option<&str> {
        match &self.whereabouts {
            _ if self.moves => None,
            Whereabouts::Here { node, .. } => Some(node),
            Whereabouts::Absent { last, .. } | Whereabouts::Unknown { last } => last.as_deref(),
            Whereabouts::Elsewhere { .. } => None,
        }
    }

    /// Whether its place is unknown, or it was absent and seems to have come back.
    pub fn is_undecided(&self) -> bool {
        matches!(self.whereabouts, Whereabouts::Unknown { .. } | Whereabouts::Absent { doubted: true, .. })
    }
}

impl Pool {
    /// Works out where each address is, and renders the result for the status.
    pub(crate) fn place(&mut self, account: Option<&Account>) {
        let active = &self.report.active;
        let ips = self.effective().into_iter().chain(self.effective_before().iter().copied());
        let ips: BTreeSet<Address> = ips.chain(active.keys().copied()).collect();
        let moves = |ip| account.is_some_and(|account| self.leaves(ip, account));
        let place = |ip| (ip, Box::new(Placement::of(ip, active.get(&ip), account, moves(ip))));
        self.report.placements = ips.into_iter().map(place).collect();
        self.candidates.keep_assignable();
        self.shown = self.render_addresses(account);
    }
}
