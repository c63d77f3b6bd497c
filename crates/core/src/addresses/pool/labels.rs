//! How long a move waits until the labels of the address's node are removed. They go before the address does.
//!
//! Owns the start of each wait. The world says which nodes have which labels. The writer of labels removes them while
//! [`Pool::is_unlabelling`] says so.

use super::Pool;
use super::world::World;
use crate::mechanism::Effects;
use crate::model::label_mode::LabelMode;
use crate::model::{Address, Moment, Uid};
use std::collections::BTreeMap;

/// The longest wait of a move for the removal of labels. A workload that follows the labels needs them gone first, but
/// a failover must not wait for an API server that does not answer.
const LONGEST_WAIT_MS: u64 = 500;

/// The moves that wait for the removal of labels.
#[derive(Debug, Default)]
pub(super) struct Unlabelling {
    /// When each wait began, and whether the present plan still wants the move.
    since: BTreeMap<Address, (Moment, bool)>,
}

impl Unlabelling {
    /// Starts a plan.
    pub(super) fn begin(&mut self) {
        self.since.values_mut().for_each(|(_, wanted)| *wanted = false);
    }

    /// Ends a plan. Moves that it has begun or no longer wants stop waiting.
    pub(super) fn end(&mut self) {
        self.since.retain(|_, (_, wanted)| *wanted);
    }

    /// Whether a move that this plan wants is waiting.
    pub(super) fn any(&self) -> bool {
        self.since.values().any(|(_, wanted)| *wanted)
    }

    /// Whether no move waits.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// Notes that this move waits.
    pub(super) fn wait(&mut self, (ip, since): (Address, Moment)) {
        self.since.insert(ip, (since, true));
    }
}

impl Pool {
    /// When the move of an address began to wait for the removal of labels, if it still has to wait. `to` is the node
    /// that gets it, whose labels may stay.
    pub(super) fn waits_for_labels<A>(
        &self,
        ip: Address,
        to: Option<&Uid>,
        world: &World<'_>,
        out: &mut Effects<A>,
    ) -> Option<(Address, Moment)> {
        if self.spec.labels == LabelMode::Off {
            return None;
        }
        world.labelled.get(&ip).filter(|nodes| nodes.iter().any(|uid| Some(uid) != to))?;
        let since = self.unlabelling.since.get(&ip).map_or(world.now, |(since, _)| *since);
        let end = since.plus_millis(LONGEST_WAIT_MS);
        (end > world.now).then(|| {
            out.later(end);
            (ip, since)
        })
    }

    /// Whether the labels that name this address have to be removed now, although it is still on their node.
    pub(crate) fn is_unlabelling(&self, ip: Address) -> bool {
        self.unlabelling.since.contains_key(&ip)
    }

    /// The addresses whose moves wait.
    pub(crate) fn unlabelling(&self) -> impl Iterator<Item = Address> {
        self.unlabelling.since.keys().copied()
    }

    /// Starts a plan, which finds out again which moves wait.
    pub(crate) fn begin_plan(&mut self) {
        self.unlabelling.begin();
    }

    /// Ends a plan.
    pub(crate) fn end_plan(&mut self) {
        self.unlabelling.end();
    }
}
