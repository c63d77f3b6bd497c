//! The last changes of addresses, for people who want to know later what happened.

use crate::addresses::pool::change::Change;
use crate::model::ids::Address;
use crate::model::moment::Moment;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of changes to keep. It is enough for a large failover and the events before it.
const MAX_KEPT: usize = 200;

/// The last changes, the oldest first. Snapshots share them, since they are taken far more often than a change happens.
#[derive(Debug, Default, Clone)]
pub(super) struct Changes(Arc<VecDeque<Change>>);

impl Changes {
    pub(super) fn push(&mut self, change: Change) {
        let kept = Arc::make_mut(&mut self.0);
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(change);
    }

    /// Notes that the records now hold an address that was confirmed at that moment.
    pub(super) fn published(&mut self, ip: Address, confirmed: Moment, now: Moment) {
        let is_it = |change: &&mut Change| change.ip == ip && change.at == confirmed;
        let phases = Arc::make_mut(&mut self.0).iter_mut().rev().find(is_it).map(|change| &mut change.phases);
        if let Some(Some(phases)) = phases {
            phases.published_ms = Some(now.millis_since(confirmed));
        }
    }

    pub(super) fn shared(&self) -> Arc<VecDeque<Change>> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::ObjectName;

    #[test]
    fn the_last_two_hundred_changes_are_kept() {
        let mut changes = Changes::default();
        for number in 0..250_u64 {
            changes.push(Change {
                at: Moment::from_millis(number),
                object: ObjectName { namespace: "n".into(), name: "p".into() },
                ip: Address::from([192, 0, 2, 1]),
                from: String::new(),
                to: String::new(),
                reason: String::new(),
                moved: None,
                phases: None,
                failover: None,
            });
        }
        let kept = changes.shared();
        assert_eq!(
            (kept.len(), kept[0].at, kept[199].at),
            (200, Moment::from_millis(50), Moment::from_millis(249))
        );
    }
}
