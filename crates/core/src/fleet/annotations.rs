//! The annotations of nodes, which name their addresses.
//!
//! Invariants: FLIPOP writes a value only for an address that the provider confirmed on a candidate, and removes it as
//! soon as that ends. One write per node is under way at a time. Values of other field managers stay, unless a pool
//! confirms its own address there.

use super::action::{Action, MarkedNode, Sweep};
use super::node_writes::NodeWrites;
use crate::mechanism::{Effects, Pace, Retry};
use crate::model::{Address, Context, Moment, NodeFacts, Observed, Uid, WriteFailure};
use std::collections::{BTreeMap, BTreeSet};

/// Between two sweeps for left-over values.
const SWEEP_INTERVAL_MS: u64 = 600_000;

/// A node's annotation as last seen or written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    name: String,
    value: Option<String>,
}

/// The annotations that nodes should have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Desired {
    /// By the node's uid: its name and its address.
    pub(super) confirmed: BTreeMap<Uid, (String, Address)>,
    /// Addresses of pools about which too little is known to remove an annotation.
    pub(super) protected: BTreeSet<Address>,
    /// Nodes that match, each with the addresses that may be on them. Nothing newer is known.
    pub(super) unconfirmed: Vec<(BTreeSet<Uid>, BTreeSet<Address>)>,
}

impl Desired {
    /// Whether it only says which nodes should have which address.
    pub(super) fn is_only_confirmed(&self) -> bool {
        self.protected.is_empty() && self.unconfirmed.is_empty()
    }

    /// Adds the annotations for another pool.
    pub(super) fn extend(&mut self, other: Self) {
        self.confirmed.extend(other.confirmed);
        self.protected.extend(other.protected);
        self.unconfirmed.extend(other.unconfirmed);
    }

    pub(super) fn protects(&self, uid: &Uid, ip: Address) -> bool {
        self.protected.contains(&ip)
            || self.unconfirmed.iter().any(|(nodes, ips)| nodes.contains(uid) && ips.contains(&ip))
    }
}

/// State of the annotations.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    seen: BTreeMap<Uid, Seen>,
    changed: bool,
    /// Values of ours that nodes may have.
    standing: BTreeMap<Uid, (String, Address)>,
    writes: NodeWrites<Option<Address>>,
    sweep: Option<Retry>,
    /// A sweep has ended since leadership began.
    swept: bool,
    /// At least some nodes were read since leadership began.
    listed: bool,
    /// A sweep is under way. True if it began before leadership.
    sweeping: Option<bool>,
}

impl Annotations {
    /// Starts again when leadership begins. A sweep is due as soon as pools and accounts are known. A sweep under way
    /// proves nothing.
    pub(super) fn restart(&mut self) {
        self.sweeping.iter_mut().for_each(|outdated| *outdated = true);
        self.sweep.get_or_insert_default().put_off_to(Moment::default());
        (self.swept, self.listed) = (false, false);
        self.look_at(None);
    }

    /// Has the next plan look at these nodes, or at every node (`None`).
    pub(super) fn look_at(&mut self, nodes: Option<BTreeSet<Uid>>) {
        self.writes.look_at(nodes);
    }

    /// Whether a node is known to carry an address, and nothing is about to change that.
    pub(super) fn has(&self, uid: &Uid, ip: Address) -> bool {
        !self.writes.is_under_way(uid) && self.standing.get(uid).is_some_and(|(_, standing)| *standing == ip)
    }

    /// Whether an annotation of ours may name an address. `None` until a sweep has read all nodes.
    pub(super) fn names(&self, ip: Address) -> Option<bool> {
        let names = |(uid, (_, standing)): (&Uid, &(String, Address))| {
            *standing == ip || self.writes.is_under_way(uid)
        };
        self.swept.then(|| self.standing.iter().any(names))
    }

    /// Why a wanted annotation is refused, if one is.
    pub(super) fn denied(&self) -> Option<&str> {
        self.writes.denied()
    }

