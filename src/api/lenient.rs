//! Decoding that accepts everything the API server accepts.
//!
//! Owns the places where plain serde is stricter than a schema: `null` means absent, a whole number may be written
//! `3.0`, a number may exceed its Rust type, and a time may be unreadable. It does not judge values: a negative TTL
//! decodes here, and its reader reports it.
//! Invariant: a value that was read is written back with the same meaning, and a whole number without a fraction.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Declares types of the API. A field that has its default is not written, except in types that are declared `whole`
/// for fields without an attribute that says otherwise.
macro_rules! api_types {
    (whole: $($types:tt)+) => { api_types!(@ serde(default), $($types)+); };
    (@ $written:meta, $($(#[$about:meta])* pub struct $name:ident {
        $($(#[$of_field:meta])* pub $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(
                $(#[$of_field])*
                #[serde(deserialize_with = "crate::api::lenient::Field::read")]
                #[$written]
                pub $field: $type,
            )+
        }

        impl crate::api::lenient::Field for Option<$name> {}
    )+};
    ($($types:tt)+) => {
        api_types!(@ serde(skip_serializing_if = "crate::api::lenient::is_default"), $($types)+);
    };
}

pub(super) use api_types;

/// A type of fields, in which `null` and absent mean the default.
pub(super) trait Field: DeserializeOwned + Default {
    /// Decodes it.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer)
    }
}

impl Field for bool {}
impl Field for u64 {}
impl Field for String {}
impl Field for Option<bool> {}
impl Field for Option<f64> {}
impl Field for Option<String> {}
impl<T: DeserializeOwned> Field for Vec<T> {}
impl<T: DeserializeOwned> Field for Option<Vec<T>> {}
impl<T: DeserializeOwned> Field for BTreeMap<String, T> {}

impl Field for Option<i64> {
    /// A whole number in any JSON spelling. Saturates if out of range: readers need only the sign and that it is too
    /// much.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor)
    }
}

impl Field for Option<Time> {
    /// Treats an unreadable time as absent, so that it does not make the object undecodable.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.and_then(|text| text.parse().ok()).map(Time))
    }
}

/// Whether a field has its default.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Up to this magnitude, every whole number is exact in `f64` (2^53). Beyond it, a rewrite could alter digits.
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Decodes `null` and (with `#[serde(default)]`) absent as the type's default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Writes a number without a fraction as an integer, so that a rewrite does not turn `20` into `20.0`.
#[expect(clippy::ref_option, reason = "the signature that serde's attribute calls")]
pub(super) fn write_number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match *value {
        None => serializer.serialize_none(),
        Some(number) if number.fract() == 0.0 && number.abs() < EXACT_FLOAT => {
            serializer.serialize_i64(saturating(number))
        }
        Some(number) => serializer.serialize_f64(number),
    }
}

/// The whole part of a float as an integer. Saturates at the ends of the range; NaN becomes 0.
fn saturating(number: f64) -> i64 {
    if number.is_nan() {
        return 0;
    }
    // Through decimal digits: the only conversion in the standard library that is not a silent cast.
    match format!("{:.0}", number.trunc()).parse() {
        Ok(whole) => whole,
        Err(_) if number < 0.0 => i64::MIN,
        Err(_) => i64::MAX,
    }
}

struct IntegerVisitor;

impl Visitor<'_> for IntegerVisitor {
    type Value = Option<i64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(saturating(value)))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde_json::{Value, json};

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Sample {
        #[serde(default, deserialize_with = "Field::read", skip_serializing_if = "Option::is_none")]
        ttl: Option<i64>,
        #[serde(default, serialize_with = "write_number", skip_serializing_if = "Option::is_none")]
        pause: Option<f64>,
        #[serde(default, deserialize_with = "Field::read", skip_serializing_if = "is_default")]
        ips: Vec<String>,
    }

    fn ttl_of(value: &Value) -> Option<i64> {
        serde_json::from_value::<Sample>(json!({ "ttl": value })).unwrap().ttl
    }

    #[test]
    fn a_whole_number_decodes_however_it_is_spelled() {
        assert_eq!(ttl_of(&json!(30)), Some(30));
        assert_eq!(ttl_of(&json!(30.0)), Some(30));
        assert_eq!(ttl_of(&json!(-1)), Some(-1));
        assert_eq!(ttl_of(&json!(-1.0)), Some(-1));
        assert_eq!(ttl_of(&json!(1e3)), Some(1000));
        assert_eq!(ttl_of(&json!(0)), Some(0));
        assert_eq!(ttl_of(&json!(i64::MAX)), Some(i64::MAX));
        assert_eq!(ttl_of(&json!(u64::MAX)), Some(i64::MAX));
        assert_eq!(ttl_of(&json!(1e300)), Some(i64::MAX));
        assert_eq!(ttl_of(&json!(-1e300)), Some(i64::MIN));
    }

    #[test]
    fn null_is_absent() {
        let empty = Sample { ttl: None, pause: None, ips: Vec::new() };
        assert_eq!(serde_json::from_value::<Sample>(json!({})).unwrap(), empty);
        let nulls = json!({ "ttl": null, "pause": null, "ips": null });
        assert_eq!(serde_json::from_value::<Sample>(nulls).unwrap(), empty);
    }

    #[test]
    fn text_is_no_number() {
        assert!(serde_json::from_value::<Sample>(json!({ "ttl": "30" })).is_err());
    }

    #[test]
    fn numbers_are_written_back_as_they_were_read() {
        for (read, written) in [
            (json!(20), json!(20)),
            (json!(20.0), json!(20)),
            (json!(0), json!(0)),
            (json!(2.5), json!(2.5)),
            (json!(-3.0), json!(-3)),
            (json!(1e300), json!(1e300)),
        ] {
            let sample: Sample = serde_json::from_value(json!({ "pause": read })).unwrap();
            assert_eq!(serde_json::to_value(&sample).unwrap(), json!({ "pause": written }));
        }
    }

    #[test]
    fn leniency_survives_the_buffering_of_a_deserialize_guard() {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Buffered {
            Sample(Sample),
        }
        let Buffered::Sample(sample) = serde_json::from_value(json!({ "ttl": 3.0, "ips": null })).unwrap();
        assert_eq!(sample.ttl, Some(3));
    }
}
