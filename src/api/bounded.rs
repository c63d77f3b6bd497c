//! Decoding up to the bounds of [`flipop_core::model::bounds`].
//!
//! The author of an object decides how large it is, up to the 1.5 MiB of etcd. A list is kept up to its bound while
//! it is read, and a text is cut, so that no object takes much more memory than the body that it came in.

use flipop_core::addresses::pool::manual_move::result::MOVE_ANNOTATION;
use flipop_core::addresses::pool::spec::MAX_REPORTED;
use flipop_core::addresses::pool::status::FINALIZER;
use flipop_core::model::Address;
use flipop_core::model::bounds::{ANNOTATION_BYTES, CUT, ENTRY_BYTES, MAX_IPS, TooLarge, Unit, bound_of};
use flipop_core::model::pause::PAUSED_ANNOTATION;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The field whose valid entries count even behind others.
const IPS: &str = "spec.ips";

/// The deepest field of a spec, `spec.firewall.ports[0].port`, lies in this many others. Anything deeper is unknown.
const MAX_DEPTH: usize = 5;

/// Most fields of one object in a spec. Further ones are unknown, and so are fields with long names.
const MAX_FIELDS: usize = 64;

/// A spec that notes which of its fields were cut.
pub(super) trait Bounded {
    fn too_large(&mut self) -> &mut Vec<TooLarge>;
}

/// Decodes a spec. `null` is the default.
pub(super) fn spec<'de, D, S>(deserializer: D) -> Result<S, D::Error>
where
    D: Deserializer<'de>,
    S: DeserializeOwned + Default + Bounded,
{
    let (mut field, mut found) = ("spec".to_owned(), Vec::new());
    let value = Cut { field: &mut field, found: &mut found, depth: 0 }.deserialize(deserializer)?;
    let spec: Option<S> = serde_json::from_value(value).map_err(D::Error::custom)?;
    let mut spec = spec.unwrap_or_default();
    *spec.too_large() = found;
    Ok(spec)
}

/// Decodes the metadata of an object: all that decisions use, and nothing else.
pub(crate) fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Meta {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        finalizers: Option<Ours>,
        annotations: Option<Annotations>,
    }
    let meta = Option::<Meta>::deserialize(deserializer)?.unwrap_or_default();
    Ok(ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        creation_timestamp: meta.creation_timestamp,
        deletion_timestamp: meta.deletion_timestamp,
        finalizers: meta.finalizers.filter(|ours| ours.0).map(|_| vec![FINALIZER.to_owned()]),
        annotations: meta.annotations.map(|annotations| annotations.0).filter(|texts| !texts.is_empty()),
        ..ObjectMeta::default()
    })
}

/// Whether our finalizer is in the list.
struct Ours(bool);

impl<'de> Deserialize<'de> for Ours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut ours = false;
        each(deserializer, |text| ours |= text == FINALIZER)?;
        Ok(Self(ours))
    }
}

/// Our annotations, cut.
#[derive(Default)]
struct Annotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ours;
        impl<'de> Visitor<'de> for Ours {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut kept = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if [PAUSED_ANNOTATION, MOVE_ANNOTATION].contains(&key.as_str()) {
                        let text: Option<String> = map.next_value()?;
                        kept.insert(key, cut(&text.unwrap_or_default(), ANNOTATION_BYTES).0);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Annotations(kept))
            }
        }
        deserializer.deserialize_map(Ours)
    }
}

/// A text up to a bound, and whether it was longer.
fn cut(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let (kept, _) = text.split_at(end);
    (format!("{kept}{CUT}"), true)
}

/// Decodes a value of a spec up to its bounds.
struct Cut<'a> {
    /// The path of the field, without positions.
    field: &'a mut String,
    found: &'a mut Vec<TooLarge>,
    depth: usize,
}

impl Cut<'_> {
    fn inner(&mut self) -> Cut<'_> {
        Cut { field: self.field, found: self.found, depth: self.depth + 1 }
    }

    fn note(&mut self, size: usize, unit: Unit) {
        if !self.found.iter().any(|known| known.field == *self.field) {
            self.found.push(TooLarge { field: self.field.clone(), size, unit });
        }
    }
}

