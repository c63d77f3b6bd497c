//! The label-selector grammar of Kubernetes, as `labels.Parse` of apimachinery reads it.
//!
//! Selectors are sent to the API server, which does the filtering, unless many of them share one watch. They are parsed
//! here so that a mistake is reported on the object that has it, and so that equal selectors share one watch.

mod example;

use crate::model::words::shown;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A parsed label selector. The empty one matches everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Selector {
    requirements: Box<[Requirement]>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Requirement {
    key: String,
    operator: Operator,
}

/// Sorted. A slice, because a selector is kept for each object, and mostly has one value.
type Values = Box<[String]>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Values),
    NotIn(Values),
    GreaterThan(i64),
    LessThan(i64),
}

impl Selector {
    /// Whether a requirement is about this label.
    pub fn names(&self, key: &str) -> bool {
        self.requirements.iter().any(|requirement| requirement.key == key)
    }
}

/// Why a selector does not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A token was found where another kind of token is needed.
    #[error("found {found:?}, expected {expected}")]
    Unexpected {
        /// The token that was found; empty at the end.
        found: String,
        /// The tokens that would be valid there.
        expected: &'static str,
    },
    /// A key is not a qualified name.
    #[error("{0:?} is not a label key: an optional DNS prefix and '/', then at most 63 of [A-Za-z0-9._-]")]
    Key(String),
    /// A value is not a label value.
    #[error(
        "{0:?} is not a label value: at most 63 of [A-Za-z0-9._-], starting and ending with a letter or digit"
    )]
    Value(String),
    /// `>` and `<` compare whole numbers.
    #[error("{0:?} is not a whole number, as '>' and '<' need")]
    Number(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Symbol(symbol) => (*symbol).to_owned(),
            Self::End => String::new(),
        }
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            found.push(Token::Symbol(symbol));
            rest = rest.strip_prefix(symbol).unwrap_or_default();
        } else {
            let end = rest
                .find(|c: char| {
                    matches!(c, ' ' | '\t' | '\r' | '\n' | '=' | '!' | '(' | ')' | ',' | '<' | '>')
                })
                .unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            found.push(Token::Word(word.to_owned()));
            rest = tail;
        }
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }
    found
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Parser {
    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn peek(&mut self) -> Token {
        self.tokens.peek().cloned().unwrap_or(Token::End)
    }

    fn selector(&mut self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(Selector::default());
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                Token::End => break,
                Token::Symbol(",") => {}
                other @ (Token::Word(_) | Token::Symbol(_)) => {
                    return Err(unexpected(&other, "',' or the end"));
                }
            }
        }
        requirements.sort();
        requirements.dedup();
        Ok(Selector { requirements: requirements.into() })
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let first = self.next();
        let (negated, token) = if first == Token::Symbol("!") { (true, self.next()) } else { (false, first) };
        let Token::Word(key) = token else {
            return Err(unexpected(&token, "a label key"));
        };
        if !is_label_key(&key) {
            return Err(SelectorError::Key(shown(&key)));
        }
        let operator = if negated { Operator::DoesNotExist } else { self.operator()? };
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Operator::Exists);
        }
        let token = self.next();
        match &token {
            Token::Symbol("=" | "==") => Ok(Operator::In(Box::new([self.exact_value()?]))),
            Token::Symbol("!=") => Ok(Operator::NotIn(Box::new([self.exact_value()?]))),
            Token::Symbol(">") => Ok(Operator::GreaterThan(self.number()?)),
            Token::Symbol("<") => Ok(Operator::LessThan(self.number()?)),
            Token::Word(word) if word == "in" => Ok(Operator::In(self.values()?)),
            Token::Word(word) if word == "notin" => Ok(Operator::NotIn(self.values()?)),
            Token::Word(_) | Token::Symbol(_) | Token::End => {
                Err(unexpected(&token, "one of '=', '==', '!=', 'in', 'notin', '<', '>'"))
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                checked_value(word)
            }
            other @ Token::Symbol(_) => Err(unexpected(&other, "a label value")),
        }
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let value = self.exact_value()?;
        value.parse().map_err(|_| SelectorError::Number(shown(&value)))
    }

    fn values(&mut self) -> Result<Values, SelectorError> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(unexpected(&open, "'('"));
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(word) => {
                    self.next();
                    checked_value(word)?
                }
                Token::Symbol("," | ")") => String::new(),
                other @ (Token::Symbol(_) | Token::End) => {
                    return Err(unexpected(&other, "a label value or ')'"));
                }
            };
            values.insert(value);
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values.into_iter().collect()),
                other @ (Token::Word(_) | Token::Symbol(_) | Token::End) => {
                    return Err(unexpected(&other, "',' or ')'"));
                }
            }
        }
    }
}

