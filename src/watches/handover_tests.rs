//! Random histories of objects, labels and watches. Every key must see what a watch of its own would show.

use super::*;
use crate::kube::objects::labelled::Labels;
use crate::kube::watch::messages::{Print, Teller};
use crate::kube::watch::sorted::{Selection, Sorter};
use flipop_core::model::selector::Selector;
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Thing {
    name: usize,
    written_at: u64,
}

impl Facts for Thing {
    fn identity(&self) -> Identity {
        (String::new(), self.name.to_string())
    }
}

type Objects = BTreeMap<usize, (Thing, Labels)>;

const SELECTORS: [&str; 6] = ["", "a=x", "a in (x,y)", "!a", "a=y,b=1", "b!=1"];

fn key(number: usize) -> WatchKey {
    WatchKey::Nodes { selector: SELECTORS[number % SELECTORS.len()].to_owned() }
}

fn keys(bits: u8) -> Vec<WatchKey> {
    (0..SELECTORS.len()).filter(|number| bits & (1 << number) != 0).map(key).collect()
}

fn selects(key: &WatchKey, labels: &Labels) -> bool {
    let WatchKey::Nodes { selector } = key else { return false };
    Selector::parse(selector).unwrap().matches(labels)
}

/// A watch of all objects for several keys, or of those of one key.
struct Watch {
    keys: Arc<[WatchKey]>,
    shared: Option<(Selection, Sorter<Thing>)>,
    /// The version that it has read. `None`: it has to list.
    read: Option<usize>,
}

impl Watch {
    fn new(keys: Vec<WatchKey>, shared: bool) -> Self {
        let print = |thing: &Thing| Print::new(&thing.name, &thing.written_at);
        let shared = shared.then(|| (Selection::new(&keys), Sorter::changes(print)));
        Self { keys: keys.into(), shared, read: None }
    }

    fn list(&mut self, history: &[Objects]) -> Option<News<Thing>> {
        let head = history.len() - 1;
        self.read = Some(head);
        let (version, objects) = (u64::try_from(head).ok(), history[head].values().cloned());
        let Some((selection, sorter)) = &mut self.shared else {
            let mine = objects.filter(|(_, labels)| selects(&self.keys[0], labels)).map(|(thing, _)| thing);
            return Some(News { version, reported: Reported::Whole(Observed::Reset(mine.collect())) });
        };
        let all = objects.map(|(thing, labels)| (thing, selection.of("", &labels)));
        sorter.tell(version, Observed::Reset(all.filter(Sorter::keeps).collect()))
    }

    /// Reads on by one version, or begins with a list.
    fn read(&mut self, history: &[Objects]) -> Option<News<Thing>> {
        let Some(read) = self.read else { return self.list(history) };
        let (before, after) = (&history[read], history.get(read + 1)?);
        self.read = Some(read + 1);
        let version = u64::try_from(read + 1).ok();
        let name = before.keys().chain(after.keys()).find(|name| before.get(*name) != after.get(*name))?;
        let (was, is) = (before.get(name), after.get(name));
        let Some((selection, sorter)) = &mut self.shared else {
            let mine = |object: Option<&(Thing, Labels)>| {
                object.filter(|(_, labels)| selects(&self.keys[0], labels)).map(|(thing, _)| thing.clone())
            };
            let step = mine(is).map(Observed::Apply).or_else(|| mine(was).map(Observed::Delete))?;
            return Some(News { version, reported: Reported::Whole(step) });
        };
        let with_keys = |(thing, labels): &(Thing, Labels)| (thing.clone(), selection.of("", labels));
        let step =
            is.map(with_keys).map(Observed::Apply).or_else(|| was.map(with_keys).map(Observed::Delete))?;
        sorter.tell(version, step)
    }
}

#[derive(Debug, Clone)]
enum Act {
    Write { name: usize, a: usize, b: bool },
    Remove { name: usize },
    Read { watch: usize, times: usize },
    Bookmark { watch: usize },
    LosePlace { watch: usize },
    BeginShared { keys: u8 },
    BeginOwn { key: usize },
    Retire { watch: usize },
    Want { keys: u8 },
}

struct World {
    /// All objects, at each version.
    history: Vec<Objects>,
    watches: BTreeMap<SourceId, Watch>,
    last: SourceId,
    handover: Handover<Thing>,
    wanted: BTreeSet<WatchKey>,
    /// The objects that each key has been told, and up to which version.
    reported: BTreeMap<WatchKey, (BTreeMap<usize, Thing>, usize)>,
}

