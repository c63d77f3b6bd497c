//! From a selector to labels that it selects, for code that has to create matching objects.

use super::{Operator, Requirement, Selector};
use std::collections::{BTreeMap, BTreeSet};

impl Selector {
    /// The fewest labels that an object needs to be selected. `None` if no labels can be.
    pub fn example(&self) -> Option<BTreeMap<String, String>> {
        let mut keys: BTreeMap<&str, Vec<&Operator>> = BTreeMap::new();
        for Requirement { key, operator } in &self.requirements {
            keys.entry(key).or_default().push(operator);
        }
        let mut labels = BTreeMap::new();
        for (key, operators) in keys {
            if operators
                .iter()
                .all(|operator| matches!(operator, Operator::DoesNotExist | Operator::NotIn(_)))
            {
                // Both operators select an object without the key.
                continue;
            }
            labels.insert(key.to_owned(), example_value(&operators)?);
        }
        Some(labels)
    }
}

/// The value used where any will do.
const ANY_VALUE: &str = "true";

/// The most leading zeros that fit: a label value has 63 characters, of which an `i64` takes 19.
const MAX_ZEROS: usize = 44;

/// A value that meets all these requirements on one key, if there is one.
fn example_value(operators: &[&Operator]) -> Option<String> {
    let mut refused: BTreeSet<&str> = BTreeSet::new();
    let mut listed: Option<BTreeSet<&str>> = None;
    let (mut least, mut most, mut numeric) = (0_i64, i64::MAX, false);
    for operator in operators {
        match operator {
            Operator::Exists => {}
            Operator::DoesNotExist => return None,
            Operator::In(values) => {
                let values: BTreeSet<&str> = values.iter().map(String::as_str).collect();
                listed = Some(
                    listed.map_or(values.clone(), |listed| listed.intersection(&values).copied().collect()),
                );
            }
            Operator::NotIn(values) => refused.extend(values.iter().map(String::as_str)),
            // A label value has no sign, so the least number is 0.
            Operator::GreaterThan(bound) => (least, numeric) = (least.max(bound.checked_add(1)?), true),
            Operator::LessThan(bound) => (most, numeric) = (most.min(bound.checked_sub(1)?), true),
        }
    }
    let fits = |value: &str| {
        let number = || value.parse::<i64>().is_ok_and(|number| (least..=most).contains(&number));
        !refused.contains(value) && (!numeric || number())
    };
    if let Some(listed) = listed {
        return listed.into_iter().find(|value| fits(value)).map(str::to_owned);
    }
    if numeric {
        // Trying one number more than are refused is enough. In a range too narrow for that, leading zeros make more
        // values.
        let tries = refused.len().saturating_add(1);
        return (0..=MAX_ZEROS)
            .flat_map(|zeros| {
                (least..=most).take(tries).map(move |number| format!("{}{number}", "0".repeat(zeros)))
            })
            .find(|value| fits(value));
    }
    let numbered = (2_u64..).map(|number| format!("{ANY_VALUE}-{number}"));
    std::iter::once(ANY_VALUE.to_owned()).chain(numbered).find(|value| fits(value))
}

#[cfg(test)]
mod tests {
    use super::super::{checked_value, is_label_key};
    use super::*;
    use proptest::prelude::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_example_has_what_the_selector_asks_for_and_nothing_else() {
        for (selector, expected) in [
            ("", Some(vec![])),
            ("a=b,c!=d,e in (g,f),h,!i", Some(vec![("a", "b"), ("e", "f"), ("h", "true")])),
            ("a in (b,c),a in (c,d)", Some(vec![("a", "c")])),
            ("a,a notin (true,true-2)", Some(vec![("a", "true-3")])),
            ("n>4,n<6", Some(vec![("n", "5")])),
            ("n>4,n<6,n!=5", Some(vec![("n", "05")])),
            ("n in (3,7),n>4", Some(vec![("n", "7")])),
            ("n<1", Some(vec![("n", "0")])),
            ("n<0", None),
            ("n>9223372036854775807", None),
            ("a=b,a=c", None),
            ("a=b,a!=b", None),
            ("a,!a", None),
        ] {
            let parsed = Selector::parse(selector).unwrap();
            assert_eq!(parsed.example(), expected.map(|pairs| labels(&pairs)), "{selector:?}");
        }
    }

    fn requirement() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec!["a", "b", "c.d/e"]);
        let value = prop::sample::select(vec!["", "x", "true", "true-2", "0", "1", "01", "7", "12"]);
        let values = prop::collection::vec(value.clone(), 1..4).prop_map(|values| values.join(","));
        let number = prop::sample::select(vec!["0", "1", "2", "8"]);
        (key, value, values, number, 0..8_u8).prop_map(|(key, value, values, number, kind)| match kind {
            0 => key.to_owned(),
            1 => format!("!{key}"),
            2 => format!("{key}={value}"),
            3 => format!("{key}!={value}"),
            4 => format!("{key} in ({values})"),
            5 => format!("{key} notin ({values})"),
            6 => format!("{key}>{number}"),
            _ => format!("{key}<{number}"),
        })
    }

    proptest! {
        #[test]
        fn an_example_is_selected_and_is_missing_only_where_nothing_is_selected(
            requirements in prop::collection::vec(requirement(), 0..6),
            tried in prop::collection::btree_map(
                prop::sample::select(vec!["a".to_owned(), "b".to_owned(), "c.d/e".to_owned()]),
                prop::sample::select(vec!["", "x", "true", "true-2", "0", "1", "01", "7", "12"]).prop_map(str::to_owned),
                0..4,
            ),
        ) {
            let selector = Selector::parse(&requirements.join(",")).unwrap();
            match selector.example() {
                Some(labels) => {
                    prop_assert!(selector.matches(&labels), "{selector}: {labels:?}");
                    prop_assert!(labels.iter().all(|(key, value)| is_label_key(key) && checked_value(value.clone()).is_ok()));
                }
                None => prop_assert!(!selector.matches(&tried), "{selector}: {tried:?}"),
            }
        }
    }
}
