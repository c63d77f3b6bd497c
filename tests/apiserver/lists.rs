//! Lists of nodes and pods, as a real API server writes them in protobuf and in JSON.

use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, World};
use bytes::Bytes;
use flipop::kube::objects::{FIELD_MANAGER, NodeSlim, PodSlim, protobuf};
use flipop::kube::watch::page::{self, Form};
use flipop_core::model::{NodeFacts, REGION_LABEL};
use flipop_envtest::nodes::NewPod;
use flipop_envtest::{Failure, Outcome};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::client::Body;
use serde_json::json;

pub(crate) fn cases() -> Vec<Case> {
    // The test leaves a node that is being deleted.
    cases![InstalledForOne: lists_say_the_same_in_protobuf_and_in_json]
}

async fn lists_say_the_same_in_protobuf_and_in_json(world: &mut World) -> Outcome {
    let many = |new: flipop_envtest::nodes::NewNode| {
        new.label(REGION_LABEL, "nyc3")
            .taint("dedicated", "NoSchedule")
            .taint("gone", "NoExecute")
            .address("InternalIP", "10.0.0.1")
            .address("ExternalIP", "2001:db8::1")
            .address("ExternalIP", "198.51.100.1")
    };
    world.node_with("alpha", many).await?;
    world.node_with("beta", |new| new.not_ready().annotation(ANNOTATION, "192.0.2.7")).await?;
    world.node("gamma").await?;
    let client = world.server.client().await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let ours = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let annotation = json!({ "metadata": { "annotations": { ANNOTATION: "192.0.2.8" } } });
    nodes.patch("alpha", &ours, &Patch::Merge(&annotation)).await?;
    world.nodes.patch("gamma", &json!({ "metadata": { "finalizers": ["example.com/stays"] } })).await?;
    world.nodes.delete("gamma").await?;
    world.pod("web-1", "alpha").await?;
    world.pod("web-2", "beta").await?;
    world.nodes.set_pod_ready("web", "web-2", false).await?;
    world.nodes.create_pod(&NewPod::new("web", "ends", "alpha").label("app", "web")).await?;
    world.nodes.terminate_pod("web", "ends").await?;

    let api = Api::<NodeSlim>::all(client.clone());
    let all = ListParams::default().limit(500);
    let read = async |form| page::read(&api, &mut all.clone(), &form, NodeSlim::into_facts).await;
    let json = read(Form::Json).await?;
    assert_eq!(read(Form::Protobuf(protobuf::NODES.item)).await?, json);
    let marks = |node: NodeFacts| (node.name, node.uid, node.annotation, node.annotation_ours, node.labels);
    // Only an answer in protobuf meets this decoder, so the server does send protobuf.
    let refuse = |_| (protobuf::NODES.item)(Bytes::from_static(b"\xff"));
    assert!(read(Form::Protobuf(refuse)).await.is_err() && read(Form::Metadata(refuse)).await.is_err());
    let metadata = read(Form::Metadata(protobuf::NODES.item)).await?.items;
    assert!(metadata.iter().all(|node| node.provider_id.is_empty()), "{metadata:?}");
    let metadata: Vec<_> = metadata.into_iter().map(marks).collect();
    assert_eq!(metadata, json.items.iter().cloned().map(marks).collect::<Vec<_>>());
    let same = json.items;
    let [alpha, beta, gamma] = same.as_slice() else { return Err(Failure::new(format!("{same:?}"))) };
    assert!(
        alpha.ready.is_ready() && alpha.annotation_ours && alpha.taints.len() == 2 && alpha.region.is_some(),
        "{alpha:?}"
    );
    assert!(alpha.external_ips.len() == 1 && alpha.machine.is_some(), "{alpha:?}");
    assert!(
        !beta.ready.is_ready() && !beta.annotation_ours && beta.annotation.is_some() && gamma.deleting,
        "{same:?}"
    );

    let api = Api::<PodSlim>::namespaced(client.clone(), "web");
    let read = async |params: &ListParams, form| {
        page::read(&api, &mut params.clone(), &form, PodSlim::into_facts).await
    };
    let json = read(&all, Form::Json).await?;
    let same = read(&all, Form::Protobuf(protobuf::PODS.item)).await?;
    assert_eq!(same, json);
    let serving: Vec<&str> =
        same.items.iter().filter(|pod| pod.serving).map(|pod| pod.name.as_str()).collect();
    assert_eq!((same.items.len(), serving), (3, vec!["web-1"]), "{same:?}");

    let one = ListParams::default().limit(1).labels("app=web");
    let first = read(&one, Form::Protobuf(protobuf::PODS.item)).await?;
    assert!(first.items.len() == 1 && first.more.is_some(), "{first:?}");

    // An event begins with its length, and holds its object in the envelope.
    let watch = http::Request::get("/api/v1/nodes?watch=1&timeoutSeconds=1");
    let watch = watch.header(http::header::ACCEPT, protobuf::ACCEPT).body(Body::empty())?;
    let events = client.send(watch).await?.into_body().collect().await?.to_bytes();
    assert_eq!(events.first(), Some(&0), "{events:?}");
    let objects = events.windows(4).filter(|bytes| *bytes == b"k8s\0").count();
    assert_eq!(objects, 3, "{events:?}");
    Ok(())
}
