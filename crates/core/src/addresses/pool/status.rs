//! A pool as the watch shows it, its status as data, and when that is written.

use super::manual_move::result::LastMove;
use super::memory::Memory;
use super::spec::RawPoolSpec;
use crate::firewalls::spec::Entry;
use crate::model::catalog::records::UnderWay;
use crate::model::words::cut;
use crate::model::{
    Address, Condition, ConditionType, MachineId, MachineKind, ObjectKind, ObjectRef, Status,
};
use crate::records::status::{PublishedSet, Reported, SetReport, warning};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The types of all conditions about a pool's record set begin with this prefix.
const POOL_PREFIX: &str = "RecordSet";

crate::described! {
    /// State of an address, as status and metrics name it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum IpState {
        /// The address is on a matching node, and the provider has confirmed it.
        Active = "active",
        /// An operation on the address is under way.
        InProgress = "in-progress",
        /// The last operation on the address failed, or the address cannot be used. `error` of the address says why.
        Error = "error",
        /// The address is on a droplet that is not a matching node.
        NoMatch = "no-match",
        /// The address is on no droplet.
        Unassigned = "unassigned",
        /// The pool does not use the address, because it already uses `desiredIPs` others.
        Disabled = "disabled",
    }
    /// The word in status and metrics.
    fn as_str -> &'static str;
}

/// One entry of `status.ips`; empty strings mean absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IpEntry {
    /// One of [`IpState`]'s words.
    pub state: String,
    /// The matching node that it is on.
    pub node_name: String,
    /// The provider ID of the machine that it is on.
    pub provider_id: String,
    /// The mistake or failure.
    pub error: String,
    /// When its node began to fail, in seconds since 1970, while grace lasts.
    pub suspect_since_s: Option<i64>,
    /// Why its node fails, while grace lasts.
    pub suspect_reason: String,
}

impl IpEntry {
    fn serves(&self, provider_id: &str) -> bool {
        let moves = self.state == IpState::InProgress.as_str() && !self.node_name.is_empty();
        self.provider_id == provider_id && (self.state == IpState::Active.as_str() || moves)
    }
}

/// The status of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolStatus {
    /// The entries by address. An entry of `spec.ips` that is not an address appears as written.
    pub ips: BTreeMap<String, Box<IpEntry>>,
    /// How many addresses the pool uses, including those that are still to be created. `None` before the first count.
    pub used_ips: Option<i64>,
    /// Candidates that wait for an address, sorted. The list is shared, because it can have thousands of names and
    /// seldom changes.
    pub assignable_nodes: Arc<[String]>,
    /// The number of those candidates, if not all of them are listed.
    pub assignable_count: Option<i64>,
    /// Candidates whose assignment failed or is blocked, sorted.
    pub node_errors: Vec<String>,
    /// The number of those candidates, if not all of them are listed.
    pub node_error_count: Option<i64>,
    /// Spec error or last creation error.
    pub error: String,
    /// Conditions, sorted by type.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: i64,
    /// The memory that has to survive a restart.
    pub memory: Option<Memory>,
    /// The last move by hand.
    pub last_move: Option<LastMove>,
    /// The record set as last published.
    pub record_set: Option<PublishedSet>,
    /// The firewalls that the pool owns, including those that may not have been made.
    pub firewalls: Vec<Entry>,
}

impl PoolStatus {
    /// The part about the pool's record set. It is current if the status is about this generation.
    pub fn reported_records(&self, generation: i64) -> Reported {
        let summary = self.conditions.iter().find(|condition| condition.is(ConditionType::RecordSetReady));
        let failed = summary.filter(|ready| ready.has(Status::False) && !UnderWay::is_reason(&ready.reason));
        Reported {
            published: self.record_set.clone().unwrap_or_default(),
            right: summary.is_some_and(|summary| summary.has(Status::True)),
            error: failed.map(|summary| summary.message.clone()).unwrap_or_default(),
            current: summary.is_some() && self.observed_generation == generation,
            warning: warning(&self.conditions, ObjectKind::Pool),
        }
    }

    /// Whether an address serves on a machine or moves there. `Some` has the start of the suspicion, if there is one.
    pub fn suspicion_of(&self, provider_id: &str) -> Option<Option<i64>> {
        self.ips.values().find(|entry| entry.serves(provider_id)).map(|entry| entry.suspect_since_s)
    }

    /// Whether this address serves on a machine or moves there.
    pub fn is_serving(&self, ip: Address, provider_id: &str) -> bool {
        self.ips.get(&ip.to_string()).is_some_and(|entry| entry.serves(provider_id))
    }

    /// Whether the status calls an address idle.
    pub fn calls_idle(&self, ip: Address) -> bool {
        let idle = [IpState::NoMatch, IpState::Unassigned, IpState::Error, IpState::Disabled];
        let state = self.ips.get(&ip.to_string()).map(|entry| entry.state.as_str());
        state.is_some_and(|state| idle.iter().any(|idle| idle.as_str() == state))
    }

