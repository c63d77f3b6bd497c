//! The flags that change what the operator decides.

use super::ConfigError;
use super::flags::{self, Asked, Flags};
use flipop_core::records::name::Zones;
use std::ffi::OsString;
use std::iter::once;

/// The largest value of `--max-addresses`. No account has as many.
const MAX_ADDRESSES: usize = 100_000;

/// These flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionFlags {
    /// `--keep-last-record`.
    pub keep_last_record: bool,
    /// `--zones`.
    pub zones: Zones,
    /// `--max-addresses`.
    pub max_addresses: Option<usize>,
}

impl DecisionFlags {
    pub(super) fn new(flags: &Flags) -> Result<Self, ConfigError> {
        let zones = Zones::parse(&flags.zones);
        Ok(Self {
            keep_last_record: flags.keep_last_record,
            zones: zones.map_err(|error| ConfigError::invalid("--zones", error.to_string()))?,
            max_addresses: max_addresses(&flags.max_addresses)?,
        })
    }

    /// The flags of an operator that a container runs with these words. `None`: the words are not understood.
    pub fn of_container<'a>(words: impl IntoIterator<Item = &'a String>) -> Option<Self> {
        let flags = words.into_iter().skip_while(|word| !word.starts_with('-')).map(OsString::from);
        let words: Vec<OsString> = once("flipop".into()).chain(flags).collect();
        match flags::parse(&words, true).ok()? {
            Asked::Operator(flags, _) => Self::new(&flags).ok(),
            Asked::Agent(_) | Asked::Command(_) => None,
        }
    }
}

fn max_addresses(text: &str) -> Result<Option<usize>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number| (1..=MAX_ADDRESSES).contains(number));
    let problem = || format!("{text:?} is not a number from 1 to {MAX_ADDRESSES}");
    number.map(Some).ok_or_else(|| ConfigError::invalid("--max-addresses", problem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_a_container_are_those_of_the_operator_in_it() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            DecisionFlags::of_container(&words)
        };
        assert_eq!(of(&["/app/flipop"]), Some(DecisionFlags::default()));
        let zones = Zones::parse("example.com,0da42c8d").unwrap();
        let all = DecisionFlags { keep_last_record: true, zones, max_addresses: Some(7) };
        let words = ["--zones", "Example.com,0da42c8d", "--max-addresses=7", "--keep-last-record", "--debug"];
        assert_eq!(of(&words).as_ref(), Some(&all), "the entry point of the image names the program");
        assert_eq!(of(&[&["/app/flipop"], &words[..]].concat()), Some(all));
        for unclear in ["--no-such-flag", "--zones=$(ZONES)", "--max-addresses=many"] {
            assert_eq!(of(&["/app/flipop", unclear]), None, "{unclear}");
        }
    }
}
