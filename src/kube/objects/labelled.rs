//! Objects with their labels, for watches that serve several selectors. All other watches leave labels unread.

use crate::api::resource::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The labels of an object.
pub type Labels = BTreeMap<String, String>;

/// An object and its labels.
#[derive(Debug, Clone)]
pub struct Labelled<K> {
    /// The object.
    pub object: K,
    /// Its labels.
    pub labels: Labels,
}

/// The part of any object that holds its labels.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default, deserialize_with = "crate::api::lenient::or_default")]
    labels: BTreeMap<String, Option<String>>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Labelled<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let object = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let Outline { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let labels = metadata.labels.into_iter().map(|(key, value)| (key, value.unwrap_or_default()));
        Ok(Self { object, labels: labels.collect() })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Labelled<K> {
    names!(K);

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}
