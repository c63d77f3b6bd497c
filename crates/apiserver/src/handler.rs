//! Handles one request from end to end: refusals, routing, and the verbs that write.

use super::error::{ApiError, Cause};
use super::hooks::{Call, Verb};
use super::intent::{FieldValidation, Intent};
use super::meta::{Key, at, list_at, text, type_of};
use super::output::{self, Answer, Rendering, add_warnings, json_response};
use super::ownership::Writer;
use super::patch::Patch;
use super::remove::{DeleteOptions, Deleted};
use super::request::{self, body, content_type, decode, header};
use super::resource::Resource;
use super::store::Store;
use super::write::{Edit, Outcome};
use super::{ApiServer, crd, discovery, forward, openapi, virtual_resources};
use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// Longest field manager taken from a `User-Agent`, as in apiserver.
const MANAGER_CHARS_MAX: usize = 128;

const PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl ApiServer {
    pub(super) fn handle(&self, request: &Request<Bytes>) -> Response<Body> {
        self.respond(request).unwrap_or_else(|error| output::error_response(&error))
    }

    fn respond(&self, request: &Request<Bytes>) -> Answer {
        let call = request::parse(request)?;
        self.interceptor.before(&call)?;
        let response = match self.route(&call, request.method(), request.headers()) {
            Ok(response) => response,
            Err(error) => output::error_response(&error),
        };
        self.interceptor.after(&call, response.status().as_u16());
        Ok(response)
    }

    fn route(&self, call: &Call, method: &Method, headers: &HeaderMap) -> Answer {
        if call.verb == Verb::Other {
            return self.document(call, method, headers);
        }
        if let Some(answer) = virtual_resources::review(call, &*self.interceptor)? {
            return Ok(json_response(201, answer.to_string()));
        }
        let resource = self
            .read(|store| store.registry.find(&call.group, &call.version, &call.resource))
            .ok_or_else(ApiError::no_route)?;
        // A cluster-wide resource below a namespace, or one namespaced object without its namespace.
        let misplaced = resource.namespaced == call.namespace.is_empty();
        let across =
            resource.namespaced && matches!(call.verb, Verb::List | Verb::Watch) && call.name.is_empty();
        if misplaced && !across {
            return Err(ApiError::no_route());
        }
        if call.subresource == "eviction" || call.subresource == "binding" {
            return self.pod_subresource(call, &resource);
        }
        if call.subresource == "portforward" && resource.is("", "pods") {
            let key = Key::new(&call.namespace, &call.name);
            let exists = self.object("v1", "Pod", &key).is_some();
            return if exists {
                forward::agree(call, headers)
            } else {
                Err(ApiError::not_found("", "pods", &call.name))
            };
        }
        if call.subresource == "scale" && resource.has_scale() {
            return self.scale(call, &self.intent(call, &resource, "Update")?);
        }
        let known = match call.subresource.as_str() {
            "" => true,
            "status" => resource.status,
            "finalize" => resource.is("", "namespaces"),
            _ => false,
        };
        if !known {
            return Err(ApiError::no_route());
        }
        let shape = request::shape(header(headers, &ACCEPT), call)?;
        let rendering = Rendering { resource: Arc::clone(&resource), shape, now: self.now() };
        match call.verb {
            Verb::Get => self.get(call, &rendering),
            Verb::List => self.list(call, &rendering),
            Verb::Watch => self.watch(call, rendering),
            Verb::Create if call.name.is_empty() => self.create(call, headers, &rendering),
            Verb::Update | Verb::Patch => self.change(call, headers, &rendering),
            Verb::Delete => self.delete_one(call, headers, &rendering),
            Verb::DeleteCollection => self.delete_many(call, headers, &rendering),
            Verb::Create | Verb::Other => Err(ApiError::method_not_allowed()),
        }
    }

    /// Discovery, schemas, version, health.
    fn document(&self, call: &Call, method: &Method, headers: &HeaderMap) -> Answer {
        if method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let segments: Vec<&str> = call.path.split('/').filter(|segment| !segment.is_empty()).collect();
        let aggregated = request::wants_aggregated_discovery(header(headers, &ACCEPT));
        let found = self.read(|store| {
            let registry = &store.registry;
            match segments.as_slice() {
                ["version"] => Some(discovery::version()),
                ["api"] if aggregated => Some(discovery::aggregated(registry, true)),
                ["apis"] if aggregated => Some(discovery::aggregated(registry, false)),
                ["api"] => Some(discovery::core_versions()),
                ["apis"] => Some(discovery::group_list(registry)),
                ["api", version] => discovery::resource_list(registry, "", version),
                ["apis", group] => discovery::group(registry, group),
                ["apis", group, version] => discovery::resource_list(registry, group, version),
                ["openapi", "v3"] => Some(openapi::index(registry)),
                ["openapi", "v3", "api", version] => openapi::document(registry, "", version),
                ["openapi", "v3", "apis", group, version] => openapi::document(registry, group, version),
                _ => None,
            }
        });
        if let Some(document) = found {
            let mut response = json_response(200, document.to_string());
            if aggregated && matches!(segments.as_slice(), ["api" | "apis"]) {
                let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            }
            return Ok(response);
        }
        match segments.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => Ok(Response::new(Body::from("ok"))),
            // An empty document in the one format that kubectl accepts. kubectl then relies on version 3.
            ["openapi", "v2"] => {
                let mut response = Response::new(Body::empty());
                let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                Ok(response)
            }
            _ => Err(ApiError::no_route()),
        }
    }

    fn create(&self, call: &Call, headers: &HeaderMap, rendering: &Rendering) -> Answer {
        let sent = body(call, headers)?;
        check_type(&rendering.resource, &sent)?;
        let intent = self.intent(call, &rendering.resource, "Update")?;
        let outcome = self.write(|store| store.create(&intent, &call.namespace, sent))?;
        Ok(written(rendering, &outcome))
    }

    fn change(&self, call: &Call, headers: &HeaderMap, rendering: &Rendering) -> Answer {
        let edit = if call.verb == Verb::Patch {
            patch(call, headers, &rendering.resource)?
        } else {
            let sent = body(call, headers)?;
            check_type(&rendering.resource, &sent)?;
            Edit::Replace(sent)
        };
        let operation = if matches!(edit, Edit::Apply { .. }) { "Apply" } else { "Update" };
        let intent = self.intent(call, &rendering.resource, operation)?;
        let key = Key::new(&call.namespace, &call.name);
        let outcome = self.write(|store| store.update(&intent, &key, &edit))?;
        Ok(written(rendering, &outcome))
    }

    fn delete_one(&self, call: &Call, headers: &HeaderMap, rendering: &Rendering) -> Answer {
        let options = delete_options(call, headers)?;
        let intent = self.intent(call, &rendering.resource, "Update")?;
        let key = Key::new(&call.namespace, &call.name);
        let deleted = self.write(|store| store.delete(&intent, &key, &options))?;
        let resource = &rendering.resource;
        let answer = match deleted {
            Deleted::Marked(object) => rendering.object(&object),
            Deleted::Gone(object) if returns_deleted(resource) => rendering.object(&object),
            Deleted::Gone(object) => {
                let mut details =
                    json!({ "name": call.name, "kind": resource.plural, "uid": text(&object, "uid") });
                if !resource.group.is_empty() {
                    super::meta::set_at(&mut details, &["group"], json!(resource.group));
                }
                json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                        "details": details })
            }
        };
        Ok(json_response(200, answer.to_string()))
    }

    fn delete_many(&self, call: &Call, headers: &HeaderMap, rendering: &Rendering) -> Answer {
        let options = delete_options(call, headers)?;
        let intent = self.intent(call, &rendering.resource, "Update")?;
        let selectors = super::read::selectors(call, &rendering.resource)?;
        let (gone, revision) = self.write(|store| {
            let mut gone = Vec::new();
            for (key, object) in super::read::selected(store, rendering, &call.namespace, &selectors) {
                if let Ok(Deleted::Gone(_) | Deleted::Marked(_)) = store.delete(&intent, &key, &options) {
                    gone.push(object);
                }
            }
            (gone, store.revision())
        });
        let metadata = json!({ "resourceVersion": revision.to_string() });
        Ok(json_response(200, rendering.list(&metadata, &gone)))
    }

    /// `pods/eviction` (deletes the pod) and `pods/binding` (puts it on a node).
    fn pod_subresource(&self, call: &Call, resource: &Arc<Resource>) -> Answer {
        if !resource.is("", "pods") || call.verb != Verb::Create {
            return Err(ApiError::method_not_allowed());
        }
        let sent = decode(&call.body)?;
        let intent = self.intent(call, resource, "Update")?;
        let key = Key::new(&call.namespace, &call.name);
        self.write(|store: &mut Store| {
            if call.subresource == "eviction" {
                let options = virtual_resources::eviction_options(&sent);
                store.delete(&intent, &key, &options).map(drop)
            } else {
                let node = super::meta::text_at(&sent, &["target", "name"]);
                let patch = Patch::Merge(json!({ "spec": { "nodeName": node } }));
                store.update(&intent, &key, &Edit::Patch(patch)).map(drop)
            }
        })?;
        let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
        Ok(json_response(201, status.to_string()))
    }

    fn intent(
        &self,
        call: &Call,
        resource: &Arc<Resource>,
        operation: &'static str,
    ) -> Result<Intent, ApiError> {
        let query = |name: &str| call.query.get(name).map_or("", String::as_str);
        let mut manager = query("fieldManager").to_owned();
        if manager.is_empty() && operation == "Apply" {
            let mut cause = Cause::required("fieldManager");
            cause.message.push_str(": is required for apply patch");
            return Err(ApiError::invalid_options("PatchOptions", &cause));
        }
        if manager.is_empty() {
            let product = call.user_agent.split('/').next().unwrap_or_default();
            manager = product.chars().take(MANAGER_CHARS_MAX).collect();
        }
        if manager.is_empty() {
            "unknown".clone_into(&mut manager);
        }
        let validation = match query("fieldValidation") {
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            other => {
                return Err(ApiError::bad_request(format!("fieldValidation: Unsupported value: {other:?}")));
            }
        };
        let subresource = if call.subresource == "status" { "status" } else { "" };
        Ok(Intent {
            resource: Arc::clone(resource),
            writer: Writer { manager, operation, subresource: subresource.to_owned() },
            now: self.now(),
            dry_run: query("dryRun") == "All",
            validation,
        })
    }
}

