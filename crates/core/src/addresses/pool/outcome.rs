//! The effect of an ended operation on the pool that started it: counts, the cool-off, and which nodes and addresses
//! have to wait.

use super::Pool;
use super::assign::Deprioritized;
use crate::addresses::account::op::{End, OpKind};
use crate::addresses::account::{Account, Finished};
use crate::mechanism::{Failure, Notice};
use crate::model::catalog::events::EventReason;
use crate::model::{Address, Context, FaultKind, Moment, Uid};
use std::fmt;

/// The number of nodes in a row that could not take an address before the address itself counts as the cause.
const REFUSALS_THAT_BLAME_THE_ADDRESS: usize = 2;

/// The number of failures in a row after which a node goes behind others, whatever the cause.
const FAILURES_THAT_SET_A_NODE_BACK: u32 = 2;

/// Whether the address may be the cause, so that its node should get another one.
fn says_something_of_the_address(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Transient | FaultKind::Permanent | FaultKind::NotFound | FaultKind::Invalid)
}

impl Pool {
    /// Takes in the end of an operation of this pool.
    pub fn finished(
        &mut self,
        finished: &Finished,
        account: &mut Account,
        at @ Context { now, .. }: Context,
        news: &mut Vec<Notice>,
    ) {
        let Finished { ip, op, end } = finished;
        let assigns = op.kind == OpKind::Assign;
        if assigns && !matches!(end, End::Refused(..) | End::NotSent) && !op.was_refused() {
            // An accepted or unknown outcome starts the cool-off, and a refusal does not.
            self.last_assigned = self.last_assigned.max(Some(op.started));
        }
        let node = &op.node.1;
        let over = op.whole && account.outage_ended_since(op.started);
        self.move_ended(*ip, op, end, at, news);
        match end {
            End::NotSent => {}
            End::Done => {
                if let Some(memory) = &mut self.memory {
                    memory.stands(*ip, op.target().as_ref());
                }
                let record = self.ips.entry(*ip).or_default();
                (record.failure, record.error) = (None, None);
                if assigns {
                    record.assignments += 1;
                    self.forget_failures_of(*ip, &op.node.0);
                    news.push(self.notice(
                        false,
                        EventReason::Assigned,
                        format!("{ip}:{node}"),
                        format!("assigned {ip} to node {node} ({})", op.machine),
                    ));
                } else {
                    let mut why = "to release it";
                    if let OpKind::Unassign { successor: Some(successor) } = op.kind {
                        self.roomy.insert(op.node.0.clone(), successor);
                        why = "to make room";
                    }
                    news.push(self.notice(
                        false,
                        EventReason::Unassigned,
                        ip,
                        format!("unassigned {ip} from node {node} {why}"),
                    ));
                }
            }
            End::Errored(message) => {
                self.failed(*ip, finished, (FaultKind::Transient, message), true, at, news);
            }
            End::AddressGone => {
                let message = "the account does not have this address";
                self.failed(*ip, finished, (FaultKind::NotFound, message), false, at, news);
            }
            End::Refused(kind, message) | End::Failed(kind, message) => {
                if *kind == FaultKind::NodeInUse {
                    // That machine has an address that the last list did not show.
                    account.want_list(now);
                }
                self.failed(*ip, finished, (*kind, message), false, at, news);
            }
        }
        if over {
            self.moving.retry.release(now);
            self.ips.entry(*ip).and_modify(|record| Failure::release(&mut record.failure, now));
            self.node_failures.entry(op.node.0.clone()).and_modify(|failure| failure.retry.release(now));
        }
    }

    /// Makes every request due that failed with the account, because the outage is over.
    pub(crate) fn release(&mut self, now: Moment) {
        self.moving.retry.release(now);
        self.creation.retry.release(now);
        self.ips.values_mut().for_each(|record| Failure::release(&mut record.failure, now));
        self.node_failures.values_mut().for_each(|failure| failure.retry.release(now));
        self.release_reclaims(now);
    }

