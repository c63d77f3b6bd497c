//! Writes of pools' statuses and of `spec.ips`, and what their answers mean.

use super::Fleet;
use super::action::Action;
use super::troubles::{events_denied, name_cause, watch_failing, watch_trouble};
use crate::addresses::account::{Account, MachineRead};
use crate::addresses::pool::Pool;
use crate::addresses::pool::status::{PoolStatus, complete};
use crate::mechanism::effects::{Effects, WrittenStatus};
use crate::model::fault::WriteFailure;
use crate::model::ids::{Address, ObjectKind, Owner, Uid};
use crate::model::moment::{Context, Moment};

impl Fleet {
    /// Writes of statuses and of `spec.ips`.
    pub(super) fn plan_writes(&mut self, now: Moment, out: &mut Effects<Action>) {
        let denied = self.annotations.denied().map(str::to_owned);
        let (draining, quiet_until) = (self.draining, self.quiet_until());
        for pool in self.pools.values_mut().filter(|pool| !pool.deleting) {
            if draining && !pool.has_unrecorded_creation() {
                continue;
            }
            let account = self.accounts.get(&pool.spec.account_id);
            let trouble = watch_trouble(&self.watch_trouble, pool.spec.criteria.as_ref());
            if !is_told(pool, account, trouble.is_some()) {
                continue;
            }
            pool.recheck_crds(now);
            let mut status = pool.render(account, denied.as_deref(), now);
            if let Some(set) = self.dns.set(&pool.object.uid) {
                complete(&mut status, set.report.as_ref(), &pool.on_server);
            }
            if let Some(trouble) = &trouble {
                name_cause(&mut status.conditions, trouble);
            }
            if self.events_denied {
                status.conditions.push(events_denied());
            }
            status.conditions.extend(trouble.map(watch_failing));
            status.conditions.sort();
            pool.conditions = Some(status.conditions.clone());
            let owner = Owner { kind: ObjectKind::Pool, object: pool.object.clone() };
            let unready = self.unready.entry(pool.object.uid.clone()).or_default();
            let told = (pool.on_server.conditions.as_slice(), status.conditions.as_slice());
            unready.tell(&owner, told, (quiet_until, now), out);
            let go_fields_only = pool.writes_go_fields_only(now, out);
            if !status.same_as(&pool.on_server, go_fields_only) {
                match pool.writes.status_ready(now) {
                    Ok(()) => {
                        out.tell(pool.news(&status));
                        pool.writes.status_sent(status.clone());
                        out.act(Action::WriteStatus {
                            pool: pool.object.clone(),
                            resource_version: pool.resource_version.clone(),
                            generation: pool.generation,
                            status: Box::new(status),
                        });
                    }
                    Err(Some(at)) => out.later(at),
                    Err(None) => {}
                }
            }
            if !draining || pool.creation.crds_outdated {
                write_ips(pool, now, out);
            }
        }
    }

    pub(super) fn status_written(
        &mut self,
        uid: &Uid,
        result: Result<Box<WrittenStatus<PoolStatus>>, WriteFailure>,
        at @ Context { now, .. }: Context,
    ) {
        self.dirty = true;
        let Some(pool) = self.pools.get_mut(uid) else { return };
        let sent = pool.writes.status_done(result.as_ref().err(), at);
        let kept = match result {
            Ok(kept) => kept,
            Err(WriteFailure::Forbidden(_) | WriteFailure::Invalid(_) | WriteFailure::Gone) => {
                pool.status_refused(at);
                return;
            }
            Err(
                WriteFailure::NotSent
                | WriteFailure::Conflict
                | WriteFailure::Transient(_)
                | WriteFailure::Throttled { .. },
            ) => return,
        };
        if sent.is_some_and(|sent| sent.is_pruned_to(&kept.status)) {
            pool.crds_are_outdated(at);
        } else if kept.status.memory.is_some() || !kept.status.conditions.is_empty() {
            pool.crds_are_current(now);
        }
        if !pool.is_newer_than(&kept.resource_version) {
            pool.resource_version = kept.resource_version;
            pool.on_server = kept.status;
        }
    }

    pub(super) fn ips_written(
        &mut self,
        uid: &Uid,
        add: &[Address],
        result: &Result<(), WriteFailure>,
        at: Context,
    ) {
        self.dirty = true;
        let Some(pool) = self.pools.get_mut(uid) else { return };
        pool.writes.ips_done(result.as_ref().err(), at);
        if result.is_ok()
            && let Some(memory) = &mut pool.memory
        {
            memory
                .created
                .iter_mut()
                .filter(|created| add.contains(&created.ip))
                .for_each(|created| created.written = true);
        }
    }
}

/// A created address is written into `spec.ips` once, after the status remembers it; at once where the server's statuses
/// remember nothing, since it stands nowhere else then.
fn write_ips(pool: &mut Pool, now: Moment, out: &mut Effects<Action>) {
    let kept = |ip| pool.creation.crds_outdated || pool.on_server.remembers(ip);
    let add: Vec<Address> = pool
        .memory
        .iter()
        .flat_map(|memory| memory.created.iter().filter(|created| !created.written).map(|created| created.ip))
        .filter(|ip| kept(*ip))
        .collect();
    if add.is_empty() {
        return;
    }
    match pool.writes.ips_ready(now) {
        Ok(()) => {
            pool.writes.ips_sent();
            out.act(Action::WriteIps { pool: pool.object.clone(), add });
        }
        Err(Some(at)) => out.later(at),
        Err(None) => {}
    }
}

/// Whether enough is known for a status that will not be taken back a moment later: a restart must write nothing.
fn is_told(pool: &Pool, account: Option<&Account>, trouble: bool) -> bool {
    if pool.is_unread() {
        return false;
    }
    let Some(account) = account else { return true };
    let read = account.is_known() && pool.matched;
    read || trouble
        || pool.has_unrecorded_creation()
        || pool.spec.is_frozen()
        || account.trouble().is_some()
        || pool.has_untold_refusal()
        || account.machine_read() == MachineRead::Missing
}
