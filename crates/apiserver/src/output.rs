//! Encodes answers: whole objects, their metadata alone, or tables.

use super::codec::to_served;
use super::columns;
use super::error::ApiError;
use super::request::{Include, Shape};
use super::resource::Resource;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};
use std::sync::Arc;

/// The answer to a request.
pub(crate) type Answer = Result<Response<Body>, ApiError>;

/// How the answers to one request are encoded.
#[derive(Debug, Clone)]
pub(crate) struct Rendering {
    pub(crate) resource: Arc<Resource>,
    pub(crate) shape: Shape,
    pub(crate) now: Timestamp,
}

impl Rendering {
    /// One object, from its stored form.
    pub(crate) fn object(&self, stored: &Value) -> Value {
        let served = to_served(&self.resource, stored).into_owned();
        match self.shape {
            Shape::Full => served,
            Shape::Metadata => partial(&served),
            Shape::Table(include) => {
                let revision = super::meta::text(&served, "resourceVersion").to_owned();
                self.table(
                    &json!({ "resourceVersion": revision }),
                    std::iter::once((stored, served)),
                    include,
                )
            }
        }
    }

    /// The frame of a bookmark.
    pub(crate) fn bookmark(&self, revision: u64, initial_events_end: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if initial_events_end && let Some(map) = metadata.as_object_mut() {
            map.insert("annotations".to_owned(), json!({ "k8s.io/initial-events-end": "true" }));
        }
        let (kind, version) = match self.shape {
            Shape::Full | Shape::Table(_) => (self.resource.kind.clone(), self.resource.api_version()),
            Shape::Metadata => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        json!({ "kind": kind, "apiVersion": version, "metadata": metadata })
    }

    /// A list, from stored forms.
    pub(crate) fn list(&self, metadata: &Value, items: &[Arc<Value>]) -> Bytes {
        let served = items.iter().map(|item| to_served(&self.resource, item));
        let body = match self.shape {
            Shape::Full => {
                let all: Vec<_> = served.collect();
                let list = List {
                    kind: &self.resource.list_kind,
                    api_version: &self.resource.api_version(),
                    metadata,
                    // As in Go, items of built-in lists do not repeat their type.
                    items: all
                        .iter()
                        .map(|v| Item { value: v, typed: self.resource.custom.is_some() })
                        .collect(),
                };
                serde_json::to_vec(&list)
            }
            Shape::Metadata => {
                let all: Vec<Value> = served.map(|object| partial(&object)).collect();
                let list = List {
                    kind: "PartialObjectMetadataList",
                    api_version: "meta.k8s.io/v1",
                    metadata,
                    items: all.iter().map(|v| Item { value: v, typed: true }).collect(),
                };
                serde_json::to_vec(&list)
            }
            Shape::Table(include) => {
                let rows = items.iter().zip(served).map(|(stored, served)| (&**stored, served.into_owned()));
                serde_json::to_vec(&self.table(metadata, rows, include))
            }
        };
        Bytes::from(body.unwrap_or_default())
    }

    fn table<'a>(
        &self,
        metadata: &Value,
        objects: impl Iterator<Item = (&'a Value, Value)>,
        include: Include,
    ) -> Value {
        let rows: Vec<Value> = objects
            .map(|(stored, served)| {
                let cells = columns::cells(&self.resource, stored, self.now);
                match include {
                    Include::Nothing => json!({ "cells": cells }),
                    Include::Metadata => json!({ "cells": cells, "object": partial(&served) }),
                    Include::Object => json!({ "cells": cells, "object": served }),
                }
            })
            .collect();
        json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                "columnDefinitions": columns::columns(&self.resource), "rows": rows })
    }
}

/// The object's metadata as a separate object.
fn partial(served: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": served.get("metadata").cloned().unwrap_or_default() })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: &'a Value,
    items: Vec<Item<'a>>,
}

struct Item<'a> {
    value: &'a Value,
    typed: bool,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.value.as_object().filter(|_| !self.typed) else {
            return self.value.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in fields.iter().filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion"))
        {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A JSON answer.
pub(crate) fn json_response(code: u16, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A refusal.
pub(crate) fn error_response(error: &ApiError) -> Response<Body> {
    if error.is_plain() {
        let mut response = json_response(error.code, format!("{}\n", error.message));
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        return response;
    }
    let mut response = json_response(error.code, error.status().to_string());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds `Warning` headers, which kubectl prints.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}
