//! Texts for people: how a number, a list or what somebody wrote is put into a message.

use std::net::Ipv4Addr;

/// Names shown in one message; the rest is counted.
const MAX_NAMED: usize = 5;

/// Addresses named where each has to be: of 1,000 bytes they take 850.
const MAX_ADDRESSES: usize = 50;

/// Characters of a bad text that a message repeats.
const MAX_SHOWN: usize = 64;

/// A number of addresses in words.
pub(crate) fn count_addresses(count: usize) -> String {
    if count == 1 { "1 address".to_owned() } else { format!("{count} addresses") }
}

/// The first few items, and how many more there are.
pub(crate) fn enumerate(items: impl Iterator<Item = String>) -> String {
    first_of(items, MAX_NAMED)
}

/// The addresses that somebody may have to write again, as many as find room in an Event, and how many more there are.
pub(crate) fn name_addresses<'a>(addresses: impl IntoIterator<Item = &'a Ipv4Addr>) -> String {
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

/// All items, where each has to be named.
pub(crate) fn name_all<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// What somebody wrote, cut to what a message repeats.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}
