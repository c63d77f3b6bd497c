//! The operator's Deployment, which names its account and its variables.

use crate::command::leader;
use crate::command::reach::Reach;
use crate::kube::trouble::Trouble;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use kube::Api;

/// The Deployment of `k8s/`.
pub(super) const NAME: &str = "flipop";

/// Its pod template.
pub(super) async fn pod(reach: &Reach) -> Result<PodSpec, Trouble> {
    let api: Api<Deployment> = Api::namespaced(reach.client.clone(), &reach.operator);
    let deployment = api.get(NAME).await.map_err(Trouble::from)?;
    Ok(deployment.spec.template.spec.unwrap_or_default())
}

/// Why it cannot be read.
pub(super) fn why(reach: &Reach, trouble: &Trouble) -> String {
    leader::missing_right(trouble, "get", "deployments", Some(&reach.operator))
}