/// Whether a deletion is answered with the deleted object.
fn returns_deleted(resource: &Resource) -> bool {
    [("", "pods"), ("", "namespaces"), (crd::GROUP, crd::PLURAL)].iter().any(|(g, p)| resource.is(g, p))
}

fn written(rendering: &Rendering, outcome: &Outcome) -> Response<Body> {
    let code = if outcome.created { 201 } else { 200 };
    let mut response = json_response(code, rendering.object(&outcome.object).to_string());
    add_warnings(&mut response, &outcome.warnings);
    response
}

/// Kind and version in the body, if given, must match the URL.
fn check_type(resource: &Resource, sent: &Value) -> Result<(), ApiError> {
    let (api_version, kind) = type_of(sent);
    if !kind.is_empty() && kind != resource.kind && resource.custom.is_some() {
        let why = format!("must be {}", resource.kind);
        let cause = Cause::invalid("kind", &Value::from(kind), &why);
        return Err(ApiError::invalid(&resource.group, kind, text(sent, "name"), &[cause]));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {api_version:?} cannot be handled as a {}",
            resource.kind
        )));
    }
    if !api_version.is_empty() && api_version != resource.api_version() {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    Ok(())
}

fn patch(call: &Call, headers: &HeaderMap, resource: &Resource) -> Result<Edit, ApiError> {
    let json = || {
        serde_json::from_slice::<Value>(&call.body)
            .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
    };
    match content_type(headers) {
        "application/merge-patch+json" => Ok(Edit::Patch(Patch::Merge(json()?))),
        "application/json-patch+json" => Ok(Edit::Patch(Patch::Json(json()?))),
        "application/strategic-merge-patch+json" if resource.custom.is_none() => {
            Ok(Edit::Patch(Patch::Strategic(json()?)))
        }
        "application/apply-patch+yaml" => {
            let configuration = decode(&call.body)?;
            check_type(resource, &configuration)?;
            if at(&configuration, &["metadata", "managedFields"]).is_some_and(|m| !m.is_null()) {
                return Err(ApiError::bad_request("metadata.managedFields must be nil"));
            }
            let force = call.query.get("force").is_some_and(|value| value == "true" || value == "1");
            Ok(Edit::Apply { configuration, force })
        }
        _ => Err(ApiError::unsupported_media_type(PATCH_TYPES)),
    }
}

fn delete_options(call: &Call, headers: &HeaderMap) -> Result<DeleteOptions, ApiError> {
    let sent = if call.body.is_empty() { Value::Null } else { body(call, headers)? };
    let precondition =
        |field: &str| at(&sent, &["preconditions", field]).and_then(Value::as_str).map(str::to_owned);
    let grace = call.query.get("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok());
    Ok(DeleteOptions {
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        grace_seconds: grace.or_else(|| sent.get("gracePeriodSeconds").and_then(Value::as_i64)),
        dry_run: !list_at(&sent, &["dryRun"]).is_empty(),
    })
}
