//! Lists of nodes and pods, as a real API server writes them in protobuf and in JSON.

use crate::suite::{Case, cases};
use crate::world::{ANNOTATION, World};
use flipop::kube::objects::{FIELD_MANAGER, NodeSlim, PodSlim, protobuf};
use flipop_core::model::facts::REGION_LABEL;
use flipop_envtest::nodes::NewPod;
use flipop_envtest::{Failure, Outcome};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::core::ObjectList;
use kube::{Api, Client};
use serde_json::json;

pub(crate) fn cases() -> Vec<Case> {
    // The test leaves a node that is being deleted.
    cases![InstalledForOne: lists_say_the_same_in_protobuf_and_in_json]
}

/// One page of the list at `path`.
async fn page(client: &Client, path: &str, accept: &str) -> Outcome<bytes::Bytes> {
    let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Body::empty())?;
    Ok(client.send(request).await?.into_body().collect().await?.to_bytes())
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

    let path = "/api/v1/nodes?limit=500";
    let json: ObjectList<NodeSlim> = serde_json::from_slice(&page(&client, path, "application/json").await?)?;
    let same = protobuf::nodes(&page(&client, path, protobuf::ACCEPT).await?);
    let same = same.ok_or_else(|| Failure::new("no protobuf"))??;
    assert_eq!(same.metadata.resource_version, json.metadata.resource_version);
    let facts =
        |list: ObjectList<NodeSlim>| list.items.into_iter().map(NodeSlim::into_facts).collect::<Vec<_>>();
    let (same, json) = (facts(same), facts(json));
    assert_eq!(same, json);
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

    let path = "/api/v1/namespaces/web/pods?limit=500";
    let json: ObjectList<PodSlim> = serde_json::from_slice(&page(&client, path, "application/json").await?)?;
    let same = protobuf::pods(&page(&client, path, protobuf::ACCEPT).await?);
    let same = same.ok_or_else(|| Failure::new("no protobuf"))??;
    let facts =
        |list: ObjectList<PodSlim>| list.items.into_iter().map(PodSlim::into_facts).collect::<Vec<_>>();
    let (same, json) = (facts(same), facts(json));
    assert_eq!(same, json);
    let serving: Vec<&str> = same.iter().filter(|pod| pod.serving).map(|pod| pod.name.as_str()).collect();
    assert_eq!((same.len(), serving), (3, vec!["web-1"]), "{same:?}");

    let path = "/api/v1/pods?limit=1&labelSelector=app%3Dweb";
    let first = protobuf::pods(&page(&client, path, protobuf::ACCEPT).await?);
    let first = first.ok_or_else(|| Failure::new("no protobuf"))??;
    assert!(first.items.len() == 1 && first.metadata.continue_.is_some(), "{:?}", first.metadata);

    // An event begins with its length, and holds its object in the envelope.
    let path = "/api/v1/nodes?watch=1&timeoutSeconds=1";
    let events = page(&client, path, protobuf::ACCEPT).await?;
    assert_eq!(events.first(), Some(&0), "{events:?}");
    let objects = events.windows(4).filter(|bytes| *bytes == b"k8s\0").count();
    assert_eq!(objects, 3, "{events:?}");
    Ok(())
}
