//! Every decision twice: by a state that leaves out pools at rest, and by one that looks at each pool anew.

use flipop_core::fleet::{Fleet, Input, Plan, Settings};
use flipop_core::model::{Context, Moment, WatchKey};
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

/// The state under test, and beside it a thorough one that takes in the same facts.
pub(crate) struct Twins {
    quick: Fleet,
    thorough: Fleet,
    /// The watches that the state under test wanted last.
    watches: Option<BTreeSet<WatchKey>>,
}

impl Twins {
    pub(crate) fn new(settings: Settings) -> Self {
        let thorough = Fleet::new(Settings { thorough: true, ..settings.clone() });
        Self { quick: Fleet::new(settings), thorough, watches: None }
    }

    pub(crate) fn observe(&mut self, input: Input, at: Context) {
        self.thorough.observe(input.clone(), at);
        self.quick.observe(input, at);
    }

    /// The plan of both.
    pub(crate) fn plan(&mut self, now: Moment) -> Plan {
        let (plan, thorough) = (self.quick.plan(now), self.thorough.plan(now));
        assert_eq!(plan.effects, thorough.effects, "a plan that leaves pools out does the same");
        assert_eq!((plan.wake, plan.fresh), (thorough.wake, thorough.fresh), "and is due at the same time");
        self.watches = plan.watches.clone().or_else(|| self.watches.take());
        assert!(thorough.watches.is_none() || thorough.watches == self.watches, "and wants the same watches");
        assert_eq!(self.quick.snapshot(), self.thorough.snapshot(), "and shows the same");
        assert_eq!(self.quick.checks().1, self.thorough.checks().1, "and checks the same nodes");
        plan
    }
}

impl Deref for Twins {
    type Target = Fleet;

    fn deref(&self) -> &Fleet {
        &self.quick
    }
}

impl DerefMut for Twins {
    fn deref_mut(&mut self) -> &mut Fleet {
        &mut self.quick
    }
}
