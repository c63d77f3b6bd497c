//! Which keys share a watch.
//!
//! Each watch is a connection of its own, so a thousand selectors would cost a thousand of them. The planner knows the
//! wanted keys and how many pods there are. It starts nothing.
//!
//! Invariants: every wanted key of a group is selected by the group's watch. A key without a group has a watch of its
//! own. A plan changes only if that saves [`SAVED`] watches, if it saves few already, if a group may not be read, or if
//! it has come to select far more pods than it saves.

use super::handover::SourceId;
use flipop_core::model::selector::Selector;
use flipop_core::model::{Moment, WatchKey};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A plan has to save so many watches. So up to eight selectors keep watches of their own.
const SAVED: usize = 8;

/// Groups that have saved fewer watches than this for [`FEW_MS`] are dissolved.
const FEW: usize = SAVED / 2;
const FEW_MS: u64 = 600_000;

/// A refusal and a count are believed for this long.
const BELIEVED_MS: u64 = 600_000;

/// A connection takes 60 KiB, and a pod that nobody selects counts as 1 KiB: the API server sends it all the same.
const PODS_PER_WATCH: u64 = 60;

/// A watch of all pods ends once they cost so many times what it saves. They may come and go in waves.
const FAR_MORE: u64 = 2;

/// Longest list of values in a selector, as it stands in a URL.
const MAX_VALUES_BYTES: usize = 4_096;

/// A comma in a URL, before the next value.
const COMMA_BYTES: usize = 3;

/// Keys that share a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// The key of the watch, which selects at least the objects of all of them.
    pub(super) watch: WatchKey,
    pub(super) keys: BTreeSet<WatchKey>,
}

impl Group {
    fn of(watch: WatchKey, keys: impl IntoIterator<Item = WatchKey>) -> Self {
        Self { watch, keys: keys.into_iter().collect() }
    }
}

/// The plan, and what it rests on.
#[derive(Debug, Default)]
pub(super) struct Planner {
    groups: BTreeMap<SourceId, Group>,
    last: SourceId,
    /// How many pods each namespace has (empty: all together). `None` if that cannot be learned.
    counts: BTreeMap<String, (Option<u64>, Moment)>,
    /// Watches of everything in a namespace, or of all nodes, that were refused.
    refused: BTreeMap<WatchKey, Moment>,
    /// Since when the groups of nodes and of pods save few watches.
    few_since: BTreeMap<Kind, Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Nodes,
    Pods,
}

impl Kind {
    const fn of(key: &WatchKey) -> Self {
        match key {
            WatchKey::Nodes { .. } => Self::Nodes,
            WatchKey::Pods { .. } => Self::Pods,
        }
    }
}

