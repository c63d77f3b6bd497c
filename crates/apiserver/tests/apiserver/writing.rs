//! Writes: concurrency, subresources, schemas, field managers, deletion.

use crate::support::{Widget, WidgetSpec, WidgetStatus, get, node, request, server, server_with_widgets};
use flipop_apiserver::{Key, Readiness};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, ObjectReference};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn widget(size: i64) -> Widget {
    Widget::new("w", WidgetSpec { size, colour: None })
}

#[tokio::test(start_paused = true)]
async fn a_lost_update_is_a_conflict_for_status_and_for_spec() {
    let server = server_with_widgets();
    let widgets: Api<Widget> = Api::default_namespaced(server.client("default"));
    let first = widgets.create(&PostParams::default(), &widget(1)).await.unwrap();
    let mut status = first.clone();
    status.status = Some(WidgetStatus { phase: "Ready".to_owned() });
    let after = widgets.replace_status("w", &PostParams::default(), &status).await.unwrap();
    assert_eq!(after.status.clone().unwrap().phase, "Ready");
    assert_eq!(
        code(widgets.replace_status("w", &PostParams::default(), &status).await),
        (409, "Conflict".to_owned())
    );
    assert_eq!(
        code(widgets.replace("w", &PostParams::default(), &first).await),
        (409, "Conflict".to_owned())
    );
    let mut blind = after.clone();
    blind.metadata.resource_version = None;
    assert_eq!(code(widgets.replace("w", &PostParams::default(), &blind).await), (422, "Invalid".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn spec_and_status_are_written_apart_and_only_the_spec_counts_generations() {
    let server = server_with_widgets();
    let widgets: Api<Widget> = Api::default_namespaced(server.client("default"));
    let mut sent = widget(1);
    sent.status = Some(WidgetStatus { phase: "smuggled".to_owned() });
    let created = widgets.create(&PostParams::default(), &sent).await.unwrap();
    assert_eq!((created.status.clone(), created.metadata.generation), (None, Some(1)));

    let patch = json!({ "spec": { "size": 9 }, "status": { "phase": "Ready" } });
    let status = widgets.patch_status("w", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((status.spec.size, status.metadata.generation), (1, Some(1)));
    let patch = json!({ "spec": { "size": 9 }, "status": { "phase": "smuggled" } });
    let spec = widgets.patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((spec.spec.size, spec.metadata.generation), (9, Some(2)));
    assert_eq!(spec.status.unwrap().phase, "Ready", "only the status subresource writes the status");

    let revision = server.revision();
    widgets.patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(server.revision(), revision, "a write that changes nothing makes no revision");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_renewed_and_lost_by_resource_version() {
    let server = server();
    let leases: Api<Lease> = Api::namespaced(server.client("default"), "kube-system");
    let lease: Lease = serde_json::from_value(json!({
        "metadata": { "name": "l" },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-03-01T12:00:00.000001Z" },
    }))
    .unwrap();
    let held = leases.create(&PostParams::default(), &lease).await.unwrap();
    assert_eq!(code(leases.create(&PostParams::default(), &lease).await), (409, "AlreadyExists".to_owned()));
    let mut renewed = held.clone();
    renewed.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
    leases.replace("l", &PostParams::default(), &renewed).await.unwrap();
    assert_eq!(code(leases.replace("l", &PostParams::default(), &held).await), (409, "Conflict".to_owned()));
    assert_eq!(leases.get("l").await.unwrap().spec.unwrap().holder_identity.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn the_writer_of_each_annotation_is_recorded() {
    let server = server();
    node(&server, "n", &[]);
    let nodes: Api<Node> = Api::all(server.client("default"));
    let annotate = |key: &str, value: Value| json!({ "metadata": { "annotations": { key: value } } });
    for (manager, key) in [("flipop", "example.com/ip"), ("someone", "example.com/other")] {
        let patch = annotate(key, json!("1.2.3.4"));
        nodes.patch("n", &PatchParams::apply(manager), &Patch::Merge(&patch)).await.unwrap();
    }
    let managers_of = |node: &Node, key: &str| -> Vec<String> {
        let shares = node.managed_fields().iter().filter(|share| {
            let fields = &share.fields_v1.as_ref().unwrap().0;
            !fields["f:metadata"]["f:annotations"][format!("f:{key}")].is_null()
        });
        shares.filter_map(|share| share.manager.clone()).collect()
    };
    let read = nodes.get("n").await.unwrap();
    assert_eq!(managers_of(&read, "example.com/ip"), ["flipop"]);
    assert_eq!(managers_of(&read, "example.com/other"), ["someone"]);

    let taken = annotate("example.com/ip", json!("5.6.7.8"));
    nodes.patch("n", &PatchParams::apply("someone"), &Patch::Merge(&taken)).await.unwrap();
    assert_eq!(managers_of(&nodes.get("n").await.unwrap(), "example.com/ip"), ["someone"]);
    let removed = annotate("example.com/ip", Value::Null);
    nodes.patch("n", &PatchParams::apply("flipop"), &Patch::Merge(&removed)).await.unwrap();
    let read = nodes.get("n").await.unwrap();
    assert_eq!(managers_of(&read, "example.com/ip"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_names_another_uid_or_version_is_refused() {
    let server = server();
    let uid = node(&server, "n", &[])["metadata"]["uid"].as_str().unwrap().to_owned();
    let nodes: Api<Node> = Api::all(server.client("default"));
    let with = |uid: &str, version: Option<&str>| {
        let metadata = json!({ "uid": uid, "resourceVersion": version, "annotations": { "a": "b" } });
        Patch::Merge(json!({ "metadata": metadata }))
    };
    let params = PatchParams::default();
    nodes.patch("n", &params, &with(&uid, None)).await.unwrap();
    assert_eq!(
        code(nodes.patch("n", &params, &with("other", None)).await).0,
        422,
        "immutable, as on a real server"
    );
    assert_eq!(code(nodes.patch("n", &params, &with(&uid, Some("1"))).await).0, 409);
    let mut put = nodes.get("n").await.unwrap();
    put.metadata.uid = Some("other".to_owned());
    assert_eq!(code(nodes.replace("n", &PostParams::default(), &put).await).0, 409);
    let delete = DeleteParams {
        preconditions: Some(Preconditions { uid: Some("other".to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    assert_eq!(code(nodes.delete("n", &delete).await).0, 409);
    nodes.delete("n", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(nodes.patch("n", &params, &with(&uid, None)).await), (404, "NotFound".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn objects_are_checked_against_their_schema_and_defaulted() {
    let server = server_with_widgets();
    let uri = "/apis/sandbox.example.com/v1/namespaces/default/widgets";
    for (spec, field) in [
        (json!({}), "spec.size"),
        (json!({ "size": -1 }), "spec.size"),
        (json!({ "size": "1" }), "spec.size"),
        (json!({ "size": 1, "colour": "RED" }), "spec.colour"),
        (json!({ "size": 1, "shape": "flat" }), "spec.shape"),
    ] {
        let body = json!({ "metadata": { "name": "w" }, "spec": spec }).to_string();
        let (code, status) = request(&server, "POST", uri, &[], &body).await;
        assert_eq!((code, &status["reason"]), (422, &json!("Invalid")), "{spec}");
        assert_eq!(status["details"]["causes"][0]["field"], field, "{status}");
    }
    let body = json!({ "metadata": { "name": "w" }, "spec": { "size": 1, "sise": 2 } }).to_string();
    let (code, status) = request(&server, "POST", &format!("{uri}?fieldValidation=Strict"), &[], &body).await;
    assert_eq!(code, 400);
    assert!(status["message"].as_str().unwrap().contains("unknown field \"spec.sise\""), "{status}");
    let (code, _) = request(&server, "POST", &format!("{uri}?dryRun=All"), &[], &body).await;
    assert_eq!(code, 201);
    let (code, created) = request(&server, "POST", uri, &[], &body).await;
    assert_eq!(
        (code, &created["spec"]),
        (201, &json!({ "size": 1, "shape": "round" })),
        "the dry run left nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_merges_takes_back_and_names_conflicts() {
    let server = server_with_widgets();
    let uri = "/apis/sandbox.example.com/v1/namespaces/default/widgets/w";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let apply = async |manager: &str, more: &str, spec: Value| {
        let body = json!({ "apiVersion": "sandbox.example.com/v1", "kind": "Widget",
                           "metadata": { "name": "w", "namespace": "default" }, "spec": spec });
        request(&server, "PATCH", &format!("{uri}?fieldManager={manager}{more}"), &headers, &body.to_string())
            .await
    };
    let part = |name: &str, weight: i64| json!({ "name": name, "weight": weight });
    let (code, _) = apply("a", "", json!({ "size": 1, "colour": "red", "parts": [part("x", 1)] })).await;
    assert_eq!(code, 201);
    let (code, both) = apply("b", "", json!({ "size": 1, "parts": [part("y", 2)] })).await;
    assert_eq!((code, &both["spec"]["parts"]), (200, &json!([part("x", 1), part("y", 2)])));
    let (code, status) = apply("b", "", json!({ "size": 1, "colour": "blue" })).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (409, &json!(".spec.colour")));
    let (code, forced) = apply("b", "&force=true", json!({ "size": 1, "colour": "blue" })).await;
    assert_eq!((code, &forced["spec"]["colour"]), (200, &json!("blue")));
    assert_eq!(
        forced["spec"]["parts"],
        json!([part("x", 1)]),
        "a field that b drops is removed, and a field of a stays"
    );
    let revision = server.revision();
    apply("b", "", json!({ "size": 1, "colour": "blue" })).await;
    assert_eq!(server.revision(), revision, "the same configuration again changes nothing");
}

#[tokio::test(start_paused = true)]
async fn finalizers_keep_an_object_until_they_are_gone() {
    let server = server_with_widgets();
    let widgets: Api<Widget> = Api::default_namespaced(server.client("default"));
    let mut kept = widget(1);
    kept.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
    widgets.create(&PostParams::default(), &kept).await.unwrap();
    let deleted = widgets.delete("w", &DeleteParams::default()).await.unwrap();
    assert!(deleted.left().unwrap().metadata.deletion_timestamp.is_some());
    assert!(widgets.get_opt("w").await.unwrap().is_some());
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    widgets.patch("w", &PatchParams::default(), &patch).await.unwrap();
    assert!(widgets.get_opt("w").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it() {
    let server = server_with_widgets();
    let client = server.client("default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let widgets: Api<Widget> = Api::namespaced(client, "x");
    assert_eq!(code(widgets.create(&PostParams::default(), &widget(1)).await), (404, "NotFound".to_owned()));
    server.apply_yaml("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n", "").unwrap();
    let mut kept = widget(1);
    kept.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
    widgets.create(&PostParams::default(), &kept).await.unwrap();
    namespaces.delete("x", &DeleteParams::default()).await.unwrap();
    let phase = namespaces.get("x").await.unwrap().status.unwrap().phase;
    assert_eq!(phase.as_deref(), Some("Terminating"));
    assert_eq!(code(widgets.create(&PostParams::default(), &widget(2)).await).0, 403);
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
    widgets.patch("w", &PatchParams::default(), &patch).await.unwrap();
    assert!(namespaces.get_opt("x").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_event_of_the_new_api_is_one_of_the_old_api() {
    let server = server();
    let node = node(&server, "n", &[]);
    let client = server.client("default");
    let reporter = Reporter { controller: "flipop".to_owned(), instance: Some("pod-1".to_owned()) };
    let reference = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some("n".to_owned()),
        uid: node["metadata"]["uid"].as_str().map(str::to_owned),
        ..ObjectReference::default()
    };
    let event = kube::runtime::events::Event {
        type_: EventType::Normal,
        reason: "Assigned".to_owned(),
        note: Some("it has an address".to_owned()),
        action: "Assign".to_owned(),
        secondary: None,
    };
    let recorder = Recorder::new(client.clone(), reporter);
    recorder.publish(&event, &reference).await.unwrap();
    recorder.publish(&event, &reference).await.unwrap();
    let events: Api<Event> = Api::namespaced(client, "default");
    let selector = kube::api::ListParams::default().fields("involvedObject.name=n,reason=Assigned");
    let found = events.list(&selector).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message.as_deref(), Some("it has an address"));
    assert_eq!(found[0].reporting_component.as_deref(), Some("flipop"));
    assert_eq!(found[0].series.as_ref().and_then(|series| series.count), Some(2));
}

#[tokio::test(start_paused = true)]
async fn nodes_get_the_taints_of_their_condition_and_lose_them_again() {
    let server = server();
    node(&server, "n", &[]);
    server.set_node_taint("n", "dedicated", "x", Some("NoSchedule")).unwrap();
    let taints = || -> Vec<String> {
        let node = server.object("v1", "Node", &Key::new("", "n")).unwrap();
        let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap()))
            .collect()
    };
    server.set_node_ready("n", Readiness::NotReady).unwrap();
    server.set_node_unschedulable("n", true).unwrap();
    assert_eq!(
        taints(),
        [
            "dedicated:NoSchedule",
            "node.kubernetes.io/not-ready:NoSchedule",
            "node.kubernetes.io/not-ready:NoExecute",
            "node.kubernetes.io/unschedulable:NoSchedule"
        ]
    );
    server.set_node_ready("n", Readiness::Ready).unwrap();
    server.set_node_unschedulable("n", false).unwrap();
    assert_eq!(taints(), ["dedicated:NoSchedule"]);
}

#[tokio::test(start_paused = true)]
async fn names_are_generated_and_secrets_encoded() {
    let server = server();
    let uri = "/api/v1/namespaces/default/secrets";
    let body = json!({ "metadata": { "generateName": "s-" }, "stringData": { "k": "value" } }).to_string();
    let (code, secret) = request(&server, "POST", uri, &[], &body).await;
    assert_eq!((code, &secret["data"]["k"], secret.get("stringData")), (201, &json!("dmFsdWU="), None));
    let name = secret["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("s-") && name.len() == 7, "{name}");
    assert_eq!(get(&server, &format!("{uri}/{name}")).await, secret);
    let body = json!({ "metadata": { "name": "Not_A_Name" } }).to_string();
    assert_eq!(request(&server, "POST", uri, &[], &body).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn what_a_former_schema_let_in_can_be_there_all_the_same() {
    let server = server();
    server
        .apply_yaml(
            &crate::support::WIDGETS_YAML.replace("size: {type: integer,", "size: {type: number,"),
            "default",
        )
        .unwrap();
    let odd = json!({ "metadata": { "name": "odd" }, "spec": { "size": 1.5 } });
    server.create_object("sandbox.example.com/v1", "Widget", "default", odd, "user").unwrap();
    server.apply_yaml(crate::support::WIDGETS_YAML, "default").unwrap();
    let uri = "/apis/sandbox.example.com/v1/namespaces/default/widgets/odd";
    assert_eq!(get(&server, uri).await["spec"]["size"], 1.5);
    let headers = [("content-type", "application/merge-patch+json")];
    let status = json!({ "status": { "phase": "Bad" } }).to_string();
    let (code, answer) = request(&server, "PATCH", &format!("{uri}/status"), &headers, &status).await;
    assert_eq!(code, 200, "an old fault in the spec does not stop a status: {answer}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_resource_is_told_apart_from_an_unknown_object() {
    let server = server();
    let uri = "/apis/sandbox.example.com/v1/namespaces/default/widgets";
    let request = http::Request::builder().uri(uri).body(bytes::Bytes::new()).unwrap();
    let response = server.answer(&request);
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (404, &"text/plain; charset=utf-8".parse().unwrap())
    );
    server.apply_yaml(crate::support::WIDGETS_YAML, "default").unwrap();
    let (code, status) = crate::support::request(&server, "GET", &format!("{uri}/w"), &[], "").await;
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
}

#[tokio::test(start_paused = true)]
async fn an_absent_status_has_its_default_and_a_written_one_is_left_alone() {
    let server = server();
    server.apply_yaml(&flipop::api::crd::all_yaml().unwrap(), "default").unwrap();
    let pool = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/default/floatingippools";
    let object = json!({ "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "metadata": { "name": "new" }, "spec": {}, "status": { "error": "smuggled" } });
    let json_type = [("content-type", "application/json")];
    let (code, created) = request(&server, "POST", pool, &json_type, &object.to_string()).await;
    let nobody = json!({ "observedGeneration": -1 });
    assert_eq!((code, &created["status"]), (201, &nobody));
    assert_eq!(get(&server, &format!("{pool}/new")).await["status"], nobody);
    let mut written = created;
    written["status"] = json!({ "error": "x" });
    let status = format!("{pool}/new/status");
    let (code, _) = request(&server, "PUT", &status, &json_type, &written.to_string()).await;
    assert_eq!(code, 200);
    assert_eq!(get(&server, &format!("{pool}/new")).await["status"], json!({ "error": "x" }));
}
