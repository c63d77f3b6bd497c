//! One watch for many keys: which of them an object belongs to, and which it has left.
//!
//! Owns the labels that count, and for each object that somebody selects, the keys that were told of it. Of all other
//! objects nothing is kept.
//!
//! Invariant: a key is told exactly what a watch of its own would tell. An object that leaves the selector of a key is
//! gone for that key, and one that enters is new, whatever happened to the object itself.

use super::messages::{Keys, News, Print, Reported, Teller};
use crate::kube::objects::labelled::Labels;
use flipop_core::model::selector::Selector;
use flipop_core::model::{Observed, WatchKey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The selectors of the keys of one watch.
#[derive(Debug)]
pub struct Selection {
    selectors: Vec<(String, Selector)>,
    /// The selectors that require one of some values of a label, by label and value.
    by_value: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// All others.
    others: Vec<usize>,
    none: Keys,
}

impl Selection {
    /// The selectors of these keys. A key that cannot be read selects nothing.
    pub fn new(keys: &[WatchKey]) -> Self {
        let mut selection = Self {
            selectors: Vec::new(),
            by_value: BTreeMap::new(),
            others: Vec::new(),
            none: Keys::from([]),
        };
        for (place, key) in keys.iter().enumerate() {
            let (namespace, selector) = match key {
                WatchKey::Nodes { selector } => ("", selector),
                WatchKey::Pods { namespace, selector } => (namespace.as_str(), selector),
            };
            let parsed = Selector::parse(selector);
            if let Ok(selector) = &parsed {
                if let Some((label, values)) = selector.required().min_by_key(|(_, values)| values.len()) {
                    let of_label = selection.by_value.entry(label.to_owned()).or_default();
                    for value in values {
                        of_label.entry(value.clone()).or_default().push(place);
                    }
                } else {
                    selection.others.push(place);
                }
            }
            // The default only keeps the place: neither index names it.
            selection.selectors.push((namespace.to_owned(), parsed.unwrap_or_default()));
        }
        selection
    }

    /// The keys that select an object.
    pub fn of(&self, namespace: &str, labels: &Labels) -> Keys {
        let by_value = labels.iter().filter_map(|(label, value)| self.by_value.get(label)?.get(value));
        let selects = |place: &usize| {
            self.selectors.get(*place).is_some_and(|(within, selector)| {
                (within.is_empty() || within == namespace) && selector.matches(labels)
            })
        };
        let mut keys: Vec<usize> =
            by_value.flatten().chain(&self.others).copied().filter(|place| selects(place)).collect();
        if keys.is_empty() {
            return Arc::clone(&self.none);
        }
        keys.sort_unstable();
        keys.into()
    }
}

/// Tells each key of its objects.
pub(crate) struct Sorter<T> {
    print: fn(&T) -> Print,
    /// Events that change no fact are left out.
    changes_only: bool,
    /// By object, the print of the facts that were told, and the keys that were told them.
    reported: BTreeMap<u64, (u64, Keys)>,
}

impl<T> Sorter<T> {
    pub(crate) const fn every_event(print: fn(&T) -> Print) -> Self {
        Self { print, changes_only: false, reported: BTreeMap::new() }
    }

    pub(crate) const fn changes(print: fn(&T) -> Print) -> Self {
        Self { print, changes_only: true, reported: BTreeMap::new() }
    }

    fn sort(&mut self, step: Observed<(T, Keys)>) -> Option<Reported<T>> {
        match step {
            Observed::Reset(all) => {
                let entries = all.iter().map(|(facts, keys)| {
                    let Print { object, facts } = (self.print)(facts);
                    (object, (facts, Arc::clone(keys)))
                });
                self.reported = entries.collect();
                Some(Reported::List(all))
            }
            Observed::Apply((facts, present)) => {
                let Print { object, facts: print } = (self.print)(&facts);
                let before = if present.is_empty() {
                    self.reported.remove(&object)
                } else {
                    self.reported.insert(object, (print, Arc::clone(&present)))
                };
                let (reported, before) = before.unzip();
                if self.changes_only && reported == Some(print) && before.as_ref() == Some(&present) {
                    return None;
                }
                let left = before.iter().flat_map(|keys| keys.iter());
                let left: Vec<usize> = left.filter(|key| !present.contains(key)).copied().collect();
                let concerns = !(present.is_empty() && left.is_empty());
                concerns.then_some(Reported::Change { facts, present, left: left.into() })
            }
            Observed::Delete((facts, _)) => {
                let (_, left) = self.reported.remove(&(self.print)(&facts).object)?;
                Some(Reported::Change { facts, present: Keys::from([]), left })
            }
        }
    }
}

impl<T: Send> Teller<(T, Keys)> for Sorter<T> {
    type Message = News<T>;

    fn keeps((_, keys): &(T, Keys)) -> bool {
        !keys.is_empty()
    }

    fn tell(&mut self, version: Option<u64>, step: Observed<(T, Keys)>) -> Option<News<T>> {
        self.sort(step).map(|reported| News { version, reported })
    }

    fn bookmark(&mut self, version: Option<u64>) -> Option<News<T>> {
        Some(News { version, reported: Reported::Nothing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_object_belongs_to_the_keys_whose_namespace_and_selector_it_meets() {
        let pods = |namespace: &str, selector: &str| WatchKey::Pods {
            namespace: namespace.to_owned(),
            selector: selector.to_owned(),
        };
        let selection = Selection::new(&[
            pods("n", "app=x"),
            pods("", "app in (x,y),tier=a"),
            pods("n", "!app"),
            pods("n", "no selector at all"),
            pods("m", ""),
            pods("n", "app,tier!=b"),
        ]);
        for (namespace, of, keys) in [
            ("n", labels(&[("app", "x"), ("tier", "a")]), vec![0, 1, 5]),
            ("n", labels(&[("app", "y"), ("tier", "b")]), vec![]),
            ("n", labels(&[]), vec![2]),
            ("m", labels(&[("app", "x"), ("tier", "a")]), vec![1, 4]),
            ("o", labels(&[("tier", "a")]), vec![]),
        ] {
            assert_eq!(&*selection.of(namespace, &of), keys, "{of:?} in {namespace}");
        }
    }

    #[test]
    fn of_objects_that_nobody_selects_nothing_is_told_or_kept() {
        let mut sorter = Sorter::changes(|fact: &&str| Print::new(&"object", fact));
        let of = |keys: &[usize]| Keys::from(keys);
        let change = |facts, present: &[usize], left: &[usize]| {
            Some(Reported::Change { facts, present: of(present), left: of(left) })
        };
        assert_eq!(sorter.sort(Observed::Apply(("a", of(&[])))), None);
        assert!(sorter.reported.is_empty());
        assert_eq!(sorter.sort(Observed::Apply(("b", of(&[1, 2])))), change("b", &[1, 2], &[]));
        assert_eq!(sorter.sort(Observed::Apply(("b", of(&[1, 2])))), None, "it is told already");
        assert_eq!(sorter.sort(Observed::Apply(("b", of(&[2, 3])))), change("b", &[2, 3], &[1]));
        assert_eq!(sorter.sort(Observed::Apply(("c", of(&[])))), change("c", &[], &[2, 3]));
        assert!(sorter.reported.is_empty());
        assert_eq!(sorter.sort(Observed::Delete(("c", of(&[4])))), None);
    }
}