impl Planner {
    /// A new number for a watch.
    pub(super) const fn number(&mut self) -> SourceId {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Forgets all groups, but no number.
    pub(super) fn restart(&mut self) {
        let (counts, refused) = (std::mem::take(&mut self.counts), std::mem::take(&mut self.refused));
        *self = Self { last: self.last, counts, refused, ..Self::default() };
    }

    /// The groups, by the numbers of their watches.
    pub(super) const fn groups(&self) -> &BTreeMap<SourceId, Group> {
        &self.groups
    }

    /// The wanted keys that need a watch of their own.
    pub(super) fn alone<'a>(&self, wanted: &'a BTreeSet<WatchKey>) -> BTreeSet<&'a WatchKey> {
        let grouped: BTreeSet<&WatchKey> = self.groups.values().flat_map(|group| &group.keys).collect();
        wanted.iter().filter(|key| !grouped.contains(key)).collect()
    }

    /// Learns the number of pods in a namespace (empty: in all).
    pub(super) fn counted(&mut self, namespace: String, count: Option<u64>, now: Moment) {
        self.counts.insert(namespace, (count, now));
    }

    /// Learns that the watch of a group may not be read.
    pub(super) fn refused(&mut self, watch: &WatchKey, now: Moment) {
        self.refused.insert(whole(watch), now);
    }

    /// Plans anew. `is_settled` says whether a group's watch serves all its keys. Returns the namespaces (empty: all)
    /// whose pods must be counted before the plan is final.
    pub(super) fn plan(
        &mut self,
        wanted: &BTreeSet<WatchKey>,
        is_settled: impl Fn(SourceId) -> bool,
        now: Moment,
    ) -> BTreeSet<String> {
        self.counts.retain(|_, (_, at)| now.millis_since(*at) < BELIEVED_MS);
        self.refused.retain(|_, at| now.millis_since(*at) < BELIEVED_MS);
        let refused = &self.refused;
        self.groups.retain(|_, group| {
            group.keys.retain(|key| wanted.contains(key));
            !group.keys.is_empty() && !refused.contains_key(&whole(&group.watch))
        });
        let mut uncounted = self.recount();
        for kind in [Kind::Nodes, Kind::Pods] {
            self.dissolve(kind, now);
            let groups = self.groups_of(kind);
            let alone = self.alone(wanted).into_iter().filter(|key| Kind::of(key) == kind).count();
            let present = alone.saturating_add(groups.len());
            // A plan that is still being carried out is not changed.
            if present <= SAVED || !groups.iter().all(|id| is_settled(*id)) {
                continue;
            }
            let keys: BTreeSet<&WatchKey> = wanted.iter().filter(|key| Kind::of(key) == kind).collect();
            let proposed = match kind {
                Kind::Nodes => self.propose_for_nodes(&keys),
                Kind::Pods => self.propose_for_pods(&keys, &mut uncounted),
            };
            if uncounted.is_empty() && proposed.len().saturating_add(SAVED) <= present {
                self.few_since.remove(&kind);
                self.adopt(&groups, proposed);
            }
        }
        uncounted
    }

    /// Dissolves the groups for all pods that select far more of them than they save. Returns the namespaces whose pods
    /// must be counted again for that.
    fn recount(&mut self) -> BTreeSet<String> {
        let (mut uncounted, counts) = (BTreeSet::new(), &self.counts);
        self.groups.retain(|_, Group { watch, keys }| {
            let WatchKey::Pods { namespace, selector } = watch else { return true };
            if !selector.is_empty() {
                return true;
            }
            let Some((count, _)) = counts.get(namespace) else {
                uncounted.insert(namespace.clone());
                return true;
            };
            let saved = worth(keys.len().saturating_sub(1));
            count.is_none_or(|pods| pods < saved.saturating_mul(FAR_MORE))
        });
        uncounted
    }

    fn groups_of(&self, kind: Kind) -> Vec<SourceId> {
        let of_kind = self.groups.iter().filter(|(_, group)| Kind::of(&group.watch) == kind);
        of_kind.map(|(id, _)| *id).collect()
    }

    /// Dissolves groups that have saved few watches for long.
    fn dissolve(&mut self, kind: Kind, now: Moment) {
        let groups = self.groups_of(kind);
        let saved = groups.iter().filter_map(|id| self.groups.get(id)).map(|group| group.keys.len() - 1);
        if groups.is_empty() || saved.sum::<usize>() >= FEW {
            self.few_since.remove(&kind);
        } else if now.millis_since(*self.few_since.entry(kind).or_insert(now)) >= FEW_MS {
            self.few_since.remove(&kind);
            self.groups.retain(|id, _| !groups.contains(id));
        }
    }

    fn adopt(&mut self, former: &[SourceId], proposed: Vec<Group>) {
        let mut former: Vec<(SourceId, Group)> =
            former.iter().filter_map(|id| Some((*id, self.groups.remove(id)?))).collect();
        for group in proposed.into_iter().filter(|group| group.keys.len() > 1) {
            let same =
                |(_, known): &(SourceId, Group)| known.watch == group.watch && known.keys == group.keys;
            let known = former.iter().position(same).map(|place| former.swap_remove(place));
            let (id, group) = known.unwrap_or_else(|| (self.number(), group));
            self.groups.insert(id, group);
        }
    }

    fn propose_for_nodes(&self, keys: &BTreeSet<&WatchKey>) -> Vec<Group> {
        let all = WatchKey::Nodes { selector: String::new() };
        if self.refused.contains_key(&all) {
            return each(keys);
        }
        vec![Group::of(all, keys.iter().copied().cloned())]
    }

    fn propose_for_pods(&self, keys: &BTreeSet<&WatchKey>, uncounted: &mut BTreeSet<String>) -> Vec<Group> {
        let mut by_namespace: BTreeMap<&str, BTreeSet<&WatchKey>> = BTreeMap::new();
        for key in keys {
            by_namespace.entry(namespace_of(key)).or_default().insert(key);
        }
        let (mut groups, several) = (Vec::new(), by_namespace.len() > 1);
        for (namespace, keys) in by_namespace {
            let narrow = self.by_value(namespace, &keys);
            let wide = vec![Group::of(pods_in(namespace), keys.into_iter().cloned())];
            groups.extend(self.cheaper(namespace, narrow, wide, uncounted));
        }
        if !several {
            return groups;
        }
        let mut everywhere = self.by_value("", keys);
        if everywhere.len() > SAVED {
            everywhere = vec![Group::of(pods_in(""), keys.iter().copied().cloned())];
        }
        self.cheaper("", groups, everywhere, uncounted)
    }

    /// The wide groups if they save more watches than the pods cost that nobody selects. There are at most as many as
    /// there are pods.
    fn cheaper(
        &self,
        namespace: &str,
        narrow: Vec<Group>,
        wide: Vec<Group>,
        uncounted: &mut BTreeSet<String>,
    ) -> Vec<Group> {
        let saved = narrow.len().saturating_sub(wide.len());
        if saved < SAVED || self.refused.contains_key(&pods_in(namespace)) {
            return narrow;
        }
        let Some((count, _)) = self.counts.get(namespace) else {
            uncounted.insert(namespace.to_owned());
            return narrow;
        };
        if count.is_some_and(|pods| pods < worth(saved)) { wide } else { narrow }
    }

    /// Groups of keys that require one of some values of the same label. Keys that require none stay alone.
    fn by_value(&self, namespace: &str, keys: &BTreeSet<&WatchKey>) -> Vec<Group> {
        if self.refused.contains_key(&pods_in(namespace)) {
            return each(keys);
        }
        let selectors: Vec<(&WatchKey, Selector)> =
            keys.iter().filter_map(|key| Some((*key, Selector::parse(selector_of(key)).ok()?))).collect();
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (label, of_label) in selectors.iter().flat_map(|(_, selector)| selector.required()) {
            values.entry(label).or_default().extend(of_label.iter().map(String::as_str));
        }
        let mut by_label: BTreeMap<&str, Vec<(&WatchKey, BTreeSet<&str>)>> = BTreeMap::new();
        for (key, selector) in &selectors {
            // The label that tells most of them apart lets the fewest strangers in.
            let labels = selector.required().map(|(label, _)| label);
            let telling =
                labels.max_by_key(|label| (values.get(label).map_or(0, BTreeSet::len), Reverse(*label)));
            let Some(label) = telling else { continue };
            let of_label = selector.required().filter(|(other, _)| *other == label);
            let of_label = of_label.flat_map(|(_, values)| values.iter().map(String::as_str));
            by_label.entry(label).or_default().push((key, of_label.collect()));
        }
        let groups = by_label.into_iter().flat_map(|(label, keys)| requiring(namespace, label, keys));
        let groups: Vec<Group> = groups.collect();
        let grouped: BTreeSet<&WatchKey> = groups.iter().flat_map(|group| &group.keys).collect();
        let others = each(&keys.iter().filter(|key| !grouped.contains(*key)).copied().collect());
        groups.into_iter().chain(others).collect()
    }
}

