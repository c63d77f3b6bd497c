//! Decoding that accepts everything the API server accepts.
//!
//! Owns the three places where plain serde is stricter than a schema: `null` means absent, a whole number may be
//! written `3.0`, and a number may exceed its Rust type. It does not judge values: a negative TTL decodes here, and its
//! reader reports it.
//! Invariant: a value that was read is written back with the same meaning, and a whole number without a fraction.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt;

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

/// A whole number in any JSON spelling. Saturates if out of range: readers need only the sign and that it is too much.
pub(super) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    deserializer.deserialize_any(IntegerVisitor)
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

impl<'de> Visitor<'de> for IntegerVisitor {
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

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        integer(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde_json::{Value, json};

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Sample {
        #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
        ttl: Option<i64>,
        #[serde(default, serialize_with = "write_number", skip_serializing_if = "Option::is_none")]
        pause: Option<f64>,
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
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
