//! The user's view of a pool: its status and conditions, from the same facts as the plan.

use super::Pool;
use super::placement::Whereabouts;
use super::status::{IpEntry, IpState, PoolStatus};
use crate::addresses::account::op::OpKind;
use crate::addresses::account::{Account, MachineRead};
use crate::mechanism::{Follower, Notice, Suspicion};
use crate::model::catalog::events::EventReason;
use crate::model::catalog::pool::{
    AnnotationsDenied, CRDsOutdated, Conflict, CreationFailed, CreationUncertain, LabelsDenied, NodesBlocked,
    ProviderReady, Ready, SpecValid, Stalled, WriteDenied,
};
use crate::model::label_mode::LabelMode;
use crate::model::pause::Reason;
use crate::model::spec::Scope;
use crate::model::words::{enumerate, name_all, second_of_day};
use crate::model::{Address, Condition, ConditionType, FaultKind, MachineId, Moment, Status};
use std::collections::BTreeSet;

/// The remedy for CRDs that drop our fields.
const CRDS_OUTDATED: &str = "the installed CRDs drop status fields that a creation must not lose; apply the CRDs of this version first \
                             (kubectl apply -f crds)";

/// The reasons why nodes cannot be changed, if they cannot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Denied<'a> {
    /// Annotations.
    pub annotations: Option<&'a str>,
    /// Labels.
    pub labels: Option<&'a str>,
}

impl Pool {
    /// The wanted status, with the parts that the plan has rendered. `denied` says why nodes cannot be annotated or
    /// labelled, if they cannot.
    pub fn render(&self, account: Option<&Account>, denied: Denied<'_>, now: Moment) -> PoolStatus {
        let mut status = PoolStatus {
            error: self.error(),
            used_ips: i64::try_from(self.goal()).ok(),
            observed_generation: self.generation,
            memory: self.memory.clone(),
            last_move: self.moving.last_move(),
            ..self.shown.clone()
        };
        self.remember_let_go(&mut status);
        status.conditions = self.conditions(account, denied, &status, now);
        status.conditions.sort();
        status
    }

    /// The part of a status about addresses, and about nodes without one.
    pub(super) fn render_addresses(&self, account: Option<&Account>) -> PoolStatus {
        let mut status = PoolStatus::default();
        for (text, message) in &self.spec.bad_ips {
            status.ips.insert(text.clone(), Box::new(error_entry(message)));
        }
        let used: BTreeSet<Address> = self.used().into_iter().collect();
        for ip in self.effective() {
            let entry = account.and_then(|account| self.entry(ip, used.contains(&ip), account)).map(Box::new);
            let entry = entry.or_else(|| self.on_server.ips.get(&ip.to_string()).cloned());
            status.ips.extend(entry.map(|entry| (ip.to_string(), entry)));
        }
        if self.spec.is_frozen() {
            // Its earlier addresses stay in their places. They are given up only once the spec is valid again.
            for ip in self.effective_before() {
                let followed = account.filter(|_| self.ips.get(ip).is_some_and(|record| record.was_active));
                let entry = followed.and_then(|account| self.entry(*ip, true, account)).map(Box::new);
                let name = ip.to_string();
                if let Some(entry) = entry.or_else(|| self.on_server.ips.get(&name).cloned()) {
                    status.ips.entry(name).or_insert(entry);
                }
            }
        }
        let known = account.is_some_and(Account::is_known) && self.nodes.matched && self.is_live();
        if known {
            let wrong = self.candidates.waits().filter(|(_, wait)| wait.is_error());
            status.node_errors = wrong.map(|(name, _)| name.to_string()).collect();
            status.assignable_nodes = self.candidates.assignable();
        } else {
            status.assignable_nodes.clone_from(&self.on_server.assignable_nodes);
            status.node_errors.clone_from(&self.on_server.node_errors);
            status.assignable_count = self.on_server.assignable_count;
            status.node_error_count = self.on_server.node_error_count;
        }
        status
    }

    /// Also remembers addresses that the spec gave up since the account was last read. After a restart they would
    /// otherwise look foreign.
    fn remember_let_go(&self, status: &mut PoolStatus) {
        let effective: BTreeSet<Address> = self.effective().into_iter().collect();
        let let_go = self.effective_before().difference(&effective).filter(|_| !self.spec.is_frozen());
        match &mut status.memory {
            Some(memory) => memory.former.extend(let_go),
            None => status.ips.extend(let_go.filter_map(|ip| {
                let name = ip.to_string();
                let entry = self.on_server.ips.get(&name)?.clone();
                Some((name, entry))
            })),
        }
    }