impl<'de> DeserializeSeed<'de> for Cut<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > MAX_DEPTH {
            return IgnoredAny::deserialize(deserializer).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cut<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a spec")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<Value, E> {
        let most = bound_of(self.field, Unit::Bytes);
        let (kept, is_cut) = cut(text, most);
        // A long entry of a list of addresses or networks is reported as what it is: no address.
        if is_cut && most != ENTRY_BYTES {
            self.note(text.len(), Unit::Bytes);
        }
        Ok(kept.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Value, A::Error> {
        let most = bound_of(self.field, Unit::Entries);
        let is_address = |entry: &Value| entry.as_str().and_then(Address::v4).is_some();
        let (mut kept, mut size, mut addresses) = (Vec::new(), 0, 0);
        loop {
            let wanted = size < most || (self.field == IPS && addresses < MAX_IPS);
            if !wanted {
                if list.next_element::<IgnoredAny>()?.is_none() {
                    break;
                }
            } else if let Some(entry) = list.next_element_seed(self.inner())? {
                let valid = self.field == IPS && is_address(&entry);
                addresses += usize::from(valid);
                if size < most || valid {
                    kept.push(entry);
                }
            } else {
                break;
            }
            size += 1;
        }
        if size > most {
            self.note(size, Unit::Entries);
            if self.field == IPS {
                // No more of the others are reported one by one.
                let mut others = 0;
                kept.retain(|entry| {
                    let valid = is_address(entry);
                    others += usize::from(!valid);
                    valid || others <= MAX_REPORTED
                });
            }
        }
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if kept.len() >= MAX_FIELDS || key.len() > ENTRY_BYTES {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let length = self.field.len();
            self.field.push('.');
            self.field.push_str(&key);
            let value = map.next_value_seed(self.inner())?;
            self.field.truncate(length);
            kept.insert(key, value);
        }
        Ok(kept.into())
    }
}

/// Calls `see` with each text of a list, and keeps none.
fn each<'de, D: Deserializer<'de>>(deserializer: D, see: impl FnMut(&str)) -> Result<(), D::Error> {
    struct Texts<F>(F);
    impl<'de, F: FnMut(&str)> Visitor<'de> for Texts<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of texts")
        }

        fn visit_unit<E: Error>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(text) = list.next_element::<Option<String>>()? {
                if let Some(text) = text {
                    (self.0)(&text);
                }
            }
            Ok(())
        }
    }
    deserializer.deserialize_any(Texts(see))
}