    /// Takes in a step of a watch of nodes. `of_pool` says that a pool uses the watch. A value that only a record
    /// set's watch shows also counts for pools, including later ones. A value that such a watch no longer shows is
    /// forgotten, and at worst written once more.
    pub(super) fn observe(&mut self, observed: &Observed<NodeFacts>, of_pool: bool) {
        match observed {
            Observed::Reset(nodes) => nodes.iter().for_each(|node| self.see(node, of_pool)),
            Observed::Apply(node) => self.see(node, of_pool),
            Observed::Delete(node) if !of_pool => {
                self.seen.remove(&node.uid);
                self.writes.look_at_one(&node.uid);
            }
            Observed::Delete(node) => {
                self.writes.look_at_one(&node.uid);
                // The node may only have left the filter. Its value is then removed unseen.
                self.changed |= self.seen.remove(&node.uid).is_some_and(|seen| seen.value.is_some());
            }
        }
    }

    fn see(&mut self, node: &NodeFacts, of_pool: bool) {
        if of_pool {
            self.claim(node);
        }
        if node.annotation.is_none() && !self.seen.contains_key(&node.uid) {
            return;
        }
        let seen = Seen { name: node.name.clone(), value: node.annotation.clone() };
        if self.seen.insert(node.uid.clone(), seen.clone()) != Some(seen) {
            self.changed = true;
            self.writes.look_at_one(&node.uid);
        }
    }

    /// Notes a value of ours that shows late. An older event may have made it look as if others had removed it. Before
    /// the first sweep too little is known to call a value left over.
    fn claim(&mut self, node: &NodeFacts) {
        let value = node.annotation.as_deref().filter(|_| self.swept && node.annotation_ours);
        if let Some(ip) = value.and_then(Address::v4)
            && !self.standing.contains_key(&node.uid)
            && !self.writes.is_under_way(&node.uid)
        {
            self.standing.insert(node.uid.clone(), (node.name.clone(), ip));
            self.writes.look_at_one(&node.uid);
            self.changed = true;
        }
    }

    /// Whether an annotation changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Forgets failures on nodes that have no wanted writes.
    pub(super) fn forget_failures(&mut self, desired: &Desired) {
        let standing = &self.standing;
        self.writes.keep_failures(|uid| desired.confirmed.contains_key(uid) || standing.contains_key(uid));
    }

    /// Decides on writes. `listed` says that nodes of some pool were read.
    pub(super) fn plan(
        &mut self,
        desired: &Desired,
        (listed, may_sweep): (bool, bool),
        now: Moment,
        out: &mut Effects<Action>,
    ) {
        let all = || desired.confirmed.keys().chain(self.standing.keys()).cloned().collect();
        let due = self.writes.take_due(all);
        self.listed |= listed || self.swept;
        for uid in due {
            match desired.confirmed.get(&uid) {
                Some((name, ip)) => self.look_at_wanted(uid, name, *ip),
                None => self.look_at_left(uid, desired),
            }
        }
        let action = |node, uid, value| Action::Annotate { node, uid, value };
        self.writes.begin_waiting(now, out, action);
        self.plan_sweep(may_sweep, now, out);
    }

    fn look_at_wanted(&mut self, uid: Uid, name: &str, ip: Address) {
        let stands = self.seen.get(&uid).is_some_and(|seen| seen.value.as_deref() == Some(&ip.to_string()));
        if stands {
            // A write whose answer was lost may have done it.
            self.writes.succeeded(&uid);
            self.standing.insert(uid, (name.to_owned(), ip));
        } else {
            self.writes.wait(uid, false, (name.to_owned(), Some(ip)));
        }
    }

    fn look_at_left(&mut self, uid: Uid, desired: &Desired) {
        let Some((name, ip)) = self.standing.get(&uid).cloned() else { return };
        if !self.listed || desired.protects(&uid, ip) {
            self.writes.look_at_one(&uid);
            return;
        }
        let other = self.seen.get(&uid).is_some_and(|seen| seen.value != Some(ip.to_string()));
        if other && !self.writes.is_under_way(&uid) {
            // Someone else has removed or replaced it already.
            self.standing.remove(&uid);
        } else {
            self.writes.wait(uid, true, (name, None));
        }
    }

    fn plan_sweep(&mut self, may_sweep: bool, now: Moment, out: &mut Effects<Action>) {
        let Some(sweep) = self.sweep.filter(|_| may_sweep && self.sweeping.is_none()) else { return };
        if sweep.due() > now {
            out.later(sweep.due());
        } else {
            self.sweeping = Some(false);
            out.act(Action::SweepAnnotations);
        }
    }