    /// `status.error`: the mistakes in the spec, or else why the last creation failed.
    fn error(&self) -> String {
        let problems: Vec<String> = self.spec.problems.iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            return problems.join("; ");
        }
        if self.creation.crds_outdated {
            return CRDS_OUTDATED.to_owned();
        }
        if let Some((_, message)) = &self.creation.barred {
            return format!("no address is created: {message}");
        }
        match &self.creation.failure {
            Some((kind, message)) => format!("failed to create an address: {kind}: {message}"),
            None => String::new(),
        }
    }

    /// The entry of one address. `None` while nothing newer than the last status is known.
    fn entry(&self, ip: Address, used: bool, account: &Account) -> Option<IpEntry> {
        if let Some(owner) = self.report.claimed.get(&ip) {
            return Some(error_entry(&format!(
                "claimed by the older pool {owner}; take it out of one of the two"
            )));
        }
        let provider_id =
            |machine: &Option<MachineId>| machine.as_ref().map(MachineId::provider_id).unwrap_or_default();
        let entry = |state: IpState, machine| IpEntry {
            state: state.as_str().to_owned(),
            provider_id: provider_id(&machine),
            ..IpEntry::default()
        };
        if let Some(op) = account.op(ip) {
            let node_name = op.target().map(|_| op.node.1.clone()).unwrap_or_default();
            let error = op.trouble().unwrap_or_default().to_owned();
            return Some(IpEntry {
                node_name,
                error,
                ..entry(IpState::InProgress, Some(op.machine.clone()))
            });
        }
        let (node, machine, locked) = match &self.report.placements.get(&ip)?.whereabouts {
            Whereabouts::Unknown { .. } => return None,
            Whereabouts::Absent { .. } => return Some(error_entry("the account does not have this address")),
            Whereabouts::Here { node, machine } => (Some(node), machine.clone(), false),
            Whereabouts::Elsewhere { machine, locked } => (None, machine.clone(), *locked),
        };
        if !used {
            return Some(entry(IpState::Disabled, machine));
        }
        if let Some(node) = node {
            let suspicion = self.suspicion(node);
            return Some(IpEntry {
                node_name: node.clone(),
                suspect_since_s: suspicion.map(Suspicion::since_s),
                suspect_reason: suspicion.map(|of| of.why().name().to_owned()).unwrap_or_default(),
                ..entry(IpState::Active, machine)
            });
        }
        if locked {
            return Some(entry(IpState::InProgress, machine));
        }
        let last = self.on_server.ips.get(&ip.to_string());
        if !self.nodes.matched && last.is_some_and(|last| last.provider_id == provider_id(&machine)) {
            // It is unknown whether that node matches, so the last report stays.
            return last.map(|last| last.as_ref().clone());
        }
        if let Some((kind, message)) = self.ips.get(&ip).and_then(|record| record.error.as_ref()) {
            let error = format!("{kind}: {message}");
            return Some(IpEntry { error, ..entry(IpState::Error, machine) });
        }
        Some(entry(if machine.is_some() { IpState::NoMatch } else { IpState::Unassigned }, machine))
    }

    /// The next event of an address, and its time. `None` if its state says it all. A status cannot say it, since every
    /// failure would change it.
    pub(crate) fn next(
        &self,
        ip: Address,
        account: &Account,
        (epoch_ms, now): (u64, Moment),
    ) -> Option<String> {
        let when = |due: Moment| {
            if account.is_authorised() {
                format!("at {}", second_of_day(due.max(now), epoch_ms))
            } else {
                "when the token works".to_owned()
            }
        };
        if let Some(op) = account.op(ip) {
            let node = &op.node.1;
            return Some(match (op.trouble().zip(op.read_due()), op.kind) {
                (Some((why, due)), _) => format!("outcome unknown ({why}), read again {}", when(due)),
                (None, OpKind::Assign) => format!("the provider is moving it to {node}"),
                (None, OpKind::Unassign { .. }) => format!("the provider is unassigning it from {node}"),
            });
        }
        let idle = !self.report.active.contains_key(&ip);
        let failure = self.ips.get(&ip)?.failure.as_ref().filter(|_| idle)?;
        Some(format!("tried again {} ({}: {})", when(failure.retry.due()), failure.kind, failure.message))
    }

    fn conditions(
        &self,
        account: Option<&Account>,
        denied: Denied<'_>,
        status: &PoolStatus,
        now: Moment,
    ) -> Vec<Condition> {
        let known = account.is_some_and(Account::is_known) && self.nodes.matched;
        let mut conditions = vec![self.with_minimum(self.ready(account, status)), self.spec_valid()];
        conditions.extend(account.and_then(|account| provider_condition(account).or_else(|| self.refusal())));
        conditions.extend(self.suspect_condition());
        conditions.extend(self.idle_condition(known));
        conditions.extend(self.reclaim_conditions(now));
        conditions.extend(self.pause.reason().map(Reason::condition));
        conditions.extend(self.conflict());
        conditions.extend(self.blocked_nodes());
        conditions.extend(self.creation_uncertain());
        conditions.extend(account.and_then(|account| self.stalled(account, now)));
        let failed =
            self.creation.failure.as_ref().map(|(kind, why)| (CreationFailed::from(*kind), why.clone()));
        let failed = self.creation.barred.clone().or(failed);
        conditions.extend(failed.map(|(reason, message)| Condition::new(reason, message)));
        if self.creation.crds_outdated {
            conditions.push(Condition::new(CRDsOutdated::StatusFieldsPruned, CRDS_OUTDATED.to_owned()));
        }
        if let Some(message) = denied.annotations {
            conditions.push(Condition::new(AnnotationsDenied::Forbidden, message.to_owned()));
        }
        if let Some(message) = denied.labels.filter(|_| self.spec.labels != LabelMode::Off) {
            conditions.push(Condition::new(LabelsDenied::Forbidden, message.to_owned()));
        }
        let unwritten = self.memory.iter().flat_map(|memory| &memory.created).any(|created| !created.written);
        if let Some(message) = self.writes.ips.refusal.as_ref().filter(|_| unwritten) {
            conditions.push(Condition::new(WriteDenied::Refused, message.clone()));
        }
        conditions
    }

    /// The request of this pool that was refused for lack of rights and will be repeated.
    fn refusal(&self) -> Option<Condition> {
        let moved = self.ips.iter().filter(|(ip, _)| !self.report.active.contains_key(ip));
        let moved = moved.filter_map(|(_, record)| record.failure.as_ref());
        let moved = moved.map(|failure| (failure.kind, &failure.message));
        let created = self.creation.failure.iter().map(|(kind, message)| (*kind, message));
        let (kind, message) = moved.chain(created).find(|(kind, _)| *kind == FaultKind::Unauthorized)?;
        Some(Condition::new(ProviderReady::from(kind), message.clone()))
    }

    /// A refusal that the server's copy of the status does not have yet. The status has to report it before the token
    /// is proved again, which may take a minute. Once reported, it does not change until then.
    pub fn has_unreported_refusal(&self) -> bool {
        let known = |new: &Condition| {
            self.on_server.conditions.iter().any(|old| old.kind == new.kind && old.reason == new.reason)
        };
        self.refusal().is_some_and(|refusal| !known(&refusal))
    }

    /// An Event for each problem that is in this status and was not in the last one.
    pub fn news(&self, status: &PoolStatus) -> Vec<Notice> {
        let known = |new: &Condition| {
            let before = self.on_server.conditions.iter().find(|old| old.kind == new.kind);
            before.is_some_and(|old| old.status == new.status && old.reason == new.reason)
        };
        let fresh = status.conditions.iter().filter(|condition| !known(condition));
        fresh
            .filter_map(|condition| {
                let reason = problem_of(condition)?;
                Some(self.notice(true, reason, &condition.reason, condition.message.clone()))
            })
            .collect()
    }

    fn ready(&self, account: Option<&Account>, status: &PoolStatus) -> Condition {
        if self.spec.is_frozen() {
            let first = self.spec.problems.iter().min_by_key(|problem| problem.scope);
            let why = first.map(|problem| format!(" ({problem})")).unwrap_or_default();
            let message = format!("frozen: the spec is invalid{why}; existing assignments are kept");
            return Condition::new(Ready::InvalidSpec, message);
        }
        if !account.is_some_and(Account::is_known) {
            let why = account.and_then(provider_condition).map(|trouble| trouble.message);
            let message = match (account.is_some_and(Account::was_read), why) {
                (false, None) => "the provider has not been read yet".to_owned(),
                (false, Some(why)) => format!("the provider has not been read yet: {why}"),
                (true, None) => "the provider is being read again".to_owned(),
                (true, Some(why)) => format!("the provider cannot be read: {why}"),
            };
            return Condition::new(Ready::ProviderUnread, message);
        }
        if !self.nodes.matched {
            return Condition::new(Ready::NodesUnread, "the nodes have not been read yet".to_owned());
        }
        let (active, candidates) = (self.report.active.len(), self.candidates.len());
        let used = self.used().len();
        let goal = self.goal();
        let without = match status.waiting() {
            0 => "no matching node waits for one".to_owned(),
            1 => "1 matching node has none".to_owned(),
            many => format!("{many} matching nodes have none"),
        };
        let message = format!("{active} of {goal} addresses are on matching nodes; {without}");
        if goal == 0 {
            let message = "the pool has no address: name some in spec.ips, or set spec.desiredIPs and spec.region to have \
                           some created";
            Condition::new(Ready::NoAddresses, message.to_owned())
        } else if candidates == 0 {
            let why = self.nodes.no_match.text();
            let stay = if used > 0 { "; the addresses stay where they are" } else { "" };
            Condition::new(Ready::NoMatchingNode, format!("no node matches spec.match ({why}){stay}"))
        } else if active >= goal.min(candidates) {
            Condition::new(Ready::Assigned, message)
        } else if let Some(reason) = self.pause.reason() {
            Condition::new(Ready::Paused, format!("{message}; the pool is {}", reason.text()))
        } else if self.missing() > 0 && active == used {
            Condition::new(Ready::MissingAddresses, message)
        } else {
            let blocked = account.and_then(|account| self.blocked_for(account));
            let (reason, message) = match blocked {
                Some((reason, why)) => (reason, format!("{message}; {why}")),
                None => (Ready::Assigning, message),
            };
            Condition::new(reason, message)
        }
    }

    /// Applies `spec.minActive` to `Ready`. It replaces only the reasons of True. While `Ready` is Unknown, so is the
    /// number of active addresses.
    fn with_minimum(&self, ready: Condition) -> Condition {
        let Some(minimum) = self.spec.min_active.filter(|minimum| self.report.active.len() < *minimum) else {
            return ready;
        };
        let short = format!("fewer than spec.minActive ({minimum}) are active");
        if ready.has(Status::True) {
            let message = format!("{short}: {}", ready.message);
            Condition::new(Ready::BelowMinimum, message)
        } else if ready.has(Status::False) {
            let message = format!("{}; {short}", ready.message);
            ready.with_message(message)
        } else {
            ready
        }
    }

    fn spec_valid(&self) -> Condition {
        let problems = &self.spec.problems;
        match problems.iter().min_by_key(|problem| problem.scope) {
            None => Condition::new(SpecValid::Valid, String::new()),
            Some(worst) => {
                let reason = match worst.scope {
                    Scope::Size => SpecValid::TooLarge,
                    Scope::Pool => SpecValid::PoolFrozen,
                    Scope::Creation => SpecValid::CreationImpossible,
                    Scope::Entry => SpecValid::EntryIgnored,
                    Scope::RecordSet => SpecValid::RecordSetIgnored,
                    Scope::Minimum => SpecValid::MinActiveIgnored,
                    Scope::Grace => SpecValid::GraceIgnored,
                    Scope::Firewall => SpecValid::FirewallIgnored,
                    Scope::Labels => SpecValid::LabelsIgnored,
                    Scope::Reclaim => SpecValid::PolicyIgnored,
                    Scope::NodeCheck => SpecValid::NodeCheckIgnored,
                };
                let message: Vec<String> = problems.iter().map(ToString::to_string).collect();
                Condition::new(reason, message.join("; "))
            }
        }
    }

    fn conflict(&self) -> Option<Condition> {
        if self.report.claimed.is_empty() {
            return None;
        }
        let claimed = self
            .report
            .claimed
            .iter()
            .map(|(ip, owner)| format!("{ip} is claimed by the older pool {owner}"));
        Some(Condition::new(Conflict::AddressClaimed, enumerate(claimed)))
    }

    fn blocked_nodes(&self) -> Option<Condition> {
        let blocked: Vec<String> = self
            .candidates
            .waits()
            .filter(|(_, wait)| wait.is_error())
            .map(|(name, wait)| format!("{name}: {}", self.text_of(wait)))
            .collect();
        let reason = self.candidates.waits().find_map(|(_, wait)| wait.blocked())?;
        Some(Condition::new(reason, enumerate(blocked.into_iter())))
    }

    fn creation_uncertain(&self) -> Option<Condition> {
        let intent = self.memory.as_ref().and_then(|memory| memory.intent.as_ref());
        if let Some(uncertain) = intent.and_then(|intent| intent.uncertain.as_ref()) {
            let list = name_all(uncertain);
            let message = format!(
                "a creation was interrupted and one of these may be its result: {list}; add the right one to spec.ips"
            );
            return Some(Condition::new(CreationUncertain::SeveralNewAddresses, message));
        }
        if self.creation.orphans.is_empty() || self.missing() == 0 {
            return None;
        }
        let list = name_all(&self.creation.orphans);
        let message = format!(
            "these addresses are on matching nodes, no pool names them, and they may be this pool's: {list}; put them \
             into spec.ips, or take them off their {noun}s to have new ones created",
            noun = self.spec.noun()
        );
        Some(Condition::new(CreationUncertain::UnknownAddressesOnNodes, message))
    }

    fn stalled(&self, account: &Account, now: Moment) -> Option<Condition> {
        let stalled: Vec<String> = account
            .ops()
            .filter(|(_, op)| op.pool == self.object.uid && op.is_stalled(now))
            .map(|(ip, op)| match op.kind {
                OpKind::Assign => format!("{ip} to {}", op.node.1),
                OpKind::Unassign { .. } => format!("{ip} off {}", op.node.1),
            })
            .collect();
        (!stalled.is_empty()).then(|| {
            let message = format!(
                "pending at the provider for more than 5 min: {1}; see the actions of each {0} there",
                self.spec.noun(),
                enumerate(stalled.into_iter())
            );
            Condition::new(Stalled::ActionPending, message)
        })
    }
}

