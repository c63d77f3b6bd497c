//! Discovery: the old documents, one per group version, and the aggregated one that kubectl prefers.

use super::resource::{Registry, Resource};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The release that this server and its kubelets claim. kubectl 1.32 and later give no version warning for it.
const VERSION: (&str, &str, &str) = ("1", "33", "v1.33.1");

/// `/version`
pub(crate) fn version() -> Value {
    let (major, minor, git) = VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": git, "gitCommit": "simulated", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "none", "compiler": "none", "platform": "simulated",
    })
}

fn verbs(resource: &Resource) -> Value {
    let mut verbs = vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    if resource.is("", "namespaces") {
        verbs.retain(|verb| *verb != "deletecollection");
    }
    json!(verbs)
}

/// Subresources with their kind and verbs.
fn subresources(resource: &Resource) -> Vec<(&'static str, Value, Value)> {
    let mut all = Vec::new();
    let own = json!({ "group": resource.group, "version": resource.version, "kind": resource.kind });
    if resource.status {
        all.push(("status", own.clone(), json!(["get", "patch", "update"])));
    }
    if resource.has_scale() {
        let scale = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
        all.push(("scale", scale, json!(["get", "patch", "update"])));
    }
    if resource.is("", "pods") {
        let eviction = json!({ "group": "policy", "version": "v1", "kind": "Eviction" });
        all.push(("eviction", eviction, json!(["create"])));
        let forward = json!({ "group": "", "version": "v1", "kind": "PodPortForwardOptions" });
        all.push(("portforward", forward, json!(["create", "get"])));
        all.push(("binding", json!({ "group": "", "version": "v1", "kind": "Binding" }), json!(["create"])));
    }
    all
}

/// `/api/v1` and `/apis/GROUP/VERSION`. `None` if there is no such group version.
pub(crate) fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for resource in registry.iter().filter(|r| r.group == group && r.version == version) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": verbs(resource), "shortNames": resource.short_names,
            "categories": resource.categories,
        });
        if let Some(map) = entry.as_object_mut() {
            map.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        }
        resources.push(entry);
        for (name, kind, verbs) in subresources(resource) {
            resources.push(json!({
                "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "group": kind.get("group"), "version": kind.get("version"), "kind": kind.get("kind"), "verbs": verbs,
            }));
        }
    }
    resources.extend(reviews(group, version));
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
                 "resources": resources }))
}

/// Reviews: requests that are answered but not stored.
fn reviews(group: &str, version: &str) -> Vec<Value> {
    let review = |name: &str, kind: &str| json!({ "name": name, "singularName": kind.to_lowercase(), "namespaced": false, "kind": kind, "verbs": ["create"] });
    match (group, version) {
        ("authorization.k8s.io", "v1") => vec![
            review("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
            review("subjectaccessreviews", "SubjectAccessReview"),
        ],
        ("authentication.k8s.io", "v1") => vec![review("selfsubjectreviews", "SelfSubjectReview")],
        _ => Vec::new(),
    }
}

/// All groups with their versions. The core group has an empty name.
fn groups(registry: &Registry) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, version) in registry.group_versions() {
        groups.entry(group).or_default().push(version);
    }
    for group in ["authorization.k8s.io", "authentication.k8s.io"] {
        groups.entry(group.to_owned()).or_default().push("v1".to_owned());
    }
    groups
}

/// `/api`
pub(crate) fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "" }] })
}

fn api_group(name: &str, versions: &[String]) -> Value {
    let listed: Vec<Value> =
        versions.iter().map(|v| json!({ "groupVersion": format!("{name}/{v}"), "version": v })).collect();
    json!({ "name": name, "versions": listed, "preferredVersion": listed.first() })
}

/// `/apis`
pub(crate) fn group_list(registry: &Registry) -> Value {
    let all: Vec<Value> = groups(registry)
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| api_group(name, versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": all })
}

/// `/apis/GROUP`. `None` if there is no such group.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = groups(registry);
    let mut group = api_group(name, groups.get(name).filter(|_| !name.is_empty())?);
    if let Some(map) = group.as_object_mut() {
        map.insert("kind".to_owned(), json!("APIGroup"));
        map.insert("apiVersion".to_owned(), json!("v1"));
    }
    Some(group)
}

/// `/api` or `/apis` in the aggregated form.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = groups(registry)
        .iter()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, versions)| {
            let listed: Vec<Value> = versions.iter().map(|v| aggregated_version(registry, name, v)).collect();
            json!({ "metadata": { "name": name, "creationTimestamp": null }, "versions": listed })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
            "items": items })
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let scope = |namespaced: bool| if namespaced { "Namespaced" } else { "Cluster" };
    let mut resources: Vec<Value> = registry
        .iter()
        .filter(|r| r.group == group && r.version == version)
        .map(|r| {
            let subresources: Vec<Value> = subresources(r)
                .into_iter()
                .map(|(name, kind, verbs)| json!({ "subresource": name, "responseKind": kind, "verbs": verbs }))
                .collect();
            json!({
                "resource": r.plural, "scope": scope(r.namespaced), "singularResource": r.singular,
                "responseKind": { "group": r.group, "version": r.version, "kind": r.kind },
                "verbs": verbs(r), "shortNames": r.short_names, "categories": r.categories,
                "subresources": subresources,
            })
        })
        .collect();
    resources.extend(reviews(group, version).into_iter().map(|review| {
        json!({
            "resource": review.get("name"), "scope": "Cluster", "singularResource": review.get("singularName"),
            "responseKind": { "group": group, "version": version, "kind": review.get("kind") },
            "verbs": ["create"],
        })
    }));
    json!({ "version": version, "resources": resources, "freshness": "Current" })
}
