//! How numbers, lists and user input are put into messages.

use crate::model::ids::Address;
use crate::model::moment::Moment;

/// How many names one message shows. The others are counted.
pub const MAX_NAMED: usize = 5;

/// How many addresses a message names in full. They take 850 of an Event's 1,000 bytes.
const MAX_ADDRESSES: usize = 50;

/// Longest text in a status, in bytes.
pub const MAX_STATUS_BYTES: usize = 1_024;

/// How many characters of an invalid text a message repeats.
const MAX_SHOWN: usize = 64;

/// A number of addresses in words.
pub(crate) fn count_addresses(count: usize) -> String {
    if count == 1 { "1 address".to_owned() } else { format!("{count} addresses") }
}

/// The first few items, and how many more there are.
pub(crate) fn enumerate(items: impl Iterator<Item = String>) -> String {
    first_of(items, MAX_NAMED)
}

/// As many addresses as fit into an Event, and how many more there are. A user may have to write them again.
pub(crate) fn name_addresses<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> String {
    first_of(addresses.into_iter().map(ToString::to_string), MAX_ADDRESSES)
}

fn first_of(items: impl Iterator<Item = String>, most: usize) -> String {
    let all: Vec<String> = items.collect();
    let more = all.len().saturating_sub(most);
    let mut text = all.into_iter().take(most).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text = format!("{text} and {more} more");
    }
    text
}

/// All items, for messages that must name each one.
pub(crate) fn name_all<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// The time of day, rounded up to the minute. `epoch_ms` is the Unix time of the clock's origin. Whole minutes give
/// close times the same text.
pub(crate) fn time_of_day(moment: Moment, epoch_ms: u64) -> String {
    let minutes = moment.plus_millis(epoch_ms).as_millis().div_ceil(60_000);
    format!("{:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

/// The time of day to the second, rounded up. `epoch_ms` is the Unix time of the clock's origin.
pub(crate) fn second_of_day(moment: Moment, epoch_ms: u64) -> String {
    let seconds = moment.plus_millis(epoch_ms).as_millis().div_ceil(1_000);
    clock_time(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// The time of day of a Unix time in seconds.
pub(crate) fn clock_time(seconds: i64) -> String {
    let of_day = seconds.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

/// A text of a status, cut to its bound on a character. Ends with what is missing.
pub(crate) fn cut(text: &mut String) {
    if text.len() <= MAX_STATUS_BYTES {
        return;
    }
    let missing = |end: usize| format!("… ({} more bytes; /debug has them)", text.len() - end);
    let mut end = MAX_STATUS_BYTES - missing(0).len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let rest = missing(end);
    text.truncate(end);
    text.push_str(&rest);
}

/// User input, cut to the length that a message repeats.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

/// The known word that a mistyped one stands for: the nearest, if at most a third of the letters differ.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > MAX_SHOWN {
        return None;
    }
    let letters: Vec<char> = typed.to_lowercase().chars().collect();
    let near = known.into_iter().map(|word| (distance(&letters, word), word));
    near.min_by_key(|(far, _)| *far).filter(|(far, _)| *far <= letters.len() / 3).map(|(_, word)| word)
}

/// How many letters to change, add or leave out to get from one text to another, whatever their case.
fn distance(letters: &[char], word: &str) -> usize {
    let mut before: Vec<usize> = (0..=letters.len()).collect();
    for (number, letter) in word.to_lowercase().chars().enumerate() {
        let mut last = number.saturating_add(1);
        let mut row = vec![last];
        for ((other, left), above) in letters.iter().zip(&before).zip(before.iter().skip(1)) {
            let changed = left.saturating_add(usize::from(*other != letter));
            last = changed.min(above.saturating_add(1)).min(last.saturating_add(1));
            row.push(last);
        }
        before = row;
    }
    before.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_stands_for_the_nearest_one_if_that_is_near() {
        let known = ["provider", "nodeLabel", "podLabel", "ips"];
        for (typed, meant) in [
            ("nodelabel", Some("nodeLabel")),
            ("poolLabel", Some("podLabel")),
            ("providr", Some("provider")),
            ("ip", None),
            ("ipz", Some("ips")),
            ("size", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(100), known), None);
    }

    #[test]
    fn a_time_of_day_is_told_by_the_minute_that_follows() {
        // The clock's origin is 2026-11-26 23:59:30 UTC.
        let epoch_ms = 1_795_737_570_000;
        for (ms, rest) in
            [(0, "00:00"), (1, "00:00"), (30_000, "00:00"), (30_001, "00:01"), (3_630_000, "01:00")]
        {
            assert_eq!(time_of_day(Moment::from_millis(ms), epoch_ms), format!("{rest} UTC"));
        }
    }
}
