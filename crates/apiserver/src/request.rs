//! Parses an HTTP request: path, query, body, and the format of the answer.

use super::error::ApiError;
use super::hooks::{Call, Verb};
use super::protobuf;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};
use serde_json::Value;
use std::collections::BTreeMap;

/// The requested form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Full,
    /// `PartialObjectMetadata`
    Metadata,
    /// The table that `kubectl get` prints.
    Table(Include),
}

/// The parts that each row of a table includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// Parses the outline of a request. Nothing is looked up yet.
pub(crate) fn parse(request: &Request<Bytes>) -> Result<Call, ApiError> {
    let uri = request.uri();
    let query: BTreeMap<String, String> = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|error| ApiError::bad_request(error.to_string()))?
        .0
        .into_iter()
        .collect();
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => ("", "", [].as_slice()),
    };
    let (namespace, resource, name, subresource) = target(rest).unwrap_or_default();
    Ok(Call {
        verb: if resource.is_empty() { Verb::Other } else { verb(request.method(), &query, name)? },
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        query,
        path: uri.path().to_owned(),
        user_agent: header(request.headers(), &header::USER_AGENT).to_owned(),
        body: request.body().clone(),
    })
}

/// Namespace, resource, name and subresource. Empty if absent.
fn target<'a>(segments: &[&'a str]) -> Option<(&'a str, &'a str, &'a str, &'a str)> {
    match segments {
        [] => None,
        // A namespace itself, not an object in it.
        ["namespaces", name] => Some(("", "namespaces", name, "")),
        ["namespaces", name, sub @ ("status" | "finalize")] => Some(("", "namespaces", name, sub)),
        ["namespaces", namespace, resource] => Some((namespace, resource, "", "")),
        ["namespaces", namespace, resource, name] => Some((namespace, resource, name, "")),
        ["namespaces", namespace, resource, name, sub, ..] => Some((namespace, resource, name, sub)),
        [resource] => Some(("", resource, "", "")),
        [resource, name] => Some(("", resource, name, "")),
        [resource, name, sub, ..] => Some(("", resource, name, sub)),
    }
}

fn verb(method: &Method, query: &BTreeMap<String, String>, name: &str) -> Result<Verb, ApiError> {
    let watch = query.get("watch").is_some_and(|value| value != "false" && value != "0");
    Ok(match (method.as_str(), name.is_empty()) {
        ("GET", _) if watch => Verb::Watch,
        ("GET", true) => Verb::List,
        ("GET", false) => Verb::Get,
        ("POST", _) => Verb::Create,
        ("PUT", false) => Verb::Update,
        ("PATCH", false) => Verb::Patch,
        ("DELETE", true) => Verb::DeleteCollection,
        ("DELETE", false) => Verb::Delete,
        _ => return Err(ApiError::method_not_allowed()),
    })
}

/// A header as text. Empty if absent or not text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The content type without its parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let text = header(headers, &header::CONTENT_TYPE);
    text.split(';').next().unwrap_or_default().trim()
}

/// One media range of an `Accept` header: type and parameters.
fn media_ranges(accept: &str) -> impl Iterator<Item = (&str, BTreeMap<&str, &str>)> {
    accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        (kind, parts.filter_map(|part| part.split_once('=')).collect())
    })
}

fn is_json(kind: &str) -> bool {
    matches!(kind, "" | "application/json" | "*/*" | "application/*")
}

/// The first supported form in the `Accept` header.
pub(crate) fn shape(accept: &str, call: &Call) -> Result<Shape, ApiError> {
    for (kind, parameters) in media_ranges(accept) {
        if !is_json(kind) {
            continue;
        }
        let known = parameters.get("g").is_none_or(|group| *group == "meta.k8s.io");
        match parameters.get("as").copied() {
            None => return Ok(Shape::Full),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if known => {
                return Ok(Shape::Metadata);
            }
            Some("Table") if known => {
                return Ok(Shape::Table(match call.query.get("includeObject").map(String::as_str) {
                    Some("None") => Include::Nothing,
                    Some("Object") => Include::Object,
                    Some(_) | None => Include::Metadata,
                }));
            }
            Some(_) => {}
        }
    }
    Err(ApiError::not_acceptable())
}

