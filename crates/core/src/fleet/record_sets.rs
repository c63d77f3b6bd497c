//! The objects of kind `NodeDNSRecordSet` in the whole state, and the views of both kinds for DNS.

use super::Fleet;
use super::action::Action;
use super::writes::{events_denied, is_unread, nodes_unread, watch_failing, watch_trouble};
use crate::addresses::account::{Account, MachineRead};
use crate::addresses::pool::Pool;
use crate::mechanism::{Effects, Notice, StatusWrite, WrittenStatus, is_older};
use crate::model::catalog::events::EventReason;
use crate::model::pause::Reason;
use crate::model::spec::Scope;
use crate::model::{
    Address, Condition, ConditionType, Context, Moment, ObjectKind, Observed, Owner, Uid, WriteFailure,
};
use crate::records::action::Action as OfRecords;
use crate::records::node_set::NodeSet;
use crate::records::set::Set;
use crate::records::status::{RecordSetObject, RecordSetStatus, Reported};
use crate::records::view::{Choice, View};
use std::collections::BTreeSet;

impl Fleet {
    pub(super) fn observe_record_sets(&mut self, observed: Observed<RecordSetObject>, now: Moment) {
        self.dirty = true;
        match observed {
            Observed::Reset(seen) => {
                self.attention.specs_changed();
                let live: BTreeSet<Uid> = seen.iter().map(|set| set.object.uid.clone()).collect();
                self.record_sets.retain(|uid, _| live.contains(uid));
                self.names.retain(|(kind, _), uid| *kind == ObjectKind::Pool || live.contains(uid));
                for set in seen {
                    self.apply_record_set(set, now);
                }
                self.record_sets_listed = true;
            }
            Observed::Apply(set) => {
                let known = self.record_sets.get(&set.object.uid);
                if known.is_none_or(|known| !is_older(&set.resource_version, &known.resource_version)) {
                    self.apply_record_set(set, now);
                }
            }
            Observed::Delete(set) => {
                self.record_sets.remove(&set.object.uid);
                self.forget_name(ObjectKind::RecordSet, &set.object);
                self.attention.specs_changed();
            }
        }
    }

    fn apply_record_set(&mut self, seen: RecordSetObject, now: Moment) {
        let uid = seen.object.uid.clone();
        self.attention.touch(&uid);
        let former = self.name_object(ObjectKind::RecordSet, &seen.object);
        let replaced = former.is_some_and(|former| self.record_sets.remove(&former).is_some());
        let providers = &self.settings.providers;
        if let Some(set) = self.record_sets.get_mut(&uid) {
            let deleting = set.deleting;
            let edited = set.update(seen, providers);
            if edited || set.deleting != deleting || replaced {
                self.attention.specs_changed();
            }
            if !edited {
                return;
            }
        } else {
            self.record_sets.insert(uid.clone(), NodeSet::new(seen, providers));
            self.attention.specs_changed();
        }
        self.rematch(&uid, now);
    }

    /// The record sets of this plan, of both kinds, the oldest first.
    pub(super) fn views(&self) -> Vec<View> {
        let pools = self.due_pools().filter(|pool| !pool.deleting).filter_map(|pool| {
            let older = self
                .pools
                .values()
                .filter(|other| !other.deleting && other.seniority() < pool.seniority())
                .map(Box::as_ref);
            pool_view(pool, self.accounts.get(&pool.spec.account_id), older)
        });
        let sets = self.due_record_sets().filter(|set| !set.deleting).map(node_view);
        let mut views: Vec<View> = pools.chain(sets).collect();
        views.sort_by(|a, b| a.seniority().cmp(&b.seniority()));
        views
    }

    /// The pools of this plan that ask for no records, each with the records in its status. A pool with a mistake in
    /// its spec is not among them.
    fn bare(&self) -> Vec<(Owner, Reported)> {
        let pools = self.due_pools().filter(|pool| !pool.deleting && !pool.spec.is_frozen());
        let pools = pools.filter(|pool| pool.spec.record_set.is_none());
        pools
            .map(|pool| {
                let reported = pool.on_server.reported_records(pool.generation);
                (pool.owner(), Reported { current: false, ..reported })
            })
            .collect()
    }