    /// Forgets the failures of an address that serves, and of its node.
    pub(super) fn forget_failures_of(&mut self, ip: Address, node: &Uid) {
        let record = self.ips.entry(ip).or_default();
        (record.failure, record.error, record.deprioritized) = (None, None, None);
        record.refused_by.clear();
        self.node_failures.remove(node);
        self.deprioritized.remove(node);
    }

    fn failed(
        &mut self,
        ip: Address,
        finished: &Finished,
        (kind, message): (FaultKind, &str),
        errored: bool,
        at: Context,
        news: &mut Vec<Notice>,
    ) {
        let op = &finished.op;
        let (node, name) = &op.node;
        let gone = finished.end == End::AddressGone;
        let record = self.ips.entry(ip).or_default();
        if Deprioritized::place(record.deprioritized, at.now) == 0 {
            record.refused_by.clear();
        }
        if matches!(kind, FaultKind::Invalid | FaultKind::Permanent) {
            record.refused_by.insert(node.clone());
        }
        let blamed = record.refused_by.len() >= REFUSALS_THAT_BLAME_THE_ADDRESS;
        let (ip_waits, node_waits, mut deprioritized) = match kind {
            FaultKind::Transient => (true, true, errored),
            FaultKind::InProgress => (true, true, false),
            FaultKind::Throttled | FaultKind::Unauthorized | FaultKind::Quota => (true, false, false),
            FaultKind::NotFound => (gone, !gone, !gone),
            FaultKind::NodeInUse => (false, true, true),
            FaultKind::Permanent | FaultKind::Invalid => (blamed, true, true),
        };
        // A failure that only takes time is not an error. An occupied machine is not an error of the address.
        let of_the_address = !matches!(kind, FaultKind::InProgress | FaultKind::NodeInUse);
        record.error = of_the_address.then(|| (kind, message.to_owned()));
        let unassigns = op.kind != OpKind::Assign;
        let pace = op.pace(kind, at.now);
        if ip_waits || unassigns {
            let input = (op.from.clone(), self.spec_version);
            Failure::note(&mut record.failure, (kind, message), input, pace, at);
        }
        if node_waits && !unassigns {
            let mut slot = self.node_failures.remove(node);
            let input = self
                .candidates
                .get(name)
                .map_or_else(|| op.machine.provider_id(), |c| c.node.provider_id.clone());
            Failure::note(&mut slot, (kind, message), (input, self.spec_version), pace, at);
            if let Some(failure) = slot {
                deprioritized |= failure.retry.tries() >= FAILURES_THAT_SET_A_NODE_BACK;
                self.node_failures.insert(node.clone(), failure);
            }
        }
        if deprioritized && !unassigns {
            let deprioritized = Deprioritized::since(self.tick(), at.now);
            self.deprioritized.insert(node.clone(), deprioritized);
        }
        if says_something_of_the_address(kind) && !unassigns {
            let deprioritized = Deprioritized::since(self.tick(), at.now);
            self.ips.entry(ip).or_default().deprioritized = Some(deprioritized);
        }
        // It is not an error if the provider is busy with an earlier request.
        if kind != FaultKind::InProgress {
            if !unassigns {
                self.ips.entry(ip).or_default().errors += 1;
            }
            let (what, node) = if unassigns { ("unassign", "from") } else { ("assign", "to") };
            news.push(self.notice(
                true,
                EventReason::AssignmentFailed,
                format!("{ip}:{name}"),
                format!("failed to {what} {ip} {node} node {name}: {kind}: {message}"),
            ));
        }
    }

    /// The successful and the failed assignments of an address since the process started.
    pub(crate) fn tally(&self, ip: Address) -> (u64, u64) {
        self.ips.get(&ip).map_or((0, 0), |record| (record.assignments, record.errors))
    }

    /// An Event on this pool.
    pub fn notice(
        &self,
        warning: bool,
        reason: EventReason,
        subject: impl fmt::Display,
        message: String,
    ) -> Notice {
        Notice::on(&self.owner(), warning, reason, subject, message)
    }
}
