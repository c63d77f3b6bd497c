//! Objects of our own kinds as the API server shows them, including those that cannot be decoded.

use super::{Condition, FloatingIPPool, NodeDNSRecordSet, bounded};
use crate::api::resource::names;
use flipop_core::model::{ObjectKind, ObjectName, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{NamespaceResourceScope, Resource};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// An object, or the fact that it exists but cannot be decoded.
pub type Seen<K> = Result<K, Undecodable>;

/// An object that the API server accepted, but that our types cannot decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable {
    /// Namespace and name.
    pub name: ObjectName,
    /// Its uid.
    pub uid: Uid,
    /// Its version, for a status write.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `metadata.creationTimestamp`, which orders claims.
    pub created: Option<jiff::Timestamp>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Our annotations in `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// Why it cannot be decoded.
    pub error: String,
}

/// Longest decoding error that is kept, because it goes into a status.
const MAX_ERROR_CHARS: usize = 300;

/// An object as text. If it cannot be decoded, its metadata still can.
///
/// `DeserializeGuard` of kube holds two copies of the decoded object, each many times as large as its text.
#[derive(Debug, Clone)]
pub(crate) enum Guarded<K> {
    Readable(K),
    Unreadable(Box<ObjectMeta>, String),
}

impl<K: DeserializeOwned> Guarded<K> {
    /// Decodes an object.
    pub(crate) fn of(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Identity {
            #[serde(default, deserialize_with = "bounded::metadata")]
            metadata: ObjectMeta,
        }
        serde_json::from_str(text).map(Self::Readable).or_else(|error| {
            let Identity { metadata } = serde_json::from_str(text)?;
            Ok(Self::Unreadable(Box::new(metadata), error.to_string()))
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
        match self {
            Self::Readable(object) => object.meta(),
            Self::Unreadable(meta, _) => meta,
        }
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Readable(object) => object.meta_mut(),
            Self::Unreadable(meta, _) => meta,
        }
    }
}

/// Takes an object out of its guard.
#[expect(clippy::result_large_err, reason = "it is the rare case, and moved once")]
pub(crate) fn seen<K>(guard: Guarded<K>) -> Seen<K> {
    match guard {
        Guarded::Readable(object) => Ok(object),
        Guarded::Unreadable(meta, error) => Err(Undecodable {
            name: ObjectName::new(meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default()),
            uid: Uid(meta.uid.unwrap_or_default().into()),
            resource_version: meta.resource_version.unwrap_or_default(),
            generation: meta.generation,
            created: meta.creation_timestamp.map(|time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            annotations: meta.annotations.unwrap_or_default(),
            error: error.chars().take(MAX_ERROR_CHARS).collect(),
        }),
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

impl Conditioned for FloatingIPPool {
    const KIND: ObjectKind = ObjectKind::Pool;

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

impl Conditioned for NodeDNSRecordSet {
    const KIND: ObjectKind = ObjectKind::RecordSet;

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}
