//! Objects of our own kinds as the API server shows them, including those that cannot be decoded.

use super::{Condition, bounded};
use crate::api::resource::names;
use flipop_core::model::{ObjectKind, ObjectName, ObjectRef, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{NamespaceResourceScope, Resource};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt::Debug;

/// An object, or the fact that it exists but cannot be decoded.
pub type Seen<K> = Result<K, Undecodable>;

/// An object that the API server accepted, but that our types cannot decode.
#[derive(Debug, Clone, PartialEq)]
pub struct Undecodable {
    /// Its metadata, as far as decisions use it.
    pub metadata: Box<ObjectMeta>,
    /// Why it cannot be decoded.
    pub error: String,
}

/// The metadata of an object.
pub fn meta_of<K: Resource>(seen: &Seen<K>) -> &ObjectMeta {
    seen.as_ref().map_or_else(|undecodable| &*undecodable.metadata, K::meta)
}

/// The object that the metadata names.
pub fn object_of(meta: &ObjectMeta) -> ObjectRef {
    let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
    ObjectRef {
        uid: Uid(meta.uid.clone().unwrap_or_default().into()),
        name: ObjectName::new(namespace.unwrap_or_default(), name.unwrap_or_default()),
    }
}

/// Longest decoding error that is kept, because it goes into a status.
const MAX_ERROR_CHARS: usize = 300;

/// An object as text. If it cannot be decoded, its metadata still can.
///
/// `DeserializeGuard` of kube holds two copies of the decoded object, each many times as large as its text.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<K>(pub(crate) Seen<K>);

impl<K: DeserializeOwned> Guarded<K> {
    /// Decodes an object.
    pub(crate) fn of(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Identity {
            #[serde(default, deserialize_with = "bounded::metadata")]
            metadata: ObjectMeta,
        }
        serde_json::from_str(text).map(Ok).map(Self).or_else(|error| {
            let Identity { metadata } = serde_json::from_str(text)?;
            let error = error.to_string().chars().take(MAX_ERROR_CHARS).collect();
            Ok(Self(Err(Undecodable { metadata: Box::new(metadata), error })))
        })
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(Box::<RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Guarded<K> {
    names!(K);

    fn meta(&self) -> &ObjectMeta {
        meta_of(&self.0)
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|undecodable| &mut *undecodable.metadata, K::meta_mut)
    }
}

/// An object of ours, with conditions in its status.
pub trait Conditioned:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its kind.
    const KIND: ObjectKind;

    /// The conditions in its status.
    fn conditions(&self) -> &[Condition];
}
