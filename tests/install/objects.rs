//! Kubernetes objects in YAML, by kind and name.

use crate::tools::{read, root};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Objects by kind and name.
pub(crate) type Objects = BTreeMap<(String, String), Value>;

/// The objects in a stream of documents.
pub(crate) fn parse(text: &str) -> Objects {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut objects = Objects::new();
    for object in documents.into_iter().filter(|object| !object.is_null()) {
        let name = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned();
        let key = (name(&object["kind"]), name(&object["metadata"]["name"]));
        assert!(objects.insert(key.clone(), object).is_none(), "{key:?} stands twice");
    }
    objects
}

/// The objects in a folder's files.
pub(crate) fn folder(folder: &str) -> Objects {
    let mut objects = Objects::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            continue;
        }
        let name = entry.file_name().into_string().unwrap();
        objects.extend(parse(&read(&format!("{folder}/{name}"))));
    }
    objects
}

/// An object, by kind and name.
pub(crate) fn object<'a>(objects: &'a Objects, kind: &str, name: &str) -> &'a Value {
    let key = (kind.to_owned(), name.to_owned());
    objects.get(&key).unwrap_or_else(|| panic!("no {kind} {name} among {:?}", objects.keys()))
}

/// Moves the endpoints of the agents from loopback to the address of the node, as what scrapes them does.
pub(crate) fn scrape_agents(objects: &mut Objects) {
    let agents = objects.get_mut(&("DaemonSet".to_owned(), "flipop-agent".to_owned())).unwrap();
    let container = &mut agents["spec"]["template"]["spec"]["containers"][0];
    container["args"].as_array_mut().unwrap().push(json!("--metrics-bind-addr=$(HOST_IP):8141"));
    let address = json!({ "name": "HOST_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.hostIP" } } });
    container["env"].as_array_mut().unwrap().push(address);
    for probe in ["livenessProbe", "readinessProbe"] {
        let host = container[probe]["httpGet"].as_object_mut().unwrap().remove("host");
        assert_eq!(host, Some(json!("127.0.0.1")), "{probe}");
    }
}

/// Fails with the first object that differs.
pub(crate) fn assert_same(found: &Objects, wanted: &Objects) {
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (key, object) in wanted {
        assert_eq!(&found[key], object, "{key:?} differs");
    }
}