impl World {
    fn begin(&mut self, keys: Vec<WatchKey>, shared: bool) {
        self.last += 1;
        let watch = Watch::new(keys, shared);
        self.handover.begin(self.last, Arc::clone(&watch.keys));
        self.watches.insert(self.last, watch);
    }

    fn hear(&mut self, id: SourceId, news: Option<News<Thing>>) {
        let Some(news) = news else { return };
        let read = self.watches[&id].read.unwrap();
        for (key, step) in self.handover.observe(id, news) {
            assert!(self.wanted.contains(&key), "{key:?} is not wanted");
            if let Observed::Reset(all) = step {
                let (_, before) = self.reported.get(&key).cloned().unwrap_or_default();
                assert!(before <= read, "{key:?} goes back from {before} to {read}");
                self.reported.insert(key, (all.into_iter().map(|thing| (thing.name, thing)).collect(), read));
                continue;
            }
            let (things, version) = self.reported.get_mut(&key).expect("a list comes first");
            *version = read;
            match step {
                Observed::Apply(thing) => drop(things.insert(thing.name, thing)),
                Observed::Delete(thing) => assert!(things.remove(&thing.name).is_some(), "it is not there"),
                Observed::Reset(_) => unreachable!(),
            }
        }
        self.check();
    }

    /// Every key has what its watch has read.
    fn check(&self) {
        for (key, (things, _)) in &self.reported {
            let Some(read) = self.handover.server(key).and_then(|id| self.watches[&id].read) else {
                continue;
            };
            let selected = self.history[read].iter().filter(|(_, (_, labels))| selects(key, labels));
            let selected = selected.map(|(name, (thing, _))| (*name, thing.clone()));
            assert_eq!(*things, selected.collect(), "{key:?} at {read}");
        }
    }

    fn nth(&self, number: usize) -> Option<SourceId> {
        self.watches.keys().nth(number % self.watches.len().max(1)).copied()
    }

    fn play(&mut self, act: &Act) {
        let mut objects = self.history.last().cloned().unwrap_or_default();
        let written_at = u64::try_from(self.history.len()).unwrap();
        match *act {
            Act::Write { name, a, b } => {
                let a = ["", "x", "y", "z"][a].to_owned();
                let labels = [("a", a), ("b", if b { "1".to_owned() } else { String::new() })];
                let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
                let labels = labels.map(|(label, value)| (label.to_owned(), value)).collect();
                objects.insert(name, (Thing { name, written_at }, labels));
                self.history.push(objects);
            }
            Act::Remove { name } if objects.remove(&name).is_some() => self.history.push(objects),
            Act::Read { watch, times } => {
                for _ in 0..times {
                    let Some(id) = self.nth(watch) else { return };
                    let news = self.watches.get_mut(&id).unwrap().read(&self.history);
                    self.hear(id, news);
                    self.end_needless();
                }
            }
            Act::Bookmark { watch } => {
                let Some(id) = self.nth(watch) else { return };
                let Some(read) = self.watches[&id].read else { return };
                self.hear(id, Some(News { version: u64::try_from(read).ok(), reported: Reported::Nothing }));
            }
            Act::LosePlace { watch } => {
                let Some(id) = self.nth(watch) else { return };
                self.watches.get_mut(&id).unwrap().read = None;
            }
            Act::BeginShared { keys: bits } if bits.count_ones() > 1 => self.begin(keys(bits), true),
            Act::Remove { .. } | Act::BeginShared { .. } => {}
            Act::BeginOwn { key: number } => self.begin(vec![key(number)], false),
            Act::Retire { watch } => self.nth(watch).into_iter().for_each(|id| self.handover.retire(id)),
            Act::Want { keys: bits } => {
                self.wanted = keys(bits).into_iter().collect();
                self.handover.want(&self.wanted);
                self.reported.retain(|key, _| self.wanted.contains(key));
            }
        }
        self.end_needless();
    }

    fn end_needless(&mut self) {
        for id in self.handover.take_ended() {
            self.watches.remove(&id).expect("it ran");
        }
    }