/// The sought addresses in `spec.ips` of a pool in JSON, in whichever entry they are.
pub(crate) fn named_in(pool: &str, sought: &BTreeSet<Address>) -> serde_json::Result<BTreeSet<Address>> {
    #[derive(Deserialize)]
    struct Pool<'a> {
        #[serde(borrow)]
        spec: Option<Spec<'a>>,
    }
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        ips: Option<&'a serde_json::value::RawValue>,
    }
    let mut named = BTreeSet::new();
    if let Some(ips) = serde_json::from_str::<Pool<'_>>(pool)?.spec.and_then(|spec| spec.ips) {
        each(&mut serde_json::Deserializer::from_str(ips.get()), |text| {
            named.extend(Address::v4(text).filter(|ip| sought.contains(ip)));
        })?;
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{FloatingIPPool, NodeDNSRecordSet};
    use serde_json::json;

    fn pool(spec: &Value) -> FloatingIPPool {
        serde_json::from_str(&json!({ "metadata": { "name": "p" }, "spec": spec }).to_string()).unwrap()
    }

    fn found(pool: &FloatingIPPool) -> Vec<(&str, usize)> {
        pool.spec.too_large.iter().map(|found| (found.field.as_str(), found.size)).collect()
    }

    #[test]
    fn each_field_is_kept_up_to_its_bound_and_its_size_is_noted() {
        let long = "x".repeat(9_000);
        let many = vec![json!({}); 70];
        let pool = pool(&json!({
            "provider": long, "region": long, "reclaimPolicy": long,
            "releasedIPs": vec!["192.0.2.1"; 501],
            "match": { "nodeLabel": long, "podLabel": long, "podNamespace": long, "tolerations": many },
            "dnsRecordSet": { "zone": long, "recordName": long },
            "firewall": { "ports": many, "sources": vec!["192.0.2.0/24"; 1_001] },
        }));
        let mut fields = found(&pool);
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                ("spec.dnsRecordSet.recordName", 9_000),
                ("spec.dnsRecordSet.zone", 9_000),
                ("spec.firewall.ports", 70),
                ("spec.firewall.sources", 1_001),
                ("spec.match.nodeLabel", 9_000),
                ("spec.match.podLabel", 9_000),
                ("spec.match.podNamespace", 9_000),
                ("spec.match.tolerations", 70),
                ("spec.provider", 9_000),
                ("spec.reclaimPolicy", 9_000),
                ("spec.region", 9_000),
                ("spec.releasedIPs", 501),
            ]
        );
        let kept = serde_json::to_string(&pool.spec).unwrap();
        assert!(kept.len() < 64 << 10, "{}", kept.len());
        let criteria = pool.spec.match_.unwrap();
        assert_eq!(criteria.node_label.unwrap(), format!("{}{CUT}", "x".repeat(4_096)));
        assert_eq!(criteria.tolerations.unwrap().len(), 64);
    }

    #[test]
    fn what_is_within_its_bounds_is_decoded_as_it_was_written() {
        let spec = json!({
            "provider": "digitalocean", "ips": ["192.0.2.1", "bad"], "desiredIPs": 2, "assignmentCoolOffSeconds": 2.5,
            "match": { "tolerations": [{ "key": "x".repeat(317) }], "nodeLabel": "x".repeat(4_096) },
            "nodeLabels": { "enabled": true },
        });
        let pool = pool(&spec);
        assert_eq!((found(&pool), serde_json::to_value(&pool.spec).unwrap()), (vec![], spec));
    }

    #[test]
    fn of_many_addresses_the_first_thousand_valid_ones_are_kept_wherever_they_are() {
        let bad = (0..2_000).map(|number| format!("bad {number}"));
        let good = (0..1_500_u16).map(|number| format!("198.18.{}.{}", number / 250, number % 250));
        let all: Vec<String> = bad.chain(good).collect();
        let pool = pool(&json!({ "ips": all }));
        assert_eq!(found(&pool), [("spec.ips", 3_500)]);
        let kept = pool.spec.ips.unwrap();
        assert_eq!((kept.len(), &kept[..10], &kept[10..]), (1_010, &all[..10], &all[2_000..3_000]));
    }

    #[test]
    fn an_address_is_found_in_any_entry() {
        let ips: Vec<String> =
            (0..40_000_u32).map(|number| Address::from(number.to_be_bytes()).to_string()).collect();
        let last = Address::v4(ips.last().unwrap()).unwrap();
        let sought = BTreeSet::from([last, Address::from([192, 0, 2, 1])]);
        let text = json!({ "spec": { "provider": "x", "ips": ips } }).to_string();
        assert_eq!(named_in(&text, &sought).unwrap(), BTreeSet::from([last]));
        let odd = json!({ "spec": { "ips": ["192.0.2.9", 5, "192.0.2.1"] } }).to_string();
        assert!(named_in(&odd, &sought).is_err(), "it may name any address");
        for none in [json!({}), json!({ "spec": null }), json!({ "spec": { "ips": null } })] {
            assert!(named_in(&none.to_string(), &sought).unwrap().is_empty());
        }
    }

    #[test]
    fn of_the_metadata_only_what_decides_is_kept() {
        let set: NodeDNSRecordSet = serde_json::from_value(json!({ "metadata": {
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-11-26T15:00:00Z", "labels": { "x": "y" }, "managedFields": [{ "manager": "m" }],
            "finalizers": ["other", FINALIZER],
            "annotations": { "other": "x", PAUSED_ANNOTATION: "ä".repeat(2_000), MOVE_ANNOTATION: "192.0.2.1=b" },
        } }))
        .unwrap();
        let meta = set.metadata;
        assert_eq!((meta.name.as_deref(), meta.generation, meta.labels), (Some("a"), Some(3), None));
        assert_eq!((meta.finalizers, meta.managed_fields), (Some(vec![FINALIZER.to_owned()]), None));
        let annotations = meta.annotations.unwrap();
        assert_eq!(annotations.len(), 2);
        assert_eq!(annotations[PAUSED_ANNOTATION], format!("{}{CUT}", "ä".repeat(800)));
    }
}