    /// Takes in the answer to a write.
    pub(super) fn written(
        &mut self,
        node: String,
        uid: Uid,
        value: Option<Address>,
        result: Result<(), WriteFailure>,
        at: Context,
    ) {
        self.writes.end(&uid);
        match result {
            Ok(()) => {
                self.writes.succeeded(&uid);
                match value {
                    Some(ip) => self.standing.insert(uid.clone(), (node.clone(), ip)),
                    None => self.standing.remove(&uid),
                };
                self.seen.insert(uid, Seen { name: node, value: value.map(|ip| ip.to_string()) });
            }
            Err(WriteFailure::Gone) => {
                // The node is gone, or another node has its name. So this one has no value of ours.
                self.standing.remove(&uid);
                self.seen.remove(&uid);
                if value.is_some() {
                    self.writes.failed(uid, &WriteFailure::Conflict, at);
                } else {
                    self.writes.succeeded(&uid);
                }
            }
            Err(WriteFailure::NotSent) => {}
            Err(failure) => self.writes.failed(uid, &failure, at),
        }
    }

    /// Takes in the answer to the sweep. From now on FLIPOP may remove the values of ours that it found. Returns the
    /// nodes if the sweep counts.
    pub(super) fn swept(
        &mut self,
        result: Result<Sweep, WriteFailure>,
        at @ Context { now, .. }: Context,
    ) -> Option<Sweep> {
        if self.sweeping.take() == Some(true) {
            return None;
        }
        match result {
            Ok(sweep) => {
                self.swept = true;
                self.look_at(None);
                self.sweep = Some(Retry::at(now.plus_millis(SWEEP_INTERVAL_MS)));
                for MarkedNode { name, uid, value, ours, .. } in &sweep.marked {
                    let Some(ip) = value.as_deref().and_then(Address::v4) else { continue };
                    self.seen.insert(uid.clone(), Seen { name: name.clone(), value: value.clone() });
                    if *ours {
                        self.standing.insert(uid.clone(), (name.clone(), ip));
                    }
                }
                Some(sweep)
            }
            Err(failure) => {
                self.sweep.get_or_insert_default().failed(Pace::of_write(&failure), at);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::node_writes::MAX_IN_FLIGHT;
    use crate::mechanism::Effect;
    use crate::model::node_labels::NodeLabels;

    /// The writes that a plan starts.
    fn plan(annotations: &mut Annotations, desired: &Desired) -> Vec<(String, Uid, Option<Address>)> {
        annotations.look_at(None);
        let mut out = Effects::default();
        annotations.plan(desired, (true, false), Moment::default(), &mut out);
        let write = |effect| {
            let Effect::Do(Action::Annotate { node, uid, value }) = effect else { panic!("{effect:?}") };
            (node, uid, value)
        };
        out.into_vec().into_iter().map(write).collect()
    }

    #[test]
    fn of_many_nodes_a_few_are_written_at_a_time_and_in_the_end_all() {
        let mut annotations = Annotations::default();
        let mut desired = Desired::default();
        for number in 0..100 {
            let ip = Address::from([192, 0, 2, number]);
            desired.confirmed.insert(Uid(format!("u{number}").into()), (format!("n{number}"), ip));
        }
        let mut under_way = plan(&mut annotations, &desired);
        let mut written = 0;
        while let Some((node, uid, value)) = under_way.pop() {
            assert!(under_way.len() < MAX_IN_FLIGHT);
            // A write that fails also makes room for others.
            let result = if written == 0 { Err(WriteFailure::Conflict) } else { Ok(()) };
            annotations.written(node, uid, value, result, Context::exactly(Moment::default()));
            written += 1;
            under_way.extend(plan(&mut annotations, &desired));
        }
        assert_eq!((written, annotations.standing.len()), (100, 99));
    }

    #[test]
    fn an_event_that_is_older_than_our_write_leaves_nothing_behind() {
        let mut annotations = Annotations::default();
        annotations.restart();
        annotations.swept(Ok(Sweep::default()), Context::exactly(Moment::default()));
        let (uid, ip) = (Uid("u".into()), Address::from([192, 0, 2, 1]));
        let seen = |annotation: Option<String>, ours| NodeFacts {
            name: "n".to_owned(),
            uid: Uid("u".into()),
            ready: true.into(),
            annotation,
            annotation_ours: ours,
            ..NodeFacts::default()
        };
        annotations.written(
            "n".to_owned(),
            uid.clone(),
            Some(ip),
            Ok(()),
            Context::exactly(Moment::default()),
        );
        annotations.observe(&Observed::Apply(seen(None, false)), true);
        assert_eq!(plan(&mut annotations, &Desired::default()), []);
        annotations.observe(&Observed::Apply(seen(Some("192.0.2.2".to_owned()), false)), true);
        assert_eq!(plan(&mut annotations, &Desired::default()), [], "what others wrote stays");
        annotations.observe(&Observed::Apply(seen(Some(ip.to_string()), true)), true);
        assert!(annotations.take_changed());
        assert_eq!(plan(&mut annotations, &Desired::default()), [("n".to_owned(), uid, None)]);
    }

    #[test]
    fn after_a_gap_in_the_leadership_nothing_is_removed_before_nodes_were_read() {
        let (uid, ip) = (Uid("u".into()), Address::from([192, 0, 2, 1]));
        let now = Context::exactly(Moment::default());
        for listed in [true, false] {
            let mut annotations = Annotations::default();
            annotations.written("n".to_owned(), uid.clone(), Some(ip), Ok(()), now);
            annotations.restart();
            let removed = |annotations: &mut Annotations, listed| {
                let mut out = Effects::default();
                annotations.look_at(None);
                annotations.plan(&Desired::default(), (listed, false), Moment::default(), &mut out);
                out.into_vec().len()
            };
            assert_eq!(removed(&mut annotations, false), 0);
            if !listed {
                annotations.swept(Err(WriteFailure::Conflict), now);
                assert_eq!(removed(&mut annotations, false), 0);
                annotations.swept(Ok(Sweep::default()), now);
            }
            let also = |annotations: &mut Annotations| {
                annotations.written("m".to_owned(), Uid("m".into()), Some(ip), Ok(()), now);
                removed(annotations, false)
            };
            assert_eq!(removed(&mut annotations, listed), 1);
            assert_eq!(also(&mut annotations), 1, "also when no pool is left that asks for nodes");
        }
    }

    #[test]
    fn a_sweep_that_was_begun_before_a_gap_in_the_leadership_tells_nothing() {
        let mut annotations = Annotations::default();
        let sweeps = |annotations: &mut Annotations| {
            let mut out = Effects::default();
            annotations.look_at(None);
            annotations.plan(&Desired::default(), (true, true), Moment::default(), &mut out);
            let effects = out.into_vec();
            let sweeps = |effect: &Effect<_>| matches!(effect, Effect::Do(Action::SweepAnnotations));
            assert!(effects.iter().all(sweeps), "{effects:?}");
            effects.len()
        };
        annotations.restart();
        assert_eq!((sweeps(&mut annotations), sweeps(&mut annotations)), (1, 0));
        annotations.restart();
        assert_eq!(sweeps(&mut annotations), 0, "one at a time");
        let left = |name: &str, ip: &str| MarkedNode {
            name: name.to_owned(),
            uid: Uid(name.into()),
            value: Some(ip.to_owned()),
            ours: true,
            labels: NodeLabels::default(),
        };
        let found = Sweep { marked: vec![left("n", "192.0.2.1")], ..Sweep::default() };
        annotations.swept(Ok(found), Context::exactly(Moment::default()));
        assert_eq!(sweeps(&mut annotations), 1, "at once, and nothing is removed");
        annotations.swept(Ok(Sweep::default()), Context::exactly(Moment::default()));
        assert_eq!(sweeps(&mut annotations), 0);
    }

    #[test]
    fn a_removal_that_met_a_conflict_is_tried_again() {
        let mut annotations = Annotations::default();
        let (uid, ip) = (Uid("u".into()), Address::from([192, 0, 2, 1]));
        annotations.written(
            "n".to_owned(),
            uid.clone(),
            Some(ip),
            Ok(()),
            Context::exactly(Moment::default()),
        );
        let removal = [("n".to_owned(), uid.clone(), None)];
        assert_eq!(plan(&mut annotations, &Desired::default()), removal);
        let conflict = Err(WriteFailure::Conflict);
        annotations.written("n".to_owned(), uid, None, conflict, Context::exactly(Moment::default()));
        let mut out = Effects::default();
        annotations.look_at(None);
        annotations.plan(&Desired::default(), (true, false), Moment::from_millis(5_000), &mut out);
        let effects = out.into_vec();
        assert!(
            matches!(effects.as_slice(), [Effect::Do(Action::Annotate { value: None, .. })]),
            "{effects:?}"
        );
    }
}
