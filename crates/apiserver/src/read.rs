//! Reads: get, list with pages and resource versions, and the start of a watch.

use super::ApiServer;
use super::codec::to_served;
use super::error::{ApiError, Cause};
use super::hooks::Call;
use super::meta::{Key, set_at};
use super::output::{Answer, Rendering, json_response};
use super::resource::Resource;
use super::selector::Selectors;
use super::store::Store;
use super::watch::{WatchSpec, Watcher};
use axum::body::Body;
use serde_json::{Value, json};
use std::sync::Arc;

/// Which state a request wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pin {
    /// The newest state.
    Latest,
    /// Any available state, but not older than this.
    AtLeast(u64),
    /// Exactly this state.
    Exact(u64),
}

fn parameter<'a>(call: &'a Call, name: &str) -> &'a str {
    call.query.get(name).map_or("", String::as_str)
}

fn flag(call: &Call, name: &str) -> bool {
    matches!(parameter(call, name), "true" | "1")
}

/// The label selector and the field selector of a request.
pub(super) fn selectors(call: &Call, resource: &Resource) -> Result<Selectors, ApiError> {
    let (labels, fields) = (parameter(call, "labelSelector"), parameter(call, "fieldSelector"));
    let parsed = Selectors::parse(labels, fields).map_err(ApiError::bad_request)?;
    match parsed.unsupported_field(resource) {
        None => Ok(parsed),
        Some(field) => Err(ApiError::bad_request(format!("field label not supported: {field}"))),
    }
}

/// The selected objects in their current state.
pub(super) fn selected(
    store: &Store,
    rendering: &Rendering,
    namespace: &str,
    selectors: &Selectors,
) -> Vec<(Key, Arc<Value>)> {
    store
        .all(&rendering.resource.storage)
        .filter(|(key, _)| namespace.is_empty() || key.namespace == namespace)
        .filter(|(_, object)| selectors.select(&to_served(&rendering.resource, object)))
        .map(|(key, object)| (key.clone(), Arc::clone(object)))
        .collect()
}