    /// Every watch reads all there is. Whoever is without a watch gets one.
    fn settle(&mut self) {
        let alone = self.wanted.iter().filter(|key| self.handover.server(key).is_none()).cloned();
        for key in alone.collect::<Vec<_>>() {
            self.begin(vec![key], false);
        }
        for _ in 0..=self.history.len() {
            for id in self.watches.keys().copied().collect::<Vec<_>>() {
                let news = self.watches.get_mut(&id).unwrap().read(&self.history);
                self.hear(id, news);
            }
        }
        for id in self.watches.keys().copied().collect::<Vec<_>>() {
            let version = self.watches[&id].read.and_then(|read| u64::try_from(read).ok());
            self.hear(id, Some(News { version, reported: Reported::Nothing }));
        }
        self.end_needless();
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..5_usize, 0..4_usize, any::<bool>()).prop_map(|(name, a, b)| Act::Write { name, a, b }),
        2 => (0..5_usize).prop_map(|name| Act::Remove { name }),
        12 => (0..8_usize, 1..6_usize).prop_map(|(watch, times)| Act::Read { watch, times }),
        1 => (0..8_usize).prop_map(|watch| Act::Bookmark { watch }),
        1 => (0..8_usize).prop_map(|watch| Act::LosePlace { watch }),
        2 => (0..64_u8).prop_map(|keys| Act::BeginShared { keys }),
        2 => (0..6_usize).prop_map(|key| Act::BeginOwn { key }),
        1 => (0..8_usize).prop_map(|watch| Act::Retire { watch }),
        1 => (0..64_u8).prop_map(|keys| Act::Want { keys }),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_each_key_sees_what_a_watch_of_its_own_would_show(
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let wanted: BTreeSet<WatchKey> = keys(63).into_iter().collect();
        let mut world = World {
            history: vec![Objects::new()],
            watches: BTreeMap::new(),
            last: 0,
            handover: Handover::new(),
            wanted: wanted.clone(),
            reported: BTreeMap::new(),
        };
        world.handover.want(&wanted);
        world.begin(keys(63), true);
        for act in &acts {
            world.play(act);
        }
        world.settle();
        let head = world.history.last().unwrap();
        for key in &world.wanted {
            let (things, _) = &world.reported[key];
            let selected = head.iter().filter(|(_, (_, labels))| selects(key, labels));
            prop_assert_eq!(things.clone(), selected.map(|(name, (thing, _))| (*name, thing.clone())).collect());
        }
        let serving: BTreeSet<SourceId> =
            world.wanted.iter().filter_map(|key| world.handover.server(key)).collect();
        prop_assert_eq!(serving, world.watches.keys().copied().collect(), "no watch runs in vain");
    }
}

#[test]
fn a_watch_takes_a_key_over_only_when_it_has_reached_what_the_former_one_passed_on() {
    let news = |version, reported| News { version, reported };
    let thing = |written_at| Thing { name: 1, written_at };
    let list = |written_at| Reported::Whole(Observed::Reset(vec![thing(written_at)]));
    let mut handover = Handover::new();
    handover.want(&BTreeSet::from([key(0)]));
    handover.begin(1, Arc::new([key(0)]));
    handover.begin(2, Arc::new([key(0)]));
    assert_eq!(handover.observe(1, news(Some(5), list(5))), [(key(0), Observed::Reset(vec![thing(5)]))]);
    let apply = Observed::Apply(thing(9));
    assert_eq!(handover.observe(1, news(Some(9), Reported::Whole(apply.clone()))), [(key(0), apply.clone())]);
    for version in [None, Some(8)] {
        assert_eq!(handover.observe(2, news(version, list(7))), []);
    }
    assert_eq!((handover.server(&key(0)), handover.is_settled(2)), (Some(1), false));
    assert_eq!(handover.take_ended(), Vec::<SourceId>::new());
    let passed = handover.observe(2, news(Some(9), Reported::Whole(apply)));
    assert_eq!(passed, [(key(0), Observed::Reset(vec![thing(9)]))]);
    assert_eq!((handover.server(&key(0)), handover.is_settled(2)), (Some(2), true));
    assert_eq!(handover.take_ended(), [1]);
    let mut wordy = Handover::new();
    wordy.want(&BTreeSet::from([key(0)]));
    wordy.begin(1, Arc::new([key(0)]));
    wordy.begin(2, Arc::new([key(0)]));
    wordy.observe(1, news(None, list(5)));
    wordy.observe(2, news(None, list(7)));
    assert_eq!(wordy.server(&key(0)), Some(2), "where versions are no numbers");
}
