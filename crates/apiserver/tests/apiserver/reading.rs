//! Reads: pages, resource versions, selectors, tables, discovery.

use crate::support::{get, node, request, server, server_with_widgets};
use flipop_apiserver::{ApiServer, PodSpec, Readiness, View};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_state_whatever_happens_between_them() {
    let server = server();
    for name in ["a", "b", "c", "d", "e"] {
        node(&server, name, &[]);
    }
    let first = get(&server, "/api/v1/nodes?limit=2").await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(3)));
    server.delete_object("v1", "Node", &flipop_apiserver::Key::new("", "c"), false).unwrap();
    node(&server, "bb", &[]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(&server, &format!("/api/v1/nodes?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = get(&server, &format!("/api/v1/nodes?limit=2&continue={token}")).await;
    assert_eq!((names(&third), third["metadata"].get("continue")), (vec!["e"], None));
    server.compact();
    let (code, status) =
        request(&server, "GET", &format!("/api/v1/nodes?limit=2&continue={token}"), &[], "").await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test(start_paused = true)]
async fn kube_reads_page_by_page() {
    let server = server();
    for index in 0..7 {
        node(&server, &format!("n{index}"), &[]);
    }
    let nodes: Api<Node> = Api::all(server.client("default"));
    let mut params = ListParams::default().limit(3);
    let mut found = Vec::new();
    loop {
        let page = nodes.list(&params).await.unwrap();
        found.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    assert_eq!(found, ["n0", "n1", "n2", "n3", "n4", "n5", "n6"]);
}

#[tokio::test(start_paused = true)]
async fn an_exact_version_shows_the_past_and_a_future_one_is_refused() {
    let server = server();
    node(&server, "a", &[]);
    let then = server.revision();
    node(&server, "b", &[]);
    let uri = |version: u64| format!("/api/v1/nodes?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(names(&get(&server, &uri(then)).await), ["a"]);
    assert_eq!(names(&get(&server, "/api/v1/nodes?resourceVersion=0").await), ["a", "b"]);
    let (code, status) = request(&server, "GET", "/api/v1/nodes?resourceVersion=9999", &[], "").await;
    assert_eq!((code, &status["details"]["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")));
}

#[tokio::test(start_paused = true)]
async fn a_lagging_front_shows_the_past_and_catches_up() {
    let server = server();
    let lagging = server.front();
    node(&server, "a", &[]);
    lagging.set_view(View::CacheAt(server.revision()));
    node(&server, "b", &[]);
    assert_eq!(names(&get(&lagging, "/api/v1/nodes?resourceVersion=0").await), ["a"]);
    assert_eq!(names(&get(&lagging, "/api/v1/nodes").await), ["a", "b"], "a consistent read");
    lagging.set_view(View::AllAt(server.revision() - 1));
    assert_eq!(names(&get(&lagging, "/api/v1/nodes").await), ["a"], "nothing is current any more");
    let mut watch = crate::support::Frames::open(&lagging, "/api/v1/nodes?watch=1");
    assert_eq!(watch.next_named().await.1, "a");
    lagging.set_view(View::Current);
    assert_eq!(watch.next_named().await.1, "b");
}

#[tokio::test(start_paused = true)]
async fn selectors_narrow_lists_and_unknown_fields_are_refused() {
    let server = server();
    node(&server, "a", &[("pool", "edge"), ("tier", "x")]);
    node(&server, "b", &[("pool", "edge")]);
    node(&server, "c", &[]);
    let list = async |query: &str| {
        let list = get(&server, &format!("/api/v1/nodes?{query}")).await;
        names(&list).join("")
    };
    assert_eq!(list("labelSelector=pool%3Dedge%2Ctier%21%3Dx").await, "b");
    assert_eq!(list("labelSelector=pool+notin+%28edge%29").await, "c");
    assert_eq!(list("fieldSelector=metadata.name%21%3Da").await, "bc");
    let (code, status) = request(&server, "GET", "/api/v1/nodes?fieldSelector=spec.x%3D1", &[], "").await;
    assert_eq!(code, 400);
    assert!(status["message"].as_str().unwrap().contains("field label not supported: spec.x"));
}

async fn table(server: &ApiServer, uri: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let (code, table) = request(server, "GET", uri, &accept, "").await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    let columns = table["columnDefinitions"].as_array().unwrap();
    let shown = |column: &&Value| column["priority"] == 0;
    let headers = columns.iter().filter(shown).map(|c| c["name"].as_str().unwrap().to_owned()).collect();
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["object"]["kind"] == "PartialObjectMetadata"));
    let cells = |row: &Value| {
        let cells = row["cells"].as_array().unwrap();
        assert_eq!(cells.len(), columns.len());
        cells.iter().zip(columns).filter(|(_, c)| c["priority"] == 0).map(|(cell, _)| cell.clone()).collect()
    };
    (headers, rows.iter().map(cells).collect())
}

#[tokio::test(start_paused = true)]
async fn tables_show_what_kubectl_get_prints() {
    let server = server_with_widgets();
    node(&server, "n", &[("node-role.kubernetes.io/worker", "")]);
    server.set_node_unschedulable("n", true).unwrap();
    let pod = PodSpec {
        namespace: "default".to_owned(),
        name: "p".to_owned(),
        node: "n".to_owned(),
        ready: true,
        ..PodSpec::default()
    };
    server.create_pod(&pod).unwrap();
    let widget = json!({ "metadata": { "name": "w" }, "spec": { "size": 7 } });
    server.create_object("sandbox.example.com/v1", "Widget", "default", widget, "t").unwrap();
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let key = flipop_apiserver::Key::new("default", "w");
    server.patch_object(("sandbox.example.com/v1", "Widget"), &key, "status", status, "t").unwrap();
    tokio::time::advance(std::time::Duration::from_secs(200)).await;

    let (headers, rows) = table(&server, "/api/v1/nodes").await;
    assert_eq!(headers, ["Name", "Status", "Roles", "Age", "Version"]);
    assert_eq!(json!(rows), json!([["n", "Ready,SchedulingDisabled", "worker", "3m20s", "v1.33.1"]]));
    let (headers, rows) = table(&server, "/api/v1/pods").await;
    assert_eq!(headers, ["Name", "Ready", "Status", "Restarts", "Age"]);
    assert_eq!(json!(rows), json!([["p", "1/1", "Running", "0", "3m20s"]]));
    let (headers, rows) = table(&server, "/apis/sandbox.example.com/v1/widgets").await;
    assert_eq!(headers, ["Name", "Size", "Ready", "Age"]);
    assert_eq!(json!(rows), json!([["w", 7, "True", "3m20s"]]));
}

#[tokio::test(start_paused = true)]
async fn discovery_names_custom_resources_with_their_short_names() {
    let server = server_with_widgets();
    let list = get(&server, "/apis/sandbox.example.com/v1").await;
    assert_eq!(
        (&list["resources"][0]["name"], &list["resources"][0]["shortNames"]),
        (&json!("widgets"), &json!(["wid"]))
    );
    assert_eq!(list["resources"][1]["name"], "widgets/status");
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let (_, all) = request(&server, "GET", "/apis", &accept, "").await;
    let groups = all["items"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["metadata"]["name"] == "sandbox.example.com"));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_and_the_same_steps_give_the_same_bytes() {
    let run = || async {
        let server = server_with_widgets();
        node(&server, "a", &[]);
        server.set_node_ready("a", Readiness::NotReady).unwrap();
        let body = json!({ "metadata": { "generateName": "cm-" } }).to_string();
        request(&server, "POST", "/api/v1/namespaces/default/configmaps", &[], &body).await;
        let nodes = get(&server, "/api/v1/nodes").await;
        format!("{nodes}{}", get(&server, "/api/v1/configmaps").await)
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_the_time_of_the_cluster_in_whole_seconds() {
    let server = ApiServer::simulated(1, "2026-11-26T15:00:10.9Z".parse().unwrap());
    for (path, code) in [("/api/v1/nodes", 200), ("/api/v1/nodes/none", 404), ("/nowhere", 404)] {
        let request = http::Request::builder().uri(path).body(bytes::Bytes::new()).unwrap();
        let answer = server.answer(&request);
        assert_eq!(answer.status().as_u16(), code, "{path}");
        assert_eq!(answer.headers()["date"], "Thu, 26 Nov 2026 15:00:10 GMT");
    }
    tokio::time::advance(std::time::Duration::from_mins(1)).await;
    let request = http::Request::builder().uri("/version").body(bytes::Bytes::new()).unwrap();
    assert_eq!(server.answer(&request).headers()["date"], "Thu, 26 Nov 2026 15:01:10 GMT");
}

#[tokio::test(start_paused = true)]
async fn a_condition_says_since_when_it_has_its_status() {
    let server = server();
    node(&server, "a", &[]);
    let since = |server: &ApiServer| {
        let node = server.object("v1", "Node", &flipop_apiserver::Key::new("", "a")).unwrap();
        let ready = node["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready");
        ready.unwrap()["lastTransitionTime"].as_str().unwrap().to_owned()
    };
    server.set_node_ready("a", Readiness::NotReady).unwrap();
    let first = since(&server);
    tokio::time::advance(std::time::Duration::from_mins(1)).await;
    server.set_node_ready("a", Readiness::NotReady).unwrap();
    assert_eq!(since(&server), first, "it failed all the time");
    server.set_node_ready("a", Readiness::Unknown).unwrap();
    assert_ne!(since(&server), first);
}
