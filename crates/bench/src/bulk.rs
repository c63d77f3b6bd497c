//! Creates thousands of objects at once by writing to the API server's store directly.
//!
//! Through the API each pod takes two requests, so 50,000 pods take minutes. One object of each kind is created through
//! the API, read back, and copied under other names. The store then holds what the API server would have written, but
//! as JSON instead of protobuf. The API server reads both.

use crate::world::World;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flipop_envtest::{Failure, Outcome};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

/// Objects per transaction. The store allows 128 operations.
const BATCH: usize = 100;

/// Transactions in parallel.
const AT_ONCE: usize = 4;

/// An object to copy, without its individual fields.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    object: Value,
    folder: &'static str,
}

/// The name and the individual fields of one copy.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// JSON pointers and their values.
    pub(crate) fields: Vec<(&'static str, Value)>,
}

impl Template {
    /// Reads an object at its path in the API. `folder` is where the store keeps such objects.
    pub(crate) async fn read(world: &World, path: &str, folder: &'static str) -> Outcome<Self> {
        let request = http::Request::get(path).body(Vec::new())?;
        let mut object: Value = world.client.request(request).await?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // The store's own revision replaces it.
            metadata.remove("resourceVersion");
        }
        Ok(Self { object, folder })
    }

    /// The size of its JSON in bytes.
    pub(crate) fn size(&self) -> usize {
        self.object.to_string().len()
    }

    /// The key and the value of one copy.
    fn copy(&self, number: usize, copied: &Copied) -> Outcome<(String, String)> {
        let Copied { namespace, name, fields } = copied;
        let mut object = self.object.clone();
        let uid = format!("00000000-0000-4000-8000-{number:012}");
        let own = [("/metadata/name", json!(name)), ("/metadata/uid", json!(uid))];
        let of_namespace = namespace.as_ref().map(|namespace| ("/metadata/namespace", json!(namespace)));
        for (pointer, value) in own.into_iter().chain(of_namespace).chain(fields.iter().cloned()) {
            let missing = || Failure::new(format!("the template has no place for {pointer}"));
            if let Some(place) = object.pointer_mut(pointer) {
                *place = value;
            } else {
                let (parent, key) = pointer.rsplit_once('/').ok_or_else(missing)?;
                let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).ok_or_else(missing)?;
                parent.insert(key.to_owned(), value);
            }
        }
        let folder = self.folder;
        let key = match namespace {
            Some(namespace) => format!("/registry/{folder}/{namespace}/{name}"),
            None => format!("/registry/{folder}/{name}"),
        };
        Ok((key, object.to_string()))
    }
}

/// The API server's store.
#[derive(Debug)]
pub(crate) struct Store {
    http: reqwest::Client,
    url: String,
}

impl Store {
    pub(crate) fn of(world: &World) -> Outcome<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { http, url: format!("{}/v3/kv/txn", world.server.store_url()) })
    }

    /// Writes copies of a template. `first` is the number of the first copy: the number decides the uid.
    pub(crate) async fn write(&self, template: &Template, first: usize, copies: &[Copied]) -> Outcome {
        stream::iter(copies.chunks(BATCH).enumerate())
            .map(Ok)
            .try_for_each_concurrent(AT_ONCE, |(batch, copies)| {
                self.write_batch(template, first + batch * BATCH, copies)
            })
            .await
    }

    async fn write_batch(&self, template: &Template, first: usize, copies: &[Copied]) -> Outcome {
        let mut puts = Vec::with_capacity(copies.len());
        for (offset, copied) in copies.iter().enumerate() {
            let (key, value) = template.copy(first + offset, copied)?;
            let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
            puts.push(json!({ "requestPut": { "key": key, "value": value } }));
        }
        let answer = self.http.post(&self.url).body(json!({ "success": puts }).to_string()).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        if status.is_success() {
            Ok(())
        } else {
            Err(Failure::new(format!("the store answered {status}: {text}")))
        }
    }
}
