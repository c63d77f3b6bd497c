//! Inputs: random, from a vocabulary, or a sample with a defect.

use super::corpus::{Sample, samples};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Number, Value, json};
use std::collections::BTreeSet;

/// Deeper than any decoder follows.
const DEEP: usize = 200;

/// Longer than any text that is ever shown.
const LONG: usize = 5_000;

/// A defect of a value.
#[derive(Debug, Clone)]
enum Edit {
    /// Removes the place from its container.
    Delete,
    /// Doubles an element.
    Double,
    /// Puts another value there.
    Put(Value),
    /// Puts the value inside many lists.
    Bury,
    /// Swaps two values.
    Swap(Index),
}

/// A defect of a text.
#[derive(Debug, Clone)]
enum Damage {
    Nothing,
    Cut(Index),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    /// Repeats the first field of an object.
    Repeat(Index),
}

/// Any input for a JSON decoder.
pub(crate) fn json_like(decoder: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let samples = samples(decoder);
    let names: BTreeSet<String> = samples.iter().filter_map(value_of).flat_map(|v| names_in(&v)).collect();
    let names: Vec<String> = names.into_iter().chain(["unknown".to_owned()]).collect();
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..512),
        2 => from_names(names).prop_map(|value| value.to_string().into_bytes()),
        5 => damaged(samples),
    ]
}

/// Any input for a decoder of binary data.
pub(crate) fn bytes_like(decoder: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let hurts = prop::collection::vec(damage(), 1..4);
    let hurt_samples = (prop::sample::select(samples(decoder)), hurts)
        .prop_map(|(sample, hurts)| hurts.into_iter().fold(sample.bytes, hurt));
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..512),
        4 => hurt_samples,
    ]
}

/// Samples with defects.
fn damaged(samples: Vec<Sample>) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<Index>(), edit()), 0..4);
    (prop::sample::select(samples), edits, damage()).prop_map(|(sample, edits, damage)| {
        let Some(mut value) = value_of(&sample) else { return hurt(sample.bytes, damage) };
        for (at, edit) in edits {
            apply(&mut value, at, &edit);
        }
        if let Damage::Repeat(at) = damage {
            let objects = paths(&value).into_iter().filter(|path| at_path(&mut value, path).is_object());
            let objects: Vec<Vec<usize>> = objects.collect();
            let target = (!objects.is_empty()).then(|| at.get(&objects).clone());
            return written(&value, target.as_deref(), &mut Vec::new()).into_bytes();
        }
        hurt(value.to_string().into_bytes(), damage)
    })
}

fn value_of(sample: &Sample) -> Option<Value> {
    serde_json::from_slice(&sample.bytes).ok()
}

fn names_in(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| names_in(value).into_iter().chain([name.clone()]))
            .collect(),
        Value::Array(items) => items.iter().flat_map(names_in).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Values at the limits of types.
pub(crate) fn odd() -> impl Strategy<Value = Value> {
    let numbers = ["-1", "0", "1", "2147483648", "4294967296", "9223372036854775808", "18446744073709551615"];
    let more = ["-9223372036854775809", "1e308", "-1e-308", "0.5", "3.0", "99999999999999999999999"];
    let number = |text: &&str| Value::Number(text.parse::<Number>().unwrap());
    let numbers: Vec<Value> = numbers.iter().chain(&more).map(number).collect();
    let texts = [
        "",
        " ",
        ".",
        "..",
        "*",
        "\u{0}",
        "\n",
        "192.0.2.1",
        "192.0.2.256",
        "2001:db8::1",
        "::ffff:192.0.2.1",
        "Ä",
        "\u{202e}",
        "null",
        "True",
        "A",
        "in-progress",
        "completed",
        "errored",
        "1969-12-31T23:59:60Z",
    ];
    let texts = texts.iter().map(|text| json!(text));
    let others = [Value::Null, json!(true), json!(false), json!([]), json!({}), json!("x".repeat(LONG))];
    let all: Vec<Value> = numbers.into_iter().chain(texts).chain(others).collect();
    prop::sample::select(all)
}