fn pin(call: &Call) -> Result<Pin, ApiError> {
    let text = parameter(call, "resourceVersion");
    let matching = parameter(call, "resourceVersionMatch");
    let exact = matching == "Exact";
    let forbidden =
        |why: &str| ApiError::invalid_options("ListOptions", &Cause::forbidden("resourceVersionMatch", why));
    if text.is_empty() {
        if !matching.is_empty() && !flag(call, "sendInitialEvents") {
            return Err(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        return Ok(Pin::Latest);
    }
    let revision = text
        .parse()
        .map_err(|_| ApiError::bad_request(format!("Invalid value: {text:?}: invalid resource version")))?;
    match (exact, revision) {
        (true, 0) => Err(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")),
        (true, revision) => Ok(Pin::Exact(revision)),
        (false, revision) => Ok(Pin::AtLeast(revision)),
    }
}

/// Parses `REVISION/NAMESPACE/NAME` of the last object of a page.
fn parse_token(token: &str) -> Result<(u64, Key), ApiError> {
    let mut parts = token.splitn(3, '/');
    let revision = parts.next().and_then(|revision| revision.parse().ok());
    match (revision, parts.next(), parts.next()) {
        (Some(revision), Some(namespace), Some(name)) => Ok((revision, Key::new(namespace, name))),
        _ => Err(ApiError::bad_request("continue key is not valid")),
    }
}

impl ApiServer {
    pub(super) fn get(&self, call: &Call, rendering: &Rendering) -> Answer {
        let key = Key::new(&call.namespace, &call.name);
        let resource = &rendering.resource;
        let object = self.read(|store| {
            let revision = self.readable(store, pin(call)?)?;
            if revision == store.revision() {
                return store.require(resource, &key);
            }
            let past = store.snapshot(&resource.storage, revision)?;
            past.get(&key)
                .cloned()
                .ok_or_else(|| ApiError::not_found(&resource.group, &resource.plural, &key.name))
        })?;
        Ok(json_response(200, rendering.object(&object).to_string()))
    }

    /// The revision to answer a pin with.
    fn readable(&self, store: &Store, pin: Pin) -> Result<u64, ApiError> {
        let (latest, cached) = (self.latest_revision(store), self.cache_revision(store));
        match pin {
            Pin::Latest => Ok(latest),
            Pin::Exact(revision) | Pin::AtLeast(revision) if revision > latest => {
                Err(ApiError::too_large_version(revision, latest))
            }
            Pin::Exact(revision) => Ok(revision),
            // A real cache would wait for the revision. The newest state is what it would wait for.
            Pin::AtLeast(revision) => Ok(if revision > cached { latest } else { cached }),
        }
    }

    pub(super) fn list(&self, call: &Call, rendering: &Rendering) -> Answer {
        let selectors = selectors(call, &rendering.resource)?;
        let limit = match parameter(call, "limit").parse::<usize>() {
            Ok(limit) if limit > 0 => limit,
            Ok(_) | Err(_) => usize::MAX,
        };
        let token = parameter(call, "continue");
        let (items, metadata) = self.read(|store| -> Result<_, ApiError> {
            let (revision, after) = if token.is_empty() {
                (self.readable(store, pin(call)?)?, None)
            } else {
                let (revision, key) = parse_token(token)?;
                (revision, Some(key))
            };
            let paging = after.is_some();
            let table = store.snapshot(&rendering.resource.storage, revision).map_err(|error| {
                if paging && error.code == 410 { ApiError::continue_expired() } else { error }
            })?;
            let mut rest = table
                .into_iter()
                .filter(|(key, _)| call.namespace.is_empty() || key.namespace == call.namespace)
                .filter(|(key, _)| after.as_ref().is_none_or(|after| key > after))
                .filter(|(_, object)| selectors.select(&to_served(&rendering.resource, object)));
            let page: Vec<(Key, Arc<Value>)> = rest.by_ref().take(limit).collect();
            let remaining = rest.count();
            let metadata = list_metadata(revision, &page, remaining, &selectors);
            Ok((page.into_iter().map(|(_, object)| object).collect::<Vec<_>>(), metadata))
        })?;
        Ok(json_response(200, rendering.list(&metadata, &items)))
    }

    pub(super) fn watch(&self, call: &Call, rendering: Rendering) -> Answer {
        let mut selectors = selectors(call, &rendering.resource)?;
        if !call.name.is_empty() {
            selectors.require_name(&call.name);
        }
        let initial_events = flag(call, "sendInitialEvents");
        if initial_events && parameter(call, "resourceVersionMatch") != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            let cause = Cause::forbidden("resourceVersionMatch", why);
            return Err(ApiError::invalid_options("ListOptions", &cause));
        }
        let wanted = pin(call)?;
        let state = self.read(|store| self.watch_start(store, call, &rendering, wanted, &selectors));
        // As in apiserver, once the request is understood, an error about its revision is sent as a frame.
        let (start, initial, refusal) = match state {
            Ok((start, initial)) => (start, initial, None),
            Err(error) => (0, Vec::new(), Some(error)),
        };
        let bookmarks = flag(call, "allowWatchBookmarks");
        let spec = WatchSpec {
            rendering,
            namespace: call.namespace.clone(),
            selectors,
            bookmarks,
            timeout: parameter(call, "timeoutSeconds").parse().ok(),
            start,
            initial,
            mark_initial_end: initial_events && bookmarks,
            refusal,
        };
        let watcher = Watcher::new(self.clone(), call.clone(), spec);
        let frames = futures::stream::unfold(watcher, |mut watcher| async move {
            let frame = watcher.next().await?;
            Some((frame, watcher))
        });
        Ok(json_response(200, Body::from_stream(frames)))
    }

    /// The revision after which a watch sends changes, and the objects that it sends first.
    fn watch_start(
        &self,
        store: &Store,
        call: &Call,
        rendering: &Rendering,
        wanted: Pin,
        selectors: &Selectors,
    ) -> Result<(u64, Vec<Arc<Value>>), ApiError> {
        // Without a version, or with 0, a watch begins with the existing objects.
        let from_state = flag(call, "sendInitialEvents") || matches!(wanted, Pin::Latest | Pin::AtLeast(0));
        let start = match wanted {
            Pin::AtLeast(revision) | Pin::Exact(revision) if !from_state => revision,
            Pin::Latest | Pin::AtLeast(_) | Pin::Exact(_) => self.readable(store, wanted)?,
        };
        if !from_state {
            store.check_known(start)?;
            return Ok((start, Vec::new()));
        }
        let initial = store
            .snapshot(&rendering.resource.storage, start)?
            .into_iter()
            .filter(|(key, _)| call.namespace.is_empty() || key.namespace == call.namespace)
            .filter(|(_, object)| selectors.select(&to_served(&rendering.resource, object)))
            .map(|(_, object)| object)
            .collect();
        Ok((start, initial))
    }
}

fn list_metadata(
    revision: u64,
    page: &[(Key, Arc<Value>)],
    remaining: usize,
    selectors: &Selectors,
) -> Value {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if let (Some((last, _)), true) = (page.last(), remaining > 0) {
        let token = format!("{revision}/{}/{}", last.namespace, last.name);
        set_at(&mut metadata, &["continue"], json!(token));
        // As in apiserver, left out if selectors would make it a guess.
        if selectors.is_empty() {
            set_at(&mut metadata, &["remainingItemCount"], json!(remaining));
        }
    }
    metadata
}
