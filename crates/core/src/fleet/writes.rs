//! Decides which statuses and which `spec.ips` of pools are written now. Also has the conditions about failures of the
//! shell that affect an object.

use super::Fleet;
use super::action::Action;
use super::firewalls::FirewallReport;
use crate::addresses::account::{Account, MachineRead};
use crate::addresses::pool::Pool;
use crate::addresses::pool::render::Denied;
use crate::addresses::pool::status::{PoolStatus, complete};
use crate::mechanism::{Effects, StatusWrite};
use crate::model::catalog::record_set::Unread;
use crate::model::catalog::shared::{EventsDenied, WatchFailing};
use crate::model::{Condition, ConditionType, Criteria, Moment, Uid, WatchKey};
use std::collections::BTreeMap;

impl Fleet {
    /// Writes the statuses and the `spec.ips` that are due.
    pub(super) fn plan_writes(&mut self, now: Moment, out: &mut Effects<Action>) {
        let mut firewalls = self.firewall_reports(now);
        self.plan_guards(now, out);
        self.write_going(&mut firewalls, now, out);
        let denied = Denied { annotations: self.annotations.denied(), labels: self.labels.denied() };
        let (draining, quiet_until) = (self.draining, self.quiet_until());
        let unavailable = self.checks_unavailable();
        let due: Vec<Uid> = self.attention.due.iter().cloned().collect();
        for uid in &due {
            let Some(pool) = self.pools.get_mut(uid).filter(|pool| !pool.deleting) else { continue };
            let before = out.additions();
            if draining && !pool.has_unrecorded_creation() {
                continue;
            }
            let account = self.accounts.get(&pool.spec.account_id);
            let trouble = watch_trouble(&self.watched.trouble, pool.spec.criteria.as_ref());
            if !is_told(pool, account, trouble.is_some()) {
                continue;
            }
            pool.recheck_crds(now);
            let mut status = pool.render(account, denied, now);
            if let Some(set) = self.dns.set(&pool.object.uid) {
                complete(&mut status, set.report.as_ref(), &pool.on_server);
            }
            if let Some(report) = firewalls.remove(&pool.object.uid) {
                report.complete(&mut status);
            }
            if let Some(trouble) = &trouble {
                name_cause(&mut status.conditions, trouble);
            }
            if self.events_denied {
                status.conditions.push(events_denied());
            }
            status.conditions.extend(unavailable.clone().filter(|_| pool.spec.check.is_some()));
            status.conditions.extend(pool.nodes.checked.doubted.clone());
            status.conditions.extend(trouble.map(watch_failing));
            status.conditions.sort();
            let owner = pool.owner();
            let unready = self.unready.entry(pool.object.uid.clone()).or_default();
            let conditions = (pool.on_server.conditions.as_slice(), status.conditions.as_slice());
            unready.tell(&owner, conditions, (quiet_until, now), out);
            let go_fields_only = pool.writes_go_fields_only(now, out);
            write_status(pool, status, go_fields_only, now, out);
            if !draining || pool.has_outdated_crds() {
                match pool.due_ips(now) {
                    Ok((add, remove)) if add.is_empty() && remove.is_empty() => {}
                    Ok((add, remove)) => {
                        out.act(Action::WriteIps { pool: pool.object.clone(), add, remove });
                    }
                    Err(at) => out.later(at),
                }
            }
            if out.additions() != before {
                self.attention.stirs(uid);
            }
        }
    }
}

/// Writes a pool's status if it differs and may be written, and sends Events about its new content.
fn write_status(
    pool: &mut Pool,
    status: PoolStatus,
    go_fields_only: bool,
    now: Moment,
    out: &mut Effects<Action>,
) {
    match pool.due_status(status, go_fields_only, now) {
        Ok(None) => {}
        Ok(Some(status)) => {
            out.tell(pool.news(&status));
            let (object, resource_version) = (pool.object.clone(), pool.resource_version.clone());
            let write = StatusWrite { object, resource_version, generation: pool.generation, status };
            out.act(Action::WriteStatus(Box::new(write)));
        }
        Err(at) => out.later(at),
    }
}

impl Fleet {
    /// Writes the finalizers that are due.
    fn plan_guards(&mut self, now: Moment, out: &mut Effects<Action>) {
        if self.draining {
            return;
        }
        let standing = self.pools_with_firewalls();
        let due: Vec<Uid> = self.attention.due.iter().cloned().collect();
        for uid in &due {
            let Some(pool) = self.pools.get_mut(uid) else { continue };
            let before = out.additions();
            match pool.due_guard(standing.contains(uid), now) {
                Ok(None) => {}
                Ok(Some(present)) => {
                    out.act(Action::WriteFinalizer { pool: pool.object.clone(), present });
                }
                Err(at) => out.later(at),
            }
            if out.additions() != before {
                self.attention.stirs(uid);
            }
        }
    }

    /// Writes the statuses of pools that are being deleted and give something back.
    fn write_going(
        &mut self,
        firewalls: &mut BTreeMap<Uid, FirewallReport>,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let draining = self.draining;
        let written =
            |pool: &&mut Box<Pool>| pool.is_going() && (!draining || pool.has_unrecorded_creation());
        for uid in &self.attention.due {
            let Some(pool) = self.pools.get_mut(uid).filter(written) else { continue };
            let mut status = pool.render_going(now);
            if let Some(report) = firewalls.remove(&pool.object.uid) {
                report.replace(&mut status);
            }
            status.conditions.sort();
            write_status(pool, status, false, now, out);
        }
    }
}

/// Whether enough is known for a status that will not change again a moment later. A restart alone must write nothing.
fn is_told(pool: &Pool, account: Option<&Account>, trouble: bool) -> bool {
    if pool.is_unread() {
        return false;
    }
    let Some(account) = account else { return true };
    let read = account.is_known() && pool.nodes.matched;
    read || trouble
        || pool.has_unrecorded_creation()
        || pool.spec.is_frozen()
        || account.trouble().is_some()
        || pool.has_unreported_refusal()
        || account.machine_read() == MachineRead::Missing
}

/// Why a watch that an object needs is failing.
pub(super) fn watch_trouble(
    troubles: &BTreeMap<WatchKey, String>,
    criteria: Option<&Criteria>,
) -> Option<String> {
    // The trouble of the nodes comes first.
    criteria?.watches().filter_map(|key| troubles.get(key)).last().cloned()
}

/// The condition that says that Events cannot be written.
pub(super) fn events_denied() -> Condition {
    let message =
        "the service account may not write events.k8s.io events, at least in one namespace; apply k8s/";
    Condition::new(EventsDenied::Forbidden, message.to_owned())
}

/// The condition of an object without any report so far, because its nodes or pods are not known yet.
pub(super) fn nodes_unread(trouble: &str) -> Condition {
    let message = format!("nodes or pods have not been read yet: {trouble}");
    Condition::new(Unread::NodesUnread, message)
}

/// Whether the condition says that nodes or pods were never read.
pub(super) fn is_unread(condition: &Condition) -> bool {
    condition.reason == Unread::NodesUnread.as_str()
}

/// Adds to `Ready` why nodes or pods are not read.
pub(super) fn name_cause(conditions: &mut [Condition], trouble: &str) {
    let unread = |condition: &&mut Condition| condition.is(ConditionType::Ready) && is_unread(condition);
    if let Some(condition) = conditions.iter_mut().find(unread) {
        condition.message = format!("nodes or pods have not been read yet: {trouble}");
    }
}

/// The condition that says that a watch of this object is failing.
pub(super) fn watch_failing(message: String) -> Condition {
    Condition::new(WatchFailing::Unreadable, message)
}