    /// Decides about DNS.
    pub(super) fn plan_dns(&mut self, now: Moment, out: &mut Effects<OfRecords>) {
        let withdrawn = self.withdrawn();
        // The addresses that a pool gives back leave the records of every object.
        if self.dns.withdraws(!withdrawn.is_empty()) {
            self.widen();
        }
        let (mut views, bare, leaving) = (self.views(), self.bare(), self.leaving(&withdrawn));
        self.withdraw(&withdrawn, &mut views);
        let all = self.looks_at_all();
        self.dns.plan((all, &views, &bare, &leaving), &mut self.accounts, self.permit, now, out);
    }

    /// Writes the statuses of record sets.
    pub(super) fn plan_record_set_writes(&mut self, now: Moment, out: &mut Effects<Action>) {
        let unavailable = self.checks_unavailable();
        for uid in &self.attention.due.clone() {
            let before = out.additions();
            self.plan_record_set_write(uid, unavailable.as_ref(), now, out);
            if out.additions() != before {
                self.attention.stirs(uid);
            }
        }
    }

    fn plan_record_set_write(
        &mut self,
        uid: &Uid,
        unavailable: Option<&Condition>,
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let quiet_until = self.quiet_until();
        let Some(set) = self.record_sets.get_mut(uid).filter(|set| !set.deleting) else { return };
        let kept = self.dns.set(uid).and_then(Set::kept_until).is_some_and(|until| until > now);
        let losses = set.tell_losses(kept);
        let owner = Owner { kind: ObjectKind::RecordSet, object: set.object.clone() };
        out.tell(
            losses.map(|(warning, message)| {
                Notice::on(&owner, warning, EventReason::MatchLost, "match", message)
            }),
        );
        let trouble = watch_trouble(&self.watched.trouble, set.spec.criteria.as_ref());
        let report = self.dns.set(uid).and_then(|set| set.report.as_ref());
        let mut status = match report {
            Some(report) => set.render(report),
            None if trouble.is_some() => {
                let mut status = set.on_server.clone();
                // A report about a former spec does not apply to a spec that could not be followed yet.
                let stale = set.on_server.observed_generation != set.generation;
                let former = |condition: &Condition| {
                    let of_spec = [ConditionType::Ready, ConditionType::SpecValid];
                    stale && of_spec.into_iter().any(|kind| condition.is(kind))
                };
                // An unread state is reported again, with its present cause.
                let is_ours = |condition: &Condition| {
                    let anew = [ConditionType::WatchFailing, ConditionType::Paused];
                    anew.into_iter().any(|kind| condition.is(kind)) || is_unread(condition)
                };
                status.conditions.retain(|condition| !is_ours(condition) && !former(condition));
                if !status.conditions.iter().any(|condition| condition.is(ConditionType::Ready)) {
                    status.conditions.push(nodes_unread(trouble.as_deref().unwrap_or_default()));
                }
                status
            }
            None => return,
        };
        status.conditions.extend(set.paused.as_ref().map(Reason::condition));
        let unready = self.unready.entry(uid.clone()).or_default();
        let conditions = (set.on_server.conditions.as_slice(), status.conditions.as_slice());
        unready.tell(&owner, conditions, (quiet_until, now), out);
        if self.events_denied && report.is_some() {
            status.conditions.push(events_denied());
        }
        if report.is_some() {
            status.conditions.extend(unavailable.filter(|_| set.spec.check.is_some()).cloned());
            status.conditions.extend(set.nodes.checked.doubted.clone());
        }
        status.conditions.extend(trouble.map(watch_failing));
        status.conditions.sort();
        set.conditions = Some(status.conditions.clone());
        status.cut();
        let go_fields_until = set.writes_go_fields_until(now);
        out.later(go_fields_until);
        if status.same_as(&set.on_server, go_fields_until.is_some()) {
            return;
        }
        match set.writes.status_ready(now) {
            Ok(()) => {
                set.writes.status_sent(status.clone());
                let (object, resource_version) = (set.object.clone(), set.resource_version.clone());
                let write = StatusWrite { object, resource_version, generation: set.generation, status };
                out.act(Action::WriteRecordSetStatus(Box::new(write)));
            }
            Err(Some(at)) => out.later(at),
            Err(None) => {}
        }
    }