fn from_names(names: Vec<String>) -> impl Strategy<Value = Value> {
    odd().prop_recursive(5, 40, 5, move |inner| {
        let fields = prop::collection::vec((prop::sample::select(names.clone()), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::Array),
            fields.prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        2 => Just(Edit::Delete),
        2 => Just(Edit::Double),
        4 => odd().prop_map(Edit::Put),
        1 => Just(Edit::Bury),
        2 => any::<Index>().prop_map(Edit::Swap),
    ]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        8 => Just(Damage::Nothing),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        1 => (any::<Index>(), prop::collection::vec(any::<u8>(), 1..4)).prop_map(|(at, new)| Damage::Insert(at, new)),
        1 => any::<Index>().prop_map(Damage::Repeat),
    ]
}

fn hurt(mut bytes: Vec<u8>, damage: Damage) -> Vec<u8> {
    if bytes.is_empty() {
        return bytes;
    }
    match damage {
        Damage::Nothing | Damage::Repeat(_) => {}
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Damage::Flip(at, mask) => {
            let at = at.index(bytes.len());
            bytes[at] ^= mask;
        }
        Damage::Insert(at, new) => {
            let at = at.index(bytes.len());
            drop(bytes.splice(at..at, new));
        }
    }
    bytes
}

/// Every place in a value, as the child numbers that lead there.
fn paths(value: &Value) -> Vec<Vec<usize>> {
    let mut found = vec![Vec::new()];
    for (number, child) in children(value).into_iter().enumerate() {
        for mut path in paths(child) {
            path.insert(0, number);
            found.push(path);
        }
    }
    found
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn at_path<'a>(value: &'a mut Value, path: &[usize]) -> &'a mut Value {
    let Some((first, rest)) = path.split_first() else { return value };
    let child = match value {
        Value::Object(fields) => fields.values_mut().nth(*first),
        Value::Array(items) => items.get_mut(*first),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    at_path(child.unwrap(), rest)
}

fn apply(value: &mut Value, at: Index, edit: &Edit) {
    let all = paths(value);
    let path = at.get(&all).clone();
    match edit {
        Edit::Put(new) => *at_path(value, &path) = new.clone(),
        Edit::Bury => {
            let place = at_path(value, &path);
            *place = (0..DEEP).fold(place.take(), |inner, _| Value::Array(vec![inner]));
        }
        Edit::Swap(other) => {
            let other = other.get(&all).clone();
            let (one, two) = (at_path(value, &path).clone(), at_path(value, &other).clone());
            // If one contains the other, the outer one wins.
            *at_path(value, &path) = two;
            if !other.starts_with(&path) {
                *at_path(value, &other) = one;
            }
        }
        Edit::Delete | Edit::Double => {
            let Some((last, parent)) = path.split_last() else { return };
            let twice = matches!(edit, Edit::Double);
            match at_path(value, parent) {
                Value::Array(items) if twice => items.push(items[*last].clone()),
                Value::Array(items) => drop(items.remove(*last)),
                Value::Object(fields) => {
                    let name = fields.keys().nth(*last).unwrap().clone();
                    let field = fields.remove(&name).unwrap();
                    if twice {
                        fields.insert(name.to_uppercase(), field.clone());
                        fields.insert(name, field);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }
}

/// JSON in which the object at `twice` has its first field twice, which no [`Value`] can express.
fn written(value: &Value, twice: Option<&[usize]>, here: &mut Vec<usize>) -> String {
    let mut parts = Vec::new();
    for (number, child) in children(value).into_iter().enumerate() {
        here.push(number);
        parts.push(written(child, twice, here));
        here.pop();
    }
    match value {
        Value::Array(_) => format!("[{}]", parts.join(",")),
        Value::Object(fields) => {
            let pair = |(name, part): (&String, &String)| format!("{}:{part}", json!(name));
            let mut pairs: Vec<String> = fields.keys().zip(&parts).map(pair).collect();
            if twice == Some(here.as_slice()) {
                pairs.extend(pairs.first().cloned());
            }
            format!("{{{}}}", pairs.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
