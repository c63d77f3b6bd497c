//! The part of the `OpenAPI` documents that kubectl needs: the server validates fields itself, and `kubectl explain`
//! gets the schemas of custom resources.

use super::resource::{Registry, Resource};
use serde_json::{Map, Value, json};

/// `/openapi/v3`: the index of the documents.
pub(crate) fn index(registry: &Registry) -> Value {
    let paths: Map<String, Value> = registry
        .group_versions()
        .into_iter()
        .map(|(group, version)| {
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let url = format!("/openapi/v3/{path}");
            (path, json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// `/openapi/v3/...` of one group version. `None` if there is no such version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in registry.iter().filter(|r| r.group == group && r.version == version) {
        paths.insert(path(resource), operations(resource));
        schemas.insert(schema_name(resource), schema(resource));
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0", "info": { "title": "Kubernetes (simulated)", "version": super::discovery::version().get("gitVersion") },
        "paths": paths, "components": { "schemas": schemas },
    }))
}

fn path(resource: &Resource) -> String {
    let base = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{base}{scope}/{}/{{name}}", resource.plural)
}

fn kind(resource: &Resource) -> Value {
    json!({ "group": resource.group, "version": resource.version, "kind": resource.kind })
}

/// `io.example.v1.Thing`: the group's parts reversed, as the real server names schemas of custom resources.
fn schema_name(resource: &Resource) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').rev().filter(|part| !part.is_empty()).collect();
    parts.extend([resource.version.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

fn operations(resource: &Resource) -> Value {
    let reference = json!({ "$ref": format!("#/components/schemas/{}", schema_name(resource)) });
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .iter()
        .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } }))
        .collect();
    let mut content = Map::new();
    // Strategic merge patch is left out on purpose: kubectl would then look here for the merge keys of every built-in
    // list. Without it, kubectl uses its compiled-in keys.
    for media in
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    {
        content.insert(media.to_owned(), json!({ "schema": {} }));
    }
    let operation = |action: &str| {
        json!({
            "operationId": format!("{action}{}", resource.kind), "parameters": parameters,
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind(resource),
            "responses": { "200": { "description": "OK", "content": { "application/json": { "schema": reference } } } },
        })
    };
    let mut patch = operation("patch");
    if let Some(map) = patch.as_object_mut() {
        map.insert("requestBody".to_owned(), json!({ "content": content, "required": true }));
    }
    json!({ "get": operation("get"), "put": operation("put"), "patch": patch })
}

fn schema(resource: &Resource) -> Value {
    let mut schema = match &resource.custom {
        Some(custom) if custom.schema.is_object() => custom.schema.clone(),
        Some(_) | None => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
    };
    let map = super::meta::as_map(&mut schema);
    map.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind(resource)]));
    let properties = super::meta::as_map(map.entry("properties").or_insert(Value::Null));
    for (name, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        properties.entry(name).or_insert_with(|| json!({ "type": kind }));
    }
    schema
}
