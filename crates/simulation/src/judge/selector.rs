//! Label selectors in a second, naive reading: their selection, and invalid texts.

use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// The longest selector, in bytes. A longer one is invalid.
pub(super) const MOST_BYTES: usize = 4_096;

/// The requirement on a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

/// A label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selector(Vec<(String, Need)>);

impl Selector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`; `None` if the text is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > MOST_BYTES {
            return None;
        }
        if text.trim().is_empty() {
            return Some(Self(Vec::new()));
        }
        parts(text)?.into_iter().map(|part| requirement(part.trim())).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Whether it selects an object with these labels.
    pub(super) fn selects(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, need)| {
            let value = labels.get(key);
            match need {
                Need::Exists => value.is_some(),
                Need::Absent => value.is_none(),
                Need::In(values) => value.is_some_and(|value| values.contains(value)),
                Need::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            }
        })
    }
}

/// Whether a text selects these labels. An invalid selector selects nothing.
pub(super) fn selects(text: &str, labels: &Labels) -> bool {
    Selector::parse(text).is_some_and(|selector| selector.selects(labels))
}

/// Splits at the commas outside parentheses.
fn parts(text: &str) -> Option<Vec<&str>> {
    let (mut all, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | ')' if inside == (letter == '(') => return None,
            '(' | ')' => inside = !inside,
            ',' if !inside => {
                all.push(text.get(from..at)?);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(text.get(from..)?);
    (!inside).then_some(all)
}

fn requirement(part: &str) -> Option<(String, Need)> {
    let (key, need) = if let Some(key) = part.strip_prefix('!') {
        (key.trim(), Need::Absent)
    } else if let Some((head, values)) = part.split_once('(') {
        let values: Vec<String> = values.strip_suffix(')')?.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        let (key, operator, rest) = (words.next()?, words.next()?, words.next());
        match (operator, rest) {
            ("in", None) => (key, Need::In(values)),
            ("notin", None) => (key, Need::NotIn(values)),
            _ => return None,
        }
    } else if let Some((key, value)) = part.split_once("!=") {
        (key.trim(), Need::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key.trim(), Need::In(vec![value.trim().to_owned()]))
    } else {
        (part, Need::Exists)
    };
    let values_good = match &need {
        Need::Exists | Need::Absent => true,
        Need::In(values) | Need::NotIn(values) => {
            values.iter().all(|value| value.is_empty() || is_word(value))
        }
    };
    let name_good = match key.split_once('/') {
        None => is_word(key),
        Some((prefix, name)) => is_word(prefix) && is_word(name),
    };
    (name_good && values_good).then(|| (key.to_owned(), need))
}

/// Letters, digits, `-`, `_`, `.`, with a letter or a digit at both ends.
fn is_word(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric();
    text.len() <= 253
        && text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|letter| plain(letter) || "-_.".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_selects_what_it_says() {
        let labels: Labels =
            [("role", "edge"), ("zone", "a")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        for (text, selected) in [
            ("", true),
            ("role=edge", true),
            ("role == edge , zone", true),
            ("role!=edge", false),
            ("tier!=web", true),
            ("role in (edge,inner),!tier", true),
            ("role notin (edge)", false),
            ("tier in (a)", false),
            ("tier notin (a)", true),
            ("!zone", false),
            ("kubernetes.io/os=linux", false),
        ] {
            assert_eq!(selects(text, &labels), selected, "{text:?}");
            assert!(Selector::parse(text).is_some(), "{text:?}");
        }
        for text in
            ["a in", "role in (", "role in edge)", "=x", "a b", "a=b c", "!", "a,,b", "-a", "a in (b) c"]
        {
            assert_eq!(Selector::parse(text), None, "{text:?}");
        }
    }
}
