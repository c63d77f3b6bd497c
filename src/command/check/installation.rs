//! The operator itself: its Lease, a second installation, replicas of different versions.

use super::Finding;
use super::rights::Account;
use crate::command::leader;
use crate::command::session::Session;
use crate::kube::trouble::TroubleKind;
use crate::leader::LEASE_NAME;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use std::collections::{BTreeMap, BTreeSet};

/// The registry of the image in the manifests. No such registry exists.
const PLACEHOLDER: &str = "registry.invalid/";

/// All findings about the operator's own objects.
pub(super) async fn check(session: &Session, account: &Account) -> Vec<Finding> {
    let mut findings = placeholders(session, account);
    findings.push(lease(session).await);
    findings.push(second(session).await);
    findings.push(replicas(session).await);
    findings
}

/// Images that the manifests leave to the user.
fn placeholders(session: &Session, account: &Account) -> Vec<Finding> {
    let containers = account.installed.pod.containers.iter();
    let images = containers.filter_map(|container| Some((&container.name, container.image.as_deref()?)));
    let placeholders = images.filter(|(_, image)| image.starts_with(PLACEHOLDER));
    let finding = |(container, image): (&String, &str)| {
        let (namespace, deployment) = (&session.operator, account.installed.name());
        Finding::bad(
            format!("the image {image} of the Deployment is a placeholder: no registry has it"),
            format!("kubectl set image deployment/{deployment} {container}=<your image> -n {namespace}"),
        )
    };
    placeholders.map(finding).collect()
}

async fn lease(session: &Session) -> Finding {
    let namespace = &session.operator;
    match leader::find(session).await {
        Ok(leader) if leader.holder.is_empty() => {
            Finding::bad("no replica holds the Lease", "check the operator's pods and their logs")
        }
        Ok(leader) if leader.expired => Finding::bad(
            format!("the Lease of {} has expired", leader.holder),
            "check the operator's pods and their logs",
        ),
        Ok(leader) => Finding::good(format!("{} leads", leader.pod)),
        Err(trouble) if trouble.kind == TroubleKind::NotFound => Finding::bad(
            format!("there is no Lease {LEASE_NAME} in namespace {namespace}"),
            "start the operator, or name its namespace with --operator-namespace",
        ),
        Err(trouble) => Finding::unknown("the Lease cannot be read", trouble, "get leases", Some(namespace)),
    }
}

/// Finds a second operator. Two operators with a Lease each would both act.
async fn second(session: &Session) -> Finding {
    let api: Api<Lease> = Api::all(session.client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE_NAME}"));
    match api.list_metadata(&named).await {
        Ok(leases) => {
            let places: BTreeSet<String> =
                leases.items.into_iter().filter_map(|lease| lease.metadata.namespace).collect();
            let others: Vec<&str> =
                places.iter().map(String::as_str).filter(|place| *place != session.operator).collect();
            if others.is_empty() {
                return Finding::good("there is no second installation");
            }
            Finding::bad(
                format!("there is a Lease of a second installation in namespace {}", others.join(", ")),
                "remove that installation, or delete its Lease if it is gone: two of them move the same addresses",
            )
        }
        Err(error) => {
            Finding::unknown("a second installation cannot be ruled out", error, "list leases", None)
        }
    }
}

async fn replicas(session: &Session) -> Finding {
    let namespace = &session.operator;
    let api: Api<Pod> = Api::namespaced(session.client.clone(), namespace);
    let pods = match api.list(&ListParams::default().labels(leader::LABEL)).await {
        Ok(pods) => pods.items,
        Err(error) => {
            return Finding::unknown("the replicas cannot be listed", error, "list pods", Some(namespace));
        }
    };
    let images: BTreeMap<String, String> = pods.iter().map(image).collect();
    let named: Vec<&str> = images.values().map(String::as_str).collect();
    match (pods.len(), images.len()) {
        (0, _) => Finding::doubtful(
            format!("no pod in namespace {namespace} has the label app=flipop"),
            "name the operator's namespace with --operator-namespace",
        ),
        (1, _) => Finding::doubtful("there is one replica", "run two, so that one takes over in seconds"),
        (many, 1) => Finding::good(format!("{many} replicas run {}", named.join(", "))),
        (_, _) => Finding::doubtful(
            format!("the replicas run different images: {}", named.join(", ")),
            "wait for the end of the rollout, or check the Deployment",
        ),
    }
}

/// The image of a pod: its digest, if the kubelet reported one, and its name. A tag may have moved.
fn image(pod: &Pod) -> (String, String) {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let digest = statuses.map(|status| status.image_id.clone()).find(|digest| !digest.is_empty());
    let named = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone()).unwrap_or_default();
    (digest.unwrap_or_else(|| named.clone()), named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_tag_can_stand_for_two_versions() {
        let pod = |image: &str, digest: &str| -> Pod {
            let status = json!({"name": "flipop", "image": image, "imageID": digest, "ready": true, "restartCount": 0});
            serde_json::from_value(json!({
                "metadata": {"name": "p"}, "spec": {"containers": [{"name": "flipop", "image": image}]},
                "status": {"containerStatuses": [status]},
            }))
            .unwrap()
        };
        let versions = |pods: &[Pod]| pods.iter().map(image).collect::<BTreeMap<_, _>>().len();
        assert_eq!(versions(&[pod("r/flipop:1", "sha256:a"), pod("r/flipop:1", "sha256:a")]), 1);
        assert_eq!(versions(&[pod("r/flipop:1", "sha256:a"), pod("r/flipop:1", "sha256:b")]), 2);
        assert_eq!(versions(&[pod("r/flipop:1", ""), pod("r/flipop:2", "")]), 2);
    }
}