/// The groups of keys that require values of a label, with as many values as fit into a URL.
fn requiring(namespace: &str, label: &str, keys: Vec<(&WatchKey, BTreeSet<&str>)>) -> Vec<Group> {
    let length =
        |values: &BTreeSet<&str>| values.iter().map(|value| value.len() + COMMA_BYTES).sum::<usize>();
    let mut groups: Vec<(Vec<WatchKey>, BTreeSet<&str>)> = Vec::new();
    for (key, values) in keys {
        match groups.last_mut() {
            Some((keys, known)) if length(&known.union(&values).copied().collect()) <= MAX_VALUES_BYTES => {
                keys.push(key.clone());
                known.extend(values);
            }
            Some(_) | None => groups.push((vec![key.clone()], values)),
        }
    }
    let group = |(keys, values): (Vec<WatchKey>, BTreeSet<&str>)| {
        let values: Vec<&str> = values.into_iter().collect();
        let selector = match values.as_slice() {
            [value] => format!("{label}={value}"),
            values => format!("{label} in ({})", values.join(",")),
        };
        Group::of(WatchKey::Pods { namespace: namespace.to_owned(), selector }, keys)
    };
    groups.into_iter().map(group).collect()
}

/// The number of pods that cost as much as so many watches.
fn worth(watches: usize) -> u64 {
    u64::try_from(watches).unwrap_or(u64::MAX).saturating_mul(PODS_PER_WATCH)
}

fn each(keys: &BTreeSet<&WatchKey>) -> Vec<Group> {
    keys.iter().map(|key| Group::of((*key).clone(), [(*key).clone()])).collect()
}

fn pods_in(namespace: &str) -> WatchKey {
    WatchKey::Pods { namespace: namespace.to_owned(), selector: String::new() }
}

/// The right that a watch needs: selectors make no difference to it.
fn whole(watch: &WatchKey) -> WatchKey {
    match watch {
        WatchKey::Nodes { .. } => WatchKey::Nodes { selector: String::new() },
        WatchKey::Pods { namespace, .. } => pods_in(namespace),
    }
}

fn namespace_of(key: &WatchKey) -> &str {
    match key {
        WatchKey::Nodes { .. } => "",
        WatchKey::Pods { namespace, .. } => namespace,
    }
}

fn selector_of(key: &WatchKey) -> &str {
    match key {
        WatchKey::Nodes { selector } | WatchKey::Pods { selector, .. } => selector,
    }
}

#[cfg(test)]
#[path = "planner_tests.rs"]
mod tests;
