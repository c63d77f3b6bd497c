//! Labels of a node go before its address does: how long a move waits for that.
//!
//! Owns since when each move waits. The world says which nodes have which labels. The writer of labels removes them while
//! [`Pool::is_unlabelling`] says so.

use super::Pool;
use super::world::World;
use crate::mechanism::effects::Effects;
use crate::model::ids::{Address, Uid};
use crate::model::label_mode::LabelMode;
use crate::model::moment::Moment;
use std::collections::BTreeMap;

/// A move waits this long for the labels to go. A workload that follows them needs them gone first, and a failover must
/// not wait for an API server that does not answer.
const LONGEST_WAIT_MS: u64 = 500;

/// Moves that wait for labels to go.
#[derive(Debug, Default)]
pub(super) struct Unlabelling {
    /// Since when, and whether the plan that is being made still wants the move.
    since: BTreeMap<Address, (Moment, bool)>,
}

impl Unlabelling {
    /// A plan begins.
    pub(super) fn begin(&mut self) {
        self.since.values_mut().for_each(|(_, wanted)| *wanted = false);
    }

    /// A plan ends: moves that it no longer wants, or has begun, wait no more.
    pub(super) fn end(&mut self) {
        self.since.retain(|_, (_, wanted)| *wanted);
    }

    /// A move that this plan wants waits.
    pub(super) fn any(&self) -> bool {
        self.since.values().any(|(_, wanted)| *wanted)
    }

    /// This move waits.
    pub(super) fn wait(&mut self, (ip, since): (Address, Moment)) {
        self.since.insert(ip, (since, true));
    }
}

impl Pool {
    /// Since when a move of an address waits for labels to go, if it has to wait still. `to`: the node that gets it, whose
    /// labels may stay.
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
        world.labelled.get(&ip).filter(|uid| Some(*uid) != to)?;
        let since = self.unlabelling.since.get(&ip).map_or(world.now, |(since, _)| *since);
        let end = since.plus_millis(LONGEST_WAIT_MS);
        (end > world.now).then(|| {
            out.later(end);
            (ip, since)
        })
    }

    /// The labels that name this address have to go now, though it still stands there.
    #[must_use]
    pub(crate) fn is_unlabelling(&self, ip: Address) -> bool {
        self.unlabelling.since.contains_key(&ip)
    }

    /// The addresses whose moves wait.
    pub(crate) fn unlabelling(&self) -> impl Iterator<Item = Address> {
        self.unlabelling.since.keys().copied()
    }

    /// A plan begins: which moves still wait is found out anew.
    pub(crate) fn begin_plan(&mut self) {
        self.unlabelling.begin();
    }

    /// A plan has been made.
    pub(crate) fn end_plan(&mut self) {
        self.unlabelling.end();
    }
}
