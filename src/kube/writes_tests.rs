//! Writes. The test plays the API server by hand, on a paused clock.

use super::*;
use crate::api::FloatingIPPool;
use crate::clock::Clock;
use crate::kube::stub::{self, Calls};
use crate::permit::PermitSource;
use flipop_core::fleet::action::MarkedNode;

struct Bench {
    client: Client,
    calls: Calls,
    clock: Clock,
    source: PermitSource,
    permit: Permit,
}

fn start() -> Bench {
    let (client, calls) = stub::by_hand();
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now());
    let permit = source.permit();
    Bench { client, calls, clock, source, permit }
}

fn object() -> ObjectVersion {
    ObjectVersion {
        name: ObjectName::new("web", "pool"),
        uid: Uid("u1".into()),
        resource_version: "7".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_put_whole_with_the_version_that_it_replaces() {
    let mut bench = start();
    let (object, status) = (object(), json!({"error": "x"}));
    let write = replace_status::<FloatingIPPool, _>(&bench.client, &bench.permit, &object, &status);
    let server = async {
        let call = bench.calls.next().await;
        assert_eq!(call.request.method(), http::Method::PUT);
        let path = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/web/floatingippools/pool/status";
        assert_eq!(call.request.uri().path(), path);
        assert!(call.uri().contains("fieldManager=flipop"), "{}", call.uri());
        assert_eq!(
            call.body(),
            json!({"apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
                "metadata": {"namespace": "web", "name": "pool", "uid": "u1", "resourceVersion": "7"},
                "status": {"error": "x"}})
        );
        call.answer(stub::object(&json!({"metadata": {"resourceVersion": "8"}, "status": {"error": "y"}})));
    };
    let (stored, ()) = tokio::join!(write, server);
    assert_eq!(stored, Ok(("8".to_owned(), json!({"error": "y"}))));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_enough_of_a_permit() {
    let mut bench = start();
    tokio::time::sleep(Duration::from_millis(7_001)).await;
    let result =
        replace_status::<FloatingIPPool, _>(&bench.client, &bench.permit, &object(), &json!({})).await;
    assert_eq!(result, Err(WriteError::PermitEnded { unknown: false }));
    assert!(bench.calls.is_quiet());
}

#[tokio::test(start_paused = true)]
async fn a_write_under_way_ends_with_the_permit_and_is_unknown() {
    let mut bench = start();
    let object = object();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let status = json!({});
    let write = replace_status::<FloatingIPPool, _>(&bench.client, &bench.permit, &object, &status);
    let (result, _unanswered) = tokio::join!(write, bench.calls.next());
    assert_eq!(result, Err(WriteError::PermitEnded { unknown: true }));
    assert_eq!(bench.clock.now().as_millis(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_answered_ends_after_ten_seconds_although_the_permit_goes_on() {
    let mut bench = start();
    let object = object();
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.source.extend(bench.clock.now());
    let renewals = async {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            bench.source.extend(bench.clock.now());
        }
    };
    let status = json!({});
    let write = replace_status::<FloatingIPPool, _>(&bench.client, &bench.permit, &object, &status);
    let ((result, _unanswered), ()) = tokio::select! {
        both = async { tokio::join!(write, bench.calls.next()) } => (both, ()),
        () = renewals => panic!("endless"),
    };
    assert!(matches!(result, Err(WriteError::Transient { unknown: true, .. })), "{result:?}");
    assert_eq!(bench.clock.now().as_millis(), 15_000);
}

#[tokio::test(start_paused = true)]
async fn each_refusal_has_its_own_error() {
    for (code, reason, expected) in [
        (409, "Conflict", WriteError::Conflict),
        (404, "NotFound", WriteError::NotFound),
        (
            403,
            "Forbidden",
            WriteError::Forbidden {
                verb: "patch",
                resource: "nodes".to_owned(),
                why: ": 403 refused: Forbidden".to_owned(),
            },
        ),
        (422, "Invalid", WriteError::Invalid("422 refused: Invalid".to_owned())),
        (429, "TooManyRequests", transient(false, "429 refused: TooManyRequests")),
        (500, "InternalError", transient(true, "500 refused: InternalError")),
    ] {
        let mut bench = start();
        let uid = Uid("u1".into());
        let write = annotate_node(&bench.client, &bench.permit, "a", &uid, None);
        let server = async { bench.calls.next().await.answer(stub::refusal(code, reason)) };
        let (result, ()) = tokio::join!(write, server);
        assert_eq!(result.unwrap_err(), expected);
    }
}

fn transient(unknown: bool, message: &str) -> WriteError {
    WriteError::Transient { unknown, message: message.to_owned(), retry_after_ms: None }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_is_patched_on_the_node_that_was_meant() {
    let mut bench = start();
    let uid = Uid("u1".into());
    for (value, wire) in [(Some(Address::from([192, 0, 2, 1])), json!("192.0.2.1")), (None, Value::Null)] {
        let write = annotate_node(&bench.client, &bench.permit, "a", &uid, value);
        let server = async {
            let call = bench.calls.next().await;
            assert_eq!(call.request.method(), http::Method::PATCH);
            assert_eq!(call.request.headers()["content-type"], "application/merge-patch+json");
            assert_eq!(call.uri(), "/api/v1/nodes/a?&fieldManager=flipop");
            assert_eq!(
                call.body(),
                json!({"metadata": {"uid": "u1", "annotations": {RESERVED_IP_ANNOTATION: wire}}})
            );
            call.answer(stub::object(&json!({"metadata": {"name": "a", "uid": "u1"}})));
        };
        let (node, ()) = tokio::join!(write, server);
        assert_eq!(node.unwrap().into_facts().name, "a");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_replaced_under_its_name_is_gone() {
    let mut bench = start();
    let uid = Uid("u1".into());
    let write = annotate_node(&bench.client, &bench.permit, "a", &uid, None);
    let server = async {
        let status = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
            "details": {"causes": [{"field": "metadata.uid", "message": "field is immutable"}]}});
        let (pen, lines) = tokio::sync::mpsc::unbounded_channel();
        pen.send(status).unwrap();
        drop(pen);
        let mut answer = stub::events(lines).unwrap();
        *answer.status_mut() = http::StatusCode::UNPROCESSABLE_ENTITY;
        bench.calls.next().await.answer(Ok(answer));
    };
    let (result, ()) = tokio::join!(write, server);
    assert_eq!(result.unwrap_err(), WriteError::NotFound);
}

#[tokio::test(start_paused = true)]
async fn only_spec_ips_of_a_fresh_read_changes() {
    let mut bench = start();
    let (name, uid) = (ObjectName::new("web", "pool"), Uid("u1".into()));
    let stored = json!({"apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "metadata": {"name": "pool", "namespace": "web", "uid": "u1", "resourceVersion": "8",
            "annotations": {"kept": "yes"}},
        "spec": {"unknown": {"kept": true}, "ips": ["192.0.2.1"]}, "status": {"kept": 1}});
    let edit = |ips: &[String]| {
        assert_eq!(ips, ["192.0.2.1"]);
        Some(vec!["192.0.2.1".to_owned(), "192.0.2.2".to_owned()])
    };
    let write = replace_spec_ips::<FloatingIPPool, _>(&bench.client, &bench.permit, &name, &uid, edit);
    let server = async {
        let read = bench.calls.next().await;
        assert_eq!(read.request.method(), http::Method::GET);
        read.answer(stub::object(&stored));
        let call = bench.calls.next().await;
        assert_eq!(call.request.method(), http::Method::PUT);
        let mut expected = stored.clone();
        expected["spec"]["ips"] = json!(["192.0.2.1", "192.0.2.2"]);
        assert_eq!(call.body(), expected);
        call.answer(stub::object(&expected));
    };
    let (result, ()) = tokio::join!(write, server);
    assert!(result.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn spec_ips_of_a_namesake_or_with_nothing_to_do_are_not_written() {
    let mut bench = start();
    let name = ObjectName::new("web", "pool");
    for (uid, expected) in [("other", Err(WriteError::NotFound)), ("u1", Ok(None))] {
        let uid = Uid(uid.into());
        let write =
            replace_spec_ips::<FloatingIPPool, _>(&bench.client, &bench.permit, &name, &uid, |_| None);
        let server = async {
            bench.calls.next().await.answer(stub::object(&json!({"metadata": {"uid": "u1"}, "spec": null})));
        };
        let (result, ()) = tokio::join!(write, server);
        assert_eq!(result, expected);
        assert!(bench.calls.is_quiet());
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_writes_no_spec_ips_that_it_had_only_read_and_those_that_it_decided_on_since() {
    for decided_since in [false, true] {
        let mut bench = start();
        let (name, uid) = (ObjectName::new("web", "pool"), Uid("u1".into()));
        let stored = json!({"metadata": {"uid": "u1"}, "spec": {}});
        if decided_since {
            bench.source.close();
        }
        let edit = |_: &[String]| Some(vec!["192.0.2.1".to_owned()]);
        let write = replace_spec_ips::<FloatingIPPool, _>(&bench.client, &bench.permit, &name, &uid, edit);
        let server = async {
            let read = bench.calls.next().await;
            bench.source.close();
            read.answer(stub::object(&stored));
            if decided_since {
                bench.calls.next().await.answer(stub::object(&stored));
            }
        };
        let (result, ()) = tokio::join!(write, server);
        if decided_since {
            assert_eq!(result, Ok(Some(stored)));
        } else {
            assert_eq!(result, Err(WriteError::PermitEnded { unknown: false }));
        }
        assert!(bench.calls.is_quiet());
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_counted_by_a_list_of_one() {
    for (metadata, shown, expected) in [
        (json!({"continue": "more", "remainingItemCount": 11}), 1, Some(12)),
        (json!({}), 1, Some(1)),
        (json!({}), 0, Some(0)),
        (json!({"continue": "more"}), 1, None),
    ] {
        let mut bench = start();
        let server = async {
            let call = bench.calls.next().await;
            assert!(call.uri().contains("limit=1"), "{}", call.uri());
            let items = vec![json!({"metadata": {"name": "a", "uid": "u"}}); shown];
            call.answer(stub::object(&json!({"kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items})));
        };
        let (counted, ()) = tokio::join!(count::<NodeSlim>(&bench.client, ""), server);
        assert_eq!(counted.ok(), expected, "{metadata}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_sweep_reads_metadata_page_by_page_and_keeps_what_is_annotated() {
    let mut bench = start();
    let sweep = sweep_nodes(&bench.client);
    let server = async {
        let first = bench.calls.next().await;
        let accept = first.request.headers()["accept"].to_str().unwrap().to_owned();
        assert!(accept.contains("PartialObjectMetadataList"), "{accept}");
        assert!(first.uri().contains("limit=500") && !first.uri().contains("resourceVersion"));
        first.answer(stub::object(
            &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"continue": "more"},
            "items": [{"metadata": {"name": "bare", "uid": "u0"}},
                {"metadata": {"name": "a", "uid": "u1", "annotations": {RESERVED_IP_ANNOTATION: "x"},
                    "managedFields": [{"manager": "flipop", "fieldsV1": {"f:metadata": {"f:annotations":
                        {format!("f:{RESERVED_IP_ANNOTATION}"): {}}}}}]}}]}),
        ));
        let second = bench.calls.next().await;
        assert!(second.uri().contains("continue=more"));
        second.answer(stub::object(&json!({"kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [
            {"metadata": {"name": "b", "uid": "u2", "annotations": {RESERVED_IP_ANNOTATION: "192.0.2.1"}}}]})));
    };
    let (found, ()) = tokio::join!(sweep, server);
    let node = |name: &str, uid: &str, value: &str, ours| MarkedNode {
        name: name.to_owned(),
        uid: Uid(uid.into()),
        value: Some(value.to_owned()),
        ours,
        labels: flipop_core::model::node_labels::NodeLabels::default(),
    };
    let Sweep { names, marked } = found.unwrap();
    assert_eq!(marked, [node("a", "u1", "x", true), node("b", "u2", "192.0.2.1", false)]);
    assert_eq!(names, ["a", "b", "bare"].map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn the_fence_inside_the_client_refuses_what_the_permit_does_not_allow_any_more() {
    use tower::{Layer, Service, ServiceExt};
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let source = PermitSource::new(clock.clone());
    source.extend(clock.now());
    let inner =
        tower::service_fn(|_: http::Request<kube::client::Body>| async { Ok::<_, tower::BoxError>("sent") });
    let mut fenced = crate::kube::client::Fence.layer(inner);
    let request = |permit: Option<Permit>| {
        let mut request = http::Request::new(kube::client::Body::empty());
        if let Some(permit) = permit {
            request.extensions_mut().insert(permit);
        }
        request
    };
    let permit = source.permit();
    let fenced = fenced.ready().await.unwrap();
    assert_eq!(fenced.call(request(Some(permit.clone()))).await.unwrap(), "sent");
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(fenced.call(request(Some(permit))).await.is_err());
    assert_eq!(fenced.call(request(None)).await.unwrap(), "sent");
}