/// Whether aggregated discovery (`apidiscovery.k8s.io/v2`) is preferred to the old form.
pub(crate) fn wants_aggregated_discovery(accept: &str) -> bool {
    media_ranges(accept).filter(|(kind, _)| is_json(kind)).find_map(|(_, parameters)| {
        match (parameters.get("as").copied(), parameters.get("v").copied()) {
            (None, _) => Some(false),
            (Some("APIGroupDiscoveryList"), Some("v2")) => Some(true),
            (Some(_), _) => None,
        }
    }) == Some(true)
}

/// The body as JSON. Also accepts `application/yaml`, and protobuf for a few kinds.
pub(crate) fn body(call: &Call, headers: &HeaderMap) -> Result<Value, ApiError> {
    match content_type(headers) {
        "" | "application/json" | "application/yaml" | "application/vnd.kubernetes.protobuf" => {
            decode(&call.body)
        }
        _ => Err(ApiError::unsupported_media_type("application/json, application/yaml")),
    }
}

/// An object from JSON, YAML or protobuf.
pub(crate) fn decode(bytes: &Bytes) -> Result<Value, ApiError> {
    if protobuf::is_protobuf(bytes) {
        return protobuf::decode(bytes)
            .ok_or_else(|| ApiError::unsupported_media_type("application/json, application/yaml"));
    }
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_slice(bytes).map_err(|error| {
            ApiError::bad_request(format!(
                "error decoding the body of the request: failed to read YAML: {error}"
            ))
        })?,
    };
    if value.is_object() {
        Ok(value)
    } else {
        Err(ApiError::bad_request("the body of the request is not an object"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(method: &str, uri: &str) -> Call {
        let request = Request::builder().method(method).uri(uri).body(Bytes::new()).unwrap();
        parse(&request).unwrap()
    }

    #[test]
    fn paths_and_methods_name_verb_and_target() {
        let cases = [
            ("GET", "/api/v1/nodes", Verb::List, ["", "nodes", "", ""]),
            ("GET", "/api/v1/nodes?watch=true", Verb::Watch, ["", "nodes", "", ""]),
            ("GET", "/api/v1/namespaces/a", Verb::Get, ["", "namespaces", "a", ""]),
            ("PUT", "/api/v1/namespaces/a/finalize", Verb::Update, ["", "namespaces", "a", "finalize"]),
            ("POST", "/api/v1/namespaces/a/pods", Verb::Create, ["a", "pods", "", ""]),
            (
                "PATCH",
                "/apis/x.io/v1/namespaces/a/things/b/status",
                Verb::Patch,
                ["a", "things", "b", "status"],
            ),
            ("DELETE", "/apis/x.io/v1/namespaces/a/things", Verb::DeleteCollection, ["a", "things", "", ""]),
            ("GET", "/apis/x.io/v1", Verb::Other, ["", "", "", ""]),
            ("GET", "/version", Verb::Other, ["", "", "", ""]),
        ];
        for (method, uri, verb, [namespace, resource, name, subresource]) in cases {
            let call = parsed(method, uri);
            let found = [&call.namespace, &call.resource, &call.name, &call.subresource].map(String::as_str);
            assert_eq!(
                (call.verb, found),
                (verb, [namespace, resource, name, subresource]),
                "{method} {uri}"
            );
        }
    }

    #[test]
    fn the_first_servable_form_of_the_accept_header_wins() {
        let call = parsed("GET", "/api/v1/nodes");
        let cases = [
            ("", Ok(Shape::Full)),
            ("*/*", Ok(Shape::Full)),
            ("application/vnd.kubernetes.protobuf,application/json", Ok(Shape::Full)),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Ok(Shape::Metadata)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Ok(Shape::Table(Include::Metadata)),
            ),
            ("application/vnd.kubernetes.protobuf", Err(406)),
        ];
        for (accept, expected) in cases {
            assert_eq!(shape(accept, &call).map_err(|e| e.code), expected, "{accept}");
        }
        assert!(wants_aggregated_discovery(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        ));
        assert!(!wants_aggregated_discovery("application/json"));
    }
}