fn unexpected(found: &Token, expected: &'static str) -> SelectorError {
    SelectorError::Unexpected { found: shown(&found.text()), expected }
}

fn checked_value(value: String) -> Result<String, SelectorError> {
    if value.is_empty() || is_name_part(&value) {
        Ok(value)
    } else {
        Err(SelectorError::Value(shown(&value)))
    }
}

/// At most 63 of `[A-Za-z0-9._-]`, first and last a letter or digit.
fn is_name_part(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name_part(key),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name_part(name),
    }
}

/// Lower-case letters, digits, `-` and dots, at most 253 long; each part starts and ends with a letter or digit.
fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

/// A part of such a name, at most 63 long: the name of a namespace.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

fn is_dns_part(part: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(part.chars().next())
        && edge(part.chars().next_back())
        && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

impl Selector {
    /// Parses a selector such as `a=b,c!=d,e in (f,g),h,!i`; the empty string selects everything.
    ///
    /// # Errors
    /// Says which token or name is wrong.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser { tokens: tokens(text).into_iter().peekable() }.selector()
    }

    /// Whether an object with these labels is selected. `!=` and `notin` match an absent key, as in Kubernetes.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.binary_search(value).is_ok()),
                Operator::NotIn(values) => value.is_none_or(|value| values.binary_search(value).is_err()),
                Operator::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
                Operator::LessThan(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }

    /// The keys of which an object must have one of these values.
    pub fn required(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.requirements.iter().filter_map(|requirement| {
            let Operator::In(values) = &requirement.operator else { return None };
            Some((requirement.key.as_str(), &**values))
        })
    }

    /// True for the selector that selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

/// The canonical form: equal selectors print alike, and what is printed parses to the same selector.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            let list = |values: &Values| values.join(",");
            match operator {
                Operator::Exists => write!(f, "{key}")?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values))?,
                Operator::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", list(values))?,
                Operator::In(values) => write!(f, "{key} in ({})", list(values))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values))?,
                Operator::GreaterThan(bound) => write!(f, "{key}>{bound}")?,
                Operator::LessThan(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_operator_selects_as_in_kubernetes() {
        let object = labels(&[("a", "b"), ("c", "x"), ("e", "g"), ("h", ""), ("n", "5")]);
        for (selector, expected) in [
            ("", true),
            ("  ", true),
            ("a=b,c!=d,e in (f,g),h,!i", true),
            ("a==b", true),
            ("a = b , c", true),
            ("a=c", false),
            ("missing=b", false),
            ("missing!=b", true),
            ("missing notin (b)", true),
            ("e notin (f,g)", false),
            ("h=", true),
            ("h in (,x)", true),
            ("n>4,n<6", true),
            ("n>5", false),
            ("a>1", false),
            ("in", false),
            ("!in", true),
            ("a in (b)", true),
            ("h in ()", true),
            ("a in ()", false),
            ("doks.digitalocean.com/node-pool!=work", true),
        ] {
            let parsed = Selector::parse(selector).unwrap_or_else(|error| panic!("{selector:?}: {error}"));
            assert_eq!(parsed.matches(&object), expected, "{selector:?}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        for selector in [
            ",",
            "a,",
            ",a",
            "a=b,,c",
            "a in",
            "a in b",
            "a in (b",
            "a>-3",
            "a>",
            "a=(b)",
            "!a=b",
            "!",
            "!!a",
            "a b",
            "a=b c",
            "a/b/c",
            "/a",
            "A/b",
            "a/",
            "-a",
            "a-",
            "a=-b",
            "x>y",
            "a=b)",
            "ä=b",
            "a=b;c",
            "a0123456789012345678901234567890123456789012345678901234567890123456789=b",
        ] {
            assert!(Selector::parse(selector).is_err(), "{selector:?} was accepted");
        }
    }

    #[test]
    fn equal_selectors_print_alike() {
        let one = Selector::parse("b,a==1 , c in (y,x),a=1").unwrap();
        let other = Selector::parse("a=1,c in ( x , y ),b").unwrap();
        assert_eq!(one.to_string(), other.to_string());
        assert_eq!(one.to_string(), "a=1,b,c in (x,y)");
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_and_what_prints_parses_to_the_same(text in "[a-z0-9=!,() <>./in-]{0,40}") {
            if let Ok(selector) = Selector::parse(&text) {
                prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}