    pub(super) fn record_set_status_written(
        &mut self,
        uid: &Uid,
        result: Result<Box<WrittenStatus<RecordSetStatus>>, WriteFailure>,
        at: Context,
    ) {
        self.dirty = true;
        self.attention.touch(uid);
        let Some(set) = self.record_sets.get_mut(uid) else { return };
        let written = set.writes.status_done(result.as_ref().err(), at);
        let Ok(kept) = result else { return };
        set.kept(written.as_ref(), &kept.status, at);
        if !is_older(&kept.resource_version, &set.resource_version) {
            set.resource_version = kept.resource_version;
            set.on_server = kept.status;
        }
    }
}

fn node_view(set: &NodeSet) -> View {
    View {
        owner: Owner { kind: ObjectKind::RecordSet, object: set.object.clone() },
        created_at_s: set.created_at_s,
        generation: set.generation,
        spec: set.spec.set.clone(),
        paused: set.paused.clone(),
        finishing: BTreeSet::new(),
        problems: set.spec.obstacles().map(ToString::to_string).collect(),
        choice: set.choice(),
        reported: Reported::of_record_set(&set.on_server, set.generation),
        remarks: set.lacking().into_iter().collect(),
        no_match: set.nodes.no_match.text().to_owned(),
    }
}

fn pool_view<'a>(
    pool: &Pool,
    account: Option<&Account>,
    older: impl Iterator<Item = &'a Pool>,
) -> Option<View> {
    let problems = pool.spec.problems.iter().filter(|problem| problem.scope == Scope::RecordSet);
    let spec = pool.spec.record_set.clone()?;
    // Records that use the refused token wait too. The list finds out when the refusal ends.
    let elsewhere = spec.place.as_ref().is_some_and(|place| place.account_id != pool.spec.account_id);
    let choice = account.and_then(|account| {
        // A list that only waits for a proof will count soon.
        let refused = account.machine_read() == MachineRead::Missing || !account.is_authorised();
        let unread = elsewhere && refused && account.last_list().is_some();
        if unread { last_known_choice(pool, older) } else { pool_choice(pool, account) }
    });
    // After a pause the account is read first.
    let choice = choice.filter(|_| !pool.pause.is_lifting());
    Some(View {
        owner: pool.owner(),
        created_at_s: pool.created_at_s,
        generation: pool.generation,
        spec,
        paused: pool.pause.reason().cloned(),
        finishing: pool.pause.finishing().collect(),
        problems: problems.map(ToString::to_string).collect(),
        choice,
        reported: pool.on_server.reported_records(pool.generation),
        remarks: Vec::new(),
        no_match: pool.nodes.no_match.text().to_owned(),
    })
}

/// Chooses exactly the addresses that are confirmed on candidates. Addresses in an unknown state stay as they are.
fn pool_choice(pool: &Pool, account: &Account) -> Option<Choice> {
    if !pool.is_live() || !pool.nodes.matched || !account.is_known() {
        return None;
    }
    let placements = &pool.report.placements;
    let ours = pool.used().into_iter().filter(|ip| !pool.report.claimed.contains_key(ip));
    let confirmed = placements.iter().filter(|(_, placement)| placement.node().is_some());
    Some(Choice {
        addresses: confirmed.map(|(ip, _)| *ip).collect(),
        undecided: ours.filter(|ip| placements.get(ip).is_some_and(|place| place.is_undecided())).collect(),
        // While the only address moves, none is active.
        any_node: !pool.candidates.is_empty(),
        withdrawn: BTreeSet::new(),
    })
}

/// The addresses to publish for a pool whose account was read before and cannot be read now, because its token is
/// refused or lost a scope. Another token changes the records, and it still works. So the records follow the spec, and
/// changes by others are corrected.
///
/// Unknown places stay as they were confirmed. An address that was active at the last read is published while its node
/// matches. Any other address stays published if it is. It may serve there, because its node came back or somebody
/// moved it by hand.
fn last_known_choice<'a>(pool: &Pool, older: impl Iterator<Item = &'a Pool>) -> Option<Choice> {
    if !pool.is_live() || !pool.nodes.matched {
        return None;
    }
    let claimed: BTreeSet<Address> = older.flat_map(Pool::effective).collect();
    let ours = pool.used().into_iter().filter(|ip| !claimed.contains(ip));
    let (addresses, undecided): (BTreeSet<Address>, BTreeSet<Address>) =
        ours.partition(|ip| pool.report.placements.get(ip).is_some_and(|at| at.node().is_some()));
    // Without any, the wanted records are unknown.
    (!addresses.is_empty()).then_some(Choice {
        addresses,
        undecided,
        any_node: false,
        withdrawn: BTreeSet::new(),
    })
}