    /// Whether the status lists an address as created, so that a restart keeps this.
    pub fn remembers(&self, ip: Address) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.has_created(ip))
    }

    /// The addresses that are active by this status, and their machines.
    pub fn serving(&self, machines: &'static MachineKind) -> impl Iterator<Item = (Address, MachineId)> {
        let active = self.ips.iter().filter(|(_, entry)| entry.state == IpState::Active.as_str());
        active.filter_map(|(ip, entry)| Some((Address::v4(ip)?, machines.named(&entry.provider_id)?)))
    }

    /// The addresses that were effective by this status: those that it lists, except entries with only an error.
    pub fn effective(&self) -> BTreeSet<Address> {
        let counts =
            |entry: &IpEntry| entry.state != IpState::Error.as_str() || !entry.provider_id.is_empty();
        self.ips.iter().filter(|(_, entry)| counts(entry)).filter_map(|(ip, _)| Address::v4(ip)).collect()
    }
}

/// Most names of nodes in a list of a status.
const MAX_LISTED: usize = 500;

impl PoolStatus {
    /// The number of candidates without an address.
    pub fn waiting(&self) -> usize {
        let all = |count: Option<i64>, listed| {
            count.and_then(|count| usize::try_from(count).ok()).unwrap_or(listed)
        };
        all(self.assignable_count, self.assignable_nodes.len())
            + all(self.node_error_count, self.node_errors.len())
    }

    /// Cuts the lists of nodes and the texts to their bounds. Whatever memory rests on stays whole.
    pub fn cut(&mut self) {
        let count = |length: usize| (length > MAX_LISTED).then(|| i64::try_from(length).unwrap_or(i64::MAX));
        if let Some(count) = count(self.assignable_nodes.len()) {
            let first = self.assignable_nodes.iter().take(MAX_LISTED).cloned().collect();
            (self.assignable_nodes, self.assignable_count) = (first, Some(count));
        }
        if let Some(count) = count(self.node_errors.len()) {
            self.node_errors.truncate(MAX_LISTED);
            self.node_error_count = Some(count);
        }
        let entries = self.ips.values_mut().map(|entry| &mut entry.error);
        let conditions = self.conditions.iter_mut().map(|condition| &mut condition.message);
        entries.chain(conditions).chain([&mut self.error]).for_each(cut);
    }

    /// Whether a write would change nothing. With `outdated_crds`, only the fields that the Go operator's CRDs keep
    /// are compared.
    pub fn same_as(&self, on_server: &Self, outdated_crds: bool) -> bool {
        if !outdated_crds {
            return self == on_server;
        }
        let Self { ips, assignable_nodes, node_errors, error, .. } = self;
        *ips == on_server.ips
            && *assignable_nodes == on_server.assignable_nodes
            && *node_errors == on_server.node_errors
            && *error == on_server.error
    }

    /// Whether the server dropped fields that a creation must not lose, because the installed CRDs lack them. For a
    /// pool without a memory the conditions show it, since there are always some.
    pub fn is_pruned_to(&self, kept: &Self) -> bool {
        let memory = self.memory.is_some() && self.memory != kept.memory;
        let firewalls = !self.firewalls.is_empty() && kept.firewalls.is_empty();
        memory || firewalls || (!self.conditions.is_empty() && kept.conditions.is_empty())
    }
}

/// Adds the known state of a pool's record set to the pool's status. An unknown part stays as it was.
pub fn complete(status: &mut PoolStatus, report: Option<&SetReport>, on_server: &PoolStatus) {
    let Some(report) = report else {
        status.record_set.clone_from(&on_server.record_set);
        let ours = on_server.conditions.iter().filter(|condition| condition.kind.starts_with(POOL_PREFIX));
        // It is about another generation, and a reader could not see that.
        let current = status.observed_generation == on_server.observed_generation;
        let ours: Vec<_> = ours
            .filter(|condition| current || !condition.is(ConditionType::RecordSetReady))
            .cloned()
            .collect();
        status.conditions.extend(ours);
        return;
    };
    status.record_set = Some(report.published.clone());
    status.conditions.extend(report.conditions(ObjectKind::Pool));
    if let Some(message) = &report.spec_error {
        let parts = [status.error.as_str(), message.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        status.error = parts.join("; ");
    }
}

/// The finalizer that keeps a pool until the addresses that it gives back are gone.
pub const FINALIZER: &str = "flipop.digitalocean.com/reclaim";

/// A pool as the watch shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolObject {
    /// The pool's name and uid.
    pub object: ObjectRef,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch. It decides which object is older.
    pub created_at_s: i64,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The object has [`FINALIZER`].
    pub guarded: bool,
    /// The text of the pause annotation, if it is present.
    pub paused: Option<String>,
    /// The spec, or why it cannot be read.
    pub spec: Result<RawPoolSpec, String>,
    /// The annotation that asks for a move, if there is one. Unknown if the object cannot be read.
    pub move_request: Option<String>,
    /// The status, including what the operator remembers there.
    pub status: PoolStatus,
}
