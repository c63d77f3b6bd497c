//! Small languages: selectors, names, and plans of simulations.

use super::corpus::{replay, samples};
use flipop_core::model::provider::ZoneForm;
use flipop_core::model::selector::Selector;
use flipop_core::records::name::{ZoneRef, qualify};
use flipop_simulation::Plan;
use proptest::prelude::*;
use proptest::sample::Index;

/// The longest message about one mistake.
const MAX_ERROR_CHARS: usize = 400;

fn bounded(error: &impl ToString) {
    let text = error.to_string();
    assert!(text.chars().count() <= MAX_ERROR_CHARS, "{} characters", text.chars().count());
}

fn sound_selector(text: &str) -> bool {
    match Selector::parse(text) {
        Ok(selector) => {
            assert_eq!(Selector::parse(&selector.to_string()).as_ref(), Ok(&selector), "{text:?}");
            if let Some(labels) = selector.example() {
                assert!(selector.matches(&labels), "{text:?}");
            }
            true
        }
        Err(error) => {
            bounded(&error);
            false
        }
    }
}

fn sound_name(record_name: &str, zone: Option<&str>) {
    match qualify(record_name, zone) {
        Ok(name) => {
            assert!(name.len() <= 253 && zone.is_none_or(|zone| name.ends_with(zone)), "{name:?}");
            let written = format!("{name}.");
            assert_eq!(qualify(&written, zone).as_ref(), Ok(&name), "{record_name:?} in {zone:?}");
        }
        Err(error) => bounded(&error),
    }
}

fn sound_plan(text: &str) -> bool {
    match Plan::from_yaml(text) {
        Ok(plan) => {
            let again = Plan::from_yaml(&plan.to_yaml().unwrap()).unwrap();
            assert_eq!(again, plan);
            true
        }
        Err(_refused) => false,
    }
}

/// A sample with a piece of itself or of another sample inserted elsewhere.
fn spliced(decoder: &str) -> impl Strategy<Value = String> + use<> {
    let texts: Vec<String> = samples(decoder)
        .into_iter()
        .map(|sample| String::from_utf8_lossy(&sample.bytes).into_owned())
        .collect();
    let all = prop::sample::select(texts);
    let edit =
        (any::<Index>(), any::<Index>(), any::<Index>(), prop_oneof![Just(String::new()), any::<String>()]);
    (all.clone(), all, prop::collection::vec(edit, 1..4)).prop_map(|(text, other, edits)| {
        let (mut text, other): (Vec<char>, Vec<char>) = (text.chars().collect(), other.chars().collect());
        for (at, from, length, new) in edits {
            let at = at.index(text.len() + 1);
            let from = from.index(other.len() + 1);
            let to = from + length.index(other.len() + 1 - from);
            let gone = (at + (to - from) / 2).min(text.len());
            drop(text.splice(at..gone, other[from..to].iter().copied().chain(new.chars())));
        }
        text.into_iter().collect()
    })
}

fn zone() -> impl Strategy<Value = Option<String>> {
    let zones =
        ["example.com", "com", "xn--bcher-kva.example", "a.b.c.d.e.f"].map(|zone| Some(zone.to_owned()));
    prop_oneof![Just(None), prop::sample::select(zones.to_vec())]
}

#[test]
fn the_samples_are_read_as_their_names_say() {
    replay("selector", |bytes| sound_selector(std::str::from_utf8(bytes).unwrap().trim_end_matches('\n')));
    replay("plan", |bytes| sound_plan(std::str::from_utf8(bytes).unwrap()));
}

proptest! {
    #[test]
    fn any_selector_means_the_same_when_it_is_printed(text in prop_oneof![
        any::<String>(),
        spliced("selector"),
        "[a-z0-9=!<>(), /._-]{0,40}",
        "(a|b|in|notin|=|==|!=|!|,|\\(|\\)|<|>|1| ){0,24}",
        "[a-z]{0,9}=?[ -~]{0,3000}",
    ]) {
        sound_selector(&text);
    }

    #[test]
    fn any_record_name_lies_in_its_zone_or_is_refused(
        name in prop_oneof![any::<String>(), "[a-zA-Z0-9@*._-]{0,300}", "(www|@|\\.|example|com|\\*){0,12}"],
        zone in zone(),
    ) {
        sound_name(&name, zone.as_deref());
    }

    #[test]
    fn any_zone_is_canonical_or_refused(text in prop_oneof![any::<String>(), "[a-zA-Z0-9*._-]{0,300}"]) {
        for form in [ZoneForm::Name, ZoneForm::NameOrId] {
            match ZoneRef::parse(&text, form) {
                Ok(ZoneRef::Id(id)) => prop_assert_eq!(&id, &text),
                Ok(ZoneRef::Name(name)) => {
                    prop_assert_eq!(ZoneRef::parse(&format!("{name}."), form), Ok(ZoneRef::Name(name)));
                }
                Err(error) => bounded(&error),
            }
        }
    }

    #[test]
    fn any_plan_comes_back_as_it_was_written(text in prop_oneof![1 => any::<String>(), 4 => spliced("plan")]) {
        sound_plan(&text);
    }
}