fn provider_condition(account: &Account) -> Option<Condition> {
    if account.machine_read() == MachineRead::Missing {
        let message = format!(
            "the token lacks the scope {}: without it every address looks unassigned, so FLIPOP assigns nothing",
            account.machines().read_scope
        );
        return Some(Condition::new(ProviderReady::ScopeMissing, message));
    }
    let trouble = account.trouble()?;
    Some(Condition::new(ProviderReady::from(trouble.kind), trouble.message.clone()))
}

/// Each condition that is a problem while it has this status, and the reason of the Event about it.
const PROBLEMS: [(ConditionType, Status, EventReason); 14] = [
    (ConditionType::SpecValid, Status::False, EventReason::InvalidSpec),
    (ConditionType::ProviderReady, Status::False, EventReason::ProviderNotReady),
    (ConditionType::AddressesIdle, Status::True, EventReason::AddressesIdle),
    (ConditionType::Conflict, Status::True, EventReason::Conflict),
    (ConditionType::NodesBlocked, Status::True, EventReason::NodesBlocked),
    (ConditionType::CreationUncertain, Status::True, EventReason::CreationUncertain),
    (ConditionType::Stalled, Status::True, EventReason::Stalled),
    (ConditionType::CRDsOutdated, Status::True, EventReason::CRDsOutdated),
    (ConditionType::AnnotationsDenied, Status::True, EventReason::AnnotationsDenied),
    (ConditionType::FirewallReady, Status::False, EventReason::FirewallNotReady),
    (ConditionType::LabelsDenied, Status::True, EventReason::LabelsDenied),
    (ConditionType::ReclaimBlocked, Status::True, EventReason::ReclaimBlocked),
    (ConditionType::WriteDenied, Status::True, EventReason::WriteDenied),
    (ConditionType::WatchFailing, Status::True, EventReason::WatchFailing),
];

/// The reason of the Event about a condition, if the condition is a problem without another Event.
fn problem_of(condition: &Condition) -> Option<EventReason> {
    let reported_elsewhere =
        [NodesBlocked::AssignmentFailed.as_str(), CreationUncertain::SeveralNewAddresses.as_str()];
    let is = |(kind, status, _): &&(ConditionType, Status, EventReason)| {
        condition.is(*kind) && condition.has(*status)
    };
    let problem =
        PROBLEMS.iter().find(is).filter(|_| !reported_elsewhere.contains(&condition.reason.as_str()));
    problem.map(|(.., event)| *event)
}

fn error_entry(message: &str) -> IpEntry {
    IpEntry { state: IpState::Error.as_str().to_owned(), error: message.to_owned(), ..IpEntry::default() }
}
